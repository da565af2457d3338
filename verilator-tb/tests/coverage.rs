//! Puts the records of the whole-card tests together. With `METAROCE_COVERAGE=FILE` it writes the page
//! docs/results/coverage.md; see there for the command. Without records it says so and checks only its own tables.

mod common;

use common::cover;
use metaroce_hdl_spec::{cqe, regs};
use metaroce_protocol::{opcode::Service, qp::QpType, qp::TRANSITIONS, Opcode, Syndrome};
use std::collections::BTreeMap;

type Hits = BTreeMap<(String, String), u64>;

fn read() -> (Hits, Vec<String>) {
    let (mut hits, mut from) = (Hits::new(), vec![]);
    let Ok(dir) = std::fs::read_dir(cover::dir()) else {
        return (hits, from);
    };
    for f in dir.flatten() {
        from.push(
            f.path()
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        );
        for l in std::fs::read_to_string(f.path()).expect("record").lines() {
            let v: Vec<&str> = l.split('\t').collect();
            let n: u64 = v[2].parse().expect("number");
            *hits.entry((v[0].into(), v[1].into())).or_default() += n;
        }
    }
    from.sort();
    (hits, from)
}

/// All names of a kind, with why a name may stay without a hit.
fn goals() -> Vec<(&'static str, &'static str, Vec<(String, &'static str)>)> {
    let opcodes = Opcode::ALL.iter().map(|o| {
        let rc = o.info().is_some_and(|i| i.service == Service::Rc);
        let why = match o.0 {
            0x12..=0x14 => "tested in `atomics`, which keeps no record",
            0x1c | 0x1d => "FLUSH, ATOMIC WRITE: not executed by this card",
            0x81 => "CNP: a card sends none here; it takes one in `foreign`",
            _ if !rc => "UC and UD are tested in `uc` and `ud`, which keep no record",
            _ => "",
        };
        (o.name().to_string(), why)
    });
    let mut syndromes: Vec<_> = (0..32u8)
        .map(|t| (cover::syndrome_name(Syndrome::Rnr { timer: t }), ""))
        .collect();
    syndromes.insert(0, (cover::syndrome_name(Syndrome::ACK), ""));
    for b in 0x60..0x64 {
        syndromes.push((cover::syndrome_name(Syndrome::from_byte(b)), ""));
    }
    let counters = regs::COUNTERS.iter().map(|c| (c.name.to_string(), ""));
    let statuses = cqe::status::TABLE.iter().map(|c| {
        let why = match c.name {
            "FATAL" | "GENERAL" => "not given by the card",
            _ => "",
        };
        (c.name.to_string(), why)
    });
    let events = cqe::event::TABLE.iter().map(|c| {
        let why = match c.name {
            "COMM_EST" => "not made by the card",
            _ => "",
        };
        (c.name.to_string(), why)
    });
    let rows = TRANSITIONS
        .iter()
        .filter(|t| t.qp_type == QpType::Rc)
        .map(|t| {
            let sqe = t.from as u8 == 5;
            (
                format!("{:?} -> {:?}", t.from, t.to),
                if sqe { "an RC QP is never in SQE" } else { "" },
            )
        });
    vec![
        ("opcode", "Opcodes on the wire", opcodes.collect()),
        ("syndrome", "Syndromes on the wire", syndromes),
        ("counter", "Counters of the card", counters.collect()),
        (
            "status",
            "Completion statuses (`cqe.status`)",
            statuses.collect(),
        ),
        ("event", "Events (`eqe.kind`)", events.collect()),
        ("transition", "QP transitions (RC)", rows.collect()),
    ]
}

#[test]
fn coverage() {
    let (hits, from) = read();
    let mut text = String::from(
        "# What the whole-card tests hit\n\n\
         Written by `tests/coverage.rs` from the records of the tests named below, all on two Verilated cards:\n\n\
         ```\n\
         cargo test --release -p metaroce-tb --test lockstep --test errors --test lifecycle --test foreign\n\
         METAROCE_COVERAGE=docs/results/coverage.md cargo test --release -p metaroce-tb --test coverage\n\
         ```\n\n",
    );
    text += &format!("Records: {}.\n", from.join(", "));
    let mut open = vec![];
    for (kind, title, names) in goals() {
        let hit = |n: &str| hits.get(&(kind.into(), n.into())).copied().unwrap_or(0);
        let done = names.iter().filter(|n| hit(&n.0) != 0).count();
        text += &format!(
            "\n## {title}: {done} of {}\n\n| what | hits |\n|---|---:|\n",
            names.len()
        );
        for (n, why) in &names {
            match hit(n) {
                0 => open.push(format!(
                    "- {title}: {n}{}",
                    if why.is_empty() {
                        String::new()
                    } else {
                        format!(" ({why})")
                    }
                )),
                k => text += &format!("| {n} | {k} |\n"),
            }
        }
    }
    let refused: Vec<_> = hits
        .iter()
        .filter(|(k, _)| k.0 == "refused transition")
        .collect();
    text += "\n## Modifies refused without any change\n\n| transition | attribute masks |\n|---|---:|\n";
    for ((_, n), k) in refused {
        text += &format!("| {n} | {k} |\n");
    }
    text += &format!("\n## Not hit\n\n{}\n", open.join("\n"));
    if from.is_empty() {
        println!("no records: run the tests first");
    }
    if let Ok(out) = std::env::var("METAROCE_COVERAGE") {
        assert!(!from.is_empty(), "no records: run the tests first");
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        std::fs::write(root.join(out), text).expect("page");
    }
}
