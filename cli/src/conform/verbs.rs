//! What of libibverbs the probes call, looked up when they run: nothing is linked, and any library of that name will do. Everything made here is
//! taken down when it is dropped; what depends on something else borrows it.

use anyhow::{bail, Context, Result};
use metaroce::abi::{
    IbvAh, IbvAhAttr, IbvContext, IbvCq, IbvDevice, IbvDeviceAttr, IbvMr, IbvMw, IbvPd,
    IbvPortAttr, IbvQp, IbvQpAttr, IbvQpInitAttr, IbvRecvWr, IbvSendWr, IbvSge, IbvWc,
};
use std::{
    ffi::{c_char, c_int, c_void, CStr, CString},
    ptr::null_mut,
};

/// `struct ibv_srq_init_attr`.
#[repr(C)]
pub struct SrqInit {
    context: *mut c_void,
    max_wr: u32,
    max_sge: u32,
    limit: u32,
}

macro_rules! lib {
    ($($field:ident $symbol:literal ($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// The functions of the library.
        pub struct Lib { handle: *mut c_void, $($field: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)* }
        impl Lib {
            fn find(handle: *mut c_void) -> Result<Lib> {
                Ok(Lib { handle, $($field: {
                    let name = concat!($symbol, "\0");
                    // SAFETY: a live handle and a terminated name.
                    let at = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
                    if at.is_null() {
                        bail!("libibverbs has no {}: rdma-core is older than any that is known", $symbol);
                    }
                    // SAFETY: the type of that symbol in infiniband/verbs.h.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(at) }
                },)* })
            }
        }
    };
}

lib! {
    get_device_list "ibv_get_device_list" (*mut c_int) -> *mut *mut IbvDevice;
    free_device_list "ibv_free_device_list" (*mut *mut IbvDevice);
    get_device_name "ibv_get_device_name" (*mut IbvDevice) -> *const c_char;
    open_device "ibv_open_device" (*mut IbvDevice) -> *mut IbvContext;
    close_device "ibv_close_device" (*mut IbvContext) -> c_int;
    query_device "ibv_query_device" (*mut IbvContext, *mut IbvDeviceAttr) -> c_int;
    query_port "ibv_query_port" (*mut IbvContext, u8, *mut IbvPortAttr) -> c_int;
    query_gid "ibv_query_gid" (*mut IbvContext, u8, c_int, *mut [u8; 16]) -> c_int;
    alloc_pd "ibv_alloc_pd" (*mut IbvContext) -> *mut IbvPd;
    dealloc_pd "ibv_dealloc_pd" (*mut IbvPd) -> c_int;
    reg_mr "ibv_reg_mr" (*mut IbvPd, *mut c_void, usize, c_int) -> *mut IbvMr;
    rereg_mr "ibv_rereg_mr" (*mut IbvMr, c_int, *mut IbvPd, *mut c_void, usize, c_int) -> c_int;
    dereg_mr "ibv_dereg_mr" (*mut IbvMr) -> c_int;
    create_cq "ibv_create_cq" (*mut IbvContext, c_int, *mut c_void, *mut c_void, c_int) -> *mut IbvCq;
    resize_cq "ibv_resize_cq" (*mut IbvCq, c_int) -> c_int;
    destroy_cq "ibv_destroy_cq" (*mut IbvCq) -> c_int;
    create_srq "ibv_create_srq" (*mut IbvPd, *mut SrqInit) -> *mut c_void;
    destroy_srq "ibv_destroy_srq" (*mut c_void) -> c_int;
    create_qp "ibv_create_qp" (*mut IbvPd, *mut IbvQpInitAttr) -> *mut IbvQp;
    modify_qp "ibv_modify_qp" (*mut IbvQp, *mut IbvQpAttr, c_int) -> c_int;
    destroy_qp "ibv_destroy_qp" (*mut IbvQp) -> c_int;
    create_ah "ibv_create_ah" (*mut IbvPd, *mut IbvAhAttr) -> *mut IbvAh;
    destroy_ah "ibv_destroy_ah" (*mut IbvAh) -> c_int;
}

// Places in `struct ibv_context_ops` (infiniband/verbs.h) of what libibverbs calls inline.
const ALLOC_MW: usize = 7;
const DEALLOC_MW: usize = 9;
const POLL_CQ: usize = 11;
const POST_SRQ_RECV: usize = 20;
const POST_SEND: usize = 25;
const POST_RECV: usize = 26;

pub struct Device {
    lib: Lib,
    ctx: *mut IbvContext,
}

/// What a call did: the object, or the errno.
pub type Made<T> = Result<T, i32>;

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

impl Device {
    pub fn open(name: &str) -> Result<Device> {
        let file = c"libibverbs.so.1";
        // SAFETY: a terminated name. The library stays for as long as the program runs.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            bail!("there is no libibverbs.so.1: install the package libibverbs1");
        }
        let lib = Lib::find(handle)?;
        let want = CString::new(name).context("a device's name has no zero byte")?;
        let mut names = vec![];
        let mut ctx = null_mut();
        // SAFETY: the list is whole until it is freed, and ends with a null pointer.
        unsafe {
            let list = (lib.get_device_list)(null_mut());
            let mut at = list;
            while !list.is_null() && !(*at).is_null() {
                let n = CStr::from_ptr((lib.get_device_name)(*at));
                if n == want.as_c_str() {
                    ctx = (lib.open_device)(*at);
                    if ctx.is_null() {
                        bail!("{name} does not open: {}", std::io::Error::last_os_error());
                    }
                    break;
                }
                names.push(n.to_string_lossy().into_owned());
                at = at.add(1);
            }
            if !list.is_null() {
                (lib.free_device_list)(list);
            }
        }
        if ctx.is_null() {
            names.sort();
            let there = match names.is_empty() {
                true => "no verbs device at all".into(),
                false => names.join(", "),
            };
            bail!("no verbs device {name}; there is {there}. Simulated cards exist within `metaroce run` and `metaroce env`");
        }
        Ok(Device { lib, ctx })
    }

    fn op<F>(&self, slot: usize) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        // SAFETY: the context is open; the caller names the type of that slot in infiniband/verbs.h.
        let f = unsafe { (*self.ctx).ops.slots[slot] };
        (f != 0).then(|| unsafe { std::mem::transmute_copy::<usize, F>(&f) })
    }

    pub fn attr(&self) -> Made<IbvDeviceAttr> {
        // SAFETY: plain integers; the call fills them.
        let mut a: IbvDeviceAttr = unsafe { std::mem::zeroed() };
        match unsafe { (self.lib.query_device)(self.ctx, &mut a) } {
            0 => Ok(a),
            e => Err(e),
        }
    }

    pub fn port(&self) -> Made<IbvPortAttr> {
        let mut a = IbvPortAttr::default();
        // SAFETY: the call fills them.
        match unsafe { (self.lib.query_port)(self.ctx, 1, &mut a) } {
            0 => Ok(a),
            e => Err(e),
        }
    }

    pub fn gid(&self, index: u8) -> Option<[u8; 16]> {
        let mut g = [0; 16];
        // SAFETY: 16 bytes, which the call fills.
        let r = unsafe { (self.lib.query_gid)(self.ctx, 1, index.into(), &mut g) };
        (r == 0 && g != [0; 16]).then_some(g)
    }

    pub fn pd(&self) -> Made<Pd<'_>> {
        // SAFETY: the context is open.
        let p = unsafe { (self.lib.alloc_pd)(self.ctx) };
        match p.is_null() {
            true => Err(errno()),
            false => Ok(Pd { dev: self, p }),
        }
    }

    pub fn cq(&self, entries: u64) -> Made<Cq<'_>> {
        let Ok(n) = c_int::try_from(entries) else {
            return Err(libc::EINVAL);
        };
        // SAFETY: no channel, no user pointer.
        let p = unsafe { (self.lib.create_cq)(self.ctx, n, null_mut(), null_mut(), 0) };
        match p.is_null() {
            true => Err(errno()),
            false => Ok(Cq { dev: self, p }),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: everything that borrows the device is gone.
        unsafe { (self.lib.close_device)(self.ctx) };
    }
}

