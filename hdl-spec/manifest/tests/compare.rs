//! Profiles and differences.

use metaroce_hdl_spec::config::{ECP5_1G, SIM_100G};
use metaroce_manifest::{
    check::check,
    diff::{diff, Class},
    json, profile, Action, Bound, Erratum, Fallback, Manifest, Scope, Stage, State, Unit,
};
use serde_json::Value;

const ACME: &[u8] = include_bytes!("../../../docs/hdl/examples/acme-a200.json");

fn acme() -> Manifest {
    json::decode(ACME).unwrap()
}

fn missing(name: &str, m: &Manifest) -> Vec<String> {
    let v = profile::verdicts(profile::find(name).unwrap(), m);
    let required = |v: &&profile::Verdict| !v.kept && v.level == profile::Level::Required;
    let ids: Vec<String> = v.iter().filter(required).map(|v| v.id.clone()).collect();
    assert_eq!(profile::kept(&v), ids.is_empty());
    ids
}

/// Somebody else's card with everything that amc-full wants, but marks that come too late for GBC.
#[test]
fn a_mark_that_is_too_late() {
    let mut m = acme();
    assert_eq!(missing("amc-full", &m), ["ecnsig_latency"]);
    let v = profile::verdicts(profile::find("amc-full").unwrap(), &m);
    let v = v.iter().find(|v| v.id == "ecnsig_latency").unwrap();
    assert_eq!(v.wanted, "max of at most 200 ns");
    assert_eq!(v.found, "850 ns");
    assert!(v.why.contains("GBC"));
    let mut with = |value, tolerance, percentile, bound| {
        let c = m
            .capabilities
            .iter_mut()
            .find(|c| c.id == "ecnsig_latency")
            .unwrap();
        let l = &mut c.limits[0];
        (l.value, l.tolerance_ppm, l.percentile_ppm, l.bound) =
            (value, tolerance, percentile, bound);
        missing("amc-full", &m).is_empty()
    };
    let most = Bound::AtMost;
    assert!(with(200, None, None, most) && !with(201, None, None, most));
    // the worse end of the tolerance counts
    assert!(with(190, Some(50_000), None, most) && !with(195, Some(50_000), None, most));
    // 200.36 ns and 200.9998 ns are more than 200
    assert!(!with(191, Some(49_000), None, most) && !with(200, Some(4_999), None, most));
    // a promise for 99 % of the marks is none, nor is one that it takes at least so long
    assert!(!with(150, None, Some(990_000), most) && !with(150, None, None, Bound::AtLeast));
    assert!(with(150, None, None, Bound::Exactly));
}

#[test]
fn our_card() {
    let m = Manifest::of(&SIM_100G);
    assert_eq!(missing("rocev2-rc", &m), [""; 0]);
    assert!(missing("metaroce-1", &m).contains(&"paths".into()));
    assert!(missing("amc-full", &m).contains(&"ecnsig_latency".into()));
    assert_eq!(missing("rocev2-rc", &acme()), [""; 0]);
    // each thing that a profile requires is missed when it is gone
    let p = profile::find("rocev2-rc").unwrap();
    for r in p
        .requirements
        .iter()
        .filter(|r| r.level == profile::Level::Required)
    {
        let mut less = m.clone();
        let c = less.capabilities.iter_mut().find(|c| c.id == r.id).unwrap();
        *c = metaroce_manifest::Capability {
            id: r.id.into(),
            state: State::Absent,
            set: vec![],
            limits: vec![],
            provenance: None,
            if_absent: None,
            note: None,
        };
        assert!(
            missing("rocev2-rc", &less).contains(&r.id.to_string()),
            "{}",
            r.id
        );
    }
}

