//! When the transfer of a queue pair began and ended, and what came in meanwhile: the goodput of a run is that of its busiest queue pair's time. Connections that
//! only set a test up (perftest's exchange of parameters with `-R`) neither stretch it nor count.
//!
//! Time is that of the wire: from the first bit of the first frame that carries work (has a stamp) to the last bit of the last one that brought something. Who resends
//! behind the end of the program is not part of it.

use crate::hostport::HostPortStats;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// Totals of a card at one time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub payload_bytes: u64,
    pub messages: u64,
    pub datagrams: u64,
    pub grh_bytes: u64,
    pub quiet_ps: u64,
}

impl Totals {
    fn of(s: &HostPortStats) -> Totals {
        Totals {
            payload_bytes: s.payload_bytes,
            messages: s.messages,
            datagrams: s.datagrams,
            grh_bytes: s.grh_bytes,
            quiet_ps: s.quiet_ps,
        }
    }
}

/// One queue pair's transfer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Window {
    pub qpn: u32,
    /// Payload of this queue pair.
    pub bytes: u64,
    pub first_frame_ps: u64,
    pub last_frame_ps: u64,
    /// Totals before its first frame, and with its last payload.
    #[serde(skip)]
    begin: Totals,
    #[serde(skip)]
    end: Totals,
    /// Last bit of its last frame so far.
    #[serde(skip)]
    arrived_ps: u64,
}

impl Window {
    pub fn ps(&self) -> u64 {
        self.last_frame_ps.saturating_sub(self.first_frame_ps)
    }

    /// What all queue pairs got meanwhile.
    pub fn totals(&self) -> Totals {
        let (a, b) = (&self.begin, &self.end);
        Totals {
            payload_bytes: b.payload_bytes - a.payload_bytes,
            messages: b.messages - a.messages,
            datagrams: b.datagrams - a.datagrams,
            grh_bytes: b.grh_bytes - a.grh_bytes,
            quiet_ps: b.quiet_ps - a.quiet_ps,
        }
    }
}

/// Frames whose queue pair is remembered: more than the receive buffer holds.
const RECENT: usize = 4096;
/// Queue pairs at a time; a number has its table index in the low bits.
const INDEX: u32 = (1 << metaroce_hdl_spec::config::SIM_100G.log_qp) - 1;

#[derive(Default)]
pub struct Windows {
    /// By table index: what came before under another number of the same index is over.
    open: HashMap<u32, Window>,
    /// Stamps of the last frames: payload writes carry nothing else.
    recent: VecDeque<(u64, u32)>,
}

impl Windows {
    /// A frame for a queue pair; `s` is without it.
    pub fn frame(&mut self, qpn: u32, stamp: u64, first_ps: u64, last_ps: u64, s: &HostPortStats) {
        if self.recent.back() != Some(&(stamp, qpn)) {
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back((stamp, qpn));
        }
        let new = Window {
            qpn,
            first_frame_ps: first_ps,
            last_frame_ps: last_ps,
            begin: Totals::of(s),
            end: Totals::of(s),
            ..Window::default()
        };
        let w = self.open.entry(qpn & INDEX).or_insert(new);
        if w.qpn != qpn {
            *w = new;
        }
        w.arrived_ps = w.arrived_ps.max(last_ps);
    }

    /// A payload write, which `s` has already.
    pub fn payload(&mut self, stamp: u64, bytes: u64, s: &mut HostPortStats) {
        let Some(&(_, qpn)) = self.recent.iter().rev().find(|r| r.0 == stamp) else {
            return;
        };
        let Some(w) = self.open.get_mut(&(qpn & INDEX)).filter(|w| w.qpn == qpn) else {
            return;
        };
        w.bytes += bytes;
        w.last_frame_ps = w.arrived_ps;
        w.end = Totals::of(s);
        // Of equal ones the last to end.
        if w.bytes >= s.busiest.bytes {
            s.busiest = *w;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Card {
        w: Windows,
        s: HostPortStats,
    }

    impl Card {
        /// A message of one frame, which takes 10 ps.
        fn message(&mut self, qpn: u32, at: u64, bytes: u64) {
            let stamp = at << 8 | 1;
            self.w.frame(qpn, stamp, at, at + 10, &self.s);
            self.s.messages += 1;
            self.s.payload_bytes += bytes;
            self.w.payload(stamp, bytes, &mut self.s);
        }
    }

    #[test]
    fn what_sets_a_test_up_is_not_part_of_it() {
        let mut c = Card::default();
        c.message(0x11_0003, 100, 200);
        c.message(0x11_0003, 5_000, 200);
        for k in 0..8 {
            c.message(0x22_0004, 50_000 + 20 * k, 1_000);
        }
        // A second one at the same time counts: its payload is on the same wire.
        c.message(0x33_0005, 50_150, 500);
        c.message(0x22_0004, 50_160, 1_000);
        c.message(0x11_0003, 900_000, 200);
        let b = c.s.busiest;
        assert_eq!((b.qpn, b.bytes), (0x22_0004, 9_000));
        assert_eq!((b.first_frame_ps, b.ps()), (50_000, 170));
        let t = b.totals();
        assert_eq!((t.payload_bytes, t.messages), (9_500, 10));
        assert_eq!((c.s.payload_bytes, c.s.messages), (10_100, 13));
    }

    #[test]
    fn resends_behind_the_end_do_not_count() {
        let mut c = Card::default();
        c.message(7, 100, 1_000);
        c.w.frame(7, 100 << 8 | 1, 800, 810, &c.s);
        assert_eq!(c.s.busiest.ps(), 10);
    }

    #[test]
    fn an_index_that_is_used_again() {
        let mut c = Card::default();
        c.message(0x11_0003, 100, 5_000);
        c.message(0x22_0003, 900, 400);
        assert_eq!((c.s.busiest.qpn, c.s.busiest.ps()), (0x11_0003, 10));
        c.message(0x22_0003, 1_000, 4_600);
        assert_eq!((c.s.busiest.qpn, c.s.busiest.ps()), (0x22_0003, 110));
        // Nobody knows these stamps.
        c.w.payload(1, 99_999, &mut c.s);
        assert_eq!(c.s.busiest.bytes, 5_000);
    }
}
