//! The three blocks as the card wires them.
use metaroce_rtl::egress::Egress;
use metaroce_rtl::layouts::{Av, MrMap};
use metaroce_rtl::sequencer::GidEntry;
use metaroce_rtl::translate::Translate;
use metaroce_rtl::txdma::TxDma;
use metaroce_rtl::types::*;
use rust_hdl::prelude::*;

/// The three blocks as the card wires them.
#[derive(LogicBlock)]
pub struct TxPath<
    const W: usize,
    const L: usize,
    const P: usize,
    const LOG_TX: usize,
    const LOG_TAGS: usize,
    const T: usize,
    const LL: usize,
    const NL: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub cmd_valid: Signal<In, bool>,
    pub cmd_data: Signal<In, TxCmd>,
    pub ack_valid: Signal<In, bool>,
    pub ack_data: Signal<In, AckCmd>,
    pub av_rdata: Signal<In, Av>,
    pub ua_valid: Signal<In, bool>,
    pub ua_data: Signal<In, Bits<309>>,
    pub gid_rdata: Signal<In, GidEntry>,
    pub mrm_rdata: Signal<In, MrMap>,
    pub limit_log: Signal<In, Bits<4>>,
    pub rd_ready: Signal<In, bool>,
    pub cpl_valid: Signal<In, bool>,
    pub cpl_data: Signal<In, Bits<W>>,
    pub cpl_meta: Signal<In, HostRdMeta>,
    pub xrd_ready: Signal<In, bool>,
    pub fill_valid: Signal<In, bool>,
    pub fill_data: Signal<In, CtlFill>,
    pub flush: Signal<In, bool>,
    pub tx_ready: Signal<In, bool>,
    pub done_ready: Signal<In, bool>,
    pub cmd_ready: Signal<Out, bool>,
    pub ack_ready: Signal<Out, bool>,
    pub av_raddr: Signal<Out, Bits<12>>,
    pub ua_ready: Signal<Out, bool>,
    pub gid_raddr: Signal<Out, Bits<4>>,
    pub mrm_raddr: Signal<Out, Bits<16>>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub xrd_valid: Signal<Out, bool>,
    pub xrd_data: Signal<Out, HostRd>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, Bits<W>>,
    pub tx_meta: Signal<Out, WireMeta>,
    pub done_valid: Signal<Out, bool>,
    pub done_data: Signal<Out, TxDone>,
    pub fence_done: Signal<Out, bool>,
    pub ev_frame: Signal<Out, bool>,
    pub ev_bytes: Signal<Out, Bits<13>>,
    pub ev_ack: Signal<Out, bool>,
    pub ev_nak: Signal<Out, bool>,
    pub ev_rnr: Signal<Out, bool>,
    pub ev_miss: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    pub desc_v: Signal<Out, bool>,
    pub desc_r: Signal<Out, bool>,
    dma: TxDma<W, L, LOG_TX, LOG_TAGS, T>,
    xl: Translate<LL, NL>,
    eg: Egress<W, L, P>,
    di: Signal<Local, bool>,
}

impl<
        const W: usize,
        const L: usize,
        const P: usize,
        const LOG_TX: usize,
        const LOG_TAGS: usize,
        const T: usize,
        const LL: usize,
        const NL: usize,
    > Default for TxPath<W, L, P, LOG_TX, LOG_TAGS, T, LL, NL>
{
    fn default() -> Self {
        Self {
            clock: Default::default(),
            rst: Default::default(),
            cmd_valid: Default::default(),
            cmd_data: Default::default(),
            ack_valid: Default::default(),
            ack_data: Default::default(),
            av_rdata: Default::default(),
            ua_valid: Default::default(),
            ua_data: Default::default(),
            gid_rdata: Default::default(),
            ua_ready: Default::default(),
            gid_raddr: Default::default(),
            mrm_rdata: Default::default(),
            limit_log: Default::default(),
            rd_ready: Default::default(),
            cpl_valid: Default::default(),
            cpl_data: Default::default(),
            cpl_meta: Default::default(),
            xrd_ready: Default::default(),
            fill_valid: Default::default(),
            fill_data: Default::default(),
            flush: Default::default(),
            tx_ready: Default::default(),
            done_ready: Default::default(),
            cmd_ready: Default::default(),
            ack_ready: Default::default(),
            av_raddr: Default::default(),
            mrm_raddr: Default::default(),
            rd_valid: Default::default(),
            rd_data: Default::default(),
            xrd_valid: Default::default(),
            xrd_data: Default::default(),
            tx_valid: Default::default(),
            tx_data: Default::default(),
            tx_meta: Default::default(),
            done_valid: Default::default(),
            done_data: Default::default(),
            fence_done: Default::default(),
            ev_frame: Default::default(),
            ev_bytes: Default::default(),
            ev_ack: Default::default(),
            ev_nak: Default::default(),
            ev_rnr: Default::default(),
            ev_miss: Default::default(),
            idle: Default::default(),
            desc_v: Default::default(),
            desc_r: Default::default(),
            dma: Default::default(),
            xl: Translate::new(0xA0),
            eg: Default::default(),
            di: Default::default(),
        }
    }
}

