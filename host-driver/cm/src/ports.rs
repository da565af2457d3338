//! Addresses and ports of identifiers: binding, resolving, listening.
use crate::abi::event;
use crate::addr::{self, Place};
use crate::state::{Core, Id, State};
use crate::Errno;
use std::net::SocketAddr;

/// Requests that a listener may leave unread if it does not say how many.
const BACKLOG: u32 = 1024;

impl Core {
    /// Binds to an address, or to a port of all cards.
    pub fn bind(&mut self, n: u32, a: SocketAddr) -> Result<(), Errno> {
        let at = if a.ip().is_unspecified() {
            None
        } else {
            Some(addr::find(&self.cards, a.ip()).ok_or(libc::ENODEV)?)
        };
        let (ps, reuse) = (self.ids[&n].ps, self.ids[&n].reuse);
        let mut port = a.port();
        if port == 0 {
            port = self.free_port(ps).ok_or(libc::EADDRNOTAVAIL)?;
        } else if self.clash(n, ps, port, at, |o| !(reuse && o.reuse)) {
            return Err(libc::EADDRINUSE);
        }
        let src = match at {
            Some(p) => addr::of(&self.cards, p, port),
            None => SocketAddr::new(a.ip(), port),
        };
        let id = self.ids.get_mut(&n).expect("it is there");
        (id.src, id.at, id.state) = (Some(src), at, State::Bound);
        Ok(())
    }

    /// Whether another identifier holds the port on one of the same cards.
    fn clash(
        &self,
        n: u32,
        ps: u16,
        port: u16,
        at: Option<Place>,
        also: impl Fn(&Id) -> bool,
    ) -> bool {
        self.ids.iter().any(|(k, o)| {
            let same_place = match (at, o.at) {
                (Some(a), Some(b)) => a.card == b.card,
                _ => true,
            };
            *k != n
                && o.ps == ps
                && o.src.is_some_and(|s| s.port() == port)
                && !o.passive
                && same_place
                && also(o)
        })
    }

    fn free_port(&mut self, ps: u16) -> Option<u16> {
        for _ in 0..28_000 {
            self.last_port = if self.last_port >= 60_998 {
                32_768
            } else {
                self.last_port + 1
            };
            let p = self.last_port;
            if !self
                .ids
                .values()
                .any(|i| i.ps == ps && i.src.is_some_and(|s| s.port() == p))
            {
                return Some(p);
            }
        }
        None
    }

    /// Finds the card that has `dst`, and the one to go from. Who does not say starts from the first card that is another
    /// one: all programs of a run are on one machine, and on the wire they are to meet.
    pub fn resolve(
        &mut self,
        n: u32,
        src: Option<SocketAddr>,
        dst: SocketAddr,
    ) -> Result<(), Errno> {
        if self.ids[&n].state == State::Idle {
            let any = SocketAddr::new(
                match dst {
                    SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
                    SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
                },
                0,
            );
            self.bind(n, src.unwrap_or(any))?;
        }
        if self.ids[&n].state != State::Bound {
            return Err(libc::EINVAL);
        }
        let to = if dst.ip().is_unspecified() {
            Some(Place { card: 0, gid: 1 })
        } else {
            addr::find(&self.cards, dst.ip())
        };
        let Some(to) = to else {
            self.event(n, event::ADDR_ERROR, -libc::EHOSTUNREACH);
            return Ok(());
        };
        let cards = self.cards.len();
        let id = self.ids.get_mut(&n).expect("it is there");
        let card = id.at.map_or_else(
            || (0..cards).find(|c| *c != to.card).unwrap_or(to.card),
            |p| p.card,
        );
        let at = Place { card, gid: to.gid };
        if id.at.is_some_and(|p| p.gid != to.gid) {
            // IPv4 and IPv6, or two scopes of it.
            return Err(libc::EINVAL);
        }
        let port = id.src.map_or(0, |s| s.port());
        id.src = Some(addr::of(&self.cards, at, port));
        id.dst = Some(addr::of(&self.cards, to, dst.port()));
        (id.at, id.to, id.state) = (Some(at), Some(to), State::AddrResolved);
        self.event(n, event::ADDR_RESOLVED, 0);
        Ok(())
    }

    pub fn listen(&mut self, n: u32, backlog: u32) -> Result<(), Errno> {
        if self.ids[&n].state == State::Idle {
            self.bind(n, "0.0.0.0:0".parse().expect("an address"))?;
        }
        let id = &self.ids[&n];
        let port = id.src.map_or(0, |s| s.port());
        if id.state != State::Bound {
            return Err(libc::EINVAL);
        }
        if self.clash(n, id.ps, port, id.at, |o| o.state == State::Listening) {
            return Err(libc::EADDRINUSE);
        }
        let id = self.ids.get_mut(&n).expect("it is there");
        id.state = State::Listening;
        id.backlog = if backlog == 0 {
            BACKLOG
        } else {
            backlog.min(BACKLOG)
        };
        Ok(())
    }

    /// A port on which somebody listens.
    pub fn listens(&self, port: u16) -> bool {
        self.ids
            .values()
            .any(|i| i.state == State::Listening && i.src.is_some_and(|s| s.port() == port))
    }
}
