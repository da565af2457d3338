//! Small combinational parts of the header path: lengths by opcode, byte order, word geometry, what the ICRC sees.

use crate::packed_struct;
use crate::prims::packed::bits_from_bytes;
use array_init::array_init;
use rust_hdl::prelude::*;

packed_struct! {
    /// What an opcode puts behind the BTH.
    pub struct HdrInfo {
        /// RETH.
        pub reth: bool,
        /// AETH.
        pub aeth: bool,
        /// ImmDt or IETH.
        pub imm: bool,
        /// DETH.
        pub deth: bool,
        /// AtomicETH, AtomicAckETH (behind an AETH).
        pub atomic: bool,
        pub atack: bool,
        /// CNP: sixteen zero bytes, and BECN set.
        pub cnp: bool,
        /// Bytes of the extension headers.
        pub ext: Bits<8>,
        /// Bytes from the start of the frame to the payload.
        pub hl: Bits<8>,
    }
}

/// Combinational. Opcodes of RC, UC and UD, and the CNP (0x81); any other has no extension header.
#[derive(LogicBlock, Default)]
pub struct HdrLen {
    pub opcode: Signal<In, Bits<8>>,
    pub ip6: Signal<In, bool>,
    pub vlan: Signal<In, bool>,
    pub info: Signal<Out, HdrInfo>,
    op5: Signal<Local, Bits<5>>,
    reth: Signal<Local, bool>,
    aeth: Signal<Local, bool>,
    imm: Signal<Local, bool>,
    cnp: Signal<Local, bool>,
    atomic: Signal<Local, bool>,
    atack: Signal<Local, bool>,
    deth: Signal<Local, bool>,
    ext: Signal<Local, Bits<8>>,
    base: Signal<Local, Bits<8>>,
    hl: Signal<Local, Bits<8>>,
}

impl Logic for HdrLen {
    #[hdl_gen]
    fn update(&mut self) {
        self.op5.next = self.opcode.val().get_bits::<5>(0);
        self.reth.next = false;
        self.aeth.next = false;
        self.imm.next = false;
        self.cnp.next = self.opcode.val() == 129;
        self.deth.next = self.opcode.val().get_bits::<3>(5) == 3;
        self.atomic.next = false;
        self.atack.next = false;
        match self.op5.val().index() {
            3 => self.imm.next = true,
            5 => self.imm.next = true,
            6 => self.reth.next = true,
            9 => self.imm.next = true,
            10 => self.reth.next = true,
            11 => {
                self.reth.next = true;
                self.imm.next = true;
            }
            12 => self.reth.next = true,
            13 => self.aeth.next = true,
            15 => self.aeth.next = true,
            16 => self.aeth.next = true,
            17 => self.aeth.next = true,
            18 => {
                self.aeth.next = true;
                self.atack.next = true;
            }
            19 => self.atomic.next = true,
            20 => self.atomic.next = true,
            22 => self.imm.next = true,
            23 => self.imm.next = true,
            _ => {}
        }
        self.ext.next = 0.into();
        if self.deth.val() & self.imm.val() {
            self.ext.next = 12.into();
        } else if self.deth.val() {
            self.ext.next = 8.into();
        } else if self.atomic.val() {
            self.ext.next = 28.into();
        } else if self.atack.val() {
            self.ext.next = 12.into();
        } else if self.reth.val() & self.imm.val() {
            self.ext.next = 20.into();
        } else if self.reth.val() | self.cnp.val() {
            self.ext.next = 16.into();
        } else if self.aeth.val() | self.imm.val() {
            self.ext.next = 4.into();
        }
        self.base.next = 54.into();
        if self.ip6.val() & self.vlan.val() {
            self.base.next = 78.into();
        } else if self.ip6.val() {
            self.base.next = 74.into();
        } else if self.vlan.val() {
            self.base.next = 58.into();
        }
        self.hl.next = self.base.val() + self.ext.val();
        self.info.next.reth = self.reth.val();
        self.info.next.aeth = self.aeth.val();
        self.info.next.imm = self.imm.val();
        self.info.next.deth = self.deth.val();
        self.info.next.atomic = self.atomic.val();
        self.info.next.atack = self.atack.val();
        self.info.next.cnp = self.cnp.val();
        self.info.next.ext = self.ext.val();
        self.info.next.hl = self.hl.val();
    }
}

/// Reverses the order of the `B` bytes of a word (`N == 8 * B`). Combinational, no logic.
#[derive(LogicBlock, Default)]
pub struct Bswap<const N: usize, const B: usize> {
    pub x: Signal<In, Bits<N>>,
    pub y: Signal<Out, Bits<N>>,
    acc: Signal<Local, Bits<N>>,
    one: Signal<Local, Bits<8>>,
}

