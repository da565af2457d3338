//! The small tables, PSN arithmetic, and the QP transition table.

use metaroce_protocol::qp::{attr, check_modify, transition, ModifyError, QpState, QpType};
use metaroce_protocol::qp::{TRANSITIONS, TRANSITION_COUNT};
use metaroce_protocol::timing::*;
use metaroce_protocol::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn psn_arithmetic(a in 0u32..1 << 24, n in 0u32..1 << 24) {
        let p = Psn::new(a);
        let q = p.add(n);
        prop_assert_eq!(q.since(p), n);
        prop_assert_eq!(q.sub(n), p);
        let d = q.diff(p);
        prop_assert_eq!(d.rem_euclid(1 << 24) as u32, n);
        prop_assert!((-(1 << 23)..1 << 23).contains(&d));
        prop_assert_eq!(q.after(p), n != 0 && n < 1 << 23);
        prop_assert_eq!(q.before(p), n >= 1 << 23);
    }

    #[test]
    fn packets_cover_the_message(code in 1u8..6, len in 0u64..=1 << 31) {
        let m = Mtu::from_code(code).unwrap();
        let n = u64::from(m.packets(len));
        let b = u64::from(m.bytes());
        prop_assert!(n >= 1 && n * b >= len && (n - 1) * b < len.max(1));
    }

    #[test]
    fn source_port_is_in_range_and_stable(f in 0u32..1 << 20, a in 0u32..1 << 24, b in 0u32..1 << 24) {
        let p = udp_source_port(f, a, b);
        prop_assert!(p >= 0xc000);
        prop_assert_eq!(p, udp_source_port(f, b, a));
    }

    #[test]
    fn syndrome_is_total(b in any::<u8>()) {
        prop_assert_eq!(Syndrome::from_byte(b).to_byte(), b);
    }
}

#[test]
fn source_port_by_hand() {
    // 0x11 * 0x12 = 0x132, small enough that both folds and the upper bits do nothing.
    assert_eq!(udp_source_port(0, 0x11, 0x12), 0xc132);
    // Flow label 0xFFFFF: 0x3fff ^ 0x3f.
    assert_eq!(udp_source_port(0xf_ffff, 1, 1), 0xc000 | 0x3fc0);
    // 0xFFFFFF^2 = 0xFFFFFE000001: v ^= v>>20 -> 0xFFFFFE0FFFFE ^ ... folded below by hand.
    let v: u64 = 0xff_ffff * 0xff_ffff;
    let v = v ^ (v >> 20);
    let v = v ^ (v >> 40);
    let fl = (v & 0xf_ffff) as u32;
    assert_eq!(
        udp_source_port(0, 0xff_ffff, 0xff_ffff),
        udp_source_port(fl, 7, 9)
    );
}

#[test]
fn timers_and_credits() {
    assert_eq!(rnr_timer_ns(0), 655_360_000);
    assert_eq!(rnr_timer_ns(1), 10_000);
    assert_eq!(rnr_timer_ns(12), 640_000);
    assert_eq!(rnr_timer_ns(25), 61_440_000);
    assert_eq!(rnr_timer_ns(31), 491_520_000);
    assert!(RNR_TIMER_US[1..].windows(2).all(|w| w[0] < w[1]));
    assert_eq!(ack_timeout_ns(0), None);
    assert_eq!(ack_timeout_ns(14), Some(67_108_864));
    assert_eq!(ack_timeout_ns(31), Some(4096 << 31));
    assert!(CREDITS.windows(2).all(|w| w[0] < w[1]));
    assert_eq!(credits(31), None);
    for c in 0..31 {
        let n = credits(c).unwrap();
        assert_eq!(credit_code(u32::from(n)), c);
    }
    assert_eq!(credit_code(5), 4);
    assert_eq!(credit_code(u32::MAX), 30);
}

#[test]
fn mtu_choice() {
    for (eth, want) in [
        (1500, Some(Mtu::M1024)),
        (9000, Some(Mtu::M4096)),
        (4176, Some(Mtu::M4096)),
        (4175, Some(Mtu::M2048)),
        (336, Some(Mtu::M256)),
        (335, None),
        (0, None),
    ] {
        assert_eq!(Mtu::for_ethernet(eth), want, "{eth}");
    }
    assert_eq!(Mtu::M4096.bytes(), 4096);
    assert_eq!(Mtu::M256.packets(1 << 31), 1 << 23);
    assert!(Mtu::ALL
        .iter()
        .all(|m| Mtu::from_code(m.code()) == Some(*m)));
}

