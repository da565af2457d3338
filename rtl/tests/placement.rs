//! Placement against a byte model of host memory: random jobs of all kinds with real translation, throughput, then rust-hdl =
//! Verilator.
//!
//! Shows: `completion_timestamps`.
use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::inputs;
use metaroce_rtl::layouts::{Cq, Cqe, Eqe, MrMap};
use metaroce_rtl::placement::{PlaceCore, Placement, Placement100g, Placement1g};
use metaroce_rtl::prims::packed::{bits_from_bytes, bits_to_bytes};
use metaroce_rtl::types::*;
use rust_hdl::prelude::*;
use std::collections::VecDeque;

const MRS: u64 = 8;
const CQS: u64 = 4;
/// The page list of this MR can't be read.
const BAD_MR: u64 = 7;

fn mr(i: u64) -> MrMap {
    MrMap {
        page_shift: (if i % 2 == 0 { 12u64 } else { 14 }).into(),
        list: (0x40_0000 + i * 0x1000).into(),
        va_page: (0x7000 * (i + 1)).into(),
        pasid: (i % 3 + 1).into(),
        ..Default::default()
    }
}

fn mr_va(i: u64) -> u64 {
    (0x7000 * (i + 1)) << 12
}

fn page_of(i: u64, k: u64) -> u64 {
    let shift = mr(i).page_shift.to_u64();
    (((i + 1) << 20 | (k * 0x9E37 + i * 77) % 0xFFFF) << 16 >> shift) << shift
}

fn bus(i: u64, va: u64) -> u64 {
    let shift = mr(i).page_shift.to_u64();
    let k = (va - mr_va(i)) >> shift;
    page_of(i, k) | (va & ((1 << shift) - 1))
}

fn cq(i: u64) -> Cq {
    Cq {
        valid: i < CQS,
        log: (4 + i % 2).into(),
        pasid: (i % 3 + 1).into(),
        base: (0x9_0000 + i).into(),
        ..Default::default()
    }
}

#[derive(Clone, Debug)]
enum Want {
    Payload {
        mr: u64,
        va: u64,
        bytes: Vec<u8>,
        stamp: u64,
    },
    Cqe(PlJob),
    Fence,
}

fn random_job(rng: &mut Rng, words: u64, l: u64) -> PlJob {
    let kinds = if rng.p(0.2) { 7 } else { 6 };
    let kind = [1, 1, 1, 2, 2, 0, 3][rng.below(kinds) as usize];
    let m = rng.below(MRS);
    let len = match rng.below(4) {
        0 => 1 + rng.below(8),
        1 => 1 + rng.below(200),
        _ => 1 + rng.below(1200),
    };
    let mut j = PlJob {
        kind: kind.into(),
        free: rng.p(0.5),
        slot: rng.below(128).into(),
        mr: m.into(),
        va: (mr_va(m) + rng.below(0x2_0000)).into(),
        len: len.into(),
        src: rng.below(words * l).into(),
        stamp: rng.below(1 << 40).into(),
        inl: false,
        cq: rng.below(CQS).into(),
        qpn: rng.below(1 << 24).into(),
        opcode: rng.below(256).into(),
        index: rng.below(1 << 16).into(),
        status: if rng.p(0.2) {
            rng.below(23).into()
        } else {
            0.into()
        },
        is_recv: rng.p(0.5),
        with_imm: rng.p(0.5),
        with_inv: rng.p(0.5),
        grh: rng.p(0.3),
        solicited: rng.p(0.3),
        length: rng.below(1 << 32).into(),
        imm: rng.below(1 << 32).into(),
    };
    // 8 bytes of the job itself
    if kind == 1 && rng.p(0.2) {
        (j.inl, j.src, j.len) = (true, 0.into(), 8.into());
    }
    j
}

