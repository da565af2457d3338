//! What a client may not say.

use super::*;
use metaroce_hdl_spec::hostmsg::HEAD_BYTES;
use std::os::fd::FromRawFd;

/// Memory with one client, PASID 1, whose other end is the second value.
fn connected() -> (ClientMemory, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are owned right away; a new memfd likewise.
    let (ours, theirs, memfd) = unsafe {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        assert_eq!(
            libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()),
            0
        );
        let m = libc::memfd_create(c"arena".as_ptr(), libc::MFD_ALLOW_SEALING);
        assert_eq!(libc::ftruncate(m, arena::SIZE as i64), 0);
        (
            OwnedFd::from_raw_fd(ends[0]),
            OwnedFd::from_raw_fd(ends[1]),
            OwnedFd::from_raw_fd(m),
        )
    };
    let arena = Arena::map(&memfd, 0x10_0000_0000).expect("arena");
    let mut m = ClientMemory::default();
    let c = Client::new(1, 0, "test".into(), ours, arena, false);
    m.clients.insert(1, c);
    (m, theirs)
}

fn say(fd: &OwnedFd, h: Head, data: &[u8]) {
    let mut b = [0u8; HEAD_BYTES];
    let len = data.len() as u32;
    Head { len, ..h }.emit(&mut b);
    let m = [&b[..], data].concat();
    // SAFETY: buffer and length belong together.
    let n = unsafe { libc::send(fd.as_raw_fd(), m.as_ptr().cast(), m.len(), 0) };
    assert_eq!(n, m.len() as isize);
}

fn why(m: &ClientMemory) -> String {
    m.clients[&1].dead.clone().unwrap_or_default()
}

/// The card counts on as many bytes as it asked for: more or fewer would shift what other clients send.
#[test]
fn an_answer_of_another_length_ends_its_client() {
    for len in [0usize, 8, 63, 65, 4096] {
        let (mut m, fd) = connected();
        let t = m.start_read(1, 0x5000, 64);
        let tag = 1;
        let done = Head {
            tag,
            ..Head::new(Kind::ReadDone)
        };
        say(&fd, done, &vec![7; len]);
        assert_eq!(m.finish_read(t), None, "{len}");
        assert!(why(&m).contains("64 bytes with"), "{}", why(&m));
    }
    let (mut m, fd) = connected();
    let t = m.start_read(1, 0x5000, 64);
    let done = Head {
        tag: 1,
        ..Head::new(Kind::ReadDone)
    };
    say(&fd, done, &[7; 64]);
    assert_eq!(m.finish_read(t), Some(vec![7; 64]));
    assert_eq!(why(&m), "");
}

/// Answers to nothing would pile up.
#[test]
fn answers_that_nobody_asked_for_end_their_client() {
    for (kind, text) in [
        (Kind::ReadDone, "a read that was not asked"),
        (Kind::WriteDone, "a write that was not asked"),
        (Kind::Write, "only the simulator may send"),
    ] {
        let (mut m, fd) = connected();
        say(&fd, Head::new(kind), &[]);
        m.clients.get_mut(&1).expect("client").pump();
        assert!(why(&m).contains(text), "{kind:?}: {}", why(&m));
    }
}

/// One that never stops talking is looked at in turns, and asks only so much at once.
#[test]
fn a_flood_is_looked_at_in_turns() {
    let (mut m, fd) = connected();
    let c = m.clients.get_mut(&1).expect("client");
    let mut asked = 0;
    while c.dead.is_none() {
        for _ in 0..100 {
            say(&fd, Head::new(Kind::MmioRead), &[]);
            asked += 1;
        }
        c.pump();
        assert!(c.mmio_reads.len() <= QUESTIONS && asked < 3000);
    }
    assert!(why(&m).contains("questions at once"), "{}", why(&m));
    let (mut m, fd) = connected();
    let c = m.clients.get_mut(&1).expect("client");
    for _ in 0..PUMP + 10 {
        // As many as fit: the socket may hold fewer.
        let mut b = [0u8; HEAD_BYTES];
        Head::new(Kind::Wake).emit(&mut b);
        // SAFETY: buffer and length belong together.
        let n = unsafe {
            libc::send(
                fd.as_raw_fd(),
                b.as_ptr().cast(),
                b.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if n < 0 {
            break;
        }
    }
    assert!(c.pump());
    assert!(why(&m).is_empty());
}
