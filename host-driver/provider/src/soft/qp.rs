//! A queue pair: its rings, its attributes, and the transport model that it runs.
use super::engine::Port;
use super::mem::Who;
use metaroce_hdl_spec::cmd::{errno, modify_qp};
use metaroce_hdl_spec::table::qp_type;
use metaroce_hdl_spec::wqe::{self, ud_av};
use metaroce_protocol::eth::{EthRepr, Vlan};
use metaroce_protocol::ip::{IpRepr, Ipv4Repr, Ipv6Repr};
use metaroce_protocol::model::unreliable::{UcReceiver, UcSender, UdReceiver, UdSender};
use metaroce_protocol::model::{self, QpConfig};
use metaroce_protocol::qp::{attr, check_modify, QpState, QpType};
use metaroce_protocol::{Mtu, Psn};
use std::collections::VecDeque;

/// READs and atomics in flight, either role.
pub const MAX_RD: u64 = 16;
/// PSNs in flight: a quarter of what a peer's ring of frames holds.
pub const WINDOW: u32 = 128;
/// Packets of a READ that are asked for at a time, so that a lost one costs no more than these.
pub const READ_CHUNK: u32 = 32;

/// A ring of 64-byte units in memory of the provider.
#[derive(Clone, Copy)]
pub struct Ring {
    base: *const u8,
    mask: u16,
    /// Where the producer is.
    pub pi: u16,
    /// Where we are.
    pub at: u16,
}
// SAFETY: memory of the provider, for as long as the queue is.
unsafe impl Send for Ring {}

impl Ring {
    pub fn new(bus: u64, log: u32) -> Ring {
        Ring {
            base: bus as usize as *const u8,
            mask: ((1u32 << log) - 1) as u16,
            pi: 0,
            at: 0,
        }
    }
    /// The unit at `index`.
    pub fn unit(&self, index: u16) -> &[u8] {
        let slot = (index & self.mask) as usize;
        // SAFETY: inside the ring; the provider leaves a posted unit alone until it is completed.
        unsafe { core::slice::from_raw_parts(self.base.add(slot * wqe::UNIT), wqe::UNIT) }
    }
    /// Units between us and the producer.
    pub fn waiting(&self) -> u16 {
        self.pi.wrapping_sub(self.at)
    }
    /// `pi` is a place where the producer can be.
    pub fn plausible(&self, pi: u16) -> bool {
        let ahead = pi.wrapping_sub(self.at) as u32;
        ahead <= self.mask as u32 + 1 && ahead >= self.waiting() as u32
    }
}

/// Part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    pub va: u64,
    pub len: u32,
    pub key: u32,
}

impl Sge {
    pub fn of(b: &[u8]) -> Sge {
        let word = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"));
        Sge {
            va: word(0) as u64 | (word(4) as u64) << 32,
            len: word(8),
            key: word(12),
        }
    }
}

/// A posted send request, or a part of a READ.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its unit in the ring.
    pub index: u16,
    pub opcode: u8,
    /// Bytes of the request before this part, and of the request.
    pub offset: u32,
    pub length: u32,
    /// The request ends with it.
    pub last: bool,
    /// Its request has completed, with an error.
    pub silent: bool,
}

/// A receive taken from an SRQ.
pub struct Held {
    pub wqe: u64,
    pub number: u16,
    pub sges: Vec<Sge>,
}

pub enum Half {
    Rc(Box<model::Qp>),
    Uc(Box<(UcSender, UcReceiver)>),
    Ud(Box<(UdSender, UdReceiver)>),
}

/// Where packets go, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub eth: EthRepr,
    pub ip: IpRepr,
    pub sport: u16,
    /// The peer's address in GID form.
    pub peer: [u8; 16],
}

