//! Random host messages: visitors that say anything at the simulator's socket, while a tame client of the same cards
//! goes on. The messages repeat from the seed, their timing does not.

use super::Fuzz;
use crate::{
    rng::Rng,
    server::{serve, Control, ServerConfig},
    sim::{CardId, SimConfig},
};
use metaroce_hdl_spec::{
    cmd, cqe,
    hostmsg::{arena, Head, Kind, HEAD_BYTES, MAX_DATA},
    regs, wqe, HOST_ABI_MAJOR, HOST_ABI_MINOR,
};
use nix::sys::socket::{
    connect, sendmsg, socket, AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr,
};
use std::{
    io::IoSlice,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU32, AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Wall time after which the simulator hangs: an agent that never answers may hold it for 20 s.
const PATIENCE: Duration = Duration::from_secs(45);

/// Shared memory of a client.
pub(crate) struct Memory {
    fd: OwnedFd,
    ptr: *mut u8,
    pub(crate) base: u64,
}
// SAFETY: owned by one thread at a time; shared with the simulator by copies and atomics only.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Memory {
        // SAFETY: a new descriptor; its size is set before it is mapped.
        let (fd, ptr) = unsafe {
            let fd = libc::memfd_create(c"fuzz".as_ptr(), libc::MFD_ALLOW_SEALING);
            assert!(fd >= 0, "memfd");
            assert_eq!(libc::ftruncate(fd, arena::SIZE as i64), 0);
            let p = libc::mmap(
                std::ptr::null_mut(),
                arena::SIZE as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd,
                0,
            );
            assert!(p != libc::MAP_FAILED, "mmap");
            (OwnedFd::from_raw_fd(fd), p.cast::<u8>())
        };
        let m = Memory {
            fd,
            ptr,
            base: ptr as u64,
        };
        for (at, v) in [(0, arena::MAGIC), (8, arena::SIZE), (16, m.base)] {
            m.word(at).store(v, Ordering::Relaxed);
        }
        for k in 0..arena::DB_ENTRIES {
            let at = arena::DB_RING + k * arena::DB_ENTRY_BYTES;
            m.word(at).store(k, Ordering::Release);
        }
        m
    }
    fn word(&self, at: u64) -> &AtomicU64 {
        // SAFETY: aligned and inside the mapping.
        unsafe { &*self.ptr.add(at as usize).cast() }
    }
    fn half(&self, at: u64) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.ptr.add(at as usize).cast() }
    }
    pub(crate) fn poke(&self, at: u64, b: &[u8]) {
        assert!(at + b.len() as u64 <= arena::SIZE);
        // SAFETY: inside the mapping, just checked.
        unsafe { std::ptr::copy_nonoverlapping(b.as_ptr(), self.ptr.add(at as usize), b.len()) };
    }
    pub(crate) fn peek(&self, at: u64, n: usize) -> Vec<u8> {
        let mut v = vec![0; n];
        assert!(at + n as u64 <= arena::SIZE);
        // SAFETY: inside the mapping, just checked.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr.add(at as usize), v.as_mut_ptr(), n) };
        v
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once.
        unsafe { libc::munmap(self.ptr.cast(), arena::SIZE as usize) };
    }
}

fn knock(path: &Path) -> OwnedFd {
    let fd = socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )
    .expect("socket");
    let to = UnixAddr::new(path).expect("path");
    let began = Instant::now();
    while connect(fd.as_raw_fd(), &to).is_err() {
        assert!(began.elapsed() < PATIENCE, "nobody listens");
        std::thread::sleep(Duration::from_millis(5));
    }
    fd
}

/// Sends if there is room; a visitor does not care.
fn say(fd: &OwnedFd, bytes: &[u8], pass: &[RawFd]) -> bool {
    let iov = [IoSlice::new(bytes)];
    let c = [ControlMessage::ScmRights(pass)];
    let c: &[_] = if pass.is_empty() { &[] } else { &c };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg::<UnixAddr>(fd.as_raw_fd(), &iov, c, flags, None).is_ok()
}

/// A message that has come.
fn hear(fd: &OwnedFd) -> Option<Vec<u8>> {
    let mut b = vec![0; HEAD_BYTES + MAX_DATA];
    // SAFETY: buffer and length belong together.
    let n = unsafe {
        libc::recv(
            fd.as_raw_fd(),
            b.as_mut_ptr().cast(),
            b.len(),
            libc::MSG_DONTWAIT,
        )
    };
    (n > 0).then(|| {
        b.truncate(n as usize);
        b
    })
}

