//! `metaroce caps` on files and on a simulated card: what it prints, and its exit status.

mod common;
use common::*;
use metaroce_hdl_spec::config::{MINI, SIM_100G};
use metaroce_manifest::{json, Manifest};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

struct Said {
    code: i32,
    out: String,
    err: String,
}

fn caps(args: &[&str]) -> Said {
    let o = Command::new(env!("CARGO_BIN_EXE_metaroce"))
        .arg("caps")
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .unwrap();
    Said {
        code: o.status.code().expect("no signal"),
        out: String::from_utf8(o.stdout).unwrap(),
        err: String::from_utf8(o.stderr).unwrap(),
    }
}

impl Said {
    fn code(self, want: i32) -> Said {
        assert_eq!(self.code, want, "{}{}", self.out, self.err);
        self
    }
    fn has(self, what: &str) -> Said {
        assert!(
            self.out.contains(what) || self.err.contains(what),
            "{what:?} is not in:\n{}{}",
            self.out,
            self.err
        );
        self
    }
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).expect("JSON")
    }
}

const ACME: &str = "docs/hdl/examples/acme-a200.json";

/// A folder of its own.
fn folder(name: &str) -> PathBuf {
    let d = std::env::temp_dir().join(format!("caps-{name}-{}", std::process::id()));
    fs::create_dir_all(&d).unwrap();
    d
}

#[test]
fn show() {
    caps(&["show", "sim-100g"])
        .code(0)
        .has("metaroce sim-100g")
        .has("  ecnsig_latency             absent   No controller that depends on marks of the card (GBC)\n")
        .has("max up to 2,048 [design]")
        .has("[rtl_simulation]");
    // every form is that of the committed files
    for name in ["sim-100g", "ecp5-1g", "mini"] {
        let committed = |ending| fs::read(format!("../docs/hdl/{name}.{ending}")).unwrap();
        let file = format!("docs/hdl/{name}.json");
        assert_eq!(
            caps(&["show", "--json", name]).code(0).out.as_bytes(),
            committed("json")
        );
        let d = folder(name);
        let image = d.join("x.cbor");
        let image = image.to_str().unwrap();
        caps(&["show", "--image", image, &file]).code(0);
        assert_eq!(fs::read(image).unwrap(), committed("cbor"));
        assert_eq!(
            caps(&["show", "--json", image]).code(0).out.as_bytes(),
            committed("json")
        );
        fs::remove_dir_all(d).unwrap();
    }
    caps(&["show", "--markdown", ACME])
        .code(0)
        .has("# acme A200")
        .has("**A200-17**");
    caps(&["show", "nothing-here"])
        .code(1)
        .has("no configuration either (those are sim-100g, ecp5-1g, mini)");
    caps(&["show"]).code(2);
}

#[test]
fn validate() {
    caps(&["validate", ACME])
        .code(0)
        .has("valid, 0 errors, 0 warnings");
    caps(&["validate", "sim-100g"]).code(0).has("0 warnings");
    let d = folder("validate");
    let path = d.join("m.json");
    let file = path.to_str().unwrap();
    let good = fs::read_to_string(format!("../{ACME}")).unwrap();
    let with = |from: &str, to: &str| {
        assert!(good.contains(from));
        fs::write(&path, good.replacen(from, to, 1)).unwrap();
        caps(&["validate", file])
    };
    with("\"major\": 1", "\"major\": 2")
        .code(4)
        .has("version 2.0");
    with("\"icrc_offload\"", "\"qp_state_offload\"")
        .code(4)
        .has("capabilities[qp_state_offload]: the id is there twice");
    with("\"icrc_offload\"", "\"icrc\"")
        .code(4)
        .has("capabilities[icrc]: not registered");
    with("\"unit\": \"ns\"", "\"unit\": \"cycles\"")
        .code(4)
        .has("capabilities[ecnsig_latency].limits[max]: is in ns, not in cycles");
    with("\"firmware\":", "\"later\": [1], \"firmware\":")
        .code(0)
        .has("warning: later: no key of version 1.1, and not looked at; known here: capabilities,")
        .has("valid, 0 errors, 1 warning");
    // told by whoever uses the file, too: a condition that is misspelt does not hold
    caps(&["profile", "rocev2-rc", file])
        .code(0)
        .has("metaroce: warning: ")
        .has("later: no key of version 1.1");
    with("\"selective\"", "\"selektive\"")
        .code(4)
        .has("capabilities[retransmission_offload]: `selektive` is no registered word");
    with("\"newest\": \"2.6.1\"", "\"newest\": \"2.3\"")
        .code(4)
        .has("error: firmware: `oldest` 2.4.0 is later than `newest` 2.3");
    fs::write(&path, "").unwrap();
    caps(&["validate", file]).code(4).has("the file is empty");
    fs::write(&path, format!("\u{feff}{good}")).unwrap();
    caps(&["show", file]).code(1).has("byte order mark");
    with("{", "[").code(4).has("error: file: ");
    let v = with("\"A200\"", "\"\\u001b[2J\"")
        .code(4)
        .has("control characters");
    assert!(!v.out.contains('\u{1b}'));
    caps(&["show", file])
        .code(1)
        .has("metaroce caps validate")
        .has("control characters");
    let v = caps(&["validate", "--json", file]).code(4).json();
    assert_eq!(
        (&v["valid"], &v["findings"][0]["at"]),
        (&false.into(), &"card.name".into())
    );
    caps(&["validate", "/nowhere"]).code(1);
    // from standard input
    for (args, code) in [("show", 0), ("validate", 0), ("profile amc-full", 4)] {
        let line = format!("{METAROCE} caps {args} - < {ACME}");
        let o = Command::new("sh")
            .args(["-c", &line])
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .output()
            .unwrap();
        assert_eq!(o.status.code(), Some(code), "{args}: {o:?}");
    }
    fs::remove_dir_all(d).unwrap();
}

