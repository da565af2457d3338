//! Whole cards: memory windows of both types, LOCAL_INV and SEND with invalidate.
//!
//! Shows: `memory_windows`, `remote_invalidation`.

mod common;

use common::log::{event, pair, quiet, take, Log};
use metaroce_hdl_spec::{cmd, cmd::errno, cqe::recv_op, table, wqe::op};
use metaroce_protocol::{
    ext::{Ext, Reth},
    NakCode, Opcode, PacketRepr, Psn, Syndrome,
};
use metaroce_tb::{
    craft,
    fabric::{Fate, Faults},
    pair::{Pair, ALL_ACCESS},
    rng::Rng,
    script::{Bind, Conn, Cqe, Wr, MW_BIND},
    sim::SimConfig,
};

const SUCCESS: u8 = 0;
const LOC_PROT: u8 = 4;
const MW_BIND_ERR: u8 = 6;
const REM_ACCESS: u8 = 10;
const RTS: u8 = 3;
const ERR: u8 = 6;
const LEN: u64 = 1 << 16;
/// Place and size of most windows in the buffer of end 1.
const AT: u64 = 4096 + 8;
const SIZE: u64 = 10_000;
const WRITE: u64 = 2;
const READ: u64 = 4;
const ATOMIC: u64 = 8;
const ALL: u64 = WRITE | READ | ATOMIC;

fn fast() -> Conn {
    Conn {
        mtu: 3,
        timeout: 8,
        ..Conn::default()
    }
}

/// An MR of end 1 on its buffer that windows may be bound to, without any remote right of its own.
fn base(p: &mut Pair) -> u32 {
    region(p, 1 | MW_BIND)
}

fn region(p: &mut Pair, access: u64) -> u32 {
    let r = &mut p.ends[1];
    let key = r.host.reg_mr(&mut p.sim, r.pd, r.buf, LEN, access);
    key.expect("REG_MR")
}

fn window(p: &mut Pair, type2: bool) -> u32 {
    let r = &mut p.ends[1];
    r.host.alloc_mw(&mut p.sim, r.pd, type2)
}

/// A bind of window `key` to [AT, AT + SIZE) of `lkey`.
fn bind(p: &Pair, key: u32, lkey: u32, access: u64) -> Wr {
    Wr {
        op: op::BIND_MW,
        signaled: true,
        bind: Some(Bind {
            key,
            lkey,
            va: p.ends[1].buf + AT,
            len: SIZE,
            access,
        }),
        ..Wr::default()
    }
}

fn invalidate(key: u32) -> Wr {
    Wr {
        op: op::LOCAL_INV,
        signaled: true,
        imm: key,
        ..Wr::default()
    }
}

/// A SEND of `len` bytes that invalidates `key`.
fn send_inv(p: &Pair, key: u32, len: u32) -> Wr {
    Wr {
        op: op::SEND_INV,
        imm: key.swap_bytes(),
        ..p.send(0, 0, len, None)
    }
}

/// The next byte for the low byte of a key.
fn next(key: u32) -> u32 {
    (key & !0xFF) | (key.wrapping_add(1) & 0xFF)
}

/// Key that a window of [`bound`] was given, which is its handle.
fn first(key: u32) -> u32 {
    (key & !0xFF) | (key.wrapping_sub(1) & 0xFF)
}

/// End `e` posts `wr` on QP `q` and gets this status.
fn done(p: &mut Pair, e: usize, q: usize, wr: &Wr, status: u8) -> Cqe {
    let i = p.post(e, q, wr);
    let c = p.wait(e, 4_000_000);
    let (o, st) = (wr.op, status);
    assert_eq!((c.index, c.opcode, c.status), (i, o, st), "{wr:?}");
    c
}

/// A window of type `type2` bound by QP `q` to `lkey`: its key.
fn bound(p: &mut Pair, q: usize, type2: bool, lkey: u32, access: u64) -> u32 {
    let key = next(window(p, type2));
    let wr = bind(p, key, lkey, access);
    done(p, 1, q, &wr, SUCCESS);
    key
}

/// An access of end 0 through `key`, `off` bytes into the window.
fn through(p: &Pair, o: u8, key: u32, off: u64, len: u32) -> Wr {
    let wr = p.rdma(0, o, 16_384, AT + off, len);
    Wr {
        rkey: key,
        swap: 3,
        ..wr
    }
}

