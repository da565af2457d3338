//! Command sequencer: commands of the host, the QP state machine, and all tables.
//!
//! It runs small programs ([`program`]) over a work memory of 32-bit words: the command lies in it, field moves bring its fields into table
//! entries, checks and look-ups come first, and only then something changes. Layouts come from `hdl-spec`, legal transitions from the protocol
//! crate's table. [`asm`] describes the instructions.
//!
//! # Cycles
//! An instruction takes 4 to 9 cycles, LOOKUP 10, QPLOAD 12 and 20, STORE 22, a reset sweep `2^max(LM, LO, ..)` (8192 in `sim-100g`), a walk over a
//! PASID's objects one cycle an object of the card. MODIFY_QP to RTR: about 650 cycles with its read. A nearly full table makes ALLOC search, 3 cycles
//! an index.
//!
//! # What can wait for what
//! `err_ready` never depends on an order in progress: at most one error per QP is kept, a second one for the same QP is dropped (the QP goes to ERR
//! anyway). Errors are handled before the next command. `ev` must be taken by the placement without waiting for the requester or responder.

pub mod asm;
mod defaults;
mod drain;
mod errq;
mod fsm;
mod kinds;
pub mod program;
mod quota;
pub mod rom;
pub mod rule;
mod special;
mod srq;

use crate::layouts::*;
use crate::packed_struct;
use crate::prims::{Fifo, SdpRam, SdpRam2R};
use crate::types::*;
use crate::window::WinOrder;
use asm::{Uop, LOG_PROG, UOP_BITS};
use drain::Drain;
use errq::ErrQueue;
use kinds::Kinds;
use metaroce_hdl_spec::regs;
pub use quota::Quota;
use rom::Rom;
use rule::QpRule;
use rust_hdl::prelude::*;
use special::Special;

packed_struct! {
    /// An object: MR, QP (or SRQ), CQ, PD or EQ.
    pub struct Obj {
        pub used: bool,
        pub pasid: Bits<12>,
        /// QPN bits above the index, or variant of a key.
        pub tag: Bits<16>,
        /// Users of a PD, CQ or SRQ; PD of an MR.
        pub n: Bits<16>,
    }
}

packed_struct! {
    /// An entry of the GID table.
    pub struct GidEntry {
        pub mac: Bits<48>,
        pub rsv: Bits<16>,
        pub gid: Bits<128>,
        pub valid: bool,
        pub ip6: bool,
    }
}

packed_struct! {
    /// Address of an object: its index in the MR part, or its place in the part of the others.
    pub struct ObjAddr {
        pub at: Bits<16>,
        pub other: bool,
    }
}

