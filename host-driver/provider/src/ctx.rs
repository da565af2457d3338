//! One opened device: the card, its tables of objects, commands and events.
use crate::abi::{self, AsyncEventDesc, IbvContext};
use crate::card::{Card, Dma, Errno, Events};
use crate::hce::Decisions;
use crate::say;
use crate::verbs::cq::Cq;
use crate::verbs::event::EventQueue;
use crate::verbs::qp::Qp;
use crate::verbs::srq::Srq;
use metaroce_hdl_spec::{cmd, regs};
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

/// A command that takes longer than this says that the card hangs.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// Counts `fork`s that led to this process: a context belongs to the process that opened it.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Limits of the card, read when the device is opened. `ibv_query_device_ex` is derived from them.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    pub log_qp: u32,
    pub log_mr: u32,
    pub log_cq: u32,
    pub log_pd: u32,
    /// MRs, QPs, CQs and PDs that a process may have.
    pub limits: [u32; 4],
    pub max_sge: u32,
    pub max_rd: u32,
    /// Compare and swap, fetch and add.
    pub atomics: bool,
    /// Memory windows, invalidation.
    pub windows: bool,
    /// Inline data in the WQE, WQEs in the doorbell.
    pub direct: bool,
    /// Shared receive queues.
    pub srq: bool,
}

pub struct Ctx {
    pub card: Box<dyn Card>,
    pub caps: Caps,
    pub guid: u64,
    pub gids: Vec<[u8; 16]>,
    /// What the card does and what the host does.
    pub hce: Decisions,
    /// MTU of the Ethernet port in bytes.
    pub link_mtu: u32,
    /// Rate of the Ethernet port in Mb/s.
    pub link_mbps: u64,
    dead: AtomicBool,
    generation: u32,
    told_fork: AtomicBool,
    command: Mutex<Command>,
    /// By QPN modulo the table size, as on the card; read without a lock when polling.
    pub qps: Box<[AtomicPtr<Qp>]>,
    pub tables: Mutex<Tables>,
    /// `ibv_context`, for events; set when the context is complete.
    pub ibv: AtomicUsize,
    pub async_write: OwnedFd,
}

pub struct Tables {
    pub cqs: HashMap<u32, *mut Cq>,
    pub srqs: HashMap<u32, *mut Srq>,
    pub eq: EventQueue,
}
// SAFETY: the pointers are looked at only under the mutex, and removed from it before the object goes.
unsafe impl Send for Tables {}

struct Command {
    block: Dma,
    seq: u32,
}

/// Answer to a command.
pub struct Response(pub [u8; 64]);

impl Response {
    pub fn id(&self) -> u32 {
        cmd::response::id.get(&self.0) as u32
    }
}

/// What the sysfs tree says of this device.
pub struct Identity {
    pub guid: u64,
    pub gids: Vec<[u8; 16]>,
    pub link_mtu: u32,
    pub link_mbps: u64,
}

impl Ctx {
    /// Reads the card's limits and makes its event queue. The error is a sentence for the user.
    pub fn new(
        card: Box<dyn Card>,
        id: Identity,
        async_write: OwnedFd,
        hce: Decisions,
    ) -> Result<Arc<Ctx>, String> {
        static AT_FORK: Once = Once::new();
        AT_FORK.call_once(|| {
            extern "C" fn child() {
                GENERATION.fetch_add(1, Ordering::Relaxed);
            }
            // SAFETY: the handler touches an atomic only.
            unsafe { libc::pthread_atfork(None, None, Some(child)) };
        });
        let block = card.alloc(cmd::BLOCK_BYTES).ok_or("the arena is full")?;
        let eq = EventQueue::new(card.as_ref()).ok_or("the arena is full")?;
        // The tables need the limits, and reading the limits needs the agent, which needs the tables: sized by the
        // interface's largest card first.
        let mut ctx = Ctx {
            card,
            caps: Caps {
                log_qp: 12,
                log_mr: 0,
                log_cq: 0,
                log_pd: 0,
                limits: [0; 4],
                max_sge: 0,
                max_rd: 0,
                atomics: false,
                windows: false,
                direct: false,
                srq: false,
            },
            guid: id.guid,
            gids: id.gids,
            hce,
            link_mtu: id.link_mtu,
            link_mbps: id.link_mbps,
            dead: AtomicBool::new(false),
            generation: GENERATION.load(Ordering::Relaxed),
            told_fork: AtomicBool::new(false),
            command: Mutex::new(Command { block, seq: 0 }),
            qps: (0..1 << 12)
                .map(|_| AtomicPtr::new(core::ptr::null_mut()))
                .collect(),
            tables: Mutex::new(Tables {
                cqs: HashMap::new(),
                srqs: HashMap::new(),
                eq,
            }),
            ibv: AtomicUsize::new(0),
            async_write,
        };
        // Until the real one is there, a receiver that only remembers a death.
        let early = Arc::new(Early {
            died: Mutex::new(None),
            real: Mutex::new(None),
        });
        ctx.card
            .start(early.clone())
            .map_err(|e| format!("the card did not start ({e})"))?;
        let ready = ctx.identify();
        if let Err(why) = ready {
            ctx.card.stop();
            return Err(why);
        }
        let ctx = Arc::new(ctx);
        early.become_real(ctx.clone());
        let (base, log) = {
            let t = ctx.tables.lock().unwrap();
            (t.eq.bus(), t.eq.log())
        };
        let made = ctx.command(cmd::op::CREATE_EQ, 0, |c| {
            cmd::create_eq::log.put(c, log as u64);
            cmd::create_eq::base.put(c, base);
        });
        if let Err(e) = made {
            ctx.close();
            return Err(format!("the card refused an event queue (errno {e})"));
        }
        Ok(ctx)
    }

