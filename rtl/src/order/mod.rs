//! What the responder says waits for what it has done: ACKs and READ jobs behind the payload that was received before them.

use crate::packed_struct;
use crate::prims::{Fifo, SdpRam2R};
use crate::types::{AckReq, PlJob, ReadJob};
use rust_hdl::prelude::*;

packed_struct! {
    /// Something that waits: a READ job, or an acknowledgement in its fields `qp`, `psn` and (AETH) `rkey`.
    pub struct Held {
        /// Jobs of the responder that must be done.
        pub seq: Bits<8>,
        pub read: bool,
        pub job: ReadJob,
    }
}

/// Holds acknowledgement wishes and READ jobs until the host port has taken all payload and completions of the packets up to them, so that an
/// acknowledged WRITE is in host memory for whoever is told of it, and a READ sees the WRITEs before it (its reads are issued behind their writes).
///
/// * `LOG_QP`: log2 of QPs.
/// * `pl_*`: the responder's placement jobs, watched; each packet has one job with `free`. `done`: the placement has done one of these (in order).
/// * In `ack` (II 1), `rj` (II 2), `ack` first. Out `acks`, `rd`: in the order of their coming, one FIFO of 32 for both.
/// * A wish waits for its own packet too, a READ job (and syndrome 0xFF, which takes a wish back) only for those before it. Packets that come while it is in the responder's output register
///   may be waited for as well.
/// * `lvl_rdata` (data one cycle after `lvl_raddr`): the level that the READ responder shows (`ring_lvl`, same latency and address) and the jobs
///   held here. A job counts from two cycles after its transfer.
/// * Latency 3 cycles when there is nothing to wait for, initiation interval of what leaves 2. At most 127 jobs may be between `pl` and `done`.
#[derive(LogicBlock, Default)]
pub struct Order<const LOG_QP: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub pl_valid: Signal<In, bool>,
    pub pl_data: Signal<In, PlJob>,
    pub pl_ready: Signal<In, bool>,
    pub done: Signal<In, bool>,
    pub ack_valid: Signal<In, bool>,
    pub ack_data: Signal<In, AckReq>,
    pub ack_ready: Signal<Out, bool>,
    pub rj_valid: Signal<In, bool>,
    pub rj_data: Signal<In, ReadJob>,
    pub rj_ready: Signal<Out, bool>,
    pub acks_valid: Signal<Out, bool>,
    pub acks_data: Signal<Out, AckReq>,
    pub acks_ready: Signal<In, bool>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, ReadJob>,
    pub rd_ready: Signal<In, bool>,
    pub lvl_raddr: Signal<In, Bits<12>>,
    pub lvl_rdata: Signal<Out, Bits<5>>,
    pub ring_lvl: Signal<In, Bits<5>>,
    pub idle: Signal<Out, bool>,
    q: Fifo<Held, 5>,
    /// What is free to go: its own register, so that nothing of the receivers reaches back into the FIFO.
    o: DFF<Held>,
    o_v: DFF<bool>,
    /// READ jobs that came, and that went on, per QP.
    came: SdpRam2R<Bits<5>, LOG_QP>,
    went: SdpRam2R<Bits<5>, LOG_QP>,
    put: DFF<Bits<8>>,
    got: DFF<Bits<8>>,
    in_v: DFF<bool>,
    in_qp: DFF<Bits<12>>,
    out_v: DFF<bool>,
    out_qp: DFF<Bits<12>>,
    j: Signal<Local, PlJob>,
    pend: Signal<Local, Bits<8>>,
    seen: Signal<Local, Bits<8>>,
    prior: Signal<Local, Bits<8>>,
    a: Signal<Local, AckReq>,
    aeth: Signal<Local, Bits<32>>,
    r: Signal<Local, ReadJob>,
    w: Signal<Local, Held>,
    h: Signal<Local, Held>,
    hj: Signal<Local, ReadJob>,
    ack: Signal<Local, AckReq>,
    ahead: Signal<Local, Bits<8>>,
    free: Signal<Local, bool>,
    held: Signal<Local, Bits<5>>,
    one: Signal<Local, bool>,
    take: Signal<Local, bool>,
    give: Signal<Local, bool>,
    rqp: Signal<Local, Bits<12>>,
    oqp: Signal<Local, Bits<12>>,
}

