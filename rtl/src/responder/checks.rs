//! Checks of a packet that need no memory region.

use super::ctx::RspCtx;
use super::decode::{Decode, OpFlags};
use crate::layouts::{Av, QpCfg};
use crate::packed_struct;
use crate::types::RxPkt;
use rust_hdl::prelude::*;

packed_struct! {
    /// Results of the checks.
    pub struct Verdict {
        /// QPN, type, state and source (UD: Q_Key) are right.
        pub basic: bool,
        /// PSN before, or equal to, ePSN.
        pub behind: bool,
        pub eq: bool,
        /// Opcode fits the message at hand.
        pub seq_ok: bool,
        /// Payload length fits opcode and MTU.
        pub len_ok: bool,
        /// No receive WQE posted, or none on the card yet.
        pub rq_empty: bool,
        pub rq_wait: bool,
        /// Ring of the READ responder: full, at the QP's limit, not empty.
        pub lvl_full: bool,
        pub lvl_max: bool,
        pub lvl_some: bool,
    }
}

/// Pipeline over inputs that stay for the packet: `o` is valid one cycle after them, `v` two, `npk` and `past` three.
///
/// * `npk`: PSNs of a READ, `max(1, ceil(dlen / mtu))`. `past`: a duplicate READ ends before ePSN.
#[derive(LogicBlock)]
pub struct Checks<const LOG_QP: usize> {
    pub clock: Signal<In, Clock>,
    pub p: Signal<In, RxPkt>,
    pub cfg: Signal<In, QpCfg>,
    pub av: Signal<In, Av>,
    pub cx: Signal<In, RspCtx>,
    /// Consumer index of the receive ring, which may be that of an SRQ.
    pub ci: Signal<In, Bits<16>>,
    /// Masks an index down to whole entries.
    pub whole: Signal<In, Bits<16>>,
    pub pi: Signal<In, Bits<16>>,
    pub avail: Signal<In, Bits<16>>,
    pub lvl: Signal<In, Bits<5>>,
    pub no_atomics: Signal<In, bool>,
    /// First or Only; the packet may need a receive WQE (combinational).
    pub first: Signal<Out, bool>,
    pub recv: Signal<Out, bool>,
    pub o: Signal<Out, OpFlags>,
    pub v: Signal<Out, Verdict>,
    pub npk: Signal<Out, Bits<24>>,
    pub past: Signal<Out, bool>,
    dec: Decode,
    o_r: DFF<OpFlags>,
    v_r: DFF<Verdict>,
    tag_ok: DFF<bool>,
    st_ok: DFF<bool>,
    ip_lo: DFF<bool>,
    ip_hi: DFF<bool>,
    key_ok: DFF<bool>,
    psn_d: DFF<Bits<24>>,
    mtu_b: DFF<Bits<13>>,
    /// ePSN - PSN.
    back: DFF<Bits<24>>,
    sum: DFF<Bits<33>>,
    n: DFF<Bits<24>>,
    npk_r: DFF<Bits<24>>,
    past_r: DFF<bool>,
    k_log: Constant<Bits<5>>,
    pk: Signal<Local, RxPkt>,
    qpn: Signal<Local, Bits<24>>,
    hi: Signal<Local, Bits<24>>,
    cf: Signal<Local, QpCfg>,
    tag: Signal<Local, Bits<16>>,
    st: Signal<Local, Bits<3>>,
    ty: Signal<Local, Bits<2>>,
    ud: Signal<Local, bool>,
    deth: Signal<Local, Bits<64>>,
    mtu: Signal<Local, Bits<3>>,
    a: Signal<Local, Av>,
    sip: Signal<Local, Bits<128>>,
    dip: Signal<Local, Bits<128>>,
    c: Signal<Local, RspCtx>,
    exp: Signal<Local, Bits<2>>,
    of: Signal<Local, OpFlags>,
    now: Signal<Local, OpFlags>,
    len: Signal<Local, Bits<13>>,
    ver: Signal<Local, Verdict>,
    mtu_m: Signal<Local, Bits<13>>,
}

crate::block_default! { Checks<LOG_QP> {
    clock, p, cfg, av, cx, ci, whole, pi, avail, lvl, no_atomics, first, recv, now, o, v, npk, past, dec, o_r, v_r, tag_ok, st_ok, ip_lo, ip_hi, key_ok, psn_d, mtu_b, back, sum, n, npk_r, past_r, pk, qpn, hi, cf, tag,
    st, ty, ud, deth, mtu, a, sip, dip, c, exp, of, len, ver, mtu_m;
    assert LOG_QP <= 12;
    k_log: Constant::new((LOG_QP as u64).into()),
} }

