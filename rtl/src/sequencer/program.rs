//! The programs of the commands, and the transition table as a ROM.
//!
//! Each program first checks everything, then changes something: a CHECK, LOOKUP, ALLOC, TRANS or FAIL never comes after a PUT, COUNT, STORE or CTL,
//! but for LOOKUPs of objects that have been looked up before. The unit tests hold the programs to that.

use super::asm::*;
use super::srq;
use crate::types::ctl;
use crate::window::order;
use metaroce_hdl_spec::cmd::{self as c, errno};
use metaroce_hdl_spec::field::Field;
use metaroce_hdl_spec::table as t;
use metaroce_protocol::qp::{attr, QpType, TRANSITIONS};

/// Program counter after a command has been read, for a failed QP, and for an opcode from [`OPCODES`] on; the kernel has these numbers. The slots below
/// `OPCODES` are the jumps to the commands; those that no command has yet go to `unknown`, too.
pub const OPCODES: usize = 32;
pub const PC_ERR: usize = 32;
pub const PC_UNKNOWN: usize = 33;
pub const PC_CMD: usize = 34;

/// Scratch layout of a GID and of an EQ: see `GidEntry`.
pub const GID_MAC: u128 = E0;
pub const GID_GID: u128 = E0 + 64;
pub const GID_VALID: u128 = E0 + 192;
pub const GID_IP6: u128 = E0 + 193;
pub const EQ_LOG: u128 = E0 + 64;

/// Attribute bit number.
fn bit(attr: u32) -> u128 {
    attr.trailing_zeros() as u128
}

/// Work memory word in which a 32-bit aligned command field begins.
fn word(f: Field) -> u128 {
    assert!(f.lo.is_multiple_of(32));
    f.lo as u128 / 32
}

/// A 64-bit address whose low `low` bits and high `high` bits must be zero.
pub(super) fn check_address(p: &mut Asm, f: Field, low: u128, high: u128) {
    let at = f.lo as u128;
    p.check(Src::Mem(at), low, 0, 0, errno::EINVAL);
    p.check(Src::Mem(at + 64 - high), high, 0, 0, errno::EINVAL);
}

/// An address in units of `2^low` bytes to a field.
pub(super) fn address(p: &mut Asm, f: Field, low: u128, at: u128, d: Field) {
    p.bits(
        Src::Mem(f.lo as u128 + low),
        at + d.lo as u128,
        d.width as u128,
    );
}

pub(super) fn look(p: &mut Asm, kind: u128, f: Field) {
    p.load_field(f);
    p.do_(op::LOOKUP, kind, 0, errno::ENOENT);
}

/// Count the user of an object that a QP or MR entry names by `f` in or out.
pub(super) fn count(p: &mut Asm, kind: u128, s: Src, width: u128, down: bool) {
    p.load(s, width);
    p.do_(op::LOOKUP, kind, 0, errno::ENOENT);
    p.do_(op::COUNT, down as u128, 0, 0);
}

fn fence(p: &mut Asm) {
    p.do_(
        op::CTL,
        ctl::FENCE as u128,
        blk::RQR | blk::RSP | blk::RDR,
        0,
    );
}

/// Both entries of a QP; the state comes last.
pub(super) fn store_qp(p: &mut Asm) {
    p.store(tab::AV, AV0 / 32);
    p.store(tab::CFG, E);
}

/// `cfg` of the QP at hand, and what the kernel needs of it.
pub(super) fn load_cfg(p: &mut Asm) {
    p.do_(op::QPLOAD, 0, 0, 0);
    let at = |f: Field| Src::Mem(E0 + f.lo as u128);
    p.set(reg::CUR, at(t::qp_cfg::state), t::qp_cfg::state);
    p.set(reg::TYPE, at(t::qp_cfg::qp_type), t::qp_cfg::qp_type);
    p.set(reg::OWNER, at(t::qp_cfg::pasid), t::qp_cfg::pasid);
    p.set(reg::TAG, at(t::qp_cfg::tag), t::qp_cfg::tag);
    p.set(reg::SRQ, at(t::qp_cfg::srq), t::qp_cfg::srq);
}

