//! `cargo xtask formal`: unbounded proofs (temporal induction in yosys' own SAT solver) of small copies of the RTL's stream and compare
//! blocks, and of the rule by which the sequencer judges MODIFY_QP.
//!
//! The properties are in `rtl/formal/*.sv`, one wrapper module `w` a block. A line `// yosys: command` in a wrapper runs after flattening: that is how
//! a strengthening reaches a signal inside the block. Every property set is also run on broken copies, which must fail: a proof that cannot
//! fail says nothing.

use crate::depth::{emit, out_dir, yosys};
use anyhow::{bail, Context, Result};
use std::path::Path;

struct Proof {
    wrapper: &'static str,
    block: &'static str,
    /// What is broken, the text in the generated Verilog, and what replaces it.
    broken: &'static [(&'static str, &'static str, &'static str)],
}

const PROOFS: &[Proof] = &[
    Proof {
        wrapper: "skid",
        block: "f_skid",
        broken: &[
            (
                "the spare word is lost",
                "spare_v$d = 1'b1",
                "spare_v$d = 1'b0",
            ),
            (
                "a word moves without ready",
                "load = ~main_v$q | m_ready",
                "load = ~main_v$q | 1'b1",
            ),
            ("ready while full", "s_ready = ~spare_v$q", "s_ready = 1'b1"),
        ],
    },
    Proof {
        wrapper: "half",
        block: "f_half",
        broken: &[
            ("the word does not go", "v$d = 1'b0", "v$d = 1'b1"),
            ("ready while full", "s_ready = ~v$q", "s_ready = 1'b1"),
            ("a word that is not there", "v$d = s_valid", "v$d = 1'b1"),
        ],
    },
    Proof {
        wrapper: "fifo",
        block: "f_fifo",
        broken: &[
            ("no forwarding", "if (fwd$q)", "if (1'b0)"),
            (
                "one entry too many",
                "full$d = lvl$q == last",
                "full$d = lvl$q == (last + 1)",
            ),
            ("pop from empty", "pop = m_ready & some$q", "pop = m_ready"),
        ],
    },
    Proof {
        wrapper: "arb",
        block: "f_arb",
        broken: &[
            ("always the lowest", "if (hi)", "if (1'b0)"),
            ("grant without room", "load = ~v$q | m_ready", "load = 1'b1"),
        ],
    },
    Proof {
        wrapper: "psn",
        block: "f_psn",
        broken: &[
            ("half of the half", "older = d[32'h17]", "older = d[22]"),
            ("equal counts as newer", "newer = |d & ", "newer = "),
        ],
    },
    // rows of the ROM stand at type << 6 | from << 3 | to
    Proof {
        wrapper: "qp",
        block: "f_qp",
        broken: &[
            (
                "INIT to RTR without MIN_RNR_TIMER",
                "mem[10] = 43'h4b466652301",
                "mem[10] = 43'h4b466642301",
            ),
            (
                "INIT to RTR takes CAP",
                "mem[10] = 43'h4b466652301",
                "mem[10] = 43'h6b466652301",
            ),
            ("RESET to RTS", "mem[3] = 43'h0;", "mem[3] = 43'h400001;"),
            ("RTS to SQE", "mem[29] = 43'h0;", "mem[29] = 43'h400001;"),
            (
                "SQE to RTS of an RC QP",
                "mem[43] = 43'h0;",
                "mem[43] = 43'h400001;",
            ),
            ("assumed state not compared", "& (assumed != cur)", "& 1'b0"),
            (
                "missing attributes forgiven",
                "w_need$d = |need",
                "w_need$d = 1'b0",
            ),
            (
                "attributes too many forgiven",
                "w_more$d = |allow",
                "w_more$d = 1'b0",
            ),
            ("every QP is an RC QP", "((qp_type) & 8'hff)", "8'h0"),
            ("refuses everything", "refuse = (", "refuse = 1'b1 | ("),
        ],
    },
];

/// Prove everything, then show that each broken copy is refused.
pub fn run(root: &Path) -> Result<()> {
    let dir = out_dir(root, "formal")?;
    let names: Vec<String> = PROOFS.iter().map(|p| p.block.to_string()).collect();
    emit(root, &dir, &names)?;
    for p in PROOFS {
        let sv = root.join("rtl/formal").join(format!("{}.sv", p.wrapper));
        let wrapper = std::fs::read_to_string(&sv).with_context(|| sv.display().to_string())?;
        std::fs::write(dir.join("w.sv"), &wrapper)?;
        let good = std::fs::read_to_string(dir.join(format!("{}.v", p.block)))?;
        if !proves(&dir, &wrapper, &good)? {
            bail!(
                "{}: a property of rtl/formal/{}.sv does not hold",
                p.block,
                p.wrapper
            );
        }
        println!("{}: proved", p.wrapper);
        for (what, from, to) in p.broken {
            if !good.contains(from) {
                bail!(
                    "{}: nothing to break, no `{from}` in the Verilog",
                    p.wrapper
                );
            }
            if proves(&dir, &wrapper, &good.replace(from, to))? {
                bail!(
                    "{}: the broken copy ({what}) passes: the properties are too weak",
                    p.wrapper
                );
            }
            println!("{}: broken copy refused ({what})", p.wrapper);
        }
    }
    Ok(())
}

fn proves(dir: &Path, wrapper: &str, verilog: &str) -> Result<bool> {
    std::fs::write(dir.join("dut.v"), verilog)?;
    let extra: String = wrapper
        .lines()
        .filter_map(|l| l.trim().strip_prefix("// yosys: "))
        .map(|l| format!("{l}; "))
        .collect();
    let text = yosys(
        dir,
        &format!(
            "read_verilog dut.v; read_verilog -formal -sv w.sv; hierarchy -check -top w; proc; flatten; setattr -set keep 1 w:*; memory; memory_map; \
cd w; {extra}cd ..; setattr -unset keep w:*; \
opt -full; async2sync; chformal -lower; dffunmap; opt_clean; check -assert; sat -prove-asserts -set-assumes -tempinduct -maxsteps 8"
        ),
    )?;
    match (
        text.contains("Induction step proven: SUCCESS!"),
        text.contains("Import proof for assert"),
    ) {
        (true, true) => Ok(true),
        (false, true) => Ok(false),
        _ => bail!("the solver saw no assertion:\n{text}"),
    }
}
