//! Whole cards: regions and completion queues that change under traffic.
//!
//! Shows: `rereg_mr`, `resize_cq`.

mod common;

use common::{
    cover,
    log::{event, pair, take},
};
use metaroce_hdl_spec::{cmd::errno, wqe::op};
use metaroce_tb::{
    pair::{Pair, ALL_ACCESS},
    rng::Rng,
    script::{Conn, Cqe, Wr},
};

const SUCCESS: u8 = 0;
const LOC_PROT: u8 = 4;
const FLUSH: u8 = 5;
const REM_ACCESS: u8 = 10;
/// A READ or atomic whose region goes while it is being answered ends the responder's QP without a word.
const RETRY_EXC: u8 = 12;
const LEN: u64 = 1 << 16;

fn fast() -> Conn {
    Conn {
        mtu: 3,
        timeout: 8,
        ..Conn::default()
    }
}

/// A region of end `e` on its buffer, beside the one that it has.
fn region(p: &mut Pair, e: usize) -> u32 {
    let r = &mut p.ends[e];
    let key = r.host.reg_mr(&mut p.sim, r.pd, r.buf, LEN, ALL_ACCESS);
    key.expect("REG_MR")
}

/// `key` of end `e`: the same addresses, other memory; where it is.
fn move_region(p: &mut Pair, e: usize, key: u32) -> u64 {
    let r = &mut p.ends[e];
    let bus = r.host.alloc(LEN, 4096);
    let (pd, va) = (r.pd, r.buf);
    r.host
        .set_mr(&mut p.sim, Some(key), pd, va, bus, LEN, ALL_ACCESS)
        .expect("REREG_MR");
    bus
}

/// Fills the old memory, and checks that nothing writes to it any more.
fn nobody_writes(p: &mut Pair, e: usize) {
    let mark = vec![0xA5; LEN as usize];
    p.fill(e, 0, &mark);
    p.run(30_000);
    assert!(p.read(e, 0, LEN as usize) == mark, "DMA after the answer");
}

fn peek(p: &mut Pair, e: usize, bus: u64, len: usize) -> Vec<u8> {
    let pasid = p.ends[e].host.pasid;
    p.sim.mem(e).peek_vec(pasid, bus, len)
}

/// `n` requests of end 0 over QP `q`, `local` or `remote` with `key`.
fn flood(p: &mut Pair, q: usize, n: usize, o: u8, key: u32, remote: bool) {
    for k in 0..n as u64 {
        let len = if o == op::FETCH_ADD { 8 } else { 16_384 };
        let mut wr = p.rdma(0, o, 0, 0, len);
        if remote {
            wr.rkey = key;
        } else {
            wr.sges[0].2 = key;
        }
        if o == op::FETCH_ADD {
            wr.swap = 1;
            wr.sges[0].0 += 8 * k;
        }
        p.post(0, q, &wr);
    }
    p.run(if o == op::FETCH_ADD { 1500 } else { 4000 });
}

/// What came before the change succeeds. One may fail, with one of `status`, and the rest is flushed; how many were done.
fn cut(p: &mut Pair, n: usize, status: &[u8]) -> usize {
    let all = take(p, 0, n);
    let bad = all.iter().position(|c| c.1 != SUCCESS).unwrap_or(n);
    assert!(bad > 0);
    if bad < n {
        assert!(status.contains(&all[bad].1), "{}", all[bad].1);
        assert!(all[bad + 1..].iter().all(|c| c.1 == FLUSH));
    }
    bad
}

/// A target under WRITEs, READs and atomics: after the answer nothing of it goes to the old memory; the key then leads to the new one.
#[test]
fn target_moves_under_traffic() {
    for (o, n) in [(op::WRITE, 40), (op::READ, 40), (op::FETCH_ADD, 60)] {
        let (mut p, _) = pair(0, LEN, &fast());
        let key = region(&mut p, 1);
        let q = p.add(&fast(), 8, 4);
        flood(&mut p, q, n, o, key, true);
        let bus = move_region(&mut p, 1, key);
        nobody_writes(&mut p, 1);
        let status = [REM_ACCESS, RETRY_EXC];
        let m = cut(&mut p, n, &status[..if o == op::WRITE { 1 } else { 2 }]);
        println!("{o}: {m} of {n} were done");
        assert!(m < n);
        // the old MTT lines are gone: same key, same addresses, other memory
        let q = p.add(&fast(), 6, 4);
        let data = Rng::new(o as u64).bytes(9000);
        let old = p.read(1, 0, LEN as usize);
        p.fill(0, 100, &data);
        let mut wr = p.rdma(0, op::WRITE, 100, 3000, 9000);
        wr.rkey = key;
        p.post(0, q, &wr);
        let mut wr = p.rdma(0, op::READ, 20_000, 3000, 9000);
        wr.rkey = key;
        p.post(0, q, &wr);
        let mut wr = p.rdma(0, op::FETCH_ADD, 40_000, 3008, 8);
        (wr.rkey, wr.swap) = (key, 5);
        p.post(0, q, &wr);
        assert!(take(&mut p, 0, 3).iter().all(|c| c.1 == SUCCESS));
        assert!(p.read(0, 20_000, 9000) == data);
        let word = |b: &[u8]| u64::from_le_bytes(b[..8].try_into().unwrap());
        let was = word(&data[8..]);
        assert_eq!(word(&p.read(0, 40_000, 8)), was);
        let mut new = peek(&mut p, 1, bus + 3000, 9000);
        assert_eq!(word(&new[8..]), was.wrapping_add(5));
        new[8..16].copy_from_slice(&data[8..16]);
        assert!(new == data);
        assert!(p.read(1, 0, LEN as usize) == old);
        cover::finish("change", &mut p);
    }
}

