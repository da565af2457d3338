//! What changed from one manifest to the next, and whom it breaks.

use crate::{Bound, Capability, Firmware, Limit, Manifest, Order, Provenance, State, Timer};
use alloc::{format, string::String, vec::Vec};
use serde::Serialize;

/// How a change meets a host that was written for the older manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Something it may rely on is gone, or smaller.
    Breaking,
    /// One of the two is a part of a manifest, and says nothing about it.
    NotStated,
    /// There is more, which it need not know.
    Additive,
    /// Nothing that it does depends on it: texts, better proof, a fault that is gone.
    Fix,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub class: Class,
    pub at: String,
    pub text: String,
}

struct Changes {
    list: Vec<Change>,
    /// Whether the older and the newer one are parts: what they leave out is not known.
    parts: (bool, bool),
}

impl Changes {
    fn add(&mut self, class: Class, at: &str, text: impl Into<String>) {
        self.list.push(Change {
            class,
            at: at.into(),
            text: text.into(),
        });
    }
    fn part(&self) -> bool {
        self.parts.0 || self.parts.1
    }
    /// What the newer one does not have.
    fn went(&mut self, class: Class, at: &str, what: &str) {
        match self.parts.1 {
            true => self.add(
                Class::NotStated,
                at,
                format!("{what}is not stated in the newer one"),
            ),
            false => self.add(class, at, format!("{what}is gone")),
        }
    }
    /// What the older one does not have.
    fn came(&mut self, class: Class, at: &str, what: &str) {
        match self.parts.0 {
            true => self.add(
                Class::NotStated,
                at,
                format!("{what}is not stated in the older one"),
            ),
            false => self.add(class, at, format!("{what}is new")),
        }
    }
    /// A text that no host decides by.
    fn text(&mut self, at: &str, what: &str, a: &str, b: &str) {
        if a != b {
            self.add(Class::Fix, at, format!("{what} was \"{a}\", is \"{b}\""));
        }
    }
    fn provenance(&mut self, at: &str, a: &Provenance, b: &Provenance) {
        if self.part() {
            // The word of whoever made the part.
            return;
        }
        if a.stage != b.stage {
            let class = if b.stage < a.stage {
                Class::Breaking
            } else {
                Class::Fix
            };
            self.add(
                class,
                at,
                format!("was shown by {}, is by {}", a.stage, b.stage),
            );
        }
        self.text(at, "the test", &a.test, &b.test);
    }
    /// Things by name: those that went, those that came, those that stayed.
    fn pairs<'a, T>(
        &mut self,
        at: &str,
        a: &'a [T],
        b: &'a [T],
        same: impl Fn(&T, &T) -> bool,
        name: impl Fn(&T) -> String,
        came: impl Fn(&T) -> Class,
        went: impl Fn(&T) -> Class,
        mut both: impl FnMut(&mut Self, &str, &'a T, &'a T),
    ) {
        for x in a {
            let here = format!("{at}[{}]", name(x));
            match b.iter().find(|y| same(x, y)) {
                Some(y) => both(self, &here, x, y),
                None => self.went(went(x), &here, ""),
            }
        }
        for y in b.iter().filter(|y| !a.iter().any(|x| same(x, y))) {
            self.came(came(y), &format!("{at}[{}]", name(y)), "");
        }
    }
}

/// The worse end of a figure's tolerance, in millionths of its unit; of an exact one the figure.
fn worst_exactly(l: &Limit) -> u128 {
    const ALL: u128 = 1_000_000;
    let t = u128::from(l.tolerance_ppm.unwrap_or(0));
    u128::from(l.value)
        * match l.bound {
            Bound::AtMost => ALL + t,
            Bound::AtLeast | Bound::UpTo => ALL.saturating_sub(t),
            Bound::Exactly => ALL,
        }
}

/// The same as a whole number, the worse one.
pub fn worst(l: &Limit) -> u64 {
    let w = worst_exactly(l);
    let w = match l.bound {
        Bound::AtMost => w.div_ceil(1_000_000),
        _ => w / 1_000_000,
    };
    u64::try_from(w).unwrap_or(u64::MAX)
}

