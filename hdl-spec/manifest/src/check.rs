//! What a manifest has to keep beyond its types.

use crate::{
    agree, possible,
    registry::{self, is_name, vendor_id},
    Fallback, Limit, Manifest, Provenance, Stage, State, SCHEMA,
};
use alloc::{collections::BTreeSet, format, string::String, vec::Vec};

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "std", derive(serde::Serialize))]
pub struct Finding {
    /// A reader that meets this refuses the manifest; else it is worth a look only.
    pub error: bool,
    /// Where, such as `capabilities[mtus].limits[max]`.
    pub at: String,
    pub text: String,
}

/// More are not kept: a file may be made of nothing but mistakes.
pub const MAX_FINDINGS: usize = 200;

pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    fn push(&mut self, error: bool, at: String, text: String) {
        if self.0.len() < MAX_FINDINGS {
            self.0.push(Finding { error, at, text });
        } else if error && self.0.iter().all(|f| !f.error) {
            // what is refused stays refused
            self.0[MAX_FINDINGS - 1] = Finding { error, at, text };
        }
    }
    pub(crate) fn error(&mut self, at: impl Into<String>, text: impl Into<String>) {
        self.push(true, at.into(), text.into());
    }
    pub(crate) fn warning(&mut self, at: impl Into<String>, text: impl Into<String>) {
        self.push(false, at.into(), text.into());
    }

    /// Text that a terminal may show.
    fn text(&mut self, at: &str, what: &str, s: &str, needed: bool) {
        if needed && s.trim().is_empty() {
            self.error(at, format!("{what} is empty"));
        }
        if s.chars().any(char::is_control) {
            self.error(at, format!("{what} has control characters"));
        }
    }

    fn unique<'a>(&mut self, list: &str, ids: impl Iterator<Item = &'a str>) {
        let mut seen = BTreeSet::new();
        for id in ids {
            if !seen.insert(id) {
                self.error(format!("{list}[{}]", shown(id)), "the id is there twice");
            }
        }
    }

    fn provenance(&mut self, at: &str, p: &Provenance) {
        self.text(at, "provenance.test", &p.test, false);
        if p.stage > Stage::Design && p.test.trim().is_empty() {
            self.error(at, format!("`{}` says no test that shows it", p.stage));
        }
    }

    fn limit(&mut self, at: &str, l: &Limit) {
        let at = format!("{at}.limits[{}]", shown(&l.name));
        if !is_name(&l.name) {
            self.error(&at, "the name is not of a-z, 0-9, _");
        }
        if let Some(p) = l.percentile_ppm {
            if p == 0 || p > 1_000_000 {
                self.error(&at, format!("percentile_ppm is 1..=1000000, not {p}"));
            }
        }
        if let Some(t) = l.tolerance_ppm {
            if t > 1_000_000 {
                self.error(&at, format!("tolerance_ppm is at most 1000000, not {t}"));
            }
        }
        if let Some(t) = l.when.as_ref().and_then(|w| w.text.as_deref()) {
            self.text(&at, "when.text", t, true);
        }
        self.provenance(&at, &l.provenance);
    }

    /// Figures of one place: the same one under the same condition can't have two values, and a minimum is not above its maximum.
    fn limits(&mut self, at: &str, limits: &[Limit]) {
        let mut seen = BTreeSet::new();
        for l in limits {
            self.limit(at, l);
            let key = format!("{} {} {:?} {:?}", l.name, l.bound, l.when, l.percentile_ppm);
            if !seen.insert(key) {
                self.error(
                    format!("{at}.limits[{}]", shown(&l.name)),
                    "the figure is there twice for the same condition",
                );
            }
        }
        possible::bounds(self, at, limits);
    }

    fn fallback(&mut self, at: &str, f: &Fallback) {
        self.text(at, "if_absent.text", &f.text, false);
    }
}

/// An id as a message shows it, whatever is in it.
pub(crate) fn shown(s: &str) -> String {
    let mut t: String = s.chars().take(64).flat_map(char::escape_debug).collect();
    if s.chars().nth(64).is_some() {
        t.push_str("...");
    }
    t
}

