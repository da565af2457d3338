//! Source words that are not in work memory.

use super::GidEntry;
use rust_hdl::prelude::*;

/// The words of `asm::sp`; combinational.
#[derive(LogicBlock, Default)]
pub struct Special {
    pub sel: Signal<In, Bits<5>>,
    pub pasid: Signal<In, Bits<12>>,
    pub far: Signal<In, bool>,
    pub id: Signal<In, Bits<32>>,
    pub n: Signal<In, Bits<16>>,
    pub tag: Signal<In, Bits<16>>,
    pub used: Signal<In, bool>,
    pub nx: Signal<In, Bits<3>>,
    pub carry: Signal<In, bool>,
    pub win: Signal<In, bool>,
    pub acc: Signal<In, Bits<32>>,
    pub gid: Signal<In, GidEntry>,
    pub ip6: Signal<In, bool>,
    pub word: Signal<Out, Bits<32>>,
    g: Signal<Local, GidEntry>,
    mac: Signal<Local, Bits<48>>,
    addr: Signal<Local, Bits<128>>,
    w: Signal<Local, Bits<32>>,
}

impl Logic for Special {
    #[hdl_gen]
    fn update(&mut self) {
        self.g.next = self.gid.val();
        self.mac.next = self.g.val().mac;
        self.addr.next = self.g.val().gid;
        self.w.next = 0.into();
        match self.sel.val().index() {
            1 => self.w.next = bits::<32>(0xFFFF_FFFF_u64),
            2 => self.w.next = bit_cast::<32, 12>(self.pasid.val()),
            3 => self.w.next = self.id.val(),
            4 => self.w.next = bit_cast::<32, 16>(self.n.val()),
            5 => self.w.next = bit_cast::<32, 3>(self.nx.val()),
            6 => {
                if self.carry.val() {
                    self.w.next = 1.into();
                }
            }
            7 => self.w.next = bits::<32>(0xFFFF_FFFF_u64) << self.acc.val().get_bits::<5>(0),
            8 => self.w.next = self.mac.val().get_bits::<32>(0),
            9 => self.w.next = bit_cast::<32, 16>(self.mac.val().get_bits::<16>(32)),
            10 => self.w.next = self.addr.val().get_bits::<32>(0),
            11 => self.w.next = self.addr.val().get_bits::<32>(32),
            12 => self.w.next = self.addr.val().get_bits::<32>(64),
            13 => self.w.next = self.addr.val().get_bits::<32>(96),
            14 => {
                if self.g.val().valid {
                    self.w.next = 1.into();
                }
                if self.g.val().ip6 != self.ip6.val() {
                    self.w.next = self.w.val() | 2;
                }
            }
            15 => {
                if !self.pasid.val().any() {
                    self.w.next = 1.into();
                }
            }
            16 => {
                if self.used.val() {
                    self.w.next = 1.into();
                }
            }
            17 => self.w.next = bit_cast::<32, 16>(self.tag.val()),
            18 => {
                if self.far.val() {
                    self.w.next = 1.into();
                }
            }
            19 => {
                if self.win.val() {
                    self.w.next = 1.into();
                }
            }
            _ => self.w.next = 0.into(),
        }
        self.word.next = self.w.val();
    }
}
