//! Random commands and doorbells of one process.

use super::{
    world::{guest, World},
    Fuzz,
};
use crate::{node::MmioWrite, sim::admin_command};
use metaroce_hdl_spec::{cmd, regs};

pub struct Commands {
    w: World,
    /// Identifiers that the guest has seen, its own and those of the neighbour.
    ids: [Vec<u32>; 2],
    /// Room for command blocks, per card.
    block: [u64; 2],
    steps: u64,
    answered: [u64; 2],
    teardowns: u64,
}

const ROOM: u64 = 4096;
/// Steps from one TEARDOWN to the next.
const LIFE: u64 = 150;

impl Commands {
    pub fn new(seed: u64) -> Commands {
        let w = World::new(seed, false);
        let mut c = Commands {
            w,
            ids: [vec![], vec![]],
            block: [0; 2],
            steps: 0,
            answered: [0; 2],
            teardowns: 0,
        };
        for e in 0..2 {
            c.settle_in(e);
        }
        c
    }

    /// The guest of card `e` is new.
    fn settle_in(&mut self, e: usize) {
        let g = &mut self.w.guests[e];
        self.block[e] = g.host.alloc(ROOM, 4096);
        let n = &self.w.p.ends[e];
        self.ids[e] = vec![
            0,
            1,
            0xFF_FFFF,
            g.pd,
            g.cq.id,
            g.key,
            n.pd,
            n.cq.id,
            n.key,
            n.qps[0].qpn,
        ];
    }

    fn id(&mut self, e: usize) -> u64 {
        let n = self.ids[e].len() as u64;
        match self.w.rng.below(12) {
            0 => self.w.rng.next(),
            _ => self.ids[e][self.w.rng.below(n) as usize] as u64,
        }
    }

    /// A command whose fields could be right.
    fn fill(&mut self, e: usize, op: u8, c: &mut [u8; cmd::CMD_BYTES]) {
        let page = self.w.guests[e].host.alloc(1 << 16, 4096);
        let (a, b, d) = (self.id(e), self.id(e), self.id(e));
        let rng = &mut self.w.rng;
        let mut r = |n: u64| rng.below(n);
        match op {
            cmd::op::CREATE_EQ | cmd::op::CREATE_CQ | cmd::op::RESIZE_CQ => {
                cmd::create_cq::log.put(c, 3 + r(6));
                cmd::create_cq::base.put(c, page + (r(8) == 0) as u64 * 64);
            }
            cmd::op::REG_MR | cmd::op::REREG_MR => {
                use cmd::reg_mr as m;
                m::pd.put(c, a & 0xFFF);
                m::access.put(c, r(16));
                m::page_shift.put(c, 11 + r(21));
                m::list.put(c, page + (r(8) == 0) as u64 * 8);
                m::va.put(c, page + r(4096));
                m::len.put(
                    c,
                    if r(4) == 0 {
                        u64::MAX >> r(63)
                    } else {
                        r(60_000)
                    },
                );
            }
            cmd::op::CREATE_QP => {
                use cmd::create_qp as m;
                m::qp_type.put(c, r(4));
                m::sq_log.put(c, 3 + r(5));
                m::rq_log.put(c, r(6));
                m::rq_stride.put(c, (r(8) == 0) as u64);
                m::pd.put(c, a & 0xFFF);
                m::sq_base.put(c, page);
                m::rq_base.put(c, page + 0x8000);
                m::scq.put(c, b & 0xFFF);
                m::rcq.put(c, d & 0xFFF);
            }
            cmd::op::MODIFY_QP => {
                use cmd::modify_qp as m;
                let all = [0x39, 0x12_9181, 0x1_2E01, 0x10_1181, 0x1_0001, 0x71, 1, 9];
                m::mask.put(c, all[r(8) as usize] ^ ((r(6) == 0) as u64) << r(21));
                m::next_state.put(c, r(8));
                m::acc_write.put(c, r(2));
                m::mtu.put(c, r(7));
                m::timeout.put(c, r(12));
                m::retry_cnt.put(c, r(8));
                m::max_rd.put(c, r(20));
                m::max_dest_rd.put(c, r(20));
                m::port.put(c, r(3));
                m::dqpn.put(c, d & 0xFF_FFFF);
                m::sgid_index.put(c, r(4));
                m::dip.put_bytes(c, &[r(256) as u8; 16]);
            }
            _ => {}
        }
    }

