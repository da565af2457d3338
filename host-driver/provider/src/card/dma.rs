//! The card's access to this process's memory, done by this process itself: no rights over another process are needed,
//! and an address that is not there is an error to report, not a signal.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Stretches that the kernel takes at a time.
const IOV_MAX: usize = 1024;

pub struct Memory {
    pid: libc::pid_t,
    /// Fallback where a sandbox refuses `process_vm_readv`, even on oneself.
    file: Option<File>,
}

impl Memory {
    /// Finds a way that works here, by trying.
    pub fn new() -> io::Result<Memory> {
        // SAFETY: getpid cannot fail.
        let mut memory = Memory {
            pid: unsafe { libc::getpid() },
            file: None,
        };
        let probe = 0x5au8;
        let mut got = [0u8];
        if !memory.read(&probe as *const u8 as u64, &mut got) {
            memory.file = Some(
                File::options()
                    .read(true)
                    .write(true)
                    .open("/proc/self/mem")?,
            );
            if !memory.read(&probe as *const u8 as u64, &mut got) {
                return Err(io::Error::other(
                    "neither process_vm_readv nor /proc/self/mem works here",
                ));
            }
        }
        Ok(memory)
    }

    /// Copies memory at `addr` to `out`. False = not readable (EFAULT).
    pub fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        if let Some(f) = &self.file {
            return f.read_exact_at(out, addr).is_ok();
        }
        let local = libc::iovec {
            iov_base: out.as_mut_ptr() as *mut libc::c_void,
            iov_len: out.len(),
        };
        let remote = libc::iovec {
            iov_base: addr as usize as *mut libc::c_void,
            iov_len: out.len(),
        };
        // SAFETY: `local` is ours; the kernel checks `remote`.
        unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote, 1, 0) == out.len() as isize }
    }

    /// Copies the stretches of `list`, one behind the other, to `out`, which is as long as they are together. False = EFAULT.
    pub fn gather(&self, list: &[libc::iovec], out: &mut [u8]) -> bool {
        if self.file.is_some() || list.len() > IOV_MAX {
            let mut at = 0;
            return list.iter().all(|v| {
                let to = &mut out[at..at + v.iov_len];
                at += v.iov_len;
                self.read(v.iov_base as u64, to)
            });
        }
        let local = libc::iovec {
            iov_base: out.as_mut_ptr() as *mut libc::c_void,
            iov_len: out.len(),
        };
        let n = list.len() as libc::c_ulong;
        // SAFETY: `local` is ours; the kernel checks the list.
        let got = unsafe { libc::process_vm_readv(self.pid, &local, 1, list.as_ptr(), n, 0) };
        got == out.len() as isize
    }

    /// Copies `data` to the stretches of `list`, which are as long together. False = EFAULT; some may have been written.
    pub fn scatter(&self, list: &[libc::iovec], data: &[u8]) -> bool {
        if self.file.is_some() || list.len() > IOV_MAX {
            let mut at = 0;
            return list.iter().all(|v| {
                let from = &data[at..at + v.iov_len];
                at += v.iov_len;
                self.write(v.iov_base as u64, from)
            });
        }
        let local = libc::iovec {
            iov_base: data.as_ptr() as *mut libc::c_void,
            iov_len: data.len(),
        };
        let n = list.len() as libc::c_ulong;
        // SAFETY: as above; `local` is only read.
        let put = unsafe { libc::process_vm_writev(self.pid, &local, 1, list.as_ptr(), n, 0) };
        put == data.len() as isize
    }

    /// Copies `data` to memory at `addr`. False = not writable (EFAULT).
    pub fn write(&self, addr: u64, data: &[u8]) -> bool {
        if let Some(f) = &self.file {
            return f.write_all_at(data, addr).is_ok();
        }
        let local = libc::iovec {
            iov_base: data.as_ptr() as *mut libc::c_void,
            iov_len: data.len(),
        };
        let remote = libc::iovec {
            iov_base: addr as usize as *mut libc::c_void,
            iov_len: data.len(),
        };
        // SAFETY: as above; `local` is only read.
        unsafe {
            libc::process_vm_writev(self.pid, &local, 1, &remote, 1, 0) == data.len() as isize
        }
    }
}

/// Whether `[addr, addr + len)` is mapped, and writable if `write`: what pinning would have checked. The mappings are
/// read from the kernel, so no page is touched.
pub fn mapped(addr: u64, len: u64, write: bool) -> bool {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return true;
    };
    covers(&maps, addr, len, write)
}

fn covers(maps: &str, addr: u64, len: u64, write: bool) -> bool {
    let Some(end) = addr.checked_add(len) else {
        return false;
    };
    let mut at = addr;
    for line in maps.lines() {
        let mut parts = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (parts.next(), parts.next()) else {
            continue;
        };
        let Some((from, to)) = range.split_once('-') else {
            continue;
        };
        let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16))
        else {
            continue;
        };
        if to <= at {
            continue;
        }
        let rights = rights.as_bytes();
        if from > at || rights[0] != b'r' || (write && rights[1] != b'w') {
            return false;
        }
        at = to;
        if at >= end {
            return true;
        }
    }
    at >= end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_addresses_are_errors() {
        let m = Memory::new().unwrap();
        let mut b = vec![1u8; 100];
        let mut out = [0u8; 100];
        assert!(m.read(b.as_ptr() as u64, &mut out));
        assert_eq!(&out[..], &b[..]);
        assert!(m.write(b.as_mut_ptr() as u64 + 10, &[7; 5]));
        assert_eq!(&b[9..16], &[1, 7, 7, 7, 7, 7, 1]);
        assert!(!m.read(16, &mut out));
        assert!(!m.write(16, &out));
        static CONSTANT: [u8; 4] = [1, 2, 3, 4];
        assert!(!m.write(CONSTANT.as_ptr() as u64, &[0]), "read-only memory");
    }

    #[test]
    fn the_proc_fallback_does_the_same() {
        let file = File::options()
            .read(true)
            .write(true)
            .open("/proc/self/mem")
            .unwrap();
        let m = Memory {
            pid: 0,
            file: Some(file),
        };
        let b = [3u8; 8];
        let mut out = [0u8; 8];
        assert!(m.read(b.as_ptr() as u64, &mut out));
        assert_eq!(out, b);
        assert!(!m.read(16, &mut out));
    }

    #[test]
    fn coverage_of_mappings() {
        let maps = "1000-3000 rw-p 0 0:0 0\n3000-4000 r--p 0 0:0 0 /x\n6000-7000 rw-p 0 0:0 0\n";
        assert!(covers(maps, 0x1000, 0x2000, true));
        assert!(covers(maps, 0x1800, 0x2800, false));
        assert!(!covers(maps, 0x1800, 0x2800, true));
        assert!(!covers(maps, 0x3800, 0x1000, false), "a hole");
        assert!(!covers(maps, 0x6800, 0x1000, false), "past the end");
        assert!(!covers(maps, u64::MAX - 5, 10, false));
        let mine = [0u8; 64];
        assert!(mapped(mine.as_ptr() as u64, 64, true));
        assert!(!mapped(0, 4096, false));
    }
}
