//! No RDMA netlink for libibverbs. With it, libibverbs takes an empty answer for "no devices" and never looks at sysfs,
//! and asking autoloads ib_core. libnl (libibverbs) asks with `SOCK_CLOEXEC`; the `rdma` tool (libmnl) asks without it
//! and keeps working.
use crate::config::{on, trace};
use crate::next::next;
use core::ffi::c_int;

const NETLINK_RDMA: c_int = 20;

#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if refused(domain, kind, protocol) && on() {
        trace(
            c"socket".as_ptr(),
            c"NETLINK_RDMA".as_ptr(),
            c"EPROTONOSUPPORT".as_ptr(),
        );
        *libc::__errno_location() = libc::EPROTONOSUPPORT;
        return -1;
    }
    next!(
        c"socket",
        unsafe extern "C" fn(c_int, c_int, c_int) -> c_int
    )(domain, kind, protocol)
}

fn refused(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    domain == libc::AF_NETLINK && protocol == NETLINK_RDMA && kind & libc::SOCK_CLOEXEC != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libibverbs_is_refused() {
        assert!(refused(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            NETLINK_RDMA
        ));
        assert!(!refused(libc::AF_NETLINK, libc::SOCK_RAW, NETLINK_RDMA));
        assert!(!refused(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_ROUTE
        ));
        assert!(!refused(
            libc::AF_INET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            NETLINK_RDMA
        ));
    }
}