    fn one(&mut self, e: usize) -> Result<(), String> {
        let op = match self.w.rng.below(10) {
            0 => self.w.rng.next() as u8,
            _ => self.w.rng.below(cmd::op::TABLE.len() as u64) as u8,
        };
        let mut c = [0u8; cmd::CMD_BYTES];
        if self.w.rng.below(4) == 0 {
            c.copy_from_slice(&self.w.rng.bytes(cmd::CMD_BYTES));
        }
        if self.w.rng.below(8) != 0 {
            self.fill(e, op, &mut c);
        }
        let seq = self.w.rng.next() as u32 | 1;
        let id = self.id(e);
        cmd::head::opcode.put(&mut c, op as u64);
        cmd::head::seq.put(&mut c, seq as u64);
        cmd::head::id.put(&mut c, id);
        let mut at = self.block[e] + 64 * self.w.rng.below(ROOM / 64 - 3);
        // Now and then at the end of the page, beside the alignment, or nowhere.
        let mut lawful = true;
        match self.w.rng.below(16) {
            0 => {
                at += 1 + self.w.rng.below(63);
                lawful = false;
            }
            1 => {
                at = self.w.rng.next();
                lawful = false;
            }
            _ => {}
        }
        let host = &self.w.guests[e].host;
        let pasid = host.pasid;
        if lawful {
            self.w.p.sim.mem(e).poke(pasid, at, &c);
        }
        let page = pasid as u32 * regs::PAGE;
        let mmio = &mut self.w.p.sim.nodes[e].mmio;
        mmio.push_back(MmioWrite::u64(page + regs::doorbell::CMD, at));
        // A second command while the first runs, and doorbells of all kinds.
        let mut alone = true;
        for _ in 0..self.w.rng.below(3) {
            let rng = &mut self.w.rng;
            let len = if rng.below(4) == 0 { 64 } else { 8 };
            let at = match rng.below(4) {
                0 => rng.below(4096) as u32,
                _ => [0, 8, 0x10, 0x18, 0x20, 0x100][rng.below(6) as usize],
            };
            alone &= at != regs::doorbell::CMD && at + len as u32 <= 4096;
            let mut data = [0; 64];
            data.copy_from_slice(&rng.bytes(64));
            let w = MmioWrite {
                addr: page + at.min(4096 - len as u32),
                len,
                data,
            };
            if rng.below(2) == 0 {
                self.w.p.sim.nodes[e].mmio.push_back(w);
            } else {
                alone = alone && at >= 0x28;
            }
        }
        let before = self.answered[0];
        for k in 0..30_000 {
            self.w.p.sim.step();
            if k % 16 != 0 {
                continue;
            }
            let r = self
                .w
                .p
                .sim
                .mem(e)
                .peek_vec(pasid, at.wrapping_add(128) & !63, 64);
            if lawful && cmd::response::seq.get(&r) == seq as u64 {
                let ok = cmd::response::status.get(&r) == 0;
                self.answered[0] += 1;
                self.answered[1] += ok as u64;
                let new = cmd::response::id.get(&r) as u32;
                if ok && new != 0 && self.ids[e].len() < 60 {
                    self.ids[e].push(new);
                }
                break;
            }
            if !lawful && k > 2000 {
                break;
            }
        }
        if lawful && alone && self.answered[0] == before {
            return Err(format!("no answer to command {op} of card {e}: {c:x?}"));
        }
        Ok(())
    }

    /// The process ends, and another one takes its place.
    fn renew(&mut self, e: usize) -> Result<(), String> {
        let mut b = [0u8; cmd::CMD_BYTES];
        let r = admin_command(&mut self.w.p.sim.nodes[e], cmd::op::TEARDOWN, 2, &mut b);
        if r != 0 {
            return Err(format!("TEARDOWN of card {e} answered {r}"));
        }
        self.teardowns += 1;
        self.w.p.sim.mem(e).forget(2);
        self.w.guests[e] = guest(&mut self.w.p, e);
        self.settle_in(e);
        Ok(())
    }
}

impl Fuzz for Commands {
    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        let e = self.w.rng.below(2) as usize;
        for _ in 0..4 {
            self.one(e)?;
        }
        if self.steps.is_multiple_of(LIFE / 4) {
            self.renew(e)?;
        }
        self.w.clean()
    }

    fn done(&self) -> String {
        format!(
            "{} answers ({} of them yes), {} teardowns, {} clean transfers",
            self.answered[0], self.answered[1], self.teardowns, self.w.transfers
        )
    }
}
