//! Requester: segmentation, acknowledgement, completion and timers of RC queue pairs.
//!
//! One FSM (`fsm.rs`) works on one QP at a time: it reads configuration, context and a send WQE, decides, emits, writes the context back. Only this
//! block reads or writes the context ([`ReqCtx`]). Everything that a packet needs follows from the context and the WQE: the payload position is
//! `PSN - first PSN of the WQE` packets, and the SGE list is walked from SGE 0 each time. So SGE, offset, residue, opcode and PSN go back as one
//! when a rewind sets them back, and a READ response is placed by its PSN alone.
//!
//! # Events, and which goes first
//! `ctl`, then `td`, then `rx` in turn with the rest, expired timer, scheduled QP. A send visit starts only while the `tx` register is free, a receive visit only
//! while the `pl` register is free.
//!
//! # States
//! | state | does | next |
//! |---|---|---|
//! | Init | clears contexts and timers, one QP per cycle | Idle |
//! | Idle | picks an event; takes the `rx` packet | Load |
//! | Load | context, `cfg`, `avail`, `stamp` arrive; reads the slot of `wqe_next` (send) or `una` (all else) | Hdr; Ctl |
//! | Hdr | WQE and SGE 0 arrive; send: live, RTS/SQD, no RNR wait, window, WQE there | TxPrep, Flush, RxPrep, Tmr; Idle |
//! | TxPrep | WQE well formed, READ limit, fence; packet size; SGE 0 as in Walk | Chk, Nxt, Lerr; Idle |
//! | RxPrep | QPN tag, state, PSN window, kind of response; packet size; SGE 0 as in Walk | Chk, Nxt (expected READ response), RxB, Drop |
//! | Walk | skips SGEs before the payload position; MR offset and slack | Chk, Nxt, Lerr, Fail |
//! | Chk | bounds, piece length, response opcode and length | Emit |
//! | Emit | send: `tx` piece; receive: `pl` piece | Idle, Nxt, Rst, Lerr; Fin, RdC, Nxt, Fail |
//! | Win | LOCAL_INV, BIND_MW: the window unit carries it out | RdC; Lerr |
//! | Nxt | next SGE | Walk |
//! | Rst | back to SGE 0: all pieces are checked, now send them | Nxt |
//! | Lerr | local error at `wqe_next`: wait until it is the oldest | Fail, Idle |
//! | RxB | frees the slot of an ACK | Comp |
//! | Comp | completes the WQE at `una` if acknowledged as a whole | Hdr (next WQE), Act, Gap, Fin |
//! | Act | what the response asks for: nothing, RNR wait, rewind, error, READ data | Fin, Fail, Walk, Chk |
//! | Gap | acknowledged beyond a READ with data missing (implied NAK): rewind, once | Fin, Fail |
//! | RdC | completes a READ, LOCAL_INV or BIND_MW, or what is not acknowledged | Fin |
//! | Fin | position after a rewind, timer, `sqfree`, context back, QP scheduled again | Idle |
//! | Drop | frees the slot | Idle |
//! | Fail | error CQE for the WQE at `una`, `err` | Idle |
//! | Flush | WR_FLUSH_ERR for the WQE at `una` | Idle |
//! | Tmr | RNR wait over, or local ACK timeout: rewind | Fin, Fail, Idle |
//! | Ctl | RESET, START, FLUSH, FENCE, QUERY, KICK | Idle |
//!
//! # Rules
//! * A packet goes out only after all SGEs it touches are checked: one SGE in the same pass, more in a pass of their own. The first visit of a WQE
//!   with several SGEs, and every READ, checks the whole list and its sum.
//! * Window: no new packet while 256 PSNs are unacknowledged. A READ takes all its PSNs at once.
//! * A fenced WQE waits until no READ is outstanding, and then, if READ data was placed since the last fence, until a token (`pl` kind 3, slot 1) has come back on
//!   `pl_fence`: the data is in host memory before the WQE's payload is read from there.
//! * READ data out of order rewinds once; the `gap` flag holds until progress or a timeout.
//! * A deadline runs while anything is unacknowledged; it starts again on progress and on a rewind. RNR wait uses the same deadline.
//! * A NAK or ACK outside `psn_una .. psn_max` is dropped, and counted, without effect.
//! * UD: SEND and SEND_IMM of one packet, at most 14 SGEs; the address vector is unit 1 of the WQE.
//! * UC: SEND and WRITE only, UD too: nothing is outstanding (`psn_una` goes along), no timer; a WQE completes when the egress reports its last packet on
//!   `td`, which goes before everything but `ctl`. So at most the packets between here and the egress are in its queue of 128.
//! * LOCAL_INV and BIND_MW (RC, UC) take no PSN. They begin when they are the oldest WQE, so all before are complete (READ data is in host memory with `fence`),
//!   and nothing behind them begins before they are done: a rewind never meets one that was carried out. What the window unit refuses is MW_BIND_ERR.
//! * Opcodes: SEND, SEND_IMM, SEND_INV, WRITE, WRITE_IMM, READ, CMP_SWAP, FETCH_ADD (one SGE of 8 bytes; an atomic goes the way of a READ of one
//!   packet, its data comes in the header of the ATOMIC ACK). Inline data (SEND, WRITE: up to 32 bytes of unit 0 behind byte 32, no SGE) goes
//!   along in the `TxCmd`. Other opcodes end with LOC_QP_OP.
//!
//! # Cycles
//! Send: 6 per packet with one SGE, same QP back to back; 2 more per SGE skipped, 4 per further piece (8 while checking and sending it). READ response: 7 per packet with one
//! piece, 1 more for the last. ACK: 7, 4 more per further WQE completed. LOCAL_INV, BIND_MW: about 20, in which no other QP is served. A visit without work: 3.

