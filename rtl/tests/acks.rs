//! Acknowledgement coalescing: newest wish wins, NAKs at once, nothing while READ responses are to leave; and rust-hdl = Verilator.
mod rsp;

use metaroce_rtl::acks::Acks;
use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::inputs;
use metaroce_rtl::types::{AckCmd, AckReq};
use rsp::*;
use std::collections::HashMap;

fn wish(qp: u64, psn: u64, syn: u64, msn: u64) -> AckReq {
    AckReq {
        qp: qp.into(),
        psn: psn.into(),
        aeth: (syn << 24 | msn).into(),
    }
}

/// Random wishes of 8 QPs, random busy bits and back-pressure: every ACK that leaves is the newest wish at that time, and in the end every QP has got
/// its newest wish unless that was taken back.
#[test]
fn newest_wish_wins() {
    let cycles = 4000;
    let mut rng = Rng(7);
    println!("seed 7");
    let mut feed = Feed::new("ack", 0.3);
    let mut sink = Sink::new("tx", 0.2);
    let mut newest: HashMap<u64, (AckReq, bool)> = HashMap::new(); // wish, sent
    let mut busy = [false; 8];
    let mut psn = 0;
    let (mut sent, mut wishes) = (0, 0);
    Diff::new(
        "acks_random",
        Acks::<3>::default,
        inputs!(rst, ack_valid, ack_data, busy_rdata, tx_ready),
    )
    .cycles(cycles)
    .stim(|s| {
        s.set("rst", (s.cycle < 2) as u8);
        if s.cycle < cycles - 600 && feed.q.len() < 2 {
            psn += 1;
            let syn = *[0x1F, 0x1F, 0x1F, 0x60, 0x2C, 0xFF]
                .get(rng.below(12) as usize)
                .unwrap_or(&0x1F);
            feed.q.push_back(wish(rng.below(8), psn, syn, psn / 2));
        }
        let front = feed.q.front().copied();
        if feed.step(s) {
            let w = front.unwrap();
            wishes += 1;
            newest.insert(num(w.qp), (w, num(w.aeth) >> 24 == 0xFF));
        }
        for (i, b) in busy.iter_mut().enumerate() {
            if rng.p(0.01) {
                *b = !*b && s.cycle < cycles - 600 && i % 2 == 0;
            }
            *b &= s.cycle < cycles - 600;
        }
        if let Some(c) = sink.step::<AckCmd>(s) {
            sent += 1;
            let (w, done) = newest.get_mut(&num(c.qp)).expect("an ACK nobody asked for");
            assert_eq!(num(c.opcode), 0x11);
            // a newer wish may have come after this one went into the output register
            assert!(num(c.psn) <= num(w.psn));
            if c.psn == w.psn {
                assert_eq!(c.aeth, w.aeth);
                assert!(!*done, "sent twice");
                *done = true;
            }
        }
        s.set(
            "busy_rdata",
            busy[s.out_u64("busy_raddr") as usize % 8] as u8,
        );
    })
    .run();
    assert!(
        newest.values().all(|(_, done)| *done),
        "a wish was lost: {newest:?}"
    );
    println!("{wishes} wishes, {sent} ACKs");
    assert!(sent > 50 && sent < wishes);
}

/// Cycle of each AckCmd after the wishes given as (cycle, wish).
fn times(name: &str, wishes: Vec<(usize, AckReq)>, busy_until: usize) -> Vec<(usize, u64)> {
    let mut out = vec![];
    let mut feed = Feed::new("ack", 1.0);
    let mut sink = Sink::new("tx", 1.0);
    Diff::new(
        name,
        Acks::<5>::default,
        inputs!(rst, ack_valid, ack_data, busy_rdata, tx_ready),
    )
    .cycles(200)
    .stim(|s| {
        s.set("rst", (s.cycle < 2) as u8);
        s.set("busy_rdata", (s.cycle < busy_until) as u8);
        for (c, w) in &wishes {
            if *c == s.cycle {
                feed.q.push_back(*w);
            }
        }
        feed.step(s);
        if let Some(c) = sink.step::<AckCmd>(s) {
            out.push((s.cycle - 1, num(c.psn)));
        }
    })
    .run();
    out
}

#[test]
fn a_burst_gives_one_ack() {
    let t = times(
        "acks_burst",
        (0..6)
            .map(|i| (10 + i, wish(3, 100 + i as u64, 0x1F, 1)))
            .collect(),
        0,
    );
    println!("{t:?}");
    assert_eq!(t.len(), 1, "{t:?}");
    assert_eq!(t[0].1, 105);
    assert!((26..=34).contains(&t[0].0));
}

#[test]
fn naks_go_at_once() {
    let t = times(
        "acks_nak",
        vec![(10, wish(3, 7, 0x60, 1)), (11, wish(4, 9, 0x2C, 1))],
        0,
    );
    println!("{t:?}");
    assert_eq!(t.iter().map(|x| x.1).collect::<Vec<_>>(), [7, 9]);
    assert!(t[1].0 <= 22);
}

#[test]
fn held_back_while_reads_leave() {
    let t = times(
        "acks_busy",
        vec![(10, wish(3, 7, 0x1F, 1)), (60, wish(3, 8, 0x1F, 1))],
        100,
    );
    assert_eq!(t.len(), 1);
    assert!(t[0].0 >= 100 && t[0].1 == 8, "{t:?}");
}

#[test]
fn taken_back_at_reset() {
    let t = times(
        "acks_cancel",
        vec![
            (10, wish(3, 7, 0x1F, 1)),
            (12, wish(3, 0, 0xFF, 0)),
            (80, wish(3, 5, 0x1F, 1)),
        ],
        0,
    );
    assert_eq!(t.iter().map(|x| x.1).collect::<Vec<_>>(), [5]);
}

/// A READ that was accepted after the wish takes it back while older READ responses are still leaving; a NAK too.
#[test]
fn taken_back_while_busy() {
    for (name, syn) in [("acks_read", 0x1F), ("acks_read_nak", 0x60)] {
        let t = times(
            name,
            vec![
                (10, wish(3, 7, syn, 1)),
                (11, wish(4, 9, 0x1F, 1)),
                (60, wish(3, 8, 0xFF, 2)),
                (130, wish(3, 11, 0x1F, 3)),
            ],
            100,
        );
        assert_eq!(t.iter().map(|x| x.1).collect::<Vec<_>>(), [9, 11], "{name}");
    }
}

/// 32 QPs with a wish each: cycles per ACK.
#[test]
fn initiation_interval() {
    let t = times(
        "acks_ii",
        (0..32).map(|i| (10, wish(i, i, 0x1F, 1))).collect(),
        0,
    );
    let ii = (t[31].0 - t[0].0) as f64 / 31.0;
    println!("II {ii} cycles per ACK");
    assert_eq!(t.len(), 32);
    assert!(ii <= 4.0, "{ii}");
}
