//! The single source of every number that the card and its host share: registers and doorbells
//! ([`regs`]), commands ([`cmd`]), work and completion layouts ([`wqe`], [`cqe`]), QP, MR and CQ
//! table entries ([`table`]), host-port messages ([`hostmsg`]) and named configurations
//! ([`config`]), and the addresses of a port ([`addr`]). RTL decode, driver constants and `docs/registers.md` are made from these tables.
//!
//! Bit order: bit 0 is bit 0 of byte 0 (little-endian), both in memory and on the 512-bit buses of
//! the card. Values that the network carries as opaque bytes (immediate data) keep their byte order.
#![cfg_attr(not(test), no_std)]

pub mod addr;
pub mod cmd;
pub mod codes;
pub mod config;
pub mod cqe;
pub mod field;
pub mod hostmsg;
pub mod regs;
pub mod table;
pub mod wqe;

pub use codes::Code;
pub use field::{Field, Layout};

/// Version of the host interface (registers, rings, commands). The provider refuses another major.
pub const HOST_ABI_MAJOR: u32 = 1;
pub const HOST_ABI_MINOR: u32 = 0;

/// Every set of codes, by the field that carries it.
pub const CODES: &[(&str, &[Code])] = &[
    ("sq.opcode", wqe::op::TABLE),
    ("cqe.opcode (receive)", cqe::recv_op::TABLE),
    ("cqe.status", cqe::status::TABLE),
    ("eqe.kind", cqe::event::TABLE),
    ("qp_cfg.state", table::qp_state::TABLE),
    ("qp_cfg.qp_type", table::qp_type::TABLE),
    ("head.opcode", cmd::op::TABLE),
    ("response.status", cmd::errno::TABLE),
];

/// Every layout, for the generators and the docs.
pub const LAYOUTS: &[&Layout] = &[
    &wqe::sq::LAYOUT,
    &wqe::sge_unit::LAYOUT,
    &wqe::ud_av::LAYOUT,
    &wqe::bind::LAYOUT,
    &wqe::rq::LAYOUT,
    &cqe::cqe::LAYOUT,
    &cqe::eqe::LAYOUT,
    &table::qp_cfg::LAYOUT,
    &table::av::LAYOUT,
    &table::mr_check::LAYOUT,
    &table::mr_map::LAYOUT,
    &table::cq::LAYOUT,
    &regs::db_queue::LAYOUT,
    &regs::db_cq::LAYOUT,
    &regs::db_eq::LAYOUT,
    &regs::raw_ring::LAYOUT,
    &regs::raw_tx::LAYOUT,
    &regs::raw_done::LAYOUT,
    &regs::raw_rx::LAYOUT,
    &regs::raw_head::LAYOUT,
    &cmd::head::LAYOUT,
    &cmd::response::LAYOUT,
    &cmd::create_eq::LAYOUT,
    &cmd::create_cq::LAYOUT,
    &cmd::reg_mr::LAYOUT,
    &cmd::alloc_mw::LAYOUT,
    &cmd::create_qp::LAYOUT,
    &cmd::modify_qp::LAYOUT,
    &cmd::create_srq::LAYOUT,
    &cmd::modify_srq::LAYOUT,
    &cmd::set_gid::LAYOUT,
    &cmd::query_qp_resp::LAYOUT,
];