pub struct Qp {
    pub qpn: u32,
    pub kind: u8,
    pub state: QpState,
    pub pd: u16,
    pub scq: u16,
    pub rcq: u16,
    /// Table index of the SRQ.
    pub srq: Option<u16>,
    pub sq: Ring,
    pub rq: Ring,
    /// log2 of units per receive.
    pub stride: u32,
    /// Remote rights.
    pub access: u32,
    pub cfg: QpConfig,
    pub qkey: u32,
    pub path: Option<Path>,
    pub half: Half,
    /// Requests that are under way; the first is the `sent_from`-th that the model got.
    pub sent: VecDeque<Sent>,
    pub sent_from: u64,
    /// Receives that the model got, and those that have completed.
    pub received: u64,
    pub completed: u64,
    pub held: VecDeque<Held>,
    /// It stands in the queue of those that have something to send.
    pub ready: bool,
    /// When the earliest entry of it in the queue of timers is due.
    pub timer: u64,
    /// SQ_DRAINED is wanted.
    pub drain: bool,
    /// A ring that can't be: nothing of it is looked at until RESET.
    pub broken: bool,
}

pub struct Srq {
    pub srqn: u32,
    pub pd: u16,
    pub ring: Ring,
    pub stride: u32,
    /// Units.
    pub limit: u16,
    pub broken: bool,
}

fn qp_type_of(kind: u8) -> QpType {
    match kind {
        qp_type::UC => QpType::Uc,
        qp_type::UD => QpType::Ud,
        _ => QpType::Rc,
    }
}

fn new_half(kind: u8, cfg: QpConfig, qkey: u32) -> Half {
    match kind {
        qp_type::UC => Half::Uc(Box::new((UcSender::new(cfg), UcReceiver::new(cfg)))),
        qp_type::UD => Half::Ud(Box::new((UdSender::new(cfg), UdReceiver::new(qkey)))),
        _ => Half::Rc(Box::new(model::Qp::new(cfg))),
    }
}

/// What MODIFY_QP leads to.
pub struct Change {
    pub to: QpState,
    pub cfg: QpConfig,
    pub mask: u32,
}

impl Qp {
    /// In RESET.
    pub fn new(qpn: u32, kind: u8, pd: u16, [scq, rcq]: [u16; 2], sq: Ring, rq: Ring) -> Qp {
        let cfg = QpConfig {
            window: WINDOW,
            ack_interval: WINDOW / 4,
            ..QpConfig::new(qpn, 0)
        };
        Qp {
            qpn,
            kind,
            state: QpState::Reset,
            pd,
            scq,
            rcq,
            srq: None,
            sq,
            rq,
            stride: 0,
            access: 0,
            cfg,
            qkey: 0,
            path: None,
            half: new_half(kind, cfg, 0),
            sent: VecDeque::new(),
            sent_from: 0,
            received: 0,
            completed: 0,
            held: VecDeque::new(),
            ready: false,
            timer: u64::MAX,
            drain: false,
            broken: false,
        }
    }

    pub fn who(&self) -> Who {
        Who {
            pd: self.pd,
            qpn: self.qpn,
        }
    }

    /// All that RESET takes away. Attributes stay until they are set again, as on the card.
    pub fn reset(&mut self) {
        (self.sq.pi, self.sq.at) = (0, 0);
        (self.rq.pi, self.rq.at) = (0, 0);
        self.half = new_half(self.kind, self.cfg, self.qkey);
        self.sent.clear();
        self.held.clear();
        (self.sent_from, self.received, self.completed) = (0, 0, 0);
        self.timer = u64::MAX;
        (self.drain, self.broken) = (false, false);
        self.state = QpState::Reset;
    }

    /// Nothing is posted any more.
    pub fn clear_half(&mut self) {
        self.half = new_half(self.kind, self.cfg, self.qkey);
        self.completed = self.received;
    }

    /// Which entry of an SRQ is held by a message that has not ended.
    pub fn holds(&self) -> Option<u16> {
        let wqe = match &self.half {
            Half::Rc(m) => m.responder.held()?,
            _ => return None,
        };
        self.held.iter().find(|h| h.wqe == wqe).map(|h| h.number)
    }

    /// PSNs to send and to be expected next.
    pub fn psns(&self) -> [u32; 2] {
        match &self.half {
            Half::Rc(m) => [m.requester.next_psn().get(), m.responder.epsn().get()],
            Half::Uc(h) => [h.0.next_psn().get(), h.1.epsn().get()],
            Half::Ud(h) => [h.0.next_psn().get(), 0],
        }
    }

