//! What differs between the kinds of objects.

use rust_hdl::prelude::*;

/// Index, tag and place of an object by its kind (`asm::kind`).
///
/// `LQ`, `LM`, `LC`, `LP`, `LS`: log2 of QPs, MRs, CQs, PDs, PASIDs. MRs have a memory of their own; in the other one QPs come first, then CQs, PDs, EQs.
/// Combinational, but `mask_r`, `base_r`: one cycle later.
#[derive(LogicBlock)]
pub struct Kinds<
    const LQ: usize,
    const LM: usize,
    const LC: usize,
    const LP: usize,
    const LS: usize,
> {
    pub clock: Signal<In, Clock>,
    pub kind: Signal<In, Bits<3>>,
    /// Number that a command gives: a key is rotated right by 8.
    pub acc: Signal<In, Bits<32>>,
    pub rnd: Signal<In, Bits<64>>,
    pub idx: Signal<In, Bits<16>>,
    pub tag: Signal<In, Bits<16>>,
    /// Largest index.
    pub mask: Signal<Out, Bits<16>>,
    pub mask_r: Signal<Out, Bits<16>>,
    /// Place of index 0.
    pub base_r: Signal<Out, Bits<16>>,
    /// What the number has beside the index: the tag, if it is legal.
    pub rest: Signal<Out, Bits<32>>,
    /// A random tag.
    pub fresh: Signal<Out, Bits<16>>,
    /// The number of object `idx`, `tag`.
    pub id: Signal<Out, Bits<32>>,
    /// `idx` is never given out.
    pub reserved: Signal<Out, bool>,
    m: DFF<Bits<16>>,
    b: DFF<Bits<16>>,
    mm: Signal<Local, Bits<16>>,
    high: Signal<Local, Bits<24>>,
    t: Signal<Local, Bits<16>>,
    k_lq: Constant<Bits<5>>,
    k_lm: Constant<Bits<5>>,
    k_lc: Constant<Bits<5>>,
    k_lp: Constant<Bits<5>>,
    k_ls: Constant<Bits<5>>,
    k_mq: Constant<Bits<16>>,
    k_mm: Constant<Bits<16>>,
    k_mc: Constant<Bits<16>>,
    k_mp: Constant<Bits<16>>,
    k_ms: Constant<Bits<16>>,
    k_tag: Constant<Bits<16>>,
    k_bc: Constant<Bits<16>>,
    k_bp: Constant<Bits<16>>,
    k_bs: Constant<Bits<16>>,
}

impl<const LQ: usize, const LM: usize, const LC: usize, const LP: usize, const LS: usize> Default
    for Kinds<LQ, LM, LC, LP, LS>
{
    fn default() -> Self {
        let n = |x: usize| Constant::new((x as u64).into());
        let m = |x: usize| Constant::new(((1u64 << x) - 1).into());
        let b = |x: &[usize]| Constant::new(x.iter().map(|l| 1u64 << l).sum::<u64>().into());
        Self {
            clock: Default::default(),
            kind: Default::default(),
            acc: Default::default(),
            rnd: Default::default(),
            idx: Default::default(),
            tag: Default::default(),
            mask: Default::default(),
            mask_r: Default::default(),
            base_r: Default::default(),
            rest: Default::default(),
            fresh: Default::default(),
            id: Default::default(),
            reserved: Default::default(),
            m: Default::default(),
            b: Default::default(),
            mm: Default::default(),
            high: Default::default(),
            t: Default::default(),
            k_lq: n(LQ),
            k_lm: n(LM),
            k_lc: n(LC),
            k_lp: n(LP),
            k_ls: n(LS),
            k_mq: m(LQ),
            k_mm: m(LM),
            k_mc: m(LC),
            k_mp: m(LP),
            k_ms: m(LS),
            k_tag: m((24 - LQ).min(16)),
            k_bc: b(&[LQ]),
            k_bp: b(&[LQ, LC]),
            k_bs: b(&[LQ, LC, LP]),
        }
    }
}

impl<const LQ: usize, const LM: usize, const LC: usize, const LP: usize, const LS: usize> Logic
    for Kinds<LQ, LM, LC, LP, LS>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, m, b);
        self.high.next = self.acc.val().get_bits::<24>(0);
        self.high.next = self.high.val() >> self.k_lm.val();
        self.t.next = self.rnd.val().get_bits::<16>(32) & self.k_tag.val();
        if (self.t.val() == self.k_tag.val()) | !self.t.val().any() {
            // with the last index it would be QPN 0xFFFFFF, with the first two QPN 0 and 1
            self.t.next = 1.into();
        }
        self.fresh.next = 0.into();
        self.reserved.next = false;
        self.id.next = bit_cast::<32, 16>(self.idx.val());
        match self.kind.val().index() {
            0 => {
                self.mm.next = self.k_mm.val();
                self.b.d.next = 0.into();
                self.rest.next = (bit_cast::<32, 24>(self.high.val()) << 8)
                    | bit_cast::<32, 8>(self.acc.val().get_bits::<8>(24));
                self.fresh.next = bit_cast::<16, 8>(self.rnd.val().get_bits::<8>(40));
                self.id.next =
                    (bit_cast::<32, 16>(self.idx.val()) << 8) | bit_cast::<32, 16>(self.tag.val());
                self.reserved.next = !self.idx.val().any();
            }
            1 => {
                self.mm.next = self.k_mq.val();
                self.b.d.next = 0.into();
                self.rest.next = self.acc.val() >> self.k_lq.val();
                self.fresh.next = self.t.val();
                self.id.next = (bit_cast::<32, 16>(self.tag.val()) << self.k_lq.val())
                    | bit_cast::<32, 16>(self.idx.val());
            }
            2 => {
                self.mm.next = self.k_mc.val();
                self.b.d.next = self.k_bc.val();
                self.rest.next = self.acc.val() >> self.k_lc.val();
            }
            3 => {
                self.mm.next = self.k_mp.val();
                self.b.d.next = self.k_bp.val();
                self.rest.next = self.acc.val() >> self.k_lp.val();
            }
            _ => {
                self.mm.next = self.k_ms.val();
                self.b.d.next = self.k_bs.val();
                self.rest.next = self.acc.val() >> self.k_ls.val();
            }
        }
        self.mask.next = self.mm.val();
        self.m.d.next = self.mm.val();
        self.mask_r.next = self.m.q.val();
        self.base_r.next = self.b.q.val();
    }
}