impl<
        const W: usize,
        const L: usize,
        const P: usize,
        const LOG_TX: usize,
        const LOG_TAGS: usize,
        const T: usize,
        const LL: usize,
        const NL: usize,
    > Logic for TxPath<W, L, P, LOG_TX, LOG_TAGS, T, LL, NL>
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, dma, xl, eg);
        self.dma.rst.next = self.rst.val();
        self.xl.rst.next = self.rst.val();
        self.eg.rst.next = self.rst.val();
        self.dma.cmd_valid.next = self.cmd_valid.val();
        self.dma.cmd_data.next = self.cmd_data.val();
        self.dma.rd_ready.next = self.rd_ready.val();
        self.dma.cpl_valid.next = self.cpl_valid.val();
        self.dma.cpl_data.next = self.cpl_data.val();
        self.dma.cpl_meta.next = self.cpl_meta.val();
        self.xl.limit_log.next = self.limit_log.val();
        self.xl.mrm_rdata.next = self.mrm_rdata.val();
        self.xl.flush.next = self.flush.val();
        self.xl.fill_valid.next = self.fill_valid.val();
        self.xl.fill_data.next = self.fill_data.val();
        self.eg.ack_valid.next = self.ack_valid.val();
        self.eg.ack_data.next = self.ack_data.val();
        self.eg.av_rdata.next = self.av_rdata.val();
        self.eg.ua_valid.next = self.ua_valid.val();
        self.eg.ua_data.next = self.ua_data.val();
        self.eg.gid_rdata.next = self.gid_rdata.val();
        self.ua_ready.next = self.eg.ua_ready.val();
        self.gid_raddr.next = self.eg.gid_raddr.val();
        self.eg.tx_ready.next = self.tx_ready.val();
        self.eg.done_ready.next = self.done_ready.val();
        self.xl.rd_ready.next = self.xrd_ready.val();
        self.xl.req_valid.next = self.dma.req_valid.val();
        self.xl.req_data.next = self.dma.req_data.val();
        self.dma.req_ready.next = self.xl.req_ready.val();
        self.dma.chunk_valid.next = self.xl.chunk_valid.val();
        self.dma.chunk_data.next = self.xl.chunk_data.val();
        self.xl.chunk_ready.next = self.dma.chunk_ready.val();
        self.eg.desc_valid.next = self.dma.desc_valid.val();
        self.eg.desc_data.next = self.dma.desc_data.val();
        self.dma.desc_ready.next = self.eg.desc_ready.val();
        self.dma.buf_raddr.next = self.eg.buf_raddr.val();
        self.eg.buf_rdata.next = self.dma.buf_rdata.val();
        self.dma.free_valid.next = self.eg.free_valid.val();
        self.dma.free_words.next = self.eg.free_words.val();
        self.cmd_ready.next = self.dma.cmd_ready.val();
        self.rd_valid.next = self.dma.rd_valid.val();
        self.rd_data.next = self.dma.rd_data.val();
        self.mrm_raddr.next = self.xl.mrm_raddr.val();
        self.ev_miss.next = self.xl.ev_miss.val();
        self.ack_ready.next = self.eg.ack_ready.val();
        self.av_raddr.next = self.eg.av_raddr.val();
        self.tx_valid.next = self.eg.tx_valid.val();
        self.tx_data.next = self.eg.tx_data.val();
        self.tx_meta.next = self.eg.tx_meta.val();
        self.done_valid.next = self.eg.done_valid.val();
        self.done_data.next = self.eg.done_data.val();
        self.fence_done.next = self.eg.fence_done.val();
        self.ev_frame.next = self.eg.ev_frame.val();
        self.ev_bytes.next = self.eg.ev_bytes.val();
        self.ev_ack.next = self.eg.ev_ack.val();
        self.ev_nak.next = self.eg.ev_nak.val();
        self.ev_rnr.next = self.eg.ev_rnr.val();
        self.xrd_valid.next = self.xl.rd_valid.val();
        self.xrd_data.next = self.xl.rd_data.val();
        self.desc_v.next = self.dma.desc_valid.val();
        self.desc_r.next = self.eg.desc_ready.val();
        self.di.next = self.dma.idle.val() & self.xl.idle.val();
        self.idle.next = self.di.val() & self.eg.idle.val();
    }
}
