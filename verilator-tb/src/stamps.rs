//! Latency of single messages: when the doorbell of each came, and when its last byte was written at the other end.
//!
//! The card marks what it sends with QP and WQE ([`CODE`]). What goes over the wire instead is the time of the first doorbell
//! that covered this WQE, and enough of its index to tell the messages of one doorbell apart. It comes back with the payload writes.

use crate::node::MmioWrite;
use metaroce_hdl_spec::{config::SIM_100G, regs, wqe};
use std::collections::{HashMap, VecDeque};

/// This bit is set in what the requester makes: bits 27:16 the QP, 15:0 the unit index of the WQE.
pub const CODE: u64 = 1 << 47;
/// Set in what travels, so that it is never 0, which is "no work".
const SENT: u64 = 1 << 46;
/// Nanoseconds, modulo 2^36.
const TIME: u64 = (1 << 36) - 1;
/// Doorbells remembered per QP: rings are shorter, and older ones can't have work open.
const KEEP: usize = 1 << 15;
/// Messages that are open at a time, twice.
const OPEN: usize = 1 << 16;
/// Samples kept.
const MOST: usize = 4_000_000;

/// Send doorbells of one card: producer index and time, per QP.
#[derive(Default)]
pub struct Doorbells(HashMap<u16, VecDeque<(u16, u64)>>);

impl Doorbells {
    /// A BAR write that the card has taken at `now` ns.
    pub fn add(&mut self, w: &MmioWrite, now: u64) {
        let (qpn, pi) = match w.addr % regs::PAGE {
            regs::doorbell::SQ => (
                regs::db_queue::qpn.get(&w.data),
                regs::db_queue::pi.get(&w.data),
            ),
            regs::doorbell::DIRECT_WQE => (
                wqe::sq::qpn.get(&w.data),
                wqe::sq::index.get(&w.data) + wqe::sq::units.get(&w.data),
            ),
            _ => return,
        };
        let (qp, pi) = (qpn as u16 & ((1 << SIM_100G.log_qp) - 1), pi as u16);
        let of = self.0.entry(qp).or_default();
        if of.back().is_some_and(|b| pi.wrapping_sub(b.0) as i16 <= 0) {
            // Reset, or another QP.
            of.clear();
        }
        if of.len() == KEEP {
            of.pop_front();
        }
        of.push_back((pi, now));
    }

    /// What travels with a packet that the card has marked with `stamp`, sent at `now` ns.
    pub fn mark(&self, stamp: u64, now: u64) -> u64 {
        if stamp & CODE == 0 {
            return stamp;
        }
        let (qp, index) = ((stamp >> 16) as u16 & 0xFFF, stamp as u16);
        let rung = self.0.get(&qp).and_then(|of| {
            let k = of.partition_point(|(pi, _)| (pi.wrapping_sub(index) as i16) <= 0);
            of.get(k)
        });
        let at = rung.map_or(now, |r| r.1);
        SENT | (index as u64 & 0x3FF) << 36 | at & TIME
    }
}

/// Times from doorbell to the last payload write, a message each.
#[derive(Default)]
pub struct Latencies {
    open: HashMap<u64, u64>,
    before: HashMap<u64, u64>,
    samples: Vec<u32>,
}

impl Latencies {
    /// A payload write at `now` ns; true for the first one of its message.
    pub fn add(&mut self, stamp: u64, now: u64) -> bool {
        if let Some(t) = self.before.get_mut(&stamp) {
            *t = now;
            return false;
        }
        let new = self.open.insert(stamp, now).is_none();
        if self.open.len() >= OPEN {
            self.close();
        }
        new
    }

    /// What has been open longest can't get any later.
    fn close(&mut self) {
        let new = std::mem::take(&mut self.open);
        for (stamp, now) in std::mem::replace(&mut self.before, new) {
            if self.samples.len() < MOST {
                let ns = now.wrapping_sub(stamp) & TIME;
                self.samples.push(ns.min(u32::MAX as u64) as u32);
            }
        }
    }

    /// All since the last call, in no order.
    pub fn take(&mut self) -> Vec<u32> {
        self.close();
        self.close();
        std::mem::take(&mut self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(d: &mut Doorbells, qpn: u64, pi: u16, now: u64) {
        let at = 2 * regs::PAGE + regs::doorbell::SQ;
        d.add(&MmioWrite::u64(at, qpn | (pi as u64) << 32), now);
    }

    fn code(qp: u64, index: u16) -> u64 {
        CODE | qp << 16 | index as u64
    }

    #[test]
    fn each_message_has_its_own_doorbell() {
        let mut d = Doorbells::default();
        ring(&mut d, 0xABC005, 0xFFFE, 100);
        ring(&mut d, 0xABC005, 3, 200);
        ring(&mut d, 0x123006, 1, 300);
        let mut l = Latencies::default();
        for (qp, index, rung) in [
            (5, 0xFFFD, 100),
            (5, 0xFFFE, 200),
            (5, 0, 200),
            (5, 2, 200),
            (6, 0, 300),
        ] {
            let s = d.mark(code(qp, index), 999);
            assert_eq!(s & CODE, 0);
            // Its packets are among those of others.
            l.add(s, 5000);
            l.add(d.mark(code(6, 0), 999), 5100);
            l.add(s, 6000 + rung);
        }
        let mut got = l.take();
        got.sort_unstable();
        assert_eq!(got, [6000; 5]);
        assert_eq!(l.take(), []);
        // What came from the other card stays.
        assert_eq!(d.mark(77, 999), 77);
        // A new life of the QP.
        ring(&mut d, 0xDEF005, 1, 400);
        assert_eq!(d.mark(code(5, 0), 999) & TIME, 400);
        // Nobody knows its doorbell.
        assert_eq!(d.mark(code(9, 0), 999) & TIME, 999);
    }

    #[test]
    fn many_messages() {
        let mut l = Latencies::default();
        for k in 0..3 * OPEN as u64 {
            l.add(SENT | (k & 0x3FF) << 36 | k >> 2, (k >> 2) + 40);
        }
        let got = l.take();
        assert_eq!(got.len(), 3 * OPEN);
        assert!(got.iter().all(|ns| *ns == 40));
    }
}
