//! `metaroce`: simulated RDMA cards for unmodified verbs programs.

mod caps;
mod caps_device;
mod caps_opened;
mod conform;
mod daemon;
mod doctor;
mod output;
mod perftest;
mod private;
mod pyverbs;
mod report;
mod rundir;
mod session;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use output::note;
use std::{path::PathBuf, process::ExitCode, sync::OnceLock};

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
                  eval \"$(metaroce env)\"                     the same in your own shell (metaroce down ends it)\n\n\
                  The script ./metaroce also takes `test` (every test of the project) and `fpga` (synthesis, placement, routing)."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What the simulated network and hosts are like.
#[derive(Args, Debug, Clone, PartialEq)]
pub struct SimArgs {
    /// Number of cards
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub cards: u8,
    /// Kind of the cards, or one kind for each, as sim-100g,mini. A `mini` has raw packet queues and no transport: that runs in software, in the programs
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        env = "METAROCE_CARD",
        hide_env_values = true,
        value_name = "KIND"
    )]
    pub card: Vec<CardKind>,
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
    /// Frames that these may hit. UC and UD don't resend: a program that waits for each of their messages waits forever for a lost one
    #[arg(long, default_value = "all", value_name = "WHICH")]
    pub faults_on: FaultsOn,
    /// Seed of all randomness: faults, keys, QPNs. Without it a new one for each run, which is printed and is in result.json (pyverbs: 1)
    #[arg(long)]
    pub seed: Option<u64>,
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
    /// What one process may have on a card: mrs=N, qps=N, cqs=N or pds=N (again for each); more is refused with ENOMEM. A QP that
    /// was made with max_inline_data > 0 takes one of the mrs, too
    #[arg(long, value_parser = limit, value_name = "KIND=N")]
    pub limit: Vec<Limit>,
    /// Dump all card signals to card<k>.fst in the run's folder (slow; the first time builds the card again)
    #[arg(long)]
    pub trace: bool,
    /// Don't read client memory directly even where the kernel allows it
    #[arg(long)]
    pub agent_dma: bool,
}

/// A configuration that is simulated.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardKind {
    #[value(name = "sim-100g")]
    Sim100g,
    Mini,
}

#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultsOn {
    /// Every frame
    All,
    /// Only frames of RC
    Rc,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum Way {
    Up,
    Down,
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
        #[arg(long, default_value_t = 1800, value_parser = seconds(), value_name = "SECONDS")]
        timeout: u64,
        /// The tool's own clock shows card time, so that the figures it prints are the card's (x86-64)
        #[arg(long)]
        card_time: bool,
        /// Tool (ib_write_bw by default) and its own arguments
        #[arg(allow_hyphen_values = true, value_name = "TOOL AND ARGS")]
        args: Vec<String>,
    },
    /// Runs rdma-core's own pyverbs tests on card 0: [TESTS], e.g. test_qp or test_qp.QPTest; fails on a skip that is not listed
    Pyverbs {
        #[command(flatten)]
        sim: SimArgs,
        /// Kills the run after this many seconds
        #[arg(long, default_value_t = 1800, value_parser = seconds(), value_name = "SECONDS")]
        timeout: u64,
        /// Folder with the tests, if not the distribution's
        #[arg(long, value_name = "DIR")]
        tests: Option<PathBuf>,
        /// Modules, classes or tests; all whose subject the card has by default
        #[arg(value_name = "TESTS")]
        names: Vec<String>,
    },
    /// Runs a program with simulated cards; ends with its exit status, 127 if there is no such program, 126 if it can't be executed, 124 after --timeout
    #[command(trailing_var_arg = true)]
    Run {
        #[command(flatten)]
        sim: SimArgs,
        /// Kills the program after this many seconds
        #[arg(long, value_parser = seconds(), value_name = "SECONDS")]
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
    /// Takes the link of a card in the background down or up: frames neither leave nor enter, and programs get PORT_ERR, PORT_ACTIVE
    Link {
        /// metaroce0, metaroce1, ...
        card: String,
        to: Way,
    },
    /// Captures the wire of the cards in the background to a file, until Ctrl-C or for SECONDS
    Pcap {
        /// The file to write (pcap with nanoseconds, in card time); one that is there is replaced
        file: PathBuf,
        /// End by itself after so many seconds (without it: Ctrl-C)
        #[arg(long, value_parser = seconds(), value_name = "SECONDS")]
        seconds: Option<u64>,
    },
    /// What a card can do, as its manifest says (hardware-offload description language, docs/hdl)
    Caps {
        #[command(subcommand)]
        caps: caps::Caps,
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

#[derive(Parser)]
struct OnlySim {
    #[command(flatten)]
    sim: SimArgs,
}

impl SimArgs {
    /// From words of a command line.
    pub fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<SimArgs> {
        Ok(OnlySim::try_parse_from(["sim"].into_iter().chain(words))?.sim)
    }
    /// What no option at all means.
    pub fn parse_none() -> SimArgs {
        SimArgs::parse([].into_iter()).expect("every option has a default")
    }
    /// Which cards are `mini`: the last kind that was given goes for all further cards.
    pub fn minis(&self) -> metaroce_tb::sim::Minis {
        let last = self.card.last().copied().unwrap_or(CardKind::Sim100g);
        let kind = |k: usize| self.card.get(k).copied().unwrap_or(last);
        let bits = (0..8).filter(|k| kind(*k) == CardKind::Mini);
        metaroce_tb::sim::Minis(bits.fold(0, |m, k| m | 1 << k))
    }
    /// The seed: the one that was given, or one of the operating system for this process.
    pub fn seed(&self) -> u64 {
        static OWN: OnceLock<u32> = OnceLock::new();
        self.seed.unwrap_or_else(|| {
            u64::from(*OWN.get_or_init(|| {
                let mut b = [0u8; 4];
                // SAFETY: room for four bytes; a short request is never interrupted.
                let n = unsafe { libc::getrandom(b.as_mut_ptr().cast(), b.len(), 0) };
                assert_eq!(n, 4, "the operating system has no randomness");
                u32::from_le_bytes(b)
            }))
        })
    }
}

/// A time that can pass.
fn seconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..)
}