fn run<const W: usize, const L: usize, const A: usize>(seed: u64, jobs: usize) {
    println!("placement W={W} seed {seed}");
    let mut rng = Rng(seed);
    let mut u = Placement::<W, L, A, 3, 2, 3, 8>::new(0xA0);
    u.connect_all();
    let size = L << A;
    let buf: Vec<u8> = (0..size).map(|_| rng.next() as u8).collect();
    let mps = 7 + rng.below(3);
    u.mps_log.next = mps.into();
    let (mut want, mut frees): (VecDeque<Want>, VecDeque<u64>) = Default::default();
    // writes that must have been taken when a packet is reported as done
    let (mut tells, mut pushed, mut told): (VecDeque<usize>, usize, usize) = Default::default();
    let mut job: Option<PlJob> = None;
    let (mut made, mut quiet, mut t) = (0, 0, 0u64);
    let mut pi = [0u64; CQS as usize];
    let mut ci = [0u64; CQS as usize];
    let mut seen = [0u64; CQS as usize];
    let mut faults = 0usize;
    let mut bad = 0usize;
    let (mut eq_n, mut msis, mut eqes, mut fences) = ([0u64; 4], 0, 0, 0);
    let mut arms = 0u64;
    let (mut buf_a, mut cqt_a, mut mrm_a) = ((0usize, vec![false; L]), 0u64, 0u64);
    let mut reads: Vec<HostRd> = vec![];
    let mut eq_set = 0u64;
    let mut db: Option<CqDb> = None;
    let mut req: Option<(HostWrMeta, Vec<u8>)> = None;
    let mut evs = 0;
    let mut words = 0u64;
    while quiet < 300 {
        t += 1;
        quiet += 1;
        assert!(t < 100_000, "wedged: {want:?}");
        u.clock.next = Clock { clk: false };
        u.rst.next = t < 3;
        u.now.next = t.into();
        u.eqctl_valid.next = t > 3 && eq_set < 3;
        u.eqctl_pasid.next = (eq_set + 1).into();
        u.eqctl_base.next = (0xE_0000 + eq_set + 1).into();
        u.eqctl_log.next = 4.into();
        u.cqctl_valid.next = false;
        u.cqctl_resize.next = false;
        u.cqerr_ready.next = true;
        if t > 20 && job.is_none() && made < jobs && rng.p(0.6) {
            let j = random_job(&mut rng, 1 << A, L as u64);
            // verbs users leave room
            let c = j.cq.to_u64() as usize;
            if j.kind != 2u64 || pi[c] - ci[c] < 8 {
                job = Some(j);
                made += 1;
            }
        }
        u.job_valid.next = job.is_some();
        if let Some(j) = job {
            u.job_data.next = j;
        }
        if db.is_none() && quiet < 100 && rng.p(0.3) {
            let c = rng.below(CQS);
            db = Some(CqDb {
                cq: c.into(),
                ci: seen[c as usize].into(),
                arm: rng.below(3).into(),
            });
        }
        u.cqdb_valid.next = t > 20 && db.is_some();
        if let Some(d) = db {
            u.cqdb_data.next = d;
        }
        let ev = t > 20 && evs < 10;
        u.ev_valid.next = ev;
        u.ev_data.next = Event {
            pasid: (evs % 3 + 1).into(),
            kind: 3.into(),
            id: 99.into(),
        };
        let wr = rng.p(if t % 400 < 200 { 0.5 } else { 1.0 });
        u.wr_ready.next = wr;
        let b: Vec<u8> = (0..L)
            .map(|i| buf[((buf_a.0 + buf_a.1[i] as usize) * L + i) % size])
            .collect();
        u.buf_rdata.next = bits_from_bytes(&b);
        u.cqt_rdata.next = cq(cqt_a);
        u.mrm_rdata.next = mr(mrm_a);
        let rd = rng.p(0.5);
        u.mtt_rd_ready.next = rd;
        u.fill_valid.next = false;
        if !reads.is_empty() && rng.p(0.1) {
            let r = reads.swap_remove(rng.below(reads.len() as u64) as usize);
            let i = (r.addr.to_u64() >> 6).wrapping_sub(0x40_0000) / 0x1000;
            let k = ((r.addr.to_u64() >> 6).wrapping_sub(0x40_0000) % 0x1000) * 8;
            let d: Vec<u8> = (0..8)
                .flat_map(|e| page_of(i, k + e).to_le_bytes())
                .collect();
            u.fill_valid.next = true;
            u.fill_data.next = CtlFill {
                data: bits_from_bytes(&d),
                tag: r.tag,
                last: true,
                err: i == BAD_MR,
            };
            quiet = 0;
        }
        assert!(simulate(&mut u, 200));
        if t > 3 && eq_set < 3 && u.eqctl_ready.val() {
            eq_set += 1;
        }
        if let Some(j) = job {
            if u.job_ready.val() {
                job = None;
                quiet = 0;
                if j.free {
                    frees.push_back(j.slot.to_u64());
                }
                match j.kind.to_u64() {
                    1 if j.mr == BAD_MR => bad += 1,
                    1 => {
                        let s = j.src.to_u64() as usize;
                        want.push_back(Want::Payload {
                            mr: j.mr.to_u64(),
                            va: j.va.to_u64(),
                            bytes: if j.inl {
                                let v = j.imm.to_u64() << 32 | j.length.to_u64();
                                v.to_le_bytes().to_vec()
                            } else {
                                (0..j.len.to_u64() as usize)
                                    .map(|i| buf[(s + i) % size])
                                    .collect()
                            },
                            stamp: j.stamp.to_u64(),
                        });
                    }
                    2 => {
                        pi[j.cq.to_u64() as usize] += 1;
                        want.push_back(Want::Cqe(j));
                    }
                    3 => want.push_back(Want::Fence),
                    _ => {}
                }
                pushed += (j.kind != 0u64 && !(j.kind == 1u64 && j.mr == BAD_MR)) as usize;
                if j.free && j.is_recv {
                    tells.push_back(pushed);
                }
            }
        }
        if let Some(d) = db {
            if t > 20 && u.cqdb_ready.val() {
                ci[d.cq.to_u64() as usize] = d.ci.to_u64();
                arms += (d.arm != 0u64) as u64;
                db = None;
            }
        }
        if ev && u.ev_ready.val() {
            evs += 1;
        }
        if u.mtt_rd_valid.val() && rd {
            let r = u.mtt_rd_data.val();
            assert!(r.len == 64u64);
            reads.push(r);
        }
        faults += u.ev_fault.val() as usize;
        if u.free_valid.val() {
            assert_eq!(Some(u.free_slot.val().to_u64()), frees.pop_front(), "free");
            quiet = 0;
        }
        if u.fence_done.val() {
            assert!(
                matches!(want.pop_front(), Some(Want::Fence)),
                "fence too early"
            );
            fences += 1;
            quiet = 0;
        }
        if u.told.val() {
            let before = tells.pop_front().expect("told of nothing");
            assert!(pushed - want.len() >= before, "told too early");
            told += 1;
            quiet = 0;
        }
        if u.msi_valid.val() {
            msis += 1;
            assert_eq!(msis, eqes, "MSI without an event, or before it");
        }
        assert!(!u.cqerr_valid.val() && !u.ev_cq_overflow.val(), "overflow");
        if u.wr_valid.val() && wr {
            quiet = 0;
            words += 1;
            let m = u.wr_meta.val();
            let d = bits_to_bytes(u.wr_data.val());
            let (a, len) = (m.addr.to_u64() as usize, m.len.to_u64() as usize);
            if m.sop {
                assert!(req.is_none(), "request in a request");
                req = Some((m, vec![]));
            }
            let (m0, bytes) = req.as_mut().unwrap();
            assert_eq!(
                (m0.pasid, m0.addr, m0.len, m0.stamp),
                (m.pasid, m.addr, m.len, m.stamp)
            );
            let from = if m.sop { a % L } else { 0 };
            let n = (len - bytes.len()).min(L - from);
            bytes.extend(&d[from..from + n]);
            assert_eq!(m.eop, bytes.len() == len, "end");
            if m.eop {
                let (m, bytes) = req.take().unwrap();
                let (pasid, a) = (m.pasid.to_u64(), m.addr.to_u64());
                assert_eq!(a >> 12, (a + len as u64 - 1) >> 12);
                assert!(len <= 1 << mps);
                if a >> 12 >= 0xE_0000 && a >> 12 < 0xE_0010 {
                    let e: Eqe = bits_from_bytes::<512>(&bytes).into();
                    let n = &mut eq_n[pasid as usize];
                    assert_eq!(a, ((0xE_0000 + pasid) << 12) + *n % 16 * 64);
                    assert_eq!(e.phase, *n / 16 % 2 == 0);
                    *n += 1;
                    eqes += 1;
                    if e.kind == 1u64 {
                        let c = e.id.to_u64();
                        assert_eq!(cq(c).pasid, pasid);
                        assert!(seen[c as usize] > 0, "event before any completion");
                    } else {
                        assert_eq!((e.kind, e.id), (3.into(), 99.into()));
                    }
                } else {
                    match want.front_mut() {
                        Some(Want::Payload {
                            mr: i,
                            va,
                            bytes: b,
                            stamp,
                        }) => {
                            assert_eq!(m.stamp, *stamp);
                            assert_eq!(mr(*i).pasid, pasid);
                            assert_eq!(bus(*i, *va), a);
                            let rest = b.split_off(len);
                            assert_eq!(*b, bytes);
                            *va += len as u64;
                            *b = rest;
                            if b.is_empty() {
                                want.pop_front();
                            }
                        }
                        Some(Want::Cqe(j)) => {
                            let c = j.cq.to_u64() as usize;
                            check_cqe(&bytes, j, t, seen[c], cq(c as u64), pasid, a);
                            seen[c] += 1;
                            want.pop_front();
                        }
                        x => panic!("write at {a:x} but {x:?}"),
                    }
                }
            }
        }
        buf_a = (
            u.buf_raddr.val().to_u64() as usize,
            (0..L).map(|i| u.buf_rsel.val().get_bit(i)).collect(),
        );
        cqt_a = u.cqt_raddr.val().to_u64();
        mrm_a = u.mrm_raddr.val().to_u64();
        u.clock.next = Clock { clk: true };
        assert!(simulate(&mut u, 200));
    }
    assert_eq!(made, jobs);
    assert!(want.is_empty(), "{want:?}");
    assert!(tells.is_empty() && told > 20);
    assert!(frees.is_empty() && u.idle.val() && req.is_none());
    assert_eq!(msis, eqes);
    assert_eq!(faults, bad);
    assert!(eqes > 10 && fences > 0 && bad > 0 && eqes <= 10 + arms);
    println!("{t} cycles, {words} words, {eqes} events, {fences} fences, {bad} faults");
}

