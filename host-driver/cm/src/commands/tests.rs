//! Conversations of two programs, as their libraries would write them.
use super::*;
use crate::abi::{conn_param, mask, put, qp_attr, ud_param};
use crate::addr::{two_cards, V4, V6};
use crate::state::QKEY;
use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};

mod nonsense;

struct Bench {
    core: Core,
    link: Arc<AtomicBool>,
    now: Instant,
}

/// What an event says.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    uid: u64,
    id: u32,
    event: u32,
    status: i32,
    param: Vec<u8>,
}

impl Bench {
    fn new() -> Bench {
        let link = Arc::new(AtomicBool::new(true));
        let up = link.clone();
        Bench {
            core: Core::new(two_cards(), 1, Box::new(move |_| up.load(Ordering::SeqCst))),
            link,
            now: Instant::now(),
        }
    }
    fn send(&mut self, channel: u32, op: u32, args: &[u8], room: usize) -> Result<Vec<u8>, Errno> {
        let mut m = op.to_ne_bytes().to_vec();
        m.extend((args.len() as u16).to_ne_bytes());
        m.extend((room as u16).to_ne_bytes());
        m.extend(args);
        self.core.command(channel, &m, 0, self.now).map(|a| a.data)
    }
    fn create(&mut self, channel: u32, uid: u64, ps: u16) -> u32 {
        let mut b = [0u8; 24];
        put(&mut b, 0, &uid.to_ne_bytes());
        put(&mut b, 16, &ps.to_ne_bytes());
        u32_at(&self.send(channel, op::CREATE_ID, &b, 4).unwrap(), 0)
    }
    fn destroy(&mut self, channel: u32, id: u32) -> Result<u32, Errno> {
        let mut b = [0u8; 16];
        put(&mut b, 8, &id.to_ne_bytes());
        self.send(channel, op::DESTROY_ID, &b, 4)
            .map(|r| u32_at(&r, 0))
    }
    fn bind(&mut self, channel: u32, id: u32, a: &str) -> Result<Vec<u8>, Errno> {
        let mut b = [0u8; 40];
        addr::emit(&a.parse().unwrap(), &mut b[8..]);
        put(&mut b, 36, &id.to_ne_bytes());
        self.send(channel, op::BIND_IP, &b, 0)
    }
    fn resolve(&mut self, channel: u32, id: u32, a: &str) -> Result<Vec<u8>, Errno> {
        let mut b = [0u8; 64];
        addr::emit(&a.parse().unwrap(), &mut b[28..]);
        put(&mut b, 56, &id.to_ne_bytes());
        self.send(channel, op::RESOLVE_IP, &b, 0)
    }
    fn pair(&mut self, channel: u32, op: u32, id: u32, more: u32) -> Result<Vec<u8>, Errno> {
        let mut b = [0u8; 8];
        put(&mut b, 0, &id.to_ne_bytes());
        put(&mut b, 4, &more.to_ne_bytes());
        self.send(channel, op, &b, 0)
    }
    fn listen(&mut self, channel: u32, uid: u64, ps: u16, a: &str) -> u32 {
        let id = self.create(channel, uid, ps);
        self.bind(channel, id, a).unwrap();
        self.pair(channel, op::LISTEN, id, 0).unwrap();
        id
    }
    /// An identifier that knows its route.
    fn routed(&mut self, channel: u32, uid: u64, ps: u16, a: &str) -> u32 {
        let id = self.create(channel, uid, ps);
        self.resolve(channel, id, a).unwrap();
        assert_eq!(self.event(channel).event, event::ADDR_RESOLVED);
        self.pair(channel, op::RESOLVE_ROUTE, id, 1000).unwrap();
        assert_eq!(self.event(channel).event, event::ROUTE_RESOLVED);
        id
    }
    fn param(qpn: u32, data: &[u8]) -> Vec<u8> {
        let mut p = vec![0u8; conn_param::SIZE];
        let c = Conn {
            qpn,
            initiator: 2,
            responder: 3,
            retry: 7,
            rnr: 6,
            data: data.to_vec(),
            ..Conn::default()
        };
        c.emit(&mut p);
        p[conn_param::VALID] = 1;
        p
    }
    fn connect(&mut self, channel: u32, id: u32, qpn: u32, data: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut b = Self::param(qpn, data);
        b.extend(id.to_ne_bytes());
        b.extend([0; 12]);
        self.send(channel, op::CONNECT, &b, 0)
    }
    fn accept(&mut self, channel: u32, id: u32, uid: u64, param: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut b = uid.to_ne_bytes().to_vec();
        b.extend(param);
        b.extend(id.to_ne_bytes());
        b.extend([0; 12]);
        self.send(channel, op::ACCEPT, &b, 0)
    }
    fn ready(&mut self, channel: u32, id: u32) -> Result<Vec<u8>, Errno> {
        self.accept(channel, id, 0, &[0; conn_param::SIZE])
    }
    fn attributes(&mut self, channel: u32, id: u32, state: u32) -> Result<Vec<u8>, Errno> {
        let mut b = [0u8; 16];
        put(&mut b, 8, &id.to_ne_bytes());
        put(&mut b, 12, &state.to_ne_bytes());
        self.send(channel, op::INIT_QP_ATTR, &b, qp_attr::SIZE)
    }
    fn try_event(&mut self, channel: u32) -> Result<Seen, Errno> {
        let r = self.send(channel, op::GET_EVENT, &[0; 8], event_resp::SIZE)?;
        Ok(Seen {
            uid: u64_at(&r, 0),
            id: u32_at(&r, event_resp::ID),
            event: u32_at(&r, event_resp::EVENT),
            status: u32_at(&r, event_resp::STATUS) as i32,
            param: r[event_resp::PARAM..event_resp::SHORT].to_vec(),
        })
    }
    fn event(&mut self, channel: u32) -> Seen {
        self.try_event(channel).expect("an event")
    }
    fn none(&mut self, channel: u32) {
        assert_eq!(self.try_event(channel), Err(libc::EAGAIN));
    }
}

