//! Which packets a device sends and takes, as far as verbs show it: each operation is carried out between queue pairs of the device, in messages of one
//! packet and of three. RoCEv2 has one way to carry each, so what arrived, byte for byte, was in those packets.

use super::{
    bench::*,
    facts::Facts,
    verbs::{Made, Qp, LOCAL_WRITE, MW_BIND},
};
use metaroce_manifest::registry::id;
use metaroce_protocol::opcode::{Opcode, Place, Service};
use std::{
    ffi::c_int,
    time::{Duration, Instant},
};

const WRITE_IMM: c_int = 1;
const SEND_IMM: c_int = 3;
const TYPE_2: c_int = 2;
/// MTU 256.
const SMALL: c_int = 1;
const TO: usize = 32_768;
const IMM: u32 = 0x1234_5678;
const WITH_IMM: u32 = 2;
const WITH_INV: u32 = 8;
/// One packet, and three.
const LENGTHS: [usize; 2] = [100, 700];

fn places(len: usize) -> &'static [Place] {
    match len {
        100 => &[Place::Only],
        _ => &[Place::First, Place::Middle, Place::Last],
    }
}

impl Bench<'_> {
    pub fn packets(&self, f: &mut Facts) {
        let mut all: Vec<(Opcode, bool)> = vec![];
        for service in [Service::Rc, Service::Uc] {
            for len in LENGTHS {
                for (op, imm) in [
                    (SEND, false),
                    (SEND_IMM, true),
                    (WRITE, false),
                    (WRITE_IMM, true),
                ] {
                    self.drain();
                    let ok = self
                        .small(service)
                        .is_ok_and(|(a, b)| self.carried(&a, &b, op, len, None));
                    for p in places(len) {
                        let last = imm && p.ends();
                        // the immediate is in the last one; the others are those of the operation without
                        if imm && !last {
                            continue;
                        }
                        all.push(match op {
                            SEND | SEND_IMM => (Opcode::send(service, *p, last), ok),
                            _ => (Opcode::write(service, *p, last), ok),
                        });
                    }
                }
            }
        }
        for len in LENGTHS {
            self.drain();
            let read = self
                .small(Service::Rc)
                .is_ok_and(|(a, _b)| self.read_back(&a, len));
            all.extend(
                places(len)
                    .iter()
                    .map(|p| (Opcode::read_response(*p), read)),
            );
            all.push((Opcode::RC_READ_REQUEST, read));
            let ended = self.ended(len).unwrap_or(false);
            let last = places(len).iter().filter(|p| p.ends());
            all.extend(last.map(|p| (Opcode::send_inv(*p), ended)));
        }
        for imm in [false, true] {
            let ok = self.datagram(imm).unwrap_or(false);
            all.push((Opcode::send(Service::Ud, Place::Only, imm), ok));
        }
        let atomic = |w: &str| {
            let words = f.words.get(id::atomic_op_accel);
            words.and_then(|s| s.get(w)).copied().unwrap_or(false)
        };
        let (swap, add) = (atomic("compare_and_swap"), atomic("fetch_and_add"));
        all.push((Opcode::RC_CMP_SWAP, swap));
        all.push((Opcode::RC_FETCH_ADD, add));
        all.push((Opcode::RC_ATOMIC_ACK, swap || add));
        // a SEND or a WRITE of RC completes when it is acknowledged
        let acked = |(o, ok): &(Opcode, bool)| *ok && o.0 >> 5 == 0;
        all.push((Opcode::RC_ACK, all.iter().any(acked)));
        let whole = |service| {
            let mut of = all.iter().filter(move |(o, _)| {
                [Place::First, Place::Middle, Place::Last]
                    .map(|p| Opcode::send(service, p, false))
                    .contains(o)
            });
            of.all(|(_, ok)| *ok)
        };
        f.works(
            id::segmentation_offload,
            whole(Service::Rc) || whole(Service::Uc),
        );
        for (o, ok) in all {
            f.word(id::opcodes, o.name(), ok);
        }
    }

    /// Two connected QPs with the smallest MTU.
    fn small(&self, service: Service) -> Made<(Qp<'_>, Qp<'_>)> {
        if service == Service::Uc {
            let (a, b) = self.two(UC)?;
            self.up(&a, b.number(), SMALL, None)?;
            self.up(&b, a.number(), SMALL, None)?;
            return Ok((a, b));
        }
        let (a, b) = self.two(RC)?;
        self.join(&a, &b, SMALL, 1)?;
        Ok((a, b))
    }

    /// A SEND or WRITE of `len` bytes from `a` to `b`: the bytes, and what the receiver is told.
    fn carried(&self, a: &Qp, b: &Qp, op: c_int, len: usize, key: Option<u32>) -> bool {
        let imm = op == SEND_IMM || op == WRITE_IMM;
        let told = op != WRITE;
        let bytes = pattern(len as u8 ^ op as u8, len);
        self.mem.put(0, &bytes);
        self.mem.put(TO, &vec![0xEE; len]);
        if told && b.recv(self.sge(TO, len)).is_err() {
            return false;
        }
        let mut s = self.sge(0, len);
        let mut w = wr(op, &mut s);
        w.imm = key.unwrap_or(IMM);
        if matches!(op, WRITE | WRITE_IMM) {
            w.wr = [self.mem.at(TO), self.mr.keys().1.into(), 0, 0];
        }
        if a.send(&mut w).is_err() {
            return false;
        }
        for _ in 0..1 + usize::from(told) {
            let Some(c) = self.wait().filter(|c| c.status == 0) else {
                return false;
            };
            if c.qp_num != b.number() {
                continue;
            }
            let right = match key {
                Some(k) => c.wc_flags & WITH_INV != 0 && c.imm == k,
                None => !imm || c.wc_flags & WITH_IMM != 0 && c.imm == IMM,
            };
            if !right {
                return false;
            }
        }
        // a WRITE without acknowledgement is done some time
        let until = Instant::now() + Duration::from_secs(2);
        while self.mem.get(TO, len) != bytes {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }

    fn read_back(&self, a: &Qp, len: usize) -> bool {
        let bytes = pattern(len as u8 ^ 0x55, len);
        self.mem.put(TO, &bytes);
        self.mem.put(0, &vec![0xEE; len]);
        let mut s = self.sge(0, len);
        let mut w = wr(READ, &mut s);
        w.wr = [self.mem.at(TO), self.mr.keys().1.into(), 0, 0];
        self.done(a, &mut w) && self.mem.get(0, len) == bytes
    }

    /// A SEND that ends a window of the receiver.
    fn ended(&self, len: usize) -> Option<bool> {
        let base = self.pd.mr(self.mem, LOCAL_WRITE | MW_BIND).ok()?;
        let window = self.pd.mw(TYPE_2).ok()?;
        let (a, b) = self.small(Service::Rc).ok()?;
        let key = self.bound(&window, &base, &b)?;
        Some(self.carried(&a, &b, SEND_INV, len, Some(key)))
    }

    /// A datagram, with an immediate or without.
    pub fn datagram(&self, imm: bool) -> Made<bool> {
        const WC_GRH: u32 = 1;
        self.drain();
        let (a, b) = self.two(UD)?;
        self.ready(&a)?;
        self.ready(&b)?;
        let ah = self.pd.ah(self.path())?;
        let bytes = pattern(9, 200);
        self.mem.put(0, &bytes);
        b.recv(self.sge(TO, 240))?;
        let mut s = self.sge(0, 200);
        let mut w = wr(if imm { SEND_IMM } else { SEND }, &mut s);
        w.imm = IMM;
        w.wr = to(&ah, &b);
        a.send(&mut w)?;
        let got = [self.wait(), self.wait()];
        let good = got.iter().all(|c| c.is_some_and(|c| c.status == 0));
        let recv = got.iter().flatten().find(|c| c.qp_num == b.number());
        let grh = recv.is_some_and(|c| {
            let told = !imm || c.wc_flags & WITH_IMM != 0 && c.imm == IMM;
            c.wc_flags & WC_GRH != 0 && c.byte_len == 240 && told
        });
        Ok(good && grh && self.mem.get(TO + 40, 200) == bytes)
    }

    /// Whether the library says that the bytes of a WRITE become visible in order; None if it can't tell.
    pub fn data_in_order(&self) -> Option<bool> {
        let (a, _b) = self.pair().ok()?;
        a.data_in_order(WRITE)
    }
}
