//! Joins payload words and queue entries into host writes.

use super::cq::QEntry;
use super::mover::PlWord;
use crate::types::HostWrMeta;
use rust_hdl::prelude::*;

/// * `w_*`: payload words and tokens in job order; `e_*`: queue entries in their order. A CQE leaves when its token is at the head of `w`, so
///   after the payload before it; an EQE leaves between two requests as soon as it is at the head of `e`.
/// * `wr_*` out is registered; requests are whole. One word a cycle; `512 / W` words an entry.
/// * `msi_valid`/`msi_pasid`: one cycle, after the last word of an EQE was taken.
/// * `fence_done`: one cycle, when everything before the fence token was taken. `told`: one cycle for each job with `free` and `is_recv`, likewise.
#[derive(LogicBlock)]
pub struct Merge<const W: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub w_valid: Signal<In, bool>,
    pub w_data: Signal<In, Bits<W>>,
    pub w_meta: Signal<In, PlWord>,
    pub w_ready: Signal<Out, bool>,
    pub e_valid: Signal<In, bool>,
    pub e_data: Signal<In, QEntry>,
    pub e_ready: Signal<Out, bool>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<W>>,
    pub wr_meta: Signal<Out, HostWrMeta>,
    pub wr_ready: Signal<In, bool>,
    pub msi_valid: Signal<Out, bool>,
    pub msi_pasid: Signal<Out, Bits<12>>,
    pub fence_done: Signal<Out, bool>,
    pub told: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    in_payload: DFF<bool>,
    at: DFF<Bits<10>>,
    v: DFF<bool>,
    d: DFF<Bits<W>>,
    m: DFF<HostWrMeta>,
    eqe: DFF<bool>,
    msi: DFF<bool>,
    who: DFF<Bits<12>>,
    fence: DFF<bool>,
    tell: DFF<bool>,
    tld: DFF<bool>,
    pw: Signal<Local, PlWord>,
    pm: Signal<Local, HostWrMeta>,
    qe: Signal<Local, QEntry>,
    load: Signal<Local, bool>,
    send_e: Signal<Local, bool>,
    send_w: Signal<Local, bool>,
    skip: Signal<Local, bool>,
    fenced: Signal<Local, bool>,
    free_to: Signal<Local, bool>,
    token: Signal<Local, bool>,
    empty: Signal<Local, bool>,
    head: Signal<Local, Bits<512>>,
    tail: Signal<Local, Bits<512>>,
    all: Signal<Local, Bits<512>>,
    last: Signal<Local, bool>,
    em: Signal<Local, HostWrMeta>,
    out: Signal<Local, HostWrMeta>,
    step: Constant<Bits<10>>,
    stop: Constant<Bits<10>>,
    phase: Constant<Bits<512>>,
}

impl<const W: usize> Default for Merge<W> {
    fn default() -> Self {
        assert!(512 % W == 0);
        Self {
            clock: Default::default(),
            rst: Default::default(),
            w_valid: Default::default(),
            w_data: Default::default(),
            w_meta: Default::default(),
            w_ready: Default::default(),
            e_valid: Default::default(),
            e_data: Default::default(),
            e_ready: Default::default(),
            wr_valid: Default::default(),
            wr_data: Default::default(),
            wr_meta: Default::default(),
            wr_ready: Default::default(),
            msi_valid: Default::default(),
            msi_pasid: Default::default(),
            fence_done: Default::default(),
            told: Default::default(),
            idle: Default::default(),
            in_payload: Default::default(),
            at: Default::default(),
            v: Default::default(),
            d: Default::default(),
            m: Default::default(),
            eqe: Default::default(),
            msi: Default::default(),
            who: Default::default(),
            fence: Default::default(),
            tell: Default::default(),
            tld: Default::default(),
            pw: Default::default(),
            pm: Default::default(),
            qe: Default::default(),
            load: Default::default(),
            send_e: Default::default(),
            send_w: Default::default(),
            skip: Default::default(),
            fenced: Default::default(),
            free_to: Default::default(),
            token: Default::default(),
            empty: Default::default(),
            head: Default::default(),
            tail: Default::default(),
            all: Default::default(),
            last: Default::default(),
            em: Default::default(),
            out: Default::default(),
            step: Constant::new((W as u64).into()),
            stop: Constant::new((512 - W as u64).into()),
            phase: Constant::new(Bits::<512>::from(1u64) << 511),
        }
    }
}

