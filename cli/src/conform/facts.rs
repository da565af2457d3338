//! What was found out about a device, whatever its manifest says.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// So much works, and one more is refused.
    Most(u64),
    /// So much works; more was not tried.
    Took(u64),
    /// So much works, and the driver says that it offers no more, whatever the card could.
    Driver(u64),
    /// It is this.
    Is(u64),
}

/// By capability, and figure or word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    pub device: String,
    /// Version that the driver reports.
    pub version: String,
    /// Capabilities that were seen to work, or not to.
    pub works: BTreeMap<String, bool>,
    pub words: BTreeMap<String, BTreeMap<String, bool>>,
    pub figures: BTreeMap<String, BTreeMap<String, Fact>>,
    /// Of limits that several capabilities share: their sum.
    pub sums: BTreeMap<String, Fact>,
    /// Limits that the driver reports.
    pub said: BTreeMap<String, u64>,
    /// Scope of atomics.
    pub atomicity: Option<String>,
    /// What `ibv_query_qp_data_in_order` says.
    #[serde(default)]
    pub data_in_order: Option<bool>,
    /// The device to which traffic for the wire went.
    #[serde(default)]
    pub peer: Option<String>,
    /// Traffic that a capture of the run holds.
    #[serde(default)]
    pub sent: Vec<Sent>,
    /// RoCEv2 packets of the captures that were looked at.
    #[serde(default)]
    pub frames: u64,
    #[serde(default)]
    pub rates: Vec<Rate>,
    /// Shortest and longest time in ns, by code.
    #[serde(default)]
    pub timers: BTreeMap<String, BTreeMap<u8, (u64, u64)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Write,
    Read,
    /// A request that nobody answers.
    Timeout,
    /// A message for which there is no buffer.
    Rnr,
}

/// Traffic that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    pub kind: Kind,
    /// Numbers of the queue pairs to which its packets go, and of those from which they come where the way back matters.
    pub to: Vec<u32>,
    pub from: Vec<u32>,
    pub mtu: u32,
    pub message: u64,
    /// Of a timer.
    pub code: u8,
}

/// A rate that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    pub id: String,
    pub name: String,
    pub mtu: u32,
    pub qps: u32,
    pub message: u64,
    pub value: u64,
}

impl Facts {
    pub fn works(&mut self, id: &str, yes: bool) {
        self.works.insert(id.into(), yes);
    }
    pub fn word(&mut self, id: &str, word: &str, yes: bool) {
        let words = self.words.entry(id.into()).or_default();
        words.insert(word.into(), yes);
        let any = words.values().any(|y| *y);
        self.works.insert(id.into(), any);
    }
    /// A limit that is the driver's own, as it says.
    pub fn of_driver(&self, what: &str, fact: Fact) -> Fact {
        match fact {
            Fact::Most(n) if self.said.get(what) == Some(&n) => Fact::Driver(n),
            fact => fact,
        }
    }
    pub fn figure(&mut self, id: &str, name: &str, fact: Fact) {
        let figures = self.figures.entry(id.into()).or_default();
        figures.insert(name.into(), fact);
        self.works
            .entry(id.into())
            .or_insert(!matches!(fact, Fact::Most(0) | Fact::Is(0)));
    }
}