#[test]
fn what_breaks_a_host() {
    use Class::*;
    type Edit = fn(&mut Manifest);
    fn cap<'a>(m: &'a mut Manifest, id: &str) -> &'a mut metaroce_manifest::Capability {
        m.capabilities.iter_mut().find(|c| c.id == id).unwrap()
    }
    let edits: &[(Class, &str, Edit)] = &[
        (Breaking, "absent now", |m| {
            let c = cap(m, "direct_wqe");
            (c.state, c.provenance) = (State::Absent, None);
        }),
        (Breaking, "has to be switched on", |m| {
            cap(m, "direct_wqe").state = State::Present
        }),
        (Additive, "on by itself", |m| {
            cap(m, "process_limits").state = State::Enabled
        }),
        (Breaking, "an opcode less", |m| {
            drop(cap(m, "opcodes").set.remove(3))
        }),
        (Additive, "an opcode more", |m| {
            cap(m, "opcodes").set.push("RC FLUSH".into())
        }),
        (Breaking, "fewer QPs", |m| {
            let most = &mut cap(m, "queue_pairs").limits[0].value;
            *most /= 2;
            // and no figures with more
            let most = Some(*most as u32);
            for c in &mut m.combined {
                c.limits
                    .retain(|l| l.when.as_ref().is_none_or(|w| w.qps <= most));
            }
        }),
        (Additive, "more QPs", |m| {
            cap(m, "queue_pairs").limits[0].value *= 2
        }),
        (Breaking, "slower", |m| {
            cap(m, "latency").limits[0].value += 5
        }),
        (Additive, "faster", |m| {
            cap(m, "latency").limits[0].value -= 5
        }),
        (Breaking, "less sure", |m| {
            cap(m, "latency").limits[0].tolerance_ppm = Some(100_000)
        }),
        (Breaking, "less goodput", |m| {
            cap(m, "goodput").limits[0].value -= 5_000
        }),
        (Breaking, "another exact figure", |m| {
            cap(m, "data_path").limits[0].value = 256
        }),
        (Breaking, "a figure less", |m| {
            drop(cap(m, "goodput").limits.pop())
        }),
        (Fix, "another text", |m| {
            cap(m, "paths").note = Some("other".into())
        }),
        (Fix, "better shown", |m| {
            cap(m, "goodput").limits[0].provenance.stage = Stage::Silicon
        }),
        (Breaking, "worse shown", |m| {
            cap(m, "goodput").limits[0].provenance.stage = Stage::Design
        }),
        (Breaking, "a capability less", |m| {
            m.capabilities.retain(|c| c.id != "mtus")
        }),
        (Additive, "a vendor's own", |m| {
            let mut c = cap(m, "direct_wqe").clone();
            c.id = "metaroce:more".into();
            let text = "nothing".into();
            c.if_absent = Some(Fallback {
                action: Action::Nothing,
                text,
            });
            m.capabilities.push(c);
        }),
        (Breaking, "holds for fewer", |m| {
            m.ordering[0].scope = Scope::Nobody
        }),
        (Additive, "holds for more", |m| {
            m.ordering.last_mut().unwrap().scope = Scope::Host
        }),
        (Breaking, "promised no more", |m| drop(m.ordering.pop())),
        (Breaking, "another time", |m| m.timers[0].code_ns[14] += 1),
        (Breaking, "later", |m| m.timers[0].late_ns += 1),
        (Additive, "more exact", |m| m.timers[0].late_ppm -= 1),
        (Breaking, "a fault", |m| {
            m.errata.push(Erratum {
                id: "1".into(),
                capabilities: vec!["mtus".into()],
                text: "512 is 256".into(),
                workaround: "use 1024".into(),
                fixed_in: None,
            })
        }),
        (Breaking, "a limit together", |m| {
            let mut c = m.combined[0].clone();
            c.id = "new".into();
            m.combined.push(c);
        }),
        (Breaking, "firmware", |m| {
            (m.firmware.needed, m.firmware.oldest) = (true, Some("1".into()))
        }),
        (Breaking, "registers", |m| {
            m.register_map.as_mut().unwrap().abi.major += 1
        }),
        (Additive, "registers", |m| {
            m.register_map.as_mut().unwrap().abi.minor += 1
        }),
        (Fix, "version", |m| m.card.version = "9".into()),
        (Additive, "language", |m| m.schema.minor += 1),
    ];
    let old = Manifest::of(&SIM_100G);
    assert_eq!(diff(&old, &old), []);
    for (class, what, edit) in edits {
        let mut new = old.clone();
        edit(&mut new);
        assert!(
            check(&new).iter().all(|f| !f.error),
            "{what}: {:?}",
            check(&new)
        );
        let d = diff(&old, &new);
        assert_eq!(d.first().map(|c| c.class), Some(*class), "{what}: {d:?}");
        // and back it is something, too
        assert_ne!(diff(&new, &old), [], "{what}");
    }
}

/// Every value in a file, by its path.
fn leaves(v: &Value, at: String, out: &mut Vec<String>) {
    match v {
        Value::Object(m) => m
            .iter()
            .for_each(|(k, v)| leaves(v, format!("{at}/{k}"), out)),
        Value::Array(a) => a
            .iter()
            .enumerate()
            .for_each(|(i, v)| leaves(v, format!("{at}/{i}"), out)),
        _ => out.push(at),
    }
}

/// No field can be changed without `diff` (or the decoder, or `check`) naming it.
#[test]
fn every_field_is_compared() {
    let words: Vec<Value> = [
        State::ALL.iter().map(|w| w.name()).collect::<Vec<_>>(),
        Stage::ALL.iter().map(|w| w.name()).collect(),
        Bound::ALL.iter().map(|w| w.name()).collect(),
        Unit::ALL.iter().map(|w| w.name()).collect(),
        Action::ALL.iter().map(|w| w.name()).collect(),
        Scope::ALL.iter().map(|w| w.name()).collect(),
    ]
    .concat()
    .into_iter()
    .map(Value::from)
    .collect();
    for old in [acme(), Manifest::of(&ECP5_1G), Manifest::of(&SIM_100G)] {
        let text = serde_json::to_value(&old).unwrap();
        let mut all = vec![];
        leaves(&text, String::new(), &mut all);
        assert!(all.len() > 200);
        for at in all {
            let leaf = text.pointer(&at).unwrap();
            let others: Vec<Value> = match leaf {
                Value::Bool(b) => vec![(!b).into()],
                Value::Number(n) => vec![(n.as_u64().unwrap() + 1).into()],
                Value::String(s) => [vec![format!("{s}x").into()], words.clone()].concat(),
                v => panic!("{at}: {v}"),
            };
            let mut seen = false;
            for other in others.iter().filter(|o| *o != leaf) {
                let mut changed = text.clone();
                *changed.pointer_mut(&at).unwrap() = other.clone();
                if let Ok(new) = json::decode(changed.to_string().as_bytes()) {
                    assert_ne!(diff(&old, &new), [], "{at}: {leaf} is {other}");
                    seen = true;
                    break;
                }
            }
            // another major version is the one thing that nothing can be compared with
            assert!(seen || at == "/schema/major", "{at}");
        }
    }
}
