//! N cards and the fabric between them, with one clock.

use crate::{
    fabric::{Fabric, FabricConfig, Faults, Seen},
    hostport::HostPortConfig,
    memory::{FlatMemory, Memory},
    node::{MmioWrite, Node},
};
use metaroce_hdl_spec::{
    addr, cmd,
    config::{Config, MINI, SIM_100G},
    regs,
};
use serde::{Deserialize, Serialize};

/// Addresses of a simulated card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardId {
    pub index: usize,
    pub mac: [u8; 6],
    pub ipv4: [u8; 4],
}

impl CardId {
    pub fn new(index: usize) -> CardId {
        let n = index as u8 + 1;
        CardId {
            index,
            mac: [0x02, 0x4D, 0x52, 0, 0, n],
            ipv4: [10, 0, 0, n],
        }
    }
    pub fn gids(&self) -> [[u8; 16]; 3] {
        addr::gids(self.mac, self.ipv4, self.index as u16)
    }
}

/// What a process may have on a card; None = what there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub mrs: Option<u16>,
    pub qps: Option<u16>,
    pub cqs: Option<u16>,
    pub pds: Option<u16>,
}

/// Which cards have no transport (`mini`); the others are `sim-100g`. Bit `i` is card `i`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minis(pub u8);

impl Minis {
    pub const ALL: Minis = Minis(u8::MAX);
    /// Configuration of a card.
    pub fn hw(self, card: usize) -> &'static Config {
        if self.0 >> card & 1 != 0 {
            &MINI
        } else {
            &SIM_100G
        }
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct SimConfig {
    pub cards: usize,
    #[serde(default)]
    pub minis: Minis,
    pub fabric: FabricConfig,
    pub host: HostPortConfig,
    pub limits: Limits,
}

impl SimConfig {
    /// Two cards with such faults of the wire between them.
    pub fn pair(faults: Faults, seed: u64) -> SimConfig {
        SimConfig {
            cards: 2,
            fabric: FabricConfig {
                faults,
                seed,
                ..FabricConfig::default()
            },
            ..SimConfig::default()
        }
    }
}

pub struct Sim {
    pub nodes: Vec<Node>,
    pub fabric: Fabric,
    pub ids: Vec<CardId>,
    pub hw: Vec<&'static Config>,
}

/// Bus address of the administrator's command block (PASID 0).
const ADMIN_BLOCK: u64 = 0x1000;

impl Sim {
    /// Builds and brings up the cards; `memory` makes the host memory of each.
    pub fn new(cfg: &SimConfig, mut memory: impl FnMut(usize) -> Box<dyn Memory>) -> Sim {
        assert!(cfg.cards <= 8, "at most 8 cards");
        let hw: Vec<_> = (0..cfg.cards).map(|k| cfg.minis.hw(k)).collect();
        let mut fabric = Fabric::new(cfg.fabric, cfg.cards);
        let ids: Vec<CardId> = (0..cfg.cards).map(CardId::new).collect();
        let nodes = ids
            .iter()
            .map(|id| {
                fabric.attach(id.index, id.mac);
                let seed = cfg.fabric.seed.wrapping_mul(31) + id.index as u64;
                let mut n = Node::new(
                    hw[id.index],
                    cfg.fabric.rate_mbps,
                    cfg.host,
                    seed,
                    memory(id.index),
                );
                bring_up(&mut n, hw[id.index], id, seed, &cfg.limits);
                n
            })
            .collect();
        let mut s = Sim {
            nodes,
            fabric,
            ids,
            hw,
        };
        // All cards start at the same time.
        let t = s.nodes.iter().map(|n| n.now_ps).max().unwrap_or(0);
        for n in &mut s.nodes {
            n.skip_to(t);
        }
        s
    }

    /// Scripted hosts: flat memory, one thread, repeats to the bit.
    pub fn scripted(cfg: &SimConfig) -> Sim {
        Sim::new(cfg, |_| Box::new(FlatMemory::default()))
    }

    /// Host memory of a scripted card.
    pub fn mem(&mut self, card: usize) -> &mut FlatMemory {
        self.nodes[card]
            .mem
            .any()
            .downcast_mut()
            .expect("a scripted simulation")
    }

    /// One cycle of every card, then the fabric.
    pub fn step(&mut self) {
        for n in &mut self.nodes {
            n.step();
        }
        self.exchange();
    }

