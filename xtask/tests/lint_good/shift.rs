impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.s.next = self.a.val() + 1;
        self.o.next = (self.s.val() >> 1) | 1;
    }
}
