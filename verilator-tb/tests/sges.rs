//! Whole cards: requests of up to 16 SGEs, in every place that has a list.
//!
//! Shows: `scatter_gather`.

mod common;

use common::{
    cover,
    log::{quiet, take},
};
use metaroce_hdl_spec::{table::qp_type, wqe::op};
use metaroce_tb::{
    pair::Pair,
    rng::Rng,
    script::{Conn, UdDest, Wr},
    sim::SimConfig,
};

const SUCCESS: u8 = 0;
const LEN: u64 = 1 << 20;

/// `n` pieces of `bytes` bytes in all, apart from each other, from offset `lo` of end `e` on; some are empty.
fn pieces(p: &Pair, e: usize, lo: u64, n: u64, bytes: u32, rng: &mut Rng) -> Vec<(u64, u32, u32)> {
    let (mut at, mut left) = (p.ends[e].buf + lo, bytes);
    (1..=n)
        .map(|k| {
            let len = match n - k {
                0 => left,
                rest => rng.below((left as u64 / (rest + 1)) * 2 + 1) as u32,
            }
            .min(left);
            let piece = (at, len, p.ends[e].key);
            at += len as u64 + rng.below(9);
            left -= len;
            piece
        })
        .collect()
}

/// The bytes of such a list.
fn gather(p: &mut Pair, e: usize, list: &[(u64, u32, u32)]) -> Vec<u8> {
    let base = p.ends[e].buf;
    list.iter()
        .flat_map(|(va, len, _)| p.read(e, va - base, *len as usize))
        .collect()
}

fn pair(conn: &Conn, stride: u32) -> Pair {
    let mut p = Pair::new(&SimConfig::default(), 0, LEN, conn);
    p.ends[1].host.rq_stride = stride;
    p.add(conn, 6, 3 + stride);
    p
}

/// SEND, WRITE and READ between lists of every length; receives of one, two and four units, for several laps of their ring.
#[test]
fn lists_of_every_length() {
    for stride in 0..3u32 {
        let conn = Conn {
            mtu: 2,
            ..Conn::default()
        };
        let mut p = pair(&conn, stride);
        let mut rng = Rng::new(7 + stride as u64);
        let most = 4u64 << stride;
        for n in (1..=16).chain([16, 16]) {
            let bytes = [1, 100, 513, 3000, 6000][rng.below(5) as usize];
            let data = rng.bytes(LEN as usize / 4);
            p.fill(0, 0, &data);
            let from = pieces(&p, 0, 0, n, bytes, &mut rng);
            let (base, key) = (p.ends[1].buf + 0x4_0000, p.ends[1].key);
            for o in [op::SEND, op::WRITE, op::READ] {
                p.fill(1, 0x4_0000, &vec![0; 0x4_0000]);
                let mut to = vec![(base, bytes, key)];
                if o == op::SEND {
                    let k = 1 + rng.below(most);
                    to = pieces(&p, 1, 0x4_0000, k, bytes, &mut rng);
                    p.recv(1, 0, &to);
                }
                if o == op::READ {
                    let there = rng.bytes(bytes as usize);
                    p.fill(1, 0x4_0000, &there);
                }
                let wr = Wr {
                    op: o,
                    signaled: true,
                    remote_va: base,
                    rkey: key,
                    sges: from.clone(),
                    ..Wr::default()
                };
                p.post(0, 0, &wr);
                let c = p.wait(0, 400_000);
                assert_eq!(c.status, SUCCESS, "{o}: {n} SGEs, {bytes} bytes");
                if o == op::SEND {
                    let c = p.wait(1, 400_000);
                    assert_eq!((c.status, c.length), (SUCCESS, bytes));
                }
                assert!(
                    gather(&mut p, 0, &from) == gather(&mut p, 1, &to),
                    "{o}: {n} SGEs, {bytes} bytes, stride {stride}"
                );
            }
        }
        // one byte more than the entry has: the message does not fit
        let to = pieces(&p, 1, 0x4_0000, most, 1000, &mut rng);
        let i = p.recv(1, 0, &to);
        let wr = p.send(0, 0, 1001, None);
        let j = p.post(0, 0, &wr);
        assert_eq!(take(&mut p, 1, 1), [(i, 1, true)]);
        assert_eq!(take(&mut p, 0, 1), [(j, 9, false)]);
        quiet(&mut p);
        cover::finish("sges", &mut p);
    }
}

/// UD: 14 SGEs out, 16 in.
#[test]
fn datagrams() {
    let conn = Conn {
        qp_type: qp_type::UD,
        ..Conn::default()
    };
    let mut p = pair(&conn, 2);
    let mut rng = Rng::new(9);
    for n in 1..=16u64 {
        let bytes = rng.below(4097) as u32;
        let data = rng.bytes(0x1_0000);
        p.fill(0, 0, &data);
        let from = pieces(&p, 0, 0, n.min(14), bytes, &mut rng);
        let to = pieces(&p, 1, 0x4_0000, n, 40 + bytes, &mut rng);
        // the first has room for the header area of IPv4
        let to = if to[0].1 < 20 {
            vec![(p.ends[1].buf + 0x4_0000, 40 + bytes, p.ends[1].key)]
        } else {
            to
        };
        p.recv(1, 0, &to);
        let there = &p.sim.ids[1];
        let wr = Wr {
            ud: Some(UdDest {
                qpn: p.ends[1].qps[0].qpn,
                qkey: conn.qkey,
                mac: there.mac,
                gid: there.gids()[1],
                sgid: 1,
            }),
            sges: from.clone(),
            ..p.send(0, 0, bytes, None)
        };
        p.post(0, 0, &wr);
        assert_eq!(p.wait(0, 100_000).status, SUCCESS);
        let c = p.wait(1, 100_000);
        assert_eq!((c.status, c.length), (SUCCESS, 40 + bytes));
        let (sent, got) = (gather(&mut p, 0, &from), gather(&mut p, 1, &to));
        assert!(got[40..] == sent, "{n} SGEs, {bytes} bytes");
    }
    quiet(&mut p);
    cover::finish("sges", &mut p);
}
