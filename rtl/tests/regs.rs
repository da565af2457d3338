//! Registers: fixed values, written ones, no increment lost; and rust-hdl = Verilator.
//!
//! Shows: `manifest_rom`.
use metaroce_hdl_spec::regs::{admin as a, COUNTERS, ROM_BASE, ROM_MAX};
use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::inputs;
use metaroce_rtl::regs::Regs;
use rust_hdl::prelude::*;

type R = Regs<512, 8, 12, 9, 8, 6, 16, 322_266>;

fn step(u: &mut R) {
    for level in [true, false] {
        u.clock.next = Clock { clk: level };
        assert!(simulate(u, 200));
    }
}

/// A read with `valid` held until done (`hold`) or up for one cycle.
fn read(u: &mut R, addr: u32, hold: bool) -> u32 {
    u.mmio_rd_valid.next = true;
    u.mmio_rd_addr.next = (addr as u64).into();
    for n in 0..8 {
        assert!(simulate(u, 200));
        if u.mmio_rd_done.val() {
            assert_eq!(n, 3);
            let v = u.mmio_rd_data.val().to_u64() as u32;
            u.mmio_rd_valid.next = hold;
            step(u);
            u.mmio_rd_valid.next = false;
            for _ in 0..5 {
                assert!(simulate(u, 200));
                assert!(!u.mmio_rd_done.val(), "a second answer");
                step(u);
            }
            return v;
        }
        step(u);
        u.mmio_rd_valid.next = hold;
    }
    panic!("no answer");
}

fn write(u: &mut R, addr: u32, v: u32) {
    u.adm_valid.next = true;
    u.adm_addr.next = (addr as u64).into();
    u.adm_data.next = (v as u64).into();
    assert!(simulate(u, 200));
    step(u);
    u.adm_valid.next = false;
}

#[test]
fn registers_and_counters() {
    let mut u = R::default();
    u.connect_all();
    u.rst.next = true;
    assert!(simulate(&mut u, 200));
    step(&mut u);
    u.rst.next = false;
    for (at, v) in [
        (a::ID, a::ID_VALUE),
        (a::ABI, 0x1_0000),
        (a::LOG_QP, 8),
        (a::LOG_MR, 12),
        (a::LOG_CQ, 9),
        (a::LOG_PD, 8),
        (a::BUS_BITS, 512),
        (a::MAX_SGE, 16),
        (a::MAX_RD, 16),
        (a::CLOCK_10KHZ, 32227),
        (a::PCIE_LIMITS, 0x21),
        (a::LINK, 0),
        (a::LIMIT_MR_QP, 0xFFFF_FFFF),
        (a::LIMIT_CQ_PD, 0xFFFF_FFFF),
        (0x3FC, 0),
        (0x600, 0),
        (0x1000, 0),
        (0x1000 + a::COUNTERS, 0),
    ] {
        assert_eq!(read(&mut u, at, at % 8 == 0), v, "{at:x}");
    }
    for (v, mps, mrrs) in [(0x00u32, 7, 7), (0x52, 9, 12), (0x77, 9, 12), (0x21, 8, 9)] {
        write(&mut u, a::PCIE_LIMITS, v);
        assert!(simulate(&mut u, 200));
        assert_eq!(
            (u.mps_log.val().to_u64(), u.mrrs_log.val().to_u64()),
            (mps, mrrs)
        );
        assert_eq!(read(&mut u, a::PCIE_LIMITS, false), v);
    }
    write(&mut u, a::MAC_LO, 0x3322_1100);
    write(&mut u, a::MAC_HI, 0x5544);
    write(&mut u, a::LINK, 1);
    write(&mut u, a::SEED, 77);
    assert!(simulate(&mut u, 200));
    assert!(u.seed_we.val() && u.link.val());
    assert_eq!(
        (u.mac.val().to_u64(), u.seed.val().to_u64()),
        (0x5544_3322_1100, 77)
    );
    step(&mut u);
    assert!(simulate(&mut u, 200));
    assert!(!u.seed_we.val());
    // every counter, up to the largest increment in every cycle
    let mut rng = Rng(21);
    let mut want = vec![0u64; COUNTERS.len()];
    for t in 0..3000 {
        for (i, w) in want.iter_mut().enumerate() {
            let v = match t {
                0..=999 if i < 3 => 0xFFFF,
                _ if rng.p(0.2) => rng.below(5000),
                _ => 0,
            };
            u.ev[i].next = v.into();
            *w += v;
        }
        assert!(simulate(&mut u, 200));
        step(&mut u);
    }
    for i in 0..COUNTERS.len() {
        u.ev[i].next = 0.into();
    }
    for _ in 0..67 {
        assert!(simulate(&mut u, 200));
        step(&mut u);
    }
    assert!(u.idle.val());
    for (i, w) in want.iter().enumerate() {
        let at = a::COUNTERS + 8 * i as u32;
        let v = read(&mut u, at, true) as u64;
        assert_eq!(
            v | (read(&mut u, at + 4, true) as u64) << 32,
            *w,
            "{}",
            COUNTERS[i].name
        );
    }
    assert!(want[0] < 1 << 32);
}

