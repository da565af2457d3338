//! Figures of our card, read from the pages that the benches write (`docs/results/`): a page that is measured anew changes the manifest, with no other edit.

use crate::{registry::id, Bound, Condition, Limit, Provenance, Stage, Unit};
use alloc::{format, vec::Vec};

const CARD: &str = include_str!("../../../docs/results/card.md");
const SCALE: &str = include_str!("../../../docs/results/scale.md");
const FPGA: &str = include_str!("../../../docs/results/fpga.md");

/// The host port that the benches have, in ns.
const HOST_READ_NS: u32 = 600;
/// The figures repeat to the bit; what another machine's compiler or the next change of the card moves a little stays a kept promise.
const TOLERANCE_PPM: u32 = 20_000;

/// `row` are the first cells, `column` counts cells from 0.
struct Place {
    page: &'static str,
    row: &'static [&'static str],
    column: usize,
    /// Decimals that `value` has more than the page.
    decimals: u32,
}

/// A number as the page writes it, times 10^decimals.
fn number(s: &str, decimals: u32) -> Option<u64> {
    let (whole, part) = s.split_once('.').unwrap_or((s, ""));
    let mut v: u64 = whole.parse().ok()?;
    let mut part = part.bytes();
    for _ in 0..decimals {
        let d = part.next().unwrap_or(b'0');
        if !d.is_ascii_digit() {
            return None;
        }
        v = v.checked_mul(10)?.checked_add(u64::from(d - b'0'))?;
    }
    Some(v)
}

impl Place {
    fn read(&self) -> Option<u64> {
        self.page
            .lines()
            .filter_map(|l| l.strip_prefix('|'))
            .map(|l| l.split('|').map(str::trim).collect::<Vec<_>>())
            .find(|cells| cells.len() > self.column && cells.starts_with(self.row))
            .and_then(|cells| number(cells[self.column], self.decimals))
    }
}

/// What was measured where.
struct Figure {
    capability: &'static str,
    name: &'static str,
    bound: Bound,
    unit: Unit,
    place: Place,
    when: Condition,
    test: &'static str,
}

impl Figure {
    fn limit(self) -> Option<(&'static str, Limit)> {
        let value = self.place.read()?;
        Some((
            self.capability,
            Limit {
                name: self.name.into(),
                bound: self.bound,
                value,
                unit: self.unit,
                when: Some(self.when),
                percentile_ppm: None,
                tolerance_ppm: Some(TOLERANCE_PPM),
                provenance: Provenance {
                    stage: Stage::RtlSimulation,
                    test: self.test.into(),
                },
            },
        ))
    }
}

fn card(
    capability: &'static str,
    name: &'static str,
    bound: Bound,
    unit: Unit,
    (row, column, decimals): (&'static [&'static str], usize, u32),
    when: Condition,
) -> Figure {
    Figure {
        capability,
        name,
        bound,
        unit,
        place: Place {
            page: CARD,
            row,
            column,
            decimals,
        },
        when,
        test: "cargo xtask bench",
    }
}

