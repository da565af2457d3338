//! C types of shared receive queues.
use super::*;

/// `struct ibv_srq`.
#[repr(C)]
pub struct IbvSrq {
    pub context: *mut IbvContext,
    pub srq_context: *mut c_void,
    pub pd: *mut IbvPd,
    pub handle: u32,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub events_completed: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct IbvSrqAttr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

#[repr(C)]
pub struct IbvSrqInitAttr {
    pub srq_context: *mut c_void,
    pub attr: IbvSrqAttr,
}

/// `struct ibv_srq_init_attr_ex` up to what a basic SRQ looks at.
#[repr(C)]
pub struct IbvSrqInitAttrEx {
    pub srq_context: *mut c_void,
    pub attr: IbvSrqAttr,
    pub comp_mask: u32,
    pub srq_type: c_int,
    pub pd: *mut IbvPd,
}

/// `enum ibv_srq_attr_mask`.
pub mod attr_mask {
    pub const MAX_WR: u32 = 1;
    pub const LIMIT: u32 = 1 << 1;
}

/// `enum ibv_srq_init_attr_mask`, and a value of `enum ibv_srq_type`.
pub mod init {
    pub const TYPE: u32 = 1;
    pub const PD: u32 = 1 << 1;
    pub const BASIC: i32 = 0;
}

const _: () = {
    #[cfg(target_arch = "x86_64")]
    assert!(size_of::<IbvSrq>() == 128 && offset_of!(IbvSrq, events_completed) == 120);
    assert!(offset_of!(IbvSrq, mutex) == 32);
    assert!(size_of::<IbvSrqInitAttr>() == 24);
    assert!(offset_of!(IbvSrqInitAttrEx, comp_mask) == 20);
    assert!(offset_of!(IbvSrqInitAttrEx, pd) == 32);
};