    /// Moves frames that were sent to where they go.
    pub fn exchange(&mut self) {
        if let Some(tap) = &mut self.fabric.tap {
            for (p, n) in self.nodes.iter_mut().enumerate() {
                for f in std::mem::take(n.taken.get_or_insert_default()) {
                    tap(Seen::Taken, p, &f);
                }
            }
        }
        if self.nodes.iter().all(|n| n.sent.is_empty()) {
            return;
        }
        let sent = self
            .nodes
            .iter_mut()
            .enumerate()
            .flat_map(|(p, n)| std::mem::take(&mut n.sent).into_iter().map(move |f| (p, f)))
            .collect();
        for d in self.fabric.pass(sent) {
            self.nodes[d.port].deliver(d.at_ps, d.frame);
        }
    }

    /// True when no card, host port or wire has anything to do by itself right now.
    pub fn idle(&self) -> bool {
        self.nodes.iter().all(Node::idle)
    }

    /// One cycle; jumps to the next event first when everything is silent. False when there is no next event.
    pub fn step_or_skip(&mut self) -> bool {
        if self.idle() {
            match self.nodes.iter().filter_map(Node::next_event_ps).min() {
                Some(t) => {
                    for n in &mut self.nodes {
                        n.skip_to(t);
                    }
                }
                None => {
                    self.step();
                    return false;
                }
            }
        }
        self.step();
        true
    }

    pub fn now_ps(&self) -> u64 {
        self.nodes.first().map_or(0, |n| n.now_ps)
    }
}

/// What the administrator does at power-up: addresses, limits, GID table.
fn bring_up(n: &mut Node, hw: &Config, id: &CardId, seed: u64, limits: &Limits) {
    use regs::admin;
    let mac = id.mac;
    let lo = u32::from_le_bytes([mac[0], mac[1], mac[2], mac[3]]);
    let hi = u16::from_le_bytes([mac[4], mac[5]]) as u32;
    // Let the tables' reset sweep finish before the first command.
    for _ in 0..20_000 {
        n.step();
        if n.idle() {
            break;
        }
    }
    assert_eq!(
        n.mmio_read(admin::ID),
        admin::ID_VALUE,
        "card bug: identification register"
    );
    let two = |low: Option<u16>, high: Option<u16>| {
        low.unwrap_or(u16::MAX) as u32 | (high.unwrap_or(u16::MAX) as u32) << 16
    };
    for (a, v) in [
        (admin::MAC_LO, lo),
        (admin::MAC_HI, hi),
        // MPS 512, MRRS 4096.
        (admin::PCIE_LIMITS, 2 | 5 << 4),
        (
            admin::SEED,
            (seed as u32) ^ (seed >> 32) as u32 ^ 0x4D52_4345,
        ),
        (admin::LIMIT_MR_QP, two(limits.mrs, limits.qps)),
        (admin::LIMIT_CQ_PD, two(limits.cqs, limits.pds)),
        (admin::LINK, 1),
    ] {
        n.mmio.push_back(MmioWrite::u32(a, v));
    }
    if !hw.transport {
        while !n.mmio.is_empty() {
            n.step();
        }
        return;
    }
    for (k, gid) in id.gids().iter().enumerate() {
        let mut c = [0u8; cmd::CMD_BYTES];
        cmd::set_gid::index.put(&mut c, k as u64);
        cmd::set_gid::ip6.put(&mut c, (k != 1) as u64);
        cmd::set_gid::mac.put_bytes(&mut c, &mac);
        cmd::set_gid::gid.put_bytes(&mut c, gid);
        let r = admin_command(n, cmd::op::SET_GID, 0, &mut c);
        assert_eq!(r, 0, "card bug: SET_GID {k} refused with {r}");
    }
}

/// Runs an administrator's command on a card to its end, clocking that card alone.
/// `c` holds the command's own fields. Returns the status.
pub fn admin_command(n: &mut Node, op: u8, id: u32, c: &mut [u8; cmd::CMD_BYTES]) -> u8 {
    let seq = (n.cycles as u32) | 1;
    cmd::head::opcode.put(c, op as u64);
    cmd::head::seq.put(c, seq as u64);
    cmd::head::id.put(c, id as u64);
    n.mem.write(0, ADMIN_BLOCK, &c[..]);
    n.mmio
        .push_back(MmioWrite::u64(regs::doorbell::CMD, ADMIN_BLOCK));
    for _ in 0..2_000_000 {
        n.step();
        if n.cycles.is_multiple_of(16) {
            let t = n
                .mem
                .start_read(0, ADMIN_BLOCK + cmd::RESP_OFFSET as u64, 64);
            let r = n
                .mem
                .finish_read(t)
                .expect("the administrator's memory is always there");
            if cmd::response::seq.get(&r) == seq as u64 {
                return cmd::response::status.get(&r) as u8;
            }
        }
    }
    panic!("card bug: administrator's command {op} has no answer");
}
