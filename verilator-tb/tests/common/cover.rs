//! Record of what the tests hit, for `docs/results/coverage.md` (tests/coverage.rs).

use metaroce_hdl_spec::codes::Code;
use metaroce_protocol::{Frame, Syndrome};
use metaroce_tb::pair::Pair;
use std::{collections::BTreeMap, path::PathBuf, sync::Mutex};

static HITS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

pub fn add(kind: &str, name: &str, n: u64) {
    if n != 0 {
        let mut m = HITS.lock().unwrap_or_else(|e| e.into_inner());
        *m.entry(format!("{kind}\t{name}")).or_default() += n;
    }
}

pub fn syndrome_name(s: Syndrome) -> String {
    match s {
        Syndrome::Ack { .. } => "ACK".into(),
        Syndrome::Rnr { timer } => format!("RNR {timer}"),
        Syndrome::Nak(c) => format!("NAK {c:?}"),
        Syndrome::Reserved(b) => format!("reserved {b:#x}"),
    }
}

/// Name of a code of the host interface.
pub fn name(table: &'static [Code], v: u8) -> &'static str {
    table.iter().find(|c| c.value == v).map_or("?", |c| c.name)
}

/// A frame that a card sent.
pub fn frame(data: &[u8]) {
    if let Ok(f) = Frame::new_checked(data) {
        add("opcode", f.roce.opcode().name(), 1);
        if let Some(a) = f.roce.ext().aeth {
            add("syndrome", &syndrome_name(a.syndrome), 1);
        }
    }
}

/// Where the records of all test binaries are.
pub fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("coverage")
}

/// At the end of a test: adds both cards' counters and writes the record of this binary.
pub fn finish(binary: &str, p: &mut Pair) {
    for (name, v) in p.counters().into_iter().flatten() {
        add("counter", name, v);
    }
    let m = HITS.lock().unwrap_or_else(|e| e.into_inner());
    let text: String = m.iter().map(|(k, v)| format!("{k}\t{v}\n")).collect();
    std::fs::create_dir_all(dir()).expect("folder of the records");
    std::fs::write(dir().join(format!("{binary}.tsv")), text).expect("record");
}