/// One `--limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    kind: &'static str,
    n: u16,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.kind, self.n)
    }
}

fn limit(s: &str) -> Result<Limit, String> {
    let what = "write mrs=N, qps=N, cqs=N or pds=N";
    let (kind, n) = s.split_once('=').ok_or(format!("{s:?}: {what}"))?;
    let kind = ["mrs", "qps", "cqs", "pds"]
        .into_iter()
        .find(|k| *k == kind)
        .ok_or(format!("{kind:?} is nothing that a card counts: {what}"))?;
    match n.parse() {
        Ok(n) if n < u16::MAX => Ok(Limit { kind, n }),
        _ => Err(format!("{n:?} is not a number from 0 to 65534")),
    }
}

impl SimArgs {
    /// The limits given, the last one of each kind.
    pub fn limits(&self) -> metaroce_tb::sim::Limits {
        let last = |kind| {
            self.limit
                .iter()
                .rev()
                .find(|l| l.kind == kind)
                .map(|l| l.n)
        };
        metaroce_tb::sim::Limits {
            mrs: last("mrs"),
            qps: last("qps"),
            cqs: last("cqs"),
            pds: last("pds"),
        }
    }
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
    let code = run(Cli::parse().command).unwrap_or_else(|e| {
        note!("metaroce: {e:#}");
        match e.downcast_ref::<output::NoProgram>() {
            Some(p) => p.status(),
            None if e.is::<output::Usage>() => 2,
            None => 1,
        }
    });
    match output::finish() {
        None => ExitCode::from(code),
        Some(e) => {
            note!("metaroce: can't write to standard output: {e}");
            ExitCode::from(code.max(1))
        }
    }
}

fn run(c: Command) -> Result<u8> {
    match c {
        Command::Doctor => doctor::run(),
        Command::Perftest {
            sim,
            timeout,
            card_time,
            args,
        } => perftest::run(&sim, timeout, card_time, &args),
        Command::Pyverbs {
            mut sim,
            timeout,
            tests,
            names,
        } => {
            // Python's random numbers are seeded, too: the same tests every time unless asked.
            sim.seed.get_or_insert(1);
            pyverbs::run(&sim, timeout, tests.as_deref(), &names)
        }
        Command::Run { sim, timeout, cmd } => session::run_command(&sim, timeout, &cmd),
        Command::Shell { sim } => session::shell(&sim),
        Command::Env { sim } => daemon::env(&sim),
        Command::Up { sim } => daemon::up(&sim),
        Command::Down => daemon::down(),
        Command::Status { json } => daemon::status(json),
        Command::Stats { json } => daemon::stats(json),
        Command::Link { card, to } => daemon::link(&card, matches!(to, Way::Up)),
        Command::Pcap { file, seconds } => daemon::pcap(&file, seconds),
        Command::Caps { caps } => caps::run(&caps),
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
    fn kinds_of_cards() {
        let minis = |line: &str| SimArgs::parse(line.split_whitespace()).map(|a| a.minis().0);
        assert_eq!(minis("--card sim-100g").unwrap(), 0);
        assert_eq!(minis("--card mini").unwrap(), 0xFF);
        assert_eq!(minis("--card sim-100g,mini").unwrap(), 0xFE);
        assert_eq!(minis("--card mini,sim-100g").unwrap(), 1);
        assert!(minis("--card ecp5-1g").is_err());
    }
    /// `./metaroce` refuses other commands before it builds anything.
    #[test]
    fn the_script_knows_the_commands() {
        use clap::CommandFactory;
        let script = include_str!("../../metaroce");
        let line = script.lines().find_map(|l| l.strip_prefix("commands="));
        let line = line.expect("a list").trim_matches('"');
        let mut listed: Vec<&str> = line.split_whitespace().collect();
        // the script's own, and clap's
        let cli = Cli::command();
        let mut known: Vec<&str> = cli
            .get_subcommands()
            .filter(|c| !c.is_hide_set())
            .map(|c| c.get_name())
            .chain(["test", "fpga", "help"])
            .collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
    }
    #[test]
    fn help_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
