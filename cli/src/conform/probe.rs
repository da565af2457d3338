//! Finds out about a device, with the calls that any program may make: it counts objects until no more are given, looks for the greatest queue that is
//! made, and sends messages between queue pairs of the device itself. Nothing here knows the manifest.

use super::{
    bench::*,
    facts::{Fact, Facts},
    verbs::{Device, Made, Memory, LOCAL_WRITE, MW_BIND, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE},
};
use anyhow::{anyhow, Result};
use metaroce::abi::{IbvQpCap, IbvQpInitAttr};
use metaroce_manifest::registry::id;
use std::{
    ffi::c_int,
    ptr::null_mut,
    time::{Duration, Instant},
};

const TYPE_1: c_int = 1;
const TYPE_2: c_int = 2;
/// A message longer than any MTU, with a rest.
const LEN: usize = 9001;
/// Between two lines of progress.
const TELL: Duration = Duration::from_secs(3);

pub struct Options {
    /// Objects of a kind that are made at most.
    pub objects: u64,
    pub gid_index: u8,
    /// The device to which traffic for the wire goes, if there is to be any.
    pub peer: Option<String>,
}

/// A device with what every probe of it needs.
fn with<T>(
    name: &str,
    o: &Options,
    far: &dyn Fn(&str),
    run: impl FnOnce(&Bench) -> Result<T>,
) -> Result<T> {
    let dev = Device::open(name)?;
    let gid = dev
        .gid(o.gid_index)
        .ok_or_else(|| anyhow!("{name} has no GID {} on port 1: --gid-index", o.gid_index))?;
    let e =
        |what: &str, e: i32| anyhow!("{name}: {what}: {}", std::io::Error::from_raw_os_error(e));
    let mem = Memory::new(1 << 16)?;
    let pd = dev.pd().map_err(|n| e("no protection domain", n))?;
    let cq = dev.cq(64).map_err(|n| e("no completion queue", n))?;
    let rights = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ;
    let mr = (pd.mr(&mem, rights | REMOTE_ATOMIC))
        .or_else(|_| pd.mr(&mem, rights))
        .map_err(|n| e("no memory region", n))?;
    run(&Bench {
        dev: &dev,
        pd: &pd,
        cq: &cq,
        mem: &mem,
        mr: &mr,
        gid,
        o,
        far,
    })
}

/// All of it; `step` is told what comes next, `far` how far a long count has come.
pub fn all(
    name: &str,
    o: &Options,
    mut step: impl FnMut(&str),
    far: &dyn Fn(&str),
) -> Result<Facts> {
    with(name, o, far, |b| {
        let mut f = Facts {
            device: name.into(),
            ..Facts::default()
        };
        step("what the driver says");
        b.said(&mut f)
            .map_err(|n| anyhow!("{name}: query: {}", std::io::Error::from_raw_os_error(n)))?;
        step("how many objects there are");
        b.counts(&mut f);
        step("how long queues and lists may be");
        b.sizes(&mut f);
        step("transports and MTUs");
        b.transports(&mut f);
        step("atomics, windows, invalidation");
        b.atomics(&mut f);
        b.windows(&mut f);
        step("regions, queues and receive queues in use");
        b.changes(&mut f);
        step("each kind of packet");
        b.packets(&mut f);
        f.data_in_order = b.data_in_order();
        if let Some(peer) = &o.peer {
            step("traffic for who watches the wire");
            with(peer, o, far, |other| {
                b.traffic(&mut f, other);
                Ok(())
            })?;
            f.peer = Some(peer.clone());
        }
        Ok(f)
    })
}

/// Counts objects of a kind: as many as there are, up to `most`.
struct Counter<'a> {
    most: u64,
    far: &'a dyn Fn(&str),
}

