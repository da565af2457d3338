//! The card `mini`: raw packet queues instead of a transport. Nothing is computed here but counters and `idle`.

use crate::{
    egress::stream::Stream, glue::LinkGate, hostport::HostPort, ingress::Ingress, raw::*, regs::*,
    types::*,
};
use metaroce_hdl_spec::config::{Config, MINI};
use rust_hdl::prelude::*;

/// A whole card with the ports of [`crate::card::Card`], so that whoever drives that one drives this one. 512-bit bus.
///
/// Parameters:
/// * `LP`: log2 of PASIDs
/// * `LT`: log2 of transmit buffer words
/// * `LG`: log2 of read tags
/// * `T`: 2^LG
/// * `LB`: log2 of receive buffer words
/// * `KHZ`: clock
///
/// `deadline` is never: no timer runs. `now` is not looked at.
#[derive(LogicBlock)]
pub struct MiniCard<
    const LP: usize,
    const LT: usize,
    const LG: usize,
    const T: usize,
    const LB: usize,
    const KHZ: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub now: Signal<In, Bits<48>>,
    pub rx_valid: Signal<In, bool>,
    pub rx_data: Signal<In, Bits<512>>,
    pub rx_meta: Signal<In, WireMeta>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, Bits<512>>,
    pub tx_meta: Signal<Out, WireMeta>,
    pub tx_ready: Signal<In, bool>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub hrd_valid: Signal<In, bool>,
    pub hrd_data: Signal<In, Bits<512>>,
    pub hrd_meta: Signal<In, HostRdMeta>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<512>>,
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
    hostport: HostPort<512, 1>,
    doors: RawDoors<LP>,
    tx: RawTx<LP, LT, LG, T>,
    rx: RawRx<LP>,
    stream: Stream<512, 64, 256>,
    link: LinkGate,
    ingress: Ingress<512, 256, 64, LB, 2, 2>,
    regs: Regs<512, 0, 0, 0, 0, LP, 0, KHZ>,
    none: Signal<Local, HostRd>,
    rx_beat: Signal<Local, WireMeta>,
    rx_used: Signal<Local, Bits<13>>,
    never: Constant<Bits<48>>,
    no_lanes: Signal<Local, Bits<64>>,
}

impl<
        const LP: usize,
        const LT: usize,
        const LG: usize,
        const T: usize,
        const LB: usize,
        const KHZ: usize,
    > MiniCard<LP, LT, LG, T, LB, KHZ>
{
    /// A card; panics, with the reason, when `c` is illegal or the parameters are not those of `c`.
    pub fn new(c: &Config) -> Self {
        if let Err(e) = c.check() {
            panic!("configuration {}: {e}", c.name);
        }
        assert!(!c.transport, "{} has a transport: it is a `Card`", c.name);
        assert_eq!(
            (512, LP, LT, LG, LB, KHZ),
            (
                c.bus_bits as usize,
                c.log_pasid as usize,
                c.log_tx_words as usize,
                c.log_tags as usize,
                c.log_rx_words as usize,
                c.clock_khz as usize
            ),
            "tables and buffers of {}",
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
            doors: Default::default(),
            tx: Default::default(),
            rx: Default::default(),
            stream: Default::default(),
            link: Default::default(),
            ingress: Default::default(),
            regs: Regs::new(c.features(), &rom_image(c)),
            none: Default::default(),
            rx_beat: Default::default(),
            rx_used: Default::default(),
            never: Constant::new(Bits::<48>::mask()),
            no_lanes: Default::default(),
        }
    }
}

