//! What is well-formed and yet wrong: keys and words that nobody knows, figures that can't be.

use metaroce_hdl_spec::config::SIM_100G;
use metaroce_manifest::{cbor, check::check, json, profile, Manifest};
use serde_json::{json, Value};

const ACME: &[u8] = include_bytes!("../../../docs/hdl/examples/acme-a200.json");

fn acme() -> Value {
    serde_json::from_slice(ACME).unwrap()
}

fn cap<'a>(v: &'a mut Value, id: &str) -> &'a mut Value {
    let list = v["capabilities"].as_array_mut().unwrap();
    list.iter_mut().find(|c| c["id"] == id).unwrap()
}

/// Errors and warnings, each as "at: text".
fn found(v: &Value) -> (Vec<String>, Vec<String>) {
    let (m, form) = json::inspect(v.to_string().as_bytes()).unwrap();
    let all: Vec<_> = form.into_iter().chain(check(&m)).collect();
    let of = |error| {
        let some = all.iter().filter(|f| f.error == error);
        some.map(|f| format!("{}: {}", f.at, f.text)).collect()
    };
    (of(true), of(false))
}

fn refused(text: &str) -> String {
    json::decode(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn good_ones_have_no_finding() {
    for m in [Manifest::of(&SIM_100G), json::decode(ACME).unwrap()] {
        let v = serde_json::to_value(&m).unwrap();
        assert_eq!(found(&v), (vec![], vec![]), "{}", m.card.name);
        let (_, form) = json::inspect_any(&cbor::encode(&m)).unwrap();
        assert_eq!(form, []);
    }
}

/// Not an error: a later version may have them. But one that is misspelt does not hold.
#[test]
fn unknown_keys() {
    let mut v = acme();
    let late = &mut cap(&mut v, "ecnsig_latency")["limits"][0];
    late["value"] = json!(150);
    late["percentile_pmm"] = json!(500_000);
    v["card"]["colour"] = json!({"id": [1]});
    v["weather"] = json!(null);
    let (errors, warnings) = found(&v);
    assert_eq!(errors, [""; 0]);
    let at: Vec<&str> = warnings
        .iter()
        .map(|w| w.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        at,
        [
            "capabilities[ecnsig_latency].limits[max].percentile_pmm",
            "card.colour",
            "weather"
        ]
    );
    assert!(warnings[0].contains("percentile_ppm"), "{warnings:?}");
    v["schema"]["minor"] = json!(99);
    let (errors, warnings) = found(&v);
    assert!(errors.is_empty() && warnings.len() == 1, "{warnings:?}");
    // an image with a key more
    let mut body = cbor::encode(&Manifest::of(&SIM_100G))[cbor::HEAD..].to_vec();
    body[0] += 1;
    body.extend([0x18, 99, 0]);
    let mut image = cbor::MAGIC.to_vec();
    image.extend([1, 0, 1, 0]);
    image.extend((body.len() as u32).to_le_bytes());
    image.extend(cbor::crc32(&[&image[4..], &body]).to_le_bytes());
    image.extend(body);
    let (_, form) = json::inspect_any(&image).unwrap();
    assert!(form.len() == 1 && !form[0].error, "{form:?}");
}

#[test]
fn form() {
    let good = String::from_utf8(ACME.to_vec()).unwrap();
    let with = |more: &str| good.replacen('{', &format!("{{{more}, "), 1);
    let why = refused(&with(r#""x": {"y": [{"a": 1, "b": 2, "a": 3}]}"#));
    assert!(why.contains("x.y[0].a: the key is there twice"), "{why}");
    let why = refused(&with(r#""x": 1, "x": 1"#));
    assert!(why.contains("x: the key is there twice"), "{why}");
    // what is not read may not hold them either
    for more in [r#""x": ["\u001b[2J"]"#, r#""x": {"\u0007": 1}"#] {
        let v: Value = serde_json::from_str(&with(more)).unwrap();
        let (errors, _) = found(&v);
        assert!(
            errors.len() == 1 && errors[0].contains("control characters"),
            "{errors:?}"
        );
        assert!(!errors[0].chars().any(char::is_control));
    }
    // lists whose items are in the order of an object's fields
    let mut v = acme();
    v["schema"] = json!([1, 0]);
    let why = refused(&v.to_string());
    assert!(why.contains("schema: an object belongs here"), "{why}");
    let mut v = acme();
    cap(&mut v, "icrc_offload")["provenance"] = json!(["design", ""]);
    let why = refused(&v.to_string());
    assert!(
        why.contains("capabilities[2].provenance: an object"),
        "{why}"
    );
    for (text, says) in [
        ("", "empty"),
        (" \n", "empty"),
        ("\u{feff}{}", "byte order mark"),
    ] {
        assert!(refused(text).contains(says), "{text:?}");
    }
    let utf16 = json::decode(b"\xFF\xFE{\0}\0").unwrap_err().to_string();
    assert!(utf16.contains("UTF-16"), "{utf16}");
}

#[test]
fn words() {
    for (id, word, right) in [
        ("retransmission_offload", "go_back_m", false),
        ("retransmission_offload", "acme:lucky", true),
        ("icrc_offload", "fast", false),
        ("opcodes", "RC SEND Fisrt", false),
        ("opcodes", "RC SEND Only+Inv", true),
        ("mtus", "1500", false),
        ("line_rates", "fast", false),
        ("reserved_qpns", "16-31", true),
        ("reserved_qpns", "31-16", false),
        ("reserved_qpns", "16777216", false),
        ("ecn_count", "Marked", false),
        ("acme:trim_receive", "anything at all", true),
    ] {
        let mut v = acme();
        let set = &mut cap(&mut v, id)["set"];
        match set.as_array_mut() {
            Some(a) => a.push(json!(word)),
            None => *set = json!([word]),
        }
        let (errors, _) = found(&v);
        assert_eq!(errors.is_empty(), right, "{id} {word}: {errors:?}");
        // a later version may have registered it
        v["schema"]["minor"] = json!(99);
        let (errors, _) = found(&v);
        assert!(errors.is_empty(), "{id} {word}: {errors:?}");
    }
}

#[test]
fn impossible() {
    fn figure(name: &str, bound: &str, value: u64, unit: &str, more: Value) -> Value {
        let mut l = json!({"name": name, "bound": bound, "value": value, "unit": unit, "provenance": {"stage": "design"}});
        let more = more.as_object().unwrap().clone();
        l.as_object_mut().unwrap().extend(more);
        l
    }
    type Edit = fn(&mut Value);
    let errors: &[(&str, Edit)] = &[
        ("`oldest` 2.10.0 is later than `newest` 2.9", |v| {
            v["firmware"]["oldest"] = json!("2.10.0");
            v["firmware"]["newest"] = json!("2.9");
        }),
        ("at least 900 and at most 850 is nothing", |v| {
            let l = figure("max", "at_least", 900, "ns", json!({"when": {"mtu": 256}}));
            let c = cap(v, "ecnsig_latency");
            c["limits"].as_array_mut().unwrap().insert(0, l);
        }),
        ("exactly 2 and exactly 3 is nothing", |v| {
            let l = figure("max", "exactly", 3, "count", json!({"when": {"qps": 9}}));
            cap(v, "ports")["limits"].as_array_mut().unwrap().push(l);
        }),
        ("one name, one unit", |v| {
            let c = cap(v, "acme:trim_receive");
            c["limits"] = json!([
                figure("size", "at_most", 1, "bits", json!({})),
                figure("size", "up_to", 1, "bytes", json!({})),
            ]);
        }),
        ("nothing takes 0 ns", |v| {
            cap(v, "ecnsig_latency")["limits"][0]["value"] = json!(0);
        }),
        ("what a card has none of is absent", |v| {
            cap(v, "memory_regions")["limits"][0]["value"] = json!(0);
        }),
        ("a number of queue pairs of 0", |v| {
            cap(v, "message_rate")["limits"][0]["when"]["qps"] = json!(0);
        }),
        ("when qps is 300000, and the card has 262144", |v| {
            v["combined"][0]["limits"][1]["when"]["qps"] = json!(300_000);
        }),
        ("when mtu is 9000, and the card has 4096", |v| {
            cap(v, "message_rate")["limits"][0]["when"]["mtu"] = json!(9000);
        }),
        ("when message is 2147483649", |v| {
            cap(v, "message_rate")["limits"][0]["when"]["message"] = json!(2_147_483_649u64);
        }),
        ("is 100000, and 200000 is in the set", |v| {
            cap(v, "line_rates")["limits"][0]["value"] = json!(100_000);
        }),
        ("401000 mbps are more than the ports carry", |v| {
            *cap(v, "goodput") = json!({"id": "goodput", "state": "enabled", "provenance": {"stage": "design"},
                "limits": [figure("write", "at_least", 401_000, "mbps", json!({}))]});
        }),
        ("is 2, and 3 are in the set", |v| {
            *cap(v, "counters") = json!({"id": "counters", "state": "enabled", "provenance": {"stage": "design"},
                "set": ["a", "b", "c"], "limits": [figure("max", "exactly", 2, "count", json!({}))]});
        }),
        ("resolution_ns of 0", |v| {
            v["timers"][0]["resolution_ns"] = json!(0);
        }),
        ("above 65535", |v| {
            v["schema"]["minor"] = json!(65_536);
        }),
    ];
    for (says, edit) in errors {
        let mut v = acme();
        edit(&mut v);
        let (errors, _) = found(&v);
        assert!(
            errors.len() == 1 && errors[0].contains(says),
            "{says}: {errors:?}"
        );
    }
    let warnings: &[(&str, Edit)] = &[
        ("at least 0 says nothing", |v| {
            cap(v, "message_rate")["limits"][0]["value"] = json!(0);
        }),
        ("leaves nothing", |v| {
            cap(v, "message_rate")["limits"][0]["tolerance_ppm"] = json!(1_000_000);
        }),
        ("not in the set", |v| {
            cap(v, "line_rates")["limits"][0]["value"] = json!(400_000);
        }),
        ("names `queue_pairs` twice", |v| {
            let list = v["combined"][0]["capabilities"].as_array_mut().unwrap();
            list.push(json!("queue_pairs"));
        }),
        ("fixed in this version", |v| {
            v["errata"][0]["fixed_in"] = json!("2.0.7");
        }),
    ];
    for (says, edit) in warnings {
        let mut v = acme();
        edit(&mut v);
        let (errors, warnings) = found(&v);
        assert_eq!(errors, [""; 0], "{says}");
        assert!(
            warnings.len() == 1 && warnings[0].contains(says),
            "{says}: {warnings:?}"
        );
    }
    // possible: other conditions, other shares, names that are no numbers
    let mut v = acme();
    v["firmware"]["oldest"] = json!("2.10-rc1");
    v["firmware"]["newest"] = json!("2.9");
    let c = cap(&mut v, "acme:trim_receive");
    c["limits"] = json!([
        figure("t", "at_most", 5, "ns", json!({"when": {"mtu": 256}})),
        figure("t", "at_least", 9, "ns", json!({"when": {"mtu": 512}})),
        figure("u", "at_most", 5, "ns", json!({"percentile_ppm": 500_000})),
        figure("u", "at_least", 9, "ns", json!({"percentile_ppm": 500_000})),
        figure("v", "at_most", 0, "count", json!({})),
    ]);
    assert_eq!(found(&v), (vec![], vec![]));
}

/// A figure that holds under one condition is no promise for the others.
#[test]
fn one_favourable_condition() {
    let late = |limits: &[(u64, Value)]| {
        let mut v = acme();
        let c = cap(&mut v, "ecnsig_latency");
        let list = limits.iter().map(|(value, when)| {
            let mut l = json!({"name": "max", "bound": "at_most", "value": value, "unit": "ns", "provenance": {"stage": "design"}});
            if !when.is_null() {
                l["when"] = when.clone();
            }
            l
        });
        c["limits"] = list.collect();
        let m = json::decode(v.to_string().as_bytes()).unwrap();
        let all = profile::verdicts(profile::find("amc-full").unwrap(), &m);
        let v = all.into_iter().find(|v| v.id == "ecnsig_latency").unwrap();
        (v.kept, v.found)
    };
    let [small, large] = [json!({"mtu": 256}), json!({"mtu": 4096})];
    let says = |kept, found: &str| (kept, found.to_string());
    assert_eq!(late(&[(150, json!(null))]), says(true, "150 ns"));
    assert_eq!(late(&[(150, json!({}))]), says(true, "150 ns"));
    assert_eq!(
        late(&[(150, small.clone())]),
        says(
            false,
            "only 150 ns when MTU 256; nothing is promised otherwise"
        )
    );
    assert_eq!(
        late(&[(150, small.clone()), (300, large.clone())]),
        says(
            false,
            "300 ns when MTU 4096, though 150 ns when MTU 256; nothing is promised otherwise"
        )
    );
    assert_eq!(
        late(&[(150, json!(null)), (300, large.clone())]),
        says(false, "300 ns when MTU 4096, though 150 ns")
    );
    assert_eq!(
        late(&[(190, json!(null)), (150, small)]),
        says(true, "190 ns; 150 ns when MTU 256")
    );
}