fn bytes(h: Head, data: &[u8]) -> Vec<u8> {
    let mut b = [0u8; HEAD_BYTES];
    h.emit(&mut b);
    [&b[..], data].concat()
}

/// A connection with an arena.
pub(crate) struct Visitor {
    fd: OwnedFd,
    pub(crate) m: Memory,
    pub(crate) pasid: u32,
}

impl Visitor {
    /// A lawful hello; waits for the answer.
    pub(crate) fn new(path: &Path, card: u64) -> Result<Visitor, String> {
        let (fd, m) = (knock(path), Memory::new());
        let hello = Head {
            tag: HOST_ABI_MAJOR << 16 | HOST_ABI_MINOR,
            arg: card,
            addr: m.base,
            len: 4,
            ..Head::new(Kind::Hello)
        };
        say(&fd, &bytes(hello, b"fuzz"), &[m.fd.as_raw_fd()]);
        let began = Instant::now();
        loop {
            if let Some(b) = hear(&fd) {
                let h = Head::parse(&b).map_err(|e| format!("the answer to hello: {e:?}"))?;
                if h.kind != Kind::HelloAck || h.status != 0 {
                    return Err(format!("hello is answered with {h:?}"));
                }
                let pasid = h.pasid;
                return Ok(Visitor { fd, m, pasid });
            }
            if began.elapsed() > PATIENCE {
                return Err("no answer to hello".into());
            }
            std::thread::yield_now();
        }
    }

    fn wake(&self) {
        let s = self.m.half(arena::SLEEPING);
        if s.swap(0, Ordering::SeqCst) == 1 {
            say(&self.fd, &bytes(Head::new(Kind::Wake), &[]), &[]);
        }
    }

    pub(crate) fn doorbell(&self, at: u32, v: u64) {
        let p = self.m.word(arena::DB_HEAD).fetch_add(1, Ordering::SeqCst);
        let e = arena::DB_RING + p % arena::DB_ENTRIES * arena::DB_ENTRY_BYTES;
        let page = self.pasid as u64 * regs::PAGE as u64;
        for (k, v) in [page + at as u64, 8, v].into_iter().enumerate() {
            self.m
                .word(e + 8 + 8 * k as u64)
                .store(v, Ordering::Relaxed);
        }
        self.m.word(e).store(p + 1, Ordering::Release);
        self.wake();
    }
}

// Places in the arena of the tame client.
const BLOCK: u64 = 1 << 20;
const EQ: u64 = 2 << 20;
const CQ: u64 = 3 << 20;
const SQ: u64 = 4 << 20;
const RQ: u64 = 5 << 20;
const LIST: u64 = 6 << 20;
const BUF: u64 = 8 << 20;
const LEN: u64 = 1 << 16;

/// A lawful client with one QP that is connected to itself.
struct Tame {
    v: Visitor,
    seq: u32,
    qpn: u32,
    key: u32,
    cqn: u32,
    pi: u16,
    ci: u32,
}

