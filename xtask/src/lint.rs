//! `cargo xtask lint`: refuses RTL that rust-hdl compiles without a word but wrongly.
//!
//! It looks at every function under `#[hdl_gen]` in `rtl/src`. The rules follow from how the generated Verilog differs from Rust: other
//! precedence, arithmetic that keeps its carry as soon as something wider stands in the expression (every literal is 32 bits wide), dropped match
//! guards, and latches. `cargo xtask lint` costs a second; the differential tests find the same faults later and less plainly.

use anyhow::{bail, Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, Pat, Stmt, UnOp};

/// Lint all kernels under `root/rtl/src`.
pub fn run(root: &Path) -> Result<()> {
    let mut files = vec![];
    collect(&root.join("rtl/src"), &mut files)?;
    files.sort();
    let mut found = vec![];
    for f in &files {
        let text = std::fs::read_to_string(f)?;
        let shown = f.strip_prefix(root).unwrap_or(f).display().to_string();
        found.extend(
            check(&text)
                .with_context(|| shown.clone())?
                .into_iter()
                .map(|(line, rule, m)| format!("{shown}:{line}: [{rule}] {m}")),
        );
    }
    for f in &found {
        eprintln!("{f}");
    }
    if !found.is_empty() {
        bail!("{} finding(s) in RTL kernels", found.len());
    }
    println!("lint: {} files, no finding", files.len());
    Ok(())
}

fn collect(dir: &Path, to: &mut Vec<PathBuf>) -> Result<()> {
    for e in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let p = e?.path();
        if p.is_dir() {
            collect(&p, to)?;
        } else if p.extension().is_some_and(|x| x == "rs") {
            to.push(p);
        }
    }
    Ok(())
}

/// Line, rule and text of every finding in one source file.
pub fn check(text: &str) -> Result<Vec<(usize, &'static str, String)>> {
    let file = syn::parse_file(text)?;
    let mut v = Kernels::default();
    v.visit_file(&file);
    v.found.sort();
    v.found.dedup();
    Ok(v.found)
}

#[derive(Default)]
struct Kernels {
    found: Vec<(usize, &'static str, String)>,
}

impl<'a> Visit<'a> for Kernels {
    fn visit_impl_item_fn(&mut self, f: &'a syn::ImplItemFn) {
        if !f.attrs.iter().any(|a| a.path().is_ident("hdl_gen")) {
            return;
        }
        let mut k = Kernel::default();
        k.visit_block(&f.block);
        self.found.append(&mut k.found);
        self.found.append(&mut latches(&f.block));
    }
}

#[derive(Default)]
struct Kernel {
    found: Vec<(usize, &'static str, String)>,
}

fn bare(e: &Expr) -> &Expr {
    match e {
        Expr::Paren(p) => bare(&p.expr),
        Expr::Group(g) => bare(&g.expr),
        _ => e,
    }
}

fn is_compare(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_)
    )
}

/// An operation whose value depends on the width at which it is computed, in a place where that width is the surrounding one.
fn grows(e: &Expr, with_not: bool) -> bool {
    match bare(e) {
        Expr::Binary(b) => {
            matches!(
                b.op,
                BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Shl(_)
            ) || grows(&b.left, with_not)
                || (!matches!(b.op, BinOp::Shr(_)) && grows(&b.right, with_not))
        }
        Expr::Unary(u) => {
            (with_not && matches!(u.op, UnOp::Not(_)))
                || matches!(u.op, UnOp::Neg(_))
                || grows(&u.expr, with_not)
        }
        // transparent in the generated text
        Expr::MethodCall(m)
            if ["into", "to_bits", "index"].contains(&m.method.to_string().as_str()) =>
        {
            grows(&m.receiver, with_not)
        }
        _ => false,
    }
}

/// A value that the generated text writes with a width of its own: a literal or a cast.
fn wide(e: &Expr) -> bool {
    match bare(e) {
        Expr::Lit(l) => matches!(l.lit, Lit::Int(_)),
        Expr::Call(_) => true,
        Expr::Binary(b) => wide(&b.left) || wide(&b.right),
        Expr::MethodCall(m) => m.method == "into" && wide(&m.receiver),
        _ => false,
    }
}