impl<const N: usize, const B: usize> Logic for Bswap<N, B> {
    #[hdl_gen]
    fn update(&mut self) {
        self.acc.next = 0.into();
        for i in 0..B {
            self.one.next = self.x.val().get_bits::<8>(i * 8);
            self.acc.next = (self.acc.val() << 8) | bit_cast::<N, 8>(self.one.val());
        }
        self.y.next = self.acc.val();
    }
}

/// Numbers that follow from the bytes of a bus word, as signals (so that blocks that use them can derive `Default`).
#[derive(LogicBlock)]
pub struct WordGeo<const L: usize> {
    // log2 of `L`.
    pub lb: Signal<Out, Bits<4>>,
    // `L - 1`.
    pub low: Signal<Out, Bits<13>>,
    // `L - 2`: where an ICRC straddles two words.
    pub split: Signal<Out, Bits<6>>,
    // `L`.
    pub bytes: Signal<Out, Bits<8>>,
    // Bits of a word.
    pub width: Signal<Out, Bits<11>>,
    k_lb: Constant<Bits<4>>,
    k_low: Constant<Bits<13>>,
    k_split: Constant<Bits<6>>,
    k_bytes: Constant<Bits<8>>,
    k_width: Constant<Bits<11>>,
}

impl<const L: usize> Default for WordGeo<L> {
    fn default() -> Self {
        assert!(L.is_power_of_two() && (8..=64).contains(&L));
        let l = L as u64;
        Self {
            lb: Default::default(),
            low: Default::default(),
            split: Default::default(),
            bytes: Default::default(),
            width: Default::default(),
            k_lb: Constant::new((L.trailing_zeros() as u64).into()),
            k_low: Constant::new((l - 1).into()),
            k_split: Constant::new((l - 2).into()),
            k_bytes: Constant::new(l.into()),
            k_width: Constant::new((8 * l).into()),
        }
    }
}

impl<const L: usize> Logic for WordGeo<L> {
    #[hdl_gen]
    fn update(&mut self) {
        self.lb.next = self.k_lb.val();
        self.low.next = self.k_low.val();
        self.split.next = self.k_split.val();
        self.bytes.next = self.k_bytes.val();
        self.width.next = self.k_width.val();
    }
}

/// What the ICRC sees of a header: everything before the IP header is 00 but its last four bytes FF (the seed), and the fields
/// that may change on the way are FF.
#[derive(LogicBlock)]
pub struct IcrcView {
    pub ip6: Signal<In, bool>,
    pub vlan: Signal<In, bool>,
    pub hdr: Signal<In, Bits<1024>>,
    pub y: Signal<Out, Bits<1024>>,
    ones: [Constant<Bits<1024>>; 4],
    keep: [Constant<Bits<1024>>; 4],
}

impl Default for IcrcView {
    fn default() -> Self {
        // index: ip6 + 2 * vlan
        let view = |i: usize| {
            let (l2, l3) = (14 + 4 * (i / 2), 20 + 20 * (i % 2));
            let (mut ones, mut keep) = ([0u8; 128], [0xFFu8; 128]);
            keep[..l2].fill(0);
            ones[l2 - 4..l2].fill(0xFF);
            if i % 2 == 1 {
                ones[l2] = 0x0F;
                for k in [1, 2, 3, 7] {
                    ones[l2 + k] = 0xFF;
                }
            } else {
                for k in [1, 8, 10, 11] {
                    ones[l2 + k] = 0xFF;
                }
            }
            for k in [6, 7, 12] {
                ones[l2 + l3 + k] = 0xFF;
            }
            (
                bits_from_bytes::<1024>(&ones),
                bits_from_bytes::<1024>(&keep),
            )
        };
        Self {
            ip6: Default::default(),
            vlan: Default::default(),
            hdr: Default::default(),
            y: Default::default(),
            ones: array_init(|i| Constant::new(view(i).0)),
            keep: array_init(|i| Constant::new(view(i).1)),
        }
    }
}

impl Logic for IcrcView {
    #[hdl_gen]
    fn update(&mut self) {
        if self.vlan.val() {
            if self.ip6.val() {
                self.y.next = (self.hdr.val() & self.keep[3].val()) | self.ones[3].val();
            } else {
                self.y.next = (self.hdr.val() & self.keep[2].val()) | self.ones[2].val();
            }
        } else if self.ip6.val() {
            self.y.next = (self.hdr.val() & self.keep[1].val()) | self.ones[1].val();
        } else {
            self.y.next = (self.hdr.val() & self.keep[0].val()) | self.ones[0].val();
        }
    }
}