pub struct Pd<'a> {
    dev: &'a Device,
    p: *mut IbvPd,
}

pub const LOCAL_WRITE: c_int = 1;
pub const REMOTE_WRITE: c_int = 2;
pub const REMOTE_READ: c_int = 4;
pub const REMOTE_ATOMIC: c_int = 8;
pub const MW_BIND: c_int = 16;

impl<'a> Pd<'a> {
    pub fn mr(&self, mem: &'a Memory, access: c_int) -> Made<Mr<'a>> {
        // SAFETY: the memory lives for as long as the region may.
        let p =
            unsafe { (self.dev.lib.reg_mr)(self.p, mem.at(0) as *mut c_void, mem.len(), access) };
        match p.is_null() {
            true => Err(errno()),
            false => Ok(Mr { dev: self.dev, p }),
        }
    }

    pub fn srq(&self, entries: u64) -> Made<Srq<'a>> {
        let Ok(max_wr) = u32::try_from(entries) else {
            return Err(libc::EINVAL);
        };
        let mut i = SrqInit {
            context: null_mut(),
            max_wr,
            max_sge: 1,
            limit: 0,
        };
        // SAFETY: the attributes are whole.
        let p = unsafe { (self.dev.lib.create_srq)(self.p, &mut i) };
        match p.is_null() {
            true => Err(errno()),
            false => Ok(Srq { dev: self.dev, p }),
        }
    }

