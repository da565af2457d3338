//! QP states, attributes and the transition table (wire facts §10).
//!
//! [`TRANSITIONS`] is flat data: the card's attribute-mask ROM is made of the same rows.

/// QP state; discriminants are the verbs numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QpState {
    /// No resources; drops everything.
    Reset = 0,
    /// Receives may be posted; incoming packets are dropped.
    Init = 1,
    /// Responder live.
    Rtr = 2,
    /// Requester and responder live.
    Rts = 3,
    /// Send queue drained: what has begun ends, the rest waits.
    Sqd = 4,
    /// Send queue error (UC, UD): the SQ is flushed, the RQ lives.
    Sqe = 5,
    /// Both queues are flushed.
    Err = 6,
}

impl QpState {
    /// All states, by number.
    pub const ALL: [QpState; 7] = [
        QpState::Reset,
        QpState::Init,
        QpState::Rtr,
        QpState::Rts,
        QpState::Sqd,
        QpState::Sqe,
        QpState::Err,
    ];
    /// From the verbs number.
    pub const fn from_code(c: u8) -> Option<QpState> {
        if c < 7 {
            Some(Self::ALL[c as usize])
        } else {
            None
        }
    }
    /// The responder takes packets.
    pub const fn receives(self) -> bool {
        matches!(
            self,
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
        )
    }
}

/// QP type; discriminants are the verbs numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QpType {
    /// Reliable connection.
    Rc = 2,
    /// Unreliable connection.
    Uc = 3,
    /// Unreliable datagram.
    Ud = 4,
}

impl QpType {
    /// All types.
    pub const ALL: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];
}

/// Attribute mask bits, `ibv_qp_attr_mask` (32-bit, bits 0..=20).
pub mod attr {
    /// Next state.
    pub const STATE: u32 = 1 << 0;
    /// Assumed current state.
    pub const CUR_STATE: u32 = 1 << 1;
    /// Notify when drained.
    pub const EN_SQD_ASYNC_NOTIFY: u32 = 1 << 2;
    /// Remote access rights.
    pub const ACCESS_FLAGS: u32 = 1 << 3;
    /// P_Key index.
    pub const PKEY_INDEX: u32 = 1 << 4;
    /// Port number.
    pub const PORT: u32 = 1 << 5;
    /// Q_Key.
    pub const QKEY: u32 = 1 << 6;
    /// Address vector.
    pub const AV: u32 = 1 << 7;
    /// Path MTU.
    pub const PATH_MTU: u32 = 1 << 8;
    /// Local ACK timeout.
    pub const TIMEOUT: u32 = 1 << 9;
    /// Retry count.
    pub const RETRY_CNT: u32 = 1 << 10;
    /// RNR retry count.
    pub const RNR_RETRY: u32 = 1 << 11;
    /// Expected receive PSN.
    pub const RQ_PSN: u32 = 1 << 12;
    /// Outstanding READ and atomic requests as initiator.
    pub const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    /// Alternate path.
    pub const ALT_PATH: u32 = 1 << 14;
    /// RNR NAK timer to send.
    pub const MIN_RNR_TIMER: u32 = 1 << 15;
    /// First send PSN.
    pub const SQ_PSN: u32 = 1 << 16;
    /// Outstanding READ and atomic requests as responder.
    pub const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    /// Path migration state.
    pub const PATH_MIG_STATE: u32 = 1 << 18;
    /// Capabilities (queue resize).
    pub const CAP: u32 = 1 << 19;
    /// Remote QPN.
    pub const DEST_QPN: u32 = 1 << 20;
    /// Names by bit number.
    pub const NAMES: [&str; 21] = [
        "STATE",
        "CUR_STATE",
        "EN_SQD_ASYNC_NOTIFY",
        "ACCESS_FLAGS",
        "PKEY_INDEX",
        "PORT",
        "QKEY",
        "AV",
        "PATH_MTU",
        "TIMEOUT",
        "RETRY_CNT",
        "RNR_RETRY",
        "RQ_PSN",
        "MAX_QP_RD_ATOMIC",
        "ALT_PATH",
        "MIN_RNR_TIMER",
        "SQ_PSN",
        "MAX_DEST_RD_ATOMIC",
        "PATH_MIG_STATE",
        "CAP",
        "DEST_QPN",
    ];
}

/// One legal transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// State before.
    pub from: QpState,
    /// State after.
    pub to: QpState,
    /// QP type.
    pub qp_type: QpType,
    /// Attributes that must be given, besides `STATE`.
    pub required: u32,
    /// Attributes that may be given.
    pub optional: u32,
}

/// Rows of [`TRANSITIONS`].
pub const TRANSITION_COUNT: usize = 65;

/// Every legal transition; a (from, to, type) that is not here is refused.
pub const TRANSITIONS: [Transition; TRANSITION_COUNT] = build();

