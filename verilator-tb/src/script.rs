//! A scripted host: a small driver over flat memory, for benches and whole-card tests. It uses the
//! same rings, commands and doorbells as the rdma-core provider.

use crate::{node::MmioWrite, sim::Sim};
use metaroce_hdl_spec::{cmd, cqe, regs, table, wqe, Field};

/// IBV_QP_* attribute masks of the usual transitions.
pub mod mask {
    pub const TO_INIT: u64 = 0x39;
    pub const TO_RTR: u64 = 0x12_9181;
    pub const TO_RTS: u64 = 0x1_2E01;
    pub const UC_TO_RTR: u64 = 0x10_1181;
    pub const UC_TO_RTS: u64 = 0x1_0001;
    pub const UD_TO_INIT: u64 = 0x71;
    pub const UD_TO_RTR: u64 = 1;
    pub const UD_TO_RTS: u64 = 0x1_0001;
    pub const STATE: u64 = 1;
}

/// A process on the host of one card.
#[derive(Debug, Clone)]
pub struct Host {
    pub card: usize,
    pub pasid: u16,
    next: u64,
    seq: u32,
    block: u64,
    pub eq: Ring,
    /// Type of the QPs that are created, and log2 of the units of their receive entries.
    pub qp_type: u8,
    pub rq_stride: u32,
    /// Their SRQ.
    pub(crate) srqn: Option<u32>,
}

/// A completion or event ring.
#[derive(Debug, Clone)]
pub struct Ring {
    pub id: u32,
    pub base: u64,
    pub log: u32,
    pub ci: u32,
}

#[derive(Debug, Clone)]
pub struct Qp {
    pub qpn: u32,
    pub sq: u64,
    pub sq_log: u32,
    pub pi: u16,
    pub rq: u64,
    /// log2 of the receive ring in units; an entry has `2^rq_stride` of them.
    pub rq_log: u32,
    pub rq_stride: u32,
    pub rpi: u16,
    pub scq: u32,
    pub rcq: u32,
}

/// QP attributes of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Conn {
    pub mtu: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr: u8,
    pub max_rd: u8,
    pub gid: u8,
    pub psn: u32,
    pub tclass: u8,
    /// RC, UC or UD.
    pub qp_type: u8,
    /// UD.
    pub qkey: u32,
}

impl Default for Conn {
    fn default() -> Self {
        Conn {
            mtu: 5,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr: 12,
            max_rd: 16,
            gid: 1,
            psn: 0,
            tclass: 2,
            qp_type: table::qp_type::RC,
            qkey: 0x1122_3344,
        }
    }
}

/// A send work request.
#[derive(Debug, Clone, Default)]
pub struct Wr {
    pub op: u8,
    pub signaled: bool,
    pub fence: bool,
    pub solicited: bool,
    pub imm: u32,
    pub remote_va: u64,
    pub rkey: u32,
    /// Operands of an atomic: swap or add, compare.
    pub swap: u64,
    pub compare: u64,
    /// UD: where to.
    pub ud: Option<UdDest>,
    /// BIND_MW.
    pub bind: Option<Bind>,
    /// Payload in the WQE itself, at most 32 bytes; no SGEs then.
    pub inline: Option<Vec<u8>>,
    /// (address, bytes, lkey)
    pub sges: Vec<(u64, u32, u32)>,
}

/// What a window shall be bound to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bind {
    /// Window, with the low byte that its key shall have.
    pub key: u32,
    pub lkey: u32,
    pub va: u64,
    pub len: u64,
    /// As IBV_ACCESS_*.
    pub access: u64,
}

/// IBV_ACCESS_MW_BIND.
pub const MW_BIND: u64 = 16;