/// Figures of the card that the benches run, by capability.
pub fn figures(clock_khz: u32) -> Vec<(&'static str, Limit)> {
    use Bound::{AtLeast, AtMost};
    let at = |mtu: Option<u32>, qps: u32, message: u64, host: u32| Condition {
        mtu,
        qps: Some(qps),
        clock_khz: Some(clock_khz),
        message: Some(message),
        host_read_ns: Some(host),
        text: None,
    };
    let k64 = 65_536;
    let long = HOST_READ_NS;
    let mut f = Vec::new();
    for (name, row, mtu) in [
        ("write", &["WRITE 64 KiB, one QP", "4096"], 4096),
        ("write", &["WRITE 64 KiB, one QP", "1024"], 1024),
        ("read", &["READ 64 KiB, one QP", "4096"], 4096),
        ("read", &["READ 64 KiB, one QP", "1024"], 1024),
    ] as [(_, &'static [&'static str; 2], u32); 4]
    {
        let when = at(Some(mtu), 1, k64, long);
        f.push(card(
            id::goodput,
            name,
            AtLeast,
            Unit::Mbps,
            (row, 2, 3),
            when,
        ));
    }
    for (row, qps) in [
        (&["WRITE 64 B, one QP"], 1),
        (&["WRITE 64 B, 4 QPs"], 4),
        (&["WRITE 64 B, 8 QPs"], 8),
    ] as [(&'static [&'static str; 1], u32); 3]
    {
        let when = at(Some(4096), qps, 64, long);
        f.push(card(
            id::message_rate,
            "write",
            AtLeast,
            Unit::OpsPerS,
            (row, 5, 6),
            when,
        ));
    }
    for (row, message, host, text) in [
        (
            &["WRITE 8 B"],
            8,
            0,
            "WRITE, host port that answers at once",
        ),
        (
            &["WRITE 4096 B"],
            4096,
            0,
            "WRITE, host port that answers at once",
        ),
        (
            &["WRITE 8 B, inline, direct WQE, host port of 600 ns"],
            8,
            HOST_READ_NS,
            "WRITE, inline, direct WQE",
        ),
    ] as [(&'static [&'static str; 1], u64, u32, &str); 3]
    {
        for (name, column) in [("doorbell_to_wire", 1), ("wire_to_memory", 2)] {
            let mut when = at(None, 1, message, host);
            when.text = Some(text.into());
            f.push(card(
                id::latency,
                name,
                AtMost,
                Unit::Cycles,
                (row, column, 0),
                when,
            ));
        }
    }
    for row in [&["WRITE"], &["SEND"], &["READ"]] as [&'static [&'static str; 1]; 3] {
        for (name, column) in [("nak", 1), ("resend", 2)] {
            let mut when = at(Some(1024), 1, 16 * 1024, long);
            when.text = Some(format!("{}, one packet lost", row[0]));
            f.push(card(
                id::recovery,
                name,
                AtMost,
                Unit::Cycles,
                (row, column, 0),
                when,
            ));
        }
    }
    f.into_iter().filter_map(Figure::limit).collect()
}

/// Requests of 64 bytes by queue pairs in use.
pub fn scale(clock_khz: u32) -> Vec<Limit> {
    const ROWS: [(&[&str], u32); 8] = [
        (&["1"], 1),
        (&["4"], 4),
        (&["8"], 8),
        (&["32"], 32),
        (&["128"], 128),
        (&["512"], 512),
        (&["1024"], 1024),
        (&["2048"], 2048),
    ];
    ROWS.into_iter()
        .filter_map(|(row, qps)| {
            Figure {
                capability: id::message_rate,
                name: "write",
                bound: Bound::AtLeast,
                unit: Unit::OpsPerS,
                place: Place {
                    page: SCALE,
                    row,
                    column: 1,
                    decimals: 6,
                },
                when: Condition {
                    qps: Some(qps),
                    clock_khz: Some(clock_khz),
                    message: Some(64),
                    host_read_ns: Some(HOST_READ_NS),
                    ..Condition::default()
                },
                test: "cargo xtask bench -- --scale",
            }
            .limit()
        })
        .map(|(_, l)| l)
        .collect()
}

/// The clock that placement gave for the configuration of that name, in kHz, and whether the design was also routed.
pub fn placed(name: &str) -> Option<(u64, bool)> {
    if !FPGA.contains(&format!("`{name}` for a ")) {
        return None;
    }
    let mhz = |before: &str| {
        let (_, rest) = FPGA.split_once(before)?;
        number(rest.split_once(" MHz")?.0, 3)
    };
    match mhz("nextpnr expected ") {
        Some(khz) => Some((khz, false)),
        // the page of a routed card: its first figure
        None => Some((mhz("\n**")?, true)),
    }
}
