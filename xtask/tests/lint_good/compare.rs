impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.d.next = self.a.val() - self.b.val();
        self.o.next = self.d.val().get_bit(23);
        self.p.next = self.d.val() > self.k.val();
        self.q.next = self.a.val() == 5;
    }
}
