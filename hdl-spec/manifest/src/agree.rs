//! What one part of a manifest says against another: a thing that is told twice, or that follows from what is told elsewhere. What can't
//! be is an error; what contradicts, without that it shows which of the two is wrong, or is hardly meant, is a warning.

mod packets;
mod promised;

use crate::{
    check::{shown, Findings},
    possible::most,
    promises,
    registry::{self, id, Words},
    Bound, Capability, Combined, Condition, Limit, Manifest, Stage, State, Unit,
};
use alloc::{collections::BTreeSet, format, string::String};

pub fn card(f: &mut Findings, m: &Manifest) {
    if m.partial.is_some() && m.schema.minor == 0 {
        f.error("schema", "version 1.0 has no `partial`: 1.1 or later");
    }
    for c in &m.capabilities {
        let at = format!("capabilities[{}]", shown(&c.id));
        state(f, m, c, &at);
        for l in &c.limits {
            let at = format!("{at}.limits[{}]", shown(&l.name));
            figure(f, c, l, &at);
            shown_by(f, m, l, &at);
            if let Some(w) = &l.when {
                condition(f, m, w, &at);
            }
            wire(f, m, &c.id, l, &at);
            fetched(f, m, &c.id, l, &at);
        }
    }
    for c in &m.combined {
        combined(f, m, c);
    }
    packets::packets(f, m);
    packets::sets(f, m);
    provenance(f, m);
    promised::promised(f, m);
    promised::timers(f, m);
}

fn has(m: &Manifest, id: &str) -> bool {
    m.capability(id).is_some_and(Capability::has)
}

fn state(f: &mut Findings, m: &Manifest, c: &Capability, at: &str) {
    let Some(e) = registry::find(&c.id) else {
        return;
    };
    if c.state == State::Absent && c.provenance.is_some() {
        f.error(at, "is absent, and yet has a provenance: of what?");
    }
    // These can be off; the others are what the card is like.
    let can_be_off = [id::ecn_count, id::counters, id::ethernet_mac];
    if c.state == State::Present
        && e.action == crate::Action::Nothing
        && !can_be_off.contains(&e.id)
    {
        f.warning(
            at,
            "is `present`, so off: that is nothing that a host could switch on",
        );
    }
    let says = |name: &str| c.limits.iter().any(|l| l.name == name);
    if e.id == id::core_clock && says("reached") && !says("frequency") {
        f.warning(
            at,
            "says what clock was `reached`, and no `frequency` of the card",
        );
    }
    let words = !matches!(e.words, Words::Of([]));
    if words && c.has() && c.set.is_empty() && m.partial.is_none() {
        f.warning(at, "says none of the words that there are for it");
    }
}

fn figure(f: &mut Findings, c: &Capability, l: &Limit, at: &str) {
    let Some(e) = registry::find(&c.id) else {
        return;
    };
    let Some((_, unit)) = e.figures.iter().find(|(n, _)| *n == l.name) else {
        f.warning(
            at,
            "is not in the list: nothing of another card can be compared with it",
        );
        return;
    };
    bound(f, promises::bounds(e, *unit), l, at);
}

fn bound(f: &mut Findings, bounds: &[Bound], l: &Limit, at: &str) {
    if !bounds.contains(&l.bound) {
        let right: String = bounds.iter().fold(String::new(), |s, b| {
            format!("{s}{}`{b}`", if s.is_empty() { "" } else { " or " })
        });
        f.warning(
            at,
            format!("is `{}`, which says nothing here: {right}", l.bound),
        );
    }
}

