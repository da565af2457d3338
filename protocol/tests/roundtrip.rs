//! Property: any representation that emits decodes to itself, and no bytes panic.

use metaroce_protocol::eth::{EthRepr, Vlan};
use metaroce_protocol::ext::*;
use metaroce_protocol::ip::{IpRepr, Ipv4Repr, Ipv6Repr};
use metaroce_protocol::opcode::{ExtSet, PayloadRule};
use metaroce_protocol::udp::UdpRepr;
use metaroce_protocol::*;
use proptest::prelude::*;

fn u24() -> impl Strategy<Value = u32> {
    0u32..1 << 24
}

fn ip() -> impl Strategy<Value = IpRepr> {
    prop_oneof![
        any::<(u8, u16, bool, u8, [u8; 4], [u8; 4])>().prop_map(|(tos, id, df, ttl, src, dst)| {
            IpRepr::V4(Ipv4Repr {
                tos,
                id,
                df,
                ttl,
                src,
                dst,
            })
        }),
        any::<(u8, u32, u8, [u8; 16], [u8; 16])>().prop_map(
            |(traffic_class, fl, hop_limit, src, dst)| IpRepr::V6(Ipv6Repr {
                traffic_class,
                flow_label: fl & 0xf_ffff,
                hop_limit,
                src,
                dst,
            })
        ),
    ]
}

fn eth() -> impl Strategy<Value = EthRepr> {
    let vlan = proptest::option::of((prop_oneof![Just(0x8100u16), Just(0x88a8)], any::<u16>()));
    (any::<[u8; 6]>(), any::<[u8; 6]>(), vlan).prop_map(|(dst, src, v)| EthRepr {
        dst,
        src,
        vlan: v.map(|(tpid, tci)| Vlan { tpid, tci }),
    })
}

fn ext(set: ExtSet) -> impl Strategy<Value = Ext> {
    let words = any::<(u64, u64, u64, u32, u32, u8, [u8; 4])>();
    (words, u24()).prop_map(move |((a, b, c, d, e, f, imm), g)| {
        let has = |s| set.has(s);
        Ext {
            deth: has(ExtSet::DETH).then_some(Deth {
                qkey: d,
                src_qpn: g,
                resv: f,
            }),
            feth: has(ExtSet::FETH).then_some(Feth(e)),
            reth: has(ExtSet::RETH).then_some(Reth {
                va: a,
                rkey: d,
                dma_len: e,
            }),
            atomic: has(ExtSet::ATOMIC).then_some(AtomicEth {
                va: a,
                rkey: d,
                swap_add: b,
                compare: c,
            }),
            aeth: has(ExtSet::AETH).then_some(Aeth {
                syndrome: Syndrome::from_byte(f),
                msn: Msn::new(g),
            }),
            atomic_ack: has(ExtSet::ATOMIC_ACK).then_some(b),
            imm: has(ExtSet::IMM).then_some(imm),
            ieth: has(ExtSet::IETH).then_some(e),
        }
    })
}

fn packet() -> impl Strategy<Value = (PacketRepr, Vec<u8>)> {
    (0..Opcode::ALL.len()).prop_flat_map(|i| {
        let opcode = Opcode::ALL[i];
        let info = opcode.info().unwrap();
        let len = match info.payload {
            PayloadRule::None => 0..1,
            PayloadRule::Exact(n) => usize::from(n)..usize::from(n) + 1,
            _ => 0..300,
        };
        let bits = any::<([bool; 5], u16, u8, u8)>();
        let payload = proptest::collection::vec(any::<u8>(), len);
        (bits, u24(), u24(), ext(info.ext), payload).prop_map(
            move |((b, pkey, r6, r7), qpn, psn, ext, payload)| {
                let p = PacketRepr {
                    opcode,
                    se: b[0],
                    mig_req: b[1],
                    pkey,
                    fecn: b[2],
                    becn: b[3],
                    resv6: r6 & 0x3f,
                    dest_qpn: qpn,
                    ack_req: b[4],
                    resv7: r7 & 0x7f,
                    psn: Psn::new(psn),
                    ext,
                };
                (p, payload)
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn repr_round_trips(eth in eth(), ip in ip(), src_port: u16, checksum: u16, (packet, payload) in packet()) {
        let r = FrameRepr { eth, ip, udp: UdpRepr { src_port, checksum }, packet };
        let mut buf = vec![0xee; 500];
        let n = r.emit(&payload, &mut buf).unwrap();
        prop_assert_eq!(n, r.len_with(payload.len()).unwrap());
        let f = Frame::new_checked(&buf[..n]).unwrap();
        prop_assert_eq!(FrameRepr::parse(&f), r);
        prop_assert_eq!(f.payload(), &payload[..]);
        prop_assert!(buf[n..].iter().all(|b| *b == 0xee));
    }

    #[test]
    fn any_bytes(b in proptest::collection::vec(any::<u8>(), 0..200), opcode: u8) {
        let _ = Frame::new_checked(&b);
        let _ = roce::RocePacket::new_checked(&b);
        let _ = icrc::compute(&b);
        let r = PacketRepr::new(Opcode(opcode), 1, Psn::new(2));
        let mut out = [0; 64];
        let _ = r.emit(&b, &mut out);
    }
}
