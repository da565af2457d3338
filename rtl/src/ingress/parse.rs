//! Header checks of a stored frame: one verdict per frame.

use super::opcode::{ClassInfo, OpClass};
use super::swap::Swap;
use crate::packed_struct;
use crate::prims::Fifo;
use crate::types::RxPkt;
use array_init::array_init;
use rust_hdl::prelude::*;

packed_struct! {
    /// A stored frame: its first 112 bytes, its length, its first buffer word and its slot.
    pub struct HdrEnt {
        pub hdr: Bits<896>,
        pub flen: Bits<13>,
        pub word: Bits<16>,
        pub slot: Bits<7>,
        pub stamp: Bits<48>,
    }
}

/// FSM over the header queue; initiation interval 8 cycles.
///
/// * `s_*`: frames in order; `ok_*`: the ICRC verdict of each, in the same order. Both are popped together.
/// * A good packet goes to `req_*` or `rsp_*` (queues of four); a bad one gives `bad_valid`/`bad_slot` for one cycle and one of `ev_*`.
/// * Order of the checks as in the protocol crate: L2 to UDP, opcode, lengths / TVer / pad, ICRC.
#[derive(LogicBlock)]
pub struct Parser {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub port_mac: Signal<In, Bits<48>>,
    pub s_valid: Signal<In, bool>,
    pub s_data: Signal<In, HdrEnt>,
    pub s_ready: Signal<Out, bool>,
    pub ok_valid: Signal<In, bool>,
    pub ok: Signal<In, bool>,
    pub ok_ready: Signal<Out, bool>,
    pub req_valid: Signal<Out, bool>,
    pub req_data: Signal<Out, RxPkt>,
    pub req_ready: Signal<In, bool>,
    pub rsp_valid: Signal<Out, bool>,
    pub rsp_data: Signal<Out, RxPkt>,
    pub rsp_ready: Signal<In, bool>,
    pub bad_valid: Signal<Out, bool>,
    pub bad_slot: Signal<Out, Bits<7>>,
    pub ev_malformed: Signal<Out, bool>,
    pub ev_opcode: Signal<Out, bool>,
    pub ev_icrc: Signal<Out, bool>,
    /// log2 of the bytes of a word.
    lane_log: Constant<Bits<5>>,
    q_req: Fifo<RxPkt, 2>,
    q_rsp: Fifo<RxPkt, 2>,
    state: DFF<Bits<3>>,
    mac_ok: DFF<bool>,
    t_vlan: DFF<bool>,
    t4: DFF<bool>,
    t6: DFF<bool>,
    u4: DFF<bool>,
    u6: DFF<bool>,
    vlan: DFF<bool>,
    ip4: DFF<bool>,
    ip6: DFF<bool>,
    ipw: DFF<Bits<704>>,
    l4: DFF<Bits<384>>,
    ip_ok: DFF<bool>,
    ce: DFF<bool>,
    len_raw: DFF<Bits<16>>,
    sum5: [DFF<Bits<17>>; 5],
    sum_a: DFF<Bits<20>>,
    sum_b: DFF<Bits<20>>,
    sum: DFF<Bits<20>>,
    sum_ok: DFF<bool>,
    dport_ok: DFF<bool>,
    ulen: DFF<Bits<17>>,
    ipl: DFF<Bits<17>>,
    cls: DFF<Bits<4>>,
    ulen_ok: DFF<bool>,
    ext: DFF<Bits<6>>,
    nopay: DFF<bool>,
    rsp: DFF<bool>,
    imm_at: DFF<Bits<2>>,
    total: DFF<Bits<17>>,
    hdrs: DFF<Bits<7>>,
    need: DFF<Bits<7>>,
    tail: DFF<Bits<17>>,
    plen: DFF<Bits<17>>,
    eth_ok: DFF<bool>,
    src: DFF<Bits<20>>,
    e: Signal<Local, HdrEnt>,
    hd: Signal<Local, Bits<896>>,
    et: Signal<Local, Bits<16>>,
    et2: Signal<Local, Bits<16>>,
    ip_n: Signal<Local, Bits<704>>,
    b0: Signal<Local, Bits<8>>,
    b1: Signal<Local, Bits<8>>,
    proto: Signal<Local, Bits<8>>,
    frag: Signal<Local, Bits<16>>,
    ver4: Signal<Local, bool>,
    ver6: Signal<Local, bool>,
    x16: Signal<Local, Bits<16>>,
    x17: [Signal<Local, Bits<17>>; 10],
    fold: Signal<Local, Bits<17>>,
    op: Signal<Local, Bits<8>>,
    bth1: Signal<Local, Bits<8>>,
    bth8: Signal<Local, Bits<8>>,
    pad: Signal<Local, Bits<2>>,
    iphdr: Signal<Local, Bits<17>>,
    hdrs_n: Signal<Local, Bits<7>>,
    at_word: Signal<Local, Bits<20>>,
    long: Signal<Local, bool>,
    bad1: Signal<Local, bool>,
    bad2: Signal<Local, bool>,
    good: Signal<Local, bool>,
    room: Signal<Local, bool>,
    done: Signal<Local, bool>,
    pk: Signal<Local, RxPkt>,
    sip: Signal<Local, Bits<128>>,
    sip_pre: Constant<Bits<128>>,
    ops: OpClass,
    info: ClassInfo,
    ulen_sw: Swap<16, 2>,
    len_sw: Swap<16, 2>,
    qpn_sw: Swap<24, 3>,
    psn_sw: Swap<24, 3>,
    va_sw: Swap<64, 8>,
    rkey_sw: Swap<32, 4>,
    dlen_sw: Swap<32, 4>,
    aeth_sw: Swap<32, 4>,
    orig_sw: Swap<64, 8>,
    swap_sw: Swap<64, 8>,
    cmp_sw: Swap<64, 8>,
    c_vlan: Constant<Bits<16>>,
    c_v4: Constant<Bits<16>>,
    c_v6: Constant<Bits<16>>,
    c_port: Constant<Bits<16>>,
    c_frag: Constant<Bits<16>>,
    c_ffff: Constant<Bits<17>>,
    c_64: Constant<Bits<13>>,
    c_24: Constant<Bits<17>>,
}

