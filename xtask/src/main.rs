//! Contributor tasks: `cargo xtask --help`.

mod check;
mod depth;
mod fanout;
mod formal;
mod fpga;
mod gen;
mod gen_docs;
mod gen_hdl;
mod lint;
mod releases;
mod tools;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

#[derive(Parser)]
#[command(about = "Contributor tasks of the MetaRoCE NIC")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Writes the generated files (RTL structs, docs/registers.md, docs/hdl)
    Gen {
        /// Changes nothing; fails when a committed file is stale
        #[arg(long)]
        check: bool,
    },
    /// All checks and tests, as CI runs them; with arguments: only the tests that match
    Test {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        filter: Vec<String>,
    },
    /// Scripted benches in card time, into docs/results/card.md; `-- --check` only compares, `-- --speed` measures this machine
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Long random run with faults on the wire: [MESSAGES] [SEED]; `-- --faults [SEED]`: one fault at every frame of every operation; `-- --msn [MESSAGES] [PSN]`: more messages than an MSN counts
    Soak { args: Vec<String> },
    /// Random frames, commands, work requests, host messages: [wire|commands|wqes|socket] [SECONDS] [SEED]
    Fuzz { args: Vec<String> },
    /// perftest's tools with every transport and option, into docs/results/perftest.md; with words: only combinations that have all of them
    Tools {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Fetches other rdma-core releases (Debian's trixie and sid, and 59; or [SUITE]...) and runs the tests with them
    Releases { suites: Vec<String> },
    /// Refuses RTL that rust-hdl would compile wrongly
    Lint,
    /// Proofs of stream and compare blocks, and that broken copies fail them
    Formal,
    /// Logic depth and cells of the RTL blocks, into docs/results/depth.md
    Depth {
        /// Only these blocks (the page is then left alone)
        names: Vec<String>,
    },
    /// Synthesis, placement and routing of the card ecp5-1g, into docs/results/fpga.md (about an hour; `./metaroce fpga` fetches the tools)
    Fpga {
        /// Stops after synthesis: the page has the sizes only
        #[arg(long)]
        synth: bool,
        /// Places the netlist of the last run again
        #[arg(long, conflicts_with = "synth")]
        place: bool,
        /// Of the placement
        #[arg(long, default_value_t = 1)]
        seed: u32,
        /// Further arguments of nextpnr: `-- --router router2`
        #[arg(last = true)]
        args: Vec<String>,
    },
}

fn main() -> anyhow::Result<()> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root")
        .to_path_buf();
    match Args::parse().task {
        Task::Gen { check } => gen::run(&root, check),
        Task::Test { filter } => check::run(&root, &filter),
        Task::Bench { args } => check::tb(&root, "bench", &args),
        Task::Soak { args } => check::tb(&root, "soak", &args),
        Task::Fuzz { args } => check::tb(&root, "fuzz", &args),
        Task::Tools { words } => tools::run(&root, &words),
        Task::Releases { suites } => releases::run_all(&root, &suites),
        Task::Lint => lint::run(&root),
        Task::Formal => formal::run(&root),
        Task::Depth { names } => depth::run(&root, &names),
        Task::Fpga {
            synth,
            place,
            seed,
            args,
        } => fpga::run(&root, synth, place, seed, &args),
    }
}
