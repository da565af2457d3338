//! What many QPs, and a QP that misbehaves, cost the others: card time, scripted hosts.

use crate::{
    bench::{flow, Alone, Beside, Flow, Throughput, AT_ONCE},
    pair::{Pair, ALL_ACCESS},
    script::{mask, Conn, Cqe, Host, Qp},
    sim::SimConfig,
};
use metaroce_hdl_spec::{cmd, wqe::op};

/// WRITEs of 64 bytes over `qps` QPs, `in_flight` in all.
pub fn small_writes(qps: usize, in_flight: usize, messages: usize) -> Flow {
    Flow {
        op: op::WRITE,
        bytes: 64,
        qps,
        depth: (in_flight / qps).max(1),
        mtu: 5,
        both_ways: false,
        messages,
    }
}

/// Two cards with `qps` connected QPs; each row of a table uses some of them.
pub fn many(qps: usize) -> Pair {
    let conn = Conn {
        timeout: 18,
        ..Conn::default()
    };
    // Commands are not what is measured: a host that answers at once for them.
    let fast = SimConfig {
        host: AT_ONCE,
        ..SimConfig::default()
    };
    let mut p = Pair::new(&fast, 0, 4096 * 4096, &conn);
    for k in 0..qps {
        // 512 units: the deepest flow has 256 requests of two units on one QP
        p.add(&conn, 9, 1);
        if k % 256 == 255 {
            eprintln!("bench: {} of {qps} QPs connected", k + 1);
        }
    }
    for n in &mut p.sim.nodes {
        n.host.set_config(SimConfig::default().host);
    }
    p
}

/// How the QPs (or the process) beside the clean QP behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// WRITEs like those of the clean QP: what a fair share leaves.
    Clean,
    /// SENDs to a peer that posts no receive and asks for the shortest wait; rnr_retry 7, so for ever.
    Rnr,
    /// Requests to a QP that is not there, with the shortest timeout, again from RESET after each RETRY_EXC.
    RetryStorm,
    /// WRITEs with an rkey that nobody has; both ends come back from ERR each time.
    BadKeys,
    /// A process on the receiving host registers and deregisters memory without a pause.
    DeregLoop,
}

pub const ATTACKS: [Attack; 5] = [
    Attack::Clean,
    Attack::Rnr,
    Attack::RetryStorm,
    Attack::BadKeys,
    Attack::DeregLoop,
];

impl Attack {
    pub fn name(self) -> &'static str {
        match self {
            Attack::Clean => "clean",
            Attack::Rnr => "receiver never ready, `rnr_retry` 7, shortest wait",
            Attack::RetryStorm => "nobody answers, shortest timeout, again and again",
            Attack::BadKeys => "bad rkeys, again and again",
            Attack::DeregLoop => "REG_MR and DEREG_MR in a loop on the receiving card",
        }
    }
}

/// A misbehaving QP (QP 1 of the pair), or process.
pub struct Attacker {
    kind: Attack,
    bytes: u32,
    /// QP 1, ready to be used again.
    up: bool,
    left: usize,
    other: Option<Other>,
    /// Rounds: restarts of the QP, or MRs that came and went.
    pub rounds: u64,
}

/// A process of its own on card 1.
struct Other {
    host: Host,
    pd: u32,
    key: Option<u32>,
    waits: bool,
}

const DEPTH: usize = 16;

impl Attacker {
    /// `bytes` per message.
    pub fn new(p: &mut Pair, kind: Attack, bytes: u32) -> Attacker {
        let other = (kind == Attack::DeregLoop).then(|| {
            let mut host = Host::new(&mut p.sim, 1, 2);
            let pd = host.alloc_pd(&mut p.sim);
            Other {
                host,
                pd,
                key: None,
                waits: false,
            }
        });
        let mut a = Attacker {
            kind,
            bytes,
            up: false,
            left: 0,
            other,
            rounds: 0,
        };
        if kind != Attack::DeregLoop {
            a.start(p);
        }
        a
    }