#[test]
fn transition_rows_are_unique_and_masks_disjoint() {
    for (i, a) in TRANSITIONS.iter().enumerate() {
        assert_eq!(a.required & a.optional, 0);
        assert_eq!((a.required | a.optional) & attr::STATE, 0);
        for b in &TRANSITIONS[i + 1..] {
            assert!((a.from, a.to, a.qp_type) != (b.from, b.to, b.qp_type));
        }
    }
    // Every type can reach RESET from everywhere, ERR from all but RESET.
    for t in QpType::ALL {
        for s in QpState::ALL {
            assert!(check_modify(s, QpState::Reset, t, attr::STATE).is_ok());
            assert_eq!(
                check_modify(s, QpState::Err, t, attr::STATE).is_ok(),
                s != QpState::Reset
            );
        }
    }
    assert_eq!(TRANSITIONS.len(), TRANSITION_COUNT);
}

/// Reads the table of the wire facts back, literally, for RC.
#[test]
fn rc_rows_as_documented() {
    use attr::*;
    use QpState::{Init, Reset, Rtr, Rts, Sqd, Sqe};
    let row = |f, t| {
        let r = transition(f, t, QpType::Rc).unwrap();
        (r.required, r.optional)
    };
    let run = CUR_STATE | ALT_PATH | ACCESS_FLAGS | MIN_RNR_TIMER | PATH_MIG_STATE;
    assert_eq!(row(Reset, Init), (PKEY_INDEX | PORT | ACCESS_FLAGS, 0));
    assert_eq!(row(Init, Init), (0, PKEY_INDEX | PORT | ACCESS_FLAGS));
    assert_eq!(
        row(Init, Rtr),
        (
            AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
            ALT_PATH | ACCESS_FLAGS | PKEY_INDEX
        )
    );
    assert_eq!(
        row(Rtr, Rts),
        (
            SQ_PSN | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC,
            run
        )
    );
    assert_eq!(row(Rts, Rts), (0, run));
    assert_eq!(row(Rts, Sqd), (0, EN_SQD_ASYNC_NOTIFY));
    assert_eq!(row(Sqd, Rts), (0, run));
    assert!(transition(Sqe, Rts, QpType::Rc).is_none());
    assert!(transition(Sqe, Rts, QpType::Ud).is_some());
    assert!(transition(Rtr, Rtr, QpType::Rc).is_none());
}

/// The usual application calls, and each refusal.
#[test]
fn modify_checks() {
    use attr::*;
    use QpState::{Init, Reset, Rtr, Rts};
    let rc = QpType::Rc;
    let init = STATE | PKEY_INDEX | PORT | ACCESS_FLAGS;
    assert_eq!(check_modify(Reset, Init, rc, init), Ok(()));
    assert_eq!(
        check_modify(Reset, Init, rc, init & !PORT),
        Err(ModifyError::Missing(PORT))
    );
    assert_eq!(
        check_modify(Reset, Init, rc, init | QKEY),
        Err(ModifyError::NotAllowed(QKEY))
    );
    assert_eq!(
        check_modify(Reset, Rts, rc, STATE),
        Err(ModifyError::IllegalTransition)
    );
    assert_eq!(
        check_modify(Init, Rtr, rc, STATE | CUR_STATE),
        Err(ModifyError::CurStateNotAllowed)
    );
    assert_eq!(
        check_modify(Reset, Init, QpType::Ud, STATE | PKEY_INDEX | PORT | QKEY),
        Ok(())
    );
    assert_eq!(check_modify(Init, Rtr, QpType::Ud, STATE), Ok(()));
    assert_eq!(check_modify(Rtr, Rts, QpType::Ud, STATE | SQ_PSN), Ok(()));
    assert_eq!(
        check_modify(Rts, Rts, rc, CUR_STATE | MIN_RNR_TIMER),
        Ok(())
    );
    assert_eq!(
        check_modify(Rts, Rts, rc, 1 << 25),
        Err(ModifyError::NotAllowed(1 << 25))
    );
    // Exhaustive: a mask passes exactly when required is a subset and nothing foreign is set.
    for t in &TRANSITIONS {
        for (bit, name) in NAMES.iter().enumerate() {
            let m = t.required ^ (1 << bit);
            let ok = check_modify(t.from, t.to, t.qp_type, m).is_ok();
            let want =
                m & t.required == t.required && (1 << bit) & (t.required | t.optional | STATE) != 0;
            assert_eq!(ok, want, "{t:?} bit {name}");
        }
    }
}