/// What is wrong, or odd, in the order of the file; at most [`MAX_FINDINGS`].
pub fn check(m: &Manifest) -> Vec<Finding> {
    let mut f = Findings(Vec::new());
    if m.schema.major != SCHEMA.major {
        f.error(
            "schema",
            format!("major version {} is not {}", m.schema.major, SCHEMA.major),
        );
    }
    let newer = m.schema.minor > SCHEMA.minor;
    if newer {
        f.warning(
            "schema",
            format!(
                "written for {}.{}: what came after {}.{} is not looked at",
                m.schema.major, m.schema.minor, SCHEMA.major, SCHEMA.minor
            ),
        );
    }
    if !is_name(&m.card.vendor) {
        f.error("card.vendor", "is not of a-z, 0-9, _");
    }
    f.text("card.name", "the name", &m.card.name, true);
    f.text("card.version", "the version", &m.card.version, true);
    if let Some(r) = &m.register_map {
        f.text("register_map", "file", &r.file, true);
        f.text("register_map", "format", &r.format, true);
    }
    for (what, v) in [
        ("oldest", &m.firmware.oldest),
        ("newest", &m.firmware.newest),
    ] {
        if let Some(v) = v {
            f.text("firmware", what, v, true);
        }
    }
    if m.firmware.needed && m.firmware.oldest.is_none() {
        f.error("firmware", "is needed, but `oldest` does not say which");
    }
    f.unique("capabilities", m.capabilities.iter().map(|c| c.id.as_str()));
    for c in &m.capabilities {
        capability(&mut f, m, c, newer);
    }
    if let Some(from) = &m.partial {
        f.text("partial", "where it comes from", from, true);
    }
    for e in registry::REGISTRY {
        if m.partial.is_none() && m.capability(e.id).is_none() {
            f.warning(
                format!("capabilities[{}]", e.id),
                "not said; a host takes it for absent",
            );
        }
    }
    let own: BTreeSet<&str> = m.capabilities.iter().map(|c| c.id.as_str()).collect();
    let refers = |f: &mut Findings, at: &str, ids: &[String]| {
        let mut seen = BTreeSet::new();
        for id in ids {
            if !seen.insert(id) {
                f.warning(at, format!("names `{}` twice", shown(id)));
            }
            if !own.contains(id.as_str()) {
                f.error(
                    at,
                    format!("`{}` is no capability of this manifest", shown(id)),
                );
            }
        }
    };
    f.unique("combined", m.combined.iter().map(|c| c.id.as_str()));
    for c in &m.combined {
        let at = format!("combined[{}]", shown(&c.id));
        if !is_name(&c.id) {
            f.error(&at, "the id is not of a-z, 0-9, _");
        }
        f.text(&at, "text", &c.text, true);
        refers(&mut f, &at, &c.capabilities);
        f.limits(&at, &c.limits);
    }
    f.unique("ordering", m.ordering.iter().map(|o| o.id.as_str()));
    for o in &m.ordering {
        let at = format!("ordering[{}]", shown(&o.id));
        if !is_name(&o.id) {
            f.error(&at, "the id is not of a-z, 0-9, _");
        }
        f.text(&at, "text", &o.text, true);
        f.provenance(&at, &o.provenance);
    }
    f.unique("timers", m.timers.iter().map(|t| t.id.as_str()));
    for t in &m.timers {
        let at = format!("timers[{}]", shown(&t.id));
        if !is_name(&t.id) {
            f.error(&at, "the id is not of a-z, 0-9, _");
        }
        if t.code_ns.is_empty() || t.code_ns.len() > 256 {
            f.error(&at, "code_ns has 1 to 256 entries");
        }
        if t.early_ppm > 1_000_000 {
            f.error(&at, "early_ppm is at most 1000000");
        }
        f.text(&at, "text", &t.text, true);
        f.provenance(&at, &t.provenance);
    }
    f.unique("errata", m.errata.iter().map(|e| e.id.as_str()));
    for e in &m.errata {
        let at = format!("errata[{}]", shown(&e.id));
        f.text(&at, "id", &e.id, true);
        f.text(&at, "text", &e.text, true);
        f.text(&at, "workaround", &e.workaround, false);
        if let Some(v) = &e.fixed_in {
            f.text(&at, "fixed_in", v, true);
        }
        refers(&mut f, &at, &e.capabilities);
    }
    possible::card(&mut f, m);
    agree::card(&mut f, m);
    f.0
}

fn capability(f: &mut Findings, m: &Manifest, c: &crate::Capability, newer: bool) {
    let at = format!("capabilities[{}]", shown(&c.id));
    let known = registry::find(&c.id);
    match (known, vendor_id(&c.id)) {
        (Some(e), _) => {
            if let Some(b) = &c.if_absent {
                if b.action != e.action {
                    f.error(
                        &at,
                        format!(
                            "if_absent is `{}` for everybody, not `{}`",
                            e.action, b.action
                        ),
                    );
                }
            }
            for l in &c.limits {
                let want = e.figures.iter().find(|(n, _)| *n == l.name);
                if let Some((name, unit)) = want.filter(|(_, u)| *u != l.unit) {
                    f.error(
                        format!("{at}.limits[{name}]"),
                        format!("is in {unit}, not in {}", l.unit),
                    );
                }
            }
        }
        (None, Some((vendor, _))) => {
            if vendor != m.card.vendor {
                f.warning(&at, "in the namespace of another vendor");
            }
            if c.if_absent.is_none() {
                f.error(
                    &at,
                    "a vendor's own id says in `if_absent` what a host does without it",
                );
            }
        }
        (None, None) if newer && is_name(&c.id) => {
            f.warning(&at, "not registered in the version that this program knows");
        }
        (None, None) => f.error(&at, "not registered, and not `vendor:name`"),
    }
    if let Some(b) = &c.if_absent {
        f.fallback(&at, b);
    }
    if let Some(p) = &c.provenance {
        f.provenance(&at, p);
    }
    if let Some(n) = &c.note {
        f.text(&at, "note", n, true);
    }
    let mut words = BTreeSet::new();
    for w in &c.set {
        f.text(&at, "a word of the set", w, true);
        if !words.insert(w) {
            f.error(&at, format!("`{}` is in the set twice", shown(w)));
        }
        if known.is_some_and(|e| !e.words.take(w)) {
            let text = format!(
                "`{}` is no registered word of this set, and not `vendor:name`",
                shown(w)
            );
            f.push(!newer, at.clone(), text);
        }
    }
    f.limits(&at, &c.limits);
    match c.state {
        State::Absent => {
            if !c.limits.is_empty() || !c.set.is_empty() {
                f.error(&at, "is absent, and yet has figures or a set");
            }
        }
        _ => {
            if c.provenance.is_none() {
                f.error(&at, "says no provenance");
            }
        }
    }
}