impl<
        const LP: usize,
        const LT: usize,
        const LG: usize,
        const T: usize,
        const LB: usize,
        const KHZ: usize,
    > Logic for MiniCard<LP, LT, LG, T, LB, KHZ>
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, hostport, doors, tx, rx, stream, link, ingress, regs);
        self.hostport.rst.next = self.rst.val();
        self.doors.rst.next = self.rst.val();
        self.tx.rst.next = self.rst.val();
        self.rx.rst.next = self.rst.val();
        self.stream.rst.next = self.rst.val();
        self.link.rst.next = self.rst.val();
        self.ingress.rst.next = self.rst.val();
        self.regs.rst.next = self.rst.val();
        // BAR
        self.doors.mmio_wr_valid.next = self.mmio_wr_valid.val();
        self.doors.mmio_wr_addr.next = self.mmio_wr_addr.val();
        self.doors.mmio_wr_len.next = self.mmio_wr_len.val();
        self.doors.mmio_wr_data.next = self.mmio_wr_data.val();
        self.mmio_wr_ready.next = self.doors.mmio_wr_ready.val();
        self.tx.msg_valid.next = self.doors.tx_valid.val();
        self.tx.msg_data.next = self.doors.tx_data.val();
        self.doors.tx_ready.next = self.tx.msg_ready.val();
        self.rx.msg_valid.next = self.doors.rx_valid.val();
        self.rx.msg_data.next = self.doors.rx_data.val();
        self.doors.rx_ready.next = self.rx.msg_ready.val();
        self.regs.adm_valid.next = self.doors.adm_valid.val();
        self.regs.adm_addr.next = self.doors.adm_addr.val();
        self.regs.adm_data.next = self.doors.adm_data.val();
        self.regs.mmio_rd_valid.next = self.mmio_rd_valid.val();
        self.regs.mmio_rd_addr.next = self.mmio_rd_addr.val();
        self.mmio_rd_done.next = self.regs.mmio_rd_done.val();
        self.mmio_rd_data.next = self.regs.mmio_rd_data.val();
        // Transmit
        self.tx.mrrs_log.next = self.regs.mrrs_log.val();
        self.hostport.rd0_valid.next = self.tx.rd_valid.val();
        self.hostport.rd0_data.next = self.tx.rd_data.val();
        self.tx.rd_ready.next = self.hostport.rd0_ready.val();
        self.tx.cpl_valid.next = self.hostport.pay_valid.val();
        self.tx.cpl_data.next = self.hostport.pay_data.val();
        self.tx.cpl_meta.next = self.hostport.pay_meta.val();
        self.stream.f_valid.next = self.tx.f_valid.val();
        self.stream.f_meta.next = self.tx.f_meta.val();
        self.stream.f_hdr.next = self.tx.f_hdr.val();
        self.tx.f_ready.next = self.stream.f_ready.val();
        self.tx.buf_raddr.next = self.stream.buf_raddr.val();
        self.stream.buf_rdata.next = self.tx.buf_rdata.val();
        self.tx.free_valid.next = self.stream.free_valid.val();
        self.tx.free_words.next = self.stream.free_words.val();
        self.link.up.next = self.regs.link.val();
        self.link.s_valid.next = self.stream.tx_valid.val();
        self.link.s_meta.next = self.stream.tx_meta.val();
        self.stream.tx_ready.next = self.link.s_ready.val();
        self.tx_valid.next = self.link.tx_valid.val();
        self.link.tx_ready.next = self.tx_ready.val();
        self.tx_data.next = self.stream.tx_data.val();
        self.tx_meta.next = self.stream.tx_meta.val();
        // Receive
        self.link.rx_valid.next = self.rx_valid.val();
        self.link.rx_meta.next = self.rx_meta.val();
        self.ingress.rx_valid.next = self.link.m_valid.val();
        self.ingress.rx_data.next = self.rx_data.val();
        self.ingress.rx_meta.next = self.rx_meta.val();
        self.ingress.port_mac.next = self.regs.mac.val();
        self.rx.req_valid.next = self.ingress.req_valid.val();
        self.rx.req_data.next = self.ingress.req_data.val();
        self.ingress.req_ready.next = self.rx.req_ready.val();
        self.rx.rsp_valid.next = self.ingress.rsp_valid.val();
        self.rx.rsp_data.next = self.ingress.rsp_data.val();
        self.ingress.rsp_ready.next = self.rx.rsp_ready.val();
        self.rx.at_valid.next = self.ingress.at_valid.val();
        self.rx.at_slot.next = self.ingress.at_slot.val();
        self.rx.at_word.next = self.ingress.at_word.val();
        self.ingress.free_valid.next = self.rx.free_valid.val();
        self.ingress.free_slot.next = self.rx.free_slot.val();
        self.ingress.buf_raddr.next = bit_cast::<LB, 16>(self.rx.buf_raddr.val());
        self.no_lanes.next = 0.into();
        self.ingress.buf_rsel.next = self.no_lanes.val();
        self.rx.buf_rdata.next = self.ingress.buf_rdata.val();
        self.rx.mps_log.next = self.regs.mps_log.val();
        self.msi_valid.next = self.rx.msi_valid.val();
        self.msi_pasid.next = self.rx.msi_pasid.val();
        // Host port: one reader, two writers
        self.none.next.pasid = 0.into();
        self.none.next.addr = 0.into();
        self.none.next.len = 0.into();
        self.none.next.tag = 0.into();
        self.hostport.rd1_valid.next = false;
        self.hostport.rd1_data.next = self.none.val();
        self.hostport.rd2_valid.next = false;
        self.hostport.rd2_data.next = self.none.val();
        self.hostport.rd3_valid.next = false;
        self.hostport.rd3_data.next = self.none.val();
        self.hostport.rd4_valid.next = false;
        self.hostport.rd4_data.next = self.none.val();
        self.hostport.rd5_valid.next = false;
        self.hostport.rd5_data.next = self.none.val();
        self.rd_valid.next = self.hostport.rd_valid.val();
        self.rd_data.next = self.hostport.rd_data.val();
        self.hostport.rd_ready.next = self.rd_ready.val();
        self.hostport.hrd_valid.next = self.hrd_valid.val();
        self.hostport.hrd_data.next = self.hrd_data.val();
        self.hostport.hrd_meta.next = self.hrd_meta.val();
        self.hostport.wr0_valid.next = self.rx.wr_valid.val();
        self.hostport.wr0_data.next = self.rx.wr_data.val();
        self.hostport.wr0_meta.next = self.rx.wr_meta.val();
        self.rx.wr_ready.next = self.hostport.wr0_ready.val();
        self.hostport.wr1_valid.next = self.tx.wr_valid.val();
        self.hostport.wr1_data.next = self.tx.wr_data.val();
        self.hostport.wr1_meta.next = self.tx.wr_meta.val();
        self.tx.wr_ready.next = self.hostport.wr1_ready.val();
        self.wr_valid.next = self.hostport.wr_valid.val();
        self.wr_data.next = self.hostport.wr_data.val();
        self.wr_meta.next = self.hostport.wr_meta.val();
        self.hostport.wr_ready.next = self.wr_ready.val();
        // Counters, by their place in `hdl_spec::regs::COUNTERS` (a test compares)
        for i in 0..COUNTERS {
            self.regs.ev[i].next = 0.into();
        }
        self.rx_beat.next = self.rx_meta.val();
        self.rx_used.next = bits::<13>(64);
        if self.rx_beat.val().eop {
            self.rx_used.next = bits::<13>(64) - bit_cast::<13, 6>(self.rx_beat.val().empty);
        }
        if self.stream.ev_frame.val() {
            self.regs.ev[0].next = 1.into();
        }
        if self.stream.ev_frame.val() {
            self.regs.ev[1].next = bit_cast::<16, 13>(self.stream.ev_bytes.val());
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
        if self.rx.ev_qp.val() {
            self.regs.ev[12].next = 1.into();
        }
        if self.ingress.ev_full.val() | self.rx.ev_full.val() {
            self.regs.ev[13].next = 1.into();
        }
        if self.ingress.ev_full.val() & self.rx.ev_full.val() {
            self.regs.ev[13].next = 2.into();
        }
        if self.rx.ev_ecn.val() {
            self.regs.ev[21].next = 1.into();
        }
        if self.doors.ev_refused.val() | self.tx.ev_refused.val() {
            self.regs.ev[25].next = 1.into();
        }
        if self.doors.ev_refused.val() & self.tx.ev_refused.val() {
            self.regs.ev[25].next = 2.into();
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
        // Silence; there is no timer
        self.idle.next = ((self.hostport.idle.val() & self.doors.idle.val())
            & (self.tx.idle.val() & self.rx.idle.val()))
            & (self.stream.idle.val() & self.ingress.idle.val());
        self.deadline.next = self.never.val();
        self.deadline_valid.next = true;
    }
}

/// `mini`.
pub type Mini = MiniCard<6, 10, 6, 64, 12, 322266>;

/// Verilog of the card `mini`, top module `card`.
pub fn verilog_mini() -> String {
    crate::emit::emit_verilog("card", &mut Mini::new(&MINI))
}
