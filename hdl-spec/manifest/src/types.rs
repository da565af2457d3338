//! The types of a manifest. Doc comments are the field table of `docs/hdl/fields.md` and the descriptions of the JSON Schema. Numbers are whole: what needs
//! more digits takes a smaller unit.
//!
//! CBOR keys are never used again for anything else. A new minor version may add fields and ids; a new word in an enumeration is a new major version.

use alloc::{string::String, vec::Vec};
use minicbor::{Decode, Encode};

macro_rules! data {
    ($($t:item)*) => {$(
        #[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
        #[cfg_attr(feature = "std", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
        #[cfg_attr(feature = "std", serde(rename_all = "snake_case"))]
        $t
    )*};
}
macro_rules! words {
    ($($(#[doc = $d:literal])* $name:ident { $($(#[doc = $vd:literal])* $v:ident = $n:literal $text:literal,)* })*) => {$(
        $(#[doc = $d])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
        #[cbor(index_only)]
        #[cfg_attr(feature = "std", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
        pub enum $name {
            $($(#[doc = $vd])* #[n($n)] #[cfg_attr(feature = "std", serde(rename = $text))] $v,)*
        }
        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$v),*];
            /// As it is written in JSON.
            pub const fn name(self) -> &'static str {
                match self { $($name::$v => $text),* }
            }
        }
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }
    )*};
}

words! {
    /// Whether the card has something.
    State {
        /// The card lacks it; the host does what `if_absent` says.
        Absent = 0 "absent",
        /// The card has it and the host switches it on.
        Present = 1 "present",
        /// The card has it, and it is on from power-up.
        Enabled = 2 "enabled",
    }
    /// How a figure came about, weakest first.
    Stage {
        /// It follows from the design; nothing was measured.
        Design = 0 "design",
        /// Measured on simulated RTL.
        RtlSimulation = 1 "rtl_simulation",
        /// From placement and routing for a chip.
        Placed = 2 "placed",
        /// Measured on a chip.
        Silicon = 3 "silicon",
    }
    /// What the card promises about a figure.
    Bound {
        /// What is measured is never more: less is better (a latency).
        AtMost = 0 "at_most",
        /// What is measured is never less: more is better (a rate).
        AtLeast = 1 "at_least",
        /// This, within `tolerance_ppm`.
        Exactly = 2 "exactly",
        /// A host may use so much and no more: more is better (a table).
        UpTo = 3 "up_to",
    }
    /// Unit of a figure.
    Unit {
        /// A number of things.
        Count = 0 "count",
        /// Bytes of 8 bits.
        Bytes = 1 "bytes",
        /// Bits.
        Bits = 2 "bits",
        /// Nanoseconds.
        Ns = 3 "ns",
        /// Cycles of `core_clock`.
        Cycles = 4 "cycles",
        /// Thousands of cycles a second.
        Khz = 5 "khz",
        /// Millions of bits a second.
        Mbps = 6 "mbps",
        /// Operations a second.
        OpsPerS = 7 "ops_per_s",
        /// Millionths.
        Ppm = 8 "ppm",
    }
    /// What a host has to do about something that a card lacks.
    Action {
        /// Do the same in software; programs see no difference but speed.
        Software = 0 "software",
        /// Refuse it to programs, with EOPNOTSUPP.
        Refuse = 1 "refuse",
        /// Go on with something else, or less, that the text names.
        Substitute = 2 "substitute",
        /// Nothing: it is information.
        Nothing = 3 "nothing",
    }
    /// Among whom a promise of order or atomicity holds.
    Scope {
        /// It is not promised.
        Nobody = 0 "nobody",
        /// Within one queue pair.
        QueuePair = 1 "queue_pair",
        /// Among all queue pairs of the card.
        Card = 2 "card",
        /// Also towards the processors of the host.
        Host = 3 "host",
    }
}

