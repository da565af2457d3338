//! The registered capabilities: what each id means, in which unit its figures are, and what a host does when a card lacks it.
//!
//! An id is never used again for anything else. Other ids are `vendor:name`, of whoever owns that namespace.

use crate::{Action, Unit};
use metaroce_protocol::opcode::Opcode;
use Words::{Names, Numbers, Of, Packets, Ranges};

/// A registered id.
#[derive(Debug)]
pub struct Entry {
    pub id: &'static str,
    pub group: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Names of its figures and their units. A figure with one of these names has that unit; others are the vendor's own.
    pub figures: &'static [(&'static str, Unit)],
    /// What its set may hold, beside `vendor:name`.
    pub words: Words,
    pub action: Action,
    /// What a host does without it.
    pub fallback: &'static str,
}

/// Words of a set.
#[derive(Debug)]
pub enum Words {
    /// These; of most ids none.
    Of(&'static [&'static str]),
    /// Packets: the specification's names, and `CNP`. (Those of RD and XRC are not looked at.)
    Packets,
    /// Numbers.
    Numbers,
    /// Numbers of queue pairs, and ranges `first-last` of them.
    Ranges,
    /// The card's own names: `a-z0-9_`.
    Names,
}

impl Words {
    /// Whether a registered id's set may hold the word. `vendor:name` is always possible.
    pub fn take(&self, w: &str) -> bool {
        let number = |s: &str| {
            let digits = s.bytes().all(|c| c.is_ascii_digit());
            s.parse::<u32>().ok().filter(|_| digits)
        };
        vendor_id(w).is_some()
            || match self {
                Words::Of(list) => list.contains(&w),
                Words::Packets => {
                    w == "CNP"
                        || w.starts_with("RD ")
                        || w.starts_with("XRC ")
                        || Opcode::ALL.iter().any(|o| o.name() == w)
                }
                Words::Numbers => number(w).is_some(),
                Words::Ranges => {
                    let (first, last) = w.split_once('-').unwrap_or((w, w));
                    match (number(first), number(last)) {
                        (Some(a), Some(b)) => a <= b && b < 1 << 24,
                        _ => false,
                    }
                }
                Words::Names => is_name(w),
            }
    }
}