/// The window lets all through that it should, and the bytes are right.
fn works(p: &mut Pair, q: usize, key: u32, seed: u64) {
    let data = Rng::new(seed).bytes(SIZE as usize);
    p.fill(0, 16_384, &data);
    let wr = through(p, op::WRITE, key, 0, SIZE as u32);
    done(p, 0, q, &wr, SUCCESS);
    assert!(p.read(1, AT, SIZE as usize) == data);
    let mut wr = through(p, op::READ, key, 3, SIZE as u32 - 3);
    wr.sges[0].0 += 16_384;
    done(p, 0, q, &wr, SUCCESS);
    assert!(p.read(0, 2 * 16_384, SIZE as usize - 3) == data[3..]);
    let wr = through(p, op::FETCH_ADD, key, 8, 8);
    done(p, 0, q, &wr, SUCCESS);
    let word = |b: &[u8]| u64::from_le_bytes(b[..8].try_into().unwrap());
    assert_eq!(word(&p.read(0, 16_384, 8)), word(&data[8..]));
    assert_eq!(
        word(&p.read(1, AT + 8, 8)),
        word(&data[8..]).wrapping_add(3)
    );
}

/// The access is answered with a NAK, both QPs end, no byte moves.
fn refused(p: &mut Pair, log: &Log, q: usize, wr: &Wr, what: &str) {
    println!("{what}");
    log.clear();
    let before = p.read(1, 0, LEN as usize);
    done(p, 0, q, wr, REM_ACCESS);
    let nak = Syndrome::Nak(NakCode::RemoteAccess);
    assert_eq!(log.refusals(1), [nak], "{what}");
    assert_eq!(event(p, 1), (5, p.ends[1].qps[q].qpn), "{what}");
    assert_eq!((p.state(0, q), p.state(1, q)), (ERR, ERR), "{what}");
    assert!(before == p.read(1, 0, LEN as usize), "{what}");
}

fn dereg(p: &mut Pair, o: u8, key: u32) -> Result<(), u8> {
    let r = &mut p.ends[1];
    r.host.command(&mut p.sim, o, key, |_| {}).map(|_| ())
}

/// Both types: the range, the rights, the key and (type 2) the QP count, and nothing else does.
#[test]
fn bound_windows() {
    let (mut p, log) = pair(0, LEN, &fast());
    let lkey = base(&mut p);
    let mut q = p.add(&fast(), 6, 4);
    for type2 in [false, true] {
        let key = bound(&mut p, q, type2, lkey, ALL);
        works(&mut p, q, key, type2 as u64);
        let other = p.add(&fast(), 6, 4);
        let wr = through(&p, op::WRITE, key, 0, 8);
        if type2 {
            refused(&mut p, &log, other, &wr, "type 2, other QP");
        } else {
            works(&mut p, other, key, 9);
        }
        // a window of type 2 goes with its QP
        let cases: [(&str, u8, u64, fn(u32, u32) -> u32); 6] = [
            ("one byte before", op::WRITE, u64::MAX, |k, _| k),
            ("one byte behind", op::READ, SIZE - 7, |k, _| k),
            ("atomic behind", op::FETCH_ADD, SIZE, |k, _| k),
            ("old key", op::WRITE, 0, |k, _| first(k)),
            ("index beyond the table", op::WRITE, 0, |k, _| k | 1 << 31),
            ("the MR's own key", op::WRITE, 0, |_, l| l),
        ];
        for (what, o, off, other) in cases {
            let key = bound(&mut p, q, type2, lkey, ALL);
            let mut wr = through(&p, o, other(key, lkey), 0, 8);
            wr.remote_va = wr.remote_va.wrapping_add(off);
            refused(&mut p, &log, q, &wr, what);
            q = p.add(&fast(), 6, 4);
        }
        // as lkey
        let key = bound(&mut p, q, type2, lkey, ALL);
        let wr = Wr {
            sges: vec![(p.ends[1].buf + AT, 8, key)],
            ..p.rdma(1, op::WRITE, 0, 0, 8)
        };
        done(&mut p, 1, q, &wr, LOC_PROT);
        q = p.add(&fast(), 6, 4);
    }
    // one right each
    for (access, good) in [
        (WRITE, op::WRITE),
        (READ, op::READ),
        (ATOMIC, op::CMP_SWAP),
        (0, 0xFF),
    ] {
        for o in [op::WRITE, op::READ, op::CMP_SWAP] {
            let q = p.add(&fast(), 6, 4);
            let key = bound(&mut p, q, true, lkey, access);
            let wr = through(&p, o, key, 8, 8);
            if o == good {
                done(&mut p, 0, q, &wr, SUCCESS);
            } else {
                refused(&mut p, &log, q, &wr, &format!("{o} with rights {access}"));
            }
        }
    }
    quiet(&mut p);
}

