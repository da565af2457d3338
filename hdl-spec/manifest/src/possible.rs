//! Figures and versions that can't be, whatever the card: what contradicts itself or the rest of the manifest.

use crate::{
    check::{shown, Findings},
    registry::{self, id},
    Bound, Condition, Limit, Manifest, Unit,
};
use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

/// "2.4.0" as numbers; None where it is not made of those alone.
fn version(s: &str) -> Option<Vec<u64>> {
    let parts: Option<Vec<u64>> = s.split('.').map(|p| p.parse().ok()).collect();
    parts.map(|mut v| {
        while v.last() == Some(&0) {
            v.pop();
        }
        v
    })
}

/// Whether both can hold at a time.
fn together(a: Option<&Condition>, b: Option<&Condition>) -> bool {
    fn same<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
        a.is_none() || b.is_none() || a == b
    }
    let (Some(a), Some(b)) = (a, b) else {
        return true;
    };
    same(&a.mtu, &b.mtu)
        && same(&a.qps, &b.qps)
        && same(&a.clock_khz, &b.clock_khz)
        && same(&a.message, &b.message)
        && same(&a.host_read_ns, &b.host_read_ns)
        && same(&a.text, &b.text)
}

/// The least and the most that a figure lets be, in millionths of its unit. The tolerance of a bound makes it no looser: it says how well the bound is known.
fn range(l: &Limit) -> (u128, u128) {
    const ALL: u128 = 1_000_000;
    let v = u128::from(l.value);
    let t = u128::from(l.tolerance_ppm.unwrap_or(0));
    match l.bound {
        Bound::AtLeast => (v * ALL, u128::MAX),
        Bound::AtMost | Bound::UpTo => (0, v * ALL),
        Bound::Exactly => (v * ALL.saturating_sub(t), v * (ALL + t)),
    }
}

/// More figures of one name than any card has: only these are compared with each other.
const MOST: usize = 256;

/// Figures of one place that no measurement could keep together: of the same name, under conditions that can hold at a time, for shares that overlap.
pub fn bounds(f: &mut Findings, at: &str, limits: &[Limit]) {
    let mut names: BTreeMap<&str, Vec<&Limit>> = BTreeMap::new();
    for l in limits {
        names.entry(&l.name).or_default().push(l);
    }
    for (name, list) in names {
        let here = || format!("{at}.limits[{}]", shown(name));
        let list = &list[..list.len().min(MOST)];
        for (i, a) in list.iter().enumerate() {
            for b in &list[i + 1..] {
                let share = |l: &Limit| u64::from(l.percentile_ppm.unwrap_or(1_000_000));
                let meet =
                    share(a) + share(b) > 1_000_000 && together(a.when.as_ref(), b.when.as_ref());
                if !meet || a.bound == b.bound && a.bound != Bound::Exactly {
                    continue;
                }
                if a.unit != b.unit {
                    f.error(
                        here(),
                        format!("is in {} and in {}: one name, one unit", a.unit, b.unit),
                    );
                    continue;
                }
                let (x, y) = (range(a), range(b));
                if x.0 > y.1 || y.0 > x.1 {
                    let say = |l: &Limit| format!("{} {}", l.bound, l.value).replace('_', " ");
                    f.error(here(), format!("{} and {} is nothing", say(a), say(b)));
                }
            }
        }
    }
}

/// What a figure that is 0 means for one of a registered name, where it can't be.
fn zero(f: &mut Findings, at: &str, l: &Limit, registered: bool) {
    // "No interval", "none for datagrams", "none fetched early" are possible.
    let none = ["min_interval", "max_ud", "send", "recv"].contains(&l.name.as_str());
    match l.bound {
        Bound::AtLeast => f.warning(at, "at least 0 says nothing"),
        Bound::AtMost if matches!(l.unit, Unit::Ns | Unit::Cycles) => {
            f.error(at, format!("nothing takes 0 {}", l.unit));
        }
        _ if registered && !none => f.error(at, "0: what a card has none of is absent"),
        _ => {}
    }
}

/// What a card can do at most, if it says so without a condition.
pub(crate) fn most(m: &Manifest, id: &str, name: &str) -> Option<u64> {
    let c = m.capability(id).filter(|c| c.has())?;
    let l = c.limits.iter().filter(|l| {
        l.name == name && l.when.is_none() && matches!(l.bound, Bound::UpTo | Bound::Exactly)
    });
    l.map(|l| l.value).max()
}

