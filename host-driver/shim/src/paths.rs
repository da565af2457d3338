//! The path map: four prefixes, both ways. A path that the tree does not have keeps its own meaning.
use crate::config::{self, keep_errno, trace};
use core::ffi::{c_char, c_int, CStr};
use core::mem::MaybeUninit;

pub const PATH_MAX: usize = libc::PATH_MAX as usize;

/// What programs name -> where it is below the root.
const PREFIXES: [(&[u8], &[u8]); 4] = [
    (b"/sys/class/infiniband", b"/class/infiniband"),
    (b"/sys/class/infiniband_verbs", b"/class/infiniband_verbs"),
    (b"/dev/infiniband", b"/dev/infiniband"),
    (b"/sys/class/misc/rdma_cm", b"/class/misc/rdma_cm"),
];

/// Room for one path, left uninitialised: hooks run on small stacks and on every file access.
pub struct Buf(MaybeUninit<[u8; PATH_MAX]>);

impl Buf {
    #[inline(always)]
    pub fn new() -> Self {
        Buf(MaybeUninit::uninit())
    }
    fn bytes(&mut self) -> *mut u8 {
        self.0.as_mut_ptr() as *mut u8
    }
}

/// If `path` is `from` or lies below it, the rest of it (empty or beginning with `/`).
fn below<'a>(path: &'a [u8], from: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(from)?;
    (rest.is_empty() || rest[0] == b'/').then_some(rest)
}

/// The same path below the root, without asking whether it exists: (directory below the root, rest).
pub fn mapped(path: &[u8]) -> Option<(&'static [u8], &[u8])> {
    PREFIXES
        .iter()
        .find_map(|&(from, to)| Some((to, below(path, from)?)))
}

/// The reverse, for an answer of `realpath`: (prefix that the program knows, rest).
pub fn unmapped<'a>(path: &'a [u8], root: &[u8]) -> Option<(&'static [u8], &'a [u8])> {
    if root.is_empty() {
        return None;
    }
    let inside = below(path, root)?;
    PREFIXES
        .iter()
        .find_map(|&(from, to)| Some((from, below(inside, to)?)))
}

/// The path to hand on: `p` itself, or the mapped one built in `out`. `p` is compared bytewise first, so that the
/// common case costs a few loads and no allocation.
pub unsafe fn map(what: &CStr, p: *const c_char, out: &mut Buf) -> *const c_char {
    if p.is_null()
        || !(prefixed(p, b"/sys/class/infiniband")
            || prefixed(p, b"/dev/infiniband")
            || prefixed(p, b"/sys/class/misc/rdma_cm"))
        || !config::on()
    {
        return p;
    }
    let Some((to, rest)) = mapped(CStr::from_ptr(p).to_bytes()) else {
        return p;
    };
    let root = config::root();
    if root.len() + to.len() + rest.len() + 1 > PATH_MAX {
        return p;
    }
    let o = out.bytes();
    let mut at = 0;
    for part in [root, to, rest, &b"\0"[..]] {
        core::ptr::copy_nonoverlapping(part.as_ptr(), o.add(at), part.len());
        at += part.len();
    }
    // The tree has no such name: a real device, or nothing. Either way the real path answers.
    let missing = keep_errno(|| {
        libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, o, libc::F_OK as c_int) != 0
    });
    if missing {
        trace(what.as_ptr(), p, c"(real)".as_ptr());
        return p;
    }
    trace(what.as_ptr(), p, o as *const c_char);
    o as *const c_char
}

/// Whether the C string `p` begins with `prefix`, reading no further than it must.
unsafe fn prefixed(p: *const c_char, prefix: &[u8]) -> bool {
    prefix
        .iter()
        .enumerate()
        .all(|(i, &b)| *p.add(i) as u8 == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_only_whole_components() {
        assert_eq!(
            mapped(b"/sys/class/infiniband"),
            Some((&b"/class/infiniband"[..], &b""[..]))
        );
        assert_eq!(
            mapped(b"/sys/class/infiniband_verbs/uverbs100/dev"),
            Some((&b"/class/infiniband_verbs"[..], &b"/uverbs100/dev"[..]))
        );
        assert_eq!(
            mapped(b"/dev/infiniband/uverbs100"),
            Some((&b"/dev/infiniband"[..], &b"/uverbs100"[..]))
        );
        for other in [
            &b"/sys/class/infiniband_mad/x"[..],
            b"/sys/class/misc/rdma_cma",
            b"/sys/class/net",
            b"/dev/infinibandx",
            b"dev/infiniband",
            b"",
        ] {
            assert_eq!(mapped(other), None, "{other:?}");
        }
    }

    #[test]
    fn realpath_answers_go_back_to_known_names() {
        let root = b"/tmp/tree";
        assert_eq!(
            unmapped(b"/tmp/tree/class/infiniband/metaroce0", root),
            Some((&b"/sys/class/infiniband"[..], &b"/metaroce0"[..]))
        );
        assert_eq!(
            unmapped(b"/tmp/tree/dev/infiniband", root),
            Some((&b"/dev/infiniband"[..], &b""[..]))
        );
        for other in [
            &b"/tmp/tree/lib/x.so"[..],
            b"/tmp/tree2/class/infiniband",
            b"/dev/full",
            b"/tmp/tree",
        ] {
            assert_eq!(unmapped(other, root), None, "{other:?}");
        }
        assert_eq!(unmapped(b"/class/infiniband", b""), None);
    }

    #[test]
    fn prefix_check_stops_at_the_terminator() {
        unsafe {
            assert!(!prefixed(c"/dev".as_ptr(), b"/dev/infiniband"));
            assert!(prefixed(c"/dev/infiniband/x".as_ptr(), b"/dev/infiniband"));
        }
    }
}
