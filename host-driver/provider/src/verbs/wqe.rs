//! Work queue entries in memory, and where work requests are in their rings.
use crate::abi::{send_flag, wr_op, IbvSendWr, IbvSge};
use crate::card::Errno;
use core::mem::MaybeUninit;
use metaroce_hdl_spec::wqe::{op, INLINE_AT, MAX_INLINE, MAX_UNITS, UNIT};

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
/// Word of an atomic's operands in unit 0.
/// Word of unit 0 whose high half has the QPN.
const QPN_WORD: usize = 3;
/// Flag of inline data in word 0.
const INLINE: u64 = 1 << 11;
const INLINE_WORD: usize = INLINE_AT / 8;
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
        _ => return Err(libc::EOPNOTSUPP),
    };
    allowed.then_some(op).ok_or(libc::EINVAL)
}

const KNOWN: u32 =
    send_flag::FENCE | send_flag::SIGNALED | send_flag::SOLICITED | send_flag::INLINE;

/// Word 0 of a WQE.
#[inline(always)]
fn head(op: u8, wr: &IbvSendWr, sig_all: bool, sges: usize, units: usize) -> u64 {
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
        let first = head(op, wr, limits.sig_all, sges, wqe.units);
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
mod tests {
    use super::*;
    use metaroce_hdl_spec::wqe::{sge_unit, sq, MAX_SGE};

    const NOWHERE: Keep = Keep {
        ptr: core::ptr::null_mut(),
        lkey: 0,
    };
    const RC: Limits = Limits {
        max_sge: 16,
        max_inline: 288,
        ud: false,
        uc: false,
        atomics: false,
        inline_unit: false,
        sig_all: false,
        one: one_sge(false, 16),
    };

    fn wr(opcode: i32, flags: u32, sges: &mut [IbvSge]) -> IbvSendWr {
        IbvSendWr {
            wr_id: 1,
            next: core::ptr::null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as i32,
            opcode,
            send_flags: flags,
            imm: u32::from_ne_bytes([0x11, 0x22, 0x33, 0x44]),
            wr: [0x1122_3344_5566_7788, 0x0102_0304, 0, 0],
            qp_type: 0,
            bind_or_tso: [0; 6],
        }
    }

    fn sges(n: u64) -> Vec<IbvSge> {
        (1..=n)
            .map(|i| IbvSge {
                addr: i << 32 | i,
                length: i as u32,
                lkey: 0x100 + i as u32,
            })
            .collect()
    }

    #[test]
    fn header_fields_are_those_of_the_layout() {
        let mut s = sges(2);
        let flags = send_flag::FENCE | send_flag::SIGNALED | send_flag::SOLICITED;
        let w = unsafe { Wqe::encode(&wr(wr_op::WRITE_IMM, flags, &mut s), &RC, 0xfedc, NOWHERE) }
            .unwrap();
        let b = &w.unit(0)[..];
        for (f, v) in [
            (sq::opcode, op::WRITE_IMM as u64),
            (sq::signaled, 1),
            (sq::fence, 1),
            (sq::solicited, 1),
            (sq::inline, 0),
            (sq::num_sge, 2),
            (sq::units, 1),
            (sq::length, 3),
            (sq::index, 0xfedc),
            (sq::remote_va, 0x1122_3344_5566_7788),
            (sq::rkey, 0x0102_0304),
            (sq::sge0_va, 1 << 32 | 1),
            (sq::sge0_len, 1),
            (sq::sge0_key, 0x101),
            (sq::sge1_va, 2 << 32 | 2),
            (sq::sge1_len, 2),
            (sq::sge1_key, 0x102),
        ] {
            assert_eq!(f.get(b), v, "{}", f.name);
        }
        let mut q = w;
        q.put_qpn(0xabcdef);
        let b = &q.unit(0)[..];
        assert_eq!(sq::qpn.get(b), 0xabcdef);
        assert_eq!(sq::rkey.get(b), 0x0102_0304);
        assert_eq!(
            &b[4..8],
            &[0x11, 0x22, 0x33, 0x44],
            "immediate data is not swapped"
        );
        let w = unsafe {
            Wqe::encode(
                &wr(wr_op::SEND, 0, &mut s),
                &Limits {
                    sig_all: true,
                    ..RC
                },
                0,
                NOWHERE,
            )
        }
        .unwrap();
        assert_eq!(
            (sq::signaled.get(w.unit(0)), sq::fence.get(w.unit(0))),
            (1, 0)
        );
    }

    /// The short way and the long one make the same bytes, or the short one leaves it to the long one.
    #[test]
    fn simple_requests_are_encoded_alike() {
        let keep = |m: &mut [u64; 64]| Keep {
            ptr: m.as_mut_ptr() as *mut u8,
            lkey: 77,
        };
        let data: Vec<u8> = (0..512u32).map(|k| (k * 7) as u8).collect();
        let (mut both, mut left) = (0, 0);
        for opcode in -1..9 {
            for flags in 0..64 {
                for length in [0, 1, 7, 8, 32, 33, 288, 289, 1 << 31, (1 << 31) + 1] {
                    let n = if length == 7 { 2 } else { 1 };
                    for kind in 0..16 {
                        let l = Limits {
                            ud: kind & 1 != 0,
                            uc: kind & 2 != 0,
                            sig_all: kind & 4 != 0,
                            inline_unit: kind & 8 != 0,
                            one: one_sge(kind & 1 != 0, 16),
                            ..RC
                        };
                        let mut s = vec![
                            IbvSge {
                                addr: data.as_ptr() as u64,
                                length,
                                lkey: 5,
                            };
                            n
                        ];
                        let w = wr(opcode, flags, &mut s);
                        let mut kept = [0u64; 64];
                        let a = unsafe {
                            match flags & send_flag::INLINE {
                                0 => simple(&w, &l, 0xfedc, 0),
                                _ => simple_inline(&w, &l, 0xfedc, 0),
                            }
                        };
                        let b = unsafe { Wqe::encode(&w, &l, 0xfedc, keep(&mut kept)) };
                        let Some(a) = a else {
                            left += 1;
                            continue;
                        };
                        let b = b.unwrap_or_else(|e| panic!("{opcode} {flags} {length}: {e}"));
                        assert_eq!(b.units, 1);
                        assert_eq!(a.map(u64::to_le_bytes).as_flattened(), b.unit(0));
                        both += 1;
                    }
                }
            }
        }
        assert!(both > 1000 && left > 1000, "{both} {left}");
    }

    #[test]
    fn long_lists_fill_further_units() {
        assert_eq!((max_sges(false), max_sges(true)), (18, 14));
        assert!(MAX_SGE <= max_sges(false));
        let mut s = sges(16);
        let w = unsafe { Wqe::encode(&wr(wr_op::SEND, 0, &mut s), &RC, 0, NOWHERE) }.unwrap();
        assert_eq!(
            (
                w.units,
                sq::units.get(w.unit(0)),
                sq::num_sge.get(w.unit(0))
            ),
            (5, 5, 16)
        );
        for u in 1..5 {
            let unit = w.unit(u);
            let first = 2 + (u as u64 - 1) * 4 + 1;
            let fields = [
                (sge_unit::va0, sge_unit::len0, sge_unit::key0),
                (sge_unit::va1, sge_unit::len1, sge_unit::key1),
                (sge_unit::va2, sge_unit::len2, sge_unit::key2),
                (sge_unit::va3, sge_unit::len3, sge_unit::key3),
            ];
            for (k, (va, len, key)) in fields.into_iter().enumerate() {
                let i = first + k as u64;
                let want = if i <= 16 {
                    (i << 32 | i, i, 0x100 + i)
                } else {
                    (0, 0, 0)
                };
                assert_eq!(
                    (va.get(unit), len.get(unit), key.get(unit)),
                    want,
                    "SGE {i}"
                );
            }
        }
        let ud = Limits {
            max_sge: 14,
            ud: true,
            ..RC
        };
        let mut s = sges(3);
        let w = unsafe { Wqe::encode(&wr(wr_op::SEND, 0, &mut s), &ud, 0, NOWHERE) }.unwrap();
        assert_eq!(w.units, 3);
        assert_eq!(sge_unit::len0.get(w.unit(2)), 3);
        assert_eq!(sq::remote_va.get(w.unit(0)), 0);
    }

    #[test]
    fn inline_data_is_kept_beside_the_ring() {
        for n in [0usize, 1, 32, 33, 96, 97, 288] {
            let data: Vec<u8> = (0..n).map(|i| i as u8 ^ 0x5a).collect();
            let cut = n / 3;
            let mut s = [
                IbvSge {
                    addr: data.as_ptr() as u64,
                    length: cut as u32,
                    lkey: 0,
                },
                IbvSge {
                    addr: data.as_ptr() as u64 + cut as u64,
                    length: (n - cut) as u32,
                    lkey: 0,
                },
            ];
            let mut room = [0u8; 300];
            let keep = Keep {
                ptr: room.as_mut_ptr(),
                lkey: 0x1234,
            };
            let wr = wr(wr_op::SEND, send_flag::INLINE, &mut s);
            let w = unsafe { Wqe::encode(&wr, &RC, 0, keep) }.unwrap();
            assert_eq!(w.units, 1);
            assert_eq!(&room[..n], &data[..]);
            assert!(room[n..].iter().all(|b| *b == 0));
            assert_eq!(sq::inline.get(w.unit(0)), 0);
            assert_eq!(sq::num_sge.get(w.unit(0)), (n != 0) as u64);
            let mut sge = [0u8; 16];
            if n != 0 {
                sge[..8].copy_from_slice(&(room.as_ptr() as u64).to_le_bytes());
                sge[8..12].copy_from_slice(&(n as u32).to_le_bytes());
                sge[12..].copy_from_slice(&0x1234u32.to_le_bytes());
            }
            assert_eq!(w.unit(0)[32..48], sge);
        }
    }

    #[test]
    fn short_inline_data_is_in_the_unit() {
        let card = Limits {
            inline_unit: true,
            ..RC
        };
        for (ud, units) in [(false, 1), (true, 2)] {
            for n in [0usize, 1, 8, 31, 32] {
                let data: Vec<u8> = (0..n).map(|i| i as u8 ^ 0x5a).collect();
                let cut = n / 3;
                let one = |at: usize, n: usize| IbvSge {
                    addr: data[at..].as_ptr() as u64,
                    length: n as u32,
                    lkey: 7,
                };
                let mut s = [one(0, cut), one(cut, n - cut)];
                let wr = wr(wr_op::SEND, send_flag::INLINE, &mut s);
                let l = Limits { ud, ..card };
                let w = unsafe { Wqe::encode(&wr, &l, 0, NOWHERE) }.unwrap();
                let got =
                    [sq::inline, sq::num_sge, sq::units, sq::length].map(|f| f.get(w.unit(0)));
                assert_eq!(got, [1, 0, units, n as u64]);
                assert_eq!(w.unit(0)[32..32 + n], data[..]);
                assert!(w.unit(0)[32 + n..64].iter().all(|b| *b == 0));
            }
        }
    }

    #[test]
    fn refusals() {
        let e = |opcode, flags, s: &mut [IbvSge], limits: &Limits| {
            unsafe { Wqe::encode(&wr(opcode, flags, s), limits, 0, NOWHERE) }.err()
        };
        let ud = Limits {
            ud: true,
            max_sge: 14,
            ..RC
        };
        assert_eq!(e(wr_op::SEND, 0, &mut sges(17), &RC), Some(libc::EINVAL));
        assert_eq!(
            e(wr_op::READ, send_flag::INLINE, &mut sges(1), &RC),
            Some(libc::EINVAL)
        );
        assert_eq!(e(wr_op::WRITE, 0, &mut sges(1), &ud), Some(libc::EINVAL));
        let uc = Limits { uc: true, ..RC };
        assert_eq!(e(wr_op::READ, 0, &mut sges(1), &uc), Some(libc::EINVAL));
        assert_eq!(e(wr_op::WRITE, 0, &mut sges(1), &uc), None);
        assert_eq!(
            e(5, 0, &mut sges(1), &RC),
            Some(libc::EOPNOTSUPP),
            "atomics"
        );
        assert_eq!(
            e(wr_op::SEND, 16, &mut sges(1), &RC),
            Some(libc::EOPNOTSUPP),
            "checksum offload"
        );
        let mut big = [IbvSge {
            addr: 0,
            length: 1 << 31,
            lkey: 0,
        }; 2];
        assert_eq!(
            e(wr_op::SEND, 0, &mut big[..1], &RC),
            None,
            "2 GiB is legal"
        );
        big[1].length = 1;
        assert_eq!(e(wr_op::SEND, 0, &mut big, &RC), Some(libc::EINVAL));
        let mut s = [IbvSge {
            addr: 0,
            length: 289,
            lkey: 0,
        }];
        assert_eq!(
            e(wr_op::SEND, send_flag::INLINE, &mut s, &RC),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn atomics_carry_their_operands() {
        let card = Limits {
            atomics: true,
            ..RC
        };
        let mut s = [IbvSge {
            addr: 0x1000,
            length: 8,
            lkey: 0x77,
        }];
        for (code, op, store, compare) in [
            (
                wr_op::CMP_SWAP,
                op::CMP_SWAP,
                0xb1b2_b3b4_b5b6_b7b8,
                0xa1a2_a3a4_a5a6_a7a8,
            ),
            (
                wr_op::FETCH_ADD,
                op::FETCH_ADD,
                0xa1a2_a3a4_a5a6_a7a8u64,
                0u64,
            ),
        ] {
            let mut w = wr(code, send_flag::SIGNALED, &mut s);
            w.wr = [
                0x2000,
                0xa1a2_a3a4_a5a6_a7a8,
                0xb1b2_b3b4_b5b6_b7b8,
                0xffff_ffff_0000_0042,
            ];
            let e = unsafe { Wqe::encode(&w, &card, 3, NOWHERE) }.unwrap();
            for (f, v) in [
                (sq::opcode, op as u64),
                (sq::num_sge, 1),
                (sq::units, 1),
                (sq::length, 8),
                (sq::remote_va, 0x2000),
                (sq::rkey, 0x42),
                (sq::sge0_va, 0x1000),
                (sq::sge0_len, 8),
                (sq::sge0_key, 0x77),
                (sq::sge1_va, store),
                (sq::sge1_len, compare & 0xffff_ffff),
                (sq::sge1_key, compare >> 32),
            ] {
                assert_eq!(f.get(e.unit(0)), v, "{}", f.name);
            }
            let refused =
                |w: &IbvSendWr, l: &Limits| unsafe { Wqe::encode(w, l, 0, NOWHERE).err() };
            assert_eq!(refused(&w, &RC), Some(libc::EOPNOTSUPP));
            assert_eq!(
                refused(&w, &Limits { uc: true, ..card }),
                Some(libc::EINVAL)
            );
            w.send_flags = send_flag::INLINE;
            assert_eq!(refused(&w, &card), Some(libc::EINVAL), "inline");
            (w.send_flags, w.num_sge) = (0, 0);
            assert_eq!(refused(&w, &card), Some(libc::EINVAL), "no SGE");
        }
        s[0].length = 4;
        let w = wr(wr_op::FETCH_ADD, 0, &mut s);
        assert_eq!(
            unsafe { Wqe::encode(&w, &card, 0, NOWHERE) }.err(),
            Some(libc::EINVAL),
            "4 bytes"
        );
    }

    #[test]
    fn empty_sges_are_left_out() {
        let mut s = sges(3);
        s[1].length = 0;
        let w = unsafe { Wqe::encode(&wr(wr_op::SEND, 0, &mut s), &RC, 0, NOWHERE) }.unwrap();
        assert_eq!((sq::num_sge.get(w.unit(0)), w.units), (2, 1));
        assert_eq!(sq::sge1_len.get(w.unit(0)), 3);
    }
}
