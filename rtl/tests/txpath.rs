//! The transmit path (txdma, translate, egress) between models of its neighbours: commands in, host memory that answers out of order, frames out, compared byte
//! by byte with the protocol crate's codec. Everything runs in both simulations and is compared cycle by cycle.
use metaroce_protocol::{
    eth::{EthRepr, Vlan},
    ext::{Aeth, Ext, Reth},
    frame::{Frame, FrameRepr},
    ip::{IpRepr, Ipv4Repr, Ipv6Repr},
    opcode::Opcode,
    psn::{Msn, Psn},
    roce::PacketRepr,
    syndrome::Syndrome,
    udp::UdpRepr,
};
use metaroce_rtl::diff::{Diff, Rng, Stim};
use metaroce_rtl::egress::Egress;
use metaroce_rtl::inputs;
use metaroce_rtl::layouts::{Av, MrMap};
use metaroce_rtl::prims::packed::{bits_from_bytes, Unpack};
use metaroce_rtl::translate::Translate;
use metaroce_rtl::txdma::TxDma;
use metaroce_rtl::types::*;
use num_bigint::BigUint;
use rust_hdl::prelude::*;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

/// The three blocks as the card wires them.
#[derive(LogicBlock)]
pub struct TxPath<
    const W: usize,
    const L: usize,
    const P: usize,
    const LOG_TX: usize,
    const LOG_TAGS: usize,
    const T: usize,
    const LL: usize,
    const NL: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub cmd_valid: Signal<In, bool>,
    pub cmd_data: Signal<In, TxCmd>,
    pub ack_valid: Signal<In, bool>,
    pub ack_data: Signal<In, AckCmd>,
    pub av_rdata: Signal<In, Av>,
    pub mrm_rdata: Signal<In, MrMap>,
    pub limit_log: Signal<In, Bits<4>>,
    pub rd_ready: Signal<In, bool>,
    pub cpl_valid: Signal<In, bool>,
    pub cpl_data: Signal<In, Bits<W>>,
    pub cpl_meta: Signal<In, HostRdMeta>,
    pub xrd_ready: Signal<In, bool>,
    pub fill_valid: Signal<In, bool>,
    pub fill_data: Signal<In, CtlFill>,
    pub flush: Signal<In, bool>,
    pub tx_ready: Signal<In, bool>,
    pub done_ready: Signal<In, bool>,
    pub cmd_ready: Signal<Out, bool>,
    pub ack_ready: Signal<Out, bool>,
    pub av_raddr: Signal<Out, Bits<12>>,
    pub mrm_raddr: Signal<Out, Bits<16>>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub xrd_valid: Signal<Out, bool>,
    pub xrd_data: Signal<Out, HostRd>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, Bits<W>>,
    pub tx_meta: Signal<Out, WireMeta>,
    pub done_valid: Signal<Out, bool>,
    pub done_data: Signal<Out, TxDone>,
    pub fence_done: Signal<Out, bool>,
    pub ev_frame: Signal<Out, bool>,
    pub ev_bytes: Signal<Out, Bits<13>>,
    pub ev_ack: Signal<Out, bool>,
    pub ev_nak: Signal<Out, bool>,
    pub ev_rnr: Signal<Out, bool>,
    pub ev_miss: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    pub desc_v: Signal<Out, bool>,
    pub desc_r: Signal<Out, bool>,
    dma: TxDma<W, L, LOG_TX, LOG_TAGS, T>,
    xl: Translate<LL, NL>,
    eg: Egress<W, L, P>,
    di: Signal<Local, bool>,
}

