//! The manifest of our card: from its configuration and the tables that RTL, driver and docs are made from. What the card lacks is said to be absent.

mod raw;

use crate::{
    measured,
    registry::{id, REGISTRY},
    Bound, Capability, Card, Combined, Condition, Firmware, Limit, Manifest, Order, Provenance,
    RegisterMap, Scope, Stage, State, Timer, Unit, Version, SCHEMA,
};
use alloc::{format, string::String, string::ToString, vec, vec::Vec};
use metaroce_hdl_spec::{
    cmd,
    config::{Config, MINI, SIM_100G},
    regs::COUNTERS,
    wqe, HOST_ABI_MAJOR, HOST_ABI_MINOR,
};
use metaroce_protocol::{
    opcode::{Class, Opcode},
    timing::{ack_timeout_ns, rnr_timer_ns, Mtu},
};

/// Limits that the command and work request layouts state in words; a test compares.
const MAX_CQ_LOG: u32 = 16;
const MAX_MR_LOG: u32 = 40;
const MAX_MESSAGE_LOG: u32 = 31;
/// QPNs that are nobody's.
const RESERVED_QPNS: [u32; 3] = [0, 1, 0xFF_FFFF];
/// Unit of the requester's deadlines.
const TIMER_NS: u64 = 1_024;
/// Page addresses of a line of the translation cache.
const MTT_LINE: u64 = 8;
/// Largest codes of PCIE_LIMITS, whose unit is 128 bytes.
const MAX_MPS_CODE: u32 = 2;
const MAX_MRRS_CODE: u32 = 5;

/// What a manifest is made from: also those of configurations that are in no table.
struct Builder<'a> {
    c: &'a Config,
    /// The configuration is one that benches and tests run.
    measured: bool,
    list: Vec<Capability>,
}

impl Builder<'_> {
    /// Only a configuration whose RTL is simulated has shown anything.
    fn shown(&self, test: &str) -> Provenance {
        if self.measured {
            Provenance {
                stage: Stage::RtlSimulation,
                test: test.into(),
            }
        } else {
            design()
        }
    }

    fn add(
        &mut self,
        id: &'static str,
        state: State,
        set: Vec<String>,
        limits: Vec<Limit>,
        p: Provenance,
    ) -> &mut Capability {
        self.list.push(Capability {
            id: id.into(),
            state,
            set,
            limits,
            provenance: Some(p),
            if_absent: None,
            note: None,
        });
        self.list.last_mut().expect("just pushed")
    }

    /// A capability that is on, shown by a test of the simulated card.
    fn on(
        &mut self,
        id: &'static str,
        words: &[&str],
        limits: Vec<Limit>,
        test: &str,
    ) -> &mut Capability {
        let p = self.shown(test);
        let words = words.iter().map(|w| (*w).into()).collect();
        self.add(id, State::Enabled, words, limits, p)
    }

    /// A size that follows from the configuration.
    fn size(&mut self, id: &'static str, limits: Vec<Limit>) -> &mut Capability {
        self.add(id, State::Enabled, vec![], limits, design())
    }

    /// What this card does not have, with what there is to say about it.
    fn lacks(&mut self, id: &'static str, note: &str) {
        self.list.push(Capability {
            id: id.into(),
            state: State::Absent,
            set: vec![],
            limits: vec![],
            provenance: None,
            if_absent: None,
            note: (!note.is_empty()).then(|| note.into()),
        });
    }
}

fn design() -> Provenance {
    Provenance {
        stage: Stage::Design,
        test: String::new(),
    }
}

fn figure(name: &str, bound: Bound, value: u64, unit: Unit) -> Limit {
    Limit {
        name: name.into(),
        bound,
        value,
        unit,
        when: None,
        percentile_ppm: None,
        tolerance_ppm: None,
        provenance: design(),
    }
}

fn up_to(name: &str, value: u64, unit: Unit) -> Limit {
    figure(name, Bound::UpTo, value, unit)
}

fn exactly(name: &str, value: u64, unit: Unit) -> Limit {
    figure(name, Bound::Exactly, value, unit)
}

fn tb(test: &str) -> String {
    format!("cargo test --release -p metaroce-tb --test {test}")
}

impl Manifest {
    /// The manifest of a configuration: another parameter is another manifest. What tests and benches have shown is in those of the configurations that are
    /// simulated, and in no other, however little it differs.
    pub fn of(c: &Config) -> Manifest {
        of_parts(c, *c == SIM_100G || *c == MINI)
    }
}