/// Destination of a datagram.
#[derive(Debug, Clone, Copy)]
pub struct UdDest {
    pub qpn: u32,
    pub qkey: u32,
    pub mac: [u8; 6],
    pub gid: [u8; 16],
    /// Index of the source GID: 1 is the IPv4 one.
    pub sgid: u8,
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cqe {
    pub qpn: u32,
    pub opcode: u8,
    pub index: u16,
    pub status: u8,
    pub is_recv: bool,
    pub length: u32,
    pub imm: Option<u32>,
    /// Key that was invalidated.
    pub inv: Option<u32>,
    /// UD: the source QPN.
    pub grh: Option<u32>,
}

pub(crate) const PAGE: u64 = 4096;
/// First address of a process.
const FIRST: u64 = 0x1_0000_0000;

/// A receive entry of `2^stride` units.
pub(crate) fn recv_entry(sges: &[(u64, u32, u32)], stride: u32) -> Vec<u8> {
    let mut b = vec![0u8; wqe::UNIT << stride];
    for (k, (va, len, key)) in sges.iter().enumerate() {
        b[16 * k..16 * k + 8].copy_from_slice(&va.to_le_bytes());
        b[16 * k + 8..16 * k + 12].copy_from_slice(&len.to_le_bytes());
        b[16 * k + 12..16 * k + 16].copy_from_slice(&key.to_le_bytes());
    }
    b
}

impl Host {
    /// A process with PASID `pasid` (1..) on card `card`; creates its event queue.
    pub fn new(sim: &mut Sim, card: usize, pasid: u16) -> Host {
        let eq = Ring {
            id: 0,
            base: 0,
            log: 8,
            ci: 0,
        };
        let mut h = Host {
            card,
            pasid,
            next: FIRST,
            seq: 0,
            block: 0,
            eq,
            qp_type: table::qp_type::RC,
            rq_stride: 0,
            srqn: None,
        };
        h.block = h.alloc(PAGE, PAGE);
        h.eq.base = h.alloc(64 << h.eq.log, PAGE);
        let (base, log) = (h.eq.base, h.eq.log as u64);
        h.command(sim, cmd::op::CREATE_EQ, 0, |c| {
            cmd::create_eq::log.put(c, log);
            cmd::create_eq::base.put(c, base);
        })
        .expect("CREATE_EQ");
        h
    }

    /// Address space of this process (nothing is ever freed).
    pub fn alloc(&mut self, bytes: u64, align: u64) -> u64 {
        let a = self.next.next_multiple_of(align);
        self.next = a + bytes;
        a
    }

    /// All that [`Host::alloc`] has given out: start and end.
    pub fn allocated(&self) -> (u64, u64) {
        (FIRST, self.next.next_multiple_of(PAGE))
    }

    pub(crate) fn doorbell(&self, sim: &mut Sim, offset: u32, v: u64) {
        let a = self.pasid as u32 * regs::PAGE + offset;
        sim.nodes[self.card].mmio.push_back(MmioWrite::u64(a, v));
    }

