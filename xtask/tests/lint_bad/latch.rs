impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, r);
        if self.a.val() {
            self.o.next = 1.into(); //~ nothing when a is low
            self.r.d.next = 1.into();
        }
        match self.s.q.val() {
            St::Idle => {
                self.p.next = 0.into(); //~ not in Run
            }
            St::Run => {}
        }
        for i in 0..4 {
            if self.a.val() {
                self.v[i].next = true; //~ an array
            }
        }
        if self.a.val() {
            self.t.next.f = true; //~ a field
        }
    }
}
