//! The card: commands, queues, completions.
use super::link::{listen, Link};
use super::mem::{Mr, LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE};
use metaroce_hdl_spec::cqe::{cqe, eqe, event, recv_op, status};
use metaroce_hdl_spec::hostmsg::{Head, Kind};
use metaroce_hdl_spec::regs::{admin, db_cq, db_queue, doorbell, PAGE};
use metaroce_hdl_spec::table::{qp_state, qp_type};
use metaroce_hdl_spec::wqe::{op, sq, ud_av};
use metaroce_hdl_spec::{cmd, HOST_ABI_MAJOR};
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

pub const LOG_QP: u32 = 8;

pub struct Cq {
    pub client: usize,
    pub log: u32,
    pub base: u64,
    pub pi: u32,
    pub ci: u32,
    pub arm: u64,
}

pub struct Qp {
    pub client: usize,
    pub kind: u8,
    pub state: u8,
    pub pd: u64,
    pub cq: [u32; 2],
    pub base: [u64; 2],
    pub log: [u32; 2],
    pub stride: u32,
    pub pi: [u16; 2],
    pub ci: [u16; 2],
    pub dqpn: u32,
    pub qkey: u32,
    pub sq_psn: u64,
    pub rq_psn: u64,
    /// Remote rights, as `IBV_ACCESS_*`.
    pub access: u64,
}

#[derive(Default)]
pub struct Client {
    pub eq: Option<(u64, u32)>,
    pub eq_pi: u32,
}

pub struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

pub struct Card {
    pub links: Vec<Option<Link>>,
    pub clients: Vec<Client>,
    pub cqs: HashMap<u32, Cq>,
    pub qps: HashMap<u32, Qp>,
    pub mrs: HashMap<u32, Mr>,
    pub pds: u32,
    pub serial: u32,
    /// Never sleeps.
    pub awake: bool,
}

impl Server {
    pub fn start(path: &Path) -> Server {
        Server::with(path, false)
    }