/// As [`Manifest::of`], and says whether figures of the benches are those of this configuration.
pub fn of_parts(c: &Config, measured: bool) -> Manifest {
    let mut b = Builder {
        c,
        measured,
        list: Vec::new(),
    };
    if c.transport {
        offloads(&mut b);
        wire(&mut b);
        objects(&mut b);
        congestion(&mut b);
        inside(&mut b);
        speed(&mut b);
    } else {
        raw::capabilities(&mut b);
    }
    // The registry's order: that of every form.
    let place = |c: &Capability| REGISTRY.iter().position(|e| e.id == c.id);
    b.list.sort_by_key(place);
    // All of it is about queue pairs.
    let (combined, ordering, timers) = if c.transport {
        (combined(&b), ordering(&b), timers(&b))
    } else {
        Default::default()
    };
    Manifest {
        schema: SCHEMA,
        card: Card {
            vendor: "metaroce".into(),
            name: c.name.into(),
            version: env!("CARGO_PKG_VERSION").into(),
        },
        register_map: Some(RegisterMap {
            abi: Version {
                major: HOST_ABI_MAJOR,
                minor: HOST_ABI_MINOR,
            },
            file: "docs/hdl/metaroce.svd".into(),
            format: "cmsis-svd".into(),
        }),
        firmware: Firmware {
            needed: false,
            oldest: None,
            newest: None,
        },
        capabilities: b.list,
        combined,
        ordering,
        timers,
        errata: vec![],
        partial: None,
    }
}

fn offloads(b: &mut Builder) {
    b.on(
        id::qp_state_offload,
        &[],
        vec![],
        "cargo test --release -p metaroce-rtl --test sequencer",
    );
    if b.c.atomics {
        let limits = vec![
            up_to("in_flight", 1, Unit::Count),
            exactly("operand", 8, Unit::Bytes),
        ];
        let words = ["compare_and_swap", "fetch_and_add"];
        b.on(id::atomic_op_accel, &words, limits, &tb("atomics"))
            .note =
            Some("One at a time for the whole card; each waits for a read of host memory".into());
    } else {
        b.lacks(id::atomic_op_accel, "");
    }
    b.on(
        id::icrc_offload,
        &[],
        vec![],
        "cargo test --release -p metaroce-rtl --test ingress",
    );
    let limits = vec![up_to("max_message", 1 << MAX_MESSAGE_LOG, Unit::Bytes)];
    b.on(id::segmentation_offload, &[], limits, &tb("payload"));
    b.on(id::retransmission_offload, &["go_back_n"], vec![], &tb("faults")).note =
        Some("RC: from the first packet that is missing, all that follow are sent again. UC and UD send nothing again".into());
    b.lacks(id::raw_packet_queues, "");
    let keys = vec![up_to("max", (1 << b.c.log_mr) - 1, Unit::Count)];
    b.on(
        id::memory_windows,
        &["type_1", "type_2b"],
        keys,
        &tb("windows"),
    );
    b.on(id::remote_invalidation, &[], vec![], &tb("windows"));
    let limits = vec![
        up_to("max", 1 << b.c.log_qp, Unit::Count),
        up_to("max_entries", ring_units(), Unit::Count),
    ];
    b.on(id::shared_receive_queues, &["rc", "ud"], limits, &tb("srq"));
    let limits = vec![up_to("max", wqe::MAX_INLINE as u64, Unit::Bytes)];
    b.on(id::inline_data, &[], limits, &tb("direct")).note =
        Some("In the work request itself; the driver offers programs more and copies it".into());
    b.on(id::direct_wqe, &[], vec![], &tb("direct"));
    b.on(id::resize_cq, &[], vec![], &tb("change"));
    b.on(id::rereg_mr, &[], vec![], &tb("change"));
    let limits = vec![exactly("resolution", 1, Unit::Ns)];
    b.on(
        id::completion_timestamps,
        &[],
        limits,
        "cargo test --release -p metaroce-rtl --test placement",
    );
}

