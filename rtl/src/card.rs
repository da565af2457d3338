//! The card: blocks and the streams between them. Nothing is computed here but the merging of fences and of `idle`.

use crate::{
    acks::*, atomic::*, doorbell::*, egress::*, glue::*, hostport::*, ingress::*, layouts::*,
    order::*, placement::*, prims::*, readresp::*, regs::*,
};
use crate::{
    requester::*, responder::*, rqfetch::*, sequencer::*, sqfetch::*, translate::*, txdma::*,
    types::*, window::Windows,
};
use array_init::array_init;
use metaroce_hdl_spec::config::{Config, ECP5_1G, SIM_100G};
use rust_hdl::prelude::*;

/// A whole card. Ports: wire (`rx`, `tx`), host (`rd`, `hrd`, `wr`, `msi`), BAR (`mmio_*`), time. `idle`: nothing moves inside and nothing waits but timers; then
/// `deadline` (with `deadline_valid`) is when the next timer fires.
///
/// Parameters:
/// * `W`: bus bits
/// * `U`: 512 / W
/// * `L`: W / 8
/// * `P`: W / 2
/// * `H`: bus words that hold the first 112 bytes of a frame
/// * `N`: see [`crate::ingress::IcrcFeed`]
/// * `LQ`: log2 of QPs
/// * `LM`: log2 of MRs
/// * `LC`: log2 of CQs
/// * `LP`: log2 of PASIDs
/// * `LS`: log2 of send slots per QP
/// * `AS`: LQ + LS
/// * `LR`: log2 of receive slots per QP
/// * `AR`: LQ + LR
/// * `LK`: LQ + 2: log2 of receive units that messages keep
/// * `LJ`: LQ + 4: log2 of READ jobs
/// * `LX`: log2 of MTT cache lines
/// * `NX`: 2^LX
/// * `LT`: log2 of transmit buffer words
/// * `LG`: log2 of payload read tags
/// * `NG`: 2^LG
/// * `LB`: log2 of receive buffer words
/// * `LD`: log2 of PDs
/// * `LO`: see [`Sequencer`]
/// * `MR`: READs in flight per QP
/// * `KHZ`: clock
/// * `NA`: 1: with atomics, 0: without
#[derive(LogicBlock)]
pub struct Card<
    const W: usize,
    const U: usize,
    const L: usize,
    const P: usize,
    const H: usize,
    const N: usize,
    const LQ: usize,
    const LM: usize,
    const LC: usize,
    const LP: usize,
    const LS: usize,
    const AS: usize,
    const LR: usize,
    const AR: usize,
    const LK: usize,
    const LJ: usize,
    const LX: usize,
    const NX: usize,
    const LT: usize,
    const LG: usize,
    const NG: usize,
    const LB: usize,
    const LD: usize,
    const LO: usize,
    const MR: usize,
    const KHZ: usize,
    const NA: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub now: Signal<In, Bits<48>>,
    pub rx_valid: Signal<In, bool>,
    pub rx_data: Signal<In, Bits<W>>,
    pub rx_meta: Signal<In, WireMeta>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, Bits<W>>,
    pub tx_meta: Signal<Out, WireMeta>,
    pub tx_ready: Signal<In, bool>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub hrd_valid: Signal<In, bool>,
    pub hrd_data: Signal<In, Bits<W>>,
    pub hrd_meta: Signal<In, HostRdMeta>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<W>>,
    pub wr_meta: Signal<Out, HostWrMeta>,
    pub wr_ready: Signal<In, bool>,
    pub msi_valid: Signal<Out, bool>,
    pub msi_pasid: Signal<Out, Bits<12>>,
    pub mmio_wr_valid: Signal<In, bool>,
    pub mmio_wr_addr: Signal<In, Bits<24>>,
    pub mmio_wr_len: Signal<In, Bits<7>>,
    pub mmio_wr_data: Signal<In, Bits<512>>,
    pub mmio_wr_ready: Signal<Out, bool>,
    pub mmio_rd_valid: Signal<In, bool>,
    pub mmio_rd_addr: Signal<In, Bits<24>>,
    pub mmio_rd_done: Signal<Out, bool>,
    pub mmio_rd_data: Signal<Out, Bits<32>>,
    pub idle: Signal<Out, bool>,
    pub deadline: Signal<Out, Bits<48>>,
    pub deadline_valid: Signal<Out, bool>,
    hostport: HostPort<W, U>,
    doorbell: Doorbell<LQ, LC>,
    sqfetch: SqFetch<LQ, LS, AS>,
    rqfetch: RqFetch<LQ, LR, AR>,
    requester: Requester<LQ, LS, LM>,
    responder: Responder<LQ, LM, LR, LK>,
    readresp: ReadResp<LQ, LM, LJ>,
    order: Order<LQ>,
    acks: Acks<LQ>,
    /// Address vectors of the UD packets between requester and egress.
    ud_av: Fifo<Bits<309>, 7>,
    gid_egress: SdpRam<GidEntry, 4>,
    atomic: [AtomicUnit<W>; NA],
    at_mrm: Signal<Local, Bits<16>>,
    at_miss: Signal<Local, bool>,
    at_idle: Signal<Local, bool>,
    at_none: Signal<Local, AtomicDone>,
    no_atomics: Constant<bool>,
    tx_arb: TxArb,
    xl_tx: Translate<LX, NX>,
    txdma: TxDma<W, L, LT, LG, NG>,
    egress: Egress<W, L, P>,
    done: DoneSplit,
    link: LinkGate,
    src_check: SrcCheck<LQ>,
    /// Between ingress and responder, whose stalls would reach into the receive queues.
    req_cut: Half<RxPkt>,
    ingress: Ingress<W, P, L, LB, H, N>,
    placement: Placement<W, L, LB, LC, LP, LX, NX>,
    windows: Windows<LM>,
    sequencer: Sequencer<W, LQ, LM, LC, LD, LP, LO, MR>,
    regs: Regs<W, LQ, LM, LC, LD, LP, MR, KHZ>,
    pl_arb: Arb2<PlJob>,
    err_a: Arb3<QpErr>,
    err_b: Arb3<QpErr>,
    err_arb: Arb2<QpErr>,
    ev_arb: Arb2<Event>,
    fence_src: Fifo<Bits<7>, 4>,
    cfg_doorbell: SdpRam<QpCfg, LQ>,
    cfg_sqfetch: SdpRam<QpCfg, LQ>,
    cfg_rqfetch: SdpRam<QpCfg, LQ>,
    cfg_requester: SdpRam<QpCfg, LQ>,
    cfg_responder: SdpRam<QpCfg, LQ>,
    cfg_readresp: SdpRam<QpCfg, LQ>,
    av_responder: SdpRam<Av, LQ>,
    av_egress: SdpRam<Av, LQ>,
    mrc_requester: SdpRam<MrCheck, LM>,
    mrc_responder: SdpRam<MrCheck, LM>,
    mrc_readresp: SdpRam<MrCheck, LM>,
    mrm_xl_tx: SdpRam<MrMap, LM>,
    mrm_placement: SdpRam<MrMap, LM>,
    mrm_atomic: SdpRam<MrMap, LM>,
    cqt_doorbell: SdpRam<Cq, LC>,
    cqt_placement: SdpRam<Cq, LC>,
    job: Signal<Local, PlJob>,
    quiet: [Signal<Local, bool>; 4],
    sq_free: Signal<Local, QpIdx>,
    rx_beat: Signal<Local, WireMeta>,
    rx_used: Signal<Local, Bits<13>>,
    word_bytes: Constant<Bits<13>>,
}

