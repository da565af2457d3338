//! Responder, READ responder and ACKs wired together: no ACK passes a READ response that has to go before it, none comes behind one that says more,
//! and none is lost.
//! Also: the three blocks elaborate and pass Verilator's lint in every named configuration.
mod rsp;

use metaroce_rtl::acks::Acks;
use metaroce_rtl::atomic::AtomicDone;
use metaroce_rtl::diff::{self, Diff, Rng};
use metaroce_rtl::emit::write_verilog;
use metaroce_rtl::layouts::*;
use metaroce_rtl::readresp::ReadResp;
use metaroce_rtl::responder::Responder;
use metaroce_rtl::types::*;
use metaroce_rtl::{block_default, inputs};
use rsp::bench::{cfg_bits, mr_bits, rx};
use rsp::model::{Cfg, Mr, Pkt};
use rsp::*;
use rust_hdl::prelude::*;
use std::collections::VecDeque;

/// The three blocks; table ports answer with one QP configuration and one MR for all.
#[derive(LogicBlock)]
pub struct Three<const Q: usize, const M: usize, const R: usize, const J: usize, const K: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub rx_valid: Signal<In, bool>,
    pub rx_data: Signal<In, RxPkt>,
    pub rx_ready: Signal<Out, bool>,
    pub ctl_valid: Signal<In, bool>,
    pub ctl_data: Signal<In, QpCtl>,
    pub ctl_ready: Signal<Out, bool>,
    pub done_valid: Signal<In, bool>,
    pub done_data: Signal<In, TxDone>,
    pub done_ready: Signal<Out, bool>,
    pub cfg: Signal<In, QpCfg>,
    pub mr: Signal<In, MrCheck>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, TxCmd>,
    pub tx_ready: Signal<In, bool>,
    pub ak_valid: Signal<Out, bool>,
    pub ak_data: Signal<Out, AckCmd>,
    pub ak_ready: Signal<In, bool>,
    pub idle: Signal<Out, bool>,
    pub err: Signal<Out, bool>,
    rsp: Responder<Q, M, R, K>,
    rd: ReadResp<Q, M, J>,
    ak: Acks<Q>,
    k_av: Constant<Av>,
    k_ctl: Constant<QpCtl>,
    k_ad: Constant<AtomicDone>,
    k_idx: Constant<QpIdx>,
    av: Signal<Local, Av>,
}

block_default! { Three<Q, M, R, J, K> {
    clock, rst, rx_valid, rx_data, rx_ready, ctl_valid, ctl_data, ctl_ready, done_valid, done_data, done_ready, cfg, mr, tx_valid, tx_data, tx_ready,
    ak_valid, ak_data, ak_ready, idle, err, rsp, rd, ak, av;
    assert J == Q + 4 && K == Q + 2;
    k_av: Constant::new(Av::default()),
    k_ctl: Constant::new(QpCtl::default()),
    k_ad: Constant::new(AtomicDone::default()),
    k_idx: Constant::new(QpIdx::default()),
} }

