//! `fuzz [wire|commands|wqes|socket] [SECONDS] [SEED]`; `cargo xtask fuzz` runs it. Without a target: all, one after the other.

use metaroce_tb::fuzz::{run, Budget, TARGETS};

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    let name = args.next_if(|a| a.parse::<u64>().is_err());
    let mut numbers = args.map(|a| {
        a.parse::<u64>()
            .expect("fuzz [wire|commands|wqes|socket] [SECONDS] [SEED]")
    });
    let seconds = numbers.next().unwrap_or(60);
    let seed = numbers.next().unwrap_or(1);
    let mut found = false;
    let chosen: Vec<_> = TARGETS
        .iter()
        .filter(|t| name.as_ref().is_none_or(|n| n == t.0))
        .collect();
    assert!(
        !chosen.is_empty(),
        "no such target; there are wire, commands, wqes, socket"
    );
    for (name, t) in chosen {
        println!("fuzz {name}: {seconds} s, seed {seed}; replay: cargo xtask fuzz {name} {seconds} {seed}");
        match run(*t, Budget::Seconds(seconds), seed, |l| {
            println!("fuzz {name}: {l}")
        }) {
            Ok(l) => println!("fuzz {name}: {l}, nothing found"),
            Err(e) => {
                println!("fuzz {name}: FOUND at seed {seed}: {e}");
                found = true;
            }
        }
    }
    std::process::exit(found as i32);
}