impl<
        const W: usize,
        const L: usize,
        const P: usize,
        const LOG_TX: usize,
        const LOG_TAGS: usize,
        const T: usize,
        const LL: usize,
        const NL: usize,
    > Default for TxPath<W, L, P, LOG_TX, LOG_TAGS, T, LL, NL>
{
    fn default() -> Self {
        Self {
            clock: Default::default(),
            rst: Default::default(),
            cmd_valid: Default::default(),
            cmd_data: Default::default(),
            ack_valid: Default::default(),
            ack_data: Default::default(),
            av_rdata: Default::default(),
            mrm_rdata: Default::default(),
            limit_log: Default::default(),
            rd_ready: Default::default(),
            cpl_valid: Default::default(),
            cpl_data: Default::default(),
            cpl_meta: Default::default(),
            xrd_ready: Default::default(),
            fill_valid: Default::default(),
            fill_data: Default::default(),
            flush: Default::default(),
            tx_ready: Default::default(),
            done_ready: Default::default(),
            cmd_ready: Default::default(),
            ack_ready: Default::default(),
            av_raddr: Default::default(),
            mrm_raddr: Default::default(),
            rd_valid: Default::default(),
            rd_data: Default::default(),
            xrd_valid: Default::default(),
            xrd_data: Default::default(),
            tx_valid: Default::default(),
            tx_data: Default::default(),
            tx_meta: Default::default(),
            done_valid: Default::default(),
            done_data: Default::default(),
            fence_done: Default::default(),
            ev_frame: Default::default(),
            ev_bytes: Default::default(),
            ev_ack: Default::default(),
            ev_nak: Default::default(),
            ev_rnr: Default::default(),
            ev_miss: Default::default(),
            idle: Default::default(),
            desc_v: Default::default(),
            desc_r: Default::default(),
            dma: Default::default(),
            xl: Translate::new(0xA0),
            eg: Default::default(),
            di: Default::default(),
        }
    }
}

impl<
        const W: usize,
        const L: usize,
        const P: usize,
        const LOG_TX: usize,
        const LOG_TAGS: usize,
        const T: usize,
        const LL: usize,
        const NL: usize,
    > Logic for TxPath<W, L, P, LOG_TX, LOG_TAGS, T, LL, NL>
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, dma, xl, eg);
        self.dma.rst.next = self.rst.val();
        self.xl.rst.next = self.rst.val();
        self.eg.rst.next = self.rst.val();
        self.dma.cmd_valid.next = self.cmd_valid.val();
        self.dma.cmd_data.next = self.cmd_data.val();
        self.dma.rd_ready.next = self.rd_ready.val();
        self.dma.cpl_valid.next = self.cpl_valid.val();
        self.dma.cpl_data.next = self.cpl_data.val();
        self.dma.cpl_meta.next = self.cpl_meta.val();
        self.xl.limit_log.next = self.limit_log.val();
        self.xl.mrm_rdata.next = self.mrm_rdata.val();
        self.xl.flush.next = self.flush.val();
        self.xl.fill_valid.next = self.fill_valid.val();
        self.xl.fill_data.next = self.fill_data.val();
        self.eg.ack_valid.next = self.ack_valid.val();
        self.eg.ack_data.next = self.ack_data.val();
        self.eg.av_rdata.next = self.av_rdata.val();
        self.eg.tx_ready.next = self.tx_ready.val();
        self.eg.done_ready.next = self.done_ready.val();
        self.xl.rd_ready.next = self.xrd_ready.val();
        self.xl.req_valid.next = self.dma.req_valid.val();
        self.xl.req_data.next = self.dma.req_data.val();
        self.dma.req_ready.next = self.xl.req_ready.val();
        self.dma.chunk_valid.next = self.xl.chunk_valid.val();
        self.dma.chunk_data.next = self.xl.chunk_data.val();
        self.xl.chunk_ready.next = self.dma.chunk_ready.val();
        self.eg.desc_valid.next = self.dma.desc_valid.val();
        self.eg.desc_data.next = self.dma.desc_data.val();
        self.dma.desc_ready.next = self.eg.desc_ready.val();
        self.dma.buf_raddr.next = self.eg.buf_raddr.val();
        self.eg.buf_rdata.next = self.dma.buf_rdata.val();
        self.dma.free_valid.next = self.eg.free_valid.val();
        self.dma.free_words.next = self.eg.free_words.val();
        self.cmd_ready.next = self.dma.cmd_ready.val();
        self.rd_valid.next = self.dma.rd_valid.val();
        self.rd_data.next = self.dma.rd_data.val();
        self.mrm_raddr.next = self.xl.mrm_raddr.val();
        self.ev_miss.next = self.xl.ev_miss.val();
        self.ack_ready.next = self.eg.ack_ready.val();
        self.av_raddr.next = self.eg.av_raddr.val();
        self.tx_valid.next = self.eg.tx_valid.val();
        self.tx_data.next = self.eg.tx_data.val();
        self.tx_meta.next = self.eg.tx_meta.val();
        self.done_valid.next = self.eg.done_valid.val();
        self.done_data.next = self.eg.done_data.val();
        self.fence_done.next = self.eg.fence_done.val();
        self.ev_frame.next = self.eg.ev_frame.val();
        self.ev_bytes.next = self.eg.ev_bytes.val();
        self.ev_ack.next = self.eg.ev_ack.val();
        self.ev_nak.next = self.eg.ev_nak.val();
        self.ev_rnr.next = self.eg.ev_rnr.val();
        self.xrd_valid.next = self.xl.rd_valid.val();
        self.xrd_data.next = self.xl.rd_data.val();
        self.desc_v.next = self.dma.desc_valid.val();
        self.desc_r.next = self.eg.desc_ready.val();
        self.di.next = self.dma.idle.val() & self.xl.idle.val();
        self.idle.next = self.di.val() & self.eg.idle.val();
    }
}

