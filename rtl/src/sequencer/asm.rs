//! Instructions of the sequencer, and how a program is put together.
//!
//! Work memory: 64 words of 32 bits. Words 0..32 hold the command, 32..56 ([`E`]) the table entries being made (`cfg` 8 words and `av` 16; or
//! `mrc` 6 and `mrm` 4; or `cq`, a GID, an EQ), 56..64 ([`T`]) are free. Bit positions below count from bit 0 of word 0, so that the fields of
//! `hdl-spec` can be used as they are.

use crate::packed_struct;
use metaroce_hdl_spec::field::Field;
use rust_hdl::prelude::*;
use std::collections::HashMap;

packed_struct! {
    /// One instruction. `v` below is the source word rotated right by `rot`.
    pub struct Uop {
        pub op: Bits<5>,
        /// Predicate: attribute bit 0..=20, or one of [`pred`].
        pub cond: Bits<6>,
        /// Work memory word, or 64 + one of [`sp`].
        pub src: Bits<7>,
        pub rot: Bits<5>,
        pub dst: Bits<6>,
        /// Also the target of a jump.
        pub mask: Bits<32>,
        pub a: Bits<8>,
        pub b: Bits<8>,
        /// Status when it fails.
        pub err: Bits<8>,
    }
}
pub const UOP_BITS: usize = 85;
/// log2 of the program memory.
pub const LOG_PROG: usize = 10;

/// `Uop.op`; the kernel matches on these numbers.
pub mod op {
    /// acc = v & mask.
    pub const LOAD: u128 = 0;
    /// LOAD, then fail unless a <= acc <= b.
    pub const CHECK: u128 = 1;
    /// Bits `mask` of word dst = v.
    pub const MOVE: u128 = 2;
    /// Word a = v + word dst (+ carry if b = 1); sets carry.
    pub const ADD: u128 = 3;
    /// Word a = v & word dst.
    pub const AND: u128 = 4;
    pub const JUMP: u128 = 5;
    /// Object acc of kind a; fails unless it exists and is this PASID's. b = 1: only looks.
    pub const LOOKUP: u128 = 6;
    /// A free object of kind a with a random tag; nothing changes before PUT.
    pub const ALLOC: u128 = 7;
    /// The object exists, is this PASID's and has n = acc.
    pub const PUT: u128 = 8;
    /// The object is gone.
    pub const FREE: u128 = 9;
    /// n + 1, or n - 1 with a = 1.
    pub const COUNT: u128 = 10;
    /// The QP's `cfg` entry (a = 0) or `av` entry (a = 1) comes into work memory.
    pub const QPLOAD: u128 = 11;
    /// The table entries in work memory become zero.
    pub const CLEAR: u128 = 12;
    /// Fails unless the transition table has a row for the QP and this mask.
    pub const TRANS: u128 = 13;
    /// Writes tables a ([`super::tab`]) from the 16 words at dst, or zero with b = 1.
    pub const STORE: u128 = 14;
    /// Order a (`types::ctl`) to blocks b ([`super::blk`]) with PSN acc; waits for all; FENCE also for the tokens.
    pub const CTL: u128 = 15;
    /// Pulse on `mtt_flush`.
    pub const FLUSH: u128 = 16;
    /// The response's id is this object's.
    pub const RID: u128 = 17;
    /// The response gets state and PSNs.
    pub const QRES: u128 = 18;
    /// Begin a walk over the objects of PASID acc.
    pub const SWEEP: u128 = 19;
    /// The next such object, else jump.
    pub const NEXT: u128 = 20;
    /// Event of a failed QP, or of kind a.
    pub const EVENT: u128 = 21;
    /// Answer; the command has been carried out.
    pub const RESP: u128 = 22;
    /// End of the work on a failed QP.
    pub const END: u128 = 23;
    /// Answer with an error.
    pub const FAIL: u128 = 24;
    /// Register a ([`super::reg`]) = v & mask.
    pub const SET: u128 = 25;
}

/// Predicates above the attribute bits.
pub mod pred {
    pub const ALWAYS: u128 = 21;
    /// Kind of the object at hand.
    pub const MR: u128 = 22;
    pub const QP: u128 = 23;
    pub const CQ: u128 = 24;
    pub const EQ: u128 = 25;
    /// INIT to RTR, RTR to RTS, to RTS from RTS or SQD, to RESET, to ERR from elsewhere.
    pub const TO_RTR: u128 = 26;
    pub const TO_RTS: u128 = 27;
    pub const KICK: u128 = 28;
    pub const TO_RESET: u128 = 29;
    pub const TO_ERR: u128 = 30;
    /// The QP was neither in RESET nor in ERR.
    pub const LIVE: u128 = 31;
    /// The QP makes an event: LIVE and an error that does, or DRAIN and drained.
    pub const EVENT: u128 = 32;
    /// Not an error: the QP is in SQD, and its program asked when it has drained.
    pub const DRAIN: u128 = 33;
    /// Register SRQ.
    pub const SRQ: u128 = 34;
    /// LIVE and SRQ; TO_ERR and SRQ.
    pub const LIVE_SRQ: u128 = 35;
    pub const ERR_SRQ: u128 = 36;
}