const fn masks(from: QpState, to: QpState, t: QpType) -> Option<(u32, u32)> {
    use attr::*;
    use QpState::*;
    let (rc, ud) = (matches!(t, QpType::Rc), matches!(t, QpType::Ud));
    let access_or_qkey = if ud { QKEY } else { ACCESS_FLAGS };
    let init = PKEY_INDEX | PORT | access_or_qkey;
    let run = if ud {
        CUR_STATE | QKEY
    } else if rc {
        CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE | MIN_RNR_TIMER
    } else {
        CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE
    };
    Some(match (from, to) {
        (_, Reset) => (0, 0),
        (Init | Rtr | Rts | Sqd | Sqe | Err, Err) => (0, 0),
        (Reset, Init) => (init, 0),
        (Init, Init) => (0, init),
        (Init, Rtr) if ud => (0, PKEY_INDEX | QKEY),
        (Init, Rtr) => {
            let base = AV | PATH_MTU | DEST_QPN | RQ_PSN;
            let more = if rc {
                MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER
            } else {
                0
            };
            (base | more, ALT_PATH | ACCESS_FLAGS | PKEY_INDEX)
        }
        (Rtr, Rts) => {
            let more = if rc {
                TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC
            } else {
                0
            };
            (SQ_PSN | more, run)
        }
        (Rts, Rts) => (0, run),
        (Rts, Sqd) => (0, EN_SQD_ASYNC_NOTIFY),
        (Sqd, Rts) => (0, run),
        (Sqd, Sqd) if ud => (0, PKEY_INDEX | QKEY),
        (Sqd, Sqd) => {
            let base = AV | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | PATH_MIG_STATE;
            let more = if rc {
                PORT | TIMEOUT
                    | RETRY_CNT
                    | RNR_RETRY
                    | MAX_QP_RD_ATOMIC
                    | MAX_DEST_RD_ATOMIC
                    | MIN_RNR_TIMER
            } else {
                0
            };
            (0, base | more)
        }
        (Sqe, Rts) if !rc => (0, CUR_STATE | access_or_qkey),
        _ => return None,
    })
}

const fn build() -> [Transition; TRANSITION_COUNT] {
    let mut out = [Transition {
        from: QpState::Reset,
        to: QpState::Reset,
        qp_type: QpType::Rc,
        required: 0,
        optional: 0,
    }; TRANSITION_COUNT];
    let mut n = 0;
    let mut i = 0;
    while i < 7 * 7 * 3 {
        let from = QpState::ALL[i / 21];
        let to = QpState::ALL[i / 3 % 7];
        let qp_type = QpType::ALL[i % 3];
        if let Some((required, optional)) = masks(from, to, qp_type) {
            out[n] = Transition {
                from,
                to,
                qp_type,
                required,
                optional,
            };
            n += 1;
        }
        i += 1;
    }
    assert!(n == TRANSITION_COUNT);
    out
}

/// Why a modify was refused. A refused modify changes nothing; all map to `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyError {
    /// No such transition for this QP type.
    IllegalTransition,
    /// Required attributes that are missing.
    Missing(u32),
    /// Attributes given that the transition does not take.
    NotAllowed(u32),
    /// `CUR_STATE` given while the QP is not in RTR, RTS, SQD or SQE.
    CurStateNotAllowed,
}

/// Row for a transition.
pub fn transition(from: QpState, to: QpState, qp_type: QpType) -> Option<&'static Transition> {
    static ROWS: [Transition; TRANSITION_COUNT] = TRANSITIONS;
    ROWS.iter()
        .find(|t| t.from == from && t.to == to && t.qp_type == qp_type)
}

/// May a QP of type `qp_type` in state `cur` go to `next` with the attributes of `mask`?
///
/// `STATE` in `mask` is always allowed; without it the caller passes `next == cur`. Whether a
/// given `cur_qp_state` equals the real state is the caller's comparison.
///
/// # Errors
/// In this order: `CurStateNotAllowed`, `IllegalTransition`, `Missing`, `NotAllowed`.
pub fn check_modify(
    cur: QpState,
    next: QpState,
    qp_type: QpType,
    mask: u32,
) -> Result<(), ModifyError> {
    let cur_state_ok = matches!(
        cur,
        QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
    );
    if mask & attr::CUR_STATE != 0 && !cur_state_ok {
        return Err(ModifyError::CurStateNotAllowed);
    }
    let t = transition(cur, next, qp_type).ok_or(ModifyError::IllegalTransition)?;
    let missing = t.required & !mask;
    if missing != 0 {
        return Err(ModifyError::Missing(missing));
    }
    let extra = mask & !(t.required | t.optional | attr::STATE);
    if extra != 0 {
        return Err(ModifyError::NotAllowed(extra));
    }
    Ok(())
}
