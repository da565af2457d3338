//! The simulator's card: doorbells through the shared arena, everything else by messages on a unix socket.
use super::arena::Arena;
use super::dma::Memory;
use super::{without_signals, Card, Dma, Errno, Events};
use metaroce_hdl_spec::hostmsg::{Head, Kind, HEAD_BYTES, MAX_DATA, MAX_MSG};
use metaroce_hdl_spec::regs::PAGE;
use metaroce_hdl_spec::{HOST_ABI_MAJOR, HOST_ABI_MINOR};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the simulator may take to answer a question. It only has to look something up.
const ANSWER: Duration = Duration::from_secs(30);

pub struct SimCard {
    shared: Arc<Shared>,
    page: u64,
    agent: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    socket: OwnedFd,
    pasid: u32,
    arena: Arena,
    memory: Memory,
    stopping: AtomicBool,
    dead: AtomicBool,
    next_tag: AtomicU32,
    answers: Mutex<HashMap<u32, Head>>,
    answered: Condvar,
}

impl SimCard {
    /// Connects to the simulator at `path` as a client of card `index`. The error is a sentence for the user.
    pub fn connect(path: &Path, index: u32) -> Result<SimCard, String> {
        let arena =
            Arena::new().map_err(|e| format!("no shared memory for the simulator ({e})"))?;
        let memory =
            Memory::new().map_err(|e| format!("no access to this process's own memory ({e})"))?;
        let socket = connect(path).map_err(|e| {
            format!(
                "no simulator at {} ({e}); start one with 'metaroce up' or 'metaroce run'",
                path.display()
            )
        })?;
        let name = std::env::args().next().unwrap_or_default();
        let name = &name.as_bytes()[..name.len().min(256)];
        let hello = Head {
            tag: HOST_ABI_MAJOR << 16 | HOST_ABI_MINOR,
            arg: index as u64,
            addr: arena.bus(),
            len: name.len() as u32,
            ..Head::new(Kind::Hello)
        };
        send_with_fd(socket.as_raw_fd(), &message(&hello, name), arena.fd())
            .map_err(|e| format!("the simulator did not take our greeting ({e})"))?;
        let mut packet = [0u8; MAX_MSG];
        let n = receive(socket.as_raw_fd(), &mut packet)
            .map_err(|e| format!("the simulator did not answer our greeting ({e})"))?;
        let head = match Head::parse(&packet[..n]) {
            Ok(h) if h.kind == Kind::HelloAck => h,
            _ => {
                return Err(
                    "the simulator closed the connection, or it is of another version".into(),
                )
            }
        };
        if head.status != 0 {
            let text = String::from_utf8_lossy(&packet[HEAD_BYTES..n]).into_owned();
            return Err(format!("the simulator refused this program: {text}"));
        }
        arena.show_clock();
        let shared = Arc::new(Shared {
            socket,
            pasid: head.pasid,
            arena,
            memory,
            stopping: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            next_tag: AtomicU32::new(1),
            answers: Mutex::new(HashMap::new()),
            answered: Condvar::new(),
        });
        Ok(SimCard {
            page: head.pasid as u64 * PAGE as u64,
            shared,
            agent: Mutex::new(None),
        })
    }

    /// Reads a register before [`Card::start`]: nothing else is answered then.
    pub fn peek(&self, offset: u32) -> Result<u32, String> {
        let head = Head {
            tag: 0,
            pasid: self.shared.pasid,
            addr: offset as u64,
            len: 4,
            ..Head::new(Kind::MmioRead)
        };
        let fd = self.shared.socket.as_raw_fd();
        let failed = |e: io::Error| format!("the card does not answer ({e})");
        send(fd, &message(&head, &[]), 0).map_err(failed)?;
        let mut packet = [0u8; MAX_MSG];
        let n = receive(fd, &mut packet).map_err(failed)?;
        match Head::parse(&packet[..n]) {
            Ok(h) if h.kind == Kind::MmioReadDone && h.status == 0 => Ok(h.arg as u32),
            Ok(h) if h.kind == Kind::Goodbye => {
                let text = String::from_utf8_lossy(&packet[HEAD_BYTES..n]);
                Err(format!("the simulator ended: {text}"))
            }
            _ => Err("the card does not answer".into()),
        }
    }

    pub fn pasid(&self) -> u32 {
        self.shared.pasid
    }

