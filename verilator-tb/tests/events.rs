//! Events that are no completion and no error of a peer: the link, a send queue that has drained.

mod common;

use common::{
    cover,
    log::{event, pair, quiet, take},
};
use metaroce_hdl_spec::{
    cmd,
    cqe::event as kind,
    regs::{self, Ctr},
    wqe::op,
};
use metaroce_tb::{
    node::MmioWrite,
    pair::Pair,
    script::{mask, Conn, Host},
};

const SUCCESS: u8 = 0;
const RETRY_EXC: u8 = 12;
const RTS: u64 = 3;
const SQD: u64 = 4;
const LEN: u64 = 1 << 17;

fn set_link(p: &mut Pair, card: usize, up: bool) {
    let w = MmioWrite::u32(regs::admin::LINK, up as u32);
    p.sim.nodes[card].mmio.push_back(w);
}

fn no_event(p: &mut Pair, e: usize) {
    p.run(2000);
    assert_eq!(p.ends[e].host.poll_event(&mut p.sim), None, "end {e}");
}

/// With the link down nothing leaves and nothing enters; RC outlives it if it is short, and gives up if it is not. Every
/// process of that card hears of it, none of the other card does.
#[test]
fn link_down_and_up() {
    // 4.096 us * 2^4 = 66 us, seven times.
    let c = Conn {
        mtu: 3,
        timeout: 4,
        ..Conn::default()
    };
    let (mut p, _) = pair(1, LEN, &c);
    let mut second = Host::new(&mut p.sim, 0, 2);
    // what the link did at power-up was before these event queues
    no_event(&mut p, 0);
    set_link(&mut p, 0, false);
    assert_eq!(event(&mut p, 0), (kind::PORT_ERR, 1));
    let other = (0..20_000).find_map(|_| {
        p.sim.step();
        second.poll_event(&mut p.sim)
    });
    assert_eq!(other, Some((kind::PORT_ERR, 1)));
    no_event(&mut p, 1);
    // the same again is no change
    set_link(&mut p, 0, false);
    no_event(&mut p, 0);

    let data: Vec<u8> = (0..9000).map(|k| (k * 7 + k / 256) as u8).collect();
    p.fill(0, 0, &data);
    let here = p.sim.nodes[0].counter(Ctr::rx_frames);
    let there = p.sim.nodes[1].counter(Ctr::rx_frames);
    let wr = p.rdma(0, op::WRITE, 0, 0, 9000);
    let i = p.post(0, 0, &wr);
    let wr = p.rdma(1, op::READ, 20_000, 0, 3000);
    let j = p.post(1, 0, &wr);
    // 60 us: a timeout each
    p.run(40_000);
    assert_eq!(p.sim.nodes[0].counter(Ctr::rx_frames), here);
    assert_eq!(p.sim.nodes[1].counter(Ctr::rx_frames), there);
    assert!(p.sim.nodes[1].counter(Ctr::timeouts) > 0);
    assert_eq!((p.poll(0), p.poll(1)), (None, None));
    set_link(&mut p, 0, true);
    assert_eq!(event(&mut p, 0), (kind::PORT_ACTIVE, 1));
    assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)]);
    assert_eq!(take(&mut p, 1, 1), [(j, SUCCESS, false)]);
    p.run(400);
    assert!(p.read(1, 0, 9000) == data);

    // in the middle of frames: each is there as a whole or not at all
    let wr = p.rdma(0, op::WRITE, 0, 0, 65_536);
    let i = p.post(0, 0, &wr);
    for k in 0..40 {
        p.run(37 + k);
        set_link(&mut p, (k % 2) as usize, k / 2 % 2 == 1);
    }
    set_link(&mut p, 0, true);
    set_link(&mut p, 1, true);
    assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)]);
    for n in &mut p.sim.nodes {
        assert_eq!(n.counter(Ctr::rx_drop_malformed), 0);
        assert_eq!(n.counter(Ctr::rx_drop_icrc), 0);
    }

    set_link(&mut p, 1, false);
    let wr = p.rdma(0, op::WRITE, 0, 0, 100);
    let i = p.post(0, 0, &wr);
    assert_eq!(take(&mut p, 0, 1), [(i, RETRY_EXC, false)]);
    quiet(&mut p);
    cover::finish("events", &mut p);
}

/// To SQD with EN_SQD_ASYNC_NOTIFY (bit 2), or without.
fn to_sqd(p: &mut Pair, e: usize, q: usize, wish: bool) {
    let end = &mut p.ends[e];
    let set = [(cmd::modify_qp::next_state, SQD)];
    let m = mask::STATE | (wish as u64) << 2;
    end.host
        .modify(&mut p.sim, end.qps[q].qpn, m, &set)
        .expect("MODIFY_QP");
}

/// SQ_DRAINED: once, after the completion of what had begun, and only if it was asked for.
#[test]
fn drained() {
    let c = Conn {
        mtu: 3,
        ..Conn::default()
    };
    let (mut p, _) = pair(3, LEN, &c);
    let qpn: Vec<u32> = p.ends[0].qps.iter().map(|q| q.qpn).collect();
    // nothing under way
    to_sqd(&mut p, 0, 0, true);
    assert_eq!(event(&mut p, 0), (kind::SQ_DRAINED, qpn[0]));
    no_event(&mut p, 0);
    // not asked for
    to_sqd(&mut p, 0, 1, false);
    no_event(&mut p, 0);
    // a READ and a WRITE that have begun, one that has not, and traffic of another QP
    p.to_state(0, 1, RTS);
    let (read, write) = (
        p.rdma(0, op::READ, 0, 0, 30_000),
        p.rdma(0, op::WRITE, 40_000, 40_000, 30_000),
    );
    let begun = p.post(0, 2, &read);
    p.run(200);
    to_sqd(&mut p, 0, 2, true);
    let waits = p.post(0, 2, &write);
    for _ in 0..5 {
        p.post(0, 1, &write);
    }
    let mut seen = vec![];
    while seen.len() < 7 {
        if let Some(c) = p.poll(0) {
            assert_eq!(c.status, SUCCESS);
            if c.qpn == qpn[2] {
                assert_eq!(c.index, begun, "it waits in SQD");
                seen.push(0);
            } else {
                seen.push(1);
            }
        }
        if let Some(e) = p.ends[0].host.poll_event(&mut p.sim) {
            assert_eq!(e, (kind::SQ_DRAINED, qpn[2]));
            seen.push(2);
        }
        p.sim.step_or_skip();
    }
    let at = |x| seen.iter().position(|s| *s == x);
    assert!(at(0) < at(2), "{seen:?}");
    no_event(&mut p, 0);
    p.to_state(0, 2, RTS);
    assert_eq!(take(&mut p, 0, 1), [(waits, SUCCESS, false)]);
    // the peer goes away while the QP drains: an error, and never SQ_DRAINED
    p.sim.fabric.drop_if = Some(Box::new(|_, _| true));
    let i = p.post(0, 2, &write);
    p.run(500);
    to_sqd(&mut p, 0, 2, true);
    assert_eq!(take(&mut p, 0, 1), [(i, RETRY_EXC, false)]);
    no_event(&mut p, 0);
    quiet(&mut p);
    cover::finish("events", &mut p);
}
