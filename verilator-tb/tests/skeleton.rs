//! The thinnest path: one 64 B WRITE from the memory of one host to that of another, and its completion.

use metaroce_hdl_spec::wqe::op;
use metaroce_tb::{pair::Pair, script::Conn, sim::SimConfig};

#[test]
fn one_write_of_64_bytes() {
    let mut p = Pair::new(
        &SimConfig {
            cards: 2,
            ..SimConfig::default()
        },
        1,
        1 << 16,
        &Conn::default(),
    );
    let data: Vec<u8> = (1..=64).collect();
    p.fill(0, 0, &data);
    let wr = p.rdma(0, op::WRITE, 0, 4096, 64);
    let index = p.post(0, 0, &wr);
    let c = p.wait(0, 100_000);
    assert_eq!((c.status, c.opcode, c.index), (0, op::WRITE, index));
    // The completion says that the other card has the data; it is in memory a little later.
    for _ in 0..400 {
        p.sim.step();
    }
    assert_eq!(p.read(1, 4096, 64), data);
}