    /// Its own time, for who runs timers above it.
    pub fn time(&self) -> crate::soft::CardTime {
        let shared = self.shared.clone();
        Box::new(move || (shared.arena.card_time(), shared.arena.asleep()))
    }

    fn ask(&self, head: Head, data: &[u8]) -> Result<Head, Errno> {
        let tag = self.shared.next_tag.fetch_add(1, Ordering::Relaxed);
        let packet = message(
            &Head {
                tag,
                pasid: self.shared.pasid,
                ..head
            },
            data,
        );
        send(self.shared.socket.as_raw_fd(), &packet, 0).map_err(|_| libc::EIO)?;
        let mut answers = self.shared.answers.lock().unwrap();
        let deadline = std::time::Instant::now() + ANSWER;
        loop {
            if let Some(answer) = answers.remove(&tag) {
                return if answer.status == 0 {
                    Ok(answer)
                } else {
                    Err(answer.status as Errno)
                };
            }
            if self.shared.dead.load(Ordering::Relaxed) {
                return Err(libc::EIO);
            }
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Err(libc::ETIMEDOUT);
            }
            answers = self.shared.answered.wait_timeout(answers, left).unwrap().0;
        }
    }

    #[inline(always)]
    fn ring(&self, reg: u32, value: u64) -> bool {
        let arena = &self.shared.arena;
        arena.push(self.page + reg as u64, value) && self.pushed()
    }

    #[inline(always)]
    fn ring_unit(&self, reg: u32, unit: &[u8; 64]) -> bool {
        let arena = &self.shared.arena;
        arena.push_unit(self.page + reg as u64, unit) && self.pushed()
    }

    #[inline(always)]
    fn pushed(&self) -> bool {
        if self.shared.arena.must_wake() {
            self.wake();
        }
        true
    }

    /// The ring was full.
    #[cold]
    #[inline(never)]
    fn late(&self, ring: &dyn Fn() -> bool) {
        let mut tries = 0u32;
        while !ring() {
            // The simulator is behind. Dead: the doorbell has no reader any more.
            if self.shared.dead.load(Ordering::Relaxed) || self.shared.arena.dead() {
                return;
            }
            tries += 1;
            if tries > 32 {
                std::thread::sleep(Duration::from_micros(50));
            } else {
                std::thread::yield_now();
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        let packet = message(
            &Head {
                pasid: self.shared.pasid,
                ..Head::new(Kind::Wake)
            },
            &[],
        );
        // A full socket wakes the simulator just as well.
        let _ = send(self.shared.socket.as_raw_fd(), &packet, libc::MSG_DONTWAIT);
    }
}

impl Card for SimCard {
    #[inline]
    fn doorbell(&self, reg: u32, value: u64) {
        if !self.ring(reg, value) {
            self.late(&|| self.ring(reg, value));
        }
    }

    #[inline]
    fn direct(&self, reg: u32, unit: &[u8; 64]) {
        if !self.ring_unit(reg, unit) {
            self.late(&|| self.ring_unit(reg, unit));
        }
    }

    #[inline]
    fn try_doorbell(&self, reg: u32, value: u64) -> bool {
        self.ring(reg, value)
    }

    fn register(&self, offset: u32) -> Result<u32, Errno> {
        self.ask(
            Head {
                addr: offset as u64,
                len: 4,
                ..Head::new(Kind::MmioRead)
            },
            &[],
        )
        .map(|h| h.arg as u32)
    }

    fn alloc(&self, bytes: usize) -> Option<Dma> {
        self.shared.arena.alloc(bytes)
    }

    fn free(&self, memory: Dma) {
        self.shared.arena.free(memory)
    }

    fn neighbor(&self, gid: [u8; 16]) -> Result<[u8; 6], Errno> {
        let head = self.ask(
            Head {
                len: 16,
                ..Head::new(Kind::Neighbor)
            },
            &gid,
        )?;
        let mut mac = [0; 6];
        mac.copy_from_slice(&head.arg.to_le_bytes()[..6]);
        Ok(mac)
    }

    fn start(&self, events: Arc<dyn Events>) -> io::Result<()> {
        let shared = self.shared.clone();
        let thread = without_signals(|| {
            std::thread::Builder::new()
                .name("metaroce-dma".into())
                .stack_size(256 * 1024)
                .spawn(move || {
                    Agent {
                        shared,
                        events,
                        replies: VecDeque::new(),
                    }
                    .run()
                })
        })?;
        *self.agent.lock().unwrap() = Some(thread);
        Ok(())
    }

    fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // SAFETY: our own socket; wakes the agent with an end of file.
        unsafe { libc::shutdown(self.shared.socket.as_raw_fd(), libc::SHUT_RDWR) };
        if let Some(thread) = self.agent.lock().unwrap().take() {
            let _ = thread.join();
        }
    }
}

