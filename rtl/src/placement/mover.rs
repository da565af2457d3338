//! Payload from the receive buffer to host writes.

use crate::packed_struct;
use crate::prims::{ByteRot, Fifo};
use crate::types::{HostWrMeta, PlJob, XlChunk, XlReq};
use rust_hdl::prelude::*;

packed_struct! {
    /// What the mover needs of a job.
    pub struct MvJob {
        pub kind: Bits<2>,
        pub free: bool,
        /// With `free`: of the responder, which is told when the packet is done.
        pub tell: bool,
        pub slot: Bits<7>,
        pub src: Bits<20>,
        pub stamp: Bits<48>,
        /// The payload is `data`.
        pub inl: bool,
        pub data: Bits<64>,
    }
}

packed_struct! {
    /// What the completion unit needs of a job.
    pub struct CqJob {
        /// Only a fence token.
        pub fence: bool,
        pub cq: Bits<12>,
        pub qpn: Bits<24>,
        pub opcode: Bits<8>,
        pub index: Bits<16>,
        pub status: Bits<8>,
        pub is_recv: bool,
        pub with_imm: bool,
        pub with_inv: bool,
        pub solicited: bool,
        pub grh: bool,
        pub src_qp: Bits<24>,
        pub length: Bits<32>,
        pub imm: Bits<32>,
        pub stamp: Bits<48>,
    }
}

packed_struct! {
    /// Words to move: `n` words from buffer word `a` on, rotated so that lane `b` of the buffer comes to lane 0. Kinds other than 1 are tokens of
    /// one word.
    pub struct MvDesc {
        pub kind: Bits<2>,
        pub free: bool,
        pub tell: bool,
        pub slot: Bits<7>,
        pub n: Bits<10>,
        pub a: Bits<16>,
        pub b: Bits<6>,
        pub inl: bool,
        pub data: Bits<64>,
        pub m: HostWrMeta,
    }
}

packed_struct! {
    /// Beside a word on its way out. `kind`: 0 nothing (goes on only with `tell`), 1 payload, 2 "now a completion", 3 fence token.
    pub struct PlWord {
        pub kind: Bits<2>,
        pub free: bool,
        /// The last word of a packet of the responder.
        pub tell: bool,
        pub slot: Bits<7>,
        pub m: HostWrMeta,
    }
}

