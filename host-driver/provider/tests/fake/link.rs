//! One client's connection: its arena, its doorbells, and DMA to its memory.
use metaroce_hdl_spec::hostmsg::{arena as at, Head, Kind, HEAD_BYTES, MAX_DATA, MAX_MSG};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

pub struct Link {
    pub socket: OwnedFd,
    pub base: u64,
    map: *mut u8,
    tail: u64,
    inbox: VecDeque<Vec<u8>>,
    next_tag: u32,
    pub gone: bool,
}

impl Drop for Link {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.map as *mut _, at::SIZE as usize) };
    }
}

pub fn listen(path: &std::path::Path) -> OwnedFd {
    use std::os::unix::ffi::OsStrExt;
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        let mut a: libc::sockaddr_un = core::mem::zeroed();
        a.sun_family = libc::AF_UNIX as u16;
        let bytes = path.as_os_str().as_bytes();
        assert!(bytes.len() < a.sun_path.len(), "short paths in tests");
        for (t, f) in a.sun_path.iter_mut().zip(bytes) {
            *t = *f as libc::c_char;
        }
        let n = core::mem::size_of_val(&a) as u32;
        assert_eq!(
            libc::bind(fd, &a as *const _ as *const _, n),
            0,
            "{}",
            std::io::Error::last_os_error()
        );
        assert_eq!(libc::listen(fd, 16), 0);
        OwnedFd::from_raw_fd(fd)
    }
}

impl Link {
    /// Takes the greeting of a new connection and answers it. Returns the link and the card index.
    pub fn accept(listener: RawFd, pasid: u32) -> Option<(Link, u32)> {
        Link::accept_with(listener, |_| pasid).map(|(l, card, _)| (l, card))
    }