fn reset_blocks(p: &mut Asm) {
    p.do_(
        op::CTL,
        ctl::RESET as u128,
        blk::RQR | blk::RSP | blk::RDR,
        0,
    );
    p.do_(op::CTL, ctl::RESET as u128, blk::SQF | blk::RQF, 0);
}

/// The last CQE of the QP's receives is there, then the event.
fn last_wqe(p: &mut Asm) {
    fence(p);
    p.do_(
        op::EVENT,
        metaroce_hdl_spec::cqe::event::LAST_WQE as u128,
        0,
        0,
    );
}

/// All programs; `max_rd`: READs in flight per QP, `log_qp`: log2 of QPs.
pub fn program(max_rd: usize, log_qp: usize) -> Vec<u128> {
    let mut p = Asm::default();
    let names = [
        "NOP",
        "ALLOC_PD",
        "DEALLOC_PD",
        "CREATE_EQ",
        "CREATE_CQ",
        "DESTROY_CQ",
        "REG_MR",
        "DEREG_MR",
        "CREATE_QP",
        "MODIFY_QP",
        "QUERY_QP",
        "DESTROY_QP",
        "TEARDOWN",
        "SET_GID",
        "REREG_MR",
        "RESIZE_CQ",
        "ALLOC_MW",
        "DEALLOC_MW",
        "CREATE_SRQ",
        "MODIFY_SRQ",
        "QUERY_SRQ",
        "DESTROY_SRQ",
    ];
    assert!(names.len() <= OPCODES);
    for opcode in 0..OPCODES {
        p.jump(op::JUMP, names.get(opcode).copied().unwrap_or("unknown"));
    }
    for name in ["error", "unknown", "command"] {
        p.jump(op::JUMP, name);
    }
    p.label("command");
    p.set(reg::SEQ, cmd(c::head::seq), c::head::seq);
    p.check(special(sp::FAR), 1, 0, 0, errno::EPERM);
    p.set(reg::PC, cmd(c::head::opcode), c::head::opcode);
    p.label("NOP");
    p.do_(op::RESP, 0, 0, 0);
    p.label("unknown");
    p.do_(op::FAIL, 0, 0, errno::EOPNOTSUPP);
    pd(&mut p);
    queues(&mut p);
    mr(&mut p);
    window(&mut p);
    create_qp(&mut p, log_qp as u128);
    modify_qp(&mut p, max_rd as u128);
    other_qp(&mut p);
    srq::programs(&mut p);
    admin(&mut p);
    p.finish()
}

fn pd(p: &mut Asm) {
    p.label("ALLOC_PD");
    p.do_(op::ALLOC, kind::PD, 0, errno::ENOMEM);
    p.load(special(sp::ZERO), 32);
    p.do_(op::PUT, 0, 0, 0);
    p.do_(op::RID, 0, 0, 0);
    p.do_(op::RESP, 0, 0, 0);

    p.label("DEALLOC_PD");
    look(p, kind::PD, c::head::id);
    p.check(special(sp::N), 16, 0, 0, errno::EBUSY);
    p.do_(op::FREE, 0, 0, 0);
    p.do_(op::RESP, 0, 0, 0);
}

