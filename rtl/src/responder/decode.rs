//! What an opcode asks of the responder.

use crate::packed_struct;
use rust_hdl::prelude::*;

packed_struct! {
    pub struct OpFlags {
        /// Service class.
        pub rc: bool,
        pub uc: bool,
        pub ud: bool,
        pub cnp: bool,
        pub send: bool,
        pub write: bool,
        /// READ or atomic.
        pub read: bool,
        /// Compare and swap, or (`add`) fetch and add.
        pub atomic: bool,
        pub add: bool,
        pub first: bool,
        pub last: bool,
        /// With immediate data.
        pub imm: bool,
        /// With a key to invalidate.
        pub inv: bool,
        /// None of send, write, read: responses are refused.
        pub bad: bool,
    }
}

/// Flags of a BTH opcode; those of the operation are the same in all service classes. Combinational.
#[derive(LogicBlock, Default)]
pub struct Decode {
    pub op: Signal<In, Bits<8>>,
    /// A constant of the card: atomics are unsupported opcodes.
    pub no_atomics: Signal<In, bool>,
    pub flags: Signal<Out, OpFlags>,
    f: Signal<Local, OpFlags>,
    cls: Signal<Local, Bits<3>>,
    op5: Signal<Local, Bits<5>>,
}

impl Logic for Decode {
    #[hdl_gen]
    fn update(&mut self) {
        self.cls.next = self.op.val().get_bits::<3>(5);
        self.op5.next = self.op.val().get_bits::<5>(0);
        self.f.next.rc = self.cls.val() == 0;
        self.f.next.uc = self.cls.val() == 1;
        self.f.next.ud = self.cls.val() == 3;
        self.f.next.cnp = self.op.val() == 129;
        self.f.next.send = false;
        self.f.next.write = false;
        self.f.next.read = false;
        self.f.next.atomic = false;
        self.f.next.add = false;
        self.f.next.first = false;
        self.f.next.last = false;
        self.f.next.imm = false;
        self.f.next.inv = false;
        self.f.next.bad = false;
        match self.op5.val().index() {
            0 => {
                self.f.next.send = true;
                self.f.next.first = true;
            }
            1 => {
                self.f.next.send = true;
            }
            2 => {
                self.f.next.send = true;
                self.f.next.last = true;
            }
            3 => {
                self.f.next.send = true;
                self.f.next.last = true;
                self.f.next.imm = true;
            }
            4 => {
                self.f.next.send = true;
                self.f.next.first = true;
                self.f.next.last = true;
            }
            5 => {
                self.f.next.send = true;
                self.f.next.first = true;
                self.f.next.last = true;
                self.f.next.imm = true;
            }
            6 => {
                self.f.next.write = true;
                self.f.next.first = true;
            }
            7 => {
                self.f.next.write = true;
            }
            8 => {
                self.f.next.write = true;
                self.f.next.last = true;
            }
            9 => {
                self.f.next.write = true;
                self.f.next.last = true;
                self.f.next.imm = true;
            }
            10 => {
                self.f.next.write = true;
                self.f.next.first = true;
                self.f.next.last = true;
            }
            11 => {
                self.f.next.write = true;
                self.f.next.first = true;
                self.f.next.last = true;
                self.f.next.imm = true;
            }
            12 => {
                self.f.next.read = true;
                self.f.next.first = true;
                self.f.next.last = true;
            }
            19 => {
                self.f.next.read = !self.no_atomics.val();
                self.f.next.atomic = !self.no_atomics.val();
                self.f.next.bad = self.no_atomics.val();
                self.f.next.first = true;
                self.f.next.last = true;
            }
            20 => {
                self.f.next.read = !self.no_atomics.val();
                self.f.next.atomic = !self.no_atomics.val();
                self.f.next.add = !self.no_atomics.val();
                self.f.next.bad = self.no_atomics.val();
                self.f.next.first = true;
                self.f.next.last = true;
            }
            22 => {
                self.f.next.send = true;
                self.f.next.last = true;
                self.f.next.inv = true;
            }
            23 => {
                self.f.next.send = true;
                self.f.next.first = true;
                self.f.next.last = true;
                self.f.next.inv = true;
            }
            _ => {
                self.f.next.bad = true;
            }
        }
        self.flags.next = self.f.val();
    }
}
