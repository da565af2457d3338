//! What one part of a manifest says against another: a thing that is told twice, or that follows from what is told elsewhere. What can't
//! be is an error; what contradicts, without that it shows which of the two is wrong, or is hardly meant, is a warning.

use crate::{
    check::{shown, Findings},
    possible::most,
    promises,
    registry::{self, id, Words},
    Bound, Capability, Combined, Condition, Limit, Manifest, Scope, Stage, State, Unit,
};
use alloc::{collections::BTreeSet, format, string::String};
use metaroce_protocol::opcode::{Class, Opcode, OpcodeInfo, Place, Service};

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
    packets(f, m);
    sets(f, m);
    provenance(f, m);
    promised(f, m);
    timers(f, m);
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

/// Packets that each transport has, and those that go with a capability.
fn packets(f: &mut Findings, m: &Manifest) {
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
fn sets(f: &mut Findings, m: &Manifest) {
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

fn promised(f: &mut Findings, m: &Manifest) {
    let rc = m.capability(id::wire_profiles);
    let rc = rc.is_some_and(|c| c.has() && c.set.iter().any(|w| w == "rocev2_rc"));
    for o in &m.ordering {
        let at = format!("ordering[{}]", shown(&o.id));
        let Some(p) = promises::promise(&o.id) else {
            f.warning(&at, "is not registered: nothing relies on it");
            continue;
        };
        if o.scope == Scope::Nobody {
            if p.of_rc && rc {
                f.warning(
                    &at,
                    "holds for nobody, and every program takes it for granted of RC",
                );
            }
        } else if !p.scopes.contains(&o.scope) {
            let right = p
                .scopes
                .iter()
                .fold(String::from("`nobody`"), |s, w| format!("{s}, `{w}`"));
            f.warning(
                &at,
                format!("can't hold for `{}`, only for {right}", o.scope),
            );
        }
        if o.id == "atomicity"
            && o.scope != Scope::Nobody
            && m.partial.is_none()
            && !has(m, id::atomic_op_accel)
        {
            f.warning(&at, "is promised, and there are no atomics");
        }
    }
    let named = |id: &str| m.ordering.iter().any(|o| o.id == id);
    if m.partial.is_none() && has(m, id::atomic_op_accel) && !named("atomicity") {
        f.warning(
            "ordering[atomicity]",
            "is not there, and there are atomics: among whom?",
        );
    }
}

/// Codes of the verbs: none is shorter than what they say, and what is longer is so from one end on ("codes below 12 are taken as 12").
fn timers(f: &mut Findings, m: &Manifest) {
    for t in &m.timers {
        let at = format!("timers[{}]", shown(&t.id));
        let Some(r) = promises::timer(&t.id) else {
            f.warning(&at, "is not registered: no program sets it");
            continue;
        };
        let said = |c: usize| (r.code_ns)((c & 31) as u8);
        let n = t.code_ns.len().min(32);
        if t.code_ns.len() != 32 {
            f.warning(
                &at,
                format!(
                    "code_ns has {} codes, and the verbs have 32",
                    t.code_ns.len()
                ),
            );
        }
        // by time: 0 is for ever, or the longest
        let mut shortest: Option<u64> = None;
        for c in (0..n).filter(|c| said(*c) > 0) {
            let is = t.code_ns[c];
            let least = u128::from(is) * u128::from(1_000_000u32.saturating_sub(t.early_ppm));
            if is > 0 && least < u128::from(said(c)) * 1_000_000 {
                f.warning(
                    &at,
                    format!("code_ns[{c}] is {is}, at most {} ppm early, and lasts at least {} for every program", t.early_ppm, said(c)),
                );
            }
            let late = u128::from(is) * u128::from(t.late_ppm) / 1_000_000 + u128::from(t.late_ns);
            let longest = u128::from(is) + late;
            if let Some(k) = r
                .at_most
                .filter(|k| is == said(c) && longest > u128::from(said(c)) * u128::from(*k))
            {
                f.warning(
                    &at,
                    format!("code_ns[{c}] can last {longest} (late_ppm, late_ns), and at most {k} times {} is allowed", said(c)),
                );
            }
            if late < u128::from(t.resolution_ns) {
                f.warning(
                    &at,
                    format!(
                        "late_ppm and late_ns leave {late} ns at code {c}, and resolution_ns is {}",
                        t.resolution_ns
                    ),
                );
            }
            if is != said(c) {
                // all shorter ones are taken as this one, or all longer ones
                let same = |other: usize| t.code_ns[other] == is;
                let of_verbs = (0..32).any(|k| said(k) == is) && is > said(c);
                let below = (0..n)
                    .filter(|k| said(*k) > 0 && said(*k) < said(c))
                    .all(same);
                if !(of_verbs && below) {
                    f.warning(
                        &at,
                        format!("code_ns[{c}] is {is}, and {} for every program", said(c)),
                    );
                }
            }
            if is > 0 {
                shortest = Some(shortest.map_or(is, |s| s.min(is)));
            }
        }
        for c in (0..n).filter(|c| said(*c) == 0 && t.code_ns[*c] != 0) {
            f.warning(
                &at,
                format!(
                    "code_ns[{c}] is {}, and 0, for ever, for every program",
                    t.code_ns[c]
                ),
            );
        }
        if shortest.is_some_and(|s| t.resolution_ns > s) {
            f.warning(
                &at,
                format!(
                    "resolution_ns is {}: longer than the shortest code lasts",
                    t.resolution_ns
                ),
            );
        }
    }
}
