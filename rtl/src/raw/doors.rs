//! Doorbells of the raw packet queues.

use crate::packed_struct;
use crate::prims::Fifo;
use metaroce_hdl_spec::regs::doorbell;
use rust_hdl::prelude::*;

packed_struct! {
    /// A doorbell of a process: a ring (`raw_ring`), else what there is to do on it (`raw_tx`, `raw_rx`).
    pub struct RawMsg {
        pub pasid: Bits<12>,
        pub ring: bool,
        pub data: Bits<64>,
    }
}

packed_struct! {
    /// A BAR write as it waits.
    pub struct RawDb {
        pub page: Bits<12>,
        pub off: Bits<12>,
        pub is8: bool,
        pub data: Bits<64>,
    }
}

/// Takes BAR writes (4, 8 or 64 bytes), up to 16 waiting, of a card that has raw packet queues only.
///
/// * `LP`: log2 of PASIDs.
/// * Page 0 is the administrator's: every write goes out on `adm` (one pulse, no ready). Other pages: the doorbells RAW_* of
///   `hdl_spec::regs::doorbell`, single 8-byte writes, to `tx` and `rx`; what they name is the page's own ring, so there is nothing to own.
/// * Anything else is dropped with one pulse of `ev_refused`.
/// * Initiation interval 2 (plus waiting for `ready`), latency 2. Order is kept, so one stream that waits holds back the other; `rx` never waits for the
///   wire, `tx` does when the transmit buffer is full.
#[derive(LogicBlock)]
pub struct RawDoors<const LP: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub mmio_wr_valid: Signal<In, bool>,
    pub mmio_wr_addr: Signal<In, Bits<24>>,
    pub mmio_wr_len: Signal<In, Bits<7>>,
    pub mmio_wr_data: Signal<In, Bits<512>>,
    pub mmio_wr_ready: Signal<Out, bool>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, RawMsg>,
    pub tx_ready: Signal<In, bool>,
    pub rx_valid: Signal<Out, bool>,
    pub rx_data: Signal<Out, RawMsg>,
    pub rx_ready: Signal<In, bool>,
    pub adm_valid: Signal<Out, bool>,
    pub adm_addr: Signal<Out, Bits<12>>,
    pub adm_data: Signal<Out, Bits<32>>,
    pub ev_refused: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    fifo: Fifo<RawDb, 4>,
    r: DFF<RawDb>,
    is_tx: DFF<bool>,
    is_rx: DFF<bool>,
    is_adm: DFF<bool>,
    ring: DFF<bool>,
    refused: DFF<bool>,
    off_tx_ring: Constant<Bits<12>>,
    off_rx_ring: Constant<Bits<12>>,
    off_tx: Constant<Bits<12>>,
    off_rx: Constant<Bits<12>>,
    lp: Constant<Bits<5>>,
    w: Signal<Local, RawDb>,
    h: Signal<Local, RawDb>,
    page: Signal<Local, Bits<12>>,
    high: Signal<Local, Bits<12>>,
    off: Signal<Local, Bits<12>>,
    user: Signal<Local, bool>,
    at_ring: Signal<Local, bool>,
    at_tx: Signal<Local, bool>,
    at_rx: Signal<Local, bool>,
    busy: Signal<Local, bool>,
    o: Signal<Local, RawDb>,
    data: Signal<Local, Bits<64>>,
    msg: Signal<Local, RawMsg>,
}

impl<const LP: usize> Default for RawDoors<LP> {
    fn default() -> Self {
        let c = |v: u32| Constant::new((v as u64).into());
        Self {
            clock: Default::default(),
            rst: Default::default(),
            mmio_wr_valid: Default::default(),
            mmio_wr_addr: Default::default(),
            mmio_wr_len: Default::default(),
            mmio_wr_data: Default::default(),
            mmio_wr_ready: Default::default(),
            tx_valid: Default::default(),
            tx_data: Default::default(),
            tx_ready: Default::default(),
            rx_valid: Default::default(),
            rx_data: Default::default(),
            rx_ready: Default::default(),
            adm_valid: Default::default(),
            adm_addr: Default::default(),
            adm_data: Default::default(),
            ev_refused: Default::default(),
            idle: Default::default(),
            fifo: Default::default(),
            r: Default::default(),
            is_tx: Default::default(),
            is_rx: Default::default(),
            is_adm: Default::default(),
            ring: Default::default(),
            refused: Default::default(),
            off_tx_ring: c(doorbell::RAW_TX_RING),
            off_rx_ring: c(doorbell::RAW_RX_RING),
            off_tx: c(doorbell::RAW_TX),
            off_rx: c(doorbell::RAW_RX),
            lp: Constant::new((LP as u64).into()),
            w: Default::default(),
            h: Default::default(),
            page: Default::default(),
            high: Default::default(),
            off: Default::default(),
            user: Default::default(),
            at_ring: Default::default(),
            at_tx: Default::default(),
            at_rx: Default::default(),
            busy: Default::default(),
            o: Default::default(),
            data: Default::default(),
            msg: Default::default(),
        }
    }
}

