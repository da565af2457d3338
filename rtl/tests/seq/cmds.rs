//! Random commands that mostly succeed, for runs in which only rust-hdl and Verilator are compared.

use metaroce_hdl_spec::cmd::{self, op};
use metaroce_rtl::diff::Rng;

/// A command block. `ids` are numbers that answers have given.
pub fn random(rng: &mut Rng, ids: &[u64]) -> [u8; 128] {
    let mut c = [0u8; 128];
    for x in c.iter_mut() {
        *x = rng.next() as u8;
    }
    let any = |rng: &mut Rng| match ids.len() {
        0 => rng.below(4),
        n => ids[rng.below(n as u64) as usize],
    };
    let o = [
        op::ALLOC_PD,
        op::CREATE_CQ,
        op::RESIZE_CQ,
        op::REG_MR,
        op::CREATE_QP,
        op::MODIFY_QP,
        op::MODIFY_QP,
        op::MODIFY_QP,
        op::QUERY_QP,
        op::DESTROY_QP,
        op::DEREG_MR,
        op::REREG_MR,
        op::CREATE_EQ,
        op::SET_GID,
        op::DESTROY_CQ,
        op::DEALLOC_PD,
        op::CREATE_SRQ,
        op::MODIFY_SRQ,
        op::QUERY_SRQ,
        op::DESTROY_SRQ,
        op::NOP,
        op::ALLOC_MW,
        op::DEALLOC_MW,
        31,
    ][rng.below(24) as usize];
    cmd::head::opcode.put(&mut c, o as u64);
    let id = any(rng);
    cmd::head::id.put(&mut c, id);
    match o {
        op::CREATE_CQ | op::RESIZE_CQ | op::CREATE_EQ => {
            cmd::create_cq::log.put(&mut c, 4 + rng.below(13));
            cmd::create_cq::base.put(&mut c, rng.below(1 << 40) << 12);
        }
        op::REG_MR | op::REREG_MR => {
            cmd::reg_mr::pd.put(&mut c, any(rng));
            cmd::reg_mr::page_shift.put(&mut c, 12 + rng.below(19));
            cmd::reg_mr::list.put(&mut c, rng.below(1 << 40) << 6);
            cmd::reg_mr::va.put(&mut c, rng.next() >> 1);
            cmd::reg_mr::len.put(&mut c, 1 + rng.below(1 << 40));
        }
        op::ALLOC_MW => cmd::alloc_mw::pd.put(&mut c, any(rng)),
        op::CREATE_QP => {
            use cmd::create_qp as f;
            f::qp_type.put(&mut c, 0);
            f::sq_log.put(&mut c, 4 + rng.below(12));
            f::rq_stride.put(&mut c, rng.below(3));
            f::pd.put(&mut c, any(rng));
            f::sq_base.put(&mut c, rng.below(1 << 40) << 12);
            f::rq_base.put(&mut c, rng.below(1 << 40) << 12);
            f::scq.put(&mut c, any(rng));
            f::rcq.put(&mut c, any(rng));
            f::srq.put(&mut c, rng.p(0.3) as u64);
            f::srqn.put(&mut c, any(rng));
        }
        op::CREATE_SRQ => {
            use cmd::create_srq as f;
            f::stride.put(&mut c, rng.below(3));
            f::pd.put(&mut c, any(rng));
            f::base.put(&mut c, rng.below(1 << 40) << 12);
        }
        op::MODIFY_QP => {
            use cmd::modify_qp as f;
            let (next, mask) = [
                (1, 0x39),
                (2, 0x129181),
                (3, 0x12E01),
                (4, 1),
                (6, 1),
                (0, 1),
                (3, 0x8009),
            ][rng.below(7) as usize];
            f::next_state.put(&mut c, next);
            f::mask.put(&mut c, mask);
            f::mtu.put(&mut c, 1 + rng.below(5));
            f::max_rd.put(&mut c, rng.below(5));
            f::max_dest_rd.put(&mut c, rng.below(5));
            f::port.put(&mut c, 1);
            f::pkey_index.put(&mut c, 0);
            f::sgid_index.put(&mut c, rng.below(2));
        }
        op::SET_GID => cmd::set_gid::index.put(&mut c, rng.below(2)),
        _ => {}
    }
    c
}
