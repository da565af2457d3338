//! `metaroce caps conform`: does a device what its manifest claims? Probed through verbs alone, so with any device.

mod bench;
mod carried;
mod facts;
mod falsify;
mod judge;
mod probe;
mod traffic;
mod unverifiable;
mod verbs;
mod wire;

pub use judge::{Outcome, Verdict};

use crate::output::{note, say, xml, Usage};
use anyhow::{bail, Context, Result};
use metaroce_manifest::{cbor, Manifest};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write as _,
    io::Read as _,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// Of the probes and their judgement: a report counts for the manifest, the device and this.
const SUITE: &str = "1.2";

#[derive(Serialize)]
struct Report<'a> {
    suite: &'static str,
    /// UTC.
    date: String,
    manifest: String,
    /// SHA-256 of its image.
    manifest_sha256: String,
    facts: &'a facts::Facts,
    verdicts: &'a [Verdict],
    passed: usize,
    failed: usize,
    unverifiable: usize,
}

pub struct Args<'a> {
    /// A device, or the report of an earlier run on one.
    pub device: Option<&'a str>,
    pub facts: Option<&'a Path>,
    /// Captures of its wire.
    pub wire: &'a [std::path::PathBuf],
    pub objects: u64,
    pub gid_index: u8,
    pub peer: Option<&'a str>,
    pub json: bool,
    pub junit: Option<&'a Path>,
}

/// What was found in a run with `--json`.
fn earlier(file: &Path) -> Result<facts::Facts> {
    #[derive(Deserialize)]
    struct Found {
        facts: facts::Facts,
    }
    let text = match file.to_str() {
        Some("-") => {
            let mut b = vec![];
            std::io::stdin().read_to_end(&mut b)?;
            b
        }
        _ => std::fs::read(file)?,
    };
    let found: Found =
        serde_json::from_slice(&text).context("no report of `caps conform --json`")?;
    Ok(found.facts)
}

fn date() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |d| d.as_secs()) as libc::time_t;
    // SAFETY: plain integers, filled by the call.
    let mut t: libc::tm = unsafe { std::mem::zeroed() };
    unsafe { libc::gmtime_r(&now, &mut t) };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        t.tm_year + 1900,
        t.tm_mon + 1,
        t.tm_mday,
        t.tm_hour,
        t.tm_min,
        t.tm_sec
    )
}

/// Whether nothing is claimed that is not so.
pub fn run(m: &Manifest, a: &Args) -> Result<bool> {
    let o = probe::Options {
        objects: a.objects,
        gid_index: a.gid_index,
        peer: a.peer.map(Into::into),
    };
    let mut n = 0;
    let mut facts = match (a.device, a.facts) {
        (Some(device), _) => probe::all(
            device,
            &o,
            |what| {
                n += 1;
                note!("conform: [{n}/{}] {what}", 7 + u8::from(a.peer.is_some()));
            },
            &|far| note!("conform:       {far}"),
        )?,
        (_, Some(file)) => earlier(file).with_context(|| file.display().to_string())?,
        (None, None) => bail!(Usage(
            "a DEVICE, or --facts with the report of an earlier run".into()
        )),
    };
    for file in a.wire {
        wire::look(file, &mut facts).with_context(|| file.display().to_string())?;
    }
    let verdicts = judge::judge(m, &facts);
    let count = |o| verdicts.iter().filter(|v| v.outcome == o).count();
    let hash: String = Sha256::digest(cbor::encode(m))
        .iter()
        .fold(String::new(), |mut s, b| {
            let _ = write!(s, "{b:02x}");
            s
        });
    let r = Report {
        suite: SUITE,
        date: date(),
        manifest: format!("{} {} {}", m.card.vendor, m.card.name, m.card.version),
        manifest_sha256: hash,
        facts: &facts,
        verdicts: &verdicts,
        passed: count(Outcome::Pass),
        failed: count(Outcome::Fail),
        unverifiable: count(Outcome::Unverifiable),
    };
    if a.json {
        say!("{}", serde_json::to_string_pretty(&r)?);
    } else {
        for v in &verdicts {
            let word = match v.outcome {
                Outcome::Pass => "pass",
                Outcome::Fail => "FAIL",
                Outcome::Unverifiable => "unverifiable",
            };
            say!("{word:<13} {}: {}", v.claim, v.text);
        }
        say!(
            "{}: {} pass, {} fail, {} unverifiable; manifest {} ({}...), suite {SUITE}, {}",
            facts.device,
            r.passed,
            r.failed,
            r.unverifiable,
            r.manifest,
            &r.manifest_sha256[..16],
            r.date
        );
    }
    // behind the report itself, which a path that can't be written must not cost
    if let Some(file) = a.junit {
        std::fs::write(file, junit(&r)).with_context(|| file.display().to_string())?;
    }
    Ok(r.failed == 0)
}

