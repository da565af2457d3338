//! Traffic for whoever watches the wire: what is sent is noted, so that a capture of it can be read afterwards ([`super::wire`]).

use super::{
    bench::*,
    facts::{Fact, Facts, Kind, Sent},
    verbs::{Made, Memory, Mr, Qp, LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE},
};
use metaroce::abi::{IbvQpCap, IbvSge};
use metaroce_manifest::registry::id;
use std::ffi::c_int;

const LONG: usize = 1 << 16;
/// Long messages of a run, and short ones of a queue pair.
const LONGS: usize = 12;
const SHORTS: usize = 192;
/// Messages are posted and waited for in so many calls: a send queue holds them all.
const DEPTH: u32 = 256;
/// Codes of the timers that are short enough to wait for, and queue pairs of each: of the shortest many, since how late a card is can depend on the queue
/// pair, and on the moment.
const TIMEOUTS: [(u8, u32); 6] = [(1, 8), (2, 1), (4, 1), (6, 1), (8, 1), (10, 1)];
const RNRS: [(u8, u32); 6] = [(1, 24), (2, 1), (5, 1), (9, 1), (12, 1), (16, 1)];
const MTU_4096: c_int = 5;
const MTU_1024: c_int = 3;
/// Given up after so many: the wire has as many waits, at whatever phase of the timer.
const AGAIN: u8 = 3;

/// Where streams go.
struct Run<'a> {
    other: &'a Bench<'a>,
    mem: &'a Memory,
    mr: &'a Mr<'a>,
    there: &'a Mr<'a>,
    reads: u8,
}

impl Bench<'_> {
    /// All of it; what a device refuses is left out.
    pub fn traffic(&self, f: &mut Facts, other: &Bench) {
        let Ok(mem) = Memory::new(2 * LONG) else {
            return;
        };
        let rights = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ;
        let (Ok(mr), Ok(there)) = (self.pd.mr(&mem, rights), other.pd.mr(&mem, rights)) else {
            return;
        };
        let reads = f.figures.get(id::reads_in_flight);
        let reads = match reads.and_then(|r| r.get("max")) {
            Some(Fact::Most(n) | Fact::Took(n) | Fact::Driver(n) | Fact::Is(n)) => *n,
            None => 1,
        };
        let run = Run {
            other,
            mem: &mem,
            mr: &mr,
            there: &there,
            reads: u8::try_from(reads).unwrap_or(u8::MAX),
        };
        for mtu in [MTU_4096, MTU_1024] {
            for op in [WRITE, READ] {
                f.sent.extend(self.stream(&run, op, mtu, 1, LONG).ok());
            }
        }
        // Twice: a program that has to wait between two queue pairs shows too little.
        for n in [1, 4, 8, 1, 4, 8, 32] {
            f.sent
                .extend(self.stream(&run, WRITE, MTU_4096, n, 64).ok());
        }
        self.silence(other, f);
    }

    /// Requests of `len` bytes by `n` queue pairs at a time.
    fn stream(&self, r: &Run, op: c_int, mtu: c_int, n: usize, len: usize) -> Made<Sent> {
        self.drain();
        let deep = IbvQpCap {
            max_send_wr: DEPTH,
            ..cap()
        };
        let mut pairs: Vec<(Qp, Qp)> = vec![];
        for _ in 0..n {
            let (a, b) = (self.qp(RC, deep)?, r.other.qp(RC, cap())?);
            // what a card drops of its own comes again soon
            let p = Patience {
                timeout: 14,
                ..Patience::default()
            };
            self.meet(r.other, &a, &b, mtu, r.reads, p)?;
            pairs.push((a, b));
        }
        let mut s = IbvSge {
            addr: r.mem.at(0),
            length: len as u32,
            lkey: r.mr.keys().0,
        };
        let count = if len == LONG { LONGS } else { SHORTS };
        let mut all: Vec<_> = (0..count)
            .map(|k| {
                let mut w = wr(op, &mut s);
                w.wr = [r.mem.at(LONG), r.there.keys().1.into(), 0, 0];
                if k + 1 < count {
                    w.send_flags = 0;
                }
                w
            })
            .collect();
        for (a, _) in &pairs {
            a.send_all(&mut all)?;
        }
        for _ in &pairs {
            self.wait().filter(|c| c.status == 0).ok_or(libc::EIO)?;
        }
        // payload of a READ goes to who asked
        let towards = pairs.iter().map(|(a, b)| match op {
            READ => a.number(),
            _ => b.number(),
        });
        Ok(Sent {
            kind: if op == READ { Kind::Read } else { Kind::Write },
            to: towards.collect(),
            from: vec![],
            mtu: 128 << mtu,
            message: len as u64,
            code: 0,
        })
    }

    /// Brings both up, on two devices or on one.
    fn meet(&self, other: &Bench, a: &Qp, b: &Qp, mtu: c_int, reads: u8, p: Patience) -> Made<()> {
        let to = |gid| Patience {
            gid: Some(gid),
            ..p
        };
        self.up_with(a, b.number(), mtu, Some(reads), to(other.gid))?;
        other.up_with(b, a.number(), mtu, Some(reads), to(self.gid))
    }

    /// Requests that nobody answers, and messages for which nobody has a buffer. They are empty, so that nothing is fetched when they are sent again.
    fn silence(&self, other: &Bench, f: &mut Facts) {
        let mut kept = vec![];
        for (kind, codes) in [(Kind::Timeout, TIMEOUTS), (Kind::Rnr, RNRS)] {
            let all = codes
                .into_iter()
                .flat_map(|(code, n)| (0..n).map(move |_| code));
            for code in all {
                self.drain();
                let (Ok(a), Ok(b)) = (self.qp(RC, cap()), other.qp(RC, cap())) else {
                    return;
                };
                let mut p = Patience {
                    retries: AGAIN,
                    rnr_retries: AGAIN,
                    ..Patience::default()
                };
                match kind {
                    Kind::Timeout => p.timeout = code,
                    _ => p.min_rnr = code,
                }
                // of a timeout the other one is never brought up
                let up = match kind {
                    Kind::Timeout => {
                        p.gid = Some(other.gid);
                        self.up_with(&a, b.number(), MTU_1024, Some(1), p)
                    }
                    _ => self.meet(other, &a, &b, MTU_1024, 1, p),
                };
                let mut none = self.sge(0, 1);
                let mut w = wr(SEND, &mut none);
                w.num_sge = 0;
                let failed = up.is_ok()
                    && a.send(&mut w).is_ok()
                    && self.wait().is_some_and(|c| c.status != 0);
                if failed {
                    f.sent.push(Sent {
                        kind,
                        to: vec![b.number()],
                        from: vec![a.number()],
                        mtu: 1024,
                        message: 0,
                        code,
                    });
                }
                // no number is used again while the next ones run
                kept.push((a, b));
            }
        }
    }
}
