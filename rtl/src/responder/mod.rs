//! The RSP part of a QP: order of requests, all checks, effects.
pub mod access;
pub mod checks;
pub mod ctx;
pub mod decode;
pub mod defaults;
pub mod mr_gate;
pub mod outs;

use crate::layouts::{Av, MrCheck, QpCfg, Rq};
use crate::prims::SdpRam;
use crate::types::{AckReq, PlJob, QpCtl, QpErr, QpIdx, ReadJob, RxPkt};
use crate::window::WinInv;
use access::Access;
use checks::{Checks, Verdict};
use ctx::{RspCtx, RspState, SrqSt, ToDo};
use decode::OpFlags;
use outs::Outs;
use rust_hdl::prelude::*;

/// Handles request packets and CNPs one by one; nothing is written to memory or to the QP before all checks of the packet have passed.
///
/// * `LOG_QP`, `LOG_MR`: log2 of the tables; `LOG_RQ`: log2 of receive unit slots per QP; `LOG_KEEP` = `LOG_QP + 2`.
/// * In `rx`. A packet that needs a receive WQE which is posted but not on the card yet waits here (`ctl` is still served; the packet is then looked
///   at again from the start).
/// * UD: SEND of one packet whose Q_Key is that of the QP; the GRH area goes into the first 40 bytes of the receive WQE (whose first SGE has at least 20).
///   Whatever does not fit is dropped.
/// * UC: nothing is answered. A First or Only packet is taken at any PSN and ends a message that was not finished; any other fault drops the packet and
///   ends the message, whose receive WQE is used for the next one.
/// * A receive entry has `2^rq_stride` units. With an SRQ the first packet of a message takes it (what the message still needs of it is kept here), and
///   `rqfree` follows at once; `lim` pulses when fewer units than the limit are left, which disarms it. A QP that ends in between completes the entry
///   with WR_FLUSH, or, at RESET, gives its number as the answer.
/// * Order of checks: QPN, type RC or UC, state RTR/RTS/SQD, source IP; PSN; opcode sequence and payload length; receive WQE present (else RNR NAK); class
///   right of the QP, DMALen; key, PD, right and bounds of the MR. Only the last packet of a message may have less than the MTU. The MR is
///   checked again for every packet of a WRITE, for what is left of the message.
/// * NAK 0x60 once per gap. 0x61: opcode sequence, unsupported opcode, length, class right, an atomic that
///   is not aligned to 8, too many READs. 0x62: MR
///   check. 0x63: SGE check (its whole range must lie in its MR). The last three put the QP into error (`err`), with a CQE for a held receive WQE.
/// * SEND with invalidate (RC): when its payload has been placed, the window goes by `inv` to the window unit, before the CQE; what that refuses is NAK 0x62, and the
///   held receive WQE gets REM_ACCESS. A duplicate has no second effect. `calm`: no packet is between its checks and its last payload job.
/// * READ (an atomic goes the same way): goes to the READ responder when its ring (port `lvl`) has room, else it is dropped without effect. More jobs in the ring than
///   `max_dest_rd` is an error of the requester, unless duplicates are among them. Duplicate READs are executed again if they lie before ePSN and
///   pass all checks, else they are dropped.
/// * Each packet gives `pl` jobs, the last with `free`. `ack` wishes carry syndrome 0xFF for "take the wish back": at RESET, and when a
///   new READ is accepted, whose response says all that an older wish could say (a duplicate READ takes nothing back).
/// * `ctl`: RESET, START (sets ePSN), FLUSH (posted receives complete with WR_FLUSH, packets go on between them), FENCE, QUERY. `notify` of a QP in ERR
///   flushes what was posted since. Flushed WQEs are not reported on `rqfree`.
/// * II with all outputs ready: WRITE 7, SEND with one SGE 7 (8 with an SRQ, and in a First packet 2 + 2^rq_stride more if an entry has several units), + 4 for each
///   further SGE (5 into the next unit); READ 8; dropped 6; SEND with invalidate as long as the window unit takes,
///   about 20 (WRITE, SEND and READ measured by `initiation_intervals`).
/// * Ports `cfg`, `av`, `mrc`, `idx`, `slot`, `lvl`: data one cycle after the address.
#[derive(LogicBlock)]
pub struct Responder<
    const LOG_QP: usize,
    const LOG_MR: usize,
    const LOG_RQ: usize,
    const LOG_KEEP: usize,
