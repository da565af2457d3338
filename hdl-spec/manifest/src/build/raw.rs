//! A card without transport: raw packet queues, the ICRC, and nothing that a queue pair would need.

use super::*;

/// Counters that move on such a card; the others are there and stay 0.
pub const RAW_COUNTERS: &[&str] = &[
    "tx_frames",
    "tx_bytes",
    "rx_frames",
    "rx_bytes",
    "rx_drop_malformed",
    "rx_drop_icrc",
    "rx_drop_opcode",
    "rx_drop_qp",
    "rx_drop_full",
    "rx_ecn_marked",
    "db_refused",
    "host_reads",
    "host_read_bytes",
    "host_writes",
    "host_write_bytes",
];

pub(super) fn capabilities(b: &mut Builder) {
    let test = tb("raw");
    b.on(id::raw_packet_queues, &[], vec![], &test).note = Some(
        "One queue to send and one to receive a process; the top bits of the destination QPN choose the process".into(),
    );
    b.on(id::icrc_offload, &[], vec![], &test);
    b.on(id::vlan, &[], vec![], &test).note = Some("Tagged frames pass as they are".into());
    mtus(b, &test);
    lines(b);
    processes(b);
    b.on(id::ecn_count, &["rx_ecn_marked"], vec![], &test);
    clock(b);
    buffers(b);
    let limits = vec![exactly("max", RAW_COUNTERS.len() as u64, Unit::Count)];
    b.on(id::counters, RAW_COUNTERS, limits, &test);
    bus(b, &test);
    rom(b);
    for (id, note) in [
        (
            id::wire_profiles,
            "Any that is carried in RoCEv2 frames: it is made above the card",
        ),
        (
            id::opcodes,
            "The card looks at lengths, not at what a packet asks for",
        ),
        (id::qp_state_offload, ""),
        (id::ethernet_mac, "The card ends in a stream of frames"),
        (id::translation_cache, "Rings are contiguous on the bus"),
    ] {
        b.lacks(id, note);
    }
    for e in REGISTRY {
        if !b.list.iter().any(|c| c.id == e.id) {
            b.lacks(e.id, "");
        }
    }
}
