//! A QP that misbehaves costs a clean one less than a quarter of its rate. The figures are in docs/results/scale.md.

use metaroce_hdl_spec::wqe::op;
use metaroce_tb::{
    bench::Flow,
    scale::{isolation, isolation_after, Attack, ATTACKS},
};

/// Small messages: the wire has room, so the neighbour may cost no more than that of the rate alone.
#[test]
fn small_messages() {
    let f = Flow {
        op: op::WRITE,
        bytes: 64,
        qps: 1,
        depth: 128,
        mtu: 5,
        both_ways: false,
        messages: 1200,
    };
    let alone = isolation(&f, None).0.messages_per_s;
    for kind in ATTACKS {
        let (t, rounds) = isolation(&f, Some(kind));
        let part = t.messages_per_s / alone;
        println!(
            "beside {}: {:.1} %, {rounds} rounds",
            kind.name(),
            100.0 * part
        );
        assert!(part > 0.75, "{kind:?}: {part}");
    }
}

/// Large messages fill the wire. A neighbour costs at most a quarter of the rate alone; but one whose every packet goes out again and again
/// has the right to half of the wire, as a clean one has: at most a quarter of what that one leaves.
#[test]
fn large_messages() {
    let f = Flow {
        op: op::WRITE,
        bytes: 4096,
        qps: 1,
        depth: 64,
        mtu: 5,
        both_ways: false,
        messages: 200,
    };
    let alone = isolation(&f, None).0.messages_per_s;
    let fair = isolation(&f, Some(Attack::Clean)).0.messages_per_s;
    for kind in &ATTACKS[1..] {
        // of two QPNs, since a retry storm depends on the place of its QP
        let (t, rounds) = isolation(&f, Some(*kind));
        let (u, _) = isolation_after(&f, Some(*kind), 1);
        let of = if *kind == Attack::RetryStorm {
            fair
        } else {
            alone
        };
        let part = (t.messages_per_s + u.messages_per_s) / 2.0 / of;
        println!(
            "beside {}: {:.1} %, {rounds} rounds",
            kind.name(),
            100.0 * part
        );
        assert!(part > 0.75, "{kind:?}: {part}");
    }
}
