//! Commands.
use super::card::{Card, Cq, Qp, LOG_QP};
use super::mem::Mr;
use metaroce_hdl_spec::cmd;
use metaroce_hdl_spec::table::{qp_state, qp_type};

impl Card {
    pub fn execute(
        &mut self,
        c: usize,
        opcode: u8,
        id: u32,
        b: &[u8],
        r: &mut [u8],
    ) -> Result<u32, u8> {
        use cmd::errno::*;
        self.serial += 1;
        let serial = self.serial;
        match opcode {
            cmd::op::ALLOC_PD => {
                self.pds += 1;
                Ok(self.pds)
            }
            cmd::op::DEALLOC_PD => {
                let used = self.mrs.values().any(|m| m.pd == id as u64)
                    || self.qps.values().any(|q| q.pd == id as u64);
                if used {
                    Err(EBUSY)
                } else {
                    Ok(0)
                }
            }
            cmd::op::CREATE_EQ => {
                let log = cmd::create_eq::log.get(b) as u32;
                self.clients[c].eq = Some((cmd::create_eq::base.get(b), log));
                Ok(0)
            }
            cmd::op::CREATE_CQ => {
                let log = cmd::create_cq::log.get(b) as u32;
                let base = cmd::create_cq::base.get(b);
                assert!((4..=16).contains(&log) && base % 4096 == 0);
                self.cqs.insert(
                    serial,
                    Cq {
                        client: c,
                        log,
                        base,
                        pi: 0,
                        ci: 0,
                        arm: 0,
                    },
                );
                Ok(serial)
            }
            cmd::op::RESIZE_CQ => {
                let q = self.cqs.get_mut(&id).ok_or(ENOENT)?;
                q.log = cmd::create_cq::log.get(b) as u32;
                q.base = cmd::create_cq::base.get(b);
                assert!((4..=16).contains(&q.log) && q.base % 4096 == 0);
                (q.pi, q.ci) = (0, 0);
                Ok(id)
            }
            cmd::op::DESTROY_CQ => {
                if self.qps.values().any(|q| q.cq.contains(&id)) {
                    return Err(EBUSY);
                }
                self.cqs.remove(&id).map(|_| 0).ok_or(ENOENT)
            }
            cmd::op::REREG_MR if !self.mrs.contains_key(&id) => Err(ENOENT),
            o @ (cmd::op::REG_MR | cmd::op::REREG_MR) => {
                use cmd::reg_mr as f;
                let new = o == cmd::op::REG_MR;
                let key = if new { serial << 8 | 0x5a } else { id };
                assert_eq!(f::page_shift.get(b), 12);
                let m = Mr {
                    client: c,
                    pd: f::pd.get(b),
                    access: f::access.get(b),
                    list: f::list.get(b),
                    va: f::va.get(b),
                    len: f::len.get(b),
                };
                self.mrs.insert(key, m);
                Ok(key)
            }
            cmd::op::DEREG_MR => self.mrs.remove(&id).map(|_| 0).ok_or(ENOENT),
            cmd::op::CREATE_QP => {
                use cmd::create_qp as f;
                let qpn = (serial.wrapping_mul(0x1301) << LOG_QP | serial & 0xff) & 0xff_ffff;
                let q = Qp {
                    client: c,
                    kind: f::qp_type.get(b) as u8,
                    state: qp_state::RESET,
                    pd: f::pd.get(b),
                    cq: [f::scq.get(b) as u32, f::rcq.get(b) as u32],
                    base: [f::sq_base.get(b), f::rq_base.get(b)],
                    log: [f::sq_log.get(b) as u32, f::rq_log.get(b) as u32],
                    stride: f::rq_stride.get(b) as u32,
                    pi: [0; 2],
                    ci: [0; 2],
                    dqpn: 0,
                    qkey: 0,
                    sq_psn: 0,
                    rq_psn: 0,
                    access: 0,
                };
                self.qps.insert(qpn, q);
                Ok(qpn)
            }
            cmd::op::MODIFY_QP => self.modify(id, b),
            cmd::op::QUERY_QP => {
                let q = self.qps.get(&id).ok_or(ENOENT)?;
                cmd::response::state.put(r, q.state as u64);
                cmd::response::sq_psn.put(r, q.sq_psn);
                cmd::response::rq_psn.put(r, q.rq_psn);
                Ok(id)
            }
            cmd::op::DESTROY_QP => self.qps.remove(&id).map(|_| 0).ok_or(ENOENT),
            _ => Err(EOPNOTSUPP),
        }
    }

    fn modify(&mut self, id: u32, b: &[u8]) -> Result<u32, u8> {
        use cmd::modify_qp as f;
        let q = self.qps.get_mut(&id).ok_or(cmd::errno::ENOENT)?;
        let mask = f::mask.get(b);
        let next = f::next_state.get(b) as u8;
        let ud = q.kind == qp_type::UD;
        // Required attributes of the transitions that the tests make.
        let need = match (q.state, next) {
            _ if mask & 1 == 0 => 0,
            (_, qp_state::RESET | qp_state::ERR) => 1,
            (qp_state::RESET, qp_state::INIT) => {
                if ud {
                    0x71
                } else {
                    0x39
                }
            }
            (qp_state::INIT, qp_state::RTR) => match q.kind {
                qp_type::UD => 1,
                qp_type::UC => 0x101181,
                _ => 0x129181,
            },
            (qp_state::RTR, qp_state::RTS) => 0x10001,
            (a, n) if a == n => 1,
            _ => return Err(cmd::errno::EINVAL),
        };
        if mask & need != need {
            return Err(cmd::errno::EINVAL);
        }
        if mask & 1 << 3 != 0 {
            q.access =
                f::acc_write.get(b) << 1 | f::acc_read.get(b) << 2 | f::acc_atomic.get(b) << 3;
        }
        if mask & 1 << 20 != 0 {
            q.dqpn = f::dqpn.get(b) as u32;
        }
        if mask & 1 << 6 != 0 {
            q.qkey = f::qkey.get(b) as u32;
        }
        if mask & 1 << 16 != 0 {
            q.sq_psn = f::sq_psn.get(b);
        }
        if mask & 1 << 12 != 0 {
            q.rq_psn = f::rq_psn.get(b);
        }
        if mask & 1 != 0 {
            q.state = next;
            if next == qp_state::RESET {
                (q.pi, q.ci) = ([0; 2], [0; 2]);
            }
        }
        Ok(0)
    }
}
