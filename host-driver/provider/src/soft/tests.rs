//! Frames that nobody sends: the engine lives with its network, which may do anything.
use super::clock::Clock;
use super::engine::{Engine, Port};
use super::raw::Rings;
use super::rng::Rng;
use crate::card::dma::Memory;
use crate::card::{Card, Dma, Errno, Events};
use metaroce_hdl_spec::cmd::{self, op};
use metaroce_hdl_spec::cqe::cqe;
use metaroce_hdl_spec::regs::{db_queue, doorbell, raw_tx, RAW_SLOT};
use metaroce_hdl_spec::table::qp_type;
use metaroce_hdl_spec::wqe::{self, sq};
use metaroce_protocol::qp::{attr, QpState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A raw card whose frames are kept.
#[derive(Default)]
struct Kept {
    frames: Mutex<Vec<Vec<u8>>>,
    ring: Mutex<u64>,
    /// It does not say how far it is.
    silent: AtomicBool,
}

fn pages(bytes: usize) -> *mut u8 {
    let layout = std::alloc::Layout::from_size_align(bytes, 4096).unwrap();
    // SAFETY: not empty; it stays for the rest of the process.
    unsafe { std::alloc::alloc_zeroed(layout) }
}

impl Card for Kept {
    fn doorbell(&self, reg: u32, value: u64) {
        let v = value.to_le_bytes();
        match reg {
            doorbell::RAW_TX_RING => *self.ring.lock().unwrap() = value & !0xfff,
            doorbell::RAW_TX => {
                let at = raw_tx::index.get(&v) % 256 * RAW_SLOT as u64;
                let (base, len) = (*self.ring.lock().unwrap(), raw_tx::len.get(&v) as usize);
                // SAFETY: a slot of the ring, and behind all of them how far this card is.
                unsafe {
                    let slot = std::slice::from_raw_parts((base + at) as *const u8, len + 4);
                    self.frames.lock().unwrap().push(slot.to_vec());
                    if self.silent.load(Ordering::Relaxed) {
                        return;
                    }
                    let done = (base + 256 * RAW_SLOT as u64) as *mut u64;
                    done.write((raw_tx::index.get(&v) + 1) & 0xffff);
                }
            }
            _ => {}
        }
    }
    fn direct(&self, _: u32, _: &[u8; 64]) {}
    fn try_doorbell(&self, _: u32, _: u64) -> bool {
        true
    }
    fn register(&self, _: u32) -> Result<u32, Errno> {
        Ok(0)
    }
    fn alloc(&self, bytes: usize) -> Option<Dma> {
        let ptr = pages(bytes);
        Some(Dma {
            ptr,
            bus: ptr as u64,
            len: bytes,
        })
    }
    fn free(&self, _: Dma) {}
    fn neighbor(&self, _: [u8; 16]) -> Result<[u8; 6], Errno> {
        Ok([0; 6])
    }
    fn start(&self, _: Arc<dyn Events>) -> std::io::Result<()> {
        Ok(())
    }
    fn stop(&self) {}
}

fn gid(k: u8) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1 + k]
}

const BUFFER: usize = 16384;
/// Bytes around the region that nobody may touch.
const EDGE: usize = 4096;

struct Side {
    card: Arc<Kept>,
    e: Engine,
    block: *mut u8,
    mem: *mut u8,
    key: u32,
    pd: u32,
    cq: u32,
    qpn: u32,
    kind: u8,
    sq: *mut u8,
    pi: u16,
    cq_ring: *mut u8,
}

