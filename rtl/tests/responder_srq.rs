//! The responder with shared receive queues: named cases and cycles. Random traffic over SRQs is in `responder.rs`.
mod rsp;

use metaroce_rtl::diff::{Diff, Stim};
use metaroce_rtl::inputs;
use metaroce_rtl::responder::Responder;
use metaroce_rtl::types::{ctl, QpCtl};
use rsp::bench::*;
use rsp::model::*;

fn run(name: &str, cycles: usize, f: impl FnMut(&mut Stim)) {
    Diff::new(
        name,
        Responder::<3, 4, 2, 5>::default,
        inputs!(
            rst,
            rx_valid,
            rx_data,
            ctl_valid,
            ctl_data,
            notify_valid,
            notify_data,
            cfg_rdata,
            av_rdata,
            mrc_rdata,
            slot_rdata,
            pi_rdata,
            avail_rdata,
            lvl_rdata,
            pl_ready,
            ack_ready,
            rj_ready,
            rqfree_ready,
            err_ready,
            no_atomics,
            inv_done,
            inv_ok
        ),
    )
    .cycles(cycles)
    .stim(f)
    .run();
}

fn order(op: u64, qp: u64, psn: u64) -> QpCtl {
    QpCtl {
        op: op.into(),
        qp: qp.into(),
        psn: psn.into(),
        status: 0.into(),
    }
}

const SRQ: u64 = 6;

/// QPs 1 and 2 on SRQ 6, which has four entries of 8 KiB, numbered 0x1000 and so on.
fn bench() -> Bench {
    let mut b = Bench::new(1.0, 1.0);
    b.fetch_p = 1.0;
    b.mrs[2] = Mr {
        valid: true,
        lw: true,
        variant: 9,
        pd: 5,
        va: 0x10_0000,
        len: 0x1_0000,
        ..Default::default()
    };
    b.qps[SRQ as usize].cfg = Cfg {
        ty: 3,
        state: 1,
        ..Default::default()
    };
    let r = &mut b.srqs[SRQ as usize];
    for i in 0..4 {
        r.units[i][0] = (0x10_0000 + 8192 * i as u64, 8192, 0x209);
        r.numbers[i] = 0x1000 * (i as u64 + 1) + 7;
    }
    r.pi = 4;
    b.ctl.q.push_back(order(ctl::RESET, SRQ, 0));
    for i in 1..3 {
        b.qps[i].cfg = Cfg {
            state: 3,
            tag: 0x77,
            mtu: 3,
            pd: 5,
            rcq: 33,
            srq: Some(SRQ),
            ..Default::default()
        };
        b.qps[i].start(100);
        b.ctl.q.push_back(order(ctl::RESET, i as u64, 0));
        b.ctl.q.push_back(order(ctl::START, i as u64, 100));
    }
    b
}

fn pkt(qp: u64, op: u8, psn: u64, len: u64) -> Pkt {
    Pkt {
        op,
        qpn: 0x77 << LOG_QP | qp,
        psn,
        len,
        dlen: len,
        ackreq: true,
        ..Default::default()
    }
}

fn give(b: &mut Bench, want: &mut Effects, list: &[Pkt]) {
    for p in list {
        b.rx.q.push_back(rx(p));
        let q = (p.qpn & 7) as usize;
        b.qps[q].packet(p, LOG_QP, &b.mrs, &mut b.srqs, want);
    }
}

/// Two messages in flight hold an entry each; a duplicate or a packet that comes again takes no other one; FLUSH completes what is held, RESET answers
/// with it, and QUERY of the SRQ with its limit, which is reached once.
#[test]
fn held_entries() {
    let mut b = bench();
    let mut want = Effects::default();
    run("responder_srq_held", 700, |s| {
        match s.cycle {
            100 => {
                b.got = Effects::default();
                b.ctl_done.clear();
                b.ctl.q.push_back(order(ctl::LIMIT, SRQ, 2));
                b.srqs[SRQ as usize].set_limit(SRQ, 2, &mut want);
                b.ctl.q.push_back(order(ctl::QUERY, SRQ, 0));
            }
            150 => {
                assert_eq!(b.ctl_done[1], 2, "the limit");
                let p = [
                    pkt(1, 0, 100, 1024),
                    pkt(2, 0, 100, 1024),
                    pkt(1, 0, 100, 1024),
                    pkt(1, 2, 102, 4),
                    pkt(1, 1, 101, 1024),
                    pkt(2, 2, 101, 4),
                ];
                give(&mut b, &mut want, &p);
            }
            300 => {
                assert_eq!(b.got, want);
                assert_eq!(b.srqs[SRQ as usize].ci, 2);
                assert_eq!((b.qps[1].holds(), b.qps[2].holds()), (Some(0x1007), None));
                let p = [pkt(2, 0, 102, 1024)];
                give(&mut b, &mut want, &p);
            }
            330 => b.ctl.q.push_back(order(ctl::QUERY, SRQ, 0)),
            350 => {
                assert_eq!(b.got.lims, [SRQ]);
                assert_eq!(b.ctl_done[2], 0, "disarmed");
                b.qps[1].cfg.state = 6;
                b.qps[1].flush(LOG_QP, &mut want);
                b.ctl.q.push_back(order(ctl::FLUSH, 1, 0));
            }
            420 => {
                b.ctl.q.push_back(order(ctl::RESET, 1, 0));
                b.ctl.q.push_back(order(ctl::RESET, 2, 0));
                b.qps[1].reset(&mut want);
                b.qps[2].reset(&mut want);
            }
            500 => {
                assert_eq!(b.ctl_done[4..], [0, 0x1_3007], "what each held");
                assert_eq!(b.got, want);
            }
            _ => {}
        }
        b.step(s);
    });
    assert!(b.quiet());
}

/// Cycles per packet with all outputs ready.
#[test]
fn initiation_intervals() {
    let mut b = bench();
    let mut want = Effects::default();
    let p: Vec<Pkt> = (0..4).map(|i| pkt(1 + i % 2, 4, 100 + i / 2, 64)).collect();
    run("responder_srq_ii", 300, |s| {
        if s.cycle == 100 {
            b.got = Effects::default();
            give(&mut b, &mut want, &p);
        }
        b.step(s);
    });
    assert_eq!(b.got, want);
    let n = (b.taken[3] - b.taken[0]) as f64 / 3.0;
    println!("II SEND Only: {n} cycles");
    assert!(n <= 8.0);
}