fn queues(p: &mut Asm) {
    p.label("CREATE_EQ");
    p.check_field(c::create_eq::log, 4, 16, errno::EINVAL);
    check_address(p, c::create_eq::base, 12, 4);
    p.load(special(sp::PASID), 12);
    p.do_(op::LOOKUP, kind::EQ, 1, 0);
    p.check(special(sp::USED), 1, 0, 0, errno::EBUSY);
    p.do_(op::CLEAR, 0, 0, 0);
    p.bits(Src::Mem(c::create_eq::base.lo as u128 + 12), E0, 48);
    p.bits(cmd(c::create_eq::log), EQ_LOG, 5);
    p.store(tab::EQ, E);
    p.load(special(sp::ZERO), 32);
    p.do_(op::PUT, 0, 0, 0);
    p.do_(op::RESP, 0, 0, 0);

    p.label("CREATE_CQ");
    check_cq(p);
    p.do_(op::ALLOC, kind::CQ, 0, errno::ENOMEM);
    make_cq(p);
    p.store(tab::CQT, E);
    p.load(special(sp::ZERO), 32);
    p.do_(op::PUT, 0, 0, 0);
    p.do_(op::RID, 0, 0, 0);
    p.do_(op::RESP, 0, 0, 0);

    p.label("DESTROY_CQ");
    look(p, kind::CQ, c::head::id);
    p.check(special(sp::N), 16, 0, 0, errno::EBUSY);
    p.do_(op::STORE, tab::CQT, 1, 0);
    p.do_(op::FREE, 0, 0, 0);
    p.do_(op::RESP, 0, 0, 0);

    p.label("RESIZE_CQ");
    check_cq(p);
    look(p, kind::CQ, c::head::id);
    make_cq(p);
    p.store(tab::CQT | tab::RESIZE, E);
    // what is on its way to the old ring goes there before the answer
    fence(p);
    p.do_(op::RID, 0, 0, 0);
    p.do_(op::RESP, 0, 0, 0);
}

/// The ring of a CQ is legal.
fn check_cq(p: &mut Asm) {
    p.check_field(c::create_cq::log, 4, 16, errno::EINVAL);
    check_address(p, c::create_cq::base, 12, 4);
}

/// The CQ's entry comes into work memory.
fn make_cq(p: &mut Asm) {
    p.do_(op::CLEAR, 0, 0, 0);
    p.put(sp::ONES, E0, t::cq::valid);
    p.field(c::create_cq::log, E0, t::cq::log);
    p.put(sp::PASID, E0, t::cq::pasid);
    address(p, c::create_cq::base, 12, E0, t::cq::base);
}

/// The fields of REG_MR are legal; then, looked at last, the PD.
fn check_mr(p: &mut Asm) {
    use c::reg_mr as f;
    let (va, len) = (word(f::va), word(f::len));
    p.check_field(f::page_shift, 12, 30, errno::EINVAL);
    check_address(p, f::list, 6, 6);
    // len - 1 must be less than 2^40 (so len = 0 is out), and va + (len - 1) must not wrap
    p.add(special(sp::ONES), len, T, false);
    p.add(special(sp::ONES), len + 1, T + 1, true);
    p.check(Src::Mem(32 * (T + 1)), 32, 0, 0xFF, errno::EINVAL);
    p.add(Src::Mem(32 * va), T, T, false);
    p.add(Src::Mem(32 * (va + 1)), T + 1, T + 1, true);
    p.check(special(sp::CARRY), 1, 0, 0, errno::EINVAL);
    look(p, kind::PD, f::pd);
}

/// Both entries of the MR at hand come into work memory.
fn make_mr(p: &mut Asm) {
    use c::reg_mr as f;
    let va = word(f::va);
    p.do_(op::CLEAR, 0, 0, 0);
    p.put(sp::ONES, E0, t::mr_check::valid);
    let right = |i: u128| Src::Mem(f::access.lo as u128 + i);
    for (i, d) in [
        t::mr_check::local_write,
        t::mr_check::remote_write,
        t::mr_check::remote_read,
        t::mr_check::remote_atomic,
    ]
    .into_iter()
    .enumerate()
    {
        p.bits(right(i as u128), E0 + d.lo as u128, 1);
    }
    p.field(f::mw_bind, E0, t::mr_check::mw_bind);
    p.put(sp::ID, E0, t::mr_check::variant);
    p.field(f::pd, E0, t::mr_check::pd);
    p.field(f::va, E0, t::mr_check::va);
    let len = t::mr_check::len;
    p.bits(cmd(f::len), E0 + len.lo as u128, len.width as u128);
    p.field(f::page_shift, MRM0, t::mr_map::page_shift);
    address(p, f::list, 6, MRM0, t::mr_map::list);
    // the first page: page_shift is at most 30, so only the low word of va is rounded
    p.load_field(f::page_shift);
    p.and(special(sp::SHIFT), va, T);
    let at = MRM0 + t::mr_map::va_page.lo as u128;
    p.bits(Src::Mem(32 * T + 12), at, 20);
    p.bits(Src::Mem(32 * (va + 1)), at + 20, 32);
    p.put(sp::PASID, MRM0, t::mr_map::pasid);
}

