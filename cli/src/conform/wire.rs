//! What a capture of the wire shows: packets, sizes, checksums, what is sent again after a loss, and, by the time stamps, timers and rates of the traffic
//! that an earlier run made ([`super::traffic`]). The stamps of a simulated card's capture are its own time; a mirror port's are those of the switch.

use super::facts::{Facts, Kind, Rate, Sent};
use anyhow::{bail, Context, Result};
use metaroce_manifest::registry::id;
use metaroce_protocol::{
    frame::Frame,
    opcode::{Class, Opcode, Place},
    NakCode, Syndrome,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Packets of a capture before and after one that can have to do with it.
const NEAR: usize = 16_384;

/// A RoCEv2 packet.
struct Packet {
    ns: u64,
    opcode: Opcode,
    to: u32,
    psn: u32,
    payload: usize,
    /// Addresses, so that both ways of a connection are found.
    ends: (Vec<u8>, Vec<u8>),
    syndrome: Option<Syndrome>,
}

/// What was captured, by time.
struct Capture {
    packets: Vec<Packet>,
    bad_icrc: u64,
}

/// Frames with their times in ns, of a file in the format of libpcap.
fn frames(b: &[u8]) -> Result<Vec<(u64, &[u8])>> {
    let magic = b.get(..4).context("no capture: the file is too short")?;
    let (little, nano) = match magic {
        [0xD4, 0xC3, 0xB2, 0xA1] => (true, false),
        [0xA1, 0xB2, 0xC3, 0xD4] => (false, false),
        [0x4D, 0x3C, 0xB2, 0xA1] => (true, true),
        [0xA1, 0xB2, 0x3C, 0x4D] => (false, true),
        [0x0A, 0x0D, 0x0D, 0x0A] => {
            bail!("a pcapng capture: `editcap -F nsecpcap IN OUT` makes a pcap file of it")
        }
        _ => bail!("no pcap file"),
    };
    let word = |at: usize| -> Option<u32> {
        let w: [u8; 4] = b.get(at..at + 4)?.try_into().ok()?;
        Some(if little {
            u32::from_le_bytes(w)
        } else {
            u32::from_be_bytes(w)
        })
    };
    if word(20).map(|l| l & 0xFFFF) != Some(1) {
        bail!("a capture of something else than Ethernet");
    }
    let (mut at, mut all) = (24, vec![]);
    // what is cut off at the end is left out
    while let (Some(s), Some(part), Some(len)) = (word(at), word(at + 4), word(at + 8)) {
        let Some(data) = b.get(at + 16..at + 16 + len as usize) else {
            break;
        };
        let part = u64::from(part) * if nano { 1 } else { 1000 };
        all.push((u64::from(s) * 1_000_000_000 + part, data));
        at += 16 + len as usize;
    }
    Ok(all)
}

fn read(file: &Path) -> Result<Capture> {
    let bytes = std::fs::read(file)?;
    let mut c = Capture {
        packets: vec![],
        bad_icrc: 0,
    };
    for (ns, data) in frames(&bytes)? {
        let Ok(f) = Frame::new_without_icrc(data) else {
            continue;
        };
        if f.computed_icrc() != Some(f.roce.icrc()) {
            c.bad_icrc += 1;
            continue;
        }
        let ip = f.ip.as_bytes();
        let ends = match ip.first().map(|v| v >> 4) {
            Some(4) => (ip[12..16].to_vec(), ip[16..20].to_vec()),
            _ => (ip[8..24].to_vec(), ip[24..40].to_vec()),
        };
        c.packets.push(Packet {
            ns,
            opcode: f.roce.opcode(),
            to: f.roce.dest_qpn(),
            psn: f.roce.psn().get(),
            payload: f.payload().len(),
            ends,
            syndrome: f.roce.ext().aeth.map(|a| a.syndrome),
        });
    }
    // of two directions that were captured apart
    c.packets.sort_by_key(|p| p.ns);
    Ok(c)
}

/// How far `a` is behind `b`, of 24 bits.
fn ahead(a: u32, b: u32) -> i32 {
    (a.wrapping_sub(b) << 8) as i32 >> 8
}

/// Adds to `f` what this capture shows.
pub fn look(file: &Path, f: &mut Facts) -> Result<()> {
    let c = read(file)?;
    if c.packets.is_empty() {
        bail!("no RoCEv2 packet is in it");
    }
    f.frames += c.packets.len() as u64;
    f.works(id::icrc_offload, c.bad_icrc == 0);
    let kinds: BTreeSet<u8> = c.packets.iter().map(|p| p.opcode.0).collect();
    for o in kinds.iter().map(|k| Opcode(*k)) {
        f.word(id::opcodes, o.name(), true);
        let profile = match o.0 >> 5 {
            0 => "rocev2_rc",
            1 => "rocev2_uc",
            3 => "rocev2_ud",
            _ => continue,
        };
        f.word(id::wire_profiles, profile, true);
    }
    sizes(&c, f);
    again(&c, f);
    for s in f.sent.clone() {
        match s.kind {
            Kind::Write | Kind::Read => rate(&c, &s, f),
            Kind::Timeout => timeout(&c, &s, f),
            Kind::Rnr => rnr(&c, &s, f),
        }
    }
    Ok(())
}

/// The packets before the last one of a message are as long as the MTU.
fn sizes(c: &Capture, f: &mut Facts) {
    let inner = |p: &&Packet| {
        let i = p.opcode.info();
        i.is_some_and(|i| matches!(i.place, Place::First | Place::Middle) && i.class != Class::Ack)
    };
    let all: BTreeSet<usize> = c.packets.iter().filter(inner).map(|p| p.payload).collect();
    for n in all {
        f.word(id::mtus, &n.to_string(), true);
    }
}

/// What follows a NAK for a missing packet: all from there on, or that one alone.
fn again(c: &Capture, f: &mut Facts) {
    // of each direction and queue pair: the last PSN that was sent, and when
    let (mut back, mut one) = (0, 0);
    for (n, nak) in c.packets.iter().enumerate() {
        if nak.syndrome != Some(Syndrome::Nak(NakCode::PsnSequence)) {
            continue;
        }
        let there = (&nak.ends.1, &nak.ends.0);
        let request = |p: &&Packet| {
            (&p.ends.0, &p.ends.1) == there && p.opcode.info().is_some_and(|i| i.is_request())
        };
        // who sent a packet with that number last, and how far it had come
        let before = c.packets[..n].iter().rev().take(NEAR).filter(request);
        let Some(lost) = before.clone().find(|p| p.psn == nak.psn) else {
            continue;
        };
        let far = before
            .filter(|p| p.to == lost.to)
            .map(|p| ahead(p.psn, nak.psn))
            .max();
        // two or more behind it: else both ways look the same
        let Some(far) = far.filter(|far| *far >= 2) else {
            continue;
        };
        let mut after = c.packets[n..].iter().take(NEAR).filter(request);
        let mut after = after.by_ref().filter(|p| p.to == lost.to);
        // on the way already when the NAK came
        let Some(first) = after.find(|p| p.psn == nak.psn) else {
            continue;
        };
        let next = after.find(|p| p.psn != first.psn);
        match next.map(|p| ahead(p.psn, nak.psn)) {
            Some(1) => back += 1,
            Some(n) if n > far => one += 1,
            _ => {}
        }
    }
    if back + one > 0 {
        f.word(id::retransmission_offload, "go_back_n", back > one);
        f.word(id::retransmission_offload, "selective", one > back);
    }
}

/// Payload, or messages, a second, while all queue pairs send.
fn rate(c: &Capture, s: &Sent, f: &mut Facts) {
    let data = |p: &Packet| {
        let class = p.opcode.info().map(|i| i.class);
        match s.kind {
            Kind::Read => class == Some(Class::ReadResponse),
            _ => class == Some(Class::Write),
        }
    };
    let mut times: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
    for p in c.packets.iter().filter(|p| s.to.contains(&p.to) && data(p)) {
        times.entry(p.to).or_default().push((p.ns, p.payload));
    }
    if times.len() != s.to.len() {
        return;
    }
    // the first quarter is the start
    for t in times.values_mut() {
        t.drain(..t.len() / 4);
    }
    let from = times.values().filter_map(|t| t.first()).map(|t| t.0).max();
    let to = times.values().filter_map(|t| t.last()).map(|t| t.0).min();
    let Some((from, to)) = from.zip(to).filter(|(a, b)| a < b) else {
        return;
    };
    // from the start of the first frame to the start of the last one
    let within = times.values().flatten();
    let within = within.filter(|(ns, _)| (from..to).contains(ns));
    let (n, bytes) = within.fold((0u64, 0u64), |(n, b), (_, len)| (n + 1, b + *len as u64));
    if n < 32 {
        return;
    }
    let ns = u128::from(to - from);
    let name = if s.kind == Kind::Read {
        "read"
    } else {
        "write"
    };
    let (id, value) = if s.message > 4096 {
        (id::goodput, u128::from(bytes) * 8 * 1000 / ns)
    } else {
        (id::message_rate, u128::from(n) * 1_000_000_000 / ns)
    };
    f.rates.push(Rate {
        id: id.into(),
        name: name.into(),
        mtu: s.mtu,
        qps: s.to.len() as u32,
        message: s.message,
        value: value as u64,
    });
}

fn timer(f: &mut Facts, id: &str, code: u8, (least, most): (u64, u64)) {
    let codes = f.timers.entry(id.into()).or_default();
    let t = codes.entry(code).or_insert((least, most));
    *t = (t.0.min(least), t.1.max(most));
}

/// From one time that it is sent to the next.
fn timeout(c: &Capture, s: &Sent, f: &mut Facts) {
    let sent = c.packets.iter().filter(|p| s.to.contains(&p.to));
    let times: Vec<u64> = sent.map(|p| p.ns).collect();
    let waits = times.windows(2).map(|w| w[1] - w[0]);
    if let Some((least, most)) = waits.clone().min().zip(waits.max()) {
        timer(f, "local_ack_timeout", s.code, (least, most));
    }
}

/// From the NAK to the next time that it is sent. The longest is without the way of the NAK into the card, and that of what is sent again out of it: each is no
/// longer than from a request to its NAK, so what is late then is late for certain.
fn rnr(c: &Capture, s: &Sent, f: &mut Facts) {
    let (mut sent, mut told) = (None, None);
    let (mut way, mut waits) = (u64::MAX, vec![]);
    for p in &c.packets {
        if s.from.contains(&p.to) && matches!(p.syndrome, Some(Syndrome::Rnr { .. })) {
            told = Some(p.ns);
            way = sent.map_or(way, |ns: u64| way.min(p.ns.saturating_sub(ns)));
        } else if s.to.contains(&p.to) {
            sent = Some(p.ns);
            waits.extend(told.take().map(|ns| p.ns - ns));
        }
    }
    let Some((least, most)) = waits.iter().min().zip(waits.iter().max()) else {
        return;
    };
    // a way that was not seen takes nothing
    let way = if way == u64::MAX { 0 } else { way };
    timer(
        f,
        "rnr_timer",
        s.code,
        (*least, most.saturating_sub(2 * way)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap() {
        assert_eq!(ahead(2, 0xFF_FFFF), 3);
        assert_eq!(ahead(0xFF_FFFF, 2), -3);
    }

    const WRITE: Opcode = Opcode::RC_WRITE_MIDDLE;
    const NAK: Syndrome = Syndrome::Nak(NakCode::PsnSequence);

    fn packet(ns: u64, opcode: Opcode, to: u32, psn: u32, syndrome: Option<Syndrome>) -> Packet {
        // towards queue pair 7 from the first address, back to 5
        let ends = match to {
            7 => (vec![1], vec![2]),
            _ => (vec![2], vec![1]),
        };
        Packet {
            ns,
            opcode,
            to,
            psn,
            payload: 256,
            ends,
            syndrome,
        }
    }

    fn capture(packets: Vec<Packet>) -> Capture {
        Capture {
            packets,
            bad_icrc: 0,
        }
    }

    /// Packets from `first` on, then a NAK for `lost`, then those of `after`.
    fn resent(first: u32, lost: u32, after: &[u32]) -> Option<BTreeMap<String, bool>> {
        let mask = 0xFF_FFFF;
        let write = |psn: u32| packet(0, WRITE, 7, psn & mask, None);
        let mut all: Vec<Packet> = (0..6).map(|n| write(first + n)).collect();
        all.push(packet(0, Opcode::RC_ACK, 5, lost & mask, Some(NAK)));
        all.extend(after.iter().map(|n| write(*n)));
        let mut f = Facts::default();
        again(&capture(all), &mut f);
        f.words.remove(id::retransmission_offload)
    }

    #[test]
    fn what_is_sent_again() {
        let says = |back, one| {
            let words = [("go_back_n", back), ("selective", one)];
            Some(words.map(|(w, yes)| (w.to_string(), yes)).into())
        };
        // one more was on its way when the NAK came
        assert_eq!(resent(10, 12, &[16, 12, 13, 14]), says(true, false));
        assert_eq!(resent(10, 12, &[12, 16, 17]), says(false, true));
        // across the end of the numbers
        let end = 0xFF_FFFD;
        assert_eq!(
            resent(end, end + 1, &[end + 1, end + 2, 0]),
            says(true, false)
        );
        assert_eq!(resent(end, end + 1, &[end + 1, 3, 4]), says(false, true));
        // the last one, or nothing behind it: either way would look like this
        assert_eq!(resent(10, 15, &[15, 16]), None);
        assert_eq!(resent(10, 12, &[]), None);
    }

    fn sent(kind: Kind, code: u8) -> Sent {
        Sent {
            kind,
            to: vec![7],
            from: vec![5],
            mtu: 256,
            message: 64,
            code,
        }
    }

    #[test]
    fn times() {
        let mut f = Facts::default();
        let send = |ns| packet(ns, Opcode::RC_SEND_ONLY, 7, 1, None);
        let c = capture(vec![send(1000), send(10_000), send(20_000)]);
        timeout(&c, &sent(Kind::Timeout, 1), &mut f);
        assert_eq!(f.timers["local_ack_timeout"][&1], (9000, 10_000));
        let told = |ns| packet(ns, Opcode::RC_ACK, 5, 1, Some(Syndrome::Rnr { timer: 1 }));
        let c = capture(vec![
            send(1000),
            told(1600),
            send(12_600),
            told(13_300),
            send(24_800),
        ]);
        rnr(&c, &sent(Kind::Rnr, 1), &mut f);
        // the longest is 11,500, and a way 600 at most
        assert_eq!(f.timers["rnr_timer"][&1], (11_000, 10_300));
        // 100 messages, 10 ns apart
        let all = (0..100).map(|n| packet(n * 10, Opcode::RC_WRITE_ONLY, 7, n as u32, None));
        rate(&capture(all.collect()), &sent(Kind::Write, 0), &mut f);
        let r = f.rates.pop().unwrap();
        assert_eq!(
            (r.id.as_str(), r.qps, r.value),
            ("message_rate", 1, 100_000_000)
        );
    }

    #[test]
    fn files() {
        assert!(frames(b"").is_err() && frames(b"\x0A\x0D\x0D\x0A....").is_err());
        let mut b = vec![0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0];
        b.extend([0; 8]);
        b.extend([0, 0, 1, 0, 1, 0, 0, 0]);
        b.extend([1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 7, 8]);
        let whole = frames(&b).unwrap();
        assert_eq!(whole, [(1_000_000_005, &[7u8, 8][..])]);
        // cut off
        b.extend([1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 7]);
        assert_eq!(frames(&b).unwrap().len(), 1);
        b[20] = 105;
        assert!(frames(&b).is_err());
    }
}
