//! The window unit against a model, in the cycle in which it decides; every run also compares rust-hdl with Verilator.
mod rsp;

use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::inputs;
use metaroce_rtl::layouts::MrCheck;
use metaroce_rtl::window::{order, WinInv, WinJob, WinOrder, Windows};
use rsp::*;

const MRS: u64 = 16;

/// What the three askers want.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Order(WinOrder),
    Inv(WinInv),
    Job(WinJob),
}

struct Model {
    t: Vec<MrCheck>,
    /// Windows of each MR, modulo 2^16.
    count: Vec<u64>,
}

impl Model {
    fn entry(&self, key: u64) -> Option<&MrCheck> {
        self.t.get((key >> 8) as usize)
    }

    /// Written from the rules of verbs: the answer, and the entry that changes.
    fn decide(&mut self, a: &Ask) -> (bool, Option<(usize, MrCheck)>) {
        let unbind = |m: &mut Model, w: &MrCheck| {
            if w.valid {
                let c = &mut m.count[num(w.parent) as usize];
                *c = c.wrapping_sub(1) & 0xFFFF;
            }
        };
        match *a {
            Ask::Order(o) => {
                let i = num(o.mr) as usize;
                match num(o.op) as u128 {
                    order::CLOSE => match self.count[i] {
                        0 => (true, Some((i, MrCheck::default()))),
                        _ => (false, None),
                    },
                    order::DROP => {
                        let w = self.t[i];
                        if w.window {
                            unbind(self, &w);
                        }
                        (true, Some((i, MrCheck::default())))
                    }
                    _ => {
                        self.count[i] = 0;
                        (true, None)
                    }
                }
            }
            Ask::Inv(WinInv { key, qpn, pd }) => self.invalidate(num(key), num(qpn), num(pd)),
            Ask::Job(j) if !j.binds => self.invalidate(num(j.key), num(j.qpn), num(j.pd)),
            Ask::Job(j) => {
                let (key, lkey, va, len) = (num(j.key), num(j.lkey), num(j.va), num(j.len));
                let Some(w) = self.entry(key).copied() else {
                    return (false, None);
                };
                if !w.window || w.pd != j.pd {
                    return (false, None);
                }
                let mine = w.qpn == j.qpn;
                if w.type2 && w.valid && (len != 0 || !mine) {
                    return (false, None);
                }
                if len != 0 {
                    let may = self.entry(lkey).is_some_and(|m| {
                        m.valid
                            && !m.window
                            && num(m.variant) == lkey & 0xFF
                            && m.pd == j.pd
                            && m.mw_bind
                            && (m.local_write || !(j.write || j.atomic))
                            && va >= num(m.va)
                            && va as u128 + len as u128 <= num(m.va) as u128 + num(m.len) as u128
                    });
                    if !may {
                        return (false, None);
                    }
                }
                unbind(self, &w);
                if len != 0 {
                    let c = &mut self.count[(lkey >> 8) as usize];
                    *c = (*c + 1) & 0xFFFF;
                }
                let e = MrCheck {
                    valid: len != 0,
                    local_write: false,
                    remote_write: j.write,
                    remote_read: j.read,
                    remote_atomic: j.atomic,
                    variant: (key & 0xFF).into(),
                    qpn: j.qpn,
                    va: j.va,
                    len: j.len,
                    parent: (lkey >> 8 & 0xFFFF).into(),
                    ..w
                };
                (true, Some(((key >> 8) as usize, e)))
            }
        }
    }

    fn invalidate(&mut self, key: u64, qpn: u64, pd: u64) -> (bool, Option<(usize, MrCheck)>) {
        let Some(w) = self.entry(key).copied() else {
            return (false, None);
        };
        let same = num(w.variant) == key & 0xFF && num(w.qpn) == qpn && num(w.pd) == pd;
        if !(w.window && w.type2 && w.valid && same) {
            return (false, None);
        }
        let c = &mut self.count[num(w.parent) as usize];
        *c = c.wrapping_sub(1) & 0xFFFF;
        (
            true,
            Some(((key >> 8) as usize, MrCheck { valid: false, ..w })),
        )
    }
}