/// Bit of `n` of a key's object that says that it is a window; the PD is in the low bits.
const WINDOW: u128 = 15;

/// The MR, or window, whose key the command names.
fn look_mr(p: &mut Asm, window: bool) {
    p.load_rot(cmd(c::head::id), 8);
    p.do_(op::LOOKUP, kind::MR, 0, errno::ENOENT);
    let is = Src::Special(sp::N, WINDOW);
    p.check(is, 1, window as u128, window as u128, errno::EINVAL);
}

/// The last check of an MR that is to go: no window is bound to it, and from here on none will be.
fn close_mr(p: &mut Asm) {
    p.win(order::CLOSE);
    p.check(special(sp::WIN), 1, 0, 0, errno::EBUSY);
}

/// Nothing uses the MR at hand any more.
fn stop_mr(p: &mut Asm) {
    p.do_(op::STORE, tab::MRC, 1, 0);
    fence(p);
    p.do_(op::FLUSH, 0, 0, 0);
}

fn mr(p: &mut Asm) {
    use c::reg_mr as f;
    p.label("REG_MR");
    check_mr(p);
    p.do_(op::ALLOC, kind::MR, 0, errno::ENOMEM);
    p.win(order::NEW);
    p.do_(op::RID, 0, 0, 0);
    make_mr(p);
    p.load_field(f::pd);
    p.do_(op::PUT, 0, 0, 0);
    p.store(tab::MRC | tab::MRM, E);
    count(p, kind::PD, cmd(f::pd), 12, false);
    p.do_(op::RESP, 0, 0, 0);

    p.label("DEREG_MR");
    look_mr(p, false);
    close_mr(p);
    stop_mr(p);
    p.do_(op::STORE, tab::MRM, 1, 0);
    p.do_(op::FREE, 0, 0, 0);
    count(p, kind::PD, special(sp::N), 12, true);
    p.do_(op::RESP, 0, 0, 0);

    p.label("REREG_MR");
    check_mr(p);
    look_mr(p, false);
    close_mr(p);
    p.do_(op::RID, 0, 0, 0);
    // make_mr needs the first free word
    p.bits(special(sp::N), 32 * (T + 1), 12);
    stop_mr(p);
    make_mr(p);
    p.load_field(f::pd);
    p.do_(op::PUT, 0, 0, 0);
    p.store(tab::MRC | tab::MRM, E);
    count(p, kind::PD, Src::Mem(32 * (T + 1)), 12, true);
    count(p, kind::PD, cmd(f::pd), 12, false);
    p.do_(op::RESP, 0, 0, 0);
}

/// One user less of the object that field `f` of the QP's (or SRQ's) entry names.
pub(super) fn piece(p: &mut Asm, kind: u128, f: Field) {
    // the field may cross a word: bring it together first
    p.bits(Src::Mem(E0 + f.lo as u128), 32 * T, f.width as u128);
    count(p, kind, Src::Mem(32 * T), f.width as u128, true);
}

/// Windows are objects of kind MR; their binding is the window unit's.
fn window(p: &mut Asm) {
    use c::alloc_mw as f;
    p.label("ALLOC_MW");
    look(p, kind::PD, f::pd);
    p.do_(op::ALLOC, kind::MR, 0, errno::ENOMEM);
    p.do_(op::RID, 0, 0, 0);
    p.do_(op::CLEAR, 0, 0, 0);
    p.put(sp::ONES, E0, t::mr_check::window);
    p.field(f::type2, E0, t::mr_check::type2);
    p.put(sp::ID, E0, t::mr_check::variant);
    p.field(f::pd, E0, t::mr_check::pd);
    p.bits(special(sp::ZERO), 32 * T, 32);
    p.bits(cmd(f::pd), 32 * T, 12);
    p.bits(special(sp::ONES), 32 * T + WINDOW, 1);
    p.load(Src::Mem(32 * T), 16);
    p.do_(op::PUT, 0, 0, 0);
    p.store(tab::MRC, E);
    count(p, kind::PD, cmd(f::pd), 12, false);
    p.do_(op::RESP, 0, 0, 0);

    p.label("DEALLOC_MW");
    look_mr(p, true);
    p.win(order::DROP);
    fence(p);
    p.do_(op::FREE, 0, 0, 0);
    count(p, kind::PD, special(sp::N), 12, true);
    p.do_(op::RESP, 0, 0, 0);
}

