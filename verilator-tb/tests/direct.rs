//! Whole cards: WQEs that come with their doorbell, and inline data. The figure of docs/results/card.md; and the same results as without
//! when both ways are mixed, rings wrap and the wire is bad.
//!
//! Shows: `direct_wqe`, `inline_data`.

use metaroce_hdl_spec::{table::qp_type, wqe::op};
use metaroce_tb::{
    bench::write_latency,
    fabric::Faults,
    hostport::HostPortConfig,
    pair::Pair,
    rng::Rng,
    script::{Conn, UdDest, Wr},
    sim::SimConfig,
};

fn pair(faults: Faults, seed: u64, conn: &Conn) -> Pair {
    println!(
        "seed {seed}, faults {faults:?}; replay: cargo test --release -p metaroce-tb --test direct"
    );
    let cfg = SimConfig::pair(faults, seed);
    Pair::new(&cfg, 0, 1 << 20, conn)
}

/// No host read lies between doorbell and wire, so a slow host changes nothing.
#[test]
fn latency_needs_no_host() {
    for ns in [100, 600, 2000] {
        let host = HostPortConfig {
            read_ns: ns,
            ..HostPortConfig::default()
        };
        let l = write_latency(8, host, true);
        println!("reads of {ns} ns: {l:?}");
        assert!(l.doorbell_to_wire <= 100, "{l:?}");
    }
}

/// Where WRITEs go; SENDs go to offset 0.
const WRITES: u64 = 1 << 17;

/// Payload that tells which message it is.
fn data(k: u32, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (k as u8).wrapping_mul(37) ^ i as u8)
        .collect()
}

/// SENDs and WRITEs with immediate data of every inline size, on a ring of 16: with a doorbell or direct, inline or from memory, several at a
/// time. Each message arrives once, in order, with its bytes.
fn mixed(faults: Faults, seed: u64, messages: u32) -> Pair {
    let conn = Conn {
        mtu: 1,
        timeout: 2,
        ..Conn::default()
    };
    let mut p = pair(faults, seed, &conn);
    let q = p.add(&conn, 4, 8);
    let mut rng = Rng::new(seed);
    let (mut posted, mut sent, mut got) = (0u32, 0u32, 0u32);
    let mut lens = vec![];
    for _ in 0..64 {
        let sge = (p.ends[1].buf, 4096, p.ends[1].key);
        p.recv(1, q, &[sge]);
    }
    while got < messages || sent < messages {
        // at most four of 16 units wait, so that the ring never overflows whatever their order
        if posted < messages && posted - sent.min(got) < 4 && rng.below(2) == 0 {
            let len = rng.below(33) as u32;
            let body = data(posted, len as usize);
            let off = 4096 * (posted % 16) as u64;
            let mut w = if rng.below(2) == 0 {
                p.send(0, off, len, Some(posted))
            } else {
                p.rdma(0, op::WRITE_IMM, off, WRITES + off, len)
            };
            w.imm = posted;
            if rng.below(3) != 0 {
                w.sges.clear();
                w.inline = Some(body.clone());
            }
            p.fill(0, off, &body);
            if rng.below(3) != 0 {
                p.post_direct(0, q, &w);
            } else {
                p.post(0, q, &w);
            }
            lens.push((len, off, w.op));
            posted += 1;
        }
        for _ in 0..rng.below(40) {
            p.sim.step_or_skip();
        }
        while let Some(c) = p.poll(0) {
            assert_eq!(c.status, 0);
            sent += 1;
        }
        while let Some(c) = p.poll(1) {
            let (len, off, o) = lens[got as usize];
            assert_eq!(
                (c.status, c.imm, c.length),
                (0, Some(got), len),
                "message {got}"
            );
            let at = if o == op::WRITE_IMM { WRITES + off } else { 0 };
            // the one buffer of all SENDs may have the next one already
            if o == op::WRITE_IMM || posted == got + 1 {
                assert_eq!(
                    p.read(1, at, len as usize),
                    data(got, len as usize),
                    "message {got}"
                );
            }
            got += 1;
            let sge = (p.ends[1].buf, 4096, p.ends[1].key);
            p.recv(1, q, &[sge]);
        }
    }
    p
}