> {
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
    /// A constant of the card: atomics are unsupported opcodes.
    pub no_atomics: Signal<In, bool>,
    pub err_valid: Signal<Out, bool>,
    pub err_data: Signal<Out, QpErr>,
    pub err_ready: Signal<In, bool>,
    pub inv_valid: Signal<Out, bool>,
    pub inv_data: Signal<Out, WinInv>,
    pub inv_done: Signal<In, bool>,
    pub inv_ok: Signal<In, bool>,
    pub calm: Signal<Out, bool>,
    /// SRQ whose limit is reached: a pulse.
    pub lim_valid: Signal<Out, bool>,
    pub lim_qp: Signal<Out, Bits<12>>,
    pub ev_drop_qp: Signal<Out, bool>,
    pub ev_duplicate: Signal<Out, bool>,
    pub ev_sequence: Signal<Out, bool>,
    pub ev_cnp: Signal<Out, bool>,
    pub ev_ecn: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    ctx: SdpRam<RspCtx, LOG_QP>,
    srqs: SdpRam<SrqSt, LOG_QP>,
    /// SRQ entries that messages keep.
    keep: SdpRam<Bits<512>, LOG_KEEP>,
    chk: Checks<LOG_QP>,
    acc: Access<LOG_MR>,
    out: Outs<LOG_QP>,
    state: DFF<RspState>,
    qp: DFF<Bits<12>>,
    p: DFF<RxPkt>,
    /// `p` waits for its receive WQE.
    held: DFF<bool>,
    /// A packet's turn is over: a flush step goes first.
    turn: DFF<bool>,
    c: DFF<RspCtx>,
    // cursor of the packet
    sg: DFF<Bits<4>>,
    so: DFF<Bits<32>>,
    ml: DFF<Bits<32>>,
    left: DFF<Bits<13>>,
    /// UD: the GRH area is to be placed.
    gh: DFF<bool>,
    /// The packet's source is IPv4; its tables have just arrived.
    v4r: DFF<bool>,
    fresh: DFF<bool>,
    src: DFF<Bits<20>>,
    /// Number of the receive WQE that the packet uses, and index of the unit behind it.
    ix: DFF<Bits<16>>,
    nx: DFF<Bits<16>>,
    /// The message keeps an SRQ entry.
    kept: DFF<bool>,
    /// Units of the SRQ behind the packet's; they are fewer than the limit.
    more: DFF<Bits<16>>,
    low: DFF<bool>,
    /// Unit to copy.
    ck: DFF<Bits<3>>,
    /// A receive WQE belongs to the packet.
    hold: DFF<bool>,
    todo: DFF<ToDo>,
    psn: DFF<Bits<24>>,
    syn: DFF<Bits<8>>,
    e_kind: DFF<Bits<3>>,
    e_sts: DFF<Bits<8>>,
    // flush of one QP up to `fl_end`; `fl_ctl`: by order
    fl_on: DFF<bool>,
    fl_ctl: DFF<bool>,
    fl_qp: DFF<Bits<12>>,
    fl_end: DFF<Bits<16>>,
    k_job: Constant<PlJob>,
    k_v4: Constant<Bits<96>>,
    k_rq: Constant<Bits<5>>,
    k_slot: Constant<Bits<16>>,
    k_zero: Constant<RspCtx>,
    k_todo: Constant<ToDo>,
    pq: Signal<Local, RxPkt>,
    qpn: Signal<Local, Bits<24>>,
    cfg: Signal<Local, QpCfg>,
    st: Signal<Local, Bits<3>>,
    uc: Signal<Local, bool>,
    ud: Signal<Local, bool>,
    v4: Signal<Local, bool>,
    sip: Signal<Local, Bits<128>>,
    back: Signal<Local, Bits<7>>,
    src0: Signal<Local, Bits<20>>,
    op0: Signal<Local, Bits<8>>,
    cx: Signal<Local, RspCtx>,
    cw: Signal<Local, bool>,
    cwd: Signal<Local, RspCtx>,
    o: Signal<Local, OpFlags>,
    v: Signal<Local, Verdict>,
    slot: Signal<Local, Rq>,
    key: Signal<Local, Bits<32>>,
    n: Signal<Local, Bits<13>>,
    need_rq: Signal<Local, bool>,
    cqe: Signal<Local, bool>,
    fin: Signal<Local, ToDo>,
    sy: Signal<Local, Bits<8>>,
    j: Signal<Local, PlJob>,
    ct: Signal<Local, QpCtl>,
    pk: Signal<Local, bool>,
    qa: Signal<Local, Bits<12>>,
    slot_a: Signal<Local, Bits<16>>,
    iw: Signal<Local, WinInv>,
    im: Signal<Local, Bits<32>>,
    srq: Signal<Local, bool>,
    /// The table entry is that of an SRQ, or the QP has one: no ring to flush.
    noq: Signal<Local, bool>,
    holds: Signal<Local, bool>,
    /// The packet takes an entry of the SRQ.
    tk: Signal<Local, bool>,
    gone: Signal<Local, bool>,
    fire: Signal<Local, bool>,
    lim_v: DFF<bool>,
    lim_q: DFF<Bits<12>>,
    stride: Signal<Local, Bits<2>>,
    step: Signal<Local, Bits<16>>,
    units: Signal<Local, Bits<3>>,
    whole: Signal<Local, Bits<16>>,
    last_sge: Signal<Local, Bits<4>>,
    sge: Signal<Local, Bits<4>>,
    ring: Signal<Local, Bits<12>>,
    sq: Signal<Local, SrqSt>,
    sqw: Signal<Local, bool>,
    sqd: Signal<Local, SrqSt>,
    ci: Signal<Local, Bits<16>>,
    from: Signal<Local, Bits<16>>,
    un: Signal<Local, Bits<2>>,
    prev: Signal<Local, Bits<3>>,
    word: Signal<Local, Bits<512>>,
    lim: Signal<Local, Bits<24>>,
}

