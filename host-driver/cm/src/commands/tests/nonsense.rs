//! Commands at random.
use super::*;

/// Commands that no library makes: short ones, long ones, nonsense; and sensible ones in any order. Nothing but errors, and
/// the two ends of a connection always know each other.
#[test]
fn nonsense_is_an_errno() {
    let mut b = Bench::new();
    let channels = [b.core.open(), b.core.open(), b.core.open()];
    let mut x = 7u64;
    let mut random = move |n: u64| {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % n
    };
    let mut worked = [0u32; 23];
    for round in 0..60_000 {
        let ch = channels[random(3) as usize];
        let mut kind = random(24) as u32;
        if kind == op::DESTROY_ID && random(8) != 0 {
            kind = op::CONNECT;
        }
        let n = match random(8) {
            0 => random(300) as usize,
            _ => least(kind) + (random(2) * 8) as usize,
        };
        let mut m = kind.to_ne_bytes().to_vec();
        m.extend((n as u16).to_ne_bytes());
        m.extend((random(400) as u16).to_ne_bytes());
        let mut body: Vec<u8> = (0..n)
            .map(|_| if random(3) == 0 { random(256) as u8 } else { 0 })
            .collect();
        // Half of the time something that could be meant so.
        let fit = match kind {
            op::RESOLVE_ROUTE => Some(State::AddrResolved),
            op::LISTEN => Some(State::Bound),
            op::CONNECT => Some(State::RouteResolved),
            op::ACCEPT | op::REJECT if random(2) == 0 => Some(State::ReqReceived),
            op::ACCEPT => Some(State::RepReceived),
            op::DISCONNECT => Some(State::Established),
            _ => None,
        };
        let mut ids: Vec<u32> = b.core.ids.keys().copied().collect();
        ids.sort_unstable();
        if random(4) != 0 {
            let ids_that_fit = ids
                .iter()
                .copied()
                .filter(|k| Some(b.core.ids[k].state) == fit);
            let ids_that_fit: Vec<u32> = ids_that_fit.collect();
            if !ids_that_fit.is_empty() {
                ids = ids_that_fit;
            }
        }
        let id = if ids.is_empty() {
            0
        } else {
            ids[random(ids.len() as u64) as usize]
        };
        let at = match kind {
            op::BIND_IP => 36,
            op::RESOLVE_IP => 56,
            op::CONNECT => 272,
            op::ACCEPT => 280,
            op::DESTROY_ID
            | op::QUERY_ROUTE
            | op::QUERY
            | op::INIT_QP_ATTR
            | op::SET_OPTION
            | op::MIGRATE_ID => 8,
            _ => 0,
        };
        if kind == op::CREATE_ID && n >= 24 {
            put(&mut body, 0, &1u64.to_ne_bytes());
            put(
                &mut body,
                16,
                &[ps::TCP, ps::UDP][random(2) as usize].to_ne_bytes(),
            );
        } else if n >= at + 4 && random(8) != 0 {
            put(&mut body, at, &id.to_ne_bytes());
            let a: SocketAddr = format!("10.0.0.{}:{}", 1 + random(2), 7 + random(2))
                .parse()
                .unwrap();
            match kind {
                op::BIND_IP => drop(addr::emit(&a, &mut body[8..])),
                op::RESOLVE_IP => drop((body[..28].fill(0), addr::emit(&a, &mut body[28..]))),
                op::CONNECT => put(&mut body, 0, &Bench::param(5, b"x")),
                op::INIT_QP_ATTR if n >= 16 => {
                    put(&mut body, 12, &(random(4) as u32).to_ne_bytes())
                }
                op::ACCEPT if n > 288 && random(2) == 0 => {
                    put(&mut body, 8, &Bench::param(6, b"y"))
                }
                _ => {}
            }
        }
        m.extend(&body);
        if random(20) == 0 {
            m.truncate(random(m.len() as u64 + 1) as usize);
        }
        let ch = b
            .core
            .ids
            .get(&id)
            .filter(|_| random(8) != 0)
            .map_or(ch, |i| i.channel);
        let r = b.core.command(ch, &m, channels[random(3) as usize], b.now);
        if let (Ok(_), true) = (r, kind < 23) {
            worked[kind as usize] += 1;
        }
        if round % 64 == 0 {
            b.now += Duration::from_secs(random(20));
            b.core.tick(b.now);
        }
        for (k, i) in &b.core.ids {
            let Some(p) = i.peer else { continue };
            assert_eq!(
                b.core.ids.get(&p).map(|p| p.peer),
                Some(Some(*k)),
                "{k} {:?}",
                i.state
            );
        }
        if b.core.ids.len() > 60 {
            let all: Vec<(u32, u32)> = b.core.ids.iter().map(|(k, i)| (*k, i.channel)).collect();
            for (k, ch) in all.into_iter().take(30) {
                // Gone already with its listener, perhaps.
                let _ = b.destroy(ch, k);
            }
        }
    }
    for kind in (0..=12).chain([15, 18, 19, 20, 21]) {
        if ![op::BIND, op::RESOLVE_ADDR].contains(&kind) {
            assert!(
                worked[kind as usize] > 0,
                "no command {kind} ever worked: {worked:?}"
            );
        }
    }
}
