//! The RSP part of a QP: order of requests, all checks, effects.

pub mod decode;
pub mod defaults;
pub mod mr_gate;

use crate::layouts::{Av, MrCheck, QpCfg, Rq};
use crate::packed_struct;
use crate::prims::{Fifo, SdpRam};
use crate::types::{AckReq, PlJob, QpCtl, QpErr, QpIdx, ReadJob, RxPkt};
use decode::{Decode, OpFlags};
use mr_gate::MrGate;
use rust_hdl::prelude::*;

packed_struct! {
    /// State of a QP as responder (33 B), written only here.
    pub struct RspCtx {
        /// START has been given.
        pub live: bool,
        /// A fatal NAK was sent or the QP was flushed: every packet is dropped until RESET.
        pub err: bool,
        /// A sequence or RNR NAK is out: no other until the expected packet is accepted.
        pub nak: bool,
        /// Duplicate READs may be in the ring of the READ responder.
        pub dup: bool,
        /// Message at hand: 0 none, 1 SEND (holds the receive WQE `ci`), 2 WRITE.
        pub exp: Bits<2>,
        /// SEND: SGE in use, and the offset in it.
        pub sge: Bits<2>,
        pub off: Bits<32>,
        pub epsn: Bits<24>,
        pub msn: Bits<24>,
        /// Receive WQEs consumed.
        pub ci: Bits<16>,
        /// WRITE: next address, bytes still to come, rkey.
        pub va: Bits<64>,
        pub rem: Bits<32>,
        pub rkey: Bits<32>,
        /// SEND: bytes so far; WRITE: DMALen.
        pub len: Bits<32>,
    }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum RspState {
    Idle,
    Fetch,
    Look,
    Sub,
    Cmp,
    Put,
    Cqe,
    Fatal,
    Free,
    Fin,
    Ctl,
    Note,
    Flush,
}

/// Handles request packets and CNPs one by one; nothing is written to memory or to the QP before all checks of the packet have passed.
///
/// * `LOG_QP`, `LOG_MR`: log2 of the tables; `LOG_RQ`: log2 of receive WQE slots per QP.
/// * In `rx`. A packet that needs a receive WQE which is posted but not on the card yet waits here (`ctl` is still served; the packet is then looked
///   at again from the start).
/// * Order of checks: QPN, type RC, state RTR/RTS/SQD, source IP; PSN; opcode sequence and payload length; receive WQE present (else RNR NAK); class
///   right of the QP, DMALen; key, PD, right and bounds of the MR. Only the last packet of a message may have less than the MTU. The MR is
///   checked again for every packet of a WRITE, for what is left of the message.
/// * NAK 0x60 once per gap. 0x61: opcode sequence, unsupported opcode (atomics, SEND with invalidate), length, class right, too many READs. 0x62: MR
///   check. 0x63: SGE check (its whole range must lie in its MR). The last three put the QP into error (`err`), with a CQE for a held receive WQE.
/// * READ: goes to the READ responder when its ring (port `lvl`) has room, else it is dropped without effect. More jobs in the ring than
///   `max_dest_rd` is an error of the requester, unless duplicates are among them. Duplicate READs are executed again if they lie before ePSN and
///   pass all checks, else they are dropped.
/// * Each packet gives `pl` jobs, the last with `free`. `ack` wishes carry syndrome 0xFF for "take the wish back" at RESET.
/// * `ctl`: RESET, START (sets ePSN), FLUSH (posted receives complete with WR_FLUSH, packets go on between them), FENCE, QUERY. `notify` of a QP in ERR
///   flushes what was posted since. Flushed WQEs are not reported on `rqfree`.
/// * II with all outputs ready: WRITE 7 (with immediate 8), SEND with one SGE 7, with a CQE 8, + 4 for each further SGE; READ 8; dropped 6.
/// * Ports `cfg`, `av`, `mrc`, `idx`, `slot`, `lvl`: data one cycle after the address.
#[derive(LogicBlock)]
pub struct Responder<const LOG_QP: usize, const LOG_MR: usize, const LOG_RQ: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub rx_valid: Signal<In, bool>,
    pub rx_data: Signal<In, RxPkt>,
    pub rx_ready: Signal<Out, bool>,
    pub ctl_valid: Signal<In, bool>,
    pub ctl_data: Signal<In, QpCtl>,
    pub ctl_ready: Signal<Out, bool>,
    pub ctl_psn: Signal<Out, Bits<24>>,
    pub notify_valid: Signal<In, bool>,
    pub notify_data: Signal<In, QpIdx>,
    pub notify_ready: Signal<Out, bool>,
    pub cfg_raddr: Signal<Out, Bits<12>>,
    pub cfg_rdata: Signal<In, QpCfg>,
    pub av_raddr: Signal<Out, Bits<12>>,
    pub av_rdata: Signal<In, Av>,
    pub mrc_raddr: Signal<Out, Bits<16>>,
    pub mrc_rdata: Signal<In, MrCheck>,
    pub slot_raddr: Signal<Out, Bits<16>>,
    pub slot_rdata: Signal<In, Bits<512>>,
    pub idx_raddr: Signal<Out, Bits<12>>,
    pub pi_rdata: Signal<In, Bits<16>>,
    pub avail_rdata: Signal<In, Bits<16>>,
    pub lvl_raddr: Signal<Out, Bits<12>>,
    pub lvl_rdata: Signal<In, Bits<5>>,
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
    pub ev_drop_qp: Signal<Out, bool>,
    pub ev_duplicate: Signal<Out, bool>,
    pub ev_sequence: Signal<Out, bool>,
    pub ev_cnp: Signal<Out, bool>,
    pub ev_ecn: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    ctx: SdpRam<RspCtx, LOG_QP>,
    /// One error per QP until its RESET: never full, so that an order of the sequencer is never stuck behind an error for it.
    errs: Fifo<QpErr, LOG_QP>,
    state: DFF<RspState>,
    qp: DFF<Bits<12>>,
    p: DFF<RxPkt>,
    held: DFF<bool>,
    turn: DFF<bool>,
    c: DFF<RspCtx>,
    o_r: DFF<OpFlags>,
    dec: Decode,
    gate: MrGate<LOG_MR>,
    // checks
    q_tag: DFF<bool>,
    q_st: DFF<bool>,
    ip_lo: DFF<bool>,
    ip_hi: DFF<bool>,
    basic: DFF<bool>,
    psn_d: DFF<Bits<24>>,
    eq: DFF<bool>,
    mtu_b: DFF<Bits<13>>,
    seq_ok: DFF<bool>,
    len_ok: DFF<bool>,
    rq_empty: DFF<bool>,
    rq_wait: DFF<bool>,
    lvl_full: DFF<bool>,
    lvl_max: DFF<bool>,
    lvl_some: DFF<bool>,
    // access at hand: SGE, or what is left of the WRITE or READ
    xkey: DFF<Bits<32>>,
    xva: DFF<Bits<64>>,
    xlen: DFF<Bits<32>>,
    sge_left: DFF<Bits<32>>,
    jva: DFF<Bits<64>>,
    rdiff: DFF<Bits<33>>,
    tot_bad: DFF<bool>,
    rsum: DFF<Bits<33>>,
    npk: DFF<Bits<24>>,
    more: DFF<bool>,
    n: DFF<Bits<13>>,
    // cursor of this packet
    sg: DFF<Bits<2>>,
    so: DFF<Bits<32>>,
    ml: DFF<Bits<32>>,
    mlen: DFF<Bits<32>>,
    left: DFF<Bits<13>>,
    src: DFF<Bits<20>>,
    hold: DFF<bool>,
    // what Fin has to do
    f_ctx: DFF<bool>,
    f_ack: DFF<bool>,
    f_psn: DFF<Bits<24>>,
    f_syn: DFF<Bits<8>>,
    f_free: DFF<bool>,
    f_rj: DFF<bool>,
    f_err: DFF<bool>,
    e_kind: DFF<Bits<3>>,
    e_sts: DFF<Bits<8>>,
    // flush
    fl_on: DFF<bool>,
    fl_ctl: DFF<bool>,
    fl_qp: DFF<Bits<12>>,
    fl_end: DFF<Bits<16>>,
    // output registers
    pl: DFF<PlJob>,
    pl_v: DFF<bool>,
    ak: DFF<AckReq>,
    ak_v: DFF<bool>,
    rj: DFF<ReadJob>,
    rj_v: DFF<bool>,
    rf: DFF<QpIdx>,
    rf_v: DFF<bool>,
    k_log: Constant<Bits<5>>,
    k_rq: Constant<Bits<5>>,
    k_slot: Constant<Bits<16>>,
    k_zero: Constant<RspCtx>,
    syn: Signal<Local, Bits<8>>,
    ak_go: Signal<Local, bool>,
    rx: Signal<Local, RxPkt>,
    pq: Signal<Local, RxPkt>,
    qpn: Signal<Local, Bits<24>>,
    hi: Signal<Local, Bits<24>>,
    tag: Signal<Local, Bits<16>>,
    cfg: Signal<Local, QpCfg>,
    st: Signal<Local, Bits<3>>,
    ty: Signal<Local, Bits<2>>,
    mtu: Signal<Local, Bits<3>>,
    mtu_n: Signal<Local, Bits<13>>,
    av: Signal<Local, Av>,
    sip: Signal<Local, Bits<128>>,
    dip: Signal<Local, Bits<128>>,
    cx: Signal<Local, RspCtx>,
    cw: Signal<Local, bool>,
    cwd: Signal<Local, RspCtx>,
    op: Signal<Local, Bits<8>>,
    of: Signal<Local, OpFlags>,
    o: Signal<Local, OpFlags>,
    lvl: Signal<Local, Bits<5>>,
    plen: Signal<Local, Bits<13>>,
    sl: Signal<Local, Rq>,
    key: Signal<Local, Bits<32>>,
    mr: Signal<Local, MrCheck>,
    psn_m: Signal<Local, Bits<24>>,
    xl: Signal<Local, Bits<32>>,
    dsum: Signal<Local, Bits<25>>,
    win_ok: Signal<Local, bool>,
    need_rq: Signal<Local, bool>,
    cqe: Signal<Local, bool>,
    m_bad: Signal<Local, bool>,
    acc_bad: Signal<Local, bool>,
    big: Signal<Local, bool>,
    pl_free: Signal<Local, bool>,
    ak_free: Signal<Local, bool>,
    rf_free: Signal<Local, bool>,
    emit: Signal<Local, bool>,
    j: Signal<Local, PlJob>,
    aq: Signal<Local, AckReq>,
    rq: Signal<Local, ReadJob>,
    rfq: Signal<Local, QpIdx>,
    eq_out: Signal<Local, QpErr>,
    ct: Signal<Local, QpCtl>,
    nt: Signal<Local, QpIdx>,
    pk: Signal<Local, bool>,
    qa: Signal<Local, Bits<12>>,
    slot_a: Signal<Local, Bits<16>>,
}

