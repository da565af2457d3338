//! Real processes as hosts: shared arena, doorbell ring, and DMA through the client's agent thread
//! (or directly with `process_vm_*` where a self-test shows that the kernel allows it).

use crate::{
    memory::{FlatMemory, Memory, Ticket},
    node::MmioWrite,
};
use metaroce_hdl_spec::{
    hostmsg::{arena, Head, Kind, HEAD_BYTES, MAX_DATA, MAX_MSG},
    regs,
};
use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::{fence, AtomicU32, AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Longest wait for a client's agent before it is given up.
const AGENT_TIMEOUT: Duration = Duration::from_secs(20);
/// Messages of a client that are looked at in one go.
const PUMP: usize = 256;
/// Questions of a client that may wait for their answers.
const QUESTIONS: usize = 1024;
/// Payload writes are gathered up to this many bytes before they go to the agent.
const GATHER: usize = MAX_DATA;

/// The client's arena, mapped here.
pub struct Arena {
    ptr: *mut u8,
    base: u64,
}
// SAFETY: the mapping is owned by this value and used by one thread at a time; the client's side of
// it is only touched through atomics and raw copies.
unsafe impl Send for Arena {}

impl Arena {
    /// Maps a client's memfd of `arena::SIZE` bytes whose address in the client is `base`.
    pub fn map(fd: &OwnedFd, base: u64) -> io::Result<Arena> {
        // SAFETY: plain fstat on an open descriptor into a zeroed struct.
        let mut st: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        if unsafe { libc::fstat(fd.as_raw_fd(), &mut st) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if st.st_size as u64 != arena::SIZE {
            return Err(io::Error::other(format!(
                "the arena is {} bytes, not {}",
                st.st_size,
                arena::SIZE
            )));
        }
        // A client that shrinks its memfd later must not kill the simulator with SIGBUS.
        // SAFETY: fcntl on an open descriptor.
        let sealed = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
        if sealed != 0 {
            return Err(io::Error::other(
                "the arena can't be sealed against shrinking (memfd without MFD_ALLOW_SEALING?)",
            ));
        }
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh shared mapping of the whole file.
        let p = unsafe {
            libc::mmap(
                ptr::null_mut(),
                arena::SIZE as usize,
                prot,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Arena {
            ptr: p.cast(),
            base,
        })
    }
    fn offset(&self, addr: u64, len: usize) -> Option<usize> {
        let off = addr.checked_sub(self.base)?;
        (off.checked_add(len as u64)? <= arena::SIZE).then_some(off as usize)
    }
    fn u32(&self, off: u64) -> &AtomicU32 {
        // SAFETY: aligned offset inside the mapping; atomics may be shared with the client.
        unsafe { &*self.ptr.add(off as usize).cast() }
    }
    fn u64(&self, off: u64) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { &*self.ptr.add(off as usize).cast() }
    }
    fn copy_out(&self, off: usize, out: &mut [u8]) {
        // SAFETY: the range was checked by `offset`.
        unsafe { ptr::copy_nonoverlapping(self.ptr.add(off), out.as_mut_ptr(), out.len()) }
    }
    /// Copies in; the last aligned 8 bytes are stored last, with release.
    fn copy_in(&self, off: usize, data: &[u8]) {
        let n = data.len();
        // What says that earlier writes are there may be anywhere in this one.
        fence(Ordering::Release);
        if n >= 8 && (off + n).is_multiple_of(8) {
            // SAFETY: the range was checked by `offset`.
            unsafe { ptr::copy_nonoverlapping(data.as_ptr(), self.ptr.add(off), n - 8) };
            let last = u64::from_le_bytes(data[n - 8..].try_into().expect("eight bytes"));
            self.u64((off + n - 8) as u64)
                .store(last, Ordering::Release);
        } else {
            // SAFETY: the range was checked by `offset`.
            unsafe { ptr::copy_nonoverlapping(data.as_ptr(), self.ptr.add(off), n) };
            fence(Ordering::Release);
        }
    }
    /// Takes a doorbell from the ring.
    fn pop(&self) -> Option<MmioWrite> {
        let t = self.u64(arena::DB_TAIL).load(Ordering::Relaxed);
        let e = arena::DB_RING + (t % arena::DB_ENTRIES) * arena::DB_ENTRY_BYTES;
        if self.u64(e).load(Ordering::Acquire) != t.wrapping_add(1) {
            return None;
        }
        let addr = self.u64(e + 8).load(Ordering::Relaxed);
        let len = self.u64(e + 16).load(Ordering::Relaxed);
        let mut data = [0u8; 64];
        if len == 64 {
            self.copy_out((e + arena::DB_DATA) as usize, &mut data);
        } else {
            data[..8].copy_from_slice(&self.u64(e + 24).load(Ordering::Relaxed).to_le_bytes());
        }
        self.u64(e)
            .store(t.wrapping_add(arena::DB_ENTRIES), Ordering::Release);
        self.u64(arena::DB_TAIL)
            .store(t.wrapping_add(1), Ordering::Release);
        Some(MmioWrite {
            addr: addr.min(u32::MAX as u64) as u32,
            len: len.min(255) as u8,
            data,
        })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, unmapped once.
        unsafe { libc::munmap(self.ptr.cast(), arena::SIZE as usize) };
    }
}

enum Deferred {
    Arena(usize, Vec<u8>),
    Interrupt,
}

/// One connected process (device context).
pub struct Client {
    pub pasid: u16,
    pub pid: i32,
    pub name: String,
    fd: OwnedFd,
    arena: Arena,
    direct: bool,
    next_tag: u32,
    /// Reads that wait for the agent: bytes by tag.
    asked: HashMap<u32, usize>,
    /// Answers that have come; None = fault.
    answers: HashMap<u32, Option<Vec<u8>>>,
    gather: Option<(u64, Vec<u8>)>,
    writes_out: u32,
    deferred: VecDeque<Deferred>,
    /// Register reads that wait for the card: (tag, BAR offset).
    pub mmio_reads: VecDeque<(u32, u32)>,
    pub neighbors: VecDeque<(u32, [u8; 16])>,
    pub dead: Option<String>,
    pub refused: u64,
    /// Accesses that failed because the memory is not there.
    faults: u64,
}

/// A program whose registered memory was not there when the card wanted it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Unmapped {
    pub program: String,
    pub pid: i32,
    pub accesses: u64,
}

impl std::fmt::Display for Unmapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "program {} (pid {}): {} access(es) of the card to memory that it has unmapped or protected since ibv_reg_mr; what was written there is lost, what was read is an error",
            self.program, self.pid, self.accesses
        )
    }
}

