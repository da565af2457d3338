//! Behaviour of the requester's timers against a table of deadlines; its differential test is with the requester's other parts.

use metaroce_rtl::diff::Rng;
use metaroce_rtl::requester::Timer;
use rust_hdl::prelude::*;

const LOG_QP: usize = 3;
const N: u64 = 1 << LOG_QP;

struct Bench {
    u: Box<Timer<LOG_QP>>,
    now: u64,
    /// Deadline of each QP, and the cycle of its last write.
    at: [Option<u64>; N as usize],
    cycle: u64,
}

impl Bench {
    fn new() -> Bench {
        let mut u = Box::<Timer<LOG_QP>>::default();
        u.connect_all();
        let mut b = Bench {
            u,
            now: 0,
            at: [None; N as usize],
            cycle: 0,
        };
        b.u.rst.next = true;
        b.step(None, true);
        b.u.rst.next = false;
        b
    }

    /// One cycle; the QP that was reported, if any.
    fn step(&mut self, write: Option<(usize, Option<u64>)>, ready: bool) -> Option<usize> {
        let u = &mut *self.u;
        u.clock.next = Clock { clk: false };
        u.now.next = self.now.into();
        u.we.next = write.is_some();
        if let Some((q, at)) = write {
            u.qp.next = (q as u64).into();
            u.on.next = at.is_some();
            u.at.next = at.unwrap_or(7).into();
            self.at[q] = at;
        }
        u.m_ready.next = ready;
        assert!(simulate(u, 50));
        let hit = (u.m_valid.val() && ready).then(|| u.m_qp.val().index());
        let (dv, due) = (u.due_valid.val(), u.due.val().to_u64());
        u.clock.next = Clock { clk: true };
        assert!(simulate(u, 50));
        self.cycle += 1;
        if dv {
            // a simulator may sleep until `due`: never past a deadline
            for at in self.at.iter().flatten() {
                assert!(
                    due <= *at << 10,
                    "cycle {}: due {due}, but a deadline is at {}",
                    self.cycle,
                    at << 10
                );
            }
        }
        hit
    }

    fn rests(&self) -> bool {
        self.u.due_valid.val()
    }
}

/// Under random writes, at most every second cycle, an expired deadline is reported within its bound, and nothing is reported that never expired.
#[test]
fn expiry_is_found_in_time() {
    for seed in 1..=6 {
        let mut rng = Rng(seed);
        let mut b = Bench::new();
        let mut late = [0u64; N as usize];
        let (mut hits, mut wrote) = (0, false);
        for _ in 0..20_000 {
            let write = (!wrote && rng.p(0.2)).then(|| {
                let q = rng.below(N) as usize;
                (q, rng.p(0.8).then(|| b.now + 1 + rng.below(40)))
            });
            wrote = write.is_some();
            if let Some((q, _)) = write {
                late[q] = 0;
            }
            if let Some(q) = b.step(write, true) {
                // the receiver compares again: an old report is allowed, and answered by nothing
                if b.at[q].is_some_and(|at| at <= b.now) {
                    hits += 1;
                    b.at[q] = None;
                    b.step(Some((q, None)), true);
                    late[q] = 0;
                    wrote = true;
                }
            }
            for q in 0..N as usize {
                if b.at[q].is_some_and(|at| at <= b.now) {
                    late[q] += 1;
                    // each write costs the scan a cycle, each report its answer
                    assert!(
                        late[q] <= 3 * (N + 4),
                        "seed {seed}: QP {q} waits {} cycles",
                        late[q]
                    );
                }
            }
            if rng.p(0.3) {
                b.now += 1;
            }
        }
        assert!(hits > 500, "seed {seed}: {hits}");
    }
}

/// While deadlines are only moved away, the scan keeps resting; when the old earliest one has passed, one round finds the true one.
#[test]
fn writes_cost_no_round() {
    let mut b = Bench::new();
    for q in 0..N as usize {
        b.step(Some((q, Some(1000 + q as u64))), true);
    }
    for _ in 0..3 * N {
        b.step(None, true);
    }
    assert!(b.rests());
    for k in 0..50 {
        b.step(Some((k as usize % N as usize, Some(5000 + k))), true);
        b.step(None, true);
        b.step(None, true);
        assert!(b.rests(), "a later deadline began a round");
    }
    assert_eq!(b.u.due.val().to_u64(), 1000 << 10);
    // an earlier one counts at once
    b.step(Some((2, Some(900))), true);
    b.step(None, true);
    b.step(None, true);
    assert!(b.rests());
    assert_eq!(b.u.due.val().to_u64(), 900 << 10);
    b.step(Some((2, Some(6000))), true);
    b.now = 1000;
    for _ in 0..3 * N {
        assert_eq!(b.step(None, true), None);
    }
    assert!(b.rests());
    assert_eq!(b.u.due.val().to_u64(), 5043 << 10);
}
