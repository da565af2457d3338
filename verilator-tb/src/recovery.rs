//! How fast a lost packet is asked for and sent again, in cycles.

use crate::{
    fabric::{Frame, Seen},
    pair::Pair,
    script::Conn,
    sim::SimConfig,
};
use metaroce_hdl_spec::wqe::op;
use std::sync::{Arc, Mutex};

/// Cycles of the card that acts.
#[derive(Debug, Clone, Copy)]
pub struct Recovery {
    /// Last word of the first packet behind the gap -> last word of the NAK (READ: of the new request) on the wire.
    pub gap_to_nak: u64,
    /// Last word of the NAK (or request) -> first host read of the payload that was lost.
    pub nak_to_read: u64,
}

#[derive(Default)]
struct Progress {
    data: usize,
    /// PSN of the packet that was lost.
    lost: Option<u32>,
    gap: bool,
    asked: bool,
    arrived: bool,
}

/// PSN of a frame over IPv4.
fn psn(f: &Frame) -> u32 {
    u32::from_be_bytes(f.data[50..54].try_into().expect("a whole BTH")) & 0xFF_FFFF
}

/// One message of `packets` packets of 1024 bytes, of which the one with index `lost` does not arrive.
pub fn recovery(what: u8, packets: usize, lost: usize) -> Recovery {
    const MTU: u64 = 1024;
    assert!(lost + 1 < packets);
    let conn = Conn {
        mtu: 3,
        timeout: 20,
        ..Conn::default()
    };
    let len = packets as u64 * MTU;
    let mut p = Pair::new(&SimConfig::default(), 1, len, &conn);
    // the end that has the payload, and the one that waits for it
    let (src, dst) = if what == op::READ { (1, 0) } else { (0, 1) };
    // The page lists come onto the cards, as in the middle of a stream.
    for e in 0..2 {
        let wr = p.rdma(e, op::WRITE, 0, 0, len as u32);
        p.post(e, 0, &wr);
        assert_eq!(p.wait(e, 100_000).status, 0);
    }
    p.run(2_000);
    let seen = Arc::new(Mutex::new(Progress::default()));
    let s = seen.clone();
    p.sim.fabric.drop_if = Some(Box::new(move |port, f| {
        let mut s = s.lock().expect("one thread");
        if port != src || f.data.len() < MTU as usize {
            return false;
        }
        s.data += 1;
        let hit = s.data == lost + 1 && s.lost.is_none();
        if hit {
            s.lost = Some(psn(f));
        }
        hit
    }));
    let s = seen.clone();
    p.sim.fabric.tap = Some(Box::new(move |what, port, f| {
        let mut s = s.lock().expect("one thread");
        match what {
            Seen::Taken if port == dst && f.data.len() >= MTU as usize => {
                s.gap |= s.lost.is_some_and(|l| psn(f) == (l + 1) & 0xFF_FFFF);
            }
            Seen::Sent if port == dst && s.gap => s.asked = true,
            Seen::Taken if port == src && s.asked => s.arrived = true,
            _ => {}
        }
    }));
    let wr = match what {
        op::SEND => {
            let (to, key) = (p.ends[1].buf, p.ends[1].key);
            p.recv(1, 0, &[(to, len as u32, key)]);
            p.send(0, 0, len as u32, None)
        }
        _ => p.rdma(0, what, 0, 0, len as u32),
    };
    p.post(0, 0, &wr);
    let at = p.ends[src].buf + lost as u64 * MTU;
    let (mut gap, mut asked, mut arrived) = (None, None, None);
    let limit = p.sim.nodes[0].cycles + 100_000;
    loop {
        p.sim.step();
        assert!(p.sim.nodes[0].cycles < limit, "nothing is sent again");
        let now = [src, dst].map(|k| p.sim.nodes[k].cycles);
        let s = seen.lock().expect("one thread");
        if s.gap {
            gap.get_or_insert(now[1]);
        }
        if s.asked {
            asked.get_or_insert(now[1]);
        }
        if s.arrived && arrived.is_none() {
            arrived = Some(now[0]);
            drop(s);
            p.sim.mem(src).watch = Some((at, at + MTU, false));
            continue;
        }
        drop(s);
        if arrived.is_some() && p.sim.mem(src).watch.is_some_and(|w| w.2) {
            let c = p.wait(0, 100_000);
            assert_eq!(c.status, 0);
            return Recovery {
                gap_to_nak: asked.expect("before arrival") - gap.expect("before the request"),
                nak_to_read: now[0] - arrived.expect("just looked"),
            };
        }
    }
}
