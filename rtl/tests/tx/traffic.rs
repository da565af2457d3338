//! What the path is asked to do, and the frames that it should make of that.
use super::model::*;
use super::world::World;
use metaroce_protocol::{
    ext::{Aeth, AtomicEth, Deth, Ext, Reth},
    frame::{Frame, FrameRepr},
    ip::IpRepr,
    opcode::Opcode,
    psn::{Msn, Psn},
    roce::PacketRepr,
    syndrome::Syndrome,
};
use metaroce_rtl::diff::Rng;
use metaroce_rtl::layouts::UdAv;
use metaroce_rtl::prims::packed::bits_from_bytes;
use metaroce_rtl::types::*;
use std::collections::{HashMap, VecDeque};

impl World {
    pub fn new(plan: Plan, lanes: u64, log_tags: u64, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let mut mrs: Vec<Mr> = vec![];
        for (i, shift) in [12u64, 12, 13, 16, 21, 30, 12, 12].into_iter().enumerate() {
            let n = if shift > 16 { 2 } else { 40 };
            mrs.push(Mr {
                pasid: 1 + i as u64 % 3,
                shift,
                va: (rng.next() >> 18) & !0xFF | rng.below(256),
                list: (0x7000_0000_0000 + (i as u64) * 0x1_0000) & !63,
                pages: (0..n)
                    .map(|_| (rng.next() >> 16) >> shift << shift)
                    .collect(),
                no_list: plan.faults && i == 6,
                no_page: plan.faults && i == 7,
            });
        }
        let conns: Vec<Conn> = (0..8).map(|i| conn(&mut rng, i)).collect();
        let mut w = Self::empty(plan, lanes, log_tags, seed, mrs, conns);
        for k in 0..plan.packets {
            w.packet(&mut rng, k);
        }
        for _ in 0..(plan.packets as f64 * plan.p_ack * 20.0) as usize {
            w.ack(&mut rng);
        }
        w
    }

    pub fn empty(
        plan: Plan,
        lanes: u64,
        log_tags: u64,
        seed: u64,
        mrs: Vec<Mr>,
        conns: Vec<Conn>,
    ) -> Self {
        World {
            plan,
            lanes,
            log_tags,
            seed,
            mem: HashMap::new(),
            mrs,
            conns,
            cmds: VecDeque::new(),
            want: VecDeque::new(),
            acks: VecDeque::new(),
            ack_sent: VecDeque::new(),
            dones: VecDeque::new(),
            fences: 0,
            reads: vec![],
            fills: vec![],
            tags: HashMap::new(),
            cur: vec![],
            open: false,
            now: 0,
            cmd_v: false,
            ack_v: false,
            uas: VecDeque::new(),
            ua_v: false,
            rd_r: false,
            xrd_r: false,
            tx_r: false,
            done_r: false,
            frames: 0,
            words: 0,
            bytes: 0,
            ev: [0; 5],
            kinds: [0; 3],
            gaps: 0,
            first_word: None,
            last_word: 0,
            desc_at: None,
            latency: vec![],
            misses: 0,
            idle_end: false,
        }
    }

