//! The socket that the launch shim talks to, and the thread behind it.
//!
//! A program's channel (its descriptor of `/dev/infiniband/rdma_cm`) is a connection to it. A command comes as one packet
//! with a socket for the answer attached, so that threads and forked children of one program don't take each other's.
//! Each event is one packet of one byte on the connection itself: that is what the program polls. Who takes the event
//! takes the packet, and how many packets became void (the events were of an identifier that has gone) is in the answer.
//!
//! | | |
//! |---|---|
//! | command | u32 kind (0 command, 1 which channel is this), u32 another channel (for MIGRATE_ID), then the command as the program wrote it |
//! | answer | i32 errno, u32 bytes, u32 void packets here, u32 void packets on the other channel, then the bytes |
use crate::state::Core;
use crate::Errno;
use metaroce::tree::CardInfo;
use nix::sys::socket::{
    accept4, bind, listen, recvmsg, socket, AddressFamily, Backlog, ControlMessageOwned, MsgFlags,
    SockFlag, SockType, UnixAddr,
};
use std::{
    io::{self, Write},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    os::unix::net::UnixStream,
    path::Path,
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Instant,
};

/// Name of the socket below the root that the shim knows.
pub const SOCKET: &str = "cm.sock";

const COMMAND: u32 = 0;
const WHICH: u32 = 1;
/// Room for a command with an option's value; anything longer is no command.
const LONGEST: usize = 4096;
/// Channels at a time, at most.
const CHANNELS: usize = 1024;
/// Descriptors of the process that are for other things.
const OTHERS: usize = 512;

