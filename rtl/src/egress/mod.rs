//! Egress: headers, ICRC and the wire.
//!
//! * In: descriptors of [`crate::txdma`] in the order in which frames leave (offered only when their payload is in the transmit buffer),
//!   acknowledgements (taken first, at frame boundaries), the port of the address vector table (`av_raddr` is a QP index, data one cycle
//!   later), the read port of the transmit buffer, `tx_ready`.
//! * Out: the wire; `done` for the last packet of a READ response and for every frame whose payload could not be read (not sent);
//!   `fence_done` for one cycle per fence token; `free_*` gives buffer words back, in order; events: `ev_frame` with
//!   `ev_bytes` (0 otherwise), and `ev_ack`, `ev_nak`, `ev_rnr` in the same cycle for frames of that kind.
//! * A frame that has started goes out one word a cycle. Up to 32 words wait in the egress.
//! * Latency: 18 cycles from a descriptor to the first word on the wire. Initiation interval: 7 cycles or the words of the frame, whichever
//!   is more; frames that wait have no idle cycle between them.
//! * UD: the address vector comes from `ua` (one per UD packet, in their order) and the source address from the GID table port, not from the table.
//! * Limits: opcodes of RC, UC, UD and CNP; headers up to 106 bytes; `W` is 64 or 512 (also 128, 256), `L = W / 8`,
//!   `P = W / 2`.
//! * `TxCmd.imm` goes out as it is, lowest byte first, for ImmDt and IETH alike.

pub mod build;
pub mod hdrlen;
pub mod stream;

use self::build::Builder;
use self::stream::Stream;
use crate::layouts::Av;
use crate::prims::Fifo;
use crate::sequencer::GidEntry;
use crate::txdma::TxDesc;
use crate::types::{AckCmd, TxDone, WireMeta};
use rust_hdl::prelude::*;

/// See the module.
#[derive(LogicBlock, Default)]
pub struct Egress<const W: usize, const L: usize, const P: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub desc_valid: Signal<In, bool>,
    pub desc_data: Signal<In, TxDesc>,
    pub desc_ready: Signal<Out, bool>,
    pub ack_valid: Signal<In, bool>,
    pub ack_data: Signal<In, AckCmd>,
    pub ack_ready: Signal<Out, bool>,
    pub av_raddr: Signal<Out, Bits<12>>,
    pub av_rdata: Signal<In, Av>,
    pub ua_valid: Signal<In, bool>,
    pub ua_data: Signal<In, Bits<309>>,
    pub ua_ready: Signal<Out, bool>,
    pub gid_raddr: Signal<Out, Bits<4>>,
    pub gid_rdata: Signal<In, GidEntry>,
    pub buf_raddr: Signal<Out, Bits<16>>,
    pub buf_rdata: Signal<In, Bits<W>>,
    pub free_valid: Signal<Out, bool>,
    pub free_words: Signal<Out, Bits<12>>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, Bits<W>>,
    pub tx_meta: Signal<Out, WireMeta>,
    pub tx_ready: Signal<In, bool>,
    pub done_valid: Signal<Out, bool>,
    pub done_data: Signal<Out, TxDone>,
    pub done_ready: Signal<In, bool>,
    pub fence_done: Signal<Out, bool>,
    pub ev_frame: Signal<Out, bool>,
    pub ev_bytes: Signal<Out, Bits<13>>,
    pub ev_ack: Signal<Out, bool>,
    pub ev_nak: Signal<Out, bool>,
    pub ev_rnr: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    build: Builder<L>,
    stream: Stream<W, L, P>,
    done: Fifo<TxDone, 3>,
}

/// For `sim-100g`.
pub type Egress512 = Egress<512, 64, 256>;
/// For `ecp5-1g`.
pub type Egress64 = Egress<64, 8, 32>;

impl<const W: usize, const L: usize, const P: usize> Logic for Egress<W, L, P> {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, build, stream, done);
        self.build.rst.next = self.rst.val();
        self.stream.rst.next = self.rst.val();
        self.done.rst.next = self.rst.val();
        self.build.desc_valid.next = self.desc_valid.val();
        self.build.desc_data.next = self.desc_data.val();
        self.desc_ready.next = self.build.desc_ready.val();
        self.build.ack_valid.next = self.ack_valid.val();
        self.build.ack_data.next = self.ack_data.val();
        self.ack_ready.next = self.build.ack_ready.val();
        self.av_raddr.next = self.build.av_raddr.val();
        self.build.av_rdata.next = self.av_rdata.val();
        self.build.ua_valid.next = self.ua_valid.val();
        self.build.ua_data.next = self.ua_data.val();
        self.ua_ready.next = self.build.ua_ready.val();
        self.gid_raddr.next = self.build.gid_raddr.val();
        self.build.gid_rdata.next = self.gid_rdata.val();
        self.done.s_valid.next = self.build.done_valid.val();
        self.done.s_data.next = self.build.done_data.val();
        self.build.done_ready.next = self.done.s_ready.val();
        self.done_valid.next = self.done.m_valid.val();
        self.done_data.next = self.done.m_data.val();
        self.done.m_ready.next = self.done_ready.val();
        self.fence_done.next = self.build.fence_done.val();
        self.stream.f_valid.next = self.build.f_valid.val();
        self.stream.f_meta.next = self.build.f_meta.val();
        self.stream.f_hdr.next = self.build.f_hdr.val();
        self.build.f_ready.next = self.stream.f_ready.val();
        self.buf_raddr.next = self.stream.buf_raddr.val();
        self.stream.buf_rdata.next = self.buf_rdata.val();
        self.free_valid.next = self.stream.free_valid.val();
        self.free_words.next = self.stream.free_words.val();
        self.tx_valid.next = self.stream.tx_valid.val();
        self.tx_data.next = self.stream.tx_data.val();
        self.tx_meta.next = self.stream.tx_meta.val();
        self.stream.tx_ready.next = self.tx_ready.val();
        self.ev_frame.next = self.stream.ev_frame.val();
        self.ev_bytes.next = self.stream.ev_bytes.val();
        self.ev_ack.next = self.stream.ev_ack.val();
        self.ev_nak.next = self.stream.ev_nak.val();
        self.ev_rnr.next = self.stream.ev_rnr.val();
        self.idle.next =
            (self.build.idle.val() & self.stream.idle.val()) & !self.done.m_valid.val();
    }
}