impl Counter<'_> {
    fn count<T>(&self, what: &str, mut make: impl FnMut() -> Made<T>) -> Fact {
        let mut all = vec![];
        let start = Instant::now();
        let mut told = start;
        while (all.len() as u64) < self.most {
            match make() {
                Ok(t) => all.push(t),
                Err(_) => return Fact::Most(all.len() as u64),
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                let n = all.len() as u64;
                let left = start.elapsed().as_secs_f64() / n as f64 * (self.most - n) as f64;
                (self.far)(&format!(
                    "{what}: {n} made, at most {} ({left:.0} s more); --objects N counts no further",
                    self.most
                ));
            }
        }
        Fact::Took(self.most)
    }
}

/// The greatest number that works, if those that do are all below those that don't.
fn greatest(most: u64, works: impl Fn(u64) -> bool) -> Fact {
    if !works(1) {
        return Fact::Most(0);
    }
    let (mut good, mut bad) = (1, 2);
    while bad <= most && works(bad) {
        (good, bad) = (bad, 2 * bad);
    }
    if bad > most {
        return Fact::Took(good);
    }
    while bad - good > 1 {
        let mid = good + (bad - good) / 2;
        match works(mid) {
            true => good = mid,
            false => bad = mid,
        }
    }
    Fact::Most(good)
}

fn plus(f: Fact, n: u64) -> Fact {
    match f {
        Fact::Most(v) => Fact::Most(v + n),
        Fact::Took(v) => Fact::Took(v + n),
        f => f,
    }
}