impl Tame {
    fn new(path: &Path, card: usize) -> Result<Tame, String> {
        let v = Visitor::new(path, card as u64)?;
        let mut t = Tame {
            v,
            seq: 0,
            qpn: 0,
            key: 0,
            cqn: 0,
            pi: 0,
            ci: 0,
        };
        let at = |off: u64| t.v.m.base + off;
        let (eq, cq, sq, rq, list, buf) = (at(EQ), at(CQ), at(SQ), at(RQ), at(LIST), at(BUF));
        t.command(cmd::op::CREATE_EQ, 0, |c| {
            cmd::create_eq::log.put(c, 4);
            cmd::create_eq::base.put(c, eq);
        })?;
        let pd = t.command(cmd::op::ALLOC_PD, 0, |_| {})? as u64;
        let cqn = t.command(cmd::op::CREATE_CQ, 0, |c| {
            cmd::create_cq::log.put(c, 6);
            cmd::create_cq::base.put(c, cq);
        })? as u64;
        t.cqn = cqn as u32;
        for k in 0..LEN / 4096 {
            t.v.m.poke(LIST + 8 * k, &(buf + 4096 * k).to_le_bytes());
        }
        t.key = t.command(cmd::op::REG_MR, 0, |c| {
            cmd::reg_mr::pd.put(c, pd);
            cmd::reg_mr::access.put(c, 7);
            cmd::reg_mr::page_shift.put(c, 12);
            cmd::reg_mr::list.put(c, list);
            cmd::reg_mr::va.put(c, buf);
            cmd::reg_mr::len.put(c, LEN);
        })?;
        t.qpn = t.command(cmd::op::CREATE_QP, 0, |c| {
            cmd::create_qp::sq_log.put(c, 4);
            cmd::create_qp::rq_log.put(c, 4);
            cmd::create_qp::pd.put(c, pd);
            cmd::create_qp::sq_base.put(c, sq);
            cmd::create_qp::rq_base.put(c, rq);
            cmd::create_qp::scq.put(c, cqn);
            cmd::create_qp::rcq.put(c, cqn);
        })?;
        let (id, qpn) = (CardId::new(card), t.qpn);
        use cmd::modify_qp as m;
        for (state, mask) in [(1, 0x39), (2, 0x12_9181), (3, 0x1_2E01)] {
            t.command(cmd::op::MODIFY_QP, qpn, |c| {
                let mut mac = [0u8; 8];
                mac[..6].copy_from_slice(&id.mac);
                for (f, v) in [
                    (m::mask, mask),
                    (m::next_state, state),
                    (m::acc_write, 1),
                    (m::acc_read, 1),
                    (m::port, 1),
                    (m::mtu, 3),
                    (m::dqpn, qpn as u64),
                    (m::max_dest_rd, 4),
                    (m::max_rd, 4),
                    (m::min_rnr, 12),
                    (m::sgid_index, 1),
                    (m::sport, 0xC001),
                    (m::dmac, u64::from_le_bytes(mac)),
                    (m::hop_limit, 64),
                    (m::timeout, 16),
                    (m::retry_cnt, 7),
                    (m::rnr_retry, 7),
                ] {
                    f.put(c, v);
                }
                m::dip.put_bytes(c, &id.gids()[1]);
            })?;
        }
        Ok(t)
    }

