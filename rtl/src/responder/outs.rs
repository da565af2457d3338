//! Output registers of the responder.

use super::ctx::RspCtx;
use super::decode::OpFlags;
use crate::layouts::QpCfg;
use crate::prims::Fifo;
use crate::types::{AckReq, PlJob, QpErr, QpIdx, ReadJob, RxPkt};
use rust_hdl::prelude::*;

/// A register for each output stream, and a FIFO for errors.
///
/// The words are made from the packet `p` and the context `c` of `qp`; `pl` brings what differs between jobs.
/// `x_go` puts a word in; only when `x_free` is up (free, or emptied in this cycle). `rj_busy`, `rf_busy`: still waiting.
/// Errors: one per QP until its RESET, so the FIFO is never full, and an order of the sequencer is never stuck behind an error for it.
#[derive(LogicBlock)]
pub struct Outs<const LOG_QP: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub qp: Signal<In, Bits<12>>,
    pub p: Signal<In, RxPkt>,
    pub c: Signal<In, RspCtx>,
    pub cfg: Signal<In, QpCfg>,
    /// ACK wish.
    pub psn: Signal<In, Bits<24>>,
    pub syn: Signal<In, Bits<8>>,
    /// Error.
    pub kind: Signal<In, Bits<3>>,
    pub pl_go: Signal<In, bool>,
    pub pl: Signal<In, PlJob>,
    pub pl_free: Signal<Out, bool>,
    pub ak_go: Signal<In, bool>,
    pub ak_free: Signal<Out, bool>,
    pub rj_go: Signal<In, bool>,
    /// READ job: what the opcode is; a duplicate.
    pub o: Signal<In, OpFlags>,
    pub dup: Signal<In, bool>,
    pub rj_busy: Signal<Out, bool>,
    pub rf_go: Signal<In, bool>,
    /// Ring whose units below the index are free.
    pub fq: Signal<In, Bits<12>>,
    pub fi: Signal<In, Bits<16>>,
    pub rf_free: Signal<Out, bool>,
    pub rf_busy: Signal<Out, bool>,
    pub er_go: Signal<In, bool>,
    pub er_free: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    pub pl_valid: Signal<Out, bool>,
    pub pl_data: Signal<Out, PlJob>,
    pub pl_ready: Signal<In, bool>,
    pub ack_valid: Signal<Out, bool>,
    pub ack_data: Signal<Out, AckReq>,
    pub ack_ready: Signal<In, bool>,
    pub rj_valid: Signal<Out, bool>,
    pub rj_data: Signal<Out, ReadJob>,
    pub rj_ready: Signal<In, bool>,
    pub rqfree_valid: Signal<Out, bool>,
    pub rqfree_data: Signal<Out, QpIdx>,
    pub rqfree_ready: Signal<In, bool>,
    pub err_valid: Signal<Out, bool>,
    pub err_data: Signal<Out, QpErr>,
    pub err_ready: Signal<In, bool>,
    errs: Fifo<QpErr, LOG_QP>,
    j: DFF<PlJob>,
    j_v: DFF<bool>,
    a: DFF<AckReq>,
    a_v: DFF<bool>,
    r: DFF<ReadJob>,
    r_v: DFF<bool>,
    f: DFF<QpIdx>,
    f_v: DFF<bool>,
    k_log: Constant<Bits<5>>,
    pk: Signal<Local, RxPkt>,
    of: Signal<Local, OpFlags>,
    cx: Signal<Local, RspCtx>,
    cf: Signal<Local, QpCfg>,
    tag: Signal<Local, Bits<16>>,
    job: Signal<Local, PlJob>,
    ack: Signal<Local, AckReq>,
    read: Signal<Local, ReadJob>,
    free: Signal<Local, QpIdx>,
    err: Signal<Local, QpErr>,
}

crate::block_default! { Outs<LOG_QP> {
    clock, rst, qp, p, c, cfg, psn, syn, kind, pl_go, pl, pl_free, ak_go, ak_free, rj_go, o, dup, rj_busy, rf_go, fq, fi, rf_free, rf_busy, er_go, er_free,
    idle, pl_valid, pl_data, pl_ready, ack_valid, ack_data, ack_ready, rj_valid, rj_data, rj_ready, rqfree_valid, rqfree_data,
    rqfree_ready, err_valid, err_data, err_ready, errs, j, j_v, a, a_v, r, r_v, f, f_v, pk, of, cx, cf, tag, job, ack, read, free, err;
    assert LOG_QP <= 12;
    k_log: Constant::new((LOG_QP as u64).into()),
} }

