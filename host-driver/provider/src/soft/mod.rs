//! A card that has raw packet queues only, made to one that has queue pairs: the transport in software.
//!
//! [`SoftCard`] is a [`Card`] above another one. The verbs do not notice: they write the same rings and the same doorbells. What the
//! hardware of other cards does with them is done here by [`engine`], with the transport model of the `protocol` crate.
//!
//! Whoever rings a doorbell does the work at once if nobody else is at it, else leaves it to the one who is. Frames that come in and
//! timers are served by a thread, which sleeps as long as there is nothing to do, and by whoever polls an empty CQ.
mod act;
mod clock;
mod command;
mod cq;
mod engine;
mod frames;
mod mem;
mod qp;
mod raw;
mod rng;
#[cfg(test)]
mod tests;
mod work;

pub use clock::CardTime;
pub use engine::Port;

use crate::card::dma::Memory;
use crate::card::{Card, Dma, Errno, Events};
use crate::sync::Spin;
use clock::Clock;
use engine::Engine;
use metaroce_hdl_spec::regs::admin;
use metaroce_hdl_spec::wqe;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{fence, AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Frames that are taken or sent before others get the engine.
const BATCH: usize = 64;
/// How long the thread sleeps if it waits for the card to read frames, which nothing announces.
const BLOCKED: Duration = Duration::from_micros(50);
/// Between two tries to deliver events to a program that does not take them.
const RETRY: Duration = Duration::from_millis(1);
/// Shortest and longest sleep before a timer is looked at.
const NAP: Duration = Duration::from_micros(100);
const LONG: Duration = Duration::from_secs(1);
/// How long a device that is closed waits for its last frames to leave.
const LEAVE: Duration = Duration::from_secs(2);

pub struct SoftCard {
    shared: Arc<Shared>,
    /// What the engine is made of when it starts.
    parts: Mutex<Option<Parts>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Parts {
    pasid: u32,
    port: Port,
    time: Option<CardTime>,
}

/// A doorbell that waits for the engine.
enum Rung {
    Value(u32, u64),
    Unit([u8; 64]),
}

struct Shared {
    raw: Arc<dyn Card>,
    engine: Mutex<Option<Engine>>,
    waiting: Spin<VecDeque<Rung>>,
    waiting_n: AtomicUsize,
    bed: Mutex<Bed>,
    alarm: Condvar,
    stopping: AtomicBool,
    dead: AtomicBool,
    events: Mutex<Option<Arc<dyn Events>>>,
}

/// Where the thread sleeps.
#[derive(Default)]
struct Bed {
    /// Somebody wants it to look.
    called: bool,
    /// An interrupt of the card.
    fired: bool,
}

impl SoftCard {
    /// `raw` is a card with raw packet queues for process `pasid`; the engine starts with [`Card::start`].
    pub fn new(raw: Arc<dyn Card>, pasid: u32, port: Port, time: Option<CardTime>) -> SoftCard {
        SoftCard {
            shared: Arc::new(Shared {
                raw,
                engine: Mutex::new(None),
                waiting: Spin::default(),
                waiting_n: AtomicUsize::new(0),
                bed: Mutex::default(),
                alarm: Condvar::new(),
                stopping: AtomicBool::new(false),
                dead: AtomicBool::new(false),
                events: Mutex::new(None),
            }),
            parts: Mutex::new(Some(Parts { pasid, port, time })),
            thread: Mutex::new(None),
        }
    }

    /// What has been sent leaves before the card is told to forget the rings: the peer's last request has its acknowledgement.
    fn leave(&self) {
        let end = Instant::now() + LEAVE;
        while let Some(e) = self.shared.lock().as_mut() {
            let dead = self.shared.dead.load(Ordering::Relaxed);
            if dead || e.rings.drained() || Instant::now() > end {
                return e.rings.disable();
            }
            // the lock is let go at the end of the block, and nobody is there who wants it
            std::thread::sleep(NAP);
        }
    }

    fn begin(&self) -> Result<Engine, String> {
        let raw = &self.shared.raw;
        let parts = self.parts.lock().unwrap().take();
        let parts = parts.ok_or("started twice")?;
        let read = |offset| {
            let v = raw.register(offset);
            v.map_err(|e| format!("the card does not answer (errno {e})"))
        };
        let [a, b] = [read(admin::LIMIT_MR_QP)?, read(admin::LIMIT_CQ_PD)?];
        let limits = [a & 0xffff, a >> 16, b & 0xffff, b >> 16];
        let memory = Memory::new();
        let memory = memory.map_err(|e| format!("no access to this process's own memory ({e})"))?;
        let rings = raw::Rings::new(raw.clone()).ok_or("the arena is full")?;
        rings.enable();
        let clock = Clock::new(parts.time);
        Ok(Engine::new(
            rings,
            memory,
            clock,
            parts.port,
            limits,
            parts.pasid,
        ))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Engine>> {
        // a panic of another thread has been reported; a half-done engine serves nobody
        self.engine.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A doorbell: done here, or left to the one who has the engine.
    fn ring(&self, rung: Rung) {
        {
            let mut w = self.waiting.lock();
            w.push_back(rung);
            self.waiting_n.store(w.len(), Ordering::Relaxed);
        }
        self.help(&mut |_| {});
    }

    /// Takes the engine if nobody has it, does `work` and what has been rung, until nothing is left that others have left to us.
    fn help(&self, work: &mut dyn FnMut(&mut Engine)) -> bool {
        let mut helped = false;
        loop {
            let mut guard = match self.engine.try_lock() {
                Ok(g) => g,
                Err(TryLockError::Poisoned(e)) => e.into_inner(),
                // its holder looks at the doorbells after it has let go
                Err(TryLockError::WouldBlock) => return helped,
            };
            if self.over() {
                return helped;
            }
            helped = true;
            let mut call = false;
            if let Some(e) = guard.as_mut() {
                e.clock.look();
                self.rung(e);
                work(e);
                if !e.queue.is_empty() {
                    e.transmit(BATCH);
                }
                if !e.late.is_empty() {
                    e.release();
                }
                call = self.must_call(e);
            }
            drop(guard);
            if call {
                self.call(false);
            }
            fence(Ordering::SeqCst);
            if self.waiting_n.load(Ordering::Relaxed) == 0 {
                return true;
            }
        }
    }

    /// Executes what has been rung.
    fn rung(&self, e: &mut Engine) {
        while self.waiting_n.load(Ordering::Relaxed) != 0 {
            let next = {
                let mut w = self.waiting.lock();
                let next = w.pop_front();
                self.waiting_n.store(w.len(), Ordering::Relaxed);
                next
            };
            match next {
                Some(Rung::Value(reg, value)) => e.rung(reg, value),
                Some(Rung::Unit(unit)) => e.rung_unit(&unit),
                None => return,
            }
        }
    }

    /// The thread sleeps, and there is something that only it does, or sooner than it meant to look.
    fn must_call(&self, e: &mut Engine) -> bool {
        let Some(until) = e.asleep else { return false };
        let call = e.interrupt
            || !e.queue.is_empty()
            || (!e.late.is_empty() && !e.napping)
            || e.deadline().is_some_and(|d| d < until);
        if call {
            e.asleep = None;
        }
        call
    }

    fn call(&self, fired: bool) {
        let mut bed = self.bed.lock().unwrap();
        bed.called = true;
        bed.fired |= fired;
        drop(bed);
        self.alarm.notify_one();
    }

    fn over(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) || self.dead.load(Ordering::Relaxed)
    }

    fn die(&self, why: &str) {
        self.dead.store(true, Ordering::Relaxed);
        self.call(false);
        if let Some(events) = self.events() {
            events.died(why);
        }
    }

    fn events(&self) -> Option<Arc<dyn Events>> {
        self.events.lock().unwrap().clone()
    }

    /// The thread.
    fn serve(&self) {
        let mut fired = false;
        let mut retry = false;
        // on a dead card the verbs above flush what is posted: nothing may complete here then
        while !self.over() {
            let mut guard = self.lock();
            let Some(e) = guard.as_mut() else { return };
            e.clock.look();
            if core::mem::take(&mut fired) {
                e.rings.fired();
            }
            self.rung(e);
            let mut more = e.receive(BATCH);
            e.fire_timers();
            more |= e.transmit(BATCH) && !e.blocked;
            e.release();
            let interrupt = core::mem::take(&mut e.interrupt);
            let mut sleep = Duration::ZERO;
            if !more && !interrupt {
                e.rings.arm();
                let deadline = e.deadline().unwrap_or(u64::MAX);
                e.asleep = Some(deadline);
                sleep = Duration::from_nanos(e.clock.wait(deadline)).clamp(NAP, LONG);
                e.napping = e.blocked || !e.late.is_empty();
                if e.napping {
                    sleep = BLOCKED;
                }
            }
            drop(guard);
            if interrupt || retry {
                if let Some(events) = self.events() {
                    if interrupt {
                        events.interrupt();
                    }
                    retry = events.retry();
                }
            }
            if retry {
                sleep = sleep.min(RETRY);
            }
            fence(Ordering::SeqCst);
            if sleep.is_zero() || self.waiting_n.load(Ordering::Relaxed) != 0 {
                continue;
            }
            let bed = self.bed.lock().unwrap();
            let awake = |b: &mut Bed| !b.called && !self.over();
            let (mut bed, _) = self.alarm.wait_timeout_while(bed, sleep, awake).unwrap();
            fired = bed.fired;
            *bed = Bed::default();
        }
    }
}

/// Events of the raw card.
struct RawEvents(Arc<Shared>);

impl Events for RawEvents {
    fn interrupt(&self) {
        self.0.call(true);
    }
    fn retry(&self) -> bool {
        false
    }
    fn died(&self, why: &str) {
        self.0.die(why);
    }
}

impl Card for SoftCard {
    fn doorbell(&self, reg: u32, value: u64) {
        if !self.shared.over() {
            self.shared.ring(Rung::Value(reg, value));
        }
    }

    fn direct(&self, _reg: u32, unit: &[u8; 64]) {
        if !self.shared.over() {
            self.shared.ring(Rung::Unit(*unit));
        }
    }

    fn try_doorbell(&self, reg: u32, value: u64) -> bool {
        self.doorbell(reg, value);
        true
    }

    fn register(&self, offset: u32) -> Result<u32, Errno> {
        let features = admin::FEATURE_TRANSPORT
            | admin::FEATURE_ATOMICS
            | admin::FEATURE_WINDOWS
            | admin::FEATURE_SRQ
            | admin::FEATURE_DIRECT;
        Ok(match offset {
            admin::LOG_QP => engine::LOG_QP,
            admin::LOG_MR => mem::LOG_MR,
            admin::LOG_CQ => engine::LOG_CQ,
            admin::LOG_PD => engine::LOG_PD,
            admin::MAX_SGE => wqe::MAX_SGE as u32,
            admin::MAX_RD => qp::MAX_RD as u32,
            admin::FEATURES => features,
            _ => return self.shared.raw.register(offset),
        })
    }

    fn alloc(&self, bytes: usize) -> Option<Dma> {
        self.shared.raw.alloc(bytes)
    }

    fn free(&self, memory: Dma) {
        self.shared.raw.free(memory)
    }

    fn neighbor(&self, gid: [u8; 16]) -> Result<[u8; 6], Errno> {
        self.shared.raw.neighbor(gid)
    }

    fn start(&self, events: Arc<dyn Events>) -> std::io::Result<()> {
        *self.shared.events.lock().unwrap() = Some(events);
        self.shared
            .raw
            .start(Arc::new(RawEvents(self.shared.clone())))?;
        let engine = self.begin().inspect_err(|_| self.shared.raw.stop());
        *self.shared.lock() = Some(engine.map_err(std::io::Error::other)?);
        let shared = self.shared.clone();
        let thread = super::card::without_signals(|| {
            std::thread::Builder::new()
                .name("metaroce-soft".into())
                .stack_size(256 * 1024)
                .spawn(move || {
                    // rather a dead device than one that hangs
                    let serve = AssertUnwindSafe(|| shared.serve());
                    if std::panic::catch_unwind(serve).is_err() {
                        shared.die("the transport in software has failed");
                    }
                })
        })?;
        *self.thread.lock().unwrap() = Some(thread);
        Ok(())
    }

    fn progress(&self) {
        let shared = &self.shared;
        shared.help(&mut |e| {
            e.receive(BATCH);
            e.fire_timers();
        });
    }

    fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.call(false);
        if let Some(thread) = self.thread.lock().unwrap().take() {
            let _ = thread.join();
        }
        self.leave();
        self.shared.raw.stop();
        *self.shared.events.lock().unwrap() = None;
    }
}