    /// With `awake` no doorbell has to wake the card.
    pub fn with(path: &Path, awake: bool) -> Server {
        let listener = listen(path);
        let stop = Arc::new(AtomicBool::new(false));
        let s = stop.clone();
        let thread = std::thread::spawn(move || {
            Card {
                links: Vec::new(),
                clients: Vec::new(),
                cqs: HashMap::new(),
                qps: HashMap::new(),
                mrs: HashMap::new(),
                pds: 0,
                serial: 0,
                awake,
            }
            .run(listener, &s)
        });
        Server {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    /// Ends as a killed simulator does: sockets close, nothing else.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

type Status = u8;

impl Card {
    fn run(mut self, listener: OwnedFd, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let mut busy = false;
            for c in 0..self.links.len() {
                busy |= self.serve(c);
            }
            let numbers: Vec<u32> = self.qps.keys().copied().collect();
            for n in numbers {
                while self.step(n) {
                    busy = true;
                }
            }
            if busy {
                continue;
            }
            let mut fds = vec![libc::pollfd {
                fd: listener.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            }];
            let mut missed = false;
            for l in self.links.iter().flatten() {
                l.sleeping(!self.awake as u32);
                missed |= l.has_doorbell();
                fds.push(libc::pollfd {
                    fd: l.socket.as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                });
            }
            unsafe {
                libc::poll(
                    fds.as_mut_ptr(),
                    fds.len() as u64,
                    if missed {
                        0
                    } else if self.awake {
                        1
                    } else {
                        20
                    },
                )
            };
            for l in self.links.iter().flatten() {
                l.sleeping(0);
            }
            if fds[0].revents != 0 {
                let pasid = self.links.len() as u32 + 1;
                if let Some((l, _card)) = Link::accept(listener.as_raw_fd(), pasid) {
                    self.links.push(Some(l));
                    self.clients.push(Client::default());
                }
            }
        }
    }

    fn link(&mut self, c: usize) -> &mut Link {
        self.links[c].as_mut().expect("a live client")
    }

    /// Messages and doorbells of one client.
    fn serve(&mut self, c: usize) -> bool {
        let Some(link) = self.links[c].as_mut() else {
            return false;
        };
        let mut busy = false;
        while let Some((h, data)) = link.message() {
            busy = true;
            match h.kind {
                Kind::MmioRead => {
                    let v = match h.addr as u32 {
                        admin::ID => admin::ID_VALUE,
                        admin::ABI => HOST_ABI_MAJOR << 16,
                        admin::LOG_QP => LOG_QP,
                        admin::LOG_MR => 12,
                        admin::LOG_CQ => 9,
                        admin::LOG_PD => 8,
                        admin::LIMIT_MR_QP | admin::LIMIT_CQ_PD => 0xFFFF_FFFF,
                        admin::MAX_SGE | admin::MAX_RD => 16,
                        admin::LINK => 1,
                        admin::FEATURES => {
                            admin::FEATURE_TRANSPORT
                                | admin::FEATURE_ATOMICS
                                | admin::FEATURE_DIRECT
                        }
                        _ => 0,
                    };
                    link.send(
                        &Head {
                            kind: Kind::MmioReadDone,
                            arg: v as u64,
                            len: 0,
                            ..h
                        },
                        &[],
                    );
                }
                Kind::Neighbor => {
                    // 10.0.0.99 is nobody.
                    let st = if data[12..] == [10, 0, 0, 99] {
                        libc::EHOSTUNREACH as u16
                    } else {
                        0
                    };
                    link.send(
                        &Head {
                            kind: Kind::NeighborDone,
                            arg: 2,
                            status: st,
                            len: 0,
                            ..h
                        },
                        &[],
                    );
                }
                Kind::Wake => {}
                k => panic!("unexpected {k:?}"),
            }
        }
        while let Some((offset, value)) = self.links[c].as_mut().and_then(Link::doorbell) {
            busy = true;
            assert_eq!(
                offset / PAGE as u64,
                c as u64 + 1,
                "a client rings its own page"
            );
            self.rung(c, offset as u32 % PAGE, &value);
        }
        if self.links[c].as_ref().is_some_and(|l| l.gone) {
            self.links[c] = None;
            self.qps.retain(|_, q| q.client != c);
            self.cqs.retain(|_, q| q.client != c);
            self.mrs.retain(|_, m| m.client != c);
        }
        busy
    }

    fn rung(&mut self, c: usize, reg: u32, b: &[u8]) {
        assert_eq!(b.len(), if reg == doorbell::DIRECT_WQE { 64 } else { 8 });
        match reg {
            doorbell::DIRECT_WQE => {
                let q = self.qps.get_mut(&(sq::qpn.get(b) as u32)).expect("a QP");
                assert_eq!((q.client, sq::units.get(b)), (c, 1));
                // This card reads it from the ring all the same.
                q.pi[0] = (sq::index.get(b) + 1) as u16;
            }
            doorbell::SQ | doorbell::RQ => {
                let side = (reg == doorbell::RQ) as usize;
                let q = self
                    .qps
                    .get_mut(&(db_queue::qpn.get(b) as u32))
                    .expect("a QP");
                assert_eq!(q.client, c);
                q.pi[side] = db_queue::pi.get(b) as u16;
            }
            doorbell::CQ => {
                let n = db_cq::cqn.get(b) as u32;
                let q = self.cqs.get_mut(&n).expect("a CQ");
                q.ci = db_cq::ci.get(b) as u32;
                q.arm = db_cq::arm
                    .get(b)
                    .max(if db_cq::arm.get(b) == 0 { q.arm } else { 0 });
                if q.arm == 1 && q.pi != q.ci {
                    self.fire(n);
                }
            }
            doorbell::EQ => {}
            doorbell::CMD => self.command(c, u64::from_le_bytes(b.try_into().unwrap())),
            r => panic!("doorbell {r:#x}"),
        }
    }

    fn fire(&mut self, cqn: u32) {
        let q = self.cqs.get_mut(&cqn).unwrap();
        q.arm = 0;
        let c = q.client;
        let mut e = [0u8; 64];
        eqe::kind.put(&mut e, event::COMPLETION as u64);
        eqe::id.put(&mut e, cqn as u64);
        let (base, log) = self.clients[c].eq.expect("an event queue");
        let i = self.clients[c].eq_pi;
        eqe::phase.put(&mut e, (!(i >> log) & 1) as u64);
        self.clients[c].eq_pi += 1;
        let at = base + (i as u64 & ((1 << log) - 1)) * 64;
        self.link(c).write(at, &e);
        self.link(c).send(&Head::new(Kind::Interrupt), &[]);
    }

    fn command(&mut self, c: usize, bus: u64) {
        let b = self.link(c).read(bus, cmd::CMD_BYTES).unwrap();
        let mut r = [0u8; 64];
        let id = cmd::head::id.get(&b) as u32;
        match self.execute(c, cmd::head::opcode.get(&b) as u8, id, &b, &mut r) {
            Ok(made) => cmd::response::id.put(&mut r, made as u64),
            Err(e) => cmd::response::status.put(&mut r, e as u64),
        }
        cmd::response::seq.put(&mut r, cmd::head::seq.get(&b));
        self.link(c).write(bus + cmd::RESP_OFFSET as u64, &r);
    }

    fn complete(&mut self, qpn: u32, side: usize, fill: impl FnOnce(&mut [u8])) {
        let cqn = self.qps[&qpn].cq[side];
        let q = self.cqs.get_mut(&cqn).expect("a CQ");
        assert!(
            q.pi.wrapping_sub(q.ci) & 0xff_ffff < 1 << q.log,
            "CQ overflow"
        );
        let mut e = [0u8; 64];
        cqe::qpn.put(&mut e, qpn as u64);
        cqe::is_recv.put(&mut e, side as u64);
        fill(&mut e);
        cqe::phase.put(&mut e, (!(q.pi >> q.log) & 1) as u64);
        let at = q.base + (q.pi as u64 & ((1 << q.log) - 1)) * 64;
        q.pi = (q.pi + 1) & 0xff_ffff;
        let solicited = cqe::solicited.get(&e) != 0 || cqe::status.get(&e) != 0;
        let fire = q.arm == 1 || (q.arm == 2 && solicited);
        let c = q.client;
        self.link(c).write(at, &e);
        if fire {
            self.fire(cqn);
        }
    }

    fn wqe(&mut self, qpn: u32, side: usize) -> Vec<u8> {
        let q = &self.qps[&qpn];
        let (c, log, base, ci) = (q.client, q.log[side], q.base[side], q.ci[side]);
        let slots = 1u64 << log;
        let mut out = Vec::new();
        let n = if side == 0 { 5 } else { 1 << q.stride };
        for i in 0..n {
            let at = base + ((ci as u64 + i) & (slots - 1)) * 64;
            out.extend(self.link(c).read(at, 64).unwrap());
        }
        out
    }

    /// One work request of one QP. True = something happened.
    fn step(&mut self, qpn: u32) -> bool {
        let Some(q) = self.qps.get(&qpn) else {
            return false;
        };
        if q.state == qp_state::ERR {
            for side in [0, 1] {
                if q.pi[side] != q.ci[side] {
                    let w = self.wqe(qpn, side);
                    let units = if side == 0 {
                        sq::units.get(&w) as u16
                    } else {
                        w.len() as u16 / 64
                    };
                    let q = self.qps.get_mut(&qpn).unwrap();
                    let index = q.ci[side];
                    q.ci[side] = index.wrapping_add(units);
                    self.complete(qpn, side, |e| {
                        cqe::index.put(e, index as u64);
                        cqe::status.put(e, status::WR_FLUSH as u64);
                    });
                    return true;
                }
            }
            return false;
        }
        if q.state != qp_state::RTS || q.pi[0] == q.ci[0] {
            return false;
        }
        let w = self.wqe(qpn, 0);
        let index = self.qps[&qpn].ci[0];
        assert_eq!(sq::index.get(&w), index as u64, "a stale WQE");
        let result = match self.request(qpn, &w) {
            Some(r) => r,
            None => return false,
        };
        let q = self.qps.get_mut(&qpn).unwrap();
        q.ci[0] = index.wrapping_add(sq::units.get(&w) as u16);
        q.sq_psn = (q.sq_psn + 1) & 0xff_ffff;
        if result != status::SUCCESS {
            q.state = qp_state::ERR;
        }
        if result != status::SUCCESS || sq::signaled.get(&w) != 0 {
            self.complete(qpn, 0, |e| {
                cqe::opcode.put(e, sq::opcode.get(&w));
                cqe::index.put(e, index as u64);
                cqe::status.put(e, result as u64);
                cqe::length.put(e, sq::length.get(&w));
            });
        }
        true
    }

    /// SGEs of a send WQE.
    fn sges(w: &[u8], ud: bool) -> Vec<(u64, u64, u32)> {
        let n = sq::num_sge.get(w) as usize;
        (0..n)
            .map(|i| {
                let at = if i < 2 {
                    32 + 16 * i
                } else {
                    64 * (1 + ud as usize) + 16 * (i - 2)
                };
                let g = |o: usize, l: usize| {
                    let mut v = [0u8; 8];
                    v[..l].copy_from_slice(&w[at + o..at + o + l]);
                    u64::from_le_bytes(v)
                };
                (g(0, 8), g(8, 4), g(12, 4) as u32)
            })
            .collect()
    }

    /// Runs a request. None = the peer is not ready yet.
    fn request(&mut self, qpn: u32, w: &[u8]) -> Option<Status> {
        let q = &self.qps[&qpn];
        let (c, pd, kind) = (q.client, q.pd, q.kind);
        let ud = kind == qp_type::UD;
        let opcode = sq::opcode.get(w) as u8;
        let peer = if ud {
            ud_av::dqpn.get(&w[64..]) as u32
        } else {
            q.dqpn
        };
        let ready = self
            .qps
            .get(&peer)
            .is_some_and(|p| (qp_state::RTR..=qp_state::RTS).contains(&p.state));
        if !ready {
            return Some(if ud {
                status::SUCCESS
            } else {
                status::RETRY_EXC
            });
        }
        let (rkey, rva, len) = (
            sq::rkey.get(w) as u32,
            sq::remote_va.get(w),
            sq::length.get(w),
        );
        let (pc, ppd) = (self.qps[&peer].client, self.qps[&peer].pd);
        let need = match opcode {
            op::READ => REMOTE_READ,
            op::WRITE | op::WRITE_IMM => REMOTE_WRITE,
            op::CMP_SWAP | op::FETCH_ADD => REMOTE_ATOMIC,
            _ => 0,
        };
        if self.qps[&peer].access & need != need {
            return Some(status::REM_ACCESS);
        }
        if need == REMOTE_ATOMIC {
            if rva % 8 != 0 {
                return Some(status::REM_INV_REQ);
            }
            let ok = |m: &&Mr| m.allows(pc, ppd, rva, 8, REMOTE_ATOMIC);
            let Some(m) = self.mrs.get(&rkey).filter(ok).cloned() else {
                return Some(status::REM_ACCESS);
            };
            let Some(old) = m.atomic(self.link(pc), rva, w) else {
                return Some(status::REM_OP);
            };
            return Some(self.scatter(c, pd, &Self::sges(w, false), &old));
        }
        if opcode == op::READ {
            let ok = |m: &&Mr| m.allows(pc, ppd, rva, len, REMOTE_READ);
            let Some(m) = self.mrs.get(&rkey).filter(ok).cloned() else {
                return Some(status::REM_ACCESS);
            };
            let Some(data) = m.read(self.link(pc), rva, len) else {
                return Some(status::REM_OP);
            };
            return Some(self.scatter(c, pd, &Self::sges(w, false), &data));
        }
        let data = match self.gather(c, pd, w, ud, len) {
            Ok(d) => d,
            Err(s) => return Some(s),
        };
        if matches!(opcode, op::WRITE | op::WRITE_IMM) {
            if opcode == op::WRITE_IMM && !self.has_recv(peer) {
                return None;
            }
            let ok = |m: &&Mr| m.allows(pc, ppd, rva, len, REMOTE_WRITE);
            if len > 0 {
                let Some(m) = self.mrs.get(&rkey).filter(ok).cloned() else {
                    return Some(status::REM_ACCESS);
                };
                if m.write(self.link(pc), rva, &data).is_none() {
                    return Some(status::REM_OP);
                }
            }
            if opcode == op::WRITE_IMM {
                self.receive(peer, w, recv_op::WRITE_IMM, len, 0, qpn);
            }
            return Some(status::SUCCESS);
        }
        // A send.
        if !self.has_recv(peer) {
            return if ud { Some(status::SUCCESS) } else { None };
        }
        if ud && ud_av::qkey.get(&w[64..]) as u32 != self.qps[&peer].qkey {
            return Some(status::SUCCESS);
        }
        let entry = self.wqe(peer, 1);
        let list: Vec<_> = entry
            .chunks(16)
            .map(|s| {
                let len = u32::from_le_bytes(s[8..12].try_into().unwrap()) as u64;
                (
                    u64::from_le_bytes(s[..8].try_into().unwrap()),
                    len,
                    u32::from_le_bytes(s[12..].try_into().unwrap()),
                )
            })
            .filter(|s| s.1 != 0)
            .collect();
        let mut data = data;
        if ud {
            let mut grh = vec![0x40u8; 40];
            grh.append(&mut data);
            data = grh;
        }
        let room: u64 = list.iter().map(|s| s.1).sum();
        let mut st = status::SUCCESS;
        if (data.len() as u64) > room {
            st = status::LOC_LEN;
        } else if !data.is_empty() {
            st = self.scatter(pc, ppd, &list, &data);
        }
        let op_in = if opcode == op::SEND_IMM {
            recv_op::SEND_IMM
        } else {
            recv_op::SEND
        };
        self.receive(peer, w, op_in, data.len() as u64, st, qpn);
        if st != status::SUCCESS {
            self.qps.get_mut(&peer).unwrap().state = qp_state::ERR;
            return Some(if st == status::LOC_LEN {
                status::REM_INV_REQ
            } else {
                status::REM_OP
            });
        }
        Some(status::SUCCESS)
    }

    fn has_recv(&self, qpn: u32) -> bool {
        self.qps[&qpn].pi[1] != self.qps[&qpn].ci[1]
    }

    fn receive(&mut self, qpn: u32, w: &[u8], opcode: u8, len: u64, st: Status, src: u32) {
        let q = self.qps.get_mut(&qpn).unwrap();
        let index = q.ci[1];
        q.ci[1] = index.wrapping_add(1 << q.stride);
        q.rq_psn = (q.rq_psn + 1) & 0xff_ffff;
        let ud = q.kind == qp_type::UD;
        self.complete(qpn, 1, |e| {
            cqe::opcode.put(e, opcode as u64);
            cqe::index.put(e, index as u64);
            cqe::status.put(e, st as u64);
            cqe::length.put(e, len);
            cqe::solicited.put(e, sq::solicited.get(w));
            cqe::grh.put(e, ud as u64);
            cqe::src_qp.put(e, if ud { src as u64 } else { 0 });
            if opcode != recv_op::SEND {
                cqe::with_imm.put(e, 1);
                cqe::imm.put(e, sq::imm.get(w));
            }
        });
    }

    fn gather(
        &mut self,
        c: usize,
        pd: u64,
        w: &[u8],
        ud: bool,
        len: u64,
    ) -> Result<Vec<u8>, Status> {
        if sq::inline.get(w) != 0 {
            return Ok(w[32..32 + len as usize].to_vec());
        }
        let mut data = Vec::new();
        for (va, n, key) in Self::sges(w, ud) {
            let m = self
                .mrs
                .get(&key)
                .filter(|m| m.allows(c, pd, va, n, 0))
                .cloned()
                .ok_or(status::LOC_PROT)?;
            data.extend(m.read(self.link(c), va, n).ok_or(status::LOC_PROT)?);
        }
        assert_eq!(data.len() as u64, len);
        Ok(data)
    }

    fn scatter(&mut self, c: usize, pd: u64, list: &[(u64, u64, u32)], data: &[u8]) -> Status {
        let mut at = 0;
        for &(va, n, key) in list {
            let n = n.min((data.len() - at) as u64);
            let ok = |m: &&Mr| m.allows(c, pd, va, n, LOCAL_WRITE);
            let Some(m) = self.mrs.get(&key).filter(ok).cloned() else {
                return status::LOC_PROT;
            };
            if m.write(self.link(c), va, &data[at..at + n as usize])
                .is_none()
            {
                return status::LOC_PROT;
            }
            at += n as usize;
        }
        status::SUCCESS
    }
}
