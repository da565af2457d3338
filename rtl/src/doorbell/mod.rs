//! Doorbells: BAR writes become messages, after the check that the page owns the object.

use crate::layouts::{Cq, QpCfg};
use crate::packed_struct;
use crate::prims::Fifo;
use crate::types::*;
use metaroce_hdl_spec::{regs, wqe};
use rust_hdl::prelude::*;

packed_struct! {
    /// A BAR write as it waits: a direct WQE has been turned into the SQ doorbell that it stands for.
    pub struct Db {
        pub page: Bits<12>,
        pub off: Bits<12>,
        /// 8-byte write.
        pub is8: bool,
        /// 64-byte write.
        pub is64: bool,
        /// A direct WQE of one unit, which goes along.
        pub direct: bool,
        /// QPN or CQN.
        pub obj: Bits<24>,
        pub hi: Bits<32>,
        pub lo: Bits<32>,
    }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum DbState {
    Look,
    Check,
    Give,
}

/// Takes BAR writes (4, 8 or 64 bytes), up to 16 waiting.
///
/// * `LQ`, `LC`: log2 of QPs and CQs. Ports `cfg` and `cqt` are read ports of tables (data one cycle after the address).
/// * Page 0 belongs to the administrator: an 8-byte write to the command doorbell's offset is a command of PASID 0, anything else
///   goes out on `adm` (one pulse, no ready). In other pages: doorbells of `hdl_spec::regs::doorbell`, single 8-byte writes, or the
///   64-byte direct WQE, which counts as an SQ doorbell for the index behind it; `sqdb_direct`: it is the whole WQE, and `sqdb_unit` has it.
/// * Dropped with one pulse of `ev_refused`: an unknown offset or size; a QPN whose tag or owner differs or that is in RESET; the wrong
///   queue of one (an SRQ has no send ring, a QP with an SRQ no receive ring); a CQN that doesn't exist or has another owner.
/// * Initiation interval 4 (plus waiting for `ready`), latency 3. Order is kept, so one stream that waits holds all back.
#[derive(LogicBlock)]
pub struct Doorbell<const LQ: usize, const LC: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub mmio_wr_valid: Signal<In, bool>,
    pub mmio_wr_addr: Signal<In, Bits<24>>,
    pub mmio_wr_len: Signal<In, Bits<7>>,
    pub mmio_wr_data: Signal<In, Bits<512>>,
    pub mmio_wr_ready: Signal<Out, bool>,
    pub cfg_raddr: Signal<Out, Bits<LQ>>,
    pub cfg_rdata: Signal<In, QpCfg>,
    pub cqt_raddr: Signal<Out, Bits<LC>>,
    pub cqt_rdata: Signal<In, Cq>,
    pub sqdb_valid: Signal<Out, bool>,
    pub sqdb_data: Signal<Out, QpIdx>,
    pub sqdb_direct: Signal<Out, bool>,
    pub sqdb_unit: Signal<Out, Bits<512>>,
    pub sqdb_ready: Signal<In, bool>,
    pub rqdb_valid: Signal<Out, bool>,
    pub rqdb_data: Signal<Out, QpIdx>,
    pub rqdb_ready: Signal<In, bool>,
    pub cqdb_valid: Signal<Out, bool>,
    pub cqdb_data: Signal<Out, CqDb>,
    pub cqdb_ready: Signal<In, bool>,
    pub cmddb_valid: Signal<Out, bool>,
    pub cmddb_data: Signal<Out, CmdDb>,
    pub cmddb_ready: Signal<In, bool>,
    pub adm_valid: Signal<Out, bool>,
    pub adm_addr: Signal<Out, Bits<12>>,
    pub adm_data: Signal<Out, Bits<32>>,
    pub ev_refused: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    fifo: Fifo<Db, 4>,
    units_in: Fifo<Bits<512>, 4>,
    unit: DFF<Bits<512>>,
    state: DFF<DbState>,
    r: DFF<Db>,
    is_sq: DFF<bool>,
    is_rq: DFF<bool>,
    is_cq: DFF<bool>,
    is_cmd: DFF<bool>,
    is_adm: DFF<bool>,
    refused: DFF<bool>,
    off_sq: Constant<Bits<12>>,
    off_rq: Constant<Bits<12>>,
    off_cq: Constant<Bits<12>>,
    off_eq: Constant<Bits<12>>,
    off_cmd: Constant<Bits<12>>,
    off_wqe: Constant<Bits<12>>,
    lq: Constant<Bits<5>>,
    lc: Constant<Bits<5>>,
    at_qpn: Constant<Bits<16>>,
    at_units: Constant<Bits<16>>,
    at_index: Constant<Bits<16>>,
    w: Signal<Local, Db>,
    x: Signal<Local, Bits<512>>,
    index: Signal<Local, Bits<16>>,
    units: Signal<Local, Bits<16>>,
    sum: Signal<Local, Bits<16>>,
    h: Signal<Local, Db>,
    obj: Signal<Local, Bits<24>>,
    page: Signal<Local, Bits<12>>,
    off: Signal<Local, Bits<12>>,
    cfg: Signal<Local, QpCfg>,
    cq: Signal<Local, Cq>,
    tag: Signal<Local, Bits<24>>,
    want: Signal<Local, Bits<24>>,
    cq_hi: Signal<Local, Bits<24>>,
    qp_ok: Signal<Local, bool>,
    sq_ok: Signal<Local, bool>,
    rq_ok: Signal<Local, bool>,
    cq_ok: Signal<Local, bool>,
    at_sq: Signal<Local, bool>,
    at_rq: Signal<Local, bool>,
    at_cq: Signal<Local, bool>,
    at_eq: Signal<Local, bool>,
    at_cmd: Signal<Local, bool>,
    at_adm: Signal<Local, bool>,
    user: Signal<Local, bool>,
    any: Signal<Local, bool>,
    taken: Signal<Local, bool>,
    o: Signal<Local, Db>,
    o_hi: Signal<Local, Bits<32>>,
    o_obj: Signal<Local, Bits<24>>,
    o_lo: Signal<Local, Bits<32>>,
    qi: Signal<Local, QpIdx>,
    ci: Signal<Local, CqDb>,
    cm: Signal<Local, CmdDb>,
}