#[test]
fn every_size_both_ways() {
    mixed(Faults::default(), 1, 400);
}

#[test]
fn on_a_bad_wire() {
    let faults = Faults {
        loss_ppm: 20_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 10_000,
        corrupt_ppm: 10_000,
    };
    let mut p = mixed(faults, 2, 400);
    let c = p.counters();
    assert!(
        c[0].iter().any(|(n, v)| *n == "tx_retransmits" && *v > 5),
        "{c:?}"
    );
}

/// The unit is looked at as one from the ring is: a WQE that is not the next one, or longer than a unit, is read from the ring.
#[test]
fn direct_is_only_a_hint() {
    let conn = Conn::default();
    let mut p = pair(Faults::default(), 3, &conn);
    let q = p.add(&conn, 6, 4);
    // 33 bytes are no inline data
    let bad = Wr {
        op: op::WRITE,
        signaled: true,
        inline: Some(vec![1; 32]),
        ..p.rdma(0, op::WRITE, 0, 0, 0)
    };
    let body = data(1, 3000);
    p.fill(0, 0, &body);
    let mut w = p.rdma(0, op::WRITE, 0, 8192, 3000);
    w.sges = (0..3)
        .map(|i| (p.ends[0].buf + 1000 * i, 1000, p.ends[0].key))
        .collect();
    // three SGEs are two units
    p.post_direct(0, q, &w);
    assert_eq!(p.wait(0, 100_000).status, 0);
    assert_eq!(p.read(1, 8192, 3000), body);
    // two WQEs, one doorbell: the first is not told of
    for k in 0..2 {
        let w = Wr {
            inline: Some(data(k, 20)),
            remote_va: bad.remote_va + 64 * k as u64,
            ..bad.clone()
        };
        let end = &mut p.ends[0];
        let i = end.host.post_send(&mut p.sim, &mut end.qps[q], &w);
        if k == 1 {
            end.host.ring_direct(&mut p.sim, &end.qps[q], i);
        }
    }
    for k in 0..2 {
        assert_eq!(p.wait(0, 100_000).status, 0);
        assert_eq!(p.read(1, 64 * k, 20), data(k as u32, 20));
    }
    // a stranger's page
    let stranger = metaroce_tb::script::Host::new(&mut p.sim, 0, 2);
    let qp = p.ends[0].qps[q].clone();
    let i = p.ends[0]
        .host
        .post_send(&mut p.sim, &mut p.ends[0].qps[q], &bad);
    let slot = i as u64 & ((1 << qp.sq_log) - 1);
    let unit = p.sim.mem(0).peek_vec(1, qp.sq + 64 * slot, 64);
    p.sim.mem(0).poke(2, qp.sq + 64 * slot, &unit);
    stranger.ring_direct(&mut p.sim, &qp, i);
    p.run(2000);
    assert!(p.poll(0).is_none());
    assert!(p.counters()[0]
        .iter()
        .any(|(n, v)| *n == "db_refused" && *v == 1));
}

#[test]
fn datagrams() {
    let conn = Conn {
        qp_type: qp_type::UD,
        ..Conn::default()
    };
    let mut p = pair(Faults::default(), 4, &conn);
    let q = p.add(&conn, 4, 4);
    for len in [0usize, 1, 8, 32] {
        let sge = (p.ends[1].buf, 4096, p.ends[1].key);
        p.recv(1, q, &[sge]);
        let w = Wr {
            inline: Some(data(7, len)),
            ud: Some(UdDest {
                qpn: p.ends[1].qps[q].qpn,
                qkey: conn.qkey,
                mac: p.sim.ids[1].mac,
                gid: p.sim.ids[1].gids()[1],
                sgid: 1,
            }),
            ..p.send(0, 0, 0, None)
        };
        p.post(0, q, &w);
        assert_eq!(p.wait(0, 100_000).status, 0);
        let c = p.wait(1, 100_000);
        assert_eq!((c.status, c.length), (0, 40 + len as u32));
        assert_eq!(p.read(1, 40, len), data(7, len));
    }
}
