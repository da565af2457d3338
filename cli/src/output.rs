//! Lines for the user. A full disk or a closed pipe behind stdout must not end a run halfway, as `println!` would: the first
//! error is kept, the run ends as ever, and then the program says so and fails.

use std::{
    fmt::Arguments,
    io::{self, Write},
    sync::Mutex,
};

static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// A line to stdout.
pub fn line(a: Arguments) {
    let mut out = io::stdout().lock();
    keep(out.write_fmt(a).and_then(|()| out.write_all(b"\n")));
}

/// A line to stderr, where an error has nobody to be told.
pub fn aside(a: Arguments) {
    let mut err = io::stderr().lock();
    let _ = err.write_fmt(a).and_then(|()| err.write_all(b"\n"));
}

fn keep(r: io::Result<()>) {
    if let Err(e) = r {
        FAILED
            .lock()
            .expect("no panics while locked")
            .get_or_insert(e);
    }
}

/// What went wrong with the lines so far, once all are out.
pub fn finish() -> Option<io::Error> {
    keep(io::stdout().flush());
    FAILED.lock().expect("no panics while locked").take()
}

/// Text of others, as a terminal may have it.
pub fn tame(s: &str) -> String {
    s.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// The same as XML may have it.
pub fn xml(s: &str) -> String {
    tame(s)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// `println!` that does not panic.
macro_rules! say {
    ($($t:tt)*) => { $crate::output::line(format_args!($($t)*)) };
}
/// `eprintln!` that does not panic.
macro_rules! note {
    ($($t:tt)*) => { $crate::output::aside(format_args!($($t)*)) };
}
pub(crate) use {note, say};

/// What the caller asked for makes no sense: exit status 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// What a program that did not start is for a shell: exit status 127 if it is not there, 126 if it can't be executed.
#[derive(Debug)]
pub struct NoProgram {
    pub there: bool,
    pub text: String,
}

impl NoProgram {
    pub fn status(&self) -> u8 {
        if self.there {
            126
        } else {
            127
        }
    }
}

impl std::fmt::Display for NoProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for NoProgram {}
