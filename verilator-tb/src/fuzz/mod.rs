//! Fuzzers: random frames, commands, work requests and host messages against the Verilated card and the simulator, while
//! a clean connection of another process goes on beside them. A finding is a hang, a panic, a touch of memory that was not
//! registered, or a disturbed neighbour.
//!
//! All but `socket` repeat from their seed alone.

mod commands;
pub(crate) mod socket;
mod wire;
mod world;
mod wqes;

use std::time::{Duration, Instant};

/// What is fuzzed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Wire,
    Commands,
    Wqes,
    Socket,
}

pub const TARGETS: [(&str, Target); 4] = [
    ("wire", Target::Wire),
    ("commands", Target::Commands),
    ("wqes", Target::Wqes),
    ("socket", Target::Socket),
];

/// How long.
#[derive(Debug, Clone, Copy)]
pub enum Budget {
    Steps(u64),
    Seconds(u64),
}

/// Something that takes random steps.
trait Fuzz {
    /// One step; an error is a finding.
    fn step(&mut self) -> Result<(), String>;
    /// What has been done so far.
    fn done(&self) -> String;
}

/// Runs a fuzzer; `tell` gets a line every few seconds. An error is a finding, with the step that made it.
///
/// # Errors
/// The finding, and how to come to it again.
pub fn run(
    t: Target,
    budget: Budget,
    seed: u64,
    mut tell: impl FnMut(String),
) -> Result<String, String> {
    let mut f: Box<dyn Fuzz> = match t {
        Target::Wire => Box::new(wire::Wire::new(seed)),
        Target::Commands => Box::new(commands::Commands::new(seed)),
        Target::Wqes => Box::new(wqes::Wqes::new(seed)),
        Target::Socket => Box::new(socket::Socket::new(seed)),
    };
    let began = Instant::now();
    let mut told = began;
    let mut steps = 0u64;
    loop {
        let over = match budget {
            Budget::Steps(n) => steps >= n,
            Budget::Seconds(s) => began.elapsed() >= Duration::from_secs(s),
        };
        if over {
            return Ok(format!("{steps} steps, {}", f.done()));
        }
        f.step().map_err(|m| format!("step {steps}: {m}"))?;
        steps += 1;
        if told.elapsed() > Duration::from_secs(2) {
            told = Instant::now();
            let s = began.elapsed().as_secs();
            tell(format!("{s} s, {steps} steps, {}", f.done()));
        }
    }
}
