//! What a text has beyond the types: keys that nobody knows, keys that come twice wherever they are, lists in place of objects, control characters in what is not read.
//!
//! It walks the text beside the JSON Schema of the types, and keeps nothing of it but findings and the keys of the objects that it is in.

use crate::{
    check::{shown, Finding, MAX_FINDINGS},
    json, Error, Manifest, SCHEMA,
};
use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{cell::RefCell, fmt};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::sync::OnceLock;

#[derive(Clone)]
enum Step {
    Key(String),
    Item(usize),
}

struct Found {
    unknown: bool,
    at: Vec<Step>,
    text: String,
}

#[derive(Default)]
pub struct Form {
    path: RefCell<Vec<Step>>,
    found: RefCell<Vec<Found>>,
}

impl Form {
    fn push(&self, unknown: bool, text: String) {
        let mut found = self.found.borrow_mut();
        if found.len() < MAX_FINDINGS {
            let at = self.path.borrow().clone();
            found.push(Found { unknown, at, text });
        }
    }

    /// In the words of [`check`](crate::check), which names things by their ids. What a later minor version added is no finding.
    pub fn findings(self, m: &Manifest) -> Vec<Finding> {
        let later = m.schema.minor > SCHEMA.minor;
        let found = self.found.into_inner().into_iter();
        found
            .filter(|f| !(f.unknown && later))
            .map(|f| Finding {
                error: !f.unknown,
                at: place(m, &f.at),
                text: f.text,
            })
            .collect()
    }
}

/// `capabilities[mtus].limits[max].colour`.
fn place(m: &Manifest, at: &[Step]) -> String {
    let mut s = String::new();
    for (k, step) in at.iter().enumerate() {
        match step {
            Step::Key(key) => {
                if k > 0 {
                    s.push('.');
                }
                s.push_str(&shown(key));
            }
            Step::Item(i) => {
                let name = name(m, &at[..k], *i).map_or(i.to_string(), shown);
                s.push_str(&format!("[{name}]"));
            }
        }
    }
    s
}

/// The id of an item of a list.
fn name<'a>(m: &'a Manifest, list: &[Step], i: usize) -> Option<&'a str> {
    match list {
        [Step::Key(list)] => match list.as_str() {
            "capabilities" => m.capabilities.get(i).map(|c| c.id.as_str()),
            "combined" => m.combined.get(i).map(|c| c.id.as_str()),
            "ordering" => m.ordering.get(i).map(|c| c.id.as_str()),
            "timers" => m.timers.get(i).map(|c| c.id.as_str()),
            "errata" => m.errata.get(i).map(|c| c.id.as_str()),
            _ => None,
        },
        [Step::Key(list), Step::Item(of), Step::Key(limits)] if limits == "limits" => {
            let limits = match list.as_str() {
                "capabilities" => &m.capabilities.get(*of)?.limits,
                "combined" => &m.combined.get(*of)?.limits,
                _ => return None,
            };
            limits.get(i).map(|l| l.name.as_str())
        }
        _ => None,
    }
}

fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(json::schema_value)
}

/// The schema itself: not a reference to it, and not "this or null".
fn resolved(v: &'static Value) -> &'static Value {
    if let Some(name) = v["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or(name);
        return &schema()["$defs"][name];
    }
    let or = v["anyOf"].as_array();
    match or.and_then(|list| list.iter().find(|v| v["type"] != "null")) {
        Some(v) => resolved(v),
        None => v,
    }
}

/// Looks through the whole text.
pub fn walk(text: &[u8]) -> Result<Form, Error> {
    let form = Form::default();
    let mut d = serde_json::Deserializer::from_slice(text);
    let of = Some(schema());
    let malformed = |e: serde_json::Error| Error::Malformed(e.to_string());
    Walk { form: &form, of }
        .deserialize(&mut d)
        .and_then(|()| d.end())
        .map_err(malformed)?;
    Ok(form)
}

/// One value, of a known type or of none.
struct Walk<'a> {
    form: &'a Form,
    of: Option<&'static Value>,
}

impl Walk<'_> {
    fn text(&self, s: &str) {
        // Those of known fields are looked at with the manifest.
        if self.of.is_none() && s.chars().any(char::is_control) {
            self.form.push(false, "has control characters".into());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, s: &str) -> Result<(), E> {
        self.text(s);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> Result<(), A::Error> {
        let of = self.of.map(resolved);
        if of.is_some_and(|v| v["properties"].is_object()) {
            return Err(A::Error::custom(format!(
                "{}: an object belongs here, not a list",
                here(self.form)
            )));
        }
        let items = of.and_then(|v| v.get("items"));
        for i in 0.. {
            self.form.path.borrow_mut().push(Step::Item(i));
            let next = a.next_element_seed(Walk {
                form: self.form,
                of: items,
            })?;
            self.form.path.borrow_mut().pop();
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut a: A) -> Result<(), A::Error> {
        let known = self
            .of
            .map(resolved)
            .and_then(|v| v["properties"].as_object());
        let mut seen = BTreeSet::new();
        while let Some(key) = a.next_key::<String>()? {
            let of = known.and_then(|k| k.get(&key));
            self.form.path.borrow_mut().push(Step::Key(key.clone()));
            if key.chars().any(char::is_control) {
                self.form
                    .push(false, "the key has control characters".into());
            }
            if let Some(known) = known.filter(|_| of.is_none()) {
                let known: Vec<&str> = known.keys().map(String::as_str).collect();
                self.form.push(
                    true,
                    format!(
                        "no key of version {}.{}, and not looked at; known here: {}",
                        SCHEMA.major,
                        SCHEMA.minor,
                        known.join(", ")
                    ),
                );
            }
            if seen.contains(&key) {
                return Err(A::Error::custom(format!(
                    "{}: the key is there twice",
                    here(self.form)
                )));
            }
            seen.insert(key);
            a.next_value_seed(Walk {
                form: self.form,
                of,
            })?;
            self.form.path.borrow_mut().pop();
        }
        Ok(())
    }
}

/// Where the walk is, by numbers: there is no manifest yet.
fn here(form: &Form) -> String {
    let mut s = String::new();
    for (k, step) in form.path.borrow().iter().enumerate() {
        match step {
            Step::Key(key) if k > 0 => s.push_str(&format!(".{}", shown(key))),
            Step::Key(key) => s.push_str(&shown(key)),
            Step::Item(i) => s.push_str(&format!("[{i}]")),
        }
    }
    if s.is_empty() {
        s.push_str("the whole file");
    }
    s
}