/// Binds that are refused: an error at the local end alone, and what was bound stays bound.
#[test]
fn binds_refused() {
    let (mut p, _) = pair(0, LEN, &fast());
    let lkey = base(&mut p);
    let (plain, read_only) = (region(&mut p, ALL_ACCESS), region(&mut p, MW_BIND));
    let r = &mut p.ends[1];
    let pd2 = r.host.alloc_pd(&mut p.sim);
    let (buf, rights) = (r.buf, 1 | MW_BIND);
    let mr2 = r.host.reg_mr(&mut p.sim, pd2, buf, LEN, rights);
    let mr2 = mr2.expect("REG_MR");
    let mw2 = r.host.alloc_mw(&mut p.sim, pd2, true);
    let home = p.add(&fast(), 6, 4);
    let taken = bound(&mut p, home, true, lkey, ALL);
    let good = Bind {
        key: 0,
        lkey,
        va: buf + AT,
        len: SIZE,
        access: ALL,
    };
    for type2 in [false, true] {
        let key = window(&mut p, type2);
        let b = |f: &dyn Fn(&mut Bind)| {
            let mut b = Bind { key, ..good };
            f(&mut b);
            b
        };
        for (what, bind) in [
            ("MR without MW_BIND", b(&|b| b.lkey = plain)),
            (
                "write, MR without local write",
                b(&|b| (b.lkey, b.access) = (read_only, WRITE)),
            ),
            (
                "atomic, MR without local write",
                b(&|b| (b.lkey, b.access) = (read_only, ATOMIC)),
            ),
            ("MR of another PD", b(&|b| b.lkey = mr2)),
            ("window of another PD", b(&|b| b.key = mw2)),
            ("variant of the lkey", b(&|b| b.lkey ^= 1)),
            ("lkey beyond the table", b(&|b| b.lkey |= 1 << 31)),
            ("the lkey is a window", b(&|b| b.lkey = taken)),
            ("the window is an MR", b(&|b| b.key = plain)),
            ("the window is beyond the table", b(&|b| b.key |= 1 << 31)),
            ("type 2, already bound", b(&|b| b.key = taken)),
            (
                "type 2 of another QP to nothing",
                b(&|b| (b.key, b.len) = (taken, 0)),
            ),
            ("one byte before", b(&|b| b.va = buf - 1)),
            ("one byte behind", b(&|b| b.len = LEN - AT + 1)),
            ("sum wraps", b(&|b| (b.va, b.len) = (u64::MAX - 3, 8))),
            ("longest", b(&|b| b.len = (1 << 48) - 1)),
        ] {
            println!("{what}");
            let q = p.add(&fast(), 4, 4);
            let wr = Wr {
                bind: Some(bind),
                op: op::BIND_MW,
                ..Wr::default()
            };
            // also without `signaled`, and what comes behind is flushed
            let i = [p.post(1, q, &wr), p.post(1, q, &invalidate(key))];
            let want = [(i[0], MW_BIND_ERR, false), (i[1], 5, false)];
            assert_eq!(take(&mut p, 1, 2), want, "{what}");
            assert_eq!((p.state(0, q), p.state(1, q)), (RTS, ERR), "{what}");
        }
        // what may be: the whole of it, and read alone without local write
        let q = p.add(&fast(), 4, 4);
        for bind in [
            b(&|b| (b.va, b.len) = (buf, LEN)),
            b(&|b| (b.va, b.len) = (buf + LEN - 1, 1)),
            b(&|b| (b.lkey, b.access) = (read_only, READ)),
        ] {
            let mut wr = Wr {
                bind: Some(bind),
                op: op::BIND_MW,
                signaled: true,
                ..Wr::default()
            };
            done(&mut p, 1, q, &wr, SUCCESS);
            if type2 {
                wr.bind = Some(Bind { len: 0, ..bind });
                done(&mut p, 1, q, &wr, SUCCESS);
            }
        }
    }
    works(&mut p, home, taken, 5);
    quiet(&mut p);
}

