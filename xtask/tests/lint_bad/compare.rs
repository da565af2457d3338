impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.o.next = self.a.val() + 1 > self.b.val(); //~ the literal widens the sum
        self.p.next = (self.a.val() - self.b.val()) < bits::<8>(128); //~ and so does a cast literal
    }
}
