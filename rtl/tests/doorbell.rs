//! Doorbells: every kind of write, accepted and refused, in order; and rust-hdl = Verilator.
use metaroce_hdl_spec::{regs, wqe};
use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::doorbell::Doorbell;
use metaroce_rtl::inputs;
use metaroce_rtl::layouts::{Cq, QpCfg};
use metaroce_rtl::prims::packed::bits_from_bytes;
use rust_hdl::prelude::*;
use std::collections::VecDeque;

macro_rules! edge {
    ($u:ident) => {
        $u.clock.next = Clock { clk: true };
        assert!(simulate(&mut $u, 200));
        $u.clock.next = Clock { clk: false };
        assert!(simulate(&mut $u, 200));
    };
}

#[derive(Debug, PartialEq)]
enum Msg {
    /// With the unit that comes along.
    Sq(u64, u64, Option<Vec<u8>>),
    Rq(u64, u64),
    Cq(u64, u64, u64),
    Cmd(u64, u64),
    Adm(u64, u64),
    Refused,
}

/// The test's QPs: index, tag, owner, state. CQ `i` is valid when odd and owned by `1 + i / 2 % 2`.
fn qp(i: u64) -> (u64, u64, u64) {
    (0x1234 ^ (i * 0x0707), 1 + i % 2, i % 7)
}
/// Some are SRQs, some QPs with an SRQ.
fn is_srq(i: u64) -> bool {
    i % 5 == 3
}
fn has_srq(i: u64) -> bool {
    i % 5 == 4
}
fn cfg(i: u64) -> QpCfg {
    let (tag, pasid, state) = qp(i);
    QpCfg {
        qp_type: if is_srq(i) { 3u64 } else { i % 3 }.into(),
        srq: has_srq(i),
        tag: tag.into(),
        pasid: pasid.into(),
        state: state.into(),
        ..Default::default()
    }
}
fn cq(i: u64) -> Cq {
    Cq {
        valid: i % 2 == 1,
        pasid: (1 + i / 2 % 2).into(),
        ..Default::default()
    }
}

/// What must come out of a write.
fn expect(page: u64, off: u32, len: u64, d: &[u8]) -> Option<Msg> {
    use regs::doorbell as db;
    let word = |i: usize| u64::from_le_bytes(d[i..i + 8].try_into().unwrap());
    if len == 8 && off == db::CMD {
        return Some(Msg::Cmd(page, word(0)));
    }
    if page == 0 {
        return Some(Msg::Adm(off as u64, word(0) & 0xFFFF_FFFF));
    }
    let queue = |qpn: u64, pi: u64, without: fn(u64) -> bool| {
        let (tag, pasid, state) = qp(qpn & 31);
        (qpn >> 5 == tag && pasid == page && state != 0 && !without(qpn & 31))
            .then_some((qpn & 31, pi & 0xFFFF))
    };
    let (lo, hi) = (word(0) & 0xFF_FFFF, word(0) >> 32);
    Some(match (off, len) {
        (db::SQ, 8) => queue(lo, hi, is_srq).map_or(Msg::Refused, |(q, i)| Msg::Sq(q, i, None)),
        (db::RQ, 8) => queue(lo, hi, has_srq).map_or(Msg::Refused, |(q, i)| Msg::Rq(q, i)),
        (db::CQ, 8) => {
            if lo < 16 && lo % 2 == 1 && 1 + lo / 2 % 2 == page {
                Msg::Cq(lo, hi & 0xFF_FFFF, (word(0) >> 24) & 3)
            } else {
                Msg::Refused
            }
        }
        (db::EQ, 8) => return None,
        (db::DIRECT_WQE, 64) => {
            let pi = wqe::sq::index.get(d) + wqe::sq::units.get(d);
            let unit = (wqe::sq::units.get(d) == 1).then(|| d.to_vec());
            queue(wqe::sq::qpn.get(d), pi, is_srq)
                .map_or(Msg::Refused, |(q, i)| Msg::Sq(q, i, unit))
        }
        _ => Msg::Refused,
    })
}

