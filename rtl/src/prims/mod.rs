//! Building blocks, and how to write a block on top of them.
//!
//! # Template
//! ```
//! use metaroce_rtl::{packed_struct, prims::*};
//! use rust_hdl::prelude::*;
//!
//! packed_struct! {
//!     /// First field = least significant bits.
//!     pub struct Ctx { pub psn: Bits<24>, pub msn: Bits<24>, pub rdy: bool }
//! }
//!
//! #[derive(LogicBlock, Default)]          // hand-written Default as soon as there is a Constant or a generic array
//! pub struct Example<const W: usize> {
//!     pub clock: Signal<In, Clock>,       // always named `clock`: then `clock!(self, clock, sub1, sub2)` wires it
//!     pub rst: Signal<In, bool>,
//!     pub qp: Signal<In, Bits<8>>,
//!     pub word: Signal<In, Bits<W>>,
//!     pub psn: Signal<Out, Bits<24>>,
//!     ram: SdpRam<Ctx, 8>,                // a struct in a RAM needs no conversion
//!     n: DFF<Bits<8>>,
//!     c: Signal<Local, Ctx>,
//!     raw: Signal<Local, Bits<49>>,
//! }
//! impl<const W: usize> Logic for Example<W> {
//!     #[hdl_gen]
//!     fn update(&mut self) {
//!         dff_setup!(self, clock, n);     // clocks the DFFs and gives d = q as default
//!         clock!(self, clock, ram);
//!         self.ram.raddr.next = self.qp.val();
//!         self.ram.waddr.next = self.n.q.val();
//!         self.ram.we.next = true;
//!         self.c.next = self.ram.rdata.val();             // copy the struct to a Local, then read its fields
//!         self.psn.next = self.c.val().psn;
//!         self.c.next.msn = self.word.val().get_bits::<24>(0);  // set one field
//!         self.raw.next = self.c.val().into();            // struct -> Bits: .into() (no hardware)
//!         self.ram.wdata.next = self.raw.val().into();    // Bits -> struct: .into() too, thanks to packed_struct!
//!         self.n.d.next = self.n.q.val() + 1;
//!         if self.rst.val() {                             // synchronous reset goes last
//!             self.n.d.next = 0.into();
//!         }
//!     }
//! }
//! let mut u = Example::<64>::default();
//! u.connect_all();
//! generate_verilog(&u);
//! ```
//!
//! # What works in a kernel (each line is exercised by `tests/idioms.rs`)
//! * `if a.val() { } else if b.val() { } else { }`; conditions are `bool`; combine with `&`, `|`, `!` and parentheses round every sub-expression.
//! * `match self.x.val().index() { 0 => {..} 7 => {..} _ => {..} }` (decimal literals, `_` last, x of at most 32 bits); `match` on a
//!   `LogicState` enum by its variants.
//! * `for i in 0..N` with a const generic bound; `i` as an array index (`self.a[i + 1]`), in `get_bit(i)`, `get_bits::<8>(i * 8)`.
//!   `i` as a *value* does not work: make `idx: [Constant<Bits<K>>; N]`.
//! * In a loop, `bit_cast(self.x[i].val())` and `self.s[i].val().field` do not compile ("cannot find value `i`"): copy to a plain Local first,
//!   inside the loop: `self.t.next = self.x[i].val(); self.acc.next = self.acc.val() | (bit_cast::<32, 8>(self.t.val()) << self.sh[i].val());`
//!   (`sh`: an array of `Constant`). A Local may be written and read again in every turn.
//! * Arrays of signals, DFFs and sub-modules. `dff_setup!`/`clock!` take plain names only: for an array write
//!   `for i in 0..N { self.a[i].clock.next = self.clock.val(); self.a[i].d.next = self.a[i].q.val(); }`.
//! * `.any()`, `.all()`, `.xor()`, `.get_bit(i)`, `.replace_bit(i, v)`, `.get_bits::<M>(offset)` **on a plain signal value only** (never on an
//!   expression in parentheses or on `.val().field`: copy it to a Local). `get_bit(self.sel.val().index())` (run-time index) works.
//! * Const generics in types (`get_bits::<K>`), in loop bounds and array lengths. A const generic as a *value* does not work: `Constant` field.
//! * Shifts by a literal or by a signal/`Constant` of any width: `a.val() << self.n.val()`.
//! * Concatenation: `(bit_cast::<16, 8>(self.hi.val()) << 8) | bit_cast::<16, 8>(self.lo.val())`, or a packed struct, or arrays of Locals.
//! * Compare two signals of one width with `==`, `!=`, `<`, `>=` ..; with a literal: `self.x.val() == 5` is fine on a *plain* signal;
//!   never on an arithmetic expression (`a + 1 > b`): Local first.
//! * Add with carry: widen first, `self.s.next = bit_cast::<9, 8>(self.a.val()) + bit_cast::<9, 8>(self.b.val());`, then `get_bit(8)`.
//!   Wrapping add: `self.s.next = self.a.val() + self.b.val();` into a Local of the same width.
//! * Serial-number compare (PSN): `self.d.next = self.a.val() - self.b.val();` (24-bit Local), then `self.d.val().get_bit(23)`.
//! * Literals: `0.into()`, `bits::<24>(5)`, `bits::<48>(0xFFFF_FFFF_FFFF_u64)`; wider than 64 bits: `Constant` field made in `Default`.
//! * Run-time slice: `self.w.val().get_bits::<8>(self.off.val().index())` (keep it in range). Multiply: only 16 x 16 -> 32 bits.
//! * Structs: `self.r.d.next.field = x` on a DFF keeps the other fields; nested structs one level at a time (`self.n.next = self.o.val().inner`,
//!   then `self.n.val().p`); whole structs compare with `==`; `self.n.val().p + self.k.val()` is fine, `self.n.val().p.get_bits::<2>(0)` is not.
//! * `bool` to bits: no cast; `if b { x.next = 1.into(); } else { x.next = 0.into(); }` or, for a vector, start from zero and
//!   `for i in 0..N { self.m.next = self.m.val().replace_bit(i, self.v[i].val()); }`.
//!
//! # What silently breaks (the differential test finds it; `cargo xtask lint` refuses it)
//! `a & b == c` without parentheses; `bit_cast::<9, 8>(a + b)`; `bit_cast::<16, 8>(!a)`; `a + 1 > b`; `match` guards; a Local or output that is not
//! assigned on every path (latch). Put every add, subtract and NOT into an exact-width Local before it is widened, shifted right or compared.
//!
//! # Rules of the simulation
//! * Every input of every sub-module must be driven, and every Local and output assigned, or `generate_verilog` panics with `OpenSignal`.
//! * Write a Local before reading it, in program order.
//! * A field must not be called like a SystemVerilog keyword (`before`, `final`, `context`, `packed`, `bit`, ..): `emit_verilog` refuses it.
//! * Leaf cells here are the only places with hand-written Verilog.
//!
//! # Test of a block
//! `rtl/tests/diff_*.rs`: one line a block, see [`crate::diff`]:
//! `Diff::new("name", Block::default, inputs!(rst, s_data, s_valid, m_ready)).hold("s_valid", "s_ready", &["s_data"]).run();`
//! Inputs must be bits, bool or `packed_struct!` types. On a mismatch it prints the cycle, the signal, both values and the command to repeat it.
pub mod arb;
pub mod fifo;
pub mod half;
pub mod icrc;
pub mod lane_ram;
pub mod packed;
pub mod psn;
pub mod ram;
pub mod rotate;
pub mod skid;
pub mod xormat;

pub use arb::{Arb, Arb2, Arb3, Arb4, PrioArb};
pub use fifo::Fifo;
pub use half::Half;
pub use icrc::Icrc;
pub use lane_ram::LaneRam;
pub use psn::PsnCmp;
pub use ram::{SdpRam, SdpRam2R};
pub use rotate::ByteRot;
pub use skid::Skid;
pub use xormat::{Rows, XorMat, XorMatReg};
