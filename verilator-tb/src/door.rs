//! The simulator's socket: new connections, and their first message.
//!
//! A visitor that says nothing keeps nobody waiting: it is looked at again between slices and sent away after [`PATIENCE`].

use anyhow::Context;
use metaroce_hdl_spec::{
    hostmsg::{Head, Kind, HEAD_BYTES, MAX_MSG},
    HOST_ABI_MAJOR, HOST_ABI_MINOR,
};
use nix::sys::socket::{
    accept4, bind, listen, recvmsg, socket, AddressFamily, Backlog, ControlMessageOwned, MsgFlags,
    SockFlag, SockType, UnixAddr,
};
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::Path,
    time::{Duration, Instant},
};

/// How long a connection may say nothing (the provider sends its hello at once).
const PATIENCE: Duration = Duration::from_secs(1);

/// Silent connections kept at a time; the oldest gives way to a new one.
const SILENT: usize = 32;

/// First message of a client.
pub struct Hello {
    pub arena: OwnedFd,
    pub base: u64,
    pub name: String,
}

/// A connection with its first message (card, process and the rest), or why there is none.
pub type Visitor = (OwnedFd, io::Result<(usize, i32, Hello)>);

pub struct Door {
    listener: OwnedFd,
    silent: Vec<(OwnedFd, Instant)>,
}

impl Door {
    /// Listens at `path`; an old socket file that nobody serves is replaced.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            listener: listen_at(path)?,
            silent: vec![],
        })
    }

    /// What wakes a sleeper: a new connection, or a silent one that speaks.
    pub fn fds(&self) -> impl Iterator<Item = RawFd> + '_ {
        std::iter::once(&self.listener)
            .chain(self.silent.iter().map(|(fd, _)| fd))
            .map(|fd| fd.as_raw_fd())
    }

    /// Those who have spoken since the last call, or who won't. Never waits.
    pub fn visitors(&mut self) -> Vec<Visitor> {
        while let Ok(raw) = accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
            // SAFETY: a new descriptor that nobody else owns.
            let fd = unsafe { OwnedFd::from_raw_fd(raw) };
            self.silent.push((fd, Instant::now()));
        }
        let mut out = vec![];
        let crowd = self.silent.len().saturating_sub(SILENT);
        for (k, (fd, since)) in std::mem::take(&mut self.silent).into_iter().enumerate() {
            match hello(&fd) {
                Ok(Some(h)) => out.push((fd, Ok(h))),
                Ok(None) if k >= crowd && since.elapsed() < PATIENCE => {
                    self.silent.push((fd, since))
                }
                Ok(None) => out.push((fd, Err(io::Error::other("no hello within a second")))),
                Err(e) => out.push((fd, Err(e))),
            }
        }
        out
    }
}

/// Listens at `path`; an old socket file that nobody serves is replaced.
fn listen_at(path: &Path) -> anyhow::Result<OwnedFd> {
    let fd = socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    let addr = UnixAddr::new(path).with_context(|| {
        format!("{} is too long for a unix socket (107 bytes at most); set METAROCE_RUN_DIR to a shorter folder", path.display())
    })?;
    let _ = std::fs::remove_file(path);
    bind(fd.as_raw_fd(), &addr)
        .with_context(|| format!("can't make the simulator's socket {}", path.display()))?;
    listen(&fd, Backlog::new(64)?)?;
    Ok(fd)
}

/// Reads the first message of a connection; None: it has not come yet.
fn hello(fd: &OwnedFd) -> io::Result<Option<(usize, i32, Hello)>> {
    let mut buf = [0u8; MAX_MSG];
    let mut iov = [io::IoSliceMut::new(&mut buf)];
    let mut space = nix::cmsg_space!([RawFd; 2]);
    let (n, fds) = {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let m = match recvmsg::<UnixAddr>(fd.as_raw_fd(), &mut iov, Some(&mut space), flags) {
            Err(nix::errno::Errno::EAGAIN) => return Ok(None),
            m => m?,
        };
        let mut fds = vec![];
        for c in m.cmsgs().map_err(io::Error::other)? {
            if let ControlMessageOwned::ScmRights(v) = c {
                // SAFETY: descriptors that the kernel just gave to us.
                fds.extend(v.into_iter().map(|f| unsafe { OwnedFd::from_raw_fd(f) }));
            }
        }
        (m.bytes, fds)
    };
    let h = Head::parse(&buf[..n])
        .map_err(|e| io::Error::other(format!("the first message is not a hello ({e:?})")))?;
    if h.kind != Kind::Hello {
        return Err(io::Error::other(format!(
            "the first message is {:?}, not Hello",
            h.kind
        )));
    }
    let (major, minor) = (h.tag >> 16, h.tag & 0xFFFF);
    if major != HOST_ABI_MAJOR {
        return Err(io::Error::other(format!(
            "it speaks host interface {major}.{minor}, this simulator {HOST_ABI_MAJOR}.{HOST_ABI_MINOR}: use the provider that was built with it"
        )));
    }
    let arena = fds
        .into_iter()
        .next()
        .ok_or_else(|| io::Error::other("hello without the shared memory"))?;
    let cred = nix::sys::socket::getsockopt(fd, nix::sys::socket::sockopt::PeerCredentials)
        .map_err(io::Error::other)?;
    let name = String::from_utf8_lossy(&buf[HEAD_BYTES..n])
        .chars()
        .filter(|c| !c.is_control())
        .take(64)
        .collect();
    Ok(Some((
        h.arg as usize,
        cred.pid(),
        Hello {
            arena,
            base: h.addr,
            name,
        },
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{connect, send};

    fn knock(path: &Path) -> OwnedFd {
        let fd = socket(
            AddressFamily::Unix,
            SockType::SeqPacket,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .unwrap();
        connect(fd.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
        fd
    }

    #[test]
    fn silent_visitors_keep_nobody_waiting() {
        let path = std::env::temp_dir().join(format!("metaroce-door-{}", std::process::id()));
        let mut door = Door::open(&path).unwrap();
        let quiet = knock(&path);
        assert!(door.visitors().is_empty());
        // one that speaks is heard though it came later
        let loud = knock(&path);
        send(loud.as_raw_fd(), b"?", MsgFlags::empty()).unwrap();
        let v = door.visitors();
        assert_eq!(v.len(), 1);
        assert!(v[0]
            .1
            .as_ref()
            .is_err_and(|e| e.to_string().contains("not a hello")));
        // one that leaves is noticed, the other is still there
        drop(quiet);
        assert_eq!(door.visitors().len(), 1);
        assert_eq!(door.fds().count(), 1);
        // a crowd of silent ones is held down
        let crowd: Vec<_> = (0..SILENT + 8).map(|_| knock(&path)).collect();
        let sent_away = door.visitors().len();
        assert!(sent_away >= 8, "{sent_away}");
        assert!(door.fds().count() <= SILENT + 1);
        drop(crowd);
        std::fs::remove_file(&path).unwrap();
    }
}
