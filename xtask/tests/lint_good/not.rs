impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.n.next = !self.a.val();
        self.o.next = bit_cast::<16, 8>(self.n.val());
        self.p.next = self.n.val() == 15;
    }
}
