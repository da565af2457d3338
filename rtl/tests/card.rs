//! The whole card: the named configurations elaborate and pass Verilator's lint, illegal ones are refused with the reason, and the tables that are
//! written down twice (counters, port widths of the C++ shim) agree.

use metaroce_hdl_spec::config::{Config, ECP5_1G, SIM_100G};
use metaroce_hdl_spec::regs::COUNTERS;
use metaroce_rtl::card::{self, Ecp5_1g, Sim100g, WIRED};
use metaroce_rtl::diff;
use metaroce_rtl::mini;
use metaroce_rtl::types::{HostRd, HostRdMeta, HostWrMeta, WireMeta};
use rust_hdl::prelude::Synth;

/// Lint `verilog` (top module `card`); latches, incomplete cases and double drivers are errors.
fn lint(name: &str, verilog: &str) {
    let dir = std::env::temp_dir().join(format!("card-lint-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("card.v");
    std::fs::write(&file, verilog).unwrap();
    let o = std::process::Command::new(diff::verilator())
        .arg("--lint-only")
        .args(diff::LINT)
        .args(["--top-module", "card"])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&o.stderr).to_string();
    assert!(o.status.success(), "{name}: {text}");
    std::fs::remove_dir_all(dir).unwrap();
}

/// Bits of a port of module `card`.
fn port_bits(verilog: &str, port: &str) -> usize {
    let module = verilog.split_once("module card(").expect("module card").1;
    let decl = module
        .lines()
        .map(str::trim)
        .take_while(|l| *l != "endmodule")
        .filter(|l| l.starts_with("input ") || l.starts_with("output "))
        .find(|l| {
            l.trim_end_matches([';', ','])
                .ends_with(&format!(" {port}"))
        })
        .unwrap_or_else(|| panic!("no port {port}"));
    match decl.split_once('[') {
        Some((_, r)) => r.split(':').next().unwrap().parse::<usize>().unwrap() + 1,
        None => 1,
    }
}

/// 32-bit words that a field of the shim's structs has.
fn shim_words(field: &str) -> usize {
    let text = include_str!("../../verilator-tb/shim.cpp");
    let array = format!("uint32_t {field}[");
    match text.split_once(&array) {
        Some((_, r)) => r.split(']').next().unwrap().parse().unwrap(),
        // in a list of single words
        None => {
            assert!(
                text.lines().any(|l| l
                    .trim()
                    .strip_prefix("uint32_t ")
                    .is_some_and(|l| l.split([',', ' ', ';']).any(|w| w == field))),
                "no field {field}"
            );
            1
        }
    }
}

fn ports(name: &str, verilog: &str, w: usize) {
    for (port, bits) in [
        ("rx_data", w),
        ("tx_data", w),
        ("hrd_data", w),
        ("wr_data", w),
        ("rx_meta", WireMeta::BITS),
        ("tx_meta", WireMeta::BITS),
        ("rd_data", HostRd::BITS),
        ("hrd_meta", HostRdMeta::BITS),
        ("wr_meta", HostWrMeta::BITS),
        ("now", 48),
        ("deadline", 48),
        ("mmio_wr_addr", 24),
        ("mmio_rd_addr", 24),
        ("mmio_wr_len", 7),
        ("mmio_wr_data", 512),
        ("mmio_rd_data", 32),
        ("msi_pasid", 12),
        ("idle", 1),
    ] {
        assert_eq!(port_bits(verilog, port), bits, "{name}: {port}");
    }
}

/// Emit with room for a whole card on the stack (a test thread has 2 MiB).
fn emitted(f: fn() -> String) -> String {
    std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(f)
        .unwrap()
        .join()
        .expect("elaborates")
}

#[test]
fn sim_100g_elaborates_and_passes_lint() {
    let v = emitted(card::verilog_sim_100g);
    ports("sim-100g", &v, 512);
    lint("sim-100g", &v);
}

#[test]
fn ecp5_1g_elaborates_and_passes_lint() {
    let v = emitted(card::verilog_ecp5_1g);
    ports("ecp5-1g", &v, 64);
    lint("ecp5-1g", &v);
}

#[test]
fn mini_elaborates_and_passes_lint() {
    let v = emitted(mini::verilog_mini);
    ports("mini", &v, 512);
    lint("mini", &v);
}

/// What the C++ shim copies: its struct fields hold the ports, and no port has a spare word.
#[test]
fn shim_widths_are_those_of_the_structs() {
    for (port, bits, is) in [
        ("tx_meta", 56, WireMeta::BITS),
        ("rx_meta", 56, WireMeta::BITS),
        ("rd_data", 97, HostRd::BITS),
        ("wr_meta", 139, HostWrMeta::BITS),
        ("hrd_meta", 10, HostRdMeta::BITS),
        ("tx_data", 512, SIM_100G.bus_bits as usize),
        ("rx_data", 512, SIM_100G.bus_bits as usize),
        ("wr_data", 512, SIM_100G.bus_bits as usize),
        ("hrd_data", 512, SIM_100G.bus_bits as usize),
        ("mmio_wr_data", 512, 512),
    ] {
        assert_eq!(bits, is, "{port}");
        assert_eq!(shim_words(port), bits.div_ceil(32), "{port} in shim.cpp");
    }
}

#[test]
fn counters_are_wired_in_the_order_of_the_register_page() {
    let named: Vec<&str> = COUNTERS.iter().map(|c| c.name).collect();
    assert_eq!(WIRED, named);
}

/// The message with which `f` panics.
fn refusal(f: impl FnOnce() + Send + 'static) -> String {
    // its own thread: the message of an expected panic does not look like a failure
    let e = std::thread::Builder::new()
        .stack_size(64 << 20)
        .name("refused on purpose".into())
        .spawn(f)
        .unwrap()
        .join()
        .expect_err("accepted");
    match e.downcast::<String>() {
        Ok(s) => *s,
        Err(e) => e.downcast::<&str>().expect("text").to_string(),
    }
}

#[test]
fn illegal_configurations_are_refused_with_the_reason() {
    for (c, why) in [
        (
            Config {
                bus_bits: 128,
                ..SIM_100G
            },
            "bus_bits",
        ),
        (
            Config {
                log_qp: 1,
                ..SIM_100G
            },
            "log_qp",
        ),
        (
            Config {
                log_qp: 13,
                ..SIM_100G
            },
            "log_qp",
        ),
        (
            Config {
                log_mr: 17,
                ..SIM_100G
            },
            "log_mr",
        ),
        (
            Config {
                log_cq: 13,
                ..SIM_100G
            },
            "log_cq",
        ),
        (
            Config {
                log_rx_words: 8,
                ..SIM_100G
            },
            "packet buffers",
        ),
        (
            Config {
                log_tx_words: 8,
                ..SIM_100G
            },
            "packet buffers",
        ),
        (
            Config {
                log_sq_slots: 2,
                ..SIM_100G
            },
            "log_sq_slots",
        ),
        (
            Config {
                clock_khz: 200_000,
                ..SIM_100G
            },
            "line rate",
        ),
        (
            Config {
                line_mbps: 10_000,
                ..ECP5_1G
            },
            "line rate",
        ),
        (
            Config {
                log_tags: 8,
                ..SIM_100G
            },
            "log_tags",
        ),
        (
            Config {
                log_pasid: 13,
                ..SIM_100G
            },
            "log_pasid",
        ),
        (
            Config {
                log_rx_words: 15,
                ..SIM_100G
            },
            "log_rx_words",
        ),
        (
            Config {
                max_rd: 17,
                ..SIM_100G
            },
            "max_rd",
        ),
        (
            Config {
                max_sge: 17,
                ..SIM_100G
            },
            "max_sge",
        ),
    ] {
        let text = refusal(move || {
            Sim100g::new(&c);
        });
        assert!(
            text.contains(c.name) && text.contains(why),
            "{why}: refused with {text:?}"
        );
    }
}

/// A legal configuration with another card's parameters.
#[test]
fn a_card_takes_only_its_own_configuration() {
    let text = refusal(|| {
        Ecp5_1g::new(&SIM_100G);
    });
    assert!(text.contains("sim-100g"), "{text}");
    let text = refusal(|| {
        Sim100g::new(&Config {
            log_mtt_lines: 8,
            ..SIM_100G
        });
    });
    assert!(text.contains("buffers of sim-100g"), "{text}");
}
