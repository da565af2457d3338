//! Verilog from a block.
//!
//! rust-hdl calls the top module `top` and every other after its instance path, and it passes through identifiers that it does not know. This pass
//! renames the top, merges modules that are equal, and refuses text that no tool would accept, with the module and the word in the message.

use rust_hdl::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Generate the Verilog of `u` with `name` as top module. Panics, with the reason, on an open signal, a logic loop or broken text.
pub fn emit_verilog<U: Block>(name: &str, u: &mut U) -> String {
    u.connect_all();
    if let Err(e) = check_all(u) {
        panic!("{name}: {e:?}");
    }
    let text = postpass(name, &generate_verilog_unchecked(u));
    match check_text(&text) {
        Ok(()) => text,
        Err(e) => panic!("{name}: {e}"),
    }
}

/// [`emit_verilog`] into `dir/name.v`.
pub fn write_verilog<U: Block>(dir: &Path, name: &str, u: &mut U) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(format!("{name}.v"));
    std::fs::write(&path, emit_verilog(name, u))?;
    Ok(path)
}

/// Rename `top` and `top$...`, and keep one copy of modules whose text is the same.
fn postpass(name: &str, text: &str) -> String {
    let mut mods: Vec<(String, String)> = split_modules(text);
    for (_, body) in &mut mods {
        *body = direct_clocks(body);
    }
    // children come before parents in a few rounds: once the children of two modules are merged their texts are equal
    loop {
        let mut first: HashMap<String, String> = HashMap::new();
        let mut alias: HashMap<String, String> = HashMap::new();
        mods.retain(|(n, body)| match first.get(body) {
            Some(f) if n != "top" => {
                alias.insert(n.clone(), f.clone());
                false
            }
            _ => {
                first.insert(body.clone(), n.clone());
                true
            }
        });
        if alias.is_empty() {
            break;
        }
        for (_, body) in &mut mods {
            *body = rename_instances(body, |id| alias.get(id).cloned());
        }
    }
    let mut out = String::new();
    for (n, body) in &mods {
        let re = |id: &str| {
            if id == "top" {
                Some(name.to_string())
            } else {
                id.strip_prefix("top$").map(|rest| format!("{name}${rest}"))
            }
        };
        let n = re(n).unwrap_or_else(|| n.clone());
        out += &format!("module {n}{}endmodule\n\n", rename_instances(body, re));
    }
    out
}

/// rust-hdl copies the clock to each sub-module in the combinational block (`sub$clock = clock;`). That makes every clock a derived one, which costs
/// a simulator a second evaluation and a synthesis tool its clock net: connect the sub-modules to the port itself.
fn direct_clocks(body: &str) -> String {
    let is_clock = |w: &str| w == "clock" || w.ends_with("_clock") || w.ends_with("$clock");
    let copies: Vec<(&str, &str)> = body
        .lines()
        .filter_map(|l| l.trim().strip_suffix(';')?.split_once(" = "))
        .filter(|(a, b)| {
            is_clock(a)
                && is_clock(b)
                && a.chars().all(ident)
                && body.matches(&format!("input wire  {b};")).count() == 1
                && body.matches(&format!(" {a} = ")).count() == 1
                && body.matches(&format!("({a})")).count() == 1
                && body.matches(&format!("reg  {a};")).count() == 1
        })
        .collect();
    let mut out = String::with_capacity(body.len());
    for line in body.split_inclusive('\n') {
        let t = line.trim();
        let gone = |a: &str, b: &str| t == format!("{a} = {b};") || t == format!("reg  {a};");
        if copies.iter().any(|(a, b)| gone(a, b)) {
            continue;
        }
        match copies
            .iter()
            .find(|(a, _)| t.ends_with(&format!("({a})")) || t.ends_with(&format!("({a}),")))
        {
            Some((a, b)) => out += &line.replace(&format!("({a})"), &format!("({b})")),
            None => out += line,
        }
    }
    out
}

/// (name, text from the port list up to `endmodule`)
fn split_modules(text: &str) -> Vec<(String, String)> {
    let mut mods = vec![];
    let mut rest = text;
    while let Some(i) = rest.find("\nmodule ") {
        let body = &rest[i + 8..];
        let end = body.find("\nendmodule").expect("module without an end");
        let paren = body.find('(').expect("module without ports");
        mods.push((
            body[..paren].trim().to_string(),
            body[paren..=end].to_string(),
        ));
        rest = &body[end..];
    }
    mods
}