crate::block_default! { Responder<LOG_QP, LOG_MR, LOG_RQ, LOG_KEEP> {
    clock, rst, rx_valid, rx_data, rx_ready, ctl_valid, ctl_data, ctl_ready, ctl_psn, notify_valid, notify_data, notify_ready, cfg_raddr,
    cfg_rdata, av_raddr, av_rdata, mrc_raddr, mrc_rdata, slot_raddr, slot_rdata, idx_raddr, pi_rdata, avail_rdata, lvl_raddr, lvl_rdata,
    pl_valid, pl_data, pl_ready, ack_valid, ack_data, ack_ready, rj_valid, rj_data, rj_ready, rqfree_valid, rqfree_data, rqfree_ready,
    no_atomics, err_valid, err_data, err_ready, inv_valid, inv_data, inv_done, inv_ok, calm, ev_drop_qp, ev_duplicate, ev_sequence, ev_cnp, ev_ecn, lim_valid, lim_qp, lim_v, lim_q, idle, ctx, srqs, chk, acc, out, state, qp, p, held,
    turn, c, sg, so, ml, left, src, ix, nx, kept, more, low, ck, hold, todo, psn, syn, e_kind, e_sts, fl_on, fl_ctl, fl_qp, fl_end, pq, qpn, cfg, st, uc, ud, v4, sip, back, src0, op0, gh, v4r, fresh, cx, cw,
    cwd, o, v, slot, key, n, need_rq, cqe, fin, sy, j, ct, pk, qa, slot_a, srq, noq, holds, tk, gone, fire, stride, step, units, whole,
    last_sge, sge, ring, sq, sqw, sqd, ci, from, un, prev, word, lim, iw, im;
    assert LOG_QP <= 12 && LOG_MR <= 16 && LOG_QP + LOG_RQ <= 16 && LOG_RQ >= 2 && LOG_KEEP == LOG_QP + 2;
    // not looked at by the packet that writes it (`kept` is false)
    keep: SdpRam::collision_free(),
    k_job: Constant::new(PlJob::default()),
    // ::ffff:0:0, first wire byte lowest
    k_v4: Constant::new(Bits::<96>::from(0xFFFFu64) << 80),
    k_rq: Constant::new((LOG_RQ as u64).into()),
    k_slot: Constant::new(((1u64 << LOG_RQ) - 1).into()),
    k_zero: Constant::new(RspCtx::default()),
    k_todo: Constant::new(ToDo::default()),
} }