fn create_qp(p: &mut Asm, log_qp: u128) {
    use c::create_qp as f;
    use t::qp_cfg as d;
    p.label("CREATE_QP");
    p.check_field(
        f::qp_type,
        t::qp_type::RC as u128,
        t::qp_type::UD as u128,
        errno::EOPNOTSUPP,
    );
    p.check_field(f::sq_log, 4, 15, errno::EINVAL);
    p.check_field(f::rq_stride, 0, 2, errno::EINVAL);
    check_address(p, f::sq_base, 12, 4);
    check_address(p, f::rq_base, 12, 4);
    p.set(reg::SRQ, cmd(f::srq), f::srq);
    p.when(pred::SRQ, |p| {
        // no UC
        const { assert!(t::qp_type::RC & 1 == 0 && t::qp_type::UD & 1 == 0 && t::qp_type::UC & 1 == 1) };
        p.check(cmd(f::qp_type), 1, 0, 0, errno::EOPNOTSUPP);
        look(p, kind::QP, f::srqn);
        p.do_(op::QPLOAD, 0, 0, 0);
        srq::check(p, true);
        // what the two must have in common
        let at = |f: Field| Src::Mem(E0 + f.lo as u128);
        p.bits(at(d::rq_stride), f::rq_stride.lo as u128, 2);
        p.bits(at(d::pd), f::pd.lo as u128, 12);
    });
    look(p, kind::PD, f::pd);
    look(p, kind::CQ, f::scq);
    look(p, kind::CQ, f::rcq);
    p.do_(op::ALLOC, kind::QP, 0, errno::ENOMEM);
    p.do_(op::CLEAR, 0, 0, 0);
    for (s, to) in [
        (f::qp_type, d::qp_type),
        (f::sq_log, d::sq_log),
        (f::rq_log, d::rq_log),
        (f::rq_stride, d::rq_stride),
        (f::pd, d::pd),
        (f::scq, d::scq),
        (f::rcq, d::rcq),
    ] {
        p.field(s, E0, to);
    }
    address(p, f::sq_base, 12, E0, d::sq_base);
    address(p, f::rq_base, 12, E0, d::rq_base);
    p.put(sp::TAG, E0, d::tag);
    p.put(sp::PASID, E0, d::pasid);
    p.when(pred::SRQ, |p| {
        p.put(sp::ONES, E0, d::srq);
        p.bits(cmd(f::srqn), E0 + d::srqn.lo as u128, log_qp);
    });
    p.do_(op::RID, 0, 0, 0);
    p.load(special(sp::ZERO), 32);
    p.do_(op::PUT, 0, 0, 0);
    store_qp(p);
    p.when(pred::SRQ, |p| srq::count_user(p, false));
    count(p, kind::PD, cmd(f::pd), 12, false);
    count(p, kind::CQ, cmd(f::scq), 12, false);
    count(p, kind::CQ, cmd(f::rcq), 12, false);
    p.do_(op::RESP, 0, 0, 0);
}