    pub fn mw(&self, kind: c_int) -> Made<Mw<'a>> {
        let alloc: unsafe extern "C" fn(*mut IbvPd, c_int) -> *mut IbvMw =
            self.dev.op(ALLOC_MW).ok_or(libc::EOPNOTSUPP)?;
        // SAFETY: the domain is live.
        let p = unsafe { alloc(self.p, kind) };
        match p.is_null() {
            true => Err(errno()),
            false => Ok(Mw { dev: self.dev, p }),
        }
    }

    pub fn qp(&self, cq: &Cq, i: &mut IbvQpInitAttr) -> Made<Qp<'a>> {
        (i.send_cq, i.recv_cq) = (cq.p, cq.p);
        // SAFETY: the attributes are whole, the CQ is live, and destroyed later by who made it.
        let p = unsafe { (self.dev.lib.create_qp)(self.p, i) };
        match p.is_null() {
            true => Err(errno()),
            false => Ok(Qp { dev: self.dev, p }),
        }
    }

    pub fn ah(&self, mut a: IbvAhAttr) -> Made<Ah<'a>> {
        // SAFETY: the attributes are whole.
        let p = unsafe { (self.dev.lib.create_ah)(self.p, &mut a) };
        match p.is_null() {
            true => Err(errno()),
            false => Ok(Ah { dev: self.dev, p }),
        }
    }
}

macro_rules! owned {
    ($name:ident, $type:ty, $destroy:ident) => {
        pub struct $name<'a> {
            dev: &'a Device,
            p: *mut $type,
        }
        impl Drop for $name<'_> {
            fn drop(&mut self) {
                // SAFETY: made by this library, and destroyed once.
                unsafe { (self.dev.lib.$destroy)(self.p) };
            }
        }
    };
}
owned!(Cq, IbvCq, destroy_cq);
owned!(Srq, c_void, destroy_srq);
owned!(Qp, IbvQp, destroy_qp);
owned!(Ah, IbvAh, destroy_ah);

impl Drop for Pd<'_> {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { (self.dev.lib.dealloc_pd)(self.p) };
    }
}

pub struct Mw<'a> {
    dev: &'a Device,
    pub p: *mut IbvMw,
}

impl Mw<'_> {
    pub fn rkey(&self) -> u32 {
        // SAFETY: live.
        unsafe { (*self.p).rkey }
    }
}

impl Drop for Mw<'_> {
    fn drop(&mut self) {
        let free: Option<unsafe extern "C" fn(*mut IbvMw) -> c_int> = self.dev.op(DEALLOC_MW);
        if let Some(f) = free {
            // SAFETY: live, and freed once.
            unsafe { f(self.p) };
        }
    }
}

owned!(Mr, IbvMr, dereg_mr);

impl Mr<'_> {
    pub fn keys(&self) -> (u32, u32) {
        // SAFETY: live.
        unsafe { ((*self.p).lkey, (*self.p).rkey) }
    }
    pub fn raw(&self) -> *mut IbvMr {
        self.p
    }
    /// Other rights; the key stays or not, as the library says.
    pub fn rereg(&self, access: c_int) -> Made<()> {
        const ACCESS: c_int = 4;
        // SAFETY: live; translation and domain stay.
        match unsafe { (self.dev.lib.rereg_mr)(self.p, ACCESS, null_mut(), null_mut(), 0, access) }
        {
            0 => Ok(()),
            e => Err(e),
        }
    }
}

impl Cq<'_> {
    pub fn resize(&self, entries: c_int) -> Made<()> {
        // SAFETY: live.
        match unsafe { (self.dev.lib.resize_cq)(self.p, entries) } {
            0 => Ok(()),
            e => Err(e),
        }
    }

    pub fn poll(&self) -> Option<IbvWc> {
        let f: unsafe extern "C" fn(*mut IbvCq, c_int, *mut IbvWc) -> c_int =
            self.dev.op(POLL_CQ)?;
        let mut wc = IbvWc::default();
        // SAFETY: live; room for one.
        (unsafe { f(self.p, 1, &mut wc) } == 1).then_some(wc)
    }
}

