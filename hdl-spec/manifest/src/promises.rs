//! The registered promises of order and the registered timers: what each id means, among whom it can hold, and how long a code lasts.

use crate::{registry::Entry, Bound, Scope, Unit};
use metaroce_protocol::timing::{ack_timeout_ns, rnr_timer_ns};

/// A registered promise of order or atomicity.
#[derive(Debug)]
pub struct Promise {
    pub id: &'static str,
    pub doc: &'static str,
    /// Among whom it can hold, beside nobody.
    pub scopes: &'static [Scope],
    /// Programs take it for granted of RC: the verbs promise it.
    pub of_rc: bool,
}

pub const PROMISES: &[Promise] = &[
    Promise {
        id: "completion_after_payload",
        doc: "A completion is seen only after the payload that it announces",
        scopes: &[Scope::Host],
        of_rc: true,
    },
    Promise {
        id: "acknowledged_means_placed",
        doc: "What is acknowledged is in the memory of the receiving host, not only on its card",
        scopes: &[Scope::Host],
        of_rc: false,
    },
    Promise {
        id: "read_after_write",
        doc: "A READ sees all earlier WRITEs of its queue pair",
        scopes: &[Scope::QueuePair],
        of_rc: true,
    },
    Promise {
        id: "data_in_order",
        doc: "The bytes of one message become visible in their order",
        scopes: &[Scope::QueuePair, Scope::Host],
        of_rc: false,
    },
    Promise {
        id: "completions_in_order",
        doc: "Requests of one queue complete in the order in which they were posted",
        scopes: &[Scope::QueuePair],
        of_rc: true,
    },
    Promise {
        id: "fence",
        doc: "A fenced request begins when all earlier READs are done",
        scopes: &[Scope::QueuePair],
        of_rc: true,
    },
    Promise {
        id: "atomicity",
        doc: "Atomics are atomic among all queue pairs of the card (`card`: IBV_ATOMIC_HCA), or towards everybody (`host`: IBV_ATOMIC_GLOB)",
        scopes: &[Scope::Card, Scope::Host],
        of_rc: false,
    },
];

/// A registered timer.
#[derive(Debug)]
pub struct Timer {
    pub id: &'static str,
    pub doc: &'static str,
    /// What the verbs say that a code lasts; 0 for ever.
    pub code_ns: fn(u8) -> u64,
    /// How often that it may last at most, if there is such a limit.
    pub at_most: Option<u64>,
}

pub const TIMERS: &[Timer] = &[
    Timer {
        id: "local_ack_timeout",
        doc: "Without progress for so long, what is not acknowledged is sent again: 4.096 us * 2^code, 0 for ever; between once and four times that",
        code_ns: |c| match ack_timeout_ns(c) {
            Some(ns) => ns,
            None => 0,
        },
        at_most: Some(4),
    },
    Timer {
        id: "rnr_timer",
        doc: "After an RNR NAK with this code the requester waits at least so long: 10 us (code 1) to 655.36 ms (code 0)",
        code_ns: rnr_timer_ns,
        at_most: None,
    },
];

pub fn promise(id: &str) -> Option<&'static Promise> {
    PROMISES.iter().find(|p| p.id == id)
}

pub fn timer(id: &str) -> Option<&'static Timer> {
    TIMERS.iter().find(|t| t.id == id)
}

/// With which bounds a figure of the list says something.
pub fn bounds(e: &Entry, unit: Unit) -> &'static [Bound] {
    use Bound::{AtLeast, AtMost, Exactly, UpTo};
    match (e.group, unit) {
        ("Speed", Unit::Mbps | Unit::OpsPerS) => &[AtLeast, Exactly],
        (_, Unit::Ns | Unit::Cycles) if e.id != crate::registry::id::cnp_send => &[AtMost, Exactly],
        (_, Unit::Ns | Unit::Cycles) => &[AtLeast, AtMost, Exactly],
        (_, Unit::Khz) => &[AtMost, UpTo, Exactly],
        _ => &[UpTo, Exactly],
    }
}
