//! The commands: their arguments, checked, and what they do.
use crate::abi::{
    addrs, event, event_resp, least, op, path, ps, qp_attr, reason, route, u16_at, u32_at, u64_at,
    Conn,
};
use crate::addr;
use crate::query;
use crate::state::{Core, State};
use crate::Errno;
use std::{net::SocketAddr, time::Instant};

/// Header: command, bytes of its arguments, room for the answer.
const HEADER: usize = 8;

/// `IBV_EVENT_COMM_EST`: data came before the other side said that it is ready.
const COMM_EST: u32 = 4;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub data: Vec<u8>,
    /// Notices on the channel's socket that have become void; and on that of the channel that an identifier came from.
    pub drain: u32,
    pub drain_other: u32,
}

impl Answer {
    pub fn of(data: impl Into<Vec<u8>>) -> Answer {
        Answer {
            data: data.into(),
            ..Answer::default()
        }
    }
}

/// A `sockaddr` that takes the first bytes of its room.
fn sized(b: &[u8], size: u16) -> Result<Option<SocketAddr>, Errno> {
    match b.get(..size as usize) {
        Some(a) => addr::parse(a),
        None => Err(libc::EINVAL),
    }
}

impl Core {
    /// Carries out a command of a channel: header, arguments, and an option's value behind them. `other` is the channel that
    /// the arguments name by a descriptor, if they do.
    pub fn command(
        &mut self,
        channel: u32,
        request: &[u8],
        other: u32,
        now: Instant,
    ) -> Result<Answer, Errno> {
        if request.len() < HEADER {
            return Err(libc::EINVAL);
        }
        let (kind, given, room) = (
            u32_at(request, 0),
            u16_at(request, 4) as usize,
            u16_at(request, 6) as usize,
        );
        let b = request.get(HEADER..HEADER + given).ok_or(libc::EINVAL)?;
        let value = &request[HEADER + given..];
        match least(kind) {
            // Joining multicast groups and reading options; the rest is no command at all.
            0 if kind <= 22 => return Err(libc::ENOSYS),
            0 => return Err(libc::EINVAL),
            n if b.len() < n => return Err(libc::EINVAL),
            _ => {}
        }
        let fits = |n: usize| if room < n { Err(libc::ENOSPC) } else { Ok(()) };
        let mut answer = match kind {
            op::CREATE_ID => {
                fits(4)?;
                let ud = match u16_at(b, 16) {
                    ps::TCP => false,
                    ps::UDP => true,
                    // Its QP types are those of verbs.
                    ps::IB => match b[18] {
                        2 => false,
                        4 => true,
                        _ => return Err(libc::EINVAL),
                    },
                    _ => return Err(libc::EINVAL),
                };
                let n = self.create(channel, u64_at(b, 0), u16_at(b, 16), ud)?;
                Answer::of(n.to_ne_bytes())
            }
            op::DESTROY_ID => {
                fits(4)?;
                let n = u32_at(b, 8);
                self.id(channel, n)?;
                let (reported, drain) = self.destroy(n);
                Answer {
                    drain,
                    ..Answer::of(reported.to_ne_bytes())
                }
            }
            op::BIND_IP => self.bind_to(channel, u32_at(b, 36), addr::parse(&b[8..36]))?,
            op::BIND => self.bind_to(channel, u32_at(b, 0), sized(&b[8..], u16_at(b, 4)))?,
            op::RESOLVE_IP => {
                let (src, dst) = (addr::parse(&b[..28]), addr::parse(&b[28..56]));
                self.resolve_to(channel, u32_at(b, 56), src, dst)?
            }
            op::RESOLVE_ADDR => {
                let (n, src) = (u16_at(b, 8), &b[16..144]);
                // No source at all is allowed.
                let src = if n == 0 { Ok(None) } else { sized(src, n) };
                self.resolve_to(channel, u32_at(b, 0), src, sized(&b[144..], u16_at(b, 10)))?
            }
            op::RESOLVE_ROUTE => {
                let n = u32_at(b, 0);
                let id = self.id(channel, n)?;
                if id.state != State::AddrResolved {
                    return Err(libc::EINVAL);
                }
                id.state = State::RouteResolved;
                self.event(n, event::ROUTE_RESOLVED, 0);
                Answer::default()
            }
            op::QUERY_ROUTE => {
                fits(route::DEVICE)?;
                self.id(channel, u32_at(b, 8))?;
                Answer::of(query::route(&self.cards, &self.ids[&u32_at(b, 8)]))
            }
            op::QUERY => {
                let n = u32_at(b, 8);
                self.id(channel, n)?;
                let (least, f): (usize, fn(&_, &_) -> Vec<u8>) = match u32_at(b, 12) {
                    0 => (addrs::DEVICE, query::addresses),
                    1 => (path::HEAD, query::paths),
                    2 => (addrs::DEVICE, query::gids),
                    _ => return Err(libc::ENOSYS),
                };
                fits(least)?;
                Answer::of(f(&self.cards[..], &self.ids[&n]))
            }
            op::CONNECT => {
                let n = u32_at(b, 272);
                self.id(channel, n)?;
                let c = Conn::parse(b).ok_or(libc::EINVAL)?;
                self.connect(n, c, now)?;
                Answer::default()
            }
            op::LISTEN => {
                self.id(channel, u32_at(b, 0))?;
                self.listen(u32_at(b, 0), u32_at(b, 4))?;
                self.offer_early(now);
                Answer::default()
            }
            op::ACCEPT => {
                let n = u32_at(b, 280);
                self.id(channel, n)?;
                match Conn::parse(&b[8..]) {
                    Some(c) => self.accept(n, u64_at(b, 0), c, now)?,
                    None => self.ready(n)?,
                }
                Answer::default()
            }
            op::REJECT => {
                let n = u32_at(b, 0);
                self.id(channel, n)?;
                let why = match i32::from(b[5]) {
                    0 => reason::CONSUMER,
                    r @ (reason::CONSUMER | reason::VENDOR_OPTION) => r,
                    _ => return Err(libc::EINVAL),
                };
                self.reject(n, why, &b[8..8 + b[4] as usize])?;
                Answer::default()
            }
            op::DISCONNECT => {
                self.id(channel, u32_at(b, 0))?;
                self.disconnect(u32_at(b, 0))?;
                Answer::default()
            }
            op::INIT_QP_ATTR => {
                fits(qp_attr::SIZE)?;
                let n = u32_at(b, 8);
                self.id(channel, n)?;
                Answer::of(query::attributes(
                    &self.cards,
                    &self.ids[&n],
                    u32_at(b, 12),
                )?)
            }
            op::GET_EVENT => {
                fits(event_resp::SHORT)?;
                let (e, told) = self.next_event(channel).ok_or(libc::EAGAIN)?;
                Answer {
                    drain: told.into(),
                    ..Answer::of(e.resp)
                }
            }
            op::SET_OPTION => self.set_option(channel, b, value)?,
            op::NOTIFY => {
                let n = u32_at(b, 0);
                self.id(channel, n)?;
                if u32_at(b, 4) == COMM_EST {
                    self.established(n);
                }
                Answer::default()
            }
            op::MIGRATE_ID => {
                fits(4)?;
                let n = u32_at(b, 8);
                self.id(other, n)?;
                let (reported, drain_other) = self.migrate(n, channel);
                Answer {
                    drain_other,
                    ..Answer::of(reported.to_ne_bytes())
                }
            }
            _ => return Err(libc::ENOSYS),
        };
        answer.data.truncate(room);
        Ok(answer)
    }