impl Srq<'_> {
    pub fn raw(&self) -> *mut c_void {
        self.p
    }
    pub fn recv(&self, sge: IbvSge) -> Made<()> {
        let f: unsafe extern "C" fn(*mut c_void, *mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int =
            self.dev.op(POST_SRQ_RECV).ok_or(libc::EOPNOTSUPP)?;
        received(sge, |w, bad| unsafe { f(self.p, w, bad) })
    }
}

impl Ah<'_> {
    pub fn raw(&self) -> *mut IbvAh {
        self.p
    }
}

impl Qp<'_> {
    /// Whether the library says that data of such a request becomes visible in order; older ones can't be asked.
    pub fn data_in_order(&self, op: c_int) -> Option<bool> {
        type Ask = unsafe extern "C" fn(*mut IbvQp, c_int, u32) -> c_int;
        let name = c"ibv_query_qp_data_in_order";
        // SAFETY: the library is loaded, and stays.
        let at = unsafe { libc::dlsym(self.dev.lib.handle, name.as_ptr()) };
        if at.is_null() {
            return None;
        }
        // SAFETY: the type of that symbol in infiniband/verbs.h.
        let ask = unsafe { std::mem::transmute::<*mut c_void, Ask>(at) };
        // SAFETY: live.
        Some(unsafe { ask(self.p, op, 0) } == 1)
    }
    pub fn number(&self) -> u32 {
        // SAFETY: live.
        unsafe { (*self.p).qp_num }
    }
    pub fn modify(&self, a: &mut IbvQpAttr, mask: c_int) -> Made<()> {
        // SAFETY: live, and the attributes are whole.
        match unsafe { (self.dev.lib.modify_qp)(self.p, a, mask) } {
            0 => Ok(()),
            e => Err(e),
        }
    }
    pub fn send(&self, wr: &mut IbvSendWr) -> Made<()> {
        let f: unsafe extern "C" fn(*mut IbvQp, *mut IbvSendWr, *mut *mut IbvSendWr) -> c_int =
            self.dev.op(POST_SEND).ok_or(libc::EOPNOTSUPP)?;
        let mut bad = null_mut();
        // SAFETY: live; the request is read before the call returns.
        match unsafe { f(self.p, wr, &mut bad) } {
            0 => Ok(()),
            e => Err(e),
        }
    }
    /// All of them in one call.
    pub fn send_all(&self, all: &mut [IbvSendWr]) -> Made<()> {
        for k in 1..all.len() {
            let (a, b) = all.split_at_mut(k);
            a[k - 1].next = &mut b[0];
        }
        match all.first_mut() {
            Some(first) => self.send(first),
            None => Ok(()),
        }
    }
    pub fn recv(&self, sge: IbvSge) -> Made<()> {
        let f: unsafe extern "C" fn(*mut IbvQp, *mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int =
            self.dev.op(POST_RECV).ok_or(libc::EOPNOTSUPP)?;
        received(sge, |w, bad| unsafe { f(self.p, w, bad) })
    }
}

fn received(
    mut sge: IbvSge,
    post: impl FnOnce(*mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int,
) -> Made<()> {
    let mut w = IbvRecvWr {
        wr_id: 0,
        next: null_mut(),
        sg_list: &mut sge,
        num_sge: 1,
    };
    match post(&mut w, &mut null_mut()) {
        0 => Ok(()),
        e => Err(e),
    }
}

/// Zeroed attributes of a QP.
pub fn attr() -> IbvQpAttr {
    IbvQpAttr::default()
}

/// Memory that a card writes to behind the program's back: whole pages, zero at first.
pub struct Memory(*mut u8, usize);

impl Memory {
    pub fn new(len: usize) -> Result<Memory> {
        // SAFETY: a new anonymous mapping.
        let p = unsafe {
            libc::mmap(
                null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match p == libc::MAP_FAILED {
            true => bail!("no {len} bytes of memory"),
            false => Ok(Memory(p.cast(), len)),
        }
    }
    pub fn len(&self) -> usize {
        self.1
    }
    /// Address of a byte of it.
    pub fn at(&self, offset: usize) -> u64 {
        assert!(offset < self.1);
        self.0 as u64 + offset as u64
    }
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.1);
        for (k, b) in bytes.iter().enumerate() {
            // SAFETY: within the mapping.
            unsafe { self.0.add(offset + k).write_volatile(*b) };
        }
    }
    pub fn get(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.1);
        // SAFETY: within the mapping.
        (0..len)
            .map(|k| unsafe { self.0.add(offset + k).read_volatile() })
            .collect()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by us, unmapped once.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}
