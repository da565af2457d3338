//! A manifest of any verbs device, from what its driver says through `ibv_devinfo -v`: ours, simulated or not, and those of others. What verbs can't say is not
//! in it, so it is no manifest of the card, but what a program can count on.

use metaroce_manifest::{
    registry::id, Bound, Capability, Card, Error, Firmware, Limit, Manifest, Order, Provenance,
    Scope, Stage, State, Unit, SCHEMA,
};
use std::{collections::BTreeMap, process::Command};

/// What shows every claim here.
const TEST: &str = "ibv_devinfo -v";

/// What the device of this name says.
pub fn manifest(device: &str) -> Result<Manifest, Error> {
    let out = Command::new("ibv_devinfo")
        .args(["-v", "-d", device])
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| {
            Error::Unreadable(format!(
                "can't start ibv_devinfo (package ibverbs-utils): {e}"
            ))
        })?;
    let text = String::from_utf8_lossy(&out.stdout);
    if !out.status.success() || !text.contains("hca_id:") {
        let said = String::from_utf8_lossy(&out.stderr);
        let said = said
            .lines()
            .chain(text.lines())
            .find(|l| !l.trim().is_empty());
        return Err(Error::Unreadable(format!(
            "ibv_devinfo: {}. Simulated cards exist within `metaroce run` and `metaroce env`",
            said.unwrap_or("says nothing").trim()
        )));
    }
    Ok(parse(&text))
}

fn provenance() -> Provenance {
    Provenance {
        stage: Stage::Design,
        test: TEST.into(),
    }
}

/// Lines `key: value`; of the ports the first counts.
fn keys(text: &str) -> BTreeMap<&str, &str> {
    let mut m = BTreeMap::new();
    for l in text.lines() {
        if let Some((k, v)) = l.split_once(':') {
            m.entry(k.trim()).or_insert(v.trim());
        }
    }
    m
}

/// "2048", "0x800" or "4096 (5)".
fn number(s: &str) -> Option<u64> {
    let s = s.split_whitespace().next()?;
    match s.strip_prefix("0x") {
        Some(h) => u64::from_str_radix(h, 16).ok(),
        None => s.parse().ok(),
    }
}

/// "25.0 Gbps (32)" of "4X (2)", in Mb/s of the port.
fn rate(speed: &str, width: &str) -> Option<u64> {
    let lanes: f64 = width.split('X').next()?.trim().parse().ok()?;
    let gbps: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let mbps = lanes * gbps * 1000.0;
    (mbps >= 1.0 && mbps < 1e9).then_some(mbps as u64)
}

