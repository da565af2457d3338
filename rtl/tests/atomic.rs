//! The atomic unit: results of a sequence, host memory as after it, faults, the sequencer's requests whole; and rust-hdl = Verilator.
mod rsp;

use metaroce_rtl::atomic::{AtomicDone, AtomicJob, AtomicUnit};
use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::inputs;
use metaroce_rtl::layouts::MrMap;
use metaroce_rtl::prims::packed::bits_from_bytes;
use metaroce_rtl::types::*;
use num_bigint::BigUint;
use rsp::*;
use std::collections::{HashMap, VecDeque};

const BASE: u64 = 0xB0;
/// This MR's page list can't be read, this page's memory neither.
const BAD_MR: u64 = 3;
const BAD_PAGE: u64 = 2;

fn page(mr: u64, k: u64) -> u64 {
    (0x9_0000 + mr * 64 + (k ^ 1)) << 12
}

fn run<const W: usize>(name: &str, cycles: usize, seed: u64) {
    println!("seed {seed}");
    let mut rng = Rng(seed);
    let mut jobs = Feed::new("job", 0.5);
    let mut done = Sink::new("done", 0.5);
    let mut mem: HashMap<u64, u64> = HashMap::new();
    let mut want: VecDeque<(u64, bool)> = VecDeque::new();
    let mut model: HashMap<u64, u64> = HashMap::new();
    let mut given = 0;
    let (mut n_done, mut n_err, mut n_cmd, mut n_wr) = (0, 0, 0, 0);
    // reads asked for, with the cycle of their answer
    let mut reads: Vec<(usize, HostRd)> = vec![];
    // the sequencer: words of a request still to go, requests
    let (mut cw, mut cmds): (u64, u64) = (0, 0);
    let words = 512 / W as u64;
    let (mut wr_ready, mut rd_ready) = (false, false);
    let mut in_cmd = false;
    Diff::new(
        name,
        || AtomicUnit::<W>::new(BASE as u8),
        inputs!(
            rst, job_valid, job_data, done_ready, mrm_rdata, flush, fill_valid, fill_data,
            c_rd_valid, c_rd_data, rd_ready, c_wr_valid, c_wr_data, c_wr_meta, wr_ready
        ),
    )
    .cycles(cycles)
    .stim(|s| {
        let t = s.cycle;
        s.set("rst", (t < 2) as u8);
        s.set("flush", (t % 700 == 699) as u8);
        // what left in the cycle before
        if s.out_u64("rd_valid") == 1 && rd_ready {
            let r: HostRd = un(&s.out("rd_data"));
            if num(r.tag) >= BASE && num(r.tag) <= BASE + 8 {
                assert_eq!((num(r.addr) % 64, num(r.len)), (0, 64));
                reads.push((t + 5 + rng.below(30) as usize, r));
            } else {
                assert_eq!(num(r.addr), 0x77);
            }
        }
        if s.out_u64("wr_valid") == 1 && wr_ready {
            let m: HostWrMeta = un(&s.out("wr_meta"));
            let d = s.out("wr_data");
            if num(m.pasid) == 0xFFF {
                assert_eq!(m.sop, !in_cmd);
                in_cmd = !m.eop;
                n_cmd += m.eop as u64;
            } else {
                assert!(!in_cmd, "in the middle of a request of the sequencer");
                assert!(m.sop && m.eop && num(m.len) == 8 && num(m.addr) % 8 == 0);
                let lane = num(m.addr) * 8 % W as u64;
                let v: BigUint = d >> lane;
                mem.insert(num(m.addr), v.iter_u64_digits().next().unwrap_or(0));
                n_wr += 1;
            }
        }
        if s.out_u64("c_wr_ready") == 1 && cw > 0 {
            cw -= 1;
        }
        if let Some(d) = done.step::<AtomicDone>(s) {
            let (orig, err) = want.pop_front().expect("a result of nothing");
            assert_eq!(d.err, err);
            assert!(err || num(d.orig) == orig, "{:x} for {orig:x}", num(d.orig));
            n_done += 1;
            n_err += err as u32;
        }
        // jobs, and what they must give
        let head = jobs.q.front().copied();
        if jobs.step(s) {
            let j: AtomicJob = head.unwrap();
            let (mr, va) = (num(j.mr), num(j.va));
            let a = page(mr, va >> 12) + va % 4096;
            let bad = mr == BAD_MR || va >> 12 == BAD_PAGE;
            let m = model.entry(a).or_default();
            want.push_back((*m, bad));
            if !bad {
                if j.add {
                    *m = m.wrapping_add(num(j.swap));
                } else if *m == num(j.cmp) {
                    *m = num(j.swap);
                }
            }
        }
        if t > 3 && jobs.q.len() < 2 && t < cycles - 300 {
            let mr = rng.below(4);
            let va = rng.below(4) << 12 | rng.below(3) * 8 * [1, 7, 170][rng.below(3) as usize];
            jobs.q.push_back(AtomicJob {
                mr: mr.into(),
                va: va.into(),
                add: rng.p(0.5),
                swap: if rng.p(0.3) { rng.next() } else { rng.below(3) }.into(),
                cmp: rng.below(3).into(),
            });
            given += 1;
        }
        let mr = s.out_u64("mrm_raddr");
        s.set(
            "mrm_rdata",
            raw(MrMap {
                page_shift: 12.into(),
                list: (0x4000 + mr).into(),
                va_page: 0.into(),
                pasid: (mr + 5).into(),
                ..MrMap::default()
            }),
        );
        // host reads
        s.set("fill_valid", 0u8);
        if let Some(k) = reads.iter().position(|r| r.0 <= t) {
            let (_, r) = reads.swap_remove(k);
            let a = num(r.addr);
            let list = num(r.tag) < BASE + 8;
            let (bytes, err): (Vec<u8>, bool) = if list {
                let mr = (a >> 6) - 0x4000;
                (
                    (0..8).flat_map(|k| page(mr, k).to_le_bytes()).collect(),
                    mr == BAD_MR,
                )
            } else {
                let bad = (a >> 12) % 64 ^ 1 == BAD_PAGE;
                (
                    (0..8)
                        .flat_map(|k| mem.get(&(a + 8 * k)).copied().unwrap_or(0).to_le_bytes())
                        .collect(),
                    bad,
                )
            };
            s.set("fill_valid", 1u8);
            s.set(
                "fill_data",
                raw(CtlFill {
                    data: bits_from_bytes(&bytes),
                    tag: r.tag,
                    last: true,
                    err,
                }),
            );
        }
        // the sequencer
        if cw == 0 && rng.p(0.02) {
            cw = words;
            cmds += 1;
        }
        s.set("c_wr_valid", (cw > 0) as u8);
        s.set("c_wr_data", cw);
        s.set(
            "c_wr_meta",
            raw(HostWrMeta {
                pasid: 0xFFF.into(),
                addr: 64.into(),
                len: 64.into(),
                sop: cw == words,
                eop: cw == 1,
                stamp: 0.into(),
            }),
        );
        s.set("c_rd_valid", (t % 90 == 50) as u8);
        s.set(
            "c_rd_data",
            raw(HostRd {
                addr: 0x77.into(),
                ..HostRd::default()
            }),
        );
        wr_ready = rng.p(0.4);
        rd_ready = rng.p(0.6);
        s.set("wr_ready", wr_ready as u8);
        s.set("rd_ready", rd_ready as u8);
    })
    .run();
    println!("{n_done} of {given} atomics, {n_err} faults, {n_wr} writes, {n_cmd} of {cmds} requests of the sequencer");
    assert!(want.is_empty() && n_done == given && n_done > 60 && n_err > 10 && n_cmd > 20);
    for (a, v) in &mem {
        assert_eq!(model[a], *v);
    }
}

#[test]
fn atomics_512() {
    run::<512>("atomic_512", 5000, 1);
}

#[test]
fn atomics_64() {
    run::<64>("atomic_64", 5000, 2);
}