    fn identify(&mut self) -> Result<(), String> {
        use regs::admin;
        let read = |offset| {
            self.card
                .register(offset)
                .map_err(|e| format!("the card does not answer (errno {e})"))
        };
        if read(admin::ID)? != admin::ID_VALUE {
            return Err("the device behind the simulator is not a MetaRoCE card".into());
        }
        let abi = read(admin::ABI)?;
        let ours = metaroce_hdl_spec::HOST_ABI_MAJOR;
        if abi >> 16 != ours {
            return Err(format!(
                "the card has host interface {}.{} and this provider {ours}: use both from one release",
                abi >> 16,
                abi & 0xffff
            ));
        }
        let features = read(admin::FEATURES)?;
        let [a, b] = [read(admin::LIMIT_MR_QP)?, read(admin::LIMIT_CQ_PD)?];
        self.caps = Caps {
            log_qp: read(admin::LOG_QP)?.min(12),
            log_mr: read(admin::LOG_MR)?,
            log_cq: read(admin::LOG_CQ)?,
            log_pd: read(admin::LOG_PD)?,
            limits: [a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16],
            max_sge: read(admin::MAX_SGE)?,
            max_rd: read(admin::MAX_RD)?,
            atomics: features & admin::FEATURE_ATOMICS != 0,
            windows: features & admin::FEATURE_WINDOWS != 0,
            direct: features & admin::FEATURE_DIRECT != 0,
            srq: features & admin::FEATURE_SRQ != 0,
        };
        crate::rom::copy_if_asked(self.card.as_ref())
    }

    /// The context behind an `ibv_context`: our pointer follows it.
    pub unsafe fn of<'a>(context: *mut IbvContext) -> &'a Ctx {
        // SAFETY: allocated by `verbs::device::alloc_context` with room for it.
        unsafe { &**(context.add(1) as *const *const Ctx) }
    }

    /// An owning handle, for objects that keep their context alive.
    pub unsafe fn share(context: *mut IbvContext) -> Arc<Ctx> {
        // SAFETY: the pointer came from Arc::into_raw and the context still holds it.
        unsafe {
            let p = *(context.add(1) as *const *const Ctx);
            Arc::increment_strong_count(p);
            Arc::from_raw(p)
        }
    }

    /// Whether the card can be used: it lives, and this is the process that opened it.
    #[inline]
    pub fn usable(&self) -> bool {
        !self.dead.load(Ordering::Relaxed) && !self.forked()
    }

    #[inline]
    pub fn forked(&self) -> bool {
        GENERATION.load(Ordering::Relaxed) != self.generation
    }

    /// EIO, after saying why once if it is because of a fork.
    #[cold]
    pub fn unusable(&self) -> Errno {
        if self.forked() && !self.told_fork.swap(true, Ordering::Relaxed) {
            say("a device that the parent process opened does not work after fork; open it again in the child");
        }
        libc::EIO
    }

