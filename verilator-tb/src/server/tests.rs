//! Cards without transport behind the socket: frames between two processes, and what is left of one that ends.

use super::*;
use crate::{
    craft,
    fuzz::socket::Visitor,
    raw::ring,
    sim::{Minis, Sim},
};
use metaroce_hdl_spec::regs::{doorbell, raw_head, raw_tx, RAW_RX_FRAME, RAW_SLOT};
use metaroce_protocol::{Opcode, PacketRepr, Psn};

const TX: u64 = 1 << 20;
const RX: u64 = 2 << 20;
const SLOT: u64 = RAW_SLOT as u64;
const PATIENCE: Duration = Duration::from_secs(30);

fn until(what: &str, mut there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < PATIENCE, "no {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn rings(v: &Visitor) {
    let bell = |at, base| v.doorbell(at, u64::from_le_bytes(ring(v.m.base + base, 2, true)));
    bell(doorbell::RAW_TX_RING, TX);
    bell(doorbell::RAW_RX_RING, RX);
}

fn send(v: &Visitor, index: u64, frame: &[u8]) {
    v.m.poke(TX + index * SLOT, frame);
    let mut b = [0; 8];
    raw_tx::index.put(&mut b, index);
    raw_tx::len.put(&mut b, frame.len() as u64);
    v.doorbell(doorbell::RAW_TX, u64::from_le_bytes(b));
}

fn counter(c: &Control, card: usize, name: &str) -> u64 {
    let r = c.reports();
    r[card].counters.iter().find(|(n, _)| n == name).unwrap().1
}

/// The rings of a process that has ended are off before another one gets its PASID.
#[test]
fn a_process_that_ends() {
    let sim = SimConfig {
        cards: 2,
        minis: Minis::ALL,
        ..SimConfig::default()
    };
    // a frame from card 0 to PASID 1 of card 1
    let p = PacketRepr::new(Opcode::RC_SEND_ONLY, 1 << 18 | 77, Psn::new(3));
    let mut frame = craft::emit(&craft::repr(&Sim::scripted(&sim), 0, p), &[0x5A; 1500]);
    frame.truncate(frame.len() - 4);
    let dir = std::env::temp_dir().join(format!("mr-raw-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let cfg = ServerConfig {
        sim,
        socket: dir.join("s"),
        pcap: None,
        trace: None,
        direct_dma: false,
        card_time: false,
        log: Some(dir.join("log")),
    };
    let (tell, told) = std::sync::mpsc::channel();
    let path = cfg.socket.clone();
    let server = thread::spawn(move || serve(&cfg, |c| tell.send(c).unwrap()).unwrap());
    let control = told.recv().unwrap();
    let a = Visitor::new(&path, 0).unwrap();
    let b = Visitor::new(&path, 1).unwrap();
    assert_eq!((a.pasid, b.pasid), (1, 1));
    rings(&a);
    rings(&b);
    send(&a, 0, &frame);
    let head = |v: &Visitor, k: u64| v.m.peek(RX + k * SLOT, 64);
    until("frame", || raw_head::phase.get(&head(&b, 0)) == 1);
    assert_eq!(raw_head::len.get(&head(&b, 0)), frame.len() as u64);
    assert_eq!(b.m.peek(RX + RAW_RX_FRAME as u64, frame.len()), frame);
    until("word that it was read", || {
        a.m.peek(TX + 4 * SLOT, 2) == [1, 0]
    });
    drop(b);
    until("leave", || control.clients() == 1);
    // the next one has the same PASID, and no ring yet
    let c = Visitor::new(&path, 1).unwrap();
    assert_eq!(c.pasid, 1);
    send(&a, 1, &frame);
    until("drop", || counter(&control, 1, "rx_drop_qp") == 1);
    rings(&c);
    send(&a, 2, &frame);
    until("frame", || raw_head::phase.get(&head(&c, 0)) == 1);
    assert_eq!(head(&c, 1), [0; 64]);
    // one that ends in the middle of its own frames
    for k in 3..40 {
        send(&a, k, &frame);
    }
    drop(a);
    until("leave", || control.clients() == 1);
    let a = Visitor::new(&path, 0).unwrap();
    assert_eq!(a.pasid, 1);
    let sent = counter(&control, 0, "tx_frames");
    let refused = counter(&control, 0, "db_refused");
    send(&a, 0, &frame);
    until("refusal", || counter(&control, 0, "db_refused") > refused);
    assert_eq!(counter(&control, 0, "tx_frames"), sent);
    control.stop();
    server.join().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}
