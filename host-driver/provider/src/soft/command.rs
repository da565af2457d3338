//! Commands, with the errors that the card's sequencer gives: everything is checked before anything changes.
use super::cq::{Cq, Eq};
use super::engine::{index, Engine, LOG_QP};
use super::mem::Region;
use super::qp::{Half, Qp, Ring, Srq};
use metaroce_hdl_spec::cmd::{self, errno, op};
use metaroce_hdl_spec::cqe::event;
use metaroce_hdl_spec::table::qp_type;
use metaroce_hdl_spec::Field;
use metaroce_protocol::qp::QpState;
use std::sync::atomic::{AtomicU32, Ordering};

/// Refused with an errno, or the object and what else the answer says.
type Answer = Result<u32, u8>;

/// A bus address of a ring: a multiple of 4 KiB, of 60 bits.
fn ring_address(c: &[u8], f: Field) -> Result<u64, u8> {
    let bus = f.get(c);
    if bus & 0xfff != 0 || bus >> 60 != 0 {
        return Err(errno::EINVAL);
    }
    Ok(bus)
}

fn ring_log(c: &[u8], f: Field) -> Result<u32, u8> {
    let log = f.get(c) as u32;
    (4..=16).contains(&log).then_some(log).ok_or(errno::EINVAL)
}

fn limit(used: usize, limit: u32) -> Result<(), u8> {
    (limit >= 0xffff || used < limit as usize)
        .then_some(())
        .ok_or(errno::ENOMEM)
}

impl Engine {
    /// Executes the command block at `block` and writes its answer.
    ///
    /// # Safety
    /// It is a command block of the provider.
    pub unsafe fn command(&mut self, block: *mut u8) {
        let mut c = [0u8; cmd::CMD_BYTES];
        // SAFETY: the contract above.
        unsafe { core::ptr::copy_nonoverlapping(block, c.as_mut_ptr(), c.len()) };
        let mut r = [0u8; 64];
        match self.execute(&c, &mut r) {
            Ok(id) => cmd::response::id.put(&mut r, id as u64),
            Err(e) => {
                r = [0; 64];
                cmd::response::status.put(&mut r, e as u64);
            }
        }
        const { assert!(cmd::response::seq.byte() == 60) };
        let seq = cmd::head::seq.get(&c) as u32;
        // SAFETY: as above; the reader looks at the rest only after the sequence.
        unsafe {
            let at = block.add(cmd::RESP_OFFSET);
            core::ptr::copy_nonoverlapping(r.as_ptr(), at, 60);
            (*(at.add(60) as *const AtomicU32)).store(seq.to_le(), Ordering::Release);
        }
    }