impl Parser {
    /// `lane_log`: log2 of the bytes of a buffer word.
    pub fn new(lane_log: u64) -> Self {
        Self {
            clock: Default::default(),
            rst: Default::default(),
            port_mac: Default::default(),
            s_valid: Default::default(),
            s_data: Default::default(),
            s_ready: Default::default(),
            ok_valid: Default::default(),
            ok: Default::default(),
            ok_ready: Default::default(),
            req_valid: Default::default(),
            req_data: Default::default(),
            req_ready: Default::default(),
            rsp_valid: Default::default(),
            rsp_data: Default::default(),
            rsp_ready: Default::default(),
            bad_valid: Default::default(),
            bad_slot: Default::default(),
            ev_malformed: Default::default(),
            ev_opcode: Default::default(),
            ev_icrc: Default::default(),
            lane_log: Constant::new(lane_log.into()),
            q_req: Default::default(),
            q_rsp: Default::default(),
            state: Default::default(),
            mac_ok: Default::default(),
            t_vlan: Default::default(),
            t4: Default::default(),
            t6: Default::default(),
            u4: Default::default(),
            u6: Default::default(),
            vlan: Default::default(),
            ip4: Default::default(),
            ip6: Default::default(),
            ipw: Default::default(),
            l4: Default::default(),
            ip_ok: Default::default(),
            ce: Default::default(),
            len_raw: Default::default(),
            sum5: array_init(|_| Default::default()),
            sum_a: Default::default(),
            sum_b: Default::default(),
            sum: Default::default(),
            sum_ok: Default::default(),
            dport_ok: Default::default(),
            ulen: Default::default(),
            ipl: Default::default(),
            cls: Default::default(),
            ulen_ok: Default::default(),
            ext: Default::default(),
            nopay: Default::default(),
            rsp: Default::default(),
            imm_at: Default::default(),
            total: Default::default(),
            hdrs: Default::default(),
            need: Default::default(),
            tail: Default::default(),
            plen: Default::default(),
            eth_ok: Default::default(),
            src: Default::default(),
            e: Default::default(),
            hd: Default::default(),
            et: Default::default(),
            et2: Default::default(),
            ip_n: Default::default(),
            b0: Default::default(),
            b1: Default::default(),
            proto: Default::default(),
            frag: Default::default(),
            ver4: Default::default(),
            ver6: Default::default(),
            x16: Default::default(),
            x17: array_init(|_| Default::default()),
            fold: Default::default(),
            op: Default::default(),
            bth1: Default::default(),
            bth8: Default::default(),
            pad: Default::default(),
            iphdr: Default::default(),
            hdrs_n: Default::default(),
            at_word: Default::default(),
            long: Default::default(),
            bad1: Default::default(),
            bad2: Default::default(),
            good: Default::default(),
            room: Default::default(),
            done: Default::default(),
            pk: Default::default(),
            sip: Default::default(),
            // ::ffff:0:0 with the first wire byte lowest
            sip_pre: Constant::new(Bits::<128>::from(0xFFFFu64) << 80),
            ops: Default::default(),
            info: Default::default(),
            ulen_sw: Default::default(),
            len_sw: Default::default(),
            qpn_sw: Default::default(),
            psn_sw: Default::default(),
            va_sw: Default::default(),
            rkey_sw: Default::default(),
            dlen_sw: Default::default(),
            aeth_sw: Default::default(),
            orig_sw: Default::default(),
            swap_sw: Default::default(),
            cmp_sw: Default::default(),
            // as they lie in the frame, first byte low
            c_vlan: Constant::new(0x0081u64.into()),
            c_v4: Constant::new(0x0008u64.into()),
            c_v6: Constant::new(0xDD86u64.into()),
            c_port: Constant::new(0xB712u64.into()),
            // all of flags and offset but DF
            c_frag: Constant::new(0xFFBFu64.into()),
            c_ffff: Constant::new(0xFFFFu64.into()),
            c_64: Constant::new(64u64.into()),
            c_24: Constant::new(24u64.into()),
        }
    }
}

