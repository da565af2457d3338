//! The network between the cards: a switch with rate, delay and seeded faults. It looks at the
//! destination MAC to route and at nothing else (at the opcode if only RC may be hit); damage is random bits.

use crate::{capture::Capture, rng::Rng};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, path::Path};

/// A frame on the wire (no FCS). `stamp` is simulation metadata that travels beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub data: Vec<u8>,
    pub stamp: u64,
    /// First bit on the wire, ps.
    pub start_ps: u64,
}

/// Preamble, FCS and inter-frame gap.
pub const WIRE_OVERHEAD: usize = 8 + 4 + 12;

/// Faults in parts per million, per frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    pub loss_ppm: u32,
    pub duplicate_ppm: u32,
    pub reorder_ppm: u32,
    pub corrupt_ppm: u32,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct FabricConfig {
    pub rate_mbps: u64,
    /// From the first bit sent to the first bit received.
    pub delay_ns: u64,
    /// Extra delay of a reordered frame is random in 0..=this.
    pub reorder_ns: u64,
    pub faults: Faults,
    /// Frames of UC and UD, which nobody resends, are spared.
    pub faults_on_rc_only: bool,
    pub seed: u64,
}

impl Default for FabricConfig {
    fn default() -> Self {
        FabricConfig {
            rate_mbps: 100_000,
            delay_ns: 500,
            reorder_ns: 2_000,
            faults: Faults::default(),
            faults_on_rc_only: false,
            seed: 1,
        }
    }
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct FabricStats {
    pub frames: u64,
    pub bytes: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub corrupted: u64,
    /// No port has the destination address.
    pub unroutable: u64,
}

/// One frame to hand to a port at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub port: usize,
    pub at_ps: u64,
    pub frame: Frame,
}

/// What a [`Tap`] is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The card of this port has sent the frame.
    Sent,
    /// The card of this port has taken the last word of the frame.
    Taken,
}

/// What a script does to one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Lose,
    /// A second copy comes this many ps after the first, past others if they are in its way.
    Twice(u64),
    /// It comes this many ps later, past others.
    Late(u64),
    /// This bit of it is flipped.
    Hurt(usize),
}

/// A script of faults: called with each frame's sender.
pub type Choose = Box<dyn FnMut(usize, &Frame) -> Fate + Send>;

/// An observer of the wire: (what, port, frame).
pub type Tap = Box<dyn FnMut(Seen, usize, &Frame) + Send>;

pub struct Fabric {
    cfg: FabricConfig,
    rng: Rng,
    macs: HashMap<[u8; 6], usize>,
    /// End of the last frame delivered to each port, ps (output queue of the switch).
    busy_ps: Vec<u64>,
    pcap: Option<Capture>,
    pub stats: FabricStats,
    /// A test's own fault: called for each frame, true = drop it.
    pub drop_if: Option<Box<dyn FnMut(usize, &Frame) -> bool + Send>>,
    /// The same with more than loss to choose from.
    pub fate: Option<Choose>,
    /// Shown every frame when it is sent and when it is taken.
    pub tap: Option<Tap>,
}

impl Fabric {
    pub fn new(cfg: FabricConfig, ports: usize) -> Fabric {
        Fabric {
            rng: Rng::new(cfg.seed ^ 0xFAB),
            cfg,
            macs: HashMap::new(),
            busy_ps: vec![0; ports],
            pcap: None,
            stats: FabricStats::default(),
            drop_if: None,
            fate: None,
            tap: None,
        }
    }
    pub fn attach(&mut self, port: usize, mac: [u8; 6]) {
        self.macs.insert(mac, port);
    }
    /// Writes every frame that a card sends to a pcap file, in time order.
    pub fn record(&mut self, path: &Path) -> anyhow::Result<()> {
        self.pcap = Some(Capture::create(path)?);
        Ok(())
    }
    /// Time of `len` frame bytes on the wire, ps.
    pub fn wire_ps(&self, len: usize) -> u64 {
        ((len.max(60) + WIRE_OVERHEAD) as u64 * 8 * 1_000_000).div_ceil(self.cfg.rate_mbps)
    }
    pub fn config(&self) -> &FabricConfig {
        &self.cfg
    }