fn check_cqe(b: &[u8], j: &PlJob, t: u64, n: u64, c: Cq, pasid: u64, a: u64) {
    let log = c.log.to_u64();
    let e: Cqe = bits_from_bytes::<512>(b).into();
    assert_eq!(c.pasid, pasid);
    assert_eq!(a, (c.base.to_u64() << 12) + n % (1 << log) * 64);
    assert_eq!(e.phase, (n >> log) % 2 == 0);
    assert!(e.timestamp.to_u64() <= t && e.timestamp.to_u64() + 3000 > t);
    let w = Cqe {
        qpn: j.qpn,
        opcode: j.opcode,
        index: j.index,
        status: j.status,
        is_recv: j.is_recv,
        with_imm: j.with_imm,
        with_inv: j.with_inv,
        grh: j.grh,
        src_qp: if j.grh {
            (j.va.to_u64() & 0xFF_FFFF).into()
        } else {
            0.into()
        },
        solicited: j.solicited,
        length: j.length,
        imm: j.imm,
        timestamp: e.timestamp,
        post_time: if j.is_recv {
            0.into()
        } else {
            j.stamp.to_u64().into()
        },
        phase: e.phase,
        ..Default::default()
    };
    assert_eq!(e, w);
}

#[test]
fn random_jobs_64() {
    run::<64, 8, 9>(1, 250);
}