impl<const LOG_QP: usize> Logic for Order<LOG_QP> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, put, got, in_v, in_qp, out_v, out_qp, o, o_v);
        clock!(self, clock, q, came, went);
        self.q.rst.next = self.rst.val();
        self.j.next = self.pl_data.val();
        self.a.next = self.ack_data.val();
        self.aeth.next = self.a.val().aeth;
        self.r.next = self.rj_data.val();

        // packets so far; the last job of the newest may wait in the responder's register
        self.one.next = self.pl_valid.val() & self.j.val().free;
        self.pend.next = 0.into();
        if self.one.val() {
            self.pend.next = 1.into();
        }
        self.seen.next = self.put.q.val() + self.pend.val();
        self.prior.next = self.seen.val() - 1;
        if self.one.val() & self.pl_ready.val() {
            self.put.d.next = self.seen.val();
        }
        if self.done.val() {
            self.got.d.next = self.got.q.val() + 1;
        }

        // in
        self.w.next.seq = self.seen.val();
        self.w.next.read = false;
        self.w.next.job = self.r.val();
        self.hj.next = self.r.val();
        if self.ack_valid.val() {
            self.hj.next.qp = self.a.val().qp;
            self.hj.next.psn = self.a.val().psn;
            self.hj.next.rkey = self.a.val().aeth;
            self.w.next.job = self.hj.val();
            if self.aeth.val().get_bits::<8>(24) == 255 {
                // a wish is taken back: nothing is said, only the order counts
                self.w.next.seq = self.prior.val();
            }
        } else {
            self.w.next.seq = self.prior.val();
            self.w.next.read = true;
        }
        self.q.s_data.next = self.w.val();
        self.take.next = (self.rj_valid.val() & !self.ack_valid.val()) & !self.in_v.q.val();
        self.q.s_valid.next = self.ack_valid.val() | self.take.val();
        self.ack_ready.next = self.q.s_ready.val();
        self.rj_ready.next = self.q.s_ready.val() & (!self.ack_valid.val() & !self.in_v.q.val());

        // out
        self.h.next = self.q.m_data.val();
        self.ahead.next = self.got.q.val() - self.h.val().seq;
        self.free.next = (self.q.m_valid.val() & !self.ahead.val().get_bit(7)) & !self.o_v.q.val();
        self.q.m_ready.next = self.free.val();
        self.h.next = self.o.q.val();
        self.hj.next = self.h.val().job;
        self.ack.next.qp = self.hj.val().qp;
        self.ack.next.psn = self.hj.val().psn;
        self.ack.next.aeth = self.hj.val().rkey;
        self.acks_data.next = self.ack.val();
        self.rd_data.next = self.hj.val();
        self.acks_valid.next = self.o_v.q.val() & !self.h.val().read;
        self.give.next = (self.o_v.q.val() & self.h.val().read) & !self.out_v.q.val();
        self.rd_valid.next = self.give.val();
        if self.h.val().read {
            if self.give.val() & self.rd_ready.val() {
                self.o_v.d.next = false;
            }
        } else if self.acks_ready.val() {
            self.o_v.d.next = false;
        }
        if self.free.val() {
            self.o.d.next = self.q.m_data.val();
            self.o_v.d.next = true;
        }

        // READ jobs held, per QP
        self.in_v.d.next = self.take.val() & self.q.s_ready.val();
        self.rqp.next = self.r.val().qp;
        self.oqp.next = self.hj.val().qp;
        self.in_qp.d.next = self.rqp.val();
        self.out_v.d.next = self.give.val() & self.rd_ready.val();
        self.out_qp.d.next = self.oqp.val();
        self.came.raddr0.next = self.rqp.val().get_bits::<LOG_QP>(0);
        self.came.raddr1.next = self.lvl_raddr.val().get_bits::<LOG_QP>(0);
        self.came.waddr.next = self.in_qp.q.val().get_bits::<LOG_QP>(0);
        self.came.wdata.next = self.came.rdata0.val() + 1;
        self.came.we.next = self.in_v.q.val();
        self.went.raddr0.next = self.oqp.val().get_bits::<LOG_QP>(0);
        self.went.raddr1.next = self.lvl_raddr.val().get_bits::<LOG_QP>(0);
        self.went.waddr.next = self.out_qp.q.val().get_bits::<LOG_QP>(0);
        self.went.wdata.next = self.went.rdata0.val() + 1;
        self.went.we.next = self.out_v.q.val();
        self.held.next = self.came.rdata1.val() - self.went.rdata1.val();
        self.lvl_rdata.next = self.ring_lvl.val() + self.held.val();

        self.idle.next = ((!self.q.m_valid.val() & !self.o_v.q.val()) & !self.in_v.q.val())
            & !self.out_v.q.val();
        if self.rst.val() {
            self.put.d.next = 0.into();
            self.got.d.next = 0.into();
            self.in_v.d.next = false;
            self.out_v.d.next = false;
            self.o_v.d.next = false;
        }
    }
}