impl Bench<'_> {
    fn said(&self, f: &mut Facts) -> Made<()> {
        let a = self.dev.attr()?;
        let end = a.fw_ver.iter().position(|b| *b == 0).unwrap_or(64);
        f.version = String::from_utf8_lossy(&a.fw_ver[..end]).into_owned();
        for (what, n) in [
            ("qp_wr", a.max_qp_wr),
            ("cqe", a.max_cqe),
            ("srq_wr", a.max_srq_wr),
        ] {
            f.said.insert(what.into(), n.max(0) as u64);
        }
        for (id, name, n) in [
            (id::queue_pairs, "max", i64::from(a.max_qp)),
            (id::completion_queues, "max", a.max_cq.into()),
            (id::completion_queues, "max_entries", a.max_cqe.into()),
            (id::memory_regions, "max", a.max_mr.into()),
            (id::memory_windows, "max", a.max_mw.into()),
            (id::protection_domains, "max", a.max_pd.into()),
            (id::shared_receive_queues, "max", a.max_srq.into()),
            (
                id::shared_receive_queues,
                "max_entries",
                a.max_srq_wr.into(),
            ),
            (id::work_queues, "max_send", a.max_qp_wr.into()),
            (id::work_queues, "max_recv", a.max_qp_wr.into()),
            (id::reads_in_flight, "max", a.max_qp_rd_atom.into()),
            (
                id::memory_regions,
                "max_length",
                i64::try_from(a.max_mr_size).unwrap_or(0),
            ),
        ] {
            if n > 0 {
                f.said.insert(format!("{id}.{name}"), n as u64);
            }
        }
        f.figure(id::ports, "max", Fact::Is(a.phys_port_cnt.into()));
        f.atomicity = match a.atomic_cap {
            1 => Some("card".into()),
            2 => Some("host".into()),
            _ => None,
        };
        let p = self.dev.port()?;
        if p.max_msg_sz > 0 {
            let most = format!("{}.max_message", id::segmentation_offload);
            f.said.insert(most, p.max_msg_sz.into());
        }
        let lanes = match p.active_width {
            1 => 1,
            2 => 4,
            4 => 8,
            8 => 12,
            16 => 2,
            _ => 0,
        };
        let lane = match p.active_speed {
            1 => 2_500,
            2 => 5_000,
            4 | 8 => 10_000,
            16 => 14_000,
            32 => 25_000,
            64 => 50_000,
            128 => 100_000,
            _ => 0,
        };
        if lanes * lane > 0 {
            f.figure(id::line_rates, "max", Fact::Is(lanes * lane));
            f.word(id::line_rates, &(lanes * lane).to_string(), true);
        }
        Ok(())
    }

    fn counts(&self, f: &mut Facts) {
        let c = Counter {
            most: self.o.objects,
            far: self.far,
        };
        f.figure(
            id::protection_domains,
            "max",
            plus(c.count("protection domains", || self.dev.pd()), 1),
        );
        f.figure(
            id::completion_queues,
            "max",
            plus(c.count("completion queues", || self.dev.cq(1)), 1),
        );
        let mrs = plus(
            c.count("memory regions", || self.pd.mr(self.mem, LOCAL_WRITE)),
            1,
        );
        f.figure(id::memory_regions, "max", mrs);
        let few = IbvQpCap {
            max_send_wr: 1,
            max_recv_wr: 1,
            ..cap()
        };
        f.figure(
            id::queue_pairs,
            "max",
            c.count("queue pairs", || self.qp(RC, few)),
        );
        let windows = c.count("memory windows", || self.pd.mw(TYPE_2));
        if windows != Fact::Most(0) {
            // with the region of this program
            f.figure(id::memory_windows, "max", plus(windows, 1));
            f.sums.insert("key_table".into(), plus(windows, 1));
        }
        let srqs = c.count("shared receive queues", || self.pd.srq(1));
        f.figure(id::shared_receive_queues, "max", srqs);
        if let Ok(_one) = self.pd.srq(1) {
            let left = c.count("queue pairs beside a shared receive queue", || {
                self.qp(RC, few)
            });
            f.sums.insert("qp_table".into(), plus(left, 1));
        }
    }

    fn sizes(&self, f: &mut Facts) {
        let n = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
        let top = 1 << 24;
        let made = |kind, c: IbvQpCap| self.qp(kind, c).is_ok();
        let send = greatest(top, |v| {
            made(
                RC,
                IbvQpCap {
                    max_send_wr: n(v),
                    ..cap()
                },
            )
        });
        f.figure(id::work_queues, "max_send", f.of_driver("qp_wr", send));
        let recv = greatest(top, |v| {
            made(
                RC,
                IbvQpCap {
                    max_recv_wr: n(v),
                    ..cap()
                },
            )
        });
        f.figure(id::work_queues, "max_recv", f.of_driver("qp_wr", recv));
        let sges = |v| IbvQpCap {
            max_send_sge: n(v),
            ..cap()
        };
        f.figure(
            id::scatter_gather,
            "max_send",
            greatest(1 << 12, |v| made(RC, sges(v))),
        );
        f.figure(
            id::scatter_gather,
            "max_ud",
            greatest(1 << 12, |v| made(UD, sges(v))),
        );
        let recv = greatest(1 << 12, |v| {
            made(
                RC,
                IbvQpCap {
                    max_recv_sge: n(v),
                    ..cap()
                },
            )
        });
        f.figure(id::scatter_gather, "max_recv", recv);
        let cqes = greatest(1 << 26, |v| self.dev.cq(v).is_ok());
        f.figure(
            id::completion_queues,
            "max_entries",
            f.of_driver("cqe", cqes),
        );
        let srq = greatest(top, |v| self.pd.srq(v).is_ok());
        f.figure(
            id::shared_receive_queues,
            "max_entries",
            f.of_driver("srq_wr", srq),
        );
        // the driver may offer more than the card's own
        let inline = greatest(1 << 16, |v| {
            made(
                RC,
                IbvQpCap {
                    max_inline_data: n(v),
                    ..cap()
                },
            )
        });
        match inline {
            Fact::Most(v) | Fact::Took(v) if v > 0 => {
                f.figure(id::inline_data, "max", Fact::Took(v));
            }
            none => f.figure(id::inline_data, "max", none),
        }
        let reads = greatest(255, |v| {
            self.two(RC)
                .is_ok_and(|(a, b)| self.join(&a, &b, 1, v as u8).is_ok())
        });
        f.figure(id::reads_in_flight, "max", reads);
    }

    fn transports(&self, f: &mut Facts) {
        let mut rc = false;
        for code in 1..=5 {
            let ok = self.two(RC).is_ok_and(|(a, b)| {
                self.join(&a, &b, code, 1).is_ok() && self.message(&a, &b, LEN)
            });
            f.word(id::mtus, &(128u32 << code).to_string(), ok);
            if ok {
                f.figure(id::mtus, "max", Fact::Is(128 << code));
            }
            rc |= ok;
        }
        f.word(id::wire_profiles, "rocev2_rc", rc);
        let uc = self.two(UC).is_ok_and(|(a, b)| {
            self.up(&a, b.number(), 3, None).is_ok()
                && self.up(&b, a.number(), 3, None).is_ok()
                && self.message(&a, &b, LEN)
        });
        f.word(id::wire_profiles, "rocev2_uc", uc);
        f.word(
            id::wire_profiles,
            "rocev2_ud",
            self.datagram(false).unwrap_or(false),
        );
    }

    fn atomics(&self, f: &mut Facts) {
        const AT: usize = 40_000;
        let word = |at: usize| u64::from_ne_bytes(self.mem.get(at, 8).try_into().expect("8 bytes"));
        let run = |op, operand: u64, swap: u64| {
            let (a, _b) = self.pair().ok()?;
            self.mem.put(AT, &100u64.to_ne_bytes());
            let mut s = self.sge(0, 8);
            let mut w = wr(op, &mut s);
            w.wr = [self.mem.at(AT), operand, swap, self.mr.keys().1.into()];
            self.done(&a, &mut w).then(|| (word(0), word(AT)))
        };
        let add = run(FETCH_ADD, 7, 0) == Some((100, 107));
        let swap =
            run(CMP_SWAP, 100, 55) == Some((100, 55)) && run(CMP_SWAP, 101, 55) == Some((100, 100));
        f.word(id::atomic_op_accel, "fetch_and_add", add);
        f.word(id::atomic_op_accel, "compare_and_swap", swap);
        if add {
            let (a, _b) = match self.pair() {
                Ok(p) => p,
                Err(_) => return,
            };
            let mut s = self.sge(0, 4);
            let mut w = wr(FETCH_ADD, &mut s);
            w.wr = [self.mem.at(AT), 1, 0, self.mr.keys().1.into()];
            if !self.done(&a, &mut w) {
                f.figure(id::atomic_op_accel, "operand", Fact::Is(8));
            }
        }
    }

    fn windows(&self, f: &mut Facts) {
        let base = self.pd.mr(self.mem, LOCAL_WRITE | MW_BIND);
        let try_one = || -> Option<(bool, bool)> {
            let base = base.as_ref().ok()?;
            let w = self.pd.mw(TYPE_2).ok()?;
            let (a, b) = self.pair().ok()?;
            let Some(key) = self.bound(&w, base, &b) else {
                return Some((false, false));
            };
            let through = |at: usize| {
                let bytes = pattern(at as u8, 100);
                self.mem.put(0, &bytes);
                let mut s = self.sge(0, 100);
                let mut w = wr(WRITE, &mut s);
                w.wr = [self.mem.at(at), key.into(), 0, 0];
                self.done(&a, &mut w) && self.mem.get(at, 100) == bytes
            };
            if !through(5000) {
                return Some((false, false));
            }
            // its key ends with a message, and is refused afterwards
            b.recv(self.sge(20_000, 8)).ok()?;
            let mut s = self.sge(0, 8);
            let mut end = wr(SEND_INV, &mut s);
            end.imm = key;
            let sent = a.send(&mut end).is_ok()
                && (0..2).all(|_| self.wait().is_some_and(|c| c.status == 0));
            let ended = sent && !through(5000);
            Some((true, ended))
        };
        let (type_2, ended) = try_one().unwrap_or_default();
        f.word(id::memory_windows, "type_1", self.pd.mw(TYPE_1).is_ok());
        f.word(id::memory_windows, "type_2b", type_2);
        // LOCAL_INV of a window that is bound
        let local = || -> Option<bool> {
            let base = base.as_ref().ok()?;
            let w = self.pd.mw(TYPE_2).ok()?;
            let (_a, b) = self.pair().ok()?;
            let key = self.bound(&w, base, &b)?;
            let mut none = self.sge(0, 1);
            let mut end = wr(LOCAL_INV, &mut none);
            end.num_sge = 0;
            end.imm = key;
            Some(self.done(&b, &mut end))
        };
        f.works(id::remote_invalidation, ended && local().unwrap_or(false));
    }

    fn changes(&self, f: &mut Facts) {
        let grown = self.dev.cq(16).is_ok_and(|c| c.resize(100).is_ok());
        f.works(id::resize_cq, grown);
        let turned = || -> Option<bool> {
            let mr = self.pd.mr(self.mem, LOCAL_WRITE).ok()?;
            mr.rereg(LOCAL_WRITE | REMOTE_READ).ok()?;
            let (a, _b) = self.pair().ok()?;
            let bytes = pattern(3, 64);
            self.mem.put(9000, &bytes);
            let mut s = self.sge(0, 64);
            let mut w = wr(READ, &mut s);
            w.wr = [self.mem.at(9000), mr.keys().1.into(), 0, 0];
            Some(self.done(&a, &mut w) && self.mem.get(0, 64) == bytes)
        };
        f.works(id::rereg_mr, turned().unwrap_or(false));
        for (word, kind) in [("rc", RC), ("ud", UD)] {
            f.word(
                id::shared_receive_queues,
                word,
                self.shared(kind).unwrap_or(false),
            );
        }
    }

    /// A message into a receive of a shared queue.
    fn shared(&self, kind: c_int) -> Made<bool> {
        const TO: usize = 32_768;
        self.drain();
        let srq = self.pd.srq(4)?;
        let mut i = IbvQpInitAttr {
            qp_context: null_mut(),
            send_cq: null_mut(),
            recv_cq: null_mut(),
            srq: srq.raw(),
            cap: IbvQpCap {
                max_recv_wr: 0,
                max_recv_sge: 0,
                ..cap()
            },
            qp_type: kind,
            sq_sig_all: 0,
        };
        let (a, b) = (self.qp(kind, cap())?, self.pd.qp(self.cq, &mut i)?);
        srq.recv(self.sge(TO, 240))?;
        let bytes = pattern(77, 100);
        self.mem.put(0, &bytes);
        let mut s = self.sge(0, 100);
        let mut w = wr(SEND, &mut s);
        let ah;
        let skip = if kind == UD {
            self.ready(&a)?;
            self.ready(&b)?;
            ah = self.pd.ah(self.path())?;
            w.wr = to(&ah, &b);
            40
        } else {
            self.join(&a, &b, 3, 1)?;
            0
        };
        a.send(&mut w)?;
        Ok((0..2).all(|_| self.wait().is_some_and(|c| c.status == 0))
            && self.mem.get(TO + skip, 100) == bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches() {
        for limit in [1, 2, 3, 7, 8, 9, 1000] {
            assert_eq!(greatest(1 << 20, |v| v <= limit), Fact::Most(limit));
        }
        assert_eq!(greatest(64, |_| true), Fact::Took(64));
        assert_eq!(greatest(64, |_| false), Fact::Most(0));
        let mut left = 5;
        let upto = |most| Counter { most, far: &|_| {} };
        let made = upto(10).count("things", || {
            left -= 1;
            if left < 0 {
                Err(1)
            } else {
                Ok(())
            }
        });
        assert_eq!(made, Fact::Most(5));
        assert_eq!(upto(3).count("things", || Ok(())), Fact::Took(3));
    }
}