/// Field moves of MODIFY_QP: attribute, source, entry, destination.
pub fn modify_moves() -> Vec<(u32, Field, u128, Field)> {
    use c::modify_qp as f;
    use t::{av, qp_cfg as d};
    vec![
        (attr::ACCESS_FLAGS, f::acc_write, E0, d::acc_write),
        (attr::ACCESS_FLAGS, f::acc_read, E0, d::acc_read),
        (attr::ACCESS_FLAGS, f::acc_atomic, E0, d::acc_atomic),
        (attr::PATH_MTU, f::mtu, E0, d::mtu),
        (attr::TIMEOUT, f::timeout, E0, d::timeout),
        (attr::RETRY_CNT, f::retry_cnt, E0, d::retry_cnt),
        (attr::RNR_RETRY, f::rnr_retry, E0, d::rnr_retry),
        (attr::MIN_RNR_TIMER, f::min_rnr, E0, d::min_rnr),
        (attr::MAX_QP_RD_ATOMIC, f::max_rd, E0, d::max_rd),
        (attr::MAX_DEST_RD_ATOMIC, f::max_dest_rd, E0, d::max_dest_rd),
        (attr::DEST_QPN, f::dqpn, E0, d::dqpn),
        (attr::DEST_QPN, f::dqpn, AV0, av::dqpn),
        (attr::AV, f::ip6, E0, d::ip6),
        (attr::AV, f::has_vlan, E0, d::vlan),
        (attr::AV, f::ip6, AV0, av::ip6),
        (attr::AV, f::has_vlan, AV0, av::has_vlan),
        (attr::AV, f::pcp, AV0, av::pcp),
        (attr::AV, f::hop_limit, AV0, av::hop_limit),
        (attr::AV, f::tclass, AV0, av::tclass),
        (attr::AV, f::vlan, AV0, av::vlan),
        (attr::AV, f::sport, AV0, av::sport),
        (attr::AV, f::dmac, AV0, av::dmac),
        (attr::AV, f::flow_label, AV0, av::flow_label),
        (attr::AV, f::dip, AV0, av::dip),
        (attr::QKEY, f::qkey, AV0, av::qkey),
    ]
}

fn modify_qp(p: &mut Asm, max_rd: u128) {
    use c::modify_qp as f;
    p.label("MODIFY_QP");
    look(p, kind::QP, c::head::id);
    load_cfg(p);
    p.do_(op::QPLOAD, 1, 0, 0);
    p.set(reg::MASK, cmd(f::mask), f::mask);
    p.set(reg::WANT, cmd(f::next_state), f::next_state);
    p.set(reg::ASSUMED, cmd(f::cur_state), f::cur_state);
    p.set(reg::GID, cmd(f::sgid_index), f::sgid_index);
    p.set(reg::IP6, cmd(f::ip6), f::ip6);
    p.do_(op::TRANS, 0, 0, errno::EINVAL);
    for a in [attr::ALT_PATH, attr::PATH_MIG_STATE] {
        p.when(bit(a), |p| p.do_(op::FAIL, 0, 0, errno::EOPNOTSUPP));
    }
    for (a, s, min, max) in [
        (attr::PORT, f::port, 1, 1),
        (attr::PKEY_INDEX, f::pkey_index, 0, 0),
        (attr::PATH_MTU, f::mtu, 1, 5),
        (attr::MAX_QP_RD_ATOMIC, f::max_rd, 0, max_rd),
        (attr::MAX_DEST_RD_ATOMIC, f::max_dest_rd, 0, max_rd),
    ] {
        p.when(bit(a), |p| p.check_field(s, min, max, errno::EINVAL));
    }
    p.when(bit(attr::AV), |p| {
        p.check(special(sp::GID_INFO), 2, 1, 1, errno::EINVAL)
    });
    for (a, s, at, d) in modify_moves() {
        p.when(bit(a), |p| p.field(s, at, d));
    }
    p.when(bit(attr::AV), |p| {
        p.bits(Src::Special(sp::GID, 0), AV0 + t::av::smac.lo as u128, 48);
        p.bits(Src::Special(sp::GID, 64), AV0 + t::av::sip.lo as u128, 128);
    });
    p.put(sp::NEXT, E0, t::qp_cfg::state);
    store_qp(p);
    p.when(pred::TO_RTR, |p| {
        p.load_field(f::rq_psn);
        p.do_(op::CTL, ctl::START as u128, blk::RSP, 0);
    });
    p.when(pred::TO_RTS, |p| {
        p.load_field(f::sq_psn);
        p.do_(op::CTL, ctl::START as u128, blk::RQR, 0);
    });
    p.when(pred::KICK, |p| {
        p.do_(op::CTL, ctl::KICK as u128, blk::RQR, 0)
    });
    // legal from RTS to SQD alone
    p.when(bit(attr::EN_SQD_ASYNC_NOTIFY), |p| {
        p.set(reg::DRAIN, special(sp::ZERO), f::port)
    });
    p.when(pred::TO_RESET, |p| {
        fence(p);
        reset_blocks(p);
        p.do_(op::QRES, 0, 0, 0);
    });
    p.when(pred::TO_ERR, |p| {
        p.do_(op::CTL, ctl::FLUSH as u128, blk::RQR | blk::RSP, 0)
    });
    p.when(pred::ERR_SRQ, last_wqe);
    p.do_(op::RESP, 0, 0, 0);
}

