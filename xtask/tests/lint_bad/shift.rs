impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.o.next = ((self.a.val() + 1) >> 1) | 1; //~ the carry comes back
    }
}
