//! Work queue entries in memory, and where work requests are in their rings.
use crate::abi::{send_flag, wr_op, IbvSendWr, IbvSge};
use crate::card::Errno;
use core::mem::MaybeUninit;
use metaroce_hdl_spec::wqe::{op, sq, INLINE_AT, MAX_INLINE, MAX_UNITS, UNIT};

/// Largest message.
pub const MAX_MSG: u64 = 1 << 31;
/// First byte of the SGEs of unit 0.
const SGES_AT: usize = 32;
/// SGEs in unit 0, and in every further one.
const SGES_FIRST: usize = 2;
const SGES_UNIT: usize = 4;
const SGE_BYTES: usize = 16;
const UNIT_WORDS: usize = UNIT / 8;
const SGE_WORDS: usize = SGE_BYTES / 8;
/// Word of unit 0 whose high half has the QPN.
const QPN_WORD: usize = sq::qpn.lo as usize / 64;
const _: () = assert!(sq::qpn.lo % 64 == 32);
/// Flag of inline data in word 0.
const INLINE: u64 = 1 << sq::inline.lo;
const INLINE_WORD: usize = INLINE_AT / 8;
/// Word of an atomic's operands in unit 0.
const OPERANDS: usize = (SGES_AT + SGE_BYTES) / 8;
/// Index of the unit that holds a UD send's address vector.
pub const AV_UNIT: usize = 1;

/// A send WQE being built. Every word of its units is written each time, so nothing of the last lap shows through; words of
/// units that it does not have are never touched.
pub struct Wqe {
    words: [MaybeUninit<u64>; MAX_UNITS * UNIT_WORDS],
    pub units: usize,
}

/// Units of a WQE with so many SGEs.
pub const fn units_for_sges(sges: usize, ud: bool) -> usize {
    let base = if ud { 2 } else { 1 };
    if sges <= SGES_FIRST {
        base
    } else {
        base + (sges - SGES_FIRST).div_ceil(SGES_UNIT)
    }
}

/// SGEs that fit a WQE at all.
pub const fn max_sges(ud: bool) -> usize {
    SGES_FIRST + SGES_UNIT * (MAX_UNITS - if ud { 2 } else { 1 })
}

/// What a queue accepts.
pub struct Limits {
    pub max_sge: usize,
    pub max_inline: usize,
    pub ud: bool,
    pub uc: bool,
    /// The card does atomics.
    pub atomics: bool,
    /// The card does memory windows and invalidation.
    pub windows: bool,
    /// The card takes inline data of `MAX_INLINE` bytes from the WQE.
    pub inline_unit: bool,
    pub sig_all: bool,
    /// SGEs of a request that [`simple`] takes: 1, or a number that no request has. See [`one_sge`].
    pub one: i32,
}

/// `Limits::one`.
pub const fn one_sge(ud: bool, max_sge: usize) -> i32 {
    if ud || max_sge == 0 {
        i32::MIN
    } else {
        1
    }
}

/// Where the data of an inline request of one ring slot is kept until the card has read it, if it does not fit the WQE: the provider
/// copies it here, and the request has one SGE.
#[derive(Clone, Copy)]
pub struct Keep {
    pub ptr: *mut u8,
    pub lkey: u32,
}

/// Bytes of an atomic's operands and answer.
const ATOMIC: u64 = 8;

/// `wqe::op` of a work request, if the card does it on a QP of this type.
fn opcode(wr: i32, l: &Limits) -> Result<u8, Errno> {
    let (op, allowed) = match wr {
        wr_op::SEND => (op::SEND, true),
        wr_op::SEND_IMM => (op::SEND_IMM, true),
        wr_op::WRITE => (op::WRITE, !l.ud),
        wr_op::WRITE_IMM => (op::WRITE_IMM, !l.ud),
        wr_op::READ => (op::READ, !l.ud && !l.uc),
        wr_op::CMP_SWAP if l.atomics => (op::CMP_SWAP, !l.ud && !l.uc),
        wr_op::FETCH_ADD if l.atomics => (op::FETCH_ADD, !l.ud && !l.uc),
        wr_op::SEND_INV if l.windows => (op::SEND_INV, !l.ud && !l.uc),
        _ => return Err(libc::EOPNOTSUPP),
    };
    allowed.then_some(op).ok_or(libc::EINVAL)
}

pub const KNOWN: u32 =
    send_flag::FENCE | send_flag::SIGNALED | send_flag::SOLICITED | send_flag::INLINE;

/// Word 0 of a WQE.
#[inline(always)]
pub fn head(op: u8, wr: &IbvSendWr, sig_all: bool, sges: usize, units: usize) -> u64 {
    const BITS: [u16; 16] = {
        let mut t = [0; 16];
        let mut k = 0;
        while k < 16 {
            let f = k as u32;
            t[k] = ((f & send_flag::SIGNALED != 0) as u16) << 8
                | ((f & send_flag::FENCE != 0) as u16) << 9
                | ((f & send_flag::SOLICITED != 0) as u16) << 10;
            k += 1;
        }
        t
    };
    op as u64
        | BITS[(wr.send_flags & 15) as usize] as u64
        | (sig_all as u64) << 8
        | (sges as u64) << 16
        | (units as u64) << 24
        | (wr.imm as u64) << 32
}