impl<const Q: usize, const M: usize, const R: usize, const J: usize, const K: usize> Logic
    for Three<Q, M, R, J, K>
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, rsp, rd, ak);
        self.rsp.rst.next = self.rst.val();
        self.rd.rst.next = self.rst.val();
        self.ak.rst.next = self.rst.val();
        self.rsp.rx_valid.next = self.rx_valid.val();
        self.rsp.rx_data.next = self.rx_data.val();
        self.rx_ready.next = self.rsp.rx_ready.val();
        self.rsp.ctl_valid.next = self.ctl_valid.val();
        self.rsp.ctl_data.next = self.ctl_data.val();
        self.ctl_ready.next = self.rsp.ctl_ready.val();
        self.rsp.notify_valid.next = false;
        self.rsp.notify_data.next = self.k_idx.val();
        self.rsp.cfg_rdata.next = self.cfg.val();
        self.av.next = self.k_av.val();
        self.rsp.av_rdata.next = self.av.val();
        self.rsp.mrc_rdata.next = self.mr.val();
        self.rsp.slot_rdata.next = 0.into();
        self.rsp.pi_rdata.next = 0.into();
        self.rsp.avail_rdata.next = 0.into();
        self.rsp.pl_ready.next = true;
        self.rsp.rqfree_ready.next = true;
        self.rsp.err_ready.next = true;
        self.rsp.no_atomics.next = false;
        self.rsp.inv_done.next = false;
        self.rsp.inv_ok.next = false;
        self.rsp.lvl_rdata.next = self.rd.lvl_rdata.val();
        self.rd.lvl_raddr.next = self.rsp.lvl_raddr.val();
        self.rd.rj_valid.next = self.rsp.rj_valid.val();
        self.rd.rj_data.next = self.rsp.rj_data.val();
        self.rsp.rj_ready.next = self.rd.rj_ready.val();
        self.rd.done_valid.next = self.done_valid.val();
        self.rd.done_data.next = self.done_data.val();
        self.done_ready.next = self.rd.done_ready.val();
        self.rd.ctl_valid.next = false;
        self.rd.ctl_data.next = self.k_ctl.val();
        self.rd.cfg_rdata.next = self.cfg.val();
        self.rd.mrc_rdata.next = self.mr.val();
        self.rd.busy_raddr.next = self.ak.busy_raddr.val();
        self.ak.busy_rdata.next = self.rd.busy_rdata.val();
        self.rd.err_ready.next = true;
        self.rd.no_atomics.next = false;
        self.rd.at_ready.next = false;
        self.rd.ad_valid.next = false;
        self.rd.ad_data.next = self.k_ad.val();
        self.tx_valid.next = self.rd.tx_valid.val();
        self.tx_data.next = self.rd.tx_data.val();
        self.rd.tx_ready.next = self.tx_ready.val();
        self.ak.ack_valid.next = self.rsp.ack_valid.val();
        self.ak.ack_data.next = self.rsp.ack_data.val();
        self.rsp.ack_ready.next = self.ak.ack_ready.val();
        self.ak_valid.next = self.ak.tx_valid.val();
        self.ak_data.next = self.ak.tx_data.val();
        self.ak.tx_ready.next = self.ak_ready.val();
        self.idle.next = (self.rsp.idle.val() & self.rd.idle.val()) & self.ak.idle.val();
        self.err.next = self.rsp.err_valid.val() | self.rd.err_valid.val();
    }
}

fn ahead(a: u64, b: u64) -> bool {
    let d = a.wrapping_sub(b) & 0xFF_FFFF;
    d != 0 && d < 1 << 23
}

