//! Host port: nothing lost, order per tag, whole writes; and rust-hdl = Verilator.
use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::hostport::HostPort;
use metaroce_rtl::inputs;
use metaroce_rtl::prims::packed::{bits_from_bytes, bits_to_bytes};
use metaroce_rtl::types::*;
use rust_hdl::prelude::*;
use std::collections::{HashMap, VecDeque};

macro_rules! settle {
    ($u:ident) => {
        assert!(simulate(&mut $u, 200));
    };
}
macro_rules! edge {
    ($u:ident) => {
        $u.clock.next = Clock { clk: true };
        settle!($u);
        $u.clock.next = Clock { clk: false };
        settle!($u);
    };
}

/// Units of random tags, words interleaved at random, payload tags among them.
fn completions<const W: usize, const U: usize>(seed: u64) {
    let mut rng = Rng(seed);
    let mut u = HostPort::<W, U>::default();
    u.connect_all();
    u.rst.next = true;
    u.clock.next = Clock { clk: false };
    settle!(u);
    edge!(u);
    u.rst.next = false;
    let l = W / 8;
    // words still to send per tag: (bytes, last, err)
    let mut todo: HashMap<u8, VecDeque<(Vec<u8>, bool, bool)>> = HashMap::new();
    let mut want_fill: HashMap<u8, VecDeque<(Vec<u8>, bool, bool)>> = HashMap::new();
    let mut want_pay: VecDeque<(Vec<u8>, u8, bool)> = VecDeque::new();
    let (mut fills, mut pays, mut errs) = (0, 0, 0);
    for t in 0..3000 {
        if t < 2700 && rng.p(0.2) {
            let tag = [0x80u8, 0x81, 0x9F, 0xE0, 0xE1, 0xFF, 3, 0x7F][rng.below(8) as usize];
            if todo.get(&tag).is_none_or(|q| q.is_empty()) {
                let units = 1 + rng.below(3) as usize;
                let fail = rng.p(0.1) && tag >= 0x80;
                let q = todo.entry(tag).or_default();
                for n in 0..units {
                    let bytes: Vec<u8> = (0..64).map(|_| rng.next() as u8).collect();
                    let last = n + 1 == units;
                    let words: Vec<&[u8]> = bytes.chunks(l).collect();
                    if last && fail {
                        q.push_back((vec![0; l], true, true));
                    } else {
                        for (i, w) in words.iter().enumerate() {
                            q.push_back((w.to_vec(), last && i + 1 == words.len(), false));
                        }
                    }
                    if tag >= 0x80 {
                        want_fill
                            .entry(tag)
                            .or_default()
                            .push_back((bytes, last, last && fail));
                    }
                }
            }
        }
        let live: Vec<u8> = {
            let mut v: Vec<u8> = todo
                .iter()
                .filter(|(_, q)| !q.is_empty())
                .map(|(t, _)| *t)
                .collect();
            v.sort();
            v
        };
        u.hrd_valid.next = false;
        if !live.is_empty() && (seed % 2 == 0 || rng.p(0.7)) {
            let tag = live[rng.below(live.len() as u64) as usize];
            let (b, last, err) = todo.get_mut(&tag).unwrap().pop_front().unwrap();
            u.hrd_valid.next = true;
            u.hrd_data.next = bits_from_bytes::<W>(&b);
            u.hrd_meta.next = HostRdMeta {
                tag: (tag as u64).into(),
                last,
                err,
            };
            if tag < 0x80 {
                want_pay.push_back((b, tag, last));
            }
        }
        settle!(u);
        if u.fill_valid.val() {
            let f = u.fill_data.val();
            let tag = f.tag.to_u64() as u8;
            let (b, last, err) = want_fill.get_mut(&tag).unwrap().pop_front().unwrap();
            assert_eq!((f.last, f.err), (last, err), "tag {tag:x}");
            if !err {
                assert_eq!(bits_to_bytes(f.data), b, "tag {tag:x} cycle {t}");
            }
            fills += 1;
            errs += err as u32;
        }
        if u.pay_valid.val() {
            let (b, tag, last) = want_pay.pop_front().unwrap();
            let m = u.pay_meta.val();
            assert_eq!((m.tag.to_u64() as u8, m.last), (tag, last));
            assert_eq!(bits_to_bytes(u.pay_data.val()), b);
            pays += 1;
        }
        edge!(u);
    }
    assert!(want_fill.values().all(|q| q.is_empty()) && want_pay.is_empty());
    println!("W {W} seed {seed}: {fills} units ({errs} refused), {pays} payload words");
    assert!(fills > 100 && errs > 3 && pays > 100);
    assert!(u.idle.val());
}

