impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.o.next = 0.into();
        match self.a.val().index() {
            1 => {
                if self.b.val() {
                    self.o.next = 1.into();
                }
            }
            _ => {}
        }
    }
}
