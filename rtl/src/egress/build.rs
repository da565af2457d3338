//! Header builder: one descriptor or acknowledgement in, one complete header and frame geometry out.

use super::hdrlen::{Bswap, HdrInfo, HdrLen, WordGeo};
use crate::layouts::{Av, UdAv};
use crate::packed_struct;
use crate::sequencer::GidEntry;
use crate::txdma::TxDesc;
use crate::types::{AckCmd, TxDone};
use rust_hdl::prelude::*;

packed_struct! {
    /// Geometry of a frame, and what goes with its words. `B` = bytes of a bus word, `n` = bytes before the ICRC.
    pub struct FrameMeta {
        /// Not sent: only frees its words.
        pub skip: bool,
        pub ip6: bool,
        pub vlan: bool,
        /// The ICRC starts two bytes before the end of word `eb` and ends in the next.
        pub straddle: bool,
        /// First word in the transmit buffer.
        pub base: Bits<16>,
        /// Words to free.
        pub words: Bits<12>,
        /// Index of the last word.
        pub last: Bits<10>,
        /// Index of the word with byte `n - 1`.
        pub eb: Bits<10>,
        /// `n mod B`.
        pub r: Bits<6>,
        /// Unused bytes of the last word.
        pub empty: Bits<6>,
        /// Bytes of word `eb` behind `n`.
        pub cempty: Bits<6>,
        /// Header bytes.
        pub hl: Bits<8>,
        /// Header and payload bytes, without pad.
        pub stop: Bits<13>,
        /// Frame bytes.
        pub total: Bits<13>,
        /// 1 ACK, 2 NAK, 3 RNR NAK, else 0.
        pub cls: Bits<2>,
        pub stamp: Bits<48>,
    }
}

