//! docs/field-faults.md: each row names tests that are there, or says why there is none.

use std::{collections::HashMap, path::PathBuf};

/// The rows that must be there.
const ROWS: [&str; 67] = [
    "A1", "A2", "A3", "A4", "A6", "A7", "A8", "A9", "A10", "A12", "A14", "A16", "A17", "A18",
    "A21", "A22", "B1", "B2", "B3", "B6", "B7", "B8", "B10", "B11", "B12", "B15", "B16", "B18",
    "B19", "B20", "B22", "B23", "C1", "C2", "C3", "C5", "C6", "C7", "C8", "C9", "C10", "C11",
    "C13", "C14", "C15", "C16", "C18", "C19", "C21", "C22", "D1", "D2", "D4", "D6", "D8", "D10",
    "D11", "D12", "D13", "D15", "E3", "E4", "E5", "E6", "E7", "E8", "E9",
];

#[test]
fn every_named_test_exists() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/field-faults.md")).expect("the page");
    let mut sources = HashMap::<String, String>::new();
    let mut rows = vec![];
    let mut named = 0;
    for line in page.lines().filter(|l| l.starts_with("| ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (row, how) = (cells[1], cells[3]);
        rows.push(row);
        assert!(how.len() > 10, "row {row} says nothing");
        for name in how.split('`').skip(1).step_by(2) {
            let Some((file, test)) = name.split_once("::") else {
                continue;
            };
            let text = sources.entry(file.into()).or_insert_with(|| {
                std::fs::read_to_string(root.join(file))
                    .unwrap_or_else(|e| panic!("row {row}: {file}: {e}"))
            });
            // The attribute is right before the function, with at most other attributes between.
            let at = text
                .find(&format!("fn {test}("))
                .unwrap_or_else(|| panic!("row {row}: no test {test} in {file}"));
            let before: String = text[..at].lines().rev().take(3).collect();
            assert!(before.contains("#[test]"), "row {row}: {test} is no test");
            named += 1;
        }
    }
    for r in ROWS {
        assert!(rows.contains(&r), "row {r} is missing");
    }
    println!("{} rows, {named} tests", rows.len());
    assert!(named > 80);
}
