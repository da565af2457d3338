//! Prepares a frame for the ICRC engine while it streams by, and says whether its ICRC is right.

use crate::prims::Icrc;
use array_init::array_init;
use rust_hdl::prelude::*;

/// The reflected CRC over a datagram *and* its own ICRC always ends in this value.
const RESIDUE: u64 = 0x2144_DF1C;

/// Beats of a frame in, one verdict per frame with `eop` out.
///
/// * `v` qualifies a beat: `data`, `idx` = number of the word in its frame (saturating), `sop`, `eop`. `eop` is set only for a frame that is
///   kept: a frame without one gives no verdict and is forgotten at the next `sop`. No back-pressure.
/// * `ok_valid` for one cycle per frame, in order, ten cycles after its `eop` beat; `ok` = the residue is right.
/// * The CRC ends where the IP length says, so that the padding of a short Ethernet frame is left out. That end must lie in the last word (the
///   parser refuses other frames).
///
/// Pipeline: A (inputs) | B: VLAN, IP version and length known as of this word | C: masked word | engine (7).
/// `N` = words that hold bytes to be masked: 2 (`W` = 512) or 9 (`W` = 64).
#[derive(LogicBlock)]
pub struct IcrcFeed<const W: usize, const P: usize, const N: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub v: Signal<In, bool>,
    pub data: Signal<In, Bits<W>>,
    pub idx: Signal<In, Bits<10>>,
    pub sop: Signal<In, bool>,
    pub eop: Signal<In, bool>,
    pub ok_valid: Signal<Out, bool>,
    pub ok: Signal<Out, bool>,
    crc: Icrc<W, P>,
    d1: DFF<Bits<W>>,
    idx1: DFF<Bits<10>>,
    v1: DFF<bool>,
    sop1: DFF<bool>,
    eop1: DFF<bool>,
    vlan1: DFF<bool>,
    six1: DFF<bool>,
    len1: DFF<Bits<6>>,
    d2: DFF<Bits<W>>,
    v2: DFF<bool>,
    sop2: DFF<bool>,
    eop2: DFF<bool>,
    empty2: DFF<Bits<6>>,
    okv3: DFF<bool>,
    ok3: DFF<bool>,
    vlan_n: Signal<Local, bool>,
    six_n: Signal<Local, bool>,
    et: Signal<Local, Bits<16>>,
    et2: Signal<Local, Bits<16>>,
    lb: Signal<Local, Bits<8>>,
    nlen: Signal<Local, Bits<6>>,
    off: Signal<Local, Bits<6>>,
    em: Signal<Local, Bits<6>>,
    am: Signal<Local, Bits<W>>,
    om: Signal<Local, Bits<W>>,
    ones: Constant<Bits<W>>,
    word: [Constant<Bits<10>>; N],
    zero_n: [Constant<Bits<W>>; N],
    zero_v: [Constant<Bits<W>>; N],
    one_4n: [Constant<Bits<W>>; N],
    one_4v: [Constant<Bits<W>>; N],
    one_6n: [Constant<Bits<W>>; N],
    one_6v: [Constant<Bits<W>>; N],
    w_et: Constant<Bits<10>>,
    w_et2: Constant<Bits<10>>,
    w_len: Constant<Bits<10>>,
    sh_et: Constant<Bits<10>>,
    sh_et2: Constant<Bits<10>>,
    sh_4n: Constant<Bits<10>>,
    sh_4v: Constant<Bits<10>>,
    sh_6n: Constant<Bits<10>>,
    sh_6v: Constant<Bits<10>>,
    lmask: Constant<Bits<6>>,
    residue: Constant<Bits<32>>,
    t_vlan: Constant<Bits<16>>,
    t_six: Constant<Bits<16>>,
}

/// Mask byte `at` of a frame for the ICRC: (bits to clear, bits to set).
fn mask_byte(vlan: bool, six: bool, at: usize) -> (u8, u8) {
    let l2 = if vlan { 18 } else { 14 };
    if at < l2 {
        // the seed: zeros, and FF in the last four bytes
        return (0xFF, if at + 4 < l2 { 0 } else { 0xFF });
    }
    let set = match (six, at - l2) {
        (false, 1 | 8 | 10 | 11 | 26 | 27 | 32) => 0xFF,
        (true, 0) => 0x0F,
        (true, 1..=3 | 7 | 46 | 47 | 52) => 0xFF,
        _ => 0,
    };
    (0, set)
}

fn mask_word<const W: usize>(word: usize, f: impl Fn(usize) -> u8) -> Constant<Bits<W>> {
    let l = W / 8;
    let b: Vec<u8> = (0..l).map(|i| f(word * l + i)).collect();
    Constant::new(crate::prims::packed::bits_from_bytes::<W>(&b))
}

