//! `metaroce caps`: manifests of cards, read, checked and compared.

use crate::output::{note, say, tame, xml};
use anyhow::{anyhow, bail, Context, Result};
use clap::{Subcommand, ValueEnum};
use metaroce_hdl_spec::config;
use metaroce_manifest::{
    cbor,
    check::{check, Finding},
    diff::{diff, Change, Class},
    evidence::Folder,
    json,
    profile::{self, Level, Verdict},
    registry, sheet, Error, Manifest, State,
};
use serde::Serialize;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Exit status of an answer that is "no".
const NO: u8 = 4;

/// What stands for a manifest.
const WHAT: &str =
    "File (JSON or CBOR image, - for standard input), or sim-100g, ecp5-1g, mini, or device:NAME for what a verbs device says, or rom:NAME for what is in the ROM of a MetaRoCE card";

#[derive(Clone, Copy, ValueEnum)]
pub enum Profile {
    #[value(name = "rocev2-rc")]
    Rocev2Rc,
    #[value(name = "metaroce-1")]
    Metaroce1,
    #[value(name = "amc-full")]
    AmcFull,
}

#[derive(Subcommand)]
pub enum Caps {
    /// Shows a manifest, or what a driver made of its card
    Show {
        #[arg(help = WHAT, value_name = "MANIFEST", required_unless_present = "device")]
        manifest: Option<String>,
        /// Instead: which work the driver of this MetaRoCE device gives to the card, which it does itself, and why
        #[arg(long, value_name = "DEVICE", conflicts_with_all = ["manifest", "markdown", "image"])]
        device: Option<String>,
        /// The manifest itself, as JSON
        #[arg(long, conflicts_with = "markdown")]
        json: bool,
        /// A data sheet
        #[arg(long)]
        markdown: bool,
        /// Writes the CBOR image to this file instead
        #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "markdown"])]
        image: Option<PathBuf>,
    },
    /// Says what is wrong with a manifest (errors) and what is odd (warnings): status 0 without errors, 4 with errors, 1 if it can't be read
    Validate {
        #[arg(help = WHAT, value_name = "MANIFEST")]
        manifest: String,
        /// Also looks in this folder for the register map and the tests that it names
        #[arg(long, value_name = "DIR")]
        evidence: Option<PathBuf>,
        /// The same as JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Says what changed between two manifests (breaking, additive, fix, not stated by a part): status 0, 4 if a host that was written for the first can break, 1 if one is not valid
    Diff {
        #[arg(help = WHAT, value_name = "OLD")]
        old: String,
        #[arg(help = WHAT, value_name = "NEW")]
        new: String,
        /// The same as JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Says whether a card has what a profile wants: status 0 if it has, 4 if something required is missing or not stated, 1 if the manifest is not valid
    Profile {
        #[arg(value_name = "PROFILE")]
        profile: Profile,
        #[arg(help = WHAT, value_name = "MANIFEST")]
        manifest: String,
        /// The same as JSON, for programs
        #[arg(long)]
        json: bool,
        /// Also writes a JUnit report: a case for each requirement
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
    },
    /// Says whether a device does what its manifest claims: pass, fail or unverifiable for each claim; status 4 if one fails. Through verbs alone, with any device
    Conform {
        #[arg(help = WHAT, value_name = "MANIFEST")]
        manifest: String,
        /// Verbs device, as ibv_devices has it
        #[arg(value_name = "DEVICE", required_unless_present = "facts")]
        device: Option<String>,
        /// Takes what an earlier run with --json found instead of a device (- for standard input)
        #[arg(long, value_name = "REPORT", conflicts_with = "device")]
        facts: Option<PathBuf>,
        /// A capture (pcap) of the wire of the card during that run, or of any other traffic of it; again for more
        #[arg(long, value_name = "FILE", conflicts_with = "device")]
        wire: Vec<PathBuf>,
        /// At most so many objects of a kind are made to count them
        #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "facts")]
        objects: u64,
        /// Also makes traffic to this device (another one, or the same), so that a capture of the wire shows timers and rates
        #[arg(long, value_name = "DEVICE", conflicts_with = "facts")]
        peer: Option<String>,
        /// GID of port 1 that connections of the device with itself have
        #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "facts")]
        gid_index: u8,
        /// The same as JSON, for programs
        #[arg(long)]
        json: bool,
        /// Also writes a JUnit report: a case for each claim
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
    },
    /// Makes each field false in turn, and says which of them `validate` and `conform` name: status 4 if one is silent that is not known to be unverifiable
    Falsify {
        #[arg(help = WHAT, value_name = "MANIFEST")]
        manifest: String,
        /// What a run of `conform --json` found on the card (- for standard input)
        #[arg(long, value_name = "REPORT")]
        facts: PathBuf,
        /// Where the register map and the tests are that it names
        #[arg(long, value_name = "DIR")]
        evidence: Option<PathBuf>,
        /// The same as JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Several cards side by side
    Matrix {
        #[arg(help = WHAT, value_name = "MANIFEST", required = true)]
        manifests: Vec<String>,
        /// The same as JSON, for programs
        #[arg(long)]
        json: bool,
    },
}

/// A named configuration, a verbs device, or a file; with what there is to say about a file's form.
fn load(what: &str) -> Result<(Manifest, Vec<Finding>), Error> {
    if let Some(device) = what.strip_prefix("device:") {
        return Ok((crate::caps_device::manifest(device)?, vec![]));
    }
    if let Some(device) = what.strip_prefix("rom:") {
        return json::take(&crate::caps_opened::image(device)?[..], 0);
    }
    if what == "-" {
        return json::take(std::io::stdin().lock(), 0);
    }
    match config::ALL.iter().find(|c| c.name == what) {
        Some(c) => Ok((Manifest::of(c), vec![])),
        None => json::read_inspected(Path::new(what)).map_err(|e| match e {
            Error::Unreadable(why) if !Path::new(what).exists() => {
                let names: Vec<&str> = config::ALL.iter().map(|c| c.name).collect();
                Error::Unreadable(format!(
                    "{why}; it is no configuration either (those are {})",
                    names.join(", ")
                ))
            }
            e => e,
        }),
    }
}

/// One that keeps the rules; else the first rules that it breaks. Keys that are not looked at are told: one of them may be a figure's condition, misspelt.
fn sound(what: &str) -> Result<Manifest> {
    let (m, form) = load(what).map_err(|e| anyhow!("{what}: {}", tame(&e.to_string())))?;
    for f in form.iter().filter(|f| !f.error) {
        note!("metaroce: warning: {what}: {}: {}", f.at, f.text);
    }
    let all = form.into_iter().chain(check(&m));
    let errors: Vec<Finding> = all.filter(|f| f.error).collect();
    if let Some(f) = errors.first() {
        bail!(
            "{what}: {}: {}{}. `metaroce caps validate` says more",
            f.at,
            f.text,
            match errors.len() {
                1 => String::new(),
                n => format!(", and {} more", n - 1),
            }
        );
    }
    Ok(m)
}

fn print(v: &impl Serialize) -> Result<()> {
    say!("{}", serde_json::to_string_pretty(v)?);
    Ok(())
}

fn decided(d: &crate::caps_opened::Decisions) {
    let widest = d.decisions.iter().map(|x| x.capability.len()).max();
    let w = widest.unwrap_or(0).max("capability".len());
    say!("{:w$}  {:7}  {:8}  why", "capability", "card", "done by");
    for x in &d.decisions {
        let by = match x.chosen.as_str() {
            "hardware" => "card",
            "software" => "driver",
            _ => "nobody",
        };
        let line = format!("{:w$}  {:7}  {by:8}  {}", x.capability, x.card, x.why);
        say!("{}", tame(&line));
    }
}

pub fn run(c: &Caps) -> Result<u8> {
    match c {
        Caps::Show {
            manifest,
            device,
            json,
            markdown,
            image,
        } => {
            if let Some(device) = device {
                let device = device.strip_prefix("device:").unwrap_or(device);
                let d = crate::caps_opened::decisions(device)
                    .map_err(|e| anyhow!("{device}: {}", tame(&e.to_string())))?;
                match json {
                    true => print(&d)?,
                    false => decided(&d),
                }
                return Ok(0);
            }
            let m = sound(manifest.as_deref().expect("clap asks for one"))?;
            if let Some(file) = image {
                let bytes = cbor::encode(&m);
                std::fs::write(file, &bytes).with_context(|| file.display().to_string())?;
                note!("wrote {} bytes to {}", bytes.len(), file.display());
            } else if *json {
                print(&m)?;
            } else if *markdown {
                say!("{}", sheet::markdown(&m, "").trim_end());
            } else {
                if let Some(from) = &m.partial {
                    say!("{}\n", sheet::part(from));
                }
                say!("{}", text(&m).trim_end());
            }
            Ok(0)
        }
        Caps::Validate {
            manifest,
            evidence,
            json,
        } => validate(manifest, evidence.as_deref(), *json),
        Caps::Diff { old, new, json } => {
            let (a, b) = (sound(old)?, sound(new)?);
            changes(&diff(&a, &b), *json)
        }
        Caps::Profile {
            profile,
            manifest,
            json,
            junit,
        } => {
            let m = sound(manifest)?;
            let name = profile.to_possible_value().expect("none is skipped");
            let p = profile::find(name.get_name()).expect("a test compares");
            let v = profile::verdicts(p, &m);
            // the verdict first: a path that can't be written must not cost it
            let code = judged(p.name, &m, &v, *json)?;
            if let Some(file) = junit {
                std::fs::write(file, report(p.name, &m, &v))
                    .with_context(|| file.display().to_string())?;
            }
            Ok(code)
        }
        Caps::Conform {
            manifest,
            device,
            facts,
            wire,
            objects,
            gid_index,
            peer,
            json,
            junit,
        } => {
            let m = sound(manifest)?;
            let a = crate::conform::Args {
                device: (device.as_deref()).map(|d| d.strip_prefix("device:").unwrap_or(d)),
                facts: facts.as_deref(),
                wire,
                objects: *objects,
                gid_index: *gid_index,
                peer: peer.as_deref(),
                json: *json,
                junit: junit.as_deref(),
            };
            Ok(if crate::conform::run(&m, &a)? { 0 } else { NO })
        }
        Caps::Falsify {
            manifest,
            facts,
            evidence,
            json,
        } => {
            let m = sound(manifest)?;
            let good = crate::conform::falsify(&m, facts, evidence.as_deref(), *json)?;
            Ok(if good { 0 } else { NO })
        }
        Caps::Matrix { manifests, json } => {
            let all = manifests.iter().map(|m| sound(m));
            matrix(&all.collect::<Result<Vec<_>>>()?, *json)
        }
    }
}

/// A manifest for people.
fn text(m: &Manifest) -> String {
    let mut s = String::new();
    let _ = writeln!(
        s,
        "{} {} {} (language {}.{}; firmware {})",
        m.card.vendor,
        m.card.name,
        m.card.version,
        m.schema.major,
        m.schema.minor,
        match (&m.firmware.needed, &m.firmware.oldest) {
            (true, Some(v)) => v,
            (true, None) => "needed",
            (false, _) => "not needed",
        }
    );
    for (group, list) in sheet::groups(m) {
        let _ = writeln!(s, "\n{group}");
        for c in list {
            let mut what = vec![];
            if !c.set.is_empty() {
                what.push(c.set.join(", "));
            }
            for l in &c.limits {
                what.push(format!("{} [{}]", sheet::figure(l), l.provenance.stage));
            }
            if c.state == State::Absent {
                what.push(sheet::fallback(c));
            }
            what.extend(c.note.clone());
            let mut what = what.iter();
            let first = what.next().map(String::as_str).unwrap_or_default();
            let line = format!("  {:26} {:8} {first}", c.id, c.state);
            let _ = writeln!(s, "{}", line.trim_end());
            for w in what {
                let _ = writeln!(s, "{:38}{w}", "");
            }
        }
    }
    if !m.combined.is_empty() {
        let _ = writeln!(s, "\nTogether");
        for c in &m.combined {
            let _ = writeln!(s, "  {:26} {}", c.id, c.text);
            for l in &c.limits {
                let _ = writeln!(s, "{:29}{} [{}]", "", sheet::figure(l), l.provenance.stage);
            }
        }
    }
    if !m.ordering.is_empty() {
        let _ = writeln!(s, "\nOrder and atomicity");
        for o in &m.ordering {
            let _ = writeln!(s, "  {:26} {:10} {}", o.id, o.scope, o.text);
        }
    }
    if !m.timers.is_empty() {
        let _ = writeln!(s, "\nTimers");
        for t in &m.timers {
            let _ = writeln!(
                s,
                "  {:26} {} codes, steps of {} ns, {} ppm + {} ns late at most: {}",
                t.id,
                t.code_ns.len(),
                t.resolution_ns,
                t.late_ppm,
                t.late_ns,
                t.text
            );
        }
    }
    let _ = writeln!(s, "\nErrata");
    if m.errata.is_empty() {
        let _ = writeln!(s, "  none known");
    }
    for e in &m.errata {
        let _ = writeln!(s, "  {:26} {}", e.id, e.text);
        if !e.workaround.is_empty() {
            let _ = writeln!(s, "{:29}workaround: {}", "", e.workaround);
        }
    }
    s
}

/// "1 error", "2 errors".
fn number(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn validate(what: &str, evidence: Option<&Path>, as_json: bool) -> Result<u8> {
    let findings = match load(what) {
        Ok((m, mut form)) => {
            form.extend(check(&m));
            if let Some(dir) = evidence {
                form.extend(Folder::new(dir).look(&m));
            }
            form
        }
        Err(Error::Unreadable(why)) => bail!("{what}: {why}"),
        Err(e) => vec![Finding {
            error: true,
            at: "file".into(),
            text: tame(&e.to_string()),
        }],
    };
    let errors = findings.iter().filter(|f| f.error).count();
    if as_json {
        #[derive(Serialize)]
        struct Answer<'a> {
            valid: bool,
            findings: &'a [Finding],
        }
        print(&Answer {
            valid: errors == 0,
            findings: &findings,
        })?;
    } else {
        for f in &findings {
            let kind = if f.error { "error" } else { "warning" };
            say!("{kind}: {}: {}", f.at, f.text);
        }
        say!(
            "{what}: {}, {}, {}",
            if errors == 0 { "valid" } else { "not valid" },
            number(errors, "error"),
            number(findings.len() - errors, "warning")
        );
    }
    Ok(if errors == 0 { 0 } else { NO })
}

fn changes(all: &[Change], as_json: bool) -> Result<u8> {
    if as_json {
        print(&all)?;
    } else {
        for c in all {
            let class = match c.class {
                Class::Breaking => "breaking",
                Class::NotStated => "unstated",
                Class::Additive => "additive",
                Class::Fix => "fix",
            };
            say!("{class:8}  {}: {}", c.at, c.text);
        }
        let n = |class| all.iter().filter(|c| c.class == class).count();
        let unstated = match n(Class::NotStated) {
            0 => String::new(),
            n => format!(", {n} not stated"),
        };
        say!(
            "{} breaking, {} additive, {} fixes{unstated}",
            n(Class::Breaking),
            n(Class::Additive),
            n(Class::Fix)
        );
    }
    let breaks = all.iter().any(|c| c.class == Class::Breaking);
    Ok(if breaks { NO } else { 0 })
}

/// Required and recommended things that the card lacks, and those that a part of a manifest says nothing about.
fn missing(all: &[Verdict]) -> (usize, usize, usize) {
    let lacks = |level| {
        let of = all.iter().filter(|v| !v.kept && v.stated);
        of.filter(|v| v.level == level).count()
    };
    (
        lacks(Level::Required),
        lacks(Level::Recommended),
        all.iter().filter(|v| !v.stated).count(),
    )
}

fn judged(name: &str, m: &Manifest, all: &[Verdict], as_json: bool) -> Result<u8> {
    let kept = profile::kept(all);
    if as_json {
        #[derive(Serialize)]
        struct Answer<'a> {
            profile: &'a str,
            vendor: &'a str,
            card: &'a str,
            kept: bool,
            requirements: &'a [Verdict],
        }
        print(&Answer {
            profile: name,
            vendor: &m.card.vendor,
            card: &m.card.name,
            kept,
            requirements: all,
        })?;
    } else {
        for v in all {
            let (level, missing) = match v.level {
                _ if !v.stated => (
                    if v.level == Level::Required {
                        "required"
                    } else {
                        "recommended"
                    },
                    "unknown",
                ),
                Level::Required => ("required", "MISSING"),
                Level::Recommended => ("recommended", "missing"),
            };
            if v.kept {
                say!("ok       {level:11} {}: {}", v.id, v.wanted);
                continue;
            }
            let why = match v.why.as_str() {
                "" => String::new(),
                w => format!(" ({w})"),
            };
            let found = if v.stated { " found" } else { "" };
            say!(
                "{missing}  {level:11} {}: {} wanted, {}{found}{why}",
                v.id,
                v.wanted,
                v.found
            );
        }
        let (required, recommended, unknown) = missing(all);
        let answer = match (kept, required) {
            (true, _) => "kept",
            (false, 0) => "not known",
            (false, _) => "not kept",
        };
        let unknown = match unknown {
            0 => String::new(),
            n => format!(", {n} not stated"),
        };
        say!(
            "{} {}: {name} {answer}: {required} required and {recommended} recommended are missing{unknown}",
            m.card.vendor,
            m.card.name,
        );
    }
    Ok(if kept { 0 } else { NO })
}

/// JUnit: what is required and missing has failed, what is required and not stated is an error, what is recommended and missing or not stated is skipped.
fn report(name: &str, m: &Manifest, all: &[Verdict]) -> String {
    let (required, recommended, _) = missing(all);
    let unknown = |v: &&Verdict| !v.stated && v.level == Level::Required;
    let errors = all.iter().filter(unknown).count();
    let mut s = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{name}: {} {}\" tests=\"{}\" failures=\"{required}\" skipped=\"{}\" errors=\"{errors}\">\n",
        xml(&m.card.vendor),
        xml(&m.card.name),
        all.len(),
        recommended + all.iter().filter(|v| !v.stated).count() - errors
    );
    for v in all {
        let _ = write!(
            s,
            "  <testcase classname=\"{name}\" name=\"{}: {}\"",
            xml(&v.id),
            xml(&v.wanted)
        );
        let _ = match (v.kept, v.level) {
            (true, _) => writeln!(s, "/>"),
            (false, Level::Required) if !v.stated => {
                writeln!(s, "><error message=\"not stated\"/></testcase>")
            }
            (false, Level::Required) => writeln!(
                s,
                "><failure message=\"{} found. {}\"/></testcase>",
                xml(&v.found),
                xml(&v.why)
            ),
            (false, Level::Recommended) => writeln!(
                s,
                "><skipped message=\"{} found. {}\"/></testcase>",
                xml(&v.found),
                xml(&v.why)
            ),
        };
    }
    s.push_str("</testsuite>\n");
    s
}

/// A capability in one cell.
fn brief(m: &Manifest, id: &str) -> String {
    let Some(c) = m.capability(id) else {
        return "-".into();
    };
    if !c.has() {
        return "absent".into();
    }
    let mut parts = vec![];
    match c.set.len() {
        0 => {}
        1..=3 => parts.push(c.set.join(" ")),
        n => parts.push(format!("{n} words")),
    }
    // figures under conditions are for the data sheet
    for l in c.limits.iter().filter(|l| l.when.is_none()) {
        parts.push(format!("{} {}", l.name, sheet::grouped(l.value)));
    }
    if parts.is_empty() {
        parts.push(c.state.to_string());
    }
    parts.join(", ")
}

fn matrix(all: &[Manifest], as_json: bool) -> Result<u8> {
    let mut ids: Vec<&str> = registry::REGISTRY.iter().map(|e| e.id).collect();
    for c in all.iter().flat_map(|m| &m.capabilities) {
        if !ids.contains(&c.id.as_str()) {
            ids.push(&c.id);
        }
    }
    if as_json {
        #[derive(Serialize)]
        struct Row<'a> {
            id: &'a str,
            cards: Vec<Option<&'a metaroce_manifest::Capability>>,
        }
        #[derive(Serialize)]
        struct Answer<'a> {
            cards: Vec<String>,
            capabilities: Vec<Row<'a>>,
        }
        let name = |m: &Manifest| format!("{} {} {}", m.card.vendor, m.card.name, m.card.version);
        print(&Answer {
            cards: all.iter().map(name).collect(),
            capabilities: ids
                .iter()
                .map(|id| Row {
                    id,
                    cards: all.iter().map(|m| m.capability(id)).collect(),
                })
                .collect(),
        })?;
        return Ok(0);
    }
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(all.iter().map(|m| m.card.name.clone()));
    for id in ids {
        let mut row = vec![id.to_string()];
        row.extend(all.iter().map(|m| brief(m, id)));
        rows.push(row);
    }
    let width = |i: usize| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=all.len()).map(width).collect();
    for r in &rows {
        let mut line = String::new();
        for (cell, w) in r.iter().zip(&widths) {
            let _ = write!(line, "{cell:w$}  ");
        }
        say!("{}", line.trim_end());
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_profiles() {
        let ours: Vec<_> = Profile::value_variants()
            .iter()
            .filter_map(|p| p.to_possible_value())
            .map(|p| p.get_name().to_string())
            .collect();
        let all: Vec<_> = profile::PROFILES.iter().map(|p| p.name).collect();
        assert_eq!(ours, all);
    }

    #[test]
    fn names_of_configurations() {
        for c in config::ALL {
            assert!(WHAT.contains(c.name), "{} is not in the help", c.name);
        }
    }
}
