//! A card with raw packet queues only, and a network with faults.
use super::link::{listen, Link};
use metaroce_hdl_spec::hostmsg::{Head, Kind};
use metaroce_hdl_spec::regs::{self, admin, doorbell, raw_head, raw_ring, raw_rx, raw_tx, PAGE};
use metaroce_hdl_spec::HOST_ABI_MAJOR;
use metaroce_protocol::{icrc, Frame};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// What the network does to frames, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Net {
    pub seed: u64,
    pub lose: u64,
    pub double: u64,
    /// Held back until up to three others have passed.
    pub delay: u64,
}

/// Frames that were sent, and what became of them.
#[derive(Debug, Default)]
pub struct Counts {
    pub sent: AtomicU64,
    pub lost: AtomicU64,
    pub full: AtomicU64,
}

#[derive(Clone, Copy, Default)]
struct Ring {
    base: u64,
    log: u32,
    on: bool,
    index: u16,
    ci: u16,
    armed: bool,
}

struct Client {
    link: Option<Link>,
    card: u32,
    pasid: u32,
    tx: Ring,
    rx: Ring,
}

pub struct RawServer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    pub counts: Arc<Counts>,
}

impl RawServer {
    pub fn start(path: &Path, net: Net) -> RawServer {
        let listener = listen(path);
        let (stop, counts) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Counts::default()),
        );
        let (s, c) = (stop.clone(), counts.clone());
        let thread = std::thread::spawn(move || {
            Wire {
                clients: vec![],
                net,
                random: net.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
                late: VecDeque::new(),
                counts: c,
                began: Instant::now(),
            }
            .run(listener, &s)
        });
        RawServer {
            stop,
            thread: Some(thread),
            counts,
        }
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

struct Wire {
    clients: Vec<Client>,
    net: Net,
    random: u64,
    /// Frames that are held back, and how many are to pass them.
    late: VecDeque<(u32, Vec<u8>)>,
    counts: Arc<Counts>,
    began: Instant,
}

/// MAC of card `i`, which has the address 10.0.0.i+1.
fn mac(card: u32) -> [u8; 6] {
    [2, 0x4d, 0x52, 0, 0, 1 + card as u8]
}

impl Wire {
    fn chance(&mut self, thousandths: u64) -> bool {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % 1000 < thousandths
    }

