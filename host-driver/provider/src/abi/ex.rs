//! The extended objects of `infiniband/verbs.h`: CQs and QPs that carry functions, and attributes with a mask.
use super::*;

/// `struct ibv_cq_ex`; `struct verbs_cq` is a union of this and `ibv_cq`.
#[repr(C)]
pub struct IbvCqEx {
    pub base: IbvCq,
    pub comp_mask: u32,
    pub status: c_int,
    pub wr_id: u64,
    pub functions: CqFunctions,
}

type Cq = *mut IbvCqEx;

#[repr(C)]
#[derive(Default)]
pub struct CqFunctions {
    pub start_poll: Option<unsafe extern "C" fn(Cq, *const u32) -> c_int>,
    pub next_poll: Option<unsafe extern "C" fn(Cq) -> c_int>,
    pub end_poll: Option<unsafe extern "C" fn(Cq)>,
    pub read_opcode: Option<unsafe extern "C" fn(Cq) -> c_int>,
    pub read_vendor_err: Option<unsafe extern "C" fn(Cq) -> u32>,
    pub read_byte_len: Option<unsafe extern "C" fn(Cq) -> u32>,
    pub read_imm_data: Option<unsafe extern "C" fn(Cq) -> u32>,
    pub read_qp_num: Option<unsafe extern "C" fn(Cq) -> u32>,
    pub read_src_qp: Option<unsafe extern "C" fn(Cq) -> u32>,
    pub read_wc_flags: Option<unsafe extern "C" fn(Cq) -> c_uint>,
    pub read_slid: Option<unsafe extern "C" fn(Cq) -> u32>,
    pub read_sl: Option<unsafe extern "C" fn(Cq) -> u8>,
    pub read_dlid_path_bits: Option<unsafe extern "C" fn(Cq) -> u8>,
    pub read_completion_ts: Option<unsafe extern "C" fn(Cq) -> u64>,
    pub read_cvlan: Op,
    pub read_flow_tag: Op,
    pub read_tm_info: Op,
    pub read_completion_wallclock_ns: Op,
}

/// `struct ibv_cq_init_attr_ex`.
#[repr(C)]
pub struct IbvCqInitAttrEx {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut IbvCompChannel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut IbvPd,
}

/// What a program wants to read of a completion (`enum ibv_create_cq_wc_flags`).
pub mod wc_ex {
    /// Length, immediate data, QPNs and the InfiniBand-only SLID, SL and path bits.
    pub const STANDARD: u64 = 0x7f;
    pub const TIMESTAMP: u64 = 1 << 7;
}
pub mod cq_attr {
    pub const MASK_FLAGS: u32 = 1;
    pub const MASK_PD: u32 = 1 << 1;
    pub const SINGLE_THREADED: u32 = 1;
}

/// `struct ibv_qp_ex`.
#[repr(C)]
pub struct IbvQpEx {
    pub base: IbvQp,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub functions: QpFunctions,
}

type Qp = *mut IbvQpEx;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QpFunctions {
    pub wr_atomic_cmp_swp: Option<unsafe extern "C" fn(Qp, u32, u64, u64, u64)>,
    pub wr_atomic_fetch_add: Option<unsafe extern "C" fn(Qp, u32, u64, u64)>,
    pub wr_bind_mw: Option<unsafe extern "C" fn(Qp, *mut IbvMw, u32, *const IbvMwBindInfo)>,
    pub wr_local_inv: Option<unsafe extern "C" fn(Qp, u32)>,
    pub wr_rdma_read: Option<unsafe extern "C" fn(Qp, u32, u64)>,
    pub wr_rdma_write: Option<unsafe extern "C" fn(Qp, u32, u64)>,
    pub wr_rdma_write_imm: Option<unsafe extern "C" fn(Qp, u32, u64, u32)>,
    pub wr_send: Option<unsafe extern "C" fn(Qp)>,
    pub wr_send_imm: Option<unsafe extern "C" fn(Qp, u32)>,
    pub wr_send_inv: Option<unsafe extern "C" fn(Qp, u32)>,
    pub wr_send_tso: Option<unsafe extern "C" fn(Qp, *mut c_void, u16, u16)>,
    pub wr_set_ud_addr: Option<unsafe extern "C" fn(Qp, *mut IbvAh, u32, u32)>,
    pub wr_set_xrc_srqn: Option<unsafe extern "C" fn(Qp, u32)>,
    pub wr_set_inline_data: Option<unsafe extern "C" fn(Qp, *mut c_void, usize)>,
    pub wr_set_inline_data_list: Option<unsafe extern "C" fn(Qp, usize, *const IbvDataBuf)>,
    pub wr_set_sge: Option<unsafe extern "C" fn(Qp, u32, u64, u32)>,
    pub wr_set_sge_list: Option<unsafe extern "C" fn(Qp, usize, *const IbvSge)>,
    pub wr_start: Option<unsafe extern "C" fn(Qp)>,
    pub wr_complete: Option<unsafe extern "C" fn(Qp) -> c_int>,
    pub wr_abort: Option<unsafe extern "C" fn(Qp)>,
    /// `wr_atomic_write` from release 44 on; before, this word is `verbs_qp.comp_mask`.
    pub last: usize,
}

/// What follows in `struct verbs_qp`: `comp_mask` and `xrcd`, one word earlier before release 44, and behind `wr_flush` from 45 on.
#[repr(C)]
pub struct VerbsQpTail {
    pub words: [usize; 3],
}

