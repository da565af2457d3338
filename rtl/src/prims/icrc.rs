//! ICRC engine: CRC-32 (IEEE 802.3, reflected) over beats of `W` bits.

use super::xormat::{Rows, XorMat, XorMatReg};
use array_init::array_init;
use rust_hdl::prelude::*;

const POLY: u32 = 0xEDB8_8320;

/// Advance a reflected CRC register by `n` zero bits.
pub fn crc_zeros(mut c: u32, n: usize) -> u32 {
    for _ in 0..n {
        c = (c >> 1) ^ if c & 1 == 1 { POLY } else { 0 };
    }
    c
}

/// Take `n` zero bits back out of a reflected CRC register: the inverse of [`crc_zeros`].
pub fn crc_unzeros(mut c: u32, n: usize) -> u32 {
    for _ in 0..n {
        c = if c >> 31 == 1 {
            ((c ^ POLY) << 1) | 1
        } else {
            c << 1
        };
    }
    c
}

fn ones(c: u32, base: usize) -> Vec<usize> {
    (0..32)
        .filter(|i| (c >> i) & 1 == 1)
        .map(|i| base + i)
        .collect()
}

/// CRC of a frame, one beat a cycle, frames back to back.
///
/// * Input: `s_valid` qualifies a beat {`s_data` byte 0 in the low lane, `s_sop`, `s_eop`, `s_empty` = invalid bytes at the end, only with eop}.
///   Invalid bytes may hold anything. No back-pressure; gaps between beats are free. A frame in flight is dropped by the next `s_sop`.
/// * Output: `m_valid` for one cycle with `m_crc`, exactly [`LATENCY`] cycles after the eop beat (eop presented in cycle t, `m_valid` in cycle
///   t + LATENCY). `m_crc` is complemented, and its low byte goes first on the wire.
/// * The register starts at 0. For an ICRC the caller puts the seed into the data: everything before the IP header reads 00, except the last four
///   bytes before it, which read FF (that equals init FFFFFFFF and eight FF bytes), and the variant fields read FF.
/// * `rst` drops what is in the pipe.
///
/// Pipeline: mask the tail | XOR trees of 64 bits | sum of the trees | recursion (32x32) | three stages that take 1+2, 4+8, 16+32 zero bytes out.
/// `W` is 64, 128, 256 or 512; `P` must be `W / 2`, the width of the partial sums.
#[derive(LogicBlock)]
pub struct Icrc<const W: usize, const P: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub s_data: Signal<In, Bits<W>>,
    pub s_sop: Signal<In, bool>,
    pub s_eop: Signal<In, bool>,
    pub s_empty: Signal<In, Bits<6>>,
    pub s_valid: Signal<In, bool>,
    pub m_crc: Signal<Out, Bits<32>>,
    pub m_valid: Signal<Out, bool>,
    keep: TailMask<W>,
    tree: XorMatReg<W, P>,
    sum: XorMatReg<P, 32>,
    step: XorMat<32, 32>,
    acc: DFF<Bits<32>>,
    undo: [XorMat<32, 32>; 6],
    u: [DFF<Bits<32>>; 3],
    v: [DFF<bool>; 7],
    sop: [DFF<bool>; 3],
    eop: [DFF<bool>; 3],
    empty: [DFF<Bits<6>>; 6],
    half: [Signal<Local, Bits<32>>; 3],
}

/// Cycles from the eop beat to `m_valid`.
pub const LATENCY: usize = 7;

impl<const W: usize, const P: usize> Default for Icrc<W, P> {
    fn default() -> Self {
        assert!([64, 128, 256, 512].contains(&W) && P == W / 2);
        Self {
            clock: Default::default(),
            rst: Default::default(),
            s_data: Default::default(),
            s_sop: Default::default(),
            s_eop: Default::default(),
            s_empty: Default::default(),
            s_valid: Default::default(),
            m_crc: Default::default(),
            m_valid: Default::default(),
            keep: Default::default(),
            // a data bit j acts as a register bit 31..0 that is then stepped to the end of the beat
            tree: XorMatReg::new(Rows::from_columns(W, P, |j| {
                ones(crc_zeros(1, W - j), 32 * (j / 64))
            })),
            sum: XorMatReg::new(Rows::from_columns(P, 32, |j| vec![j % 32])),
            step: XorMat::new(Rows::from_columns(32, 32, |j| {
                ones(crc_zeros(1 << j, W), 0)
            })),
            acc: Default::default(),
            undo: array_init(|k| {
                XorMat::new(Rows::from_columns(32, 32, |j| {
                    ones(crc_unzeros(1 << j, 8 << k), 0)
                }))
            }),
            u: array_init(|_| Default::default()),
            v: array_init(|_| Default::default()),
            sop: array_init(|_| Default::default()),
            eop: array_init(|_| Default::default()),
            empty: array_init(|_| Default::default()),
            half: array_init(|_| Default::default()),
        }
    }
}

