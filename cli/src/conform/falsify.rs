//! `metaroce caps falsify`: each field of a manifest is made false in turn, in every way below, and `validate` and `conform` (by what an earlier run found)
//! have to name it. What they don't name, a buyer has to take on trust.
//!
//! A way is a value under which the manifest says something that is not so: less than is promised is true, and no way.

use super::{
    facts::Facts,
    judge::{judge, Outcome, Verdict},
    unverifiable,
};
use metaroce_manifest::{
    check::{check, Finding},
    evidence::Folder,
    json, promises,
    registry::{self, Words},
    Bound, Manifest, Scope, Unit,
};
use metaroce_protocol::opcode::Opcode;
use serde::Serialize;
use serde_json::{json, Value};
use std::collections::BTreeSet;

/// What came of one field.
#[derive(Debug, Clone, Serialize)]
pub struct Field {
    /// `capabilities[mtus].limits[max].value`, `capabilities[goodput].limits[write at mtu=4096 qps=1 message=65536].value`
    pub path: String,
    /// Ways in which it was falsified.
    pub ways: usize,
    /// Ways that were named by `validate`, and by `conform` alone.
    pub by_validate: usize,
    pub by_conform: usize,
    /// Ways that nothing named.
    pub silent: Vec<Value>,
    /// Why nothing can name it, if that is on the list.
    pub reason: Option<&'static str>,
}

impl Field {
    pub fn named(&self) -> bool {
        self.silent.is_empty()
    }
}

/// One step of a path.
#[derive(Clone)]
enum Step {
    Key(String),
    At(usize),
}

fn get<'a>(root: &'a Value, path: &[Step]) -> &'a Value {
    path.iter().fold(root, |v, s| match s {
        Step::Key(k) => &v[k],
        Step::At(n) => &v[*n],
    })
}

fn get_mut<'a>(root: &'a mut Value, path: &[Step]) -> &'a mut Value {
    path.iter().fold(root, |v, s| match s {
        Step::Key(k) => &mut v[k],
        Step::At(n) => &mut v[*n],
    })
}

fn leaves(v: &Value, at: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
    match v {
        Value::Object(o) => {
            for (k, v) in o {
                at.push(Step::Key(k.clone()));
                leaves(v, at, out);
                at.pop();
            }
        }
        Value::Array(a) => {
            for (n, v) in a.iter().enumerate() {
                at.push(Step::At(n));
                leaves(v, at, out);
                at.pop();
            }
        }
        _ => out.push(at.clone()),
    }
}

/// As people read it: list elements by id or name.
fn shown(root: &Value, path: &[Step]) -> String {
    let mut s = String::new();
    for (n, step) in path.iter().enumerate() {
        match step {
            Step::Key(k) if s.is_empty() => s.push_str(k),
            Step::Key(k) => {
                s.push('.');
                s.push_str(k);
            }
            Step::At(k) => {
                let v = get(root, &path[..=n]);
                let id = v.get("id").or(v.get("name")).unwrap_or(v);
                let at = condition(v);
                match id {
                    Value::String(id) => s.push_str(&format!("[{id}{at}]")),
                    _ => s.push_str(&format!("[{k}]")),
                }
            }
        }
    }
    s
}

/// Figures of one name differ by that: " at mtu=4096 qps=1".
fn condition(v: &Value) -> String {
    let of = |k: &&str| v["when"].get(*k).map(|n| format!(" {k}={n}"));
    let all: String = ["mtu", "qps", "message"].iter().filter_map(of).collect();
    match all.is_empty() {
        true => all,
        false => format!(" at{all}"),
    }
}

/// What a field is in: a limit, a capability, ...
struct Place<'a> {
    root: &'a Value,
    /// The list that it is from, such as `capabilities`.
    list: &'a str,
    /// The element of it.
    of: &'a Value,
    /// The limit of that, if it is in one.
    limit: Option<&'a Value>,
    key: &'a str,
    v: &'a Value,
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

fn word<T: serde::de::DeserializeOwned>(v: &Value) -> Option<T> {
    serde_json::from_value(v.clone()).ok()
}

