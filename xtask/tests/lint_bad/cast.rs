impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.o.next = bit_cast::<9, 8>(self.a.val() + self.b.val()); //~ keeps the carry
        self.p.next = (self.a.val() + 1).any(); //~ sees the carry
    }
}