fn pack<const N: usize>(b: Bits<N>) -> BigUint {
    b.into()
}
fn take<T: Unpack>(v: &BigUint) -> T {
    T::unpack(&|i| v.bit(i as u64), 0)
}
fn byte_at(pasid: u64, addr: u64) -> u8 {
    Rng(addr.wrapping_mul(31) ^ pasid << 50).next() as u8
}
fn wire48(b: [u8; 6]) -> u64 {
    b.iter().rev().fold(0, |a, x| a << 8 | *x as u64)
}

/// An MR of the model.
#[derive(Clone)]
struct Mr {
    pasid: u64,
    shift: u64,
    va: u64,
    list: u64,
    pages: Vec<u64>,
    /// Host refuses: page list, pages.
    no_list: bool,
    no_page: bool,
}

impl Mr {
    fn bus(&self, va: u64) -> u64 {
        let base = self.va >> self.shift << self.shift;
        let page = (va - base) >> self.shift;
        self.pages[page as usize] | (va & ((1 << self.shift) - 1))
    }
    fn entry(&self) -> MrMap {
        MrMap {
            page_shift: self.shift.into(),
            rsv0: 0.into(),
            list: (self.list >> 6).into(),
            va_page: (self.va >> self.shift << self.shift >> 12).into(),
            pasid: self.pasid.into(),
        }
    }
}

#[derive(Clone)]
struct Conn {
    av: Av,
    eth: EthRepr,
    ip: IpRepr,
    udp: UdpRepr,
    dqpn: u32,
}

fn conn(rng: &mut Rng, i: usize) -> Conn {
    let mac = |r: &mut Rng| {
        let x = r.next().to_le_bytes();
        [x[0] & 0xFE, x[1], x[2], x[3], x[4], x[5]]
    };
    let (dst, src) = (mac(rng), mac(rng));
    let ip6 = i % 2 == 1;
    let vlan = (i / 2 % 2 == 1).then(|| Vlan {
        tpid: 0x8100,
        tci: (rng.next() as u16) & 0xEFFF,
    });
    let mut sip = [0u8; 16];
    let mut dip = [0u8; 16];
    for k in 0..16 {
        sip[k] = rng.next() as u8;
        dip[k] = rng.next() as u8;
    }
    let (tc, hop, fl) = (
        rng.next() as u8,
        rng.next() as u8,
        (rng.next() as u32) & 0xFFFFF,
    );
    let ip = if ip6 {
        IpRepr::V6(Ipv6Repr {
            traffic_class: tc,
            flow_label: fl,
            hop_limit: hop,
            src: sip,
            dst: dip,
        })
    } else {
        IpRepr::V4(Ipv4Repr {
            tos: tc,
            id: 0,
            df: true,
            ttl: hop,
            src: sip[12..].try_into().unwrap(),
            dst: dip[12..].try_into().unwrap(),
        })
    };
    let udp = UdpRepr {
        src_port: rng.next() as u16,
        checksum: 0,
    };
    Conn::new(
        EthRepr { dst, src, vlan },
        ip,
        udp,
        (rng.next() as u32) & 0xFFFFFF,
    )
}

