//! A manifest held against what was found out: one verdict for each claim.

use super::facts::{Fact, Facts, Rate};
use metaroce_manifest::{registry, Bound, Capability, Limit, Manifest, Scope, State, Timer};
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Pass,
    Fail,
    Unverifiable,
}

#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// Which claim: `queue_pairs`, `queue_pairs.max`, `mtus: 4096`, ...
    pub claim: String,
    pub outcome: Outcome,
    pub text: String,
}

/// Why nothing is known about a claim of this capability.
fn why(id: &str) -> String {
    let group = registry::find(id).map(|e| e.group);
    match (id, group) {
        (_, None) => "a vendor's own: no probe knows it".into(),
        ("processes", _) => "one program is one process".into(),
        ("memory_regions" | "segmentation_offload", _) => "that much memory is not taken".into(),
        ("retransmission_offload" | "icrc_offload", _) => {
            "needs a wire that loses and damages".into()
        }
        (_, Some("Wire" | "Congestion")) => "is seen on the wire only".into(),
        (_, Some("Inside")) => "is inside the card".into(),
        (_, Some("Speed")) => "needs the card's clock".into(),
        _ => "no verb tells".into(),
    }
}

struct Judge<'a> {
    f: &'a Facts,
    /// The manifest leaves things out, and of those nothing is known.
    part: bool,
    /// The card has raw packet queues and no transport: what programs see above them is the driver's.
    soft: bool,
    out: Vec<Verdict>,
}

/// Of what a card without transport lacks.
const SOFT: &str = "works, and is made above raw_packet_queues";

/// A verdict for each claim of `m`.
pub fn judge(m: &Manifest, f: &Facts) -> Vec<Verdict> {
    let has = |id: &str| m.capability(id).is_some_and(Capability::has);
    let mut j = Judge {
        f,
        part: m.partial.is_some(),
        soft: has(registry::id::raw_packet_queues) && !has(registry::id::qp_state_offload),
        out: vec![],
    };
    match f.version == m.card.version {
        true => j.add(
            "card.version".into(),
            Outcome::Pass,
            "the driver says the same".into(),
        ),
        false => j.fail(
            "card.version",
            format!("{}, the driver says {}", m.card.version, f.version),
        ),
    }
    for c in &m.capabilities {
        j.state(c);
        j.words(c);
        for l in &c.limits {
            let fact = f.figures.get(&c.id).and_then(|n| n.get(&l.name));
            let claim = format!("{}.{}", c.id, l.name);
            if !j.rate(&claim, &[&c.id], l) {
                j.figure(claim, l, fact, &why(&c.id));
            }
        }
    }
    // what it does not name it does not have
    for (id, yes) in &f.works {
        if *yes && !j.part && m.capability(id).is_none() {
            match j.soft {
                true => j.unknown(id, SOFT.into()),
                false => j.fail(id, "is not named, so absent; but it works".into()),
            }
        }
    }
    for c in &m.combined {
        for l in &c.limits {
            let ids: Vec<&str> = c.capabilities.iter().map(String::as_str).collect();
            if j.rate(&format!("{}.{}", c.id, l.name), &ids, l) {
                continue;
            }
            let fact = (l.name == "sum").then(|| f.sums.get(&c.id)).flatten();
            j.figure(
                format!("{}.{}", c.id, l.name),
                l,
                fact,
                "needs the card's clock",
            );
        }
    }
    j.ordering(m);
    for t in &m.timers {
        j.timer(t);
    }
    for e in &m.errata {
        j.unknown(&e.id, "a fault is not provoked".into());
    }
    j.out
}

