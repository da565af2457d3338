//! The data sheet, in Markdown, and the short forms that it shares with the command line.

use crate::{
    registry::{self, REGISTRY},
    Bound, Capability, Condition, Limit, Manifest, Stage, State,
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt::Write;

/// A number with a comma every three digits.
pub fn grouped(n: u64) -> String {
    let s = n.to_string();
    let mut out = String::new();
    for (i, c) in s.chars().enumerate() {
        if i > 0 && (s.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Millionths as a percentage.
fn percent(ppm: u32) -> String {
    let s = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    let s = s.trim_end_matches('0').trim_end_matches('.');
    format!("{s} %")
}

/// When a figure holds.
pub fn condition(c: &Condition) -> String {
    let mut v: Vec<String> = Vec::new();
    if let Some(t) = &c.text {
        v.push(t.clone());
    }
    if let Some(n) = c.message {
        v.push(format!("messages of {} bytes", grouped(n)));
    }
    if let Some(n) = c.mtu {
        v.push(format!("MTU {n}"));
    }
    match c.qps {
        Some(1) => v.push("one QP".into()),
        Some(n) => v.push(format!("{} QPs", grouped(n.into()))),
        None => {}
    }
    if let Some(n) = c.clock_khz {
        v.push(format!("{} kHz", grouped(n.into())));
    }
    match c.host_read_ns {
        Some(0) | None => {}
        Some(n) => v.push(format!("host reads of {n} ns")),
    }
    v.join(", ")
}

/// A figure without what shows it.
pub fn figure(l: &Limit) -> String {
    let how = match l.bound {
        Bound::AtMost => "at most ",
        Bound::AtLeast => "at least ",
        Bound::Exactly => "",
        Bound::UpTo => "up to ",
    };
    let mut s = format!("{} {how}{}", l.name, grouped(l.value));
    if l.unit != crate::Unit::Count {
        let _ = write!(s, " {}", l.unit);
    }
    if let Some(p) = l.percentile_ppm {
        let _ = write!(s, " in {} of the cases", percent(p));
    }
    if let Some(t) = l.tolerance_ppm.filter(|t| *t > 0) {
        let _ = write!(s, " (within {})", percent(t));
    }
    if let Some(w) = l.when.as_ref().map(condition).filter(|w| !w.is_empty()) {
        let _ = write!(s, ": {w}");
    }
    s
}

/// What a host does without a capability.
pub fn fallback(c: &Capability) -> String {
    let text = match (&c.if_absent, registry::find(&c.id)) {
        (Some(f), _) => f.text.clone(),
        (None, Some(e)) => e.fallback.into(),
        (None, None) => String::new(),
    };
    if text.is_empty() {
        "nothing to do".into()
    } else {
        text
    }
}

/// Where a group of the data sheet begins: registered capabilities by group, then the vendor's own.
pub fn groups(m: &Manifest) -> Vec<(&'static str, Vec<&Capability>)> {
    let mut out: Vec<(&'static str, Vec<&Capability>)> = Vec::new();
    for e in REGISTRY {
        if out.last().is_none_or(|(g, _)| *g != e.group) {
            out.push((e.group, Vec::new()));
        }
        if let (Some(c), Some((_, v))) = (m.capability(e.id), out.last_mut()) {
            v.push(c);
        }
    }
    let own = m.capabilities.iter();
    let own: Vec<_> = own.filter(|c| registry::find(&c.id).is_none()).collect();
    out.push(("The vendor's own", own));
    out.retain(|(_, v)| !v.is_empty());
    out
}

/// What a part of a manifest is.
pub fn part(from: &str) -> String {
    format!("A part of what the card can do, from {from}: of all else nothing is known.")
}

/// For a cell of a table, whatever a vendor wrote.
fn cell(s: &str) -> String {
    s.replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace('<', "&lt;")
        .replace(['\n', '\r'], " ")
}

fn shown(stage: Stage, test: &str) -> String {
    if test.is_empty() {
        stage.to_string()
    } else {
        format!("{stage}: `{}`", cell(test).replace('`', "'"))
    }
}

/// The page. `command` is what makes it, for the line that says that it is generated.
pub fn markdown(m: &Manifest, generated: &str) -> String {
    let mut s = format!("# {} {}\n\n", cell(&m.card.vendor), cell(&m.card.name));
    if !generated.is_empty() {
        let _ = writeln!(s, "{generated}\n");
    }
    let firmware = match (&m.firmware.needed, &m.firmware.oldest) {
        (false, _) => "needs no firmware".into(),
        (true, v) => format!("needs firmware {}", cell(v.as_deref().unwrap_or("?"))),
    };
    let registers = match &m.register_map {
        None => "no register map is published".into(),
        Some(r) => format!(
            "register map {}.{}: `{}`",
            r.abi.major,
            r.abi.minor,
            cell(&r.file)
        ),
    };
    let _ = writeln!(
        s,
        "Version {}; {firmware}; {registers}. Language version {}.{}. A figure without a stage in brackets follows from the design.",
        cell(&m.card.version),
        m.schema.major,
        m.schema.minor
    );
    if let Some(from) = &m.partial {
        let _ = writeln!(s, "\n{}", part(&cell(from)));
    }
    for (group, list) in groups(m) {
        let _ = writeln!(
            s,
            "\n## {group}\n\n| capability | state | what | shown by |\n|---|---|---|---|"
        );
        for c in list {
            let mut what: Vec<String> = Vec::new();
            if c.state == State::Absent {
                what.push(format!("A host without it: {}", cell(&fallback(c))));
            }
            if !c.set.is_empty() {
                let words: Vec<String> = c
                    .set
                    .iter()
                    .map(|w| format!("`{}`", cell(w).replace('`', "'")))
                    .collect();
                what.push(words.join(", "));
            }
            for l in &c.limits {
                let mut f = cell(&figure(l));
                if l.provenance.stage > Stage::Design {
                    let _ = write!(f, " [{}]", l.provenance.stage);
                }
                what.push(f);
            }
            if let Some(n) = &c.note {
                what.push(cell(n));
            }
            let by = c.provenance.as_ref();
            let _ = writeln!(
                s,
                "| `{}` | {} | {} | {} |",
                cell(&c.id),
                c.state,
                what.join("<br>"),
                by.map(|p| shown(p.stage, &p.test)).unwrap_or_default()
            );
        }
    }
    if !m.combined.is_empty() {
        s.push_str("\n## Together\n\n| limit | of | rule |\n|---|---|---|\n");
        for c in &m.combined {
            let mut what = alloc::vec![cell(&c.text)];
            what.extend(c.limits.iter().map(|l| cell(&figure(l))));
            let _ = writeln!(
                s,
                "| `{}` | {} | {} |",
                cell(&c.id),
                cell(&c.capabilities.join(", ")),
                what.join("<br>")
            );
        }
    }
    if !m.ordering.is_empty() {
        s.push_str(
            "\n## Order and atomicity\n\n| promise | holds for | what | shown by |\n|---|---|---|---|\n",
        );
        for o in &m.ordering {
            let _ = writeln!(
                s,
                "| `{}` | {} | {} | {} |",
                cell(&o.id),
                o.scope,
                cell(&o.text),
                shown(o.provenance.stage, &o.provenance.test)
            );
        }
    }
    for t in &m.timers {
        let _ = writeln!(
            s,
            "\n## Timer `{}`\n\n{}. At most {} ppm early, {} ppm and {} ns late; counted in steps of {} ns. Shown by {}.\n",
            cell(&t.id),
            cell(&t.text),
            t.early_ppm,
            t.late_ppm,
            t.late_ns,
            t.resolution_ns,
            shown(t.provenance.stage, &t.provenance.test)
        );
        let codes: Vec<String> = t
            .code_ns
            .iter()
            .enumerate()
            .map(|(i, ns)| match ns {
                0 => format!("{i} never"),
                _ => format!("{i} {} ns", grouped(*ns)),
            })
            .collect();
        let _ = writeln!(s, "Codes: {}.", codes.join("; "));
    }
    s.push_str("\n## Errata\n\n");
    if m.errata.is_empty() {
        s.push_str("None known.\n");
    }
    for e in &m.errata {
        let _ = writeln!(
            s,
            "- **{}** ({}): {} {}{}",
            cell(&e.id),
            cell(&e.capabilities.join(", ")),
            cell(&e.text),
            if e.workaround.is_empty() {
                "No workaround.".into()
            } else {
                format!("Workaround: {}", cell(&e.workaround))
            },
            match &e.fixed_in {
                Some(v) => format!(" Fixed in {}.", cell(v)),
                None => String::new(),
            }
        );
    }
    s
}