    /// Runs a command and waits for its end.
    pub fn command(
        &self,
        op: u8,
        id: u32,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Response, Errno> {
        if !self.usable() {
            return Err(self.unusable());
        }
        let mut command = self.command.lock().unwrap();
        command.seq = command.seq.wrapping_add(1).max(1);
        let seq = command.seq;
        let mut bytes = [0u8; cmd::CMD_BYTES];
        fill(&mut bytes);
        cmd::head::opcode.put(&mut bytes, op as u64);
        cmd::head::seq.put(&mut bytes, seq as u64);
        cmd::head::id.put(&mut bytes, id as u64);
        let block = command.block.ptr;
        // SAFETY: the block is ours; the card looks at it only after the doorbell.
        unsafe {
            core::ptr::write_bytes(block.add(cmd::RESP_OFFSET), 0, 64);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), block, bytes.len());
        }
        self.card.doorbell(regs::doorbell::CMD, command.block.bus);
        // SAFETY: aligned word inside the block; the card stores it last.
        let done = unsafe { &*(block.add(cmd::RESP_OFFSET + 60) as *const AtomicU32) };
        let mut tries = 0u32;
        let mut since = None;
        while done.load(Ordering::Acquire) != seq {
            if !self.usable() {
                return Err(self.unusable());
            }
            tries += 1;
            if tries < 64 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
                if since.get_or_insert_with(Instant::now).elapsed() > COMMAND_LIMIT {
                    self.died("the card did not answer a command");
                    return Err(libc::EIO);
                }
            }
        }
        let mut response = [0u8; 64];
        // SAFETY: as above.
        unsafe {
            core::ptr::copy_nonoverlapping(block.add(cmd::RESP_OFFSET), response.as_mut_ptr(), 64)
        };
        match cmd::response::status.get(&response) as Errno {
            0 => Ok(Response(response)),
            e => Err(e),
        }
    }

    pub fn qp_slot(&self, qpn: u32) -> &AtomicPtr<Qp> {
        // SAFETY: the table has a power of two of entries, at least one.
        unsafe { self.qps.get_unchecked(qpn as usize & (self.qps.len() - 1)) }
    }

    /// Gives the program an asynchronous event.
    pub fn raise(&self, event_type: u32, element: u64) {
        let event = AsyncEventDesc {
            element,
            event_type,
            reserved: 0,
        };
        // SAFETY: a plain struct; the pipe is ours and does not block. A program that leaves 4,096 events unread loses
        // the rest.
        unsafe {
            let size = core::mem::size_of::<AsyncEventDesc>();
            libc::write(
                self.async_write.as_raw_fd(),
                &event as *const _ as *const _,
                size,
            );
        }
    }

    /// Ends the connection. Objects that still exist are of no use afterwards.
    pub fn close(&self) {
        if !self.forked() {
            self.card.stop();
        }
        self.dead.store(true, Ordering::Relaxed);
    }
}

impl Events for Ctx {
    fn interrupt(&self) {
        self.tables.lock().unwrap().drain(self);
    }

    fn retry(&self) -> bool {
        match self.tables.try_lock() {
            Ok(mut t) => {
                t.eq.busy() && {
                    t.drain(self);
                    t.eq.busy()
                }
            }
            Err(_) => true,
        }
    }

    fn died(&self, why: &str) {
        if self.dead.swap(true, Ordering::SeqCst) {
            return;
        }
        say(&format!(
            "{why}; the device is dead and its work requests are flushed"
        ));
        self.raise(abi::event::DEVICE_FATAL, 0);
        // A program that sleeps on a completion channel has to look at its flushed requests.
        let tables = self.tables.lock().unwrap();
        for cq in tables.cqs.values() {
            // SAFETY: in the table, hence alive.
            unsafe { (**cq).notify() };
        }
    }
}

/// Stands in for the context until it is complete.
struct Early {
    died: Mutex<Option<String>>,
    real: Mutex<Option<Arc<Ctx>>>,
}

impl Early {
    fn become_real(&self, ctx: Arc<Ctx>) {
        let mut real = self.real.lock().unwrap();
        if let Some(why) = self.died.lock().unwrap().take() {
            ctx.died(&why);
        }
        *real = Some(ctx);
    }
    fn get(&self) -> Option<Arc<Ctx>> {
        self.real.lock().unwrap().clone()
    }
}

impl Events for Early {
    fn interrupt(&self) {
        if let Some(c) = self.get() {
            c.interrupt()
        }
    }
    fn retry(&self) -> bool {
        self.get().is_some_and(|c| c.retry())
    }
    fn died(&self, why: &str) {
        let real = self.real.lock().unwrap();
        match &*real {
            Some(c) => c.died(why),
            None => *self.died.lock().unwrap() = Some(why.to_string()),
        }
    }
}