impl Judge<'_> {
    fn add(&mut self, claim: String, outcome: Outcome, text: String) {
        self.out.push(Verdict {
            claim,
            outcome,
            text,
        });
    }
    fn fail(&mut self, claim: &str, text: String) {
        self.add(claim.into(), Outcome::Fail, text);
    }
    fn unknown(&mut self, claim: &str, text: String) {
        self.add(claim.into(), Outcome::Unverifiable, text);
    }

    fn state(&mut self, c: &Capability) {
        let text = match (c.state, self.f.works.get(&c.id)) {
            (_, None) => return self.unknown(&c.id, why(&c.id)),
            (State::Absent, Some(false)) => "is refused".to_string(),
            (State::Absent, Some(true)) if self.soft => return self.unknown(&c.id, SOFT.into()),
            (State::Absent, Some(true)) => return self.fail(&c.id, "absent, but it works".into()),
            (State::Enabled, Some(true)) => "works".into(),
            // a host would have to switch it on first, and nothing did
            (State::Present, Some(true)) => {
                return self.fail(&c.id, "off until switched on, but it works".into())
            }
            (State::Present, Some(false)) => {
                return self.unknown(&c.id, "nothing switches it on".into())
            }
            (State::Enabled, Some(false)) => {
                return self.fail(&c.id, "enabled, but it does not work".into())
            }
        };
        self.add(c.id.clone(), Outcome::Pass, text);
    }

    fn words(&mut self, c: &Capability) {
        let none = Default::default();
        let known = self.f.words.get(&c.id).unwrap_or(&none);
        for w in &c.set {
            let claim = format!("{}: {w}", c.id);
            match known.get(w) {
                Some(true) => self.add(claim, Outcome::Pass, "works".into()),
                Some(false) => self.fail(&claim, "does not work".into()),
                None => self.unknown(&claim, why(&c.id)),
            }
        }
        for (w, yes) in known {
            if *yes && c.has() && !self.part && !c.set.contains(w) {
                self.fail(
                    &format!("{}: {w}", c.id),
                    "is not among the words, but works".into(),
                );
            }
        }
    }

    fn figure(&mut self, claim: String, l: &Limit, fact: Option<&Fact>, why: &str) {
        let v = l.value;
        let said = self.f.said.get(&claim).copied();
        let most = matches!(l.bound, Bound::UpTo | Bound::Exactly);
        // A driver can offer less than its card has, not more.
        if let Some(n) = said.filter(|n| most && *n > v && l.when.is_none()) {
            return self.fail(&claim, format!("{v} claimed, the driver offers {n}"));
        }
        let verdict = match fact {
            _ if l.when.is_some() || l.percentile_ppm.is_some() => None,
            None => None,
            Some(Fact::Is(n)) => Some((*n == v, format!("{n} found"))),
            // of a part that is what the driver says of all kinds of queues
            Some(Fact::Most(n)) if self.part && most => {
                Some((v <= *n, format!("{n} work, {} do not", n + 1)))
            }
            Some(Fact::Most(n)) => {
                let right = match l.bound {
                    Bound::UpTo | Bound::Exactly => *n == v,
                    Bound::AtLeast => *n >= v,
                    Bound::AtMost => *n <= v,
                };
                Some((right, format!("{n} work, {} do not", n + 1)))
            }
            Some(Fact::Driver(n)) if v > *n => {
                return self.unknown(&claim, format!("{n} work; the driver offers no more"))
            }
            Some(Fact::Driver(n)) => Some((v == *n, format!("{n} work, {} do not", n + 1))),
            Some(Fact::Took(n)) => {
                let same = match said.filter(|n| *n == v) {
                    Some(_) => "; the driver says the same",
                    None => "",
                };
                return self.unknown(&claim, format!("{n} work, more was not tried{same}"));
            }
        };
        match verdict {
            Some((true, text)) => self.add(claim, Outcome::Pass, text),
            Some((false, text)) => self.fail(&claim, format!("{v} claimed, {text}")),
            None => {
                let why = match said.filter(|n| *n == v) {
                    Some(_) => format!("the driver says the same; {why}"),
                    None => why.into(),
                };
                self.unknown(&claim, why)
            }
        }
    }

    /// Whether it is about a rate that was measured, under the same condition as far as a program can know it.
    fn rate(&mut self, claim: &str, ids: &[&str], l: &Limit) -> bool {
        let Some(w) = l.when.as_ref().filter(|_| l.percentile_ppm.is_none()) else {
            return false;
        };
        let same = |r: &&Rate| {
            ids.contains(&r.id.as_str())
                && r.name == l.name
                && w.mtu.is_none_or(|n| n == r.mtu)
                && w.qps.is_none_or(|n| n == r.qps)
                && w.message.is_none_or(|n| n == r.message)
        };
        let found = self.f.rates.iter().filter(same).map(|r| r.value).max();
        let Some(is) = found.filter(|_| l.bound == Bound::AtLeast) else {
            return false;
        };
        let off = u64::from(l.tolerance_ppm.unwrap_or(0).min(1_000_000));
        let least = u128::from(l.value) * u128::from(1_000_000 - off) / 1_000_000;
        let text = format!("{} claimed, {is} on the wire", l.value);
        match u128::from(is) >= least {
            true => self.add(claim.into(), Outcome::Pass, text),
            false => self.fail(claim, text),
        }
        true
    }

    fn timer(&mut self, t: &Timer) {
        let Some(codes) = self.f.timers.get(&t.id).filter(|c| !c.is_empty()) else {
            return self.unknown(&t.id, "needs the card's clock".into());
        };
        let mut seen = vec![];
        for (code, (least, most)) in codes {
            let Some(ns) = t.code_ns.get(usize::from(*code)).copied() else {
                return self.fail(&t.id, format!("has no code {code}, and it works"));
            };
            let share = |ppm: u32| u128::from(ns) * u128::from(ppm) / 1_000_000;
            let early = u128::from(ns).saturating_sub(share(t.early_ppm));
            let late = u128::from(ns) + share(t.late_ppm) + u128::from(t.late_ns);
            if ns == 0 || u128::from(*least) < early || u128::from(*most) > late {
                let text = format!("{early} to {late} ns claimed, {least} to {most} on the wire");
                return self.fail(&t.id, format!("code {code}: {text}"));
            }
            seen.push(format!("{code} {least}..{most} ns"));
        }
        let text = format!("on the wire, by code: {}", seen.join(", "));
        self.add(t.id.clone(), Outcome::Pass, text);
    }

    fn ordering(&mut self, m: &Manifest) {
        for o in &m.ordering {
            if let ("data_in_order", Some(yes)) = (o.id.as_str(), self.f.data_in_order) {
                let text = match yes {
                    true => "the library says that data is placed in order",
                    false => "the library says that data may be placed in any order",
                };
                match yes == (o.scope != Scope::Nobody) {
                    true => self.add(o.id.clone(), Outcome::Pass, text.into()),
                    false => self.fail(&o.id, format!("holds for `{}`; {text}", o.scope)),
                }
                continue;
            }
            if o.id != "atomicity" {
                self.unknown(&o.id, "a race that does not show proves nothing".into());
                continue;
            }
            let claimed = match o.scope {
                Scope::Card => "card",
                Scope::Host => "host",
                _ => "other",
            };
            match self.f.atomicity.as_deref() {
                Some(a) if a == claimed => self.add(
                    o.id.clone(),
                    Outcome::Pass,
                    "the driver says the same".into(),
                ),
                a => {
                    let says = a.unwrap_or("that there are no atomics");
                    self.fail(&o.id, format!("{claimed} claimed, the driver says {says}"));
                }
            }
        }
    }
}