    /// Passes the frames that the ports sent in one slice of time (sorted here, so that the result
    /// does not depend on which card ran first). Earliest delivery is `start + delay`.
    pub fn pass(&mut self, mut sent: Vec<(usize, Frame)>) -> Vec<Delivery> {
        sent.sort_by_key(|(port, f)| (f.start_ps, *port));
        let mut out = vec![];
        for (port, f) in sent {
            self.stats.frames += 1;
            self.stats.bytes += f.data.len() as u64;
            if let Some(p) = &mut self.pcap {
                p.add(f.start_ps, &f.data);
            }
            if let Some(t) = &mut self.tap {
                t(Seen::Sent, port, &f);
            }
            self.one(port, f, &mut out);
        }
        out
    }

    fn one(&mut self, from: usize, mut f: Frame, out: &mut Vec<Delivery>) {
        if let Some(d) = &mut self.drop_if {
            if d(from, &f) {
                self.stats.lost += 1;
                return;
            }
        }
        let fate = match &mut self.fate {
            Some(c) => c(from, &f),
            None => Fate::Pass,
        };
        if fate == Fate::Lose {
            self.stats.lost += 1;
            return;
        }
        let faults = self.cfg.faults;
        // One draw per kind and frame, so that the pattern of one kind does not depend on the others.
        let chances = (
            self.rng.chance(faults.loss_ppm),
            self.rng.chance(faults.duplicate_ppm),
            self.rng.chance(faults.reorder_ppm),
            self.rng.chance(faults.corrupt_ppm),
        );
        let (lose, dup, late, hurt) = match self.cfg.faults_on_rc_only && !is_rc(&f.data) {
            true => (false, false, false, false),
            false => chances,
        };
        if lose {
            self.stats.lost += 1;
            return;
        }
        let dst: [u8; 6] = match f.data.get(..6) {
            Some(d) => d.try_into().expect("six bytes"),
            None => return,
        };
        // A card may talk to itself: programs that take the first device they find have both ends on one card.
        let Some(&port) = self.macs.get(&dst) else {
            self.stats.unroutable += 1;
            return;
        };
        if hurt && f.data.len() > 14 {
            self.stats.corrupted += 1;
            // Behind the Ethernet header: the bad frame must arrive to be counted.
            let bit = self.rng.below((f.data.len() as u64 - 14) * 8);
            f.data[14 + bit as usize / 8] ^= 1 << (bit % 8);
        }
        if let Fate::Hurt(bit) = fate {
            self.stats.corrupted += 1;
            f.data[bit / 8] ^= 1 << (bit % 8);
        }
        let mut at = f.start_ps + self.cfg.delay_ns * 1000;
        if let Fate::Twice(by) = fate {
            self.stats.duplicated += 1;
            out.push(Delivery {
                port,
                at_ps: at + by,
                frame: f.clone(),
            });
        }
        if let Fate::Late(by) = fate {
            self.stats.reordered += 1;
            out.push(Delivery {
                port,
                at_ps: at + by,
                frame: f,
            });
            return;
        }
        if late {
            self.stats.reordered += 1;
            at += self.rng.below(self.cfg.reorder_ns + 1) * 1000;
            out.push(Delivery {
                port,
                at_ps: at,
                frame: f.clone(),
            });
        } else {
            at = at.max(self.busy_ps[port]);
            self.busy_ps[port] = at + self.wire_ps(f.data.len());
            out.push(Delivery {
                port,
                at_ps: at,
                frame: f.clone(),
            });
        }
        if dup {
            self.stats.duplicated += 1;
            let at = at + self.rng.below(self.cfg.reorder_ns + 1) * 1000;
            out.push(Delivery {
                port,
                at_ps: at,
                frame: f,
            });
        }
    }

    /// Completes the capture.
    pub fn finish(&mut self) {
        self.pcap = None;
    }
}

fn is_rc(frame: &[u8]) -> bool {
    metaroce_protocol::frame::Frame::new_without_icrc(frame)
        .is_ok_and(|v| v.roce.opcode().0 >> 5 == 0)
}
