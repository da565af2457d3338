//! perftest's tools over every transport and option that the card should carry, each on two simulated cards: docs/results/perftest.md.
//!
//! Shows: `mtus`.

use crate::check::{cargo, PROGRAMS};
use anyhow::{bail, Context, Result};
use std::{fmt::Write, path::Path, process::Command, time::Instant};

/// A tool with a transport, and what may be asked of it.
struct Tool {
    name: &'static str,
    /// `-c`
    transport: &'static str,
    latency: bool,
    /// Data can go inline.
    inline: bool,
    /// Sleeps on completion events.
    events: bool,
}

const fn bw(name: &'static str, transport: &'static str, inline: bool, events: bool) -> Tool {
    Tool {
        name,
        transport,
        latency: false,
        inline,
        events,
    }
}
const fn lat(name: &'static str, transport: &'static str, inline: bool, events: bool) -> Tool {
    Tool {
        name,
        transport,
        latency: true,
        inline,
        events,
    }
}

/// perftest offers no inline data for READ and atomics, and no events for WRITE.
const TOOLS: &[Tool] = &[
    bw("ib_write_bw", "RC", true, false),
    bw("ib_write_bw", "UC", true, false),
    bw("ib_read_bw", "RC", false, true),
    bw("ib_send_bw", "RC", true, true),
    bw("ib_send_bw", "UC", true, true),
    bw("ib_send_bw", "UD", true, true),
    bw("ib_atomic_bw", "RC", false, true),
    lat("ib_write_lat", "RC", true, false),
    lat("ib_write_lat", "UC", true, false),
    lat("ib_read_lat", "RC", false, true),
    lat("ib_send_lat", "RC", true, true),
    lat("ib_send_lat", "UC", true, true),
    lat("ib_send_lat", "UD", true, true),
    lat("ib_atomic_lat", "RC", false, true),
];

/// Columns: name and arguments; `S` stands for the message size.
const OPTIONS: &[(&str, &str)] = &[
    ("plain", ""),
    ("-b", "-b"),
    ("-q 8", "-q 8"),
    ("-l 16", "-l 16"),
    ("-e", "-e"),
    ("-I 0", "-I 0"),
    ("-I 64", "-I 64"),
    ("-m 256", "-m 256"),
    ("-m 512", "-m 512"),
    ("-m 1024", "-m 1024"),
    ("-m 2048", "-m 2048"),
    ("-m 4096", "-m 4096"),
];

/// The arguments of one combination; None where perftest has no such thing.
fn args(t: &Tool, option: &str, given: &str) -> Option<String> {
    match option {
        "-b" | "-q 8" | "-l 16" if t.latency => return None,
        "-I 0" | "-I 64" if !t.inline => return None,
        "-e" if !t.events => return None,
        _ => {}
    }
    let mtu = given
        .strip_prefix("-m ")
        .and_then(|m| m.parse::<u32>().ok())
        .unwrap_or(4096);
    let bytes = match (option, t.name.starts_with("ib_atomic"), t.transport) {
        (_, true, _) => None,
        ("-I 64", ..) => Some(64),
        // a datagram fits into a packet
        (_, _, "UD") => Some(mtu.min(2048)),
        _ => Some(if t.latency { 1024 } else { 8192 }),
    };
    let size = bytes.map(|b| format!(" -s {b}")).unwrap_or_default();
    let transport = match t.transport {
        "RC" => String::new(),
        c => format!(" -c {c}"),
    };
    // -l posts 16 at a time: the count and the depth are multiples
    Some(format!("{}{transport}{size} -n 160 {given}", t.name))
}

pub fn run(root: &Path, filter: &[String]) -> Result<()> {
    cargo(root, PROGRAMS)?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |d| root.join(d));
    let metaroce = target.join("release/metaroce");
    let mut all = vec![];
    for t in TOOLS {
        for (k, (option, given)) in OPTIONS.iter().enumerate() {
            if let Some(a) = args(t, option, given) {
                if filter.iter().all(|f| a.contains(f.as_str())) {
                    all.push((t, k, a));
                }
            }
        }
    }
    if all.is_empty() {
        bail!("no combination has all of {filter:?}");
    }
    let (mut failed, begin) = (vec![], Instant::now());
    let mut cells = vec![vec![""; OPTIONS.len()]; TOOLS.len()];
    for (n, (t, k, a)) in all.iter().enumerate() {
        let from = Instant::now();
        let o = Command::new(&metaroce)
            .args(["perftest", "--timeout", "120"])
            .args(a.split_whitespace())
            .current_dir(root)
            .output()
            .context("can't start metaroce")?;
        let text =
            String::from_utf8_lossy(&o.stdout).to_string() + &String::from_utf8_lossy(&o.stderr);
        let ok = o.status.success() && text.contains("Card time");
        eprintln!(
            "[{}/{}] {a}: {} ({:.1} s)",
            n + 1,
            all.len(),
            if ok { "ok" } else { "FAILED" },
            from.elapsed().as_secs_f64()
        );
        let row = TOOLS
            .iter()
            .position(|x| std::ptr::eq(x, *t))
            .expect("of the table");
        cells[row][*k] = if ok { "ok" } else { "**fails**" };
        if !ok {
            eprintln!("{text}");
            failed.push(a.clone());
        }
    }
    eprintln!(
        "{} of {} combinations work ({:.0} s)",
        all.len() - failed.len(),
        all.len(),
        begin.elapsed().as_secs_f64()
    );
    if filter.is_empty() {
        let page = root.join("docs/results/perftest.md");
        std::fs::write(&page, markdown(&cells)).with_context(|| page.display().to_string())?;
    }
    for a in &failed {
        eprintln!("again: {} perftest {a}", metaroce.display());
    }
    if !failed.is_empty() {
        bail!("{} combinations fail", failed.len());
    }
    Ok(())
}

fn markdown(cells: &[Vec<&str>]) -> String {
    let mut t = String::from(
        "# perftest's tools\n\nThe distribution's tools, unmodified, between two simulated cards (`./metaroce perftest`), 160 messages each. Reproduce: `cargo xtask tools` (some minutes).\n\
         An empty cell: perftest has no such option for this tool. `-I 0` and `-I 64`: perftest knows by their vendor numbers which devices have inline data, and switches it off on all others (it says so), so these columns show that the option does no harm; inline data itself is in `cargo xtask bench` and the tests.\n\n| tool | transport |",
    );
    for (o, _) in OPTIONS {
        write!(t, " `{o}` |").expect("a string");
    }
    t.push_str("\n|---|---|");
    t.push_str(&"---|".repeat(OPTIONS.len()));
    for (tool, row) in TOOLS.iter().zip(cells) {
        write!(
            t,
            "\n| `{}` | {} | {} |",
            tool.name,
            tool.transport,
            row.join(" | ")
        )
        .expect("a string");
    }
    t.push('\n');
    t.replace("`plain`", "plain")
}