/// Random READs, WRITEs, repeats and gaps on 4 QPs; the egress reports a READ as sent 5..60 cycles after its last packet.
fn order(name: &str, seed: u64, ready: f64) {
    println!("seed {seed}");
    let mut rng = Rng(seed);
    let cfg = Cfg {
        state: 3,
        tag: 0,
        mtu: 1,
        pd: 5,
        acc_write: true,
        acc_read: true,
        max_dest_rd: 16,
        ..Default::default()
    };
    let mr = Mr {
        valid: true,
        rw: true,
        rr: true,
        variant: 9,
        pd: 5,
        va: 0x1000,
        len: 0x1_0000,
        ..Default::default()
    };
    let mut feed = Feed::new("rx", 0.8);
    let mut ctlq = Feed::new("ctl", 1.0);
    let mut done = Feed::<TxDone>::new("done", 1.0);
    let mut tx = Sink::new("tx", ready);
    let mut ak = Sink::new("ak", ready);
    for q in 0..4u64 {
        ctlq.q.push_back(QpCtl {
            op: ctl::START.into(),
            qp: q.into(),
            psn: (0xFF_FFE0 + q).into(),
            status: 0.into(),
        });
    }
    let mut next = [0, 1, 2, 3].map(|q| 0xFF_FFE0 + q);
    let mut hist: Vec<Vec<Pkt>> = vec![vec![]; 4];
    // per QP: READs accepted from the wire by first PSN and not yet reported as sent; last PSN acknowledged; last PSN given
    let mut open: Vec<VecDeque<u64>> = vec![VecDeque::new(); 4];
    let mut acked = next;
    let mut wire: VecDeque<(usize, TxDone, Option<u64>)> = VecDeque::new();
    let (mut acks, mut naks, mut reads) = (0, 0, 0);
    let mut waits = false;
    let cycles = 6000;
    Diff::new(
        name,
        Three::<2, 4, 2, 6, 4>::default,
        inputs!(
            rst, rx_valid, rx_data, ctl_valid, ctl_data, done_valid, done_data, cfg, mr, tx_ready,
            ak_ready
        ),
    )
    .cycles(cycles)
    .stim(|s| {
        s.set("rst", (s.cycle < 2) as u8);
        s.set("cfg", raw(cfg_bits(&cfg)));
        s.set("mr", raw(mr_bits(&mr)));
        assert_eq!(s.out_u64("err"), 0);
        ctlq.step(s);
        if s.cycle > 50 && s.cycle < cycles - 800 && s.rng.p(0.04) && feed.q.len() < 4 {
            let q = rng.below(4) as usize;
            let read = open[q].len() < 8 && rng.p(0.4);
            let len = rng.below(if read { 700 } else { 257 });
            let p = Pkt {
                op: if read { 12 } else { 10 },
                qpn: q as u64,
                psn: next[q],
                va: 0x1000 + rng.below(5000),
                rkey: 0x109,
                dlen: len,
                len: if read { 0 } else { len },
                ackreq: true,
                ..Default::default()
            };
            let n = if read { len.div_ceil(256).max(1) } else { 1 };
            match rng.below(12) {
                0 if !hist[q].is_empty() => feed
                    .q
                    .push_back(rx(&hist[q][rng.below(hist[q].len() as u64) as usize])),
                1 => feed.q.push_back(rx(&Pkt {
                    psn: (next[q] + 3) & 0xFF_FFFF,
                    ..p
                })),
                _ => {
                    feed.q.push_back(rx(&p));
                    next[q] = (next[q] + n) & 0xFF_FFFF;
                    if hist[q].len() < 20 {
                        hist[q].push(p);
                    } else {
                        hist[q][rng.below(20) as usize] = p;
                    }
                }
            }
        }
        let head = feed.q.front().copied();
        if feed.step(s) {
            let p = head.unwrap();
            if num(p.opcode) == 12 {
                open[num(p.qpn) as usize].push_back(num(p.psn));
            }
        }
        if let Some(c) = tx.step::<TxCmd>(s) {
            let last = [0x0F, 0x10].contains(&num(c.opcode));
            reads += last as usize;
            let q = num(c.qp) as usize;
            if last && ahead(num(c.psn), acked[q]) {
                acked[q] = num(c.psn);
            }
            wire.push_back((
                s.cycle + 5 + rng.below(55) as usize,
                TxDone {
                    qp: c.qp,
                    resp: true,
                    resp_end: true,
                    fault: false,
                },
                last.then_some(num(c.psn)),
            ));
        }
        while wire.front().is_some_and(|w| w.0 <= s.cycle) {
            let (_, d, psn) = wire.pop_front().unwrap();
            // READs of a QP leave in order; those that were dropped (gap, no room) never do
            let q = &mut open[num(d.qp) as usize];
            if let Some(k) = q
                .iter()
                .position(|p| psn.is_some_and(|psn| (psn.wrapping_sub(*p) & 0xFF_FFFF) < 3))
            {
                q.drain(..=k);
            }
            done.q.push_back(d);
        }
        done.step(s);
        // an ACK that comes up says more than the READ responses that have left
        let now: AckCmd = un(&s.out("ak_data"));
        let (q, p) = (num(now.qp) as usize, num(now.psn));
        let up = s.out_u64("ak_valid") == 1;
        assert!(
            !up || waits || !ahead(acked[q], p),
            "cycle {}: ACK {p:x} of QP {q} after {:x}",
            s.cycle,
            acked[q]
        );
        let sent = ak.step::<AckCmd>(s);
        waits = up && sent.is_none();
        if let Some(a) = sent {
            let q = num(a.qp) as usize;
            let nak = num(a.aeth) >> 29 & 1 == 1;
            acks += !nak as usize;
            naks += nak as usize;
            // a NAK of ePSN acknowledges what is before it
            let p = num(a.psn).wrapping_sub(nak as u64) & 0xFF_FFFF;
            acked[q] = if ahead(p, acked[q]) { p } else { acked[q] };
            // no READ response job at or before this PSN is still to leave, except repeats of earlier ones
            let late: Vec<_> = (wire.iter())
                .filter(|w| num(w.1.qp) as usize == q && w.2.is_some())
                .collect();
            assert!(
                late.is_empty(),
                "cycle {}: ACK {:x} of QP {q} before READ responses {late:x?}",
                s.cycle,
                num(a.psn)
            );
        }
    })
    .run();
    println!("{acks} ACKs, {naks} NAKs, {reads} READs");
    assert!(acks > 30 && naks > 2 && reads > 20);
    for q in 0..4 {
        assert_eq!(
            acked[q],
            (next[q] - 1) & 0xFF_FFFF,
            "QP {q}: all is acknowledged in the end"
        );
    }
}