impl<const LOG_QP: usize> Logic for Checks<LOG_QP> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, o_r, v_r, tag_ok, st_ok, ip_lo, ip_hi, key_ok, psn_d, mtu_b, back);
        dff_setup!(self, clock, sum, n, npk_r, past_r);
        self.pk.next = self.p.val();
        self.cf.next = self.cfg.val();
        self.a.next = self.av.val();
        self.c.next = self.cx.val();
        self.qpn.next = self.pk.val().qpn;
        self.hi.next = self.qpn.val() >> self.k_log.val();
        self.tag.next = self.cf.val().tag;
        self.st.next = self.cf.val().state;
        self.ty.next = self.cf.val().qp_type;
        self.ud.next = self.ty.val() == 2;
        self.deth.next = self.pk.val().va;
        self.mtu.next = self.cf.val().mtu;
        self.sip.next = self.pk.val().sip;
        self.dip.next = self.a.val().dip;
        self.exp.next = self.c.val().exp;
        self.len.next = self.pk.val().len;

        // first stage
        self.dec.op.next = self.pk.val().opcode;
        self.dec.no_atomics.next = self.no_atomics.val();
        self.now.next = self.dec.flags.val();
        self.first.next = self.now.val().first;
        self.recv.next = self.now.val().send | (self.now.val().write & self.now.val().imm);
        self.o_r.d.next = self.now.val();
        self.tag_ok.d.next = self.hi.val() == bit_cast::<24, 16>(self.tag.val());
        self.st_ok.d.next = (((self.st.val() == 2) | (self.st.val() == 3))
            | ((self.st.val() == 4) | ((self.st.val() == 5) & self.ud.val())))
            & ((self.ty.val() != 3) & (self.c.val().live & !self.c.val().err));
        self.ip_lo.d.next = self.sip.val().get_bits::<64>(0) == self.dip.val().get_bits::<64>(0);
        self.ip_hi.d.next = self.sip.val().get_bits::<64>(64) == self.dip.val().get_bits::<64>(64);
        self.psn_d.d.next = self.pk.val().psn - self.c.val().epsn;
        self.back.d.next = self.c.val().epsn - self.pk.val().psn;
        match self.mtu.val().index() {
            2 => {
                self.mtu_b.d.next = 512.into();
                self.mtu_m.next = 511.into();
            }
            3 => {
                self.mtu_b.d.next = 1024.into();
                self.mtu_m.next = 1023.into();
            }
            4 => {
                self.mtu_b.d.next = 2048.into();
                self.mtu_m.next = 2047.into();
            }
            5 => {
                self.mtu_b.d.next = 4096.into();
                self.mtu_m.next = 4095.into();
            }
            _ => {
                self.mtu_b.d.next = 256.into();
                self.mtu_m.next = 255.into();
            }
        }
        if self.ud.val() {
            self.mtu_b.d.next = 4096.into();
        }
        self.key_ok.d.next = self.deth.val().get_bits::<32>(32) == self.a.val().qkey;

        // second stage
        self.of.next = self.o_r.q.val();
        self.ver.next.basic =
            (self.tag_ok.q.val() & self.st_ok.q.val()) & (self.ip_lo.q.val() & self.ip_hi.q.val());
        if self.ud.val() {
            self.ver.next.basic = (self.tag_ok.q.val() & self.st_ok.q.val()) & self.key_ok.q.val();
        }
        self.ver.next.behind = self.psn_d.q.val().get_bit(23);
        self.ver.next.eq = !self.psn_d.q.val().any();
        self.ver.next.seq_ok = self.exp.val() == 0;
        if !self.of.val().first {
            self.ver.next.seq_ok = (self.of.val().send & (self.exp.val() == 1))
                | (self.of.val().write & (self.exp.val() == 2));
        }
        if self.of.val().read {
            self.ver.next.len_ok = !self.len.val().any();
        } else if !self.of.val().last {
            self.ver.next.len_ok = self.len.val() == self.mtu_b.q.val();
        } else {
            self.ver.next.len_ok = (self.len.val() <= self.mtu_b.q.val())
                & (self.of.val().first | self.len.val().any());
        }
        self.ver.next.rq_empty = (self.pi.val() & self.whole.val()) == self.ci.val();
        self.ver.next.rq_wait = (self.avail.val() & self.whole.val()) == self.ci.val();
        self.ver.next.lvl_full = self.lvl.val().get_bit(4);
        self.ver.next.lvl_max = self.lvl.val() >= self.cf.val().max_dest_rd;
        self.ver.next.lvl_some = self.lvl.val().any();
        self.v_r.d.next = self.ver.val();

        // packets of a READ, (dlen + mtu - 1) / mtu: sum, quotient, and in the third stage 1 for none
        self.sum.d.next =
            bit_cast::<33, 32>(self.pk.val().dlen) + bit_cast::<33, 13>(self.mtu_m.val());
        match self.mtu.val().index() {
            2 => self.n.d.next = self.sum.q.val().get_bits::<24>(9),
            3 => self.n.d.next = bit_cast::<24, 23>(self.sum.q.val().get_bits::<23>(10)),
            4 => self.n.d.next = bit_cast::<24, 22>(self.sum.q.val().get_bits::<22>(11)),
            5 => self.n.d.next = bit_cast::<24, 21>(self.sum.q.val().get_bits::<21>(12)),
            _ => self.n.d.next = self.sum.q.val().get_bits::<24>(8),
        }
        self.npk_r.d.next = self.n.q.val();
        if !self.n.q.val().any() {
            self.npk_r.d.next = 1.into();
        }
        // a PSN behind ePSN is at least 1 behind, so none needs no correction
        self.past_r.d.next = self.n.q.val() <= self.back.q.val();
        self.npk.next = self.npk_r.q.val();
        self.past.next = self.past_r.q.val();
        self.o.next = self.of.val();
        self.v.next = self.v_r.q.val();
    }
}