/// An entry like those of the sequencer: MRs below 8, windows from there on, now and then nothing.
fn fresh(i: u64, rng: &mut Rng) -> MrCheck {
    if rng.p(0.1) {
        return MrCheck::default();
    }
    let pd = if rng.p(0.95) { 5u64 } else { 9 };
    if i >= MRS / 2 {
        return MrCheck {
            window: true,
            type2: rng.p(0.6),
            variant: rng.below(256).into(),
            pd: pd.into(),
            ..Default::default()
        };
    }
    let len = 1 + rng.below(1 << 40);
    let va = if i == 3 {
        u64::MAX - len + 1
    } else {
        rng.next() >> 1
    };
    MrCheck {
        valid: !rng.p(0.1),
        local_write: !rng.p(0.2),
        remote_write: rng.p(0.5),
        mw_bind: !rng.p(0.1),
        variant: rng.below(256).into(),
        pd: pd.into(),
        va: va.into(),
        len: len.into(),
        ..Default::default()
    }
}

/// A key that is mostly right.
fn key(m: &Model, i: u64, rng: &mut Rng) -> u64 {
    let k = i << 8 | num(m.t[i as usize].variant);
    if rng.p(0.03) {
        k ^ 1 << rng.below(32)
    } else {
        k
    }
}

fn job(m: &Model, binds: bool, rng: &mut Rng) -> WinJob {
    // an end is mostly that of a binding
    let bound = |i: &u64| m.t[*i as usize].window && m.t[*i as usize].valid;
    let all: Vec<u64> = (0..MRS).filter(bound).collect();
    let w = match all.len() as u64 {
        n if n > 0 && !binds && rng.p(0.8) => all[rng.below(n) as usize],
        _ => MRS / 2 + rng.below(MRS / 2),
    };
    let i = if rng.p(0.05) {
        rng.below(MRS)
    } else {
        1 + rng.below(MRS / 2 - 1)
    };
    let r = &m.t[i as usize];
    let room = num(r.len);
    let len = match rng.below(6) {
        0 => 0,
        1 => room,
        2 => 1,
        _ => rng.below(room + 1),
    };
    let slack = room - len;
    let mut va = num(r.va).wrapping_add([0, slack, rng.below(slack + 1)][rng.below(3) as usize]);
    if rng.p(0.1) {
        va = va.wrapping_add(slack + 1);
    } else if rng.p(0.05) {
        va = num(r.va).wrapping_sub(1);
    }
    let own = num(m.t[w as usize].qpn);
    WinJob {
        binds,
        key: key(m, w, rng).into(),
        qpn: (if rng.p(0.85) { own } else { rng.below(4) }).into(),
        pd: (if rng.p(0.97) { 5u64 } else { 9 }).into(),
        lkey: key(m, i, rng).into(),
        va: va.into(),
        len: len.into(),
        write: rng.p(0.5),
        read: rng.p(0.5),
        atomic: rng.p(0.3),
    }
}

