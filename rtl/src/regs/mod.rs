//! Identification, limits, administrator's registers and counters.

mod image;

use crate::prims::SdpRam2R;
use array_init::array_init;
pub use image::ImageRom;
use metaroce_hdl_spec::regs::{self, admin as a};
use metaroce_hdl_spec::{config::Config, HOST_ABI_MAJOR, HOST_ABI_MINOR};
use metaroce_manifest::Manifest;
use rust_hdl::prelude::*;

/// Counters of the card.
pub const COUNTERS: usize = regs::COUNTERS.len();
/// SGEs that a work request may have: a receive slot holds four.
pub const MAX_SGE: u32 = 16;

/// The capability manifest of a configuration, as the card's ROM holds it.
pub fn rom_image(c: &Config) -> Vec<u8> {
    metaroce_manifest::cbor::encode(&Manifest::of(c))
}

/// Registers of BAR page 0, and the ROM with the capability manifest.
///
/// * `W` bus bits, `LQ`, `LM`, `LC`, `LD` log2 of tables, `LP` log2 of PASIDs, `RD` READs in flight, `KHZ` core clock.
/// * Read: `mmio_rd_valid` for one cycle (or held until done), answer 3 cycles later with one `mmio_rd_done`. The last 64 KiB of the
///   BAR are the manifest's CBOR image (`ROM_OFFSET`, `ROM_BYTES`), in words of 32 bits; other pages and holes read as zero. One read at a time; a valid is not looked at in the cycle of `mmio_rd_done`.
/// * Writes come from the doorbell block on `adm`.
/// * Counters are 48 bits. Reading the low word keeps the high word for the read that follows. An increment shows up in at most
///   67 cycles; none is lost. `rst` clears them (64 cycles, in which increments wait).
/// * `mps_log`, `mrrs_log`: log2 of bytes, from PCIE_LIMITS, too large values are taken as the largest. Power-up: 256 and 512 bytes.
#[derive(LogicBlock)]
pub struct Regs<
    const W: usize,
    const LQ: usize,
    const LM: usize,
    const LC: usize,
    const LD: usize,
    const LP: usize,
    const RD: usize,
    const KHZ: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub mmio_rd_valid: Signal<In, bool>,
    pub mmio_rd_addr: Signal<In, Bits<24>>,
    pub mmio_rd_done: Signal<Out, bool>,
    pub mmio_rd_data: Signal<Out, Bits<32>>,
    pub adm_valid: Signal<In, bool>,
    pub adm_addr: Signal<In, Bits<12>>,
    pub adm_data: Signal<In, Bits<32>>,
    /// What each counter grows by in this cycle, in the order of `hdl_spec::regs::Ctr`.
    pub ev: [Signal<In, Bits<16>>; COUNTERS],
    pub mps_log: Signal<Out, Bits<4>>,
    pub mrrs_log: Signal<Out, Bits<4>>,
    pub link: Signal<Out, bool>,
    pub mac: Signal<Out, Bits<48>>,
    pub seed: Signal<Out, Bits<32>>,
    pub seed_we: Signal<Out, bool>,
    /// Objects a process: MRs lowest, then QPs, CQs, PDs; 16 bits each. Power-up: all ones.
    pub quota: Signal<Out, Bits<64>>,
    pub idle: Signal<Out, bool>,
    fixed: SyncROM<Bits<32>, 10>,
    image: ImageRom,
    sums: SdpRam2R<Bits<48>, 6>,
    ev_r: [DFF<Bits<16>>; COUNTERS],
    pending: [DFF<Bits<23>>; COUNTERS],
    turn: DFF<Bits<6>>,
    turn1: DFF<Bits<6>>,
    add: DFF<Bits<23>>,
    go: DFF<bool>,
    clearing: DFF<bool>,
    limits: DFF<Bits<32>>,
    link_r: DFF<bool>,
    mac_lo: DFF<Bits<32>>,
    mac_hi: DFF<Bits<16>>,
    seed_r: DFF<Bits<32>>,
    seed_p: DFF<bool>,
    quota_a: DFF<Bits<32>>,
    quota_b: DFF<Bits<32>>,
    phase: DFF<Bits<2>>,
    at: DFF<Bits<24>>,
    high: DFF<Bits<16>>,
    out: DFF<Bits<32>>,
    done: DFF<bool>,
    idx: [Constant<Bits<6>>; COUNTERS],
    a_limits: Constant<Bits<12>>,
    a_link: Constant<Bits<12>>,
    a_mac_lo: Constant<Bits<12>>,
    a_mac_hi: Constant<Bits<12>>,
    a_seed: Constant<Bits<12>>,
    a_quota_a: Constant<Bits<12>>,
    a_quota_b: Constant<Bits<12>>,
    a_counters: Constant<Bits<12>>,
    a_end: Constant<Bits<12>>,
    rom_page: Constant<Bits<8>>,
    rom_words: Constant<Bits<15>>,
    off: Signal<Local, Bits<12>>,
    ctr_off: Signal<Local, Bits<12>>,
    is_ctr: Signal<Local, bool>,
    user: Signal<Local, bool>,
    rom: Signal<Local, bool>,
    sum0: Signal<Local, Bits<48>>,
    sum1: Signal<Local, Bits<48>>,
    grown: Signal<Local, Bits<48>>,
    fix: Signal<Local, Bits<32>>,
    mps: Signal<Local, Bits<4>>,
    mrrs: Signal<Local, Bits<4>>,
    some: Signal<Local, bool>,
    inc: Signal<Local, Bits<16>>,
}