/// A listener on channel 1, a request from channel 2: (bench, server, client, listener, child, active).
fn asked(ps: u16) -> (Bench, u32, u32, u32, u32, u32) {
    let mut b = Bench::new();
    let (s, c) = (b.core.open(), b.core.open());
    let l = b.listen(s, 0x10, ps, "0.0.0.0:7174");
    let a = b.routed(c, 0x20, ps, "10.0.0.1:7174");
    b.connect(c, a, 0x222, b"hello").unwrap();
    let e = b.event(s);
    assert_eq!(
        (e.uid, e.event, e.status),
        (0x10, event::CONNECT_REQUEST, 0)
    );
    assert_ne!(e.id, l);
    (b, s, c, l, e.id, a)
}

fn connected() -> (Bench, u32, u32, u32, u32) {
    let (mut b, s, c, _, child, a) = asked(ps::TCP);
    b.accept(s, child, 0x30, &Bench::param(0x111, b"welcome"))
        .unwrap();
    assert_eq!(b.event(c).event, event::CONNECT_RESPONSE);
    b.ready(c, a).unwrap();
    assert_eq!(
        b.event(s),
        Seen {
            uid: 0x30,
            id: child,
            event: event::ESTABLISHED,
            status: 0,
            param: vec![0; 304]
        }
    );
    (b, s, c, child, a)
}

