//! Whole cards: datagrams over IPv4 and IPv6, with the GRH area, from and to several QPs.

use metaroce_hdl_spec::{table::qp_type, wqe::op};
use metaroce_tb::{
    pair::Pair,
    rng::Rng,
    script::{Conn, UdDest, Wr},
    sim::SimConfig,
};

fn pair(qps: usize) -> Pair {
    let conn = Conn {
        qp_type: qp_type::UD,
        ..Conn::default()
    };
    Pair::new(&SimConfig::default(), qps, 1 << 20, &conn)
}

/// A datagram of `len` bytes at `lo` of end 0 to QP `q` of end 1.
fn datagram(p: &Pair, q: usize, lo: u64, len: u32, sgid: u8, imm: Option<u32>) -> Wr {
    let to = &p.sim.ids[1];
    Wr {
        ud: Some(UdDest {
            qpn: p.ends[1].qps[q].qpn,
            qkey: Conn::default().qkey,
            mac: to.mac,
            gid: to.gids()[sgid as usize],
            sgid,
        }),
        ..p.send(0, lo, len, imm)
    }
}

#[test]
fn every_size_with_grh() {
    let mut p = pair(2);
    let mut rng = Rng::new(4);
    for sgid in [1u8, 0] {
        for len in [0u32, 1, 3, 64, 1000, 4095, 4096] {
            let (lo, ro) = (rng.below(4096), 0x2_0000 + rng.below(4096));
            let (q, imm) = (
                rng.below(2) as usize,
                (len % 2 == 1).then_some(0x55AA_0000 + len),
            );
            let data = rng.bytes(len as usize);
            p.fill(0, lo, &data);
            p.fill(1, ro, &[0xEE; 5000]);
            // the GRH area in an SGE of its own, or all in one
            let (base, key) = (p.ends[1].buf + ro, p.ends[1].key);
            if rng.below(2) == 0 {
                p.recv(1, q, &[(base, 40, key), (base + 40, 4096, key)]);
            } else {
                p.recv(1, q, &[(base, 4136, key)]);
            }
            let w = datagram(&p, q, lo, len, sgid, imm);
            p.post(0, 1 - q, &w);
            let c = p.wait(0, 100_000);
            assert_eq!((c.status, c.is_recv), (0, false));
            let c = p.wait(1, 100_000);
            assert_eq!((c.status, c.is_recv, c.length), (0, true, 40 + len));
            assert_eq!(c.qpn, p.ends[1].qps[q].qpn);
            assert_eq!(c.imm, imm);
            assert_eq!(c.grh, Some(p.ends[0].qps[1 - q].qpn));
            let got = p.read(1, ro, 40 + len as usize);
            assert_eq!(got[40..], data, "{len} bytes");
            let (src, dst) = (p.sim.ids[0].gids(), p.sim.ids[1].gids());
            if sgid == 1 {
                // IPv4 header in the last 20 bytes
                assert_eq!(got[20], 0x45);
                assert_eq!(got[32..36], src[1][12..]);
                assert_eq!(got[36..40], dst[1][12..]);
                assert_eq!(got[..20], [0xEE; 20]);
            } else {
                assert_eq!(got[0] >> 4, 6);
                assert_eq!(got[8..24], src[0]);
                assert_eq!(got[24..40], dst[0]);
            }
        }
    }
}

/// Wrong Q_Key, no receive, a receive that is too small: dropped, and the QPs live on.
#[test]
fn what_does_not_fit_is_dropped() {
    let mut p = pair(1);
    let key = p.ends[1].key;
    let base = p.ends[1].buf;
    let mut w = datagram(&p, 0, 0, 100, 1, None);
    // no receive is posted
    p.post(0, 0, &w);
    assert_eq!(p.wait(0, 100_000).status, 0);
    p.run(3000);
    p.recv(1, 0, &[(base, 120, key)]);
    p.post(0, 0, &w);
    assert_eq!(p.wait(0, 100_000).status, 0);
    p.run(3000);
    let good = w.ud.unwrap();
    w.ud = Some(UdDest {
        qkey: good.qkey ^ 1,
        ..good
    });
    p.post(0, 0, &w);
    assert_eq!(p.wait(0, 100_000).status, 0);
    p.run(3000);
    assert_eq!(p.poll(1), None);
    // 80 bytes fit
    w = datagram(&p, 0, 0, 80, 1, None);
    p.post(0, 0, &w);
    assert_eq!(p.wait(0, 100_000).status, 0);
    let c = p.wait(1, 100_000);
    assert_eq!((c.status, c.length), (0, 120));
    assert_eq!((p.state(0, 0), p.state(1, 0)), (3, 3));
    // locally refused: more than one packet, and what UD has not
    let w = datagram(&p, 0, 0, 4097, 1, None);
    p.post(0, 0, &w);
    assert_eq!(p.wait(0, 100_000).status, 1);
    let mut p = pair(1);
    let mut w = datagram(&p, 0, 0, 10, 1, None);
    w.op = op::WRITE;
    p.post(0, 0, &w);
    assert_eq!(p.wait(0, 100_000).status, 2);
}
