//! The transmit path (txdma, translate, egress) between models of its neighbours: commands in, host memory that answers out of order, frames out, compared byte
//! by byte with the protocol crate's codec. Everything runs in both simulations and is compared cycle by cycle.
//!
//! Shows: `vlan`.
mod tx;

use metaroce_rtl::diff::Diff;
use metaroce_rtl::egress::{Egress512, Egress64};
use metaroce_rtl::emit::emit_verilog;
use metaroce_rtl::inputs;
use metaroce_rtl::translate::{Translate512, Translate64};
use metaroce_rtl::txdma::{TxDma512, TxDma64};
use std::cell::RefCell;
use tx::model::{Plan, FAST, PLAN};
use tx::top::TxPath;
use tx::world::World;

macro_rules! run {
    ($name:literal, $top:ty, $cycles:expr, $world:expr) => {{
        let w = RefCell::new($world);
        let seed = w.borrow().seed;
        Diff::new(
            $name,
            <$top>::default,
            inputs!(
                rst, cmd_valid, cmd_data, ack_valid, ack_data, av_rdata, ua_valid, ua_data,
                gid_rdata, mrm_rdata, limit_log, rd_ready, cpl_valid, cpl_data, cpl_meta,
                xrd_ready, fill_valid, fill_data, flush, tx_ready, done_ready
            ),
        )
        .cycles($cycles)
        .seed(seed)
        .stim(|s| w.borrow_mut().step(s))
        .run();
        let w = w.into_inner();
        w.finish($name);
        w
    }};
}

type Path512 = TxPath<512, 64, 256, 11, 6, 64, 6, 64>;
type Path64 = TxPath<64, 8, 32, 12, 4, 16, 3, 8>;

#[test]
fn path_512() {
    run!("txpath_512", Path512, 700, World::golden(64, 6, 5));
    run!(
        "txpath_512",
        Path512,
        5000,
        World::new(
            Plan {
                packets: 60,
                ..PLAN
            },
            64,
            6,
            11
        )
    );
    let slow = Plan {
        p_ready: 0.3,
        p_cmd: 1.0,
        p_cpl: 0.4,
        p_ack: 0.1,
        limit: 7,
        packets: 24,
        ..PLAN
    };
    run!("txpath_512", Path512, 6000, World::new(slow, 64, 6, 12));
    let w = run!(
        "txpath_512",
        Path512,
        3000,
        World::new(
            Plan {
                len: Some(4096),
                packets: 24,
                ..FAST
            },
            64,
            6,
            13
        )
    );
    let n = w.last_word - w.first_word.unwrap() + 1;
    assert!(w.words as f64 > 0.9 * n as f64, "words a cycle");
    let w = run!(
        "txpath_512",
        Path512,
        1200,
        World::new(
            Plan {
                len: Some(64),
                packets: 90,
                ..FAST
            },
            64,
            6,
            14
        )
    );
    let n = w.last_word - w.first_word.unwrap() + 1;
    assert!(n <= 8 * 90, "small frames: {n} cycles for 90");
    assert!(w.latency[0] <= 20, "latency {:?}", w.latency);
}

#[test]
fn path_64() {
    run!("txpath_64", Path64, 900, World::golden(8, 4, 6));
    run!(
        "txpath_64",
        Path64,
        12000,
        World::new(
            Plan {
                packets: 35,
                lat: (2, 30),
                ..PLAN
            },
            8,
            4,
            21
        )
    );
    let w = run!(
        "txpath_64",
        Path64,
        4400,
        World::new(
            Plan {
                len: Some(4096),
                packets: 6,
                lat: (20, 20),
                ..FAST
            },
            8,
            4,
            22
        )
    );
    let n = w.last_word - w.first_word.unwrap() + 1;
    assert!(w.words as f64 > 0.97 * n as f64, "words a cycle");
}

#[test]
fn named_configurations_elaborate() {
    emit_verilog("egress_512", &mut Egress512::default());
    emit_verilog("egress_64", &mut Egress64::default());
    emit_verilog("txdma_512", &mut TxDma512::default());
    emit_verilog("txdma_64", &mut TxDma64::default());
    emit_verilog("translate_512", &mut Translate512::new(0xA0));
    emit_verilog("translate_64", &mut Translate64::new(0xA8));
}