/// Rename only the words that stand at the start of a line: that is where a module is instantiated.
fn rename_instances(body: &str, f: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(body.len());
    for line in body.split_inclusive('\n') {
        let lead = line.len() - line.trim_start().len();
        let word: String = line[lead..].chars().take_while(|c| ident(*c)).collect();
        match f(&word) {
            Some(n) if line[lead + word.len()..].starts_with(' ') => {
                out += &line[..lead];
                out += &n;
                out += &line[lead + word.len()..];
            }
            _ => out += line,
        }
    }
    out
}

fn ident(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

const KEYWORDS: &[&str] = &[
    "module",
    "endmodule",
    "input",
    "output",
    "inout",
    "wire",
    "reg",
    "signed",
    "localparam",
    "integer",
    "initial",
    "always",
    "posedge",
    "negedge",
    "begin",
    "end",
    "if",
    "else",
    "case",
    "endcase",
    "default",
    "for",
    "assign",
    "or",
    "assert",
    "assume",
    "function",
    "endfunction",
    "parameter",
];

/// Words that Rust allows as a field name and SystemVerilog tools do not.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "accept_on", "alias", "always_comb", "always_ff", "always_latch", "and", "assume", "automatic", "before", "bind", "bins", "binsof", "bit",
    "buf", "byte", "casex", "casez", "cell", "chandle", "checker", "class", "clocking", "constraint", "context", "cover", "covergroup",
    "coverpoint", "cross", "deassign", "defparam", "design", "disable", "dist", "do", "edge", "endclass", "endconfig", "endgenerate",
    "endgroup", "endinterface", "endpackage", "endprogram", "endproperty", "endsequence", "endspecify", "endtable", "endtask", "event",
    "eventually", "expect", "export", "extends", "extern", "final", "first_match", "force", "foreach", "forever", "fork", "forkjoin",
    "generate", "genvar", "global", "highz0", "highz1", "iff", "ifnone", "ignore_bins", "illegal_bins", "implements", "implies", "import",
    "incdir", "include", "inside", "instance", "int", "interconnect", "interface", "intersect", "join", "join_any", "join_none", "large",
    "let", "liblist", "library", "local", "logic", "longint", "macromodule", "matches", "medium", "modport", "nand", "negedge", "nettype",
    "new", "nexttime", "nmos", "nor", "noshowcancelled", "not", "notif0", "notif1", "null", "package", "packed", "pmos", "posedge",
    "primitive", "priority", "program", "property", "protected", "pull0", "pull1", "pulldown", "pullup", "pure", "rand", "randc", "randcase",
    "randsequence", "rcmos", "real", "realtime", "ref", "reject_on", "release", "repeat", "restrict", "return", "s_always", "s_eventually",
    "s_nexttime", "s_until", "scalared", "sequence", "shortint", "shortreal", "small", "soft", "solve", "specify", "specparam", "static",
    "string", "strong", "strong0", "strong1", "struct", "super", "supply0", "supply1", "table", "tagged", "task", "this", "throughout",
    "time", "timeprecision", "timeunit", "tran", "tri", "tri0", "tri1", "triand", "trior", "trireg", "type", "typedef", "union", "unique",
    "unique0", "unsigned", "until", "untyped", "use", "uwire", "var", "vectored", "virtual", "void", "wait", "wait_order", "wand", "weak",
    "weak0", "weak1", "while", "wildcard", "with", "within", "wor", "xnor", "xor",
];

/// Refuse what rust-hdl lets through and Verilog does not know.
pub fn check_text(text: &str) -> Result<(), String> {
    let names: HashSet<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("module "))
        .map(|l| l.split('(').next().unwrap_or("").trim())
        .collect();
    for (line, bad, why) in [
        (
            ")[",
            ")[",
            "a slice of an expression: copy it to a Local first",
        ),
        ("][(", "][(", "a slice of a slice: copy it to a Local first"),
        (" 0x", " 0x", "a hexadecimal match arm: write it in decimal"),
    ] {
        if let Some(l) = text.lines().find(|l| !comment(l) && l.contains(line)) {
            return Err(format!("`{bad}` in `{}`: {why}", l.trim()));
        }
    }
    for m in text.split("\nendmodule") {
        let Some(start) = m.find("module ") else {
            continue;
        };
        let m = &m[start..];
        let mname = m[7..].split('(').next().unwrap_or("").trim().to_string();
        check_module(m, &names).map_err(|e| format!("module {mname}: {e}"))?;
    }
    Ok(())
}