    /// Checks a MODIFY_QP without changing anything.
    pub fn check(&self, c: &[u8], port: &Port) -> Result<Change, u8> {
        use modify_qp as f;
        let get = |f: metaroce_hdl_spec::Field| f.get(c);
        let mask = get(f::mask) as u32;
        let has = |bit: u32| mask & bit != 0;
        let state = |v| QpState::from_code(v as u8).ok_or(errno::EINVAL);
        if has(attr::CUR_STATE) && state(get(f::cur_state))? != self.state {
            return Err(errno::EINVAL);
        }
        let to = match has(attr::STATE) {
            true => state(get(f::next_state))?,
            false => self.state,
        };
        check_modify(self.state, to, qp_type_of(self.kind), mask).map_err(|_| errno::EINVAL)?;
        if has(attr::ALT_PATH | attr::PATH_MIG_STATE) {
            return Err(errno::EOPNOTSUPP);
        }
        let bad = (has(attr::PORT) && get(f::port) != 1)
            || (has(attr::PKEY_INDEX) && get(f::pkey_index) != 0)
            || (has(attr::PATH_MTU) && !(1..=5).contains(&get(f::mtu)))
            || (has(attr::MAX_QP_RD_ATOMIC) && get(f::max_rd) > MAX_RD)
            || (has(attr::MAX_DEST_RD_ATOMIC) && get(f::max_dest_rd) > MAX_RD)
            || (has(attr::AV) && !port.has_gid(get(f::sgid_index), get(f::ip6) != 0));
        if bad {
            return Err(errno::EINVAL);
        }
        let mut cfg = self.cfg;
        let mut take = |bit: u32, set: &mut dyn FnMut(&mut QpConfig)| {
            if has(bit) {
                set(&mut cfg);
            }
        };
        take(attr::DEST_QPN, &mut |q| q.dest_qpn = get(f::dqpn) as u32);
        take(attr::SQ_PSN, &mut |q| {
            q.sq_psn = Psn::new(get(f::sq_psn) as u32)
        });
        take(attr::RQ_PSN, &mut |q| {
            q.rq_psn = Psn::new(get(f::rq_psn) as u32)
        });
        take(attr::PATH_MTU, &mut |q| {
            q.mtu = Mtu::from_code(get(f::mtu) as u8).unwrap_or(q.mtu)
        });
        take(attr::TIMEOUT, &mut |q| q.timeout = get(f::timeout) as u8);
        take(attr::RETRY_CNT, &mut |q| {
            q.retry_cnt = get(f::retry_cnt) as u8
        });
        take(attr::RNR_RETRY, &mut |q| {
            q.rnr_retry = get(f::rnr_retry) as u8
        });
        take(attr::MIN_RNR_TIMER, &mut |q| {
            q.min_rnr_timer = get(f::min_rnr) as u8
        });
        take(attr::MAX_QP_RD_ATOMIC, &mut |q| {
            q.max_rd_atomic = get(f::max_rd) as u8
        });
        take(attr::MAX_DEST_RD_ATOMIC, &mut |q| {
            q.max_dest_rd_atomic = get(f::max_dest_rd) as u8
        });
        Ok(Change { to, cfg, mask })
    }

    /// Takes the attributes over; the state is the engine's to change.
    pub fn apply(&mut self, c: &[u8], change: &Change, port: &Port) {
        use modify_qp as f;
        let has = |bit: u32| change.mask & bit != 0;
        if has(attr::ACCESS_FLAGS) {
            self.access = (f::acc_write.get(c) << 1
                | f::acc_read.get(c) << 2
                | f::acc_atomic.get(c) << 3) as u32;
        }
        if has(attr::QKEY) {
            self.qkey = f::qkey.get(c) as u32;
        }
        if has(attr::AV) {
            let bytes = |f: metaroce_hdl_spec::Field| &c[f.byte()..];
            self.path = Some(
                port.path(
                    f::sgid_index.get(c) as usize,
                    f::ip6.get(c) != 0,
                    bytes(f::dmac),
                    bytes(f::dip),
                    f::sport.get(c) as u16,
                    Hop {
                        limit: f::hop_limit.get(c) as u8,
                        tclass: f::tclass.get(c) as u8,
                        flow_label: f::flow_label.get(c) as u32,
                        tag: (f::has_vlan.get(c) != 0)
                            .then_some((f::pcp.get(c) << 13 | f::vlan.get(c)) as u16),
                    },
                ),
            );
        }
        self.cfg = change.cfg;
        if has(attr::EN_SQD_ASYNC_NOTIFY) {
            self.drain = true;
        }
        let receiving = self.state == QpState::Init && change.to == QpState::Rtr;
        match &mut self.half {
            Half::Rc(m) if receiving => m.start_responder(self.cfg),
            Half::Rc(m) => m.reconfigure(self.cfg),
            Half::Uc(h) => {
                if receiving {
                    h.1.start(self.cfg);
                }
                if self.state == QpState::Rtr && change.to == QpState::Rts {
                    h.0 = UcSender::new(self.cfg);
                }
            }
            Half::Ud(h) => {
                h.1.set_qkey(self.qkey);
                if self.state == QpState::Rtr && change.to == QpState::Rts {
                    h.0 = UdSender::new(self.cfg);
                }
            }
        }
    }
}

