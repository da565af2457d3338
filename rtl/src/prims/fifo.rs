//! Synchronous FIFO.

use super::ram::SdpRam;
use rust_hdl::prelude::*;

/// `2^A` entries of `D` (`A <= 15`), valid/ready on both sides, first word falls through.
///
/// * `s_ready` ("not full") and `m_valid` ("not empty") are registers; `m_data` is one multiplexer behind the
///   RAM output register.
/// * Latency 1 (a word pushed in cycle t can be popped in t+1), initiation interval 1, also when it runs empty or full.
/// * `level` counts the words held. `rst` empties it (synchronous).
///
/// The storage is an [`SdpRam`]: the word that will be at the head in the next cycle is read ahead, and a word written into that very slot in the
/// same cycle is forwarded: what the RAM gives then is not looked at.
#[derive(LogicBlock)]
pub struct Fifo<D: Synth, const A: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub s_data: Signal<In, D>,
    pub s_valid: Signal<In, bool>,
    pub s_ready: Signal<Out, bool>,
    pub m_data: Signal<Out, D>,
    pub m_valid: Signal<Out, bool>,
    pub m_ready: Signal<In, bool>,
    pub level: Signal<Out, Bits<16>>,
    ram: SdpRam<D, A>,
    wp: DFF<Bits<A>>,
    rp: DFF<Bits<A>>,
    lvl: DFF<Bits<16>>,
    fwd: DFF<bool>,
    fwd_d: DFF<D>,
    full: DFF<bool>,
    some: DFF<bool>,
    last: Constant<Bits<16>>,
    push: Signal<Local, bool>,
    pop: Signal<Local, bool>,
    rp_n: Signal<Local, Bits<A>>,
}

impl<D: Synth, const A: usize> Default for Fifo<D, A> {
    fn default() -> Self {
        assert!(A >= 1 && A <= 15, "Fifo depth 2^{A}");
        Self {
            clock: Default::default(),
            rst: Default::default(),
            s_data: Default::default(),
            s_valid: Default::default(),
            s_ready: Default::default(),
            m_data: Default::default(),
            m_valid: Default::default(),
            m_ready: Default::default(),
            level: Default::default(),
            ram: SdpRam::collision_free(),
            wp: Default::default(),
            rp: Default::default(),
            lvl: Default::default(),
            fwd: Default::default(),
            fwd_d: Default::default(),
            full: Default::default(),
            some: Default::default(),
            last: Constant::new(((1u64 << A) - 1).into()),
            push: Default::default(),
            pop: Default::default(),
            rp_n: Default::default(),
        }
    }
}

impl<D: Synth, const A: usize> Logic for Fifo<D, A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, wp, rp, lvl, full, some, fwd, fwd_d);
        clock!(self, clock, ram);
        self.push.next = self.s_valid.val() & !self.full.q.val();
        self.pop.next = self.m_ready.val() & self.some.q.val();
        self.s_ready.next = !self.full.q.val();
        self.m_valid.next = self.some.q.val();
        self.level.next = self.lvl.q.val();
        self.rp_n.next = self.rp.q.val();
        if self.pop.val() {
            self.rp_n.next = self.rp.q.val() + 1;
        }
        self.rp.d.next = self.rp_n.val();
        self.ram.raddr.next = self.rp_n.val();
        self.ram.waddr.next = self.wp.q.val();
        self.ram.wdata.next = self.s_data.val();
        self.ram.we.next = self.push.val();
        if self.push.val() {
            self.wp.d.next = self.wp.q.val() + 1;
            self.fwd_d.d.next = self.s_data.val();
        }
        self.fwd.d.next = self.push.val() & (self.wp.q.val() == self.rp_n.val());
        if self.push.val() & !self.pop.val() {
            self.lvl.d.next = self.lvl.q.val() + 1;
            self.some.d.next = true;
            self.full.d.next = self.lvl.q.val() == self.last.val();
        }
        if self.pop.val() & !self.push.val() {
            self.lvl.d.next = self.lvl.q.val() - 1;
            self.full.d.next = false;
            self.some.d.next = self.lvl.q.val() != 1;
        }
        self.m_data.next = self.ram.rdata.val();
        if self.fwd.q.val() {
            self.m_data.next = self.fwd_d.q.val();
        }
        if self.rst.val() {
            self.wp.d.next = 0.into();
            self.rp.d.next = 0.into();
            self.lvl.d.next = 0.into();
            self.full.d.next = false;
            self.some.d.next = false;
            self.fwd.d.next = false;
        }
    }
}