    /// The published golden frames that this card can send.
    pub fn golden(lanes: u64, log_tags: u64, seed: u64) -> Self {
        let text = include_str!("../../../protocol/tests/data/rocev2_frames.json");
        let field = |s: &str, k: &str| {
            s.split(&format!("\"{k}\": \""))
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap()
                .to_string()
        };
        let mr = Mr {
            pasid: 5,
            shift: 12,
            va: 0x4000_0000_0100,
            list: 0x7000_0000_0000,
            pages: vec![0x1234_5000, 0x7777_7000],
            no_list: false,
            no_page: false,
        };
        let mut w = Self::empty(FAST, lanes, log_tags, seed, vec![mr.clone()], vec![]);
        let mut at = mr.va;
        for f in text.split('{').skip(1) {
            let (name, hex) = (field(f, "name"), field(f, "frame"));
            let bytes: Vec<u8> = (0..hex.len() / 2)
                .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
                .collect();
            let skip = [
                "rc_send_mig0",
                "invariant_bth4_becn",
                "invariant_bth4_resv6",
            ];
            if name.starts_with("neg_") || skip.contains(&name.as_str()) {
                continue;
            }
            let v = Frame::new_checked(&bytes).unwrap();
            let r = FrameRepr::parse(&v);
            let qp = w.conns.len() as u64;
            let p = r.packet;
            w.conns.push(Conn::new(r.eth, r.ip, r.udp, p.dest_qpn));
            let op = p.opcode.0;
            let aeth = p.ext.aeth.map_or(0, |a| {
                (a.syndrome.to_byte() as u64) << 24 | a.msn.get() as u64
            });
            if op == 0x11 || op == 0x81 {
                let a = AckCmd {
                    qp: qp.into(),
                    opcode: (op as u64).into(),
                    psn: (p.psn.get() as u64).into(),
                    aeth: aeth.into(),
                };
                w.acks.push_back((a, bytes.clone()));
                w.kinds[0] += (op == 0x11 && aeth >> 29 == 0) as u64;
                w.kinds[1] += (op == 0x11 && aeth >> 29 == 3) as u64;
                continue;
            }
            let mut reth = p.ext.reth.unwrap_or_default();
            let mut imm = p.ext.imm.map_or(0, |x| u32::from_le_bytes(x) as u64);
            let atomic = p.ext.atomic.unwrap_or_default();
            if p.ext.atomic.is_some() {
                (reth.va, reth.rkey) = (atomic.va, atomic.rkey);
                reth.dma_len = (atomic.compare >> 32) as u32;
                imm = atomic.compare & 0xFFFF_FFFF;
            }
            if let Some(v) = p.ext.atomic_ack {
                reth.va = v;
            }
            let body = v.payload();
            for (i, b) in body.iter().enumerate() {
                w.mem.insert((mr.pasid, mr.bus(at + i as u64)), *b);
            }
            w.cmds.push_back(TxCmd {
                first: true,
                last: true,
                qp: qp.into(),
                opcode: (op as u64).into(),
                psn: (p.psn.get() as u64).into(),
                ackreq: p.ack_req,
                se: p.se,
                ip6: matches!(r.ip, IpRepr::V6(_)),
                vlan: r.eth.vlan.is_some(),
                len: (body.len() as u64).into(),
                va: reth.va.into(),
                rkey: (reth.rkey as u64).into(),
                dlen: (reth.dma_len as u64).into(),
                imm: imm.into(),
                aeth: aeth.into(),
                stamp: 7.into(),
                seg_va: if p.ext.atomic.is_some() {
                    atomic.swap_add.into()
                } else {
                    at.into()
                },
                seg_len: (body.len() as u64).into(),
                ..Default::default()
            });
            at += body.len() as u64;
            w.want.push_back(Want::Frame {
                bytes,
                stamp: 7,
                done: None,
            });
        }
        w.plan.p_ack = 1.0;
        assert!(w.want.len() >= 14 && w.acks.len() >= 4);
        w
    }

    pub fn ack(&mut self, rng: &mut Rng) {
        let qp = rng.below(8) as usize;
        let (op, syn) = ACKS[rng.below(ACKS.len() as u64) as usize];
        let (psn, msn) = (rng.below(1 << 24) as u32, rng.below(1 << 24) as u32);
        let a = AckCmd {
            qp: (qp as u64).into(),
            opcode: (op as u64).into(),
            psn: (psn as u64).into(),
            aeth: ((syn as u64) << 24 | msn as u64).into(),
        };
        let mut p = PacketRepr::new(Opcode(op), self.conns[qp].dqpn, Psn::new(psn));
        let bytes = if op == 0x81 {
            p.becn = true;
            self.conns[qp].frame(&p, &[0; 16])
        } else {
            p.ext.aeth = Some(Aeth {
                syndrome: Syndrome::from_byte(syn as u8),
                msn: Msn::new(msn),
            });
            self.kinds[match syn {
                0x1F => 0,
                0x2C => 2,
                _ => 1,
            }] += 1;
            self.conns[qp].frame(&p, &[])
        };
        self.acks.push_back((a, bytes));
    }