mod consts;
mod fence;
mod fsm;
mod sched;
mod timer;

pub use consts::Consts;
pub use fence::FenceSplit;
pub use sched::Sched;
pub use timer::{Deadline, Timer};

use crate::layouts::{MrCheck, QpCfg, SgeUnit};
use crate::packed_struct;
use crate::prims::{Fifo, SdpRam, Skid};
use crate::types::{PlJob, QpCtl, QpErr, QpIdx, RxPkt, TxCmd};
use crate::window::WinJob;
use rust_hdl::prelude::*;

// A kernel takes literals only (a constant signal costs a level here): the 32 of the inline check and its 256 bits are these.
const _: () = {
    use metaroce_hdl_spec::wqe::{INLINE_AT, MAX_INLINE};
    assert!(MAX_INLINE == 32 && INLINE_AT * 8 == 256)
};
// The fields of a BIND_MW are taken from where those of other WQEs stand.
const _: () = {
    use metaroce_hdl_spec::wqe::{bind as b, sq};
    assert!(
        b::key.lo == sq::imm.lo && b::va.lo == sq::remote_va.lo && b::lkey.lo == sq::sge0_key.lo
    );
    assert!(b::len.lo == sq::sge0_va.lo && b::len.width == 48);
    let at = sq::sge0_len.lo;
    assert!(b::write.lo == at + 1 && b::read.lo == at + 2 && b::atomic.lo == at + 3)
};

packed_struct! {
    /// Requester part of a QP.
    pub struct ReqCtx {
        /// START has been given since the last RESET.
        pub live: bool,
        /// Every WQE is flushed.
        pub err: bool,
        /// Status of the next flushed WQE in place of WR_FLUSH_ERR.
        pub fstat: Bits<8>,
        /// Oldest WQE that is not completed (unit index), its first PSN, and the oldest unacknowledged PSN.
        pub una: Bits<16>,
        pub una_first: Bits<24>,
        pub psn_una: Bits<24>,
        /// Next packet to send: WQE, payload bytes of it already sent, PSN.
        pub wqe_next: Bits<16>,
        pub tx_off: Bits<32>,
        pub psn_next: Bits<24>,
        /// Highest PSN ever sent, plus 1.
        pub psn_max: Bits<24>,
        /// READs between `una` and `wqe_next`.
        pub rd_out: Bits<5>,
        /// READ data was placed since the last fence.
        pub dirty: bool,
        /// Rewound for missing READ data.
        pub gap: bool,
        pub rnr_wait: bool,
        pub retry: Bits<3>,
        pub rnr: Bits<3>,
        /// Deadline, see [`Deadline`].
        pub tv: bool,
        pub tdl: Bits<38>,
    }
}

packed_struct! {
    /// First half of `layouts::Sq`.
    pub struct WqeHead {
        pub opcode: Bits<8>,
        pub signaled: bool,
        pub fence: bool,
        pub solicited: bool,
        pub inline: bool,
        pub rsv0: Bits<4>,
        pub num_sge: Bits<5>,
        pub rsv1: Bits<3>,
        pub units: Bits<3>,
        pub rsv2: Bits<5>,
        pub imm: Bits<32>,
        pub length: Bits<32>,
        pub index: Bits<16>,
        pub rsv3: Bits<16>,
        pub remote_va: Bits<64>,
        pub rkey: Bits<32>,
        pub qpn: Bits<24>,
        pub rsv4: Bits<8>,
    }
}