impl<const LOG_QP: usize, const LOG_MR: usize, const LOG_RQ: usize, const LOG_KEEP: usize> Logic
    for Responder<LOG_QP, LOG_MR, LOG_RQ, LOG_KEEP>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, lim_v, lim_q, qp, p, held, turn, c, sg, so, ml, left, gh, v4r,
            fresh, src, ix
        );
        dff_setup!(self, clock, nx, kept, more, low, ck);
        dff_setup!(self, clock, hold, todo, psn, syn, e_kind, e_sts, fl_on, fl_ctl, fl_qp, fl_end);
        clock!(self, clock, ctx, srqs, keep, chk, acc, out);
        self.out.rst.next = self.rst.val();
        self.ct.next = self.ctl_data.val();
        self.pq.next = self.p.q.val();
        self.cfg.next = self.cfg_rdata.val();
        self.st.next = self.cfg.val().state;
        self.src0.next = self.pq.val().src;
        self.op0.next = self.pq.val().opcode;
        self.uc.next = self.cfg.val().qp_type == 1;
        self.ud.next = self.cfg.val().qp_type == 2;
        self.sip.next = self.pq.val().sip;
        self.v4.next = self.sip.val().get_bits::<96>(0) == self.k_v4.val();
        // from the payload back to the IP header: DETH or DETH and immediate data, BTH and UDP, IP
        self.v4r.d.next = self.v4.val();
        self.fresh.d.next = false;
        self.back.next = 68.into();
        if self.v4r.q.val() {
            self.back.next = 48.into();
            if self.op0.val().get_bit(0) {
                self.back.next = 52.into();
            }
        } else if self.op0.val().get_bit(0) {
            self.back.next = 72.into();
        }
        self.cx.next = self.ctx.rdata.val();
        self.sq.next = self.srqs.rdata.val();
        self.srq.next = self.cfg.val().srq;
        self.noq.next = self.srq.val() | (self.cfg.val().qp_type == 3);
        self.holds.next = self.srq.val() & (self.cx.val().exp == 1);
        self.stride.next = self.cfg.val().rq_stride;
        self.step.next = 1.into();
        self.units.next = 1.into();
        self.whole.next = bits::<16>(0xFFFF);
        self.last_sge.next = 3.into();
        if self.stride.val() == 1 {
            self.step.next = 2.into();
            self.units.next = 2.into();
            self.whole.next = bits::<16>(0xFFFE);
            self.last_sge.next = 7.into();
        } else if self.stride.val().get_bit(1) {
            self.step.next = 4.into();
            self.units.next = 4.into();
            self.whole.next = bits::<16>(0xFFFC);
            self.last_sge.next = 15.into();
        }
        self.ci.next = self.cx.val().ci;
        if self.srq.val() {
            self.ci.next = self.sq.val().ci;
        }
        self.word.next = self.slot_rdata.val();
        if self.kept.q.val() {
            self.word.next = self.keep.rdata.val();
        }
        self.slot.next = self.word.val().into();
        if self.srq.val() {
            // the upper bits are the number of the entry
            self.slot.next.key0 = bit_cast::<32, 24>(self.word.val().get_bits::<24>(96));
            self.slot.next.key1 = bit_cast::<32, 24>(self.word.val().get_bits::<24>(224));
        }
        self.fin.next = self.todo.q.val();
        self.rx_ready.next = false;
        self.ctl_ready.next = false;
        self.notify_ready.next = false;
        self.lim.next = bit_cast::<24, 16>(self.sq.val().limit);
        self.ctl_psn.next = self.cx.val().epsn;
        if self.cfg.val().qp_type == 3 {
            self.ctl_psn.next = self.lim.val();
        }
        if self.ct.val().op == 0 {
            self.ctl_psn.next = 0.into();
            if self.holds.val() {
                self.ctl_psn.next = bit_cast::<24, 16>(self.cx.val().held) | bits::<24>(0x1_0000);
            }
        }
        self.ev_drop_qp.next = false;
        self.ev_duplicate.next = false;
        self.ev_sequence.next = false;
        self.ev_cnp.next = false;
        self.ev_ecn.next = false;
        self.cw.next = false;
        self.cwd.next = self.c.q.val();
        self.out.pl_go.next = false;
        self.out.ak_go.next = false;
        self.out.rj_go.next = false;
        self.out.rf_go.next = false;
        self.out.er_go.next = false;
        self.sy.next = self.syn.q.val();
        self.qa.next = self.qp.q.val();
        self.qpn.next = self.pq.val().qpn;
        self.pk.next = self.held.q.val() | self.rx_valid.val();
        self.chk.p.next = self.pq.val();
        self.chk.cfg.next = self.cfg.val();
        self.chk.av.next = self.av_rdata.val();
        self.chk.cx.next = self.cx.val();
        self.chk.ci.next = self.ci.val();
        self.chk.whole.next = self.whole.val();
        self.chk.pi.next = self.pi_rdata.val();
        self.chk.no_atomics.next = self.no_atomics.val();
        self.chk.avail.next = self.avail_rdata.val();
        self.chk.lvl.next = self.lvl_rdata.val();
        self.o.next = self.chk.o.val();
        self.v.next = self.chk.v.val();
        self.need_rq.next =
            (self.o.val().send & self.o.val().first) | (self.o.val().write & self.o.val().imm);
        self.cqe.next =
            (self.o.val().send & self.o.val().last) | (self.o.val().write & self.o.val().imm);

        self.tk.next = (self.srq.val() & !self.kept.q.val()) & self.need_rq.val();
        // a receive entry that ends with this packet leaves its ring
        self.gone.next = !self.srq.val() | self.tk.val();
        self.from.next = self.nx.q.val();
        self.sqw.next = false;
        self.sqd.next = self.sq.val();
        self.fire.next = false;
        self.keep.we.next = false;
        self.prev.next = 0.into();
        self.ck.d.next = 0.into();

        self.acc.load.next = self.state.q.val() == RspState::Look;
        self.acc.o.next = self.o.val();
        self.acc.p.next = self.pq.val();
        self.acc.c.next = self.c.q.val();
        self.acc.cfg.next = self.cfg.val();
        self.acc.slot.next = self.slot.val();
        self.acc.mr.next = self.mrc_rdata.val();
        self.acc.sg.next = self.sg.q.val().get_bits::<2>(0);
        self.acc.so.next = self.so.q.val();
        self.acc.ml.next = self.ml.q.val();
        self.acc.left.next = self.left.q.val();
        self.mrc_raddr.next = self.acc.mr_addr.val();
        self.key.next = self.acc.key.val();
        self.n.next = self.acc.n.val();

        // the job that goes out if a state says so
        self.j.next = self.k_job.val();
        self.j.next.free = true;
        self.j.next.mr = self.acc.at.val();
        self.j.next.va = self.acc.va.val();
        self.j.next.len = self.n.val();
        self.j.next.src = self.src.q.val();
        self.j.next.index = self.ix.q.val();

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
                    self.qa.next = self.notify_data.val().qp;
                    self.state.d.next = RspState::Note;
                } else if self.pk.val() & !self.out.rj_busy.val() {
                    // a READ job is with the READ responder before anything that comes after it
                    if !self.held.q.val() {
                        self.rx_ready.next = true;
                        self.ev_ecn.next = self.rx_data.val().ce;
                        self.p.d.next = self.rx_data.val();
                        self.qpn.next = self.rx_data.val().qpn;
                    }
                    self.held.d.next = false;
                    self.turn.d.next = true;
                    self.qa.next = bit_cast::<12, LOG_QP>(self.qpn.val().get_bits::<LOG_QP>(0));
                    self.state.d.next = RspState::Fetch;
                }
            }
            RspState::Fetch => {
                self.c.d.next = self.cx.val();
                self.sg.d.next = self.cx.val().sge;
                self.so.d.next = self.cx.val().off;
                self.ml.d.next = self.cx.val().len;
                if self.chk.first.val() {
                    self.sg.d.next = 0.into();
                    self.so.d.next = 0.into();
                    self.ml.d.next = 0.into();
                }
                self.left.d.next = self.pq.val().len;
                self.src.d.next = self.pq.val().src;
                self.ix.d.next = self.cx.val().ci;
                if self.srq.val() {
                    self.ix.d.next = self.cx.val().held;
                }
                self.kept.d.next = self.holds.val();
                self.gh.d.next = self.ud.val();
                self.fresh.d.next = true;
                self.hold.d.next = self.cx.val().exp == 1;
                self.todo.d.next = self.k_todo.val();
                self.psn.d.next = self.pq.val().psn;
                self.syn.d.next = 31.into();
                self.e_kind.d.next = 1.into();
                self.e_sts.d.next = 9.into();
                self.state.d.next = RspState::Look;
                if self.srq.val() & self.chk.recv.val() {
                    self.state.d.next = RspState::Ring;
                }
            }
            RspState::Ring => {
                // the slot is being read
                self.fresh.d.next = self.fresh.q.val();
                self.state.d.next = RspState::Look;
            }
            RspState::Look => {
                self.nx.d.next = self.ci.val() + self.step.val();
                if self.tk.val() & !self.sg.q.val().any() {
                    self.ix.d.next = (bit_cast::<16, 8>(self.word.val().get_bits::<8>(248)) << 8)
                        | bit_cast::<16, 8>(self.word.val().get_bits::<8>(120));
                }
                if self.ud.val() & self.fresh.q.val() {
                    // the GRH area goes first: 40 bytes of IPv6 header, or 20 bytes that are left alone and the IPv4 header
                    self.ml.d.next = 40.into();
                    self.left.d.next = 40.into();
                    if self.v4r.q.val() {
                        self.left.d.next = 20.into();
                        self.so.d.next = 20.into();
                    }
                    self.src.d.next = self.src0.val() - bit_cast::<20, 7>(self.back.val());
                }
                self.state.d.next = RspState::Sub;
            }
            RspState::Sub => {
                if !self.v.val().basic {
                    self.ev_drop_qp.next = true;
                    self.state.d.next = RspState::Free;
                } else if self.o.val().cnp {
                    self.ev_cnp.next = true;
                    self.state.d.next = RspState::Free;
                } else if ((self.uc.val() & !self.o.val().uc) | (self.ud.val() & !self.o.val().ud))
                    | (!(self.uc.val() | self.ud.val()) & !self.o.val().rc)
                {
                    self.ev_drop_qp.next = true;
                    self.state.d.next = RspState::Free;
                } else if self.ud.val() {
                    self.state.d.next = RspState::Free;
                    if ((!(self.o.val().send & (self.o.val().first & self.o.val().last))
                        | self.o.val().inv)
                        | !self.v.val().len_ok)
                        | self.v.val().rq_empty
                    {
                        self.ev_sequence.next = true;
                    } else if self.v.val().rq_wait {
                        self.held.d.next = true;
                        self.state.d.next = RspState::Idle;
                    } else {
                        self.state.d.next = RspState::Cmp;
                    }
                } else if self.uc.val() {
                    // a message begins at any PSN; what does not go on as it should ends the message at hand
                    self.state.d.next = RspState::Free;
                    self.c.d.next.exp = 0.into();
                    self.todo.d.next.ctx = true;
                    if self.o.val().first {
                        self.c.d.next.epsn = self.pq.val().psn;
                    }
                    if ((self.o.val().bad | self.o.val().inv) | self.o.val().read)
                        | (!self.v.val().len_ok
                            | (!self.o.val().first & !(self.v.val().eq & self.v.val().seq_ok)))
                    {
                        self.ev_sequence.next = true;
                    } else if self.need_rq.val() & self.v.val().rq_empty {
                        self.ev_sequence.next = true;
                    } else if self.need_rq.val() & self.v.val().rq_wait {
                        self.held.d.next = true;
                        self.state.d.next = RspState::Idle;
                    } else {
                        self.state.d.next = RspState::Cmp;
                    }
                } else if self.v.val().behind {
                    self.state.d.next = RspState::Free;
                    if self.o.val().read & self.v.val().len_ok {
                        self.state.d.next = RspState::Cmp;
                    } else {
                        self.ev_duplicate.next = true;
                        if (self.o.val().send | self.o.val().write) & !self.c.q.val().nak {
                            self.todo.d.next.ack = true;
                            self.psn.d.next = self.c.q.val().epsn - 1;
                        }
                    }
                } else if !self.v.val().eq {
                    self.ev_sequence.next = true;
                    if !self.c.q.val().nak {
                        self.c.d.next.nak = true;
                        self.todo.d.next.ctx = true;
                        self.todo.d.next.ack = true;
                        self.psn.d.next = self.c.q.val().epsn;
                        self.syn.d.next = 96.into();
                    }
                    self.state.d.next = RspState::Free;
                } else if (self.o.val().bad | !self.v.val().seq_ok) | !self.v.val().len_ok {
                    self.syn.d.next = 97.into();
                    self.state.d.next = RspState::Fatal;
                } else if self.need_rq.val() & self.v.val().rq_empty {
                    self.c.d.next.nak = true;
                    self.todo.d.next.ctx = true;
                    self.todo.d.next.ack = true;
                    self.syn.d.next = bits::<8>(32) | bit_cast::<8, 5>(self.cfg.val().min_rnr);
                    self.state.d.next = RspState::Free;
                } else if self.need_rq.val() & self.v.val().rq_wait {
                    self.held.d.next = true;
                    self.state.d.next = RspState::Idle;
                } else {
                    self.state.d.next = RspState::Cmp;
                }
            }
            RspState::Cmp => {
                self.state.d.next = RspState::Put;
            }
            RspState::Put => {
                self.hold.d.next = self.hold.q.val() | self.o.val().send;
                if self.o.val().read & !self.v.val().eq {
                    // duplicate
                    self.ev_duplicate.next = true;
                    if ((!self.acc.inv.val() & !self.acc.deny.val()) & self.chk.past.val())
                        & !self.v.val().lvl_full
                    {
                        self.c.d.next.dup = true;
                        self.todo.d.next.ctx = true;
                        self.todo.d.next.read = true;
                    }
                    self.state.d.next = RspState::Free;
                } else if ((self.uc.val() | self.ud.val())
                    & ((self.acc.inv.val() | self.acc.deny.val())
                        | (self.acc.more.val() & (self.sg.q.val() == self.last_sge.val()))))
                    | (self.ud.val() & self.acc.tiny.val())
                {
                    self.ev_sequence.next = true;
                    self.state.d.next = RspState::Free;
                } else if self.acc.inv.val() {
                    self.syn.d.next = 97.into();
                    self.state.d.next = RspState::Fatal;
                } else if self.acc.deny.val() {
                    self.syn.d.next = 98.into();
                    self.e_kind.d.next = 2.into();
                    if self.o.val().send {
                        self.syn.d.next = 99.into();
                        self.e_kind.d.next = 1.into();
                        self.e_sts.d.next = 4.into();
                    }
                    self.state.d.next = RspState::Fatal;
                } else if self.o.val().read & !self.out.pl_free.val() {
                    self.state.d.next = RspState::Put;
                } else if self.o.val().read {
                    self.out.pl_go.next = true;
                    self.state.d.next = RspState::Fin;
                    if self.v.val().lvl_full | (self.v.val().lvl_max & self.c.q.val().dup) {
                        self.ev_sequence.next = true;
                    } else if self.v.val().lvl_max {
                        self.out.pl_go.next = false;
                        self.syn.d.next = 97.into();
                        self.state.d.next = RspState::Fatal;
                    } else {
                        self.c.d.next.epsn = self.c.q.val().epsn + self.chk.npk.val();
                        self.c.d.next.msn = self.c.q.val().msn + 1;
                        self.c.d.next.nak = false;
                        self.c.d.next.dup = self.c.q.val().dup & self.v.val().lvl_some;
                        self.todo.d.next.ctx = true;
                        self.todo.d.next.read = true;
                        // its response acknowledges all that a wish could say
                        self.todo.d.next.ack = true;
                        self.syn.d.next = 255.into();
                    }
                } else if self.acc.more.val() & (self.sg.q.val() == self.last_sge.val()) {
                    self.syn.d.next = 97.into();
                    self.e_sts.d.next = 1.into();
                    self.state.d.next = RspState::Fatal;
                } else if self.out.pl_free.val() {
                    self.j.next.kind = 1.into();
                    if self.gh.q.val() & !self.acc.more.val() {
                        // the GRH area is there: the payload is next, in the same SGE
                        self.j.next.free = false;
                        self.out.pl_go.next = self.n.val().any();
                        self.gh.d.next = false;
                        self.so.d.next = self.so.q.val() + bit_cast::<32, 13>(self.n.val());
                        self.left.d.next = self.pq.val().len;
                        self.src.d.next = self.pq.val().src;
                        self.state.d.next = RspState::Look;
                    } else if self.acc.more.val() {
                        self.j.next.free = false;
                        self.out.pl_go.next = self.n.val().any();
                        self.sg.d.next = self.sg.q.val() + 1;
                        self.so.d.next = 0.into();
                        self.left.d.next = self.left.q.val() - self.n.val();
                        self.src.d.next = self.src.q.val() + bit_cast::<20, 13>(self.n.val());
                        self.state.d.next = RspState::Look;
                        if self.sg.q.val().get_bits::<2>(0).all() {
                            self.state.d.next = RspState::Ring;
                        }
                    } else {
                        self.j.next.free = !self.cqe.val();
                        self.out.pl_go.next = self.n.val().any() | !self.cqe.val();
                        if !self.n.val().any() {
                            self.j.next.kind = 0.into();
                        }
                        self.c.d.next.epsn = self.c.q.val().epsn + 1;
                        self.c.d.next.nak = false;
                        self.c.d.next.exp = 2.into();
                        if self.o.val().send {
                            self.c.d.next.exp = 1.into();
                        }
                        if self.o.val().last & !self.o.val().inv {
                            self.c.d.next.exp = 0.into();
                            self.c.d.next.msn = self.c.q.val().msn + 1;
                        }
                        self.c.d.next.va = self.acc.va.val() + bit_cast::<64, 13>(self.n.val());
                        self.c.d.next.rem = self.acc.rest.val();
                        self.c.d.next.rkey = self.key.val();
                        self.c.d.next.len = self.acc.total.val();
                        self.c.d.next.sge = self.sg.q.val();
                        self.c.d.next.off = self.so.q.val() + bit_cast::<32, 13>(self.n.val());
                        self.todo.d.next.ack =
                            self.pq.val().ackreq & !(self.uc.val() | self.ud.val());
                        self.todo.d.next.ctx = true;
                        self.state.d.next = RspState::Fin;
                        if self.o.val().inv {
                            self.state.d.next = RspState::Inv;
                        } else if self.cqe.val() {
                            if !self.srq.val() {
                                self.c.d.next.ci = self.nx.q.val();
                            }
                            self.state.d.next = RspState::Cqe;
                        } else if self.tk.val() {
                            self.c.d.next.held = self.ix.q.val();
                            self.todo.d.next.free = true;
                            self.keep.we.next = true;
                            if self.stride.val().any() {
                                self.state.d.next = RspState::Copy;
                            }
                        }
                    }
                }
            }
            RspState::Copy => {
                // unit `ck` is being read, the one before it is here
                self.ck.d.next = self.ck.q.val() + 1;
                self.prev.next = self.ck.q.val() - 1;
                self.keep.we.next = self.ck.q.val().any();
                if self.ck.q.val() == self.units.val() {
                    self.state.d.next = RspState::Fin;
                }
            }
            RspState::Inv => {
                if self.inv_done.val() & self.inv_ok.val() {
                    self.c.d.next.exp = 0.into();
                    self.c.d.next.msn = self.c.q.val().msn + 1;
                    if !self.srq.val() {
                        self.c.d.next.ci = self.nx.q.val();
                    }
                    self.state.d.next = RspState::Cqe;
                } else if self.inv_done.val() {
                    self.c.d.next.epsn = self.pq.val().psn;
                    self.syn.d.next = 98.into();
                    self.e_kind.d.next = 2.into();
                    self.e_sts.d.next = 10.into();
                    self.state.d.next = RspState::Fatal;
                }
            }
            RspState::Cqe => {
                // the completion and all that Fin does for it
                if self.out.pl_free.val()
                    & ((self.out.ak_free.val() | !self.fin.val().ack) & self.out.rf_free.val())
                {
                    self.out.pl_go.next = true;
                    self.j.next.kind = 2.into();
                    self.j.next.with_imm = self.o.val().imm;
                    if self.o.val().imm {
                        self.j.next.opcode = 1.into();
                    }
                    if self.o.val().write {
                        self.j.next.opcode = 3.into();
                    }
                    self.j.next.with_inv = self.o.val().inv;
                    if self.o.val().inv {
                        self.j.next.opcode = 2.into();
                    }
                    self.j.next.solicited = self.pq.val().se;
                    self.j.next.grh = self.ud.val();
                    if self.ud.val() {
                        // its low bits are the source QPN
                        self.j.next.va = self.pq.val().va;
                    }
                    self.j.next.length = self.c.q.val().len;
                    self.cw.next = true;
                    self.out.ak_go.next = self.fin.val().ack;
                    self.out.rf_go.next = self.gone.val();
                    self.sqw.next = self.tk.val();
                    self.state.d.next = RspState::Idle;
                }
            }
            RspState::Fatal => {
                if self.out.pl_free.val() {
                    self.out.pl_go.next = true;
                    if self.hold.q.val() {
                        self.j.next.kind = 2.into();
                        self.j.next.status = self.e_sts.q.val();
                        if !self.srq.val() {
                            self.c.d.next.ci = self.nx.q.val();
                        }
                    }
                    self.c.d.next.err = true;
                    self.c.d.next.exp = 0.into();
                    self.todo.d.next.free = self.hold.q.val() & self.gone.val();
                    self.todo.d.next.ctx = true;
                    self.todo.d.next.ack = true;
                    self.todo.d.next.err = true;
                    self.state.d.next = RspState::Fin;
                }
            }
            RspState::Free => {
                if self.out.pl_free.val() {
                    self.out.pl_go.next = true;
                    self.state.d.next = RspState::Fin;
                }
            }
            RspState::Fin => {
                if (self.out.ak_free.val() | !self.fin.val().ack)
                    & ((self.out.rf_free.val() | !self.fin.val().free)
                        & (self.out.er_free.val() | !self.fin.val().err))
                {
                    self.cw.next = self.fin.val().ctx;
                    self.out.ak_go.next = self.fin.val().ack;
                    self.out.rf_go.next = self.fin.val().free;
                    self.sqw.next = self.fin.val().free & self.srq.val();
                    self.out.rj_go.next = self.fin.val().read;
                    self.out.er_go.next = self.fin.val().err;
                    self.state.d.next = RspState::Idle;
                }
            }
            RspState::Ctl => {
                self.state.d.next = RspState::Idle;
                self.cwd.next = self.cx.val();
                match self.ct.val().op.index() {
                    0 => {
                        // nothing of the QP is left in an output register
                        if self.out.ak_free.val() & !self.out.rf_busy.val() {
                            self.cwd.next = self.k_zero.val();
                            self.cw.next = true;
                            self.sqw.next = true;
                            self.out.ak_go.next = true;
                            self.sy.next = 255.into();
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
                        self.fl_end.d.next = self.pi_rdata.val() & self.whole.val();
                    }
                    3 => {
                        if self.out.pl_free.val() {
                            self.out.pl_go.next = true;
                            self.j.next.kind = 3.into();
                            self.j.next.free = false;
                            self.ctl_ready.next = true;
                        } else {
                            self.state.d.next = RspState::Ctl;
                        }
                    }
                    6 => {
                        self.from.next = self.sq.val().ci;
                        self.state.d.next = RspState::Limit;
                    }
                    _ => {
                        self.ctl_ready.next = true;
                    }
                }
            }
            RspState::Limit => {
                self.sqw.next = true;
                self.ctl_ready.next = true;
                self.state.d.next = RspState::Idle;
            }
            RspState::Note => {
                if self.st.val() == 6 {
                    self.fl_on.d.next = true;
                    self.fl_ctl.d.next = false;
                    self.fl_qp.d.next = self.qp.q.val();
                    self.fl_end.d.next = self.pi_rdata.val() & self.whole.val();
                }
                self.state.d.next = RspState::Idle;
            }
            RspState::Flush => {
                self.cwd.next = self.cx.val();
                if (self.noq.val() & !self.holds.val())
                    | (!self.noq.val() & (self.cx.val().ci == self.fl_end.q.val()))
                {
                    self.fl_on.d.next = false;
                    self.ctl_ready.next = self.fl_ctl.q.val();
                    self.state.d.next = RspState::Idle;
                } else if self.out.pl_free.val() {
                    self.out.pl_go.next = true;
                    self.j.next.kind = 2.into();
                    self.j.next.free = false;
                    self.j.next.status = 5.into();
                    self.j.next.index = self.cx.val().ci;
                    if self.noq.val() {
                        self.j.next.index = self.cx.val().held;
                    } else {
                        self.cwd.next.ci = self.cx.val().ci + self.step.val();
                    }
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
        // the receive ring of the QP: its own, or that of its SRQ
        self.ring.next = self.qp.q.val();
        if self.srq.val() {
            self.ring.next = self.cfg.val().srqn;
        }
        self.idx_raddr.next = self.ring.val();
        self.srqs.raddr.next = self.ring.val().get_bits::<LOG_QP>(0);
        if self.state.q.val() == RspState::Idle {
            self.idx_raddr.next = self.qa.val();
            self.srqs.raddr.next = self.qa.val().get_bits::<LOG_QP>(0);
        }
        self.more.d.next = self.pi_rdata.val() - self.from.val();
        self.low.d.next = self.more.q.val() < self.sq.val().limit;
        self.srqs.we.next = self.sqw.val();
        self.srqs.waddr.next = self.ring.val().get_bits::<LOG_QP>(0);
        self.sqd.next.ci = self.nx.q.val();
        self.fire.next = self.sqw.val() & self.low.q.val();
        if self.state.q.val() == RspState::Ctl {
            // RESET
            self.srqs.waddr.next = self.qp.q.val().get_bits::<LOG_QP>(0);
            self.sqd.next.ci = 0.into();
            self.sqd.next.limit = 0.into();
            self.fire.next = false;
        }
        if self.state.q.val() == RspState::Limit {
            self.srqs.waddr.next = self.qp.q.val().get_bits::<LOG_QP>(0);
            self.sqd.next.ci = self.sq.val().ci;
            self.lim.next = self.ct.val().psn;
            self.sqd.next.limit = self.lim.val().get_bits::<16>(0);
            self.fire.next = self.more.q.val() < self.lim.val().get_bits::<16>(0);
        }
        if self.fire.val() {
            self.sqd.next.limit = 0.into();
        }
        self.srqs.wdata.next = self.sqd.val();
        self.lim_v.d.next = self.fire.val();
        self.lim_q.d.next = self.ring.val();
        self.lim_valid.next = self.lim_v.q.val();
        self.lim_qp.next = self.lim_q.q.val();
        self.sge.next = self.sg.q.val();
        if self.state.q.val() == RspState::Fetch {
            self.sge.next = self.cx.val().sge;
            if self.chk.first.val() {
                self.sge.next = 0.into();
            }
        }
        self.un.next = self.sge.val().get_bits::<2>(2);
        if self.state.q.val() == RspState::Copy {
            self.un.next = self.ck.q.val().get_bits::<2>(0);
        }
        self.keep.raddr.next =
            (bit_cast::<LOG_KEEP, LOG_QP>(self.qp.q.val().get_bits::<LOG_QP>(0)) << 2)
                | bit_cast::<LOG_KEEP, 2>(self.un.val());
        self.keep.waddr.next =
            (bit_cast::<LOG_KEEP, LOG_QP>(self.qp.q.val().get_bits::<LOG_QP>(0)) << 2)
                | bit_cast::<LOG_KEEP, 2>(self.prev.val().get_bits::<2>(0));
        self.keep.wdata.next = self.slot_rdata.val();
        self.lvl_raddr.next = self.qa.val();
        self.slot_a.next = self.ci.val() + bit_cast::<16, 2>(self.un.val());
        self.slot_raddr.next = (bit_cast::<16, 12>(self.ring.val()) << self.k_rq.val())
            | (self.slot_a.val() & self.k_slot.val());
        self.ctx.raddr.next = self.qa.val().get_bits::<LOG_QP>(0);
        self.ctx.waddr.next = self.qp.q.val().get_bits::<LOG_QP>(0);
        self.ctx.we.next = self.cw.val();
        self.ctx.wdata.next = self.cwd.val();

        // the key is in wire order
        self.im.next = self.pq.val().imm;
        self.iw.next.key = ((bit_cast::<32, 8>(self.im.val().get_bits::<8>(0)) << 24)
            | (bit_cast::<32, 8>(self.im.val().get_bits::<8>(8)) << 16))
            | ((bit_cast::<32, 8>(self.im.val().get_bits::<8>(16)) << 8)
                | bit_cast::<32, 8>(self.im.val().get_bits::<8>(24)));
        self.iw.next.qpn = self.pq.val().qpn;
        self.iw.next.pd = self.cfg.val().pd;
        self.inv_data.next = self.iw.val();
        self.inv_valid.next = self.state.q.val() == RspState::Inv;
        self.calm.next =
            (self.state.q.val() == RspState::Idle) | (self.state.q.val() == RspState::Inv);

        self.out.pl.next = self.j.val();
        self.out.qp.next = self.qp.q.val();
        self.out.p.next = self.pq.val();
        self.out.c.next = self.c.q.val();
        self.out.fq.next = self.ring.val();
        self.out.fi.next = self.nx.q.val();
        self.out.cfg.next = self.cfg.val();
        self.out.psn.next = self.psn.q.val();
        self.out.syn.next = self.sy.val();
        self.out.kind.next = self.e_kind.q.val();
        self.out.o.next = self.o.val();
        self.out.dup.next = !self.v.val().eq;
        self.pl_valid.next = self.out.pl_valid.val();
        self.pl_data.next = self.out.pl_data.val();
        self.out.pl_ready.next = self.pl_ready.val();
        self.ack_valid.next = self.out.ack_valid.val();
        self.ack_data.next = self.out.ack_data.val();
        self.out.ack_ready.next = self.ack_ready.val();
        self.rj_valid.next = self.out.rj_valid.val();
        self.rj_data.next = self.out.rj_data.val();
        self.out.rj_ready.next = self.rj_ready.val();
        self.rqfree_valid.next = self.out.rqfree_valid.val();
        self.rqfree_data.next = self.out.rqfree_data.val();
        self.out.rqfree_ready.next = self.rqfree_ready.val();
        self.err_valid.next = self.out.err_valid.val();
        self.err_data.next = self.out.err_data.val();
        self.out.err_ready.next = self.err_ready.val();
        self.idle.next = ((self.state.q.val() == RspState::Idle)
            & (!self.held.q.val() & !self.lim_v.q.val()))
            & (!self.fl_on.q.val() & self.out.idle.val());
        if self.rst.val() {
            self.state.d.next = RspState::Idle;
            self.held.d.next = false;
            self.turn.d.next = false;
            self.fl_on.d.next = false;
            self.fl_ctl.d.next = false;
        }
    }
}