/// The end of a binding: LOCAL_INV, bind of length 0, another bind (type 1); and what may not end it.
#[test]
fn local_invalidation() {
    let (mut p, log) = pair(0, LEN, &fast());
    let lkey = base(&mut p);
    let q = p.add(&fast(), 6, 4);
    // type 2, many times under the same key
    let key = window(&mut p, true);
    for k in 0..5 {
        let wr = bind(&p, key, lkey, ALL);
        done(&mut p, 1, q, &wr, SUCCESS);
        works(&mut p, q, key, k);
        done(&mut p, 1, q, &invalidate(key), SUCCESS);
    }
    let wr = through(&p, op::WRITE, key, 0, 8);
    refused(&mut p, &log, q, &wr, "after LOCAL_INV");
    let q = p.add(&fast(), 6, 4);
    let wr = bind(&p, key, lkey, ALL);
    done(&mut p, 1, q, &wr, SUCCESS);
    let mut zero = wr.clone();
    zero.bind.as_mut().unwrap().len = 0;
    done(&mut p, 1, q, &zero, SUCCESS);
    done(&mut p, 1, q, &zero, SUCCESS);
    let wr = through(&p, op::READ, key, 0, 8);
    refused(&mut p, &log, q, &wr, "type 2, bound to nothing");
    // type 1: another bind ends the one before, for good
    let (a, b) = (p.add(&fast(), 6, 4), p.add(&fast(), 6, 4));
    let key = bound(&mut p, a, false, lkey, ALL);
    works(&mut p, b, key, 20);
    let wr = bind(&p, next(key), lkey, ALL);
    done(&mut p, 1, b, &wr, SUCCESS);
    works(&mut p, a, next(key), 21);
    let wr = through(&p, op::WRITE, key, 0, 8);
    refused(&mut p, &log, a, &wr, "type 1, key of the bind before");
    let mut zero = bind(&p, next(key), lkey, 0);
    zero.bind.as_mut().unwrap().len = 0;
    done(&mut p, 1, b, &zero, SUCCESS);
    let wr = through(&p, op::WRITE, next(key), 0, 8);
    refused(&mut p, &log, b, &wr, "type 1, bound to nothing");
    // what LOCAL_INV does not take
    let home = p.add(&fast(), 6, 4);
    let taken = bound(&mut p, home, true, lkey, ALL);
    let one = bound(&mut p, home, false, lkey, ALL);
    let free = window(&mut p, true);
    for (what, key) in [
        ("window of another QP", taken),
        ("window of type 1", one),
        ("window that is not bound", free),
        ("an MR", lkey),
        ("other variant", taken ^ 1),
        ("beyond the table", taken | 1 << 31),
        ("nothing", 0),
    ] {
        println!("{what}");
        let q = p.add(&fast(), 4, 4);
        done(&mut p, 1, q, &invalidate(key), MW_BIND_ERR);
        assert_eq!((p.state(0, q), p.state(1, q)), (RTS, ERR), "{what}");
    }
    works(&mut p, home, taken, 30);
    works(&mut p, home, one, 31);
    quiet(&mut p);
}