    fn execute(&mut self, c: &[u8], r: &mut [u8]) -> Answer {
        let id = cmd::head::id.get(c) as u32;
        match cmd::head::opcode.get(c) as u8 {
            op::NOP => Ok(0),
            op::ALLOC_PD => {
                let used = self.pds.iter().filter(|p| **p).count();
                limit(used, self.limits[3])?;
                let free = self.pds.iter().position(|p| !p).ok_or(errno::ENOMEM)?;
                self.pds[free] = true;
                Ok(free as u32)
            }
            op::DEALLOC_PD => self.dealloc_pd(id),
            op::CREATE_EQ => {
                use cmd::create_eq as f;
                let (log, base) = (ring_log(c, f::log)?, ring_address(c, f::base)?);
                if self.eq.is_some() {
                    return Err(errno::EBUSY);
                }
                self.eq = Some(Eq::new(base as usize as *mut u8, log));
                Ok(0)
            }
            op::CREATE_CQ => {
                use cmd::create_cq as f;
                let (log, base) = (ring_log(c, f::log)?, ring_address(c, f::base)?);
                limit(self.cqs.iter().flatten().count(), self.limits[2])?;
                let free = self.cqs.iter().position(Option::is_none);
                let free = free.ok_or(errno::ENOMEM)?;
                self.cqs[free] = Some(Cq::new(base as usize as *mut u8, log));
                Ok(free as u32)
            }
            op::RESIZE_CQ => {
                use cmd::create_cq as f;
                let (log, base) = (ring_log(c, f::log)?, ring_address(c, f::base)?);
                let q = self.cqs.get_mut(id as usize).and_then(Option::as_mut);
                q.ok_or(errno::ENOENT)?
                    .resize(base as usize as *mut u8, log);
                Ok(id)
            }
            op::DESTROY_CQ => {
                self.cq(id as u64)?;
                let user = |q: &&Qp| q.scq as u32 == id || q.rcq as u32 == id;
                if self.qps.iter().flatten().map(|q| &**q).any(|q| user(&q)) {
                    return Err(errno::EBUSY);
                }
                self.cqs[id as usize] = None;
                Ok(0)
            }
            op::REG_MR => {
                let region = self.region(c)?;
                self.mrs.register(&mut self.rng, region)
            }
            op::REREG_MR => {
                let region = self.region(c)?;
                self.mrs.change(id, region).map(|()| id)
            }
            op::DEREG_MR => self.mrs.deregister(id).map(|()| 0),
            op::ALLOC_MW => {
                use cmd::alloc_mw as f;
                let pd = self.pd(f::pd.get(c))?;
                self.mrs
                    .alloc_window(&mut self.rng, pd, f::type2.get(c) != 0)
            }
            op::DEALLOC_MW => self.mrs.dealloc_window(id).map(|()| 0),
            op::CREATE_QP => self.create_qp(c),
            op::MODIFY_QP => self.modify_qp(id, c, r),
            op::QUERY_QP => {
                let q = self.qp(id)?;
                let [sq, rq] = q.psns();
                let head = q.sent.front().map_or(q.sq.at, |s| s.index);
                cmd::response::state.put(r, q.state as u64);
                cmd::response::sq_psn.put(r, sq as u64);
                cmd::response::rq_psn.put(r, rq as u64);
                cmd::response::sq_head.put(r, head as u64);
                Ok(id)
            }
            op::DESTROY_QP => {
                let held = self.qp(id)?.holds();
                if let Some(mut qp) = self.qps[index(id)].take() {
                    self.send_answers(&mut qp);
                }
                self.forget_late(id);
                released(held, r);
                Ok(0)
            }
            op::CREATE_SRQ => self.create_srq(c),
            op::MODIFY_SRQ => {
                let s = self.srq_mut(id)?;
                s.limit = cmd::modify_srq::limit.get(c) as u16;
                if s.below_limit() {
                    self.event(event::SRQ_LIMIT, id);
                }
                Ok(0)
            }
            op::QUERY_SRQ => {
                let limit = self.srq_mut(id)?.limit;
                cmd::response::rq_psn.put(r, limit as u64);
                Ok(id)
            }
            op::DESTROY_SRQ => {
                self.srq_mut(id)?;
                let at = index(id) as u16;
                if self.qps.iter().flatten().any(|q| q.srq == Some(at)) {
                    return Err(errno::EBUSY);
                }
                self.srqs[at as usize] = None;
                Ok(0)
            }
            // an administrator's
            op::TEARDOWN | op::SET_GID => Err(errno::EPERM),
            _ => Err(errno::EOPNOTSUPP),
        }
    }

    fn pd(&self, pd: u64) -> Result<u16, u8> {
        let there = self.pds.get(pd as usize).copied().unwrap_or(false);
        there.then_some(pd as u16).ok_or(errno::ENOENT)
    }

    fn cq(&self, cqn: u64) -> Result<u16, u8> {
        let there = self.cqs.get(cqn as usize).is_some_and(Option::is_some);
        there.then_some(cqn as u16).ok_or(errno::ENOENT)
    }

    fn qp(&self, qpn: u32) -> Result<&Qp, u8> {
        let q = self.qps[index(qpn)].as_deref();
        q.filter(|q| q.qpn == qpn).ok_or(errno::ENOENT)
    }

    fn srq_mut(&mut self, srqn: u32) -> Result<&mut Srq, u8> {
        let s = self.srqs[index(srqn)].as_deref_mut();
        s.filter(|s| s.srqn == srqn).ok_or(errno::ENOENT)
    }

    fn dealloc_pd(&mut self, id: u32) -> Answer {
        let pd = self.pd(id as u64)?;
        let used = self.mrs.uses_pd(pd)
            || self.qps.iter().flatten().any(|q| q.pd == pd)
            || self.srqs.iter().flatten().any(|s| s.pd == pd);
        if used {
            return Err(errno::EBUSY);
        }
        self.pds[pd as usize] = false;
        Ok(0)
    }

    fn region(&self, c: &[u8]) -> Result<Region, u8> {
        use cmd::reg_mr as f;
        Ok(Region {
            pd: self.pd(f::pd.get(c))?,
            access: f::access.get(c) as u32,
            mw_bind: f::mw_bind.get(c) != 0,
            page_shift: f::page_shift.get(c) as u32,
            list: f::list.get(c),
            va: f::va.get(c),
            len: f::len.get(c),
        })
    }

