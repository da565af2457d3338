//! Memory windows: bind, invalidate, and the check part of the MR table.

use crate::layouts::MrCheck;
use crate::packed_struct;
use crate::prims::SdpRam;
use rust_hdl::prelude::*;

packed_struct! {
    /// BIND_MW or LOCAL_INV, from the requester.
    pub struct WinJob {
        /// Else LOCAL_INV of `key`, and the rest is not looked at.
        pub binds: bool,
        /// Bind: index of the window, and the variant that it gets.
        pub key: Bits<32>,
        pub qpn: Bits<24>,
        pub pd: Bits<12>,
        pub lkey: Bits<32>,
        pub va: Bits<64>,
        /// 0: the window is not bound any more.
        pub len: Bits<48>,
        pub write: bool,
        pub read: bool,
        pub atomic: bool,
    }
}
packed_struct! {
    /// SEND with invalidate, from the responder.
    pub struct WinInv { pub key: Bits<32>, pub qpn: Bits<24>, pub pd: Bits<12> }
}
packed_struct! {
    /// Order of the command sequencer about entry `mr`: see [`order`].
    pub struct WinOrder { pub op: Bits<2>, pub mr: Bits<16> }
}

/// `WinOrder.op`.
pub mod order {
    /// The MR's entry becomes zero, if no window is bound to it; else it stays, and the answer is `busy`.
    pub const CLOSE: u128 = 1;
    /// The window's entry becomes zero, bound or not.
    pub const DROP: u128 = 2;
    /// A new MR: no window is bound to it.
    pub const NEW: u128 = 3;
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum WinSt {
    Boot,
    Idle,
    Ask,
    Get,
    Get2,
    Chk,
    Cmp,
    Judge,
    Put,
    Dec,
    Dec2,
    Inc,
    Inc2,
    Clear,
    Calm,
    Drain,
    Done,
}

/// Carries out one request at a time, and writes all copies of the MR table's check part: its own changes, and those of the sequencer (`s_*`), which pass
/// in their cycle. If one of these comes while a request is between reading and writing, the request begins anew, so each request is one step.
///
/// * `LOG_MR`: log2 of the MR table.
/// * Streams `ord` (goes first), `inv`, `job`: a request holds its `valid` and data until `x_done`, a pulse with the answer: `ord_busy`, `inv_ok`, `job_ok`. A
///   request that is not ok has changed nothing.
/// * LOCAL_INV and SEND with invalidate: a bound window of type 2 with this key, QPN and PD. It is not bound afterwards; its key stays.
/// * Bind: the window has the PD of the QP; one of type 2 is not bound (`len` 0: is bound to this QP, or not bound). The MR has that PD and that lkey, is no window,
///   lets windows be bound, has local write if the window shall have write or atomic, and holds the range (no sum that could wrap). A window of type 1 that was
///   bound is bound anew.
/// * Each MR has a count of its windows. `ord` NEW begins it, so it does not matter what a sweep over all objects of a process leaves of it.
/// * Before a `job` that ends a binding is answered, the responder has been between two packets (`calm`) and its jobs (`pl_*`) up to then have been taken: a
///   completion that goes to the placement afterwards comes after every byte that was written through the window.
/// * Latency 8 cycles for a request that is refused, up to 12 else, and the wait for `calm`. After `rst` busy for `2^LOG_MR` cycles.
#[derive(LogicBlock)]
pub struct Windows<const LOG_MR: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub s_we: Signal<In, bool>,
    pub s_waddr: Signal<In, Bits<LOG_MR>>,
    pub s_wdata: Signal<In, MrCheck>,
    pub we: Signal<Out, bool>,
    pub waddr: Signal<Out, Bits<LOG_MR>>,
    pub wdata: Signal<Out, MrCheck>,
    pub ord_valid: Signal<In, bool>,
    pub ord_data: Signal<In, WinOrder>,
    pub ord_done: Signal<Out, bool>,
    pub ord_busy: Signal<Out, bool>,
    pub inv_valid: Signal<In, bool>,
    pub inv_data: Signal<In, WinInv>,
    pub inv_done: Signal<Out, bool>,
    pub inv_ok: Signal<Out, bool>,
    pub job_valid: Signal<In, bool>,
    pub job_data: Signal<In, WinJob>,
    pub job_done: Signal<Out, bool>,
    pub job_ok: Signal<Out, bool>,
    pub calm: Signal<In, bool>,
    pub pl_valid: Signal<In, bool>,
    pub pl_ready: Signal<In, bool>,
    pub idle: Signal<Out, bool>,
    tab: SdpRam<MrCheck, LOG_MR>,
    /// Windows bound to each MR.
    count: SdpRam<Bits<16>, LOG_MR>,
    st: DFF<WinSt>,
    walk: DFF<Bits<LOG_MR>>,
    /// The request at hand: 0 `ord`, 1 `inv`, 2 `job`.
    who: DFF<Bits<2>>,
    op: DFF<Bits<2>>,
    x: DFF<WinJob>,
    ix: DFF<Bits<16>>,
    /// The sequencer wrote since the entries were read.
    dirty: DFF<bool>,
    w: DFF<MrCheck>,
    m: DFF<MrCheck>,
    // window: kind and PD, variant, QPN; MR: key and rights, PD, write needs local write; there is a length
    a_win: DFF<bool>,
    a_var: DFF<bool>,
    a_qpn: DFF<bool>,
    b_mr: DFF<bool>,
    b_pd: DFF<bool>,
    b_rt: DFF<bool>,
    some: DFF<bool>,
    off: DFF<Bits<64>>,
    slack: DFF<Bits<49>>,
    // may be invalidated; range lies in the MR; may be bound anew; windows are bound
    inv: DFF<bool>,
    range: DFF<bool>,
    free: DFF<bool>,
    users: DFF<bool>,
    good: DFF<bool>,
    ok: DFF<bool>,
    k_high: Constant<Bits<32>>,
    k_zero: Constant<MrCheck>,
    j: Signal<Local, WinJob>,
    v: Signal<Local, WinInv>,
    o: Signal<Local, WinOrder>,
    xx: Signal<Local, WinJob>,
    ww: Signal<Local, MrCheck>,
    mm: Signal<Local, MrCheck>,
    e: Signal<Local, MrCheck>,
    key: Signal<Local, Bits<32>>,
    lkey: Signal<Local, Bits<32>>,
    high: Signal<Local, Bits<32>>,
    lhigh: Signal<Local, Bits<32>>,
    len: Signal<Local, Bits<48>>,
    room: Signal<Local, Bits<48>>,
    isbind: Signal<Local, bool>,
    bound: Signal<Local, bool>,
    put: Signal<Local, bool>,
    leave: Signal<Local, bool>,
    taddr: Signal<Local, Bits<16>>,
    caddr: Signal<Local, Bits<16>>,
    cwe: Signal<Local, bool>,
    cw: Signal<Local, Bits<16>>,
}