/// What can show a figure.
fn shown_by(f: &mut Findings, m: &Manifest, l: &Limit, at: &str) {
    if l.provenance.stage == Stage::Placed && l.unit != Unit::Khz {
        f.warning(
            at,
            "`placed`: placement and routing show clocks, not a figure like this",
        );
    }
    let measured = matches!(l.unit, Unit::Mbps | Unit::OpsPerS | Unit::Ns | Unit::Cycles)
        && l.provenance.stage > Stage::Design
        && l.when.is_some();
    if measured && l.tolerance_ppm.unwrap_or(0) == 0 && m.partial.is_none() {
        let silent = l.tolerance_ppm.is_none();
        // Who says nothing of it may not know; who says 0 claims a lot.
        if !silent {
            f.warning(
                at,
                "tolerance_ppm of 0: no measurement repeats that exactly",
            );
        }
    }
    let told = at.starts_with("capabilities") && matches!(l.bound, Bound::AtLeast | Bound::UpTo);
    if l.tolerance_ppm == Some(1_000_000) && !told {
        f.warning(at, "a tolerance of 100 % leaves nothing of it");
    }
}

/// A condition that this card can't meet.
fn condition(f: &mut Findings, m: &Manifest, w: &Condition, at: &str) {
    if let Some(mtu) = w.mtu {
        let sizes = m.capability(id::mtus).filter(|c| !c.set.is_empty());
        let within = most(m, id::mtus, "max").is_none_or(|most| u64::from(mtu) <= most);
        if mtu > 0 && within && sizes.is_some_and(|c| !c.set.iter().any(|s| *s == format!("{mtu}")))
        {
            f.error(at, format!("when mtu is {mtu}, which is not in mtus"));
        }
    }
    let exact = |l: &&Limit| l.name == "frequency" && l.bound == Bound::Exactly && l.when.is_none();
    let clock = m.capability(id::core_clock);
    let clock = clock.and_then(|c| c.limits.iter().find(exact));
    if let (Some(khz), Some(l)) = (w.clock_khz, clock) {
        let off = u128::from(l.value) * u128::from(l.tolerance_ppm.unwrap_or(0)) / 1_000_000;
        if khz > 0 && u128::from(l.value.abs_diff(khz.into())) > off {
            f.error(
                at,
                format!(
                    "when clock_khz is {khz}, and core_clock says that the frequency is exactly {}",
                    l.value
                ),
            );
        }
    }
}

/// Around the payload of a RoCEv2 packet on an Ethernet wire: preamble and gap, header, IPv4, UDP, BTH, ICRC, FCS.
const AROUND: u128 = 20 + 14 + 20 + 8 + 12 + 4 + 4;

/// Payload that the ports can carry in Mb/s, in packets of this size.
fn carried(m: &Manifest, w: Option<&Condition>) -> Option<u128> {
    let wire = most(m, id::line_rates, "max")?;
    let ports = most(m, id::ports, "max").unwrap_or(1);
    let all = u128::from(wire) * u128::from(ports);
    let roce = m.capability(id::wire_profiles);
    let roce = roce.is_some_and(|c| c.set.iter().any(|w| w.starts_with("rocev2_")));
    let mtu = w.and_then(|w| w.mtu.map(u64::from));
    let mtu = mtu.or(most(m, id::mtus, "max"));
    let message = w.and_then(|w| w.message);
    let packet = match (mtu, message) {
        (Some(a), Some(b)) => a.min(b),
        (Some(n), None) | (None, Some(n)) => n,
        (None, None) => return Some(all),
    };
    let packet = u128::from(packet);
    Some(if roce {
        all * packet / (packet + AROUND)
    } else {
        all
    })
}

