impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.sum.next = self.a.val() + self.b.val();
        self.o.next = bit_cast::<9, 8>(self.sum.val());
        self.carry.next = bit_cast::<9, 8>(self.a.val()) + bit_cast::<9, 8>(self.b.val());
        self.low.next = bit_cast::<4, 8>(self.a.val() + self.b.val());
    }
}