packed_struct! {
    /// Untagged Ethernet header, first wire byte first.
    pub struct Eth { pub dmac: Bits<48>, pub smac: Bits<48>, pub etype: Bits<16> }
}
packed_struct! {
    /// Tagged Ethernet header.
    pub struct EthVlan {
        pub dmac: Bits<48>,
        pub smac: Bits<48>,
        pub tpid: Bits<16>,
        pub tci1: Bits<8>,
        pub tci0: Bits<8>,
        pub etype: Bits<16>,
    }
}
packed_struct! {
    /// IPv4 header.
    pub struct Ip4 {
        pub vihl: Bits<8>,
        pub tos: Bits<8>,
        pub len1: Bits<8>,
        pub len0: Bits<8>,
        pub id: Bits<16>,
        pub frag: Bits<16>,
        pub ttl: Bits<8>,
        pub proto: Bits<8>,
        pub csum: Bits<16>,
        pub sip: Bits<32>,
        pub dip: Bits<32>,
    }
}
packed_struct! {
    /// IPv6 header.
    pub struct Ip6 {
        pub b0: Bits<8>,
        pub b1: Bits<8>,
        pub b2: Bits<8>,
        pub b3: Bits<8>,
        pub len1: Bits<8>,
        pub len0: Bits<8>,
        pub next_header: Bits<8>,
        pub hop: Bits<8>,
        pub sip: Bits<128>,
        pub dip: Bits<128>,
    }
}
packed_struct! {
    /// UDP and BTH, and room for the extension headers.
    pub struct L4 {
        pub sport1: Bits<8>,
        pub sport0: Bits<8>,
        pub dport: Bits<16>,
        pub len1: Bits<8>,
        pub len0: Bits<8>,
        pub csum: Bits<16>,
        pub opcode: Bits<8>,
        pub flags: Bits<8>,
        pub pkey: Bits<16>,
        pub ecn: Bits<8>,
        pub qpn2: Bits<8>,
        pub qpn1: Bits<8>,
        pub qpn0: Bits<8>,
        pub ack: Bits<8>,
        pub psn2: Bits<8>,
        pub psn1: Bits<8>,
        pub psn0: Bits<8>,
        pub ext: Bits<224>,
    }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St {
    /// Waits for work; the address vector is read for what is there.
    Pick,
    /// The address vector arrives.
    Load,
    /// Opcode to lengths; IPv4 checksum in pairs of words.
    Opcode,
    /// Lengths; extension headers; checksum of all but the length.
    Length,
    /// Checksum with the length; word indices.
    Sum,
    /// Fold; tails.
    Fold,
    /// The header; waits for the frame before to be taken.
    Emit,
}

/// One frame per seven cycles (initiation interval), six cycles from taking a descriptor to `f_valid`.
///
/// Acknowledgements go first. Fence tokens end here (`fence_done` for one cycle); faulted descriptors become `skip` frames.
#[derive(LogicBlock, Default)]
pub struct Builder<const L: usize> {
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
    /// Address vectors of the UD packets, in their order; source addresses.
    pub ua_valid: Signal<In, bool>,
    pub ua_data: Signal<In, Bits<309>>,
    pub ua_ready: Signal<Out, bool>,
    pub gid_raddr: Signal<Out, Bits<4>>,
    pub gid_rdata: Signal<In, GidEntry>,
    pub done_valid: Signal<Out, bool>,
    pub done_data: Signal<Out, TxDone>,
    pub done_ready: Signal<In, bool>,
    pub fence_done: Signal<Out, bool>,
    pub f_valid: Signal<Out, bool>,
    pub f_meta: Signal<Out, FrameMeta>,
    pub f_hdr: Signal<Out, Bits<1024>>,
    pub f_ready: Signal<In, bool>,
    pub idle: Signal<Out, bool>,
    st: DFF<St>,
    it: DFF<TxDesc>,
    is_ack: DFF<bool>,
    av: DFF<Av>,
    info: DFF<HdrInfo>,
    pad: DFF<Bits<2>>,
    padded: DFF<Bits<13>>,
    p0: DFF<Bits<20>>,
    p1: DFF<Bits<20>>,
    p2: DFF<Bits<20>>,
    sum: DFF<Bits<20>>,
    csum: DFF<Bits<16>>,
    udp_len: DFF<Bits<16>>,
    ip_len: DFF<Bits<16>>,
    ext: DFF<Bits<224>>,
    n: DFF<Bits<13>>,
    m: DFF<FrameMeta>,
    om: DFF<FrameMeta>,
    hdr: DFF<Bits<1024>>,
    ov: DFF<bool>,
    done_v: DFF<bool>,
    hlen: HdrLen,
    sw_va: Bswap<64, 8>,
    sw_rkey: Bswap<32, 4>,
    sw_dlen: Bswap<32, 4>,
    sw_aeth: Bswap<32, 4>,
    sw_imm: Bswap<32, 4>,
    sw_swap: Bswap<64, 8>,
    k: WordGeo<L>,
    d: Signal<Local, TxDesc>,
    a: Signal<Local, AckCmd>,
    take_ack: Signal<Local, bool>,
    take_desc: Signal<Local, bool>,
    fence: Signal<Local, bool>,
    len2: Signal<Local, Bits<2>>,
    pad_n: Signal<Local, Bits<2>>,
    sip: Signal<Local, Bits<128>>,
    dip: Signal<Local, Bits<128>>,
    q: [Signal<Local, Bits<16>>; 6],
    len16: Signal<Local, Bits<16>>,
    xlen: Signal<Local, Bits<16>>,
    swl: Signal<Local, Bits<16>>,
    f1: Signal<Local, Bits<17>>,
    f2: Signal<Local, Bits<16>>,
    aeth: Signal<Local, Bits<32>>,
    kind: Signal<Local, Bits<2>>,
    eb: Signal<Local, Bits<13>>,
    rem: Signal<Local, Bits<13>>,
    r8: Signal<Local, Bits<8>>,
    ce: Signal<Local, Bits<8>>,
    oe: Signal<Local, Bits<8>>,
    opc: Signal<Local, Bits<8>>,
    v: Signal<Local, Av>,
    ua: Signal<Local, UdAv>,
    ua_raw: Signal<Local, Bits<512>>,
    gid: Signal<Local, GidEntry>,
    is_ud: Signal<Local, bool>,
    psn: Signal<Local, Bits<24>>,
    qpn: Signal<Local, Bits<24>>,
    sport: Signal<Local, Bits<16>>,
    vid: Signal<Local, Bits<12>>,
    fl: Signal<Local, Bits<20>>,
    tc: Signal<Local, Bits<8>>,
    flags: Signal<Local, Bits<8>>,
    n0: Signal<Local, Bits<4>>,
    n1: Signal<Local, Bits<4>>,
    eth: Signal<Local, Eth>,
    ethv: Signal<Local, EthVlan>,
    ip4: Signal<Local, Ip4>,
    ip6: Signal<Local, Ip6>,
    l4: Signal<Local, L4>,
    eth_b: Signal<Local, Bits<112>>,
    ethv_b: Signal<Local, Bits<144>>,
    ip4_b: Signal<Local, Bits<160>>,
    ip6_b: Signal<Local, Bits<320>>,
    l4_b: Signal<Local, Bits<384>>,
    l3: Signal<Local, Bits<704>>,
}

impl<const L: usize> Logic for Builder<L> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, st, it, is_ack, av, info, pad, padded, p0, p1, p2, sum, csum);
        dff_setup!(self, clock, udp_len, ip_len, ext, n, m, om, hdr, ov, done_v);
        self.d.next = self.desc_data.val();
        self.a.next = self.ack_data.val();
        self.take_ack.next = (self.st.q.val() == St::Pick) & self.ack_valid.val();
        self.take_desc.next = ((self.st.q.val() == St::Pick) & !self.ack_valid.val())
            & (self.desc_valid.val() & self.done_ready.val());
        self.ack_ready.next = self.st.q.val() == St::Pick;
        self.desc_ready.next = self.take_desc.val();
        self.kind.next = self.d.val().kind;
        self.fence.next = self.take_desc.val() & (self.kind.val() == 1);
        self.fence_done.next = self.fence.val();
        // one cycle later, from the registers: a descriptor comes out of block RAM. The room that was there is still there
        self.done_v.d.next = (self.take_desc.val() & !self.fence.val())
            & (self.d.val().resp_end | self.d.val().fault);
        self.done_valid.next = self.done_v.q.val();
        self.done_data.next.qp = self.it.q.val().qp;
        self.done_data.next.resp = self.it.q.val().resp;
        self.done_data.next.resp_end = self.it.q.val().resp_end;
        self.done_data.next.fault = self.it.q.val().fault;
        self.av_raddr.next = self.d.val().qp;
        if self.ack_valid.val() {
            self.av_raddr.next = self.a.val().qp;
        }
        self.hlen.opcode.next = self.it.q.val().opcode;
        self.hlen.ip6.next = self.it.q.val().ip6;
        self.hlen.vlan.next = self.it.q.val().vlan;
        self.sw_va.x.next = self.it.q.val().va;
        self.sw_rkey.x.next = self.it.q.val().rkey;
        self.sw_dlen.x.next = self.it.q.val().dlen;
        self.sw_imm.x.next = self.it.q.val().imm;
        self.sw_swap.x.next = self.it.q.val().swap;
        self.aeth.next = self.it.q.val().aeth;
        self.sw_aeth.x.next = self.aeth.val();
        self.opc.next = self.it.q.val().opcode;
        self.v.next = self.av.q.val();
        self.ua_raw.next = bit_cast::<512, 309>(self.ua_data.val());
        self.ua.next = self.ua_raw.val().into();
        self.gid.next = self.gid_rdata.val();
        self.gid_raddr.next = self.ua.val().sgid_index;
        self.is_ud.next = (self.opc.val().get_bits::<3>(5) == 3) & !self.is_ack.q.val();
        self.ua_ready.next = false;

        // geometry
        self.len2.next = self.padded.q.val().get_bits::<2>(0);
        self.pad_n.next = bits::<2>(0) - self.len2.val();
        self.len16.next = bit_cast::<16, 13>(self.padded.q.val());
        self.xlen.next = self.len16.val() + bit_cast::<16, 8>(self.info.q.val().ext);
        self.eb.next = self.n.q.val() >> self.k.lb.val();
        self.rem.next = self.n.q.val() & self.k.low.val();
        self.r8.next = bit_cast::<8, 6>(self.m.q.val().r);
        self.ce.next = self.k.bytes.val() - self.r8.val();
        self.oe.next = self.ce.val() - 4;

        // checksum: ones' complement sums do not care for the byte order, so it is done on the bytes as they go out
        self.sip.next = self.v.val().sip;
        self.dip.next = self.v.val().dip;
        self.q[0].next = self.sip.val().get_bits::<16>(96);
        self.q[1].next = self.sip.val().get_bits::<16>(112);
        self.q[2].next = self.dip.val().get_bits::<16>(96);
        self.q[3].next = self.dip.val().get_bits::<16>(112);
        // 45 and, from the next word but one, DF (40)
        self.q[4].next = bits::<16>(0x85) | (bit_cast::<16, 8>(self.v.val().tclass) << 8);
        self.q[5].next = bits::<16>(0x1100) | bit_cast::<16, 8>(self.v.val().hop_limit);
        self.swl.next = (self.ip_len.q.val() << 8) | (self.ip_len.q.val() >> 8);
        self.f1.next = bit_cast::<17, 16>(self.sum.q.val().get_bits::<16>(0))
            + bit_cast::<17, 4>(self.sum.q.val().get_bits::<4>(16));
        self.f2.next = self.f1.val().get_bits::<16>(0);
        if self.f1.val().get_bit(16) {
            self.f2.next = self.f1.val().get_bits::<16>(0) + 1;
        }

        // header fields
        self.psn.next = self.it.q.val().psn;
        self.qpn.next = self.v.val().dqpn;
        self.sport.next = self.v.val().sport;
        self.vid.next = self.v.val().vlan;
        self.fl.next = self.v.val().flow_label;
        self.tc.next = self.v.val().tclass;
        self.flags.next = bits::<8>(0x40) | (bit_cast::<8, 2>(self.pad.q.val()) << 4);
        if self.it.q.val().se {
            self.flags.next = self.flags.val() | 0x80;
        }
        self.eth.next.dmac = self.v.val().dmac;
        self.eth.next.smac = self.v.val().smac;
        self.eth.next.etype = bits::<16>(0x0008);
        if self.it.q.val().ip6 {
            self.eth.next.etype = bits::<16>(0xDD86);
        }
        self.ethv.next.dmac = self.v.val().dmac;
        self.ethv.next.smac = self.v.val().smac;
        self.ethv.next.tpid = bits::<16>(0x0081);
        self.n0.next = self.vid.val().get_bits::<4>(8);
        self.ethv.next.tci1 =
            (bit_cast::<8, 3>(self.v.val().pcp) << 5) | bit_cast::<8, 4>(self.n0.val());
        self.ethv.next.tci0 = self.vid.val().get_bits::<8>(0);
        self.ethv.next.etype = self.eth.val().etype;
        self.ip4.next.vihl = bits::<8>(0x45);
        self.ip4.next.tos = self.tc.val();
        self.ip4.next.len1 = self.ip_len.q.val().get_bits::<8>(8);
        self.ip4.next.len0 = self.ip_len.q.val().get_bits::<8>(0);
        self.ip4.next.id = bits::<16>(0);
        self.ip4.next.frag = bits::<16>(0x0040);
        self.ip4.next.ttl = self.v.val().hop_limit;
        self.ip4.next.proto = bits::<8>(17);
        self.ip4.next.csum = self.csum.q.val();
        self.ip4.next.sip = self.sip.val().get_bits::<32>(96);
        self.ip4.next.dip = self.dip.val().get_bits::<32>(96);
        self.n1.next = self.tc.val().get_bits::<4>(4);
        self.ip6.next.b0 = bits::<8>(0x60) | bit_cast::<8, 4>(self.n1.val());
        self.n0.next = self.tc.val().get_bits::<4>(0);
        self.n1.next = self.fl.val().get_bits::<4>(16);
        self.ip6.next.b1 = (bit_cast::<8, 4>(self.n0.val()) << 4) | bit_cast::<8, 4>(self.n1.val());
        self.ip6.next.b2 = self.fl.val().get_bits::<8>(8);
        self.ip6.next.b3 = self.fl.val().get_bits::<8>(0);
        self.ip6.next.len1 = self.udp_len.q.val().get_bits::<8>(8);
        self.ip6.next.len0 = self.udp_len.q.val().get_bits::<8>(0);
        self.ip6.next.next_header = bits::<8>(17);
        self.ip6.next.hop = self.v.val().hop_limit;
        self.ip6.next.sip = self.sip.val();
        self.ip6.next.dip = self.dip.val();
        self.l4.next.sport1 = self.sport.val().get_bits::<8>(8);
        self.l4.next.sport0 = self.sport.val().get_bits::<8>(0);
        self.l4.next.dport = bits::<16>(0xB712);
        self.l4.next.len1 = self.udp_len.q.val().get_bits::<8>(8);
        self.l4.next.len0 = self.udp_len.q.val().get_bits::<8>(0);
        self.l4.next.csum = bits::<16>(0);
        self.l4.next.opcode = self.opc.val();
        self.l4.next.flags = self.flags.val();
        self.l4.next.pkey = bits::<16>(0xFFFF);
        self.l4.next.ecn = bits::<8>(0);
        if self.info.q.val().cnp {
            self.l4.next.ecn = bits::<8>(0x40);
        }
        self.l4.next.qpn2 = self.qpn.val().get_bits::<8>(16);
        self.l4.next.qpn1 = self.qpn.val().get_bits::<8>(8);
        self.l4.next.qpn0 = self.qpn.val().get_bits::<8>(0);
        self.l4.next.ack = bits::<8>(0);
        if self.it.q.val().ackreq {
            self.l4.next.ack = bits::<8>(0x80);
        }
        self.l4.next.psn2 = self.psn.val().get_bits::<8>(16);
        self.l4.next.psn1 = self.psn.val().get_bits::<8>(8);
        self.l4.next.psn0 = self.psn.val().get_bits::<8>(0);
        self.l4.next.ext = self.ext.q.val();
        self.eth_b.next = self.eth.val().into();
        self.ethv_b.next = self.ethv.val().into();
        self.ip4_b.next = self.ip4.val().into();
        self.ip6_b.next = self.ip6.val().into();
        self.l4_b.next = self.l4.val().into();
        self.l3.next = 0.into();

        if self.ov.q.val() & self.f_ready.val() {
            self.ov.d.next = false;
        }
        match self.st.q.val() {
            St::Pick => {
                self.it.d.next = self.desc_data.val();
                self.is_ack.d.next = self.ack_valid.val();
                if self.take_ack.val() {
                    self.it.d.next.qp = self.a.val().qp;
                    self.it.d.next.opcode = self.a.val().opcode;
                    self.it.d.next.psn = self.a.val().psn;
                    self.it.d.next.aeth = self.a.val().aeth;
                    self.it.d.next.ackreq = false;
                    self.it.d.next.se = false;
                    self.it.d.next.len = bits::<13>(0);
                    self.it.d.next.stamp = bits::<48>(0);
                    self.it.d.next.words = bits::<12>(0);
                    self.it.d.next.fault = false;
                }
                if self.take_ack.val() | (self.take_desc.val() & !self.fence.val()) {
                    self.st.d.next = St::Load;
                }
            }
            St::Load => {
                self.av.d.next = self.av_rdata.val();
                if self.is_ud.val() {
                    // it was pushed before the packet was, and its source address was asked for in the cycle before
                    self.ua_ready.next = self.ua_valid.val();
                    self.av.d.next.dqpn = self.ua.val().dqpn;
                    self.av.d.next.ip6 = self.ua.val().ip6;
                    self.av.d.next.has_vlan = self.ua.val().has_vlan;
                    self.av.d.next.pcp = self.ua.val().pcp;
                    self.av.d.next.hop_limit = self.ua.val().hop_limit;
                    self.av.d.next.tclass = self.ua.val().tclass;
                    self.av.d.next.vlan = self.ua.val().vlan;
                    self.av.d.next.sport = self.ua.val().sport;
                    self.av.d.next.dmac = self.ua.val().dmac;
                    self.av.d.next.flow_label = self.ua.val().flow_label;
                    self.av.d.next.smac = self.gid.val().mac;
                    self.av.d.next.sip = self.gid.val().gid;
                    self.av.d.next.dip = self.ua.val().dgid;
                    self.it.d.next.rkey = self.ua.val().qkey;
                }
                if self.is_ack.q.val() {
                    self.it.d.next.ip6 = self.av_rdata.val().ip6;
                    self.it.d.next.vlan = self.av_rdata.val().has_vlan;
                }
                self.padded.d.next = self.it.q.val().len;
                self.st.d.next = St::Opcode;
            }
            St::Opcode => {
                self.info.d.next = self.hlen.info.val();
                self.pad.d.next = self.pad_n.val();
                self.padded.d.next = self.padded.q.val() + bit_cast::<13, 2>(self.pad_n.val());
                self.p0.d.next =
                    bit_cast::<20, 16>(self.q[0].val()) + bit_cast::<20, 16>(self.q[1].val());
                self.p1.d.next =
                    bit_cast::<20, 16>(self.q[2].val()) + bit_cast::<20, 16>(self.q[3].val());
                self.p2.d.next =
                    bit_cast::<20, 16>(self.q[4].val()) + bit_cast::<20, 16>(self.q[5].val());
                self.st.d.next = St::Length;
            }
            St::Length => {
                self.sum.d.next = (self.p0.q.val() + self.p1.q.val()) + self.p2.q.val();
                self.udp_len.d.next = self.xlen.val() + 24;
                self.ip_len.d.next = self.xlen.val() + 44;
                self.n.d.next = self.padded.q.val() + bit_cast::<13, 8>(self.info.q.val().hl);
                self.m.d.next.stop = self.it.q.val().len + bit_cast::<13, 8>(self.info.q.val().hl);
                self.m.d.next.hl = self.info.q.val().hl;
                self.ext.d.next = 0.into();
                if self.info.q.val().deth {
                    // Q_Key, then the QPN that sends (it travels as dlen)
                    self.ext.d.next = (bit_cast::<224, 32>(self.sw_rkey.y.val())
                        | (bit_cast::<224, 32>(self.sw_dlen.y.val()) << 32))
                        | (bit_cast::<224, 32>(self.it.q.val().imm) << 64);
                    if !self.info.q.val().imm {
                        self.ext.d.next = bit_cast::<224, 32>(self.sw_rkey.y.val())
                            | (bit_cast::<224, 32>(self.sw_dlen.y.val()) << 32);
                    }
                } else if self.info.q.val().reth {
                    self.ext.d.next = (bit_cast::<224, 64>(self.sw_va.y.val())
                        | (bit_cast::<224, 32>(self.sw_rkey.y.val()) << 64))
                        | (bit_cast::<224, 32>(self.sw_dlen.y.val()) << 96);
                    if self.info.q.val().imm {
                        self.ext.d.next = ((bit_cast::<224, 64>(self.sw_va.y.val())
                            | (bit_cast::<224, 32>(self.sw_rkey.y.val()) << 64))
                            | (bit_cast::<224, 32>(self.sw_dlen.y.val()) << 96))
                            | (bit_cast::<224, 32>(self.it.q.val().imm) << 128);
                    }
                } else if self.info.q.val().atomic {
                    // address, rkey, swap or add, compare (its high half travels as dlen)
                    self.ext.d.next = ((bit_cast::<224, 64>(self.sw_va.y.val())
                        | (bit_cast::<224, 32>(self.sw_rkey.y.val()) << 64))
                        | (bit_cast::<224, 64>(self.sw_swap.y.val()) << 96))
                        | ((bit_cast::<224, 32>(self.sw_dlen.y.val()) << 160)
                            | (bit_cast::<224, 32>(self.sw_imm.y.val()) << 192));
                } else if self.info.q.val().atack {
                    self.ext.d.next = bit_cast::<224, 32>(self.sw_aeth.y.val())
                        | (bit_cast::<224, 64>(self.sw_va.y.val()) << 32);
                } else if self.info.q.val().aeth {
                    self.ext.d.next = bit_cast::<224, 32>(self.sw_aeth.y.val());
                } else if self.info.q.val().imm {
                    self.ext.d.next = bit_cast::<224, 32>(self.it.q.val().imm);
                }
                self.st.d.next = St::Sum;
            }
            St::Sum => {
                self.sum.d.next = self.sum.q.val() + bit_cast::<20, 16>(self.swl.val());
                self.m.d.next.eb = bit_cast::<10, 13>(self.eb.val());
                self.m.d.next.r = bit_cast::<6, 13>(self.rem.val());
                self.m.d.next.total = self.n.q.val() + 4;
                self.m.d.next.base = self.it.q.val().base;
                self.m.d.next.words = self.it.q.val().words;
                self.m.d.next.skip = self.it.q.val().fault;
                self.m.d.next.stamp = self.it.q.val().stamp;
                self.m.d.next.ip6 = self.it.q.val().ip6;
                self.m.d.next.vlan = self.it.q.val().vlan;
                self.m.d.next.cls = bits::<2>(0);
                if self.is_ack.q.val() & (self.opc.val() == 17) {
                    if !self.aeth.val().get_bit(29) {
                        self.m.d.next.cls = bits::<2>(1);
                    } else if self.aeth.val().get_bit(30) {
                        self.m.d.next.cls = bits::<2>(2);
                    } else {
                        self.m.d.next.cls = bits::<2>(3);
                    }
                }
                self.st.d.next = St::Fold;
            }
            St::Fold => {
                self.csum.d.next = !self.f2.val();
                self.m.d.next.cempty = bit_cast::<6, 8>(self.ce.val());
                self.m.d.next.straddle = self.m.q.val().r == self.k.split.val();
                if self.m.q.val().r == self.k.split.val() {
                    self.m.d.next.last = self.m.q.val().eb + 1;
                    self.m.d.next.empty = self.k.split.val();
                } else {
                    self.m.d.next.last = self.m.q.val().eb;
                    self.m.d.next.empty = bit_cast::<6, 8>(self.oe.val());
                }
                self.st.d.next = St::Emit;
            }
            St::Emit => {
                // `f_ready` would be the clock enable of the whole header
                if !self.ov.q.val() {
                    if self.it.q.val().ip6 {
                        self.l3.next = bit_cast::<704, 320>(self.ip6_b.val())
                            | (bit_cast::<704, 384>(self.l4_b.val()) << 320);
                    } else {
                        self.l3.next = bit_cast::<704, 160>(self.ip4_b.val())
                            | (bit_cast::<704, 384>(self.l4_b.val()) << 160);
                    }
                    if self.it.q.val().vlan {
                        self.hdr.d.next = bit_cast::<1024, 144>(self.ethv_b.val())
                            | (bit_cast::<1024, 704>(self.l3.val()) << 144);
                    } else {
                        self.hdr.d.next = bit_cast::<1024, 112>(self.eth_b.val())
                            | (bit_cast::<1024, 704>(self.l3.val()) << 112);
                    }
                    self.om.d.next = self.m.q.val();
                    self.ov.d.next = true;
                    self.st.d.next = St::Pick;
                }
            }
        }
        self.f_valid.next = self.ov.q.val();
        self.f_meta.next = self.om.q.val();
        self.f_hdr.next = self.hdr.q.val();
        self.idle.next = (self.st.q.val() == St::Pick)
            & (!self.ov.q.val() & (!self.desc_valid.val() & !self.ack_valid.val()));
        if self.rst.val() {
            self.st.d.next = St::Pick;
            self.ov.d.next = false;
            self.done_v.d.next = false;
        }
    }
}