/// First release with `wr_atomic_write`.
pub const ATOMIC_WRITE_SINCE: u32 = 44;
/// First release with `wr_flush`.
pub const FLUSH_SINCE: u32 = 45;
/// `verbs_qp.comp_mask`: the QP has the functions above.
pub const VERBS_QP_EX: u32 = 1 << 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct IbvDataBuf {
    pub addr: *const c_void,
    pub length: usize,
}

/// `struct ibv_qp_init_attr_ex`: begins like `ibv_qp_init_attr`, whose padding at the end holds `comp_mask` here.
#[repr(C)]
pub struct IbvQpInitAttrEx {
    pub qp_context: *mut c_void,
    pub send_cq: *mut IbvCq,
    pub recv_cq: *mut IbvCq,
    pub srq: *mut c_void,
    pub cap: IbvQpCap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut IbvPd,
    pub xrcd: *mut c_void,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut c_void,
    pub rx_hash_conf: [u64; 3],
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}

pub mod qp_init {
    pub const PD: u32 = 1;
    pub const CREATE_FLAGS: u32 = 1 << 2;
    pub const MAX_TSO_HEADER: u32 = 1 << 3;
    pub const SEND_OPS: u32 = 1 << 6;
}
/// `enum ibv_qp_create_send_ops_flags`.
pub mod send_ops {
    pub const WRITE: u64 = 1;
    pub const WRITE_IMM: u64 = 1 << 1;
    pub const SEND: u64 = 1 << 2;
    pub const SEND_IMM: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CMP_SWAP: u64 = 1 << 5;
    pub const FETCH_ADD: u64 = 1 << 6;
    pub const LOCAL_INV: u64 = 1 << 7;
    pub const BIND_MW: u64 = 1 << 8;
    pub const SEND_INV: u64 = 1 << 9;
}

/// `struct ibv_device_attr_ex` of release 44; older ones are shorter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IbvDeviceAttrEx {
    pub base: IbvDeviceAttr,
    pub comp_mask: u32,
    pub odp_caps: [u64; 3],
    pub completion_timestamp_mask: u64,
    /// kHz.
    pub hca_core_clock: u64,
    pub device_cap_flags_ex: u64,
    pub tso_caps: [u32; 2],
    pub rss_caps: [u64; 4],
    pub max_wq_type_rq: u32,
    pub packet_pacing_caps: [u32; 3],
    pub raw_packet_caps: u32,
    pub tm_caps: [u32; 5],
    pub cq_mod_caps: [u16; 2],
    pub max_dm_size: u64,
    pub pci_atomic_caps: [u16; 3],
    pub xrc_odp_caps: u32,
    pub phys_port_cnt_ex: u32,
}

/// `struct ibv_mr_init_attr` of release 59; from 64 on a buffer follows.
#[repr(C)]
pub struct IbvMrInitAttr {
    pub length: usize,
    pub access: c_int,
    pub comp_mask: u64,
    pub iova: u64,
    pub addr: *mut c_void,
    pub fd: c_int,
    pub fd_offset: u64,
    pub dmah: *mut c_void,
}
/// Which of its members are there (`enum ibv_mr_init_attr_mask`).
pub mod mr_init {
    pub const IOVA: u64 = 1;
    pub const ADDR: u64 = 1 << 1;
}

#[repr(C)]
pub struct IbvTd {
    pub context: *mut IbvContext,
}

/// `struct ibv_parent_domain_init_attr`.
#[repr(C)]
pub struct IbvParentDomainInitAttr {
    pub pd: *mut IbvPd,
    pub td: *mut IbvTd,
    pub comp_mask: u32,
    pub alloc: Op,
    pub free: Op,
    pub pd_context: *mut c_void,
}
pub mod parent {
    pub const PD_CONTEXT: u32 = 1 << 1;
}

const _: () = {
    #[cfg(target_arch = "x86_64")]
    assert!(size_of::<IbvCqEx>() == 288 && size_of::<IbvQpEx>() == 352);
    assert!(offset_of!(IbvCqEx, comp_mask) == size_of::<IbvCq>());
    assert!(offset_of!(IbvCqEx, functions) == size_of::<IbvCq>() + 16);
    assert!(size_of::<CqFunctions>() == 18 * 8);
    assert!(offset_of!(IbvQpEx, functions) == size_of::<IbvQp>() + 24);
    assert!(size_of::<QpFunctions>() == 21 * 8);
    assert!(size_of::<VerbsQpTail>() == 24);
    assert!(size_of::<IbvCqInitAttrEx>() == 56 && offset_of!(IbvCqInitAttrEx, wc_flags) == 32);
    assert!(size_of::<IbvQpInitAttrEx>() == 136 && offset_of!(IbvQpInitAttrEx, pd) == 64);
    assert!(offset_of!(IbvQpInitAttrEx, rwq_ind_tbl) == 88);
    assert!(offset_of!(IbvQpInitAttrEx, send_ops_flags) == 128);
    assert!(size_of::<IbvDeviceAttrEx>() == 400);
    assert!(offset_of!(IbvDeviceAttrEx, completion_timestamp_mask) == 264);
    assert!(offset_of!(IbvDeviceAttrEx, phys_port_cnt_ex) == 396);
    assert!(size_of::<IbvParentDomainInitAttr>() == 48);
    assert!(size_of::<IbvMrInitAttr>() == 64 && offset_of!(IbvMrInitAttr, addr) == 32);
};