/// SEND with invalidate of one and of more packets: the receive completion names the key, and the window is free.
#[test]
fn remote_invalidation() {
    let (mut p, log) = pair(0, LEN, &fast());
    let lkey = base(&mut p);
    let q = p.add(&fast(), 6, 4);
    let key = window(&mut p, true);
    let rbuf = (p.ends[1].buf, 9000, p.ends[1].key);
    for (k, len) in [0u32, 8, 1024, 1025, 5000].into_iter().enumerate() {
        let wr = bind(&p, key, lkey, ALL);
        done(&mut p, 1, q, &wr, SUCCESS);
        works(&mut p, q, key, k as u64);
        let data = Rng::new(len as u64).bytes(len as usize);
        p.fill(0, 0, &data);
        p.recv(1, q, &[rbuf]);
        log.clear();
        let wr = send_inv(&p, key, len);
        done(&mut p, 0, q, &wr, SUCCESS);
        let c = p.wait(1, 100_000);
        let got = (c.status, c.is_recv, c.opcode, c.length, c.inv, c.imm);
        assert_eq!(got, (0, true, recv_op::SEND_INV, len, Some(key), None));
        assert!(p.read(1, 0, len as usize) == data);
        let last = log.requests(0).last().map(|e| e.opcode);
        assert_eq!(last, Some(if len > 1024 { 0x16 } else { 0x17 }));
    }
    let wr = through(&p, op::WRITE, key, 0, 8);
    refused(&mut p, &log, q, &wr, "after SEND with invalidate");
    // what it does not take: the sender gets a NAK, the receive an error, and nothing is invalidated
    let home = p.add(&fast(), 6, 4);
    let taken = bound(&mut p, home, true, lkey, ALL);
    let one = bound(&mut p, home, false, lkey, ALL);
    for (what, k) in [
        ("window of another QP", taken),
        ("window of type 1", one),
        ("window that is not bound", key),
        ("an MR", lkey),
        ("other variant", taken ^ 1),
        ("beyond the table", taken | 1 << 31),
        ("nothing", 0),
    ] {
        println!("{what}");
        for len in [8, 3000] {
            let q = p.add(&fast(), 4, 4);
            p.recv(1, q, &[rbuf]);
            log.clear();
            let wr = send_inv(&p, k, len);
            done(&mut p, 0, q, &wr, REM_ACCESS);
            assert_eq!(take(&mut p, 1, 1), [(0, REM_ACCESS, true)], "{what}");
            let nak = Syndrome::Nak(NakCode::RemoteAccess);
            assert_eq!(log.refusals(1), [nak], "{what}");
            assert_eq!(event(&mut p, 1), (5, p.ends[1].qps[q].qpn), "{what}");
            assert_eq!((p.state(0, q), p.state(1, q)), (ERR, ERR), "{what}");
        }
    }
    works(&mut p, home, taken, 30);
    works(&mut p, home, one, 31);
    quiet(&mut p);
}

/// A SEND with invalidate that comes again, by loss of its ACK or in the network, does not meet the window that was bound under the same key since.
#[test]
fn invalidated_once_under_faults() {
    let faults = Faults {
        loss_ppm: 40_000,
        duplicate_ppm: 60_000,
        reorder_ppm: 20_000,
        corrupt_ppm: 5_000,
    };
    let seed = 11;
    println!("seed {seed}, {faults:?}");
    let conn = Conn {
        timeout: 4,
        ..fast()
    };
    let mut p = Pair::new(&SimConfig::pair(faults, seed), 1, LEN, &conn);
    let lkey = base(&mut p);
    let key = window(&mut p, true);
    let mut rng = Rng::new(seed);
    let rbuf = (p.ends[1].buf, 4000, p.ends[1].key);
    for k in 0..120 {
        let wr = bind(&p, key, lkey, ALL);
        done(&mut p, 1, 0, &wr, SUCCESS);
        // the SEND of the round before may still be under way in a second copy
        let data = rng.bytes(1500);
        p.fill(0, 16_384, &data);
        p.recv(1, 0, &[rbuf]);
        let len = [0, 100, 2000][rng.below(3) as usize];
        let (w, s) = (through(&p, op::WRITE, key, 0, 1500), send_inv(&p, key, len));
        let i = [p.post(0, 0, &w), p.post(0, 0, &s)];
        let c = p.wait(1, 4_000_000);
        assert_eq!((c.status, c.inv), (0, Some(key)), "round {k}");
        assert!(p.read(1, AT, 1500) == data, "round {k}");
        if rng.below(2) == 0 {
            // bound again before the sender knows that the message has come
            let wr = bind(&p, key, lkey, ALL);
            done(&mut p, 1, 0, &wr, SUCCESS);
            p.run(2000);
            let want = i.map(|i| (i, SUCCESS, false));
            assert_eq!(take(&mut p, 0, 2), want, "round {k}");
            done(&mut p, 0, 0, &w, SUCCESS);
            done(&mut p, 1, 0, &invalidate(key), SUCCESS);
        } else {
            let want = i.map(|i| (i, SUCCESS, false));
            assert_eq!(take(&mut p, 0, 2), want, "round {k}");
        }
    }
    let c = p.counters();
    let dup = c[1].iter().find(|x| x.0 == "rx_drop_duplicate").unwrap().1;
    assert!(dup > 20, "duplicates were asked for: {dup}");
}