#[test]
fn compare() {
    caps(&["diff", "sim-100g", "docs/hdl/sim-100g.json"])
        .code(0)
        .has("0 breaking, 0 additive, 0 fixes");
    let d = folder("diff");
    let path = d.join("m.json");
    let file = path.to_str().unwrap();
    let good = fs::read_to_string("../docs/hdl/sim-100g.json").unwrap();
    fs::write(
        &path,
        good.replacen("\"value\": 2048", "\"value\": 1024", 1),
    )
    .unwrap();
    caps(&["diff", "sim-100g", file]).code(4).has("breaking  capabilities[shared_receive_queues].limits[max]: up_to: was 2048 count, is 1024 count");
    caps(&["diff", file, "sim-100g"]).code(0).has("additive");
    let v = caps(&["diff", "--json", "sim-100g", file]).code(4).json();
    assert_eq!(v[0]["class"], "breaking");
    fs::remove_dir_all(d).unwrap();
    caps(&["matrix", "sim-100g", "ecp5-1g", ACME])
        .code(0)
        .has("acme:trim_receive")
        .has("max 262,144");
    let v = caps(&["matrix", "--json", "sim-100g", ACME]).code(0).json();
    assert_eq!(v["cards"][1], "acme A200 2.1");
    let rows = v["capabilities"].as_array().unwrap();
    let row = rows.iter().find(|r| r["id"] == "ecnsig_latency").unwrap();
    assert_eq!(row["cards"][1]["limits"][0]["value"], 850);
}

/// "Bring your own NIC": a card whose marks come after 850 ns.
#[test]
fn profile() {
    let d = folder("profile");
    let report = d.join("report.xml");
    caps(&[
        "profile",
        "amc-full",
        ACME,
        "--junit",
        report.to_str().unwrap(),
    ])
    .code(4)
    .has("MISSING  required    ecnsig_latency: max of at most 200 ns wanted, 850 ns found (GBC ")
    .has("acme A200: amc-full not kept: 1 required and 1 recommended are missing");
    let xml = fs::read_to_string(report).unwrap();
    assert!(
        xml.contains("tests=\"15\" failures=\"1\" skipped=\"1\""),
        "{xml}"
    );
    assert!(xml.contains("<testcase classname=\"amc-full\" name=\"ecnsig_latency: max of at most 200 ns\"><failure message=\"850 ns found. GBC"), "{xml}");
    fs::remove_dir_all(d).unwrap();
    caps(&["profile", "rocev2-rc", ACME]).code(0).has("kept");
    caps(&["profile", "rocev2-rc", "sim-100g"]).code(0);
    caps(&["profile", "metaroce-1", "sim-100g"])
        .code(4)
        .has("MISSING  required    paths");
    let v = caps(&["profile", "--json", "amc-full", "sim-100g"])
        .code(4)
        .json();
    assert_eq!(v["kept"], false);
    // the verdict comes also when the report can't be written
    caps(&["profile", "rocev2-rc", "sim-100g", "--junit", "/nowhere/x"])
        .code(1)
        .has("/nowhere/x")
        .has("rocev2-rc kept");
    caps(&["profile", "gold", "sim-100g"])
        .code(2)
        .has("amc-full");
}

/// The Verilated card's ROM, read through its registers by its driver, is the manifest of its configuration.
#[test]
fn the_rom_of_a_card() {
    if !have("ibv_devinfo") {
        return;
    }
    caps(&["show", "rom:nobody"])
        .code(1)
        .has("rom:nobody: ibv_devinfo: ");
    let lab = Lab::new();
    let shown = lab.dir.join("rom.json");
    let line = format!(
        "{METAROCE} caps show --json rom:metaroce0 > {}",
        shown.display()
    );
    lab.metaroce(&["run", "--", "sh", "-c", &line])
        .wait(60)
        .ok();
    assert_eq!(json::read(&shown).unwrap(), Manifest::of(&SIM_100G));
}