/// A running connection manager; ends when dropped.
pub struct Cm {
    core: Arc<Mutex<Core>>,
    /// The thread ends when this closes.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Cm {
    /// Serves at `path`. `link_up` says whether a card's link is.
    pub fn start(
        path: &Path,
        cards: Vec<CardInfo>,
        seed: u64,
        link_up: impl Fn(usize) -> bool + Send + 'static,
    ) -> io::Result<Cm> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        let _ = std::fs::remove_file(path);
        bind(listener.as_raw_fd(), &UnixAddr::new(path)?)?;
        listen(&listener, Backlog::new(64)?)?;
        let core = Arc::new(Mutex::new(Core::new(cards, seed, Box::new(link_up))));
        let (stop, stopped) = UnixStream::pair()?;
        let theirs = core.clone();
        let thread = std::thread::Builder::new()
            .name("cm".into())
            .spawn(move || {
                Server {
                    core: theirs,
                    listener,
                    stopped,
                    clients: vec![],
                    most: room(),
                    told: None,
                }
                .run();
            })?;
        Ok(Cm {
            core,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Whether a program listens on this port.
    pub fn listens(&self, port: u16) -> bool {
        self.core
            .lock()
            .expect("no panics while locked")
            .listens(port)
    }
}

impl Drop for Cm {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

struct Server {
    core: Arc<Mutex<Core>>,
    listener: OwnedFd,
    stopped: UnixStream,
    clients: Vec<(OwnedFd, u32)>,
    /// Channels at a time.
    most: usize,
    /// The first refusal was told.
    told: Option<()>,
}

/// Takes leave of those that have gone since the last look; true if there were any.
fn sweep(core: &mut Core, clients: &mut Vec<(OwnedFd, u32)>) -> bool {
    let gone = |fd: &OwnedFd| {
        let mut p = libc::pollfd {
            fd: fd.as_raw_fd(),
            events: 0,
            revents: 0,
        };
        // SAFETY: one struct, which outlives the call.
        unsafe { libc::poll(&mut p, 1, 0) == 1 && p.revents & libc::POLLHUP != 0 }
    };
    let before = clients.len();
    clients.retain(|(fd, channel)| {
        let stays = !gone(fd);
        if !stays {
            core.close(*channel);
        }
        stays
    });
    clients.len() < before
}

/// Makes room for all channels, and says how many there can be: each takes a descriptor, and all else that is open here needs some, too.
fn room() -> usize {
    // SAFETY: both calls are about one struct.
    let soft = unsafe {
        let mut r: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut r);
        let wanted = ((CHANNELS + OTHERS) as libc::rlim_t).min(r.rlim_max);
        if r.rlim_cur < wanted {
            r.rlim_cur = wanted;
            libc::setrlimit(libc::RLIMIT_NOFILE, &r);
        }
        usize::try_from(r.rlim_cur).unwrap_or(usize::MAX)
    };
    CHANNELS.min(soft.saturating_sub(OTHERS).max(soft / 4))
}

/// Says why the next channel is refused: the program gets EMFILE, and most say no more than that.
fn tell(most: usize) {
    // Nobody is there to be told that this failed.
    let _ = writeln!(
        io::stderr(),
        "metaroce: a program wants more rdma_cm channels than there can be ({most} in this set of cards): its open() fails with EMFILE. Let it close channels \
         (rdma_destroy_event_channel) or use fewer at a time{}",
        if most < CHANNELS {
            format!("; with a higher `ulimit -n` there are up to {CHANNELS}")
        } else {
            String::new()
        }
    );
}

impl Server {
    fn run(mut self) {
        loop {
            let fds = [self.stopped.as_raw_fd(), self.listener.as_raw_fd()];
            let mut p: Vec<libc::pollfd> = fds
                .into_iter()
                .chain(self.clients.iter().map(|(fd, _)| fd.as_raw_fd()))
                .map(|fd| libc::pollfd {
                    fd,
                    events: libc::POLLIN,
                    revents: 0,
                })
                .collect();
            let wait = {
                let core = self.core.lock().expect("no panics while locked");
                core.next_deadline().map_or(-1, |d| {
                    d.saturating_duration_since(Instant::now()).as_millis() as i32 + 1
                })
            };
            // SAFETY: the array outlives the call.
            unsafe { libc::poll(p.as_mut_ptr(), p.len() as libc::nfds_t, wait) };
            if p[0].revents != 0 {
                return;
            }
            let mut gone = vec![];
            for (k, p) in p[2..].iter().enumerate() {
                if p.revents != 0 && !self.serve(k) {
                    gone.push(k);
                }
            }
            let mut core = self.core.lock().expect("no panics while locked");
            core.tick(Instant::now());
            for k in gone.into_iter().rev() {
                core.close(self.clients.swap_remove(k).1);
            }
            loop {
                match accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
                    Ok(raw) => {
                        // SAFETY: a new descriptor that nobody else owns.
                        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
                        if self.clients.len() < self.most || sweep(&mut core, &mut self.clients) {
                            self.clients.push((fd, core.open()));
                        } else {
                            self.told.get_or_insert_with(|| tell(self.most));
                        }
                    }
                    Err(_) => break,
                }
            }
            notice(&mut core, &self.clients);
        }
    }

    /// One command of a client; false: it has gone.
    fn serve(&self, k: usize) -> bool {
        let (fd, channel) = &self.clients[k];
        let mut buf = [0u8; LONGEST];
        let mut iov = [io::IoSliceMut::new(&mut buf)];
        let mut space = nix::cmsg_space!([RawFd; 2]);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let (n, reply) = match recvmsg::<()>(fd.as_raw_fd(), &mut iov, Some(&mut space), flags) {
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => return true,
            Err(_) => return false,
            Ok(m) => {
                let mut fds = vec![];
                for c in m.cmsgs().into_iter().flatten() {
                    if let ControlMessageOwned::ScmRights(v) = c {
                        // SAFETY: descriptors that the kernel just gave to us.
                        fds.extend(v.into_iter().map(|f| unsafe { OwnedFd::from_raw_fd(f) }));
                    }
                }
                (m.bytes, fds.into_iter().next())
            }
        };
        let (8.., Some(reply)) = (n, reply) else {
            return false;
        };
        let word = |at: usize| u32::from_ne_bytes(buf[at..at + 4].try_into().expect("four bytes"));
        let (kind, other) = (word(0), word(4));
        let mut core = self.core.lock().expect("no panics while locked");
        let r = match kind {
            COMMAND => core.command(*channel, &buf[8..n], other, Instant::now()),
            WHICH => Ok(crate::commands::Answer::of(channel.to_ne_bytes())),
            _ => Err(libc::EINVAL),
        };
        // Before the answer, which may say that some of them are void.
        notice(&mut core, &self.clients);
        answer(&reply, r);
        true
    }
}

/// One packet for each event that has none yet. A full socket gets the rest when the program has taken some.
fn notice(core: &mut Core, clients: &[(OwnedFd, u32)]) {
    for (fd, channel) in clients {
        let Some(c) = core.channels.get_mut(channel) else {
            continue;
        };
        while c.told < c.events.len() && send(fd, &[1]) {
            c.told += 1;
        }
    }
}

fn answer(to: &OwnedFd, r: Result<crate::commands::Answer, Errno>) {
    let (status, a) = match r {
        Ok(a) => (0, a),
        Err(e) => (e, Default::default()),
    };
    let mut m = vec![];
    m.extend(status.to_ne_bytes());
    for n in [a.data.len() as u32, a.drain, a.drain_other] {
        m.extend(n.to_ne_bytes());
    }
    m.extend(a.data);
    // A program that has gone needs none.
    send(to, &m);
}

fn send(fd: &OwnedFd, m: &[u8]) -> bool {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: buffer and length belong together.
    unsafe { libc::send(fd.as_raw_fd(), m.as_ptr().cast(), m.len(), flags) == m.len() as isize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{op, ps, u32_at};
    use crate::addr::two_cards;
    use nix::sys::socket::{connect, recv, sendmsg, ControlMessage};

    fn knock(path: &Path) -> OwnedFd {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        connect(fd.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
        fd
    }

    /// Sends a packet with a socket for the answer, and waits for that; empty: nobody answered.
    fn ask(fd: &OwnedFd, packet: &[u8]) -> Vec<u8> {
        let (mine, theirs) = nix::sys::socket::socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .unwrap();
        let fds = [theirs.as_raw_fd()];
        let iov = [io::IoSlice::new(packet)];
        let rights = [ControlMessage::ScmRights(&fds)];
        sendmsg::<()>(fd.as_raw_fd(), &iov, &rights, MsgFlags::empty(), None).unwrap();
        drop(theirs);
        let mut b = vec![0; 1000];
        let n = recv(mine.as_raw_fd(), &mut b, MsgFlags::empty()).unwrap();
        b.truncate(n);
        b
    }

    fn create(kind: u32) -> Vec<u8> {
        let mut m = [kind, 0, op::CREATE_ID].map(u32::to_ne_bytes).concat();
        m.extend([24, 0, 4, 0]);
        m.extend([1; 16]);
        m.extend(ps::TCP.to_ne_bytes());
        m.extend([0; 6]);
        m
    }

    #[test]
    fn garbage_costs_its_sender_the_channel_and_nobody_else() {
        let path = std::env::temp_dir().join(format!("metaroce-cm-{}", std::process::id()));
        let cm = Cm::start(&path, two_cards(), 1, |_| true).unwrap();
        let good = knock(&path);
        let made = ask(&good, &create(COMMAND));
        assert_eq!((u32_at(&made, 0), made.len()), (0, 20));
        let mut end = [0u8; 8];
        // without a socket for the answer
        for packet in [&b"?"[..], &create(COMMAND)] {
            let bad = knock(&path);
            nix::sys::socket::send(bad.as_raw_fd(), packet, MsgFlags::empty()).unwrap();
            assert_eq!(recv(bad.as_raw_fd(), &mut end, MsgFlags::empty()), Ok(0));
        }
        // too short, with one
        let bad = knock(&path);
        assert_eq!(ask(&bad, b"1234567"), b"");
        assert_eq!(recv(bad.as_raw_fd(), &mut end, MsgFlags::empty()), Ok(0));
        // neither a command nor a question; longer than any command
        assert_eq!(u32_at(&ask(&good, &create(7)), 0), libc::EINVAL as u32);
        let long = [create(COMMAND), vec![0; 2 * LONGEST]].concat();
        assert_eq!(
            u32_at(&ask(&good, &long), 0),
            0,
            "what is behind is not looked at"
        );
        let number = ask(&good, &[WHICH, 0].map(u32::to_ne_bytes).concat());
        assert_eq!((u32_at(&number, 0), number.len()), (0, 20));
        assert!(!cm.listens(1));
        // a crowd comes and goes
        for _ in 0..3 {
            let crowd: Vec<_> = (0..100).map(|_| knock(&path)).collect();
            assert_eq!(ask(&crowd[99], &create(COMMAND)).len(), 20);
        }
        drop(cm);
        assert_eq!(recv(good.as_raw_fd(), &mut end, MsgFlags::empty()), Ok(0));
        std::fs::remove_file(&path).unwrap();
    }
}