/// Source words that are not in work memory.
pub mod sp {
    pub const ZERO: u128 = 0;
    pub const ONES: u128 = 1;
    pub const PASID: u128 = 2;
    /// QPN, key or number of the object at hand.
    pub const ID: u128 = 3;
    /// `n` of the object at hand.
    pub const N: u128 = 4;
    /// State that the QP shall have.
    pub const NEXT: u128 = 5;
    pub const CARRY: u128 = 6;
    /// All ones shifted left by acc.
    pub const SHIFT: u128 = 7;
    /// Six words: MAC and GID of the command's `sgid_index`.
    pub const GID: u128 = 8;
    /// Bit 0: that GID exists; bit 1: its family is not the command's.
    pub const GID_INFO: u128 = 14;
    /// Command of page 0.
    pub const ADMIN: u128 = 15;
    /// The object at hand exists.
    pub const USED: u128 = 16;
    /// Its random tag.
    pub const TAG: u128 = 17;
    /// Command of a page beyond the PASIDs.
    pub const FAR: u128 = 18;
    /// The window unit has refused the last order.
    pub const WIN: u128 = 19;
}

/// Registers of SET.
pub mod reg {
    /// The program goes on there.
    pub const PC: u128 = 0;
    pub const SEQ: u128 = 1;
    /// Attribute mask, new state, assumed state, GID index and family of a MODIFY_QP.
    pub const MASK: u128 = 2;
    pub const WANT: u128 = 3;
    pub const ASSUMED: u128 = 4;
    pub const GID: u128 = 5;
    pub const IP6: u128 = 6;
    /// State, type, owner and tag of the QP at hand.
    pub const CUR: u128 = 7;
    pub const TYPE: u128 = 8;
    pub const OWNER: u128 = 9;
    pub const TAG: u128 = 10;
    /// The QP's program asks when it has drained; no value.
    pub const DRAIN: u128 = 11;
    /// Order to the window unit (`window::order`) about the MR at hand; goes on when it is done.
    pub const WIN: u128 = 12;
    /// The QP has an SRQ.
    pub const SRQ: u128 = 13;
}

/// Kinds of objects.
pub mod kind {
    pub const MR: u128 = 0;
    pub const QP: u128 = 1;
    pub const CQ: u128 = 2;
    pub const PD: u128 = 3;
    pub const EQ: u128 = 4;
}

/// Tables of STORE.
pub mod tab {
    pub const CFG: u128 = 1;
    pub const AV: u128 = 2;
    pub const MRC: u128 = 4;
    pub const MRM: u128 = 8;
    pub const CQT: u128 = 16;
    pub const GID: u128 = 32;
    pub const EQ: u128 = 64;
    /// With CQT: the CQ stays armed and has its new ring from index 0 on.
    pub const RESIZE: u128 = 128;
}

/// Blocks of CTL.
pub mod blk {
    pub const RQR: u128 = 1;
    pub const RSP: u128 = 2;
    pub const RDR: u128 = 4;
    pub const SQF: u128 = 8;
    pub const RQF: u128 = 16;
}

/// First word and first bit of the table entries.
pub const E: u128 = 32;
pub const E0: u128 = 32 * E;
/// First bit of `av`, of `mrm`.
pub const AV0: u128 = E0 + 256;
pub const MRM0: u128 = E0 + 192;
/// First free word.
pub const T: u128 = 56;

/// Source of bits: work memory from bit 0 of the command on, or a special word.
#[derive(Clone, Copy)]
pub enum Src {
    Mem(u128),
    Special(u128, u128),
}

impl Src {
    fn word(self) -> u128 {
        match self {
            Src::Mem(b) => b / 32,
            Src::Special(s, b) => 64 + s + b / 32,
        }
    }
    fn bit(self) -> u128 {
        match self {
            Src::Mem(b) | Src::Special(_, b) => b % 32,
        }
    }
    fn skip(self, n: u128) -> Self {
        match self {
            Src::Mem(b) => Src::Mem(b + n),
            Src::Special(s, b) => Src::Special(s, b + n),
        }
    }
}

/// Field `f` of the command.
pub fn cmd(f: Field) -> Src {
    Src::Mem(f.lo as u128)
}

/// Special word `s`.
pub fn special(s: u128) -> Src {
    Src::Special(s, 0)
}

fn ones(n: u128) -> u128 {
    (1 << n) - 1
}

/// A program under construction.
#[derive(Default)]
pub struct Asm {
    words: Vec<u128>,
    labels: HashMap<&'static str, usize>,
    jumps: Vec<(usize, &'static str)>,
    cond: Option<u128>,
}

impl Asm {
    /// Instructions made by `f` have predicate `cond`.
    pub fn when(&mut self, cond: u128, f: impl FnOnce(&mut Self)) {
        assert!(self.cond.is_none());
        self.cond = Some(cond);
        f(self);
        self.cond = None;
    }