    pub fn packet(&mut self, rng: &mut Rng, k: usize) {
        if self.plan.fences && rng.p(0.05) {
            self.cmds.push_back(TxCmd {
                first: true,
                last: true,
                kind: 1.into(),
                qp: rng.below(8).into(),
                ..Default::default()
            });
            self.want.push_back(Want::Fence);
        }
        let qp = rng.below(8) as usize;
        let c = &self.conns[qp];
        let op = if self.plan.len.is_some() {
            4
        } else {
            OPCODES[rng.below(OPCODES.len() as u64) as usize]
        };
        let len = match self.plan.len {
            Some(n) => n,
            None if matches!(op, 12 | 18..=20) => 0,
            None => match rng.below(6) {
                0 => 0,
                1 => rng.below(9) as usize,
                2 => rng.below(200) as usize,
                3 => 256 << rng.below(5),
                4 => 4096 - rng.below(5) as usize,
                _ => rng.below(4097) as usize,
            },
        };
        let (psn, va, rkey, dlen, imm) = (
            rng.below(1 << 24) as u32,
            rng.next(),
            rng.next() as u32,
            rng.next() as u32,
            rng.next() as u32,
        );
        let (syn, msn) = (
            [0x1Fu8, 0][rng.below(2) as usize],
            rng.below(1 << 24) as u32,
        );
        let stamp = 1000 + k as u64;
        let swap = rng.next();
        let mut p = PacketRepr::new(Opcode(op), c.dqpn, Psn::new(psn));
        p.se = rng.p(0.3);
        p.ack_req = rng.p(0.5);
        let op5 = op & 31;
        p.ext = Ext {
            reth: [6, 10, 11, 12].contains(&op5).then_some(Reth {
                va,
                rkey,
                dma_len: dlen,
            }),
            atomic: [19, 20].contains(&op5).then_some(AtomicEth {
                va,
                rkey,
                swap_add: swap,
                compare: (dlen as u64) << 32 | imm as u64,
            }),
            deth: (op >> 5 == 3).then_some(Deth {
                qkey: rkey,
                src_qpn: dlen & 0xFF_FFFF,
                ..Default::default()
            }),
            atomic_ack: (op5 == 18).then_some(va),
            aeth: [13, 15, 16, 18].contains(&op5).then_some(Aeth {
                syndrome: Syndrome::from_byte(syn),
                msn: Msn::new(msn),
            }),
            imm: [3, 5, 9, 11].contains(&op5).then_some(imm.to_le_bytes()),
            ieth: [22, 23].contains(&op5).then_some(imm.swap_bytes()),
            ..Default::default()
        };
        let resp = [13, 14, 15, 16, 18].contains(&op5);
        let base = TxCmd {
            qp: (qp as u64).into(),
            opcode: (op as u64).into(),
            psn: (psn as u64).into(),
            ackreq: p.ack_req,
            se: p.se,
            ip6: c.av.ip6,
            vlan: c.av.has_vlan,
            len: (len as u64).into(),
            va: va.into(),
            rkey: (rkey as u64).into(),
            dlen: if op >> 5 == 3 {
                (dlen as u64 & 0xFF_FFFF).into()
            } else {
                (dlen as u64).into()
            },
            imm: (imm as u64).into(),
            aeth: ((syn as u64) << 24 | msn as u64).into(),
            resp,
            resp_end: [15, 16, 18].contains(&op5),
            stamp: stamp.into(),
            ..Default::default()
        };
        if op >> 5 == 3 {
            let a = &c.av;
            self.uas.push_back(UdAv {
                dqpn: a.dqpn,
                hop_limit: a.hop_limit,
                qkey: (rkey as u64).into(),
                dmac: a.dmac,
                sport: a.sport,
                dgid: a.dip,
                flow_label: a.flow_label,
                tclass: a.tclass,
                vlan: a.vlan,
                pcp: a.pcp,
                has_vlan: a.has_vlan,
                sgid_index: (qp as u64).into(),
                ip6: a.ip6,
                ..Default::default()
            });
        }
        let mut payload = vec![];
        let mut left = len;
        let mut fault = false;
        let mut segs = vec![];
        while left > 0 {
            let n = if rng.p(0.6) || self.plan.len.is_some() {
                left
            } else {
                1 + rng.below(left as u64) as usize
            };
            if n <= 32 && self.plan.len.is_none() && rng.p(0.3) {
                let data: Vec<u8> = (0..32).map(|_| rng.next() as u8).collect();
                payload.extend(&data[..n]);
                segs.push((0, 0, n as u64, Some(data)));
                left -= n;
                continue;
            }
            let good = self.plan.len.is_some() || !rng.p(0.04);
            // small frames: two MRs of large pages, so that the page lists are soon in the cache
            let mi = if self.plan.len == Some(64) {
                4 + rng.below(2)
            } else if good {
                rng.below(6)
            } else {
                6 + rng.below(2)
            } as usize;
            let m = &self.mrs[mi];
            let room = (m.pages.len() as u64 - 1) << m.shift;
            let mut at = m.va + rng.below(room - 4096 - 1);
            if rng.p(0.3) {
                at = (at + 4095) & !4095;
            }
            fault |= m.no_list || m.no_page;
            payload.extend((0..n as u64).map(|i| byte_at(m.pasid, m.bus(at + i))));
            segs.push((mi as u64, at, n as u64, None));
            left -= n;
        }
        // now and then a packet ends with an empty segment
        if op5 == 19 || op5 == 20 {
            // the operand travels where an address would
            segs.push((0, swap, 0, None));
        } else if segs.is_empty() || rng.p(0.1) {
            segs.push((0, 0, 0, None));
        }
        for (i, (mr, at, n, inline)) in segs.iter().enumerate() {
            self.cmds.push_back(TxCmd {
                first: i == 0,
                last: i + 1 == segs.len(),
                seg_mr: (*mr).into(),
                seg_va: (*at).into(),
                seg_len: (*n).into(),
                inl: inline.is_some(),
                idata: bits_from_bytes(inline.as_deref().unwrap_or(&[0; 32])),
                ..base
            });
        }
        let done = TxDone {
            qp: base.qp,
            resp,
            resp_end: base.resp_end,
            fault,
        };
        self.want.push_back(if fault {
            Want::Fault(done)
        } else {
            Want::Frame {
                bytes: c.frame(&p, &payload),
                stamp,
                done: base.resp_end.then_some(done),
            }
        });
    }
}