packed_struct! {
    /// Predicates: see `asm::pred`.
    pub struct Preds {
        pub mask: Bits<21>,
        pub always: bool,
        pub mr: bool,
        pub qp: bool,
        pub cq: bool,
        pub eq: bool,
        pub to_rtr: bool,
        pub to_rts: bool,
        pub kick: bool,
        pub to_reset: bool,
        pub to_err: bool,
        pub live: bool,
        pub event: bool,
        pub drain: bool,
        pub srq: bool,
        pub live_srq: bool,
        pub err_srq: bool,
    }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St {
    Boot,
    Idle,
    Addr,
    Ask,
    Wait,
    Begin,
    Begin2,
    Out,
    Fetch,
    Dec,
    Cond,
    Go,
    Rd,
    Rot,
    Ex,
    Add,
    Put,
    Judge,
    In,
    Tab,
    Lk0,
    Lk1,
    Lk2,
    Lk3,
    Lk4,
    Al0,
    Al1,
    Al2,
    Al3,
    Tr1,
    Tr2,
    Tr3,
    Ctl,
    Scan,
    Scan2,
    Found,
    Found2,
    Found3,
    Event,
    Port,
    Win,
    Resp,
    Wr,
}

/// The command sequencer.
///
/// * `W`: bus bits. `LQ`, `LM`, `LC`, `LP`: log2 of QPs, MRs, CQs, PDs. `LS`: log2 of PASIDs. `LO`: log2 of the object table without MRs, which holds
///   `2^LQ + 2^LC + 2^LP + 2^LS` objects. `MAX_RD`: largest `max_rd` and `max_dest_rd`.
/// * `cmddb`: command doorbells; the block is read with tag 0xE0 (two reads when it crosses 4 KiB) and answered by one 64-byte write. A block that
///   is not 64-byte aligned or can't be read counts as refused and has no answer.
/// * `err`: QPs that must go to ERR; always taken within a few cycles.
/// * A write of LINK that changes it becomes PORT_ACTIVE or PORT_ERR of every PASID (those without an event queue drop it).
/// * An SRQ is an entry of the QP table. SRQ_LIMIT follows each `lim`. LAST_WQE of a QP with an SRQ follows a fence behind its FLUSH, so that its last
///   CQE is there. An SRQ whose ring can't be read (kind 1) goes to ERR with SRQ_ERR; its QPs find it empty.
/// * SQ_DRAINED: see [`Drain`]; whether the send queue has drained is `rqr_busy` of a QUERY.
/// * Table writes go to every copy of a table at once; `rst` clears all entries.
/// * QPN = tag << LQ | index with a random tag that is never 0 nor all ones, so that QPN 0, 1 and 0xFFFFFF are nobody's. Key = index << 8 | random variant, index 0 unused.
///   Seeded by the SEED register, mixed with `now` at each command.
/// * `eqctl_log` = 0: the PASID's EQ is gone. `cqctl` and `eqctl` are pulses in the cycle of the table write.
/// * `ev_cmd`/`ev_cmd_refused`: one pulse a command; `ev_qp_error`: a QP was moved to ERR.
#[derive(LogicBlock)]
pub struct Sequencer<
    const W: usize,
    const LQ: usize,
    const LM: usize,
    const LC: usize,
    const LP: usize,
    const LS: usize,
    const LO: usize,
    const MAX_RD: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub now: Signal<In, Bits<48>>,
    pub cmddb_valid: Signal<In, bool>,
    pub cmddb_data: Signal<In, CmdDb>,
    pub cmddb_ready: Signal<Out, bool>,
    pub adm_valid: Signal<In, bool>,
    pub adm_addr: Signal<In, Bits<12>>,
    pub adm_data: Signal<In, Bits<32>>,
    /// Objects that a process may have: see [`Quota`].
    pub limits: Signal<In, Bits<64>>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub fill_valid: Signal<In, bool>,
    pub fill_data: Signal<In, CtlFill>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<W>>,
    pub wr_meta: Signal<Out, HostWrMeta>,
    pub wr_ready: Signal<In, bool>,
    pub err_valid: Signal<In, bool>,
    pub err_data: Signal<In, QpErr>,
    pub err_ready: Signal<Out, bool>,
    /// An SRQ has reached its limit: a pulse.
    pub lim_valid: Signal<In, bool>,
    pub lim_qp: Signal<In, Bits<12>>,
    pub ev_valid: Signal<Out, bool>,
    pub ev_data: Signal<Out, Event>,
    pub ev_ready: Signal<In, bool>,
    // tables
    pub cfg_we: Signal<Out, bool>,
    pub cfg_waddr: Signal<Out, Bits<LQ>>,
    pub cfg_wdata: Signal<Out, QpCfg>,
    pub av_we: Signal<Out, bool>,
    pub av_waddr: Signal<Out, Bits<LQ>>,
    pub av_wdata: Signal<Out, Av>,
    pub mrc_we: Signal<Out, bool>,
    pub mrc_waddr: Signal<Out, Bits<LM>>,
    pub mrc_wdata: Signal<Out, MrCheck>,
    pub mrm_we: Signal<Out, bool>,
    pub mrm_waddr: Signal<Out, Bits<LM>>,
    pub mrm_wdata: Signal<Out, MrMap>,
    pub cqt_we: Signal<Out, bool>,
    pub cqt_waddr: Signal<Out, Bits<LC>>,
    pub cqt_wdata: Signal<Out, Cq>,
    // orders
    pub rqr_ctl_valid: Signal<Out, bool>,
    pub rqr_ctl_data: Signal<Out, QpCtl>,
    pub rqr_ctl_ready: Signal<In, bool>,
    pub rqr_psn: Signal<In, Bits<24>>,
    pub rqr_idx: Signal<In, Bits<16>>,
    pub rqr_busy: Signal<In, bool>,
    /// The requester freed send units of that QP.
    pub sq_freed: Signal<In, bool>,
    pub sq_freed_qp: Signal<In, Bits<12>>,
    pub rsp_ctl_valid: Signal<Out, bool>,
    pub rsp_ctl_data: Signal<Out, QpCtl>,
    pub rsp_ctl_ready: Signal<In, bool>,
    pub rsp_psn: Signal<In, Bits<24>>,
    pub rdr_ctl_valid: Signal<Out, bool>,
    pub rdr_ctl_data: Signal<Out, QpCtl>,
    pub rdr_ctl_ready: Signal<In, bool>,
    pub sqf_ctl_valid: Signal<Out, bool>,
    pub sqf_ctl_data: Signal<Out, QpCtl>,
    pub sqf_ctl_ready: Signal<In, bool>,
    pub rqf_ctl_valid: Signal<Out, bool>,
    pub rqf_ctl_data: Signal<Out, QpCtl>,
    pub rqf_ctl_ready: Signal<In, bool>,
    /// Fence tokens that came out of the egress and of the placement, one pulse each.
    pub tx_fence: Signal<In, bool>,
    pub pl_fence: Signal<In, bool>,
    pub mtt_flush: Signal<Out, bool>,
    /// To the window unit: held until `win_done`.
    pub win_valid: Signal<Out, bool>,
    pub win_data: Signal<Out, WinOrder>,
    pub win_done: Signal<In, bool>,
    pub win_busy: Signal<In, bool>,
    pub cqctl_valid: Signal<Out, bool>,
    pub cqctl_cq: Signal<Out, Bits<12>>,
    pub cqctl_resize: Signal<Out, bool>,
    pub eqctl_valid: Signal<Out, bool>,
    pub eqctl_pasid: Signal<Out, Bits<12>>,
    pub eqctl_base: Signal<Out, Bits<48>>,
    pub eqctl_log: Signal<Out, Bits<5>>,
    /// The GID table as it is written.
    pub gid_we: Signal<Out, bool>,
    pub gid_waddr: Signal<Out, Bits<4>>,
    pub gid_wdata: Signal<Out, GidEntry>,
    pub ev_cmd: Signal<Out, bool>,
    pub ev_cmd_refused: Signal<Out, bool>,
    pub ev_qp_error: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,

    cmds: Fifo<CmdDb, LS>,
    errs: ErrQueue<LQ>,
    lims: Fifo<Bits<12>, LQ>,
    drain: Drain<LQ>,
    kinds: Kinds<LQ, LM, LC, LP, LS>,
    quota: Quota<LS>,
    counted: Signal<Local, bool>,
    qat: Signal<Local, Bits<12>>,
    special: Special,
    mem: SdpRam2R<Bits<32>, 6>,
    prog: Rom<UOP_BITS, LOG_PROG>,
    rule: QpRule,
    mrs: SdpRam<Obj, LM>,
    others: SdpRam<Obj, LO>,
    cfgs: SdpRam<Bits<256>, LQ>,
    avs: SdpRam<Bits<512>, LQ>,
    gids: SdpRam<GidEntry, 4>,
    /// The two units of the command block.
    units: SdpRam<Bits<512>, 1>,

    st: DFF<St>,
    /// Command in hand.
    db: DFF<CmdDb>,
    two: DFF<bool>,
    /// A unit has come; that was noticed.
    unit: DFF<bool>,
    got: DFF<bool>,
    f_hit: DFF<bool>,
    f_err: DFF<bool>,
    half: DFF<bool>,
    /// Kind of the error at hand; 7: drained, 8: limit of an SRQ.
    kind_e: DFF<Bits<4>>,
    seq: DFF<Bits<32>>,
    mask: DFF<Bits<21>>,
    want: DFF<Bits<3>>,
    assumed: DFF<Bits<3>>,
    gidx: DFF<Bits<4>>,
    fam6: DFF<bool>,
    status: DFF<Bits<8>>,
    rid: DFF<Bits<32>>,
    qres: DFF<bool>,
    q_sq: DFF<Bits<24>>,
    q_rq: DFF<Bits<24>>,
    q_head: DFF<Bits<16>>,
    q_busy: DFF<bool>,
    /// Link, and that its change is still to be told.
    link: DFF<bool>,
    link_new: DFF<bool>,
    srq: DFF<bool>,
    rnd: DFF<Bits<64>>,
    /// Command, table entries on their way to and from work memory, and response.
    wide: DFF<Bits<512>>,
    cnt: DFF<Bits<6>>,
    last: DFF<Bits<6>>,
    obase: DFF<Bits<6>>,
    pc: DFF<Bits<LOG_PROG>>,
    u: DFF<Uop>,
    x: DFF<Bits<32>>,
    y: DFF<Bits<32>>,
    v: DFF<Bits<32>>,
    acc: DFF<Bits<32>>,
    carry: DFF<bool>,
    low: DFF<Bits<16>>,
    high: DFF<Bits<16>>,
    low_c: DFF<bool>,
    high_c: DFF<bool>,
    /// The predicate of the instruction at hand holds.
    yes: DFF<bool>,
    /// CHECK: too long, too small, too large. LOOKUP: not there or not ours, other tag. TRANS: see [`QpRule`].
    w_hi: DFF<bool>,
    w_lt: DFF<bool>,
    w_gt: DFF<bool>,
    w_own: DFF<bool>,
    w_tag: DFF<bool>,
    nn: DFF<Bits<16>>,
    /// Address of the next unit of the block.
    addr: DFF<Bits<64>>,
    first: DFF<bool>,
    /// Object at hand.
    okind: DFF<Bits<3>>,
    oidx: DFF<Bits<16>>,
    otag: DFF<Bits<16>>,
    oaddr: DFF<ObjAddr>,
    obj: DFF<Obj>,
    hi: DFF<Bits<32>>,
    tries: DFF<Bits<16>>,
    cur: DFF<Bits<3>>,
    typ: DFF<Bits<2>>,
    owner: DFF<Bits<12>>,
    nx: DFF<Bits<3>>,
    /// Walk: PASID, next place and the one behind it, place whose entry arrives, place of `obj`.
    arg: DFF<Bits<12>>,
    t: DFF<ObjAddr>,
    tn: DFF<ObjAddr>,
    tp: DFF<ObjAddr>,
    tp_end: DFF<bool>,
    tq: DFF<ObjAddr>,
    tq_end: DFF<bool>,
    obj_v: DFF<bool>,
    rsel: DFF<bool>,
    cp: DFF<Bits<5>>,
    tf: DFF<Bits<2>>,
    pf: DFF<Bits<2>>,
    fenced: DFF<bool>,
    /// `St::Wr`, apart: the write port hangs on it.
    wr_v: DFF<bool>,
    /// Order to the window unit, and that it was refused.
    wop: DFF<Bits<2>>,
    wbusy: DFF<bool>,
    p_cmd: DFF<bool>,
    p_ref: DFF<bool>,
    p_err: DFF<bool>,
    p_flush: DFF<bool>,

    k_seed: Constant<Bits<12>>,
    k_link: Constant<Bits<12>>,
    /// Highest PASID.
    k_last: Constant<Bits<12>>,
    k_rnd: Constant<Bits<64>>,
    k_w: Constant<Bits<16>>,
    k_beats: Constant<Bits<6>>,
    k_boot: Constant<Bits<16>>,
    k_ls: Constant<Bits<5>>,
    k_mm: Constant<Bits<16>>,
    k_bc: Constant<Bits<16>>,
    k_bp: Constant<Bits<16>>,
    k_bs: Constant<Bits<16>>,
    k_end: Constant<Bits<16>>,

    // kernel names
    boot: Signal<Local, bool>,
    c: Signal<Local, CmdDb>,
    craw: Signal<Local, Bits<64>>,
    cpg: Signal<Local, Bits<6>>,
    f: Signal<Local, CtlFill>,
    fhit: Signal<Local, bool>,
    hr: Signal<Local, HostRd>,
    hm: Signal<Local, HostWrMeta>,
    eo: Signal<Local, QpErr>,
    ra: Signal<Local, Bits<64>>,
    rb: Signal<Local, Bits<64>>,
    rc: Signal<Local, Bits<64>>,
    far: Signal<Local, Bits<12>>,
    lo: Signal<Local, Bits<32>>,
    mwe: Signal<Local, bool>,
    mwa: Signal<Local, Bits<6>>,
    mwd: Signal<Local, Bits<32>>,
    mra: Signal<Local, Bits<6>>,
    o: Signal<Local, Uop>,
    op: Signal<Local, Bits<5>>,
    src: Signal<Local, Bits<7>>,
    a: Signal<Local, Bits<8>>,
    b: Signal<Local, Bits<8>>,
    om: Signal<Local, Bits<32>>,
    kb: Signal<Local, Bits<3>>,
    rot: Signal<Local, Bits<64>>,
    inv: Signal<Local, Bits<32>>,
    m: Signal<Local, Bits<32>>,
    m8: Signal<Local, Bits<8>>,
    mh: Signal<Local, Bits<24>>,
    sum: Signal<Local, Bits<18>>,
    cin: Signal<Local, Bits<18>>,
    aplus: Signal<Local, Bits<9>>,
    asum: Signal<Local, Bits<9>>,
    delta: Signal<Local, Bits<16>>,
    ps: Signal<Local, Preds>,
    praw: Signal<Local, Bits<37>>,
    limit: Signal<Local, bool>,
    draining: Signal<Local, bool>,
    drained: Signal<Local, bool>,
    live: Signal<Local, bool>,
    ob: Signal<Local, Obj>,
    ow: Signal<Local, Obj>,
    owe: Signal<Local, bool>,
    osel: Signal<Local, ObjAddr>,
    oa: Signal<Local, ObjAddr>,
    osat: Signal<Local, Bits<16>>,
    acc16: Signal<Local, Bits<16>>,
    kmask: Signal<Local, Bits<16>>,
    base: Signal<Local, Bits<16>>,
    onext: Signal<Local, Bits<16>>,
    tinc: Signal<Local, ObjAddr>,
    tat: Signal<Local, Bits<16>>,
    tend: Signal<Local, bool>,
    hit: Signal<Local, bool>,
    fails: Signal<Local, bool>,
    fat: Signal<Local, Bits<16>>,
    cl: Signal<Local, QpCtl>,
    cs: Signal<Local, QpCtl>,
    cpv: Signal<Local, Bits<5>>,
    goctl: Signal<Local, bool>,
    isf: Signal<Local, bool>,
    tabw: Signal<Local, bool>,
    wcfg: Signal<Local, Bits<256>>,
    wav: Signal<Local, Bits<512>>,
    wmrc: Signal<Local, Bits<192>>,
    wmrm: Signal<Local, Bits<128>>,
    wcq: Signal<Local, Bits<128>>,
    wgid: Signal<Local, Bits<194>>,
    evd: Signal<Local, Event>,
    wo: Signal<Local, WinOrder>,
    r: Signal<Local, Response>,
}

/// `sim-100g` and `ecp5-1g` of `hdl-spec`.
pub type Sim100g = Sequencer<512, 11, 13, 10, 8, 6, 12, 16>;
pub type Ecp51g = Sequencer<64, 4, 6, 5, 5, 4, 7, 4>;