#[test]
fn random_jobs_512() {
    run::<512, 64, 6>(2, 200);
}

/// Large payload leaves at one word a cycle, whatever the alignment, with pieces of 256 bytes.
#[test]
fn a_word_a_cycle() {
    let mut u = PlaceCore::<512, 64, 6, 3, 2>::default();
    u.connect_all();
    let (mut jobs, mut pieces, mut words, mut first) = (0u64, 0u64, 0, 0);
    let mut t = 0;
    while words < 400 {
        t += 1;
        assert!(t < 2000);
        u.clock.next = Clock { clk: false };
        u.rst.next = t < 3;
        u.job_valid.next = t > 3;
        u.job_data.next = PlJob {
            kind: 1.into(),
            len: 4096.into(),
            src: (jobs * 13).into(),
            ..Default::default()
        };
        u.xl_req_ready.next = true;
        u.xl_chunk_valid.next = t > 10;
        u.xl_chunk_data.next = XlChunk {
            addr: (pieces * 256).into(),
            len: 256.into(),
            last: pieces % 16 == 15,
            ..Default::default()
        };
        u.wr_ready.next = true;
        u.cqerr_ready.next = true;
        assert!(simulate(&mut u, 100));
        jobs += (t > 3 && u.job_ready.val()) as u64;
        pieces += (t > 10 && u.xl_chunk_ready.val()) as u64;
        if u.wr_valid.val() {
            words += 1;
            if first == 0 {
                first = t;
            }
        }
        u.clock.next = Clock { clk: true };
        assert!(simulate(&mut u, 100));
    }
    println!(
        "{words} words in {} cycles, the first at {first}",
        t - first + 1
    );
    assert!(t - first + 1 <= 404);
}

