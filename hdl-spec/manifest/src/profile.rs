//! Named sets of capabilities.

use crate::{
    diff::worst,
    registry,
    registry::id,
    sheet::{condition, grouped},
    Bound, Capability, Condition, Limit, Manifest, Unit,
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use serde::Serialize;

/// How much a profile wants something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Required,
    Recommended,
}

/// What is wanted of a capability.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// The card has it.
    Has,
    /// All these words in the set.
    Words(&'static [&'static str]),
    /// A figure of at least this.
    AtLeast(&'static str, u64, Unit),
    /// A figure of at most this.
    AtMost(&'static str, u64, Unit),
}

#[derive(Debug)]
pub struct Requirement {
    pub id: &'static str,
    pub level: Level,
    pub need: Need,
    pub why: &'static str,
}

#[derive(Debug)]
pub struct Profile {
    pub name: &'static str,
    pub doc: &'static str,
    pub requirements: &'static [Requirement],
}

const fn must(id: &'static str, need: Need, why: &'static str) -> Requirement {
    Requirement {
        id,
        level: Level::Required,
        need,
        why,
    }
}

const fn should(id: &'static str, need: Need, why: &'static str) -> Requirement {
    Requirement {
        id,
        level: Level::Recommended,
        need,
        why,
    }
}

use Need::*;
use Unit::*;

pub const PROFILES: &[Profile] = &[
    Profile {
        name: "rocev2-rc",
        doc: "Reliable connections with any RoCEv2 peer, and verbs programs as they are.",
        requirements: &[
            must(id::wire_profiles, Words(&["rocev2_rc"]), "it is the transport"),
            must(
                id::opcodes,
                Words(&[
                    "RC SEND First",
                    "RC SEND Middle",
                    "RC SEND Last",
                    "RC SEND Only",
                    "RC WRITE First",
                    "RC WRITE Middle",
                    "RC WRITE Last",
                    "RC WRITE Only",
                    "RC READ Request",
                    "RC READ Response First",
                    "RC READ Response Middle",
                    "RC READ Response Last",
                    "RC READ Response Only",
                    "RC ACK",
                ]),
                "SEND, WRITE and READ of every length",
            ),
            must(id::mtus, Words(&["256", "512", "1024"]), "what an Ethernet MTU of 1500 carries, and what peers may choose below it"),
            must(id::retransmission_offload, Has, "Ethernet loses packets"),
            must(id::queue_pairs, AtLeast("max", 2, Count), "a connection to oneself has two ends"),
            must(id::completion_queues, AtLeast("max", 1, Count), ""),
            must(id::memory_regions, AtLeast("max", 2, Count), ""),
            must(id::work_queues, AtLeast("max_send", 16, Count), ""),
            must(id::reads_in_flight, AtLeast("max", 1, Count), "READ"),
            should(id::qp_state_offload, Has, "else the host runs the transport"),
            should(id::atomic_op_accel, Has, "synchronisation without the other processor"),
            should(id::mtus, Words(&["2048", "4096"]), "fewer packets where jumbo frames are"),
            should(id::wire_profiles, Words(&["rocev2_uc", "rocev2_ud"]), "datagrams"),
            should(id::shared_receive_queues, Has, "memory with many connections"),
            should(id::cnp_receive, Has, "RoCEv2 networks expect DCQCN"),
        ],
    },
    Profile {
        name: "metaroce-1",
        doc: "MetaRoCE's own wire profile on lossy Ethernet: many paths, selective resends.",
        requirements: &[
            must(id::wire_profiles, Words(&["metaroce_1"]), "it is the transport"),
            must(id::paths, AtLeast("max", 2, Count), "packets are sprayed"),
            must(id::sack_window, AtLeast("max", 256, Count), "the window of a path"),
            must(id::out_of_order_placement, AtLeast("max", 256, Count), "sprayed packets come in any order"),
            must(id::retransmission_offload, Words(&["selective"]), "a gap in a path's vector is a loss, and that packet alone goes again"),
            must(id::congestion_controllers, Words(&["metaroce_aimd"]), "every peer knows it"),
            must(id::fair_share_hint, Has, "incast settles in one or two round trips"),
            should(id::paths, AtLeast("max", 16, Count), "the design point"),
            should(id::out_of_order_placement, AtLeast("max", 1_024, Count), "with 256 a model gives 90 % of the line at 1 % loss, with 1,024 99 %"),
            should(id::wire_profiles, Words(&["rocev2_rc"]), "peers that know nothing else"),
        ],
    },
    Profile {
        name: "amc-full",
        doc: "Adaptive congestion control with marks of the card (AMC, HAE), classes and tags (SAFC).",
        requirements: &[
            must(id::congestion_controllers, Words(&["gbc", "fas"]), "they are what is chosen from at run time"),
            must(id::ecnsig_latency, AtMost("max", 200, Ns), "GBC takes the gradient of each round trip: a mark that is later than 200 ns belongs to another one"),
            must(id::hae_rules, AtLeast("max", 1, Count), "flows are marked by rule"),
            must(id::hae_thresholds, AtLeast("max", 1, Count), "what a rule chooses"),
            must(id::safc_classes, AtLeast("max", 2, Count), "critical and best effort"),
            must(id::safc_tags, Words(&["type", "priority", "deadline", "throughput"]), "what a packet says about itself"),
            must(id::safc_credits, Has, "critical traffic is not dropped"),
            must(id::qp_state_offload, Has, ""),
            must(id::atomic_op_accel, Has, ""),
            should(id::hae_rules, AtLeast("max", 32, Count), "the design point"),
            should(id::hae_thresholds, AtLeast("max", 4, Count), "the design point"),
            should(id::safc_classes, AtLeast("max", 4, Count), "the design point"),
            should(id::congestion_controllers, Words(&["dcqcn", "metaroce_aimd"]), "peers that have nothing else"),
            should(id::firmware_policies, Has, "controllers that come later"),
            should(id::cnp_receive, Has, "DCQCN"),
        ],
    },
];

pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|p| p.name == name)
}