    fn run(mut self, listener: OwnedFd, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let mut busy = false;
            let ns = self.began.elapsed().as_nanos() as u64;
            for i in 0..self.clients.len() {
                if let Some(l) = &self.clients[i].link {
                    l.set_time(ns);
                }
                busy |= self.serve(i);
            }
            if busy {
                continue;
            }
            // nothing else will pass them
            while let Some((_, f)) = self.late.pop_front() {
                self.deliver(&f);
            }
            self.sleep(&listener);
        }
    }

    fn sleep(&mut self, listener: &OwnedFd) {
        let pollfd = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut fds = vec![pollfd(listener.as_raw_fd())];
        let mut missed = false;
        for l in self.clients.iter().filter_map(|c| c.link.as_ref()) {
            l.sleeping(1);
            missed |= l.has_doorbell();
            fds.push(pollfd(l.socket.as_raw_fd()));
        }
        // card time goes on, in steps
        let ms = if missed { 0 } else { 2 };
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as u64, ms) };
        for l in self.clients.iter().filter_map(|c| c.link.as_ref()) {
            l.sleeping(0);
        }
        if fds[0].revents != 0 {
            // as on the cards: each counts its own processes
            let used: Vec<(u32, u32)> = self.clients.iter().map(|c| (c.card, c.pasid)).collect();
            let accepted = Link::accept_with(listener.as_raw_fd(), |card| {
                let free = |p: &u32| !used.contains(&(card, *p));
                (1..64).find(free).expect("few programs")
            });
            if let Some((l, card, pasid)) = accepted {
                self.clients.push(Client {
                    link: Some(l),
                    card,
                    pasid,
                    tx: Ring::default(),
                    rx: Ring::default(),
                });
            }
        }
    }

    fn serve(&mut self, i: usize) -> bool {
        let mut busy = false;
        while let Some((h, data)) = self.clients[i].link.as_mut().and_then(Link::message) {
            busy = true;
            let answer = |kind, arg: u64, status| Head {
                kind,
                arg,
                status,
                len: 0,
                ..h
            };
            let a = match h.kind {
                Kind::MmioRead => {
                    let v = match h.addr as u32 {
                        admin::ID => admin::ID_VALUE,
                        admin::ABI => HOST_ABI_MAJOR << 16,
                        admin::LIMIT_MR_QP | admin::LIMIT_CQ_PD => 0xFFFF_FFFF,
                        admin::LINK => 1,
                        admin::MAX_PASID => 63,
                        admin::FEATURES => admin::FEATURE_RAW,
                        _ => 0,
                    };
                    answer(Kind::MmioReadDone, v as u64, 0)
                }
                Kind::Neighbor => {
                    let last = data[15];
                    let gone = data[12..] == [10, 0, 0, 99];
                    let m = mac(last.wrapping_sub(1) as u32);
                    let arg = u64::from_le_bytes([m[0], m[1], m[2], m[3], m[4], m[5], 0, 0]);
                    let status = if gone { libc::EHOSTUNREACH as u16 } else { 0 };
                    answer(Kind::NeighborDone, arg, status)
                }
                Kind::Wake => continue,
                k => panic!("unexpected {k:?}"),
            };
            self.clients[i].link.as_mut().unwrap().send(&a, &[]);
        }
        while let Some((offset, v)) = self.clients[i].link.as_mut().and_then(Link::doorbell) {
            busy = true;
            assert_eq!(
                offset / PAGE as u64,
                self.clients[i].pasid as u64,
                "its own page"
            );
            self.rung(i, offset as u32 % PAGE, &v);
        }
        let c = &mut self.clients[i];
        if c.link.as_ref().is_some_and(|l| l.gone) {
            *c = Client {
                link: None,
                card: u32::MAX,
                pasid: 0,
                tx: Ring::default(),
                rx: Ring::default(),
            };
        }
        busy
    }

    fn rung(&mut self, i: usize, reg: u32, v: &[u8]) {
        let c = &mut self.clients[i];
        match reg {
            doorbell::RAW_TX_RING | doorbell::RAW_RX_RING => {
                let r = Ring {
                    base: raw_ring::base.get(v) << 12,
                    log: raw_ring::log.get(v) as u32,
                    on: raw_ring::enable.get(v) != 0,
                    ..Ring::default()
                };
                if reg == doorbell::RAW_TX_RING {
                    c.tx = r;
                } else {
                    c.rx = r;
                }
            }
            doorbell::RAW_TX => {
                let (index, len) = (raw_tx::index.get(v) as u16, raw_tx::len.get(v) as usize);
                assert!(
                    c.tx.on && index == c.tx.index,
                    "frames in the order of the ring"
                );
                let legal = regs::RAW_TX_MIN as usize..=regs::RAW_TX_MAX as usize;
                assert!(legal.contains(&len), "{len} bytes");
                let slots = 1u64 << c.tx.log;
                let at = c.tx.base + (index as u64 & (slots - 1)) * regs::RAW_SLOT as u64;
                let link = c.link.as_mut().unwrap();
                let mut frame = link.read(at, len).expect("the ring is there");
                c.tx.index = index.wrapping_add(1);
                let mut done = [0u8; 64];
                regs::raw_done::done.put(&mut done, c.tx.index as u64);
                link.write(c.tx.base + slots * regs::RAW_SLOT as u64, &done);
                // the ICRC, as the card makes it
                frame.extend([0; 4]);
                let f = Frame::new_without_icrc(&frame).expect("a RoCEv2 frame");
                let b = f.ip.as_bytes();
                let crc = icrc::compute(&b[..b.len() - 4]).unwrap();
                let n = frame.len();
                frame[n - 4..].copy_from_slice(&crc.to_le_bytes());
                self.send(frame);
            }
            doorbell::RAW_RX => {
                c.rx.ci = raw_rx::ci.get(v) as u16;
                c.rx.armed = raw_rx::arm.get(v) != 0;
                if c.rx.armed && c.rx.index != c.rx.ci {
                    self.interrupt(i);
                }
            }
            r => panic!("doorbell {r:#x} on a card without transport"),
        }
    }

    fn interrupt(&mut self, i: usize) {
        let c = &mut self.clients[i];
        c.rx.armed = false;
        if let Some(l) = &mut c.link {
            l.send(&Head::new(Kind::Interrupt), &[]);
        }
    }

    fn send(&mut self, frame: Vec<u8>) {
        self.counts.sent.fetch_add(1, Ordering::Relaxed);
        let net = self.net;
        if self.chance(net.lose) {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for l in &mut self.late {
            l.0 = l.0.saturating_sub(1);
        }
        if self.chance(net.delay) {
            let passes = 1 + (self.random >> 40) as u32 % 3;
            self.late.push_back((passes, frame));
        } else {
            if self.chance(net.double) {
                self.deliver(&frame);
            }
            self.deliver(&frame);
        }
        while self.late.front().is_some_and(|l| l.0 == 0) {
            let (_, f) = self.late.pop_front().unwrap();
            self.deliver(&f);
        }
    }

    fn deliver(&mut self, frame: &[u8]) {
        let f = Frame::new_checked(frame).expect("a frame with an ICRC");
        let pasid = f.roce.dest_qpn() >> regs::RAW_QPN_BITS;
        let to = |c: &Client| c.pasid == pasid && mac(c.card)[..] == frame[..6] && c.rx.on;
        let Some(i) = self.clients.iter().position(to) else {
            return;
        };
        let c = &mut self.clients[i];
        let slots = 1u16 << c.rx.log;
        if c.rx.index.wrapping_sub(c.rx.ci) == slots {
            self.counts.full.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Some(link) = &mut c.link else { return };
        let slot = (c.rx.index & (slots - 1)) as u64;
        let at = c.rx.base + slot * regs::RAW_SLOT as u64;
        let len = frame.len() - 4;
        link.write(at + regs::RAW_RX_FRAME as u64, &frame[..len]);
        let mut head = [0u8; 64];
        raw_head::len.put(&mut head, len as u64);
        raw_head::phase.put(&mut head, (!(c.rx.index >> c.rx.log) & 1) as u64);
        // the first word has length and phase: the others are there before
        link.write(at, &head);
        c.rx.index = c.rx.index.wrapping_add(1);
        if c.rx.armed {
            self.interrupt(i);
        }
    }
}
