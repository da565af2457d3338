//! A manifest that is a part of one: what it leaves out is not known, where a whole one says that it is absent.

use metaroce_hdl_spec::config::SIM_100G;
use metaroce_manifest::{
    cbor,
    check::check,
    diff::{diff, Class},
    json, profile, sheet, Manifest,
};

/// Some of our card.
fn part() -> Manifest {
    let mut m = Manifest::of(&SIM_100G);
    let keep = ["queue_pairs", "mtus", "memory_windows", "paths"];
    m.capabilities.retain(|c| keep.contains(&c.id.as_str()));
    m.combined.clear();
    m.timers.clear();
    m.register_map = None;
    m.partial = Some("ibv_devinfo -v".into());
    m
}

#[test]
fn forms() {
    let m = part();
    assert_eq!(check(&m), [], "and no word of what it leaves out");
    assert_eq!(json::decode(json::encode(&m).as_bytes()), Ok(m.clone()));
    assert_eq!(cbor::decode(&cbor::encode(&m)), Ok(m.clone()));
    assert!(sheet::markdown(&m, "").contains("from ibv_devinfo -v: of all else nothing is known"));
    let mut whole = m.clone();
    whole.partial = None;
    assert!(check(&whole)
        .iter()
        .any(|f| f.text.contains("takes it for absent")));
    // who reads version 1.0 only ignores the mark, as any key of a later version
    assert!(json::encode(&m).contains("\"minor\": 1"));
}

#[test]
fn profiles() {
    let judge = |m: &Manifest, name| {
        let v = profile::verdicts(profile::find(name).unwrap(), m);
        assert!(!profile::kept(&v));
        v.into_iter()
            .map(|v| (v.id, v.kept, v.stated, v.found))
            .collect::<Vec<_>>()
    };
    let mut m = part();
    for (id, kept, stated, found) in judge(&m, "rocev2-rc") {
        let known = ["queue_pairs", "mtus"].contains(&id.as_str());
        assert_eq!((kept, stated), (known, known), "{id}: {found}");
        assert!(known || found == "not stated", "{id}: {found}");
    }
    // what it says is judged
    let v = judge(&m, "metaroce-1");
    assert_eq!(v[1], ("paths".into(), false, true, "absent".into()));
    let c = m.capabilities.iter_mut().find(|c| c.id == "queue_pairs");
    c.unwrap().limits.clear();
    let v = judge(&m, "rocev2-rc");
    let v = v.iter().find(|v| v.0 == "queue_pairs").unwrap();
    assert!(!v.2, "a figure that it leaves out: {v:?}");
    m.partial = None;
    assert!(judge(&m, "rocev2-rc").iter().all(|v| v.2));
}

#[test]
fn differences() {
    let (whole, m) = (Manifest::of(&SIM_100G), part());
    for (a, b) in [(&whole, &m), (&m, &whole)] {
        let d = diff(a, b);
        assert!(d.len() > 30);
        assert!(d.iter().all(|c| c.class == Class::NotStated), "{d:?}");
    }
    assert_eq!(diff(&m, &m), []);
    // what both say is compared
    let mut less = m.clone();
    let c = less.capabilities.iter_mut().find(|c| c.id == "queue_pairs");
    c.unwrap().limits[0].value -= 1;
    let d = diff(&whole, &less);
    assert_eq!(d[0].class, Class::Breaking);
    assert_eq!(d[1].class, Class::NotStated);
}
