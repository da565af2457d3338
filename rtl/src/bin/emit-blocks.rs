//! `emit-blocks DIR [NAME..]`: write the Verilog of the catalogue's blocks (those named, else all) into DIR.

use metaroce_rtl::catalog;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: emit-blocks DIR [NAME..]");
    let names: Vec<String> = args.collect();
    std::fs::create_dir_all(&dir).expect("output folder");
    let all = catalog::blocks();
    let small: Vec<_> = catalog::formal()
        .into_iter()
        .chain(catalog::cards())
        .collect();
    let wanted = |n: &str| names.iter().any(|x| x == n);
    for e in all
        .iter()
        .filter(|e| names.is_empty() || wanted(e.name))
        .chain(small.iter().filter(|e| wanted(e.name)))
    {
        std::fs::write(format!("{dir}/{}.v", e.name), (e.verilog)()).expect("write");
        println!("{}", e.name);
    }
}
