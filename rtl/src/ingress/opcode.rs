//! The opcode table: which headers follow the BTH, and where a packet goes.

use rust_hdl::prelude::*;

/// Opcode to class; total, 0 for an unknown opcode. Combinational.
#[derive(LogicBlock, Default)]
pub struct OpClass {
    pub op: Signal<In, Bits<8>>,
    pub cls: Signal<Out, Bits<4>>,
}

impl Logic for OpClass {
    #[hdl_gen]
    fn update(&mut self) {
        self.cls.next = 0.into();
        match self.op.val().index() {
            0 => {
                self.cls.next = bits::<4>(1);
            }
            1 => {
                self.cls.next = bits::<4>(1);
            }
            2 => {
                self.cls.next = bits::<4>(1);
            }
            3 => {
                self.cls.next = bits::<4>(2);
            }
            4 => {
                self.cls.next = bits::<4>(1);
            }
            5 => {
                self.cls.next = bits::<4>(2);
            }
            6 => {
                self.cls.next = bits::<4>(3);
            }
            7 => {
                self.cls.next = bits::<4>(1);
            }
            8 => {
                self.cls.next = bits::<4>(1);
            }
            9 => {
                self.cls.next = bits::<4>(2);
            }
            10 => {
                self.cls.next = bits::<4>(3);
            }
            11 => {
                self.cls.next = bits::<4>(4);
            }
            12 => {
                self.cls.next = bits::<4>(5);
            }
            13 => {
                self.cls.next = bits::<4>(6);
            }
            14 => {
                self.cls.next = bits::<4>(7);
            }
            15 => {
                self.cls.next = bits::<4>(6);
            }
            16 => {
                self.cls.next = bits::<4>(6);
            }
            17 => {
                self.cls.next = bits::<4>(8);
            }
            18 => {
                self.cls.next = bits::<4>(9);
            }
            19 => {
                self.cls.next = bits::<4>(10);
            }
            20 => {
                self.cls.next = bits::<4>(10);
            }
            22 => {
                self.cls.next = bits::<4>(2);
            }
            23 => {
                self.cls.next = bits::<4>(2);
            }
            28 => {
                self.cls.next = bits::<4>(11);
            }
            29 => {
                self.cls.next = bits::<4>(3);
            }
            32 => {
                self.cls.next = bits::<4>(1);
            }
            33 => {
                self.cls.next = bits::<4>(1);
            }
            34 => {
                self.cls.next = bits::<4>(1);
            }
            35 => {
                self.cls.next = bits::<4>(2);
            }
            36 => {
                self.cls.next = bits::<4>(1);
            }
            37 => {
                self.cls.next = bits::<4>(2);
            }
            38 => {
                self.cls.next = bits::<4>(3);
            }
            39 => {
                self.cls.next = bits::<4>(1);
            }
            40 => {
                self.cls.next = bits::<4>(1);
            }
            41 => {
                self.cls.next = bits::<4>(2);
            }
            42 => {
                self.cls.next = bits::<4>(3);
            }
            43 => {
                self.cls.next = bits::<4>(4);
            }
            100 => {
                self.cls.next = bits::<4>(12);
            }
            101 => {
                self.cls.next = bits::<4>(13);
            }
            129 => {
                self.cls.next = bits::<4>(14);
            }
            _ => {}
        }
    }
}

/// What a class means. Combinational.
///
/// * `ext`: bytes of extension headers; `nopay`: a payload is an error; `rsp`: belongs to the requester.
/// * `imm_at`: immediate (or IETH) at byte 0 (0), 8 (1) or 16 (2) of the extension headers.
#[derive(LogicBlock, Default)]
pub struct ClassInfo {
    pub cls: Signal<In, Bits<4>>,
    pub ext: Signal<Out, Bits<6>>,
    pub nopay: Signal<Out, bool>,
    pub rsp: Signal<Out, bool>,
    pub imm_at: Signal<Out, Bits<2>>,
}

impl Logic for ClassInfo {
    #[hdl_gen]
    fn update(&mut self) {
        self.ext.next = 0.into();
        self.nopay.next = false;
        self.rsp.next = false;
        self.imm_at.next = 0.into();
        match self.cls.val().index() {
            // immediate or IETH
            2 => {
                self.ext.next = bits::<6>(4);
            }
            // RETH
            3 => {
                self.ext.next = bits::<6>(16);
            }
            // RETH, immediate
            4 => {
                self.ext.next = bits::<6>(20);
                self.imm_at.next = bits::<2>(2);
            }
            // READ request
            5 => {
                self.ext.next = bits::<6>(16);
                self.nopay.next = true;
            }
            // READ response First, Last, Only
            6 => {
                self.ext.next = bits::<6>(4);
                self.rsp.next = true;
            }
            // READ response Middle
            7 => {
                self.rsp.next = true;
            }
            // ACK
            8 => {
                self.ext.next = bits::<6>(4);
                self.nopay.next = true;
                self.rsp.next = true;
            }
            // ATOMIC ACK
            9 => {
                self.ext.next = bits::<6>(12);
                self.nopay.next = true;
                self.rsp.next = true;
            }
            // atomics
            10 => {
                self.ext.next = bits::<6>(28);
                self.nopay.next = true;
            }
            // FLUSH
            11 => {
                self.ext.next = bits::<6>(20);
                self.nopay.next = true;
            }
            // UD
            12 => {
                self.ext.next = bits::<6>(8);
            }
            13 => {
                self.ext.next = bits::<6>(12);
                self.imm_at.next = bits::<2>(1);
            }
            // CNP: the 16 reserved bytes count as a header
            14 => {
                self.ext.next = bits::<6>(16);
                self.nopay.next = true;
            }
            _ => {}
        }
    }
}
