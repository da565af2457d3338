//! Promises of order, and timers, against what the verbs make programs rely on.

use super::has;
use crate::{
    check::{shown, Findings},
    promises,
    registry::id,
    Manifest, Scope,
};
use alloc::{format, string::String};

/// Who an order holds for.
pub fn promised(f: &mut Findings, m: &Manifest) {
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
pub fn timers(f: &mut Findings, m: &Manifest) {
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