fn parse(text: &str) -> Manifest {
    let keys = keys(text);
    let word = |k: &str| -> String {
        let v = keys.get(k).copied().unwrap_or_default();
        v.chars().filter(|c| !c.is_control()).take(64).collect()
    };
    let get = |k: &str| keys.get(k).and_then(|v| number(v));
    let flag = |f: &str| text.lines().any(|l| l.trim() == f);
    let mut list: Vec<Capability> = Vec::new();
    let mut add = |id: &str, set: Vec<String>, figures: &[(&str, Option<u64>, Unit)]| {
        let limit = |(name, value, unit): &(&str, Option<u64>, Unit)| {
            Some(Limit {
                name: (*name).into(),
                bound: Bound::UpTo,
                value: (*value)?,
                unit: *unit,
                when: None,
                percentile_ppm: None,
                tolerance_ppm: None,
                provenance: provenance(),
            })
        };
        let mut limits: Vec<Limit> = figures.iter().filter_map(limit).collect();
        // nothing said, or none of it
        if !figures.is_empty() && limits.is_empty() {
            return;
        }
        let none = figures.first().is_some_and(|f| f.1 == Some(0));
        // where the driver has things, a limit of 0 on them is no answer
        limits.retain(|l| none || l.value > 0);
        list.push(Capability {
            id: id.into(),
            state: if none { State::Absent } else { State::Enabled },
            set: if none { vec![] } else { set },
            limits: if none { vec![] } else { limits },
            provenance: (!none).then(provenance),
            if_absent: None,
            note: None,
        });
    };
    use Unit::{Bytes, Count, Mbps};
    let atomics = word("atomic_cap");
    let atomics = atomics.split(' ').next().unwrap_or_default();
    match atomics {
        "" => {}
        "ATOMIC_NONE" => add(
            id::atomic_op_accel,
            vec![],
            &[("in_flight", Some(0), Count)],
        ),
        _ => add(id::atomic_op_accel, vec![], &[]),
    }
    let kinds = [
        ("MEM_WINDOW", "type_1"),
        ("MEM_WINDOW_TYPE_2A", "type_2a"),
        ("MEM_WINDOW_TYPE_2B", "type_2b"),
    ];
    let kinds = kinds.iter().filter(|(f, _)| flag(f));
    let kinds: Vec<String> = kinds.map(|(_, k)| (*k).into()).collect();
    let windows = if kinds.is_empty() {
        Some(0)
    } else {
        get("max_mw")
    };
    add(id::memory_windows, kinds, &[("max", windows, Count)]);
    add(
        id::shared_receive_queues,
        vec![],
        &[
            ("max", get("max_srq"), Count),
            ("max_entries", get("max_srq_wr"), Count),
        ],
    );
    let mtu = get("max_mtu");
    let mtus = [256, 512, 1024, 2048, 4096];
    let mtus = mtus.iter().filter(|m| mtu.is_some_and(|most| **m <= most));
    add(
        id::mtus,
        mtus.map(u64::to_string).collect(),
        &[("max", mtu, Bytes)],
    );
    let mbps = rate(&word("active_speed"), &word("active_width"));
    add(id::line_rates, vec![], &[("max", mbps, Mbps)]);
    add(id::ports, vec![], &[("max", get("phys_port_cnt"), Count)]);
    add(id::queue_pairs, vec![], &[("max", get("max_qp"), Count)]);
    add(
        id::memory_regions,
        vec![],
        &[
            ("max", get("max_mr"), Count),
            ("max_length", get("max_mr_size"), Bytes),
        ],
    );
    add(
        id::completion_queues,
        vec![],
        &[
            ("max", get("max_cq"), Count),
            ("max_entries", get("max_cqe"), Count),
        ],
    );
    add(
        id::protection_domains,
        vec![],
        &[("max", get("max_pd"), Count)],
    );
    add(
        id::work_queues,
        vec![],
        &[
            ("max_send", get("max_qp_wr"), Count),
            ("max_recv", get("max_qp_wr"), Count),
        ],
    );
    add(
        id::scatter_gather,
        vec![],
        &[
            ("max_send", get("max_sge"), Count),
            ("max_recv", get("max_sge"), Count),
            ("max_ud", get("max_sge"), Count),
        ],
    );
    add(
        id::reads_in_flight,
        vec![],
        &[("max", get("max_qp_rd_atom"), Count)],
    );
    let scope = match atomics {
        "ATOMIC_HCA" => Some(Scope::Card),
        "ATOMIC_GLOB" => Some(Scope::Host),
        _ => None,
    };
    let ordering = scope.map(|scope| Order {
        id: "atomicity".into(),
        scope,
        text: format!("The driver says IBV_{atomics}"),
        provenance: provenance(),
    });
    let or = |s: String| if s.is_empty() { "unknown".into() } else { s };
    Manifest {
        schema: SCHEMA,
        card: Card {
            vendor: "verbs".into(),
            name: or(word("hca_id")),
            version: or(word("fw_ver")),
        },
        register_map: None,
        firmware: Firmware {
            needed: false,
            oldest: None,
            newest: None,
        },
        capabilities: list,
        combined: vec![],
        ordering: ordering.into_iter().collect(),
        timers: vec![],
        errata: vec![],
        partial: Some(TEST.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaroce_manifest::check::check;

    const OTHER: &str = "hca_id:\tother_0\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t16.35.2000\n\tphys_port_cnt:\t\t\t1\n\tmax_mr_size:\t\t\t0xffffffffffffffff\n\tmax_qp:\t\t\t\t131072\n\tmax_qp_wr:\t\t\t32768\n\tdevice_cap_flags:\t\t0x21361c36\n\t\t\t\t\tBAD_PKEY_CNTR\n\t\t\t\t\tMEM_WINDOW\n\tmax_sge:\t\t\t30\n\tmax_cq:\t\t\t\t16777216\n\tmax_mw:\t\t\t\t16777216\n\tatomic_cap:\t\t\tATOMIC_GLOB (2)\n\tmax_srq:\t\t\t0\n\t\tport:\t1\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t1024 (3)\n\t\t\tactive_width:\t\t4X (2)\n\t\t\tactive_speed:\t\t25.0 Gbps (32)\n\t\tport:\t2\n\t\t\tmax_mtu:\t\t256 (1)\n";

    #[test]
    fn somebody_elses_device() {
        let m = parse(OTHER);
        assert!(check(&m).iter().all(|f| !f.error), "{:?}", check(&m));
        let figure = |id, name| {
            let c = m.capability(id).unwrap();
            c.limits.iter().find(|l| l.name == name).unwrap().value
        };
        assert_eq!(figure(id::queue_pairs, "max"), 131_072);
        assert_eq!(figure(id::memory_windows, "max"), 16_777_216);
        assert_eq!(m.capability(id::memory_windows).unwrap().set, ["type_1"]);
        assert_eq!(figure(id::line_rates, "max"), 100_000);
        assert_eq!(
            m.capability(id::mtus).unwrap().set.len(),
            5,
            "of the first port"
        );
        assert_eq!(
            m.capability(id::shared_receive_queues).unwrap().state,
            State::Absent
        );
        assert_eq!(m.capability(id::protection_domains), None, "not said");
        assert_eq!(m.ordering[0].scope, Scope::Host);
        assert_eq!(m.card.version, "16.35.2000");
    }

    #[test]
    fn nonsense() {
        for text in ["", "hca_id:", "hca_id: \u{1b}[2J\nmax_qp: many\nactive_width: 4X\nactive_speed: 1e300 Gbps\natomic_cap:", "max_mtu: 99999999999999999999999"] {
            assert!(check(&parse(text)).iter().all(|f| !f.error), "{text:?}");
        }
        let none = parse("hca_id: x\natomic_cap: ATOMIC_NONE (0)\n");
        assert_eq!(
            none.capability(id::atomic_op_accel).unwrap().state,
            State::Absent
        );
    }
}