    fn bind_to(
        &mut self,
        channel: u32,
        n: u32,
        a: Result<Option<SocketAddr>, Errno>,
    ) -> Result<Answer, Errno> {
        let id = self.id(channel, n)?;
        let idle = id.state == State::Idle;
        let a = a?.ok_or(libc::EAFNOSUPPORT)?;
        if !idle {
            return Err(libc::EINVAL);
        }
        self.bind(n, a)?;
        Ok(Answer::default())
    }

    fn resolve_to(
        &mut self,
        channel: u32,
        n: u32,
        src: Result<Option<SocketAddr>, Errno>,
        dst: Result<Option<SocketAddr>, Errno>,
    ) -> Result<Answer, Errno> {
        self.id(channel, n)?;
        let dst = dst?.ok_or(libc::EINVAL)?;
        self.resolve(n, src?, dst)?;
        Ok(Answer::default())
    }

    /// Options of an identifier: type of service, use of a port again, one address family only, ACK timeout.
    fn set_option(&mut self, channel: u32, b: &[u8], value: &[u8]) -> Result<Answer, Errno> {
        let (n, level, name) = (u32_at(b, 8), u32_at(b, 12), u32_at(b, 16));
        if u32_at(b, 20) as usize != value.len() {
            return Err(libc::EINVAL);
        }
        let id = self.id(channel, n)?;
        match (level, name, value) {
            (0, 0, [tos]) => id.tos = *tos,
            (0, 1, [_, _, _, _]) => {
                if !matches!(id.state, State::Idle | State::Bound) {
                    return Err(libc::EINVAL);
                }
                id.reuse = value != [0; 4];
            }
            (0, 2, [_, _, _, _]) => {}
            (0, 3, [t @ 0..=31]) => id.timeout = Some(*t),
            (0, 0..=3, _) => return Err(libc::EINVAL),
            _ => return Err(libc::ENOSYS),
        }
        Ok(Answer::default())
    }
}

#[cfg(test)]
mod tests;