/// The one unit of a request with one SGE that is not empty, as most are: what [`Wqe::encode`] makes of it, in a fifth of the
/// instructions. None = `encode` has to look: anything else, and whatever is refused.
///
/// # Safety
/// As for [`Wqe::encode`].
#[inline(always)]
pub unsafe fn simple(
    wr: &IbvSendWr,
    limits: &Limits,
    index: u16,
    qpn: u32,
) -> Option<[u64; UNIT_WORDS]> {
    const OPS: [u8; 5] = [op::WRITE, op::WRITE_IMM, op::SEND, op::SEND_IMM, op::READ];
    let code = *OPS.get(wr.opcode as usize)?;
    if wr.num_sge != limits.one || wr.send_flags & !(KNOWN & !send_flag::INLINE) != 0 {
        return None;
    }
    // SAFETY: the caller's list.
    let s = unsafe { *wr.sg_list };
    if s.length.wrapping_sub(1) >= MAX_MSG as u32 {
        return None;
    }
    if code == op::READ && limits.uc {
        return None;
    }
    Some([
        head(code, wr, limits.sig_all, 1, 1),
        s.length as u64 | (index as u64) << 32,
        wr.remote_addr(),
        wr.rkey() as u64 | (qpn as u64) << 32,
        s.addr,
        s.length as u64 | (s.lkey as u64) << 32,
        0,
        0,
    ])
}

/// The one unit of a request whose data is in it, if that is whole words: as [`simple`].
///
/// # Safety
/// As for [`Wqe::encode`].
#[inline(always)]
pub unsafe fn simple_inline(
    wr: &IbvSendWr,
    limits: &Limits,
    index: u16,
    qpn: u32,
) -> Option<[u64; UNIT_WORDS]> {
    const OPS: [u8; 4] = [op::WRITE, op::WRITE_IMM, op::SEND, op::SEND_IMM];
    let code = *OPS.get(wr.opcode as usize)?;
    if wr.num_sge != limits.one || wr.send_flags & !KNOWN != 0 || !limits.inline_unit {
        return None;
    }
    // SAFETY: the caller's list.
    let s = unsafe { *wr.sg_list };
    let n = s.length as usize;
    if n > limits.max_inline.min(MAX_INLINE) || n & 7 != 0 {
        return None;
    }
    let from = s.addr as *const u64;
    // SAFETY: the program's buffer has `n` bytes.
    let word = |k: usize| unsafe { u64::from_le(from.add(k).read_unaligned()) };
    let [mut a, mut b, mut c, mut d] = [0; MAX_INLINE / 8];
    if n == 8 {
        a = word(0);
    } else if n > 8 {
        (a, b) = (word(0), word(1));
        if n > 16 {
            c = word(2);
        }
        if n > 24 {
            d = word(3);
        }
    }
    Some([
        head(code, wr, limits.sig_all, 0, 1) | INLINE,
        s.length as u64 | (index as u64) << 32,
        wr.remote_addr(),
        wr.rkey() as u64 | (qpn as u64) << 32,
        a,
        b,
        c,
        d,
    ])
}

