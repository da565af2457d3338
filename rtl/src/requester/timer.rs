//! Timers of all QPs: one deadline each.

use crate::packed_struct;
use crate::prims::SdpRam;
use rust_hdl::prelude::*;

packed_struct! {
    /// A deadline in units of 1.024 us of card time (`now >> 10`).
    pub struct Deadline { pub on: bool, pub at: Bits<38> }
}

/// Finds expired deadlines by looking at one QP per cycle, when one may have passed.
///
/// * `we, qp, on, at`: set (or clear) a QP's deadline; every write of the requester context repeats it here.
/// * `m`: a QP whose deadline has passed. It may have been changed since: the receiver compares again. A deadline is found at most `2^LOG_QP` + 4
///   cycles late, as long as writes leave every second cycle free.
/// * After a full round the scan rests until the earliest deadline (`due`, in ns) passes. A write is compared with it and costs no new round: a
///   deadline that was moved away or cleared only ends the rest early, once. While it rests `due_valid` is high; `due` is all ones when no timer runs.
/// * Deadlines may be up to 2^37 units ahead (39 h); comparisons are modulo 2^38.
#[derive(LogicBlock, Default)]
pub struct Timer<const LOG_QP: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub now: Signal<In, Bits<38>>,
    pub we: Signal<In, bool>,
    pub qp: Signal<In, Bits<LOG_QP>>,
    pub on: Signal<In, bool>,
    pub at: Signal<In, Bits<38>>,
    pub m_valid: Signal<Out, bool>,
    pub m_qp: Signal<Out, Bits<12>>,
    pub m_ready: Signal<In, bool>,
    pub due: Signal<Out, Bits<48>>,
    pub due_valid: Signal<Out, bool>,
    ram: SdpRam<Deadline, LOG_QP>,
    p: DFF<Bits<LOG_QP>>,
    p1: DFF<Bits<LOG_QP>>,
    v1: DFF<bool>,
    cnt: DFF<Bits<LOG_QP>>,
    any: DFF<bool>,
    min: DFF<Bits<38>>,
    rest: DFF<bool>,
    mv: DFF<bool>,
    mq: DFF<Bits<12>>,
    wv: DFF<bool>,
    wat: DFF<Bits<38>>,
    cand_v: Signal<Local, bool>,
    cand: Signal<Local, Bits<38>>,
    w: Signal<Local, Deadline>,
    r: Signal<Local, Deadline>,
    late: Signal<Local, Bits<38>>,
    less: Signal<Local, Bits<38>>,
    over: Signal<Local, Bits<38>>,
}

impl<const LOG_QP: usize> Logic for Timer<LOG_QP> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, p, p1, v1, cnt, any, min, rest, mv, mq, wv, wat);
        clock!(self, clock, ram);
        self.w.next.on = self.on.val();
        self.w.next.at = self.at.val();
        self.ram.we.next = self.we.val();
        self.ram.waddr.next = self.qp.val();
        self.ram.wdata.next = self.w.val();
        self.ram.raddr.next = self.p.q.val();
        self.r.next = self.ram.rdata.val();
        self.late.next = self.now.val() - self.r.val().at;
        // a write drops what was read, so that the two never compare at once
        self.cand.next = self.r.val().at;
        self.cand_v.next = self.v1.q.val() & self.r.val().on;
        if self.wv.q.val() {
            self.cand.next = self.wat.q.val();
            self.cand_v.next = true;
        }
        self.less.next = self.cand.val() - self.min.q.val();
        self.over.next = self.now.val() - self.min.q.val();
        if self.m_ready.val() {
            self.mv.d.next = false;
        }
        self.v1.d.next = false;
        if !self.rest.q.val() {
            self.p1.d.next = self.p.q.val();
            self.p.d.next = self.p.q.val() + 1;
            self.v1.d.next = true;
            if self.v1.q.val() {
                self.cnt.d.next = self.cnt.q.val() + 1;
                self.rest.d.next = self.cnt.q.val().all();
                if (self.r.val().on & !self.late.val().get_bit(37)) & !self.mv.q.val() {
                    self.mv.d.next = true;
                    self.mq.d.next = bit_cast::<12, LOG_QP>(self.p1.q.val());
                }
            }
        } else if self.any.q.val() & !self.over.val().get_bit(37) {
            self.rest.d.next = false;
            self.any.d.next = false;
            self.cnt.d.next = 0.into();
        }
        if self.cand_v.val() & (!self.any.q.val() | self.less.val().get_bit(37)) {
            self.any.d.next = true;
            self.min.d.next = self.cand.val();
        }
        self.wv.d.next = self.we.val() & self.on.val();
        self.wat.d.next = self.at.val();
        if self.we.val() {
            // what is read in this cycle may be the old entry: read it again
            self.v1.d.next = false;
            self.p.d.next = self.p.q.val();
        }
        self.m_valid.next = self.mv.q.val();
        self.m_qp.next = self.mq.q.val();
        self.due_valid.next =
            (self.rest.q.val() & !self.mv.q.val()) & !(self.we.val() | self.wv.q.val());
        self.due.next = bit_cast::<48, 38>(self.min.q.val()) << 10;
        if !self.any.q.val() {
            self.due.next = bits::<48>(0xFFFF_FFFF_FFFF_u64);
        }
        if self.rst.val() {
            self.v1.d.next = false;
            self.cnt.d.next = 0.into();
            self.any.d.next = false;
            self.rest.d.next = false;
            self.mv.d.next = false;
            self.wv.d.next = false;
        }
    }
}
