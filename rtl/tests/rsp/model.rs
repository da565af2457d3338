//! Reference model of one responder QP: what each packet must lead to. Written from the wire rules, not from the block.

#[derive(Debug, Clone, PartialEq)]
pub enum Job {
    Free {
        slot: u64,
    },
    Pay {
        mr: u64,
        va: u64,
        len: u64,
        src: u64,
        free: bool,
        slot: u64,
    },
    Cqe {
        cq: u64,
        qpn: u64,
        op: u64,
        index: u64,
        status: u64,
        imm: Option<u64>,
        /// Invalidated key, as it stands on the wire.
        inv: Option<u64>,
        sol: bool,
        len: u64,
        free: Option<u64>,
        /// UD: the source QPN.
        grh: Option<u64>,
    },
    Fence,
}
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effects {
    pub jobs: Vec<Job>,
    /// qp, psn, syndrome, msn
    pub acks: Vec<(u64, u64, u64, u64)>,
    /// qp, psn, msn, va, rkey, len
    pub reads: Vec<(u64, u64, u64, u64, u64, u64)>,
    /// Beside each: 0 READ, 1 compare and swap, 2 fetch and add; duplicate; operands.
    pub ops: Vec<(u64, bool, u64, u64)>,
    pub frees: Vec<(u64, u64)>,
    pub errs: Vec<(u64, u64)>,
    /// Windows to invalidate: key, QPN, PD.
    pub invs: Vec<(u64, u64, u64)>,
    /// drop_qp, duplicate, sequence, cnp, ecn
    pub ev: [u64; 5],
    /// SRQs that reached their limit.
    pub lims: Vec<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct Mr {
    pub valid: bool,
    pub lw: bool,
    pub rw: bool,
    pub rr: bool,
    pub ra: bool,
    pub variant: u64,
    pub pd: u64,
    pub va: u64,
    pub len: u64,
    /// A window: its MR, and of type 2 the QP that it is for.
    pub parent: Option<u64>,
    pub qpn: Option<u64>,
}

/// What the window unit says to a key.
pub fn may_invalidate(key: u64) -> bool {
    key & 7 != 7
}

/// The MR whose page list holds what a key names.
fn home(mrs: &[Mr], key: u64) -> u64 {
    let mr = mrs.get((key >> 8) as usize);
    mr.and_then(|m| m.parent).unwrap_or(key >> 8)
}

#[derive(Debug, Clone, Default)]
pub struct Cfg {
    pub state: u64,
    pub ty: u64,
    pub tag: u64,
    pub mtu: u64,
    pub pd: u64,
    pub rcq: u64,
    pub acc_write: bool,
    pub acc_read: bool,
    pub acc_atomic: bool,
    pub qkey: u64,
    pub min_rnr: u64,
    pub max_dest_rd: u64,
    pub dip: [u8; 16],
    /// log2 of units per receive entry.
    pub stride: u64,
    /// Receives come from this SRQ.
    pub srq: Option<u64>,
}
#[derive(Debug, Clone, Default)]
pub struct Pkt {
    pub op: u8,
    pub qpn: u64,
    pub psn: u64,
    pub va: u64,
    pub rkey: u64,
    pub dlen: u64,
    pub imm: u64,
    pub swap: u64,
    pub cmp: u64,
    pub se: bool,
    pub ackreq: bool,
    pub ce: bool,
    pub sip: [u8; 16],
    pub src: u64,
    pub len: u64,
    pub slot: u64,
}
/// va, len, lkey
pub type Sge = (u64, u64, u64);

/// A receive ring: that of a QP, or an SRQ. Indices count units.
#[derive(Debug, Clone)]
pub struct Ring {
    pub ci: u64,
    pub pi: u64,
    pub limit: u64,
    /// Slots of the prefetch.
    pub units: Vec<[Sge; 4]>,
    /// Numbers of the SRQ entries that begin in them.
    pub numbers: Vec<u64>,
}

impl Default for Ring {
    fn default() -> Self {
        Ring {
            ci: 0,
            pi: 0,
            limit: 0,
            units: vec![[(0, 0, 0); 4]; 4],
            numbers: vec![0; 4],
        }
    }
}

impl Ring {
    pub fn posted(&self) -> u64 {
        self.pi.wrapping_sub(self.ci) & 0xFFFF
    }
    /// The oldest entry: its number in an SRQ, its index, its SGEs.
    fn entry(&self, stride: u64) -> (u64, u64, Vec<Sge>) {
        let at = |i: u64| (self.ci + i) as usize % self.units.len();
        let sges = (0..1 << stride).flat_map(|i| self.units[at(i)]);
        (self.numbers[at(0)], self.ci, sges.collect())
    }
    /// The oldest entry is consumed; true when the limit is reached.
    fn pop(&mut self, stride: u64) -> bool {
        self.ci = (self.ci + (1 << stride)) & 0xFFFF;
        let hit = self.posted() < self.limit;
        if hit {
            self.limit = 0;
        }
        hit
    }
    pub fn set_limit(&mut self, idx: u64, limit: u64, out: &mut Effects) {
        self.limit = limit;
        if self.posted() < limit {
            self.limit = 0;
            out.lims.push(idx);
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Msg {
    None,
    Send {
        sge: usize,
        off: u64,
        bytes: u64,
        wqe: Vec<Sge>,
        /// What its CQE says.
        index: u64,
    },
    Write {
        va: u64,
        rem: u64,
        rkey: u64,
        total: u64,
    },
}

#[derive(Debug, Clone)]
pub struct Qp {
    pub idx: u64,
    pub cfg: Cfg,
    pub live: bool,
    pub err: bool,
    pub epsn: u64,
    pub msn: u64,
    pub rq: Ring,
    pub lvl: u64,
    log_qp: u32,
    nak: bool,
    dup: bool,
    msg: Msg,
}

const M24: u64 = 0xFF_FFFF;

impl Qp {
    pub fn new(idx: u64) -> Self {
        Qp {
            idx,
            cfg: Cfg::default(),
            live: false,
            err: false,
            epsn: 0,
            msn: 0,
            rq: Ring::default(),
            lvl: 0,
            log_qp: 3,
            nak: false,
            dup: false,
            msg: Msg::None,
        }
    }
    pub fn mid_message(&self) -> bool {
        self.msg != Msg::None
    }
    pub fn reset(&mut self, out: &mut Effects) {
        *self = Qp {
            cfg: self.cfg.clone(),
            rq: Ring {
                units: self.rq.units.clone(),
                ..Default::default()
            },
            lvl: self.lvl,
            ..Qp::new(self.idx)
        };
        out.acks.push((self.idx, 0, 0xFF, 0));
    }
    pub fn start(&mut self, psn: u64) {
        *self = Qp {
            live: true,
            epsn: psn,
            ..{
                let mut q = Qp::new(self.idx);
                q.cfg = self.cfg.clone();
                q.rq = self.rq.clone();
                q.lvl = self.lvl;
                q
            }
        };
    }
    fn flushed(&self, log_qp: u32, index: u64) -> Job {
        Job::Cqe {
            cq: self.cfg.rcq,
            qpn: self.cfg.tag << log_qp | self.idx,
            op: 0,
            index,
            status: 5,
            imm: None,
            inv: None,
            sol: false,
            len: 0,
            free: None,
            grh: None,
        }
    }
    /// The SRQ entry of the message at hand.
    pub fn holds(&self) -> Option<u64> {
        match self.msg {
            Msg::Send { index, .. } if self.cfg.srq.is_some() => Some(index),
            _ => None,
        }
    }
    pub fn flush(&mut self, log_qp: u32, out: &mut Effects) {
        self.err = true;
        if let Some(n) = self.holds() {
            out.jobs.push(self.flushed(log_qp, n));
        }
        self.msg = Msg::None;
        while self.cfg.srq.is_none() && self.rq.posted() >= 1 << self.cfg.stride {
            out.jobs.push(self.flushed(log_qp, self.rq.ci));
            self.rq.pop(self.cfg.stride);
        }
    }

    fn nak(&mut self, out: &mut Effects, psn: u64, syn: u64) {
        out.acks.push((self.idx, psn, syn, self.msn));
    }
    /// `held`: status of the receive WQE that belongs to the packet.
    fn fatal(
        &mut self,
        p: &Pkt,
        srqs: &mut [Ring],
        out: &mut Effects,
        syn: u64,
        kind: u64,
        held: Option<u64>,
    ) {
        match held {
            Some(status) => {
                let index = self.take(srqs, out);
                out.jobs.push(Job::Cqe {
                    cq: self.cfg.rcq,
                    qpn: p.qpn,
                    op: 0,
                    index,
                    status,
                    imm: None,
                    inv: None,
                    sol: false,
                    len: 0,
                    free: Some(p.slot),
                    grh: None,
                });
            }
            None => out.jobs.push(Job::Free { slot: p.slot }),
        }
        self.nak(out, p.psn, syn);
        out.errs.push((self.idx, kind));
        self.err = true;
        self.msg = Msg::None;
    }

    /// The receive WQE of the packet is used: what its CQE calls it. An SRQ's was taken before if the message began before.
    fn take(&mut self, srqs: &mut [Ring], out: &mut Effects) -> u64 {
        if let Some(n) = self.holds() {
            return n;
        }
        let (srq, stride) = (self.cfg.srq, self.cfg.stride);
        let (at, ring) = match srq {
            Some(i) => (i, &mut srqs[i as usize]),
            None => (self.idx, &mut self.rq),
        };
        let (number, index, _) = ring.entry(stride);
        if ring.pop(stride) {
            out.lims.push(at);
        }
        out.frees.push((at, ring.ci));
        if srq.is_some() {
            number
        } else {
            index
        }
    }

    /// UC: the packet is dropped, and the message with it.
    fn give_up(&mut self, p: &Pkt, out: &mut Effects) {
        self.msg = Msg::None;
        out.ev[2] += 1;
        out.jobs.push(Job::Free { slot: p.slot });
    }

    fn allowed(
        &self,
        mrs: &[Mr],
        key: u64,
        va: u64,
        len: u64,
        right: impl Fn(&Mr) -> bool,
    ) -> bool {
        let Some(mr) = mrs.get((key >> 8) as usize) else {
            return false;
        };
        let end = va as u128 + len as u128;
        let own = self.cfg.tag << self.log_qp | self.idx;
        mr.valid
            && mr.qpn.is_none_or(|q| q == own)
            && mr.variant == key & 0xFF
            && mr.pd == self.cfg.pd
            && right(mr)
            && va >= mr.va
            && end <= mr.va as u128 + mr.len as u128
    }

    pub fn packet(
        &mut self,
        p: &Pkt,
        log_qp: u32,
        mrs: &[Mr],
        srqs: &mut [Ring],
        out: &mut Effects,
    ) {
        out.ev[4] += p.ce as u64;
        let free = Job::Free { slot: p.slot };
        let ok = p.qpn >> log_qp == self.cfg.tag
            && self.cfg.ty < 3
            && ((2..=4).contains(&self.cfg.state) || (self.cfg.ty == 2 && self.cfg.state == 5))
            && self.live
            && !self.err
            && match self.cfg.ty {
                2 => p.va >> 32 == self.cfg.qkey,
                _ => p.sip == self.cfg.dip,
            };
        let (ud, uc) = (self.cfg.ty == 2, self.cfg.ty == 1);
        let class = [0, 1, 3][self.cfg.ty as usize % 3];
        if !ok || (p.op >> 5 != class && p.op != 0x81) {
            out.ev[0] += 1;
            return out.jobs.push(free);
        }
        if p.op == 0x81 {
            out.ev[3] += 1;
            return out.jobs.push(free);
        }
        let p = &Pkt {
            op: p.op & 31,
            ..p.clone()
        };
        let mtu = if ud { 4096 } else { 128 << self.cfg.mtu };
        let d = (p.psn.wrapping_sub(self.epsn)) & M24;
        let inv = matches!(p.op, 0x16 | 0x17) && !uc && !ud;
        let send = matches!(p.op, 0..=5) || inv;
        let write = matches!(p.op, 6..=11);
        let atomic = matches!(p.op, 0x13 | 0x14);
        let read = p.op == 12 || atomic;
        let first = matches!(p.op, 0 | 4 | 5 | 6 | 10 | 11 | 0x17) || read;
        let last = matches!(p.op, 2 | 3 | 4 | 5 | 8 | 9 | 10 | 11 | 0x16 | 0x17) || read;
        let imm = matches!(p.op, 3 | 5 | 9 | 11);
        let dlen = if atomic { 8 } else { p.dlen };
        let npk = dlen.div_ceil(mtu).max(1);
        let read_ok = |q: &Qp| {
            let right = |m: &Mr| if atomic { m.ra } else { m.rr };
            dlen == 0 || q.allowed(mrs, p.rkey, p.va, dlen, right)
        };
        let class_ok = match atomic {
            true => self.cfg.acc_atomic && p.va % 8 == 0,
            false => self.cfg.acc_read && dlen <= 1 << 31,
        };
        let op = match p.op {
            0x13 => 1,
            0x14 => 2,
            _ => 0,
        };
        if ud {
            self.msg = Msg::None;
        }
        if uc && first {
            // begins at any PSN, and ends what was not finished
            self.epsn = p.psn;
            self.msg = Msg::None;
        }
        let rc = !uc && !ud;
        if rc && d >= 1 << 23 {
            out.ev[1] += 1;
            if read && p.len == 0 {
                let back = (1 << 24) - d;
                if class_ok && npk <= back && read_ok(self) && self.lvl < 16 {
                    self.dup = true;
                    out.reads
                        .push((self.idx, p.psn, self.msn, p.va, p.rkey, dlen));
                    out.ops.push((op, true, p.swap, p.cmp));
                }
            } else if (send || write) && !self.nak {
                self.nak(out, self.epsn.wrapping_sub(1) & M24, 0x1F);
            }
            return out.jobs.push(free);
        }
        if rc && d > 0 {
            out.ev[2] += 1;
            if !self.nak {
                self.nak = true;
                self.nak(out, self.epsn, 0x60);
            }
            return out.jobs.push(free);
        }
        // expected packet
        let stride = self.cfg.stride;
        let empty = match self.cfg.srq {
            Some(i) => srqs[i as usize].posted(),
            None => self.rq.posted(),
        } < 1 << stride;
        let class = match self.msg {
            Msg::None => 0,
            Msg::Send { .. } => 1,
            Msg::Write { .. } => 2,
        };
        let held = (class == 1).then_some(9);
        let order = if first {
            class == 0
        } else {
            (send && class == 1) || (write && class == 2)
        };
        let size = match () {
            _ if read => p.len == 0,
            _ if !last => p.len == mtu,
            _ if first => p.len <= mtu,
            _ => p.len >= 1 && p.len <= mtu,
        };
        if ud && (!matches!(p.op, 4 | 5) || !size) {
            return self.give_up(p, out);
        }
        if uc && (!(send || write) || !order || !size || (!first && d != 0)) {
            return self.give_up(p, out);
        }
        if !(send || write || read) || !order || !size {
            return self.fatal(p, srqs, out, 0x61, 1, held);
        }
        if ((send && first) || (write && imm)) && empty {
            if !rc {
                return self.give_up(p, out);
            }
            self.nak = true;
            self.nak(out, p.psn, 0x20 | self.cfg.min_rnr);
            return out.jobs.push(free);
        }
        if read {
            if !class_ok {
                return self.fatal(p, srqs, out, 0x61, 1, None);
            }
            if !read_ok(self) {
                return self.fatal(p, srqs, out, 0x62, 2, None);
            }
            if self.lvl >= 16 || (self.dup && self.lvl >= self.cfg.max_dest_rd) {
                out.ev[2] += 1;
                return out.jobs.push(free);
            }
            if self.lvl >= self.cfg.max_dest_rd {
                return self.fatal(p, srqs, out, 0x61, 1, None);
            }
            self.epsn = (self.epsn + npk) & M24;
            self.msn = (self.msn + 1) & M24;
            self.nak = false;
            self.dup &= self.lvl != 0;
            // its response says all that an older wish could
            out.acks.push((self.idx, 0, 0xFF, 0));
            out.reads
                .push((self.idx, p.psn, self.msn, p.va, p.rkey, dlen));
            out.ops.push((op, false, p.swap, p.cmp));
            return out.jobs.push(free);
        }
        let mut jobs = vec![];
        let mut bytes = 0;
        if write {
            let (va, rem, rkey, total) = match self.msg {
                Msg::Write {
                    va,
                    rem,
                    rkey,
                    total,
                } => (va, rem, rkey, total),
                _ => (p.va, p.dlen, p.rkey, p.dlen),
            };
            let fits = if last { rem == p.len } else { rem > p.len };
            let may = rem == 0 || self.allowed(mrs, rkey, va, rem, |m| m.rw);
            if uc && (!self.cfg.acc_write || rem > 1 << 31 || !fits || !may) {
                return self.give_up(p, out);
            }
            if !self.cfg.acc_write || rem > 1 << 31 || !fits {
                return self.fatal(p, srqs, out, 0x61, 1, None);
            }
            if !may {
                return self.fatal(p, srqs, out, 0x62, 2, None);
            }
            if p.len > 0 {
                jobs.push(Job::Pay {
                    mr: home(mrs, rkey),
                    va,
                    len: p.len,
                    src: p.src,
                    free: false,
                    slot: p.slot,
                });
            }
            bytes += total;
            self.msg = Msg::Write {
                va: va.wrapping_add(p.len),
                rem: rem - p.len,
                rkey,
                total,
            };
        } else {
            let (mut sge, mut off, had, wqe) = match &self.msg {
                Msg::Send {
                    sge,
                    off,
                    bytes,
                    wqe,
                    ..
                } => (*sge, *off, *bytes, wqe.clone()),
                _ => {
                    let ring = match self.cfg.srq {
                        Some(i) => &srqs[i as usize],
                        None => &self.rq,
                    };
                    (0, 0, 0, ring.entry(stride).2)
                }
            };
            let end = wqe.len() - 1;
            let (mut left, mut src) = (p.len, p.src);
            // UD: the GRH area first, then the payload behind it
            let v4 = p.sip[..10] == [0; 10] && p.sip[10..12] == [0xFF; 2];
            let mut area = ud;
            if ud {
                let ext = if imm { 12 } else { 8 };
                left = if v4 { 20 } else { 40 };
                src = p.src.wrapping_sub(20 + ext + left) & 0xF_FFFF;
                off = if v4 { 20 } else { 0 };
                bytes = 40;
                if wqe[0].1 < off {
                    return self.give_up(p, out);
                }
            }
            loop {
                let (va, len, key) = wqe[sge];
                let n = left.min(len - off);
                if n > 0 && !self.allowed(mrs, key, va, len, |m| m.lw) {
                    out.jobs.extend(jobs);
                    if !rc {
                        return self.give_up(p, out);
                    }
                    return self.fatal(p, srqs, out, 0x63, 1, Some(4));
                }
                if n < left && sge == end {
                    out.jobs.extend(jobs);
                    if !rc {
                        return self.give_up(p, out);
                    }
                    return self.fatal(p, srqs, out, 0x61, 1, Some(1));
                }
                if n > 0 {
                    jobs.push(Job::Pay {
                        mr: key >> 8,
                        va: va + off,
                        len: n,
                        src,
                        free: false,
                        slot: p.slot,
                    });
                }
                left -= n;
                src += n;
                off += n;
                if left == 0 && area {
                    area = false;
                    (left, src) = (p.len, p.src);
                    continue;
                }
                if left == 0 {
                    break;
                }
                sge += 1;
                off = 0;
            }
            bytes += had + p.len;
            // an SRQ's entry is taken now, another when the message ends
            let index = match self.cfg.srq {
                Some(_) => self.take(srqs, out),
                None => self.rq.ci,
            };
            self.msg = Msg::Send {
                sge,
                off,
                bytes,
                wqe,
                index,
            };
        }
        if inv {
            let key = (p.imm as u32).swap_bytes() as u64;
            out.invs.push((key, p.qpn, self.cfg.pd));
            if !may_invalidate(key) {
                out.jobs.extend(jobs);
                return self.fatal(p, srqs, out, 0x62, 2, Some(10));
            }
        }
        self.epsn = (self.epsn + 1) & M24;
        self.nak = false;
        if last {
            self.msn = (self.msn + 1) & M24;
        }
        if last && (send || imm) {
            let op = match (write, inv) {
                (true, _) => 3,
                (_, true) => 2,
                _ => imm as u64,
            };
            let index = self.take(srqs, out);
            jobs.push(Job::Cqe {
                cq: self.cfg.rcq,
                qpn: p.qpn,
                op,
                index,
                status: 0,
                imm: imm.then_some(p.imm),
                inv: inv.then_some(p.imm),
                sol: p.se,
                len: bytes,
                free: Some(p.slot),
                grh: ud.then_some(p.va & M24),
            });
        } else if let Some(Job::Pay { free, .. }) = jobs.last_mut() {
            *free = true;
        } else {
            jobs.push(free);
        }
        if last {
            self.msg = Msg::None;
        }
        out.jobs.extend(jobs);
        if p.ackreq && rc {
            self.nak(out, p.psn, 0x1F);
        }
    }
}