    /// QP 1 from RESET to RTS, and its requests.
    fn start(&mut self, p: &mut Pair) {
        let mut conn = Conn {
            timeout: 14,
            ..Conn::default()
        };
        match self.kind {
            Attack::Rnr => conn.min_rnr = 1,
            Attack::RetryStorm => (conn.timeout, conn.retry_cnt) = (1, 7),
            _ => {}
        }
        if p.ends[0].qps.len() == 1 {
            p.create(8, 4);
        }
        if self.kind == Attack::RetryStorm {
            let qp = p.ends[0].qps[1].clone();
            let nobody = p.ends[1].qps[1].qpn ^ 0x80_0000;
            p.ends[0].host.connect(&mut p.sim, &qp, 1, nobody, &conn);
        } else {
            p.connect(1, &conn);
        }
        self.up = true;
        self.left = 0;
        while self.left < DEPTH {
            self.post(p);
        }
    }

    fn post(&mut self, p: &mut Pair) {
        let slot = 0x80_0000 + self.left as u64 * 0x2_0000;
        let mut wr = match self.kind {
            Attack::Rnr => p.send(0, slot, self.bytes, None),
            _ => p.rdma(0, op::WRITE, slot, slot, self.bytes),
        };
        if self.kind == Attack::BadKeys {
            wr.rkey ^= 0x55;
        }
        p.post(0, 1, &wr);
        self.left += 1;
    }
}

impl Beside for Attacker {
    fn tick(&mut self, p: &mut Pair) {
        if let Some(o) = &mut self.other {
            if o.waits {
                let Some(r) = o.host.poll_end(&mut p.sim) else {
                    return;
                };
                let r = r.expect("REG_MR or DEREG_MR");
                o.key = o.key.is_none().then(|| cmd::response::id.get(&r) as u32);
                self.rounds += o.key.is_none() as u64;
            }
            match o.key {
                None => {
                    let (pd, at) = (o.pd, 0x1_0000_0000u64);
                    o.host
                        .begin_mr(&mut p.sim, None, pd, at, at, 0x1_0000, ALL_ACCESS);
                }
                Some(key) => o.host.begin(&mut p.sim, cmd::op::DEREG_MR, key, |_| {}),
            }
            o.waits = true;
        }
        if self.kind != Attack::DeregLoop && !self.up {
            self.rounds += 1;
            let set = [(cmd::modify_qp::next_state, 0)];
            for end in p.ends.iter_mut() {
                let Qp { qpn, .. } = end.qps[1];
                end.host
                    .modify(&mut p.sim, qpn, mask::STATE, &set)
                    .expect("to RESET");
                (end.qps[1].pi, end.qps[1].rpi) = (0, 0);
            }
            self.start(p);
        }
    }

    fn completion(&mut self, p: &mut Pair, e: usize, c: Cqe) {
        assert!(e == 0 && c.qpn == p.ends[0].qps[1].qpn, "card {e}: {c:?}");
        self.left -= 1;
        if c.status == 0 {
            assert!(self.kind == Attack::Clean, "{c:?}");
            self.post(p);
        } else if self.left == 0 {
            // all flushed
            self.up = false;
        }
    }
}

/// The clean QP's figures, alone and beside each kind of neighbour.
pub fn isolation(f: &Flow, kind: Option<Attack>) -> (Throughput, u64) {
    isolation_after(f, kind, 0)
}

/// The same with a neighbour that comes `cycles` later, and so has another QPN: timers are looked at in the order of the QPs.
pub fn isolation_after(f: &Flow, kind: Option<Attack>, cycles: u32) -> (Throughput, u64) {
    let conn = Conn {
        mtu: f.mtu,
        timeout: 18,
        ..Conn::default()
    };
    let mut p = Pair::new(&SimConfig::default(), 1, 0x100_0000, &conn);
    assert!(f.span() <= 0x80_0000 && f.qps == 1);
    match kind {
        None => (flow(&mut p, f, &mut Alone), 0),
        Some(kind) => {
            p.run(cycles);
            let mut a = Attacker::new(&mut p, kind, f.bytes);
            let t = flow(&mut p, f, &mut a);
            (t, a.rounds)
        }
    }
}
