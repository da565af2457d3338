//! Runs the scripted benches and writes docs/results/card.md. `--check` fails when the committed page differs.
//!
//! Shows: `goodput`, `latency`, `line_rates`, `message_rate`, `rate_by_queue_pairs`, `recovery`.

use metaroce_hdl_spec::{config::SIM_100G, wqe::op};
use metaroce_tb::{
    bench::{flow, mtu_bytes, speed, throughput, write_latency, Alone, Flow, AT_ONCE},
    hostport::HostPortConfig,
    recovery::{recovery, Recovery},
    scale::{isolation, many, small_writes, Attack, ATTACKS},
};
use std::{fmt::Write, path::Path};

const BASE: Flow = Flow {
    op: op::WRITE,
    bytes: 65_536,
    qps: 1,
    depth: 8,
    mtu: 5,
    both_ways: false,
    messages: 48,
};

fn cases() -> Vec<(&'static str, Flow)> {
    vec![
        ("WRITE 64 KiB, one QP", BASE),
        (
            "WRITE 64 KiB, one QP, both ways",
            Flow {
                both_ways: true,
                ..BASE
            },
        ),
        ("WRITE 64 KiB, one QP", Flow { mtu: 3, ..BASE }),
        (
            "WRITE 64 KiB, one QP, both ways",
            Flow {
                mtu: 3,
                both_ways: true,
                ..BASE
            },
        ),
        (
            "READ 64 KiB, one QP",
            Flow {
                op: op::READ,
                ..BASE
            },
        ),
        (
            "READ 64 KiB, one QP, both ways",
            Flow {
                op: op::READ,
                both_ways: true,
                ..BASE
            },
        ),
        (
            "READ 64 KiB, one QP",
            Flow {
                op: op::READ,
                mtu: 3,
                ..BASE
            },
        ),
        (
            "WRITE 64 B, 4 QPs",
            Flow {
                bytes: 64,
                qps: 4,
                depth: 64,
                messages: 4000,
                ..BASE
            },
        ),
        (
            "WRITE 64 B, 8 QPs",
            Flow {
                bytes: 64,
                qps: 8,
                depth: 32,
                messages: 4000,
                ..BASE
            },
        ),
        (
            "WRITE 64 B, one QP",
            Flow {
                bytes: 64,
                depth: 128,
                messages: 2000,
                ..BASE
            },
        ),
    ]
}

/// docs/results/scale.md
fn scale() -> String {
    let mut t = String::from(
        "# Many QPs, and QPs that misbehave\n\nCard clock, scripted hosts, host port of 600 ns reads with reordered completions, 100 Gb/s wire, configuration `sim-100g`.\n\
         Reproduce: `cargo xtask bench -- --scale` (some minutes).\n\n\
         ## Cost of a packet\n\nWRITEs of 64 bytes, each QP in turn, while 2,048 QPs are connected; 1,024 requests in flight at most, at least one a QP.\n\n\
         | QPs in use | M messages/s | resent |\n|---|---|---|\n",
    );
    let mut p = many(1 << SIM_100G.log_qp);
    for qps in [1, 4, 8, 32, 128, 512, 1024, 2048] {
        eprintln!("bench: {qps} QPs in use");
        let r = flow(
            &mut p,
            &small_writes(qps, 1024.max(qps).min(qps * 128), 6144),
            &mut Alone,
        );
        writeln!(
            t,
            "| {qps} | {:.3} | {} |",
            r.messages_per_s / 1e6,
            r.retransmits
        )
        .unwrap();
    }
    t.push_str(
        "\n## Beside a neighbour\n\nOne clean QP, alone and beside one QP (or process) of the kind named; the neighbour's messages are as long as the clean QP's.\n\
         `clean` is a second QP that does the same as the first: what a fair share leaves.\n\n\
         | clean QP | neighbour | M messages/s | of its rate alone | of a fair share | neighbour's rounds |\n|---|---|---|---|---|---|\n",
    );
    for (name, f) in [
        (
            "WRITE 64 B",
            Flow {
                bytes: 64,
                depth: 128,
                messages: 4000,
                ..BASE
            },
        ),
        (
            "WRITE 4 KiB",
            Flow {
                bytes: 4096,
                depth: 64,
                messages: 600,
                ..BASE
            },
        ),
    ] {
        let alone = isolation(&f, None).0.messages_per_s;
        writeln!(t, "| {name} | none | {:.3} | | | |", alone / 1e6).unwrap();
        let mut fair = 0.0;
        for kind in ATTACKS {
            eprintln!("bench: {name} beside {kind:?}");
            let (r, rounds) = isolation(&f, Some(kind));
            if kind == Attack::Clean {
                fair = r.messages_per_s;
            }
            writeln!(
                t,
                "| {name} | {} | {:.3} | {:.1} % | {:.1} % | {rounds} |",
                kind.name(),
                r.messages_per_s / 1e6,
                100.0 * r.messages_per_s / alone,
                100.0 * r.messages_per_s / fair
            )
            .unwrap();
        }
    }
    t
}