/// Carries out payload jobs in order; completions and fences become tokens in the stream of words.
///
/// * `job_*` in. Payload jobs go to translation (`xl_req`), completions and fences to the completion unit (`cj`), all to the queue of the mover.
/// * `xl_chunk`: the pieces of each payload job, in order. A piece with `err` writes nothing (`ev_fault`).
/// * `w_*` out: words of host writes, lanes aligned to the address, and tokens. Lanes outside of `addr .. addr + len` hold anything.
/// * `free_*`: one cycle, after the last read of the slot.
/// * Buffer: `buf_raddr`/`buf_rsel` are registers, `buf_rdata` one cycle later.
/// * One word a cycle; 2 cycles of preparation a piece (3 for the first of a job) beside the moving of the one before. Latency from chunk to the
///   first word out: 8 cycles. Reads stop when the queue of words has no room for what is under way.
#[derive(LogicBlock)]
pub struct Mover<const W: usize, const L: usize, const A: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub job_valid: Signal<In, bool>,
    pub job_data: Signal<In, PlJob>,
    pub job_ready: Signal<Out, bool>,
    pub xl_req_valid: Signal<Out, bool>,
    pub xl_req_data: Signal<Out, XlReq>,
    pub xl_req_ready: Signal<In, bool>,
    pub xl_chunk_valid: Signal<In, bool>,
    pub xl_chunk_data: Signal<In, XlChunk>,
    pub xl_chunk_ready: Signal<Out, bool>,
    pub cj_valid: Signal<Out, bool>,
    pub cj_data: Signal<Out, CqJob>,
    pub cj_ready: Signal<In, bool>,
    pub buf_raddr: Signal<Out, Bits<A>>,
    pub buf_rsel: Signal<Out, Bits<L>>,
    pub buf_rdata: Signal<In, Bits<W>>,
    pub w_valid: Signal<Out, bool>,
    pub w_data: Signal<Out, Bits<W>>,
    pub w_meta: Signal<Out, PlWord>,
    pub w_ready: Signal<In, bool>,
    pub free_valid: Signal<Out, bool>,
    pub free_slot: Signal<Out, Bits<7>>,
    pub ev_fault: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    q: Fifo<MvJob, 3>,
    xq: Fifo<XlReq, 2>,
    dq: Fifo<MvDesc, 2>,
    rot: ByteRot<PlWord, W, L>,
    od: Fifo<Bits<W>, 4>,
    om: Fifo<PlWord, 4>,
    state: DFF<Bits<2>>,
    cur: DFF<Bits<20>>,
    from: DFF<Bits<20>>,
    span: DFF<Bits<14>>,
    going: DFF<bool>,
    left: DFF<Bits<10>>,
    nxt: DFF<Bits<A>>,
    v0: DFF<bool>,
    t0: DFF<PlWord>,
    n0: DFF<Bits<6>>,
    a0: DFF<Bits<A>>,
    s0: DFF<Bits<L>>,
    i0: DFF<bool>,
    i1: DFF<bool>,
    data0: DFF<Bits<64>>,
    data1: DFF<Bits<64>>,
    v1: DFF<bool>,
    t1: DFF<PlWord>,
    n1: DFF<Bits<6>>,
    fv: DFF<bool>,
    fs: DFF<Bits<7>>,
    j: Signal<Local, PlJob>,
    accept: Signal<Local, bool>,
    payload: Signal<Local, bool>,
    mj: Signal<Local, MvJob>,
    xr: Signal<Local, XlReq>,
    cj: Signal<Local, CqJob>,
    jva: Signal<Local, Bits<64>>,
    h: Signal<Local, MvJob>,
    c: Signal<Local, XlChunk>,
    caddr: Signal<Local, Bits<64>>,
    o: Signal<Local, Bits<6>>,
    low: Signal<Local, Bits<6>>,
    nw: Signal<Local, Bits<14>>,
    aw: Signal<Local, Bits<20>>,
    hm: Signal<Local, HostWrMeta>,
    ds: Signal<Local, MvDesc>,
    put: Signal<Local, bool>,
    d: Signal<Local, MvDesc>,
    dm: Signal<Local, HostWrMeta>,
    wd: Signal<Local, PlWord>,
    go: Signal<Local, bool>,
    one: Signal<Local, bool>,
    fin: Signal<Local, bool>,
    shifted: Signal<Local, Bits<L>>,
    neg: Signal<Local, Bits<6>>,
    rw: Signal<Local, PlWord>,
    keep: Signal<Local, bool>,
    word: Signal<Local, Bits<W>>,
    lmask: Constant<Bits<6>>,
    lane_log: Constant<Bits<5>>,
    round: Constant<Bits<14>>,
    limit: Constant<Bits<16>>,
    ones: Constant<Bits<L>>,
}