impl Wqe {
    /// Encodes `wr` as the WQE at ring index `index`.
    ///
    /// # Safety
    /// `wr` and what it points to must be valid; inline data is read, and `keep` has room for `max_inline` bytes.
    pub unsafe fn encode(
        wr: &IbvSendWr,
        limits: &Limits,
        index: u16,
        keep: Keep,
    ) -> Result<Wqe, Errno> {
        let op = opcode(wr.opcode, limits)?;
        let atomic = matches!(op, op::CMP_SWAP | op::FETCH_ADD);
        let flags = wr.send_flags;
        let inline = flags & send_flag::INLINE != 0;
        if flags & !KNOWN != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        if wr.num_sge < 0
            || wr.num_sge as usize > limits.max_sge
            || (inline && (op == op::READ || atomic))
        {
            return Err(libc::EINVAL);
        }
        let list: &[IbvSge] = if wr.num_sge == 0 {
            &[]
        } else {
            // SAFETY: the caller's list.
            unsafe { core::slice::from_raw_parts(wr.sg_list, wr.num_sge as usize) }
        };
        let length: u64 = list.iter().map(|s| s.length as u64).sum();
        if length > MAX_MSG
            || (inline && length as usize > limits.max_inline)
            || (atomic && (list.len() != 1 || length != ATOMIC))
        {
            return Err(libc::EINVAL);
        }
        let mut wqe = Wqe {
            words: [const { MaybeUninit::uninit() }; MAX_UNITS * UNIT_WORDS],
            units: 0,
        };
        let mut sges = 0;
        let in_unit = inline && limits.inline_unit && length as usize <= MAX_INLINE;
        if inline {
            let mut at = 0;
            let to = if in_unit {
                wqe.words[INLINE_WORD..UNIT_WORDS].fill(MaybeUninit::new(0));
                // SAFETY: inside the unit.
                unsafe { wqe.words.as_mut_ptr().add(INLINE_WORD).cast() }
            } else {
                keep.ptr
            };
            for s in list {
                let n = s.length as usize;
                // SAFETY: the program's buffer; `at + n` is within what `to` has room for.
                unsafe {
                    core::ptr::copy_nonoverlapping(s.addr as usize as *const u8, to.add(at), n)
                };
                at += n;
            }
            if length != 0 && !in_unit {
                let one = IbvSge {
                    addr: keep.ptr as u64,
                    length: length as u32,
                    lkey: keep.lkey,
                };
                wqe.sge(0, &one, limits.ud);
                sges = 1;
            }
        } else {
            // An empty SGE moves nothing and is left out.
            for s in list.iter().filter(|s| s.length != 0) {
                wqe.sge(sges, s, limits.ud);
                sges += 1;
            }
        }
        wqe.units = units_for_sges(sges, limits.ud);
        // What the SGEs leave free in unit 0, and in the last unit; unit 1 of UD is `put_unit`'s.
        if !in_unit {
            for w in SGES_AT / 8 + SGE_WORDS * sges..UNIT_WORDS {
                wqe.put64(w, 0);
            }
        }
        if sges > SGES_FIRST {
            for w in Self::sge_at(sges, limits.ud)..wqe.units * UNIT_WORDS {
                wqe.put64(w, 0);
            }
        }
        let mut first = head(op, wr, limits.sig_all, sges, wqe.units);
        if op == op::SEND_INV {
            // a key is a number to the program, and goes to the wire as immediate data does
            first = (first & u32::MAX as u64) | (wr.imm.to_be() as u64) << 32;
        }
        wqe.put64(0, first | if in_unit { INLINE } else { 0 });
        wqe.put64(1, length | (index as u64) << 32);
        if atomic {
            let [va, first, swap, rkey] = wr.wr;
            wqe.put64(2, va);
            wqe.put64(3, rkey & 0xffff_ffff);
            // The operands are where SGE 1 would be: what is stored, then what is compared.
            let (store, compare) = match op {
                op::CMP_SWAP => (swap, first),
                _ => (first, 0),
            };
            wqe.put64(OPERANDS, store);
            wqe.put64(OPERANDS + 1, compare);
        } else if limits.ud {
            wqe.put64(2, 0);
            wqe.put64(3, 0);
        } else {
            wqe.put64(2, wr.remote_addr());
            wqe.put64(3, wr.rkey() as u64);
        }
        Ok(wqe)
    }

    #[inline]
    fn put64(&mut self, word: usize, v: u64) {
        self.words[word].write(v.to_le());
    }

    /// Word at which SGE `i` begins.
    #[inline]
    fn sge_at(i: usize, ud: bool) -> usize {
        if i < SGES_FIRST {
            SGES_AT / 8 + i * SGE_WORDS
        } else {
            UNIT_WORDS * if ud { 2 } else { 1 } + (i - SGES_FIRST) * SGE_WORDS
        }
    }

    #[inline]
    fn sge(&mut self, i: usize, s: &IbvSge, ud: bool) {
        let at = Self::sge_at(i, ud);
        self.put64(at, s.addr);
        self.put64(at + 1, s.length as u64 | (s.lkey as u64) << 32);
    }

    /// It is one unit with inline data.
    pub fn lone_inline(&self) -> bool {
        self.units == 1 && u64::from_le_bytes(self.unit(0)[..8].try_into().unwrap()) & INLINE != 0
    }

    /// For a unit that goes along with its doorbell.
    #[inline]
    pub fn put_qpn(&mut self, qpn: u32) {
        // SAFETY: `encode` has written this word.
        let rkey = unsafe { self.words[QPN_WORD].assume_init() };
        self.words[QPN_WORD].write(rkey | ((qpn as u64) << 32).to_le());
    }

    /// Unit `i` of `self.units`.
    #[inline]
    pub fn unit(&self, i: usize) -> &[u8; UNIT] {
        assert!(i < self.units);
        // SAFETY: `encode` and, for unit 1 of UD, `put_unit` have written every word of these units.
        unsafe { &*self.words.as_ptr().add(i * UNIT_WORDS).cast() }
    }

    #[inline]
    pub fn put_unit(&mut self, i: usize, unit: &[u8; UNIT]) {
        for (w, b) in unit.chunks_exact(8).enumerate() {
            let v = u64::from_le_bytes(b.try_into().expect("eight bytes"));
            self.put64(i * UNIT_WORDS + w, v);
        }
    }
}

/// One SGE: address, length, key.
#[inline]
pub fn put_sge(to: &mut [u8], s: &IbvSge) {
    to[..8].copy_from_slice(&s.addr.to_le_bytes());
    to[8..12].copy_from_slice(&s.length.to_le_bytes());
    to[12..16].copy_from_slice(&s.lkey.to_le_bytes());
}

/// Free-running 16-bit indices of a ring of at most 2^15 slots.
#[inline]
pub fn used(producer: u16, consumer: u16) -> usize {
    producer.wrapping_sub(consumer) as usize
}

#[cfg(test)]
mod tests;