#[test]
fn writes_become_messages() {
    let mut rng = Rng(11);
    let mut u = Doorbell::<5, 4>::default();
    u.connect_all();
    let mut want: VecDeque<Msg> = VecDeque::new();
    let mut pending: Option<(u64, u32, u64, Vec<u8>)> = None;
    let (mut seen, mut bad) = ([0u32; 6], 0);
    let (mut a, mut b) = (0u64, 0u64);
    let (mut refused, mut direct) = (0u32, 0u32);
    for t in 0..6000 {
        if pending.is_none() && t < 5800 && rng.p(0.5) {
            let page = rng.below(3);
            let len = [4, 8, 8, 8, 8, 64][rng.below(6) as usize];
            let off = match (page, len) {
                (_, 64) => [0x100, 0x100, 0x100, 0x40][rng.below(4) as usize],
                (0, _) => (rng.below(64) * 4) as u32,
                _ => [0, 8, 0x10, 0x18, 0x20, 0, 8, 0x10, 0x28][rng.below(9) as usize],
            };
            let mut d: Vec<u8> = (0..64).map(|_| rng.next() as u8).collect();
            let i = rng.below(32);
            let mut qpn = qp(i).0 << 5 | i;
            if rng.p(0.2) {
                qpn ^= 1 << rng.below(24);
            }
            if off == 0x10 {
                d[..3].copy_from_slice(&(rng.below(20) as u32).to_le_bytes()[..3]);
            } else if len == 64 {
                wqe::sq::qpn.put(&mut d, qpn);
                if rng.p(0.6) {
                    wqe::sq::units.put(&mut d, 1);
                }
            } else if off != 0x20 {
                d[..3].copy_from_slice(&qpn.to_le_bytes()[..3]);
            }
            want.extend(expect(page, off, len, &d));
            pending = Some((page, off, len, d));
        }
        u.mmio_wr_valid.next = pending.is_some();
        if let Some((page, off, len, d)) = &pending {
            u.mmio_wr_addr.next = (page << 12 | *off as u64).into();
            u.mmio_wr_len.next = (*len).into();
            u.mmio_wr_data.next = bits_from_bytes::<512>(d);
        }
        u.sqdb_ready.next = rng.p(0.5);
        u.rqdb_ready.next = rng.p(0.5);
        u.cqdb_ready.next = rng.p(0.5);
        u.cmddb_ready.next = rng.p(0.5);
        u.cfg_rdata.next = cfg(a);
        u.cqt_rdata.next = cq(b);
        assert!(simulate(&mut u, 200));
        let mut got = vec![];
        if u.ev_refused.val() {
            got.push(Msg::Refused);
            refused += 1;
        }
        if u.sqdb_valid.val() && u.sqdb_ready.next {
            let d = u.sqdb_data.val();
            let unit: num_bigint::BigUint = u.sqdb_unit.val().into();
            let mut unit = unit.to_bytes_le();
            unit.resize(64, 0);
            let unit = u.sqdb_direct.val().then_some(unit);
            direct += unit.is_some() as u32;
            got.push(Msg::Sq(d.qp.to_u64(), d.idx.to_u64(), unit));
            seen[0] += 1;
        }
        if u.rqdb_valid.val() && u.rqdb_ready.next {
            let d = u.rqdb_data.val();
            got.push(Msg::Rq(d.qp.to_u64(), d.idx.to_u64()));
            seen[1] += 1;
        }
        if u.cqdb_valid.val() && u.cqdb_ready.next {
            let d = u.cqdb_data.val();
            got.push(Msg::Cq(d.cq.to_u64(), d.ci.to_u64(), d.arm.to_u64()));
            seen[2] += 1;
        }
        if u.cmddb_valid.val() && u.cmddb_ready.next {
            let d = u.cmddb_data.val();
            got.push(Msg::Cmd(d.pasid.to_u64(), d.addr.to_u64()));
            seen[3] += 1;
        }
        if u.adm_valid.val() {
            got.push(Msg::Adm(
                u.adm_addr.val().to_u64(),
                u.adm_data.val().to_u64(),
            ));
            seen[4] += 1;
        }
        for g in got {
            assert_eq!(Some(g), want.pop_front(), "cycle {t}");
            bad += 1;
        }
        if u.mmio_wr_ready.val() && pending.is_some() {
            pending = None;
        }
        a = u.cfg_raddr.val().to_u64();
        b = u.cqt_raddr.val().to_u64();
        edge!(u);
    }
    assert!(want.is_empty() && u.idle.val());
    println!("{bad} messages: sq, rq, cq, cmd, adm {seen:?}, refused {refused}");
    assert!(seen[..5].iter().all(|n| *n > 20) && refused > 100 && direct > 20);
}

#[test]
fn diff_doorbell() {
    Diff::new(
        "doorbell_5_4",
        Doorbell::<5, 4>::default,
        inputs!(
            rst,
            mmio_wr_valid,
            mmio_wr_addr,
            mmio_wr_len,
            mmio_wr_data,
            cfg_rdata,
            cqt_rdata,
            sqdb_ready,
            rqdb_ready,
            cqdb_ready,
            cmddb_ready
        ),
    )
    .cycles(3000)
    .pick("mmio_wr_len", &[4, 8, 8, 64])
    .pick(
        "mmio_wr_addr",
        &[
            0, 0x20, 0x1000, 0x1008, 0x1010, 0x1020, 0x1100, 0x2000, 0x1028, 0x1018,
        ],
    )
    .stim(|s| {
        // make the tag check pass often: the same QPN everywhere
        let raw = s.rng.below(2) << 5 | 7;
        let mut d = s.get("mmio_wr_data") >> 24u32 << 24u32;
        d |= num_bigint::BigUint::from(raw);
        s.set("mmio_wr_data", d);
        let state = s.rng.below(3);
        let tag = s.rng.below(2);
        let (kind, srq) = (s.rng.below(4), s.rng.below(2));
        s.set(
            "cfg_rdata",
            num_bigint::BigUint::from(state | kind << 3 | srq << 7 | tag << 8 | 1 << 48),
        );
        let cq = s.rng.below(2) | 1 << 8;
        s.set("cqt_rdata", num_bigint::BigUint::from(cq));
    })
    .run();
    Diff::new(
        "doorbell_8_9",
        Doorbell::<8, 9>::default,
        inputs!(
            rst,
            mmio_wr_valid,
            mmio_wr_addr,
            mmio_wr_len,
            mmio_wr_data,
            cfg_rdata,
            cqt_rdata,
            sqdb_ready,
            rqdb_ready,
            cqdb_ready,
            cmddb_ready
        ),
    )
    .cycles(300)
    .run();
}