    /// The same; the PASID is chosen by card index, and returned, too.
    pub fn accept_with(
        listener: RawFd,
        pasid: impl FnOnce(u32) -> u32,
    ) -> Option<(Link, u32, u32)> {
        unsafe {
            let fd = libc::accept4(
                listener,
                core::ptr::null_mut(),
                core::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            );
            if fd < 0 {
                return None;
            }
            let socket = OwnedFd::from_raw_fd(fd);
            let mut packet = [0u8; MAX_MSG];
            let mut control = [0u64; 8];
            let mut iov = libc::iovec {
                iov_base: packet.as_mut_ptr() as *mut _,
                iov_len: MAX_MSG,
            };
            let mut m: libc::msghdr = core::mem::zeroed();
            m.msg_iov = &mut iov;
            m.msg_iovlen = 1;
            m.msg_control = control.as_mut_ptr() as *mut _;
            m.msg_controllen = 64;
            let n = libc::recvmsg(fd, &mut m, libc::MSG_CMSG_CLOEXEC);
            if n <= 0 {
                return None;
            }
            let hello = Head::parse(&packet[..n as usize]).expect("a greeting");
            assert_eq!(hello.kind, Kind::Hello);
            let c = libc::CMSG_FIRSTHDR(&m);
            assert!(!c.is_null(), "the arena comes with the greeting");
            let memfd =
                OwnedFd::from_raw_fd(core::ptr::read_unaligned(libc::CMSG_DATA(c) as *const RawFd));
            let map = libc::mmap(
                core::ptr::null_mut(),
                at::SIZE as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                memfd.as_raw_fd(),
                0,
            );
            assert_ne!(map, libc::MAP_FAILED);
            let l = Link {
                socket,
                base: hello.addr,
                map: map as *mut u8,
                tail: 0,
                inbox: VecDeque::new(),
                next_tag: 1,
                gone: false,
            };
            assert_eq!(l.word(at::HEADER).load(Ordering::Acquire), at::MAGIC);
            assert_eq!(l.word(at::HEADER + 16).load(Ordering::Relaxed), l.base);
            let mut l = l;
            let pasid = pasid(hello.arg as u32);
            l.send(
                &Head {
                    pasid,
                    ..Head::new(Kind::HelloAck)
                },
                &[],
            );
            Some((l, hello.arg as u32, pasid))
        }
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        unsafe { &*(self.map.add(offset as usize) as *const AtomicU64) }
    }
    pub fn sleeping(&self, v: u32) {
        unsafe { &*(self.map.add(at::SLEEPING as usize) as *const AtomicU32) }
            .store(v, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Card time.
    pub fn set_time(&self, ns: u64) {
        self.word(at::CARD_TIME).store(ns, Ordering::Relaxed);
    }

    /// The next doorbell: BAR offset and what was written.
    pub fn doorbell(&mut self) -> Option<(u64, Vec<u8>)> {
        let e = at::DB_RING + (self.tail % at::DB_ENTRIES) * at::DB_ENTRY_BYTES;
        if self.word(e).load(Ordering::Acquire) != self.tail + 1 {
            return None;
        }
        let (at, words) = match self.word(e + 16).load(Ordering::Relaxed) {
            8 => (24, 1),
            64 => (at::DB_DATA, 8),
            n => panic!("a write of {n} bytes"),
        };
        let data = (0..words).map(|i| self.word(e + at + 8 * i).load(Ordering::Relaxed));
        let v = (
            self.word(e + 8).load(Ordering::Relaxed),
            data.flat_map(u64::to_le_bytes).collect(),
        );
        self.word(e)
            .store(self.tail + at::DB_ENTRIES, Ordering::Release);
        self.tail += 1;
        Some(v)
    }
    pub fn has_doorbell(&self) -> bool {
        let e = at::DB_RING + (self.tail % at::DB_ENTRIES) * at::DB_ENTRY_BYTES;
        self.word(e).load(Ordering::Acquire) == self.tail + 1
    }

    pub fn send(&mut self, head: &Head, data: &[u8]) {
        let mut p = [0u8; HEAD_BYTES];
        head.emit(&mut p);
        let mut p = p.to_vec();
        p.extend_from_slice(data);
        let n = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                p.as_ptr() as *const _,
                p.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        self.gone |= n < 0;
    }

    fn receive(&mut self, flags: i32) -> Option<Vec<u8>> {
        let mut p = vec![0u8; MAX_MSG];
        let n = unsafe {
            libc::recv(
                self.socket.as_raw_fd(),
                p.as_mut_ptr() as *mut _,
                MAX_MSG,
                flags,
            )
        };
        if n <= 0 {
            let again =
                n < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock;
            self.gone |= !again;
            return None;
        }
        p.truncate(n as usize);
        Some(p)
    }

    /// The next message that is not an answer to our own DMA.
    pub fn message(&mut self) -> Option<(Head, Vec<u8>)> {
        let p = self
            .inbox
            .pop_front()
            .or_else(|| self.receive(libc::MSG_DONTWAIT))?;
        Some((
            Head::parse(&p).expect("a message"),
            p[HEAD_BYTES..].to_vec(),
        ))
    }

    fn answer(&mut self, tag: u32) -> Option<(Head, Vec<u8>)> {
        loop {
            let p = self.receive(0)?;
            let h = Head::parse(&p).expect("a message");
            if matches!(h.kind, Kind::ReadDone | Kind::WriteDone) {
                assert_eq!(h.tag, tag, "one DMA at a time");
                return Some((h, p[HEAD_BYTES..].to_vec()));
            }
            self.inbox.push_back(p);
        }
    }

    fn arena(&self, bus: u64, len: usize) -> Option<*mut u8> {
        let o = bus.checked_sub(self.base)?;
        (o + len as u64 <= at::SIZE).then(|| unsafe { self.map.add(o as usize) })
    }

    /// Reads at a bus address; None = fault.
    pub fn read(&mut self, bus: u64, len: usize) -> Option<Vec<u8>> {
        if let Some(p) = self.arena(bus, len) {
            return Some(unsafe { core::slice::from_raw_parts(p, len) }.to_vec());
        }
        let mut out = Vec::new();
        while out.len() < len {
            let n = (len - out.len()).min(MAX_DATA);
            let tag = self.next_tag;
            self.next_tag += 1;
            let head = Head {
                tag,
                len: n as u32,
                addr: bus + out.len() as u64,
                ..Head::new(Kind::Read)
            };
            self.send(&head, &[]);
            let (h, data) = self.answer(tag)?;
            if h.status != 0 {
                return None;
            }
            out.extend(data);
        }
        Some(out)
    }

    /// Writes at a bus address. In the arena the last word goes last.
    pub fn write(&mut self, bus: u64, data: &[u8]) -> bool {
        if let Some(p) = self.arena(bus, data.len()) {
            let n = data.len();
            unsafe {
                if n >= 8 && n % 8 == 0 {
                    core::ptr::copy_nonoverlapping(data.as_ptr(), p, n - 8);
                    let last = u64::from_le_bytes(data[n - 8..].try_into().unwrap());
                    (*(p.add(n - 8) as *const AtomicU64)).store(last, Ordering::Release);
                } else {
                    core::ptr::copy_nonoverlapping(data.as_ptr(), p, n);
                }
            }
            return true;
        }
        for (i, part) in data.chunks(MAX_DATA).enumerate() {
            let tag = self.next_tag;
            self.next_tag += 1;
            let addr = bus + (i * MAX_DATA) as u64;
            self.send(
                &Head {
                    tag,
                    len: part.len() as u32,
                    addr,
                    ..Head::new(Kind::Write)
                },
                part,
            );
            match self.answer(tag) {
                Some((h, _)) if h.status == 0 => {}
                _ => return false,
            }
        }
        true
    }
}