    /// Waits for something in the arena; answers nothing, since all memory is there.
    fn wait(&self, what: &str, mut there: impl FnMut(&Memory) -> bool) -> Result<(), String> {
        let began = Instant::now();
        while !there(&self.v.m) {
            while let Some(b) = hear(&self.v.fd) {
                let h = Head::parse(&b).map_err(|e| format!("a message: {e:?}"))?;
                if !matches!(h.kind, Kind::Interrupt) {
                    return Err(format!("the tame client is sent {h:?}"));
                }
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("no {what} within {PATIENCE:?}"));
            }
            if self.v.m.half(arena::DEAD).load(Ordering::Acquire) != 0 {
                return Err("the tame client was sent away".into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn command(&mut self, op: u8, id: u32, fill: impl FnOnce(&mut [u8])) -> Result<u32, String> {
        let mut c = [0u8; cmd::CMD_BYTES];
        fill(&mut c);
        self.seq += 1;
        let seq = self.seq as u64;
        cmd::head::opcode.put(&mut c, op as u64);
        cmd::head::seq.put(&mut c, seq);
        cmd::head::id.put(&mut c, id as u64);
        self.v.m.poke(BLOCK, &c);
        self.v.doorbell(regs::doorbell::CMD, self.v.m.base + BLOCK);
        let at = BLOCK + cmd::RESP_OFFSET as u64;
        self.wait("answer to a command", |m| {
            cmd::response::seq.get(&m.peek(at, 64)) == seq
        })?;
        let r = self.v.m.peek(at, 64);
        match cmd::response::status.get(&r) {
            0 => Ok(cmd::response::id.get(&r) as u32),
            s => Err(format!("command {op} of the tame client answers {s}")),
        }
    }

    /// A WRITE to itself, checked.
    fn transfer(&mut self, rng: &mut Rng) -> Result<(), String> {
        let len = 1 + rng.below(5000);
        let data = rng.bytes(len as usize);
        let (from, to) = (rng.below(4096), 0x8000 + rng.below(4096));
        self.v.m.poke(BUF + from, &data);
        let mut u = [0u8; wqe::UNIT];
        use wqe::sq as f;
        f::opcode.put(&mut u, wqe::op::WRITE as u64);
        f::signaled.put(&mut u, 1);
        f::num_sge.put(&mut u, 1);
        f::units.put(&mut u, 1);
        f::length.put(&mut u, len);
        f::qpn.put(&mut u, self.qpn as u64);
        f::index.put(&mut u, self.pi as u64);
        f::remote_va.put(&mut u, self.v.m.base + BUF + to);
        f::rkey.put(&mut u, self.key as u64);
        f::sge0_va.put(&mut u, self.v.m.base + BUF + from);
        f::sge0_len.put(&mut u, len);
        f::sge0_key.put(&mut u, self.key as u64);
        self.v.m.poke(SQ + (self.pi as u64 & 15) * 64, &u);
        self.pi = self.pi.wrapping_add(1);
        self.v
            .doorbell(regs::doorbell::SQ, self.qpn as u64 | (self.pi as u64) << 32);
        let at = CQ + (self.ci as u64 & 63) * 64;
        let phase = (!(self.ci >> 6) & 1) as u64;
        self.wait("completion", |m| {
            cqe::cqe::phase.get(&m.peek(at, 64)) == phase
        })?;
        let status = cqe::cqe::status.get(&self.v.m.peek(at, 64));
        self.ci = (self.ci + 1) & 0xFF_FFFF;
        self.v
            .doorbell(regs::doorbell::CQ, self.cqn as u64 | (self.ci as u64) << 32);
        if status != 0 {
            return Err(format!("the tame client's WRITE ends with {status}"));
        }
        if self.v.m.peek(BUF + to, len as usize) != data {
            return Err("payload of the tame client differs".into());
        }
        Ok(())
    }
}

pub struct Socket {
    control: Control,
    server: Option<JoinHandle<()>>,
    dir: PathBuf,
    path: PathBuf,
    tame: Tame,
    rng: Rng,
    visitors: u64,
    messages: u64,
    transfers: u64,
}

impl Socket {
    pub fn new(seed: u64) -> Socket {
        let dir = std::env::temp_dir().join(format!("metaroce-fuzz-{}-{seed}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("folder of the socket");
        let path = dir.join("sock");
        let cfg = ServerConfig {
            sim: SimConfig::pair(Default::default(), seed),
            socket: path.clone(),
            pcap: None,
            trace: None,
            direct_dma: false,
            card_time: false,
            log: Some(dir.join("log")),
        };
        let (tx, rx) = mpsc::channel();
        let server = std::thread::spawn(move || {
            serve(&cfg, |c| tx.send(c).expect("the fuzzer waits")).expect("server");
        });
        let control = rx.recv().expect("server");
        let tame = Tame::new(&path, 0).expect("tame client");
        Socket {
            control,
            server: Some(server),
            dir,
            path,
            tame,
            rng: Rng::new(seed),
            visitors: 0,
            messages: 0,
            transfers: 0,
        }
    }

    /// A connection whose first message is not a lawful hello.
    fn stranger(&mut self) {
        let rng = &mut self.rng;
        let fd = knock(&self.path);
        let m = (rng.below(2) == 0).then(Memory::new);
        let n = rng.below(300) as usize;
        let mut b = match rng.below(3) {
            0 => rng.bytes(n),
            _ => bytes(
                Head {
                    tag: (HOST_ABI_MAJOR + (rng.below(4) == 0) as u32) << 16
                        | rng.next() as u32 & 3,
                    arg: rng.below(4),
                    addr: rng.next(),
                    len: n as u32,
                    ..Head::new(Kind::Hello)
                },
                &vec![b'x'; n],
            ),
        };
        if !b.is_empty() && rng.below(3) == 0 {
            let at = rng.below(b.len() as u64) as usize;
            b[at] = rng.next() as u8;
        }
        let pass: Vec<RawFd> = match &m {
            Some(m) if rng.below(2) == 0 => vec![m.fd.as_raw_fd()],
            // Something else than an arena.
            Some(_) => vec![fd.as_raw_fd(), 0],
            None => vec![],
        };
        say(&fd, &b, &pass);
        self.messages += 1;
        if rng.below(2) == 0 {
            let until = Instant::now() + Duration::from_millis(rng.below(3));
            while Instant::now() < until {
                let _ = hear(&fd);
            }
        }
    }

    /// A client that was let in and then says and writes anything.
    fn guest(&mut self) -> Result<(), String> {
        let card = self.rng.below(2);
        let v = Visitor::new(&self.path, card)?;
        for _ in 0..self.rng.below(60) {
            let rng = &mut self.rng;
            match rng.below(6) {
                // Doorbells of all kinds, in order or not.
                0 | 1 => {
                    let page = v.pasid as u64 * regs::PAGE as u64;
                    let p = match rng.below(8) {
                        0 => rng.next(),
                        _ => v.m.word(arena::DB_HEAD).fetch_add(1, Ordering::SeqCst),
                    };
                    let e = arena::DB_RING + p % arena::DB_ENTRIES * arena::DB_ENTRY_BYTES;
                    let at = match rng.below(4) {
                        0 => rng.next(),
                        1 => page + rng.below(5000),
                        _ => page + [0, 8, 0x10, 0x18, 0x20, 0x100][rng.below(6) as usize],
                    };
                    let len = [8, 8, 8, 64, 0, rng.next()][rng.below(6) as usize];
                    let value = match rng.below(3) {
                        0 => rng.next(),
                        // A command block in the arena, or somewhere in the client.
                        1 => v.m.base + BLOCK + 64 * rng.below(64),
                        _ => 0x7000_0000_0000 + (rng.next() & 0xFFFF_FFC0),
                    };
                    let block = rng.bytes(128);
                    v.m.poke(BLOCK + 64 * rng.below(64), &block);
                    for (k, x) in [at, len, value].into_iter().enumerate() {
                        v.m.word(e + 8 + 8 * k as u64).store(x, Ordering::Relaxed);
                    }
                    v.m.word(e).store(p.wrapping_add(1), Ordering::Release);
                    v.wake();
                }
                2 => {
                    let at = [
                        arena::SLEEPING,
                        arena::DB_HEAD,
                        arena::DB_TAIL,
                        arena::CARD_TIME,
                        arena::HEADER,
                    ][rng.below(5) as usize];
                    v.m.word(at).store(rng.next(), Ordering::SeqCst);
                }
                3 => {
                    let n = rng.below(80) as usize;
                    let b = rng.bytes(n);
                    say(&v.fd, &b, &[]);
                }
                _ => {
                    let all = [
                        Kind::ReadDone,
                        Kind::WriteDone,
                        Kind::MmioRead,
                        Kind::Wake,
                        Kind::Neighbor,
                        Kind::MmioRead,
                        Kind::Write,
                        Kind::Hello,
                        Kind::Goodbye,
                    ];
                    // What ends the connection is rare, so that it lives long enough.
                    let n = if rng.below(12) == 0 { all.len() } else { 6 };
                    let kind = all[2 + rng.below(n as u64 - 2) as usize];
                    let len = if kind == Kind::Neighbor {
                        16
                    } else {
                        rng.below(64) as u32
                    };
                    let h = Head {
                        status: rng.below(2) as u16,
                        tag: rng.below(8) as u32,
                        pasid: rng.below(4) as u32,
                        len,
                        addr: rng.next() & if rng.below(2) == 0 { 0xFFF } else { u64::MAX },
                        arg: rng.next(),
                        ..Head::new(kind)
                    };
                    let n = if h.has_data() { len as usize } else { 0 };
                    let data = rng.bytes(n);
                    say(&v.fd, &bytes(h, &data), &[]);
                }
            }
            self.messages += 1;
            // Reads of the card from this client's own memory: answered right, or with other lengths.
            while let Some(b) = hear(&v.fd) {
                let Ok(h) = Head::parse(&b) else {
                    return Err(format!("the simulator says {b:x?}"));
                };
                let rng = &mut self.rng;
                let answer = match h.kind {
                    Kind::Read => {
                        let n = match rng.below(4) {
                            0 => rng.below(200) as usize,
                            _ => h.len as usize,
                        };
                        let status = (rng.below(4) == 0) as u16;
                        let data = rng.bytes(if status == 0 { n } else { 0 });
                        let len = data.len() as u32;
                        let head = Head {
                            tag: h.tag,
                            status,
                            len,
                            ..Head::new(Kind::ReadDone)
                        };
                        bytes(head, &data)
                    }
                    Kind::Write => bytes(
                        Head {
                            tag: h.tag,
                            ..Head::new(Kind::WriteDone)
                        },
                        &[],
                    ),
                    _ => continue,
                };
                say(&v.fd, &answer, &[]);
                self.messages += 1;
            }
        }
        Ok(())
    }
}

impl Fuzz for Socket {
    fn step(&mut self) -> Result<(), String> {
        self.visitors += 1;
        if self.rng.below(3) == 0 {
            self.stranger();
        } else {
            self.guest()?;
        }
        self.transfers += 1;
        self.tame.transfer(&mut self.rng)?;
        if self.server.as_ref().is_some_and(JoinHandle::is_finished) {
            return Err("the simulator has ended".into());
        }
        Ok(())
    }

    fn done(&self) -> String {
        format!(
            "{} visitors, {} messages, {} clean transfers",
            self.visitors, self.messages, self.transfers
        )
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(s) = self.server.take() {
            let _ = s.join();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
