impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        self.o.next = 0.into();
        match self.a.val().index() {
            0x1F => { //~ invalid Verilog
                self.o.next = 1.into();
            }
            _ => {}
        }
    }
}