/// Counters in the order of their wiring below.
pub const WIRED: &[&str] = &[
    "tx_frames",
    "tx_bytes",
    "tx_acks",
    "tx_naks",
    "tx_rnr_naks",
    "tx_retransmits",
    "tx_messages",
    "rx_frames",
    "rx_bytes",
    "rx_drop_malformed",
    "rx_drop_icrc",
    "rx_drop_opcode",
    "rx_drop_qp",
    "rx_drop_full",
    "rx_drop_duplicate",
    "rx_drop_sequence",
    "rx_drop_response",
    "rx_rnr_naks",
    "rx_seq_naks",
    "rx_fatal_naks",
    "rx_cnp",
    "rx_ecn_marked",
    "timeouts",
    "qp_errors",
    "cq_overflows",
    "db_refused",
    "host_reads",
    "host_read_bytes",
    "host_writes",
    "host_write_bytes",
    "mtt_misses",
    "cmds",
    "cmds_refused",
];

impl<
        const W: usize,
        const U: usize,
        const L: usize,
        const P: usize,
        const H: usize,
        const N: usize,
        const LQ: usize,
        const LM: usize,
        const LC: usize,
        const LP: usize,
        const LS: usize,
        const AS: usize,
        const LR: usize,
        const AR: usize,
        const LK: usize,
        const LJ: usize,
        const LX: usize,
        const NX: usize,
        const LT: usize,
        const LG: usize,
        const NG: usize,
        const LB: usize,
        const LD: usize,
        const LO: usize,
        const MR: usize,
        const KHZ: usize,
        const NA: usize,
    >
    Card<
        W,
        U,
        L,
        P,
        H,
        N,
        LQ,
        LM,
        LC,
        LP,
        LS,
        AS,
        LR,
        AR,
        LK,
        LJ,
        LX,
        NX,
        LT,
        LG,
        NG,
        LB,
        LD,
        LO,
        MR,
        KHZ,
        NA,
    >
{
    /// A card; panics, with the reason, when `c` is illegal or the parameters are not those of `c`.
    pub fn new(c: &Config) -> Self {
        if let Err(e) = c.check() {
            panic!("configuration {}: {e}", c.name);
        }
        assert_eq!(
            (W, LQ, LM, LC, LD, LP, MR, KHZ, NA),
            (
                c.bus_bits as usize,
                c.log_qp as usize,
                c.log_mr as usize,
                c.log_cq as usize,
                c.log_pd as usize,
                c.log_pasid as usize,
                c.max_rd as usize,
                c.clock_khz as usize,
                c.atomics as usize
            ),
            "tables of {}",
            c.name
        );
        assert_eq!(
            (LS, LR, LX, LT, LG, LB),
            (
                c.log_sq_slots as usize,
                c.log_rq_slots as usize,
                c.log_mtt_lines as usize,
                c.log_tx_words as usize,
                c.log_tags as usize,
                c.log_rx_words as usize
            ),
            "buffers of {}",
            c.name
        );
        Self {
            clock: Default::default(),
            rst: Default::default(),
            now: Default::default(),
            rx_valid: Default::default(),
            rx_data: Default::default(),
            rx_meta: Default::default(),
            tx_valid: Default::default(),
            tx_data: Default::default(),
            tx_meta: Default::default(),
            tx_ready: Default::default(),
            rd_valid: Default::default(),
            rd_data: Default::default(),
            rd_ready: Default::default(),
            hrd_valid: Default::default(),
            hrd_data: Default::default(),
            hrd_meta: Default::default(),
            wr_valid: Default::default(),
            wr_data: Default::default(),
            wr_meta: Default::default(),
            wr_ready: Default::default(),
            msi_valid: Default::default(),
            msi_pasid: Default::default(),
            mmio_wr_valid: Default::default(),
            mmio_wr_addr: Default::default(),
            mmio_wr_len: Default::default(),
            mmio_wr_data: Default::default(),
            mmio_wr_ready: Default::default(),
            mmio_rd_valid: Default::default(),
            mmio_rd_addr: Default::default(),
            mmio_rd_done: Default::default(),
            mmio_rd_data: Default::default(),
            idle: Default::default(),
            deadline: Default::default(),
            deadline_valid: Default::default(),
            hostport: Default::default(),
            doorbell: Default::default(),
            sqfetch: Default::default(),
            rqfetch: Default::default(),
            requester: Default::default(),
            responder: Default::default(),
            readresp: Default::default(),
            order: Default::default(),
            acks: Default::default(),
            ud_av: Default::default(),
            gid_egress: Default::default(),
            atomic: array_init(|_| AtomicUnit::new(0xB0)),
            at_mrm: Default::default(),
            at_miss: Default::default(),
            at_idle: Default::default(),
            at_none: Default::default(),
            no_atomics: Constant::new(NA == 0),
            tx_arb: Default::default(),
            xl_tx: Translate::new(0xA0),
            txdma: Default::default(),
            egress: Default::default(),
            done: Default::default(),
            link: Default::default(),
            src_check: Default::default(),
            req_cut: Default::default(),
            ingress: Default::default(),
            placement: Placement::new(0xA8),
            windows: Default::default(),
            sequencer: Default::default(),
            regs: Regs::new(c.features(), &rom_image(c)),
            pl_arb: Default::default(),
            err_a: Default::default(),
            err_b: Default::default(),
            err_arb: Default::default(),
            ev_arb: Default::default(),
            fence_src: Default::default(),
            cfg_doorbell: Default::default(),
            cfg_sqfetch: Default::default(),
            cfg_rqfetch: Default::default(),
            cfg_requester: Default::default(),
            cfg_responder: Default::default(),
            cfg_readresp: Default::default(),
            av_responder: Default::default(),
            av_egress: Default::default(),
            mrc_requester: Default::default(),
            mrc_responder: Default::default(),
            mrc_readresp: Default::default(),
            mrm_xl_tx: Default::default(),
            mrm_placement: Default::default(),
            mrm_atomic: Default::default(),
            cqt_doorbell: Default::default(),
            cqt_placement: Default::default(),
            job: Default::default(),
            quiet: array_init(|_| Default::default()),
            sq_free: Default::default(),
            rx_beat: Default::default(),
            rx_used: Default::default(),
            word_bytes: Constant::new((W as u64 / 8).into()),
        }
    }
}