impl<
        const W: usize,
        const LQ: usize,
        const LM: usize,
        const LC: usize,
        const LD: usize,
        const LP: usize,
        const RD: usize,
        const KHZ: usize,
    > Default for Regs<W, LQ, LM, LC, LD, LP, RD, KHZ>
{
    fn default() -> Self {
        Self::new(a::FEATURES_ALL, &[])
    }
}

impl<
        const W: usize,
        const LQ: usize,
        const LM: usize,
        const LC: usize,
        const LD: usize,
        const LP: usize,
        const RD: usize,
        const KHZ: usize,
    > Regs<W, LQ, LM, LC, LD, LP, RD, KHZ>
{
    /// `features`: what register FEATURES says; `image`: the ROM, at most 64 KiB.
    pub fn new(features: u32, image: &[u8]) -> Self {
        assert!(
            image.len() <= regs::ROM_MAX as usize,
            "an image of {} bytes in a window of {}",
            image.len(),
            regs::ROM_MAX
        );
        assert!(COUNTERS <= 64, "the counter RAM has 64 words");
        let mut fixed = vec![Bits::<32>::default(); 1024];
        for (at, v) in [
            (a::ID, a::ID_VALUE),
            (a::ABI, HOST_ABI_MAJOR << 16 | HOST_ABI_MINOR),
            (a::LOG_QP, LQ as u32),
            (a::LOG_MR, LM as u32),
            (a::LOG_CQ, LC as u32),
            (a::LOG_PD, LD as u32),
            (a::BUS_BITS, W as u32),
            (a::MAX_SGE, MAX_SGE),
            (a::MAX_RD, RD as u32),
            (a::FEATURES, features),
            (a::ROM_OFFSET, regs::ROM_BASE),
            (a::ROM_BYTES, image.len() as u32),
            (a::MAX_PASID, (1 << LP) - 1),
            (a::CLOCK_10KHZ, (KHZ as u32 + 5) / 10),
        ] {
            fixed[at as usize / 4] = (v as u64).into();
        }
        Self {
            clock: Default::default(),
            rst: Default::default(),
            mmio_rd_valid: Default::default(),
            mmio_rd_addr: Default::default(),
            mmio_rd_done: Default::default(),
            mmio_rd_data: Default::default(),
            adm_valid: Default::default(),
            adm_addr: Default::default(),
            adm_data: Default::default(),
            ev: array_init(|_| Default::default()),
            mps_log: Default::default(),
            mrrs_log: Default::default(),
            link: Default::default(),
            mac: Default::default(),
            seed: Default::default(),
            quota: Default::default(),
            quota_a: Default::default(),
            quota_b: Default::default(),
            seed_we: Default::default(),
            idle: Default::default(),
            fixed: SyncROM::from(fixed.into_iter()),
            image: ImageRom::new(image),
            sums: Default::default(),
            ev_r: array_init(|_| Default::default()),
            pending: array_init(|_| Default::default()),
            turn: Default::default(),
            turn1: Default::default(),
            add: Default::default(),
            go: Default::default(),
            clearing: Default::default(),
            limits: Default::default(),
            link_r: Default::default(),
            mac_lo: Default::default(),
            mac_hi: Default::default(),
            seed_r: Default::default(),
            seed_p: Default::default(),
            phase: Default::default(),
            at: Default::default(),
            high: Default::default(),
            out: Default::default(),
            done: Default::default(),
            idx: array_init(|i| Constant::new((i as u64).into())),
            a_limits: Constant::new((a::PCIE_LIMITS as u64).into()),
            a_link: Constant::new((a::LINK as u64).into()),
            a_mac_lo: Constant::new((a::MAC_LO as u64).into()),
            a_mac_hi: Constant::new((a::MAC_HI as u64).into()),
            a_seed: Constant::new((a::SEED as u64).into()),
            a_quota_a: Constant::new((a::LIMIT_MR_QP as u64).into()),
            a_quota_b: Constant::new((a::LIMIT_CQ_PD as u64).into()),
            a_counters: Constant::new((a::COUNTERS as u64).into()),
            a_end: Constant::new((a::COUNTERS as u64 + 8 * COUNTERS as u64).into()),
            rom_page: Constant::new(((regs::ROM_BASE >> 16) as u64).into()),
            rom_words: Constant::new((image.len().div_ceil(4) as u64).into()),
            rom: Default::default(),
            off: Default::default(),
            ctr_off: Default::default(),
            is_ctr: Default::default(),
            user: Default::default(),
            sum0: Default::default(),
            sum1: Default::default(),
            grown: Default::default(),
            fix: Default::default(),
            mps: Default::default(),
            mrrs: Default::default(),
            some: Default::default(),
            inc: Default::default(),
        }
    }
}

