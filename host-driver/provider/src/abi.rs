//! C types of libibverbs: the public ones (`infiniband/verbs.h`) and the provider ones, which no package ships.
//!
//! Sizes are asserted when this compiles. Only the pthread types differ between x86-64 and AArch64 (a mutex is 40 and
//! 48 bytes there), and libc's own definitions carry that.
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::mem::{offset_of, size_of};

pub mod ex;
pub mod srq;

pub type Op = Option<unsafe extern "C" fn()>;

pub const SYSFS_NAME_MAX: usize = 64;
pub const SYSFS_PATH_MAX: usize = 256;

#[repr(C)]
pub struct IbvDevice {
    pub _ops: [usize; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; SYSFS_NAME_MAX],
    pub dev_name: [c_char; SYSFS_NAME_MAX],
    pub dev_path: [c_char; SYSFS_PATH_MAX],
    pub ibdev_path: [c_char; SYSFS_PATH_MAX],
}

/// `struct ibv_context_ops`: 32 slots, named here only where the probe or a program looks.
#[repr(C)]
pub struct IbvContextOps {
    pub slots: [usize; 32],
}

#[repr(C)]
pub struct IbvContext {
    pub device: *mut IbvDevice,
    pub ops: IbvContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: libc::pthread_mutex_t,
    pub abi_compat: *mut c_void,
}

#[repr(C)]
pub struct IbvCompChannel {
    pub context: *mut IbvContext,
    pub fd: c_int,
    pub refcnt: c_int,
}

#[repr(C)]
pub struct IbvPd {
    pub context: *mut IbvContext,
    pub handle: u32,
}