#[test]
fn random_requests() {
    for (seed, writes) in [(1u64, 0.015), (2, 0.04)] {
        println!("seed {seed}");
        let mut rng = Rng(seed);
        let mut m = Model {
            t: vec![MrCheck::default(); MRS as usize],
            count: vec![0; MRS as usize],
        };
        let mut ask: [Option<Ask>; 3] = [None; 3];
        // a change that the unit made and has not answered yet: where, what, and the entries before
        let mut made = None::<(usize, MrCheck, Vec<MrCheck>)>;
        // since then: the responder was between packets; its jobs up to then were taken
        let (mut calm, mut drained) = (false, false);
        // inputs of the cycle before
        let (mut wrote, mut ins) = (None::<(usize, MrCheck)>, (false, false, false));
        let mut stats = [[0; 2]; 3];
        let mut ended = 0;
        Diff::new(
            &format!("windows_{seed}"),
            Windows::<4>::default,
            inputs!(
                rst, s_we, s_waddr, s_wdata, ord_valid, ord_data, inv_valid, inv_data, job_valid,
                job_data, calm, pl_valid, pl_ready
            ),
        )
        .cycles(16_000)
        .stim(|s| {
            let t = s.cycle;
            s.set("rst", (t < 2) as u8);
            for (k, n) in ["ord", "inv", "job"].iter().enumerate() {
                if t < 3 || s.out_u64(&format!("{n}_done")) == 0 {
                    continue;
                }
                let ok = match k {
                    0 => s.out_u64("ord_busy") == 0,
                    _ => s.out_u64(&format!("{n}_ok")) == 1,
                };
                let a = ask[k].take().expect("an answer to nobody");
                // what was decided, on the entries of that time
                let now = m.t.clone();
                let change = made.take().map(|(i, e, before)| {
                    m.t = before;
                    (i, raw(e))
                });
                let key = match a {
                    Ask::Job(j) => num(j.key) as usize >> 8,
                    _ => 0,
                };
                let ends = m.t.get(key).is_some_and(|w| w.window && w.valid);
                let (want, entry) = m.decide(&a);
                m.t = now;
                assert_eq!(ok, want, "cycle {t}: {a:?}");
                let entry = entry.map(|(i, e)| (i, raw(e)));
                assert_eq!(change, entry, "cycle {t}: {a:?}");
                if ok && k == 2 && ends {
                    assert!(drained, "answered too early in cycle {t}");
                    ended += 1;
                }
                stats[k][ok as usize] += 1;
            }
            if made.is_some() {
                if calm && (!ins.1 || ins.2) {
                    drained = true;
                }
                calm |= ins.0;
            }
            match wrote.take() {
                Some((i, e)) => {
                    let got = (s.out_u64("we"), s.out_u64("waddr"), s.out("wdata"));
                    assert_eq!(got, (1, i as u64, raw(e)), "the sequencer's writes pass");
                    m.t[i] = e;
                }
                None if t > 2 && s.out_u64("we") == 1 => {
                    let (i, e) = (s.out_u64("waddr") as usize, un::<MrCheck>(&s.out("wdata")));
                    assert!(made.is_none(), "one change a request");
                    made = Some((i, e, m.t.clone()));
                    (calm, drained) = (false, false);
                    m.t[i] = e;
                }
                None => {}
            }
            // the table first, then everything
            if t > 20 && (t < 40 || rng.p(writes)) {
                let gone = m.t.iter().skip(1).position(|e| !e.valid && !e.window);
                let i = match gone {
                    _ if t < 40 => t as u64 % MRS,
                    Some(k) if rng.p(0.8) => k as u64 + 1,
                    _ => rng.below(MRS),
                };
                let e = fresh(i, &mut rng);
                wrote = Some((i as usize, e));
                s.set("s_wdata", raw(e));
                s.set("s_waddr", i);
            }
            s.set("s_we", wrote.is_some() as u8);
            if t > 50 && t < 15_800 {
                if ask[0].is_none() && rng.p(0.02) {
                    let mut i = 1 + rng.below(MRS - 1);
                    if let (true, Some(k)) = (rng.p(0.5), m.count.iter().position(|c| *c > 0)) {
                        i = k as u64;
                    }
                    let op = if i >= MRS / 2 {
                        order::DROP
                    } else if rng.p(0.8) {
                        order::CLOSE
                    } else {
                        order::NEW
                    };
                    ask[0] = Some(Ask::Order(WinOrder {
                        op: (op as u64).into(),
                        mr: i.into(),
                    }));
                }
                if ask[1].is_none() && rng.p(0.02) {
                    let j = job(&m, false, &mut rng);
                    ask[1] = Some(Ask::Inv(WinInv {
                        key: j.key,
                        qpn: j.qpn,
                        pd: j.pd,
                    }));
                }
                if ask[2].is_none() && rng.p(0.1) {
                    let binds = rng.p(0.7);
                    ask[2] = Some(Ask::Job(job(&m, binds, &mut rng)));
                }
            }
            for (k, n) in ["ord", "inv", "job"].iter().enumerate() {
                s.set(&format!("{n}_valid"), ask[k].is_some() as u8);
                let data = match ask[k] {
                    Some(Ask::Order(o)) => raw(o),
                    Some(Ask::Inv(v)) => raw(v),
                    Some(Ask::Job(j)) => raw(j),
                    None => continue,
                };
                s.set(&format!("{n}_data"), data);
            }
            ins = (rng.p(0.2), rng.p(0.8), rng.p(0.3));
            s.set("calm", ins.0 as u8);
            s.set("pl_valid", ins.1 as u8);
            s.set("pl_ready", ins.2 as u8);
        })
        .run();
        println!("{stats:?}, {ended} bindings ended");
        assert!(stats.iter().flatten().all(|n| *n > 5) && ended > 20);
        assert!(ask.iter().all(|a| a.is_none()));
    }
}