/// A READ request that comes again after its window has ended is not answered, and ends nothing but itself: whether the network doubled it, or the
/// requester sent it again before it saw the answer to the first one, or somebody made it up.
#[test]
fn late_reads_do_no_harm() {
    let (mut p, log) = pair(0, LEN, &fast());
    let lkey = base(&mut p);
    let (busy, q) = (p.add(&fast(), 6, 4), p.add(&fast(), 6, 4));
    let key = window(&mut p, true);
    let rbuf = (p.ends[1].buf, 4000, p.ends[1].key);
    let data = Rng::new(5).bytes(SIZE as usize);
    p.fill(1, AT, &data);
    // by the network: also so that its answer is under way when the window ends, and long after it
    let qpn: [u8; 3] = p.ends[1].qps[q].qpn.to_be_bytes()[1..].try_into().unwrap();
    let steps: Vec<u64> = (0..20).map(|k| 1000 * k).chain([100_000]).collect();
    for (round, late_ns) in steps.iter().copied().enumerate() {
        let key = (key & !0xFF) | round as u32;
        let wr = bind(&p, key, lkey, ALL);
        done(&mut p, 1, q, &wr, SUCCESS);
        p.sim.fabric.fate = Some(Box::new(move |from, f| match (from, f.data[42]) {
            (0, 0x0C) if f.data[47..50] == qpn => Fate::Twice(late_ns * 1000),
            _ => Fate::Pass,
        }));
        p.recv(1, q, &[rbuf]);
        log.clear();
        let read = through(&p, op::READ, key, 0, SIZE as u32);
        let end = Wr {
            fence: true,
            ..send_inv(&p, key, 100)
        };
        // the answers of another QP before them, so that a request waits in the card
        let other = p.rdma(0, op::READ, 0, 0, 16_384);
        (0..12).for_each(|_| drop(p.post(0, busy, &other)));
        p.post(0, q, &read);
        p.post(0, q, &end);
        for n in 0..14 {
            assert_eq!(p.wait(0, 400_000).status, SUCCESS, "{late_ns} ns, {n}");
        }
        assert!(p.read(0, 16_384, SIZE as usize) == data);
        let c = p.wait(1, 100_000);
        assert_eq!((c.status, c.inv), (SUCCESS, Some(key)), "{late_ns} ns");
        p.run(40_000);
        p.sim.fabric.fate = None;
        let states = (p.state(0, q), p.state(1, q));
        assert_eq!(states, (RTS, RTS), "{late_ns} ns");
    }
    // made up: the PSN of something executed, and any key
    let psn = log.requests(0).last().expect("the SEND").psn;
    let mut rng = Rng::new(6);
    for rkey in [key, lkey, next(lkey), 0, u32::MAX, rng.next() as u32] {
        let packet = PacketRepr {
            ext: Ext {
                reth: Some(Reth {
                    va: p.ends[1].buf + AT,
                    rkey,
                    dma_len: 1500,
                }),
                ..Ext::default()
            },
            ..PacketRepr::new(Opcode(0x0C), p.ends[1].qps[q].qpn, Psn::new(psn))
        };
        let f = craft::emit(&craft::repr(&p.sim, 0, packet), &[]);
        log.clear();
        craft::put(&mut p, 1, [f]);
        p.run(4_000);
        assert_eq!(log.refusals(1), [], "{rkey:#x}");
        assert_eq!((p.state(0, q), p.state(1, q)), (RTS, RTS), "{rkey:#x}");
    }
    let c = p.counters();
    let dup = c[1].iter().find(|x| x.0 == "rx_drop_duplicate").unwrap().1;
    assert_eq!(dup, steps.len() as u64 + 6);
    // the QP goes on
    let key = (key & !0xFF) | 0x80;
    let wr = bind(&p, key, lkey, ALL);
    done(&mut p, 1, q, &wr, SUCCESS);
    works(&mut p, q, key, 7);
    quiet(&mut p);
}

