//! Numbers that follow from the table sizes, as signals (a const generic can't be a value in a kernel).

use rust_hdl::prelude::*;

/// Constant outputs only.
#[derive(LogicBlock)]
pub struct Consts<const LOG_QP: usize, const LOG_SQ: usize, const LOG_MR: usize> {
    /// log2 of QPs and of WQE slots per QP.
    pub log_qp: Signal<Out, Bits<5>>,
    pub log_sq: Signal<Out, Bits<5>>,
    /// QP index and slot index masks.
    pub qp_mask: Signal<Out, Bits<24>>,
    pub sq_mask: Signal<Out, Bits<16>>,
    /// Bits of a key that must be zero because the MR table is smaller than the index field.
    pub key_high: Signal<Out, Bits<32>>,
    k_log_qp: Constant<Bits<5>>,
    k_log_sq: Constant<Bits<5>>,
    k_qp_mask: Constant<Bits<24>>,
    k_sq_mask: Constant<Bits<16>>,
    k_key_high: Constant<Bits<32>>,
}

impl<const LOG_QP: usize, const LOG_SQ: usize, const LOG_MR: usize> Default
    for Consts<LOG_QP, LOG_SQ, LOG_MR>
{
    fn default() -> Self {
        assert!((1..=12).contains(&LOG_QP) && LOG_MR <= 16);
        assert!(LOG_SQ >= 3 && LOG_QP + LOG_SQ <= 16);
        Self {
            log_qp: Default::default(),
            log_sq: Default::default(),
            qp_mask: Default::default(),
            sq_mask: Default::default(),
            key_high: Default::default(),
            k_log_qp: Constant::new((LOG_QP as u64).into()),
            k_log_sq: Constant::new((LOG_SQ as u64).into()),
            k_qp_mask: Constant::new(((1u64 << LOG_QP) - 1).into()),
            k_sq_mask: Constant::new(((1u64 << LOG_SQ) - 1).into()),
            k_key_high: Constant::new(((0xFFFF_FFFFu64 << (LOG_MR + 8)) & 0xFFFF_FFFF).into()),
        }
    }
}

impl<const LOG_QP: usize, const LOG_SQ: usize, const LOG_MR: usize> Logic
    for Consts<LOG_QP, LOG_SQ, LOG_MR>
{
    #[hdl_gen]
    fn update(&mut self) {
        self.log_qp.next = self.k_log_qp.val();
        self.log_sq.next = self.k_log_sq.val();
        self.qp_mask.next = self.k_qp_mask.val();
        self.sq_mask.next = self.k_sq_mask.val();
        self.key_high.next = self.k_key_high.val();
    }
}