fn limits(c: &mut Changes, at: &str, a: &[Limit], b: &[Limit]) {
    // Who makes a part of a manifest knows the figure, not what kind of promise it is.
    let part = c.part();
    c.pairs(
        &format!("{at}.limits"),
        a,
        b,
        |x, y| {
            (x.bound == y.bound || part)
                && (&x.name, x.unit, &x.when, x.percentile_ppm)
                    == (&y.name, y.unit, &y.when, y.percentile_ppm)
        },
        |l| l.name.clone(),
        // A bound where there was none holds a host back.
        |l| match l.bound {
            Bound::UpTo | Bound::Exactly => Class::Breaking,
            Bound::AtMost | Bound::AtLeast => Class::Additive,
        },
        |l| match l.bound {
            Bound::UpTo => Class::Additive,
            _ => Class::Breaking,
        },
        |c, at, x, y| {
            let (was, is) = (worst_exactly(x), worst_exactly(y));
            let bound = if x.bound == y.bound {
                x.bound
            } else {
                Bound::UpTo
            };
            let class = match bound {
                _ if was == is && x.tolerance_ppm == y.tolerance_ppm => None,
                Bound::Exactly if was == is && y.tolerance_ppm <= x.tolerance_ppm => {
                    Some(Class::Additive)
                }
                Bound::Exactly => Some(Class::Breaking),
                Bound::AtMost if is > was => Some(Class::Breaking),
                Bound::AtLeast | Bound::UpTo if is < was => Some(Class::Breaking),
                _ => Some(Class::Additive),
            };
            if let Some(class) = class {
                let tolerance = |l: &Limit| match l.tolerance_ppm {
                    Some(t) => format!("{} {} (tolerance {t} ppm)", l.value, l.unit),
                    None => format!("{} {}", l.value, l.unit),
                };
                c.add(
                    class,
                    at,
                    format!("{}: was {}, is {}", x.bound, tolerance(x), tolerance(y)),
                );
            }
            c.provenance(at, &x.provenance, &y.provenance);
        },
    );
}

fn capability(c: &mut Changes, at: &str, a: &Capability, b: &Capability) {
    if a.state != b.state {
        let class = match (a.state, b.state) {
            (State::Absent, _) => Class::Additive,
            // from "on by itself" to "has to be switched on" is work for the host
            (_, State::Absent) | (State::Enabled, State::Present) => Class::Breaking,
            _ => Class::Additive,
        };
        c.add(class, at, format!("was {}, is {}", a.state, b.state));
    }
    if a.has() && b.has() {
        for w in a.set.iter().filter(|w| !b.set.contains(w)) {
            c.went(Class::Breaking, at, &format!("`{w}` "));
        }
        for w in b.set.iter().filter(|w| !a.set.contains(w)) {
            c.came(Class::Additive, at, &format!("`{w}` "));
        }
        limits(c, at, &a.limits, &b.limits);
        if let (Some(x), Some(y)) = (&a.provenance, &b.provenance) {
            c.provenance(at, x, y);
        }
    }
    if let (Some(x), Some(y)) = (&a.if_absent, &b.if_absent) {
        if x.action != y.action {
            c.add(
                Class::Breaking,
                at,
                format!("if absent: was {}, is {}", x.action, y.action),
            );
        }
        c.text(at, "if_absent", &x.text, &y.text);
    } else if a.if_absent != b.if_absent && !c.part() {
        c.add(Class::Fix, at, "if_absent is said in one of the two only");
    }
    let note = |c: &Capability| c.note.clone().unwrap_or_default();
    if !c.part() {
        c.text(at, "the note", &note(a), &note(b));
    }
}

fn order(c: &mut Changes, at: &str, a: &Order, b: &Order) {
    if a.scope != b.scope {
        let class = if b.scope < a.scope {
            Class::Breaking
        } else {
            Class::Additive
        };
        c.add(
            class,
            at,
            format!("held for {}, holds for {}", a.scope, b.scope),
        );
    }
    c.text(at, "the text", &a.text, &b.text);
    c.provenance(at, &a.provenance, &b.provenance);
}

fn timer(c: &mut Changes, at: &str, a: &Timer, b: &Timer) {
    if a.code_ns != b.code_ns {
        c.add(Class::Breaking, at, "other times for the same codes");
    }
    for (what, x, y) in [
        ("early_ppm", u64::from(a.early_ppm), u64::from(b.early_ppm)),
        ("late_ppm", u64::from(a.late_ppm), u64::from(b.late_ppm)),
        ("late_ns", a.late_ns, b.late_ns),
        ("resolution_ns", a.resolution_ns, b.resolution_ns),
    ] {
        if x != y {
            let class = if y > x {
                Class::Breaking
            } else {
                Class::Additive
            };
            c.add(class, at, format!("{what} was {x}, is {y}"));
        }
    }
    c.text(at, "the text", &a.text, &b.text);
    c.provenance(at, &a.provenance, &b.provenance);
}