/// An MR stays while windows are bound to it, and a PD while it has windows; windows go bound or not, and with their process.
#[test]
fn life() {
    let (mut p, log) = pair(0, LEN, &fast());
    let lkey = base(&mut p);
    let q = p.add(&fast(), 6, 4);
    let (a, b) = (
        bound(&mut p, q, true, lkey, ALL),
        bound(&mut p, q, false, lkey, ALL),
    );
    use cmd::op as c;
    assert_eq!(dereg(&mut p, c::DEREG_MR, lkey), Err(errno::EBUSY));
    let r = &mut p.ends[1];
    let (pd, va) = (r.pd, r.buf);
    let to = r.host.set_mr(&mut p.sim, Some(lkey), pd, va, va, LEN, 1);
    assert_eq!(to, Err(errno::EBUSY));
    works(&mut p, q, a, 1);
    works(&mut p, q, b, 2);
    // each kind by its own command
    assert_eq!(dereg(&mut p, c::DEREG_MR, first(a)), Err(errno::EINVAL));
    assert_eq!(dereg(&mut p, c::DEALLOC_MW, lkey), Err(errno::EINVAL));
    assert_eq!(dereg(&mut p, c::DEALLOC_MW, first(a)), Ok(()));
    for k in [b, first(b) ^ 2, a, first(a), 0, first(b) | 1 << 31] {
        assert_eq!(dereg(&mut p, c::DEALLOC_MW, k), Err(errno::ENOENT));
    }
    assert_eq!(dereg(&mut p, c::DEREG_MR, lkey), Err(errno::EBUSY));
    assert_eq!(dereg(&mut p, c::DEALLOC_MW, first(b)), Ok(()));
    for k in [a, b] {
        let wr = through(&p, op::WRITE, k, 0, 8);
        let q = p.add(&fast(), 6, 4);
        refused(&mut p, &log, q, &wr, "window that is gone");
    }
    assert_eq!(dereg(&mut p, c::DEREG_MR, lkey), Ok(()));
    // a PD with a window is in use
    let r = &mut p.ends[1];
    let pd2 = r.host.alloc_pd(&mut p.sim);
    let w = r.host.alloc_mw(&mut p.sim, pd2, false);
    assert_eq!(dereg(&mut p, c::DEALLOC_PD, pd2), Err(errno::EBUSY));
    assert_eq!(dereg(&mut p, c::DEALLOC_MW, w), Ok(()));
    assert_eq!(dereg(&mut p, c::DEALLOC_PD, pd2), Ok(()));
    // rebinding moves the count from one MR to another
    let (m1, m2) = (base(&mut p), base(&mut p));
    let mut key = bound(&mut p, q, false, m1, ALL);
    for k in 0..3 {
        key = next(key);
        let (old, new) = if k % 2 == 0 { (m1, m2) } else { (m2, m1) };
        assert_eq!(dereg(&mut p, c::DEREG_MR, old), Err(errno::EBUSY));
        let wr = bind(&p, key, new, ALL);
        done(&mut p, 1, q, &wr, SUCCESS);
        assert_eq!(dereg(&mut p, c::DEREG_MR, new), Err(errno::EBUSY));
    }
    assert_eq!(dereg(&mut p, c::DEREG_MR, m1), Ok(()));
    assert_eq!(dereg(&mut p, c::DEREG_MR, m2), Err(errno::EBUSY));
    quiet(&mut p);
}