fn turbofish(e: &Expr) -> Option<Vec<u64>> {
    let Expr::Path(p) = e else { return None };
    let syn::PathArguments::AngleBracketed(a) = &p.path.segments.last()?.arguments else {
        return None;
    };
    a.args
        .iter()
        .map(|a| match a {
            syn::GenericArgument::Const(Expr::Lit(l)) => match &l.lit {
                Lit::Int(i) => i.base10_parse().ok(),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

impl Kernel {
    fn say(&mut self, at: &impl Spanned, rule: &'static str, m: &str) {
        self.found.push((at.span().start().line, rule, m.into()));
    }
}

impl<'a> Visit<'a> for Kernel {
    fn visit_expr_binary(&mut self, b: &'a syn::ExprBinary) {
        if is_compare(&b.op) {
            for (e, other) in [(&b.left, &b.right), (&b.right, &b.left)] {
                let bitwise =
                    |o: &BinOp| matches!(o, BinOp::BitAnd(_) | BinOp::BitOr(_) | BinOp::BitXor(_));
                if matches!(&**e, Expr::Binary(x) if bitwise(&x.op)) {
                    self.say(
                        b,
                        "precedence",
                        "`a & b == c` means another thing in Verilog: put the sub-expression in parentheses",
                    );
                }
                if grows(e, false) {
                    self.say(
                        b,
                        "compare",
                        "arithmetic inside a comparison is computed wider than in Rust: put it into an exact-width Local first",
                    );
                } else if grows(e, true) && wide(other) {
                    self.say(
                        b,
                        "not",
                        "`!x` compared with a literal or cast is computed wider than in Rust: put it into an exact-width Local first",
                    );
                }
            }
        }
        if matches!(b.op, BinOp::Shr(_)) && (grows(&b.left, true)) {
            self.say(
                b,
                "shift",
                "the carry of an operation comes back with a right shift: put the operation into an exact-width Local first",
            );
        }
        visit::visit_expr_binary(self, b);
    }

    fn visit_expr_call(&mut self, c: &'a syn::ExprCall) {
        let name = match &*c.func {
            Expr::Path(p) => p
                .path
                .segments
                .last()
                .map(|s| s.ident.to_string())
                .unwrap_or_default(),
            _ => String::new(),
        };
        if name == "bit_cast" {
            let narrows = matches!(turbofish(&c.func).as_deref(), Some([m, n]) if m <= n);
            if let (false, Some(a)) = (narrows, c.args.first()) {
                if grows(a, false) {
                    self.say(
                        c,
                        "cast",
                        "a widening `bit_cast` keeps the carry that Rust drops: put the operation into an exact-width Local first",
                    );
                } else if grows(a, true) {
                    self.say(
                        c,
                        "not",
                        "a widening `bit_cast` of `!x` sets the new bits: put `!x` into an exact-width Local first",
                    );
                }
            }
        }
        visit::visit_expr_call(self, c);
    }

    fn visit_expr_method_call(&mut self, m: &'a syn::ExprMethodCall) {
        let name = m.method.to_string();
        let computed = matches!(
            bare(&m.receiver),
            Expr::Binary(_) | Expr::Unary(_) | Expr::Call(_)
        );
        if ["get_bit", "get_bits", "replace_bit"].contains(&name.as_str()) && computed {
            self.say(
                m,
                "slice",
                "a slice of an expression is not valid Verilog: copy it to a Local first",
            );
        }
        if ["any", "all", "xor"].contains(&name.as_str()) && grows(&m.receiver, false) {
            self.say(m, "cast", "a reduction of arithmetic sees the carry: put the operation into an exact-width Local first");
        }
        visit::visit_expr_method_call(self, m);
    }

    fn visit_arm(&mut self, a: &'a syn::Arm) {
        if matches!(a.pat, Pat::Guard(_)) {
            self.say(
                a,
                "guard",
                "match guards are dropped without a message: use `if` inside the arm",
            );
        }
        if let Pat::Lit(l) = &a.pat {
            if matches!(&l.lit, Lit::Int(i) if i.to_string().starts_with("0x")) {
                self.say(
                    a,
                    "hex-arm",
                    "a hexadecimal match arm is not valid Verilog: write it in decimal",
                );
            }
        }
        visit::visit_arm(self, a);
    }
}

/// What a kernel assigns: on every path, and at all.
#[derive(Clone, Default)]
struct Flow {
    sure: BTreeSet<String>,
    seen: Vec<(String, usize)>,
}

fn latches(b: &syn::Block) -> Vec<(usize, &'static str, String)> {
    let mut f = Flow::default();
    f.block(b);
    let mut told = BTreeSet::new();
    f.seen
        .iter()
        .filter(|(k, _)| !f.has(k) && told.insert(k.clone()))
        .map(|(k, line)| {
            let m = format!("`{k}` is not assigned on every path (a latch): give it a value before the condition");
            (*line, "latch", m)
        })
        .collect()
}

impl Flow {
    /// Assigned as a whole, or (field) as part of a whole.
    fn has(&self, k: &str) -> bool {
        self.sure.contains(k)
            || k.rsplit_once(".next.")
                .is_some_and(|(b, _)| self.sure.contains(&format!("{b}.next")))
    }

    fn block(&mut self, b: &syn::Block) {
        for s in &b.stmts {
            match s {
                Stmt::Expr(e, _) => self.expr(e),
                Stmt::Macro(m) => self.mac(&m.mac),
                _ => {}
            }
        }
    }

    fn mac(&mut self, m: &syn::Macro) {
        let name = m
            .path
            .segments
            .last()
            .map(|s| s.ident.to_string())
            .unwrap_or_default();
        let words: Vec<String> = m
            .tokens
            .to_string()
            .split(',')
            .map(|w| w.trim().to_string())
            .collect();
        for w in words.iter().skip(2) {
            self.sure.insert(format!("{w}.clock.next"));
            if name == "dff_setup" {
                self.sure.insert(format!("{w}.d.next"));
            }
        }
    }

    fn expr(&mut self, e: &Expr) {
        match e {
            Expr::Assign(a) => {
                let k = key(&a.left);
                self.seen.push((k.clone(), a.span().start().line));
                self.sure.insert(k);
            }
            Expr::Block(b) => self.block(&b.block),
            Expr::ForLoop(f) => self.block(&f.body),
            Expr::Macro(m) => self.mac(&m.mac),
            Expr::If(i) => {
                let mut t = Flow {
                    sure: self.sure.clone(),
                    seen: vec![],
                };
                t.block(&i.then_branch);
                let mut o = Flow {
                    sure: self.sure.clone(),
                    seen: vec![],
                };
                if let Some((_, x)) = &i.else_branch {
                    o.expr(x);
                }
                self.join(vec![t, o]);
            }
            Expr::Match(m) => {
                let arms = m
                    .arms
                    .iter()
                    .map(|a| {
                        let mut f = Flow {
                            sure: self.sure.clone(),
                            seen: vec![],
                        };
                        f.expr(&a.body);
                        f
                    })
                    .collect();
                self.join(arms);
            }
            _ => {}
        }
    }

    fn join(&mut self, parts: Vec<Flow>) {
        let mut sure = parts.first().map(|p| p.sure.clone()).unwrap_or_default();
        for p in &parts {
            sure = sure.into_iter().filter(|k| p.has(k)).collect();
        }
        self.sure.extend(sure);
        self.seen.extend(parts.into_iter().flat_map(|p| p.seen));
    }
}

/// `self.a[i].d.next` as `a[].d.next`: an array counts as one thing, what escapes is left to Verilator's LATCH error.
fn key(e: &Expr) -> String {
    match e {
        Expr::Field(f) => {
            let m = match &f.member {
                syn::Member::Named(n) => n.to_string(),
                syn::Member::Unnamed(i) => i.index.to_string(),
            };
            match key(&f.base).as_str() {
                "self" => m,
                b => format!("{b}.{m}"),
            }
        }
        Expr::Index(i) => key(&i.expr) + "[]",
        Expr::Path(p) => p
            .path
            .segments
            .last()
            .map(|s| s.ident.to_string())
            .unwrap_or_default(),
        Expr::Paren(p) => key(&p.expr),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(name: &str) -> Vec<(String, String)> {
        let d = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests")
            .join(name);
        let mut v: Vec<_> = std::fs::read_dir(d)
            .unwrap()
            .map(|e| e.unwrap().path())
            .map(|p| {
                (
                    p.file_stem().unwrap().to_string_lossy().to_string(),
                    std::fs::read_to_string(p).unwrap(),
                )
            })
            .collect();
        v.sort();
        v
    }

    /// Each bad file is named after the rule that must refuse it, and every line marked `//~` is found, no other.
    #[test]
    fn bad_kernels_are_refused() {
        let files = dir("lint_bad");
        assert!(files.len() >= 7);
        for (rule, text) in files {
            let want: Vec<usize> = text
                .lines()
                .enumerate()
                .filter(|(_, l)| l.contains("//~"))
                .map(|(i, _)| i + 1)
                .collect();
            let found = check(&text).unwrap();
            let mut lines: Vec<usize> = found.iter().map(|f| f.0).collect();
            lines.dedup();
            assert_eq!(lines, want, "{rule}: {found:?}");
            assert!(found.iter().all(|f| f.1 == rule), "{rule}: {found:?}");
        }
    }

    #[test]
    fn good_kernels_pass() {
        for (name, text) in dir("lint_good") {
            assert_eq!(check(&text).unwrap(), vec![], "{name}");
        }
    }
}
