use metaroce_tb::{bench::*, scale::*};
fn main() {
    let mut p = many(2048);
    for q in [1024, 2048] {
        let r = flow(&mut p, &small_writes(q, q, 6144), &mut Alone);
        println!("{q} {r:?}\n{:?}", p.counters());
    }
}
