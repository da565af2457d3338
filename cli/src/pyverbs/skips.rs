//! The list of skips that are right: a test, the capability that the card does not have, and why it has it not.
//!
//! The file is `host-driver/pyverbs-skips.toml`, compiled in. Of TOML it uses tables of arrays, strings and comments.

use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;

const COMMITTED: &str = include_str!("../../../host-driver/pyverbs-skips.toml");

/// A skip that is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// Test without `tests.`; a `*` at the end stands for any rest.
    pub test: String,
    /// Name in [`Skips::capabilities`].
    pub absent: String,
    /// What the test says when it is skipped for that reason; a part of it is enough.
    pub says: String,
}

#[derive(Debug, Default)]
pub struct Skips {
    /// Capability that the card does not have, and why.
    pub capabilities: BTreeMap<String, String>,
    pub skips: Vec<Skip>,
}

impl Skips {
    pub fn committed() -> Result<Skips> {
        parse(COMMITTED).context("host-driver/pyverbs-skips.toml")
    }

    /// The entry that allows `test` to be skipped with that message.
    pub fn find(&self, test: &str, message: &str) -> Option<&Skip> {
        self.skips
            .iter()
            .find(|s| matches(&s.test, test) && message.contains(&s.says))
    }
}

/// Whether `pattern`, exact or with a `*` at the end, means `test`.
pub fn matches(pattern: &str, test: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(p) => test.starts_with(p),
        None => test == pattern,
    }
}

fn parse(text: &str) -> Result<Skips> {
    let mut out = Skips::default();
    let mut in_skip = None;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        let at = format!("line {}", i + 1);
        match line {
            "" => {}
            l if l.starts_with('#') => {}
            "[absent]" => in_skip = Some(false),
            "[[skip]]" => {
                in_skip = Some(true);
                out.skips.push(Skip {
                    test: String::new(),
                    absent: String::new(),
                    says: String::new(),
                });
            }
            _ => {
                let (key, value) = line.split_once('=').context(at.clone())?;
                let value = value
                    .trim()
                    .strip_prefix('"')
                    .and_then(|v| v.strip_suffix('"'))
                    .filter(|v| !v.is_empty() && !v.contains(['"', '\\']))
                    .with_context(|| format!("{at}: a plain string in quotes is wanted"))?
                    .to_string();
                let key = key.trim();
                match (in_skip, out.skips.last_mut()) {
                    (Some(false), _) => {
                        if out.capabilities.insert(key.to_string(), value).is_some() {
                            bail!("{at}: {key} twice");
                        }
                    }
                    (Some(true), Some(s)) => {
                        let field = match key {
                            "test" => &mut s.test,
                            "absent" => &mut s.absent,
                            "says" => &mut s.says,
                            _ => bail!("{at}: unknown key {key}"),
                        };
                        if !field.is_empty() {
                            bail!("{at}: {key} twice");
                        }
                        *field = value;
                    }
                    _ => bail!("{at}: outside of a table"),
                }
            }
        }
    }
    for s in &out.skips {
        if s.test.is_empty() || s.says.is_empty() {
            bail!("an entry without test or says: {s:?}");
        }
        if !out.capabilities.contains_key(&s.absent) {
            bail!(
                "{}: no reason is given for the capability {:?}",
                s.test,
                s.absent
            );
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# list\n[absent]\nxrc = \"no XRC\"\n\n[[skip]]\ntest = \"test_a.A.test_x*\"\nabsent = \"xrc\"\nsays = \"XRCD\"\n";

    #[test]
    fn the_committed_list_is_legal_and_has_no_idle_reason() {
        let s = Skips::committed().unwrap();
        assert!(!s.skips.is_empty());
        for name in s.capabilities.keys() {
            assert!(s.skips.iter().any(|k| k.absent == *name), "{name}");
        }
        let mut tests: Vec<_> = s.skips.iter().map(|k| (&k.test, &k.says)).collect();
        tests.sort();
        assert!(tests.windows(2).all(|w| w[0] != w[1]), "an entry twice");
    }

    #[test]
    fn a_skip_needs_the_test_and_its_message() {
        let s = parse(LIST).unwrap();
        assert_eq!(s.capabilities["xrc"], "no XRC");
        assert!(s
            .find("test_a.A.test_x1", "Create XRCD is not supported")
            .is_some());
        assert!(s.find("test_a.A.test_x1", "No device").is_none());
        assert!(s
            .find("test_a.A.test_y", "Create XRCD is not supported")
            .is_none());
    }

    #[test]
    fn faults_of_the_list_are_found() {
        for bad in [
            LIST.replace("xrc = \"no XRC\"", ""),
            LIST.replace("says", "said"),
            LIST.replace("[absent]", ""),
            LIST.replace("\"XRCD\"", "XRCD"),
            LIST.replace("says = \"XRCD\"\n", ""),
        ] {
            assert!(parse(&bad).is_err(), "{bad}");
        }
    }
}
