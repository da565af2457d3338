//! Simulator for real processes: one thread per card, a listening socket, sleep when nothing happens.
//!
//! Time: the cards run in slices of [`SLICE_CYCLES`] (less than the fabric delay, so no frame is late).
//! When everything is silent the simulator sleeps; timers of the cards then run at wall-clock speed,
//! so that a peer that is slow to start is not timed out early.

use crate::{
    barrier::SpinBarrier,
    client::{Arena, Client, ClientMemory, Unmapped},
    door::{Door, Hello},
    fabric::{Fabric, FabricStats},
    hostport::HostPortStats,
    node::{MmioWrite, Node},
    sim::{admin_command, CardId, Sim, SimConfig},
};
use anyhow::Context;
use metaroce_hdl_spec::{
    cmd,
    config::Config,
    hostmsg::{Head, Kind, HEAD_BYTES},
    regs,
};
use serde::Serialize;
use std::{
    fs::File,
    io::Write,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        Arc, Mutex,
    },
    thread,
    time::{Duration, Instant},
};

/// Cycles between two exchanges of frames: 397 ns at 322 MHz, under the fabric delay of 500 ns.
pub const SLICE_CYCLES: u64 = 128;

/// Cycles after which nothing is under way that the card had begun for a process before its rings were turned off, at 100 Gb/s: the buffers hold 20 us of
/// frames.
const RINGS_OFF: u64 = 20_000;

/// Silence after which the cards' threads sleep, too.
const SOON_NS: u64 = 2_000_000;

pub struct ServerConfig {
    pub sim: SimConfig,
    pub socket: PathBuf,
    pub pcap: Option<PathBuf>,
    /// Directory for FST dumps (needs the `trace` feature).
    pub trace: Option<PathBuf>,
    /// Use process_vm_* where the kernel allows it.
    pub direct_dma: bool,
    /// The programs' clocks show card time: give them a moment to see what the card did before it goes on.
    pub card_time: bool,
    /// File for what happens (clients that come, leave, are refused); None = stderr.
    pub log: Option<PathBuf>,
}

/// What one card did, for tables and JSON.
#[derive(Debug, Clone, Serialize)]
pub struct CardReport {
    pub card: usize,
    pub cycles: u64,
    pub counters: Vec<(String, u64)>,
    pub host: HostPortStats,
    /// Doorbell -> remote memory, ns of card time, as seen by this (receiving) card.
    pub latency_ns: Option<Percentiles>,
    /// Wall seconds in which the card waited for a client's agent.
    pub agent_wait_s: f64,
    /// Doorbells that a client may not write.
    pub refused_accesses: u64,
    /// DMA to or from memory that a client had registered and then unmapped or protected.
    pub unmapped_accesses: u64,
    /// The programs that did so.
    pub unmapped: Vec<Unmapped>,
    pub clients: Vec<String>,
}

#[derive(Debug, Clone, Copy, Serialize, PartialEq, Eq)]
pub struct Percentiles {
    pub samples: usize,
    pub min: u32,
    pub p50: u32,
    pub p99: u32,
    pub max: u32,
}

pub fn percentiles(mut v: Vec<u32>) -> Option<Percentiles> {
    if v.is_empty() {
        return None;
    }
    v.sort_unstable();
    // Nearest rank: as many per cent are at most this.
    let at = |q: usize| v[(v.len() * q).div_ceil(100).max(1) - 1];
    Some(Percentiles {
        samples: v.len(),
        min: v[0],
        p50: at(50),
        p99: at(99),
        max: v[v.len() - 1],
    })
}

#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub config: SimConfig,
    pub card_time_ns: u64,
    pub wall_s: f64,
    /// Wall seconds in which the cards were clocked.
    pub busy_s: f64,
    pub fabric: FabricStats,
    pub cards: Vec<CardReport>,
}

/// A handle to stop the server and read its state.
#[derive(Clone)]
pub struct Control {
    shared: Arc<Shared>,
}