impl<const LQ: usize, const LC: usize> Default for Doorbell<LQ, LC> {
    fn default() -> Self {
        use regs::doorbell as d;
        let c = |v: u32| Constant::new((v as u64).into());
        Self {
            clock: Default::default(),
            rst: Default::default(),
            mmio_wr_valid: Default::default(),
            mmio_wr_addr: Default::default(),
            mmio_wr_len: Default::default(),
            mmio_wr_data: Default::default(),
            mmio_wr_ready: Default::default(),
            cfg_raddr: Default::default(),
            cfg_rdata: Default::default(),
            cqt_raddr: Default::default(),
            cqt_rdata: Default::default(),
            sqdb_valid: Default::default(),
            sqdb_data: Default::default(),
            sqdb_direct: Default::default(),
            sqdb_unit: Default::default(),
            sqdb_ready: Default::default(),
            rqdb_valid: Default::default(),
            rqdb_data: Default::default(),
            rqdb_ready: Default::default(),
            cqdb_valid: Default::default(),
            cqdb_data: Default::default(),
            cqdb_ready: Default::default(),
            cmddb_valid: Default::default(),
            cmddb_data: Default::default(),
            cmddb_ready: Default::default(),
            adm_valid: Default::default(),
            adm_addr: Default::default(),
            adm_data: Default::default(),
            ev_refused: Default::default(),
            idle: Default::default(),
            fifo: Default::default(),
            units_in: Default::default(),
            unit: Default::default(),
            state: Default::default(),
            r: Default::default(),
            is_sq: Default::default(),
            is_rq: Default::default(),
            is_cq: Default::default(),
            is_cmd: Default::default(),
            is_adm: Default::default(),
            refused: Default::default(),
            off_sq: c(d::SQ),
            off_rq: c(d::RQ),
            off_cq: c(d::CQ),
            off_eq: c(d::EQ),
            off_cmd: c(d::CMD),
            off_wqe: c(d::DIRECT_WQE),
            lq: Constant::new((LQ as u64).into()),
            lc: Constant::new((LC as u64).into()),
            at_qpn: Constant::new((wqe::sq::qpn.lo as u64).into()),
            at_units: Constant::new((wqe::sq::units.lo as u64).into()),
            at_index: Constant::new((wqe::sq::index.lo as u64).into()),
            w: Default::default(),
            x: Default::default(),
            index: Default::default(),
            units: Default::default(),
            sum: Default::default(),
            h: Default::default(),
            obj: Default::default(),
            page: Default::default(),
            off: Default::default(),
            cfg: Default::default(),
            cq: Default::default(),
            tag: Default::default(),
            want: Default::default(),
            cq_hi: Default::default(),
            qp_ok: Default::default(),
            sq_ok: Default::default(),
            rq_ok: Default::default(),
            cq_ok: Default::default(),
            at_sq: Default::default(),
            at_rq: Default::default(),
            at_cq: Default::default(),
            at_eq: Default::default(),
            at_cmd: Default::default(),
            at_adm: Default::default(),
            user: Default::default(),
            any: Default::default(),
            taken: Default::default(),
            o: Default::default(),
            o_hi: Default::default(),
            o_obj: Default::default(),
            o_lo: Default::default(),
            qi: Default::default(),
            ci: Default::default(),
            cm: Default::default(),
        }
    }
}

