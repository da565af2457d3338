//! `/dev/infiniband/rdma_cm`. A descriptor of it is a connection to the connection manager that runs beside the simulated
//! cards (`cm.sock` below the root): readable when an event waits, as the kernel's device. A command that the program writes
//! goes there as it is, with a socket for the answer; the answer is received straight into the program's memory, so that a
//! wrong pointer is EFAULT and no crash.
use crate::config::{self, keep_errno, trace};
use core::ffi::{c_char, c_int, c_void};
use core::mem::{size_of, zeroed};
use core::sync::atomic::{AtomicU64, Ordering};

/// The device below the root, as the path map has it.
const DEVICE: &[u8] = b"/dev/infiniband/rdma_cm";
const SOCKET: &[u8] = b"/cm.sock";

/// `struct ucma_abi_cmd_hdr`: command, bytes of arguments, room for the answer.
const HEADER: usize = 8;
/// The longest arguments that any command has are a third of it.
const LONGEST: usize = 1024;
const CREATE_ID: u32 = 0;
const GET_EVENT: u32 = 12;
const SET_OPTION: u32 = 14;
const MIGRATE_ID: u32 = 18;
/// Commands whose arguments begin with the address of the answer: DESTROY_ID, QUERY_ROUTE, INIT_QP_ATTR, GET_EVENT,
/// MIGRATE_ID, QUERY.
const ANSWERED: [u32; 6] = [1, 5, 11, GET_EVENT, MIGRATE_ID, 19];

const COMMAND: u32 = 0;
const WHICH: u32 = 1;

/// What comes before the bytes of an answer.
#[repr(C)]
#[derive(Default)]
struct Answer {
    errno: c_int,
    bytes: u32,
    void: u32,
    void_other: u32,
}

/// A bit per descriptor, as in `channel`: a hint that the name of the other end confirms.
const FDS: usize = 65536;
static OURS: [AtomicU64; FDS / 64] = [const { AtomicU64::new(0) }; FDS / 64];

fn slot(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    (fd >= 0 && (fd as usize) < FDS).then(|| (&OURS[fd as usize / 64], 1u64 << (fd % 64)))
}

/// Whether a path from the map is the device.
pub unsafe fn is_device(path: *const c_char) -> bool {
    let root = config::root();
    let path = core::ffi::CStr::from_ptr(path).to_bytes();
    path.strip_prefix(root) == Some(DEVICE)
}

/// The socket's address; its size.
unsafe fn address(a: &mut libc::sockaddr_un) -> Option<libc::socklen_t> {
    let root = config::root();
    let n = root.len() + SOCKET.len();
    if n >= a.sun_path.len() {
        return None;
    }
    a.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let to = a.sun_path.as_mut_ptr() as *mut u8;
    core::ptr::copy_nonoverlapping(root.as_ptr(), to, root.len());
    core::ptr::copy_nonoverlapping(SOCKET.as_ptr(), to.add(root.len()), SOCKET.len());
    Some((2 + n + 1) as libc::socklen_t)
}

unsafe fn fail(errno: c_int) -> c_int {
    *libc::__errno_location() = errno;
    -1
}

/// Opens the device: a new channel.
pub unsafe fn open(flags: c_int) -> c_int {
    let mut a: libc::sockaddr_un = zeroed();
    let Some(len) = address(&mut a) else {
        return fail(libc::ENODEV);
    };
    let kind = libc::SOCK_SEQPACKET
        | if flags & libc::O_CLOEXEC != 0 {
            libc::SOCK_CLOEXEC
        } else {
            0
        };
    let fd = libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0 as c_int) as c_int;
    if fd < 0 {
        return -1;
    }
    if libc::connect(fd, &a as *const _ as *const libc::sockaddr, len) != 0 {
        libc::close(fd);
        trace(
            c"open".as_ptr(),
            c"rdma_cm".as_ptr(),
            c"no connection manager".as_ptr(),
        );
        return fail(libc::ENODEV);
    }
    // Who is refused is told here, where a program looks, and not with its first command.
    let mut number = 0u32;
    let taken = ask(
        fd,
        [WHICH, 0],
        &[NOTHING; 2],
        &mut number as *mut u32 as *mut c_void,
        4,
    );
    if taken.errno != 0 {
        libc::close(fd);
        trace(
            c"open".as_ptr(),
            c"rdma_cm".as_ptr(),
            c"refused: too many channels".as_ptr(),
        );
        return fail(libc::EMFILE);
    }
    if flags & libc::O_NONBLOCK != 0 {
        libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
    }
    if let Some((word, bit)) = slot(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
    trace(
        c"open".as_ptr(),
        c"rdma_cm".as_ptr(),
        c"connection manager".as_ptr(),
    );
    fd
}

