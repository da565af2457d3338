//! Every form of a manifest says the same, and other people's programs read them.

use metaroce_hdl_spec::{
    config,
    regs::{self, admin, doorbell, COUNTERS},
};
use metaroce_manifest::{cbor, check::check, json, registry::REGISTRY, svd, Manifest};
use serde_json::{json, Value};

pub const ACME: &[u8] = include_bytes!("../../../docs/hdl/examples/acme-a200.json");

fn all() -> Vec<Manifest> {
    let mut v: Vec<Manifest> = config::ALL.iter().map(|c| Manifest::of(c)).collect();
    v.push(json::decode(ACME).expect("the example"));
    v
}

#[test]
fn there_and_back() {
    for m in all() {
        assert_eq!(json::decode(json::encode(&m).as_bytes()), Ok(m.clone()));
        let image = cbor::encode(&m);
        assert_eq!(cbor::decode(&image), Ok(m.clone()));
        assert_eq!(json::decode_any(&image), Ok(m.clone()));
        // a ROM is larger than what is in it
        let rom = [image.as_slice(), &[0xFF; 100]].concat();
        assert_eq!(cbor::decode(&rom), Ok(m));
    }
}

/// Ours say something about every registered id, and nothing in them is odd.
#[test]
fn nothing_to_find() {
    for m in all() {
        assert_eq!(check(&m), [], "{}", m.card.name);
        for e in REGISTRY {
            assert!(m.capability(e.id).is_some(), "{}: {}", m.card.name, e.id);
        }
    }
}

/// The committed files are those of the types (`cargo xtask gen --check` compares all of them).
#[test]
fn committed_images() {
    for (name, image) in [
        (
            "sim-100g",
            include_bytes!("../../../docs/hdl/sim-100g.cbor").as_slice(),
        ),
        (
            "ecp5-1g",
            include_bytes!("../../../docs/hdl/ecp5-1g.cbor").as_slice(),
        ),
        (
            "mini",
            include_bytes!("../../../docs/hdl/mini.cbor").as_slice(),
        ),
    ] {
        let c = config::ALL.iter().find(|c| c.name == name).unwrap();
        let same = cbor::encode(&Manifest::of(c)) == image;
        assert!(same, "{name}: cargo xtask gen");
    }
}

/// A validator that knows nothing of our types.
/// The first limit of a manifest.
fn limit(m: &mut Value) -> &mut Value {
    let list = m["capabilities"].as_array_mut().unwrap();
    let c = list.iter_mut().find(|c| c["limits"].is_array()).unwrap();
    &mut c["limits"][0]
}

#[test]
fn json_schema() {
    let schema: Value = serde_json::from_str(&json::schema()).unwrap();
    assert!(jsonschema::meta::is_valid(&schema));
    let v = jsonschema::validator_for(&schema).unwrap();
    for m in all() {
        let good = serde_json::to_value(&m).unwrap();
        if let Err(e) = v.validate(&good) {
            panic!("{}: {e} at {}", m.card.name, e.instance_path());
        }
        // keys that come with a later minor version
        let mut more = good.clone();
        more["colour"] = json!("blue");
        more["capabilities"][0]["shape"] = json!([1, 2]);
        assert!(v.is_valid(&more));
        assert!(json::decode(more.to_string().as_bytes()).is_ok());
        // and what neither of the two takes
        type Edit = fn(&mut Value);
        let edits: [(&str, Edit); 7] = [
            ("state", |m| m["capabilities"][1]["state"] = json!("maybe")),
            ("id", |m| m["capabilities"][1]["id"] = json!(7)),
            ("no card", |m| {
                m.as_object_mut().unwrap().remove("card");
            }),
            ("negative", |m| limit(m)["value"] = json!(-1)),
            ("fraction", |m| limit(m)["value"] = json!(1.5)),
            ("unit", |m| limit(m)["unit"] = json!("furlong")),
            ("list", |m| m["capabilities"] = json!({})),
        ];
        for (what, edit) in edits {
            let mut bad = good.clone();
            edit(&mut bad);
            assert!(!v.is_valid(&bad), "{what}");
            assert!(json::decode(bad.to_string().as_bytes()).is_err(), "{what}");
        }
    }
}

#[test]
fn svd_loads() {
    let device = svd_parser::parse(&svd::svd()).expect("CMSIS-SVD");
    assert_eq!(device.peripherals.len(), 2);
    for (p, table, base) in [
        ("ADMIN", admin::TABLE, 0),
        ("DOORBELL", doorbell::TABLE, regs::PAGE),
    ] {
        let p = device.peripherals.iter().find(|x| x.name == p).unwrap();
        assert_eq!(p.base_address, u64::from(base));
        let regs: Vec<_> = p.registers().collect();
        assert_eq!(regs.len(), table.len());
        for (r, t) in regs.iter().zip(table) {
            assert_eq!(r.address_offset, t.offset, "{}", t.name);
            assert_eq!(r.description.as_deref(), Some(t.doc));
            assert!(r.name == t.name || r.name == format!("{}_%s", t.name));
        }
    }
    let counters = device.peripherals[0]
        .registers()
        .find(|r| r.name == "COUNTERS_%s");
    let svd_parser::svd::Register::Array(_, dim) = counters.unwrap() else {
        panic!("no array")
    };
    assert_eq!((dim.dim as usize, dim.dim_increment), (COUNTERS.len(), 8));
    let names: Vec<_> = COUNTERS.iter().map(|c| c.name.to_string()).collect();
    assert_eq!(dim.dim_index.as_ref(), Some(&names));
    let sq = device.peripherals[1].registers().find(|r| r.name == "SQ");
    let fields: Vec<_> = sq
        .unwrap()
        .fields()
        .map(|f| (f.name.clone(), f.bit_range.offset, f.bit_range.width))
        .collect();
    let layout: Vec<_> = regs::db_queue::LAYOUT
        .fields
        .iter()
        .map(|f| (f.name.to_string(), f.lo as u32, f.width as u32))
        .collect();
    assert_eq!(fields, layout);
}
