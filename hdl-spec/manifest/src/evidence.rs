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

/// What became of a test's name.
#[derive(Clone)]
enum Test {
    Missing,
    /// Nobody can tell from the words.
    Unknown,
    There {
        /// Ids in its line `//! Shows:`, if it has one.
        shows: Option<Vec<String>>,
    },
}

/// A source, and what it says that it shows.
fn source(file: &Path) -> Test {
    let Some(text) = read(file) else {
        return Test::Missing;
    };
    let line = text.lines().find_map(|l| l.strip_prefix("//! Shows:"));
    let ids = |l: &str| l.split('`').skip(1).step_by(2).map(String::from).collect();
    Test::There {
        shows: line.map(ids),
    }
}

/// The source of a task: a file of that name.
fn task(root: &Path, packages: &BTreeMap<String, PathBuf>, name: &str) -> Test {
    let own = root.join("xtask/src");
    let dirs = packages.values().map(|d| d.join("src/bin"));
    let mut files = [own]
        .into_iter()
        .chain(dirs)
        .map(|d| d.join(format!("{name}.rs")));
    match files.find(|f| f.is_file()) {
        Some(f) => source(&f),
        None => Test::There { shows: None },
    }
}

fn find(root: &Path, packages: &BTreeMap<String, PathBuf>, test: &str) -> Test {
    let words: Vec<&str> = test.split_whitespace().collect();
    let after = |flag: &str| {
        let at = words.iter().position(|w| *w == flag)?;
        words.get(at + 1).copied()
    };
    let known = |there: bool, name: &str| match there {
        true => task(root, packages, name),
        false => Test::Missing,
    };
    match words[..] {
        ["cargo", "test", ..] => match (after("-p"), after("--test")) {
            (Some(package), Some(name)) => match packages.get(package) {
                Some(d) => source(&d.join("tests").join(format!("{name}.rs"))),
                None => Test::Missing,
            },
            _ => Test::Unknown,
        },
        ["cargo", "xtask", name, ..] => {
            let main = read(&root.join("xtask/src/main.rs"));
            let mut c = name.chars();
            match (main, c.next()) {
                (Some(main), Some(first)) => {
                    let first = first.to_ascii_uppercase();
                    known(
                        main.contains(&format!("Task::{first}{} ", c.as_str())),
                        name,
                    )
                }
                _ => Test::Unknown,
            }
        }
        [script, name, ..] if script.starts_with("./") => {
            let text = within(root, script).and_then(|p| read(&p));
            known(
                text.is_some_and(|t| t.contains(&format!("= {name} ]"))),
                name,
            )
        }
        [file] if file.contains('.') && !file.contains("://") => {
            match within(root, file).is_some_and(|p| p.is_file()) {
                true => Test::There { shows: None },
                false => Test::Missing,
            }
        }
        _ => Test::Unknown,
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
    tests: RefCell<BTreeMap<String, Test>>,
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
    let mut one = |at: String, id: &str, p: &Provenance| {
        if p.stage == Stage::Design || p.test.is_empty() {
            return;
        }
        let found = known.entry(p.test.clone());
        let found = found.or_insert_with(|| find(&folder.root, &folder.packages, &p.test));
        match found {
            Test::There { shows } => {
                if shows.as_ref().is_some_and(|s| !s.iter().any(|s| s == id)) {
                    let text = format!("`{}` does not say that it shows this", p.test);
                    out(true, at, text);
                }
            }
            Test::Missing => out(true, at, format!("`{}` is not there", p.test)),
            Test::Unknown => out(
                false,
                at,
                format!("`{}`: nobody can tell whether that is there", p.test),
            ),
        }
    };
    for c in &m.capabilities {
        let at = format!("capabilities[{}]", c.id);
        if let Some(p) = &c.provenance {
            one(format!("{at}.provenance"), &c.id, p);
        }
        for l in &c.limits {
            one(
                format!("{at}.limits[{}].provenance", l.name),
                &c.id,
                &l.provenance,
            );
        }
    }
    for c in &m.combined {
        for l in &c.limits {
            one(
                format!("combined[{}].limits[{}].provenance", c.id, l.name),
                &c.id,
                &l.provenance,
            );
        }
    }
    for o in &m.ordering {
        one(
            format!("ordering[{}].provenance", o.id),
            &o.id,
            &o.provenance,
        );
    }
    for t in &m.timers {
        one(format!("timers[{}].provenance", t.id), &t.id, &t.provenance);
    }
    all
}