/// Whether a descriptor is a channel.
pub unsafe fn ours(fd: c_int) -> bool {
    let Some((word, bit)) = slot(fd) else {
        return false;
    };
    if word.load(Ordering::Relaxed) & bit == 0 {
        return false;
    }
    keep_errno(|| {
        let (mut a, mut b): (libc::sockaddr_un, libc::sockaddr_un) = (zeroed(), zeroed());
        let mut n = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        let yes = address(&mut a).is_some()
            && libc::getpeername(fd, &mut b as *mut _ as *mut libc::sockaddr, &mut n) == 0
            && a.sun_family == b.sun_family
            && a.sun_path == b.sun_path;
        if !yes {
            // The number is another file's by now.
            word.fetch_and(!bit, Ordering::Relaxed);
        }
        yes
    })
}

/// Asks the connection manager; the answer goes to `out`. errno is in the answer.
unsafe fn ask(
    fd: c_int,
    head: [u32; 2],
    parts: &[libc::iovec; 2],
    out: *mut c_void,
    room: usize,
) -> Answer {
    let failed = |errno| Answer {
        errno,
        ..Answer::default()
    };
    let mut ends = [0 as c_int; 2];
    if libc::socketpair(
        libc::AF_UNIX,
        libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
        0,
        ends.as_mut_ptr(),
    ) != 0
    {
        return failed(*libc::__errno_location());
    }
    let answer = transact(fd, head, parts, ends, out, room);
    libc::close(ends[0]);
    answer.unwrap_or_else(failed)
}

unsafe fn transact(
    fd: c_int,
    head: [u32; 2],
    parts: &[libc::iovec; 2],
    ends: [c_int; 2],
    out: *mut c_void,
    room: usize,
) -> Result<Answer, c_int> {
    let mut iov = [
        libc::iovec {
            iov_base: head.as_ptr() as *mut c_void,
            iov_len: 8,
        },
        parts[0],
        parts[1],
    ];
    // Aligned room for one descriptor.
    let mut control = [0u64; 4];
    let mut m: libc::msghdr = zeroed();
    m.msg_iov = iov.as_mut_ptr();
    m.msg_iovlen = iov.len() as _;
    m.msg_control = control.as_mut_ptr() as *mut c_void;
    m.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
    let c = libc::CMSG_FIRSTHDR(&m);
    (*c).cmsg_level = libc::SOL_SOCKET;
    (*c).cmsg_type = libc::SCM_RIGHTS;
    (*c).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
    (libc::CMSG_DATA(c) as *mut c_int).write_unaligned(ends[1]);
    let sent = loop {
        if libc::sendmsg(fd, &m, libc::MSG_NOSIGNAL) >= 0 {
            break Ok(());
        }
        match *libc::__errno_location() {
            libc::EINTR => {}
            // The program's own wish not to wait is for events.
            libc::EAGAIN => {
                let mut p = libc::pollfd {
                    fd,
                    events: libc::POLLOUT,
                    revents: 0,
                };
                libc::poll(&mut p, 1, 1000);
            }
            libc::EFAULT => break Err(libc::EFAULT),
            // The cards have gone.
            _ => break Err(libc::EIO),
        }
    };
    // Ours; the connection manager has its own.
    libc::close(ends[1]);
    sent?;
    let mut answer = Answer::default();
    let mut iov = [
        libc::iovec {
            iov_base: &mut answer as *mut Answer as *mut c_void,
            iov_len: size_of::<Answer>(),
        },
        libc::iovec {
            iov_base: out,
            iov_len: room,
        },
    ];
    let mut m: libc::msghdr = zeroed();
    m.msg_iov = iov.as_mut_ptr();
    m.msg_iovlen = iov.len() as _;
    loop {
        let n = libc::recvmsg(ends[0], &mut m, 0);
        if n >= size_of::<Answer>() as isize {
            return Ok(answer);
        }
        match *libc::__errno_location() {
            libc::EINTR if n < 0 => {}
            libc::EFAULT if n < 0 => return Err(libc::EFAULT),
            _ => return Err(libc::EIO),
        }
    }
}

/// Takes packets that stand for events which the program has, or will never have.
unsafe fn drain(fd: c_int, n: u32) {
    for _ in 0..n {
        let mut b = 0u8;
        libc::recv(fd, &mut b as *mut u8 as *mut c_void, 1, libc::MSG_DONTWAIT);
    }
}

const NOTHING: libc::iovec = libc::iovec {
    iov_base: core::ptr::null_mut(),
    iov_len: 0,
};

