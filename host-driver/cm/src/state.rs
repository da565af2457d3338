//! Identifiers, their states and events.
use crate::abi::{conn_param, event, event_resp, private, put, reason, ud_param, Conn, AH_BYTES};
use crate::addr::Place;
use crate::query;
use crate::Errno;
use metaroce::tree::CardInfo;
use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

/// How long a request may stay unanswered: by a link that is down, and by a program that does not say yes or no.
const NO_LINK: Duration = Duration::from_secs(2);
/// How long a request waits for a listener. On a wire, resolving address and route takes longer than a server needs to listen again after one
/// connection (perftest's `-R` makes two in a row); here they take no time.
const NO_LISTENER: Duration = Duration::from_secs(1);
const NO_ANSWER: Duration = Duration::from_secs(60);

/// Identifiers that one channel may have.
const IDS: usize = 4096;
/// Q_Key of datagram services that name none.
pub const QKEY: u32 = 0x0123_4567;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Idle,
    Bound,
    AddrResolved,
    RouteResolved,
    Listening,
    /// Active: asked, answered with yes.
    ReqSent,
    RepReceived,
    /// Passive: was asked, has said yes.
    ReqReceived,
    RepSent,
    Established,
    /// Over, by whomever; nothing but destruction is left.
    Over,
}

pub struct Id {
    pub uid: u64,
    pub channel: u32,
    pub ps: u16,
    /// Datagram service, not a connection.
    pub ud: bool,
    /// Made by a request: it shares its listener's port.
    pub passive: bool,
    pub state: State,
    /// As bound (may be any address) or resolved.
    pub src: Option<SocketAddr>,
    pub dst: Option<SocketAddr>,
    pub at: Option<Place>,
    pub to: Option<Place>,
    pub reuse: bool,
    pub tos: u8,
    pub timeout: Option<u8>,
    pub backlog: u32,
    /// The identifier at the other end.
    pub peer: Option<u32>,
    /// What this side and the other have said of their QPs.
    pub mine: Conn,
    pub theirs: Option<Conn>,
    pub psn: u32,
    pub their_psn: u32,
    pub qkey: u32,
    pub reported: u32,
    deadline: Option<Instant>,
    /// A request that nobody listens for yet.
    early: bool,
}

pub struct Event {
    /// Whose it is: for a request, the listener.
    pub of: u32,
    /// The identifier that a request made.
    pub child: Option<u32>,
    pub resp: [u8; event_resp::SIZE],
}

#[derive(Default)]
pub struct Channel {
    pub events: VecDeque<Event>,
    /// How many of them the socket has shown.
    pub told: usize,
}

impl Channel {
    /// Forgets events; returns how many the program must not be shown any more.
    fn purge(&mut self, mut gone: impl FnMut(&Event) -> bool) -> u32 {
        self.events.retain(|e| !gone(e));
        let over = self.told.saturating_sub(self.events.len());
        self.told -= over;
        over as u32
    }
}

/// All of it, for one set of cards.
pub struct Core {
    pub cards: Vec<CardInfo>,
    pub channels: HashMap<u32, Channel>,
    pub ids: HashMap<u32, Id>,
    link_up: Box<dyn Fn(usize) -> bool + Send>,
    next: u32,
    pub last_port: u16,
    random: u64,
}