#[test]
fn a_connection_from_request_to_end() {
    let (mut b, s, c, l, child, a) = asked(ps::TCP);
    // The request again, now with what it says.
    let other = b.routed(c, 0x21, ps::TCP, "10.0.0.1:7174");
    b.connect(c, other, 0x333, b"more").unwrap();
    let e = b.event(s);
    assert_eq!(u32_at(&e.param, 0), 0x333);
    assert_eq!((&e.param[8..12], e.param[12]), (&b"more"[..], 0));
    assert_eq!(e.param[conn_param::LEN], 56);
    // `param` made the second side's view of (2, 3); the other side's is the reverse of what it sends.
    assert_eq!(
        (
            e.param[conn_param::RESPONDER],
            e.param[conn_param::INITIATOR]
        ),
        (2, 3).swap()
    );
    // Both ends' attributes fit: numbers cross, PSNs cross.
    b.accept(s, child, 0x30, &Bench::param(0x111, b"welcome"))
        .unwrap();
    let e = b.event(c);
    assert_eq!(
        (e.uid, e.event, e.param[conn_param::LEN]),
        (0x20, event::CONNECT_RESPONSE, 196)
    );
    assert_eq!(&e.param[8..15], b"welcome");
    let get = |b: &mut Bench, ch, id| {
        let (r, s) = (
            b.attributes(ch, id, 2).unwrap(),
            b.attributes(ch, id, 3).unwrap(),
        );
        assert_eq!(
            u32_at(&r, qp_attr::MASK),
            mask::STATE
                | mask::AV
                | mask::PATH_MTU
                | mask::DEST_QPN
                | mask::RQ_PSN
                | mask::MAX_DEST_RD
                | mask::MIN_RNR
        );
        assert_eq!(
            u32_at(&s, qp_attr::MASK),
            mask::STATE
                | mask::SQ_PSN
                | mask::TIMEOUT
                | mask::RETRY_CNT
                | mask::RNR_RETRY
                | mask::MAX_RD
        );
        (r, s)
    };
    let ((pr, ps), (ar, a_s)) = (get(&mut b, s, child), get(&mut b, c, a));
    assert_eq!(u32_at(&pr, qp_attr::DEST_QPN), 0x222);
    assert_eq!(u32_at(&ar, qp_attr::DEST_QPN), 0x111);
    assert_eq!(u32_at(&pr, qp_attr::RQ_PSN), u32_at(&a_s, qp_attr::SQ_PSN));
    assert_eq!(u32_at(&ar, qp_attr::RQ_PSN), u32_at(&ps, qp_attr::SQ_PSN));
    assert_ne!(u32_at(&ps, qp_attr::SQ_PSN), u32_at(&a_s, qp_attr::SQ_PSN));
    assert_eq!(u32_at(&ar, qp_attr::PATH_MTU), 5);
    let cards = two_cards();
    assert_eq!(ar[qp_attr::AH..qp_attr::AH + 16], cards[0].gids()[1]);
    assert_eq!(pr[qp_attr::AH..qp_attr::AH + 16], cards[1].gids()[1]);
    // What one side initiates the other can hold.
    assert!(
        a_s[qp_attr::MAX_RD] <= pr[qp_attr::MAX_DEST_RD]
            && ps[qp_attr::MAX_RD] <= ar[qp_attr::MAX_DEST_RD]
    );
    b.none(s);
    b.ready(c, a).unwrap();
    assert_eq!(b.event(s).event, event::ESTABLISHED);
    assert_eq!(b.ready(c, a), Err(libc::EINVAL), "only once");
    // The end: both learn of it once, whoever asks for it again.
    b.pair(s, op::DISCONNECT, child, 0).unwrap();
    for (ch, uid) in [(s, 0x30), (c, 0x20)] {
        let e = b.event(ch);
        assert_eq!((e.uid, e.event), (uid, event::DISCONNECTED));
        b.none(ch);
    }
    b.pair(c, op::DISCONNECT, a, 0).unwrap();
    b.none(s);
    // ADDR_RESOLVED, ROUTE_RESOLVED, CONNECT_RESPONSE, DISCONNECTED; a request counts for its listener.
    assert_eq!(b.destroy(c, a), Ok(4));
    assert_eq!(b.destroy(s, child), Ok(2));
    assert_eq!(b.destroy(s, child), Err(libc::ENOENT));
    assert_eq!(b.destroy(s, l), Ok(2));
}

trait Swap {
    fn swap(self) -> Self;
}
impl Swap for (u8, u8) {
    fn swap(self) -> Self {
        (self.1, self.0)
    }
}

#[test]
fn refusals() {
    let (mut b, s, c, _, child, a) = asked(ps::TCP);
    let mut r = [0u8; 264];
    put(&mut r, 0, &child.to_ne_bytes());
    (r[4], r[8]) = (1, 0x77);
    b.send(s, op::REJECT, &r, 0).unwrap();
    let e = b.event(c);
    assert_eq!(
        (e.uid, e.event, e.status, e.param[8]),
        (0x20, event::REJECTED, 28, 0x77)
    );
    assert_eq!(b.send(s, op::REJECT, &r, 0), Err(libc::EINVAL), "only once");
    assert_eq!(
        b.accept(s, child, 0x30, &Bench::param(1, &[])),
        Err(libc::EINVAL)
    );
    assert_eq!(b.connect(c, a, 1, &[]), Err(libc::EINVAL));
    // Nobody listens there: neither on that port nor in that port space.
    for (space, port, kind, status) in [
        (ps::TCP, 7175, event::REJECTED, 8),
        (ps::UDP, 7174, event::UNREACHABLE, 1),
    ] {
        let id = b.routed(c, 0x40, space, &format!("10.0.0.1:{port}"));
        b.connect(c, id, 1, &[]).unwrap();
        // it waits for a listener a second long
        b.none(c);
        b.now += Duration::from_millis(1001);
        b.core.tick(b.now);
        let e = b.event(c);
        assert_eq!((e.event, e.status), (kind, status));
    }
    assert_eq!(b.core.next_deadline(), None);
    // No such host.
    let id = b.create(c, 0x41, ps::TCP);
    b.resolve(c, id, "10.0.0.9:7174").unwrap();
    let e = b.event(c);
    assert_eq!(
        (e.event, e.status),
        (event::ADDR_ERROR, -libc::EHOSTUNREACH)
    );
    // More private data than a request has room for.
    let id = b.routed(c, 0x42, ps::TCP, "10.0.0.1:7174");
    assert_eq!(b.connect(c, id, 1, &[1; 57]), Err(libc::EINVAL));
    b.connect(c, id, 1, &[1; 56]).unwrap();
    b.none(c);
}