impl<const W: usize> Logic for Merge<W> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, in_payload, at, v, d, m, eqe, msi, who, fence, tell, tld);
        self.pw.next = self.w_meta.val();
        self.pm.next = self.pw.val().m;
        self.qe.next = self.e_data.val();
        self.load.next = !self.v.q.val() | self.wr_ready.val();
        self.free_to.next = !self.in_payload.q.val();
        self.token.next = self.w_valid.val() & (self.pw.val().kind == 2);
        // an entry that has begun goes on: its head stays until its last word
        self.send_e.next = (self.load.val() & self.free_to.val())
            & (self.e_valid.val()
                & ((self.qe.val().kind == 2) | ((self.qe.val().kind == 1) & self.token.val())));
        self.skip.next =
            ((self.e_valid.val() & (self.qe.val().kind == 0)) & self.token.val()) & !self.v.q.val();
        self.fenced.next = ((self.e_valid.val() & (self.qe.val().kind == 3)) & !self.v.q.val())
            & (self.w_valid.val() & (self.pw.val().kind == 3));
        self.send_w.next = ((self.load.val() & self.w_valid.val()) & (self.pw.val().kind == 1))
            & !self.send_e.val();
        self.last.next = self.at.q.val() == self.stop.val();
        // a packet without effect: reported when everything before it was taken
        self.empty.next = ((self.w_valid.val() & (self.pw.val().kind == 0)) & self.load.val())
            & (!self.send_e.val() & !(self.v.q.val() & self.tell.q.val()));
        self.e_ready.next =
            (self.send_e.val() & self.last.val()) | (self.skip.val() | self.fenced.val());
        self.w_ready.next = ((self.send_w.val() | self.empty.val())
            | (self.skip.val() | self.fenced.val()))
            | ((self.send_e.val() & self.last.val()) & (self.qe.val().kind == 1));
        self.head.next = bit_cast::<512, 320>(self.qe.val().body);
        self.tail.next = 0.into();
        if self.qe.val().phase {
            self.tail.next = self.phase.val();
        }
        self.all.next = self.head.val() | self.tail.val();
        self.em.next.pasid = self.qe.val().pasid;
        self.em.next.addr = self.qe.val().addr;
        self.em.next.len = bits::<13>(64);
        self.em.next.sop = !self.at.q.val().any();
        self.em.next.eop = self.last.val();
        self.em.next.stamp = 0.into();
        if self.load.val() {
            self.v.d.next = false;
            self.eqe.d.next = false;
            self.tell.d.next = false;
            if self.send_e.val() {
                self.v.d.next = true;
                self.d.d.next = bit_cast::<W, 512>(self.all.val() >> self.at.q.val());
                self.m.d.next = self.em.val();
                self.eqe.d.next = self.last.val() & (self.qe.val().kind == 2);
                self.at.d.next = self.at.q.val() + self.step.val();
                if self.last.val() {
                    self.at.d.next = 0.into();
                    self.tell.d.next = (self.qe.val().kind == 1) & self.pw.val().tell;
                }
            } else if self.send_w.val() {
                self.v.d.next = true;
                self.d.d.next = self.w_data.val();
                self.m.d.next = self.pm.val();
                self.in_payload.d.next = !self.pm.val().eop;
                self.tell.d.next = self.pw.val().tell;
            }
        }
        self.out.next = self.m.q.val();
        self.wr_valid.next = self.v.q.val();
        self.wr_data.next = self.d.q.val();
        self.wr_meta.next = self.out.val();
        self.msi.d.next = (self.v.q.val() & self.wr_ready.val()) & self.eqe.q.val();
        self.who.d.next = self.out.val().pasid;
        self.msi_valid.next = self.msi.q.val();
        self.msi_pasid.next = self.who.q.val();
        self.fence.d.next = self.fenced.val();
        self.fence_done.next = self.fence.q.val();
        self.tld.d.next = ((self.v.q.val() & self.wr_ready.val()) & self.tell.q.val())
            | (self.empty.val() | ((self.skip.val() | self.fenced.val()) & self.pw.val().tell));
        self.told.next = self.tld.q.val();
        self.idle.next =
            (!self.v.q.val() & !self.msi.q.val()) & (!self.fence.q.val() & !self.tld.q.val());
        if self.rst.val() {
            self.in_payload.d.next = false;
            self.at.d.next = 0.into();
            self.v.d.next = false;
            self.eqe.d.next = false;
            self.msi.d.next = false;
            self.fence.d.next = false;
            self.tell.d.next = false;
            self.tld.d.next = false;
        }
    }
}