impl<
        const W: usize,
        const LQ: usize,
        const LM: usize,
        const LC: usize,
        const LD: usize,
        const LP: usize,
        const RD: usize,
        const KHZ: usize,
    > Logic for Regs<W, LQ, LM, LC, LD, LP, RD, KHZ>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, turn, turn1, add, go, clearing, limits, link_r, mac_lo, mac_hi);
        dff_setup!(self, clock, seed_r, seed_p, quota_a, quota_b, phase, at, high, out, done);
        clock!(self, clock, fixed, image, sums);

        // counters: increments wait in small registers and are added to the RAM in turn
        self.turn.d.next = self.turn.q.val() + 1;
        self.turn1.d.next = self.turn.q.val();
        self.sums.raddr0.next = self.turn.q.val();
        self.add.d.next = 0.into();
        self.some.next = false;
        for i in 0..COUNTERS {
            // events come from everywhere on the card: a register of their own
            self.ev_r[i].clock.next = self.clock.val();
            self.ev_r[i].d.next = self.ev[i].val();
            self.inc.next = self.ev_r[i].q.val();
            self.pending[i].clock.next = self.clock.val();
            self.pending[i].d.next = self.pending[i].q.val() + bit_cast::<23, 16>(self.inc.val());
            if self.pending[i].q.val().any() | self.ev_r[i].q.val().any() {
                self.some.next = true;
            }
            if (self.idx[i].val() == self.turn.q.val()) & !self.clearing.q.val() {
                self.add.d.next = self.pending[i].q.val();
                self.pending[i].d.next = bit_cast::<23, 16>(self.inc.val());
            }
            if self.rst.val() {
                self.pending[i].d.next = 0.into();
                self.ev_r[i].d.next = 0.into();
            }
        }
        self.go.d.next = true;
        self.sum0.next = self.sums.rdata0.val();
        self.grown.next = self.sum0.val() + bit_cast::<48, 23>(self.add.q.val());
        self.sums.we.next = self.go.q.val();
        self.sums.waddr.next = self.turn1.q.val();
        self.sums.wdata.next = self.grown.val();
        if self.clearing.q.val() {
            self.sums.waddr.next = self.turn.q.val();
            self.sums.wdata.next = 0.into();
            if self.turn.q.val().all() {
                self.clearing.d.next = false;
                // nothing has been read yet that could be written back
                self.go.d.next = false;
            }
        }

        // writes
        self.seed_p.d.next = false;
        if self.adm_valid.val() {
            if self.adm_addr.val() == self.a_limits.val() {
                self.limits.d.next = self.adm_data.val();
            }
            if self.adm_addr.val() == self.a_link.val() {
                self.link_r.d.next = self.adm_data.val().get_bit(0);
            }
            if self.adm_addr.val() == self.a_mac_lo.val() {
                self.mac_lo.d.next = self.adm_data.val();
            }
            if self.adm_addr.val() == self.a_mac_hi.val() {
                self.mac_hi.d.next = self.adm_data.val().get_bits::<16>(0);
            }
            if self.adm_addr.val() == self.a_seed.val() {
                self.seed_r.d.next = self.adm_data.val();
                self.seed_p.d.next = true;
            }
            if self.adm_addr.val() == self.a_quota_a.val() {
                self.quota_a.d.next = self.adm_data.val();
            }
            if self.adm_addr.val() == self.a_quota_b.val() {
                self.quota_b.d.next = self.adm_data.val();
            }
        }

        // reads: step 1 the memories are being read, step 2 their data is there
        self.off.next = self.at.q.val().get_bits::<12>(0);
        self.user.next = self.at.q.val().get_bits::<12>(12).any();
        self.ctr_off.next = self.off.val() - self.a_counters.val();
        self.is_ctr.next =
            (self.off.val() >= self.a_counters.val()) & (self.off.val() < self.a_end.val());
        self.image.addr.next = self.at.q.val().get_bits::<14>(2);
        self.rom.next = (self.at.q.val().get_bits::<8>(16) == self.rom_page.val())
            & (bit_cast::<15, 14>(self.at.q.val().get_bits::<14>(2)) < self.rom_words.val());
        self.fixed.address.next = self.off.val().get_bits::<10>(2);
        self.sums.raddr1.next = self.ctr_off.val().get_bits::<6>(3);
        self.sum1.next = self.sums.rdata1.val();
        self.fix.next = self.fixed.data.val();
        self.done.d.next = false;
        match self.phase.q.val().index() {
            0 => {
                if self.mmio_rd_valid.val() & !self.done.q.val() {
                    self.at.d.next = self.mmio_rd_addr.val();
                    self.phase.d.next = 1.into();
                }
            }
            1 => {
                self.phase.d.next = 2.into();
            }
            _ => {
                self.out.d.next = self.fix.val();
                if self.off.val() == self.a_limits.val() {
                    self.out.d.next = self.limits.q.val();
                }
                if self.off.val() == self.a_link.val() {
                    self.out.d.next = 0.into();
                    if self.link_r.q.val() {
                        self.out.d.next = 1.into();
                    }
                }
                if self.off.val() == self.a_mac_lo.val() {
                    self.out.d.next = self.mac_lo.q.val();
                }
                if self.off.val() == self.a_mac_hi.val() {
                    self.out.d.next = bit_cast::<32, 16>(self.mac_hi.q.val());
                }
                if self.off.val() == self.a_seed.val() {
                    self.out.d.next = self.seed_r.q.val();
                }
                if self.off.val() == self.a_quota_a.val() {
                    self.out.d.next = self.quota_a.q.val();
                }
                if self.off.val() == self.a_quota_b.val() {
                    self.out.d.next = self.quota_b.q.val();
                }
                if self.is_ctr.val() {
                    if self.off.val().get_bit(2) {
                        self.out.d.next = bit_cast::<32, 16>(self.high.q.val());
                    } else {
                        self.out.d.next = self.sum1.val().get_bits::<32>(0);
                        if !self.user.val() {
                            self.high.d.next = self.sum1.val().get_bits::<16>(32);
                        }
                    }
                }
                if self.user.val() {
                    self.out.d.next = 0.into();
                }
                if self.rom.val() {
                    self.out.d.next = self.image.data.val();
                }
                self.done.d.next = true;
                self.phase.d.next = 0.into();
            }
        }
        self.mmio_rd_done.next = self.done.q.val();
        self.mmio_rd_data.next = self.out.q.val();

        self.mps.next = bit_cast::<4, 3>(self.limits.q.val().get_bits::<3>(0));
        self.mrrs.next = bit_cast::<4, 3>(self.limits.q.val().get_bits::<3>(4));
        if self.mps.val() > 2 {
            self.mps.next = 2.into();
        }
        if self.mrrs.val() > 5 {
            self.mrrs.next = 5.into();
        }
        self.mps_log.next = self.mps.val() + 7;
        self.mrrs_log.next = self.mrrs.val() + 7;
        self.link.next = self.link_r.q.val();
        self.quota.next = bit_cast::<64, 32>(self.quota_a.q.val())
            | (bit_cast::<64, 32>(self.quota_b.q.val()) << 32);
        self.mac.next = (bit_cast::<48, 16>(self.mac_hi.q.val()) << 32)
            | bit_cast::<48, 32>(self.mac_lo.q.val());
        self.seed.next = self.seed_r.q.val();
        self.seed_we.next = self.seed_p.q.val();
        self.idle.next = !self.some.val()
            & !self.add.q.val().any()
            & (self.phase.q.val() == 0)
            & !self.clearing.q.val();
        if self.rst.val() {
            self.turn.d.next = 0.into();
            self.add.d.next = 0.into();
            self.go.d.next = false;
            self.clearing.d.next = true;
            self.limits.d.next = bits::<32>(0x21);
            self.link_r.d.next = false;
            self.phase.d.next = 0.into();
            self.done.d.next = false;
            self.seed_p.d.next = false;
            self.quota_a.d.next = bits::<32>(0xFFFF_FFFF_u64);
            self.quota_b.d.next = bits::<32>(0xFFFF_FFFF_u64);
        }
    }
}
