//! Words of one list against those of another, and sizes that follow from each other.

use super::has;
use crate::{
    check::{shown, Findings},
    possible::most,
    registry::id,
    Bound, Manifest,
};
use alloc::{format, string::String};
use metaroce_protocol::opcode::{Class, Opcode, OpcodeInfo, Place, Service};

/// Packets that each transport has, and those that go with a capability.
pub fn packets(f: &mut Findings, m: &Manifest) {
    let (Some(ops), Some(profiles)) = (m.capability(id::opcodes), m.capability(id::wire_profiles))
    else {
        return;
    };
    if !ops.has() || ops.set.is_empty() || !profiles.has() {
        return;
    }
    let at = format!("capabilities[{}]", id::opcodes);
    let word = |of: &str, w: &str| {
        m.capability(of)
            .is_some_and(|c| c.has() && c.set.iter().any(|s| s == w))
    };
    // why a packet is there, and whether the card has that
    let needs = |i: &OpcodeInfo, name: &str| -> Option<(String, bool)> {
        let service = match i.service {
            Service::Rc => "rocev2_rc",
            Service::Uc => "rocev2_uc",
            Service::Ud => "rocev2_ud",
            _ => return None,
        };
        let mut why = vec_of(service, word(id::wire_profiles, service));
        let mut also = |what: &str, has: bool| why = (format!("{}, {what}", why.0), why.1 && has);
        match i.class {
            Class::CmpSwap => also(
                "compare_and_swap",
                word(id::atomic_op_accel, "compare_and_swap"),
            ),
            Class::FetchAdd => also("fetch_and_add", word(id::atomic_op_accel, "fetch_and_add")),
            Class::AtomicAck => also(id::atomic_op_accel, has(m, id::atomic_op_accel)),
            Class::Send if name.ends_with("+Inv") => {
                also(id::remote_invalidation, has(m, id::remote_invalidation))
            }
            Class::Flush | Class::AtomicWrite | Class::Cnp => return None,
            _ => {}
        }
        if i.place != Place::Only && i.class != Class::Ack {
            also(id::segmentation_offload, has(m, id::segmentation_offload));
        }
        Some(why)
    };
    for o in Opcode::ALL {
        let name = o.name();
        let claimed = ops.set.iter().any(|w| w == name);
        let Some((why, wanted)) = o.info().and_then(|i| needs(i, name)) else {
            continue;
        };
        match (claimed, wanted) {
            (true, false) => f.warning(&at, format!("`{name}` is there, which goes with {why}")),
            (false, true) => f.warning(&at, format!("`{name}` is missing: it goes with {why}")),
            _ => {}
        }
    }
    let rest = ["RC FLUSH", "RC ATOMIC WRITE"];
    for w in ops.set.iter().filter(|w| rest.contains(&w.as_str())) {
        if !word(id::wire_profiles, "rocev2_rc") {
            f.warning(
                &at,
                format!("`{}` is there, which goes with rocev2_rc", shown(w)),
            );
        }
    }
    if ops.set.iter().any(|w| w == "CNP") && !has(m, id::cnp_send) && !has(m, id::cnp_receive) {
        f.warning(
            &at,
            "`CNP` is there, which goes with cnp_send or cnp_receive",
        );
    }
}

fn vec_of(why: &str, has: bool) -> (String, bool) {
    (why.into(), has)
}

/// Words that two lists have in common.
pub fn sets(f: &mut Findings, m: &Manifest) {
    let set = |id: &str| m.capability(id).filter(|c| c.has() && !c.set.is_empty());
    if let (Some(e), Some(all)) = (set(id::ecn_count), set(id::counters)) {
        for w in e.set.iter().filter(|w| !all.set.contains(w)) {
            f.warning(
                format!("capabilities[{}]", id::ecn_count),
                format!("`{}` is not among the counters", shown(w)),
            );
        }
    }
    if let Some(c) = set(id::counters) {
        let exact = c
            .limits
            .iter()
            .find(|l| l.name == "max" && l.when.is_none() && l.bound == Bound::Exactly);
        let n = c.set.len() as u64;
        if let Some(l) = exact.filter(|l| l.value > n) {
            f.error(
                format!("capabilities[{}].limits[max]", id::counters),
                format!("is exactly {}, and {n} are in the set", l.value),
            );
        }
    }
    // QP 0 and 1 are those of management, 0xFFFFFF is that of multicast.
    if let Some(c) = set(id::reserved_qpns).filter(|_| has(m, id::queue_pairs)) {
        let within = |n: u32| {
            c.set.iter().any(|w| {
                let (a, b) = w.split_once('-').unwrap_or((w, w));
                matches!((a.parse::<u32>(), b.parse::<u32>()), (Ok(a), Ok(b)) if (a..=b).contains(&n))
            })
        };
        for n in [0, 1, 0xFF_FFFF].into_iter().filter(|n| !within(*n)) {
            f.warning(
                format!("capabilities[{}]", id::reserved_qpns),
                format!("{n} is not there, which no RoCE card gives out"),
            );
        }
    }
    if let Some(c) = set(id::shared_receive_queues) {
        for w in ["rc", "uc", "ud"] {
            let profile = format!("rocev2_{w}");
            let there = set(id::wire_profiles).is_none_or(|p| p.set.contains(&profile));
            if c.set.iter().any(|s| s == w) && !there {
                f.warning(
                    format!("capabilities[{}]", id::shared_receive_queues),
                    format!("`{w}` is there, and {profile} is no profile of the card"),
                );
            }
        }
    }
    // What is carried has to pass the core.
    let clock = most(m, id::core_clock, "frequency");
    let width = most(m, id::data_path, "width");
    let wire = most(m, id::line_rates, "max");
    if let (Some(khz), Some(bits), Some(mbps)) = (clock, width, wire) {
        let core = u128::from(khz) * u128::from(bits) / 1000;
        if core < u128::from(mbps) {
            f.warning(
                format!("capabilities[{}].limits[width]", id::data_path),
                format!("{bits} bits at {khz} kHz are {core} mbps, and line_rates.max is {mbps}"),
            );
        }
    }
    let scatter = |name| most(m, id::scatter_gather, name);
    if let (Some(ud), Some(send)) = (scatter("max_ud"), scatter("max_send")) {
        if ud > send {
            f.warning(
                format!("capabilities[{}].limits[max_ud]", id::scatter_gather),
                format!("is {ud}, and max_send is {send}"),
            );
        }
    }
    // The specification's limit.
    if let Some(n) = most(m, id::segmentation_offload, "max_message").filter(|n| *n > 1 << 31) {
        f.warning(
            format!(
                "capabilities[{}].limits[max_message]",
                id::segmentation_offload
            ),
            format!("is {n}: RDMA messages are at most 2^31 bytes"),
        );
    }
}
