//! What our manifests claim: it follows the configuration, the figures are those of the pages, and the tests that show it are there.

use metaroce_hdl_spec::config::{self, Config, SIM_100G};
use metaroce_manifest::{
    cbor, json,
    profile::{Need, PROFILES},
    registry::{self, REGISTRY},
    sheet, svd, Manifest, Provenance, Stage, State,
};
use std::{collections::BTreeSet, path::Path};

/// Each parameter of a configuration reaches every form.
#[test]
fn a_parameter_changes_the_manifest() {
    type Edit = fn(&mut Config);
    let edits: [(&str, Edit); 19] = [
        ("name", |c| c.name = "other"),
        ("bus_bits", |c| c.bus_bits = 64),
        ("clock_khz", |c| c.clock_khz += 1),
        ("line_mbps", |c| c.line_mbps -= 1),
        ("log_qp", |c| c.log_qp -= 1),
        ("log_mr", |c| c.log_mr -= 1),
        ("log_cq", |c| c.log_cq -= 1),
        ("log_pd", |c| c.log_pd -= 1),
        ("log_sq_slots", |c| c.log_sq_slots -= 1),
        ("log_rq_slots", |c| c.log_rq_slots -= 1),
        ("log_rx_words", |c| c.log_rx_words -= 1),
        ("log_tx_words", |c| c.log_tx_words -= 1),
        ("log_mtt_lines", |c| c.log_mtt_lines -= 1),
        ("log_tags", |c| c.log_tags -= 1),
        ("max_rd", |c| c.max_rd -= 1),
        ("max_sge", |c| c.max_sge -= 3),
        ("log_pasid", |c| c.log_pasid -= 1),
        ("atomics", |c| c.atomics = false),
        ("transport", |c| c.transport = false),
    ];
    // as many as there are fields
    let fields = format!("{SIM_100G:?}").matches(": ").count();
    assert_eq!(fields, edits.len());
    // the same figures for both, so that it is the parameter that is seen
    let was = metaroce_manifest::of_parts(&SIM_100G, false);
    for (what, edit) in edits {
        let mut c = SIM_100G;
        edit(&mut c);
        let is = metaroce_manifest::of_parts(&c, false);
        assert_ne!(json::encode(&was), json::encode(&is), "{what}");
        assert_ne!(cbor::encode(&was), cbor::encode(&is), "{what}");
        assert_ne!(
            sheet::markdown(&was, ""),
            sheet::markdown(&is, ""),
            "{what}"
        );
        let measured = |m: &Manifest| json::encode(m).contains("rtl_simulation");
        assert!(
            measured(&Manifest::of(&SIM_100G)) && !measured(&Manifest::of(&c)),
            "{what}"
        );
    }
}

/// The figures of the pages are all found: a row that is renamed would be missing here.
#[test]
fn figures_of_the_pages() {
    let m = Manifest::of(&SIM_100G);
    for (id, n) in [
        ("goodput", 4),
        ("message_rate", 3),
        ("latency", 6),
        ("recovery", 6),
    ] {
        assert_eq!(m.capability(id).unwrap().limits.len(), n, "{id}");
    }
    let rates = m.combined.iter().find(|c| c.id == "rate_by_queue_pairs");
    assert_eq!(rates.unwrap().limits.len(), 8);
    // one by hand
    let page = include_str!("../../../docs/results/card.md");
    let row = page
        .lines()
        .find(|l| l.starts_with("| WRITE 8 B |"))
        .unwrap();
    let cycles: u64 = row.split('|').nth(2).unwrap().trim().parse().unwrap();
    assert_eq!(m.capability("latency").unwrap().limits[0].value, cycles);
    // a clock that comes from placement is said to, in the configuration that was placed and in no other
    let placed = |m: &Manifest| {
        let c = m.capability("core_clock").unwrap();
        c.limits
            .iter()
            .filter(|l| l.provenance.stage == Stage::Placed)
            .count()
    };
    assert_eq!(placed(&m), 0);
    assert_eq!(placed(&Manifest::of(&config::ECP5_1G)), 1);
}