/// Rates that the wire, or the data path, does not let be.
fn wire(f: &mut Findings, m: &Manifest, of: &str, l: &Limit, at: &str) {
    let message = l.when.as_ref().and_then(|w| w.message);
    let most_message = most(m, id::segmentation_offload, "max_message");
    if message
        .zip(most_message)
        .is_some_and(|(is, most)| is > most)
    {
        // told already
        return;
    }
    let measured = matches!(l.bound, Bound::AtLeast | Bound::Exactly);
    let Some(most_mbps) = carried(m, l.when.as_ref()).filter(|_| measured) else {
        return;
    };
    let wire = most(m, id::line_rates, "max").unwrap_or(0);
    let ports = most(m, id::ports, "max").unwrap_or(1);
    let bare = u128::from(wire) * u128::from(ports);
    match (of, l.unit) {
        // what is above the wire itself is told by another rule
        (id::goodput, Unit::Mbps) if u128::from(l.value) <= bare => {
            if u128::from(l.value) > most_mbps {
                f.warning(
                    at,
                    format!(
                        "{} mbps are more than packets of this size leave of the wire: {most_mbps}",
                        l.value
                    ),
                );
            }
        }
        (id::message_rate, Unit::OpsPerS) => {
            let bytes = l.when.as_ref().and_then(|w| w.message).unwrap_or(64);
            let bits = u128::from(l.value) * u128::from(bytes) * 8;
            if bits > most_mbps * 1_000_000 {
                f.warning(
                    at,
                    format!("{} messages of {bytes} bytes a second are more than the wire carries: {most_mbps} mbps", l.value),
                );
            }
        }
        _ => {}
    }
}

/// Payload that is fetched at a rate is on its way for as long as a read takes: no more than all reads at a time can hold.
fn fetched(f: &mut Findings, m: &Manifest, of: &str, l: &Limit, at: &str) {
    let measured = matches!(l.bound, Bound::AtLeast | Bound::Exactly);
    let ns = l.when.as_ref().and_then(|w| w.host_read_ns).unwrap_or(0);
    let reads = most(m, id::payload_reads, "max").map(u128::from);
    let (Some(reads), true) = (reads, measured && ns > 0) else {
        return;
    };
    let ns = u128::from(ns);
    let v = u128::from(l.value);
    let (is, can, what) = match (of, l.unit) {
        (id::goodput, Unit::Mbps) => match most(m, id::host_port, "max_read") {
            // bits a second
            Some(bytes) => (
                v * 1_000_000,
                reads * u128::from(bytes) * 8_000_000_000 / ns,
                "bits",
            ),
            None => return,
        },
        (id::message_rate, Unit::OpsPerS) => (v, reads * 1_000_000_000 / ns, "messages"),
        _ => return,
    };
    if is > can {
        f.warning(
            at,
            format!("is {is} {what} a second, and {reads} host reads at a time of {ns} ns each (payload_reads, host_read_ns) fetch {can}"),
        );
    }
}

/// A limit that several share.
fn combined(f: &mut Findings, m: &Manifest, c: &Combined) {
    let at = format!("combined[{}]", shown(&c.id));
    let own = |name: &str| {
        let e = c.capabilities.iter().filter_map(|i| registry::find(i));
        let mut all = e.flat_map(|e| e.figures.iter().map(move |(n, u)| (e, *n, *u)));
        all.find(|(_, n, _)| *n == name)
    };
    for i in c.capabilities.iter().filter(|i| m.capability(i).is_some()) {
        if !has(m, i) {
            f.warning(
                &at,
                format!("shares a limit with `{}`, which is absent", shown(i)),
            );
        }
    }
    let registered = c.capabilities.iter().all(|i| registry::find(i).is_some());
    let mut conditions = (BTreeSet::new(), BTreeSet::new());
    for l in &c.limits {
        let at = format!("{at}.limits[{}]", shown(&l.name));
        shown_by(f, m, l, &at);
        if let Some(w) = &l.when {
            condition(f, m, w, &at);
            conditions.0.insert(w.qps);
            conditions.1.insert(w.mtu);
        }
        match own(if l.name == "sum" { "max" } else { &l.name }) {
            Some((e, _, unit)) => {
                if unit != l.unit {
                    f.warning(
                        &at,
                        format!("is in {}, and in {unit} in `{}`", l.unit, e.id),
                    );
                }
                bound(f, promises::bounds(e, unit), l, &at);
                wire(f, m, e.id, l, &at);
                fetched(f, m, e.id, l, &at);
            }
            None if registered => {
                f.warning(
                    &at,
                    "is a figure of none of the capabilities that it is about",
                );
            }
            None => {}
        }
        if l.name == "sum" && l.when.is_none() {
            sum(f, m, c, l, &at);
        }
    }
    for (n, id) in [
        (conditions.0.len(), id::queue_pairs),
        (conditions.1.len(), id::mtus),
    ] {
        if n > 1 && registered && !c.capabilities.iter().any(|i| i == id) {
            f.warning(
                &at,
                format!("falls off with `{id}`, which is not among its capabilities"),
            );
        }
    }
}

