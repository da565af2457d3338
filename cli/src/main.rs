//! `metaroce`: simulated RDMA cards for unmodified verbs programs.

mod daemon;
mod doctor;
mod perftest;
mod pyverbs;
mod report;
mod rundir;
mod session;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

#[derive(Parser)]
#[command(
    name = "metaroce",
    version,
    about = "Simulated MetaRoCE cards for unmodified verbs programs",
    long_about = "Simulates RDMA cards (the Verilated RTL) and shows them to unmodified programs that use libibverbs:\n\
                  no root, no kernel module, no namespaces. Cards are named metaroce0, metaroce1, ...",
    after_help = "Examples:\n  metaroce perftest                          ib_write_bw between two cards\n  \
                  metaroce perftest ib_read_lat -s 64        any perftest tool, with its own arguments\n  \
                  metaroce run --loss 1% -- ./my-program     your program, on a lossy wire\n  \
                  metaroce pyverbs test_qp                   rdma-core's own tests\n  \
                  metaroce shell                             a shell in which the cards exist\n  \
                  eval \"$(metaroce env)\"                     the same in your own shell (metaroce down ends it)"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What the simulated network and hosts are like.
#[derive(Args, Debug, Clone)]
pub struct SimArgs {
    /// Number of cards
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub cards: u8,
    /// Frames lost, e.g. 1% or 0.1%
    #[arg(long, default_value = "0%", value_parser = ppm, value_name = "PERCENT")]
    pub loss: u32,
    /// Frames duplicated
    #[arg(long, default_value = "0%", value_parser = ppm, value_name = "PERCENT")]
    pub dup: u32,
    /// Frames delayed past others
    #[arg(long, default_value = "0%", value_parser = ppm, value_name = "PERCENT")]
    pub reorder: u32,
    /// Frames with a flipped bit
    #[arg(long, default_value = "0%", value_parser = ppm, value_name = "PERCENT")]
    pub corrupt: u32,
    /// Seed of all randomness
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// One-way delay of the network, ns
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(400..=10_000_000), value_name = "NS")]
    pub delay: u64,
    /// Line rate, Gb/s
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100), value_name = "GBPS")]
    pub rate: u64,
    /// Host read latency, ns
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(0..=1_000_000), value_name = "NS")]
    pub host_latency: u64,
    /// Limit of the host port in each direction, Gb/s; 0 = one bus word per clock (165 Gb/s)
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1000), value_name = "GBPS")]
    pub host_bandwidth: u64,
    /// Dump all card signals to card<k>.fst in the run's folder (slow; the first time builds the card again)
    #[arg(long)]
    pub trace: bool,
    /// Don't read client memory directly even where the kernel allows it
    #[arg(long)]
    pub agent_dma: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Says what is here and what is missing
    Doctor,
    /// Runs a perftest tool between two cards: [TOOL] [tool arguments]
    #[command(trailing_var_arg = true)]
    Perftest {
        #[command(flatten)]
        sim: SimArgs,
        /// Kills the run after this many seconds
        #[arg(long, default_value_t = 600, value_name = "SECONDS")]
        timeout: u64,
        /// Tool (ib_write_bw by default) and its own arguments
        #[arg(allow_hyphen_values = true, value_name = "TOOL AND ARGS")]
        args: Vec<String>,
    },
    /// Runs rdma-core's own pyverbs tests on card 0: [TESTS], e.g. test_qp or test_qp.QPTest; fails on a skip that is not listed
    Pyverbs {
        #[command(flatten)]
        sim: SimArgs,
        /// Kills the run after this many seconds
        #[arg(long, default_value_t = 1800, value_name = "SECONDS")]
        timeout: u64,
        /// Folder with the tests, if not the distribution's
        #[arg(long, value_name = "DIR")]
        tests: Option<PathBuf>,
        /// Modules, classes or tests; all whose subject the card has by default
        #[arg(value_name = "TESTS")]
        names: Vec<String>,
    },
    /// Runs a program with simulated cards
    #[command(trailing_var_arg = true)]
    Run {
        #[command(flatten)]
        sim: SimArgs,
        /// Kills the program after this many seconds
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
        /// The program and its arguments
        #[arg(required = true, allow_hyphen_values = true, value_name = "CMD")]
        cmd: Vec<String>,
    },
    /// A shell in which the cards exist
    Shell {
        #[command(flatten)]
        sim: SimArgs,
    },
    /// Starts cards in the background if there are none, and prints shell code that makes them visible: eval "$(metaroce env)"
    Env {
        #[command(flatten)]
        sim: SimArgs,
    },
    /// Starts cards in the background
    Up {
        #[command(flatten)]
        sim: SimArgs,
    },
    /// Stops the cards in the background
    Down,
    /// Says whether cards run in the background
    Status {
        #[arg(long)]
        json: bool,
    },
    /// Counters of the cards in the background
    Stats {
        #[arg(long)]
        json: bool,
    },
    /// Captures the wire of the cards in the background to a file, until Ctrl-C or for SECONDS
    Pcap {
        file: PathBuf,
        #[arg(long, value_name = "SECONDS")]
        seconds: Option<u64>,
    },
    /// The background process itself
    #[command(hide = true)]
    Serve {
        #[command(flatten)]
        sim: SimArgs,
        #[arg(long)]
        root: PathBuf,
    },
}

/// "1%", "0.25%" or "0.01" (a fraction) to parts per million.
fn ppm(s: &str) -> Result<u32, String> {
    let (text, unit) = match s.strip_suffix('%') {
        Some(t) => (t, 10_000.0),
        None => (s, 1_000_000.0),
    };
    let v: f64 = text
        .trim()
        .parse()
        .map_err(|_| format!("{s:?} is not a share; write 1% or 0.01"))?;
    let p = v * unit;
    if !(0.0..=1_000_000.0).contains(&p) {
        return Err(format!("{s:?} is not between 0% and 100%"));
    }
    Ok(p.round() as u32)
}

fn main() -> ExitCode {
    // A reader that goes away (| head) ends the program, it doesn't make it panic.
    // SAFETY: set before any thread exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    match run(Cli::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("metaroce: {e:#}");
            ExitCode::from(1)
        }
    }
}

fn run(c: Command) -> Result<u8> {
    match c {
        Command::Doctor => doctor::run(),
        Command::Perftest { sim, timeout, args } => perftest::run(&sim, timeout, &args),
        Command::Pyverbs {
            sim,
            timeout,
            tests,
            names,
        } => pyverbs::run(&sim, timeout, tests.as_deref(), &names),
        Command::Run { sim, timeout, cmd } => session::run_command(&sim, timeout, &cmd),
        Command::Shell { sim } => session::shell(&sim),
        Command::Env { sim } => daemon::env(&sim),
        Command::Up { sim } => daemon::up(&sim),
        Command::Down => daemon::down(),
        Command::Status { json } => daemon::status(json),
        Command::Stats { json } => daemon::stats(json),
        Command::Pcap { file, seconds } => daemon::pcap(&file, seconds),
        Command::Serve { sim, root } => daemon::serve(&sim, &root),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn shares() {
        assert_eq!(ppm("1%"), Ok(10_000));
        assert_eq!(ppm("0.01"), Ok(10_000));
        assert_eq!(ppm("0.25 %"), Ok(2_500));
        assert!(
            ppm("101%").is_err() && ppm("-1%").is_err() && ppm("x").is_err() && ppm("NaN").is_err()
        );
    }
    #[test]
    fn help_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