impl Client {
    pub fn new(
        pasid: u16,
        pid: i32,
        name: String,
        fd: OwnedFd,
        arena: Arena,
        allow_direct: bool,
    ) -> Client {
        let mut c = Client {
            pasid,
            pid,
            name,
            fd,
            arena,
            direct: false,
            next_tag: 1,
            asked: HashMap::new(),
            answers: HashMap::new(),
            gather: None,
            writes_out: 0,
            deferred: VecDeque::new(),
            mmio_reads: VecDeque::new(),
            neighbors: VecDeque::new(),
            dead: None,
            refused: 0,
            faults: 0,
        };
        // Self-test of the fast path: the arena's magic, read through the client's address space, and written back.
        let mut m = [0u8; 8];
        let base = c.arena.base;
        c.direct = allow_direct
            && c.vm_read(base, &mut m)
            && u64::from_le_bytes(m) == arena::MAGIC
            && c.vm_write(base, &m);
        c.faults = 0;
        c
    }
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
    pub fn direct(&self) -> bool {
        self.direct
    }
    pub fn unmapped(&self) -> Option<Unmapped> {
        (self.faults != 0).then(|| Unmapped {
            program: self.name.clone(),
            pid: self.pid,
            accesses: self.faults,
        })
    }
    /// Whether all was carried out; counts what was not because of the memory (a process that has ended is no such case).
    fn whole(&mut self, done: isize, len: usize) -> bool {
        let whole = done == len as isize;
        if !whole && (done >= 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT))
        {
            self.faults += 1;
        }
        whole
    }
    fn vm_read(&mut self, addr: u64, out: &mut [u8]) -> bool {
        let l = libc::iovec {
            iov_base: out.as_mut_ptr().cast(),
            iov_len: out.len(),
        };
        let r = libc::iovec {
            iov_base: addr as *mut _,
            iov_len: out.len(),
        };
        // SAFETY: the local buffer is ours; the remote address is only looked up by the kernel.
        let n = unsafe { libc::process_vm_readv(self.pid, &l, 1, &r, 1, 0) };
        self.whole(n, out.len())
    }
    fn vm_write(&mut self, addr: u64, data: &[u8]) -> bool {
        let l = libc::iovec {
            iov_base: data.as_ptr() as *mut _,
            iov_len: data.len(),
        };
        let r = libc::iovec {
            iov_base: addr as *mut _,
            iov_len: data.len(),
        };
        // SAFETY: as above; the kernel writes into the client, which asked for it by posting the work request.
        let n = unsafe { libc::process_vm_writev(self.pid, &l, 1, &r, 1, 0) };
        self.whole(n, data.len())
    }

    /// Sends a message; waits while the socket is full.
    pub fn send(&mut self, h: &Head, data: &[u8]) {
        if self.dead.is_some() {
            return;
        }
        let mut head = [0u8; HEAD_BYTES];
        let len = if h.kind == Kind::Read {
            h.len
        } else {
            data.len() as u32
        };
        Head { len, ..*h }.emit(&mut head);
        let mut m = head.to_vec();
        m.extend_from_slice(data);
        let until = Instant::now() + AGENT_TIMEOUT;
        loop {
            // SAFETY: buffer and length belong together.
            let n = unsafe {
                libc::send(
                    self.fd(),
                    m.as_ptr().cast(),
                    m.len(),
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            if n == m.len() as isize {
                return;
            }
            let e = io::Error::last_os_error();
            match e.raw_os_error() {
                Some(libc::EAGAIN) if Instant::now() < until => {
                    // The agent may itself wait for us to read.
                    self.pump();
                    wait(self.fd(), libc::POLLOUT | libc::POLLIN, 100);
                }
                Some(libc::EINTR) => {}
                _ => {
                    self.die(format!("its socket failed: {e}"));
                    return;
                }
            }
        }
    }

    fn die(&mut self, why: String) {
        if self.dead.is_none() {
            self.dead = Some(why);
            self.arena.u32(arena::DEAD).store(1, Ordering::Release);
        }
    }

    /// Takes the messages that have come, but not more than some: one that never stops must not stop all others.
    /// True when there was one.
    pub fn pump(&mut self) -> bool {
        let mut any = false;
        let mut b = [0u8; MAX_MSG + 1];
        for _ in 0..PUMP {
            if self.dead.is_some() {
                break;
            }
            // SAFETY: buffer and length belong together.
            let n = unsafe {
                libc::recv(
                    self.fd(),
                    b.as_mut_ptr().cast(),
                    b.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            if n < 0 {
                match io::Error::last_os_error().raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::EINTR) => continue,
                    _ => {
                        self.die("its connection broke".into());
                        break;
                    }
                }
            }
            if n == 0 {
                self.die("it exited or closed the device".into());
                break;
            }
            any = true;
            match Head::parse(&b[..n as usize]) {
                Ok(h) => self.message(&h, &b[HEAD_BYTES..n as usize]),
                Err(e) => self.die(format!(
                    "it sent something that is not a host-port message ({e:?}, {n} bytes)"
                )),
            }
        }
        any
    }

    fn message(&mut self, h: &Head, data: &[u8]) {
        match h.kind {
            // The card counts on as many bytes as it asked for: others would land in packets of other clients.
            Kind::ReadDone => match self.asked.remove(&h.tag) {
                Some(n) if h.status != 0 || n == data.len() => {
                    self.faults += (h.status != 0) as u64;
                    self.answers
                        .insert(h.tag, (h.status == 0).then(|| data.to_vec()));
                }
                Some(n) => self.die(format!(
                    "it answered a read of {n} bytes with {}",
                    data.len()
                )),
                None => self.die("it answered a read that was not asked".into()),
            },
            Kind::WriteDone if self.writes_out == 0 => {
                self.die("it confirmed a write that was not asked".into())
            }
            Kind::WriteDone => {
                self.writes_out -= 1;
                self.faults += (h.status != 0) as u64;
                self.release();
            }
            Kind::MmioRead | Kind::Neighbor
                if self.mmio_reads.len() + self.neighbors.len() >= QUESTIONS =>
            {
                self.die(format!("it asked {QUESTIONS} questions at once"))
            }
            Kind::MmioRead => self.mmio_reads.push_back((h.tag, h.addr as u32)),
            Kind::Neighbor => {
                let mut g = [0u8; 16];
                if data.len() == 16 {
                    g.copy_from_slice(data);
                }
                self.neighbors.push_back((h.tag, g));
            }
            Kind::Wake => {}
            k => self.die(format!("it sent {k:?}, which only the simulator may send")),
        }
    }

    /// Carries out what had to wait for payload writes.
    fn release(&mut self) {
        while self.writes_out == 0 && self.gather.is_none() {
            match self.deferred.pop_front() {
                Some(Deferred::Arena(off, d)) => self.arena.copy_in(off, &d),
                Some(Deferred::Interrupt) => self.send(&Head::new(Kind::Interrupt), &[]),
                None => break,
            }
        }
    }

    /// Sends gathered payload to the agent.
    pub fn flush(&mut self) {
        if let Some((addr, data)) = self.gather.take() {
            let tag = self.next_tag;
            self.next_tag = self.next_tag.wrapping_add(1);
            self.writes_out += 1;
            self.send(
                &Head {
                    tag,
                    addr,
                    pasid: self.pasid as u32,
                    ..Head::new(Kind::Write)
                },
                &data,
            );
        }
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        if self.dead.is_some() {
            return;
        }
        if let Some(off) = self.arena.offset(addr, data.len()) {
            if self.writes_out == 0 && self.gather.is_none() {
                self.arena.copy_in(off, data);
            } else {
                self.flush();
                self.deferred.push_back(Deferred::Arena(off, data.to_vec()));
            }
            return;
        }
        if self.direct {
            self.vm_write(addr, data);
            return;
        }
        // Deferred completions must not be overtaken, so payload behind them waits for nothing: it goes
        // to other memory, and its own completion queues up behind.
        match &mut self.gather {
            Some((a, d)) if *a + d.len() as u64 == addr && d.len() + data.len() <= GATHER => {
                d.extend_from_slice(data)
            }
            _ => {
                self.flush();
                self.gather = Some((addr, data.to_vec()));
            }
        }
    }

    fn interrupt(&mut self) {
        if self.writes_out == 0 && self.gather.is_none() && self.deferred.is_empty() {
            self.send(&Head::new(Kind::Interrupt), &[]);
        } else {
            self.flush();
            self.deferred.push_back(Deferred::Interrupt);
        }
    }

    /// Doorbells of this client, checked; at most `max`.
    pub fn doorbells(&mut self, max: usize, out: &mut VecDeque<MmioWrite>) -> bool {
        let mut any = false;
        for _ in 0..max {
            if self.dead.is_some() {
                break;
            }
            let Some(w) = self.arena.pop() else { break };
            any = true;
            // Its own page only, as the host's page tables would have it.
            let page = self.pasid as u64 * regs::PAGE as u64;
            let inside =
                w.addr as u64 >= page && w.addr as u64 + w.len as u64 <= page + regs::PAGE as u64;
            if !inside || (w.len != 8 && w.len != 64) {
                self.refused += 1;
                continue;
            }
            out.push_back(w);
        }
        any
    }

    /// Waits until all that was written so far is in the client's memory. Returns the time it took.
    pub fn settle(&mut self) -> Duration {
        self.flush();
        let start = Instant::now();
        while self.writes_out != 0 && self.dead.is_none() {
            if !self.pump() {
                wait(self.fd(), libc::POLLIN, 100);
            }
            if start.elapsed() > AGENT_TIMEOUT {
                self.die(format!(
                    "it did not confirm a write for {} s (stopped in a debugger?)",
                    AGENT_TIMEOUT.as_secs()
                ));
            }
        }
        start.elapsed()
    }

    /// Card time for the client's clocks, ns.
    pub fn set_time(&self, ns: u64) {
        self.arena
            .u64(arena::CARD_TIME)
            .store(ns, Ordering::Release);
    }
    pub fn set_sleeping(&self, v: bool) {
        self.arena
            .u32(arena::SLEEPING)
            .store(v as u32, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
    /// Something of this client is still under way.
    pub fn busy(&self) -> bool {
        self.writes_out != 0 || self.gather.is_some() || !self.deferred.is_empty()
    }
}

/// poll(2) on one descriptor.
pub fn wait(fd: RawFd, events: i16, ms: i32) {
    let mut p = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&mut p, 1, ms) };
}

enum Reading {
    Done(Option<Vec<u8>>),
    Agent { pasid: u16, tag: u32 },
}

/// Host memory made of the connected clients; PASID 0 is the simulator's own.
#[derive(Default)]
pub struct ClientMemory {
    pub clients: HashMap<u16, Client>,
    admin: FlatMemory,
    reads: HashMap<Ticket, Reading>,
    next: Ticket,
    /// Wall time spent waiting for agents.
    pub waited: Duration,
    /// Of clients that have gone.
    past_refused: u64,
    past_unmapped: Vec<Unmapped>,
}

impl ClientMemory {
    /// A client has gone.
    pub fn remove(&mut self, pasid: u16) -> Client {
        let c = self.clients.remove(&pasid).expect("it was there");
        self.past_refused += c.refused;
        self.past_unmapped.extend(c.unmapped());
        c
    }
    /// Doorbells that clients may not write, of all so far.
    pub fn refused(&self) -> u64 {
        self.past_refused + self.clients.values().map(|c| c.refused).sum::<u64>()
    }
    pub fn unmapped(&self) -> Vec<Unmapped> {
        let now = self.clients.values().filter_map(Client::unmapped);
        self.past_unmapped.iter().cloned().chain(now).collect()
    }
}

impl Memory for ClientMemory {
    fn start_read(&mut self, pasid: u16, addr: u64, len: usize) -> Ticket {
        self.next += 1;
        let r = if pasid == 0 {
            Reading::Done(Some(self.admin.peek_vec(0, addr, len)))
        } else {
            match self.clients.get_mut(&pasid).filter(|c| c.dead.is_none()) {
                None => Reading::Done(None),
                Some(c) => {
                    if let Some(off) = c.arena.offset(addr, len) {
                        let mut v = vec![0; len];
                        fence(Ordering::Acquire);
                        c.arena.copy_out(off, &mut v);
                        Reading::Done(Some(v))
                    } else if c.direct {
                        let mut v = vec![0; len];
                        let ok = c.vm_read(addr, &mut v);
                        Reading::Done(ok.then_some(v))
                    } else {
                        c.flush();
                        let tag = c.next_tag;
                        c.next_tag = c.next_tag.wrapping_add(1);
                        c.asked.insert(tag, len);
                        let h = Head {
                            tag,
                            addr,
                            len: len as u32,
                            pasid: pasid as u32,
                            ..Head::new(Kind::Read)
                        };
                        c.send(&h, &[]);
                        Reading::Agent { pasid, tag }
                    }
                }
            }
        };
        self.reads.insert(self.next, r);
        self.next
    }

    fn finish_read(&mut self, t: Ticket) -> Option<Vec<u8>> {
        match self.reads.remove(&t)? {
            Reading::Done(d) => d,
            Reading::Agent { pasid, tag } => {
                let c = self.clients.get_mut(&pasid)?;
                let start = Instant::now();
                loop {
                    if let Some(a) = c.answers.remove(&tag) {
                        self.waited += start.elapsed();
                        return a;
                    }
                    if c.dead.is_some() {
                        return None;
                    }
                    if !c.pump() {
                        wait(c.fd(), libc::POLLIN, 100);
                    }
                    if start.elapsed() > AGENT_TIMEOUT {
                        c.die(format!(
                            "it did not answer a read for {} s (stopped in a debugger?)",
                            AGENT_TIMEOUT.as_secs()
                        ));
                    }
                }
            }
        }
    }

    fn write(&mut self, pasid: u16, addr: u64, data: &[u8]) {
        if pasid == 0 {
            self.admin.poke(0, addr, data);
        } else if let Some(c) = self.clients.get_mut(&pasid) {
            c.write(addr, data);
        }
    }

    fn interrupt(&mut self, pasid: u16) {
        if let Some(c) = self.clients.get_mut(&pasid) {
            c.interrupt();
        }
    }

    fn any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