/// Who does what, as the driver decided: all by the card, or the transport by the driver.
#[test]
fn what_a_driver_decided() {
    caps(&["show"]).code(2).has("MANIFEST");
    caps(&["show", "sim-100g", "--device", "x"]).code(2);
    if !have("ibv_devinfo") {
        return;
    }
    caps(&["show", "--device", "nobody"])
        .code(1)
        .has("nobody: ibv_devinfo: ");
    for (card, by, rom) in [
        ("sim-100g", "hardware", &SIM_100G),
        ("mini", "software", &MINI),
    ] {
        let lab = Lab::new();
        let (shown, image) = (lab.dir.join("hce.json"), lab.dir.join("rom.json"));
        let line = format!(
            "{METAROCE} caps show --device metaroce0 --json > {} && {METAROCE} caps show --json rom:metaroce0 > {} && {METAROCE} caps show --device metaroce0",
            shown.display(),
            image.display()
        );
        lab.metaroce(&["run", "--card", card, "--", "sh", "-c", &line])
            .wait(60)
            .ok()
            .says("qp_state_offload");
        let v: serde_json::Value = serde_json::from_slice(&std::fs::read(&shown).unwrap()).unwrap();
        assert_eq!(v["device"], "metaroce0");
        let all = v["decisions"].as_array().unwrap();
        let one = |id: &str| all.iter().find(|d| d["capability"] == id).unwrap();
        assert_eq!(one("qp_state_offload")["chosen"], by);
        assert_eq!(one("icrc_offload")["chosen"], "hardware");
        // The driver goes by registers: they say what the ROM says.
        let m = json::read(&image).unwrap();
        assert_eq!(m, Manifest::of(rom));
        for d in all {
            let has = m
                .capability(d["capability"].as_str().unwrap())
                .unwrap()
                .has();
            assert_eq!(d["card"], if has { "present" } else { "absent" }, "{d}");
        }
    }
}

/// What the driver of a simulated card says through verbs is within its manifest; the tables are equal. (Queues are shorter, and SGEs fewer, by the driver's own limits.)
#[test]
fn a_verbs_device() {
    caps(&["show", "device:nobody"])
        .code(1)
        .has("device:nobody");
    if !have("ibv_devinfo") {
        return;
    }
    let lab = Lab::new();
    let shown = lab.dir.join("shown.json");
    let line = format!(
        "{METAROCE} caps show --json device:metaroce1 > {}",
        shown.display()
    );
    lab.metaroce(&["run", "--", "sh", "-c", &line])
        .wait(60)
        .ok();
    let device = json::read(&shown).unwrap();
    // What the driver left out is not known, and nothing is judged by it.
    assert_eq!(device.partial.as_deref(), Some("ibv_devinfo -v"));
    let file = shown.to_str().unwrap();
    caps(&["validate", file]).code(0).has("0 warnings");
    caps(&["profile", "rocev2-rc", file])
        .code(4)
        .has("unknown  required    opcodes: `RC SEND First`")
        .has("wanted, not stated (SEND, WRITE and READ of every length)")
        .has("ok       required    queue_pairs")
        .has("rocev2-rc not known: 0 required and 0 recommended are missing, ");
    let gone = caps(&["diff", file, "sim-100g"]).code(0);
    let gone = gone.has("unstated  capabilities[opcodes]: is not stated in the older one");
    assert!(
        !gone.out.contains("is gone") && !gone.out.contains("breaking  "),
        "{}",
        gone.out
    );
    let less = caps(&["diff", "sim-100g", file]);
    assert!(!less.out.contains("is gone"), "{}", less.out);
    lab.metaroce(&[
        "run",
        "--",
        METAROCE,
        "caps",
        "profile",
        "rocev2-rc",
        "device:metaroce0",
    ])
    .wait(60)
    .code(4)
    .says("not known");
    assert_eq!(device.card.name, "metaroce1");
    let card = Manifest::of(&SIM_100G);
    assert!(device.capabilities.len() >= 13, "{device:?}");
    for c in &device.capabilities {
        let own = card.capability(&c.id).unwrap();
        assert_eq!(c.has(), own.has(), "{}", c.id);
        assert!(
            c.set.iter().all(|w| own.set.contains(w)),
            "{}: {:?}",
            c.id,
            c.set
        );
        for l in &c.limits {
            let most = own
                .limits
                .iter()
                .find(|o| o.name == l.name && o.unit == l.unit)
                .unwrap()
                .value;
            assert!(l.value <= most, "{}.{}: {} > {most}", c.id, l.name, l.value);
            let driver = ["work_queues", "scatter_gather"].contains(&c.id.as_str())
                || l.name == "max_entries";
            assert!(
                driver || l.value == most,
                "{}.{}: {} < {most}",
                c.id,
                l.name,
                l.value
            );
        }
    }
    let atomicity = |m: &Manifest| {
        m.ordering
            .iter()
            .find(|o| o.id == "atomicity")
            .unwrap()
            .scope
    };
    assert_eq!(atomicity(&device), atomicity(&card));
    lab.assert_tidy();
}
