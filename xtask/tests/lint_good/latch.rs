impl Logic for Block {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, r);
        self.o.next = 0.into();
        self.t.next = self.x.val();
        if self.a.val() {
            self.o.next = 1.into();
            self.r.d.next = 1.into();
            self.t.next.f = true;
            self.p.next = true;
        } else {
            self.p.next = false;
        }
        match self.s.q.val() {
            St::Idle => {
                self.q.next = 0.into();
            }
            St::Run => {
                self.q.next = 1.into();
            }
        }
        for i in 0..4 {
            self.v[i].next = false;
            if self.a.val() {
                self.v[i].next = true;
            }
        }
    }
}
