//! What a manifest names outside itself: the register map, and the tests and reports that show its claims. Looked for in a folder, such as a checkout of
//! the card's sources.

use crate::{check::Finding, registry::id, Manifest, Provenance, Stage};
use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

/// Larger files are not looked into.
const MOST: u64 = 4 << 20;

fn read(file: &Path) -> Option<String> {
    let small = fs::metadata(file).is_ok_and(|m| m.is_file() && m.len() <= MOST);
    small.then(|| fs::read_to_string(file).ok()).flatten()
}

/// A path of the manifest, which does not lead out of the folder.
fn within(root: &Path, name: &str) -> Option<PathBuf> {
    let p = Path::new(name);
    let plain = p
        .components()
        .all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    plain.then(|| root.join(p))
}

/// Folders of the packages below the folder, by name.
fn packages(root: &Path) -> BTreeMap<String, PathBuf> {
    let mut all = BTreeMap::new();
    let mut todo = vec![(root.to_path_buf(), 0)];
    while let Some((dir, depth)) = todo.pop() {
        if let Some(text) = read(&dir.join("Cargo.toml")) {
            let name = text.lines().find_map(|l| l.strip_prefix("name = \""));
            if let Some((n, _)) = name.and_then(|n| n.split_once('"')) {
                all.insert(n.to_string(), dir.clone());
            }
        }
        let inside = fs::read_dir(&dir).into_iter().flatten().flatten();
        for e in inside.filter(|_| depth < 3) {
            let name = e.file_name();
            let skip = name == "target" || name.to_string_lossy().starts_with('.');
            if !skip && e.file_type().is_ok_and(|t| t.is_dir()) {
                todo.push((e.path(), depth + 1));
            }
        }
    }
    all
}

/// Whether the test is there; None if nobody can tell from its words.
fn there(root: &Path, packages: &BTreeMap<String, PathBuf>, test: &str) -> Option<bool> {
    let words: Vec<&str> = test.split_whitespace().collect();
    let after = |flag: &str| {
        let at = words.iter().position(|w| *w == flag)?;
        words.get(at + 1).copied()
    };
    match words[..] {
        ["cargo", "test", ..] => {
            let (package, name) = (after("-p")?, after("--test")?);
            let dir = packages.get(package);
            Some(dir.is_some_and(|d| d.join("tests").join(format!("{name}.rs")).is_file()))
        }
        ["cargo", "xtask", task, ..] => {
            let main = read(&root.join("xtask/src/main.rs"))?;
            let mut c = task.chars();
            let first = c.next()?.to_ascii_uppercase();
            Some(main.contains(&format!("Task::{first}{} ", c.as_str())))
        }
        [script, task, ..] if script.starts_with("./") => {
            let text = within(root, script).and_then(|p| read(&p));
            Some(text.is_some_and(|t| t.contains(&format!("= {task} ]"))))
        }
        [file] if file.contains('.') && !file.contains("://") => {
            Some(within(root, file).is_some_and(|p| p.is_file()))
        }
        _ => None,
    }
}

/// The text between two tags.
fn tag<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(t, _)| t)
}

fn register_map(m: &Manifest, root: &Path, out: &mut impl FnMut(bool, String, String)) {
    let Some(r) = m.register_map.as_ref() else {
        return;
    };
    if r.file.contains("://") {
        return;
    }
    let text = within(root, &r.file).and_then(|p| read(&p));
    let Some(text) = text else {
        out(
            true,
            "register_map.file".into(),
            format!("{} is not there", r.file),
        );
        return;
    };
    let svd = text.contains("<device ") && text.contains("<peripherals>");
    if svd != (r.format == "cmsis-svd") {
        let is = if svd { "is one" } else { "is none" };
        out(
            true,
            "register_map.format".into(),
            format!("is {:?}; as a CMSIS-SVD, {} {is}", r.format, r.file),
        );
    }
    if !svd {
        return;
    }
    let version = format!("{}.{}", r.abi.major, r.abi.minor);
    if let Some(v) = tag(&text, "version").filter(|v| *v != version) {
        out(
            true,
            "register_map.abi".into(),
            format!("is {version}, and {v} in {}", r.file),
        );
    }
    if let Some(v) = tag(&text, "vendor").filter(|v| !v.eq_ignore_ascii_case(&m.card.vendor)) {
        out(
            true,
            "card.vendor".into(),
            format!("is {}, and {v} in {}", m.card.vendor, r.file),
        );
    }
    let words: Vec<&str> = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    for w in m.capability(id::counters).into_iter().flat_map(|c| &c.set) {
        if !words.iter().any(|n| n.eq_ignore_ascii_case(w)) {
            out(
                true,
                format!("capabilities[{}]", id::counters),
                format!("`{w}` is no register of {}", r.file),
            );
        }
    }
}

/// A folder, looked through once.
pub struct Folder {
    root: PathBuf,
    packages: BTreeMap<String, PathBuf>,
    tests: RefCell<BTreeMap<String, Option<bool>>>,
}

impl Folder {
    pub fn new(root: &Path) -> Folder {
        Folder {
            root: root.into(),
            packages: packages(root),
            tests: RefCell::default(),
        }
    }

    /// What the manifest names, and is not there.
    pub fn look(&self, m: &Manifest) -> Vec<Finding> {
        look(m, self)
    }
}

fn look(m: &Manifest, folder: &Folder) -> Vec<Finding> {
    let mut all = vec![];
    let mut out = |error, at: String, text: String| all.push(Finding { error, at, text });
    register_map(m, &folder.root, &mut out);
    let mut known = folder.tests.borrow_mut();
    let mut one = |at: String, p: &Provenance| {
        if p.stage == Stage::Design || p.test.is_empty() {
            return;
        }
        let found = known.entry(p.test.clone());
        let found = found.or_insert_with(|| there(&folder.root, &folder.packages, &p.test));
        match found {
            Some(true) => {}
            Some(false) => out(true, at, format!("`{}` is not there", p.test)),
            None => out(
                false,
                at,
                format!("`{}`: nobody can tell whether that is there", p.test),
            ),
        }
    };
    for c in &m.capabilities {
        let at = format!("capabilities[{}]", c.id);
        if let Some(p) = &c.provenance {
            one(format!("{at}.provenance"), p);
        }
        for l in &c.limits {
            one(format!("{at}.limits[{}].provenance", l.name), &l.provenance);
        }
    }
    for c in &m.combined {
        for l in &c.limits {
            one(
                format!("combined[{}].limits[{}].provenance", c.id, l.name),
                &l.provenance,
            );
        }
    }
    for o in &m.ordering {
        one(format!("ordering[{}].provenance", o.id), &o.provenance);
    }
    for t in &m.timers {
        one(format!("timers[{}].provenance", t.id), &t.provenance);
    }
    all
}