/// Writes a page of docs/results, or compares it.
fn page(name: &str, t: &str, check: bool) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/results")
        .join(name);
    if check {
        let old = std::fs::read_to_string(&page).unwrap_or_default();
        if old != t {
            eprintln!("docs/results/{name} is not what the card does now; run `cargo xtask bench` and look at the diff:\n{t}");
            std::process::exit(1);
        }
        println!("docs/results/{name} is fresh");
    } else {
        std::fs::write(&page, t).expect("docs/results is writable");
        print!("{t}");
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|a| a == "--speed") {
        let (c, s) = speed(200_000);
        println!("{c} cycles of two cards in step under load in {s:.2} s: {:.0} k cycles per wall second", c as f64 / s / 1000.0);
        return;
    }
    let check = args.iter().any(|a| a == "--check");
    if args.iter().any(|a| a == "--scale") {
        page("scale.md", &scale(), check);
        return;
    }
    if args.iter().any(|a| a == "--raw") {
        page("mini.md", &metaroce_tb::raw_bench::page(), check);
        return;
    }
    let mut t = String::from(
        "# The card, measured\n\nCard clock, scripted hosts, host port of 600 ns reads with reordered completions, 100 Gb/s wire, configuration `sim-100g`.\n\
         Reproduce: `cargo xtask bench`. The limit is what the wire carries at that MTU and message size (IPv4, with preamble, FCS and gap).\n\n\
         | case | MTU | Gb/s (slower way) | limit | % of limit | M messages/s | resent |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, f) in cases() {
        eprintln!("bench: {name}, MTU {}", mtu_bytes(f.mtu));
        let r = throughput(&f, HostPortConfig::default(), 1);
        writeln!(
            t,
            "| {name} | {} | {:.2} | {:.2} | {:.1} | {:.3} | {} |",
            mtu_bytes(f.mtu),
            r.gbps,
            r.limit_gbps,
            r.of_limit,
            r.messages_per_s / 1e6,
            r.retransmits
        )
        .unwrap();
    }
    t.push_str("\nLatency in cycles of 3.103 ns, host port latency not counted (a host port that answers at once):\n\n| case | doorbell -> first wire word | last wire word -> memory write |\n|---|---|---|\n");
    for bytes in [8, 64, 4096] {
        let l = write_latency(bytes, AT_ONCE, false);
        writeln!(
            t,
            "| WRITE {bytes} B | {} | {} |",
            l.doorbell_to_wire, l.wire_to_memory
        )
        .unwrap();
    }
    for bytes in [8, 32] {
        let l = write_latency(bytes, HostPortConfig::default(), true);
        writeln!(
            t,
            "| WRITE {bytes} B, inline, direct WQE, host port of 600 ns | {} | {} |",
            l.doorbell_to_wire, l.wire_to_memory
        )
        .unwrap();
    }
    t.push_str("\nOne lost packet in a message of 16 packets of 1024 bytes, cycles:\n\n| message | last word of the packet behind the gap -> NAK (READ: the new request) sent | its last word -> first host read of the lost payload |\n|---|---|---|\n");
    for (name, what) in [("WRITE", op::WRITE), ("SEND", op::SEND), ("READ", op::READ)] {
        // the slowest place
        let all = [0, 5, 14].map(|lost| recovery(what, 16, lost));
        let slowest = |f: fn(&Recovery) -> u64| all.iter().map(f).max().unwrap_or(0);
        writeln!(
            t,
            "| {name} | {} | {} |",
            slowest(|r| r.gap_to_nak),
            slowest(|r| r.nak_to_read)
        )
        .unwrap();
    }
    page("card.md", &t, check);
}