    #[allow(clippy::too_many_arguments)]
    fn emit(
        &mut self,
        op: u128,
        src: u128,
        rot: u128,
        dst: u128,
        mask: u128,
        a: u128,
        b: u128,
        err: u8,
    ) {
        let cond = self.cond.unwrap_or(pred::ALWAYS);
        let mut w = 0;
        let mut at = 0;
        for (v, n) in [
            (op, 5),
            (cond, 6),
            (src, 7),
            (rot, 5),
            (dst, 6),
            (mask, 32),
            (a, 8),
            (b, 8),
            (err as u128, 8),
        ] {
            assert!(v >> n == 0, "{v} in {n} bits");
            w |= v << at;
            at += n;
        }
        assert!(at == UOP_BITS);
        self.words.push(w);
    }

    /// An instruction without source word.
    pub fn do_(&mut self, op: u128, a: u128, b: u128, err: u8) {
        self.emit(op, 0, 0, 0, 0, a, b, err);
    }

    /// acc = `width` bits from `s`.
    pub fn load(&mut self, s: Src, width: u128) {
        assert!(s.bit() + width <= 32);
        self.emit(op::LOAD, s.word(), s.bit(), 0, ones(width), 0, 0, 0);
    }

    /// acc = word of `s` rotated right by `rot`.
    pub fn load_rot(&mut self, s: Src, rot: u128) {
        self.emit(op::LOAD, s.word(), rot, 0, ones(32), 0, 0, 0);
    }

    /// Register `r` = field `f`, which is at `s`.
    pub fn set(&mut self, r: u128, s: Src, f: Field) {
        let width = f.width as u128;
        assert!(s.bit() + width <= 32, "{}", f.name);
        self.emit(op::SET, s.word(), s.bit(), 0, ones(width), r, 0, 0);
    }

    /// Writes tables `t` from word `from` on.
    pub fn store(&mut self, t: u128, from: u128) {
        self.emit(op::STORE, 0, 0, from, 0, t, 0, 0);
    }

    /// Order `o` to the window unit about the MR at hand.
    pub fn win(&mut self, o: u128) {
        self.emit(op::SET, 64 + sp::ONES, 0, 0, o, reg::WIN, 0, 0);
    }

    pub fn load_field(&mut self, f: Field) {
        self.load(cmd(f), f.width as u128);
    }

    /// acc = `width` bits from `s`, which must lie in `min..=max`.
    pub fn check(&mut self, s: Src, width: u128, min: u128, max: u128, err: u8) {
        assert!(s.bit() + width <= 32);
        self.emit(op::CHECK, s.word(), s.bit(), 0, ones(width), min, max, err);
    }

    pub fn check_field(&mut self, f: Field, min: u128, max: u128, err: u8) {
        self.check(cmd(f), f.width as u128, min, max, err);
    }

    /// `width` bits from `s` on to work memory bit `d`, one instruction a piece that crosses no word on either side.
    pub fn bits(&mut self, s: Src, d: u128, width: u128) {
        let mut done = 0;
        while done < width {
            let (s, d) = (s.skip(done), d + done);
            let n = (width - done).min(32 - s.bit()).min(32 - d % 32);
            let rot = (s.bit() + 32 - d % 32) % 32;
            self.emit(
                op::MOVE,
                s.word(),
                rot,
                d / 32,
                ones(n) << (d % 32),
                0,
                0,
                0,
            );
            done += n;
        }
    }

    /// Field move: command field `s` to field `d` of the entry that begins at bit `at`.
    pub fn field(&mut self, s: Field, at: u128, d: Field) {
        assert!(s.width == d.width, "{} to {}", s.name, d.name);
        self.bits(cmd(s), at + d.lo as u128, d.width as u128);
    }

    /// The low bits of a special word to field `d`.
    pub fn put(&mut self, s: u128, at: u128, d: Field) {
        self.bits(special(s), at + d.lo as u128, d.width as u128);
    }

    /// Word `to` = word of `s` + word `d`.
    pub fn add(&mut self, s: Src, d: u128, to: u128, carry: bool) {
        assert!(s.bit() == 0);
        self.emit(op::ADD, s.word(), 0, d, 0, to, carry as u128, 0);
    }

    /// Word `to` = word of `s` & word `d`.
    pub fn and(&mut self, s: Src, d: u128, to: u128) {
        assert!(s.bit() == 0);
        self.emit(op::AND, s.word(), 0, d, 0, to, 0, 0);
    }

    pub fn jump(&mut self, op: u128, to: &'static str) {
        self.jumps.push((self.words.len(), to));
        self.do_(op, 0, 0, 0);
    }

    pub fn label(&mut self, l: &'static str) {
        let twice = self.labels.insert(l, self.words.len());
        assert!(twice.is_none(), "{l}");
    }

    pub fn finish(mut self) -> Vec<u128> {
        for (at, l) in &self.jumps {
            let to = self.labels[l] as u128;
            self.words[*at] |= to << (5 + 6 + 7 + 5 + 6);
        }
        self.words
    }
}