/// The thread that serves the card: DMA, interrupts, answers.
struct Agent {
    shared: Arc<Shared>,
    events: Arc<dyn Events>,
    /// Replies that did not fit the socket. Waiting for room without reading could make both sides wait for ever.
    replies: VecDeque<Vec<u8>>,
}

impl Agent {
    fn run(mut self) {
        let why = self.serve();
        self.shared.dead.store(true, Ordering::Relaxed);
        self.shared.arena.set_dead();
        drop(self.shared.answers.lock());
        self.shared.answered.notify_all();
        if !self.shared.stopping.load(Ordering::Relaxed) {
            self.events.died(&why);
        }
    }

    /// Returns when the card is gone, with the reason.
    fn serve(&mut self) -> String {
        let fd = self.shared.socket.as_raw_fd();
        let mut packet = vec![0u8; MAX_MSG];
        loop {
            let waiting = self.events.retry();
            let events = libc::POLLIN
                | if self.replies.is_empty() {
                    0
                } else {
                    libc::POLLOUT
                };
            let mut p = libc::pollfd {
                fd,
                events,
                revents: 0,
            };
            // SAFETY: one pollfd of ours.
            let n = unsafe { libc::poll(&mut p, 1, if waiting { 1 } else { -1 }) };
            if n < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return format!(
                    "the connection to the simulator failed ({})",
                    io::Error::last_os_error()
                );
            }
            if n <= 0 {
                continue;
            }
            if p.revents & libc::POLLOUT != 0 {
                while let Some(reply) = self.replies.front() {
                    match send(fd, reply, libc::MSG_DONTWAIT) {
                        Ok(()) => drop(self.replies.pop_front()),
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                        Err(e) => return format!("the connection to the simulator failed ({e})"),
                    }
                }
            }
            if p.revents & (libc::POLLIN | libc::POLLHUP | libc::POLLERR) != 0 {
                match receive(fd, &mut packet) {
                    Ok(0) => return "the simulator ended".into(),
                    Ok(n) => {
                        if let Some(why) = self.handle(&packet[..n]) {
                            return why;
                        }
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return format!("the connection to the simulator failed ({e})"),
                }
            }
        }
    }

    /// One message; Some(reason) when the card is gone.
    fn handle(&mut self, packet: &[u8]) -> Option<String> {
        let head = match Head::parse(packet) {
            Ok(h) => h,
            Err(e) => {
                return Some(format!(
                    "the simulator sent a message that is not one ({e:?})"
                ))
            }
        };
        let data = &packet[HEAD_BYTES..];
        match head.kind {
            Kind::Read => {
                let len = head.len as usize;
                let mut reply = [0u8; MAX_MSG];
                let ok = len <= MAX_DATA
                    && self
                        .shared
                        .memory
                        .read(head.addr, &mut reply[HEAD_BYTES..HEAD_BYTES + len]);
                let done = Head {
                    status: if ok { 0 } else { libc::EFAULT as u16 },
                    len: if ok { len as u32 } else { 0 },
                    ..Head {
                        kind: Kind::ReadDone,
                        ..head
                    }
                };
                emit(&done, &mut reply);
                let n = HEAD_BYTES + done.len as usize;
                return self.reply(&reply[..n]);
            }
            Kind::Write => {
                let ok = self.shared.memory.write(head.addr, data);
                let status = if ok { 0 } else { libc::EFAULT as u16 };
                let done = Head {
                    kind: Kind::WriteDone,
                    status,
                    ..head
                };
                return self.reply(&message(&done, &[]));
            }
            Kind::Interrupt => self.events.interrupt(),
            Kind::MmioReadDone | Kind::NeighborDone => {
                self.shared.answers.lock().unwrap().insert(head.tag, head);
                self.shared.answered.notify_all();
            }
            Kind::Goodbye => {
                return Some(format!(
                    "the simulator ended: {}",
                    String::from_utf8_lossy(data)
                ))
            }
            // Messages that only a client sends.
            _ => return Some(format!("the simulator sent an unexpected {:?}", head.kind)),
        }
        None
    }