impl<const LQ: usize, const LC: usize> Logic for Doorbell<LQ, LC> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, unit, state, r, is_sq, is_rq, is_cq, is_cmd, is_adm, refused);
        clock!(self, clock, fifo, units_in);
        self.fifo.rst.next = self.rst.val();
        self.units_in.rst.next = self.rst.val();

        // intake
        self.w.next.page = self.mmio_wr_addr.val().get_bits::<12>(12);
        self.w.next.off = self.mmio_wr_addr.val().get_bits::<12>(0);
        self.w.next.is8 = self.mmio_wr_len.val() == 8;
        self.w.next.is64 = self.mmio_wr_len.val() == 64;
        self.w.next.lo = self.mmio_wr_data.val().get_bits::<32>(0);
        self.w.next.hi = self.mmio_wr_data.val().get_bits::<32>(32);
        self.w.next.obj = self.mmio_wr_data.val().get_bits::<24>(0);
        self.x.next = self.mmio_wr_data.val() >> self.at_index.val();
        self.index.next = self.x.val().get_bits::<16>(0);
        self.x.next = self.mmio_wr_data.val() >> self.at_units.val();
        self.units.next = bit_cast::<16, 3>(self.x.val().get_bits::<3>(0));
        self.sum.next = self.index.val() + self.units.val();
        self.w.next.direct = false;
        self.x.next = self.mmio_wr_data.val() >> self.at_qpn.val();
        if self.mmio_wr_len.val() == 64 {
            self.w.next.obj = self.x.val().get_bits::<24>(0);
            self.w.next.hi = bit_cast::<32, 16>(self.sum.val());
            self.w.next.direct = self.units.val() == 1;
        }
        self.fifo.s_valid.next = self.mmio_wr_valid.val();
        self.fifo.s_data.next = self.w.val();
        // both queues move together
        self.units_in.s_valid.next = self.mmio_wr_valid.val();
        self.units_in.s_data.next = self.mmio_wr_data.val();
        self.mmio_wr_ready.next = self.fifo.s_ready.val();

        // the head and its table entries
        self.h.next = self.fifo.m_data.val();
        self.obj.next = self.h.val().obj;
        self.page.next = self.h.val().page;
        self.off.next = self.h.val().off;
        self.cfg_raddr.next = self.obj.val().get_bits::<LQ>(0);
        self.cqt_raddr.next = self.obj.val().get_bits::<LC>(0);
        self.cfg.next = self.cfg_rdata.val();
        self.cq.next = self.cqt_rdata.val();
        self.tag.next = self.obj.val() >> self.lq.val();
        self.want.next = bit_cast::<24, 16>(self.cfg.val().tag);
        self.cq_hi.next = self.obj.val() >> self.lc.val();
        self.qp_ok.next = (self.tag.val() == self.want.val())
            & (self.cfg.val().pasid == self.page.val())
            & self.cfg.val().state.any();
        self.sq_ok.next = self.qp_ok.val() & (self.cfg.val().qp_type != 3);
        self.rq_ok.next = self.qp_ok.val() & !self.cfg.val().srq;
        self.cq_ok.next = !self.cq_hi.val().any()
            & (self.cq.val().pasid == self.page.val())
            & self.cq.val().valid;
        self.user.next = self.page.val().any();
        self.at_sq.next = self.user.val()
            & ((self.h.val().is8 & (self.off.val() == self.off_sq.val()))
                | (self.h.val().is64 & (self.off.val() == self.off_wqe.val())));
        self.at_rq.next =
            self.user.val() & self.h.val().is8 & (self.off.val() == self.off_rq.val());
        self.at_cq.next =
            self.user.val() & self.h.val().is8 & (self.off.val() == self.off_cq.val());
        self.at_eq.next =
            self.user.val() & self.h.val().is8 & (self.off.val() == self.off_eq.val());
        self.at_cmd.next = self.h.val().is8 & (self.off.val() == self.off_cmd.val());
        self.at_adm.next = !self.user.val() & !self.at_cmd.val();
        self.any.next = ((self.sq_ok.val() & self.at_sq.val())
            | (self.rq_ok.val() & self.at_rq.val()))
            | (self.cq_ok.val() & self.at_cq.val())
            | self.at_cmd.val()
            | self.at_adm.val();

        self.fifo.m_ready.next = false;
        self.units_in.m_ready.next = false;
        self.refused.d.next = false;
        // a receiver's ready reaches one register only; the state follows a cycle later
        self.taken.next = !(((self.is_sq.q.val() | self.is_rq.q.val())
            | (self.is_cq.q.val() | self.is_cmd.q.val()))
            | self.is_adm.q.val());
        match self.state.q.val() {
            DbState::Look => {
                if self.fifo.m_valid.val() {
                    self.state.d.next = DbState::Check;
                }
            }
            DbState::Check => {
                self.fifo.m_ready.next = true;
                self.units_in.m_ready.next = true;
                self.r.d.next = self.h.val();
                self.unit.d.next = self.units_in.m_data.val();
                self.is_sq.d.next = self.at_sq.val() & self.sq_ok.val();
                self.is_rq.d.next = self.at_rq.val() & self.rq_ok.val();
                self.is_cq.d.next = self.at_cq.val() & self.cq_ok.val();
                self.is_cmd.d.next = self.at_cmd.val();
                self.is_adm.d.next = self.at_adm.val();
                self.state.d.next = DbState::Look;
                if self.any.val() {
                    self.state.d.next = DbState::Give;
                } else {
                    self.refused.d.next = !self.at_eq.val();
                }
            }
            DbState::Give => {
                self.is_adm.d.next = false;
                if self.sqdb_ready.val() {
                    self.is_sq.d.next = false;
                }
                if self.rqdb_ready.val() {
                    self.is_rq.d.next = false;
                }
                if self.cqdb_ready.val() {
                    self.is_cq.d.next = false;
                }
                if self.cmddb_ready.val() {
                    self.is_cmd.d.next = false;
                }
                if self.taken.val() {
                    self.state.d.next = DbState::Look;
                }
            }
        }

        // messages
        self.o.next = self.r.q.val();
        self.o_hi.next = self.o.val().hi;
        self.o_lo.next = self.o.val().lo;
        self.o_obj.next = self.o.val().obj;
        self.qi.next.qp = bit_cast::<12, LQ>(self.o_obj.val().get_bits::<LQ>(0));
        self.qi.next.idx = self.o_hi.val().get_bits::<16>(0);
        self.ci.next.cq = self.o_obj.val().get_bits::<12>(0);
        self.ci.next.arm = self.o_lo.val().get_bits::<2>(24);
        self.ci.next.ci = self.o_hi.val().get_bits::<24>(0);
        self.cm.next.pasid = self.o.val().page;
        self.cm.next.addr =
            (bit_cast::<64, 32>(self.o_hi.val()) << 32) | bit_cast::<64, 32>(self.o_lo.val());
        self.sqdb_valid.next = self.is_sq.q.val();
        self.sqdb_data.next = self.qi.val();
        self.sqdb_direct.next = self.o.val().direct;
        self.sqdb_unit.next = self.unit.q.val();
        self.rqdb_valid.next = self.is_rq.q.val();
        self.rqdb_data.next = self.qi.val();
        self.cqdb_valid.next = self.is_cq.q.val();
        self.cqdb_data.next = self.ci.val();
        self.cmddb_valid.next = self.is_cmd.q.val();
        self.cmddb_data.next = self.cm.val();
        self.adm_valid.next = self.is_adm.q.val();
        self.adm_addr.next = self.o.val().off;
        self.adm_data.next = self.o.val().lo;
        self.ev_refused.next = self.refused.q.val();
        self.idle.next = !self.fifo.m_valid.val() & (self.state.q.val() == DbState::Look);
        if self.rst.val() {
            self.state.d.next = DbState::Look;
            self.is_sq.d.next = false;
            self.is_rq.d.next = false;
            self.is_cq.d.next = false;
            self.is_cmd.d.next = false;
            self.is_adm.d.next = false;
            self.refused.d.next = false;
        }
    }
}