crate::block_default! { Responder<LOG_QP, LOG_MR, LOG_RQ> {
    clock, rst, rx_valid, rx_data, rx_ready, ctl_valid, ctl_data, ctl_ready, ctl_psn, notify_valid, notify_data, notify_ready, cfg_raddr, cfg_rdata,
    av_raddr, av_rdata, mrc_raddr, mrc_rdata, slot_raddr, slot_rdata, idx_raddr, pi_rdata, avail_rdata, lvl_raddr, lvl_rdata, pl_valid, pl_data,
    pl_ready, ack_valid, ack_data, ack_ready, rj_valid, rj_data, rj_ready, rqfree_valid, rqfree_data, rqfree_ready, err_valid, err_data, err_ready,
    ev_drop_qp, ev_duplicate, ev_sequence, ev_cnp, ev_ecn, idle, ctx, errs, state, qp, p, held, turn, c, o_r, dec, gate,
    q_tag, q_st, ip_lo, ip_hi, basic, psn_d, eq, mtu_b, seq_ok, len_ok, rq_empty, rq_wait, lvl_full, lvl_max, lvl_some, xkey,
    xva, xlen, sge_left, jva, rdiff, tot_bad, rsum, npk, more, n, sg, so, ml, mlen, left, src, hold, f_ctx, f_ack,
    f_psn, f_syn, f_free, f_rj, f_err, e_kind, e_sts, fl_on, fl_ctl, fl_qp, fl_end, pl, pl_v, ak, ak_v, rj, rj_v, rf, rf_v, rx, pq, qpn, hi, tag, cfg,
    st, ty, mtu, mtu_n, av, sip, dip, cx, cw, cwd, op, of, o, lvl, plen, sl, key, mr, psn_m, xl, dsum, win_ok, need_rq, cqe, m_bad, acc_bad, big,
    pl_free, ak_free, rf_free, emit, j, aq, rq, rfq, eq_out, ct, nt, pk, qa, slot_a, syn, ak_go;
    assert LOG_QP <= 12 && LOG_MR <= 16 && LOG_QP + LOG_RQ <= 16;
    k_log: Constant::new((LOG_QP as u64).into()),
    k_rq: Constant::new((LOG_RQ as u64).into()),
    k_slot: Constant::new(((1u64 << LOG_RQ) - 1).into()),
    k_zero: Constant::new(RspCtx::default()),
} }