fn provenances(m: &Manifest) -> Vec<Provenance> {
    let limits = m.capabilities.iter().flat_map(|c| &c.limits);
    limits
        .chain(m.combined.iter().flat_map(|c| &c.limits))
        .map(|l| l.provenance.clone())
        .chain(m.capabilities.iter().filter_map(|c| c.provenance.clone()))
        .chain(m.ordering.iter().map(|o| o.provenance.clone()))
        .chain(m.timers.iter().map(|t| t.provenance.clone()))
        .collect()
}

#[test]
fn the_tests_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tests: BTreeSet<String> = config::ALL
        .iter()
        .flat_map(|c| provenances(&Manifest::of(c)))
        .filter(|p| p.stage > Stage::Design)
        .map(|p| p.test)
        .collect();
    assert!(tests.len() > 20, "{tests:?}");
    let xtask = std::fs::read_to_string(root.join("xtask/src/main.rs")).unwrap();
    let script = std::fs::read_to_string(root.join("metaroce")).unwrap();
    for t in tests {
        let words: Vec<&str> = t.split(' ').collect();
        let there = match words[..] {
            ["cargo", "test", "--release", "-p", package, "--test", name] => {
                let folder = match package {
                    "metaroce-rtl" => "rtl",
                    "metaroce-tb" => "verilator-tb",
                    "metaroce-provider" => "host-driver/provider",
                    _ => panic!("{t}: no such package"),
                };
                root.join(folder)
                    .join("tests")
                    .join(format!("{name}.rs"))
                    .is_file()
            }
            ["cargo", "xtask", task, ..] => xtask.contains(&format!(
                "Task::{}{} ",
                task[..1].to_uppercase(),
                &task[1..]
            )),
            ["./metaroce", "fpga"] => script.contains("[ \"$1\" = fpga ]"),
            _ => false,
        };
        assert!(there, "{t}: nothing here is called so");
    }
}

/// What this card does not have is said to be absent.
#[test]
fn absent_is_absent() {
    for c in config::ALL {
        let m = Manifest::of(c);
        for id in [
            "ecnsig_latency",
            "paths",
            "sack_window",
            "congestion_controllers",
            "safc_classes",
            "safc_tags",
            "hae_rules",
            "hae_thresholds",
            "cnp_send",
            "firmware_policies",
            "ethernet_mac",
        ] {
            assert_eq!(m.capability(id).unwrap().state, State::Absent, "{id}");
        }
        assert!(m.capability("manifest_rom").unwrap().has());
        // one or the other
        for (id, has) in [
            ("raw_packet_queues", !c.transport),
            ("qp_state_offload", c.transport),
            ("queue_pairs", c.transport),
            ("retransmission_offload", c.transport),
            ("opcodes", c.transport),
        ] {
            let state = m.capability(id).unwrap().state;
            assert_eq!(state != State::Absent, has, "{}: {id}", c.name);
        }
    }
}

#[test]
fn registry_and_profiles() {
    let mut ids = BTreeSet::new();
    for e in REGISTRY {
        assert!(registry::is_name(e.id) && ids.insert(e.id), "{}", e.id);
        assert!(!e.doc.is_empty());
        assert_eq!(
            e.fallback.is_empty(),
            e.action == metaroce_manifest::Action::Nothing,
            "{}",
            e.id
        );
        assert_eq!(registry::find(e.id).unwrap().id, e.id);
    }
    for p in PROFILES {
        for r in p.requirements {
            let e = registry::find(r.id).unwrap();
            if let Need::AtLeast(name, _, unit) | Need::AtMost(name, _, unit) = r.need {
                assert!(
                    e.figures.contains(&(name, unit)),
                    "{}: {} {name}",
                    p.name,
                    r.id
                );
            }
        }
    }
    // the register map is a layer of its own: nothing portable names a register
    let text = json::encode(&Manifest::of(&SIM_100G));
    for r in ["LOG_QP", "PCIE_LIMITS", "0x400"] {
        assert!(svd::svd().contains(r) && !text.contains(r), "{r}");
    }
}