fn comment(l: &str) -> bool {
    let l = l.trim_start();
    l.starts_with("//") || l.starts_with('`')
}

fn check_module(m: &str, modules: &HashSet<&str>) -> Result<(), String> {
    let mut declared: HashSet<String> = HashSet::new();
    let mut used: BTreeMap<String, String> = BTreeMap::new();
    for line in m.lines().filter(|l| !comment(l)) {
        let code = line.split("//").next().unwrap_or("");
        let toks = words(code);
        let is_decl = toks.first().is_some_and(|t| {
            [
                "input",
                "output",
                "inout",
                "wire",
                "reg",
                "localparam",
                "integer",
                "parameter",
                "function",
            ]
            .contains(&t.0.as_str())
        });
        let is_inst = toks.first().is_some_and(|t| modules.contains(t.0.as_str()));
        for (i, (w, dot)) in toks.iter().enumerate() {
            if *dot || KEYWORDS.contains(&w.as_str()) || w.starts_with('$') {
                continue;
            }
            if is_inst && i == 1 && RESERVED.contains(&w.as_str()) {
                return Err(format!(
                    "`{w}` is a SystemVerilog keyword: rename the sub-module"
                ));
            }
            if is_inst && i < 2 || line.starts_with("module ") && i == 1 {
                continue;
            }
            // every new name before the `=` of a declaration is declared by it
            if is_decl && !toks[..i].iter().any(|t| t.0 == "=") {
                declared.insert(w.clone());
                continue;
            }
            used.entry(w.clone())
                .or_insert_with(|| line.trim().to_string());
        }
    }
    if let Some(w) = declared.iter().find(|w| RESERVED.contains(&w.as_str())) {
        return Err(format!(
            "`{w}` is a SystemVerilog keyword: rename the signal"
        ));
    }
    for (w, line) in used {
        if !declared.contains(&w) {
            return Err(format!("`{w}` is not declared, in `{line}`"));
        }
    }
    Ok(())
}

/// Identifiers of a line, with "was preceded by a dot" (a port name); numbers and based literals are left out.
fn words(code: &str) -> Vec<(String, bool)> {
    let c: Vec<char> = code.chars().collect();
    let mut out = vec![];
    let mut i = 0;
    while i < c.len() {
        if c[i] == '\'' {
            i += 1;
            while i < c.len() && ident(c[i]) {
                i += 1;
            }
        } else if c[i] == '"' {
            i += 1;
            while i < c.len() && c[i] != '"' {
                i += 1;
            }
            i += 1;
        } else if c[i..].starts_with(&['(', '*']) && c.get(i + 2) != Some(&')') {
            // an attribute
            while i < c.len() && !c[i..].starts_with(&['*', ')']) {
                i += 1;
            }
        } else if ident(c[i]) {
            let s = i;
            while i < c.len() && ident(c[i]) {
                i += 1;
            }
            if !c[s].is_ascii_digit() {
                out.push((c[s..i].iter().collect(), s > 0 && c[s - 1] == '.'));
            }
        } else {
            if c[i] == '=' {
                out.push(("=".into(), true));
            }
            i += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_text_is_refused() {
        let m = |body: &str| {
            format!("module m(a,o);\n  input wire  a;\n  output reg  o;\n{body}\nendmodule\n")
        };
        assert_eq!(
            check_text(&m("  always @(*) begin\n o = a & 8'hff;\n end")),
            Ok(())
        );
        assert_eq!(
            check_text(&m(
                "  (* ram_style = \"block\" *) wire  b;\n  always @(*) o = b;"
            )),
            Ok(())
        );
        for (body, say) in [
            ("  always @(*) o = K;", "`K` is not declared"),
            (
                "  always @(*) o = (a ^ o)[(0)+:(4)];",
                "slice of an expression",
            ),
            (
                "  always @(*) case (a)\n 0x1F: o = a;\n endcase",
                "hexadecimal match arm",
            ),
            ("  reg  before;", "SystemVerilog keyword"),
        ] {
            let e = check_text(&m(body)).unwrap_err();
            assert!(e.contains(say), "{e}");
        }
    }

    #[test]
    fn equal_modules_are_merged_and_clocks_are_direct() {
        let v = emit_verilog("x", &mut crate::prims::Skid::<Bits<4>>::default());
        assert_eq!(v.matches("\nmodule ").count() + 1, 3, "{v}");
        assert!(
            v.contains(".clock(clock)") && !v.contains("main$clock"),
            "{v}"
        );
    }
}