macro_rules! words {
    () => {
        Words::Of(&[])
    };
    ($w:expr) => {
        $w
    };
}
macro_rules! registry {
    ($($group:literal { $($id:ident $doc:literal [$($fig:ident $unit:ident),*] $(($words:expr))? $action:ident $fallback:literal;)* })*) => {
        /// The ids, as constants.
        pub mod id {
            $($(#[doc = $doc] #[allow(non_upper_case_globals)] pub const $id: &str = stringify!($id);)*)*
        }
        /// Every registered id, in the order of manifests and data sheets.
        pub const REGISTRY: &[Entry] = &[$($(Entry {
            id: stringify!($id),
            group: $group,
            doc: $doc,
            figures: &[$((stringify!($fig), Unit::$unit)),*],
            words: words!($($words)?),
            action: Action::$action,
            fallback: $fallback,
        }),*),*];
    };
}

registry! {
    "Offloads" {
        qp_state_offload "The states of a queue pair, their transitions and the attributes that these need are checked and kept by the card" [] Software "The host keeps the states and runs the transport over raw packets";
        atomic_op_accel "Compare and swap, fetch and add, executed by the responding card" [in_flight Count, operand Bytes] (Of(&["compare_and_swap", "fetch_and_add"])) Refuse "No atomics: programs are told `IBV_ATOMIC_NONE`, and requests are answered with a NAK";
        icrc_offload "The card makes and checks the invariant CRC" [] Software "The host computes it over each packet";
        segmentation_offload "Messages are cut into packets, and put together, by the card" [max_message Bytes] Software "The host makes each packet";
        retransmission_offload "Lost packets are found and sent again by the card" [] (Of(&["go_back_n", "selective"])) Software "The host keeps what is not acknowledged and sends it again";
        raw_packet_queues "Queues on which the host sends and receives whole frames" [] Substitute "No transport in software on this card: what else is absent and says `software` is refused";
        memory_windows "Windows that narrow a memory region" [max Count] (Of(&["type_1", "type_2a", "type_2b"])) Refuse "`ibv_alloc_mw` fails";
        remote_invalidation "SEND with invalidate and LOCAL_INV" [] Refuse "These requests fail when posted";
        shared_receive_queues "Receive queues of several queue pairs, by transport" [max Count, max_entries Count] (Of(&["rc", "uc", "ud", "xrc"])) Refuse "`ibv_create_srq` fails";
        inline_data "Payload inside the work request" [max Bytes] Software "The driver copies the data to memory that the card reads";
        direct_wqe "A work request travels with its doorbell" [] Substitute "The driver rings the doorbell only";
        resize_cq "Completion queues change their size in use" [] Refuse "`ibv_resize_cq` fails";
        rereg_mr "Memory regions change and keep their key" [] Refuse "`ibv_rereg_mr` fails";
        completion_timestamps "Completions carry the card's time" [resolution Ns] Refuse "Extended completion queues with that field are refused";
    }
    "Wire" {
        wire_profiles "Transports of the wire" [] (Of(&["rocev2_rc", "rocev2_uc", "rocev2_ud", "metaroce_1"])) Substitute "With a common profile the peers use that one; without one there is no connection";
        opcodes "Packets that the card sends and understands, named as in the specification" [] (Packets) Refuse "Requests that need them fail when posted; received ones are dropped or answered with a NAK";
        mtus "Path MTUs in bytes" [max Bytes] (Of(&["256", "512", "1024", "2048", "4096"])) Substitute "The next smaller one";
        paths "Paths of a connection, each with a sequence of its own" [max Count] Substitute "One path: no spraying";
        sack_window "Packets of a path that one acknowledgement can tell apart" [max Count] Substitute "Go-back-N";
        out_of_order_placement "Payload is placed when it comes, not when it is its turn" [max Count] Substitute "What comes out of order is dropped and sent again";
        line_rates "Rates of the port in Mb/s" [max Mbps] (Numbers) Nothing "";
        ports "Ports of the card" [max Count] Nothing "";
        ethernet_mac "The card ends in an Ethernet medium" [] Nothing "";
        vlan "802.1Q tags on connections" [] Refuse "Address vectors with a VLAN are refused";
        reserved_qpns "Queue pair numbers that are never given out" [] (Ranges) Nothing "";
    }
    "Objects" {
        queue_pairs "Queue pairs at a time" [max Count] Nothing "";
        memory_regions "Memory regions at a time" [max Count, max_length Bytes] Nothing "";
        completion_queues "Completion queues at a time" [max Count, max_entries Count] Nothing "";
        protection_domains "Protection domains at a time" [max Count] Nothing "";
        processes "Processes that hold the card at a time, each with a doorbell page" [max Count] Nothing "";
        work_queues "Depth of send and receive queues" [max_send Count, max_recv Count] Nothing "";
        scatter_gather "SGEs of one request" [max_send Count, max_recv Count, max_ud Count] Substitute "One SGE: the driver gathers into memory of its own";
        reads_in_flight "READs and atomics of a queue pair on their way, in either role" [max Count] Refuse "No READs";
        process_limits "The administrator limits what one process may have" [] (Of(&["mrs", "qps", "cqs", "pds"])) Software "The driver counts";
    }
    "Congestion" {
        congestion_controllers "What sets the rate of a sender" [max Count] (Of(&["gbc", "fas", "dcqcn", "metaroce_aimd"])) Substitute "None: senders go at line rate; networks need to bear that";
        hae_rules "Hardware-assisted ECN: ternary flow rules that choose a marking threshold" [max Count] Substitute "Marks come from switches only";
        hae_thresholds "Sets of marking thresholds" [max Count] Substitute "Marks come from switches only";
        ecnsig_latency "From the sample of a queue to the mark on a packet" [max Ns, typical Ns] Substitute "No controller that depends on marks of the card (GBC)";
        ecn_count "Marked packets are counted" [] (Names) Nothing "";
        cnp_receive "Congestion notifications slow the sender down" [] Substitute "They are counted, if at all";
        cnp_send "The card sends congestion notifications, with an interval within a scope" [min_interval Ns] (Of(&["queue_pair", "address", "port"])) Substitute "A controller that needs no notifications";
        fair_share_hint "The receiver says each sender's share in acknowledgements" [] Substitute "Senders find their share from marks and delay";
        safc_classes "Classes of traffic with weights" [max Count] Substitute "All traffic is one class";
        safc_tags "Packets carry type, priority, deadline and throughput" [] (Of(&["type", "priority", "deadline", "throughput"])) Substitute "Class goes into the DSCP only";
        safc_credits "Critical traffic has credits of its receiver" [] Substitute "Critical traffic may meet RNR and loss";
    }
    "Inside" {
        core_clock "Clock of the core" [frequency Khz, reached Khz] Nothing "";
        data_path "Width of the data path" [width Bits] Nothing "";
        receive_buffer "Frames are stored whole before anything of them is placed" [size Bytes] Nothing "";
        transmit_buffer "Frames wait here until they are whole" [size Bytes] Nothing "";
        translation_cache "Page addresses kept on the card, for each direction" [entries Count] Nothing "";
        payload_reads "Reads of host memory in flight for payload" [max Count] Nothing "";
        prefetch "Work requests of a queue pair that are on the card, in units of 64 bytes" [send Count, recv Count] Nothing "";
        counters "Counters of the card, by name" [max Count] (Names) Nothing "";
        host_port "How the card meets its host; `messages` is a bus in the simulator" [max_payload Bytes, max_read Bytes] (Of(&["messages", "udp_tunnel", "pcie"])) Nothing "";
        firmware_policies "Policies of the card's processor" [] Substitute "What the hardware does by itself";
        manifest_rom "The card carries its manifest" [] Substitute "The host takes the manifest from a file";
    }
    "Speed" {
        goodput "Payload of one direction" [write Mbps, read Mbps] Nothing "";
        message_rate "Requests of 64 bytes" [write OpsPerS] Nothing "";
        latency "Card time of a message, without that of the host port" [doorbell_to_wire Cycles, wire_to_memory Cycles] Nothing "";
        recovery "From the packet behind a lost one to its consequences" [nak Cycles, resend Cycles] Nothing "";
    }
}

/// The entry of a registered id.
pub fn find(id: &str) -> Option<&'static Entry> {
    REGISTRY.iter().find(|e| e.id == id)
}

/// `a-z0-9_`, beginning with a letter, at most 64.
pub fn is_name(s: &str) -> bool {
    s.len() <= 64
        && s.starts_with(|c: char| c.is_ascii_lowercase())
        && s.bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_')
}

/// Vendor and name of `vendor:name`.
pub fn vendor_id(s: &str) -> Option<(&str, &str)> {
    let (v, n) = s.split_once(':')?;
    (is_name(v) && is_name(n)).then_some((v, n))
}