/// What else the headers of a packet have.
#[derive(Clone, Copy)]
pub struct Hop {
    pub limit: u8,
    pub tclass: u8,
    pub flow_label: u32,
    pub tag: Option<u16>,
}

impl Port {
    fn gid(&self, index: u64) -> Option<&[u8; 16]> {
        self.gids.get(index as usize).filter(|g| **g != [0; 16])
    }

    /// There is such a GID, and it is of that family.
    pub fn has_gid(&self, index: u64, ip6: bool) -> bool {
        self.gid(index).is_some_and(|g| is_v6(g) == ip6)
    }

    /// `dmac` and `dgid` begin with the first byte of the wire.
    pub fn path(
        &self,
        sgid: usize,
        ip6: bool,
        dmac: &[u8],
        dgid: &[u8],
        sport: u16,
        h: Hop,
    ) -> Path {
        let peer: [u8; 16] = dgid[..16].try_into().expect("16 bytes");
        let own = self.gids.get(sgid).copied().unwrap_or_default();
        let v4 = |g: &[u8; 16]| [g[12], g[13], g[14], g[15]];
        let ip = if ip6 {
            IpRepr::V6(Ipv6Repr {
                traffic_class: h.tclass,
                flow_label: h.flow_label,
                hop_limit: h.limit,
                src: own,
                dst: peer,
            })
        } else {
            IpRepr::V4(Ipv4Repr {
                tos: h.tclass,
                id: 0,
                df: true,
                ttl: h.limit,
                src: v4(&own),
                dst: v4(&peer),
            })
        };
        let eth = EthRepr {
            dst: dmac[..6].try_into().expect("6 bytes"),
            src: self.mac,
            vlan: h.tag.map(|tci| Vlan {
                tpid: metaroce_protocol::eth::TYPE_VLAN,
                tci,
            }),
        };
        Path {
            eth,
            ip,
            sport,
            peer,
        }
    }

    /// Path and destination of a UD send, from its address vector.
    pub fn ud_path(&self, av: &[u8]) -> Path {
        let bytes = |f: metaroce_hdl_spec::Field| &av[f.byte()..];
        self.path(
            ud_av::sgid_index.get(av) as usize,
            ud_av::ip6.get(av) != 0,
            bytes(ud_av::dmac),
            bytes(ud_av::dgid),
            ud_av::sport.get(av) as u16,
            Hop {
                limit: ud_av::hop_limit.get(av) as u8,
                tclass: ud_av::tclass.get(av) as u8,
                flow_label: ud_av::flow_label.get(av) as u32,
                tag: (ud_av::has_vlan.get(av) != 0)
                    .then_some((ud_av::pcp.get(av) << 13 | ud_av::vlan.get(av)) as u16),
            },
        )
    }
}

fn is_v6(g: &[u8; 16]) -> bool {
    g[..12] != [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
}

/// Address of a packet's sender in GID form.
pub fn sender(ip: &IpRepr) -> [u8; 16] {
    match ip {
        IpRepr::V6(r) => r.src,
        IpRepr::V4(r) => {
            let mut g = [0; 16];
            g[10..12].copy_from_slice(&[0xff, 0xff]);
            g[12..].copy_from_slice(&r.src);
            g
        }
    }
}
