//! Which work the card does and which the host does, decided once when a device is opened.
//!
//! The names of capabilities are those of the manifests (`docs/hdl/ids.md`). Where card and host can both do it the program's user may choose, by
//! `METAROCE_HCE`: `NAME=hardware|software`, several with commas between them, and `show` to have the decisions on stderr. The decisions are
//! also written, as JSON, to the file that `METAROCE_HCE_REPORT` names.
use metaroce_hdl_spec::regs::admin;
use std::fmt::Write;

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    Hardware,
    Software,
    /// Nobody: the program is told that it is not there.
    Nobody,
}

impl Chosen {
    pub fn name(self) -> &'static str {
        match self {
            Chosen::Hardware => "hardware",
            Chosen::Software => "software",
            Chosen::Nobody => "none",
        }
    }
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub capability: &'static str,
    /// The card can do it.
    pub card: bool,
    pub chosen: Chosen,
    pub why: String,
}

/// All decisions of an open device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    pub rows: Vec<Decision>,
    /// `show` was asked for.
    pub show: bool,
}

const TRANSPORT: &str = "qp_state_offload";

/// What goes with the transport, wherever that is: name, and its bit of FEATURES if cards differ in it.
const WITH_TRANSPORT: [(&str, u32); 9] = [
    ("segmentation_offload", 0),
    ("retransmission_offload", 0),
    ("resize_cq", 0),
    ("atomic_op_accel", admin::FEATURE_ATOMICS),
    ("memory_windows", admin::FEATURE_WINDOWS),
    ("remote_invalidation", admin::FEATURE_WINDOWS),
    ("shared_receive_queues", admin::FEATURE_SRQ),
    ("inline_data", admin::FEATURE_DIRECT),
    ("direct_wqe", admin::FEATURE_DIRECT),
];
const ALWAYS: [(&str, &str); 1] = [("icrc_offload", "all cards make and check the ICRC")];

/// Decides for a card with these FEATURES. The error is a sentence for the user.
pub fn decide(features: u32, switches: &str) -> Result<Decisions, String> {
    let (transport, raw) = (
        features & admin::FEATURE_TRANSPORT != 0,
        features & admin::FEATURE_RAW != 0,
    );
    let (mut wish, mut show) = (None, false);
    for s in switches.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        if s == "show" {
            show = true;
            continue;
        }
        let (name, value) = s.split_once('=').ok_or_else(|| {
            format!("METAROCE_HCE: '{s}' is neither 'show' nor NAME=hardware or NAME=software")
        })?;
        let value = match value {
            "hardware" => Chosen::Hardware,
            "software" => Chosen::Software,
            v => {
                return Err(format!(
                    "METAROCE_HCE: '{v}' is neither 'hardware' nor 'software' ({name})"
                ))
            }
        };
        if name != TRANSPORT {
            let goes = WITH_TRANSPORT.iter().any(|w| w.0 == name);
            let fixed = ALWAYS.iter().any(|a| a.0 == name);
            return Err(match (goes, fixed) {
                (true, _) => {
                    format!("METAROCE_HCE: {name} is where the transport is; switch {TRANSPORT}")
                }
                (_, true) => format!("METAROCE_HCE: {name} is always the card's"),
                _ => format!("METAROCE_HCE: there is no capability '{name}' to switch"),
            });
        }
        if wish.is_some_and(|w| w != value) {
            return Err(format!(
                "METAROCE_HCE: {TRANSPORT} is asked for twice, differently"
            ));
        }
        wish = Some(value);
    }
    let (chosen, why) = match (wish, transport, raw) {
        (_, false, false) => return Err(
            "the card has neither queue pairs nor raw packet queues: nothing can be built on it"
                .into(),
        ),
        (Some(Chosen::Hardware), false, _) => {
            return Err(format!(
                "METAROCE_HCE: {TRANSPORT}=hardware, but the card has raw packet queues only"
            ))
        }
        (Some(Chosen::Software), _, false) => {
            return Err(format!(
                "METAROCE_HCE: {TRANSPORT}=software, but the card has no raw packet queues"
            ))
        }
        (Some(c), ..) => (c, "METAROCE_HCE asks for it".to_string()),
        (None, true, _) => (Chosen::Hardware, "the card has it".to_string()),
        (None, false, _) => {
            let why = "the card has raw packet queues only; the host runs the transport over them";
            (Chosen::Software, why.to_string())
        }
    };
    let mut rows = vec![Decision {
        capability: TRANSPORT,
        card: transport,
        chosen,
        why,
    }];
    for (capability, bit) in WITH_TRANSPORT {
        let card = transport && features & bit == bit;
        let (chosen, why) = match (chosen, card) {
            (Chosen::Software, _) => (
                Chosen::Software,
                "part of the transport, which the host runs",
            ),
            (_, true) => (
                Chosen::Hardware,
                "part of the transport, which the card runs",
            ),
            _ => (
                Chosen::Nobody,
                "the card runs the transport and leaves it out",
            ),
        };
        rows.push(Decision {
            capability,
            card,
            chosen,
            why: why.into(),
        });
    }
    for (capability, why) in ALWAYS {
        rows.push(Decision {
            capability,
            card: true,
            chosen: Chosen::Hardware,
            why: why.into(),
        });
    }
    rows.push(Decision {
        capability: "raw_packet_queues",
        card: raw,
        chosen: match (raw, chosen) {
            (true, Chosen::Software) => Chosen::Hardware,
            _ => Chosen::Nobody,
        },
        why: match (raw, chosen) {
            (true, Chosen::Software) => "carry the frames of the host's transport",
            (true, _) => "not needed: the card runs the transport",
            _ => "the card has none, and needs none",
        }
        .into(),
    });
    Ok(Decisions { rows, show })
}

