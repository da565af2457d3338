//! What the encoder makes of work requests.
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
    windows: false,
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
    let w =
        unsafe { Wqe::encode(&wr(wr_op::WRITE_IMM, flags, &mut s), &RC, 0xfedc, NOWHERE) }.unwrap();
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
            let got = [sq::inline, sq::num_sge, sq::units, sq::length].map(|f| f.get(w.unit(0)));
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
        let refused = |w: &IbvSendWr, l: &Limits| unsafe { Wqe::encode(w, l, 0, NOWHERE).err() };
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

#[test]
fn a_key_to_invalidate_goes_as_on_the_wire() {
    let card = Limits {
        windows: true,
        inline_unit: true,
        ..RC
    };
    let encode = |l: &Limits, flags, s: &mut [IbvSge]| {
        let mut w = wr(wr_op::SEND_INV, flags, s);
        w.imm = 0x0001_2345;
        assert!(unsafe { simple(&w, l, 5, 9) }.is_none());
        assert!(unsafe { simple_inline(&w, l, 5, 9) }.is_none());
        unsafe { Wqe::encode(&w, l, 5, NOWHERE) }.map(|w| w.unit(0).to_vec())
    };
    let data = [7u8; 8];
    let inline = IbvSge {
        addr: data.as_ptr() as u64,
        length: 8,
        lkey: 0,
    };
    for (flags, s) in [(0, &mut sges(1)[..]), (send_flag::INLINE, &mut [inline])] {
        let b = encode(&card, flags, s).unwrap();
        assert_eq!(sq::opcode.get(&b), op::SEND_INV as u64);
        assert_eq!(b[4..8], [0x00, 0x01, 0x23, 0x45]);
        let got = (sq::inline.get(&b), sq::num_sge.get(&b));
        assert_eq!(got, ((flags != 0) as u64, (flags == 0) as u64));
    }
    let uc = Limits { uc: true, ..card };
    let ud = Limits { ud: true, ..card };
    assert_eq!(encode(&RC, 0, &mut sges(1)), Err(libc::EOPNOTSUPP));
    assert_eq!(encode(&uc, 0, &mut sges(1)), Err(libc::EINVAL));
    assert_eq!(encode(&ud, 0, &mut sges(1)), Err(libc::EINVAL));
}
