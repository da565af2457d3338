//! Long runs in card time: `soak [MESSAGES] [SEED] [LEG]`, from that leg of the run on; one fault at every frame of everything:
//! `soak --faults [SEED]`; more messages on a connection than an MSN can count: `soak --msn [MESSAGES] [PSN]`.
//! `cargo xtask soak` runs it.

use metaroce_tb::{
    faults, msn,
    rng::Rng,
    soak::{Leg, Soak, ROUND},
    watch::NO_ROOM,
};
use std::time::{Duration, Instant};

/// Rounds with one pair of cards.
const ROUNDS: u64 = 40;

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let what = args.first().filter(|a| a.starts_with("--")).cloned();
    if what.is_some() {
        args.remove(0);
    }
    let mut args = args.iter().map(|a| {
        a.parse::<u64>()
            .expect("soak [MESSAGES] [SEED] [LEG] | --faults [SEED] | --msn [MESSAGES] [PSN]")
    });
    match what.as_deref() {
        None => {
            let messages = args.next().unwrap_or(20_000);
            let seed = args.next().unwrap_or(1);
            random(messages, seed, args.next().unwrap_or(0));
        }
        Some("--faults") => every_frame(args.next().unwrap_or(1)),
        Some("--msn") => {
            let messages = args.next().unwrap_or((1 << 24) + 10_000);
            many_messages(messages, args.next().unwrap_or(0xFF_0000));
        }
        Some(w) => panic!("soak: {w}? --faults or --msn"),
    }
}

fn many_messages(messages: u64, psn: u64) {
    println!("soak: {messages} messages on one connection from PSN {psn:#x}");
    let began = Instant::now();
    let mut told = began;
    let acks = msn::count(messages, psn as u32 & 0xFF_FFFF, |n| {
        if told.elapsed() > Duration::from_secs(5) {
            told = Instant::now();
            let t = began.elapsed().as_secs_f64();
            let left = (messages - n) as f64 * t / n as f64;
            println!(
                "soak: {:3} % {n}/{messages} messages, {t:.0} s, {left:.0} s left",
                100 * n / messages
            );
        }
    });
    let acks = acks.unwrap_or_else(|m| panic!("{m}"));
    let t = began.elapsed().as_secs_f64();
    println!("soak: {messages} messages, each of {acks} ACKs has their number; {t:.0} s");
}

fn every_frame(seed: u64) {
    println!(
        "soak: one fault at every frame, seed {seed}; replay: cargo xtask soak -- --faults {seed}"
    );
    let began = Instant::now();
    let mut b = faults::Bench::new(seed);
    let mut n = 0;
    for (k, kind) in faults::KINDS.into_iter().enumerate() {
        n += faults::sweep(&mut b, kind, faults::Extent::Full, |line| {
            println!(
                "[{k:>2}/{}] {line}, {:.0} s",
                faults::KINDS.len(),
                began.elapsed().as_secs_f64()
            );
        });
    }
    let s = began.elapsed().as_secs_f64();
    println!("soak: {n} cases, all right, {s:.0} s");
}

fn random(messages: u64, seed: u64, first: u64) {
    println!("soak: {messages} messages, seed {seed}; replay: cargo xtask soak {messages} {seed} {first}");
    let mut rng = Rng::new(seed);
    // The legs before are drawn only: each has a seed of its own.
    for _ in 0..first {
        Leg::random(&mut rng);
    }
    let mut number = first;
    let began = Instant::now();
    let mut told = began;
    let (mut done, mut frames, mut hurt, mut again) = (0, 0, [0; 4], 0);
    let (mut cycles, mut ended, mut cut) = (0, 0, 0);
    while done < messages {
        // A new pair of cards now and then: other MTU, other faults, other PSN.
        let leg = Leg::random(&mut rng);
        let mut s = Soak::new(leg);
        for _ in 0..ROUNDS {
            match s.try_round() {
                Ok(n) => frames += n,
                // the models can't follow the card from here on
                Err(m) if m.contains(NO_ROOM) => {
                    cut += 1;
                    break;
                }
                Err(m) => panic!(
                    "{m}\nthis leg alone: cargo xtask soak {} {seed} {number}",
                    ROUND * ROUNDS
                ),
            }
            done += ROUND;
            if told.elapsed() > Duration::from_secs(2) {
                told = Instant::now();
                let t = began.elapsed().as_secs_f64();
                let left = messages.saturating_sub(done) as f64 * t / done as f64;
                println!(
                    "soak: {:3} % {done}/{messages} messages, {frames} frames, {:.0} frames/s, {t:.0} s, {left:.0} s left; MTU {}, {:?}",
                    100 * done.min(messages) / messages,
                    frames as f64 / t,
                    128 << leg.mtu,
                    leg.faults
                );
            }
            if done >= messages {
                break;
            }
        }
        number += 1;
        let (h, a) = s.faults();
        again += a;
        cycles += s.cycles();
        ended += s.invalidated();
        (0..4).for_each(|k| hurt[k] += h[k]);
    }
    let t = began.elapsed().as_secs_f64();
    println!(
        "soak: {done} messages, {frames} frames, 0 mismatches; {} lost, {} doubled, {} reordered, {} damaged, {again} packets sent again; {ended} windows invalidated; {cut} legs ended early, at a READ that found no room; {:.1} cycles a frame, {t:.0} s",
        hurt[0], hurt[1], hurt[2], hurt[3], cycles as f64 / frames as f64
    );
}