impl Conn {
    fn new(eth: EthRepr, ip: IpRepr, udp: UdpRepr, dqpn: u32) -> Self {
        let (mut sip, mut dip) = ([0u8; 16], [0u8; 16]);
        let (ip6, tc, hop, fl) = match &ip {
            IpRepr::V4(r) => {
                sip[12..].copy_from_slice(&r.src);
                dip[12..].copy_from_slice(&r.dst);
                (false, r.tos, r.ttl, 0x54321)
            }
            IpRepr::V6(r) => {
                (sip, dip) = (r.src, r.dst);
                (true, r.traffic_class, r.hop_limit, r.flow_label)
            }
        };
        let tci = eth.vlan.map_or(0, |v| v.tci) as u64;
        let av = Av {
            dqpn: (dqpn as u64).into(),
            ip6,
            has_vlan: eth.vlan.is_some(),
            pcp: (tci >> 13).into(),
            vlan: (tci & 0xFFF).into(),
            hop_limit: (hop as u64).into(),
            tclass: (tc as u64).into(),
            sport: (udp.src_port as u64).into(),
            dmac: wire48(eth.dst).into(),
            smac: wire48(eth.src).into(),
            flow_label: (fl as u64).into(),
            sip: bits_from_bytes(&sip),
            dip: bits_from_bytes(&dip),
            ..Default::default()
        };
        Conn {
            av,
            eth,
            ip,
            udp,
            dqpn,
        }
    }
    fn frame(&self, p: &PacketRepr, payload: &[u8]) -> Vec<u8> {
        let f = FrameRepr {
            eth: self.eth,
            ip: self.ip,
            udp: self.udp,
            packet: *p,
        };
        let mut b = vec![0; 5000];
        let n = f.emit(payload, &mut b).unwrap();
        b.truncate(n);
        b
    }
}

const OPCODES: &[u8] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 22, 23, 0x20, 0x25, 0x26, 0x2B,
];
const ACKS: &[(u8, u32)] = &[
    (0x11, 0x1F),
    (0x11, 0x60),
    (0x11, 0x2C),
    (0x11, 0x62),
    (0x81, 0),
];

/// What a run is like.
#[derive(Clone, Copy)]
struct Plan {
    packets: usize,
    /// Chance of an offer per cycle: commands, acknowledgements.
    p_cmd: f64,
    p_ack: f64,
    /// Chance of ready per cycle on each of the outputs.
    p_ready: f64,
    /// Chance of a completion word per cycle.
    p_cpl: f64,
    /// Cycles before a read is answered: at least, and at most that many more.
    lat: (u64, u64),
    /// Fixed payload length.
    len: Option<usize>,
    faults: bool,
    fences: bool,
    flush: bool,
    /// Completions of one tag at a time (still not in the order of the reads).
    in_order: bool,
    limit: u64,
}

const PLAN: Plan = Plan {
    packets: 120,
    p_cmd: 0.8,
    p_ack: 0.03,
    p_ready: 0.8,
    p_cpl: 0.8,
    lat: (5, 60),
    len: None,
    faults: true,
    fences: true,
    flush: true,
    in_order: false,
    limit: 9,
};

struct Rd {
    at: u64,
    rd: HostRd,
    pos: u64,
    bad: bool,
}

enum Want {
    Frame {
        bytes: Vec<u8>,
        stamp: u64,
        done: Option<TxDone>,
    },
    Fault(TxDone),
    Fence,
}

/// Models of everything round the path; `step` is called once a cycle with the outputs of the cycle before.
struct World {
    plan: Plan,
    lanes: u64,
    log_tags: u64,
    seed: u64,
    /// Bytes that are not `byte_at`.
    mem: HashMap<(u64, u64), u8>,
    mrs: Vec<Mr>,
    conns: Vec<Conn>,
    cmds: VecDeque<TxCmd>,
    want: VecDeque<Want>,
    acks: VecDeque<(AckCmd, Vec<u8>)>,
    ack_sent: VecDeque<Vec<u8>>,
    dones: VecDeque<TxDone>,
    fences: usize,
    reads: Vec<Rd>,
    fills: Vec<Rd>,
    tags: HashMap<u64, ()>,
    cur: Vec<u8>,
    open: bool,
    now: u64,
    // inputs of the cycle before
    cmd_v: bool,
    ack_v: bool,
    rd_r: bool,
    xrd_r: bool,
    tx_r: bool,
    done_r: bool,
    // tallies
    frames: usize,
    words: usize,
    bytes: u64,
    ev: [u64; 5],
    kinds: [u64; 3],
    gaps: usize,
    first_word: Option<u64>,
    last_word: u64,
    desc_at: Option<u64>,
    latency: Vec<u64>,
    misses: usize,
    idle_end: bool,
}