packed_struct! {
    pub struct Sge { pub va: Bits<64>, pub len: Bits<32>, pub key: Bits<32> }
}

packed_struct! {
    /// What is kept of a received packet.
    pub struct RxLite {
        pub opcode: Bits<8>,
        pub qpn: Bits<24>,
        pub psn: Bits<24>,
        pub syn: Bits<8>,
        pub src: Bits<20>,
        pub len: Bits<13>,
        pub slot: Bits<7>,
        pub stamp: Bits<48>,
        /// ATOMIC ACK: original data.
        pub orig: Bits<64>,
    }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St {
    Init,
    Idle,
    Load,
    Hdr,
    TxPrep,
    RxPrep,
    Walk,
    Chk,
    Emit,
    Nxt,
    Rst,
    Lerr,
    RxB,
    Comp,
    Act,
    Gap,
    RdC,
    Fin,
    Drop,
    Fail,
    Flush,
    Tmr,
    Ctl,
    Win,
}

/// See the module. `LOG_QP`, `LOG_SQ` (WQE slots per QP), `LOG_MR`: log2 of the tables. QPN = `tag << LOG_QP | index`.
///
/// * `rx_ready` is high for one cycle when a packet is taken (it needs `rx_valid`); its slot is released by exactly one `pl` job with `free`.
/// * `ctl_ready` is high for one cycle; `ctl_psn` (next new PSN), `ctl_idx` (oldest unit) and `ctl_busy` (sent packets are unacknowledged, or a message
///   is half sent) belong to that cycle.
/// * `pl_fence`: pulse of the placement for a fence token with slot 1 (see [`FenceSplit`]).
/// * `deadline` in ns with `deadline_valid`: see [`Timer`]; valid only while `idle`. All ones: no timer runs.
/// * After `rst` the block is busy for `2^LOG_QP` cycles.
#[derive(LogicBlock, Default)]
pub struct Requester<const LOG_QP: usize, const LOG_SQ: usize, const LOG_MR: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub now: Signal<In, Bits<48>>,
    pub sched_valid: Signal<In, bool>,
    pub sched_data: Signal<In, QpIdx>,
    pub sched_ready: Signal<Out, bool>,
    pub rx_valid: Signal<In, bool>,
    pub rx_data: Signal<In, RxPkt>,
    pub rx_ready: Signal<Out, bool>,
    pub ctl_valid: Signal<In, bool>,
    pub ctl_data: Signal<In, QpCtl>,
    pub ctl_ready: Signal<Out, bool>,
    pub ctl_psn: Signal<Out, Bits<24>>,
    pub ctl_idx: Signal<Out, Bits<16>>,
    pub ctl_busy: Signal<Out, bool>,
    pub cfg_raddr: Signal<Out, Bits<12>>,
    pub cfg_rdata: Signal<In, QpCfg>,
    pub mrc_raddr: Signal<Out, Bits<16>>,
    pub mrc_rdata: Signal<In, MrCheck>,
    pub slot_raddr: Signal<Out, Bits<16>>,
    pub slot_rdata: Signal<In, Bits<512>>,
    pub avail_raddr: Signal<Out, Bits<12>>,
    pub avail_rdata: Signal<In, Bits<16>>,
    pub stamp_raddr: Signal<Out, Bits<12>>,
    pub stamp_rdata: Signal<In, Bits<48>>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, TxCmd>,
    pub tx_ready: Signal<In, bool>,
    pub pl_valid: Signal<Out, bool>,
    pub pl_data: Signal<Out, PlJob>,
    pub pl_ready: Signal<In, bool>,
    pub pl_fence: Signal<In, bool>,
    /// The last packet of the oldest message of a UC or UD QP has left.
    pub td_valid: Signal<In, bool>,
    pub td_qp: Signal<In, Bits<12>>,
    pub td_ready: Signal<Out, bool>,
    /// Address vector (`UdAv`) of each UD packet, in the order of `tx`.
    pub ua_valid: Signal<Out, bool>,
    pub ua_data: Signal<Out, Bits<309>>,
    pub ua_ready: Signal<In, bool>,
    pub sqfree_valid: Signal<Out, bool>,
    pub sqfree_data: Signal<Out, QpIdx>,
    pub sqfree_ready: Signal<In, bool>,
    /// A constant of the card: atomics end with LOC_QP_OP.
    pub no_atomics: Signal<In, bool>,
    pub err_valid: Signal<Out, bool>,
    pub err_data: Signal<Out, QpErr>,
    pub err_ready: Signal<In, bool>,
    /// To the window unit: held until `win_done`.
    pub win_valid: Signal<Out, bool>,
    pub win_data: Signal<Out, WinJob>,
    pub win_done: Signal<In, bool>,
    pub win_ok: Signal<In, bool>,
    pub deadline: Signal<Out, Bits<48>>,
    pub deadline_valid: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    pub ev_retransmit: Signal<Out, bool>,
    pub ev_timeout: Signal<Out, bool>,
    /// A work request has completed with success.
    pub ev_message: Signal<Out, bool>,
    pub ev_drop_response: Signal<Out, bool>,
    pub ev_drop_qp: Signal<Out, bool>,
    pub ev_rnr_nak: Signal<Out, bool>,
    pub ev_seq_nak: Signal<Out, bool>,
    pub ev_fatal_nak: Signal<Out, bool>,
    k: Consts<LOG_QP, LOG_SQ, LOG_MR>,
    ram: SdpRam<ReqCtx, LOG_QP>,
    sched: Sched<LOG_QP>,
    timer: Timer<LOG_QP>,
    tdq: Fifo<Bits<12>, 7>,
    // event at hand: 0 send, 1 receive, 2 timer, 3 ctl
    st: DFF<St>,
    walk: DFF<Bits<LOG_QP>>,
    ev: DFF<Bits<2>>,
    // with event 2: a message has left
    tdv: DFF<bool>,
    // address vector of a UD WQE: it arrives, is here, waits at the port
    uv: DFF<bool>,
    uav: DFF<Bits<309>>,
    ua_v: DFF<bool>,
    qp: DFF<Bits<12>>,
    was_rx: DFF<bool>,
    c: DFF<ReqCtx>,
    g: DFF<QpCfg>,
    av: DFF<Bits<16>>,
    stp: DFF<Bits<48>>,
    r: DFF<RxLite>,
    // WQE at hand, its unit index, the SGE at hand and its place (SGE number + 2), and that of the next one
    wi: DFF<Bits<16>>,
    h: DFF<WqeHead>,
    s: DFF<Sge>,
    k2: DFF<Bits<5>>,
    k3: DFF<Bits<5>>,
    // packet at hand
    skip: DFF<Bits<32>>,
    rem: DFF<Bits<32>>,
    nleft: DFF<Bits<24>>,
    plen: DFF<Bits<13>>,
    left: DFF<Bits<13>>,
    last: DFF<bool>,
    first: DFF<bool>,
    fs: DFF<bool>,
    zl: DFF<bool>,
    all: DFF<bool>,
    mode: DFF<Bits<2>>,
    // path MTU as a shift and in bytes
    sh: DFF<Bits<4>>,
    mtub: DFF<Bits<13>>,
    // distances: psn_una - una_first, psn_max - psn_una, psn_max - psn_next; the window has room (all as the visit begins; the first two follow psn_una)
    ur: DFF<Bits<24>>,
    oa: DFF<Bits<24>>,
    ob: DFF<Bits<24>>,
    opn: DFF<bool>,
    // the WQE to send next is the oldest one
    alone: DFF<bool>,
    // of the WQE at hand: units from it to the end of what is fetched, its units, is malformed, has a wrong length
    avd: DFF<Bits<16>>,
    step: DFF<Bits<3>>,
    wbad: DFF<bool>,
    szbad: DFF<bool>,
    lbad: DFF<bool>,
    sbad: DFF<bool>,
    one: DFF<bool>,
    l2bad: DFF<bool>,
    // inline data
    ib: DFF<Bits<256>>,
    // operands of an atomic
    swap: DFF<Bits<64>>,
    cmpl: DFF<Bits<32>>,
    cmph: DFF<Bits<32>>,
    // rest of the message rounded up to packets; it is empty
    up: DFF<Bits<32>>,
    rz: DFF<bool>,
    // SGE piece at hand
    room: DFF<Bits<32>>,
    segva: DFF<Bits<64>>,
    off: DFF<Bits<64>>,
    lim: DFF<Bits<65>>,
    fl: DFF<bool>,
    ok: DFF<bool>,
    badr: DFF<bool>,
    kend: DFF<bool>,
    sum: DFF<Bits<36>>,
    sumok: DFF<bool>,
    seglen: DFF<Bits<13>>,
    segall: DFF<bool>,
    lstat: DFF<Bits<8>>,
    // response at hand
    rd: DFF<Bits<24>>,
    acnt: DFF<Bits<24>>,
    act: DFF<Bits<3>>,
    re: DFF<bool>,
    need_free: DFF<bool>,
    prog: DFF<bool>,
    rw: DFF<bool>,
    setr: DFF<bool>,
    shut: DFF<bool>,
    unach: DFF<bool>,
    // fence token of WQEs: 0 none, 1 on its way, 2 back
    fw: DFF<Bits<2>>,
    fw_qp: DFF<Bits<12>>,
    fw_push: DFF<bool>,
    // output registers
    ip_v: DFF<bool>,
    ip_qp: DFF<Bits<12>>,
    tx_v: DFF<bool>,
    tx_d: DFF<TxCmd>,
    // a slice, so that its room hangs on no arbiter
    pl: Skid<PlJob>,
    sq_v: DFF<bool>,
    sq_d: DFF<QpIdx>,
    er_v: DFF<bool>,
    er_d: DFF<QpErr>,
    e_retx: DFF<bool>,
    e_tmo: DFF<bool>,
    e_msg: DFF<bool>,
    e_drop: DFF<bool>,
    e_dqp: DFF<bool>,
    e_rnr: DFF<bool>,
    e_seq: DFF<bool>,
    e_fat: DFF<bool>,
    // values of this cycle
    x: Signal<Local, ReqCtx>,
    n: Signal<Local, ReqCtx>,
    wb: Signal<Local, bool>,
    wa: Signal<Local, Bits<LOG_QP>>,
    zero: Signal<Local, Bits<{ ReqCtx::BITS }>>,
    gg: Signal<Local, QpCfg>,
    hh: Signal<Local, WqeHead>,
    ss: Signal<Local, Sge>,
    rr: Signal<Local, RxLite>,
    rxp: Signal<Local, RxPkt>,
    ct: Signal<Local, QpCtl>,
    sd: Signal<Local, QpIdx>,
    mr: Signal<Local, MrCheck>,
    su: Signal<Local, SgeUnit>,
    nx: Signal<Local, Sge>,
    crd: Signal<Local, ReqCtx>,
    hlen: Signal<Local, Bits<32>>,
    gn: Signal<Local, QpCfg>,
    sh_n: Signal<Local, Bits<4>>,
    mtub_n: Signal<Local, Bits<13>>,
    hw: Signal<Local, WqeHead>,
    wlen: Signal<Local, Bits<32>>,
    wlow: Signal<Local, Bits<31>>,
    skip_n: Signal<Local, Bits<32>>,
    size: Signal<Local, bool>,
    walk1: Signal<Local, bool>,
    jump: Signal<Local, bool>,
    more: Signal<Local, bool>,
    psn_send: Signal<Local, Bits<24>>,
    next2: Signal<Local, Bits<16>>,
    mtu32: Signal<Local, Bits<32>>,
    now10: Signal<Local, Bits<38>>,
    tmo: Signal<Local, Bits<38>>,
    tmo_at: Signal<Local, Bits<38>>,
    tmo_on: Signal<Local, bool>,
    tmo_n: Signal<Local, Bits<5>>,
    rnr_n: Signal<Local, Bits<38>>,
    rnr_at: Signal<Local, Bits<38>>,
    late: Signal<Local, Bits<38>>,
    urel: Signal<Local, Bits<24>>,
    poff: Signal<Local, Bits<32>>,
    used: Signal<Local, Bits<24>>,
    used_hi: Signal<Local, Bits<16>>,
    out_a: Signal<Local, Bits<24>>,
    out_b: Signal<Local, Bits<24>>,
    behind: Signal<Local, bool>,
    started: Signal<Local, bool>,
    toff: Signal<Local, Bits<32>>,
    rts: Signal<Local, bool>,
    sqd: Signal<Local, bool>,
    idxok: Signal<Local, bool>,
    unok: Signal<Local, bool>,
    una2: Signal<Local, Bits<16>>,
    enough: Signal<Local, bool>,
    isread: Signal<Local, bool>,
    isatom: Signal<Local, bool>,
    watom: Signal<Local, bool>,
    wat: Signal<Local, bool>,
    islocal: Signal<Local, bool>,
    wlocal: Signal<Local, bool>,
    sslen: Signal<Local, Bits<32>>,
    ssva: Signal<Local, Bits<64>>,
    wj: Signal<Local, WinJob>,
    orig: Signal<Local, Bits<64>>,
    nsge: Signal<Local, Bits<5>>,
    few: Signal<Local, bool>,
    winl: Signal<Local, bool>,
    badin: Signal<Local, bool>,
    badop: Signal<Local, bool>,
    badsz: Signal<Local, bool>,
    badlen: Signal<Local, bool>,
    badsum: Signal<Local, bool>,
    over32: Signal<Local, bool>,
    over4k: Signal<Local, bool>,
    multi: Signal<Local, bool>,
    k1: Signal<Local, Bits<5>>,
    pos: Signal<Local, Bits<2>>,
    kend_n: Signal<Local, bool>,
    unit: Signal<Local, Bits<3>>,
    sidx: Signal<Local, Bits<16>>,
    sqp: Signal<Local, bool>,
    txp: Signal<Local, bool>,
    plp: Signal<Local, bool>,
    halt: Signal<Local, bool>,
    mkey: Signal<Local, Bits<32>>,
    opx: Signal<Local, Bits<8>>,
    iswrite: Signal<Local, bool>,
    key: Signal<Local, Bits<32>>,
    remup: Signal<Local, Bits<32>>,
    npk: Signal<Local, Bits<32>>,
    npsn: Signal<Local, Bits<24>>,
    room_n: Signal<Local, Bits<32>>,
    left32: Signal<Local, Bits<32>>,
    acnt_n: Signal<Local, Bits<24>>,
    rd1: Signal<Local, Bits<24>>,
    psn_end: Signal<Local, Bits<24>>,
    syn: Signal<Local, Bits<8>>,
    aeth: Signal<Local, Bits<32>>,
    psn24: Signal<Local, Bits<24>>,
    psn4: Signal<Local, Bits<4>>,
    hop: Signal<Local, Bits<8>>,
    cop: Signal<Local, Bits<3>>,
    done: Signal<Local, bool>,
    hraw: Signal<Local, Bits<256>>,
    syn3: Signal<Local, Bits<3>>,
    syn5: Signal<Local, Bits<5>>,
    tag24: Signal<Local, Bits<24>>,
    rtag: Signal<Local, Bits<24>>,
    qpn: Signal<Local, Bits<24>>,
    rqp: Signal<Local, Bits<24>>,
    isack: Signal<Local, bool>,
    isresp: Signal<Local, bool>,
    qok: Signal<Local, bool>,
    wfirst: Signal<Local, bool>,
    opok: Signal<Local, bool>,
    em: Signal<Local, bool>,
    pay: Signal<Local, bool>,
    piece_all: Signal<Local, bool>,
    push: Signal<Local, bool>,
    sel: Signal<Local, Bits<12>>,
    do_ctl: Signal<Local, bool>,
    do_rx: Signal<Local, bool>,
    do_tmr: Signal<Local, bool>,
    do_td: Signal<Local, bool>,
    rc: Signal<Local, bool>,
    ud: Signal<Local, bool>,
    badty: Signal<Local, bool>,
    ulive: Signal<Local, Bits<309>>,
    nraw: Signal<Local, Bits<3>>,
    unit0: Signal<Local, Bits<3>>,
    do_tx: Signal<Local, bool>,
    take_ip: Signal<Local, bool>,
    other: Signal<Local, bool>,
    txfree: Signal<Local, bool>,
    plfree: Signal<Local, bool>,
    sqok: Signal<Local, bool>,
    erok: Signal<Local, bool>,
    ipok: Signal<Local, bool>,
    t: Signal<Local, TxCmd>,
    j: Signal<Local, PlJob>,
    q: Signal<Local, QpIdx>,
    e: Signal<Local, QpErr>,
}

impl<const LOG_QP: usize, const LOG_SQ: usize, const LOG_MR: usize>
    Requester<LOG_QP, LOG_SQ, LOG_MR>
{
    /// State at hand, for messages of tests.
    pub fn debug(&self) -> String {
        format!(
            "{:?} qp {:x} fence {:x} of {:x} push {} tx {} pl {} sched {} timer {} {:x?}",
            self.st.q.val(),
            self.qp.q.val(),
            self.fw.q.val(),
            self.fw_qp.q.val(),
            self.ip_v.q.val(),
            self.tx_v.q.val(),
            self.pl.m_valid.val(),
            self.sched.idle.val(),
            self.timer.m_valid.val(),
            self.c.q.val()
        )
    }
}