data! {
    /// A version: another major breaks, another minor adds.
    #[derive(Copy, PartialOrd, Ord)]
    #[cbor(map)]
    pub struct Version {
        /// Counts changes that break readers.
        #[n(0)]
        pub major: u32,
        /// Counts additions.
        #[n(1)]
        pub minor: u32,
    }

    /// What a card can do.
    #[cbor(map)]
    pub struct Manifest {
        /// Version of the language (not of the card).
        #[n(0)]
        pub schema: Version,
        /// Which card this is about.
        #[n(1)]
        pub card: Card,
        /// The register map, if the vendor publishes one. Nothing in the capabilities depends on it.
        #[n(2)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub register_map: Option<RegisterMap>,
        /// Firmware that the card needs.
        #[n(3)]
        pub firmware: Firmware,
        /// Capabilities, each id once.
        #[n(4)]
        pub capabilities: Vec<Capability>,
        /// Limits of several capabilities together, and where a figure falls off with scale. Each id once.
        #[n(5)]
        #[cbor(default)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Vec::is_empty"))]
        pub combined: Vec<Combined>,
        /// Order and atomicity. Each id once.
        #[n(6)]
        #[cbor(default)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Vec::is_empty"))]
        pub ordering: Vec<Order>,
        /// Timers. Each id once.
        #[n(7)]
        #[cbor(default)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Vec::is_empty"))]
        pub timers: Vec<Timer>,
        /// Known faults. Each id once.
        #[n(8)]
        #[cbor(default)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Vec::is_empty"))]
        pub errata: Vec<Erratum>,
        /// Where this comes from, if it is a part of what the card can do, such as what its driver says: of what it leaves out nothing is known. Else what is left out is
        /// absent. (Since 1.1.)
        #[n(9)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub partial: Option<String>,
    }

    /// Identity.
    #[cbor(map)]
    pub struct Card {
        /// Namespace of the vendor: lower-case letters, digits, `_`; also the prefix of the vendor's own ids.
        #[n(0)]
        pub vendor: String,
        /// Name of the card or of its configuration.
        #[n(1)]
        pub name: String,
        /// Version of the card.
        #[n(2)]
        pub version: String,
    }

    /// Where the registers are described. This layer is the vendor's own.
    #[cbor(map)]
    pub struct RegisterMap {
        /// Version of the host interface: a driver refuses another major.
        #[n(0)]
        pub abi: Version,
        /// File or address of the description.
        #[n(1)]
        pub file: String,
        /// Its form, such as `cmsis-svd`.
        #[n(2)]
        pub format: String,
    }

    /// Which firmware the card works with.
    #[cbor(map)]
    pub struct Firmware {
        /// Without firmware the card does nothing.
        #[n(0)]
        pub needed: bool,
        /// Oldest version that goes with this manifest.
        #[n(1)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub oldest: Option<String>,
        /// Newest version that was tested.
        #[n(2)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub newest: Option<String>,
    }

    /// One capability.
    #[cbor(map)]
    pub struct Capability {
        /// An id of the registry, or `vendor:name`.
        #[n(0)]
        pub id: String,
        /// Whether the card has it.
        #[n(1)]
        pub state: State,
        /// Which of several (opcodes, sizes, controllers), as words.
        #[n(2)]
        #[cbor(default)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Vec::is_empty"))]
        pub set: Vec<String>,
        /// Figures; names may come again with another condition or percentile.
        #[n(3)]
        #[cbor(default)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Vec::is_empty"))]
        pub limits: Vec<Limit>,
        /// How state and set are known. Needed unless the capability is absent.
        #[n(4)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub provenance: Option<Provenance>,
        /// What a host does without it. Needed for a vendor's own ids; for registered ones it is that of the registry, and may be left out.
        #[n(5)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub if_absent: Option<Fallback>,
        /// For people.
        #[n(6)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub note: Option<String>,
    }

    /// What a host does about an absent capability.
    #[cbor(map)]
    pub struct Fallback {
        /// The kind of answer.
        #[n(0)]
        pub action: Action,
        /// What exactly.
        #[n(1)]
        pub text: String,
    }

    /// Where a claim comes from, and what shows it.
    #[cbor(map)]
    pub struct Provenance {
        /// How it came about.
        #[n(0)]
        pub stage: Stage,
        /// Command or document that shows it; needed beyond `design`.
        #[n(1)]
        #[cbor(default)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "String::is_empty"))]
        pub test: String,
    }

    /// One figure.
    #[cbor(map)]
    pub struct Limit {
        /// Which figure of the capability, such as `max`.
        #[n(0)]
        pub name: String,
        /// What is promised.
        #[n(1)]
        pub bound: Bound,
        /// The figure.
        #[n(2)]
        pub value: u64,
        /// Its unit.
        #[n(3)]
        pub unit: Unit,
        /// When it holds; always, if not said.
        #[n(4)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub when: Option<Condition>,
        /// Share of the cases in which it holds, in millionths (990000 = 99 %); all, if not said.
        #[n(5)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub percentile_ppm: Option<u32>,
        /// How far off it may be, in millionths of the figure; 0, if not said. Whoever compares takes the worse end.
        #[n(6)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub tolerance_ppm: Option<u32>,
        /// How it is known.
        #[n(7)]
        pub provenance: Provenance,
    }

    /// When a figure holds. What is not said may be anything.
    #[derive(Default)]
    #[cbor(map)]
    pub struct Condition {
        /// Path MTU in bytes.
        #[n(0)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub mtu: Option<u32>,
        /// Queue pairs in use.
        #[n(1)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub qps: Option<u32>,
        /// Core clock in kHz.
        #[n(2)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub clock_khz: Option<u32>,
        /// Message length in bytes.
        #[n(3)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub message: Option<u64>,
        /// Latency of a host read in ns.
        #[n(4)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub host_read_ns: Option<u32>,
        /// Anything else, for people.
        #[n(5)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub text: Option<String>,
    }

    /// A limit of several capabilities together.
    #[cbor(map)]
    pub struct Combined {
        /// Lower-case name.
        #[n(0)]
        pub id: String,
        /// Ids of the capabilities that share it.
        #[n(1)]
        pub capabilities: Vec<String>,
        /// The rule.
        #[n(2)]
        pub text: String,
        /// Figures, one a point.
        #[n(3)]
        #[cbor(default)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Vec::is_empty"))]
        pub limits: Vec<Limit>,
    }

    /// A promise of order or atomicity, or that there is none.
    #[cbor(map)]
    pub struct Order {
        /// Lower-case name.
        #[n(0)]
        pub id: String,
        /// Among whom it holds.
        #[n(1)]
        pub scope: Scope,
        /// What is promised.
        #[n(2)]
        pub text: String,
        /// How it is known.
        #[n(3)]
        pub provenance: Provenance,
    }

    /// How a timer really behaves.
    #[cbor(map)]
    pub struct Timer {
        /// Lower-case name.
        #[n(0)]
        pub id: String,
        /// Time in ns for each code of the verbs interface, from code 0; 0 means that it never ends.
        #[n(1)]
        pub code_ns: Vec<u64>,
        /// At most this many millionths early.
        #[n(2)]
        pub early_ppm: u32,
        /// At most this many millionths late, and `late_ns` more.
        #[n(3)]
        pub late_ppm: u32,
        /// See `late_ppm`.
        #[n(4)]
        pub late_ns: u64,
        /// Steps in which the card counts it.
        #[n(5)]
        pub resolution_ns: u64,
        /// What happens at its end.
        #[n(6)]
        pub text: String,
        /// How it is known.
        #[n(7)]
        pub provenance: Provenance,
    }

    /// A known fault.
    #[cbor(map)]
    pub struct Erratum {
        /// The vendor's number of it.
        #[n(0)]
        pub id: String,
        /// Ids of the capabilities that it touches.
        #[n(1)]
        pub capabilities: Vec<String>,
        /// What happens.
        #[n(2)]
        pub text: String,
        /// What a host does about it; empty if nothing helps.
        #[n(3)]
        #[cbor(default)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "String::is_empty"))]
        pub workaround: String,
        /// Card version that is free of it, if there is one.
        #[n(4)]
        #[cfg_attr(feature = "std", serde(default, skip_serializing_if = "Option::is_none"))]
        pub fixed_in: Option<String>,
    }
}

impl Manifest {
    pub fn capability(&self, id: &str) -> Option<&Capability> {
        self.capabilities.iter().find(|c| c.id == id)
    }
}

impl Capability {
    /// The card has it.
    pub fn has(&self) -> bool {
        self.state != State::Absent
    }
}