impl World {
    fn new(plan: Plan, lanes: u64, log_tags: u64, seed: u64) -> Self {
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

    fn empty(
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
    fn golden(lanes: u64, log_tags: u64, seed: u64) -> Self {
        let text = include_str!("../../protocol/tests/data/rocev2_frames.json");
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
                "rc_cmp_swap",
                "rc_fetch_add_unaligned",
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
            let reth = p.ext.reth.unwrap_or_default();
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
                imm: p.ext.imm.map_or(0, |x| u32::from_le_bytes(x) as u64).into(),
                aeth: aeth.into(),
                stamp: 7.into(),
                seg_va: at.into(),
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

    fn ack(&mut self, rng: &mut Rng) {
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

    fn packet(&mut self, rng: &mut Rng, k: usize) {
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
            None if op == 12 => 0,
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
            aeth: [13, 15, 16].contains(&op5).then_some(Aeth {
                syndrome: Syndrome::from_byte(syn),
                msn: Msn::new(msn),
            }),
            imm: [3, 5, 9, 11].contains(&op5).then_some(imm.to_le_bytes()),
            ieth: [22, 23].contains(&op5).then_some(imm.swap_bytes()),
            ..Default::default()
        };
        let resp = (13..=16).contains(&op5);
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
            dlen: (dlen as u64).into(),
            imm: (imm as u64).into(),
            aeth: ((syn as u64) << 24 | msn as u64).into(),
            resp,
            resp_end: op5 == 15 || op5 == 16,
            stamp: stamp.into(),
            ..Default::default()
        };
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
            segs.push((mi as u64, at, n as u64));
            left -= n;
        }
        // now and then a packet ends with an empty segment
        if segs.is_empty() || rng.p(0.1) {
            segs.push((0, 0, 0));
        }
        for (i, (mr, at, n)) in segs.iter().enumerate() {
            self.cmds.push_back(TxCmd {
                first: i == 0,
                last: i + 1 == segs.len(),
                seg_mr: (*mr).into(),
                seg_va: (*at).into(),
                seg_len: (*n).into(),
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

    /// Fences and faults at the head of the line of what is expected make no frame.
    fn settle(&mut self) {
        loop {
            match self.want.front() {
                Some(Want::Fault(d)) => {
                    self.dones.push_back(*d);
                    self.want.pop_front();
                }
                Some(Want::Fence) => {
                    self.fences += 1;
                    self.want.pop_front();
                }
                _ => break,
            }
        }
    }

    fn frame(&mut self, b: Vec<u8>, stamp: u64) {
        self.frames += 1;
        self.bytes += b.len() as u64;
        if stamp == 0 {
            let w = self
                .ack_sent
                .pop_front()
                .expect("an acknowledgement that nobody asked for");
            assert_eq!(hex(&b), hex(&w), "acknowledgement, cycle {}", self.now);
            return;
        }
        self.settle();
        match self.want.pop_front() {
            Some(Want::Frame {
                bytes,
                stamp: s,
                done,
            }) => {
                assert_eq!(
                    hex(&b),
                    hex(&bytes),
                    "frame {} cycle {}",
                    self.frames,
                    self.now
                );
                assert_eq!(stamp, s);
                self.dones.extend(done);
                self.settle();
            }
            _ => panic!("a frame too many in cycle {}: {}", self.now, hex(&b)),
        }
    }

    /// First look at what the path did in the cycle before, then new inputs.
    fn step(&mut self, s: &mut Stim) {
        self.now += 1;
        let plan = self.plan;
        let rst = s.cycle < 2;
        s.set("rst", rst as u8);
        let out = |s: &Stim, n: &str| s.out_u64(n) != 0;
        // commands and acknowledgements
        if self.cmd_v && out(s, "cmd_ready") {
            self.cmds.pop_front();
            self.cmd_v = false;
        }
        if self.ack_v && out(s, "ack_ready") {
            let (_, b) = self.acks.pop_front().unwrap();
            self.ack_sent.push_back(b);
            self.ack_v = false;
        }
        // reads
        if self.rd_r && out(s, "rd_valid") {
            let rd: HostRd = take(&s.out("rd_data"));
            self.read(s, rd, false);
        }
        if self.xrd_r && out(s, "xrd_valid") {
            let rd: HostRd = take(&s.out("xrd_data"));
            self.read(s, rd, true);
        }
        // wire
        let tv = out(s, "tx_valid");
        if self.tx_r {
            if self.open {
                assert!(tv, "a gap inside a frame in cycle {}", self.now);
            }
            if tv {
                let m: WireMeta = take(&s.out("tx_meta"));
                let w = s.out("tx_data");
                let bytes: Vec<u8> = (0..self.lanes)
                    .map(|i| (0..8).fold(0, |a, k| a | (w.bit(8 * i + k) as u8) << k))
                    .collect();
                assert_eq!(m.sop, !self.open);
                if m.sop {
                    self.cur.clear();
                    if let Some(t) = self.desc_at.take() {
                        self.latency.push(self.now - 1 - t);
                    }
                }
                let used = self.lanes as usize - m.empty.index();
                assert!(m.eop || used == self.lanes as usize);
                self.cur.extend(&bytes[..used]);
                assert!(
                    bytes[used..].iter().all(|x| *x == 0),
                    "unused bytes are zero"
                );
                self.open = !m.eop;
                self.words += 1;
                self.first_word.get_or_insert(self.now);
                self.last_word = self.now;
                if m.eop {
                    let f = std::mem::take(&mut self.cur);
                    self.frame(f, m.stamp.to_u64());
                }
            } else {
                self.gaps += 1;
            }
        }
        if out(s, "desc_v") && out(s, "desc_r") && self.plan.len.is_some() {
            self.desc_at.get_or_insert(self.now - 1);
        }
        if self.done_r && out(s, "done_valid") {
            let d: TxDone = take(&s.out("done_data"));
            self.settle();
            // reported when the frame is accepted, which is before its last word
            if let Some(i) = self.dones.front() {
                assert_eq!(*i, d);
                self.dones.pop_front();
            } else {
                let i = self
                    .want
                    .iter()
                    .position(|w| matches!(w, Want::Frame { done: Some(_), .. } | Want::Fault(_)));
                let i = i.expect("a report that nobody waits for");
                let first = match &mut self.want[i] {
                    Want::Frame { done, .. } => done.take(),
                    Want::Fault(f) => Some(*f),
                    Want::Fence => None,
                };
                if matches!(self.want[i], Want::Fault(_)) {
                    self.want.remove(i);
                }
                assert_eq!(first, Some(d));
            }
        }
        if out(s, "fence_done") {
            assert!(self.fences > 0 || self.want.iter().any(|w| matches!(w, Want::Fence)));
            self.settle();
            if self.fences > 0 {
                self.fences -= 1;
            } else {
                let i = self
                    .want
                    .iter()
                    .position(|w| matches!(w, Want::Fence))
                    .unwrap();
                self.want.remove(i);
            }
        }
        for (i, n) in ["ev_frame", "ev_ack", "ev_nak", "ev_rnr"]
            .iter()
            .enumerate()
        {
            self.ev[i] += out(s, n) as u64;
        }
        self.ev[4] += s.out_u64("ev_bytes");
        self.misses += out(s, "ev_miss") as usize;
        self.idle_end = out(s, "idle");

        // new inputs
        let late = self.now < 4;
        self.cmd_v |= !late && !self.cmds.is_empty() && s.rng.p(plan.p_cmd);
        self.ack_v |= !late && !self.acks.is_empty() && s.rng.p(plan.p_ack);
        s.set("cmd_valid", self.cmd_v as u8);
        let c = self.cmds.front().copied().unwrap_or_default();
        s.set("cmd_data", pack::<{ TxCmd::BITS }>(c.into()));
        s.set("ack_valid", self.ack_v as u8);
        let a = self.acks.front().map(|x| x.0).unwrap_or_default();
        s.set("ack_data", pack::<{ AckCmd::BITS }>(a.into()));
        let a = s.out_u64("av_raddr") as usize % self.conns.len();
        s.set("av_rdata", pack::<512>(self.conns[a].av.into()));
        let m = s.out_u64("mrm_raddr") as usize % self.mrs.len();
        s.set("mrm_rdata", pack::<128>(self.mrs[m].entry().into()));
        s.set("limit_log", plan.limit);
        let fl = plan.flush && s.rng.p(0.003);
        s.set("flush", fl as u8);
        self.rd_r = s.rng.p(plan.p_ready);
        self.xrd_r = s.rng.p(plan.p_ready);
        self.tx_r = s.rng.p(plan.p_ready);
        self.done_r = s.rng.p(plan.p_ready);
        s.set("rd_ready", self.rd_r as u8);
        s.set("xrd_ready", self.xrd_r as u8);
        s.set("tx_ready", self.tx_r as u8);
        s.set("done_ready", self.done_r as u8);
        self.complete(s);
    }

    fn read(&mut self, s: &mut Stim, rd: HostRd, list: bool) {
        let (addr, len, pasid) = (rd.addr.to_u64(), rd.len.to_u64(), rd.pasid.to_u64());
        assert!(len > 0 && len <= 1 << self.plan.limit);
        assert_eq!(addr >> 12, (addr + len - 1) >> 12, "crosses 4 KiB");
        let at = self.now + self.plan.lat.0 + s.rng.below(self.plan.lat.1 + 1);
        assert!(
            self.tags.insert(rd.tag.to_u64(), ()).is_none(),
            "tag in use"
        );
        let r = |bad| Rd {
            at,
            rd,
            pos: 0,
            bad,
        };
        if list {
            assert!((0xA0..0xA8).contains(&rd.tag.to_u64()) && len == 64 && addr % 64 == 0);
            let m = self
                .mrs
                .iter()
                .find(|m| (m.list..m.list + 0x1_0000).contains(&addr))
                .expect("a list");
            assert_eq!(m.pasid, pasid);
            let bad = m.no_list;
            self.fills.push(r(bad));
        } else {
            assert!(rd.tag.to_u64() < 1 << self.log_tags);
            let m = self.mrs.iter().find(|m| {
                m.pasid == pasid
                    && m.pages
                        .iter()
                        .any(|p| (*p..*p + (1 << m.shift)).contains(&addr))
            });
            let bad = m.expect("a page of an MR").no_page;
            self.reads.push(r(bad));
        }
    }

    fn complete(&mut self, s: &mut Stim) {
        s.set("cpl_valid", 0u8);
        s.set("fill_valid", 0u8);
        let ready: Vec<usize> = (0..self.reads.len())
            .filter(|i| self.reads[*i].at <= self.now)
            .collect();
        if !ready.is_empty() && s.rng.p(self.plan.p_cpl) {
            let i = if self.plan.in_order {
                ready[0]
            } else {
                ready[s.rng.below(ready.len() as u64) as usize]
            };
            let r = &mut self.reads[i];
            let (addr, len, pasid) = (r.rd.addr.to_u64(), r.rd.len.to_u64(), r.rd.pasid.to_u64());
            let word = addr / self.lanes * self.lanes + r.pos * self.lanes;
            let last = word + self.lanes >= addr + len || r.bad;
            let bytes: Vec<u8> = (0..self.lanes)
                .map(|k| match word + k {
                    a if (addr..addr + len).contains(&a) => self
                        .mem
                        .get(&(pasid, a))
                        .copied()
                        .unwrap_or_else(|| byte_at(pasid, a)),
                    _ => s.rng.next() as u8,
                })
                .collect();
            r.pos += 1;
            let m = HostRdMeta {
                tag: r.rd.tag,
                last,
                err: r.bad,
            };
            s.set("cpl_valid", 1u8);
            s.set("cpl_data", BigUint::from_bytes_le(&bytes));
            s.set("cpl_meta", pack::<10>(m.into()));
            if last {
                self.tags.remove(&m.tag.to_u64());
                self.reads.remove(i);
            }
        }
        let ready: Vec<usize> = (0..self.fills.len())
            .filter(|i| self.fills[*i].at <= self.now)
            .collect();
        if !ready.is_empty() && s.rng.p(0.5) {
            let i = ready[s.rng.below(ready.len() as u64) as usize];
            let r = self.fills.remove(i);
            let addr = r.rd.addr.to_u64();
            let m = self
                .mrs
                .iter()
                .find(|m| (m.list..m.list + 0x1_0000).contains(&addr))
                .unwrap();
            let k = (addr - m.list) / 8;
            // bits below the page size are ignored
            let data: Vec<u8> = (k..k + 8)
                .flat_map(|k| (m.pages.get(k as usize).copied().unwrap_or(0) | 0x5A5).to_le_bytes())
                .collect();
            let f = CtlFill {
                data: bits_from_bytes(&data),
                tag: r.rd.tag,
                last: true,
                err: r.bad,
            };
            self.tags.remove(&r.rd.tag.to_u64());
            s.set("fill_valid", 1u8);
            s.set("fill_data", pack::<{ CtlFill::BITS }>(f.into()));
        } else if s.rng.p(0.2) {
            // a fill of somebody else
            let f = CtlFill {
                data: 0.into(),
                tag: 0x83.into(),
                last: true,
                err: false,
            };
            s.set("fill_valid", 1u8);
            s.set("fill_data", pack::<{ CtlFill::BITS }>(f.into()));
        }
    }

    fn finish(&self, name: &str) {
        let n = self.last_word - self.first_word.unwrap_or(0) + 1;
        println!(
            "{name}: {} frames, {} words in {n} cycles, {} line reads, descriptor to wire {:?}",
            self.frames,
            self.words,
            self.misses,
            self.latency.first()
        );
        assert!(
            self.cmds.is_empty()
                && self.want.is_empty()
                && self.acks.is_empty()
                && self.ack_sent.is_empty(),
            "{name}: {} commands, {} frames left",
            self.cmds.len(),
            self.want.len()
        );
        assert!(
            self.dones.is_empty()
                && self.fences == 0
                && self.reads.is_empty()
                && self.fills.is_empty()
        );
        assert!(self.idle_end, "{name}: idle at the end");
        assert_eq!(self.ev[0], self.frames as u64);
        assert_eq!(self.ev[4], self.bytes);
        assert_eq!(self.ev[1..4], self.kinds);
    }
}

fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

macro_rules! run {
    ($name:literal, $top:ty, $cycles:expr, $world:expr) => {{
        let w = RefCell::new($world);
        let seed = w.borrow().seed;
        Diff::new(
            $name,
            <$top>::default,
            inputs!(
                rst, cmd_valid, cmd_data, ack_valid, ack_data, av_rdata, mrm_rdata, limit_log,
                rd_ready, cpl_valid, cpl_data, cpl_meta, xrd_ready, fill_valid, fill_data, flush,
                tx_ready, done_ready
            ),
        )
        .cycles($cycles)
        .seed(seed)
        .stim(|s| w.borrow_mut().step(s))
        .run();
        let w = w.into_inner();
        w.finish($name);
        w
    }};
}

type Path512 = TxPath<512, 64, 256, 11, 6, 64, 6, 64>;
type Path64 = TxPath<64, 8, 32, 12, 4, 16, 3, 8>;

/// Everything fast, no faults, every command at once.
const FAST: Plan = Plan {
    p_cmd: 1.0,
    p_ack: 0.0,
    p_ready: 1.0,
    p_cpl: 1.0,
    lat: (150, 100),
    faults: false,
    fences: false,
    flush: false,
    in_order: true,
    ..PLAN
};

#[test]
fn path_512() {
    run!("txpath_512", Path512, 700, World::golden(64, 6, 5));
    run!(
        "txpath_512",
        Path512,
        5000,
        World::new(
            Plan {
                packets: 60,
                ..PLAN
            },
            64,
            6,
            11
        )
    );
    let slow = Plan {
        p_ready: 0.3,
        p_cmd: 1.0,
        p_cpl: 0.4,
        p_ack: 0.1,
        limit: 7,
        packets: 24,
        ..PLAN
    };
    run!("txpath_512", Path512, 6000, World::new(slow, 64, 6, 12));
    let w = run!(
        "txpath_512",
        Path512,
        3000,
        World::new(
            Plan {
                len: Some(4096),
                packets: 24,
                ..FAST
            },
            64,
            6,
            13
        )
    );
    let n = w.last_word - w.first_word.unwrap() + 1;
    assert!(w.words as f64 > 0.9 * n as f64, "words a cycle");
    let w = run!(
        "txpath_512",
        Path512,
        1200,
        World::new(
            Plan {
                len: Some(64),
                packets: 90,
                ..FAST
            },
            64,
            6,
            14
        )
    );
    let n = w.last_word - w.first_word.unwrap() + 1;
    assert!(n <= 8 * 90, "small frames: {n} cycles for 90");
    assert!(w.latency[0] <= 20, "latency {:?}", w.latency);
}

#[test]
fn path_64() {
    run!("txpath_64", Path64, 900, World::golden(8, 4, 6));
    run!(
        "txpath_64",
        Path64,
        12000,
        World::new(
            Plan {
                packets: 35,
                lat: (2, 30),
                ..PLAN
            },
            8,
            4,
            21
        )
    );
    let w = run!(
        "txpath_64",
        Path64,
        4400,
        World::new(
            Plan {
                len: Some(4096),
                packets: 6,
                lat: (20, 20),
                ..FAST
            },
            8,
            4,
            22
        )
    );
    let n = w.last_word - w.first_word.unwrap() + 1;
    assert!(w.words as f64 > 0.97 * n as f64, "words a cycle");
}