#[test]
fn acks_stay_behind_reads() {
    order("rsp_order_a", 11, 1.0);
}

#[test]
fn acks_stay_behind_reads_back_pressure() {
    order("rsp_order_b", 12, 0.3);
}

/// READ 1 keeps the QP busy; WRITE 2 wishes an ACK; READ 3 takes the wish back: its response is all that leaves. Then both come again (the response
/// was lost): READ 3 is answered again, and the ACK of the repeated WRITE is not taken back.
#[test]
fn a_new_read_takes_the_wish_back() {
    let cfg = Cfg {
        state: 3,
        mtu: 1,
        pd: 5,
        acc_write: true,
        acc_read: true,
        max_dest_rd: 16,
        ..Default::default()
    };
    let mr = Mr {
        valid: true,
        rw: true,
        rr: true,
        variant: 9,
        pd: 5,
        va: 0x1000,
        len: 0x1_0000,
        ..Default::default()
    };
    let pkt = |op, psn| {
        rx(&Pkt {
            op,
            psn,
            va: 0x1000,
            rkey: 0x109,
            dlen: 64,
            len: if op == 12 { 0 } else { 64 },
            ackreq: true,
            ..Default::default()
        })
    };
    let mut feed = Feed::new("rx", 1.0);
    let mut ctlq = Feed::new("ctl", 1.0);
    let mut done = Feed::<TxDone>::new("done", 1.0);
    let mut tx = Sink::new("tx", 1.0);
    let mut ak = Sink::new("ak", 1.0);
    ctlq.q.push_back(QpCtl {
        op: ctl::START.into(),
        qp: 0.into(),
        psn: 1.into(),
        status: 0.into(),
    });
    let left = TxDone {
        qp: 0.into(),
        resp: true,
        resp_end: true,
        fault: false,
    };
    let mut out = vec![];
    Diff::new(
        "rsp_order_c",
        Three::<2, 4, 2, 6, 4>::default,
        inputs!(
            rst, rx_valid, rx_data, ctl_valid, ctl_data, done_valid, done_data, cfg, mr, tx_ready,
            ak_ready
        ),
    )
    .cycles(500)
    .stim(|s| {
        s.set("rst", (s.cycle < 2) as u8);
        s.set("cfg", raw(cfg_bits(&cfg)));
        s.set("mr", raw(mr_bits(&mr)));
        match s.cycle {
            20 => feed.q.extend([pkt(12, 1), pkt(10, 2)]),
            100 => feed.q.push_back(pkt(12, 3)),
            200 => done.q.extend([left, left]),
            300 => feed.q.extend([pkt(10, 2), pkt(12, 3)]),
            400 => done.q.push_back(left),
            _ => {}
        }
        ctlq.step(s);
        feed.step(s);
        done.step(s);
        if let Some(c) = tx.step::<TxCmd>(s) {
            out.push((s.cycle / 100, "READ", num(c.psn), num(c.aeth) & 0xFF_FFFF));
        }
        if let Some(a) = ak.step::<AckCmd>(s) {
            out.push((s.cycle / 100, "ACK", num(a.psn), num(a.aeth) & 0xFF_FFFF));
        }
    })
    .run();
    assert_eq!(
        out,
        [
            (0, "READ", 1, 1),
            (1, "READ", 3, 3),
            (3, "READ", 3, 3),
            (4, "ACK", 3, 3)
        ]
    );
}

fn lint<U: Block>(name: &str, mut u: U) {
    let dir = std::env::temp_dir().join(format!("rsp-lint-{}", std::process::id()));
    let file = write_verilog(&dir, name, &mut u).unwrap();
    let o = std::process::Command::new(diff::verilator())
        .arg("--lint-only")
        .args(diff::LINT)
        .args(["--top-module", name])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&o.stderr).to_string();
    assert!(o.status.success(), "{name}: {text}");
    let _ = std::fs::remove_dir_all(dir);
}

#[test]
fn named_configurations_pass_lint() {
    lint("responder_100g", Responder::<8, 12, 4, 10>::default());
    lint("responder_1g", Responder::<5, 6, 2, 7>::default());
    lint("readresp_100g", ReadResp::<8, 12, 12>::default());
    lint("readresp_1g", ReadResp::<5, 6, 9>::default());
    lint("acks_100g", Acks::<8>::default());
    lint("acks_1g", Acks::<5>::default());
}
