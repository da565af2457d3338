//! Whole cards: unreliable connections. What arrives is right, what is lost is lost as a whole message, nothing waits.

use metaroce_hdl_spec::{table::qp_type, wqe::op};
use metaroce_tb::{fabric::Faults, pair::Pair, rng::Rng, script::Conn, sim::SimConfig};

fn pair(faults: Faults, seed: u64) -> Pair {
    println!(
        "seed {seed}, faults {faults:?}; replay: cargo test --release -p metaroce-tb --test uc"
    );
    let cfg = SimConfig::pair(faults, seed);
    let conn = Conn {
        mtu: 3,
        qp_type: qp_type::UC,
        ..Conn::default()
    };
    Pair::new(&cfg, 1, 1 << 20, &conn)
}

#[test]
fn every_operation_and_size() {
    let mut p = pair(Faults::default(), 1);
    let mut rng = Rng::new(1);
    for len in [0u32, 1, 3, 4, 5, 64, 1023, 1024, 1025, 2048, 65_535] {
        for o in [op::SEND, op::SEND_IMM, op::WRITE, op::WRITE_IMM] {
            let (lo, ro) = (rng.below(4096), rng.below(4096));
            let data = rng.bytes(len as usize);
            p.fill(0, lo, &data);
            let recv = o != op::WRITE;
            if recv {
                let sge = (p.ends[1].buf + ro, 0x1_0000, p.ends[1].key);
                p.recv(1, 0, &[sge]);
            }
            let send = o == op::SEND || o == op::SEND_IMM;
            let mut w = if send {
                p.send(0, lo, len, (o == op::SEND_IMM).then_some(0x1234))
            } else {
                p.rdma(0, o, lo, ro, len)
            };
            w.op = o;
            w.imm = 0x1234;
            p.post(0, 0, &w);
            let c = p.wait(0, 200_000);
            assert_eq!((c.status, c.opcode), (0, o), "{len} bytes");
            if recv {
                let c = p.wait(1, 200_000);
                assert_eq!((c.status, c.length, c.is_recv), (0, len, true));
                let imm = o == op::SEND_IMM || o == op::WRITE_IMM;
                assert_eq!(c.imm, imm.then_some(0x1234));
            } else {
                // nothing tells that it has arrived
                p.run(2000);
            }
            assert_eq!(p.read(1, ro, len as usize), data, "op {o}, {len} bytes");
        }
    }
    let c = p.counters();
    assert!(c[0].iter().all(|(n, _)| *n != "tx_retransmits"));
    assert!(c[1].iter().all(|(n, _)| *n != "tx_acks"), "{c:?}");
}

/// Every message of the sender completes; those that the receiver reports are whole, in order, none twice.
#[test]
fn losses_take_whole_messages() {
    let faults = Faults {
        loss_ppm: 30_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 10_000,
        corrupt_ppm: 10_000,
    };
    let mut p = pair(faults, 5);
    let mut rng = Rng::new(5);
    const N: u32 = 200;
    let (mut got, mut last) = (0, None);
    for k in 0..N {
        let len = 1 + rng.below(5000) as u32;
        let mut data = rng.bytes(len as usize);
        data[0] = k as u8;
        p.fill(0, 0, &data);
        let sge = (p.ends[1].buf, 0x1_0000, p.ends[1].key);
        // one receive is posted at a time; a dropped message leaves it
        if k == 0 {
            p.recv(1, 0, &[sge]);
        }
        let mut w = p.send(0, 0, len, Some(k));
        w.imm = k;
        p.post(0, 0, &w);
        assert_eq!(p.wait(0, 200_000).status, 0);
        p.run(6000);
        while let Some(c) = p.poll(1) {
            assert_eq!((c.status, c.is_recv), (0, true));
            let n = c.imm.expect("with immediate");
            assert!(last.is_none_or(|l| l < n), "{n} after {last:?}");
            last = Some(n);
            if n == k {
                assert_eq!(c.length, len);
                assert_eq!(p.read(1, 0, len as usize), data, "message {k}");
            }
            got += 1;
            p.recv(1, 0, &[sge]);
        }
    }
    println!("{got} of {N} messages arrived");
    assert!(got > N / 2 && got < N - 5);
    assert_eq!((p.state(0, 0), p.state(1, 0)), (3, 3));
}