impl Control {
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
    }
    pub fn clients(&self) -> usize {
        self.shared.clients.load(Ordering::SeqCst)
    }
    /// Takes a card's link up or down; false = there is no such card. It happens between two slices.
    pub fn link(&self, card: usize, up: bool) -> bool {
        let slot = self.shared.slots.get(card);
        if let Some(s) = slot {
            let mut s = s.lock().expect("no panics while locked");
            s.link = Some(up);
            s.link_down = !up;
        }
        slot.is_some()
    }
    /// Cards whose link was taken down.
    pub fn links_down(&self) -> Vec<usize> {
        let down = |s: &Mutex<Slot>| s.lock().expect("no panics while locked").link_down;
        let s = &self.shared.slots;
        (0..s.len()).filter(|k| down(&s[*k])).collect()
    }
    /// Frames that have been on the wire.
    pub fn frames(&self) -> u64 {
        self.shared.frames.load(Ordering::Relaxed)
    }
    /// Card time, ns.
    pub fn now_ns(&self) -> u64 {
        self.shared.target_ps.load(Ordering::SeqCst) / 1000
    }
    /// Counters and totals of every card as they are now (takes up to a few slices).
    pub fn reports(&self) -> Vec<CardReport> {
        let s = &self.shared;
        for slot in &s.slots {
            slot.lock().expect("no panics while locked").want_report = true;
        }
        let mut v = vec![];
        for slot in &s.slots {
            for _ in 0..2000 {
                let r = slot.lock().expect("no panics while locked").report.take();
                if r.is_some() || s.stop.load(Ordering::SeqCst) {
                    v.extend(r);
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
        v
    }
    /// Starts (Some) or ends a capture of the wire; the file is complete when this returns.
    pub fn capture(&self, path: Option<PathBuf>) {
        let wish = || self.shared.capture.lock().expect("no panics while locked");
        *wish() = Some(path);
        // The leader holds the lock while it carries the wish out, between two slices.
        for _ in 0..2000 {
            if wish().is_none() || self.shared.stop.load(Ordering::SeqCst) {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Shared {
    /// Somebody wants the simulation to end.
    stop: AtomicBool,
    /// The leader has seen that; all threads leave after the same slice.
    ending: AtomicBool,
    clients: AtomicUsize,
    frames: AtomicU64,
    /// Start and end of the coming slice, card time. The start lies behind the end of the last one after a sleep.
    base_ps: AtomicU64,
    target_ps: AtomicU64,
    /// Silence so far that a program ended: card time that its clock does not show.
    waited_ps: AtomicU64,
    barrier: SpinBarrier,
    slots: Vec<Mutex<Slot>>,
    ids: Vec<CardId>,
    hw: Vec<&'static Config>,
    direct: bool,
    card_time: bool,
    log: Option<Mutex<File>>,
    /// A wish to start or end a capture.
    capture: Mutex<Option<Option<PathBuf>>>,
}

impl Shared {
    fn log(&self, line: std::fmt::Arguments) {
        match &self.log {
            // A full disk must not end the simulation.
            Some(f) => {
                let t = self.target_ps.load(Ordering::Relaxed) / 1000;
                let _ = writeln!(f.lock().expect("no panics while locked"), "{t} ns: {line}");
            }
            None => eprintln!("metaroce: {line}"),
        }
    }
}

/// What a card's thread and the leader exchange between slices.
#[derive(Default)]
struct Slot {
    joining: Vec<(OwnedFd, i32, Hello)>,
    out: Vec<crate::fabric::Frame>,
    inbox: Vec<(u64, crate::fabric::Frame)>,
    idle: bool,
    /// When the card had nothing left to do in this slice.
    done_ps: u64,
    next_event: Option<u64>,
    now_ps: u64,
    fds: Vec<RawFd>,
    /// A wish to write LINK.
    link: Option<bool>,
    /// What the last such wish was.
    link_down: bool,
    want_report: bool,
    report: Option<CardReport>,
}

/// Runs the simulation until `Control::stop`. `ready` gets the control handle once clients may connect.
pub fn serve(cfg: &ServerConfig, ready: impl FnOnce(Control)) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let door = Door::open(&cfg.socket)?;
    let mut sim = Sim::new(&cfg.sim, |_| Box::new(ClientMemory::default()));
    if let Some(p) = &cfg.pcap {
        sim.fabric.record(p)?;
    }
    if let Some(dir) = &cfg.trace {
        for (k, n) in sim.nodes.iter_mut().enumerate() {
            let f = dir.join(format!("card{k}.fst"));
            anyhow::ensure!(
                n.trace(&f.display().to_string()),
                "can't write {}: was this built with the trace feature?",
                f.display()
            );
        }
    }
    let n = sim.nodes.len();
    let shared = Arc::new(Shared {
        stop: AtomicBool::new(false),
        ending: AtomicBool::new(false),
        clients: AtomicUsize::new(0),
        frames: AtomicU64::new(0),
        base_ps: AtomicU64::new(0),
        target_ps: AtomicU64::new(sim.now_ps()),
        barrier: SpinBarrier::new(n),
        slots: (0..n).map(|_| Mutex::default()).collect(),
        ids: sim.ids.clone(),
        hw: sim.hw.clone(),
        direct: cfg.direct_dma,
        card_time: cfg.card_time,
        waited_ps: AtomicU64::new(0),
        log: match &cfg.log {
            Some(p) => Some(Mutex::new(File::create(p).with_context(|| {
                format!("can't write {} (is the disk full?)", p.display())
            })?)),
            None => None,
        },
        capture: Mutex::new(None),
    });
    ready(Control {
        shared: shared.clone(),
    });

    let Sim { nodes, fabric, .. } = sim;
    let mut leader = Some(Leader {
        fabric,
        door,
        busy: Duration::ZERO,
        drowsy: false,
    });
    let mut reports = vec![];
    let mut last = None;
    thread::scope(|s| {
        let handles: Vec<_> = nodes
            .into_iter()
            .enumerate()
            .map(|(k, node)| {
                let shared = shared.clone();
                let lead = if k == 0 { leader.take() } else { None };
                thread::Builder::new()
                    .name(format!("card{k}"))
                    .spawn_scoped(s, move || worker(k, node, &shared, lead))
                    .expect("a thread per card")
            })
            .collect();
        for h in handles {
            match h.join() {
                Ok((r, l)) => {
                    reports.push(r);
                    last = last.take().or(l);
                }
                Err(p) => std::panic::resume_unwind(p),
            }
        }
    });
    let mut leader = last.expect("card 0 leads");
    leader.fabric.finish();
    let _ = std::fs::remove_file(&cfg.socket);
    Ok(Report {
        config: cfg.sim,
        card_time_ns: shared.target_ps.load(Ordering::SeqCst) / 1000,
        wall_s: begun.elapsed().as_secs_f64(),
        busy_s: leader.busy.as_secs_f64(),
        fabric: leader.fabric.stats,
        cards: reports,
    })
}

/// What only the leading thread does: the fabric, new clients, sleeping.
struct Leader {
    fabric: Fabric,
    door: Door,
    busy: Duration,
    /// The last thing that happened was a long silence.
    drowsy: bool,
}

fn worker(
    k: usize,
    mut node: Node,
    shared: &Shared,
    mut lead: Option<Leader>,
) -> (CardReport, Option<Leader>) {
    // A panic here must not leave the other cards at the barrier.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if thread::panicking() {
                eprintln!("metaroce: the simulator stopped because a card misbehaved (message above); the log and wire.pcap show what led to it");
                std::process::exit(3);
            }
        }
    }
    let _bomb = Bomb;
    let slice_ps = SLICE_CYCLES * node.period_ps();
    loop {
        let t0 = Instant::now();
        let target = shared.target_ps.load(Ordering::Acquire);
        slice(k, &mut node, shared, target);
        shared.barrier.wait();
        if let Some(l) = &mut lead {
            l.busy += t0.elapsed();
            l.between(shared, slice_ps);
        }
        shared.barrier.wait();
        if shared.ending.load(Ordering::Acquire) {
            break;
        }
    }
    (finish(k, node, shared), lead)
}

fn clients(node: &mut Node) -> &mut ClientMemory {
    node.mem
        .any()
        .downcast_mut()
        .expect("a server's memory is its clients")
}

/// Serves this card's clients and runs it up to `target`.
fn slice(k: usize, node: &mut Node, shared: &Shared, target: u64) {
    let (joining, inbox, link) = {
        let mut s = shared.slots[k].lock().expect("no panics while locked");
        (
            std::mem::take(&mut s.joining),
            std::mem::take(&mut s.inbox),
            s.link.take(),
        )
    };
    // All cards were silent up to here; what the host wants now happens now.
    node.skip_to(shared.base_ps.load(Ordering::Acquire));
    for (at, f) in inbox {
        node.deliver(at, f);
    }
    for (fd, pid, h) in joining {
        join(k, node, shared, fd, pid, h);
    }
    if let Some(up) = link {
        let w = MmioWrite::u32(regs::admin::LINK, up as u32);
        node.mmio.push_back(w);
        shared.log(format_args!(
            "link of card {k}: {}",
            if up { "up" } else { "down" }
        ));
    }
    serve_clients(k, node, shared);
    let doorbells = |node: &mut Node| {
        let mut q = std::mem::take(&mut node.mmio);
        let mut any = false;
        for c in clients(node).clients.values_mut() {
            any |= c.doorbells(64usize.saturating_sub(q.len()), &mut q);
        }
        node.mmio = q;
        any
    };
    doorbells(node);
    let waited = shared.waited_ps.load(Ordering::Acquire);
    let written = node.host.stats.writes;
    let mut done_ps = None;
    while node.now_ps < target {
        if node.idle() && node.next_event_ps().is_none_or(|t| t > target) {
            // Silence inside the slice costs nothing; the host still gets its turn in the next one.
            done_ps = Some(node.now_ps);
            node.skip_to(target);
            node.step();
            break;
        }
        for _ in 0..16 {
            node.step();
        }
        let ns = node.now_ps.saturating_sub(waited) / 1000;
        for c in clients(node).clients.values() {
            c.set_time(ns);
        }
        doorbells(node);
    }
    // A frame that says that data was placed (an ACK) must not be seen before the data.
    let told = !node.sent.is_empty();
    let mem = clients(node);
    for c in mem.clients.values_mut() {
        if told {
            mem.waited += c.settle();
        } else {
            c.flush();
        }
    }
    if shared.card_time && node.host.stats.writes != written {
        patience(|| doorbells(node));
    }
    let mut idle = node.idle() && clients(node).clients.values().all(|c| !c.busy());
    if idle {
        for c in clients(node).clients.values() {
            c.set_sleeping(true);
        }
        idle = !doorbells(node);
    }
    if !idle {
        for c in clients(node).clients.values() {
            c.set_sleeping(false);
        }
    }
    let fds = clients(node).clients.values().map(Client::fd).collect();
    let wanted = std::mem::take(
        &mut shared.slots[k]
            .lock()
            .expect("no panics while locked")
            .want_report,
    );
    let made = wanted.then(|| report(k, node));
    let mut s = shared.slots[k].lock().expect("no panics while locked");
    s.out.append(&mut node.sent);
    s.idle = idle;
    s.done_ps = done_ps.unwrap_or(node.now_ps);
    s.next_event = node.next_event_ps();
    s.now_ps = node.now_ps;
    s.fds = fds;
    if made.is_some() {
        s.report = made;
    }
}

/// A program answers in no time of its own clock: the simulation waits up to 200 us of wall time for its doorbell.
fn patience(mut doorbell: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !doorbell() && begun.elapsed() < Duration::from_micros(200) {
        thread::sleep(Duration::from_micros(10));
    }
}

/// Messages, register reads, neighbours, and clients that have gone.
fn serve_clients(k: usize, node: &mut Node, shared: &Shared) {
    let mut reads = vec![];
    let mut gone = vec![];
    for (pasid, c) in &mut clients(node).clients {
        c.pump();
        while let Some((tag, g)) = c.neighbors.pop_front() {
            let found = shared.ids.iter().find(|id| id.gids().contains(&g));
            let mut h = Head {
                tag,
                ..Head::new(Kind::NeighborDone)
            };
            match found {
                Some(id) => {
                    let mut m = [0u8; 8];
                    m[..6].copy_from_slice(&id.mac);
                    h.arg = u64::from_le_bytes(m);
                }
                None => h.status = libc::EHOSTUNREACH as u16,
            }
            c.send(&h, &[]);
        }
        reads.extend(
            c.mmio_reads
                .drain(..)
                .map(|(tag, addr)| (*pasid, tag, addr)),
        );
        if c.dead.is_some() {
            gone.push(*pasid);
        }
    }
    for (pasid, tag, addr) in reads {
        // The administrator's page is read-only for clients, and there is the ROM; other pages have no readable registers.
        use regs::{BAR_BITS, PAGE, ROM_BASE};
        let v = if addr < PAGE || (ROM_BASE..1 << BAR_BITS).contains(&addr) {
            node.mmio_read(addr & !3)
        } else {
            u32::MAX
        };
        if let Some(c) = clients(node).clients.get_mut(&pasid) {
            c.send(
                &Head {
                    tag,
                    arg: v as u64,
                    ..Head::new(Kind::MmioReadDone)
                },
                &[],
            );
        }
    }
    for pasid in gone {
        // DMA has stopped with `dead`; the card forgets the process before its PASID is used again.
        let r = if shared.hw[k].transport {
            let mut b = [0u8; cmd::CMD_BYTES];
            admin_command(node, cmd::op::TEARDOWN, pasid as u32, &mut b)
        } else {
            rings_off(node, pasid);
            0
        };
        let c = clients(node).remove(pasid);
        if let Some(u) = c.unmapped() {
            shared.log(format_args!("{u}"));
        }
        shared.clients.fetch_sub(1, Ordering::SeqCst);
        shared.log(format_args!(
            "client {} (pid {}) left: {}{}",
            c.name,
            c.pid,
            c.dead.as_deref().unwrap_or(""),
            if r == 0 {
                String::new()
            } else {
                format!("; TEARDOWN answered {r}")
            }
        ));
    }
}

/// Turns the raw rings of a process off; when this returns the card does nothing more for it. Frames that the process had asked for are sent first.
fn rings_off(node: &mut Node, pasid: u16) {
    for at in [regs::doorbell::RAW_TX_RING, regs::doorbell::RAW_RX_RING] {
        let a = pasid as u32 * regs::PAGE + at;
        node.mmio.push_back(MmioWrite::u64(a, 0));
    }
    while !node.mmio.is_empty() {
        node.step();
    }
    // A frame in the receive buffer is written, a read answered, within this time.
    for _ in 0..RINGS_OFF * 100_000 / node.rate_mbps() {
        node.step();
        if node.idle() {
            break;
        }
    }
}

fn join(k: usize, node: &mut Node, shared: &Shared, fd: OwnedFd, pid: i32, h: Hello) {
    let refuse = |status: i32, why: String| {
        let m = message(
            &Head {
                status: status as u16,
                ..Head::new(Kind::HelloAck)
            },
            why.as_bytes(),
        );
        // SAFETY: buffer and length belong together.
        unsafe {
            libc::send(
                fd.as_raw_fd(),
                m.as_ptr().cast(),
                m.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        shared.log(format_args!("refused client {} (pid {pid}): {why}", h.name));
    };
    let mem = clients(node);
    let Some(pasid) = (1..64u16).find(|p| !mem.clients.contains_key(p)) else {
        return refuse(
            libc::ENOMEM,
            "63 device contexts are open on this card, which is its limit".into(),
        );
    };
    let arena = match Arena::map(&h.arena, h.base) {
        Ok(a) => a,
        Err(e) => {
            return refuse(
                libc::EINVAL,
                format!("its shared memory can't be used: {e}"),
            )
        }
    };
    let mut c = Client::new(pasid, pid, h.name, fd, arena, shared.direct);
    let way = if c.direct() {
        "direct"
    } else {
        "through its agent"
    };
    shared.log(format_args!(
        "client {} (pid {pid}) opened {} as PASID {pasid}, DMA {way}",
        c.name, shared.hw[k].name
    ));
    c.send(
        &Head {
            pasid: pasid as u32,
            ..Head::new(Kind::HelloAck)
        },
        &[],
    );
    mem.clients.insert(pasid, c);
    shared.clients.fetch_add(1, Ordering::SeqCst);
}

fn message(h: &Head, data: &[u8]) -> Vec<u8> {
    let mut b = [0u8; HEAD_BYTES];
    Head {
        len: data.len() as u32,
        ..*h
    }
    .emit(&mut b);
    [&b[..], data].concat()
}

impl Leader {
    /// Between two slices: frames, new clients, and how far to go next.
    fn between(&mut self, shared: &Shared, slice_ps: u64) {
        let mut slots: Vec<_> = shared
            .slots
            .iter()
            .map(|s| s.lock().expect("no panics while locked"))
            .collect();
        let sent: Vec<_> = slots
            .iter_mut()
            .enumerate()
            .flat_map(|(p, s)| s.out.drain(..).map(move |f| (p, f)).collect::<Vec<_>>())
            .collect();
        let quiet = sent.is_empty();
        shared
            .frames
            .fetch_add(sent.len() as u64, Ordering::Relaxed);
        for d in self.fabric.pass(sent) {
            slots[d.port].inbox.push((d.at_ps, d.frame));
        }
        let now = slots.iter().map(|s| s.now_ps).max().unwrap_or(0);
        let mut base = now;
        if quiet && slots.iter().all(|s| s.idle && s.inbox.is_empty()) {
            let next = slots.iter().filter_map(|s| s.next_event).min();
            let fds: Vec<RawFd> = slots.iter().flat_map(|s| s.fds.iter().copied()).collect();
            let done = slots.iter().map(|s| s.done_ps).max().unwrap_or(now);
            drop(slots);
            let (slept, woken) =
                self.sleep(shared, &fds, next.map(|t| t.saturating_sub(now) / 1000));
            base = now + slept.as_nanos() as u64 * 1000;
            if let Some(t) = next {
                base = base.min(t.max(now));
            }
            // A timer that runs is the card's own time; else it waited for a program.
            if woken || next.is_none() {
                shared
                    .waited_ps
                    .fetch_add(base - done.min(base), Ordering::AcqRel);
            }
        } else {
            self.drowsy = false;
            drop(slots);
        }
        for (fd, got) in self.door.visitors() {
            match got {
                Ok((card, pid, h)) if card < shared.slots.len() => {
                    shared.slots[card]
                        .lock()
                        .expect("no panics while locked")
                        .joining
                        .push((fd, pid, h));
                }
                Ok((card, pid, _)) => refuse(
                    shared,
                    &fd,
                    pid,
                    libc::ENODEV,
                    &format!("there is no card {card}"),
                ),
                Err(e) => refuse(shared, &fd, 0, libc::EPROTO, &e.to_string()),
            }
        }
        if let Some(wish) = shared
            .capture
            .lock()
            .expect("no panics while locked")
            .take()
        {
            self.fabric.finish();
            if let Some(Err(e)) = wish.map(|p| self.fabric.record(&p)) {
                shared.log(format_args!("capture: {e:#}"));
            }
        }
        shared.base_ps.store(base, Ordering::Release);
        shared.target_ps.store(base + slice_ps, Ordering::Release);
        shared
            .ending
            .store(shared.stop.load(Ordering::Acquire), Ordering::Release);
    }

    /// Sleeps until a client or a timer (in `ns`) wants something, at most 100 ms. Returns how long, and whether a client did.
    fn sleep(&mut self, shared: &Shared, fds: &[RawFd], ns: Option<u64>) -> (Duration, bool) {
        let begun = Instant::now();
        let mut p: Vec<libc::pollfd> = fds
            .iter()
            .copied()
            .chain(self.door.fds())
            .map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let ns = ns.unwrap_or(u64::MAX).min(100_000_000);
        let mut poll = |ns: u64| {
            let ts = libc::timespec {
                tv_sec: 0,
                tv_nsec: ns as i64,
            };
            // SAFETY: the array and the time outlive the call; no signal mask.
            let n = unsafe {
                libc::ppoll(
                    p.as_mut_ptr(),
                    p.len() as libc::nfds_t,
                    &ts,
                    std::ptr::null(),
                )
            };
            n > 0
        };
        let mut woken = false;
        if !shared.stop.load(Ordering::Acquire) {
            // While traffic flows a program answers soon, and the other threads stay awake for it.
            let first = if self.drowsy { 0 } else { ns.min(SOON_NS) };
            woken = first != 0 && poll(first);
            if !woken && ns > first {
                woken = shared.barrier.rest(|| poll(ns - first));
                self.drowsy = true;
            }
            self.drowsy &= !woken;
        }
        (begun.elapsed(), woken)
    }
}

fn refuse(shared: &Shared, fd: &OwnedFd, pid: i32, status: i32, why: &str) {
    shared.log(format_args!("refused a connection (pid {pid}): {why}"));
    let m = message(
        &Head {
            status: status as u16,
            ..Head::new(Kind::HelloAck)
        },
        why.as_bytes(),
    );
    // SAFETY: buffer and length belong together.
    unsafe {
        libc::send(
            fd.as_raw_fd(),
            m.as_ptr().cast(),
            m.len(),
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
}

/// Counters and totals; latencies since the last report.
fn report(k: usize, node: &mut Node) -> CardReport {
    let latency = percentiles(node.host.take_latencies());
    let counters = node
        .counters()
        .into_iter()
        .map(|(n, v)| (n.to_string(), v))
        .collect();
    let (cycles, host) = (node.cycles, node.host.stats);
    let mem = clients(node);
    let unmapped = mem.unmapped();
    CardReport {
        card: k,
        cycles,
        counters,
        host,
        latency_ns: latency,
        agent_wait_s: mem.waited.as_secs_f64(),
        refused_accesses: mem.refused(),
        unmapped_accesses: unmapped.iter().map(|u| u.accesses).sum(),
        unmapped,
        clients: mem.clients.values().map(|c| c.name.clone()).collect(),
    }
}

fn finish(k: usize, mut node: Node, shared: &Shared) -> CardReport {
    let r = report(k, &mut node);
    for c in clients(&mut node).clients.values_mut() {
        if let Some(u) = c.unmapped() {
            shared.log(format_args!("{u}"));
        }
        c.send(&Head::new(Kind::Goodbye), b"the simulator was stopped");
    }
    r
}

#[cfg(test)]
mod tests;