/// A condition in which this card can't be.
fn condition(f: &mut Findings, m: &Manifest, at: &str, w: &Condition) {
    for (what, n) in [
        ("an MTU", w.mtu),
        ("a number of queue pairs", w.qps),
        ("a clock", w.clock_khz),
    ] {
        if n == Some(0) {
            f.error(at, format!("{what} of 0 is no condition"));
        }
    }
    let mut within = |what: &str, n: Option<u64>, most: Option<u64>| {
        if let (Some(n), Some(most)) = (n, most) {
            if n > most {
                f.error(
                    at,
                    format!("when {what} is {n}, and the card has {most} at most"),
                );
            }
        }
    };
    within("mtu", w.mtu.map(Into::into), most(m, id::mtus, "max"));
    within(
        "qps",
        w.qps.map(Into::into),
        most(m, id::queue_pairs, "max"),
    );
    within(
        "message",
        w.message,
        most(m, id::segmentation_offload, "max_message"),
    );
}

/// What one part of a manifest says against another.
pub fn card(f: &mut Findings, m: &Manifest) {
    if m.schema.minor > u32::from(u16::MAX) {
        f.error("schema", "a minor version above 65535 has no image");
    }
    if let (Some(a), Some(b)) = (&m.firmware.oldest, &m.firmware.newest) {
        if version(a).zip(version(b)).is_some_and(|(a, b)| a > b) {
            f.error(
                "firmware",
                format!("`oldest` {} is later than `newest` {}", shown(a), shown(b)),
            );
        }
    }
    for c in &m.capabilities {
        let entry = registry::find(&c.id);
        for l in &c.limits {
            let at = format!("capabilities[{}].limits[{}]", shown(&c.id), shown(&l.name));
            let registered = entry.is_some_and(|e| e.figures.iter().any(|(n, _)| *n == l.name));
            if l.value == 0 {
                zero(f, &at, l, registered);
            }
            if l.tolerance_ppm == Some(1_000_000) && matches!(l.bound, Bound::AtLeast | Bound::UpTo)
            {
                f.warning(&at, "a tolerance of 100 % leaves nothing of it");
            }
            if let Some(w) = &l.when {
                condition(f, m, &at, w);
            }
        }
    }
    for c in &m.combined {
        for l in &c.limits {
            let at = format!("combined[{}].limits[{}]", shown(&c.id), shown(&l.name));
            if let Some(w) = &l.when {
                condition(f, m, &at, w);
            }
        }
    }
    // The largest word is the maximum.
    for id in [id::mtus, id::line_rates] {
        let words = m.capability(id).into_iter().flat_map(|c| &c.set);
        let largest = words.filter_map(|w| w.parse::<u64>().ok()).max();
        let at = || format!("capabilities[{id}].limits[max]");
        if let Some((w, max)) = largest.zip(most(m, id, "max")) {
            if w > max {
                f.error(at(), format!("is {max}, and {w} is in the set"));
            } else if w < max {
                f.warning(at(), format!("is {max}, which is not in the set"));
            }
        }
    }
    let names = m.capability(id::counters).map_or(0, |c| c.set.len() as u64);
    if let Some(max) = most(m, id::counters, "max").filter(|max| names > *max) {
        f.error(
            format!("capabilities[{}].limits[max]", id::counters),
            format!("is {max}, and {names} are in the set"),
        );
    }
    // Payload of one direction is below what all ports carry.
    let wire = most(m, id::line_rates, "max");
    let ports = most(m, id::ports, "max").unwrap_or(1);
    if let (Some(c), Some(wire)) = (m.capability(id::goodput), wire) {
        let all = wire.saturating_mul(ports);
        for l in &c.limits {
            let measured = matches!(l.bound, Bound::AtLeast | Bound::Exactly);
            if measured && l.unit == Unit::Mbps && l.value > all {
                f.error(
                    format!("capabilities[{}].limits[{}]", c.id, shown(&l.name)),
                    format!("{} mbps are more than the ports carry: {all}", l.value),
                );
            }
        }
    }
    for t in m.timers.iter().filter(|t| t.resolution_ns == 0) {
        f.error(
            format!("timers[{}]", shown(&t.id)),
            "resolution_ns of 0: a card counts in steps",
        );
    }
    for e in &m.errata {
        let fixed = e.fixed_in.as_deref().and_then(version);
        if fixed
            .zip(version(&m.card.version))
            .is_some_and(|(a, b)| a <= b)
        {
            let at: String = format!("errata[{}]", shown(&e.id));
            f.warning(at, "fixed in this version of the card, or before");
        }
    }
}