impl Side {
    fn new(k: u8) -> Side {
        let card = Arc::new(Kept::default());
        let rings = Rings::new(card.clone()).unwrap();
        rings.enable();
        let port = Port {
            gids: vec![gid(k)],
            mac: [2, 0, 0, 0, 0, k],
            mtu: 4300,
        };
        let memory = Memory::new().unwrap();
        let e = Engine::new(
            rings,
            memory,
            Clock::new(None),
            port,
            [0xffff; 4],
            1 + k as u32,
        );
        let mut s = Side {
            card,
            e,
            block: pages(cmd::BLOCK_BYTES),
            mem: pages(BUFFER + 2 * EDGE),
            key: 0,
            pd: 0,
            cq: 0,
            qpn: 0,
            kind: qp_type::RC,
            sq: pages(4096),
            pi: 0,
            cq_ring: pages(64 << 16),
        };
        let ring = s.cq_ring as u64;
        s.pd = s.command(op::ALLOC_PD, 0, |_| {});
        s.cq = s.command(op::CREATE_CQ, 0, |c| {
            cmd::create_cq::log.put(c, 16);
            cmd::create_cq::base.put(c, ring);
        });
        let list = pages(4096) as *mut u64;
        let (pd, first) = (s.pd, s.mem as u64 + EDGE as u64);
        for i in 0..BUFFER / 4096 {
            // SAFETY: room for 512.
            unsafe { list.add(i).write(first + 4096 * i as u64) };
        }
        s.key = s.command(op::REG_MR, 0, |c| {
            use cmd::reg_mr as f;
            f::pd.put(c, pd as u64);
            f::access.put(c, 15);
            f::page_shift.put(c, 12);
            f::list.put(c, list as u64);
            f::va.put(c, 0x10000);
            f::len.put(c, BUFFER as u64);
        });
        s
    }

    fn command(&mut self, opcode: u8, id: u32, fill: impl FnOnce(&mut [u8])) -> u32 {
        let mut c = [0u8; cmd::CMD_BYTES];
        fill(&mut c);
        cmd::head::opcode.put(&mut c, opcode as u64);
        cmd::head::seq.put(&mut c, 1);
        cmd::head::id.put(&mut c, id as u64);
        // SAFETY: the block has room for both.
        unsafe {
            core::ptr::copy_nonoverlapping(c.as_ptr(), self.block, c.len());
            self.e.rung(doorbell::CMD, self.block as u64);
            let r = std::slice::from_raw_parts(self.block.add(cmd::RESP_OFFSET), 64);
            assert_eq!(cmd::response::status.get(r), 0, "command {opcode}");
            cmd::response::id.get(r) as u32
        }
    }

    /// A new QP in place of the old one.
    fn renew(&mut self, kind: u8) {
        if self.qpn != 0 {
            self.command(op::DESTROY_QP, self.qpn, |_| {});
        }
        (self.pi, self.kind) = (0, kind);
        let (pd, cq, sq, rq) = (self.pd, self.cq, self.sq as u64, pages(4096) as u64);
        let (va, key) = (0x10000u64, self.key);
        self.qpn = self.command(op::CREATE_QP, 0, |c| {
            use cmd::create_qp as f;
            f::qp_type.put(c, kind as u64);
            f::sq_log.put(c, 6);
            f::rq_log.put(c, 6);
            f::pd.put(c, pd as u64);
            f::sq_base.put(c, sq);
            f::rq_base.put(c, rq);
            f::scq.put(c, cq as u64);
            f::rcq.put(c, cq as u64);
        });
        for i in 0..64u64 {
            // SAFETY: a unit of the ring of receives: one SGE of all the region.
            unsafe {
                let unit = (rq + 64 * i) as *mut u64;
                unit.write(va);
                unit.add(1).write(BUFFER as u64 | (key as u64) << 32);
            }
        }
    }

    fn modify(&mut self, k: u8, to: QpState, mask: u32, peer: u32) {
        self.command(op::MODIFY_QP, self.qpn, |c| {
            use cmd::modify_qp as f;
            f::mask.put(c, (mask | attr::STATE) as u64);
            f::next_state.put(c, to as u64);
            for right in [f::acc_write, f::acc_read, f::acc_atomic] {
                right.put(c, 1);
            }
            f::mtu.put(c, 3);
            f::timeout.put(c, 20);
            f::retry_cnt.put(c, 7);
            f::rnr_retry.put(c, 7);
            f::max_rd.put(c, 8);
            f::max_dest_rd.put(c, 8);
            f::port.put(c, 1);
            f::dqpn.put(c, peer as u64);
            f::dip.put_bytes(c, &gid(1 - k));
            f::hop_limit.put(c, 64);
        });
    }