    fn reply(&mut self, packet: &[u8]) -> Option<String> {
        if self.replies.is_empty() {
            match send(self.shared.socket.as_raw_fd(), packet, libc::MSG_DONTWAIT) {
                Ok(()) => return None,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Some(format!("the connection to the simulator failed ({e})")),
            }
        }
        self.replies.push_back(packet.to_vec());
        None
    }
}

fn emit(head: &Head, packet: &mut [u8]) {
    let mut bytes = [0; HEAD_BYTES];
    head.emit(&mut bytes);
    packet[..HEAD_BYTES].copy_from_slice(&bytes);
}

fn message(head: &Head, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; HEAD_BYTES];
    emit(head, &mut packet);
    packet.extend_from_slice(data);
    packet
}

fn connect(path: &Path) -> io::Result<OwnedFd> {
    // SAFETY: system calls with checked results; the address is initialised.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = OwnedFd::from_raw_fd(fd);
        let mut address = core::mem::zeroed::<libc::sockaddr_un>();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // A socket address holds 107 bytes of path; longer ones go through a descriptor of the directory.
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        let mut directory = None;
        if bytes.len() >= address.sun_path.len() {
            let parent = path
                .parent()
                .filter(|p| !p.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            let d = std::fs::File::open(parent)?;
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            bytes = format!("/proc/self/fd/{}/", d.as_raw_fd()).into_bytes();
            bytes.extend_from_slice(name.as_bytes());
            directory = Some(d);
        }
        if bytes.len() >= address.sun_path.len() {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        for (to, from) in address.sun_path.iter_mut().zip(&bytes) {
            *to = *from as libc::c_char;
        }
        let len = core::mem::size_of::<libc::sockaddr_un>() as libc::socklen_t;
        let r = libc::connect(
            fd.as_raw_fd(),
            &address as *const _ as *const libc::sockaddr,
            len,
        );
        let error = io::Error::last_os_error();
        drop(directory);
        if r != 0 {
            return Err(error);
        }
        let size = 1 << 20;
        for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                &size as *const i32 as *const _,
                4,
            );
        }
        Ok(fd)
    }
}

fn send(fd: RawFd, packet: &[u8], flags: i32) -> io::Result<()> {
    loop {
        // SAFETY: the buffer is valid for its length.
        let n = unsafe {
            libc::send(
                fd,
                packet.as_ptr() as *const _,
                packet.len(),
                flags | libc::MSG_NOSIGNAL,
            )
        };
        if n >= 0 {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

fn receive(fd: RawFd, packet: &mut [u8]) -> io::Result<usize> {
    // SAFETY: as above.
    let n = unsafe { libc::recv(fd, packet.as_mut_ptr() as *mut _, packet.len(), 0) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

fn send_with_fd(socket: RawFd, packet: &[u8], fd: RawFd) -> io::Result<()> {
    #[repr(C, align(8))]
    struct Control([u8; 32]);
    // SAFETY: the control buffer has room for one descriptor (CMSG_SPACE(4) = 24 on 64-bit Linux).
    unsafe {
        let mut control = Control([0; 32]);
        let mut iov = libc::iovec {
            iov_base: packet.as_ptr() as *mut _,
            iov_len: packet.len(),
        };
        let mut msg = core::mem::zeroed::<libc::msghdr>();
        msg.msg_iov = &mut iov;
        msg.msg_iovlen = 1;
        msg.msg_control = control.0.as_mut_ptr() as *mut _;
        msg.msg_controllen = libc::CMSG_SPACE(4) as _;
        let c = libc::CMSG_FIRSTHDR(&msg);
        (*c).cmsg_level = libc::SOL_SOCKET;
        (*c).cmsg_type = libc::SCM_RIGHTS;
        (*c).cmsg_len = libc::CMSG_LEN(4) as _;
        core::ptr::write_unaligned(libc::CMSG_DATA(c) as *mut RawFd, fd);
        if libc::sendmsg(socket, &msg, libc::MSG_NOSIGNAL) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