fn wire(b: &mut Builder) {
    b.on(
        id::wire_profiles,
        &["rocev2_rc", "rocev2_uc", "rocev2_ud"],
        vec![],
        &tb("lockstep"),
    );
    let known: Vec<&str> = Opcode::ALL
        .iter()
        .filter(|o| {
            o.info().is_some_and(|i| {
                !matches!(i.class, Class::Flush | Class::AtomicWrite | Class::Cnp)
                    && (b.c.atomics
                        || !matches!(i.class, Class::CmpSwap | Class::FetchAdd | Class::AtomicAck))
            })
        })
        .map(|o| o.name())
        .collect();
    b.on(id::opcodes, &known, vec![], &tb("malformed"));
    mtus(b, "cargo xtask tools");
    b.lacks(id::paths, "One sequence a connection, as RoCEv2 has it");
    b.lacks(id::sack_window, "");
    b.lacks(id::out_of_order_placement, "");
    lines(b);
    b.lacks(id::ethernet_mac, "The card ends in a stream of frames");
    b.on(
        id::vlan,
        &[],
        vec![],
        "cargo test --release -p metaroce-rtl --test txpath",
    );
    let reserved: Vec<String> = RESERVED_QPNS.iter().map(|q| q.to_string()).collect();
    let words: Vec<&str> = reserved.iter().map(String::as_str).collect();
    b.on(
        id::reserved_qpns,
        &words,
        vec![],
        "cargo test --release -p metaroce-rtl --test sequencer",
    );
}

fn mtus(b: &mut Builder, test: &str) {
    let sizes: Vec<String> = Mtu::ALL.iter().map(|m| m.bytes().to_string()).collect();
    let greatest = Mtu::ALL.iter().map(|m| m.bytes()).max().unwrap_or(0);
    let limits = vec![up_to("max", greatest.into(), Unit::Bytes)];
    let words: Vec<&str> = sizes.iter().map(String::as_str).collect();
    b.on(id::mtus, &words, limits, test);
}

fn lines(b: &mut Builder) {
    let rate = b.c.line_mbps.to_string();
    let limits = vec![up_to("max", b.c.line_mbps.into(), Unit::Mbps)];
    b.on(id::line_rates, &[&rate], limits, "cargo xtask bench");
    b.size(id::ports, vec![exactly("max", 1, Unit::Count)]);
}

/// Units of the largest ring: what the field of its log2 can say.
const fn ring_units() -> u64 {
    1 << ((1 << cmd::create_qp::sq_log.width) - 1)
}

fn processes(b: &mut Builder) {
    b.size(
        id::processes,
        vec![up_to("max", (1 << b.c.log_pasid) - 1, Unit::Count)],
    );
}

fn objects(b: &mut Builder) {
    let c = b.c;
    b.on(
        id::queue_pairs,
        &[],
        vec![up_to("max", 1 << c.log_qp, Unit::Count)],
        &tb("scale"),
    );
    b.size(
        id::memory_regions,
        vec![
            up_to("max", (1 << c.log_mr) - 1, Unit::Count),
            up_to("max_length", 1 << MAX_MR_LOG, Unit::Bytes),
        ],
    );
    b.size(
        id::completion_queues,
        vec![
            up_to("max", 1 << c.log_cq, Unit::Count),
            up_to("max_entries", 1 << MAX_CQ_LOG, Unit::Count),
        ],
    );
    b.size(
        id::protection_domains,
        vec![up_to("max", 1 << c.log_pd, Unit::Count)],
    );
    processes(b);
    b.size(
        id::work_queues,
        vec![
            up_to("max_send", ring_units(), Unit::Count),
            up_to("max_recv", ring_units(), Unit::Count),
        ],
    )
    .note = Some(
        "Entries of one unit of 64 bytes; longer ones take up to 5 (send) or 4 (receive)".into(),
    );
    // Unit 0 has two SGEs, each further one four; of UD the address vector takes a unit.
    let sges = |units: usize| (c.max_sge as usize).min(wqe::MAX_SGE).min(2 + 4 * units) as u64;
    let limits = vec![
        up_to("max_send", sges(wqe::MAX_UNITS - 1), Unit::Count),
        up_to("max_recv", c.max_sge.into(), Unit::Count),
        up_to("max_ud", sges(wqe::MAX_UNITS - 2), Unit::Count),
    ];
    b.on(id::scatter_gather, &[], limits, &tb("sges"));
    let limits = vec![up_to("max", c.max_rd.into(), Unit::Count)];
    b.on(id::reads_in_flight, &[], limits, &tb("field_bench"));
    let p = b.shown(&tb("limits"));
    let words = ["mrs", "qps", "cqs", "pds"].map(String::from).to_vec();
    b.add(id::process_limits, State::Present, words, vec![], p);
}