fn diff_core<const W: usize, const L: usize, const A: usize>(name: &str, cycles: usize) {
    let pack = |j: PlJob| -> num_bigint::BigUint {
        let b: Bits<{ <PlJob as Synth>::BITS }> = j.into();
        b.into()
    };
    Diff::new(
        name,
        PlaceCore::<W, L, A, 3, 2>::default,
        inputs!(
            rst,
            now,
            job_valid,
            job_data,
            cqdb_valid,
            cqdb_data,
            ev_valid,
            ev_data,
            cqctl_valid,
            cqctl_cq,
            cqctl_resize,
            eqctl_valid,
            eqctl_pasid,
            eqctl_base,
            eqctl_log,
            cqt_rdata,
            buf_rdata,
            wr_ready,
            cqerr_ready,
            xl_req_ready,
            xl_chunk_valid,
            xl_chunk_data
        ),
    )
    .cycles(cycles)
    .p("ev_valid", 0.02)
    .p("cqctl_valid", 0.01)
    .p("eqctl_valid", 0.05)
    .p("cqdb_valid", 0.3)
    .p("xl_chunk_valid", 0.7)
    .p("wr_ready", 0.8)
    .stim(move |s| {
        s.set("rst", (s.cycle < 2 || s.cycle == cycles / 2) as u8);
        let j = random_job(s.rng, 1 << A, L as u64);
        s.set("job_data", pack(j));
        let d = s.rng.below(4) | s.rng.below(40) << 12 | s.rng.below(3) << 36;
        s.set("cqdb_data", d);
        s.set("eqctl_log", 4u8);
        // valid rings of 16 or 32 mostly
        let c: Bits<128> = cq(s.rng.below(5)).into();
        s.set("cqt_rdata", num_bigint::BigUint::from(c));
        let c = XlChunk {
            pasid: s.rng.below(4).into(),
            addr: s.rng.below(1 << 40).into(),
            len: (1 + s.rng.below(200)).into(),
            last: s.rng.p(0.6),
            err: s.rng.p(0.05),
        };
        let b: Bits<{ <XlChunk as Synth>::BITS }> = c.into();
        s.set("xl_chunk_data", num_bigint::BigUint::from(b));
    })
    .hold("job_valid", "job_ready", &["job_data"])
    .hold("cqdb_valid", "cqdb_ready", &["cqdb_data"])
    .run();
}

#[test]
fn verilator_64() {
    diff_core::<64, 8, 9>("place_core_64", 2500);
}

#[test]
fn verilator_512() {
    diff_core::<512, 64, 6>("place_core_512", 600);
}

/// The two configurations elaborate and pass the lint.
#[test]
fn configurations() {
    let dir = std::env::temp_dir().join(format!("metaroce-lint-pl-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for (name, text) in [
        (
            "placement_100g",
            metaroce_rtl::emit::emit_verilog("placement_100g", &mut Placement100g::new(0xA0)),
        ),
        (
            "placement_1g",
            metaroce_rtl::emit::emit_verilog("placement_1g", &mut Placement1g::new(0xA0)),
        ),
    ] {
        let v = dir.join(format!("{name}.v"));
        std::fs::write(&v, text).unwrap();
        let o = std::process::Command::new(metaroce_rtl::diff::verilator())
            .arg("--lint-only")
            .args(metaroce_rtl::diff::LINT)
            .args(["--top-module", name])
            .arg(&v)
            .output()
            .unwrap();
        assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    }
    let _ = std::fs::remove_dir_all(dir);
}