impl Logic for Parser {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, mac_ok, t_vlan, t4, t6, u4, u6, vlan, ip4, ip6);
        dff_setup!(self, clock, ipw, l4, ip_ok, ce, len_raw, sum_a, sum_b, sum, sum_ok);
        dff_setup!(self, clock, dport_ok, ulen, ipl, cls, ulen_ok, ext, nopay, rsp, imm_at);
        dff_setup!(self, clock, total, hdrs, need, tail, plen, eth_ok, src);
        clock!(self, clock, q_req, q_rsp);
        for i in 0..5 {
            self.sum5[i].clock.next = self.clock.val();
            self.sum5[i].d.next = self.sum5[i].q.val();
        }
        self.e.next = self.s_data.val();
        self.hd.next = self.e.val().hdr;
        // 0: types
        self.et.next = self.hd.val().get_bits::<16>(96);
        self.et2.next = self.hd.val().get_bits::<16>(128);
        // 1: IP header to the front
        self.ip_n.next = self.hd.val().get_bits::<704>(112);
        if self.t_vlan.q.val() {
            self.ip_n.next = self.hd.val().get_bits::<704>(144);
        }
        // 2: IP fields
        self.b0.next = self.ipw.q.val().get_bits::<8>(0);
        self.b1.next = self.ipw.q.val().get_bits::<8>(8);
        self.frag.next = self.ipw.q.val().get_bits::<16>(48) & self.c_frag.val();
        self.proto.next = self.ipw.q.val().get_bits::<8>(72);
        self.ver4.next =
            ((self.b0.val() == 0x45) & (self.proto.val() == 17)) & !self.frag.val().any();
        self.proto.next = self.ipw.q.val().get_bits::<8>(48);
        self.ver6.next = (self.b0.val().get_bits::<4>(4) == 6) & (self.proto.val() == 17);
        self.len_sw.x.next = self.ipw.q.val().get_bits::<16>(16);
        if self.ip6.q.val() {
            self.len_sw.x.next = self.ipw.q.val().get_bits::<16>(32);
        }
        for i in 0..10 {
            self.x16.next = self.ipw.q.val().get_bits::<16>(i * 16);
            self.x17[i].next = bit_cast::<17, 16>(self.x16.val());
        }
        // 3: UDP and BTH
        self.ulen_sw.x.next = self.l4.q.val().get_bits::<16>(32);
        self.op.next = self.l4.q.val().get_bits::<8>(64);
        self.ops.op.next = self.op.val();
        self.bth1.next = self.l4.q.val().get_bits::<8>(72);
        self.bth8.next = self.l4.q.val().get_bits::<8>(128);
        self.pad.next = self.bth1.val().get_bits::<2>(4);
        // 4: what the class says
        self.info.cls.next = self.cls.q.val();
        // bytes from the frame start to the UDP header
        self.iphdr.next = bits::<17>(34);
        if self.vlan.q.val() & self.ip6.q.val() {
            self.iphdr.next = bits::<17>(58);
        } else if self.ip6.q.val() {
            self.iphdr.next = bits::<17>(54);
        } else if self.vlan.q.val() {
            self.iphdr.next = bits::<17>(38);
        }
        // 5
        self.fold.next = bit_cast::<17, 16>(self.sum.q.val().get_bits::<16>(0))
            + bit_cast::<17, 4>(self.sum.q.val().get_bits::<4>(16));
        self.hdrs_n.next = bit_cast::<7, 17>(self.iphdr.val()) + bit_cast::<7, 6>(self.ext.q.val());
        // 6
        self.at_word.next = bit_cast::<20, 16>(self.e.val().word) << self.lane_log.val();
        // 7: verdict
        // more than 4096, or negative
        self.long.next = self.plen.q.val().get_bits::<4>(13).any()
            | (self.plen.q.val().get_bit(12) & self.plen.q.val().get_bits::<12>(0).any());
        self.bad1.next = (!self.mac_ok.q.val() | !self.ip_ok.q.val())
            | ((!self.dport_ok.q.val() | !self.ulen_ok.q.val())
                | (!self.eth_ok.q.val() | (self.ip4.q.val() & !self.sum_ok.q.val())));
        self.bad2.next = ((self.bth1.val().get_bits::<4>(0) != 0)
            | (self.ulen.q.val().get_bits::<2>(0) != 0))
            | (self.long.val()
                | (self.nopay.q.val() & (self.plen.q.val().any() | self.pad.val().any())));
        self.good.next =
            ((!self.bad1.val() & !self.bad2.val()) & self.cls.q.val().any()) & self.ok.val();
        self.room.next = self.q_req.s_ready.val();
        if self.rsp.q.val() {
            self.room.next = self.q_rsp.s_ready.val();
        }
        self.done.next = ((self.state.q.val() == 7) & self.ok_valid.val())
            & (self.room.val() | !self.good.val());
        self.s_ready.next = self.done.val();
        self.ok_ready.next = self.done.val();
        self.bad_valid.next = self.done.val() & !self.good.val();
        self.bad_slot.next = self.e.val().slot;
        self.ev_malformed.next =
            self.done.val() & (self.bad1.val() | (self.cls.q.val().any() & self.bad2.val()));
        self.ev_opcode.next = self.done.val() & (!self.bad1.val() & !self.cls.q.val().any());
        self.ev_icrc.next = (self.done.val() & !self.ok.val())
            & ((!self.bad1.val() & !self.bad2.val()) & self.cls.q.val().any());
        if self.state.q.val().any() {
            self.state.d.next = self.state.q.val() + 1;
        }
        match self.state.q.val().index() {
            0 => {
                if self.s_valid.val() {
                    self.state.d.next = bits::<3>(1);
                }
                self.mac_ok.d.next = self.hd.val().get_bits::<48>(0) == self.port_mac.val();
                self.t_vlan.d.next = self.et.val() == self.c_vlan.val();
                self.t4.d.next = self.et.val() == self.c_v4.val();
                self.t6.d.next = self.et.val() == self.c_v6.val();
                self.u4.d.next = self.et2.val() == self.c_v4.val();
                self.u6.d.next = self.et2.val() == self.c_v6.val();
            }
            1 => {
                self.vlan.d.next = self.t_vlan.q.val();
                self.ip4.d.next = self.t4.q.val() | (self.t_vlan.q.val() & self.u4.q.val());
                self.ip6.d.next = self.t6.q.val() | (self.t_vlan.q.val() & self.u6.q.val());
                self.ipw.d.next = self.ip_n.val();
            }
            2 => {
                self.ip_ok.d.next =
                    (self.ip4.q.val() & self.ver4.val()) | (self.ip6.q.val() & self.ver6.val());
                self.len_raw.d.next = self.len_sw.y.val();
                if self.ip6.q.val() {
                    self.l4.d.next = self.ipw.q.val().get_bits::<384>(320);
                    self.ce.d.next = self.b1.val().get_bits::<2>(4) == 3;
                } else {
                    self.l4.d.next = self.ipw.q.val().get_bits::<384>(160);
                    self.ce.d.next = self.b1.val().get_bits::<2>(0) == 3;
                }
                for i in 0..5 {
                    self.sum5[i].d.next = self.x17[i * 2].val() + self.x17[i * 2 + 1].val();
                }
            }
            3 => {
                self.sum_a.d.next = bit_cast::<20, 17>(self.sum5[0].q.val())
                    + bit_cast::<20, 17>(self.sum5[1].q.val());
                self.sum_b.d.next = bit_cast::<20, 17>(self.sum5[2].q.val())
                    + bit_cast::<20, 17>(self.sum5[3].q.val());
                self.dport_ok.d.next = self.l4.q.val().get_bits::<16>(16) == self.c_port.val();
                self.ulen.d.next = bit_cast::<17, 16>(self.ulen_sw.y.val());
                self.ipl.d.next = bit_cast::<17, 16>(self.len_raw.q.val());
                if self.ip4.q.val() {
                    self.ipl.d.next = bit_cast::<17, 16>(self.len_raw.q.val()) - bits::<17>(20);
                }
                self.cls.d.next = self.ops.cls.val();
            }
            4 => {
                self.sum.d.next = (self.sum_a.q.val() + self.sum_b.q.val())
                    + bit_cast::<20, 17>(self.sum5[4].q.val());
                self.ext.d.next = self.info.ext.val();
                self.nopay.d.next = self.info.nopay.val();
                self.rsp.d.next = self.info.rsp.val();
                self.imm_at.d.next = self.info.imm_at.val();
                // the shortest datagram: UDP, BTH, ICRC
                self.ulen_ok.d.next = (self.ulen.q.val() == self.ipl.q.val())
                    & (self.ulen.q.val() >= self.c_24.val());
                self.total.d.next = self.ipl.q.val() + self.iphdr.val();
            }
            5 => {
                self.sum_ok.d.next = self.fold.val() == self.c_ffff.val();
                self.need.d.next = (bit_cast::<7, 6>(self.ext.q.val())
                    + bit_cast::<7, 2>(self.pad.val()))
                    + bits::<7>(24);
                self.hdrs.d.next = self.hdrs_n.val();
                self.tail.d.next = bit_cast::<17, 13>(self.e.val().flen) - self.total.q.val();
            }
            6 => {
                // negative values have bit 16 set, and count as too long
                self.plen.d.next = self.ulen.q.val() - bit_cast::<17, 7>(self.need.q.val());
                self.eth_ok.d.next = !self.tail.q.val().any()
                    | (!self.tail.q.val().get_bit(16) & (self.e.val().flen <= self.c_64.val()));
                // UDP 8, BTH 12
                self.src.d.next =
                    (self.at_word.val() + bit_cast::<20, 7>(self.hdrs.q.val())) + bits::<20>(20);
            }
            _ => {
                self.state.d.next = bits::<3>(7);
                if self.done.val() {
                    self.state.d.next = bits::<3>(0);
                }
            }
        }
        self.sip.next =
            (bit_cast::<128, 32>(self.ipw.q.val().get_bits::<32>(96)) << 96) | self.sip_pre.val();
        if self.ip6.q.val() {
            self.sip.next = self.ipw.q.val().get_bits::<128>(64);
        }
        self.qpn_sw.x.next = self.l4.q.val().get_bits::<24>(104);
        self.psn_sw.x.next = self.l4.q.val().get_bits::<24>(136);
        self.va_sw.x.next = self.l4.q.val().get_bits::<64>(160);
        self.rkey_sw.x.next = self.l4.q.val().get_bits::<32>(224);
        self.dlen_sw.x.next = self.l4.q.val().get_bits::<32>(256);
        self.aeth_sw.x.next = self.l4.q.val().get_bits::<32>(160);
        self.pk.next.opcode = self.op.val();
        self.pk.next.se = self.bth1.val().get_bit(7);
        self.pk.next.ackreq = self.bth8.val().get_bit(7);
        self.pk.next.qpn = self.qpn_sw.y.val();
        self.pk.next.psn = self.psn_sw.y.val();
        self.pk.next.va = self.va_sw.y.val();
        self.pk.next.rkey = self.rkey_sw.y.val();
        self.pk.next.dlen = self.dlen_sw.y.val();
        self.pk.next.aeth = self.aeth_sw.y.val();
        // AtomicAckETH behind the AETH; operands of an AtomicETH, which has no DMALen
        self.orig_sw.x.next = self.l4.q.val().get_bits::<64>(192);
        self.swap_sw.x.next = self.l4.q.val().get_bits::<64>(256);
        self.cmp_sw.x.next = self.l4.q.val().get_bits::<64>(320);
        self.pk.next.swap = self.swap_sw.y.val();
        self.pk.next.cmp = self.cmp_sw.y.val();
        if self.cls.q.val() == 9 {
            self.pk.next.va = self.orig_sw.y.val();
        }
        if self.cls.q.val() == 10 {
            self.pk.next.dlen = 0.into();
        }
        self.pk.next.imm = self.l4.q.val().get_bits::<32>(160);
        if self.imm_at.q.val() == 1 {
            self.pk.next.imm = self.l4.q.val().get_bits::<32>(224);
        }
        if self.imm_at.q.val() == 2 {
            self.pk.next.imm = self.l4.q.val().get_bits::<32>(288);
        }
        self.pk.next.sip = self.sip.val();
        self.pk.next.ce = self.ce.q.val();
        self.pk.next.src = self.src.q.val();
        self.pk.next.len = self.plen.q.val().get_bits::<13>(0);
        self.pk.next.slot = self.e.val().slot;
        self.pk.next.stamp = self.e.val().stamp;
        self.q_req.rst.next = self.rst.val();
        self.q_rsp.rst.next = self.rst.val();
        self.q_req.s_data.next = self.pk.val();
        self.q_rsp.s_data.next = self.pk.val();
        self.q_req.s_valid.next = (self.done.val() & self.good.val()) & !self.rsp.q.val();
        self.q_rsp.s_valid.next = (self.done.val() & self.good.val()) & self.rsp.q.val();
        self.req_valid.next = self.q_req.m_valid.val();
        self.req_data.next = self.q_req.m_data.val();
        self.q_req.m_ready.next = self.req_ready.val();
        self.rsp_valid.next = self.q_rsp.m_valid.val();
        self.rsp_data.next = self.q_rsp.m_data.val();
        self.q_rsp.m_ready.next = self.rsp_ready.val();
        if self.rst.val() {
            self.state.d.next = 0.into();
        }
    }
}