/// A server that listens again after one connection may be later than the next request.
#[test]
fn a_request_waits_for_its_listener() {
    for ps in [ps::TCP, ps::UDP] {
        let mut b = Bench::new();
        let (s, c) = (b.core.open(), b.core.open());
        let a = b.routed(c, 0x20, ps, "10.0.0.1:7174");
        b.connect(c, a, 5, &[1, 2, 3]).unwrap();
        b.none(c);
        // not these
        b.listen(s, 0x11, ps, "10.0.0.1:7175");
        b.listen(s, 0x12, ps, "10.0.0.2:7174");
        b.none(s);
        b.now += Duration::from_millis(900);
        b.core.tick(b.now);
        b.none(c);
        b.listen(s, 0x10, ps, "10.0.0.1:7174");
        let e = b.event(s);
        assert_eq!((e.uid, e.event), (0x10, event::CONNECT_REQUEST));
        // asked once: neither another listener nor the end of the second brings it again
        b.listen(s, 0x13, ps, "10.0.0.1:7176");
        b.now += Duration::from_secs(2);
        b.core.tick(b.now);
        b.none(s);
        b.none(c);
        // one whose program has gone is not offered
        let gone = b.core.open();
        let a = b.routed(gone, 0x21, ps, "10.0.0.1:7177");
        b.connect(gone, a, 1, &[]).unwrap();
        b.core.close(gone);
        b.listen(s, 0x14, ps, "10.0.0.1:7177");
        b.none(s);
    }
}

#[test]
fn who_goes_away_is_noticed() {
    // after it was connected
    let (mut b, s, c, ..) = connected();
    b.core.close(c);
    assert_eq!(b.event(s).event, event::DISCONNECTED);
    let (mut b, s, c, ..) = connected();
    b.core.close(s);
    assert_eq!(b.event(c).event, event::DISCONNECTED);
    // before the request was read: destroyed with its listener
    let mut b = Bench::new();
    let (s, c) = (b.core.open(), b.core.open());
    let l = b.listen(s, 1, ps::TCP, "10.0.0.1:5");
    let a = b.routed(c, 2, ps::TCP, "10.0.0.1:5");
    b.connect(c, a, 1, &[]).unwrap();
    assert_eq!(b.destroy(s, l), Ok(0));
    let e = b.event(c);
    assert_eq!((e.event, e.status), (event::REJECTED, 28));
    b.none(s);
    assert_eq!(b.core.ids.len(), 1);
    // before it was answered: whoever says yes then is told
    let (mut b, s, c, _, child, _) = asked(ps::TCP);
    b.core.close(c);
    b.none(s);
    assert_eq!(
        b.accept(s, child, 0x30, &Bench::param(1, &[])),
        Err(libc::EINVAL)
    );
    // between yes and ready
    let (mut b, s, c, _, child, _) = asked(ps::TCP);
    b.accept(s, child, 0x30, &Bench::param(1, &[])).unwrap();
    b.core.close(c);
    let e = b.event(s);
    assert_eq!((e.uid, e.event, e.status), (0x30, event::REJECTED, 28));
}

#[test]
fn no_answer_and_no_link() {
    let (mut b, s, c, _, child, _) = asked(ps::TCP);
    assert!(b.core.next_deadline().is_some());
    b.now += Duration::from_secs(61);
    b.core.tick(b.now);
    let e = b.event(c);
    assert_eq!((e.event, e.status), (event::UNREACHABLE, -libc::ETIMEDOUT));
    assert_eq!(
        b.accept(s, child, 0x30, &Bench::param(1, &[])),
        Err(libc::EINVAL)
    );
    assert_eq!(b.core.next_deadline(), None);
    let id = b.routed(c, 0x50, ps::TCP, "10.0.0.1:7174");
    b.link.store(false, Ordering::SeqCst);
    b.connect(c, id, 1, &[]).unwrap();
    b.none(s);
    b.now += Duration::from_secs(3);
    b.core.tick(b.now);
    assert_eq!(b.event(c).event, event::UNREACHABLE);
}