fn congestion(b: &mut Builder) {
    b.lacks(id::congestion_controllers, "");
    b.lacks(id::hae_rules, "");
    b.lacks(id::hae_thresholds, "");
    b.lacks(id::ecnsig_latency, "The card marks nothing");
    b.on(
        id::ecn_count,
        &["rx_ecn_marked", "rx_cnp"],
        vec![],
        &tb("foreign"),
    );
    b.lacks(
        id::cnp_receive,
        "They are counted (`rx_cnp`), and slow nothing down",
    );
    b.lacks(id::cnp_send, "");
    b.lacks(id::fair_share_hint, "");
    b.lacks(id::safc_classes, "");
    b.lacks(id::safc_tags, "");
    b.lacks(id::safc_credits, "");
}

fn clock(b: &mut Builder) {
    let c = b.c;
    let mut clock = vec![exactly("frequency", c.clock_khz.into(), Unit::Khz)];
    let mut note = None;
    if let Some((khz, routed)) = measured::placed(c.name) {
        clock.push(Limit {
            when: Some(Condition {
                text: Some(
                    if routed {
                        "routed"
                    } else {
                        "placed, not routed: what the tool expects"
                    }
                    .into(),
                ),
                ..Condition::default()
            }),
            provenance: Provenance {
                stage: Stage::Placed,
                test: "./metaroce fpga".into(),
            },
            ..figure("reached", Bound::AtMost, khz, Unit::Khz)
        });
        if khz < c.clock_khz.into() {
            note = Some("The chip that it was placed for does not reach the frequency that the configuration names".into());
        }
    }
    b.size(id::core_clock, clock).note = note;
    b.size(
        id::data_path,
        vec![exactly("width", c.bus_bits.into(), Unit::Bits)],
    );
}

fn buffers(b: &mut Builder) {
    let c = b.c;
    let bus_bytes = u64::from(c.bus_bits / 8);
    b.size(
        id::receive_buffer,
        vec![exactly("size", bus_bytes << c.log_rx_words, Unit::Bytes)],
    );
    b.size(
        id::transmit_buffer,
        vec![exactly("size", bus_bytes << c.log_tx_words, Unit::Bytes)],
    );
    b.size(
        id::payload_reads,
        vec![up_to("max", 1 << c.log_tags, Unit::Count)],
    );
}

fn bus(b: &mut Builder, test: &str) {
    let limits = vec![
        up_to("max_payload", 128 << MAX_MPS_CODE, Unit::Bytes),
        up_to("max_read", 128 << MAX_MRRS_CODE, Unit::Bytes),
    ];
    b.on(id::host_port, &["messages"], limits, test);
}

fn inside(b: &mut Builder) {
    let c = b.c;
    clock(b);
    buffers(b);
    b.size(
        id::translation_cache,
        vec![exactly("entries", MTT_LINE << c.log_mtt_lines, Unit::Count)],
    );
    b.size(
        id::prefetch,
        vec![
            up_to("send", 1 << c.log_sq_slots, Unit::Count),
            up_to("recv", 1 << c.log_rq_slots, Unit::Count),
        ],
    );
    let names: Vec<&str> = COUNTERS.iter().map(|c| c.name).collect();
    let limits = vec![exactly("max", names.len() as u64, Unit::Count)];
    b.on(id::counters, &names, limits, &tb("soak"));
    bus(b, &tb("bus"));
    b.lacks(id::firmware_policies, "The card works without a processor");
    rom(b);
}

fn rom(b: &mut Builder) {
    b.on(
        id::manifest_rom,
        &[],
        vec![],
        "cargo test --release -p metaroce-rtl --test regs",
    );
}

fn speed(b: &mut Builder) {
    let measured = if b.measured {
        measured::figures(b.c.clock_khz)
    } else {
        vec![]
    };
    for id in [id::goodput, id::message_rate, id::latency, id::recovery] {
        let limits = measured.iter().filter(|(c, _)| *c == id);
        let limits: Vec<Limit> = limits.map(|(_, l)| l.clone()).collect();
        if limits.is_empty() {
            b.add(id, State::Enabled, vec![], limits, design()).note =
                Some("Not measured for this configuration".into());
        } else {
            b.on(id, &[], limits, "cargo xtask bench");
        }
    }
}