fn other_qp(p: &mut Asm) {
    p.label("QUERY_QP");
    look(p, kind::QP, c::head::id);
    load_cfg(p);
    srq::check(p, false);
    p.label("query");
    p.do_(op::CTL, ctl::QUERY as u128, blk::RQR | blk::RSP, 0);
    p.do_(op::QRES, 0, 0, 0);
    p.do_(op::RID, 0, 0, 0);
    p.do_(op::RESP, 0, 0, 0);

    p.label("DESTROY_QP");
    look(p, kind::QP, c::head::id);
    load_cfg(p);
    srq::check(p, false);
    p.put(sp::ZERO, E0, t::qp_cfg::state);
    p.store(tab::CFG, E);
    fence(p);
    reset_blocks(p);
    p.do_(op::STORE, tab::CFG | tab::AV, 1, 0);
    p.do_(op::FREE, 0, 0, 0);
    piece(p, kind::PD, t::qp_cfg::pd);
    piece(p, kind::CQ, t::qp_cfg::scq);
    piece(p, kind::CQ, t::qp_cfg::rcq);
    p.when(pred::SRQ, |p| srq::count_user(p, true));
    p.do_(op::QRES, 0, 0, 0);
    p.do_(op::RESP, 0, 0, 0);

    p.label("error");
    load_cfg(p);
    p.when(pred::LIVE, |p| {
        for (i, s) in [sp::ZERO, sp::ONES, sp::ONES].into_iter().enumerate() {
            const { assert!(t::qp_state::ERR == 6) };
            p.bits(special(s), E0 + t::qp_cfg::state.lo as u128 + i as u128, 1);
        }
        p.store(tab::CFG, E);
        p.do_(op::CTL, ctl::FLUSH as u128, blk::RQR | blk::RSP, 0);
    });
    p.when(pred::LIVE_SRQ, last_wqe);
    p.when(pred::DRAIN, |p| {
        p.do_(op::CTL, ctl::QUERY as u128, blk::RQR, 0)
    });
    p.when(pred::EVENT, |p| p.do_(op::EVENT, 0, 0, 0));
    p.do_(op::END, 0, 0, 0);
}

