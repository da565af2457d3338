//! Fields whose falsehood nothing shows, and why. `caps falsify` holds this list against what it finds: a field that is neither named nor here, and one that
//! is here and named, are told.

/// Path of a field (as in [`super::falsify`], without the places of lists), or parts of it around a `*`; and the reason.
pub const LIST: &[(&str, &str)] = &[
    ("*.note", "prose, for people"),
    ("*.text", "prose, for people"),
    ("card.name", "a label: no device tells it"),
    ("combined[*].id", "a label of this manifest's own"),
    (
        "capabilities[latency].*.host_read_ns",
        "the figure is without the time of the host port, whatever that is",
    ),
    (
        "capabilities[recovery].*.host_read_ns",
        "the figure is without the time of the host port, whatever that is",
    ),
    (
        "capabilities[latency].*.value",
        "the doorbell and the write to memory are not on the wire",
    ),
    (
        "capabilities[recovery].*.value",
        "needs a wire that loses, and the time of a host read",
    ),
    (
        "combined[rate_by_queue_pairs].limits[write at qps=128 *].value",
        "more queue pairs than the traffic for the wire has",
    ),
    (
        "combined[rate_by_queue_pairs].limits[write at qps=512 *].value",
        "more queue pairs than the traffic for the wire has",
    ),
    (
        "combined[rate_by_queue_pairs].limits[write at qps=1024 *].value",
        "more queue pairs than the traffic for the wire has",
    ),
    (
        "combined[rate_by_queue_pairs].limits[write at qps=2048 *].value",
        "more queue pairs than the traffic for the wire has",
    ),
    (
        "capabilities[qp_state_offload].state",
        "switched on by whom, no verb tells",
    ),
    (
        "capabilities[raw_packet_queues].state",
        "switched on by whom, no verb tells",
    ),
    (
        "capabilities[direct_wqe].state",
        "how a doorbell travels, no verb tells",
    ),
    (
        "capabilities[completion_timestamps].state",
        "completions with time stamps are not tried",
    ),
    (
        "capabilities[completion_timestamps].limits[resolution].value",
        "completions with time stamps are not tried",
    ),
    (
        "capabilities[completion_timestamps].limits[resolution].bound",
        "completions with time stamps are not tried",
    ),
    ("capabilities[vlan].state", "needs a network with VLANs"),
    (
        "capabilities[ecn_count].state",
        "needs a network that marks, and the vendor's counters",
    ),
    (
        "capabilities[ecn_count].set[*]",
        "needs a network that marks, and the vendor's counters",
    ),
    (
        "capabilities[counters].state",
        "the vendor's own way leads to them",
    ),
    (
        "capabilities[manifest_rom].state",
        "is behind the host port, not behind verbs",
    ),
    (
        "capabilities[process_limits].state",
        "the administrator's, not a program's",
    ),
    (
        "capabilities[process_limits].set[*]",
        "the administrator's, not a program's",
    ),
    (
        "capabilities[processes].limits[max].value",
        "one program is one process",
    ),
    (
        "capabilities[atomic_op_accel].limits[in_flight].value",
        "is inside the card",
    ),
    (
        "capabilities[inline_data].limits[max].value",
        "drivers offer more than the card has, and copy",
    ),
    (
        "capabilities[memory_regions].limits[max_length].value",
        "beyond what the driver offers; so much memory is not taken",
    ),
    (
        "capabilities[completion_queues].limits[max].value",
        "beyond what the driver offers, unless --objects counts so far",
    ),
    (
        "capabilities[protection_domains].limits[max].value",
        "beyond what the driver offers, unless --objects counts so far",
    ),
    (
        "capabilities[completion_queues].limits[max_entries].value",
        "the driver offers less than the card has",
    ),
    (
        "capabilities[shared_receive_queues].limits[max_entries].value",
        "the driver offers less than the card has",
    ),
    (
        "capabilities[work_queues].limits[*].value",
        "the driver offers less than the card has",
    ),
    (
        "capabilities[core_clock].limits[frequency].value",
        "is inside the card; named where other figures depend on it",
    ),
    (
        "capabilities[data_path].limits[width].value",
        "is inside the card",
    ),
    (
        "capabilities[receive_buffer].limits[size].value",
        "is inside the card",
    ),
    (
        "capabilities[transmit_buffer].limits[size].value",
        "is inside the card",
    ),
    (
        "capabilities[translation_cache].limits[entries].value",
        "is inside the card",
    ),
    (
        "capabilities[payload_reads].limits[max].value",
        "is inside the card",
    ),
    (
        "capabilities[prefetch].limits[*].value",
        "is inside the card",
    ),
    (
        "capabilities[host_port].limits[*].value",
        "is on the other side of the card, and no program sees it",
    ),
    (
        "capabilities[host_port].set[*]",
        "is on the other side of the card, and no program sees it",
    ),
    (
        "timers[*].resolution_ns",
        "finer than it is: no program sees the steps",
    ),
];

fn fits(pattern: &str, path: &str) -> bool {
    let mut rest = path;
    let mut parts = pattern.split('*');
    let Some(first) = parts.next() else {
        return false;
    };
    let Some(after) = rest.strip_prefix(first) else {
        return false;
    };
    rest = after;
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for p in middle {
        match rest.find(p) {
            Some(at) => rest = &rest[at + p.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

pub fn reason(path: &str) -> Option<&'static str> {
    LIST.iter()
        .find(|(p, _)| fits(p, path))
        .map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns() {
        assert!(fits("a.b", "a.b") && !fits("a.b", "a.bc") && !fits("a.b", "a"));
        assert!(fits("a[*].n", "a[x].n") && !fits("a[*].n", "a[x].m"));
        assert!(fits("*.n", "x.y.n") && fits("a*b*c", "a1b2c") && !fits("a*b*c", "a1c"));
    }
}