impl<const W: usize, const P: usize, const N: usize> Default for IcrcFeed<W, P, N> {
    fn default() -> Self {
        let l = W / 8;
        assert_eq!(N, 70 / l + 1, "words up to BTH byte 4");
        let word_of = |at: usize| Constant::new(((at / l) as u64).into());
        let shift_of = |at: usize| Constant::new(((at % l * 8) as u64).into());
        let one = |vlan, six| array_init(|i| mask_word::<W>(i, |at| mask_byte(vlan, six, at).1));
        let zero = |vlan| array_init(|i| mask_word::<W>(i, |at| !mask_byte(vlan, false, at).0));
        Self {
            clock: Default::default(),
            rst: Default::default(),
            v: Default::default(),
            data: Default::default(),
            idx: Default::default(),
            sop: Default::default(),
            eop: Default::default(),
            ok_valid: Default::default(),
            ok: Default::default(),
            crc: Default::default(),
            d1: Default::default(),
            idx1: Default::default(),
            v1: Default::default(),
            sop1: Default::default(),
            eop1: Default::default(),
            vlan1: Default::default(),
            six1: Default::default(),
            len1: Default::default(),
            d2: Default::default(),
            v2: Default::default(),
            sop2: Default::default(),
            eop2: Default::default(),
            empty2: Default::default(),
            okv3: Default::default(),
            ok3: Default::default(),
            vlan_n: Default::default(),
            six_n: Default::default(),
            et: Default::default(),
            et2: Default::default(),
            lb: Default::default(),
            nlen: Default::default(),
            off: Default::default(),
            em: Default::default(),
            am: Default::default(),
            om: Default::default(),
            ones: Constant::new(Bits::<W>::mask()),
            word: array_init(|i| Constant::new((i as u64).into())),
            zero_n: zero(false),
            zero_v: zero(true),
            one_4n: one(false, false),
            one_4v: one(true, false),
            one_6n: one(false, true),
            one_6v: one(true, true),
            w_et: word_of(12),
            w_et2: word_of(16),
            w_len: word_of(16),
            sh_et: shift_of(12),
            sh_et2: shift_of(16),
            // low byte of the IP length: big-endian, so the second byte
            sh_4n: shift_of(17),
            sh_4v: shift_of(21),
            sh_6n: shift_of(19),
            sh_6v: shift_of(23),
            lmask: Constant::new((l as u64 - 1).into()),
            residue: Constant::new(RESIDUE.into()),
            t_vlan: Constant::new(0x0081u64.into()),
            t_six: Constant::new(0xDD86u64.into()),
        }
    }
}

impl<const W: usize, const P: usize, const N: usize> Logic for IcrcFeed<W, P, N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, d1, idx1, v1, sop1, eop1, vlan1, six1, len1);
        dff_setup!(self, clock, d2, v2, sop2, eop2, empty2, okv3, ok3);
        clock!(self, clock, crc);
        // A -> B
        self.et.next = bit_cast::<16, W>(self.data.val() >> self.sh_et.val());
        self.et2.next = bit_cast::<16, W>(self.data.val() >> self.sh_et2.val());
        self.vlan_n.next = self.vlan1.q.val();
        self.six_n.next = self.six1.q.val();
        if self.idx.val() == self.w_et.val() {
            self.vlan_n.next = self.et.val() == self.t_vlan.val();
            self.six_n.next = self.et.val() == self.t_six.val();
        }
        if (self.idx.val() == self.w_et2.val()) & self.vlan_n.val() {
            self.six_n.next = self.et2.val() == self.t_six.val();
        }
        self.lb.next = bit_cast::<8, W>(self.data.val() >> self.sh_4n.val());
        if self.vlan_n.val() & self.six_n.val() {
            self.lb.next = bit_cast::<8, W>(self.data.val() >> self.sh_6v.val());
        } else if self.six_n.val() {
            self.lb.next = bit_cast::<8, W>(self.data.val() >> self.sh_6n.val());
        } else if self.vlan_n.val() {
            self.lb.next = bit_cast::<8, W>(self.data.val() >> self.sh_4v.val());
        }
        self.v1.d.next = self.v.val();
        if self.v.val() {
            self.d1.d.next = self.data.val();
            self.idx1.d.next = self.idx.val();
            self.sop1.d.next = self.sop.val();
            self.eop1.d.next = self.eop.val();
            self.vlan1.d.next = self.vlan_n.val();
            self.six1.d.next = self.six_n.val();
            if self.idx.val() == self.w_len.val() {
                self.len1.d.next = self.lb.val().get_bits::<6>(0);
            }
        }
        // B -> C
        self.am.next = self.ones.val();
        self.om.next = 0.into();
        for i in 0..N {
            if self.idx1.q.val() == self.word[i].val() {
                self.am.next = self.zero_n[i].val();
                self.om.next = self.one_4n[i].val();
                if self.vlan1.q.val() {
                    self.am.next = self.zero_v[i].val();
                    self.om.next = self.one_4v[i].val();
                    if self.six1.q.val() {
                        self.om.next = self.one_6v[i].val();
                    }
                } else if self.six1.q.val() {
                    self.om.next = self.one_6n[i].val();
                }
            }
        }
        // unused bytes = -(length + offset) = !length + 1 - offset, modulo the word
        self.nlen.next = !self.len1.q.val();
        self.off.next = bits::<6>(51);
        if self.vlan1.q.val() & self.six1.q.val() {
            self.off.next = bits::<6>(7);
        } else if self.six1.q.val() {
            self.off.next = bits::<6>(11);
        } else if self.vlan1.q.val() {
            self.off.next = bits::<6>(47);
        }
        self.em.next = self.nlen.val() + self.off.val();
        self.v2.d.next = self.v1.q.val();
        if self.v1.q.val() {
            self.d2.d.next = (self.d1.q.val() & self.am.val()) | self.om.val();
            self.sop2.d.next = self.sop1.q.val();
            self.eop2.d.next = self.eop1.q.val();
            self.empty2.d.next = self.em.val() & self.lmask.val();
        }
        self.crc.rst.next = self.rst.val();
        self.crc.s_valid.next = self.v2.q.val();
        self.crc.s_data.next = self.d2.q.val();
        self.crc.s_sop.next = self.sop2.q.val();
        self.crc.s_eop.next = self.eop2.q.val();
        self.crc.s_empty.next = self.empty2.q.val();
        self.okv3.d.next = self.crc.m_valid.val();
        self.ok3.d.next = self.crc.m_crc.val() == self.residue.val();
        self.ok_valid.next = self.okv3.q.val();
        self.ok.next = self.ok3.q.val();
        if self.rst.val() {
            self.v1.d.next = false;
            self.v2.d.next = false;
            self.okv3.d.next = false;
        }
    }
}
