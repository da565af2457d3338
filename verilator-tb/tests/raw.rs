//! Two cards with raw packet queues: every frame that a process sends is on the wire with a right ICRC, and every good frame reaches the process that its
//! QPN names, whole, in order, and not before it is whole; what is not good, or not wanted, is counted and goes nowhere.
//!
//! Shows: `counters`, `ecn_count`, `host_port`, `icrc_offload`, `mtus`, `raw_packet_queues`, `vlan`.

use metaroce_hdl_spec::regs::{self, admin, Ctr, RAW_SLOT};
use metaroce_protocol::frame::Frame;
use metaroce_tb::{
    fabric::{FabricConfig, Faults, Seen},
    hostport::HostPortConfig,
    node::MmioWrite,
    raw::{frame, marked, qpn, sealed, RawHost},
    rng::Rng,
    sim::{Minis, Sim, SimConfig},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

type Wire = Arc<Mutex<Vec<(usize, Vec<u8>)>>>;

fn minis(faults: Faults, seed: u64, host: HostPortConfig) -> (Sim, Wire) {
    let mut sim = Sim::scripted(&SimConfig {
        cards: 2,
        minis: Minis::ALL,
        fabric: FabricConfig {
            faults,
            seed,
            ..FabricConfig::default()
        },
        host,
        ..SimConfig::default()
    });
    let wire = Wire::default();
    let log = wire.clone();
    sim.fabric.tap = Some(Box::new(move |what, port, f| {
        if what == Seen::Sent {
            log.lock().unwrap().push((port, f.data.clone()));
        }
    }));
    (sim, wire)
}

fn clean(seed: u64) -> (Sim, Wire) {
    minis(Faults::default(), seed, HostPortConfig::default())
}

fn counter(sim: &mut Sim, card: usize, c: Ctr) -> u64 {
    sim.nodes[card].counter(c)
}

/// Until nothing moves, and counters have settled.
fn settle(sim: &mut Sim) {
    let t0 = sim.nodes[0].cycles;
    while sim.step_or_skip() {
        assert!(sim.nodes[0].cycles - t0 < 4_000_000, "no silence");
    }
    for _ in 0..70 {
        sim.step();
    }
}

/// A process, what it shall send, and what it got.
struct End {
    host: RawHost,
    todo: Vec<Vec<u8>>,
    got: Vec<Vec<u8>>,
    /// Looks at its ring only now and then, so that it fills up.
    lazy: bool,
}

/// Lets all ends send and receive to the end.
fn run(sim: &mut Sim, ends: &mut [End], rng: &mut Rng) {
    for e in ends.iter_mut() {
        e.todo.reverse();
    }
    let t0 = sim.nodes[0].cycles;
    let mut quiet = 0;
    while quiet < 3 {
        let mut any = false;
        for e in ends.iter_mut() {
            // bursts of any size, up to the whole ring
            for _ in 0..rng.below(40) {
                let Some(f) = e.todo.last() else { break };
                any = true;
                if !e.host.send(sim, f) {
                    break;
                }
                e.todo.pop();
            }
            if e.lazy && rng.below(4) != 0 && sim.nodes[0].cycles - t0 < 200_000 {
                continue;
            }
            let mut some = false;
            while let Some((f, ce)) = e.host.poll(sim) {
                assert_eq!(ce, marked(&f));
                e.got.push(f);
                some = true;
            }
            if some {
                e.host.consume(sim, false);
                any = true;
            }
        }
        for _ in 0..rng.below(400) {
            sim.step();
        }
        quiet = if any || !sim.idle() { 0 } else { quiet + 1 };
        assert!(sim.nodes[0].cycles - t0 < 4_000_000, "no end");
    }
    settle(sim);
    for e in ends.iter_mut() {
        while let Some((f, _)) = e.host.poll(sim) {
            e.got.push(f);
        }
    }
}

/// Processes on both cards, `n` frames each, each to a random process of the other card; small rings, so that they wrap and fill.
fn ends(sim: &mut Sim, n: usize, most: usize, rx_log: u32, rng: &mut Rng) -> Vec<End> {
    let all: Vec<(usize, u16)> = [0, 1]
        .into_iter()
        .flat_map(|c| [1, 2, 33, 63].map(|p| (c, p)))
        .collect();
    let mut v = vec![];
    for (card, pasid) in all.clone() {
        let host = RawHost::open(sim, card, pasid, 2 + rng.below(4) as u32, rx_log);
        let todo = (0..n)
            .map(|_| {
                let to = all[4 * (1 - card) + rng.below(4) as usize].1;
                let dest = qpn(to, rng);
                frame(sim, card, 1 - card, dest, most, rng)
            })
            .collect();
        v.push(End {
            host,
            todo,
            got: vec![],
            lazy: false,
        });
    }
    v
}

fn dest(f: &[u8]) -> u16 {
    let all = sealed(f);
    let v = Frame::new_checked(&all).expect("a good frame");
    (v.roce.dest_qpn() >> 18) as u16
}

/// What each process was sent, by its card and PASID and in the order of the wire, without ICRC.
fn sent_to(wire: &Wire) -> HashMap<(usize, u16), Vec<Vec<u8>>> {
    let mut m: HashMap<_, Vec<_>> = HashMap::new();
    for (from, f) in wire.lock().unwrap().iter() {
        assert!(Frame::new_checked(f).is_ok(), "what a card sends is good");
        let f = f[..f.len() - 4].to_vec();
        m.entry((1 - from, dest(&f))).or_default().push(f);
    }
    m
}

/// All frames arrive as they were sent, of each process and for each process in order; every counter is that of the wire.
#[test]
fn frames_arrive_as_sent() {
    for (seed, most) in [(1, 4096), (2, 200), (3, 4096)] {
        let (mut sim, wire) = clean(seed);
        let mut rng = Rng::new(seed);
        let mut v = ends(&mut sim, 120, most, 8, &mut rng);
        let todo: Vec<Vec<Vec<u8>>> = v.iter().map(|e| e.todo.clone()).collect();
        run(&mut sim, &mut v, &mut rng);
        // on the wire: each process's own, in its order, with the ICRC of the protocol crate
        let sent = wire.lock().unwrap().clone();
        for (e, todo) in v.iter().zip(&todo) {
            let mut left = todo.iter().map(|f| sealed(f)).peekable();
            for (from, f) in &sent {
                if *from == e.host.card && left.peek() == Some(f) {
                    left.next();
                }
            }
            assert_eq!(left.count(), 0, "card {}", e.host.card);
        }
        assert_eq!(sent.len(), 8 * 120);
        let want = sent_to(&wire);
        for e in &v {
            let w = want.get(&(e.host.card, e.host.pasid));
            assert!(w.is_some_and(|w| *w == e.got), "PASID {}", e.host.pasid);
        }
        for c in 0..2 {
            let bytes = |from: usize| -> u64 {
                sent.iter()
                    .filter(|(f, _)| *f == from)
                    .map(|(_, f)| f.len() as u64)
                    .sum()
            };
            let ce = want
                .iter()
                .filter(|(k, _)| k.0 == c)
                .flat_map(|(_, v)| v)
                .filter(|f| marked(f))
                .count();
            for (k, n) in [
                (Ctr::tx_frames, 480),
                (Ctr::tx_bytes, bytes(c)),
                (Ctr::rx_frames, 480),
                (Ctr::rx_bytes, bytes(1 - c)),
                (Ctr::rx_ecn_marked, ce as u64),
                (Ctr::rx_drop_malformed, 0),
                (Ctr::rx_drop_icrc, 0),
                (Ctr::rx_drop_opcode, 0),
                (Ctr::rx_drop_qp, 0),
                (Ctr::rx_drop_full, 0),
                (Ctr::db_refused, 0),
            ] {
                assert_eq!(counter(&mut sim, c, k), n, "card {c}: {k:?}");
            }
        }
    }
}

/// Loss, duplicates, reordering, damage, stalls of the bus, requests of every size, and processes that let their rings fill: what arrives is what the wire
/// delivered, in its order, without damage; the counters say what became of the rest.
#[test]
fn bad_wire_and_full_rings() {
    for (seed, limits) in [(11, 0), (12, 1 << 4), (13, 1 | 5 << 4), (14, 2 | 2 << 4)] {
        let faults = Faults {
            loss_ppm: 20_000,
            duplicate_ppm: 20_000,
            reorder_ppm: 20_000,
            corrupt_ppm: 30_000,
        };
        let host = HostPortConfig {
            read_ns: 600,
            spread_ns: 1500,
            stall_ppm: 100_000,
            ..HostPortConfig::default()
        };
        let (mut sim, _) = minis(faults, seed, host);
        let mut rng = Rng::new(seed);
        // what each card has taken from the wire
        let taken = Wire::default();
        let log = taken.clone();
        sim.fabric.tap = Some(Box::new(move |what, port, f| {
            if what == Seen::Taken {
                log.lock().unwrap().push((port, f.data.clone()));
            }
        }));
        for n in &mut sim.nodes {
            n.mmio.push_back(MmioWrite::u32(admin::PCIE_LIMITS, limits));
        }
        let mut v = ends(&mut sim, 150, 4096, 3, &mut rng);
        for e in v.iter_mut() {
            e.lazy = true;
        }
        run(&mut sim, &mut v, &mut rng);
        for c in 0..2 {
            let mut good: HashMap<u16, Vec<Vec<u8>>> = HashMap::new();
            let (mut all, mut bad) = (0, 0);
            for (_, f) in taken.lock().unwrap().iter().filter(|(p, _)| *p == c) {
                all += 1;
                match Frame::new_checked(f) {
                    // damage to what the ICRC does not cover may go anywhere
                    Ok(v) => good
                        .entry((v.roce.dest_qpn() >> 18) as u16)
                        .or_default()
                        .push(f[..f.len() - 4].to_vec()),
                    Err(_) => bad += 1,
                }
            }
            let mut got = 0;
            for e in v.iter().filter(|e| e.host.card == c) {
                // a subsequence: what is missing found the ring full
                let w = good.remove(&e.host.pasid).unwrap_or_default();
                let mut w = w.iter();
                for f in &e.got {
                    assert!(w.any(|x| x == f), "card {c}, PASID {}", e.host.pasid);
                }
                got += e.got.len();
            }
            assert!(good.is_empty(), "{:?}", good.keys());
            let dropped: u64 = [
                Ctr::rx_drop_malformed,
                Ctr::rx_drop_icrc,
                Ctr::rx_drop_opcode,
            ]
            .map(|k| counter(&mut sim, c, k))
            .iter()
            .sum();
            let full = counter(&mut sim, c, Ctr::rx_drop_full);
            assert_eq!(counter(&mut sim, c, Ctr::rx_frames), all);
            assert_eq!(dropped, bad);
            assert_eq!(got as u64 + bad + full, all);
            assert_eq!(counter(&mut sim, c, Ctr::rx_drop_qp), 0);
            assert!(full > 0 && bad > 0, "{full} {bad}");
        }
    }
}

/// Frames for nobody, doorbells for nothing, bad lengths, memory that is not there: counted, and done.
#[test]
fn what_is_refused() {
    let (mut sim, wire) = clean(21);
    let mut rng = Rng::new(21);
    let mut a = RawHost::open(&mut sim, 0, 5, 4, 4);
    let mut b = RawHost::open(&mut sim, 1, 9, 4, 4);
    // nobody has PASID 7
    for pasid in [7, 0, 63, 9] {
        let f = frame(&sim, 0, 1, qpn(pasid, &mut rng), 500, &mut rng);
        assert!(a.send(&mut sim, &f));
    }
    settle(&mut sim);
    assert_eq!(counter(&mut sim, 1, Ctr::rx_drop_qp), 3);
    assert!(b.poll(&mut sim).is_some() && b.poll(&mut sim).is_none());
    // lengths that no frame has, between good ones; a slot that can't be read
    let f = frame(&sim, 0, 1, qpn(9, &mut rng), 2000, &mut rng);
    let before = wire.lock().unwrap().len();
    let mut refused = 0;
    for len in [
        0u16, 50, 53, 55, 56, 57, 4207, 4208, 4210, 8191, 8194, 65534,
    ] {
        a.ring_tx(&mut sim, len);
        refused += 1;
        assert!(a.send(&mut sim, &f));
        settle(&mut sim);
        assert_eq!(a.room(&mut sim), 16, "{len}");
    }
    let hole = a.tx_slot(a.pi) + 4096;
    sim.mem(0).holes.push((5, hole, 4096));
    let big = frame_of(&sim, 4000, &mut rng);
    assert!(a.send(&mut sim, &big));
    refused += 1;
    settle(&mut sim);
    assert_eq!(a.room(&mut sim), 16);
    sim.mem(0).holes.clear();
    assert!(a.send(&mut sim, &f));
    settle(&mut sim);
    assert_eq!(counter(&mut sim, 0, Ctr::db_refused), refused);
    assert_eq!(wire.lock().unwrap().len() - before, 13);
    while let Some((g, _)) = b.poll(&mut sim) {
        assert!(g == f);
    }
    // a process without rings, another size, another offset, a log that no ring has
    let page = 6 * regs::PAGE;
    for w in [
        MmioWrite::u64(page + regs::doorbell::RAW_TX, 0x60_0000),
        MmioWrite::u64(page + regs::doorbell::CMD, 0x1000),
        MmioWrite::u32(page + regs::doorbell::RAW_TX, 0),
        MmioWrite::u64(64 * regs::PAGE + regs::doorbell::RAW_TX_RING, 0x1024),
    ] {
        sim.nodes[0].mmio.push_back(w);
        refused += 1;
    }
    for log in [0, 1, 11, 31] {
        let w = u64::from_le_bytes(metaroce_tb::raw::ring(0x10_0000, log, true));
        let n = &mut sim.nodes[0];
        n.mmio
            .push_back(MmioWrite::u64(page + regs::doorbell::RAW_TX_RING, w));
        n.mmio
            .push_back(MmioWrite::u64(page + regs::doorbell::RAW_TX, 0x3E_0000));
        refused += 1;
    }
    settle(&mut sim);
    assert_eq!(counter(&mut sim, 0, Ctr::db_refused), refused);
    assert_eq!(wire.lock().unwrap().len() - before, 13);
}

/// A frame of that many bytes (2 modulo 4) from card 0 to PASID 9 of card 1.
fn frame_of(sim: &Sim, len: usize, rng: &mut Rng) -> Vec<u8> {
    loop {
        let f = frame(sim, 0, 1, qpn(9, rng), 4096, rng);
        if f.len() > len {
            return f;
        }
    }
}

/// Rings that are turned off are not touched any more, begin anew at index 0, and don't disturb others.
#[test]
fn rings_off_and_on() {
    let (mut sim, _) = clean(31);
    let mut rng = Rng::new(31);
    let mut a = RawHost::open(&mut sim, 0, 5, 4, 4);
    let mut b = RawHost::open(&mut sim, 1, 9, 4, 4);
    let mut c = RawHost::open(&mut sim, 1, 10, 6, 6);
    for round in 0..6 {
        let mut want = vec![];
        for k in 0..30 {
            let to = 9 + k % 2;
            let f = frame(&sim, 0, 1, qpn(to, &mut rng), 4096, &mut rng);
            while !a.send(&mut sim, &f) {
                sim.step();
            }
            if to == 10 {
                want.push(f);
            }
            for _ in 0..rng.below(100) {
                sim.step();
            }
            if k == 10 + 3 * round {
                b.stop(&mut sim);
                while !sim.nodes[1].mmio.is_empty() {
                    sim.step();
                }
                // what was on its way ends
                for _ in 0..2000 {
                    sim.step();
                }
                let len = (RAW_SLOT as usize) << 4;
                let all = sim.mem(1).peek_vec(9, b.rx, len);
                sim.mem(1).guard.insert(9, vec![]);
                assert!(all.len() == len);
            }
        }
        settle(&mut sim);
        assert_eq!(sim.mem(1).strays, Vec::<String>::new());
        let mut got = vec![];
        while let Some((f, _)) = c.poll(&mut sim) {
            got.push(f);
        }
        c.consume(&mut sim, false);
        assert!(got == want, "round {round}");
        sim.mem(1).guard.clear();
        b.start(&mut sim);
        settle(&mut sim);
        assert!(b.poll(&mut sim).is_none());
        let f = frame(&sim, 0, 1, qpn(9, &mut rng), 4096, &mut rng);
        while !a.send(&mut sim, &f) {
            sim.step();
        }
        settle(&mut sim);
        assert_eq!(b.poll(&mut sim).map(|g| g.0), Some(f));
        b.consume(&mut sim, false);
    }
    // the sender's ring: doorbells behind the one that turns it off send nothing
    let was = counter(&mut sim, 0, Ctr::tx_frames);
    a.stop(&mut sim);
    a.ring_tx(&mut sim, 62);
    settle(&mut sim);
    assert_eq!(counter(&mut sim, 0, Ctr::tx_frames), was);
    a.start(&mut sim);
    let f = frame(&sim, 0, 1, qpn(9, &mut rng), 100, &mut rng);
    assert!(a.send(&mut sim, &f));
    settle(&mut sim);
    assert_eq!(b.poll(&mut sim).map(|g| g.0), Some(f));
}

/// One interrupt per arming: at the next frame, or at once if there is one; the frame is there before it.
#[test]
fn interrupts() {
    let (mut sim, _) = clean(41);
    let mut rng = Rng::new(41);
    let mut a = RawHost::open(&mut sim, 0, 5, 4, 4);
    let mut b = RawHost::open(&mut sim, 1, 9, 4, 4);
    let count = |sim: &mut Sim| sim.mem(1).interrupts.get(&9).copied().unwrap_or(0);
    let f = |sim: &Sim, rng: &mut Rng| {
        let to = qpn(9, rng);
        frame(sim, 0, 1, to, 4096, rng)
    };
    let x = f(&sim, &mut rng);
    a.send(&mut sim, &x);
    settle(&mut sim);
    assert_eq!(count(&mut sim), 0);
    // there is one at the consumer index
    b.consume(&mut sim, true);
    settle(&mut sim);
    assert_eq!(count(&mut sim), 1);
    assert!(b.poll(&mut sim).is_some());
    b.consume(&mut sim, true);
    settle(&mut sim);
    assert_eq!(count(&mut sim), 1);
    for _ in 0..3 {
        a.send(&mut sim, &x);
    }
    // not before the frame
    while count(&mut sim) == 1 {
        sim.step();
    }
    assert!(b.poll(&mut sim).is_some());
    settle(&mut sim);
    assert_eq!(count(&mut sim), 2);
    while b.poll(&mut sim).is_some() {}
    // without arming none, and a ring that begins anew is not armed
    b.consume(&mut sim, true);
    b.start(&mut sim);
    a.send(&mut sim, &x);
    settle(&mut sim);
    assert_eq!(count(&mut sim), 2);
}

/// The card says what it is.
#[test]
fn registers() {
    let (mut sim, _) = clean(51);
    for (a, v) in [
        (admin::FEATURES, admin::FEATURE_RAW),
        (admin::LOG_QP, 0),
        (admin::LOG_MR, 0),
        (admin::LOG_CQ, 0),
        (admin::LOG_PD, 0),
        (admin::MAX_PASID, 63),
        (admin::BUS_BITS, 512),
    ] {
        assert_eq!(sim.nodes[0].mmio_read(a), v, "{a:#x}");
    }
}

/// The page of figures is what the card does; a rate that falls shows here.
#[test]
fn the_page() {
    let is = metaroce_tb::raw_bench::page();
    let page = include_str!("../../docs/results/mini.md");
    assert!(
        page == is,
        "docs/results/mini.md is stale: cargo xtask bench -- --raw\n{is}"
    );
}

/// A process that writes anything to its doorbells, and has anything in its memory: the card keeps to the rules of the bus (its model ends the run
/// otherwise) and to the memory of its rings, comes to rest, and all frames of the others arrive.
#[test]
fn a_hostile_process() {
    for seed in 61..64 {
        let (mut sim, _) = clean(seed);
        let mut rng = Rng::new(seed);
        let mut v = ends(&mut sim, 80, 1000, 8, &mut rng);
        let todo: usize = v.iter().map(|e| e.todo.len()).sum();
        const BAD: u16 = 20;
        // what it calls memory: frames for its like on the other card, and noise
        for c in 0..2 {
            for k in 0..64u64 {
                let f = frame(&sim, c, 1 - c, qpn(BAD, &mut rng), 4000, &mut rng);
                let f = if k % 2 == 0 { f } else { rng.bytes(4206) };
                let a = 0x100_0000 + k * RAW_SLOT as u64;
                sim.mem(c).poke(BAD, a, &f);
            }
        }
        for e in v.iter_mut() {
            e.todo.reverse();
        }
        let mut got = 0;
        let mut quiet = 0;
        while quiet < 200 {
            quiet += 1;
            for c in 0..2 {
                // beside the others, and then no more
                if todo == got || rng.below(3) == 0 || sim.nodes[c].mmio.len() > 8 {
                    continue;
                }
                // a ring of its own memory, at any page of it; a frame; slots given back; anything
                let ring = (2 + rng.below(9)) | 1 << 5 | (0x100_0000 + rng.below(64) * 4096);
                let (at, data) = match rng.below(12) {
                    0 => (regs::doorbell::RAW_TX_RING, ring),
                    1 => (regs::doorbell::RAW_RX_RING, ring),
                    2..=8 => {
                        let len = 62 + 4 * rng.below(1036);
                        (regs::doorbell::RAW_TX, rng.below(1 << 16) | len << 16)
                    }
                    9 => (regs::doorbell::RAW_RX, rng.below(1 << 17)),
                    10 => (0x40 + 8 * rng.below(4) as u32, rng.next()),
                    _ => (8 * rng.below(512) as u32, rng.next()),
                };
                let w = MmioWrite::u64(BAD as u32 * regs::PAGE + at, data);
                sim.nodes[c].mmio.push_back(w);
            }
            for e in v.iter_mut() {
                while let Some(f) = e.todo.last() {
                    if !e.host.send(&mut sim, f) {
                        break;
                    }
                    e.todo.pop();
                    quiet = 0;
                }
                while let Some((f, ce)) = e.host.poll(&mut sim) {
                    assert_eq!((ce, dest(&f)), (marked(&f), e.host.pasid));
                    got += 1;
                    quiet = 0;
                    e.host.consume(&mut sim, false);
                }
            }
            for _ in 0..rng.below(40) {
                sim.step();
            }
        }
        settle(&mut sim);
        assert_eq!(got, todo, "seed {seed}");
        // it did send
        let sent: u64 = (0..2).map(|c| counter(&mut sim, c, Ctr::tx_frames)).sum();
        assert!(sent > todo as u64 + 50, "{sent}");
    }
}