#[repr(C)]
pub struct IbvMr {
    pub context: *mut IbvContext,
    pub pd: *mut IbvPd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// `struct verbs_mr`: what `reg_mr` returns a pointer into and `dereg_mr` gets.
#[repr(C)]
pub struct VerbsMr {
    pub mr: IbvMr,
    pub mr_type: c_int,
    pub access: c_int,
}

#[repr(C)]
pub struct IbvCq {
    pub context: *mut IbvContext,
    pub channel: *mut IbvCompChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

#[repr(C)]
pub struct IbvQp {
    pub context: *mut IbvContext,
    pub qp_context: *mut c_void,
    pub pd: *mut IbvPd,
    pub send_cq: *mut IbvCq,
    pub recv_cq: *mut IbvCq,
    pub srq: *mut c_void,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_int,
    pub qp_type: c_int,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub events_completed: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct IbvQpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
pub struct IbvQpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut IbvCq,
    pub recv_cq: *mut IbvCq,
    pub srq: *mut c_void,
    pub cap: IbvQpCap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct IbvGlobalRoute {
    /// A union with two 64-bit words in C, hence its alignment.
    pub dgid: [u64; 2],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

impl IbvGlobalRoute {
    pub fn gid(&self) -> [u8; 16] {
        let mut g = [0; 16];
        g[..8].copy_from_slice(&self.dgid[0].to_ne_bytes());
        g[8..].copy_from_slice(&self.dgid[1].to_ne_bytes());
        g
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct IbvAhAttr {
    pub grh: IbvGlobalRoute,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[repr(C)]
pub struct IbvAh {
    pub context: *mut IbvContext,
    pub pd: *mut IbvPd,
    pub handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct IbvQpAttr {
    pub qp_state: c_int,
    pub cur_qp_state: c_int,
    pub path_mtu: c_int,
    pub path_mig_state: c_int,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: IbvQpCap,
    pub ah_attr: IbvAhAttr,
    pub alt_ah_attr: IbvAhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvSge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

#[repr(C)]
pub struct IbvSendWr {
    pub wr_id: u64,
    pub next: *mut IbvSendWr,
    pub sg_list: *mut IbvSge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: c_uint,
    /// Network byte order for immediate data, host order for a key to invalidate.
    pub imm: u32,
    /// `wr`: a union. RDMA is (remote_addr, rkey in the low half of the next word); an atomic is (remote_addr, operand
    /// to compare or add, operand to swap, rkey); UD is (ah, qpn | qkey << 32).
    pub wr: [u64; 4],
    pub qp_type: u64,
    pub bind_or_tso: [u64; 6],
}

#[repr(C)]
pub struct IbvMw {
    pub context: *mut IbvContext,
    pub pd: *mut IbvPd,
    pub rkey: u32,
    pub handle: u32,
    pub kind: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct IbvMwBindInfo {
    pub mr: *mut IbvMr,
    pub addr: u64,
    pub length: u64,
    pub access: c_uint,
}

#[repr(C)]
pub struct IbvMwBind {
    pub wr_id: u64,
    pub send_flags: c_uint,
    pub info: IbvMwBindInfo,
}

const _: () = {
    assert!(size_of::<IbvMw>() == 32 && size_of::<IbvMwBindInfo>() == 32);
    assert!(size_of::<IbvMwBind>() == 48)
};

impl IbvSendWr {
    /// `bind_mw`: the window, its new rkey, what it is bound to.
    pub fn bind(&self) -> (*mut IbvMw, u32, IbvMwBindInfo) {
        let [mw, rkey, mr, addr, length, access] = self.bind_or_tso;
        let info = IbvMwBindInfo {
            mr: mr as usize as *mut IbvMr,
            addr,
            length,
            access: access as c_uint,
        };
        (mw as usize as *mut IbvMw, rkey as u32, info)
    }
    pub fn set_bind(&mut self, mw: *mut IbvMw, rkey: u32, i: &IbvMwBindInfo) {
        let (mw, mr) = (mw as usize as u64, i.mr as usize as u64);
        self.bind_or_tso = [mw, rkey as u64, mr, i.addr, i.length, i.access as u64];
    }
    pub fn remote_addr(&self) -> u64 {
        self.wr[0]
    }
    pub fn rkey(&self) -> u32 {
        self.wr[1] as u32
    }
    pub fn ah(&self) -> *mut IbvAh {
        self.wr[0] as usize as *mut IbvAh
    }
    pub fn remote_qpn(&self) -> u32 {
        self.wr[1] as u32
    }
    pub fn remote_qkey(&self) -> u32 {
        (self.wr[1] >> 32) as u32
    }
}

#[repr(C)]
pub struct IbvRecvWr {
    pub wr_id: u64,
    pub next: *mut IbvRecvWr,
    pub sg_list: *mut IbvSge,
    pub num_sge: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct IbvWc {
    pub wr_id: u64,
    pub status: c_int,
    pub opcode: c_int,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct IbvDeviceAttr {
    pub fw_ver: [u8; 64],
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: c_int,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct IbvPortAttr {
    pub state: c_int,
    pub max_mtu: c_int,
    pub active_mtu: c_int,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}

/// `struct ibv_async_event`.
#[repr(C)]
pub struct IbvAsyncEvent {
    /// CQ, QP or port number, by `event_type`.
    pub element: *mut c_void,
    pub event_type: c_int,
}

/// What libibverbs reads from `async_fd` (`struct ib_uverbs_async_event_desc`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AsyncEventDesc {
    pub element: u64,
    pub event_type: u32,
    pub reserved: u32,
}

/// `struct verbs_device_ops`, rdma-core v34 and later.
#[repr(C)]
pub struct VerbsDeviceOps {
    pub name: *const c_char,
    pub match_min_abi_version: u32,
    pub match_max_abi_version: u32,
    pub match_table: *const VerbsMatchEnt,
    pub static_providers: *const c_void,
    pub match_device: Op,
    pub alloc_context:
        Option<unsafe extern "C" fn(*mut IbvDevice, c_int, *mut c_void) -> *mut c_void>,
    pub import_context: Op,
    pub alloc_device: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
    pub uninit_device: Option<unsafe extern "C" fn(*mut c_void)>,
}
// SAFETY: constant tables of pointers to constants.
unsafe impl Sync for VerbsDeviceOps {}

#[repr(C)]
pub struct VerbsMatchEnt {
    pub driver_data: *const c_void,
    pub modalias: *const c_char,
    pub vendor: u16,
    pub device: u16,
    pub kind: u8,
}
// SAFETY: as above.
unsafe impl Sync for VerbsMatchEnt {}

/// `struct verbs_device`, allocated by us and filled by libibverbs.
pub const VERBS_DEVICE_BYTES: usize = 712;

const MUTEX: usize = size_of::<libc::pthread_mutex_t>();
const COND: usize = size_of::<libc::pthread_cond_t>();
const fn up8(n: usize) -> usize {
    (n + 7) & !7
}

const _: () = {
    #[cfg(target_arch = "x86_64")]
    assert!(MUTEX == 40 && COND == 48);
    #[cfg(target_arch = "aarch64")]
    assert!(MUTEX == 48 && COND == 48);
    #[cfg(target_arch = "x86_64")]
    assert!(
        size_of::<IbvContext>() == 328 && size_of::<IbvCq>() == 128 && size_of::<IbvQp>() == 160
    );
    assert!(size_of::<IbvDevice>() == 664);
    assert!(offset_of!(IbvContext, cmd_fd) == 264);
    assert!(offset_of!(IbvContext, async_fd) == 268);
    assert!(offset_of!(IbvContext, num_comp_vectors) == 272);
    assert!(size_of::<IbvContext>() == 280 + MUTEX + 8);
    assert!(offset_of!(IbvCq, mutex) == 32);
    assert!(offset_of!(IbvCq, comp_events_completed) == 32 + MUTEX + COND);
    assert!(size_of::<IbvCq>() == up8(32 + MUTEX + COND + 8));
    assert!(offset_of!(IbvQp, mutex) == 64);
    assert!(size_of::<IbvQp>() == up8(64 + MUTEX + COND + 4));
    assert!(size_of::<IbvPd>() == 16 && size_of::<IbvMr>() == 48 && size_of::<VerbsMr>() == 56);
    assert!(size_of::<IbvAh>() == 24 && size_of::<IbvAhAttr>() == 32);
    assert!(size_of::<IbvGlobalRoute>() == 24);
    assert!(size_of::<IbvQpAttr>() == 144 && size_of::<IbvQpInitAttr>() == 64);
    assert!(size_of::<IbvSendWr>() == 128 && offset_of!(IbvSendWr, wr) == 40);
    assert!(offset_of!(IbvSendWr, qp_type) == 72);
    assert!(size_of::<IbvRecvWr>() == 32 && size_of::<IbvSge>() == 16);
    assert!(size_of::<IbvWc>() == 48);
    assert!(size_of::<IbvDeviceAttr>() == 232);
    assert!(offset_of!(IbvDeviceAttr, device_cap_flags) == 116);
    assert!(offset_of!(IbvDeviceAttr, phys_port_cnt) == 227);
    assert!(size_of::<IbvPortAttr>() == 52 && offset_of!(IbvPortAttr, link_layer) == 46);
    assert!(size_of::<IbvCompChannel>() == 16);
    assert!(size_of::<AsyncEventDesc>() == 16);
    assert!(size_of::<VerbsDeviceOps>() == 72);
    assert!(offset_of!(VerbsDeviceOps, alloc_context) == 40);
    assert!(offset_of!(VerbsDeviceOps, alloc_device) == 56);
    assert!(size_of::<VerbsMatchEnt>() == 24 && offset_of!(VerbsMatchEnt, kind) == 20);
};

pub mod access {
    pub const LOCAL_WRITE: u32 = 1;
    pub const REMOTE_WRITE: u32 = 2;
    pub const REMOTE_READ: u32 = 4;
    pub const REMOTE_ATOMIC: u32 = 8;
    pub const MW_BIND: u32 = 16;
    pub const ZERO_BASED: u32 = 32;
    pub const HUGETLB: u32 = 1 << 7;
    /// FLUSH_GLOBAL and FLUSH_PERSISTENT. As rights of a QP they grant nothing: no FLUSH is ever executed.
    pub const FLUSH: u32 = 3 << 8;
    /// Hints that a device may ignore (relaxed ordering and the like).
    pub const OPTIONAL: u32 = 0x3ff0_0000;
}
pub mod qp_type {
    pub const RC: i32 = 2;
    pub const UC: i32 = 3;
    pub const UD: i32 = 4;
}
pub mod state {
    pub const RESET: i32 = 0;
    pub const INIT: i32 = 1;
    pub const RTR: i32 = 2;
    pub const RTS: i32 = 3;
    pub const ERR: i32 = 6;
}
pub mod attr {
    pub const STATE: u32 = 1;
    pub const CUR_STATE: u32 = 1 << 1;
    pub const EN_SQD: u32 = 1 << 2;
    pub const ACCESS: u32 = 1 << 3;
    pub const PKEY: u32 = 1 << 4;
    pub const PORT: u32 = 1 << 5;
    pub const QKEY: u32 = 1 << 6;
    pub const AV: u32 = 1 << 7;
    pub const PATH_MTU: u32 = 1 << 8;
    pub const TIMEOUT: u32 = 1 << 9;
    pub const RETRY_CNT: u32 = 1 << 10;
    pub const RNR_RETRY: u32 = 1 << 11;
    pub const RQ_PSN: u32 = 1 << 12;
    pub const MAX_RD: u32 = 1 << 13;
    pub const ALT_PATH: u32 = 1 << 14;
    pub const MIN_RNR: u32 = 1 << 15;
    pub const SQ_PSN: u32 = 1 << 16;
    pub const MAX_DEST_RD: u32 = 1 << 17;
    pub const PATH_MIG: u32 = 1 << 18;
    pub const CAP: u32 = 1 << 19;
    pub const DEST_QPN: u32 = 1 << 20;
}
pub mod send_flag {
    pub const FENCE: u32 = 1;
    pub const SIGNALED: u32 = 2;
    pub const SOLICITED: u32 = 4;
    pub const INLINE: u32 = 8;
}
pub mod wr_op {
    pub const WRITE: i32 = 0;
    pub const WRITE_IMM: i32 = 1;
    pub const SEND: i32 = 2;
    pub const SEND_IMM: i32 = 3;
    pub const READ: i32 = 4;
    pub const CMP_SWAP: i32 = 5;
    pub const FETCH_ADD: i32 = 6;
    pub const LOCAL_INV: i32 = 7;
    pub const BIND_MW: i32 = 8;
    pub const SEND_INV: i32 = 9;
}
/// `enum ibv_mw_type`.
pub mod mw_type {
    pub const TYPE_1: i32 = 1;
    pub const TYPE_2: i32 = 2;
}
pub mod wc_op {
    pub const SEND: i32 = 0;
    pub const WRITE: i32 = 1;
    pub const READ: i32 = 2;
    pub const COMP_SWAP: i32 = 3;
    pub const FETCH_ADD: i32 = 4;
    pub const BIND_MW: i32 = 5;
    pub const LOCAL_INV: i32 = 6;
    pub const RECV: i32 = 128;
    pub const RECV_RDMA_WITH_IMM: i32 = 129;
}
pub mod wc_flag {
    pub const GRH: u32 = 1;
    pub const WITH_IMM: u32 = 2;
    pub const WITH_INV: u32 = 8;
}
pub mod event {
    pub const CQ_ERR: u32 = 0;
    pub const QP_FATAL: u32 = 1;
    pub const QP_REQ_ERR: u32 = 2;
    pub const QP_ACCESS_ERR: u32 = 3;
    pub const COMM_EST: u32 = 4;
    pub const SQ_DRAINED: u32 = 5;
    pub const PATH_MIG_ERR: u32 = 7;
    pub const DEVICE_FATAL: u32 = 8;
    pub const PORT_ACTIVE: u32 = 9;
    pub const PORT_ERR: u32 = 10;
    pub const SRQ_ERR: u32 = 14;
    pub const SRQ_LIMIT: u32 = 15;
    pub const LAST_WQE: u32 = 16;
}