fn combined(b: &Builder) -> Vec<Combined> {
    let c = b.c;
    let rule = |id: &str, ids: &[&str], text: &str, limits| Combined {
        id: id.into(),
        capabilities: ids.iter().map(|i| (*i).into()).collect(),
        text: text.into(),
        limits,
    };
    let mut v = vec![
        rule(
            "qp_table",
            &[id::queue_pairs, id::shared_receive_queues],
            "Queue pairs and shared receive queues have one table",
            vec![up_to("sum", 1 << c.log_qp, Unit::Count)],
        ),
        rule(
            "key_table",
            &[id::memory_regions, id::memory_windows],
            "Memory regions and windows have one table",
            vec![up_to("sum", (1 << c.log_mr) - 1, Unit::Count)],
        ),
    ];
    if b.measured {
        v.push(rule(
            "rate_by_queue_pairs",
            &[id::message_rate, id::queue_pairs],
            "One queue pair alone makes a packet every 36 cycles; several share the full rate, and it falls off again where most of the table is in use",
            measured::scale(c.clock_khz),
        ));
    }
    v
}

fn ordering(b: &Builder) -> Vec<Order> {
    let all = [
        ("completion_after_payload", Scope::Host, "A completion is seen only after the payload that it announces", tb("field_bench")),
        ("acknowledged_means_placed", Scope::Host, "What is acknowledged is in the memory of the receiving host", tb("order")),
        ("read_after_write", Scope::QueuePair, "A READ sees all earlier WRITEs of its queue pair", tb("order")),
        ("data_in_order", Scope::Nobody, "The bytes of one message may become visible in any order: `ibv_query_qp_data_in_order` answers 0", String::new()),
        ("completions_in_order", Scope::QueuePair, "Requests of one queue complete in the order in which they were posted", tb("lockstep")),
        ("fence", Scope::QueuePair, "A fenced request begins when the data of all earlier READs is in memory", tb("field_bench")),
        ("atomicity", Scope::Card, "Atomics are atomic among all queue pairs of the card, not towards the host's processors or other cards (IBV_ATOMIC_HCA)", tb("atomics")),
    ];
    all.into_iter()
        .filter(|(id, ..)| b.c.atomics || *id != "atomicity")
        .map(|(id, scope, text, test)| Order {
            id: id.into(),
            scope,
            text: text.into(),
            provenance: if test.is_empty() {
                design()
            } else {
                b.shown(&test)
            },
        })
        .collect()
}

fn timers(b: &Builder) -> Vec<Timer> {
    vec![
        Timer {
            id: "local_ack_timeout".into(),
            code_ns: (0..32).map(|c| ack_timeout_ns(c).unwrap_or(0)).collect(),
            early_ppm: 0,
            late_ppm: 3_000_000,
            late_ns: 0,
            resolution_ns: TIMER_NS,
            text: "Without progress for so long, all that is not acknowledged is sent again; retry_cnt times, then RETRY_EXC. Progress starts it anew".into(),
            provenance: b.shown(&tb("errors")),
        },
        Timer {
            id: "rnr_timer".into(),
            code_ns: (0..32).map(rnr_timer_ns).collect(),
            early_ppm: 0,
            late_ppm: 250_000,
            late_ns: 5_000,
            resolution_ns: TIMER_NS,
            text: "After an RNR NAK with this code the queue waits so long; rnr_retry times, 7 means without limit".into(),
            provenance: b.shown(&tb("errors")),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaroce_hdl_spec::regs::admin;

    /// Numbers that the tables of `hdl-spec` have in words only.
    #[test]
    fn words_of_the_layouts() {
        let ends = |s: &str, n: u32| assert!(s.contains(&format!("..={n}")), "{s}");
        ends(cmd::create_cq::log.doc, MAX_CQ_LOG);
        ends(cmd::create_qp::sq_log.doc, ring_units().ilog2());
        ends(cmd::create_qp::rq_log.doc, ring_units().ilog2());
        ends(cmd::create_srq::log.doc, ring_units().ilog2());
        let power = |s: &str, n: u32| assert!(s.contains(&format!("2^{n}")), "{s}");
        power(cmd::reg_mr::len.doc, MAX_MR_LOG);
        power(wqe::sq::length.doc, MAX_MESSAGE_LOG);
        let limits = admin::TABLE
            .iter()
            .find(|r| r.name == "PCIE_LIMITS")
            .unwrap();
        ends(limits.doc, MAX_MPS_CODE);
        ends(limits.doc, MAX_MRRS_CODE);
        let m = Manifest::of(&SIM_100G);
        let port = m.capability(id::host_port).unwrap();
        let sizes: Vec<u64> = port.limits.iter().map(|l| l.value).collect();
        // log2(size / 128) is the code
        assert_eq!(
            sizes.iter().map(|s| (s / 128).ilog2()).collect::<Vec<_>>(),
            [MAX_MPS_CODE, MAX_MRRS_CODE]
        );
        assert!(sizes.iter().all(|s| s.is_power_of_two()));
    }
}