impl<
        const W: usize,
        const U: usize,
        const L: usize,
        const P: usize,
        const H: usize,
        const N: usize,
        const LQ: usize,
        const LM: usize,
        const LC: usize,
        const LP: usize,
        const LS: usize,
        const AS: usize,
        const LR: usize,
        const AR: usize,
        const LK: usize,
        const LJ: usize,
        const LX: usize,
        const NX: usize,
        const LT: usize,
        const LG: usize,
        const NG: usize,
        const LB: usize,
        const LD: usize,
        const LO: usize,
        const MR: usize,
        const KHZ: usize,
        const NA: usize,
    > Logic
    for Card<
        W,
        U,
        L,
        P,
        H,
        N,
        LQ,
        LM,
        LC,
        LP,
        LS,
        AS,
        LR,
        AR,
        LK,
        LJ,
        LX,
        NX,
        LT,
        LG,
        NG,
        LB,
        LD,
        LO,
        MR,
        KHZ,
        NA,
    >
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(
            self, clock, hostport, doorbell, sqfetch, rqfetch, requester, responder, readresp,
            order, acks, tx_arb, xl_tx, txdma, egress, link, ingress, placement, sequencer, regs
        );
        clock!(self, clock, ud_av, gid_egress, src_check, req_cut, windows);
        clock!(self, clock, pl_arb, err_a, err_b, err_arb, ev_arb, fence_src);
        clock!(
            self,
            clock,
            cfg_doorbell,
            cfg_sqfetch,
            cfg_rqfetch,
            cfg_requester,
            cfg_responder,
            cfg_readresp,
            av_responder,
            av_egress,
            mrc_requester,
            mrc_responder,
            mrc_readresp,
            mrm_xl_tx,
            mrm_placement,
            mrm_atomic,
            cqt_doorbell,
            cqt_placement
        );
        self.hostport.rst.next = self.rst.val();
        self.doorbell.rst.next = self.rst.val();
        self.sqfetch.rst.next = self.rst.val();
        self.rqfetch.rst.next = self.rst.val();
        self.requester.rst.next = self.rst.val();
        self.responder.rst.next = self.rst.val();
        self.readresp.rst.next = self.rst.val();
        self.order.rst.next = self.rst.val();
        self.acks.rst.next = self.rst.val();
        self.ud_av.rst.next = self.rst.val();
        self.ud_av.s_valid.next = self.requester.ua_valid.val();
        self.ud_av.s_data.next = self.requester.ua_data.val();
        self.requester.ua_ready.next = self.ud_av.s_ready.val();
        self.egress.ua_valid.next = self.ud_av.m_valid.val();
        self.egress.ua_data.next = self.ud_av.m_data.val();
        self.ud_av.m_ready.next = self.egress.ua_ready.val();
        self.gid_egress.we.next = self.sequencer.gid_we.val();
        self.gid_egress.waddr.next = self.sequencer.gid_waddr.val();
        self.gid_egress.wdata.next = self.sequencer.gid_wdata.val();
        self.gid_egress.raddr.next = self.egress.gid_raddr.val();
        self.egress.gid_rdata.next = self.gid_egress.rdata.val();
        self.tx_arb.rst.next = self.rst.val();
        self.xl_tx.rst.next = self.rst.val();
        self.txdma.rst.next = self.rst.val();
        self.egress.rst.next = self.rst.val();
        self.link.rst.next = self.rst.val();
        self.src_check.rst.next = self.rst.val();
        self.req_cut.rst.next = self.rst.val();
        self.ingress.rst.next = self.rst.val();
        self.placement.rst.next = self.rst.val();
        self.sequencer.rst.next = self.rst.val();
        self.windows.rst.next = self.rst.val();
        self.windows.s_we.next = self.sequencer.mrc_we.val();
        self.windows.s_waddr.next = self.sequencer.mrc_waddr.val();
        self.windows.s_wdata.next = self.sequencer.mrc_wdata.val();
        self.windows.ord_valid.next = self.sequencer.win_valid.val();
        self.windows.ord_data.next = self.sequencer.win_data.val();
        self.sequencer.win_done.next = self.windows.ord_done.val();
        self.sequencer.win_busy.next = self.windows.ord_busy.val();
        self.windows.inv_valid.next = self.responder.inv_valid.val();
        self.windows.inv_data.next = self.responder.inv_data.val();
        self.responder.inv_done.next = self.windows.inv_done.val();
        self.responder.inv_ok.next = self.windows.inv_ok.val();
        self.windows.job_valid.next = self.requester.win_valid.val();
        self.windows.job_data.next = self.requester.win_data.val();
        self.requester.win_done.next = self.windows.job_done.val();
        self.requester.win_ok.next = self.windows.job_ok.val();
        self.windows.calm.next = self.responder.calm.val();
        self.windows.pl_valid.next = self.responder.pl_valid.val();
        self.windows.pl_ready.next = self.responder.pl_ready.val();
        self.regs.rst.next = self.rst.val();
        self.pl_arb.rst.next = self.rst.val();
        self.err_a.rst.next = self.rst.val();
        self.err_b.rst.next = self.rst.val();
        self.err_arb.rst.next = self.rst.val();
        self.ev_arb.rst.next = self.rst.val();
        self.fence_src.rst.next = self.rst.val();
        self.sqfetch.now.next = self.now.val();
        self.requester.now.next = self.now.val();
        self.placement.now.next = self.now.val();
        self.sequencer.now.next = self.now.val();
        self.rqfetch.now.next = self.now.val();
        // Tables: one copy per reader, written by the sequencer (`mrc` by the window unit, through which the sequencer's writes pass)
        self.cfg_doorbell.we.next = self.sequencer.cfg_we.val();
        self.cfg_doorbell.waddr.next = self.sequencer.cfg_waddr.val();
        self.cfg_doorbell.wdata.next = self.sequencer.cfg_wdata.val();
        self.cfg_doorbell.raddr.next = self.doorbell.cfg_raddr.val();
        self.doorbell.cfg_rdata.next = self.cfg_doorbell.rdata.val();
        self.cfg_sqfetch.we.next = self.sequencer.cfg_we.val();
        self.cfg_sqfetch.waddr.next = self.sequencer.cfg_waddr.val();
        self.cfg_sqfetch.wdata.next = self.sequencer.cfg_wdata.val();
        self.cfg_sqfetch.raddr.next = self.sqfetch.cfg_raddr.val();
        self.sqfetch.cfg_rdata.next = self.cfg_sqfetch.rdata.val();
        self.cfg_rqfetch.we.next = self.sequencer.cfg_we.val();
        self.cfg_rqfetch.waddr.next = self.sequencer.cfg_waddr.val();
        self.cfg_rqfetch.wdata.next = self.sequencer.cfg_wdata.val();
        self.cfg_rqfetch.raddr.next = self.rqfetch.cfg_raddr.val();
        self.rqfetch.cfg_rdata.next = self.cfg_rqfetch.rdata.val();
        self.cfg_requester.we.next = self.sequencer.cfg_we.val();
        self.cfg_requester.waddr.next = self.sequencer.cfg_waddr.val();
        self.cfg_requester.wdata.next = self.sequencer.cfg_wdata.val();
        self.cfg_requester.raddr.next = bit_cast::<LQ, 12>(self.requester.cfg_raddr.val());
        self.requester.cfg_rdata.next = self.cfg_requester.rdata.val();
        self.cfg_responder.we.next = self.sequencer.cfg_we.val();
        self.cfg_responder.waddr.next = self.sequencer.cfg_waddr.val();
        self.cfg_responder.wdata.next = self.sequencer.cfg_wdata.val();
        self.cfg_responder.raddr.next = bit_cast::<LQ, 12>(self.responder.cfg_raddr.val());
        self.responder.cfg_rdata.next = self.cfg_responder.rdata.val();
        self.cfg_readresp.we.next = self.sequencer.cfg_we.val();
        self.cfg_readresp.waddr.next = self.sequencer.cfg_waddr.val();
        self.cfg_readresp.wdata.next = self.sequencer.cfg_wdata.val();
        self.cfg_readresp.raddr.next = bit_cast::<LQ, 12>(self.readresp.cfg_raddr.val());
        self.readresp.cfg_rdata.next = self.cfg_readresp.rdata.val();
        self.av_responder.we.next = self.sequencer.av_we.val();
        self.av_responder.waddr.next = self.sequencer.av_waddr.val();
        self.av_responder.wdata.next = self.sequencer.av_wdata.val();
        self.av_responder.raddr.next = bit_cast::<LQ, 12>(self.responder.av_raddr.val());
        self.responder.av_rdata.next = self.av_responder.rdata.val();
        self.src_check.av_we.next = self.sequencer.av_we.val();
        self.src_check.av_waddr.next = self.sequencer.av_waddr.val();
        self.src_check.av_wdata.next = self.sequencer.av_wdata.val();
        self.av_egress.we.next = self.sequencer.av_we.val();
        self.av_egress.waddr.next = self.sequencer.av_waddr.val();
        self.av_egress.wdata.next = self.sequencer.av_wdata.val();
        self.av_egress.raddr.next = bit_cast::<LQ, 12>(self.egress.av_raddr.val());
        self.egress.av_rdata.next = self.av_egress.rdata.val();
        self.mrc_requester.we.next = self.windows.we.val();
        self.mrc_requester.waddr.next = self.windows.waddr.val();
        self.mrc_requester.wdata.next = self.windows.wdata.val();
        self.mrc_requester.raddr.next = bit_cast::<LM, 16>(self.requester.mrc_raddr.val());
        self.requester.mrc_rdata.next = self.mrc_requester.rdata.val();
        self.mrc_responder.we.next = self.windows.we.val();
        self.mrc_responder.waddr.next = self.windows.waddr.val();
        self.mrc_responder.wdata.next = self.windows.wdata.val();
        self.mrc_responder.raddr.next = bit_cast::<LM, 16>(self.responder.mrc_raddr.val());
        self.responder.mrc_rdata.next = self.mrc_responder.rdata.val();
        self.mrc_readresp.we.next = self.windows.we.val();
        self.mrc_readresp.waddr.next = self.windows.waddr.val();
        self.mrc_readresp.wdata.next = self.windows.wdata.val();
        self.mrc_readresp.raddr.next = bit_cast::<LM, 16>(self.readresp.mrc_raddr.val());
        self.readresp.mrc_rdata.next = self.mrc_readresp.rdata.val();
        self.mrm_xl_tx.we.next = self.sequencer.mrm_we.val();
        self.mrm_xl_tx.waddr.next = self.sequencer.mrm_waddr.val();
        self.mrm_xl_tx.wdata.next = self.sequencer.mrm_wdata.val();
        self.mrm_xl_tx.raddr.next = bit_cast::<LM, 16>(self.xl_tx.mrm_raddr.val());
        self.xl_tx.mrm_rdata.next = self.mrm_xl_tx.rdata.val();
        self.mrm_placement.we.next = self.sequencer.mrm_we.val();
        self.mrm_placement.waddr.next = self.sequencer.mrm_waddr.val();
        self.mrm_placement.wdata.next = self.sequencer.mrm_wdata.val();
        self.mrm_placement.raddr.next = bit_cast::<LM, 16>(self.placement.mrm_raddr.val());
        self.placement.mrm_rdata.next = self.mrm_placement.rdata.val();
        self.mrm_atomic.we.next = self.sequencer.mrm_we.val();
        self.mrm_atomic.waddr.next = self.sequencer.mrm_waddr.val();
        self.mrm_atomic.wdata.next = self.sequencer.mrm_wdata.val();
        self.cqt_doorbell.we.next = self.sequencer.cqt_we.val();
        self.cqt_doorbell.waddr.next = self.sequencer.cqt_waddr.val();
        self.cqt_doorbell.wdata.next = self.sequencer.cqt_wdata.val();
        self.cqt_doorbell.raddr.next = self.doorbell.cqt_raddr.val();
        self.doorbell.cqt_rdata.next = self.cqt_doorbell.rdata.val();
        self.cqt_placement.we.next = self.sequencer.cqt_we.val();
        self.cqt_placement.waddr.next = self.sequencer.cqt_waddr.val();
        self.cqt_placement.wdata.next = self.sequencer.cqt_wdata.val();
        self.cqt_placement.raddr.next = bit_cast::<LC, 12>(self.placement.cqt_raddr.val());
        self.placement.cqt_rdata.next = self.cqt_placement.rdata.val();
        // BAR writes and doorbells
        self.doorbell.mmio_wr_valid.next = self.mmio_wr_valid.val();
        self.doorbell.mmio_wr_addr.next = self.mmio_wr_addr.val();
        self.doorbell.mmio_wr_len.next = self.mmio_wr_len.val();
        self.doorbell.mmio_wr_data.next = self.mmio_wr_data.val();
        self.mmio_wr_ready.next = self.doorbell.mmio_wr_ready.val();
        self.sqfetch.sqdb_valid.next = self.doorbell.sqdb_valid.val();
        self.sqfetch.sqdb_data.next = self.doorbell.sqdb_data.val();
        self.sqfetch.sqdb_direct.next = self.doorbell.sqdb_direct.val();
        self.sqfetch.sqdb_unit.next = self.doorbell.sqdb_unit.val();
        self.doorbell.sqdb_ready.next = self.sqfetch.sqdb_ready.val();
        self.rqfetch.rqdb_valid.next = self.doorbell.rqdb_valid.val();
        self.rqfetch.rqdb_data.next = self.doorbell.rqdb_data.val();
        self.doorbell.rqdb_ready.next = self.rqfetch.rqdb_ready.val();
        self.placement.cqdb_valid.next = self.doorbell.cqdb_valid.val();
        self.placement.cqdb_data.next = self.doorbell.cqdb_data.val();
        self.doorbell.cqdb_ready.next = self.placement.cqdb_ready.val();
        self.sequencer.cmddb_valid.next = self.doorbell.cmddb_valid.val();
        self.sequencer.cmddb_data.next = self.doorbell.cmddb_data.val();
        self.doorbell.cmddb_ready.next = self.sequencer.cmddb_ready.val();
        self.sequencer.adm_valid.next = self.doorbell.adm_valid.val();
        self.sequencer.adm_addr.next = self.doorbell.adm_addr.val();
        self.sequencer.adm_data.next = self.doorbell.adm_data.val();
        self.sequencer.limits.next = self.regs.quota.val();
        self.regs.adm_valid.next = self.doorbell.adm_valid.val();
        self.regs.adm_addr.next = self.doorbell.adm_addr.val();
        self.regs.adm_data.next = self.doorbell.adm_data.val();
        // Send work: rings to requester
        self.requester.sched_valid.next = self.sqfetch.ready_valid.val();
        self.requester.sched_data.next = self.sqfetch.ready_data.val();
        self.sqfetch.ready_ready.next = self.requester.sched_ready.val();
        self.sqfetch.sqfree_valid.next = self.requester.sqfree_valid.val();
        self.sqfetch.sqfree_data.next = self.requester.sqfree_data.val();
        self.requester.sqfree_ready.next = self.sqfetch.sqfree_ready.val();
        self.sequencer.sq_freed.next =
            self.requester.sqfree_valid.val() & self.sqfetch.sqfree_ready.val();
        self.sq_free.next = self.requester.sqfree_data.val();
        self.sequencer.sq_freed_qp.next = self.sq_free.val().qp;
        self.sqfetch.slot_raddr.next = self.requester.slot_raddr.val();
        self.requester.slot_rdata.next = self.sqfetch.slot_rdata.val();
        self.sqfetch.avail_raddr.next = self.requester.avail_raddr.val();
        self.requester.avail_rdata.next = self.sqfetch.avail_rdata.val();
        self.sqfetch.stamp_raddr.next = self.requester.stamp_raddr.val();
        self.requester.stamp_rdata.next = self.sqfetch.stamp_rdata.val();
        // Receive work: rings to responder
        self.responder.notify_valid.next = self.rqfetch.notify_valid.val();
        self.responder.notify_data.next = self.rqfetch.notify_data.val();
        self.rqfetch.notify_ready.next = self.responder.notify_ready.val();
        self.rqfetch.rqfree_valid.next = self.responder.rqfree_valid.val();
        self.rqfetch.rqfree_data.next = self.responder.rqfree_data.val();
        self.responder.rqfree_ready.next = self.rqfetch.rqfree_ready.val();
        self.rqfetch.slot_raddr.next = self.responder.slot_raddr.val();
        self.responder.slot_rdata.next = self.rqfetch.slot_rdata.val();
        self.rqfetch.idx_raddr.next = self.responder.idx_raddr.val();
        self.responder.pi_rdata.next = self.rqfetch.pi_rdata.val();
        self.responder.avail_rdata.next = self.rqfetch.avail_rdata.val();
        // Transmit: packets, payload, frames
        self.tx_arb.a_valid.next = self.requester.tx_valid.val();
        self.tx_arb.a_data.next = self.requester.tx_data.val();
        self.requester.tx_ready.next = self.tx_arb.a_ready.val();
        self.tx_arb.b_valid.next = self.readresp.tx_valid.val();
        self.tx_arb.b_data.next = self.readresp.tx_data.val();
        self.readresp.tx_ready.next = self.tx_arb.b_ready.val();
        self.txdma.cmd_valid.next = self.tx_arb.m_valid.val();
        self.txdma.cmd_data.next = self.tx_arb.m_data.val();
        self.tx_arb.m_ready.next = self.txdma.cmd_ready.val();
        self.xl_tx.req_valid.next = self.txdma.req_valid.val();
        self.xl_tx.req_data.next = self.txdma.req_data.val();
        self.txdma.req_ready.next = self.xl_tx.req_ready.val();
        self.txdma.chunk_valid.next = self.xl_tx.chunk_valid.val();
        self.txdma.chunk_data.next = self.xl_tx.chunk_data.val();
        self.xl_tx.chunk_ready.next = self.txdma.chunk_ready.val();
        self.egress.desc_valid.next = self.txdma.desc_valid.val();
        self.egress.desc_data.next = self.txdma.desc_data.val();
        self.txdma.desc_ready.next = self.egress.desc_ready.val();
        self.txdma.buf_raddr.next = self.egress.buf_raddr.val();
        self.egress.buf_rdata.next = self.txdma.buf_rdata.val();
        self.txdma.free_valid.next = self.egress.free_valid.val();
        self.txdma.free_words.next = self.egress.free_words.val();
        self.done.done_valid.next = self.egress.done_valid.val();
        self.done.done_data.next = self.egress.done_data.val();
        self.egress.done_ready.next = self.done.done_ready.val();
        self.readresp.done_valid.next = self.done.rd_valid.val();
        self.readresp.done_data.next = self.done.rd_data.val();
        self.done.rd_ready.next = self.readresp.done_ready.val();
        self.link.up.next = self.regs.link.val();
        self.link.s_valid.next = self.egress.tx_valid.val();
        self.link.s_meta.next = self.egress.tx_meta.val();
        self.link.tx_ready.next = self.tx_ready.val();
        self.tx_valid.next = self.link.tx_valid.val();
        self.tx_data.next = self.egress.tx_data.val();
        self.tx_meta.next = self.egress.tx_meta.val();
        self.egress.tx_ready.next = self.link.s_ready.val();
        // Acknowledgements
        self.order.pl_valid.next = self.responder.pl_valid.val();
        self.order.pl_data.next = self.responder.pl_data.val();
        self.order.pl_ready.next = self.pl_arb.s_ready[1].val();
        self.order.done.next = self.placement.told.val();
        self.order.ack_valid.next = self.responder.ack_valid.val();
        self.order.ack_data.next = self.responder.ack_data.val();
        self.responder.ack_ready.next = self.order.ack_ready.val();
        self.acks.ack_valid.next = self.order.acks_valid.val();
        self.acks.ack_data.next = self.order.acks_data.val();
        self.order.acks_ready.next = self.acks.ack_ready.val();
        self.egress.ack_valid.next = self.acks.tx_valid.val();
        self.egress.ack_data.next = self.acks.tx_data.val();
        self.acks.tx_ready.next = self.egress.ack_ready.val();
        self.readresp.busy_raddr.next = self.acks.busy_raddr.val();
        self.acks.busy_rdata.next = self.readresp.busy_rdata.val();
        self.readresp.lvl_raddr.next = self.responder.lvl_raddr.val();
        self.order.lvl_raddr.next = self.responder.lvl_raddr.val();
        self.order.ring_lvl.next = self.readresp.lvl_rdata.val();
        self.responder.lvl_rdata.next = self.order.lvl_rdata.val();
        self.order.rj_valid.next = self.responder.rj_valid.val();
        self.order.rj_data.next = self.responder.rj_data.val();
        self.responder.rj_ready.next = self.order.rj_ready.val();
        self.readresp.rj_valid.next = self.order.rd_valid.val();
        self.readresp.rj_data.next = self.order.rd_data.val();
        self.order.rd_ready.next = self.readresp.rj_ready.val();
        // Receive: frames, packets, placement
        self.ingress.port_mac.next = self.regs.mac.val();
        self.link.rx_valid.next = self.rx_valid.val();
        self.link.rx_meta.next = self.rx_meta.val();
        self.ingress.rx_valid.next = self.link.m_valid.val();
        self.ingress.rx_data.next = self.rx_data.val();
        self.ingress.rx_meta.next = self.rx_meta.val();
        self.req_cut.s_valid.next = self.ingress.req_valid.val();
        self.req_cut.s_data.next = self.ingress.req_data.val();
        self.ingress.req_ready.next = self.req_cut.s_ready.val();
        self.responder.rx_valid.next = self.req_cut.m_valid.val();
        self.responder.rx_data.next = self.req_cut.m_data.val();
        self.req_cut.m_ready.next = self.responder.rx_ready.val();
        self.src_check.s_valid.next = self.ingress.rsp_valid.val();
        self.src_check.s_data.next = self.ingress.rsp_data.val();
        self.ingress.rsp_ready.next = self.src_check.s_ready.val();
        self.requester.rx_valid.next = self.src_check.m_valid.val();
        self.requester.rx_data.next = self.src_check.m_data.val();
        self.src_check.m_ready.next = self.requester.rx_ready.val();
        self.ingress.free_valid.next = self.placement.free_valid.val();
        self.ingress.free_slot.next = self.placement.free_slot.val();
        self.ingress.buf_raddr.next = self.placement.buf_raddr.val();
        self.ingress.buf_rsel.next = self.placement.buf_rsel.val();
        self.placement.buf_rdata.next = self.ingress.buf_rdata.val();
        self.pl_arb.s_valid[0].next = self.requester.pl_valid.val();
        self.pl_arb.s_data[0].next = self.requester.pl_data.val();
        self.requester.pl_ready.next = self.pl_arb.s_ready[0].val();
        self.pl_arb.s_valid[1].next = self.responder.pl_valid.val();
        self.pl_arb.s_data[1].next = self.responder.pl_data.val();
        self.responder.pl_ready.next = self.pl_arb.s_ready[1].val();
        self.placement.job_valid.next = self.pl_arb.m_valid.val();
        self.placement.job_data.next = self.pl_arb.m_data.val();
        self.pl_arb.m_ready.next = self.placement.job_ready.val();
        self.ev_arb.s_valid[0].next = self.sequencer.ev_valid.val();
        self.ev_arb.s_data[0].next = self.sequencer.ev_data.val();
        self.sequencer.ev_ready.next = self.ev_arb.s_ready[0].val();
        self.ev_arb.s_valid[1].next = self.placement.cqerr_valid.val();
        self.ev_arb.s_data[1].next = self.placement.cqerr_data.val();
        self.placement.cqerr_ready.next = self.ev_arb.s_ready[1].val();
        self.placement.ev_valid.next = self.ev_arb.m_valid.val();
        self.placement.ev_data.next = self.ev_arb.m_data.val();
        self.ev_arb.m_ready.next = self.placement.ev_ready.val();
        self.msi_valid.next = self.placement.msi_valid.val();
        self.msi_pasid.next = self.placement.msi_pasid.val();
        // Fence tokens come back in order; the requester's own carry slot 1, the others are the sequencer's
        self.job.next = self.pl_arb.m_data.val();
        self.fence_src.s_data.next = self.job.val().slot;
        self.fence_src.s_valid.next = (self.pl_arb.m_valid.val() & self.placement.job_ready.val())
            & (self.job.val().kind == 3);
        self.fence_src.m_ready.next = self.placement.fence_done.val();
        self.requester.pl_fence.next =
            self.placement.fence_done.val() & (self.fence_src.m_data.val() == 1);
        self.sequencer.pl_fence.next =
            self.placement.fence_done.val() & (self.fence_src.m_data.val() != 1);
        self.sequencer.tx_fence.next = self.egress.fence_done.val();
        // Orders and errors
        self.requester.ctl_valid.next = self.sequencer.rqr_ctl_valid.val();
        self.requester.ctl_data.next = self.sequencer.rqr_ctl_data.val();
        self.sequencer.rqr_ctl_ready.next = self.requester.ctl_ready.val();
        self.responder.ctl_valid.next = self.sequencer.rsp_ctl_valid.val();
        self.responder.ctl_data.next = self.sequencer.rsp_ctl_data.val();
        self.sequencer.rsp_ctl_ready.next = self.responder.ctl_ready.val();
        self.readresp.ctl_valid.next = self.sequencer.rdr_ctl_valid.val();
        self.readresp.ctl_data.next = self.sequencer.rdr_ctl_data.val();
        self.sequencer.rdr_ctl_ready.next = self.readresp.ctl_ready.val();
        self.sqfetch.ctl_valid.next = self.sequencer.sqf_ctl_valid.val();
        self.sqfetch.ctl_data.next = self.sequencer.sqf_ctl_data.val();
        self.sequencer.sqf_ctl_ready.next = self.sqfetch.ctl_ready.val();
        self.rqfetch.ctl_valid.next = self.sequencer.rqf_ctl_valid.val();
        self.rqfetch.ctl_data.next = self.sequencer.rqf_ctl_data.val();
        self.sequencer.rqf_ctl_ready.next = self.rqfetch.ctl_ready.val();
        self.sequencer.rqr_psn.next = self.requester.ctl_psn.val();
        self.sequencer.rqr_idx.next = self.requester.ctl_idx.val();
        self.sequencer.rqr_busy.next = self.requester.ctl_busy.val();
        self.sequencer.rsp_psn.next = self.responder.ctl_psn.val();
        self.sequencer.lim_valid.next = self.responder.lim_valid.val();
        self.sequencer.lim_qp.next = self.responder.lim_qp.val();
        self.err_a.s_valid[0].next = self.requester.err_valid.val();
        self.err_a.s_data[0].next = self.requester.err_data.val();
        self.requester.err_ready.next = self.err_a.s_ready[0].val();
        self.err_a.s_valid[1].next = self.responder.err_valid.val();
        self.err_a.s_data[1].next = self.responder.err_data.val();
        self.responder.err_ready.next = self.err_a.s_ready[1].val();
        self.err_a.s_valid[2].next = self.readresp.err_valid.val();
        self.err_a.s_data[2].next = self.readresp.err_data.val();
        self.readresp.err_ready.next = self.err_a.s_ready[2].val();
        self.err_b.s_valid[0].next = self.sqfetch.flt_valid.val();
        self.err_b.s_data[0].next = self.sqfetch.flt_data.val();
        self.sqfetch.flt_ready.next = self.err_b.s_ready[0].val();
        self.err_b.s_valid[1].next = self.rqfetch.flt_valid.val();
        self.err_b.s_data[1].next = self.rqfetch.flt_data.val();
        self.rqfetch.flt_ready.next = self.err_b.s_ready[1].val();
        self.err_b.s_valid[2].next = self.done.err_valid.val();
        self.err_b.s_data[2].next = self.done.err_data.val();
        self.done.err_ready.next = self.err_b.s_ready[2].val();
        self.requester.td_valid.next = self.done.td_valid.val();
        self.requester.td_qp.next = self.done.td_qp.val();
        self.done.td_ready.next = self.requester.td_ready.val();
        self.err_arb.s_valid[0].next = self.err_a.m_valid.val();
        self.err_arb.s_data[0].next = self.err_a.m_data.val();
        self.err_a.m_ready.next = self.err_arb.s_ready[0].val();
        self.err_arb.s_valid[1].next = self.err_b.m_valid.val();
        self.err_arb.s_data[1].next = self.err_b.m_data.val();
        self.err_b.m_ready.next = self.err_arb.s_ready[1].val();
        self.sequencer.err_valid.next = self.err_arb.m_valid.val();
        self.sequencer.err_data.next = self.err_arb.m_data.val();
        self.err_arb.m_ready.next = self.sequencer.err_ready.val();
        self.placement.cqctl_valid.next = self.sequencer.cqctl_valid.val();
        self.placement.cqctl_cq.next = self.sequencer.cqctl_cq.val();
        self.placement.cqctl_resize.next = self.sequencer.cqctl_resize.val();
        self.placement.eqctl_valid.next = self.sequencer.eqctl_valid.val();
        self.placement.eqctl_pasid.next = self.sequencer.eqctl_pasid.val();
        self.placement.eqctl_base.next = self.sequencer.eqctl_base.val();
        self.placement.eqctl_log.next = self.sequencer.eqctl_log.val();
        // Host port
        self.hostport.rd0_valid.next = self.txdma.rd_valid.val();
        self.hostport.rd0_data.next = self.txdma.rd_data.val();
        self.txdma.rd_ready.next = self.hostport.rd0_ready.val();
        self.hostport.rd1_valid.next = self.sqfetch.rd_valid.val();
        self.hostport.rd1_data.next = self.sqfetch.rd_data.val();
        self.sqfetch.rd_ready.next = self.hostport.rd1_ready.val();
        self.hostport.rd2_valid.next = self.rqfetch.rd_valid.val();
        self.hostport.rd2_data.next = self.rqfetch.rd_data.val();
        self.rqfetch.rd_ready.next = self.hostport.rd2_ready.val();
        self.hostport.rd3_valid.next = self.xl_tx.rd_valid.val();
        self.hostport.rd3_data.next = self.xl_tx.rd_data.val();
        self.xl_tx.rd_ready.next = self.hostport.rd3_ready.val();
        self.hostport.rd4_valid.next = self.placement.mtt_rd_valid.val();
        self.hostport.rd4_data.next = self.placement.mtt_rd_data.val();
        self.placement.mtt_rd_ready.next = self.hostport.rd4_ready.val();
        // the command sequencer shares its host port with the atomic unit, if there is one
        self.sequencer.rd_ready.next = self.hostport.rd5_ready.val();
        self.hostport.rd5_valid.next = self.sequencer.rd_valid.val();
        self.hostport.rd5_data.next = self.sequencer.rd_data.val();
        self.sequencer.wr_ready.next = self.hostport.wr1_ready.val();
        self.hostport.wr1_valid.next = self.sequencer.wr_valid.val();
        self.hostport.wr1_data.next = self.sequencer.wr_data.val();
        self.hostport.wr1_meta.next = self.sequencer.wr_meta.val();
        self.at_none.next.orig = 0.into();
        self.at_none.next.err = false;
        self.readresp.at_ready.next = false;
        self.readresp.ad_valid.next = false;
        self.readresp.ad_data.next = self.at_none.val();
        self.at_mrm.next = 0.into();
        self.at_miss.next = false;
        self.at_idle.next = true;
        self.requester.no_atomics.next = self.no_atomics.val();
        self.responder.no_atomics.next = self.no_atomics.val();
        self.readresp.no_atomics.next = self.no_atomics.val();
        for i in 0..NA {
            self.atomic[i].clock.next = self.clock.val();
            self.atomic[i].rst.next = self.rst.val();
            self.at_mrm.next = self.atomic[i].mrm_raddr.val();
            self.atomic[i].mrm_rdata.next = self.mrm_atomic.rdata.val();
            self.atomic[i].c_rd_valid.next = self.sequencer.rd_valid.val();
            self.atomic[i].c_rd_data.next = self.sequencer.rd_data.val();
            self.sequencer.rd_ready.next = self.atomic[i].c_rd_ready.val();
            self.hostport.rd5_valid.next = self.atomic[i].rd_valid.val();
            self.hostport.rd5_data.next = self.atomic[i].rd_data.val();
            self.atomic[i].rd_ready.next = self.hostport.rd5_ready.val();
            self.atomic[i].fill_valid.next = self.hostport.fill_valid.val();
            self.atomic[i].fill_data.next = self.hostport.fill_data.val();
            self.atomic[i].flush.next = self.sequencer.mtt_flush.val();
            self.atomic[i].job_valid.next = self.readresp.at_valid.val();
            self.atomic[i].job_data.next = self.readresp.at_data.val();
            self.readresp.at_ready.next = self.atomic[i].job_ready.val();
            self.readresp.ad_valid.next = self.atomic[i].done_valid.val();
            self.readresp.ad_data.next = self.atomic[i].done_data.val();
            self.atomic[i].done_ready.next = self.readresp.ad_ready.val();
            self.atomic[i].c_wr_valid.next = self.sequencer.wr_valid.val();
            self.atomic[i].c_wr_data.next = self.sequencer.wr_data.val();
            self.atomic[i].c_wr_meta.next = self.sequencer.wr_meta.val();
            self.sequencer.wr_ready.next = self.atomic[i].c_wr_ready.val();
            self.hostport.wr1_valid.next = self.atomic[i].wr_valid.val();
            self.hostport.wr1_data.next = self.atomic[i].wr_data.val();
            self.hostport.wr1_meta.next = self.atomic[i].wr_meta.val();
            self.atomic[i].wr_ready.next = self.hostport.wr1_ready.val();
            self.at_miss.next = self.atomic[i].ev_miss.val();
            self.at_idle.next = self.atomic[i].idle.val();
        }
        self.mrm_atomic.raddr.next = bit_cast::<LM, 16>(self.at_mrm.val());
        self.rd_valid.next = self.hostport.rd_valid.val();
        self.rd_data.next = self.hostport.rd_data.val();
        self.hostport.rd_ready.next = self.rd_ready.val();
        self.hostport.hrd_valid.next = self.hrd_valid.val();
        self.hostport.hrd_data.next = self.hrd_data.val();
        self.hostport.hrd_meta.next = self.hrd_meta.val();
        self.txdma.cpl_valid.next = self.hostport.pay_valid.val();
        self.txdma.cpl_data.next = self.hostport.pay_data.val();
        self.txdma.cpl_meta.next = self.hostport.pay_meta.val();
        self.sqfetch.fill_valid.next = self.hostport.fill_valid.val();
        self.sqfetch.fill_data.next = self.hostport.fill_data.val();
        self.rqfetch.fill_valid.next = self.hostport.fill_valid.val();
        self.rqfetch.fill_data.next = self.hostport.fill_data.val();
        self.xl_tx.fill_valid.next = self.hostport.fill_valid.val();
        self.xl_tx.fill_data.next = self.hostport.fill_data.val();
        self.placement.fill_valid.next = self.hostport.fill_valid.val();
        self.placement.fill_data.next = self.hostport.fill_data.val();
        self.sequencer.fill_valid.next = self.hostport.fill_valid.val();
        self.sequencer.fill_data.next = self.hostport.fill_data.val();
        self.hostport.wr0_valid.next = self.placement.wr_valid.val();
        self.hostport.wr0_data.next = self.placement.wr_data.val();
        self.hostport.wr0_meta.next = self.placement.wr_meta.val();
        self.placement.wr_ready.next = self.hostport.wr0_ready.val();
        self.wr_valid.next = self.hostport.wr_valid.val();
        self.wr_data.next = self.hostport.wr_data.val();
        self.wr_meta.next = self.hostport.wr_meta.val();
        self.hostport.wr_ready.next = self.wr_ready.val();
        self.xl_tx.limit_log.next = self.regs.mrrs_log.val();
        self.sqfetch.limit_log.next = self.regs.mrrs_log.val();
        self.rqfetch.limit_log.next = self.regs.mrrs_log.val();
        self.placement.mps_log.next = self.regs.mps_log.val();
        self.xl_tx.flush.next = self.sequencer.mtt_flush.val();
        self.placement.mtt_flush.next = self.sequencer.mtt_flush.val();
        // Registers and counters
        self.regs.mmio_rd_valid.next = self.mmio_rd_valid.val();
        self.regs.mmio_rd_addr.next = self.mmio_rd_addr.val();
        self.mmio_rd_done.next = self.regs.mmio_rd_done.val();
        self.mmio_rd_data.next = self.regs.mmio_rd_data.val();
        // Counter `i` of `WIRED`, in the order of `hdl_spec::regs::COUNTERS` (a test compares the two)
        for i in 0..COUNTERS {
            self.regs.ev[i].next = 0.into();
        }
        self.rx_beat.next = self.rx_meta.val();
        self.rx_used.next = self.word_bytes.val();
        if self.rx_beat.val().eop {
            self.rx_used.next = self.word_bytes.val() - bit_cast::<13, 6>(self.rx_beat.val().empty);
        }
        if self.egress.ev_frame.val() {
            self.regs.ev[0].next = 1.into();
        }
        if self.egress.ev_frame.val() {
            self.regs.ev[1].next = bit_cast::<16, 13>(self.egress.ev_bytes.val());
        }
        if self.egress.ev_ack.val() {
            self.regs.ev[2].next = 1.into();
        }
        if self.egress.ev_nak.val() {
            self.regs.ev[3].next = 1.into();
        }
        if self.egress.ev_rnr.val() {
            self.regs.ev[4].next = 1.into();
        }
        if self.requester.ev_retransmit.val() {
            self.regs.ev[5].next = 1.into();
        }
        if self.requester.ev_message.val() {
            self.regs.ev[6].next = 1.into();
        }
        if self.link.m_valid.val() & self.rx_beat.val().eop {
            self.regs.ev[7].next = 1.into();
        }
        if self.link.m_valid.val() {
            self.regs.ev[8].next = bit_cast::<16, 13>(self.rx_used.val());
        }
        if self.ingress.ev_malformed.val() {
            self.regs.ev[9].next = 1.into();
        }
        if self.ingress.ev_icrc.val() {
            self.regs.ev[10].next = 1.into();
        }
        if self.ingress.ev_opcode.val() {
            self.regs.ev[11].next = 1.into();
        }
        if self.requester.ev_drop_qp.val() | self.responder.ev_drop_qp.val() {
            self.regs.ev[12].next = 1.into();
        }
        if self.ingress.ev_full.val() {
            self.regs.ev[13].next = 1.into();
        }
        if self.responder.ev_duplicate.val() {
            self.regs.ev[14].next = 1.into();
        }
        if self.responder.ev_sequence.val() {
            self.regs.ev[15].next = 1.into();
        }
        if self.requester.ev_drop_response.val() {
            self.regs.ev[16].next = 1.into();
        }
        if self.requester.ev_rnr_nak.val() {
            self.regs.ev[17].next = 1.into();
        }
        if self.requester.ev_seq_nak.val() {
            self.regs.ev[18].next = 1.into();
        }
        if self.requester.ev_fatal_nak.val() {
            self.regs.ev[19].next = 1.into();
        }
        if self.responder.ev_cnp.val() {
            self.regs.ev[20].next = 1.into();
        }
        if self.responder.ev_ecn.val() {
            self.regs.ev[21].next = 1.into();
        }
        if self.requester.ev_timeout.val() {
            self.regs.ev[22].next = 1.into();
        }
        if self.sequencer.ev_qp_error.val() {
            self.regs.ev[23].next = 1.into();
        }
        if self.placement.ev_cq_overflow.val() {
            self.regs.ev[24].next = 1.into();
        }
        if self.doorbell.ev_refused.val() {
            self.regs.ev[25].next = 1.into();
        }
        if self.hostport.ev_host_reads.val() {
            self.regs.ev[26].next = 1.into();
        }
        if self.hostport.ev_host_reads.val() {
            self.regs.ev[27].next = bit_cast::<16, 13>(self.hostport.ev_host_reads_len.val());
        }
        if self.hostport.ev_host_writes.val() {
            self.regs.ev[28].next = 1.into();
        }
        if self.hostport.ev_host_writes.val() {
            self.regs.ev[29].next = bit_cast::<16, 13>(self.hostport.ev_host_writes_len.val());
        }
        if self.xl_tx.ev_miss.val() | self.placement.ev_miss.val() {
            self.regs.ev[30].next = 1.into();
        }
        if self.xl_tx.ev_miss.val() & self.placement.ev_miss.val() {
            self.regs.ev[30].next = 2.into();
        }
        if self.at_miss.val() {
            self.regs.ev[30].next = 1.into();
            if self.xl_tx.ev_miss.val() & self.placement.ev_miss.val() {
                self.regs.ev[30].next = 3.into();
            } else if self.xl_tx.ev_miss.val() | self.placement.ev_miss.val() {
                self.regs.ev[30].next = 2.into();
            }
        }
        if self.sequencer.ev_cmd.val() {
            self.regs.ev[31].next = 1.into();
        }
        if self.sequencer.ev_cmd_refused.val() {
            self.regs.ev[32].next = 1.into();
        }
        // Silence
        self.quiet[0].next = ((self.hostport.idle.val() & self.doorbell.idle.val())
            & self.sqfetch.idle.val())
            & self.rqfetch.idle.val();
        self.quiet[1].next = ((self.requester.idle.val() & self.responder.idle.val())
            & self.readresp.idle.val())
            & ((self.order.idle.val() & self.acks.idle.val()) & self.at_idle.val());
        self.quiet[2].next = ((self.xl_tx.idle.val() & self.txdma.idle.val())
            & (self.egress.idle.val() & self.src_check.idle.val()))
            & (self.ingress.idle.val() & !self.req_cut.m_valid.val());
        self.quiet[3].next =
            (self.placement.idle.val() & self.sequencer.idle.val()) & self.windows.idle.val();
        self.idle.next = ((self.quiet[0].val() & self.quiet[1].val())
            & (self.quiet[2].val() & self.quiet[3].val()))
            & !(((self.tx_arb.m_valid.val() | self.pl_arb.m_valid.val())
                | self.err_arb.m_valid.val())
                | ((self.err_a.m_valid.val() | self.err_b.m_valid.val())
                    | self.ev_arb.m_valid.val()));
        self.deadline.next = self.requester.deadline.val();
        self.deadline_valid.next = self.requester.deadline_valid.val();
    }
}

/// `sim-100g`.
#[rustfmt::skip]
pub type Sim100g = Card<512, 1, 64, 256, 2, 2, 11, 13, 10, 6, 5, 16, 4, 15, 13, 15, 9, 512, 12, 6, 64, 12, 8, 12, 16, 322266, 1>;
/// `ecp5-1g`.
#[rustfmt::skip]
pub type Ecp5_1g = Card<64, 8, 8, 32, 14, 9, 4, 6, 5, 4, 3, 7, 2, 6, 6, 8, 4, 16, 12, 4, 16, 12, 5, 7, 4, 62500, 0>;

/// Verilog of the card `sim-100g`, top module `card`.
pub fn verilog_sim_100g() -> String {
    crate::emit::emit_verilog("card", &mut Sim100g::new(&SIM_100G))
}

/// Verilog of the card `ecp5-1g`, top module `card`.
pub fn verilog_ecp5_1g() -> String {
    crate::emit::emit_verilog("card", &mut Ecp5_1g::new(&ECP5_1G))
}