fn junit(r: &Report) -> String {
    let mut s = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"conform {SUITE} {}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" timestamp=\"{}\">\n<properties><property name=\"manifest\" value=\"{}\"/><property name=\"manifest_sha256\" value=\"{}\"/></properties>\n",
        xml(&r.facts.device),
        r.verdicts.len(),
        r.failed,
        r.unverifiable,
        r.date.trim_end_matches('Z'),
        xml(&r.manifest),
        r.manifest_sha256
    );
    for v in r.verdicts {
        let text = xml(&v.text);
        let _ = match v.outcome {
            Outcome::Pass => writeln!(s, "<testcase classname=\"conform\" name=\"{}\"/>", xml(&v.claim)),
            Outcome::Fail => writeln!(s, "<testcase classname=\"conform\" name=\"{}\"><failure message=\"{text}\"/></testcase>", xml(&v.claim)),
            Outcome::Unverifiable => writeln!(s, "<testcase classname=\"conform\" name=\"{}\"><skipped message=\"{text}\"/></testcase>", xml(&v.claim)),
        };
    }
    s + "</testsuite>\n"
}

/// Makes each field false in turn, and says what names it: whether all are named but those that are listed.
pub fn falsify(m: &Manifest, report: &Path, root: Option<&Path>, json: bool) -> Result<bool> {
    let facts = earlier(report).with_context(|| report.display().to_string())?;
    let root = root.map(metaroce_manifest::evidence::Folder::new);
    let all = falsify::all(m, &facts, root.as_ref());
    let named = all.iter().filter(|f| f.named()).count();
    let open = all.len() - named;
    let good = all.iter().all(|f| f.named() || f.reason.is_some());
    if json {
        #[derive(Serialize)]
        struct Answer<'a> {
            fields: usize,
            named: usize,
            unverifiable: usize,
            all: &'a [falsify::Field],
        }
        say!(
            "{}",
            serde_json::to_string_pretty(&Answer {
                fields: all.len(),
                named,
                unverifiable: open,
                all: &all,
            })?
        );
        return Ok(good);
    }
    for f in all.iter().filter(|f| !f.named()) {
        let ways: Vec<String> = f.silent.iter().map(ToString::to_string).collect();
        let ways = ways.join(", ");
        let path = &f.path;
        match f.reason {
            Some(why) => say!("unverifiable  {path}: {why} ({ways})"),
            None => say!("SILENT        {path}: nothing names {ways}"),
        }
    }
    for f in all.iter().filter(|f| f.named() && f.reason.is_some()) {
        say!(
            "LISTED        {}: is named, and on the list of what can't be",
            f.path
        );
    }
    let by = |n: fn(&falsify::Field) -> usize| all.iter().filter(|f| n(f) > 0).count();
    say!(
        "{} fields: {named} named when falsified ({} by validate, {} by conform), {open} ({:.1} %) unverifiable",
        all.len(),
        by(|f| f.by_validate),
        by(|f| f.by_conform),
        open as f64 * 100.0 / all.len().max(1) as f64
    );
    Ok(good)
}
