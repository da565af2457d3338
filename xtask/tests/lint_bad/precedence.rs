impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.o.next = self.a.val() & self.b.val() == self.c.val(); //~ precedence differs
    }
}