/// The requester's own memory: what it reads from, and where READ data and results of atomics go.
#[test]
fn source_moves_under_traffic() {
    for (o, n) in [(op::WRITE, 40), (op::READ, 40), (op::FETCH_ADD, 60)] {
        let (mut p, _) = pair(0, LEN, &fast());
        let key = region(&mut p, 0);
        let q = p.add(&fast(), 8, 4);
        flood(&mut p, q, n, o, key, false);
        let bus = move_region(&mut p, 0, key);
        nobody_writes(&mut p, 0);
        // none fails if no packet is looked at while the command runs
        let m = cut(&mut p, n, &[LOC_PROT]);
        println!("{o}: {m} of {n} were done");
        let q = p.add(&fast(), 6, 4);
        let data = Rng::new(o as u64).bytes(9000);
        let pasid = p.ends[0].host.pasid;
        p.sim.mem(0).poke(pasid, bus + 100, &data);
        let mut wr = p.rdma(0, op::WRITE, 100, 3000, 9000);
        wr.sges[0].2 = key;
        p.post(0, q, &wr);
        let mut wr = p.rdma(0, op::READ, 20_000, 3000, 9000);
        wr.sges[0].2 = key;
        p.post(0, q, &wr);
        assert!(take(&mut p, 0, 2).iter().all(|c| c.1 == SUCCESS));
        assert!(p.read(1, 3000, 9000) == data);
        assert!(peek(&mut p, 0, bus + 20_000, 9000) == data);
        assert!(p.read(0, 0, LEN as usize).iter().all(|b| *b == 0xA5));
        cover::finish("change", &mut p);
    }
}

/// After the answer every packet is checked against the new entry, also those in the middle of a message: smaller bounds, another PD, no right.
#[test]
fn source_shrinks_under_traffic() {
    for (o, n) in [(op::WRITE, 40), (op::READ, 40)] {
        for how in 0..3 {
            let (mut p, _) = pair(0, LEN, &fast());
            let key = region(&mut p, 0);
            let q = p.add(&fast(), 8, 4);
            flood(&mut p, q, n, o, key, false);
            let e = &mut p.ends[0];
            let other = e.host.alloc_pd(&mut p.sim);
            let (pd, len, access) = match how {
                0 => (e.pd, 100, ALL_ACCESS),
                1 => (other, LEN, ALL_ACCESS),
                // a WRITE reads its source, which needs no right
                _ => (e.pd, if o == op::READ { LEN } else { 16_383 }, 0),
            };
            let va = e.buf;
            e.host
                .set_mr(&mut p.sim, Some(key), pd, va, va, len, access)
                .expect("REREG_MR");
            if o == op::READ {
                nobody_writes(&mut p, 0);
            }
            let m = cut(&mut p, n, &[LOC_PROT]);
            println!("{o}, {how}: {m} of {n} were done");
            assert!(m < n);
            cover::finish("change", &mut p);
        }
    }
}