/// What an event says beside its kind.
pub enum Param<'a> {
    None,
    Conn(&'a Conn),
    /// Datagram service: QP number, Q_Key, and the path to it from the identifier that gets the event.
    Service(&'a Conn),
}

impl Core {
    pub fn new(
        cards: Vec<CardInfo>,
        seed: u64,
        link_up: Box<dyn Fn(usize) -> bool + Send>,
    ) -> Core {
        Core {
            cards,
            channels: HashMap::new(),
            ids: HashMap::new(),
            link_up,
            next: 0,
            last_port: 32768,
            random: seed | 1,
        }
    }

    /// A number for a new channel or identifier.
    fn number(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1).max(1);
            if !self.ids.contains_key(&self.next) && !self.channels.contains_key(&self.next) {
                return self.next;
            }
        }
    }

    fn new_psn(&mut self) -> u32 {
        // Splitmix64: the same in each run of one seed.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z >> 40) as u32
    }

    pub fn open(&mut self) -> u32 {
        let n = self.number();
        self.channels.insert(n, Channel::default());
        n
    }

    /// The program has closed the channel, or died.
    pub fn close(&mut self, channel: u32) {
        let mut own: Vec<u32> = self
            .ids
            .iter()
            .filter(|(_, i)| i.channel == channel)
            .map(|(k, _)| *k)
            .collect();
        own.sort_unstable();
        for k in own {
            self.destroy(k);
        }
        self.channels.remove(&channel);
    }

    pub fn create(&mut self, channel: u32, uid: u64, ps: u16, ud: bool) -> Result<u32, Errno> {
        if self.ids.values().filter(|i| i.channel == channel).count() >= IDS {
            return Err(libc::ENOMEM);
        }
        let (n, psn) = (self.number(), self.new_psn());
        self.ids.insert(
            n,
            Id {
                uid,
                channel,
                ps,
                ud,
                passive: false,
                state: State::Idle,
                src: None,
                dst: None,
                at: None,
                to: None,
                reuse: false,
                tos: 0,
                timeout: None,
                backlog: 0,
                peer: None,
                mine: Conn::default(),
                theirs: None,
                psn,
                their_psn: 0,
                qkey: QKEY,
                reported: 0,
                deadline: None,
                early: false,
            },
        );
        Ok(n)
    }

    /// An identifier of this channel.
    pub fn id(&mut self, channel: u32, n: u32) -> Result<&mut Id, Errno> {
        let id = self.ids.get_mut(&n).ok_or(libc::ENOENT)?;
        if id.channel == channel {
            Ok(id)
        } else {
            Err(libc::EINVAL)
        }
    }

    /// Gives the owner of an identifier an event. One that a request made and that was not accepted yet has no owner: the
    /// program learns of it when it tries to.
    fn tell(&mut self, n: u32, kind: u32, status: i32, param: Param, child: Option<u32>) {
        let Some(id) = self.ids.get(&n) else { return };
        if id.uid == 0 {
            return;
        }
        let mut r = [0u8; event_resp::SIZE];
        put(&mut r, 0, &id.uid.to_ne_bytes());
        put(&mut r, event_resp::ID, &child.unwrap_or(n).to_ne_bytes());
        put(&mut r, event_resp::EVENT, &kind.to_ne_bytes());
        put(&mut r, event_resp::STATUS, &status.to_ne_bytes());
        let p = &mut r[event_resp::PARAM..];
        match param {
            Param::None => {}
            Param::Conn(c) => c.emit(&mut p[..conn_param::SIZE]),
            Param::Service(c) => {
                put(p, 0, &c.qpn.to_ne_bytes());
                put(p, 4, &c.qkey.to_ne_bytes());
                let path = query::ah(
                    &self.cards,
                    self.ids.get(&child.unwrap_or(n)).expect("it is there"),
                );
                put(p, ud_param::AH, &path[..AH_BYTES]);
                put(p, ud_param::DATA, &c.data);
                p[ud_param::LEN] = c.data.len() as u8;
            }
        }
        if let Some(c) = self.channels.get_mut(&id.channel) {
            c.events.push_back(Event {
                of: n,
                child,
                resp: r,
            });
        }
    }

    pub fn event(&mut self, n: u32, kind: u32, status: i32) {
        self.tell(n, kind, status, Param::None, None);
    }

    /// Takes the next event of a channel, and says whether the socket has shown it.
    pub fn next_event(&mut self, channel: u32) -> Option<(Event, bool)> {
        let c = self.channels.get_mut(&channel)?;
        let e = c.events.pop_front()?;
        let told = c.told > 0;
        c.told -= usize::from(told);
        if let Some(id) = self.ids.get_mut(&e.of) {
            id.reported += 1;
        }
        Some((e, told))
    }

    /// The request goes to whoever listens at the other card.
    pub fn connect(&mut self, n: u32, mine: Conn, now: Instant) -> Result<(), Errno> {
        let id = self.ids.get_mut(&n).expect("it is there");
        if id.state != State::RouteResolved {
            return Err(libc::EINVAL);
        }
        let ud = id.ud;
        mine.clone()
            .padded(if ud { private::SIDR_REQ } else { private::REQ })?;
        if ud && mine.qkey != 0 {
            id.qkey = mine.qkey;
        }
        id.mine = Conn {
            qkey: id.qkey,
            ..mine
        };
        id.state = State::ReqSent;
        let (Some(from), Some(to)) = (id.at, id.to) else {
            return Err(libc::EINVAL);
        };
        if !(self.link_up)(from.card) || !(self.link_up)(to.card) {
            self.ids.get_mut(&n).expect("it is there").deadline = Some(now + NO_LINK);
            return Ok(());
        }
        self.offer(n, now)
    }

    /// To the listener, if there is one; else it waits for one.
    fn offer(&mut self, n: u32, now: Instant) -> Result<(), Errno> {
        let id = &self.ids[&n];
        let (ud, ps, src) = (id.ud, id.ps, id.src);
        let (Some(from), Some(to), Some(dst)) = (id.at, id.to, id.dst) else {
            return Err(libc::EINVAL);
        };
        let data = id
            .mine
            .clone()
            .padded(if ud { private::SIDR_REQ } else { private::REQ })?;
        let mut found: Vec<(u32, &Id)> = self
            .ids
            .iter()
            .filter(|(_, l)| {
                l.state == State::Listening
                    && l.ps == ps
                    && l.src.is_some_and(|s| s.port() == dst.port())
                    && l.at.is_none_or(|p| p.card == to.card)
            })
            .map(|(k, l)| (*k, l))
            .collect();
        // The one at this address before the one at any.
        found.sort_by_key(|(k, l)| (l.at.is_none(), *k));
        let Some((listener, l)) = found.first().map(|(k, l)| (*k, *l)) else {
            let id = self.ids.get_mut(&n).expect("it is there");
            (id.early, id.deadline) = (true, Some(now + NO_LISTENER));
            return Ok(());
        };
        let (channel, backlog) = (l.channel, l.backlog);
        let unread = self.channels.get(&channel).map_or(0, |c| {
            c.events
                .iter()
                .filter(|e| e.of == listener && e.child.is_some())
                .count()
        });
        let child = if (unread as u32) < backlog {
            self.create(channel, 0, ps, ud)
        } else {
            Err(libc::ENOMEM)
        };
        let Ok(child) = child else {
            return self.refuse(n, ud, reason::CONSUMER, reason::SIDR_REJECTED);
        };
        let (psn, request) = (self.ids[&n].psn, self.ids[&n].mine.clone());
        let c = self.ids.get_mut(&child).expect("just made");
        (c.passive, c.state, c.peer) = (true, State::ReqReceived, Some(n));
        (c.src, c.dst) = (Some(dst), src);
        (c.at, c.to) = (Some(to), Some(from));
        c.their_psn = psn;
        // Until it says otherwise, it answers to what the other side wants.
        c.mine = Conn {
            responder: request.initiator,
            initiator: request.responder,
            ..Conn::default()
        };
        c.theirs = Some(request);
        let id = self.ids.get_mut(&n).expect("it is there");
        (id.peer, id.deadline) = (Some(child), Some(now + NO_ANSWER));
        let param = if ud {
            Param::Service(&Conn {
                qpn: 0,
                qkey: 0,
                ..data
            })
        } else {
            Param::Conn(&data)
        };
        self.tell(listener, event::CONNECT_REQUEST, 0, param, Some(child));
        Ok(())
    }

    /// Somebody has begun to listen: requests that came too early are offered again.
    pub fn offer_early(&mut self, now: Instant) {
        let mut early: Vec<u32> = self
            .ids
            .iter()
            .filter(|(_, i)| i.early && i.state == State::ReqSent)
            .map(|(k, _)| *k)
            .collect();
        early.sort_unstable();
        for n in early {
            let until = self.ids[&n].deadline;
            self.ids.get_mut(&n).expect("it is there").early = false;
            // it was complete when it was made
            let _ = self.offer(n, now);
            if let Some(id) = self.ids.get_mut(&n).filter(|i| i.early) {
                // not this listener's: it does not wait longer for that
                id.deadline = until;
            }
        }
    }

    /// The answer to a request that nobody takes.
    fn refuse(&mut self, n: u32, ud: bool, rej: i32, sidr: i32) -> Result<(), Errno> {
        self.rejected(n, ud, if ud { sidr } else { rej }, &[]);
        Ok(())
    }

    fn rejected(&mut self, n: u32, ud: bool, status: i32, data: &[u8]) {
        if let Some(id) = self.ids.get_mut(&n) {
            (id.state, id.peer, id.deadline) = (State::Over, None, None);
        }
        let (kind, room) = if ud {
            (event::UNREACHABLE, private::SIDR_REP)
        } else {
            (event::REJECTED, private::REJ)
        };
        let mut data = data.to_vec();
        data.resize(room, 0);
        let c = Conn {
            data,
            ..Conn::default()
        };
        self.tell(
            n,
            kind,
            status,
            if ud { Param::None } else { Param::Conn(&c) },
            None,
        );
    }

    /// Passive: yes.
    pub fn accept(&mut self, n: u32, uid: u64, mine: Conn, now: Instant) -> Result<(), Errno> {
        let id = self.ids.get_mut(&n).expect("it is there");
        let peer = id
            .peer
            .filter(|_| id.state == State::ReqReceived)
            .ok_or(libc::EINVAL)?;
        let ud = id.ud;
        let mut answer = mine
            .clone()
            .padded(if ud { private::SIDR_REP } else { private::REP })?;
        if ud && mine.qkey != 0 {
            id.qkey = mine.qkey;
        }
        answer.qkey = id.qkey;
        id.uid = uid;
        id.mine = mine;
        let psn = id.psn;
        if ud {
            id.state = State::Established;
        } else {
            (id.state, id.deadline) = (State::RepSent, Some(now + NO_ANSWER));
        }
        let p = self
            .ids
            .get_mut(&peer)
            .expect("a peer is there until it says goodbye");
        p.deadline = None;
        p.their_psn = psn;
        p.theirs = Some(answer.clone());
        if ud {
            p.state = State::Established;
            self.tell(peer, event::ESTABLISHED, 0, Param::Service(&answer), None);
        } else {
            p.state = State::RepReceived;
            self.tell(peer, event::CONNECT_RESPONSE, 0, Param::Conn(&answer), None);
        }
        Ok(())
    }

    /// Active: ready to use. (Passive, too, if data came before that: `NOTIFY`.)
    pub fn ready(&mut self, n: u32) -> Result<(), Errno> {
        let id = self.ids.get_mut(&n).expect("it is there");
        if id.state != State::RepReceived {
            return Err(libc::EINVAL);
        }
        (id.state, id.deadline) = (State::Established, None);
        if let Some(p) = id.peer {
            self.established(p);
        }
        Ok(())
    }

    pub fn established(&mut self, n: u32) {
        let Some(id) = self.ids.get_mut(&n) else {
            return;
        };
        if id.state == State::RepSent {
            (id.state, id.deadline) = (State::Established, None);
            self.event(n, event::ESTABLISHED, 0);
        }
    }

    pub fn reject(&mut self, n: u32, why: i32, data: &[u8]) -> Result<(), Errno> {
        let id = self.ids.get_mut(&n).expect("it is there");
        let asked = matches!(id.state, State::ReqReceived | State::RepReceived);
        let (ud, peer) = (id.ud, id.peer.filter(|_| asked).ok_or(libc::EINVAL)?);
        if data.len() > private::REJ {
            return Err(libc::EINVAL);
        }
        (id.state, id.peer, id.deadline) = (State::Over, None, None);
        self.rejected(peer, ud, if ud { reason::SIDR_REJECTED } else { why }, data);
        Ok(())
    }

    pub fn disconnect(&mut self, n: u32) -> Result<(), Errno> {
        let id = self.ids.get_mut(&n).expect("it is there");
        match id.state {
            State::Established if !id.ud => {
                let peer = id.peer;
                self.over(n);
                if let Some(p) = peer {
                    self.over(p);
                }
                Ok(())
            }
            // The other side was first.
            State::Over if !id.ud && id.theirs.is_some() => Ok(()),
            _ => Err(libc::EINVAL),
        }
    }

    fn over(&mut self, n: u32) {
        if let Some(id) = self.ids.get_mut(&n) {
            (id.state, id.peer, id.deadline) = (State::Over, None, None);
            self.event(n, event::DISCONNECTED, 0);
        }
    }

    /// Ends an identifier, and tells the other side. Returns how many of its events the program has had, and how many it
    /// must not be shown any more.
    pub fn destroy(&mut self, n: u32) -> (u32, u32) {
        let Some(id) = self.ids.remove(&n) else {
            return (0, 0);
        };
        let mut unread = vec![];
        let drain = self.channels.get_mut(&id.channel).map_or(0, |c| {
            c.purge(|e| {
                let own = e.of == n || e.child == Some(n);
                unread.extend(e.child.filter(|k| own && *k != n));
                own
            })
        });
        // Nobody will ever answer these.
        for k in unread {
            self.destroy(k);
        }
        if let Some(p) = id.peer {
            match id.state {
                State::Established if id.ud => {
                    if let Some(other) = self.ids.get_mut(&p) {
                        other.peer = None;
                    }
                }
                State::Established => self.over(p),
                _ => self.rejected(
                    p,
                    id.ud,
                    if id.ud {
                        reason::SIDR_REJECTED
                    } else {
                        reason::CONSUMER
                    },
                    &[],
                ),
            }
        }
        (id.reported, drain)
    }

    /// Moves an identifier, with its events, to another channel. Returns the events so far, and how many the old channel's
    /// socket has shown that are not there any more.
    pub fn migrate(&mut self, n: u32, to: u32) -> (u32, u32) {
        let id = self.ids.get_mut(&n).expect("it is there");
        let from = std::mem::replace(&mut id.channel, to);
        let reported = id.reported;
        if from == to {
            return (reported, 0);
        }
        let mut moved = VecDeque::new();
        let mut drain = 0;
        if let Some(c) = self.channels.get_mut(&from) {
            let (own, rest) = std::mem::take(&mut c.events)
                .into_iter()
                .partition(|e| e.of == n);
            moved = own;
            c.events = rest;
            drain = c.purge(|_| false);
        }
        for k in moved.iter().filter_map(|e: &Event| e.child) {
            if let Some(i) = self.ids.get_mut(&k) {
                i.channel = to;
            }
        }
        if let Some(c) = self.channels.get_mut(&to) {
            c.events.extend(moved);
        }
        (reported, drain)
    }

    /// What has waited too long.
    pub fn tick(&mut self, now: Instant) {
        let mut late: Vec<u32> = self
            .ids
            .iter()
            .filter(|(_, i)| i.deadline.is_some_and(|d| d <= now))
            .map(|(k, _)| *k)
            .collect();
        late.sort_unstable();
        for n in late {
            let Some(id) = self.ids.get_mut(&n) else {
                continue;
            };
            let (ud, peer) = (id.ud, id.peer);
            if std::mem::take(&mut id.early) {
                let _ = self.refuse(n, ud, reason::NO_LISTENER, reason::SIDR_UNSUPPORTED);
                continue;
            }
            (id.state, id.peer, id.deadline) = (State::Over, None, None);
            self.event(n, event::UNREACHABLE, -libc::ETIMEDOUT);
            if let Some(p) = peer {
                self.rejected(
                    p,
                    ud,
                    if ud {
                        reason::SIDR_REJECTED
                    } else {
                        reason::CONSUMER
                    },
                    &[],
                );
            }
        }
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.ids.values().filter_map(|i| i.deadline).min()
    }
}