#[test]
fn ports() {
    let mut b = Bench::new();
    let ch = b.core.open();
    b.listen(ch, 1, ps::TCP, "10.0.0.1:7000");
    let id = b.create(ch, 2, ps::TCP);
    for taken in ["10.0.0.1:7000", "0.0.0.0:7000", "127.0.0.1:7000"] {
        assert_eq!(b.bind(ch, id, taken), Err(libc::EADDRINUSE), "{taken}");
    }
    assert_eq!(b.bind(ch, id, "192.168.0.1:7000"), Err(libc::ENODEV));
    // another card, another port space
    b.bind(ch, id, "10.0.0.2:7000").unwrap();
    assert_eq!(
        b.bind(ch, id, "10.0.0.2:7001"),
        Err(libc::EINVAL),
        "only once"
    );
    let id = b.create(ch, 3, ps::UDP);
    b.bind(ch, id, "10.0.0.1:7000").unwrap();
    // Port 0: any that is free, the same never twice.
    let mut seen = std::collections::HashSet::new();
    for _ in 0..40 {
        let id = b.create(ch, 4, ps::TCP);
        b.bind(ch, id, "0.0.0.0:0").unwrap();
        let port = b.core.ids[&id].src.unwrap().port();
        assert!(port != 0 && seen.insert(port));
    }
    // The listener at this address comes before the one at any.
    let any = b.create(ch, 0x99, ps::UDP);
    b.core.ids.get_mut(&any).unwrap().reuse = true;
    b.core
        .ids
        .values_mut()
        .filter(|i| i.ps == ps::UDP)
        .for_each(|i| i.reuse = true);
    b.bind(ch, any, "0.0.0.0:7000").unwrap();
    b.pair(ch, op::LISTEN, any, 0).unwrap();
    assert!(b.core.listens(7000));
    let c = b.core.open();
    let a = b.routed(c, 1, ps::UDP, "10.0.0.2:7000");
    b.connect(c, a, 1, &[]).unwrap();
    assert_eq!(b.event(ch).uid, 0x99);
    // A backlog of one, which is full.
    let id = b.create(ch, 5, ps::TCP);
    b.bind(ch, id, "0.0.0.0:7100").unwrap();
    b.pair(ch, op::LISTEN, id, 1).unwrap();
    for want in [None, Some(28)] {
        let a = b.routed(c, 1, ps::TCP, "10.0.0.2:7100");
        b.connect(c, a, 1, &[]).unwrap();
        assert_eq!(b.try_event(c).ok().map(|e| e.status), want);
    }
}

#[test]
fn which_card_a_program_starts_from() {
    let mut b = Bench::new();
    let ch = b.core.open();
    for (dst, from, to) in [
        ("10.0.0.1:5", 1, 0),
        ("10.0.0.2:5", 0, 1),
        ("127.0.0.1:5", 1, 0),
        ("[fd00::1]:5", 1, 0),
    ] {
        let id = b.create(ch, 1, ps::TCP);
        b.resolve(ch, id, dst).unwrap();
        let i = &b.core.ids[&id];
        assert_eq!(
            (i.at.unwrap().card, i.to.unwrap().card),
            (from, to),
            "{dst}"
        );
        assert_eq!(i.at.unwrap().gid, i.to.unwrap().gid);
        // What a program asks for is there in the old way and in the new one.
        let mut q = [0u8; 16];
        put(&mut q, 8, &id.to_ne_bytes());
        let r = b.send(ch, op::QUERY_ROUTE, &q, route::SIZE).unwrap();
        assert_eq!(r[..8], two_cards()[from].guid.to_be_bytes());
        let size = if dst.starts_with('[') { V6 } else { V4 };
        let there = addr::parse(&r[route::DST..route::DST + size])
            .unwrap()
            .unwrap();
        for (option, least) in [
            (0, addrs::SIZE),
            (1, path::HEAD + path::RECORD),
            (2, addrs::SIZE),
        ] {
            put(&mut q, 12, &u32::to_ne_bytes(option));
            let r = b.send(ch, op::QUERY, &q, 1000).unwrap();
            assert_eq!(r.len(), least);
            if option == 0 {
                assert_eq!(
                    addr::parse(&r[addrs::DST..addrs::DST + size]),
                    Ok(Some(there))
                );
            }
        }
        put(&mut q, 12, &u32::to_ne_bytes(3));
        assert_eq!(b.send(ch, op::QUERY, &q, 1000), Err(libc::ENOSYS));
    }
    // Bound to the card itself: it is its own peer.
    let id = b.create(ch, 1, ps::TCP);
    b.bind(ch, id, "10.0.0.1:0").unwrap();
    b.resolve(ch, id, "10.0.0.1:5").unwrap();
    assert_eq!(b.core.ids[&id].at, b.core.ids[&id].to);
}