crate::block_default! { Windows<LOG_MR> {
    clock, rst, s_we, s_waddr, s_wdata, we, waddr, wdata, ord_valid, ord_data, ord_done, ord_busy, inv_valid, inv_data, inv_done, inv_ok, job_valid,
    job_data, job_done, job_ok, calm, pl_valid, pl_ready, idle, tab, count, st, walk, who, op, x, ix, dirty, w, m, a_win, a_var, a_qpn, b_mr, b_pd,
    b_rt, some, off, slack, inv, range, free, users, good, ok, j, v, o, xx, ww, mm, e, key, lkey, high, lhigh, len, room, isbind, bound, put, leave,
    taddr, caddr, cwe, cw;
    assert LOG_MR <= 16;
    k_high: Constant::new(((0xFFFF_FFFF_u64 << (LOG_MR + 8)) & 0xFFFF_FFFF).into()),
    k_zero: Constant::new(MrCheck::default()),
} }

impl<const LOG_MR: usize> Logic for Windows<LOG_MR> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, st, walk, who, op, x, ix, dirty, w, m);
        dff_setup!(self, clock, a_win, a_var, a_qpn, b_mr, b_pd, b_rt, some, off, slack);
        dff_setup!(self, clock, inv, range, free, users, good, ok);
        clock!(self, clock, tab, count);
        self.j.next = self.job_data.val();
        self.v.next = self.inv_data.val();
        self.o.next = self.ord_data.val();
        self.xx.next = self.x.q.val();
        self.ww.next = self.w.q.val();
        self.mm.next = self.m.q.val();
        self.key.next = self.xx.val().key;
        self.lkey.next = self.xx.val().lkey;
        self.high.next = self.key.val() & self.k_high.val();
        self.lhigh.next = self.lkey.val() & self.k_high.val();
        self.len.next = self.xx.val().len;
        self.room.next = self.slack.q.val().get_bits::<48>(0);
        self.isbind.next = (self.who.q.val() == 2) & self.xx.val().binds;
        // a binding ends
        self.bound.next = (self.ww.val().window & self.ww.val().valid)
            & ((self.who.q.val() != 0) | (self.op.q.val() == 2));
        self.put.next = false;
        self.leave.next = false;
        self.taddr.next = self.ix.q.val();
        self.caddr.next = self.ix.q.val();
        self.cwe.next = false;
        self.cw.next = 0.into();

        // what is known of both entries, one cycle after they are there
        self.a_win.d.next = (self.ww.val().window & !self.high.val().any())
            & (self.ww.val().pd == self.xx.val().pd);
        self.a_var.d.next = self.ww.val().variant == self.key.val().get_bits::<8>(0);
        self.a_qpn.d.next = self.ww.val().qpn == self.xx.val().qpn;
        self.b_mr.d.next = ((self.mm.val().valid & self.mm.val().mw_bind)
            & (!self.mm.val().window & !self.lhigh.val().any()))
            & (self.mm.val().variant == self.lkey.val().get_bits::<8>(0));
        self.b_pd.d.next = self.mm.val().pd == self.xx.val().pd;
        self.b_rt.d.next =
            self.mm.val().local_write | (!self.xx.val().write & !self.xx.val().atomic);
        self.some.d.next = self.len.val().any();
        self.off.d.next = self.xx.val().va - self.mm.val().va;
        self.slack.d.next =
            bit_cast::<49, 48>(self.mm.val().len) - bit_cast::<49, 48>(self.len.val());
        // and two
        self.inv.d.next = (self.a_win.q.val() & self.a_var.q.val())
            & ((self.a_qpn.q.val() & self.ww.val().type2) & self.ww.val().valid);
        self.range.d.next = !self.slack.q.val().get_bit(48)
            & (self.off.q.val() <= bit_cast::<64, 48>(self.room.val()));
        self.free.d.next = !(self.ww.val().type2 & self.ww.val().valid)
            | (self.a_qpn.q.val() & !self.some.q.val());
        self.users.d.next = self.count.rdata.val().any();
        // and three
        self.good.d.next = self.inv.q.val();
        if self.who.q.val() == 0 {
            self.good.d.next = (self.op.q.val() != 1) | !self.users.q.val();
        } else if self.isbind.val() {
            self.good.d.next = (self.a_win.q.val() & self.free.q.val())
                & (!self.some.q.val()
                    | ((self.b_mr.q.val() & self.b_pd.q.val())
                        & (self.b_rt.q.val() & self.range.q.val())));
        }

        // the entry that is written
        self.e.next = self.ww.val();
        self.e.next.valid = false;
        if self.who.q.val() == 0 {
            self.e.next = self.k_zero.val();
        } else if self.isbind.val() {
            self.e.next.valid = self.some.q.val();
            self.e.next.local_write = false;
            self.e.next.remote_write = self.xx.val().write;
            self.e.next.remote_read = self.xx.val().read;
            self.e.next.remote_atomic = self.xx.val().atomic;
            self.e.next.variant = self.key.val().get_bits::<8>(0);
            self.e.next.qpn = self.xx.val().qpn;
            self.e.next.va = self.xx.val().va;
            self.e.next.len = self.xx.val().len;
            self.e.next.parent = self.lkey.val().get_bits::<16>(8);
        }

        if self.s_we.val() {
            self.dirty.d.next = true;
        }
        match self.st.q.val() {
            WinSt::Boot => {
                self.cwe.next = true;
                self.caddr.next = bit_cast::<16, LOG_MR>(self.walk.q.val());
                self.walk.d.next = self.walk.q.val() + 1;
                if self.walk.q.val().all() {
                    self.st.d.next = WinSt::Idle;
                }
            }
            WinSt::Idle => {
                self.op.d.next = self.o.val().op;
                if self.ord_valid.val() {
                    self.who.d.next = 0.into();
                    self.ix.d.next = self.o.val().mr;
                    self.st.d.next = WinSt::Ask;
                } else if self.inv_valid.val() {
                    self.who.d.next = 1.into();
                    self.key.next = self.v.val().key;
                    self.xx.next = self.j.val();
                    self.xx.next.key = self.v.val().key;
                    self.xx.next.qpn = self.v.val().qpn;
                    self.xx.next.pd = self.v.val().pd;
                    self.x.d.next = self.xx.val();
                    self.ix.d.next = self.key.val().get_bits::<16>(8);
                    self.st.d.next = WinSt::Ask;
                } else if self.job_valid.val() {
                    self.who.d.next = 2.into();
                    self.key.next = self.j.val().key;
                    self.x.d.next = self.j.val();
                    self.ix.d.next = self.key.val().get_bits::<16>(8);
                    self.st.d.next = WinSt::Ask;
                }
            }
            WinSt::Ask => {
                self.dirty.d.next = self.s_we.val();
                self.st.d.next = WinSt::Get;
            }
            WinSt::Get => {
                self.w.d.next = self.tab.rdata.val();
                self.taddr.next = self.lkey.val().get_bits::<16>(8);
                self.st.d.next = WinSt::Get2;
            }
            WinSt::Get2 => {
                self.m.d.next = self.tab.rdata.val();
                self.st.d.next = WinSt::Chk;
            }
            WinSt::Chk => self.st.d.next = WinSt::Cmp,
            WinSt::Cmp => self.st.d.next = WinSt::Judge,
            WinSt::Judge => self.st.d.next = WinSt::Put,
            WinSt::Put => {
                self.ok.d.next = self.good.q.val();
                if self.dirty.q.val() | self.s_we.val() {
                    self.st.d.next = WinSt::Ask;
                } else if !self.good.q.val() {
                    self.st.d.next = WinSt::Done;
                } else if (self.who.q.val() == 0) & (self.op.q.val() == 3) {
                    self.st.d.next = WinSt::Clear;
                } else {
                    self.put.next = true;
                    if self.bound.val() {
                        self.st.d.next = WinSt::Dec;
                    } else {
                        self.leave.next = true;
                    }
                }
            }
            WinSt::Dec => {
                self.caddr.next = self.ww.val().parent;
                self.st.d.next = WinSt::Dec2;
            }
            WinSt::Dec2 => {
                self.caddr.next = self.ww.val().parent;
                self.cwe.next = true;
                self.cw.next = self.count.rdata.val() - 1;
                self.leave.next = true;
            }
            WinSt::Inc => {
                self.caddr.next = self.lkey.val().get_bits::<16>(8);
                self.st.d.next = WinSt::Inc2;
            }
            WinSt::Inc2 => {
                self.caddr.next = self.lkey.val().get_bits::<16>(8);
                self.cwe.next = true;
                self.cw.next = self.count.rdata.val() + 1;
                self.st.d.next = WinSt::Done;
                if self.bound.val() {
                    self.st.d.next = WinSt::Calm;
                }
            }
            WinSt::Clear => {
                self.cwe.next = true;
                self.st.d.next = WinSt::Done;
            }
            WinSt::Calm => {
                if self.calm.val() {
                    self.st.d.next = WinSt::Drain;
                }
            }
            WinSt::Drain => {
                if !self.pl_valid.val() | self.pl_ready.val() {
                    self.st.d.next = WinSt::Done;
                }
            }
            WinSt::Done => self.st.d.next = WinSt::Idle,
        }
        if self.leave.val() {
            self.st.d.next = WinSt::Done;
            if self.isbind.val() & self.some.q.val() {
                self.st.d.next = WinSt::Inc;
            } else if (self.who.q.val() == 2) & self.bound.val() {
                self.st.d.next = WinSt::Calm;
            }
        }

        self.tab.raddr.next = bit_cast::<LOG_MR, 16>(self.taddr.val());
        self.count.raddr.next = bit_cast::<LOG_MR, 16>(self.caddr.val());
        self.count.waddr.next = bit_cast::<LOG_MR, 16>(self.caddr.val());
        self.count.we.next = self.cwe.val();
        self.count.wdata.next = self.cw.val();

        // every copy of the table
        self.we.next = self.s_we.val() | self.put.val();
        self.waddr.next = bit_cast::<LOG_MR, 16>(self.ix.q.val());
        self.wdata.next = self.e.val();
        self.tab.we.next = self.s_we.val() | self.put.val();
        self.tab.waddr.next = bit_cast::<LOG_MR, 16>(self.ix.q.val());
        self.tab.wdata.next = self.e.val();
        if self.s_we.val() {
            self.waddr.next = self.s_waddr.val();
            self.wdata.next = self.s_wdata.val();
            self.tab.waddr.next = self.s_waddr.val();
            self.tab.wdata.next = self.s_wdata.val();
        }

        self.ord_done.next = (self.st.q.val() == WinSt::Done) & (self.who.q.val() == 0);
        self.ord_busy.next = !self.ok.q.val();
        self.inv_done.next = (self.st.q.val() == WinSt::Done) & (self.who.q.val() == 1);
        self.inv_ok.next = self.ok.q.val();
        self.job_done.next = (self.st.q.val() == WinSt::Done) & (self.who.q.val() == 2);
        self.job_ok.next = self.ok.q.val();
        self.idle.next = (self.st.q.val() == WinSt::Idle)
            & ((!self.ord_valid.val() & !self.inv_valid.val()) & !self.job_valid.val());
        if self.rst.val() {
            self.st.d.next = WinSt::Boot;
            self.walk.d.next = 0.into();
        }
    }
}