impl Place<'_> {
    /// Other ids of the list.
    fn others(&self) -> Vec<Value> {
        let all = self.root[self.list].as_array().into_iter().flatten();
        let other = all.map(|e| &e["id"]).find(|id| *id != &self.of["id"]);
        vec![json!("nonsense"), other.cloned().unwrap_or(json!("other"))]
    }

    fn entry(&self) -> Option<&'static registry::Entry> {
        registry::find(text(&self.of["id"]))
    }

    fn words(&self) -> Vec<Value> {
        let set: BTreeSet<&str> = self.of["set"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect();
        let mut ways = vec![json!("nonsense words"), Value::Null];
        let other = set.iter().find(|w| **w != text(self.v));
        ways.extend(other.map(|w| json!(w)));
        let more: Vec<&str> = match self.entry().map(|e| &e.words) {
            Some(Words::Of(list)) => list.to_vec(),
            Some(Words::Packets) => {
                let all = Opcode::ALL.iter().map(|o| o.name());
                all.chain(["CNP"]).collect()
            }
            Some(Words::Numbers) => vec!["25000"],
            Some(Words::Ranges) => vec!["7"],
            Some(Words::Names) => vec!["nonsense"],
            None => vec![],
        };
        ways.extend(more.iter().filter(|w| !set.contains(*w)).map(|w| json!(w)));
        ways
    }

    fn bounds(&self) -> Vec<Value> {
        let is: Option<Bound> = word(self.v);
        let unit: Option<Unit> = self.limit.and_then(|l| word(&l["unit"]));
        let capacity = [Bound::UpTo, Bound::Exactly];
        let same = |b: Bound| match (is, unit) {
            (Some(is), _) if is == b => true,
            // of what a card has, it is the same
            (Some(is), _) if capacity.contains(&is) && capacity.contains(&b) => true,
            // "exactly" is not more than "at most"
            (Some(is), Some(Unit::Khz)) => is == Bound::Exactly && b == Bound::AtMost,
            (Some(Bound::AtLeast | Bound::AtMost), _) => b == Bound::Exactly,
            _ => false,
        };
        let all = Bound::ALL.iter().filter(|b| !same(**b));
        all.map(|b| json!(b.name())).collect()
    }

    fn value(&self) -> Vec<Value> {
        let v = self.v.as_u64().unwrap_or(0);
        let bound = self.limit.and_then(|l| word::<Bound>(&l["bound"]));
        match bound {
            Some(Bound::AtLeast) => vec![json!(v + v / 2), json!(2 * v)],
            Some(Bound::AtMost) => vec![json!(v - v / 3), json!(v / 2)],
            _ => vec![json!(v - 1), json!(v + 1), json!(v / 2), json!(2 * v)],
        }
    }

    fn condition(&self) -> Vec<Value> {
        let n = self.v.as_u64().unwrap_or(0);
        let unit: Option<Unit> = self.limit.and_then(|l| word(&l["unit"]));
        let most = u64::from(u32::MAX);
        match (self.key, unit) {
            ("qps", _) => vec![json!(0), json!(1_000_000)],
            ("mtu", Some(Unit::Mbps)) => vec![json!(256), json!(1500), json!(8192)],
            ("mtu", _) => vec![json!(0), json!(1500), json!(8192)],
            ("message", Some(Unit::Mbps)) => vec![json!(64), json!(most)],
            ("message", Some(Unit::OpsPerS)) => vec![json!(65_536), json!(most)],
            ("message", _) => vec![json!(most)],
            ("clock_khz", _) => vec![json!(n + 1000), json!(n / 2)],
            ("host_read_ns", _) => vec![json!(n + 1_000_000)],
            _ => vec![json!("something else")],
        }
    }

    fn scopes(&self) -> Vec<Value> {
        let is: Option<Scope> = word(self.v);
        let p = promises::promise(text(&self.of["id"]));
        // less is promised, and less is true; but not where every program takes more for granted
        let less = p.is_some_and(|p| !p.of_rc && p.id != "atomicity");
        let all = Scope::ALL.iter();
        all.filter(|s| Some(**s) != is && !(less && **s == Scope::Nobody))
            .map(|s| json!(s.name()))
            .collect()
    }

    fn timer(&self) -> Vec<Value> {
        let v = self.v.as_u64().unwrap_or(0);
        match self.key {
            "code_ns" if v == 0 => vec![json!(1000), json!(8_796_093_022_208u64)],
            "code_ns" => vec![json!(v + 1), json!(v / 2), json!(v + v / 2), json!(2 * v)],
            "early_ppm" => vec![json!(100_000), json!(1_000_001)],
            "resolution_ns" => vec![json!(0), json!(1), json!(1000 * v)],
            // more is allowed, and so less is said; of one of them the verbs limit it
            "late_ppm" if self.of["id"] == "local_ack_timeout" => vec![json!(0), json!(2 * v)],
            "late_ns" if self.of["id"] == "local_ack_timeout" => vec![json!(5000)],
            _ => vec![json!(0)],
        }
    }

    /// Null: without it.
    fn ways(&self) -> Vec<Value> {
        let v = self.v;
        let n = v.as_u64().unwrap_or(0);
        let other = |all: &[&str]| -> Vec<Value> {
            all.iter().filter(|s| **s != v).map(|s| json!(s)).collect()
        };
        match (self.list, self.key) {
            ("schema", "major") => vec![json!(0), json!(n + 1)],
            ("schema", _) => vec![json!(n + 1), json!(70_000)],
            ("register_map", "major" | "minor") => vec![json!(n + 1)],
            ("register_map", "file") => vec![json!("docs/other.svd"), json!("Cargo.toml")],
            ("register_map", _) => vec![json!("ip-xact")],
            ("card", "version") => vec![json!("9.9.9")],
            ("card", _) => vec![json!("other")],
            ("firmware", _) => match v {
                Value::Bool(b) => vec![json!(!b)],
                _ => vec![json!("0"), json!("999")],
            },
            (_, "id") => self.others(),
            (_, "state") => other(&["absent", "present", "enabled"]),
            (_, "set") => self.words(),
            (_, "name") => {
                let known = self.entry().into_iter().flat_map(|e| e.figures);
                let known = known.map(|(n, _)| *n).chain(["nonsense"]);
                known.filter(|n| *n != v).map(|n| json!(n)).collect()
            }
            (_, "bound") => self.bounds(),
            (_, "value") => self.value(),
            (_, "unit") => {
                let all = Unit::ALL.iter().map(|u| u.name());
                all.filter(|u| *u != v).map(|u| json!(u)).collect()
            }
            (_, "tolerance_ppm") => vec![json!(0), json!(1_000_000), json!(1_000_001)],
            (_, "qps" | "mtu" | "message" | "clock_khz" | "host_read_ns") => self.condition(),
            (_, "text") if self.limit.is_some() => self.condition(),
            (_, "stage") => other(&["design", "rtl_simulation", "placed", "silicon"]),
            (_, "test") => vec![
                json!("cargo test --release -p metaroce-tb --test nonsense"),
                json!("reports/nonsense.pdf"),
                Value::Null,
            ],
            (_, "capabilities") => {
                let all = self.root["capabilities"].as_array();
                let ids: Vec<&Value> = all.into_iter().flatten().map(|c| &c["id"]).collect();
                let mine = self.of["capabilities"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                let strange = ids.iter().find(|i| !mine.contains(i));
                let twin = mine.iter().find(|i| *i != v);
                let both = strange.into_iter().copied().chain(twin);
                both.cloned().chain([json!("nonsense")]).collect()
            }
            (_, "scope") => self.scopes(),
            ("timers", "code_ns" | "early_ppm" | "late_ppm" | "late_ns" | "resolution_ns") => {
                self.timer()
            }
            _ => vec![json!("Something else")],
        }
    }
}

fn place<'a>(root: &'a Value, path: &'a [Step]) -> Place<'a> {
    let list = match &path[0] {
        Step::Key(k) => k.as_str(),
        Step::At(_) => "",
    };
    let key = path.iter().rev().find_map(|s| match s {
        Step::Key(k) => Some(k.as_str()),
        Step::At(_) => None,
    });
    let inside = matches!(path.get(1), Some(Step::At(_)));
    let limit = matches!(path.get(2), Some(Step::Key(k)) if k == "limits") && path.len() > 4;
    Place {
        root,
        list,
        of: if inside { get(root, &path[..2]) } else { root },
        limit: limit.then(|| get(root, &path[..4])),
        key: key.unwrap_or_default(),
        v: get(root, path),
    }
}

/// Whether a finding or a verdict is about this place of the manifest, under its old or its new name.
fn about(names: &[String], at: &str, more: &str) -> bool {
    let whole = |s: &str, n: &str| {
        s.match_indices(n).any(|(k, _)| {
            let edge = |c: Option<char>| c.is_none_or(|c| !(c.is_ascii_alphanumeric() || c == '_'));
            edge(s[..k].chars().next_back()) && edge(s[k + n.len()..].chars().next())
        })
    };
    names
        .iter()
        .any(|n| !n.is_empty() && (whole(at, n) || whole(more, n)))
}

struct Said {
    findings: BTreeSet<(String, String)>,
    failed: BTreeSet<String>,
}

fn said(m: &Manifest, form: Vec<Finding>, f: &Facts, root: Option<&Folder>) -> Said {
    let beside = root.map(|r| r.look(m)).unwrap_or_default();
    let all = form.into_iter().chain(check(m)).chain(beside);
    let failed = |v: &&Verdict| v.outcome == Outcome::Fail;
    Said {
        findings: all.map(|f| (f.at, f.text)).collect(),
        failed: judge(m, f)
            .iter()
            .filter(failed)
            .map(|v| v.claim.clone())
            .collect(),
    }
}

/// Each field of it. `root` is where the register map and the tests are that it names.
pub fn all(m: &Manifest, f: &Facts, root: Option<&Folder>) -> Vec<Field> {
    let v: Value = serde_json::from_str(&json::encode(m)).expect("JSON of ours");
    let base = said(m, vec![], f, root);
    let mut paths = vec![];
    leaves(&v, &mut vec![], &mut paths);
    paths.iter().map(|p| one(&v, p, &base, f, root)).collect()
}

fn one(v: &Value, path: &[Step], base: &Said, f: &Facts, root: Option<&Folder>) -> Field {
    let place = place(v, path);
    let name = shown(v, path);
    let mut field = Field {
        reason: unverifiable::reason(&name),
        path: name,
        ways: 0,
        by_validate: 0,
        by_conform: 0,
        silent: vec![],
    };
    for way in place.ways() {
        if way == *place.v {
            continue;
        }
        field.ways += 1;
        let mut g = v.clone();
        match (&way, path.split_last()) {
            (Value::Null, Some((Step::Key(k), parent))) => {
                if let Some(o) = get_mut(&mut g, parent).as_object_mut() {
                    o.remove(k);
                }
            }
            (Value::Null, Some((Step::At(n), parent))) => {
                if let Some(a) = get_mut(&mut g, parent).as_array_mut() {
                    a.remove(*n);
                }
            }
            _ => *get_mut(&mut g, path) = way.clone(),
        }
        // an element by its id, a part of the head by its key
        let mut names = vec![match place.of.get("id") {
            Some(id) => text(id).to_string(),
            None => place.list.to_string(),
        }];
        if place.key == "id" {
            names.push(text(&way).to_string());
        }
        if place.list == "card" {
            names = vec![format!("card.{}", place.key)];
        }
        let is = match json::inspect(g.to_string().as_bytes()) {
            Ok((m, form)) => said(&m, form, f, root),
            // no manifest at all: the message is the finding
            Err(e) => Said {
                findings: [(names[0].clone(), e.to_string())].into(),
                failed: BTreeSet::new(),
            },
        };
        let found = is.findings.difference(&base.findings);
        let mut found = found.filter(|(at, text)| about(&names, at, text));
        let mut failed = is.failed.difference(&base.failed);
        if found.next().is_some() {
            field.by_validate += 1;
        } else if failed.any(|claim| about(&names, claim, "")) {
            field.by_conform += 1;
        } else {
            field.silent.push(way);
        }
    }
    field
}
