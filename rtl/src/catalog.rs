//! Blocks by name, for tools that work on the Verilog of one block (logic depth, formal proofs, sizes).

use crate::emit::emit_verilog;
use crate::prims::*;
use crate::{
    acks, atomic, card, doorbell, egress, glue, hostport, ingress, mini, order, placement, raw,
    readresp, regs, requester, responder,
};
use crate::{rqfetch, sequencer, sqfetch, translate, txdma, window};
use rust_hdl::prelude::*;

/// A named block and how to emit it.
pub struct Entry {
    pub name: &'static str,
    pub verilog: fn() -> String,
}

/// One line a block: `block!(list, "name", Type::<..>::default())`.
macro_rules! block {
    ($to:ident, $name:literal, $make:expr) => {
        $to.push(Entry {
            name: $name,
            verilog: || emit_verilog($name, &mut $make),
        })
    };
}

/// Every block that the tables of `docs/results` list.
pub fn blocks() -> Vec<Entry> {
    let mut b = vec![];
    block!(b, "fifo_512x64", Fifo::<Bits<512>, 6>::default());
    block!(b, "fifo_32x1024", Fifo::<Bits<32>, 10>::default());
    block!(b, "half_512", Half::<Bits<512>>::default());
    block!(b, "skid_512", Skid::<Bits<512>>::default());
    block!(b, "arb2_64", Arb2::<Bits<64>>::default());
    block!(b, "arb4_64", Arb4::<Bits<64>>::default());
    block!(b, "prioarb4_64", PrioArb::<Bits<64>, 4>::default());
    block!(b, "byterot_64", ByteRot::<Bits<16>, 64, 8>::default());
    block!(b, "byterot_512", ByteRot::<Bits<16>, 512, 64>::default());
    block!(b, "lane_ram_512x512", LaneRam::<512, 64, 9>::default());
    block!(b, "icrc_64", Icrc::<64, 32>::default());
    block!(b, "icrc_512", Icrc::<512, 256>::default());
    // blocks of the card, with the parameters of its 512-bit configuration
    block!(b, "hostport", hostport::HostPort::<512, 1>::default());
    block!(b, "doorbell", doorbell::Doorbell::<11, 10>::default());
    block!(b, "sqfetch", sqfetch::SqFetch::<11, 5, 16>::default());
    block!(b, "rqfetch", rqfetch::RqFetch::<11, 4, 15>::default());
    block!(b, "requester", requester::Requester::<11, 5, 13>::default());
    block!(
        b,
        "responder",
        responder::Responder::<11, 13, 4, 13>::default()
    );
    block!(b, "readresp", readresp::ReadResp::<11, 13, 15>::default());
    block!(b, "order", order::Order::<11>::default());
    block!(b, "acks", acks::Acks::<11>::default());
    block!(b, "atomic", atomic::AtomicUnit::<512>::new(0xB0));
    block!(b, "windows", window::Windows::<13>::default());
    block!(b, "tx_arb", glue::TxArb::default());
    block!(b, "translate", translate::Translate512::new(0xA0));
    block!(b, "txdma", txdma::TxDma512::default());
    block!(b, "egress", egress::Egress512::default());
    block!(b, "done_split", glue::DoneSplit::default());
    block!(b, "src_check", glue::SrcCheck::<11>::default());
    block!(b, "link_gate", glue::LinkGate::default());
    block!(b, "ingress", ingress::Ingress100g::default());
    block!(b, "placement", placement::Placement100g::new(0xA8));
    block!(b, "sequencer", sequencer::Sim100g::default());
    block!(
        b,
        "regs",
        regs::Regs::<512, 11, 13, 10, 8, 6, 16, 322_266>::new(
            metaroce_hdl_spec::config::SIM_100G.features(),
            &regs::rom_image(&metaroce_hdl_spec::config::SIM_100G)
        )
    );
    // raw packet queues, with the parameters of `mini`
    block!(b, "raw_doors", raw::RawDoors::<6>::default());
    block!(b, "raw_tx", raw::RawTx::<6, 10, 6, 64>::default());
    block!(b, "raw_rx", raw::RawRx::<6>::default());
    b
}

/// Whole cards, for synthesis.
pub fn cards() -> Vec<Entry> {
    vec![
        Entry {
            name: "sim-100g",
            verilog: card::verilog_sim_100g,
        },
        Entry {
            name: "ecp5-1g",
            verilog: card::verilog_ecp5_1g,
        },
        Entry {
            name: "mini",
            verilog: mini::verilog_mini,
        },
    ]
}

/// Small copies of the blocks that `rtl/formal` proves.
pub fn formal() -> Vec<Entry> {
    let mut b = vec![];
    block!(b, "f_skid", Skid::<Bits<8>>::default());
    block!(b, "f_half", Half::<Bits<8>>::default());
    block!(b, "f_fifo", Fifo::<Bits<4>, 2>::default());
    block!(b, "f_arb", Arb3::<Bits<4>>::default());
    block!(b, "f_psn", PsnCmp::default());
    block!(b, "f_qp", sequencer::rule::QpRule::default());
    b
}