    /// A number that no QP and no SRQ has. Its low bits say where it is in the tables, the others cannot be guessed.
    fn number(&mut self) -> Result<u32, u8> {
        let used = self.qps.iter().flatten().count() + self.srqs.iter().flatten().count();
        limit(used, self.limits[1])?;
        let n = 1u32 << LOG_QP;
        let from = self.rng.next();
        let free = |at: &u32| self.qps[*at as usize].is_none() && self.srqs[*at as usize].is_none();
        let at = (0..n).map(|i| from.wrapping_add(i) % n).find(free);
        let at = at.ok_or(errno::ENOMEM)?;
        loop {
            let bits = metaroce_hdl_spec::regs::RAW_QPN_BITS;
            let chosen = (self.rng.next() << LOG_QP | at) & ((1 << bits) - 1);
            let number = self.qpn_high | chosen;
            if !matches!(number, 0 | 1 | 0xff_ffff) {
                return Ok(number);
            }
            // QPN 0 and 1 are the place of all numbers that end so: of the first PASID none begins with zeros
            if self.qpn_high == 0 {
                return Err(errno::ENOMEM);
            }
        }
    }

    fn create_qp(&mut self, c: &[u8]) -> Answer {
        use cmd::create_qp as f;
        let kind = f::qp_type.get(c) as u8;
        if kind > qp_type::UD {
            return Err(errno::EOPNOTSUPP);
        }
        let mut stride = f::rq_stride.get(c) as u32;
        if !(4..=15).contains(&f::sq_log.get(c)) || stride > 2 {
            return Err(errno::EINVAL);
        }
        let (sq, rq) = (ring_address(c, f::sq_base)?, ring_address(c, f::rq_base)?);
        let mut pd = f::pd.get(c);
        let mut srq = None;
        if f::srq.get(c) != 0 {
            if kind == qp_type::UC {
                return Err(errno::EOPNOTSUPP);
            }
            let s = self.srq_mut(f::srqn.get(c) as u32)?;
            (stride, pd) = (s.stride, s.pd as u64);
            srq = Some(index(s.srqn) as u16);
        }
        let pd = self.pd(pd)?;
        let cqs = [self.cq(f::scq.get(c))?, self.cq(f::rcq.get(c))?];
        let qpn = self.number()?;
        let sq = Ring::new(sq, f::sq_log.get(c) as u32);
        let rq = Ring::new(rq, f::rq_log.get(c) as u32);
        let mut qp = Box::new(Qp::new(qpn, kind, pd, cqs, sq, rq));
        (qp.stride, qp.srq) = (stride, srq);
        self.qps[index(qpn)] = Some(qp);
        Ok(qpn)
    }

    fn create_srq(&mut self, c: &[u8]) -> Answer {
        use cmd::create_srq as f;
        let stride = f::stride.get(c) as u32;
        if stride > 2 {
            return Err(errno::EINVAL);
        }
        let base = ring_address(c, f::base)?;
        let pd = self.pd(f::pd.get(c))?;
        let srqn = self.number()?;
        self.srqs[index(srqn)] = Some(Box::new(Srq {
            srqn,
            pd,
            ring: Ring::new(base, f::log.get(c) as u32),
            stride,
            limit: 0,
            broken: false,
        }));
        Ok(srqn)
    }

    fn modify_qp(&mut self, id: u32, c: &[u8], r: &mut [u8]) -> Answer {
        let change = self.qp(id)?.check(c, &self.port)?;
        let at = index(id);
        let Some(mut qp) = self.qps[at].take() else {
            return Err(errno::ENOENT);
        };
        let from = qp.state;
        qp.apply(c, &change, &self.port);
        match (from, change.to) {
            (_, QpState::Reset) => {
                released(qp.holds(), r);
                self.send_answers(&mut qp);
                qp.reset();
                self.forget_late(id);
            }
            (QpState::Err, QpState::Err) => {}
            (_, QpState::Err) => self.end(&mut qp),
            (_, to) => {
                qp.state = to;
                let mut out = core::mem::take(&mut self.actions);
                match &mut qp.half {
                    Half::Rc(m) if from == QpState::Rts && to == QpState::Sqd => {
                        m.requester.drain(&mut out)
                    }
                    Half::Rc(m) if from == QpState::Sqd && to == QpState::Rts => {
                        m.requester.resume(&mut out)
                    }
                    Half::Rc(_) => {}
                    // nothing of these is on its way
                    _ if to == QpState::Sqd => self.drained(&mut qp),
                    _ => {}
                }
                self.act(&mut qp, &mut out, &[]);
                self.actions = out;
                self.take_sends(&mut qp);
            }
        }
        self.run(&mut qp);
        self.qps[at] = Some(qp);
        Ok(0)
    }
}

/// The answer says which entry of an SRQ is gone.
fn released(held: Option<u16>, r: &mut [u8]) {
    if let Some(n) = held {
        cmd::response::rq_psn.put(r, 1 << 16 | n as u64);
    }
}