/// After a window is gone (LOCAL_INV and its completion, DEALLOC_MW and its answer) nothing is written through it, whatever the peer sends.
#[test]
fn no_write_afterwards() {
    for how in [op::LOCAL_INV, op::BIND_MW, 0] {
        for wait in [1500, 2600, 4100, 5300] {
            let (mut p, _) = pair(0, LEN, &fast());
            let lkey = base(&mut p);
            let q = p.add(&fast(), 8, 4);
            let q2 = p.add(&fast(), 8, 4);
            let type2 = how == op::LOCAL_INV;
            let handle = window(&mut p, type2);
            let key = next(handle);
            let wr = bind(&p, key, lkey, ALL);
            done(&mut p, 1, q, &wr, SUCCESS);
            let n = 30;
            for k in 0..n {
                let wr = through(&p, op::WRITE, key, k % 8, 9000);
                p.post(0, q, &wr);
            }
            p.run(wait);
            match how {
                op::LOCAL_INV => {
                    done(&mut p, 1, q, &invalidate(key), SUCCESS);
                }
                op::BIND_MW => {
                    // elsewhere in the same MR, by a QP without traffic
                    let mut wr = bind(&p, next(key), lkey, ALL);
                    wr.bind.as_mut().unwrap().va = p.ends[1].buf;
                    wr.bind.as_mut().unwrap().len = 64;
                    done(&mut p, 1, q2, &wr, SUCCESS);
                }
                _ => assert_eq!(dereg(&mut p, cmd::op::DEALLOC_MW, handle), Ok(())),
            }
            let mark = vec![0xA5; LEN as usize];
            p.fill(1, 0, &mark);
            let all = take(&mut p, 0, n as usize);
            let good = all.iter().filter(|c| c.1 == SUCCESS).count();
            println!("{how} after {wait}: {good} of {n} were done");
            assert!(good > 0 && good < n as usize);
            assert_eq!(all[good].1, REM_ACCESS);
            p.run(5000);
            assert!(p.read(1, 0, LEN as usize) == mark);
        }
    }
}

/// A bind counts before anything that is posted behind it leaves; LOCAL_INV waits for what was posted before it; completions come in order.
#[test]
fn order_in_the_queue() {
    let (mut p, _) = pair(0, LEN, &fast());
    let lkey = base(&mut p);
    let q = p.add(&fast(), 8, 4);
    let mut key = window(&mut p, true);
    for k in 0..10u64 {
        key = next(key);
        let data = Rng::new(k).bytes(40_000);
        p.fill(0, 0, &data);
        p.recv(0, q, &[]);
        let mut read = p.rdma(1, op::READ, 20_000, 0, 40_000);
        read.signaled = k % 2 == 0;
        let mut inv = invalidate(key);
        inv.fence = k % 3 == 0;
        // one doorbell for all
        let (wr, say) = (bind(&p, key, lkey, ALL), p.send(1, 0, 0, Some(key)));
        let end = &mut p.ends[1];
        let i = [&wr, &say, &read, &inv]
            .map(|w| (end.host.post_send(&mut p.sim, &mut end.qps[q], w), w));
        end.host.ring_sq(&mut p.sim, &end.qps[q]);
        // the peer uses the window as soon as it hears of it
        let c = p.wait(0, 100_000);
        assert_eq!(c.imm, Some(key));
        let w = through(&p, op::WRITE, key, 0, 8);
        let used = p.post(0, q, &w);
        for (i, w) in i.iter().filter(|x| x.1.signaled) {
            let c = p.wait(1, 1_000_000);
            assert_eq!((c.index, c.opcode, c.status), (*i, w.op, SUCCESS));
            if c.opcode == op::LOCAL_INV {
                assert!(p.read(1, 20_000, 40_000) == data, "READ before it");
            }
        }
        // it may have come too late: the window was there for as long as the READ took
        let c = p.wait(0, 1_000_000);
        assert_eq!((c.index, c.status), (used, SUCCESS), "round {k}");
    }
    quiet(&mut p);
}

/// Over UC: WRITE through a window that was bound by the QP, and its end; no SEND with invalidate.
#[test]
fn unreliable_connection() {
    let conn = Conn {
        qp_type: table::qp_type::UC,
        ..fast()
    };
    let (mut p, _) = pair(1, LEN, &conn);
    let lkey = base(&mut p);
    let key = bound(&mut p, 0, true, lkey, ALL);
    let data = Rng::new(3).bytes(SIZE as usize);
    p.fill(0, 16_384, &data);
    let wr = through(&p, op::WRITE, key, 0, SIZE as u32);
    done(&mut p, 0, 0, &wr, SUCCESS);
    p.run(5000);
    assert!(p.read(1, AT, SIZE as usize) == data);
    done(&mut p, 1, 0, &invalidate(key), SUCCESS);
    p.fill(1, AT, &[7; 100]);
    let wr = through(&p, op::WRITE, key, 0, 100);
    done(&mut p, 0, 0, &wr, SUCCESS);
    p.run(5000);
    assert!(p.read(1, AT, 100) == [7; 100]);
    let wr = send_inv(&p, key, 8);
    done(&mut p, 0, 0, &wr, 2);
    quiet(&mut p);
}
