impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.o.next = bit_cast::<16, 8>(!self.a.val()); //~ sets the upper byte
        self.p.next = !self.a.val() == 15; //~ the literal is 32 bits wide
    }
}