    /// Whatever it is, a request.
    fn post(&mut self, rng: &mut Rng) {
        let n = rng.next();
        let ud = self.kind == qp_type::UD;
        let ops = [
            wqe::op::SEND,
            wqe::op::SEND_IMM,
            wqe::op::WRITE,
            wqe::op::WRITE_IMM,
            wqe::op::READ,
            wqe::op::CMP_SWAP,
            wqe::op::FETCH_ADD,
        ];
        let op = ops[n as usize % if ud { 2 } else { 7 }];
        let atomic = matches!(op, wqe::op::CMP_SWAP | wqe::op::FETCH_ADD);
        let len = if atomic {
            8
        } else {
            (n >> 8) as u64 % if ud { 1024 } else { 5000 }
        };
        self.request(op, len);
    }

    fn request(&mut self, op: u8, len: u64) {
        let mut unit = [0u8; 64];
        sq::opcode.put(&mut unit, op as u64);
        sq::signaled.put(&mut unit, 1);
        sq::num_sge.put(&mut unit, 1);
        sq::units.put(&mut unit, 1);
        sq::length.put(&mut unit, len);
        sq::index.put(&mut unit, self.pi as u64);
        sq::remote_va.put(&mut unit, 0x10000);
        sq::sge0_va.put(&mut unit, 0x10000);
        sq::sge0_len.put(&mut unit, len);
        sq::sge0_key.put(&mut unit, self.key as u64);
        sq::rkey.put(&mut unit, self.key as u64);
        // SAFETY: a unit of the ring.
        unsafe {
            let at = self.sq.add(self.pi as usize % 64 * 64);
            core::ptr::copy_nonoverlapping(unit.as_ptr(), at, 64);
        }
        self.pi = self.pi.wrapping_add(1);
        self.ring(doorbell::SQ, self.pi);
    }

    fn ring(&mut self, reg: u32, pi: u16) {
        let mut v = [0u8; 8];
        db_queue::qpn.put(&mut v, self.qpn as u64);
        db_queue::pi.put(&mut v, pi as u64);
        self.e.rung(reg, u64::from_le_bytes(v));
        self.e.transmit(64);
    }

    /// Completions so far, of the first lap.
    fn completions(&self) -> Vec<u64> {
        (0..64)
            // SAFETY: entries of the ring.
            .map(|i| unsafe { std::slice::from_raw_parts(self.cq_ring.add(64 * i), 64) })
            .take_while(|e| cqe::phase.get(e) == 1)
            .map(|e| cqe::status.get(e))
            .collect()
    }
}

/// A UC message has completed when the card has its frames, not when they are in the ring: a program may end right after it. What comes behind it waits, too,
/// and a QP that is destroyed leaves nothing.
#[test]
fn completions_wait_for_the_card() {
    let mut s = Side::new(0);
    let start = |s: &mut Side| {
        s.renew(qp_type::UC);
        let init = attr::PKEY_INDEX | attr::PORT | attr::ACCESS_FLAGS;
        s.modify(0, QpState::Init, init, 5);
        let rtr = attr::AV | attr::PATH_MTU | attr::DEST_QPN | attr::RQ_PSN;
        s.modify(0, QpState::Rtr, rtr, 5);
        s.modify(0, QpState::Rts, attr::SQ_PSN, 5);
    };
    start(&mut s);
    s.request(wqe::op::WRITE, 3000);
    s.e.release();
    assert_eq!(s.completions(), [0], "the card is as fast as this");
    s.card.silent.store(true, Ordering::Relaxed);
    s.request(wqe::op::WRITE, 3000);
    s.e.release();
    assert_eq!(s.completions(), [0]);
    // an error behind it, of a request that sends nothing
    s.request(wqe::op::READ, 8);
    s.e.release();
    assert_eq!(s.completions(), [0]);
    s.card.silent.store(false, Ordering::Relaxed);
    let sent = s.e.rings.sent();
    // SAFETY: behind the slots, as the card writes it.
    unsafe {
        let done = (*s.card.ring.lock().unwrap() + 256 * RAW_SLOT as u64) as *mut u64;
        done.write(sent as u64);
    }
    s.e.release();
    let all = s.completions();
    assert_eq!(all[..2], [0, 0], "{all:?}");
    assert!(all.len() > 2 && all[2] != 0, "{all:?}");
    start(&mut s);
    s.card.silent.store(true, Ordering::Relaxed);
    s.request(wqe::op::WRITE, 8);
    assert!(s.e.is_late(s.qpn));
    s.command(op::DESTROY_QP, s.qpn, |_| {});
    s.qpn = 0;
    assert!(s.e.late.is_empty());
}