impl<const W: usize, const L: usize, const A: usize> Default for Mover<W, L, A> {
    fn default() -> Self {
        assert!(W == 8 * L && L.is_power_of_two() && A <= 16);
        Self {
            clock: Default::default(),
            rst: Default::default(),
            job_valid: Default::default(),
            job_data: Default::default(),
            job_ready: Default::default(),
            xl_req_valid: Default::default(),
            xl_req_data: Default::default(),
            xl_req_ready: Default::default(),
            xl_chunk_valid: Default::default(),
            xl_chunk_data: Default::default(),
            xl_chunk_ready: Default::default(),
            cj_valid: Default::default(),
            cj_data: Default::default(),
            cj_ready: Default::default(),
            buf_raddr: Default::default(),
            buf_rsel: Default::default(),
            buf_rdata: Default::default(),
            w_valid: Default::default(),
            w_data: Default::default(),
            w_meta: Default::default(),
            w_ready: Default::default(),
            free_valid: Default::default(),
            free_slot: Default::default(),
            ev_fault: Default::default(),
            idle: Default::default(),
            q: Default::default(),
            xq: Default::default(),
            dq: Default::default(),
            rot: Default::default(),
            od: Default::default(),
            om: Default::default(),
            state: Default::default(),
            cur: Default::default(),
            from: Default::default(),
            span: Default::default(),
            going: Default::default(),
            left: Default::default(),
            nxt: Default::default(),
            v0: Default::default(),
            t0: Default::default(),
            n0: Default::default(),
            a0: Default::default(),
            s0: Default::default(),
            i0: Default::default(),
            i1: Default::default(),
            data0: Default::default(),
            data1: Default::default(),
            word: Default::default(),
            v1: Default::default(),
            t1: Default::default(),
            n1: Default::default(),
            fv: Default::default(),
            fs: Default::default(),
            j: Default::default(),
            accept: Default::default(),
            payload: Default::default(),
            mj: Default::default(),
            xr: Default::default(),
            cj: Default::default(),
            jva: Default::default(),
            h: Default::default(),
            c: Default::default(),
            caddr: Default::default(),
            o: Default::default(),
            low: Default::default(),
            nw: Default::default(),
            aw: Default::default(),
            hm: Default::default(),
            ds: Default::default(),
            put: Default::default(),
            d: Default::default(),
            dm: Default::default(),
            wd: Default::default(),
            go: Default::default(),
            one: Default::default(),
            fin: Default::default(),
            shifted: Default::default(),
            neg: Default::default(),
            rw: Default::default(),
            keep: Default::default(),
            lmask: Constant::new((L as u64 - 1).into()),
            lane_log: Constant::new((L.trailing_zeros() as u64).into()),
            round: Constant::new((L as u64 - 1).into()),
            // four words are between the read and the queue of 16
            limit: Constant::new(11u64.into()),
            ones: Constant::new(Bits::<L>::mask()),
        }
    }
}