impl<const W: usize, const P: usize> Logic for Icrc<W, P> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, acc);
        clock!(self, clock, keep, tree, sum);
        for i in 0..3 {
            self.u[i].clock.next = self.clock.val();
            self.sop[i].clock.next = self.clock.val();
            self.eop[i].clock.next = self.clock.val();
        }
        for i in 0..6 {
            self.empty[i].clock.next = self.clock.val();
        }
        for i in 0..7 {
            self.v[i].clock.next = self.clock.val();
        }
        self.keep.s_data.next = self.s_data.val();
        self.keep.s_eop.next = self.s_eop.val();
        self.keep.s_empty.next = self.s_empty.val();
        self.keep.en.next = self.s_valid.val();
        self.v[0].d.next = self.s_valid.val();
        self.sop[0].d.next = self.s_sop.val();
        self.eop[0].d.next = self.s_eop.val();
        self.empty[0].d.next = self.s_empty.val();
        for i in 0..2 {
            self.v[i + 1].d.next = self.v[i].q.val();
            self.sop[i + 1].d.next = self.sop[i].q.val();
            self.eop[i + 1].d.next = self.eop[i].q.val();
        }
        for i in 0..5 {
            self.empty[i + 1].d.next = self.empty[i].q.val();
        }
        self.tree.x.next = self.keep.m_data.val();
        self.tree.en.next = self.v[0].q.val();
        self.sum.x.next = self.tree.y.val();
        self.sum.en.next = self.v[1].q.val();
        self.step.x.next = self.acc.q.val();
        self.acc.d.next = self.acc.q.val();
        if self.v[2].q.val() {
            self.acc.d.next = self.sum.y.val() ^ self.step.y.val();
            if self.sop[2].q.val() {
                self.acc.d.next = self.sum.y.val();
            }
        }
        self.v[3].d.next = self.v[2].q.val() & self.eop[2].q.val();
        self.undo[0].x.next = self.acc.q.val();
        self.undo[2].x.next = self.u[0].q.val();
        self.undo[4].x.next = self.u[1].q.val();
        self.half[0].next = self.acc.q.val();
        self.half[1].next = self.u[0].q.val();
        self.half[2].next = self.u[1].q.val();
        for i in 0..3 {
            if self.empty[i + 3].q.val().get_bit(i * 2) {
                self.half[i].next = self.undo[i * 2].y.val();
            }
            self.undo[i * 2 + 1].x.next = self.half[i].val();
            self.u[i].d.next = self.half[i].val();
            if self.empty[i + 3].q.val().get_bit(i * 2 + 1) {
                self.u[i].d.next = self.undo[i * 2 + 1].y.val();
            }
            self.v[i + 4].d.next = self.v[i + 3].q.val();
        }
        self.m_crc.next = !self.u[2].q.val();
        self.m_valid.next = self.v[6].q.val();
        if self.rst.val() {
            for i in 0..7 {
                self.v[i].d.next = false;
            }
        }
    }
}

/// Register that zeroes the last `s_empty` bytes of an eop beat. One cycle, loads when `en`.
#[derive(LogicBlock)]
pub struct TailMask<const W: usize> {
    pub clock: Signal<In, Clock>,
    pub en: Signal<In, bool>,
    pub s_data: Signal<In, Bits<W>>,
    pub s_eop: Signal<In, bool>,
    pub s_empty: Signal<In, Bits<6>>,
    pub m_data: Signal<Out, Bits<W>>,
    d: DFF<Bits<W>>,
    cut: Signal<Local, Bits<16>>,
    mask: Signal<Local, Bits<W>>,
    ones: Constant<Bits<W>>,
}

impl<const W: usize> Default for TailMask<W> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            en: Default::default(),
            s_data: Default::default(),
            s_eop: Default::default(),
            s_empty: Default::default(),
            m_data: Default::default(),
            d: Default::default(),
            cut: Default::default(),
            mask: Default::default(),
            ones: Constant::new(Bits::<W>::mask()),
        }
    }
}

impl<const W: usize> Logic for TailMask<W> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, d);
        self.cut.next = bit_cast::<16, 6>(self.s_empty.val()) << 3;
        if !self.s_eop.val() {
            self.cut.next = 0.into();
        }
        self.mask.next = self.ones.val() >> self.cut.val();
        if self.en.val() {
            self.d.d.next = self.s_data.val() & self.mask.val();
        }
        self.m_data.next = self.d.q.val();
    }
}