#[test]
fn frames_that_nobody_sends() {
    let mut rng = Rng::from(0x5eed);
    let mut sides = [Side::new(0), Side::new(1)];
    // one key table entry for both, so that a request of one fits the other
    let mut seen = [0u64; 2];
    for round in 0..400u32 {
        let kind = [qp_type::RC, qp_type::RC, qp_type::UC, qp_type::UD][round as usize % 4];
        for s in &mut sides {
            s.renew(kind);
        }
        let numbers = [sides[0].qpn, sides[1].qpn];
        let keys = [sides[0].key, sides[1].key];
        let (ud, rc) = (kind == qp_type::UD, kind == qp_type::RC);
        for (k, s) in sides.iter_mut().enumerate() {
            let peer = numbers[1 - k];
            let init = attr::PKEY_INDEX | attr::PORT;
            s.modify(
                k as u8,
                QpState::Init,
                init | if ud { attr::QKEY } else { attr::ACCESS_FLAGS },
                peer,
            );
            s.ring(doorbell::RQ, 64);
            let rtr = attr::AV | attr::PATH_MTU | attr::DEST_QPN | attr::RQ_PSN;
            let more = if rc {
                attr::MAX_DEST_RD_ATOMIC | attr::MIN_RNR_TIMER
            } else {
                0
            };
            s.modify(k as u8, QpState::Rtr, if ud { 0 } else { rtr | more }, peer);
            let more = attr::TIMEOUT | attr::RETRY_CNT | attr::RNR_RETRY | attr::MAX_QP_RD_ATOMIC;
            s.modify(
                k as u8,
                QpState::Rts,
                attr::SQ_PSN | if rc { more } else { 0 },
                peer,
            );
        }
        for _ in 0..60 {
            for k in 0..2 {
                if sides[k].pi < 60 {
                    sides[k].post(&mut rng);
                }
                let frames = core::mem::take(&mut *sides[k].card.frames.lock().unwrap());
                for mut f in frames {
                    // headers of a frame of 14 + 20 + 8 bytes in front of the BTH
                    let n = rng.next();
                    // the key of the other side's region, if it has one and is left alone
                    let old = keys[k].to_be_bytes();
                    if let Some(at) = f.windows(4).position(|w| w == old) {
                        f[at..at + 4].copy_from_slice(&keys[1 - k].to_be_bytes());
                    }
                    if ud && f.len() > 50 {
                        f[47] = (numbers[1 - k] >> 16) as u8;
                        f[48..50].copy_from_slice(&(numbers[1 - k] as u16).to_be_bytes());
                    }
                    let wild = n % 4 == 0;
                    if wild {
                        for _ in 0..1 + n / 4 % 3 {
                            let at = rng.next() as usize % f.len().min(100);
                            f[at] = rng.next() as u8;
                        }
                        if n / 16 % 4 == 0 {
                            let keep = rng.next() as usize % f.len();
                            f.truncate(keep);
                        }
                    }
                    sides[1 - k].e.frame(&f);
                    if n % 16 == 1 {
                        sides[1 - k].e.frame(&f);
                    }
                    seen[wild as usize] += 1;
                }
                sides[1 - k].e.transmit(64);
                sides[k].e.clock.look();
                sides[k].e.fire_timers();
            }
        }
        for s in &sides {
            // SAFETY: both edges of the memory.
            let edges = unsafe {
                [s.mem, s.mem.add(EDGE + BUFFER)].map(|p| std::slice::from_raw_parts(p, EDGE))
            };
            assert!(
                edges.iter().all(|e| e.iter().all(|b| *b == 0)),
                "round {round}"
            );
        }
    }
    println!("{seen:?} frames, whole and not");
    assert!(seen.iter().all(|n| *n > 3000), "{seen:?}");
}