/// An image with an odd number of bytes, so that the last word is filled up.
fn with_rom() -> (R, Vec<u8>) {
    let mut rng = Rng(5);
    let image: Vec<u8> = (0..1001).map(|_| rng.below(256) as u8).collect();
    (R::new(a::FEATURES_ALL, &image), image)
}

#[test]
fn rom() {
    let (mut u, image) = with_rom();
    u.connect_all();
    assert_eq!(read(&mut u, a::ROM_BYTES, false), 1001);
    assert_eq!(read(&mut u, a::ROM_OFFSET, false), ROM_BASE);
    for at in (0..image.len() as u32 + 40)
        .step_by(4)
        .chain([4000, 4096, 0x8000, ROM_MAX - 4])
    {
        let mut w = [0; 4];
        for (i, b) in w.iter_mut().enumerate() {
            *b = image.get(at as usize + i).copied().unwrap_or(0);
        }
        let v = read(&mut u, ROM_BASE + at, at % 8 == 0);
        assert_eq!(v.to_le_bytes(), w, "{at}");
    }
    // the pages before the window
    assert_eq!(read(&mut u, ROM_BASE - 0x1000, false), 0);
    assert_eq!(read(&mut u, 0x1_0000, false), 0);
}

/// The ROM of a named configuration is its manifest.
#[test]
fn rom_of_a_configuration() {
    for c in metaroce_hdl_spec::config::ALL {
        let image = metaroce_rtl::regs::rom_image(c);
        let m = metaroce_manifest::cbor::decode(&image).unwrap();
        assert_eq!(m.card.name, c.name);
    }
}

/// The carry into the high word, and the high word that goes with the low one.
#[test]
fn wide_counters() {
    let mut u = R::default();
    u.connect_all();
    u.ev[7].next = 0xFFFF.into();
    for _ in 0..66_000 {
        assert!(simulate(&mut u, 200));
        step(&mut u);
    }
    let at = a::COUNTERS + 56;
    let lo = read(&mut u, at, false) as u64;
    let v = lo | (read(&mut u, at + 4, false) as u64) << 32;
    // at most 67 increments are on their way
    let sent = 66_000u64 * 0xFFFF;
    assert!(v >> 32 == 1 || sent >> 32 == 0, "{v:x}");
    assert!(
        v + 67 * 0xFFFF >= sent && v <= sent + 20 * 0xFFFF,
        "{v} of {sent}"
    );
}

#[test]
fn diff_regs() {
    Diff::new(
        "regs_512",
        || with_rom().0,
        inputs!(
            rst,
            mmio_rd_valid,
            mmio_rd_addr,
            adm_valid,
            adm_addr,
            adm_data,
            ev
        ),
    )
    .cycles(2500)
    .p("rst", 0.001)
    .pick("adm_addr", &[0x40, 0x44, 0x48, 0x4C, 0x50, 0x54])
    .stim(|s| {
        let page = s.rng.below(8) / 7;
        let off = [s.rng.below(24) * 4, 0x3F8 + s.rng.below(72) * 4][s.rng.below(2) as usize];
        let rom = ROM_BASE as u64
            + [s.rng.below(260) * 4, s.rng.below(0x4000) * 4][s.rng.below(2) as usize];
        let at = if s.rng.p(0.4) { rom } else { page << 12 | off };
        s.set("mmio_rd_addr", at);
    })
    .run();
}