fn firmware(c: &mut Changes, a: &Firmware, b: &Firmware) {
    if a.needed != b.needed {
        let (class, text) = if b.needed {
            (Class::Breaking, "is needed now")
        } else {
            (Class::Additive, "is not needed any more")
        };
        c.add(class, "firmware", text);
    }
    if a.oldest != b.oldest {
        let of = |v: &Option<String>| v.clone().unwrap_or_else(|| "any".into());
        c.add(
            Class::Breaking,
            "firmware.oldest",
            format!("was {}, is {}", of(&a.oldest), of(&b.oldest)),
        );
    }
    let newest = |f: &Firmware| f.newest.clone().unwrap_or_default();
    c.text("firmware.newest", "it", &newest(a), &newest(b));
}

/// Everything that differs, worst first.
pub fn diff(a: &Manifest, b: &Manifest) -> Vec<Change> {
    let mut c = Changes {
        list: Vec::new(),
        parts: (a.partial.is_some(), b.partial.is_some()),
    };
    if a.partial != b.partial {
        let of = |m: &Manifest| match &m.partial {
            Some(from) => format!("a part ({from})"),
            None => "whole".into(),
        };
        c.add(
            Class::NotStated,
            "partial",
            format!("was {}, is {}", of(a), of(b)),
        );
    }
    if a.schema != b.schema {
        c.add(
            Class::Additive,
            "schema",
            format!(
                "was {}.{}, is {}.{}",
                a.schema.major, a.schema.minor, b.schema.major, b.schema.minor
            ),
        );
    }
    c.text("card.vendor", "it", &a.card.vendor, &b.card.vendor);
    c.text("card.name", "it", &a.card.name, &b.card.name);
    c.text("card.version", "it", &a.card.version, &b.card.version);
    match (&a.register_map, &b.register_map) {
        (None, Some(_)) => c.came(Class::Additive, "register_map", ""),
        (Some(_), None) => c.went(Class::Breaking, "register_map", ""),
        (Some(x), Some(y)) => {
            if x.abi != y.abi {
                let class = if x.abi.major != y.abi.major || y.abi < x.abi {
                    Class::Breaking
                } else {
                    Class::Additive
                };
                c.add(
                    class,
                    "register_map.abi",
                    format!(
                        "was {}.{}, is {}.{}",
                        x.abi.major, x.abi.minor, y.abi.major, y.abi.minor
                    ),
                );
            }
            c.text("register_map.file", "it", &x.file, &y.file);
            c.text("register_map.format", "it", &x.format, &y.format);
        }
        (None, None) => {}
    }
    // Of a part the field is there because it has to be.
    if !c.part() {
        firmware(&mut c, &a.firmware, &b.firmware);
    }
    c.pairs(
        "capabilities",
        &a.capabilities,
        &b.capabilities,
        |x, y| x.id == y.id,
        |x| x.id.clone(),
        |y| if y.has() { Class::Additive } else { Class::Fix },
        |x| if x.has() { Class::Breaking } else { Class::Fix },
        capability,
    );
    c.pairs(
        "combined",
        &a.combined,
        &b.combined,
        |x, y| x.id == y.id,
        |x| x.id.clone(),
        |_| Class::Breaking,
        |_| Class::Additive,
        |c, at, x, y| {
            if x.capabilities != y.capabilities {
                c.add(Class::Breaking, at, "is about other capabilities");
            }
            c.text(at, "the text", &x.text, &y.text);
            limits(c, at, &x.limits, &y.limits);
        },
    );
    c.pairs(
        "ordering",
        &a.ordering,
        &b.ordering,
        |x, y| x.id == y.id,
        |x| x.id.clone(),
        |_| Class::Additive,
        |_| Class::Breaking,
        order,
    );
    c.pairs(
        "timers",
        &a.timers,
        &b.timers,
        |x, y| x.id == y.id,
        |x| x.id.clone(),
        |_| Class::Additive,
        |_| Class::Breaking,
        timer,
    );
    c.pairs(
        "errata",
        &a.errata,
        &b.errata,
        |x, y| x.id == y.id,
        |x| x.id.clone(),
        |_| Class::Breaking,
        |_| Class::Fix,
        |c, at, x, y| {
            if x.capabilities != y.capabilities {
                c.add(Class::Breaking, at, "touches other capabilities");
            }
            if x.workaround != y.workaround {
                c.add(Class::Breaking, at, "has another workaround");
            }
            c.text(at, "the text", &x.text, &y.text);
            let fixed = |e: &crate::Erratum| e.fixed_in.clone().unwrap_or_default();
            c.text(at, "fixed_in", &fixed(x), &fixed(y));
        },
    );
    c.list.sort_by_key(|c| c.class);
    c.list
}