impl<const LP: usize> Logic for RawDoors<LP> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, r, is_tx, is_rx, is_adm, ring, refused);
        clock!(self, clock, fifo);
        self.fifo.rst.next = self.rst.val();
        self.w.next.page = self.mmio_wr_addr.val().get_bits::<12>(12);
        self.w.next.off = self.mmio_wr_addr.val().get_bits::<12>(0);
        self.w.next.is8 = self.mmio_wr_len.val() == 8;
        self.w.next.data = self.mmio_wr_data.val().get_bits::<64>(0);
        self.fifo.s_valid.next = self.mmio_wr_valid.val();
        self.fifo.s_data.next = self.w.val();
        self.mmio_wr_ready.next = self.fifo.s_ready.val();

        self.h.next = self.fifo.m_data.val();
        self.page.next = self.h.val().page;
        self.off.next = self.h.val().off;
        self.high.next = self.page.val() >> self.lp.val();
        self.user.next = (self.page.val().any() & !self.high.val().any()) & self.h.val().is8;
        self.at_ring.next =
            (self.off.val() == self.off_tx_ring.val()) | (self.off.val() == self.off_rx_ring.val());
        self.at_tx.next = self.user.val()
            & ((self.off.val() == self.off_tx_ring.val()) | (self.off.val() == self.off_tx.val()));
        self.at_rx.next = self.user.val()
            & ((self.off.val() == self.off_rx_ring.val()) | (self.off.val() == self.off_rx.val()));
        self.busy.next = (self.is_tx.q.val() & !self.tx_ready.val())
            | (self.is_rx.q.val() & !self.rx_ready.val());
        self.fifo.m_ready.next = !self.is_tx.q.val() & !self.is_rx.q.val();
        self.refused.d.next = false;
        self.is_adm.d.next = false;
        if !self.busy.val() {
            self.is_tx.d.next = false;
            self.is_rx.d.next = false;
        }
        if self.fifo.m_valid.val() & (!self.is_tx.q.val() & !self.is_rx.q.val()) {
            self.r.d.next = self.h.val();
            self.ring.d.next = self.at_ring.val();
            self.is_tx.d.next = self.at_tx.val();
            self.is_rx.d.next = self.at_rx.val();
            self.is_adm.d.next = !self.page.val().any();
            self.refused.d.next = self.page.val().any() & (!self.at_tx.val() & !self.at_rx.val());
        }
        self.o.next = self.r.q.val();
        self.data.next = self.o.val().data;
        self.msg.next.pasid = self.o.val().page;
        self.msg.next.ring = self.ring.q.val();
        self.msg.next.data = self.data.val();
        self.tx_valid.next = self.is_tx.q.val();
        self.tx_data.next = self.msg.val();
        self.rx_valid.next = self.is_rx.q.val();
        self.rx_data.next = self.msg.val();
        self.adm_valid.next = self.is_adm.q.val();
        self.adm_addr.next = self.o.val().off;
        self.adm_data.next = self.data.val().get_bits::<32>(0);
        self.ev_refused.next = self.refused.q.val();
        self.idle.next = !self.fifo.m_valid.val()
            & ((!self.is_tx.q.val() & !self.is_rx.q.val())
                & (!self.is_adm.q.val() & !self.refused.q.val()));
        if self.rst.val() {
            self.is_tx.d.next = false;
            self.is_rx.d.next = false;
            self.is_adm.d.next = false;
            self.refused.d.next = false;
        }
    }
}