/// Reads from the program's memory; false: there is none. Where the kernel forbids the call (seccomp), a wrong pointer is a
/// fault, as it is in the program itself.
unsafe fn peek(from: *const u8, to: &mut [u8]) -> bool {
    let l = libc::iovec {
        iov_base: to.as_mut_ptr() as *mut c_void,
        iov_len: to.len(),
    };
    let r = libc::iovec {
        iov_base: from as *mut c_void,
        iov_len: to.len(),
    };
    let n = libc::process_vm_readv(libc::getpid(), &l, 1, &r, 1, 0);
    if n < 0 && *libc::__errno_location() != libc::EFAULT {
        core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
        return true;
    }
    n == to.len() as isize
}

/// A write to a channel: a command. Returns as `write` does.
pub unsafe fn command(fd: c_int, data: *const c_void, size: usize) -> isize {
    let data = data as *const u8;
    let mut head = [0u8; HEADER];
    if size < HEADER {
        return fail(libc::EINVAL) as isize;
    }
    if !peek(data, &mut head) {
        return fail(libc::EFAULT) as isize;
    }
    let op = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]);
    let given = u16::from_ne_bytes([head[4], head[5]]) as usize;
    let room = u16::from_ne_bytes([head[6], head[7]]) as usize;
    if HEADER + given > size || given > LONGEST {
        return fail(libc::EINVAL) as isize;
    }
    let mut first = [0u8; 24];
    if !peek(data.add(HEADER), &mut first[..given.min(24)]) {
        return fail(libc::EFAULT) as isize;
    }
    let u64_at = |at: usize| u64::from_ne_bytes(core::array::from_fn(|k| first[at + k]));
    let u32_at = |at: usize| u32::from_ne_bytes(core::array::from_fn(|k| first[at + k]));
    // Where the answer goes, if the command has one. CREATE_ID has the program's own pointer first.
    let (out, room) = match op {
        CREATE_ID => (u64_at(8), room),
        _ if ANSWERED.contains(&op) => (u64_at(0), room),
        _ => (0, 0),
    };
    let out = out as usize as *mut c_void;
    let mut parts = [
        libc::iovec {
            iov_base: data as *mut c_void,
            iov_len: HEADER + given,
        },
        NOTHING,
    ];
    let mut other = 0;
    let mut from = -1;
    match op {
        SET_OPTION => {
            let n = u32_at(20) as usize;
            if n > LONGEST {
                return fail(libc::EINVAL) as isize;
            }
            parts[1] = libc::iovec {
                iov_base: u64_at(0) as usize as *mut c_void,
                iov_len: n,
            };
        }
        MIGRATE_ID => {
            from = u32_at(12) as c_int;
            if !ours(from) {
                return fail(libc::EINVAL) as isize;
            }
            let a = ask(
                from,
                [WHICH, 0],
                &[NOTHING; 2],
                &mut other as *mut u32 as *mut c_void,
                4,
            );
            if a.errno != 0 {
                return fail(a.errno) as isize;
            }
        }
        _ => {}
    }
    loop {
        let a = ask(fd, [COMMAND, other], &parts, out, room);
        drain(fd, a.void);
        drain(from, a.void_other);
        match a.errno {
            0 => return size as isize,
            libc::EAGAIN if op == GET_EVENT => {
                // Waits as `write` would: not at all, or until a packet comes; a signal ends it as it ends a `recv`.
                let mut b = 0u8;
                let n = libc::recv(fd, &mut b as *mut u8 as *mut c_void, 1, libc::MSG_PEEK);
                if n == 0 {
                    return fail(libc::EIO) as isize;
                }
                if n < 0 {
                    return -1;
                }
            }
            e => return fail(e) as isize,
        }
    }
}

/// Makes a channel look like the character device that it stands for.
unsafe fn disguise(fd: c_int, out: *mut c_void) {
    if ours(fd) {
        let st = &mut *(out as *mut libc::stat);
        st.st_mode = libc::S_IFCHR | 0o666;
        st.st_rdev = libc::makedev(10, 58);
    }
}

macro_rules! fstat {
    ($($name:ident $old:ident;)*) => { $(
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, out: *mut c_void) -> c_int {
            let r = libc::syscall(libc::SYS_fstat, fd, out) as c_int;
            if r == 0 {
                disguise(fd, out);
            }
            r
        }
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $old(_version: c_int, fd: c_int, out: *mut c_void) -> c_int {
            let r = libc::syscall(libc::SYS_fstat, fd, out) as c_int;
            if r == 0 {
                disguise(fd, out);
            }
            r
        }
    )* };
}
fstat! {
    fstat __fxstat;
    fstat64 __fxstat64;
}
