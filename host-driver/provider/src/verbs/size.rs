//! How large a queue pair's rings are.
use super::wqe::{max_sges, units_for_sges};
use crate::abi::IbvQpCap;
use crate::card::Errno;

/// Work requests per queue that can be asked for: with WQEs of the largest size they fit the largest ring.
pub const MAX_WR: u32 = 4096;
const MIN_SQ_LOG: u32 = 4;
/// Inline data of a request. What does not fit a WQE (`wqe::MAX_INLINE`) is copied to memory that the card reads.
pub const MAX_INLINE: u32 = 288;

/// Sizes of a QP's queues, or EINVAL.
#[derive(Debug, PartialEq, Eq)]
pub struct Sizes {
    pub sq_log: u32,
    pub rq_log: u32,
    pub rq_stride: u32,
    pub max_inline: usize,
    pub cap: [u32; 4],
}

/// log2 of the units of a receive entry with so many SGEs.
pub fn recv_stride(sges: u32) -> u32 {
    sges.max(1).div_ceil(4).next_power_of_two().trailing_zeros()
}

pub fn sizes(cap: &IbvQpCap, ud: bool, card_sge: u32) -> Result<Sizes, Errno> {
    let max_sge = (card_sge as usize).min(max_sges(ud)) as u32;
    let max_recv_sge = card_sge.min(16);
    let max_inline = if ud { 0 } else { MAX_INLINE };
    if cap.max_send_wr > MAX_WR
        || cap.max_recv_wr > MAX_WR
        || cap.max_send_sge > max_sge
        || cap.max_recv_sge > max_recv_sge
        || cap.max_inline_data > max_inline
    {
        return Err(libc::EINVAL);
    }
    let units = units_for_sges(cap.max_send_sge as usize, ud);
    let sq_units = (cap.max_send_wr.max(1) as usize * units).next_power_of_two();
    let sq_log = sq_units.trailing_zeros().max(MIN_SQ_LOG);
    let rq_log = cap.max_recv_wr.max(1).next_power_of_two().trailing_zeros();
    let rq_stride = recv_stride(cap.max_recv_sge);
    let recv_wr = if cap.max_recv_wr == 0 { 0 } else { 1 << rq_log };
    Ok(Sizes {
        sq_log,
        rq_log,
        rq_stride,
        max_inline: cap.max_inline_data as usize,
        cap: [
            (1 << sq_log) / units as u32,
            recv_wr,
            cap.max_send_sge.max(1),
            cap.max_recv_sge,
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cap(send_wr: u32, recv_wr: u32, send_sge: u32, recv_sge: u32, inline: u32) -> IbvQpCap {
        IbvQpCap {
            max_send_wr: send_wr,
            max_recv_wr: recv_wr,
            max_send_sge: send_sge,
            max_recv_sge: recv_sge,
            max_inline_data: inline,
        }
    }

    #[test]
    fn queues_hold_what_was_asked_for() {
        for wr in [0, 1, 15, 16, 17, 128, MAX_WR] {
            for sge in 1..=16 {
                for inline in [0, 1, 32, 33, 288] {
                    let c = cap(wr, wr, sge, sge, inline);
                    let s = sizes(&c, false, 16).unwrap();
                    assert!(
                        (4..=15).contains(&s.sq_log) && s.rq_log <= 15,
                        "{c:?}: {s:?}"
                    );
                    assert!(s.cap[0] >= wr && s.cap[1] >= wr && s.max_inline >= inline as usize);
                    assert!((4 << s.rq_stride) >= sge);
                    let units = units_for_sges(sge as usize, false);
                    assert!(units as u32 * s.cap[0] <= 1 << s.sq_log);
                }
            }
        }
    }

    #[test]
    fn above_the_limits_is_refused() {
        for c in [
            cap(MAX_WR + 1, 1, 1, 1, 0),
            cap(1, MAX_WR + 1, 1, 1, 0),
            cap(1, 1, 17, 1, 0),
            cap(1, 1, 1, 17, 0),
            cap(1, 1, 1, 1, 289),
        ] {
            assert_eq!(sizes(&c, false, 16), Err(libc::EINVAL), "{c:?}");
        }
        assert_eq!(
            sizes(&cap(1, 1, 15, 1, 0), true, 16),
            Err(libc::EINVAL),
            "UD has room for 14"
        );
        assert_eq!(
            sizes(&cap(1, 1, 1, 1, 1), true, 16),
            Err(libc::EINVAL),
            "UD has no inline"
        );
    }
}