/// What is shared is no less than each may have, and no more than all may have.
fn sum(f: &mut Findings, m: &Manifest, c: &Combined, l: &Limit, at: &str) {
    let mut all: Option<u64> = Some(0);
    for i in &c.capabilities {
        let one = most(m, i, "max");
        if one.is_none() && registry::find(i).is_some() && m.partial.is_none() {
            f.warning(at, format!("is a sum, and {} has no `max`", shown(i)));
        }
        if let Some(n) = one.filter(|n| *n > l.value) {
            f.warning(at, format!("is {}, and {}.max is {n}", l.value, shown(i)));
        }
        all = all.zip(one).and_then(|(a, b)| a.checked_add(b));
    }
    if c.capabilities.len() < 2 {
        f.warning(at, "is a sum of less than two");
    } else if let Some(all) = all.filter(|all| l.value >= *all) {
        f.warning(
            at,
            format!(
                "is {}, and all of them together are {all}: that is no limit",
                l.value
            ),
        );
    } else if let Some(i) = c.capabilities.iter().find(|i| {
        // the table is as large as what may fill it alone
        most(m, i, "max").is_some_and(|n| n < l.value)
    }) {
        f.warning(
            at,
            format!(
                "is {}, and {}.max only {}, though they share",
                l.value,
                shown(i),
                most(m, i, "max").unwrap_or(0)
            ),
        );
    }
}

/// Where claims can come from.
fn provenance(f: &mut Findings, m: &Manifest) {
    let port = m.capability(id::host_port).filter(|c| c.has());
    let simulator = port.is_some_and(|c| c.set.len() == 1 && c.set[0] == "messages");
    let mut one = |at: String, p: &crate::Provenance, figure: bool| {
        if simulator && p.stage == Stage::Silicon {
            f.warning(
                at.clone(),
                "`silicon`, and host_port has only the bus of a simulator",
            );
        }
        if !figure && p.stage == Stage::Placed {
            f.warning(
                at.clone(),
                "`placed`: placement and routing show clocks, not what a card does",
            );
        }
        if p.stage == Stage::Design && !p.test.is_empty() && m.partial.is_none() {
            f.warning(
                at,
                "`design`, so nothing was measured, and yet it names a test",
            );
        }
    };
    for c in &m.capabilities {
        let at = format!("capabilities[{}]", shown(&c.id));
        if let Some(p) = &c.provenance {
            one(format!("{at}.provenance"), p, false);
        }
        for l in &c.limits {
            one(
                format!("{at}.limits[{}].provenance", shown(&l.name)),
                &l.provenance,
                true,
            );
        }
    }
    for c in &m.combined {
        for l in &c.limits {
            let at = format!(
                "combined[{}].limits[{}].provenance",
                shown(&c.id),
                shown(&l.name)
            );
            one(at, &l.provenance, true);
        }
    }
    for o in &m.ordering {
        one(
            format!("ordering[{}].provenance", shown(&o.id)),
            &o.provenance,
            false,
        );
    }
    for t in &m.timers {
        one(
            format!("timers[{}].provenance", shown(&t.id)),
            &t.provenance,
            false,
        );
    }
}