/// Rights, bounds and PD change alone; a refused change disturbs nothing.
#[test]
fn rights_bounds_and_pd() {
    let (mut p, _) = pair(0, LEN, &fast());
    let key = region(&mut p, 1);
    let (pd, va) = (p.ends[1].pd, p.ends[1].buf);
    let other_pd = {
        let e = &mut p.ends[1];
        e.host.alloc_pd(&mut p.sim)
    };
    let set = |p: &mut Pair, pd: u32, va: u64, len: u64, access: u64| {
        let h = &mut p.ends[1].host;
        h.set_mr(&mut p.sim, Some(key), pd, va, va, len, access)
    };
    // refused under traffic: all of it succeeds
    let q = p.add(&fast(), 8, 4);
    flood(&mut p, q, 40, op::WRITE, key, true);
    for _ in 0..5 {
        assert_eq!(set(&mut p, pd, va, 0, 15), Err(errno::EINVAL));
        assert_eq!(set(&mut p, 0xFFF, va, LEN, 15), Err(errno::ENOENT));
        p.run(300);
    }
    assert!(take(&mut p, 0, 40).iter().all(|c| c.1 == SUCCESS));
    let once = |p: &mut Pair, o: u8, ro: u64, len: u32, status: u8| {
        let q = p.add(&fast(), 6, 4);
        let mut wr = p.rdma(0, o, 0, ro, len);
        wr.rkey = key;
        p.post(0, q, &wr);
        assert_eq!(take(p, 0, 1)[0].1, status, "{o} {ro} {len}");
    };
    // bit 0 local write, 1 remote write, 2 remote read, 3 remote atomic
    set(&mut p, pd, va, LEN, 5).expect("REREG_MR");
    once(&mut p, op::WRITE, 0, 100, REM_ACCESS);
    once(&mut p, op::READ, 0, 100, SUCCESS);
    once(&mut p, op::FETCH_ADD, 0, 8, REM_ACCESS);
    set(&mut p, pd, va, LEN, 9).expect("REREG_MR");
    once(&mut p, op::READ, 0, 100, REM_ACCESS);
    once(&mut p, op::FETCH_ADD, 0, 8, SUCCESS);
    set(&mut p, pd, va + 4096, 5000, 15).expect("REREG_MR");
    once(&mut p, op::WRITE, 4096, 5000, SUCCESS);
    once(&mut p, op::WRITE, 4096, 5001, REM_ACCESS);
    once(&mut p, op::WRITE, 4095, 10, REM_ACCESS);
    set(&mut p, other_pd, va, LEN, 15).expect("REREG_MR");
    once(&mut p, op::WRITE, 0, 100, REM_ACCESS);
    set(&mut p, pd, va, LEN, 15).expect("REREG_MR");
    once(&mut p, op::WRITE, 0, 100, SUCCESS);
    cover::finish("change", &mut p);
}

/// CQs of both ends change their size many times under traffic: each completion comes once, in order, in the old ring or the new one.
#[test]
fn completion_queues_change_under_traffic() {
    let (mut p, _) = pair(1, LEN, &fast());
    let mut rng = Rng::new(11);
    let (mut posted, mut done) = (0u16, [0u16; 2]);
    let mut left = [0; 2];
    let mut changes = 0;
    let key = p.ends[1].key;
    let buf = p.ends[1].buf;
    let check = |c: Cqe, e: usize, done: &mut [u16; 2]| {
        assert_eq!((c.status, c.is_recv), (SUCCESS, e == 1));
        // one unit a request on the sender's side
        assert_eq!(c.imm, (e == 1).then_some(done[e] as u32));
        done[e] += 1;
    };
    while done != [1200; 2] {
        if posted < 1200 && posted - done[0].min(done[1]) < 30 {
            p.recv(1, 0, &[(buf, 4096, key)]);
            let wr = Wr {
                imm: posted as u32,
                ..p.send(0, 0, 64, Some(posted as u32))
            };
            p.post(0, 0, &wr);
            posted += 1;
        }
        p.run(rng.below(120) as u32);
        for e in 0..2 {
            // sometimes nobody polls for a while
            for _ in 0..rng.below(4) {
                if let Some(c) = p.poll(e) {
                    check(c, e, &mut done);
                }
            }
        }
        if rng.below(40) == 0 {
            let e = rng.below(2) as usize;
            let log = 6 + rng.below(4) as u32;
            let new = {
                let end = &mut p.ends[e];
                end.host.resize_cq(&mut p.sim, &end.cq, log)
            };
            // the rest of the old ring, without a word to the card about it
            let mut old = p.ends[e].cq.clone();
            loop {
                let mut quiet = old.clone();
                quiet.id = 0xFFF;
                let end = &p.ends[e];
                let Some(c) = end.host.poll(&mut p.sim, &mut quiet) else {
                    break;
                };
                old.ci = quiet.ci;
                left[e] += 1;
                check(c, e, &mut done);
            }
            p.ends[e].cq = new;
            changes += 1;
        }
    }
    println!("{changes} changes, {left:?} completions were in the old rings");
    assert!(changes > 20 && left[0] > 20 && left[1] > 20);
    // an armed CQ stays armed, and one that is not does not become so
    let e = &p.ends[1];
    let id = e.cq.id;
    let before = p.sim.mem(1).interrupts.get(&1).copied().unwrap_or(0);
    for armed in [true, false] {
        if armed {
            let e = &p.ends[1];
            e.host.cq_doorbell(&mut p.sim, &e.cq, 1);
        }
        let new = {
            let end = &mut p.ends[1];
            end.host.resize_cq(&mut p.sim, &end.cq, 7)
        };
        p.ends[1].cq = new;
        p.recv(1, 0, &[(buf, 4096, key)]);
        let wr = p.send(0, 0, 64, Some(7));
        p.post(0, 0, &wr);
        p.wait(0, 100_000);
        p.wait(1, 100_000);
        p.run(2000);
        if armed {
            assert_eq!(event(&mut p, 1), (1, id));
        }
        assert_eq!(p.ends[1].host.poll_event(&mut p.sim), None);
    }
    let after = p.sim.mem(1).interrupts.get(&1).copied().unwrap_or(0);
    assert_eq!(after - before, 1);
    cover::finish("change", &mut p);
}
