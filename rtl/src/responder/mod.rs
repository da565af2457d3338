//! The RSP part of a QP: order of requests, all checks, effects.
pub mod access;
pub mod checks;
pub mod ctx;
pub mod decode;
pub mod defaults;
mod kernel;
pub mod mr_gate;
pub mod outs;

use crate::layouts::{Av, MrCheck, QpCfg, Rq};
use crate::prims::SdpRam;
use crate::types::{AckReq, PlJob, QpCtl, QpErr, QpIdx, ReadJob, RxPkt};
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
/// * NAK 0x60 once per gap. 0x61: opcode sequence, unsupported opcode (SEND with invalidate), length, class right, an atomic that
///   is not aligned to 8, too many READs. 0x62: MR
///   check. 0x63: SGE check (its whole range must lie in its MR). The last three put the QP into error (`err`), with a CQE for a held receive WQE.
/// * READ (an atomic goes the same way): goes to the READ responder when its ring (port `lvl`) has room, else it is dropped without effect. More jobs in the ring than
///   `max_dest_rd` is an error of the requester, unless duplicates are among them. Duplicate READs are executed again if they lie before ePSN and
///   pass all checks, else they are dropped.
/// * Each packet gives `pl` jobs, the last with `free`. `ack` wishes carry syndrome 0xFF for "take the wish back": at RESET, and when a
///   new READ is accepted, whose response says all that an older wish could say (a duplicate READ takes nothing back).
/// * `ctl`: RESET, START (sets ePSN), FLUSH (posted receives complete with WR_FLUSH, packets go on between them), FENCE, QUERY. `notify` of a QP in ERR
///   flushes what was posted since. Flushed WQEs are not reported on `rqfree`.
/// * II with all outputs ready: WRITE 7, SEND with one SGE 7 (8 with an SRQ, and in a First packet 2 + 2^rq_stride more if an entry has several units), + 4 for each
///   further SGE (5 into the next unit); READ 8; dropped 6 (WRITE, SEND and READ measured by `initiation_intervals`).
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
    pub err_valid: Signal<Out, bool>,
    pub err_data: Signal<Out, QpErr>,
    pub err_ready: Signal<In, bool>,
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
    srq: Signal<Local, bool>,
    /// The table entry is that of an SRQ, or the QP has one: no ring to flush.
    noq: Signal<Local, bool>,
    holds: Signal<Local, bool>,
    /// The packet takes an entry of the SRQ.
    tk: Signal<Local, bool>,
    gone: Signal<Local, bool>,
    fire: Signal<Local, bool>,
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
    err_valid, err_data, err_ready, ev_drop_qp, ev_duplicate, ev_sequence, ev_cnp, ev_ecn, lim_valid, lim_qp, idle, ctx, srqs, keep, chk, acc, out, state, qp, p, held,
    turn, c, sg, so, ml, left, src, ix, nx, kept, more, low, ck, hold, todo, psn, syn, e_kind, e_sts, fl_on, fl_ctl, fl_qp, fl_end, pq, qpn, cfg, st, uc, ud, v4, sip, back, src0, op0, gh, v4r, fresh, cx, cw,
    cwd, o, v, slot, key, n, need_rq, cqe, fin, sy, j, ct, pk, qa, slot_a, srq, noq, holds, tk, gone, fire, stride, step, units, whole,
    last_sge, sge, ring, sq, sqw, sqd, ci, from, un, prev, word, lim;
    assert LOG_QP <= 12 && LOG_MR <= 16 && LOG_QP + LOG_RQ <= 16 && LOG_RQ >= 2 && LOG_KEEP == LOG_QP + 2;
    k_job: Constant::new(PlJob::default()),
    // ::ffff:0:0, first wire byte lowest
    k_v4: Constant::new(Bits::<96>::from(0xFFFFu64) << 80),
    k_rq: Constant::new((LOG_RQ as u64).into()),
    k_slot: Constant::new(((1u64 << LOG_RQ) - 1).into()),
    k_zero: Constant::new(RspCtx::default()),
    k_todo: Constant::new(ToDo::default()),
} }
