//! The gate behind the responder: nothing is said before it is done, in order, nothing lost; and rust-hdl = Verilator.
mod rsp;

use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::inputs;
use metaroce_rtl::order::Order;
use metaroce_rtl::types::{AckReq, PlJob, ReadJob};
use rsp::*;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Say {
    Nothing,
    Ack,
    Read,
}

/// Packets of a responder that puts 1..4 placement jobs for each and then says something, with everything behind it slow at times. Packet `k`
/// carries `k` as PSN, and its QP is `k mod 8`.
#[test]
fn nothing_is_said_too_early() {
    let cycles = 6000;
    let mut rng = Rng(11);
    println!("seed 11");
    let mut ack = Feed::new("ack", 1.0);
    let mut rj = Feed::new("rj", 1.0);
    let mut acks = Sink::new("acks", 0.6);
    let mut rd = Sink::new("rd", 0.3);
    // the responder: jobs of the packet that are still to be put, the one in its register
    let (mut k, mut jobs, mut reg): (u64, u64, Option<bool>) = (0, 0, None);
    let mut say = Say::Nothing;
    // packets whose last job was taken, and done
    let (mut taken, mut done) = (0u64, 0u64);
    let mut want: VecDeque<(u64, Say)> = VecDeque::new();
    let (mut n_acks, mut n_reads, mut waited) = (0, 0, 0);
    let mut came = [0i64; 8];
    let mut pl_ready = false;
    Diff::new(
        "order_random",
        Order::<3>::default,
        inputs!(
            rst, pl_valid, pl_data, pl_ready, done, ack_valid, ack_data, rj_valid, rj_data,
            acks_ready, rd_ready, lvl_raddr, ring_lvl
        ),
    )
    .cycles(cycles)
    .stim(|s| {
        s.set("rst", (s.cycle < 2) as u8);
        s.set("ring_lvl", 0u8);
        let slow = s.cycle / 400 % 2 == 1;
        // what the last cycle did
        let ack_front = ack.q.front().copied();
        if ack.step(s) {
            let a: AckReq = ack_front.unwrap();
            want.push_back((num(a.psn), Say::Ack));
        }
        let rj_front = rj.q.front().copied();
        if rj.step(s) {
            let r: ReadJob = rj_front.unwrap();
            came[num(r.qp) as usize] += 1;
            want.push_back((num(r.psn), Say::Read));
        }
        if let Some(a) = acks.step::<AckReq>(s) {
            assert_eq!(want.pop_front(), Some((num(a.psn), Say::Ack)), "order");
            assert!(
                done > num(a.psn),
                "ACK of {} when {done} are done",
                num(a.psn)
            );
            assert_eq!(num(a.qp), num(a.psn) % 8);
            assert_eq!(num(a.aeth), num(a.psn) * 7);
            n_acks += 1;
        }
        if let Some(r) = rd.step::<ReadJob>(s) {
            assert_eq!(want.pop_front(), Some((num(r.psn), Say::Read)), "order");
            assert!(
                done >= num(r.psn),
                "READ {} when {done} are done",
                num(r.psn)
            );
            assert_eq!(num(r.len), num(r.psn) * 3);
            came[num(r.qp) as usize] -= 1;
            n_reads += 1;
        }
        if reg.is_some() && pl_ready {
            taken += reg.unwrap() as u64;
            reg = None;
        }
        let finish = taken > done && rng.p(if slow { 0.02 } else { 0.5 });
        s.set("done", finish as u8);
        // counted by the block at the end of this cycle
        done += finish as u64;
        waited += (done < taken) as u32;
        // the responder: says what it has to when the packet's jobs are in its register, then takes the next packet
        let busy = !ack.q.is_empty() || !rj.q.is_empty();
        let mut put = None;
        if jobs == 0 && say != Say::Nothing && !busy {
            let (qp, psn) = ((k - 1) % 8, k - 1);
            if say == Say::Ack {
                ack.q.push_back(AckReq {
                    qp: qp.into(),
                    psn: psn.into(),
                    aeth: (psn * 7).into(),
                });
            } else {
                rj.q.push_back(ReadJob {
                    qp: qp.into(),
                    psn: psn.into(),
                    len: (psn * 3).into(),
                    ..ReadJob::default()
                });
            }
            say = Say::Nothing;
        } else if jobs == 0
            && say == Say::Nothing
            && s.cycle < cycles - 2500
            && s.cycle > 2
            && taken - done < 60
        {
            jobs = 1 + rng.below(4);
            k += 1;
            say = [Say::Nothing, Say::Ack, Say::Ack, Say::Read][rng.below(4) as usize];
        } else if jobs > 0 && reg.is_none() {
            jobs -= 1;
            put = Some(jobs == 0);
        }
        if let Some(free) = put {
            reg = Some(free);
        }
        pl_ready = rng.p(0.5);
        s.set("pl_valid", reg.is_some() as u8);
        s.set(
            "pl_data",
            raw(PlJob {
                free: reg.unwrap_or(false),
                ..PlJob::default()
            }),
        );
        s.set("pl_ready", pl_ready as u8);
        let q = s.cycle as u64 / 16 % 8;
        s.set("lvl_raddr", q);
        if s.cycle % 16 == 15 && ack.q.is_empty() && rj.q.is_empty() {
            let lvl = s.out_u64("lvl_rdata") as i64;
            assert!((lvl - came[q as usize]).abs() <= 1, "level {lvl}, {came:?}");
        }
    })
    .run();
    println!(
        "{k} packets, {n_acks} ACKs, {n_reads} READs, {waited} cycles with something not done"
    );
    assert!(want.is_empty() && done == k);
    assert!(n_acks > 100 && n_reads > 50 && waited > 500);
}
