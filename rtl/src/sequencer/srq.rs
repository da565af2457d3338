//! Programs of the SRQ commands. An SRQ is an entry of the QP table that has nothing but a receive ring: its number is a QPN, and doorbell and prefetch
//! treat it as they treat a QP.

use super::asm::*;
use super::program::*;
use crate::types::ctl;
use metaroce_hdl_spec::cmd::{self as c, errno};
use metaroce_hdl_spec::table as t;

/// The entry in work memory is that of an SRQ, or is not.
pub(super) fn check(p: &mut Asm, srq: bool) {
    let at = Src::Mem(E0 + t::qp_cfg::qp_type.lo as u128);
    let n = t::qp_type::SRQ as u128;
    let (min, max) = if srq { (n, n) } else { (0, n - 1) };
    p.check(
        at,
        t::qp_cfg::qp_type.width as u128,
        min,
        max,
        errno::ENOENT,
    );
}

/// Count the QP at hand in or out as a user of the SRQ that its entry names.
pub(super) fn count_user(p: &mut Asm, down: bool) {
    let f = t::qp_cfg::srqn;
    p.load(Src::Mem(E0 + f.lo as u128), f.width as u128);
    // by index alone
    p.do_(op::LOOKUP, kind::QP, 1, errno::ENOENT);
    p.do_(op::COUNT, down as u128, 0, 0);
}

pub(super) fn programs(p: &mut Asm) {
    use c::create_srq as f;
    use t::qp_cfg as d;
    p.label("CREATE_SRQ");
    p.check_field(f::stride, 0, 2, errno::EINVAL);
    check_address(p, f::base, 12, 4);
    look(p, kind::PD, f::pd);
    p.do_(op::ALLOC, kind::QP, 0, errno::ENOMEM);
    p.do_(op::CLEAR, 0, 0, 0);
    const { assert!(t::qp_state::INIT == 1 && t::qp_type::SRQ == 3) };
    p.bits(special(sp::ONES), E0 + d::state.lo as u128, 1);
    p.bits(special(sp::ONES), E0 + d::qp_type.lo as u128, 2);
    p.field(f::log, E0, d::rq_log);
    p.field(f::stride, E0, d::rq_stride);
    p.field(f::pd, E0, d::pd);
    address(p, f::base, 12, E0, d::rq_base);
    p.put(sp::TAG, E0, d::tag);
    p.put(sp::PASID, E0, d::pasid);
    p.do_(op::RID, 0, 0, 0);
    p.load(special(sp::ZERO), 32);
    p.do_(op::PUT, 0, 0, 0);
    store_qp(p);
    count(p, kind::PD, cmd(f::pd), 12, false);
    p.do_(op::RESP, 0, 0, 0);

    p.label("MODIFY_SRQ");
    look(p, kind::QP, c::head::id);
    load_cfg(p);
    check(p, true);
    p.load_field(c::modify_srq::limit);
    p.do_(op::CTL, ctl::LIMIT as u128, blk::RSP, 0);
    p.do_(op::RESP, 0, 0, 0);

    p.label("QUERY_SRQ");
    look(p, kind::QP, c::head::id);
    load_cfg(p);
    check(p, true);
    p.jump(op::JUMP, "query");

    p.label("DESTROY_SRQ");
    look(p, kind::QP, c::head::id);
    load_cfg(p);
    check(p, true);
    p.check(special(sp::N), 16, 0, 0, errno::EBUSY);
    p.put(sp::ZERO, E0, d::state);
    p.store(tab::CFG, E);
    // no QP uses it, so nothing is on its way
    p.do_(op::CTL, ctl::RESET as u128, blk::RSP, 0);
    p.do_(op::CTL, ctl::RESET as u128, blk::RQF, 0);
    p.do_(op::STORE, tab::CFG | tab::AV, 1, 0);
    p.do_(op::FREE, 0, 0, 0);
    piece(p, kind::PD, d::pd);
    p.do_(op::RESP, 0, 0, 0);
}