impl<const LOG_QP: usize> Logic for Outs<LOG_QP> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, j, j_v, a, a_v, r, r_v, f, f_v);
        clock!(self, clock, errs);
        self.errs.rst.next = self.rst.val();
        self.pk.next = self.p.val();
        self.cx.next = self.c.val();
        self.cf.next = self.cfg.val();
        self.tag.next = self.cf.val().tag;
        self.job.next = self.pl.val();
        self.job.next.slot = self.pk.val().slot;
        if self.job.val().kind == 3 {
            // slot 1 of a fence would make it the requester's
            self.job.next.slot = 0.into();
        }
        self.job.next.stamp = self.pk.val().stamp;
        self.job.next.imm = self.pk.val().imm;
        self.job.next.cq = self.cf.val().rcq;
        self.job.next.qpn = (bit_cast::<24, 16>(self.tag.val()) << self.k_log.val())
            | bit_cast::<24, 12>(self.qp.val());
        self.job.next.is_recv = true;
        self.ack.next.qp = self.qp.val();
        self.ack.next.psn = self.psn.val();
        self.ack.next.aeth =
            (bit_cast::<32, 8>(self.syn.val()) << 24) | bit_cast::<32, 24>(self.cx.val().msn);
        self.read.next.qp = self.qp.val();
        self.read.next.psn = self.pk.val().psn;
        self.read.next.msn = self.cx.val().msn;
        self.read.next.va = self.pk.val().va;
        self.read.next.rkey = self.pk.val().rkey;
        self.read.next.len = self.pk.val().dlen;
        self.of.next = self.o.val();
        self.read.next.op = 0.into();
        if self.of.val().atomic {
            self.read.next.len = 8.into();
            self.read.next.op = 1.into();
            if self.of.val().add {
                self.read.next.op = 2.into();
            }
        }
        self.read.next.dup = self.dup.val();
        self.read.next.swap = self.pk.val().swap;
        self.read.next.cmp = self.pk.val().cmp;
        self.read.next.stamp = self.pk.val().stamp;
        self.free.next.qp = self.fq.val();
        self.free.next.idx = self.fi.val();
        self.err.next.qp = self.qp.val();
        self.err.next.kind = self.kind.val();
        if self.pl_ready.val() {
            self.j_v.d.next = false;
        }
        if self.ack_ready.val() {
            self.a_v.d.next = false;
        }
        if self.rj_ready.val() {
            self.r_v.d.next = false;
        }
        if self.rqfree_ready.val() {
            self.f_v.d.next = false;
        }
        if self.pl_go.val() {
            self.j.d.next = self.job.val();
            self.j_v.d.next = true;
        }
        if self.ak_go.val() {
            self.a.d.next = self.ack.val();
            self.a_v.d.next = true;
        }
        if self.rj_go.val() {
            self.r.d.next = self.read.val();
            self.r_v.d.next = true;
        }
        if self.rf_go.val() {
            self.f.d.next = self.free.val();
            self.f_v.d.next = true;
        }
        self.errs.s_valid.next = self.er_go.val();
        self.errs.s_data.next = self.err.val();
        self.er_free.next = self.errs.s_ready.val();
        self.pl_free.next = !self.j_v.q.val() | self.pl_ready.val();
        self.ak_free.next = !self.a_v.q.val() | self.ack_ready.val();
        self.rf_free.next = !self.f_v.q.val() | self.rqfree_ready.val();
        self.rf_busy.next = self.f_v.q.val();
        self.rj_busy.next = self.r_v.q.val();
        self.pl_valid.next = self.j_v.q.val();
        self.pl_data.next = self.j.q.val();
        self.ack_valid.next = self.a_v.q.val();
        self.ack_data.next = self.a.q.val();
        self.rj_valid.next = self.r_v.q.val();
        self.rj_data.next = self.r.q.val();
        self.rqfree_valid.next = self.f_v.q.val();
        self.rqfree_data.next = self.f.q.val();
        self.err_valid.next = self.errs.m_valid.val();
        self.err_data.next = self.errs.m_data.val();
        self.errs.m_ready.next = self.err_ready.val();
        self.idle.next = (!self.errs.m_valid.val() & !self.j_v.q.val())
            & ((!self.a_v.q.val() & !self.r_v.q.val()) & !self.f_v.q.val());
        if self.rst.val() {
            self.j_v.d.next = false;
            self.a_v.d.next = false;
            self.r_v.d.next = false;
            self.f_v.d.next = false;
        }
    }
}