    /// Runs a command to its end; Err = errno.
    pub fn command(
        &mut self,
        sim: &mut Sim,
        op: u8,
        id: u32,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Vec<u8>, u8> {
        self.begin(sim, op, id, fill);
        self.end(sim)
    }

    /// Starts a command; [`end`](Host::end) waits for it. One at a time; another host's may be under way.
    pub fn begin(&mut self, sim: &mut Sim, op: u8, id: u32, fill: impl FnOnce(&mut [u8])) {
        let mut c = [0u8; cmd::CMD_BYTES];
        fill(&mut c);
        self.seq += 1;
        cmd::head::opcode.put(&mut c, op as u64);
        cmd::head::seq.put(&mut c, self.seq as u64);
        cmd::head::id.put(&mut c, id as u64);
        sim.mem(self.card).poke(self.pasid, self.block, &c);
        self.doorbell(sim, regs::doorbell::CMD, self.block);
    }

    /// The answer to the command that was begun, when it is there.
    pub fn poll_end(&mut self, sim: &mut Sim) -> Option<Result<Vec<u8>, u8>> {
        let at = self.block + cmd::RESP_OFFSET as u64;
        let r = sim.mem(self.card).peek_vec(self.pasid, at, 64);
        if cmd::response::seq.get(&r) != self.seq as u64 {
            return None;
        }
        Some(match cmd::response::status.get(&r) as u8 {
            0 => Ok(r),
            e => Err(e),
        })
    }

    /// Steps until the command that was begun is answered.
    pub fn end(&mut self, sim: &mut Sim) -> Result<Vec<u8>, u8> {
        for k in 0..200_000u32 {
            if k % 16 == 0 {
                if let Some(r) = self.poll_end(sim) {
                    return r;
                }
            }
            sim.step();
        }
        let c = sim
            .mem(self.card)
            .peek_vec(self.pasid, self.block, cmd::CMD_BYTES);
        panic!(
            "no answer to command {} of PASID {}",
            cmd::op::TABLE[cmd::head::opcode.get(&c) as usize].name,
            self.pasid
        );
    }

    pub fn alloc_pd(&mut self, sim: &mut Sim) -> u32 {
        let r = self
            .command(sim, cmd::op::ALLOC_PD, 0, |_| {})
            .expect("ALLOC_PD");
        cmd::response::id.get(&r) as u32
    }

    pub fn create_cq(&mut self, sim: &mut Sim, log: u32) -> Ring {
        let base = self.alloc(64 << log, PAGE);
        let r = self
            .command(sim, cmd::op::CREATE_CQ, 0, |c| {
                cmd::create_cq::log.put(c, log as u64);
                cmd::create_cq::base.put(c, base);
            })
            .expect("CREATE_CQ");
        Ring {
            id: cmd::response::id.get(&r) as u32,
            base,
            log,
            ci: 0,
        }
    }

    /// Moves a CQ to a new ring. The old one has what was not polled.
    pub fn resize_cq(&mut self, sim: &mut Sim, cq: &Ring, log: u32) -> Ring {
        let base = self.alloc(64 << log, PAGE);
        self.command(sim, cmd::op::RESIZE_CQ, cq.id, |c| {
            cmd::create_cq::log.put(c, log as u64);
            cmd::create_cq::base.put(c, base);
        })
        .expect("RESIZE_CQ");
        Ring {
            id: cq.id,
            base,
            log,
            ci: 0,
        }
    }

    /// Registers memory; `access` as IBV_ACCESS_*. The page list is the identity.
    pub fn reg_mr(
        &mut self,
        sim: &mut Sim,
        pd: u32,
        va: u64,
        len: u64,
        access: u64,
    ) -> Result<u32, u8> {
        self.set_mr(sim, None, pd, va, va, len, access)
    }

    /// Registers `[va, va + len)`, or changes `key` to it; the memory is at `bus`, which lies in its page as `va` does.
    #[allow(clippy::too_many_arguments)]
    pub fn set_mr(
        &mut self,
        sim: &mut Sim,
        key: Option<u32>,
        pd: u32,
        va: u64,
        bus: u64,
        len: u64,
        access: u64,
    ) -> Result<u32, u8> {
        self.begin_mr(sim, key, pd, va, bus, len, access);
        let r = self.end(sim)?;
        Ok(cmd::response::id.get(&r) as u32)
    }

    /// Starts what [`set_mr`](Host::set_mr) does; the answer's id is the key.
    #[allow(clippy::too_many_arguments)]
    pub fn begin_mr(
        &mut self,
        sim: &mut Sim,
        key: Option<u32>,
        pd: u32,
        va: u64,
        bus: u64,
        len: u64,
        access: u64,
    ) {
        assert!(va % PAGE == bus % PAGE);
        let pages = (va + len.max(1)).div_ceil(PAGE) - va / PAGE;
        let list = self.alloc(pages * 8, PAGE);
        let bytes: Vec<u8> = (0..pages)
            .flat_map(|k| ((bus / PAGE + k) * PAGE).to_le_bytes())
            .collect();
        sim.mem(self.card).poke(self.pasid, list, &bytes);
        let o = match key {
            None => cmd::op::REG_MR,
            Some(_) => cmd::op::REREG_MR,
        };
        self.begin(sim, o, key.unwrap_or(0), |c| {
            cmd::reg_mr::pd.put(c, pd as u64);
            cmd::reg_mr::access.put(c, access & 15);
            cmd::reg_mr::mw_bind.put(c, (access & MW_BIND != 0) as u64);
            cmd::reg_mr::page_shift.put(c, 12);
            cmd::reg_mr::list.put(c, list);
            cmd::reg_mr::va.put(c, va);
            cmd::reg_mr::len.put(c, len);
        });
    }

    /// A memory window, not bound: its key.
    pub fn alloc_mw(&mut self, sim: &mut Sim, pd: u32, type2: bool) -> u32 {
        let r = self
            .command(sim, cmd::op::ALLOC_MW, 0, |c| {
                cmd::alloc_mw::pd.put(c, pd as u64);
                cmd::alloc_mw::type2.put(c, type2 as u64);
            })
            .expect("ALLOC_MW");
        cmd::response::id.get(&r) as u32
    }

    pub fn create_qp(
        &mut self,
        sim: &mut Sim,
        pd: u32,
        scq: &Ring,
        rcq: &Ring,
        sq_log: u32,
        rq_log: u32,
    ) -> Qp {
        let qp = self.begin_qp(sim, pd, scq, rcq, sq_log, rq_log);
        self.end_qp(sim, qp)
    }

    /// Starts CREATE_QP; the QP has no QPN until [`end_qp`](Host::end_qp).
    pub fn begin_qp(
        &mut self,
        sim: &mut Sim,
        pd: u32,
        scq: &Ring,
        rcq: &Ring,
        sq_log: u32,
        rq_log: u32,
    ) -> Qp {
        let (qp_type, rq_stride, srqn) = (self.qp_type, self.rq_stride, self.srqn);
        let sq = self.alloc(64 << sq_log, PAGE);
        let rq = self.alloc(64 << rq_log, PAGE);
        self.begin(sim, cmd::op::CREATE_QP, 0, |c| {
            cmd::create_qp::qp_type.put(c, qp_type as u64);
            cmd::create_qp::sq_log.put(c, sq_log as u64);
            cmd::create_qp::rq_log.put(c, rq_log as u64);
            cmd::create_qp::rq_stride.put(c, rq_stride as u64);
            cmd::create_qp::srq.put(c, srqn.is_some() as u64);
            cmd::create_qp::srqn.put(c, srqn.unwrap_or(0) as u64);
            cmd::create_qp::pd.put(c, pd as u64);
            cmd::create_qp::sq_base.put(c, sq);
            cmd::create_qp::rq_base.put(c, rq);
            cmd::create_qp::scq.put(c, scq.id as u64);
            cmd::create_qp::rcq.put(c, rcq.id as u64);
        });
        Qp {
            qpn: 0,
            sq,
            sq_log,
            pi: 0,
            rq,
            rq_log,
            rq_stride,
            rpi: 0,
            scq: scq.id,
            rcq: rcq.id,
        }
    }

    pub fn end_qp(&mut self, sim: &mut Sim, qp: Qp) -> Qp {
        let r = self.end(sim).expect("CREATE_QP");
        Qp {
            qpn: cmd::response::id.get(&r) as u32,
            ..qp
        }
    }

    pub fn modify(
        &mut self,
        sim: &mut Sim,
        qpn: u32,
        mask: u64,
        set: &[(Field, u64)],
    ) -> Result<(), u8> {
        self.command(sim, cmd::op::MODIFY_QP, qpn, |c| {
            cmd::modify_qp::mask.put(c, mask);
            for (f, v) in set {
                f.put(c, *v);
            }
        })
        .map(|_| ())
    }

    /// RESET -> INIT -> RTR -> RTS towards `peer` on card `peer_card`.
    pub fn connect(&mut self, sim: &mut Sim, qp: &Qp, peer_card: usize, peer_qpn: u32, c: &Conn) {
        self.connect_up_to(sim, qp, peer_card, peer_qpn, c, 3);
    }

    /// The same, but only up to `state` (1 INIT, 2 RTR, 3 RTS).
    pub fn connect_up_to(
        &mut self,
        sim: &mut Sim,
        qp: &Qp,
        peer_card: usize,
        peer_qpn: u32,
        c: &Conn,
        state: u8,
    ) {
        for step in 0..state as usize {
            self.begin_step(sim, qp, step, peer_card, peer_qpn, c);
            self.end(sim)
                .unwrap_or_else(|e| panic!("step {step} to RTS: {e}"));
        }
    }

    /// Starts the MODIFY_QP of step 0 (to INIT), 1 (to RTR) or 2 (to RTS) of [`connect`](Host::connect).
    pub fn begin_step(
        &mut self,
        sim: &mut Sim,
        qp: &Qp,
        step: usize,
        peer_card: usize,
        peer_qpn: u32,
        c: &Conn,
    ) {
        use cmd::modify_qp as m;
        use table::qp_type::{RC, UD};
        let (rc, ud) = (c.qp_type == RC, c.qp_type == UD);
        let masks = match (rc, ud) {
            (true, _) => [mask::TO_INIT, mask::TO_RTR, mask::TO_RTS],
            (_, true) => [mask::UD_TO_INIT, mask::UD_TO_RTR, mask::UD_TO_RTS],
            _ => [mask::TO_INIT, mask::UC_TO_RTR, mask::UC_TO_RTS],
        };
        let mut set = vec![(m::mask, masks[step]), (m::next_state, step as u64 + 1)];
        let peer = sim.ids[peer_card].clone();
        match step {
            _ if ud => set.extend([(m::port, 1), (m::qkey, c.qkey as u64)]),
            0 => set.extend([
                (m::acc_write, 1),
                (m::acc_read, 1),
                (m::acc_atomic, 1),
                (m::port, 1),
            ]),
            1 => {
                let mut mac = [0u8; 8];
                mac[..6].copy_from_slice(&peer.mac);
                set.extend([
                    (m::mtu, c.mtu as u64),
                    (m::dqpn, peer_qpn as u64),
                    (m::rq_psn, c.psn as u64),
                    (m::max_dest_rd, c.max_rd as u64),
                    (m::min_rnr, c.min_rnr as u64),
                    (m::sgid_index, c.gid as u64),
                    (m::sport, 0xC000 | (qp.qpn as u64 & 0x3FFF)),
                    (m::dmac, u64::from_le_bytes(mac)),
                    (m::hop_limit, 64),
                    (m::tclass, c.tclass as u64),
                    (m::ip6, (c.gid != 1) as u64),
                ]);
            }
            _ => set.extend([
                (m::sq_psn, c.psn as u64),
                (m::timeout, c.timeout as u64),
                (m::retry_cnt, c.retry_cnt as u64),
                (m::rnr_retry, c.rnr_retry as u64),
                (m::max_rd, c.max_rd as u64),
            ]),
        }
        self.begin(sim, cmd::op::MODIFY_QP, qp.qpn, |b| {
            for (f, v) in set {
                f.put(b, v);
            }
            if step == 1 && !ud {
                m::dip.put_bytes(b, &peer.gids()[c.gid as usize]);
            }
        });
    }

    /// Writes a WQE into the ring; [`Host::ring_sq`] tells the card.
    pub fn post_send(&self, sim: &mut Sim, qp: &mut Qp, wr: &Wr) -> u16 {
        let n = wr.sges.len();
        let ud = wr.ud.is_some() as usize;
        let units = 1 + n.saturating_sub(2).div_ceil(4) + ud;
        let mut b = vec![0u8; units * wqe::UNIT];
        use wqe::sq as f;
        f::opcode.put(&mut b, wr.op as u64);
        f::signaled.put(&mut b, wr.signaled as u64);
        f::fence.put(&mut b, wr.fence as u64);
        f::solicited.put(&mut b, wr.solicited as u64);
        f::num_sge.put(&mut b, n as u64);
        f::units.put(&mut b, units as u64);
        f::imm.put(&mut b, wr.imm as u64);
        f::length.put(&mut b, wr.sges.iter().map(|s| s.1 as u64).sum());
        f::qpn.put(&mut b, qp.qpn as u64);
        if let Some(d) = &wr.inline {
            f::inline.put(&mut b, 1);
            f::length.put(&mut b, d.len() as u64);
            b[wqe::INLINE_AT..wqe::INLINE_AT + d.len()].copy_from_slice(d);
        }
        f::index.put(&mut b, qp.pi as u64);
        f::remote_va.put(&mut b, wr.remote_va);
        f::rkey.put(&mut b, wr.rkey as u64);
        for (k, (va, len, key)) in wr.sges.iter().enumerate() {
            let at = if k < 2 {
                32 + 16 * k
            } else {
                64 + 64 * ud + 16 * (k - 2)
            };
            b[at..at + 8].copy_from_slice(&va.to_le_bytes());
            b[at + 8..at + 12].copy_from_slice(&len.to_le_bytes());
            b[at + 12..at + 16].copy_from_slice(&key.to_le_bytes());
        }
        if let Some(d) = &wr.ud {
            use wqe::ud_av as a;
            let u = &mut b[64..128];
            a::dqpn.put(u, d.qpn as u64);
            a::qkey.put(u, d.qkey as u64);
            a::hop_limit.put(u, 64);
            a::tclass.put(u, Conn::default().tclass as u64);
            a::sport.put(u, 0xC123);
            a::dmac.put_bytes(u, &d.mac);
            a::dgid.put_bytes(u, &d.gid);
            a::sgid_index.put(u, d.sgid as u64);
            a::ip6.put(u, (d.sgid != 1) as u64);
        }
        if let Some(d) = &wr.bind {
            use wqe::bind as w;
            w::key.put(&mut b, d.key as u64);
            w::va.put(&mut b, d.va);
            w::len.put(&mut b, d.len);
            w::write.put(&mut b, d.access >> 1 & 1);
            w::read.put(&mut b, d.access >> 2 & 1);
            w::atomic.put(&mut b, d.access >> 3 & 1);
            w::lkey.put(&mut b, d.lkey as u64);
        }
        if wr.op == wqe::op::CMP_SWAP || wr.op == wqe::op::FETCH_ADD {
            f::sge1_va.put(&mut b, wr.swap);
            f::sge1_len.put(&mut b, wr.compare & 0xFFFF_FFFF);
            f::sge1_key.put(&mut b, wr.compare >> 32);
        }
        let index = qp.pi;
        for (k, u) in b.chunks(wqe::UNIT).enumerate() {
            let slot = (qp.pi.wrapping_add(k as u16) as u64) & ((1 << qp.sq_log) - 1);
            sim.mem(self.card)
                .poke(self.pasid, qp.sq + slot * wqe::UNIT as u64, u);
        }
        qp.pi = qp.pi.wrapping_add(units as u16);
        index
    }

    pub fn ring_sq(&self, sim: &mut Sim, qp: &Qp) {
        self.doorbell(
            sim,
            regs::doorbell::SQ,
            qp.qpn as u64 | (qp.pi as u64) << 32,
        );
    }

    /// Tells the card of the WQE at `index`, the newest, by its unit 0.
    pub fn ring_direct(&self, sim: &mut Sim, qp: &Qp, index: u16) {
        let slot = index as u64 & ((1 << qp.sq_log) - 1);
        let unit =
            sim.mem(self.card)
                .peek_vec(self.pasid, qp.sq + slot * wqe::UNIT as u64, wqe::UNIT);
        sim.nodes[self.card].mmio.push_back(MmioWrite {
            addr: self.pasid as u32 * regs::PAGE + regs::doorbell::DIRECT_WQE,
            len: 64,
            data: unit.try_into().expect("64 bytes"),
        });
    }

    pub fn post_recv(&self, sim: &mut Sim, qp: &mut Qp, sges: &[(u64, u32, u32)]) -> u16 {
        let b = recv_entry(sges, qp.rq_stride);
        let index = qp.rpi;
        let slot = (qp.rpi as u64) & ((1 << qp.rq_log) - 1);
        sim.mem(self.card)
            .poke(self.pasid, qp.rq + slot * wqe::UNIT as u64, &b);
        qp.rpi = qp.rpi.wrapping_add(1 << qp.rq_stride);
        index
    }

    pub fn ring_rq(&self, sim: &mut Sim, qp: &Qp) {
        self.doorbell(
            sim,
            regs::doorbell::RQ,
            qp.qpn as u64 | (qp.rpi as u64) << 32,
        );
    }

    /// Takes a completion; gives entries back to the card every quarter ring.
    pub fn poll(&self, sim: &mut Sim, cq: &mut Ring) -> Option<Cqe> {
        let slot = (cq.ci & ((1 << cq.log) - 1)) as u64;
        let mut b = [0u8; 64];
        sim.mem(self.card)
            .peek(self.pasid, cq.base + slot * 64, &mut b);
        let want = !(cq.ci >> cq.log) & 1;
        if cqe::cqe::phase.get(&b) as u32 != want {
            return None;
        }
        cq.ci = (cq.ci + 1) & 0xFF_FFFF;
        if cq.ci.is_multiple_of((1 << cq.log) / 4) {
            self.cq_doorbell(sim, cq, 0);
        }
        use cqe::cqe as f;
        Some(Cqe {
            qpn: f::qpn.get(&b) as u32,
            opcode: f::opcode.get(&b) as u8,
            index: f::index.get(&b) as u16,
            status: f::status.get(&b) as u8,
            is_recv: f::is_recv.get(&b) == 1,
            length: f::length.get(&b) as u32,
            imm: (f::with_imm.get(&b) == 1).then(|| f::imm.get(&b) as u32),
            inv: (f::with_inv.get(&b) == 1).then(|| (f::imm.get(&b) as u32).swap_bytes()),
            grh: (f::grh.get(&b) == 1).then(|| f::src_qp.get(&b) as u32),
        })
    }

    /// Gives entries back and arms (0 no, 1 next, 2 solicited).
    pub fn cq_doorbell(&self, sim: &mut Sim, cq: &Ring, arm: u64) {
        self.doorbell(
            sim,
            regs::doorbell::CQ,
            cq.id as u64 | arm << 24 | (cq.ci as u64) << 32,
        );
    }

    /// Takes an event: (kind, id).
    pub fn poll_event(&mut self, sim: &mut Sim) -> Option<(u8, u32)> {
        let slot = (self.eq.ci & ((1 << self.eq.log) - 1)) as u64;
        let b = sim
            .mem(self.card)
            .peek_vec(self.pasid, self.eq.base + slot * 64, 64);
        if cqe::eqe::phase.get(&b) as u32 != !(self.eq.ci >> self.eq.log) & 1 {
            return None;
        }
        self.eq.ci = (self.eq.ci + 1) & 0xFF_FFFF;
        self.doorbell(sim, regs::doorbell::EQ, (self.eq.ci as u64) << 32);
        Some((cqe::eqe::kind.get(&b) as u8, cqe::eqe::id.get(&b) as u32))
    }
}
