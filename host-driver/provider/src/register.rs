//! Registration with libibverbs, when it loads us.
//!
//! Nothing of libibverbs is linked: one library serves every release, and what is there is looked up and proved at run
//! time. A release that this build does not know is refused with a message; guessing would corrupt memory.
use crate::abi::{IbvDevice, VerbsDeviceOps, VerbsMatchEnt};
use crate::layout::{self, Table};
use crate::say;
use crate::verbs::device;
use core::ffi::{c_char, c_int, c_void, CStr};
use std::sync::OnceLock;

/// What we call in libibverbs.
pub struct Library {
    pub table: &'static Table,
    /// rdma-core's release, if the file's name tells.
    pub release: Option<u32>,
    pub set_ops: unsafe extern "C" fn(*mut c_void, *const usize),
    pub init_and_alloc_context:
        unsafe extern "C" fn(*mut IbvDevice, c_int, usize, *mut c_void, u32) -> *mut c_void,
    pub uninit_context: unsafe extern "C" fn(*mut c_void),
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// Only called by functions that libibverbs reaches after registration.
pub fn library() -> &'static Library {
    LIBRARY.get().expect("registered before any call")
}

static MATCH: [VerbsMatchEnt; 2] = [
    VerbsMatchEnt {
        driver_data: core::ptr::null(),
        modalias: c"rdma_device:*Nmetaroce*".as_ptr(),
        vendor: 0,
        device: 0,
        kind: 2,
    },
    VerbsMatchEnt {
        driver_data: core::ptr::null(),
        modalias: core::ptr::null(),
        vendor: 0,
        device: 0,
        kind: 0,
    },
];

static DRIVER: VerbsDeviceOps = VerbsDeviceOps {
    name: c"metaroce".as_ptr(),
    match_min_abi_version: 1,
    match_max_abi_version: 1,
    match_table: MATCH.as_ptr(),
    static_providers: core::ptr::null(),
    match_device: None,
    alloc_context: Some(device::alloc_context),
    import_context: None,
    alloc_device: Some(device::alloc_device),
    uninit_device: Some(device::uninit_device),
};

#[used]
#[link_section = ".init_array"]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    // This code is also linked into tools and tests as an ordinary library; only libibverbs' copy registers.
    if !file_of(constructor as *const c_void).is_some_and(|f| f.contains("-rdmav")) {
        return;
    }
    if let Err(why) = register() {
        say(&why);
    }
}

/// The file that an address was loaded from.
fn file_of(address: *const c_void) -> Option<String> {
    // SAFETY: dladdr fills the structure.
    unsafe {
        let mut info = core::mem::zeroed::<libc::Dl_info>();
        if libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        let name = CStr::from_ptr(info.dli_fname)
            .to_string_lossy()
            .into_owned();
        Some(std::fs::canonicalize(&name).map_or(name, |p| p.to_string_lossy().into_owned()))
    }
}

/// The release in a file name like `libibverbs.so.1.14.44.0`.
fn release(file: &str) -> Option<u32> {
    let (_, version) = file.rsplit_once(".so.")?;
    version.split('.').nth(2)?.parse().ok()
}

fn register() -> Result<(), String> {
    // SAFETY: the library is loaded already (it is loading us); symbols are used with their own types.
    unsafe {
        let lib = libc::dlopen(
            c"libibverbs.so.1".as_ptr(),
            libc::RTLD_LAZY | libc::RTLD_NOLOAD,
        );
        if lib.is_null() {
            return Err("loaded by a program without libibverbs.so.1; a statically linked libibverbs cannot be used".into());
        }
        let symbol = |name: &CStr| {
            let p = libc::dlsym(lib, name.as_ptr() as *const c_char);
            (!p.is_null()).then_some(p)
        };
        let set_ops = symbol(c"verbs_set_ops");
        let file = set_ops
            .and_then(|p| file_of(p))
            .unwrap_or_else(|| "libibverbs.so.1".into());
        let refuse = |why: String| {
            let which = release(&file).map_or(String::new(), |r| format!(" (rdma-core {r})"));
            format!(
                "not usable with {file}{which}: {why}. This build knows rdma-core {}. \
                 Use one of these, or a MetaRoCE release that knows yours",
                layout::known()
            )
        };
        let registrar = layout::SUFFIXES.iter().find_map(|&suffix| {
            let name = std::ffi::CString::new(format!("verbs_register_driver_{suffix}")).unwrap();
            symbol(&name).map(|p| (suffix, p))
        });
        let (Some(set_ops), Some((suffix, registrar)), Some(init), Some(uninit)) = (
            set_ops,
            registrar,
            symbol(c"_verbs_init_and_alloc_context"),
            symbol(c"verbs_uninit_context"),
        ) else {
            return Err(refuse(
                "its provider interface is unknown to this build".into(),
            ));
        };
        let set_ops = core::mem::transmute::<
            *mut c_void,
            unsafe extern "C" fn(*mut c_void, *const usize),
        >(set_ops);
        let table = layout::choose(suffix, &layout::probe(set_ops)).map_err(&refuse)?;
        let _ = LIBRARY.set(Library {
            table,
            release: release(&file),
            set_ops,
            init_and_alloc_context: core::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*mut IbvDevice, c_int, usize, *mut c_void, u32) -> *mut c_void,
            >(init),
            uninit_context: core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(
                uninit,
            ),
        });
        let register = core::mem::transmute::<
            *mut c_void,
            unsafe extern "C" fn(*const VerbsDeviceOps),
        >(registrar);
        register(&DRIVER);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_from_file_names() {
        assert_eq!(
            release("/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0"),
            Some(44)
        );
        assert_eq!(release("/x/libibverbs.so.1.15.62.0"), Some(62));
        assert_eq!(release("/x/libibverbs.so.1"), None);
        assert_eq!(release("/x/libibverbs.a"), None);
    }

    #[test]
    fn tests_are_not_a_provider() {
        assert!(!file_of(constructor as *const c_void)
            .unwrap()
            .contains("-rdmav"));
    }
}
