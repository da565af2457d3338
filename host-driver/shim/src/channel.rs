//! Completion channels. libibverbs creates one by writing command 17 to the uverbs descriptor; the write is inside the
//! library, so an interposed `ibv_create_comp_channel` would miss it, and its relocations are read-only. `write` is
//! what can be interposed.
//!
//! The channel is a FIFO opened read/write: one descriptor that the program reads and polls, and that the provider
//! (which finds it in `ibv_comp_channel.fd`) writes 8-byte CQ pointers to.
use crate::config::{keep_errno, trace};
use crate::next::next;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

/// `struct ib_uverbs_cmd_hdr.command` for "create completion channel".
const CREATE_COMP_CHANNEL: u32 = 17;
/// Header (8 bytes) and the pointer to the response that follows it.
const COMMAND_LEN: usize = 16;
/// Device number of `/dev/full`, which our uverbs nodes link to: any command we do not know fails with ENOSPC there,
/// where `/dev/null` would "succeed" and leave garbage in the response.
const DEV_FULL: u64 = 0x107;

/// A bit per descriptor that was opened through the map. Closing and reusing a number needs no hook: the bit is only a
/// hint, confirmed by `fstat` when something is written.
const FDS: usize = 65536;
static OURS: [AtomicU64; FDS / 64] = [const { AtomicU64::new(0) }; FDS / 64];

fn slot(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    (fd >= 0 && (fd as usize) < FDS).then(|| (&OURS[fd as usize / 64], 1u64 << (fd % 64)))
}

unsafe fn is_dev_full(fd: c_int) -> bool {
    keep_errno(|| {
        let mut st = core::mem::MaybeUninit::<libc::stat>::zeroed();
        libc::syscall(libc::SYS_fstat, fd, st.as_mut_ptr()) == 0
            && st.assume_init().st_rdev == DEV_FULL
    })
}

/// Called with every descriptor that the open family returns.
pub unsafe fn note_open(mapped: bool, fd: c_int) -> c_int {
    if mapped {
        if let Some((word, bit)) = slot(fd) {
            if is_dev_full(fd) {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }
    fd
}

unsafe fn create(response: *mut c_int) -> c_int {
    let mut ends = [0 as c_int; 2];
    if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
        return -1;
    }
    let mut name = [0 as c_char; 40];
    libc::snprintf(
        name.as_mut_ptr(),
        name.len(),
        c"/proc/self/fd/%d".as_ptr(),
        ends[0],
    );
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    let fd = libc::syscall(
        libc::SYS_openat,
        libc::AT_FDCWD,
        name.as_ptr(),
        flags,
        0 as c_int,
    ) as c_int;
    keep_errno(|| {
        libc::close(ends[0]);
        libc::close(ends[1]);
    });
    if fd >= 0 {
        *response = fd;
    }
    fd
}

#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, data: *const c_void, size: usize) -> isize {
    if let Some((word, bit)) = slot(fd) {
        if word.load(Ordering::Relaxed) & bit != 0 {
            if !is_dev_full(fd) {
                word.fetch_and(!bit, Ordering::Relaxed);
            } else if size >= COMMAND_LEN
                && (data as *const u32).read_unaligned() == CREATE_COMP_CHANNEL
            {
                let response = (data as *const u8).add(8) as *const u64;
                let fd = create(response.read_unaligned() as *mut c_int);
                trace(
                    c"write".as_ptr(),
                    c"create completion channel".as_ptr(),
                    c"fifo".as_ptr(),
                );
                return if fd < 0 { -1 } else { size as isize };
            }
        }
    }
    if crate::cm::ours(fd) {
        return crate::cm::command(fd, data, size);
    }
    next!(
        c"write",
        unsafe extern "C" fn(c_int, *const c_void, usize) -> isize
    )(fd, data, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_one_descriptor_for_both_ends() {
        unsafe {
            let full = libc::open(c"/dev/full".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            assert!(full >= 0);
            note_open(true, full);
            let mut response: c_int = -1;
            let mut command = [0u64; 2];
            command[0] = CREATE_COMP_CHANNEL as u64;
            command[1] = &mut response as *mut c_int as u64;
            assert_eq!(write(full, command.as_ptr() as *const c_void, 16), 16);
            assert!(response >= 0);
            let event = 0x1122_3344_5566_7788u64;
            assert_eq!(
                libc::write(response, &event as *const u64 as *const c_void, 8),
                8
            );
            let mut got = 0u64;
            assert_eq!(
                libc::read(response, &mut got as *mut u64 as *mut c_void, 8),
                8
            );
            assert_eq!(got, event);
            // Another command reaches the device, which refuses it.
            command[0] = 3;
            assert_eq!(write(full, command.as_ptr() as *const c_void, 16), -1);
            assert_eq!(*libc::__errno_location(), libc::ENOSPC);
            // The number is reused for something else: the write goes there.
            libc::close(full);
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            assert_eq!(libc::dup2(null, full), full);
            command[0] = CREATE_COMP_CHANNEL as u64;
            response = -1;
            assert_eq!(write(full, command.as_ptr() as *const c_void, 16), 16);
            assert_eq!(response, -1);
        }
    }
}