/// One requirement against one card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub id: String,
    pub level: Level,
    pub kept: bool,
    /// The manifest says something about it. Always, but for a part of a manifest.
    pub stated: bool,
    pub wanted: String,
    pub found: String,
    pub why: String,
    /// What a host does where it is absent.
    pub fallback: String,
}

fn amount(v: u64, u: Unit) -> String {
    match u {
        Count => grouped(v),
        u => format!("{} {u}", grouped(v)),
    }
}

/// A need in words.
pub fn wanted(n: Need) -> String {
    match n {
        Has => "the card has it".into(),
        Words(w) => format!("`{}`", w.join("`, `")),
        AtLeast(name, v, u) => format!("{name} of at least {}", amount(v, u)),
        AtMost(name, v, u) => format!("{name} of at most {}", amount(v, u)),
    }
}

/// What a card says about a need, and what was found.
enum Answer {
    Kept(String),
    Missing(String),
    /// By a whole manifest it is not promised; by a part nothing is known.
    Unsaid(String),
}

/// Of a figure under its conditions: kept if something is promised without a condition, and nothing that is promised under one is worse.
fn figure(promises: &[&Limit], name: &str, u: Unit, enough: impl Fn(u64) -> bool) -> Answer {
    let always = |l: &Limit| l.when.as_ref().is_none_or(|w| *w == Condition::default());
    let one = |l: &Limit| {
        let v = amount(worst(l), u);
        match l.when.as_ref().map(condition).filter(|w| !w.is_empty()) {
            Some(w) => format!("{v} when {w}"),
            None => v,
        }
    };
    let (good, bad): (Vec<&Limit>, Vec<&Limit>) = promises.iter().partition(|l| enough(worst(l)));
    let list = |of: &[&Limit]| of.iter().map(|l| one(l)).collect::<Vec<_>>().join("; ");
    if promises.is_empty() {
        return Answer::Unsaid(format!("no promise of {name} for all cases"));
    }
    match (promises.iter().any(|l| always(l)), bad.is_empty()) {
        (true, true) => Answer::Kept(list(&good)),
        (true, false) if good.is_empty() => Answer::Missing(list(&bad)),
        (true, false) => Answer::Missing(format!("{}, though {}", list(&bad), list(&good))),
        (false, true) => Answer::Missing(format!(
            "only {}; nothing is promised otherwise",
            list(&good)
        )),
        (false, false) if good.is_empty() => {
            Answer::Missing(format!("{}; nothing is promised otherwise", list(&bad)))
        }
        (false, false) => Answer::Missing(format!(
            "{}, though {}; nothing is promised otherwise",
            list(&bad),
            list(&good)
        )),
    }
}

/// A figure counts at the worse end of its tolerance, for all cases, and under every condition.
fn judge(c: Option<&Capability>, need: Need) -> Answer {
    let Some(c) = c else {
        return Answer::Unsaid("not said, so absent".into());
    };
    if !c.has() {
        return Answer::Missing("absent".into());
    }
    let promises = |name: &str, unit: Unit, bounds: &[Bound]| -> Vec<&Limit> {
        c.limits
            .iter()
            .filter(|l| l.name == name && l.unit == unit && bounds.contains(&l.bound))
            // A promise for a share of the cases is none for all.
            .filter(|l| l.percentile_ppm.is_none_or(|p| p == 1_000_000))
            .collect()
    };
    match need {
        Has => Answer::Kept(c.state.to_string()),
        Words(w) => {
            let missing: Vec<&str> = w
                .iter()
                .copied()
                .filter(|w| !c.set.iter().any(|s| s == w))
                .collect();
            let without = || format!("without `{}`", missing.join("`, `"));
            match (missing.is_empty(), c.set.is_empty()) {
                (true, _) => Answer::Kept("all of them".into()),
                (false, true) => Answer::Unsaid(without()),
                (false, false) => Answer::Missing(without()),
            }
        }
        AtLeast(name, v, u) => {
            let all = promises(name, u, &[Bound::AtLeast, Bound::UpTo, Bound::Exactly]);
            figure(&all, name, u, |x| x >= v)
        }
        AtMost(name, v, u) => {
            let all = promises(name, u, &[Bound::AtMost, Bound::Exactly]);
            figure(&all, name, u, |x| x <= v)
        }
    }
}

/// Every requirement of a profile against a card.
pub fn verdicts(p: &Profile, m: &Manifest) -> Vec<Verdict> {
    p.requirements
        .iter()
        .map(|r| {
            let (kept, stated, found) = match judge(m.capability(r.id), r.need) {
                Answer::Kept(found) => (true, true, found),
                Answer::Missing(found) => (false, true, found),
                Answer::Unsaid(_) if m.partial.is_some() => (false, false, "not stated".into()),
                Answer::Unsaid(found) => (false, true, found),
            };
            Verdict {
                id: r.id.into(),
                level: r.level,
                kept,
                stated,
                wanted: wanted(r.need),
                found,
                why: r.why.into(),
                fallback: registry::find(r.id).map_or("", |e| e.fallback).into(),
            }
        })
        .collect()
}

/// The card has all that is required.
pub fn kept(v: &[Verdict]) -> bool {
    v.iter().all(|v| v.kept || v.level == Level::Recommended)
}