#[test]
fn a_datagram_service() {
    let (mut b, s, c, _, child, _) = asked(ps::UDP);
    let r = b.attributes(s, child, 1).unwrap();
    assert_eq!(
        u32_at(&r, qp_attr::MASK),
        mask::STATE | mask::PKEY | mask::PORT | mask::QKEY
    );
    assert_eq!(u32_at(&r, qp_attr::QKEY), QKEY);
    b.accept(s, child, 0x30, &Bench::param(0x111, b"service"))
        .unwrap();
    let e = b.event(c);
    assert_eq!(
        (e.event, u32_at(&e.param, 0), u32_at(&e.param, 4)),
        (event::ESTABLISHED, 0x111, QKEY)
    );
    assert_eq!(
        e.param[ud_param::AH..ud_param::AH + 16],
        two_cards()[0].gids()[1]
    );
    assert_eq!(&e.param[ud_param::DATA..ud_param::DATA + 7], b"service");
    b.none(s);
    assert_eq!(b.pair(s, op::DISCONNECT, child, 0), Err(libc::EINVAL));
    b.core.close(c);
    b.none(s);
}

#[test]
fn moving_to_another_channel() {
    let (mut b, s, c, l, ..) = asked(ps::TCP);
    let other = b.core.open();
    let a = b.routed(c, 0x60, ps::TCP, "10.0.0.1:7174");
    b.connect(c, a, 9, &[]).unwrap();
    b.core.channels.get_mut(&s).unwrap().told = 1;
    let mut m = op::MIGRATE_ID.to_ne_bytes().to_vec();
    m.extend(16u16.to_ne_bytes());
    m.extend(4u16.to_ne_bytes());
    m.extend([0; 8]);
    m.extend(l.to_ne_bytes());
    m.extend([0; 4]);
    assert_eq!(
        b.core.command(other, &m, c, b.now),
        Err(libc::EINVAL),
        "not from there"
    );
    let r = b.core.command(other, &m, s, b.now).unwrap();
    assert_eq!((u32_at(&r.data, 0), r.drain, r.drain_other), (1, 0, 1));
    b.none(s);
    let e = b.event(other);
    assert_eq!((e.event, u32_at(&e.param, 0)), (event::CONNECT_REQUEST, 9));
    b.accept(other, e.id, 0x31, &Bench::param(1, &[])).unwrap();
    assert_eq!(b.destroy(s, l), Err(libc::EINVAL), "another channel's");
}

#[test]
fn options() {
    let mut b = Bench::new();
    let ch = b.core.open();
    let id = b.create(ch, 1, ps::TCP);
    let mut set = |level: u32, name: u32, value: &[u8], len: u32| {
        let mut m = op::SET_OPTION.to_ne_bytes().to_vec();
        m.extend([24, 0, 0, 0]);
        m.extend([0; 8]);
        for v in [id, level, name, len] {
            m.extend(v.to_ne_bytes());
        }
        m.extend(value);
        b.core.command(ch, &m, 0, b.now).map(|_| ())
    };
    assert_eq!(set(0, 0, &[0x20], 1), Ok(()));
    assert_eq!(set(0, 1, &1u32.to_ne_bytes(), 4), Ok(()));
    assert_eq!(set(0, 2, &1u32.to_ne_bytes(), 4), Ok(()));
    assert_eq!(set(0, 3, &[19], 1), Ok(()));
    assert_eq!(set(0, 3, &[32], 1), Err(libc::EINVAL));
    assert_eq!(set(0, 0, &[1, 2], 2), Err(libc::EINVAL));
    assert_eq!(set(0, 0, &[1], 2), Err(libc::EINVAL));
    assert_eq!(set(0, 4, &[1], 1), Err(libc::ENOSYS));
    assert_eq!(set(1, 1, &[0; 72], 72), Err(libc::ENOSYS));
    let i = &b.core.ids[&id];
    assert_eq!((i.tos, i.reuse, i.timeout), (0x20, true, Some(19)));
}
