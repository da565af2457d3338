//! A plain log of the wire, for tests that break the connection.

use super::cover;
use metaroce_hdl_spec::cqe;
use metaroce_protocol::{Frame, Syndrome};
use metaroce_tb::{
    fabric::Seen,
    pair::Pair,
    script::{Conn, Cqe},
    sim::SimConfig,
};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)]
pub struct Entry {
    pub from: usize,
    pub at_ps: u64,
    pub opcode: u8,
    pub qpn: u32,
    pub psn: u32,
    pub syndrome: Option<Syndrome>,
}

#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Entry>>>);

impl Log {
    pub fn new(p: &mut Pair) -> Log {
        let l = Log::default();
        let m = l.clone();
        p.sim.fabric.tap = Some(Box::new(move |what, from, f| {
            if what != Seen::Sent {
                return;
            }
            let v = Frame::new_checked(&f.data).expect("a card sent a frame that is not legal");
            cover::frame(&f.data);
            m.0.lock().expect("log").push(Entry {
                from,
                at_ps: f.start_ps,
                opcode: v.roce.opcode().0,
                qpn: v.roce.dest_qpn(),
                psn: v.roce.psn().get(),
                syndrome: v.roce.ext().aeth.map(|a| a.syndrome),
            });
        }));
        l
    }
    pub fn clear(&self) {
        self.0.lock().expect("log").clear();
    }
    pub fn all(&self) -> Vec<Entry> {
        self.0.lock().expect("log").clone()
    }
    /// Requests that card `from` sent.
    pub fn requests(&self, from: usize) -> Vec<Entry> {
        let mut v = self.all();
        v.retain(|e| e.from == from && e.syndrome.is_none() && !(0x0d..=0x12).contains(&e.opcode));
        v
    }
    /// Syndromes other than ACK that card `from` sent.
    pub fn refusals(&self, from: usize) -> Vec<Syndrome> {
        let v = self.all().into_iter().filter(|e| e.from == from);
        v.filter_map(|e| e.syndrome)
            .filter(|s| !matches!(s, Syndrome::Ack { .. }))
            .collect()
    }
}

/// A pair with a log and `qps` connected QPs, on a clean wire.
pub fn pair(qps: usize, len: u64, conn: &Conn) -> (Pair, Log) {
    let mut p = Pair::new(
        &SimConfig {
            cards: 2,
            ..SimConfig::default()
        },
        qps,
        len,
        conn,
    );
    let l = Log::new(&mut p);
    (p, l)
}

/// The next `n` completions of end `e`: (index, status, is_recv).
pub fn take(p: &mut Pair, e: usize, n: usize) -> Vec<(u16, u8, bool)> {
    (0..n)
        .map(|_| {
            let c: Cqe = p.wait(e, 4_000_000);
            cover::add("status", cover::name(cqe::status::TABLE, c.status), 1);
            (c.index, c.status, c.is_recv)
        })
        .collect()
}

/// The next event of end `e`; panics if none comes within some time.
pub fn event(p: &mut Pair, e: usize) -> (u8, u32) {
    for _ in 0..20_000 {
        if let Some(v) = p.ends[e].host.poll_event(&mut p.sim) {
            cover::add("event", cover::name(cqe::event::TABLE, v.0), 1);
            return v;
        }
        p.sim.step();
    }
    panic!("no event on card {e}");
}

/// Nothing more comes.
pub fn quiet(p: &mut Pair) {
    p.run(5000);
    assert_eq!(
        (p.poll(0), p.poll(1)),
        (None, None),
        "one completion too many"
    );
}