impl<const LOG_QP: usize, const LOG_MR: usize, const LOG_RQ: usize> Logic
    for Responder<LOG_QP, LOG_MR, LOG_RQ>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, qp, p, held, turn, c, o_r);
        dff_setup!(self, clock, q_tag, q_st, ip_lo, ip_hi, basic);
        dff_setup!(self, clock, psn_d, eq, mtu_b, seq_ok, len_ok, rq_empty, rq_wait, lvl_full);
        dff_setup!(self, clock, lvl_max, lvl_some, xkey, xva, xlen);
        dff_setup!(self, clock, sge_left, jva, rdiff, tot_bad, rsum, npk, more, n, sg, so, ml);
        dff_setup!(self, clock, mlen, left, src, hold, f_ctx, f_ack, f_psn, f_syn, f_free, f_rj);
        dff_setup!(self, clock, f_err, e_kind, e_sts, fl_on, fl_ctl, fl_qp, fl_end, pl, pl_v, ak);
        dff_setup!(self, clock, ak_v, rj, rj_v, rf, rf_v);
        clock!(self, clock, ctx, errs, gate);
        self.errs.rst.next = self.rst.val();
        self.rx.next = self.rx_data.val();
        self.ct.next = self.ctl_data.val();
        self.nt.next = self.notify_data.val();
        self.pq.next = self.p.q.val();
        self.cfg.next = self.cfg_rdata.val();
        self.st.next = self.cfg.val().state;
        self.ty.next = self.cfg.val().qp_type;
        self.tag.next = self.cfg.val().tag;
        self.mtu.next = self.cfg.val().mtu;
        self.av.next = self.av_rdata.val();
        self.cx.next = self.ctx.rdata.val();
        self.mr.next = self.mrc_rdata.val();
        self.sl.next = self.slot_rdata.val().into();
        self.lvl.next = self.lvl_rdata.val();
        self.plen.next = self.pq.val().len;
        self.rx_ready.next = false;
        self.ctl_ready.next = false;
        self.notify_ready.next = false;
        self.ctl_psn.next = self.cx.val().epsn;
        self.ev_drop_qp.next = false;
        self.ev_duplicate.next = false;
        self.ev_sequence.next = false;
        self.ev_cnp.next = false;
        self.ev_ecn.next = false;
        self.pl_free.next = !self.pl_v.q.val() | self.pl_ready.val();
        self.ak_free.next = !self.ak_v.q.val() | self.ack_ready.val();
        self.rf_free.next = !self.rf_v.q.val() | self.rqfree_ready.val();
        if self.pl_ready.val() {
            self.pl_v.d.next = false;
        }
        if self.ack_ready.val() {
            self.ak_v.d.next = false;
        }
        if self.rqfree_ready.val() {
            self.rf_v.d.next = false;
        }
        if self.rj_ready.val() {
            self.rj_v.d.next = false;
        }
        self.cw.next = false;
        self.cwd.next = self.c.q.val();
        self.emit.next = false;
        self.ak_go.next = false;
        self.syn.next = self.f_syn.q.val();
        self.errs.s_valid.next = false;
        self.qa.next = self.qp.q.val();
        self.pk.next = self.held.q.val() | self.rx_valid.val();

        // opcode of the packet
        self.op.next = self.pq.val().opcode;
        self.dec.op.next = self.op.val();
        self.of.next = self.dec.flags.val();
        self.o.next = self.o_r.q.val();
        match self.mtu.val().index() {
            2 => self.mtu_n.next = 512.into(),
            3 => self.mtu_n.next = 1024.into(),
            4 => self.mtu_n.next = 2048.into(),
            5 => self.mtu_n.next = 4096.into(),
            _ => self.mtu_n.next = 256.into(),
        }
        self.need_rq.next =
            (self.o.val().send & self.o.val().first) | (self.o.val().write & self.o.val().imm);
        self.cqe.next =
            (self.o.val().send & self.o.val().last) | (self.o.val().write & self.o.val().imm);

        // QPN bits above the index
        self.qpn.next = self.pq.val().qpn;
        self.hi.next = self.qpn.val() >> self.k_log.val();
        self.sip.next = self.pq.val().sip;
        self.dip.next = self.av.val().dip;
        self.psn_m.next = self.c.q.val().epsn - 1;

        // verdicts on the access (Put)
        self.xl.next = self.xlen.q.val();
        self.gate.mr.next = self.mr.val();
        self.gate.pd.next = self.cfg.val().pd;
        self.gate.key.next = self.xkey.q.val();
        self.gate.va.next = self.xva.q.val();
        self.gate.len.next = self.xl.val();
        self.gate.right.next = self.mr.val().remote_write;
        if self.o.val().send {
            self.gate.right.next = self.mr.val().local_write;
        } else if self.o.val().read {
            self.gate.right.next = self.mr.val().remote_read;
        }
        self.m_bad.next = !self.gate.ok.val();
        if self.o.val().send {
            self.m_bad.next = self.m_bad.val() & self.n.q.val().any();
        } else {
            self.m_bad.next = self.m_bad.val() & self.xl.val().any();
        }
        self.big.next = self.xl.val().get_bit(31) & self.xl.val().get_bits::<31>(0).any();
        self.acc_bad.next = false;
        if self.o.val().write {
            self.acc_bad.next = (!self.cfg.val().acc_write | self.tot_bad.q.val()) | self.big.val();
        } else if self.o.val().read {
            self.acc_bad.next = !self.cfg.val().acc_read | self.big.val();
        } else {
            // more than 2^31 bytes
            self.acc_bad.next = self.ml.q.val().get_bit(31) & self.plen.val().any();
        }
        self.dsum.next = (bit_cast::<25, 24>(self.psn_d.q.val()) | bits::<25>(0x100_0000))
            + bit_cast::<25, 24>(self.npk.q.val());
        self.win_ok.next = self.dsum.val().get_bit(24) | !self.dsum.val().any();

        // the job that is sent if a state says so
        self.j.next.kind = 0.into();
        self.j.next.free = true;
        self.j.next.slot = self.pq.val().slot;
        self.key.next = self.xkey.q.val();
        self.j.next.mr = self.key.val().get_bits::<16>(8);
        self.j.next.va = self.jva.q.val();
        self.j.next.len = self.n.q.val();
        self.j.next.src = self.src.q.val();
        self.j.next.stamp = self.pq.val().stamp;
        self.j.next.cq = self.cfg.val().rcq;
        self.j.next.qpn = (bit_cast::<24, 16>(self.tag.val()) << self.k_log.val())
            | bit_cast::<24, 12>(self.qp.q.val());
        self.j.next.opcode = 0.into();
        self.j.next.index = self.c.q.val().ci;
        self.j.next.status = 0.into();
        self.j.next.is_recv = true;
        self.j.next.with_imm = false;
        self.j.next.with_inv = false;
        self.j.next.solicited = false;
        self.j.next.length = 0.into();
        self.j.next.imm = self.pq.val().imm;

        // what Fin hands on
        self.rq.next.qp = self.qp.q.val();
        self.rq.next.psn = self.pq.val().psn;
        self.rq.next.msn = self.c.q.val().msn;
        self.rq.next.va = self.pq.val().va;
        self.rq.next.rkey = self.pq.val().rkey;
        self.rq.next.len = self.pq.val().dlen;
        self.rq.next.stamp = self.pq.val().stamp;
        self.rfq.next.qp = self.qp.q.val();
        self.rfq.next.idx = self.c.q.val().ci;
        self.eq_out.next.qp = self.qp.q.val();
        self.eq_out.next.kind = self.e_kind.q.val();
        self.errs.s_data.next = self.eq_out.val();

        match self.state.q.val() {
            RspState::Idle => {
                if self.ctl_valid.val() & !self.fl_on.q.val() {
                    self.qa.next = self.ct.val().qp;
                    self.state.d.next = RspState::Ctl;
                } else if self.fl_on.q.val() & (self.turn.q.val() | !self.pk.val()) {
                    self.qa.next = self.fl_qp.q.val();
                    self.turn.d.next = false;
                    self.state.d.next = RspState::Flush;
                } else if self.notify_valid.val() & !self.fl_on.q.val() {
                    self.notify_ready.next = true;
                    self.qa.next = self.nt.val().qp;
                    self.state.d.next = RspState::Note;
                } else if self.pk.val() & !self.rj_v.q.val() {
                    // a READ job is with the READ responder before anything that comes after it
                    if !self.held.q.val() {
                        self.rx_ready.next = true;
                        self.ev_ecn.next = self.rx.val().ce;
                        self.p.d.next = self.rx.val();
                        self.qpn.next = self.rx.val().qpn;
                    }
                    self.held.d.next = false;
                    self.turn.d.next = true;
                    self.qa.next = bit_cast::<12, LOG_QP>(self.qpn.val().get_bits::<LOG_QP>(0));
                    self.state.d.next = RspState::Fetch;
                }
            }
            RspState::Fetch => {
                self.c.d.next = self.cx.val();
                self.q_tag.d.next = self.hi.val() == bit_cast::<24, 16>(self.tag.val());
                self.q_st.d.next = (((self.st.val() == 2) | (self.st.val() == 3))
                    | (self.st.val() == 4))
                    & ((self.ty.val() == 0) & (self.cx.val().live & !self.cx.val().err));
                self.ip_lo.d.next =
                    self.sip.val().get_bits::<64>(0) == self.dip.val().get_bits::<64>(0);
                self.ip_hi.d.next =
                    self.sip.val().get_bits::<64>(64) == self.dip.val().get_bits::<64>(64);
                self.psn_d.d.next = self.pq.val().psn - self.cx.val().epsn;
                self.mtu_b.d.next = self.mtu_n.val();
                self.o_r.d.next = self.of.val();
                self.sg.d.next = self.cx.val().sge;
                self.so.d.next = self.cx.val().off;
                self.ml.d.next = self.cx.val().len;
                if self.of.val().first {
                    self.sg.d.next = 0.into();
                    self.so.d.next = 0.into();
                    self.ml.d.next = 0.into();
                }
                self.left.d.next = self.plen.val();
                self.src.d.next = self.pq.val().src;
                self.hold.d.next = self.cx.val().exp == 1;
                self.f_ctx.d.next = false;
                self.f_ack.d.next = false;
                self.f_free.d.next = false;
                self.f_rj.d.next = false;
                self.f_err.d.next = false;
                self.f_psn.d.next = self.pq.val().psn;
                self.f_syn.d.next = 31.into();
                self.state.d.next = RspState::Look;
            }
            RspState::Look => {
                self.basic.d.next = (self.q_tag.q.val() & self.q_st.q.val())
                    & (self.ip_lo.q.val() & self.ip_hi.q.val());
                self.eq.d.next = !self.psn_d.q.val().any();
                self.seq_ok.d.next = self.c.q.val().exp == 0;
                if !self.o.val().first {
                    self.seq_ok.d.next = (self.o.val().send & (self.c.q.val().exp == 1))
                        | (self.o.val().write & (self.c.q.val().exp == 2));
                }
                if self.o.val().read {
                    self.len_ok.d.next = !self.plen.val().any();
                } else if !self.o.val().last {
                    self.len_ok.d.next = self.plen.val() == self.mtu_b.q.val();
                } else {
                    self.len_ok.d.next = (self.plen.val() <= self.mtu_b.q.val())
                        & (self.o.val().first | self.plen.val().any());
                }
                self.rq_empty.d.next = self.pi_rdata.val() == self.c.q.val().ci;
                self.rq_wait.d.next = self.avail_rdata.val() == self.c.q.val().ci;
                self.lvl_full.d.next = self.lvl.val().get_bit(4);
                self.lvl_max.d.next = self.lvl.val() >= self.cfg.val().max_dest_rd;
                self.lvl_some.d.next = self.lvl.val().any();
                self.rsum.d.next =
                    bit_cast::<33, 32>(self.pq.val().dlen) + bit_cast::<33, 13>(self.mtu_b.q.val());
                self.xva.d.next = self.c.q.val().va;
                self.xlen.d.next = self.c.q.val().rem;
                self.key.next = self.c.q.val().rkey;
                if self.o.val().first {
                    self.xva.d.next = self.pq.val().va;
                    self.xlen.d.next = self.pq.val().dlen;
                    self.key.next = self.pq.val().rkey;
                }
                if self.o.val().send {
                    match self.sg.q.val().index() {
                        1 => {
                            self.xva.d.next = self.sl.val().va1;
                            self.xlen.d.next = self.sl.val().len1;
                            self.key.next = self.sl.val().key1;
                        }
                        2 => {
                            self.xva.d.next = self.sl.val().va2;
                            self.xlen.d.next = self.sl.val().len2;
                            self.key.next = self.sl.val().key2;
                        }
                        3 => {
                            self.xva.d.next = self.sl.val().va3;
                            self.xlen.d.next = self.sl.val().len3;
                            self.key.next = self.sl.val().key3;
                        }
                        _ => {
                            self.xva.d.next = self.sl.val().va0;
                            self.xlen.d.next = self.sl.val().len0;
                            self.key.next = self.sl.val().key0;
                        }
                    }
                }
                self.xkey.d.next = self.key.val();
                self.state.d.next = RspState::Sub;
            }
            RspState::Sub => {
                self.sge_left.d.next = self.xlen.q.val() - self.so.q.val();
                self.jva.d.next = self.xva.q.val();
                self.mlen.d.next = self.ml.q.val() + bit_cast::<32, 13>(self.plen.val());
                if self.o.val().send {
                    self.jva.d.next = self.xva.q.val() + bit_cast::<64, 32>(self.so.q.val());
                } else {
                    self.mlen.d.next = self.c.q.val().len;
                    if self.o.val().first {
                        self.mlen.d.next = self.pq.val().dlen;
                    }
                }
                self.rdiff.d.next =
                    bit_cast::<33, 32>(self.xlen.q.val()) - bit_cast::<33, 13>(self.plen.val());
                // packets of a READ: (dlen + mtu - 1) / mtu; rsum is dlen + mtu
                self.rsum.d.next = self.rsum.q.val() - 1;
                self.e_kind.d.next = 1.into();
                self.e_sts.d.next = 9.into();
                if !self.basic.q.val() {
                    self.ev_drop_qp.next = true;
                    self.state.d.next = RspState::Free;
                } else if self.o.val().cnp {
                    self.ev_cnp.next = true;
                    self.state.d.next = RspState::Free;
                } else if !self.o.val().rc {
                    self.ev_drop_qp.next = true;
                    self.state.d.next = RspState::Free;
                } else if self.psn_d.q.val().get_bit(23) {
                    self.state.d.next = RspState::Free;
                    if self.o.val().read & self.len_ok.q.val() {
                        self.state.d.next = RspState::Cmp;
                    } else {
                        self.ev_duplicate.next = true;
                        if (self.o.val().send | self.o.val().write) & !self.c.q.val().nak {
                            self.f_ack.d.next = true;
                            self.f_psn.d.next = self.psn_m.val();
                        }
                    }
                } else if !self.eq.q.val() {
                    self.ev_sequence.next = true;
                    if !self.c.q.val().nak {
                        self.c.d.next.nak = true;
                        self.f_ctx.d.next = true;
                        self.f_ack.d.next = true;
                        self.f_psn.d.next = self.c.q.val().epsn;
                        self.f_syn.d.next = 96.into();
                    }
                    self.state.d.next = RspState::Free;
                } else if (self.o.val().bad | !self.seq_ok.q.val()) | !self.len_ok.q.val() {
                    self.f_syn.d.next = 97.into();
                    self.state.d.next = RspState::Fatal;
                } else if self.need_rq.val() & self.rq_empty.q.val() {
                    self.c.d.next.nak = true;
                    self.f_ctx.d.next = true;
                    self.f_ack.d.next = true;
                    self.f_syn.d.next = bits::<8>(32) | bit_cast::<8, 5>(self.cfg.val().min_rnr);
                    self.state.d.next = RspState::Free;
                } else if self.need_rq.val() & self.rq_wait.q.val() {
                    self.held.d.next = true;
                    self.state.d.next = RspState::Idle;
                } else {
                    self.state.d.next = RspState::Cmp;
                }
            }
            RspState::Cmp => {
                self.more.d.next = false;
                self.n.d.next = self.left.q.val();
                if self.o.val().send
                    & (self.sge_left.q.val() < bit_cast::<32, 13>(self.left.q.val()))
                {
                    self.more.d.next = true;
                    self.n.d.next = self.sge_left.q.val().get_bits::<13>(0);
                }
                self.tot_bad.d.next = self.rdiff.q.val().any();
                if !self.o.val().last {
                    self.tot_bad.d.next =
                        self.rdiff.q.val().get_bit(32) | !self.rdiff.q.val().any();
                }
                match self.mtu.val().index() {
                    2 => self.npk.d.next = self.rsum.q.val().get_bits::<24>(9),
                    3 => self.npk.d.next = bit_cast::<24, 23>(self.rsum.q.val().get_bits::<23>(10)),
                    4 => self.npk.d.next = bit_cast::<24, 22>(self.rsum.q.val().get_bits::<22>(11)),
                    5 => self.npk.d.next = bit_cast::<24, 21>(self.rsum.q.val().get_bits::<21>(12)),
                    _ => self.npk.d.next = self.rsum.q.val().get_bits::<24>(8),
                }
                if !self.xl.val().any() {
                    self.npk.d.next = 1.into();
                }
                self.state.d.next = RspState::Put;
            }
            RspState::Put => {
                self.hold.d.next = self.hold.q.val() | self.o.val().send;
                if self.o.val().read & !self.eq.q.val() {
                    // duplicate
                    self.ev_duplicate.next = true;
                    if ((!self.acc_bad.val() & !self.m_bad.val()) & self.win_ok.val())
                        & !self.lvl_full.q.val()
                    {
                        self.c.d.next.dup = true;
                        self.f_ctx.d.next = true;
                        self.f_rj.d.next = true;
                    }
                    self.state.d.next = RspState::Free;
                } else if self.acc_bad.val() {
                    self.f_syn.d.next = 97.into();
                    self.state.d.next = RspState::Fatal;
                } else if self.m_bad.val() {
                    self.f_syn.d.next = 98.into();
                    self.e_kind.d.next = 2.into();
                    if self.o.val().send {
                        self.f_syn.d.next = 99.into();
                        self.e_kind.d.next = 1.into();
                        self.e_sts.d.next = 4.into();
                    }
                    self.state.d.next = RspState::Fatal;
                } else if self.o.val().read {
                    self.state.d.next = RspState::Free;
                    if self.lvl_full.q.val() | (self.lvl_max.q.val() & self.c.q.val().dup) {
                        self.ev_sequence.next = true;
                    } else if self.lvl_max.q.val() {
                        self.f_syn.d.next = 97.into();
                        self.state.d.next = RspState::Fatal;
                    } else {
                        self.c.d.next.epsn = self.c.q.val().epsn + self.npk.q.val();
                        self.c.d.next.msn = self.c.q.val().msn + 1;
                        self.c.d.next.nak = false;
                        self.c.d.next.dup = self.c.q.val().dup & self.lvl_some.q.val();
                        self.f_ctx.d.next = true;
                        self.f_rj.d.next = true;
                    }
                } else if self.more.q.val() & (self.sg.q.val() == 3) {
                    self.f_syn.d.next = 97.into();
                    self.e_sts.d.next = 1.into();
                    self.state.d.next = RspState::Fatal;
                } else if self.pl_free.val() {
                    self.j.next.kind = 1.into();
                    if self.more.q.val() {
                        self.j.next.free = false;
                        self.emit.next = self.n.q.val().any();
                        self.sg.d.next = self.sg.q.val() + 1;
                        self.so.d.next = 0.into();
                        self.left.d.next = self.left.q.val() - self.n.q.val();
                        self.src.d.next = self.src.q.val() + bit_cast::<20, 13>(self.n.q.val());
                        self.state.d.next = RspState::Look;
                    } else {
                        self.j.next.free = !self.cqe.val();
                        self.emit.next = self.n.q.val().any() | !self.cqe.val();
                        if !self.n.q.val().any() {
                            self.j.next.kind = 0.into();
                        }
                        self.c.d.next.epsn = self.c.q.val().epsn + 1;
                        self.c.d.next.nak = false;
                        self.c.d.next.exp = 2.into();
                        if self.o.val().send {
                            self.c.d.next.exp = 1.into();
                        }
                        if self.o.val().last {
                            self.c.d.next.exp = 0.into();
                            self.c.d.next.msn = self.c.q.val().msn + 1;
                        }
                        self.c.d.next.va = self.jva.q.val() + bit_cast::<64, 13>(self.n.q.val());
                        self.c.d.next.rem = self.rdiff.q.val().get_bits::<32>(0);
                        self.c.d.next.rkey = self.xkey.q.val();
                        self.c.d.next.len = self.mlen.q.val();
                        self.c.d.next.sge = self.sg.q.val();
                        self.c.d.next.off = self.so.q.val() + bit_cast::<32, 13>(self.n.q.val());
                        self.f_ack.d.next = self.pq.val().ackreq;
                        self.f_ctx.d.next = true;
                        self.state.d.next = RspState::Fin;
                        if self.cqe.val() {
                            self.state.d.next = RspState::Cqe;
                        }
                    }
                }
            }
            RspState::Cqe => {
                if self.pl_free.val() {
                    self.emit.next = true;
                    self.j.next.kind = 2.into();
                    self.j.next.with_imm = self.o.val().imm;
                    if self.o.val().imm {
                        self.j.next.opcode = 1.into();
                    }
                    if self.o.val().write {
                        self.j.next.opcode = 3.into();
                    }
                    self.j.next.solicited = self.pq.val().se;
                    self.j.next.length = self.c.q.val().len;
                    self.c.d.next.ci = self.c.q.val().ci + 1;
                    self.f_free.d.next = true;
                    self.state.d.next = RspState::Fin;
                }
            }
            RspState::Fatal => {
                if self.pl_free.val() {
                    self.emit.next = true;
                    if self.hold.q.val() {
                        self.j.next.kind = 2.into();
                        self.j.next.status = self.e_sts.q.val();
                        self.c.d.next.ci = self.c.q.val().ci + 1;
                    }
                    self.c.d.next.err = true;
                    self.c.d.next.exp = 0.into();
                    self.f_free.d.next = self.hold.q.val();
                    self.f_ctx.d.next = true;
                    self.f_ack.d.next = true;
                    self.f_err.d.next = true;
                    self.state.d.next = RspState::Fin;
                }
            }
            RspState::Free => {
                if self.pl_free.val() {
                    self.emit.next = true;
                    self.state.d.next = RspState::Fin;
                }
            }
            RspState::Fin => {
                if (self.ak_free.val() | !self.f_ack.q.val())
                    & ((self.rf_free.val() | !self.f_free.q.val())
                        & (self.errs.s_ready.val() | !self.f_err.q.val()))
                {
                    self.cw.next = self.f_ctx.q.val();
                    self.ak_go.next = self.f_ack.q.val();
                    if self.f_free.q.val() {
                        self.rf.d.next = self.rfq.val();
                        self.rf_v.d.next = true;
                    }
                    if self.f_rj.q.val() {
                        self.rj.d.next = self.rq.val();
                        self.rj_v.d.next = true;
                    }
                    self.errs.s_valid.next = self.f_err.q.val();
                    self.state.d.next = RspState::Idle;
                }
            }
            RspState::Ctl => {
                self.state.d.next = RspState::Idle;
                self.cwd.next = self.cx.val();
                match self.ct.val().op.index() {
                    0 => {
                        // nothing of the QP is left in an output register
                        if self.ak_free.val() & !self.rf_v.q.val() {
                            self.cwd.next = self.k_zero.val();
                            self.cw.next = true;
                            self.ak_go.next = true;
                            self.syn.next = 255.into();
                            self.ctl_ready.next = true;
                        } else {
                            self.state.d.next = RspState::Ctl;
                        }
                    }
                    1 => {
                        self.cwd.next = self.k_zero.val();
                        self.cwd.next.live = true;
                        self.cwd.next.epsn = self.ct.val().psn;
                        self.cwd.next.ci = self.cx.val().ci;
                        self.cw.next = true;
                        self.ctl_ready.next = true;
                    }
                    2 => {
                        self.cwd.next.err = true;
                        self.cw.next = true;
                        self.fl_on.d.next = true;
                        self.fl_ctl.d.next = true;
                        self.fl_qp.d.next = self.qp.q.val();
                        self.fl_end.d.next = self.pi_rdata.val();
                    }
                    3 => {
                        if self.pl_free.val() {
                            self.emit.next = true;
                            self.j.next.kind = 3.into();
                            self.j.next.free = false;
                            self.ctl_ready.next = true;
                        } else {
                            self.state.d.next = RspState::Ctl;
                        }
                    }
                    _ => {
                        self.ctl_ready.next = true;
                    }
                }
            }
            RspState::Note => {
                if self.st.val() == 6 {
                    self.fl_on.d.next = true;
                    self.fl_ctl.d.next = false;
                    self.fl_qp.d.next = self.qp.q.val();
                    self.fl_end.d.next = self.pi_rdata.val();
                }
                self.state.d.next = RspState::Idle;
            }
            RspState::Flush => {
                self.cwd.next = self.cx.val();
                if (self.cx.val().ci == self.fl_end.q.val()) | self.cfg.val().srq {
                    self.fl_on.d.next = false;
                    self.ctl_ready.next = self.fl_ctl.q.val();
                    self.state.d.next = RspState::Idle;
                } else if self.pl_free.val() {
                    self.emit.next = true;
                    self.j.next.kind = 2.into();
                    self.j.next.free = false;
                    self.j.next.status = 5.into();
                    self.j.next.index = self.cx.val().ci;
                    self.cwd.next.ci = self.cx.val().ci + 1;
                    self.cwd.next.exp = 0.into();
                    self.cw.next = true;
                    self.state.d.next = RspState::Idle;
                }
            }
            _ => {
                self.state.d.next = RspState::Idle;
            }
        }
        self.qp.d.next = self.qa.val();
        self.cfg_raddr.next = self.qa.val();
        self.av_raddr.next = self.qa.val();
        self.idx_raddr.next = self.qa.val();
        self.lvl_raddr.next = self.qa.val();
        self.mrc_raddr.next = self.key.val().get_bits::<16>(8);
        self.slot_a.next = bit_cast::<16, 12>(self.qp.q.val()) << self.k_rq.val();
        self.slot_raddr.next = self.slot_a.val() | (self.cx.val().ci & self.k_slot.val());
        self.ctx.raddr.next = self.qa.val().get_bits::<LOG_QP>(0);
        self.ctx.waddr.next = self.qp.q.val().get_bits::<LOG_QP>(0);
        self.ctx.we.next = self.cw.val();
        self.ctx.wdata.next = self.cwd.val();
        if self.emit.val() {
            self.pl.d.next = self.j.val();
            self.pl_v.d.next = true;
        }
        self.aq.next.qp = self.qp.q.val();
        self.aq.next.psn = self.f_psn.q.val();
        self.aq.next.aeth =
            (bit_cast::<32, 8>(self.syn.val()) << 24) | bit_cast::<32, 24>(self.c.q.val().msn);
        if self.ak_go.val() {
            self.ak.d.next = self.aq.val();
            self.ak_v.d.next = true;
        }
        self.pl_valid.next = self.pl_v.q.val();
        self.pl_data.next = self.pl.q.val();
        self.ack_valid.next = self.ak_v.q.val();
        self.ack_data.next = self.ak.q.val();
        self.rj_valid.next = self.rj_v.q.val();
        self.rj_data.next = self.rj.q.val();
        self.rqfree_valid.next = self.rf_v.q.val();
        self.rqfree_data.next = self.rf.q.val();
        self.err_valid.next = self.errs.m_valid.val();
        self.err_data.next = self.errs.m_data.val();
        self.errs.m_ready.next = self.err_ready.val();
        self.idle.next = (((self.state.q.val() == RspState::Idle) & !self.held.q.val())
            & (!self.fl_on.q.val() & !self.errs.m_valid.val()))
            & ((!self.pl_v.q.val() & !self.ak_v.q.val())
                & (!self.rj_v.q.val() & !self.rf_v.q.val()));
        if self.rst.val() {
            self.state.d.next = RspState::Idle;
            self.held.d.next = false;
            self.turn.d.next = false;
            self.fl_on.d.next = false;
            self.fl_ctl.d.next = false;
            self.pl_v.d.next = false;
            self.ak_v.d.next = false;
            self.rj_v.d.next = false;
            self.rf_v.d.next = false;
        }
    }
}
