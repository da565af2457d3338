//! Results of Python's unittest from what `-v` prints.
//!
//! A test begins with a line `name (module.Class...)` and ends with a result, at the end of the same line, or of the
//! next one when the test has a description, or alone on a line when something else was printed in between.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Passed,
    Failed,
    Error,
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// `test_qp.QPTest.test_query_rc_qp`.
    pub name: String,
    pub outcome: Outcome,
    /// Why it was skipped; empty otherwise.
    pub why: String,
}

/// What a run printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub tests: Vec<Test>,
    /// Test that had begun when the output ended.
    pub unfinished: Option<String>,
    /// `Ran N tests`: absent when Python died.
    pub ran: Option<usize>,
}

/// `test_x (tests.test_a.A)` or, from Python 3.11 on, `test_x (tests.test_a.A.test_x)`, and what follows it.
fn begin(line: &str) -> Option<(String, &str)> {
    let (name, rest) = line.split_once(" (")?;
    let (path, rest) = rest.split_once(')')?;
    let word =
        |s: &str| !s.is_empty() && s.chars().all(|c| c.is_alphanumeric() || "_.".contains(c));
    // Also `setUpClass (tests.test_a.A)`.
    let ours = ["test", "setUp", "tearDown"]
        .iter()
        .any(|p| name.starts_with(p));
    if !ours || !word(name) || !word(path) {
        return None;
    }
    let path = path.strip_prefix("tests.").unwrap_or(path);
    let path = path.strip_suffix(&format!(".{name}")).unwrap_or(path);
    Some((format!("{path}.{name}"), rest))
}

fn outcome(word: &str) -> Option<(Outcome, String)> {
    let plain = |o| Some((o, String::new()));
    match word.trim_end() {
        "ok" | "expected failure" => plain(Outcome::Passed),
        "FAIL" | "unexpected success" => plain(Outcome::Failed),
        "ERROR" => plain(Outcome::Error),
        w => {
            let why = w.strip_prefix("skipped ")?;
            let inner = ['\'', '"']
                .iter()
                .find_map(|q| why.strip_prefix(*q)?.strip_suffix(*q));
            Some((Outcome::Skipped, inner.unwrap_or(why).to_string()))
        }
    }
}

pub fn parse(text: &str) -> Run {
    let mut run = Run::default();
    let mut open: Option<String> = None;
    for line in text.lines() {
        let mut rest = line;
        if let Some((name, after)) = begin(line) {
            if let Some(lost) = open.replace(name) {
                run.tests.push(Test {
                    name: lost,
                    outcome: Outcome::Error,
                    why: "no result was printed".into(),
                });
            }
            rest = after;
        }
        // The description of a test may contain dots: the result is behind the last ones.
        let end = rest.rsplit_once("... ").map_or(rest, |(_, e)| e);
        if let (Some(_), Some((outcome, why))) = (&open, outcome(end)) {
            run.tests.push(Test {
                name: open.take().expect("looked at above"),
                outcome,
                why,
            });
        } else if let Some(n) = line.strip_prefix("Ran ") {
            run.ran = n.split(' ').next().and_then(|n| n.parse().ok());
        }
    }
    run.unfinished = open;
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(run: &Run) -> Vec<(&str, Outcome, &str)> {
        run.tests
            .iter()
            .map(|t| (t.name.as_str(), t.outcome, t.why.as_str()))
            .collect()
    }

    #[test]
    fn results_on_one_line_after_a_description_and_alone() {
        use Outcome::*;
        let r = parse(
            "test_a (tests.test_m.T.test_a) ... ok\n\
             test_b (tests.test_m.T)\nWaits ... and ends ... skipped 'Create XRCD is not supported'\n\
             test_c (tests.test_m.T.test_c) ... metaroce: a line of the provider\nis x = 3\nok\n\
             test_d (tests.test_m.T.test_d) ... FAIL\n\
             test_e (tests.test_m.T.test_e)\nTest it ... ERROR\n\
             test_f (tests.test_m.T.test_f) ... skipped \"can't\"\n\
             setUpClass (tests.test_m.U) ... ERROR\n\n\
             ======\nERROR: test_e (tests.test_m.T.test_e)\nTest it\n------\nTraceback\n\n\
             Ran 6 tests in 1.234s\n\nFAILED (failures=1, errors=1, skipped=2)\n",
        );
        assert_eq!(
            short(&r),
            [
                ("test_m.T.test_a", Passed, ""),
                ("test_m.T.test_b", Skipped, "Create XRCD is not supported"),
                ("test_m.T.test_c", Passed, ""),
                ("test_m.T.test_d", Failed, ""),
                ("test_m.T.test_e", Error, ""),
                ("test_m.T.test_f", Skipped, "can't"),
                ("test_m.U.setUpClass", Error, ""),
            ]
        );
        assert_eq!((r.ran, r.unfinished), (Some(6), None));
    }

    #[test]
    fn a_run_that_dies_or_loses_a_result_is_seen() {
        let r = parse("test_a (tests.test_m.T.test_a) ... test_b (tests.test_m.T.test_b) ... ok\n");
        assert_eq!(r.ran, None);
        let r = parse("test_a (tests.test_m.T)\nSays ... \ntest_b (tests.test_m.T) ... ok\ntest_c (tests.test_m.T) ... ");
        assert_eq!(
            short(&r),
            [
                ("test_m.T.test_a", Outcome::Error, "no result was printed"),
                ("test_m.T.test_b", Outcome::Passed, ""),
            ]
        );
        assert_eq!(r.unfinished.as_deref(), Some("test_m.T.test_c"));
    }
}