#[test]
fn completions_are_sorted_by_tag() {
    completions::<64, 8>(1);
    completions::<64, 8>(2);
    completions::<512, 1>(3);
    completions::<512, 1>(4);
}

#[test]
fn writes_stay_whole_and_reads_are_served_in_turn() {
    let mut rng = Rng(9);
    let mut u = HostPort::<64, 8>::default();
    u.connect_all();
    let mut got = [0u32; 6];
    let mut next = [[0u64; 2]; 2]; // per source: (request, word)
    let mut open: Option<usize> = None;
    let mut served = [0u32; 2];
    let mut sent = [(0u64, 0u64); 2]; // request number, word
    for _ in 0..3000 {
        macro_rules! rd {
            ($v:ident, $d:ident, $n:literal) => {
                u.$v.next = true;
                u.$d.next = HostRd {
                    pasid: 0.into(),
                    addr: 0.into(),
                    len: 64.into(),
                    tag: ($n as u64).into(),
                };
            };
        }
        rd!(rd0_valid, rd0_data, 0);
        rd!(rd1_valid, rd1_data, 1);
        rd!(rd2_valid, rd2_data, 2);
        rd!(rd3_valid, rd3_data, 3);
        rd!(rd4_valid, rd4_data, 4);
        rd!(rd5_valid, rd5_data, 5);
        u.rd_ready.next = rng.p(0.7);
        u.wr_ready.next = rng.p(0.6);
        let meta = |s: usize, (r, w): (u64, u64)| {
            let n = 1 + (r * 7 + s as u64) % 5;
            HostWrMeta {
                pasid: (s as u64).into(),
                addr: (r * 64).into(),
                len: (n * 8).into(),
                sop: w == 0,
                eop: w + 1 == n,
                stamp: 0.into(),
            }
        };
        let v = [rng.p(0.8), rng.p(0.8)];
        u.wr0_valid.next = v[0];
        u.wr1_valid.next = v[1];
        u.wr0_meta.next = meta(0, sent[0]);
        u.wr1_meta.next = meta(1, sent[1]);
        u.wr0_data.next = (sent[0].0 * 16 + sent[0].1).into();
        u.wr1_data.next = (sent[1].0 * 16 + sent[1].1).into();
        settle!(u);
        if u.rd_valid.val() && u.rd_ready.val() {
            got[u.rd_data.val().tag.to_u64() as usize] += 1;
        }
        if u.wr_valid.val() && u.wr_ready.val() {
            let m = u.wr_meta.val();
            let s = m.pasid.to_u64() as usize;
            assert!(open.is_none_or(|o| o == s), "a request was split");
            assert_eq!(u.wr_data.val().to_u64(), next[s][0] * 16 + next[s][1]);
            assert_eq!(m, meta(s, (next[s][0], next[s][1])));
            open = if m.eop { None } else { Some(s) };
            next[s] = if m.eop {
                [next[s][0] + 1, 0]
            } else {
                [next[s][0], next[s][1] + 1]
            };
            served[s] += m.eop as u32;
        }
        for s in 0..2 {
            let r = if s == 0 {
                u.wr0_ready.val()
            } else {
                u.wr1_ready.val()
            };
            if v[s] && r {
                let eop = meta(s, sent[s]).eop;
                sent[s] = if eop {
                    (sent[s].0 + 1, 0)
                } else {
                    (sent[s].0, sent[s].1 + 1)
                };
            }
        }
        edge!(u);
    }
    println!("reads {got:?}, writes {served:?}");
    let (lo, hi) = (got.iter().min().unwrap(), got.iter().max().unwrap());
    assert!(*lo > 250 && hi - lo < 5);
    assert!(served[0] > 200 && served[1] > 200);
}

macro_rules! ports {
    () => {
        inputs!(
            rst, rd0_valid, rd0_data, rd1_valid, rd1_data, rd2_valid, rd2_data, rd3_valid,
            rd3_data, rd4_valid, rd4_data, rd5_valid, rd5_data, rd_ready, hrd_valid, hrd_data,
            hrd_meta, wr0_valid, wr0_data, wr0_meta, wr1_valid, wr1_data, wr1_meta, wr_ready
        )
    };
}

#[test]
fn diff_hostport() {
    Diff::new("hostport_64", HostPort::<64, 8>::default, ports!())
        .cycles(600)
        .pick("hrd_meta", &[0x80, 0x81, 0x82, 0x181, 0x380, 0x05])
        .run();
    Diff::new("hostport_512", HostPort::<512, 1>::default, ports!())
        .cycles(200)
        .run();
}
