//! Contributor tasks: `cargo xtask --help`.

mod gen;
mod lint;

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
    /// Writes the generated files (RTL structs, docs/registers.md)
    Gen {
        /// Changes nothing; fails when a committed file is stale
        #[arg(long)]
        check: bool,
    },
    /// Refuses RTL that rust-hdl would compile wrongly
    Lint,
}

fn main() -> anyhow::Result<()> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_path_buf();
    match Args::parse().task {
        Task::Gen { check } => gen::run(&root, check),
        Task::Lint => lint::run(&root),
    }
}