fn admin(p: &mut Asm) {
    p.label("TEARDOWN");
    p.check(special(sp::ADMIN), 1, 1, 1, errno::EPERM);
    p.check(
        Src::Mem(c::head::id.lo as u128 + 12),
        20,
        0,
        0,
        errno::ENOENT,
    );
    p.load(cmd(c::head::id), 12);
    p.do_(op::SWEEP, 0, 0, 0);
    p.label("stop");
    p.jump(op::NEXT, "stopped");
    p.when(pred::MR, |p| p.do_(op::STORE, tab::MRC, 1, 0));
    p.when(pred::QP, |p| {
        p.do_(op::QPLOAD, 0, 0, 0);
        p.put(sp::ZERO, E0, t::qp_cfg::state);
        p.store(tab::CFG, E);
    });
    p.jump(op::JUMP, "stop");
    p.label("stopped");
    fence(p);
    p.do_(op::FLUSH, 0, 0, 0);
    p.load(cmd(c::head::id), 12);
    p.do_(op::SWEEP, 0, 0, 0);
    p.label("free");
    p.jump(op::NEXT, "freed");
    p.when(pred::MR, |p| p.do_(op::STORE, tab::MRM, 1, 0));
    p.when(pred::QP, |p| {
        reset_blocks(p);
        p.do_(op::STORE, tab::CFG | tab::AV, 1, 0);
    });
    p.when(pred::CQ, |p| p.do_(op::STORE, tab::CQT, 1, 0));
    p.when(pred::EQ, |p| p.do_(op::STORE, tab::EQ, 1, 0));
    p.do_(op::FREE, 0, 0, 0);
    p.jump(op::JUMP, "free");
    p.label("freed");
    p.do_(op::RESP, 0, 0, 0);

    use c::set_gid as f;
    p.label("SET_GID");
    p.check(special(sp::ADMIN), 1, 1, 1, errno::EPERM);
    p.do_(op::CLEAR, 0, 0, 0);
    p.bits(cmd(f::mac), GID_MAC, 48);
    p.bits(cmd(f::gid), GID_GID, 128);
    p.bits(cmd(f::ip6), GID_IP6, 1);
    p.bits(special(sp::ONES), GID_VALID, 1);
    p.load_field(f::index);
    p.store(tab::GID, E);
    p.do_(op::RESP, 0, 0, 0);
}

/// Bits of a transition row: legal, required mask, allowed mask (required, optional and STATE).
pub const TRANS_BITS: usize = 43;

/// Transition rows, addressed by type << 6 | from << 3 | to.
pub fn transitions() -> Vec<u128> {
    let mut rom = vec![0; 256];
    for r in &TRANSITIONS {
        let ty = match r.qp_type {
            QpType::Rc => t::qp_type::RC,
            QpType::Uc => t::qp_type::UC,
            QpType::Ud => t::qp_type::UD,
        } as usize;
        let allowed = r.required | r.optional | attr::STATE;
        let at = ty << 6 | (r.from as usize) << 3 | r.to as usize;
        rom[at] = 1 | (r.required as u128) << 1 | (allowed as u128) << 22;
    }
    rom
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaroce_protocol::qp::{check_modify, QpState};

    /// The ROM says what `check_modify` says, for every type and transition and masks around each row.
    #[test]
    fn transition_rom() {
        let rom = transitions();
        let types = [(QpType::Rc, 0), (QpType::Uc, 1), (QpType::Ud, 2)];
        let mut n = 0;
        for (ty, code) in types {
            for from in QpState::ALL {
                for to in QpState::ALL {
                    let w = rom[code << 6 | (from as usize) << 3 | to as usize];
                    let (req, allowed) = ((w >> 1) as u32 & 0x1F_FFFF, (w >> 22) as u32);
                    let masks = [0, req, allowed, 1 << 21 >> 1].into_iter();
                    for mask in masks
                        .flat_map(|m| (0..21).map(move |b| m ^ 1 << b))
                        .chain([req, allowed])
                    {
                        let rom_ok = w & 1 == 1 && req & !mask == 0 && mask & !allowed == 0;
                        assert_eq!(
                            check_modify(from, to, ty, mask).is_ok(),
                            rom_ok,
                            "{ty:?} {from:?} {to:?} {mask:x}"
                        );
                        n += 1;
                    }
                }
            }
        }
        println!("{n} cases");
    }

    /// No program can fail after its first effect.
    #[test]
    fn programs_check_first() {
        let p = program(16, 8);
        assert!(p.len() <= 1 << LOG_PROG, "{}", p.len());
        println!("{} instructions", p.len());
        let field = |w: u128, lo: u32, n: u32| (w >> lo) & ((1 << n) - 1);
        let mut changed = false;
        for w in p {
            let (o, b) = (field(w, 0, 5), field(w, 69, 8));
            match o {
                op::RESP | op::END | op::FAIL | op::JUMP => changed = false,
                op::PUT | op::FREE | op::COUNT | op::STORE | op::CTL | op::FLUSH | op::EVENT => {
                    changed = true
                }
                op::CHECK | op::ALLOC | op::TRANS => assert!(!changed, "instruction {w:x}, b {b}"),
                _ => {}
            }
        }
    }
}