impl Decisions {
    pub fn transport(&self) -> Chosen {
        self.rows.first().map_or(Chosen::Nobody, |r| r.chosen)
    }

    pub fn table(&self) -> String {
        let mut s = String::new();
        for r in &self.rows {
            let card = if r.card { "present" } else { "absent" };
            let _ = writeln!(
                s,
                "{:24} card {card:8} {:9} {}",
                r.capability,
                r.chosen.name(),
                r.why
            );
        }
        s
    }

    /// `device`: name as `ibv_devices` prints it.
    pub fn json(&self, device: &str) -> String {
        let mut s = format!("{{\n  \"device\": {},\n  \"decisions\": [", quoted(device));
        for (i, r) in self.rows.iter().enumerate() {
            let card = if r.card { "present" } else { "absent" };
            let _ = write!(
                s,
                "{}\n    {{\"capability\": {}, \"card\": \"{card}\", \"chosen\": \"{}\", \"why\": {}}}",
                if i == 0 { "" } else { "," },
                quoted(r.capability),
                r.chosen.name(),
                quoted(&r.why)
            );
        }
        s.push_str("\n  ]\n}\n");
        s
    }
}

fn quoted(text: &str) -> String {
    let mut s = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => s.extend(['\\', c]),
            c if (c as u32) < 0x20 => {
                let _ = write!(s, "\\u{:04x}", c as u32);
            }
            c => s.push(c),
        }
    }
    s.push('"');
    s
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::*;

    #[test]
    fn the_card_does_what_it_can_and_the_host_the_rest() {
        let full = FEATURES_ALL & !FEATURE_RAW;
        let d = decide(full, "").unwrap();
        assert_eq!(d.transport(), Chosen::Hardware);
        assert!(d
            .rows
            .iter()
            .all(|r| r.card == (r.chosen == Chosen::Hardware)));
        let d = decide(full & !FEATURE_ATOMICS, "").unwrap();
        let atomics = d
            .rows
            .iter()
            .find(|r| r.capability == "atomic_op_accel")
            .unwrap();
        assert_eq!((atomics.card, atomics.chosen), (false, Chosen::Nobody));
        let d = decide(FEATURE_RAW, " show,").unwrap();
        assert!(d.show && d.transport() == Chosen::Software);
        let hard: Vec<_> = d
            .rows
            .iter()
            .filter(|r| r.chosen == Chosen::Hardware)
            .collect();
        assert_eq!(hard.len(), 2, "ICRC and raw queues");
        assert!(d
            .table()
            .contains("qp_state_offload         card absent   software"));
    }

    #[test]
    fn switches() {
        let both = FEATURES_ALL;
        assert_eq!(decide(both, "").unwrap().transport(), Chosen::Hardware);
        let d = decide(both, "qp_state_offload=software").unwrap();
        assert_eq!((d.transport(), d.rows[0].card), (Chosen::Software, true));
        let d = decide(both, "qp_state_offload=hardware,show").unwrap();
        assert_eq!(d.transport(), Chosen::Hardware);
        for (features, switch, word) in [
            (both, "qp_state_offload", "neither 'show'"),
            (both, "qp_state_offload=maybe", "'maybe'"),
            (
                both,
                "qp_state_offload=software,qp_state_offload=hardware",
                "twice",
            ),
            (both, "memory_windows=software", "where the transport is"),
            (both, "icrc_offload=software", "always"),
            (both, "speed=hardware", "no capability 'speed'"),
            (
                FEATURE_RAW,
                "qp_state_offload=hardware",
                "raw packet queues only",
            ),
            (
                FEATURE_TRANSPORT,
                "qp_state_offload=software",
                "no raw packet queues",
            ),
            (0, "", "neither"),
        ] {
            let e = decide(features, switch).unwrap_err();
            assert!(e.contains(word), "{switch}: {e}");
        }
    }

    #[test]
    fn json_is_json() {
        let mut d = decide(FEATURE_RAW, "").unwrap();
        d.rows[0].why = "a \"quoted\" \\ \n word".into();
        let text = d.json("metaroce0");
        assert!(
            text.contains(r#""why": "a \"quoted\" \\ \u000a word"}"#),
            "{text}"
        );
        assert_eq!(text.matches("\"capability\"").count(), d.rows.len());
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