impl<const W: usize, const L: usize, const A: usize> Logic for Mover<W, L, A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, cur, from, span, going, left, nxt);
        dff_setup!(self, clock, i0, i1, data0, data1);
        dff_setup!(self, clock, v0, t0, n0, a0, s0, v1, t1, n1, fv, fs);
        clock!(self, clock, q, xq, dq, rot, od, om);
        self.q.rst.next = self.rst.val();
        self.xq.rst.next = self.rst.val();
        self.dq.rst.next = self.rst.val();
        self.rot.rst.next = self.rst.val();
        self.od.rst.next = self.rst.val();
        self.om.rst.next = self.rst.val();
        // front: a job is taken when each of its takers has room
        self.j.next = self.job_data.val();
        self.accept.next = (self.q.s_ready.val() & self.xq.s_ready.val()) & self.cj_ready.val();
        self.job_ready.next = self.accept.val();
        self.payload.next = self.j.val().kind == 1;
        self.mj.next.kind = self.j.val().kind;
        self.mj.next.free = self.j.val().free;
        self.mj.next.tell = self.j.val().free & self.j.val().is_recv;
        self.mj.next.slot = self.j.val().slot;
        self.mj.next.src = self.j.val().src;
        self.mj.next.stamp = self.j.val().stamp;
        self.mj.next.inl = self.j.val().inl;
        self.mj.next.data =
            (bit_cast::<64, 32>(self.j.val().imm) << 32) | bit_cast::<64, 32>(self.j.val().length);
        self.q.s_data.next = self.mj.val();
        self.q.s_valid.next = self.job_valid.val() & self.accept.val();
        self.xr.next.mr = self.j.val().mr;
        self.xr.next.va = self.j.val().va;
        self.xr.next.len = self.j.val().len;
        self.xq.s_data.next = self.xr.val();
        self.xq.s_valid.next = (self.job_valid.val() & self.accept.val()) & self.payload.val();
        self.xl_req_valid.next = self.xq.m_valid.val();
        self.xl_req_data.next = self.xq.m_data.val();
        self.xq.m_ready.next = self.xl_req_ready.val();
        self.cj.next.fence = self.j.val().kind == 3;
        self.cj.next.cq = self.j.val().cq;
        self.cj.next.qpn = self.j.val().qpn;
        self.cj.next.opcode = self.j.val().opcode;
        self.cj.next.index = self.j.val().index;
        self.cj.next.status = self.j.val().status;
        self.cj.next.is_recv = self.j.val().is_recv;
        self.cj.next.with_imm = self.j.val().with_imm;
        self.cj.next.with_inv = self.j.val().with_inv;
        self.cj.next.solicited = self.j.val().solicited;
        self.cj.next.grh = self.j.val().grh;
        self.jva.next = self.j.val().va;
        self.cj.next.src_qp = 0.into();
        if self.j.val().grh {
            self.cj.next.src_qp = self.jva.val().get_bits::<24>(0);
        }
        self.cj.next.length = self.j.val().length;
        self.cj.next.imm = self.j.val().imm;
        self.cj.next.stamp = self.j.val().stamp;
        self.cj_data.next = self.cj.val();
        self.cj_valid.next = (self.job_valid.val() & self.accept.val())
            & ((self.j.val().kind == 2) | (self.j.val().kind == 3));
        // preparation of a piece
        self.h.next = self.q.m_data.val();
        self.c.next = self.xl_chunk_data.val();
        self.caddr.next = self.c.val().addr;
        self.o.next = self.caddr.val().get_bits::<6>(0) & self.lmask.val();
        self.low.next = self.from.q.val().get_bits::<6>(0) & self.lmask.val();
        self.nw.next = self.span.q.val() >> self.lane_log.val();
        self.aw.next = self.from.q.val() >> self.lane_log.val();
        self.hm.next.pasid = self.c.val().pasid;
        self.hm.next.addr = self.c.val().addr;
        self.hm.next.len = self.c.val().len;
        self.hm.next.sop = false;
        self.hm.next.eop = false;
        self.hm.next.stamp = self.h.val().stamp;
        self.ds.next.kind = self.h.val().kind;
        self.ds.next.free = self.h.val().free;
        self.ds.next.tell = self.h.val().tell;
        self.ds.next.slot = self.h.val().slot;
        self.ds.next.n = bits::<10>(1);
        self.ds.next.a = self.aw.val().get_bits::<16>(0);
        self.ds.next.b = self.low.val();
        self.ds.next.inl = self.h.val().inl;
        self.ds.next.data = self.h.val().data;
        self.ds.next.m = self.hm.val();
        self.put.next = false;
        self.q.m_ready.next = false;
        self.xl_chunk_ready.next = false;
        self.ev_fault.next = false;
        match self.state.q.val().index() {
            0 => {
                if self.q.m_valid.val() {
                    if self.h.val().kind == 1 {
                        self.cur.d.next = self.h.val().src;
                        self.state.d.next = bits::<2>(1);
                    } else if self.dq.s_ready.val() {
                        self.put.next = true;
                        self.q.m_ready.next = true;
                    }
                }
            }
            1 => {
                self.from.d.next = self.cur.q.val() - bit_cast::<20, 6>(self.o.val());
                self.span.d.next = (bit_cast::<14, 13>(self.c.val().len)
                    + bit_cast::<14, 6>(self.o.val()))
                    + self.round.val();
                if self.xl_chunk_valid.val() {
                    self.state.d.next = bits::<2>(2);
                }
            }
            _ => {
                self.ds.next.free = self.h.val().free & self.c.val().last;
                self.ds.next.tell = self.h.val().tell & self.c.val().last;
                self.ds.next.n = self.nw.val().get_bits::<10>(0);
                if self.c.val().err {
                    self.ds.next.kind = bits::<2>(0);
                    self.ds.next.n = bits::<10>(1);
                }
                if self.dq.s_ready.val() {
                    self.put.next = true;
                    self.ev_fault.next = self.c.val().err;
                    self.xl_chunk_ready.next = true;
                    self.cur.d.next = self.cur.q.val() + bit_cast::<20, 13>(self.c.val().len);
                    self.state.d.next = bits::<2>(1);
                    if self.c.val().last {
                        self.q.m_ready.next = true;
                        self.state.d.next = bits::<2>(0);
                    }
                }
            }
        }
        self.dq.s_data.next = self.ds.val();
        self.dq.s_valid.next = self.put.val();
        // one word a cycle while there is room at the end
        self.d.next = self.dq.m_data.val();
        self.dm.next = self.d.val().m;
        self.go.next = self.dq.m_valid.val() & (self.om.level.val() < self.limit.val());
        self.one.next = self.d.val().n == 1;
        self.fin.next = self.one.val();
        self.a0.d.next = bit_cast::<A, 16>(self.d.val().a);
        if self.going.q.val() {
            self.fin.next = self.left.q.val() == 1;
            self.a0.d.next = self.nxt.q.val();
        }
        self.dm.next.sop = !self.going.q.val();
        self.dm.next.eop = self.fin.val();
        self.wd.next.kind = self.d.val().kind;
        self.wd.next.free = self.d.val().free & self.fin.val();
        self.wd.next.tell = self.d.val().tell & self.fin.val();
        self.wd.next.slot = self.d.val().slot;
        self.wd.next.m = self.dm.val();
        self.dq.m_ready.next = self.go.val() & self.fin.val();
        self.shifted.next = self.ones.val() << self.d.val().b;
        self.neg.next = bits::<6>(0) - self.d.val().b;
        self.s0.d.next = !self.shifted.val();
        self.n0.d.next = self.neg.val() & self.lmask.val();
        self.t0.d.next = self.wd.val();
        self.i0.d.next = self.d.val().inl;
        self.data0.d.next = self.d.val().data;
        self.v0.d.next = self.go.val();
        if self.go.val() {
            self.nxt.d.next = self.a0.d.val() + 1;
            self.going.d.next = !self.fin.val();
            self.left.d.next = self.left.q.val() - 1;
            if !self.going.q.val() {
                self.left.d.next = self.d.val().n - bits::<10>(1);
            }
        }
        self.buf_raddr.next = self.a0.q.val();
        self.buf_rsel.next = self.s0.q.val();
        self.v1.d.next = self.v0.q.val();
        self.t1.d.next = self.t0.q.val();
        self.i1.d.next = self.i0.q.val();
        self.data1.d.next = self.data0.q.val();
        self.n1.d.next = self.n0.q.val();
        self.rw.next = self.t1.q.val();
        self.fv.d.next = self.v1.q.val() & self.rw.val().free;
        self.fs.d.next = self.rw.val().slot;
        self.free_valid.next = self.fv.q.val();
        self.free_slot.next = self.fs.q.val();
        self.rot.ce.next = true;
        // data of the job itself stands where bytes 0..8 of the buffer would
        self.word.next = self.buf_rdata.val();
        if self.i1.q.val() {
            self.word.next = bit_cast::<W, 64>(self.data1.q.val());
        }
        self.rot.s_data.next = self.word.val();
        self.rot.s_n.next = self.n1.q.val();
        self.rot.s_tag.next = self.t1.q.val();
        self.rot.s_valid.next = self.v1.q.val();
        self.rw.next = self.rot.m_tag.val();
        self.keep.next = self.rot.m_valid.val() & ((self.rw.val().kind != 0) | self.rw.val().tell);
        self.od.s_data.next = self.rot.m_data.val();
        self.od.s_valid.next = self.keep.val();
        self.om.s_data.next = self.rot.m_tag.val();
        self.om.s_valid.next = self.keep.val();
        self.w_valid.next = self.om.m_valid.val();
        self.w_data.next = self.od.m_data.val();
        self.w_meta.next = self.om.m_data.val();
        self.od.m_ready.next = self.w_ready.val();
        self.om.m_ready.next = self.w_ready.val();
        self.idle.next = ((!self.q.m_valid.val() & !self.xq.m_valid.val())
            & (!self.dq.m_valid.val() & !self.v0.q.val()))
            & ((!self.v1.q.val() & !self.fv.q.val())
                & (!self.rot.m_valid.val() & !self.om.m_valid.val()));
        if self.rst.val() {
            self.state.d.next = 0.into();
            self.going.d.next = false;
            self.v0.d.next = false;
            self.v1.d.next = false;
            self.fv.d.next = false;
        }
    }
}
