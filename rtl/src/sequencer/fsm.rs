//! The kernel: how instructions are carried out.

use super::*;

impl<
        const W: usize,
        const LQ: usize,
        const LM: usize,
        const LC: usize,
        const LP: usize,
        const LS: usize,
        const LO: usize,
        const MAX_RD: usize,
    > Logic for Sequencer<W, LQ, LM, LC, LP, LS, LO, MAX_RD>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, st, db, two, unit, got, f_hit, f_err, half, kind_e, seq, mask, want,
            assumed, gidx, fam6, status
        );
        dff_setup!(
            self, clock, rid, qres, q_sq, q_rq, q_head, q_busy, link, link_new, srq, rnd, wide,
            cnt, last, obase, pc, u, x, y, v, acc
        );
        dff_setup!(
            self, clock, carry, low, high, low_c, high_c, yes, w_hi, w_lt, w_gt, w_own, w_tag, nn,
            addr
        );
        dff_setup!(
            self, clock, first, okind, oidx, otag, oaddr, obj, hi, tries, cur, typ, owner, nx, arg,
            t, tn
        );
        dff_setup!(
            self, clock, tp, tp_end, tq, tq_end, obj_v, rsel, cp, tf, pf, fenced, wr_v, wop, wbusy,
            p_cmd, p_ref, p_err, p_flush
        );
        clock!(
            self, clock, cmds, errs, lims, drain, kinds, quota, mem, prog, rule, mrs, others, cfgs,
            avs, gids, units
        );
        self.cmds.rst.next = self.rst.val();
        self.errs.rst.next = self.rst.val();
        self.drain.rst.next = self.rst.val();
        self.boot.next = self.st.q.val() == St::Boot;

        // the command at hand
        self.cmds.s_valid.next = self.cmddb_valid.val();
        self.cmds.s_data.next = self.cmddb_data.val();
        self.cmddb_ready.next = self.cmds.s_ready.val();
        self.cmds.m_ready.next = false;
        self.c.next = self.cmds.m_data.val();
        self.craw.next = self.c.val().addr;
        self.cpg.next = self.craw.val().get_bits::<6>(0);
        self.c.next = self.db.q.val();
        self.far.next = self.c.val().pasid;
        self.far.next = self.far.val() >> self.k_ls.val();

        // reads and fills
        self.hr.next.pasid = self.c.val().pasid;
        self.hr.next.addr = self.c.val().addr;
        self.hr.next.len = 128.into();
        self.hr.next.tag = 224.into();
        if self.two.q.val() {
            self.hr.next.len = 64.into();
        }
        if self.got.q.val() {
            self.hr.next.addr = self.addr.q.val();
        }
        self.rd_data.next = self.hr.val();
        self.rd_valid.next = self.st.q.val() == St::Ask;
        self.f.next = self.fill_data.val();
        self.fhit.next = self.fill_valid.val() & (self.f.val().tag == 224);
        self.units.we.next = self.fhit.val();
        self.units.waddr.next = 0.into();
        self.f_hit.d.next = self.fhit.val();
        self.f_err.d.next = self.f.val().err;
        if self.fhit.val() {
            self.unit.d.next = true;
        }
        if self.unit.q.val() {
            self.units.waddr.next = 1.into();
        }
        self.units.wdata.next = self.f.val().data;
        self.units.raddr.next = 0.into();
        if self.half.q.val() {
            self.units.raddr.next = 1.into();
        }

        // errors: one per QP waits
        self.errs.clear.next = self.boot.val();
        self.errs.clear_qp.next = self.oidx.q.val().get_bits::<LQ>(0);
        self.errs.s_valid.next = self.err_valid.val();
        self.errs.s_data.next = self.err_data.val();
        self.err_ready.next = self.errs.s_ready.val();
        self.errs.m_ready.next = self.st.q.val() == St::Idle;
        self.eo.next = self.errs.m_data.val();

        // limits of SRQs
        self.lims.rst.next = self.rst.val();
        self.lims.s_valid.next = self.lim_valid.val();
        self.lims.s_data.next = self.lim_qp.val();
        self.lims.m_ready.next = false;

        // QPs that may have drained
        self.drain.clear.next = self.boot.val();
        self.drain.at.next = self.oidx.q.val().get_bits::<LQ>(0);
        self.drain.set.next = false;
        self.drain.freed.next = self.sq_freed.val();
        self.drain.freed_qp.next = bit_cast::<LQ, 12>(self.sq_freed_qp.val());
        self.drain.m_ready.next = false;
        self.drain.done.next = false;
        self.draining.next = (self.kind_e.q.val() == 7) & (self.cur.q.val() == 4);
        self.drained.next = self.draining.val() & !self.q_busy.q.val();
        self.drain.forget.next = !self.draining.val() | self.drained.val();

        // the link
        if self.adm_valid.val() & (self.adm_addr.val() == self.k_link.val()) {
            self.link.d.next = self.adm_data.val().get_bit(0);
            if self.adm_data.val().get_bit(0) != self.link.q.val() {
                self.link_new.d.next = true;
            }
        }

        // random numbers (xorshift)
        self.ra.next = self.rnd.q.val() ^ (self.rnd.q.val() << 13);
        self.rb.next = self.ra.val() ^ (self.ra.val() >> 7);
        self.rc.next = self.rb.val() ^ (self.rb.val() << 17);
        if self.st.q.val() != St::Idle {
            self.rnd.d.next = self.rc.val();
        }
        if self.st.q.val() == St::Begin2 {
            self.rnd.d.next = self.rc.val() ^ bit_cast::<64, 48>(self.now.val());
        }
        if !self.rnd.q.val().any() {
            self.rnd.d.next = self.k_rnd.val();
        }
        if self.adm_valid.val() & (self.adm_addr.val() == self.k_seed.val()) {
            self.rnd.d.next = (bit_cast::<64, 32>(self.adm_data.val()) << 32) ^ self.k_rnd.val();
        }

        // instruction at hand
        self.prog.addr.next = self.pc.q.val();
        self.o.next = self.u.q.val();
        self.op.next = self.o.val().op;
        self.src.next = self.o.val().src;
        self.om.next = self.o.val().mask;
        self.a.next = self.o.val().a;
        self.b.next = self.o.val().b;
        self.limit.next =
            (self.kind_e.q.val() == 8) & ((self.typ.q.val() == 3) & (self.cur.q.val() == 1));
        self.live.next = ((self.cur.q.val() != 0) & (self.cur.q.val() != 6))
            & ((self.kind_e.q.val() != 7) & (self.kind_e.q.val() != 8));
        self.ps.next.mask = self.mask.q.val();
        self.ps.next.always = true;
        self.ps.next.mr = self.okind.q.val() == 0;
        self.ps.next.qp = self.okind.q.val() == 1;
        self.ps.next.cq = self.okind.q.val() == 2;
        self.ps.next.eq = self.okind.q.val() == 4;
        self.ps.next.to_rtr = (self.cur.q.val() == 1) & (self.nx.q.val() == 2);
        self.ps.next.to_rts = (self.cur.q.val() == 2) & (self.nx.q.val() == 3);
        self.ps.next.kick =
            (self.nx.q.val() == 3) & ((self.cur.q.val() == 3) | (self.cur.q.val() == 4));
        self.ps.next.to_reset = self.nx.q.val() == 0;
        self.ps.next.to_err = (self.nx.q.val() == 6) & (self.cur.q.val() != 6);
        self.ps.next.live = self.live.val();
        self.ps.next.event = (self.live.val()
            & (((self.kind_e.q.val() == 1) | (self.kind_e.q.val() == 6))
                | ((self.kind_e.q.val() == 2) | (self.kind_e.q.val() == 5))))
            | (self.drained.val() | self.limit.val());
        self.ps.next.drain = self.draining.val();
        self.ps.next.srq = self.srq.q.val();
        self.ps.next.live_srq = self.live.val() & self.srq.q.val();
        self.ps.next.err_srq =
            ((self.nx.q.val() == 6) & (self.cur.q.val() != 6)) & self.srq.q.val();
        self.praw.next = self.ps.val().into();
        self.yes.d.next = self.praw.val().get_bit(self.o.val().cond.index());

        // object at hand
        self.acc16.next = self.acc.q.val().get_bits::<16>(0);
        self.kinds.kind.next = self.okind.q.val();
        self.kinds.acc.next = self.acc.q.val();
        self.kinds.rnd.next = self.rnd.q.val();
        self.kinds.idx.next = self.oidx.q.val();
        self.kinds.tag.next = self.otag.q.val();
        self.hi.d.next = self.kinds.rest.val();
        self.base.next = self.kinds.base_r.val();
        // whose objects are counted: those of the command's process, but FREE may belong to a TEARDOWN
        self.qat.next = self.c.val().pasid;
        if self.op.val() == 9 {
            self.qat.next = self.obj.q.val().pasid;
        }
        if self.boot.val() {
            self.qat.next = bit_cast::<12, 16>(self.oidx.q.val());
        }
        self.quota.at.next = bit_cast::<LS, 12>(self.qat.val());
        self.quota.kind.next = self.okind.q.val();
        self.quota.limits.next = self.limits.val();
        self.quota.clear.next = self.boot.val();
        self.quota.up.next = false;
        self.quota.down.next = false;
        self.counted.next = self.okind.q.val() < 4;
        self.kmask.next = self.kinds.mask_r.val();
        self.osat.next = self.oidx.q.val() + self.base.val();
        self.onext.next = self.oidx.q.val() + 1;
        self.onext.next = self.onext.val() & self.kmask.val();
        // users of the object, one more or less
        self.delta.next = 1.into();
        if self.a.val().get_bit(0) {
            self.delta.next = 65535.into();
        }
        self.nn.d.next = self.obj.q.val().n + self.delta.val();

        // object memory
        self.oa.next = self.oaddr.q.val();
        self.osel.next = self.oaddr.q.val();
        if (self.st.q.val() == St::Scan) | (self.st.q.val() == St::Scan2) {
            self.osel.next = self.t.q.val();
        }
        self.rsel.d.next = self.osel.val().other;
        self.tat.next = self.osel.val().at;
        self.mrs.raddr.next = self.tat.val().get_bits::<LM>(0);
        self.others.raddr.next = self.tat.val().get_bits::<LO>(0);
        self.ob.next = self.mrs.rdata.val();
        if self.rsel.q.val() {
            self.ob.next = self.others.rdata.val();
        }
        self.owe.next = false;
        self.ow.next = self.obj.q.val();
        self.tat.next = self.oa.val().at;
        if self.boot.val() {
            self.tat.next = self.oidx.q.val();
        }
        self.mrs.waddr.next = self.tat.val().get_bits::<LM>(0);
        self.others.waddr.next = self.tat.val().get_bits::<LO>(0);

        // walk
        self.tinc.next = self.t.q.val();
        self.tat.next = self.tinc.val().at;
        self.tend.next = self.tinc.val().other & (self.tat.val() == self.k_end.val());
        self.tinc.next = self.tn.q.val();
        self.tat.next = self.tinc.val().at;
        if !self.tinc.val().other & (self.tat.val() == self.k_mm.val()) {
            self.tinc.next.other = true;
            self.tinc.next.at = 0.into();
        } else {
            self.tinc.next.at = self.tat.val() + 1;
        }
        self.fat.next = self.oa.val().at;
        self.hit.next = (self.obj_v.q.val() & !self.tq_end.q.val())
            & (self.obj.q.val().used & (self.obj.q.val().pasid == self.arg.q.val()));

        // special source words
        self.gids.raddr.next = self.gidx.q.val();
        self.special.sel.next = self.src.val().get_bits::<5>(0);
        self.special.pasid.next = self.c.val().pasid;
        self.special.far.next = self.far.val().any();
        self.special.id.next = self.kinds.id.val();
        self.special.n.next = self.obj.q.val().n;
        self.special.tag.next = self.otag.q.val();
        self.special.used.next = self.obj.q.val().used;
        self.special.nx.next = self.nx.q.val();
        self.special.carry.next = self.carry.q.val();
        self.special.acc.next = self.acc.q.val();
        self.special.win.next = self.wbusy.q.val();
        self.special.gid.next = self.gids.rdata.val();
        self.special.ip6.next = self.fam6.q.val();

        // word operations
        self.rot.next =
            (bit_cast::<64, 32>(self.x.q.val()) << 32) | bit_cast::<64, 32>(self.x.q.val());
        self.rot.next = self.rot.val() >> self.o.val().rot;
        self.inv.next = !self.om.val();
        self.m.next = self.v.q.val() & self.om.val();
        self.m8.next = self.m.val().get_bits::<8>(0);
        self.mh.next = self.m.val().get_bits::<24>(8);
        // the adder works in halves, the high one a cycle later; the carry comes in from a bit below
        self.cin.next = 0.into();
        if self.carry.q.val() & self.b.val().get_bit(0) {
            self.cin.next = 1.into();
        }
        self.sum.next = ((bit_cast::<18, 16>(self.v.q.val().get_bits::<16>(0)) << 1) | 1)
            + ((bit_cast::<18, 16>(self.y.q.val().get_bits::<16>(0)) << 1) | self.cin.val());
        self.low.d.next = self.sum.val().get_bits::<16>(1);
        self.low_c.d.next = self.sum.val().get_bit(17);
        self.cin.next = 0.into();
        if self.low_c.q.val() {
            self.cin.next = 1.into();
        }
        self.sum.next = ((bit_cast::<18, 16>(self.v.q.val().get_bits::<16>(16)) << 1) | 1)
            + ((bit_cast::<18, 16>(self.y.q.val().get_bits::<16>(16)) << 1) | self.cin.val());
        self.high.d.next = self.sum.val().get_bits::<16>(1);
        self.high_c.d.next = self.sum.val().get_bit(17);
        // 64 more, 8 bits a cycle
        self.aplus.next = 0.into();
        if self.first.q.val() {
            self.aplus.next = 64.into();
        } else if self.carry.q.val() {
            self.aplus.next = 1.into();
        }
        self.asum.next = bit_cast::<9, 8>(self.addr.q.val().get_bits::<8>(0)) + self.aplus.val();
        self.lo.next = self.wide.q.val().get_bits::<32>(0);
        self.mwe.next = false;
        self.mwa.next = self.o.val().dst;
        self.mwd.next = self.m.val();
        self.mra.next = self.src.val().get_bits::<6>(0);
        if self.st.q.val() == St::In {
            self.mra.next = self.o.val().dst + self.cnt.q.val();
        }
        self.mem.raddr0.next = self.mra.val();
        self.mem.raddr1.next = self.o.val().dst;

        // tables
        self.cfgs.raddr.next = self.oidx.q.val().get_bits::<LQ>(0);
        self.avs.raddr.next = self.oidx.q.val().get_bits::<LQ>(0);

        // MODIFY_QP
        self.rule.qp_type.next = self.typ.q.val();
        self.rule.cur.next = self.cur.q.val();
        self.rule.assumed.next = self.assumed.q.val();
        self.rule.want.next = self.want.q.val();
        self.rule.mask.next = self.mask.q.val();

        // what may be wrong, one cycle before it is judged
        self.w_hi.d.next = self.mh.val().any();
        self.w_lt.d.next = self.m8.val() < self.a.val();
        self.w_gt.d.next = self.m8.val() > self.b.val();
        self.w_own.d.next = !self.obj.q.val().used | (self.obj.q.val().pasid != self.c.val().pasid);
        self.w_tag.d.next = self.hi.q.val() != bit_cast::<32, 16>(self.obj.q.val().tag);
        self.fails.next = true;
        match self.op.val().index() {
            1 => {
                self.fails.next = self.w_hi.q.val() | (self.w_lt.q.val() | self.w_gt.q.val());
            }
            6 => {
                self.fails.next =
                    !self.b.val().get_bit(0) & (self.w_own.q.val() | self.w_tag.q.val());
            }
            13 => self.fails.next = self.rule.refuse.val(),
            _ => self.fails.next = true,
        }

        // response
        self.r.next.id = self.rid.q.val();
        self.r.next.state = 0.into();
        self.r.next.rsv0 = 0.into();
        self.r.next.sq_psn = 0.into();
        self.r.next.rsv1 = 0.into();
        self.r.next.rq_psn = 0.into();
        self.r.next.rsv2 = 0.into();
        self.r.next.sq_head = 0.into();
        self.r.next.rsv3 = 0.into();
        self.r.next.status = self.status.q.val();
        self.r.next.rsv4 = 0.into();
        self.r.next.seq = self.seq.q.val();
        if self.qres.q.val() {
            self.r.next.state = bit_cast::<8, 3>(self.cur.q.val());
            self.r.next.sq_psn = self.q_sq.q.val();
            self.r.next.rq_psn = self.q_rq.q.val();
            self.r.next.sq_head = self.q_head.q.val();
        }

        self.p_cmd.d.next = false;
        self.p_ref.d.next = false;
        self.p_err.d.next = false;
        self.p_flush.d.next = false;
        self.tabw.next = false;
        self.cpv.next = self.cp.q.val();
        self.kb.next = self.a.val().get_bits::<3>(0);
        self.isf.next = self.kb.val() == 3;
        if self.tx_fence.val() {
            self.tf.d.next = self.tf.q.val() + 1;
        }
        if self.pl_fence.val() {
            self.pf.d.next = self.pf.q.val() + 1;
        }
        self.fenced.d.next = (self.tf.q.val() == 2) & (self.pf.q.val() == 2);
        self.goctl.next = self.st.q.val() == St::Ctl;

        match self.st.q.val() {
            St::Boot => {
                self.owe.next = true;
                self.oidx.d.next = self.oidx.q.val() + 1;
                if self.oidx.q.val() == self.k_boot.val() {
                    self.st.d.next = St::Idle;
                }
            }
            St::Idle => {
                self.status.d.next = 0.into();
                self.rid.d.next = 0.into();
                self.qres.d.next = false;
                self.got.d.next = false;
                self.unit.d.next = false;
                self.half.d.next = true;
                if self.errs.m_valid.val() {
                    self.kind_e.d.next = bit_cast::<4, 3>(self.eo.val().kind);
                    self.okind.d.next = 1.into();
                    self.oidx.d.next = bit_cast::<16, 12>(self.eo.val().qp);
                    self.pc.d.next = 32.into();
                    self.st.d.next = St::Fetch;
                } else if self.errs.empty.val() & self.link_new.q.val() {
                    self.link_new.d.next = false;
                    self.owner.d.next = 0.into();
                    self.st.d.next = St::Port;
                } else if self.errs.empty.val() & self.lims.m_valid.val() {
                    self.lims.m_ready.next = true;
                    self.kind_e.d.next = 8.into();
                    self.okind.d.next = 1.into();
                    self.oidx.d.next = bit_cast::<16, 12>(self.lims.m_data.val());
                    self.pc.d.next = 32.into();
                    self.st.d.next = St::Fetch;
                } else if self.errs.empty.val() & self.drain.m_valid.val() {
                    self.drain.m_ready.next = true;
                    self.kind_e.d.next = 7.into();
                    self.okind.d.next = 1.into();
                    self.oidx.d.next = bit_cast::<16, LQ>(self.drain.m_qp.val());
                    self.pc.d.next = 32.into();
                    self.st.d.next = St::Fetch;
                } else if self.errs.empty.val() & self.cmds.m_valid.val() {
                    self.cmds.m_ready.next = true;
                    self.kind_e.d.next = 0.into();
                    self.db.d.next = self.cmds.m_data.val();
                    self.addr.d.next = self.craw.val();
                    self.first.d.next = true;
                    self.cnt.d.next = 0.into();
                    self.two.d.next = self.craw.val().get_bits::<6>(6) == 63;
                    if self.cpg.val().any() {
                        self.p_ref.d.next = true;
                    } else {
                        self.half.d.next = false;
                        self.st.d.next = St::Addr;
                    }
                }
            }
            St::Addr => {
                // 64 bytes on: to the second unit, then to the response
                self.addr.d.next = (self.addr.q.val() >> 8)
                    | (bit_cast::<64, 8>(self.asum.val().get_bits::<8>(0)) << 56);
                self.carry.d.next = self.asum.val().get_bit(8);
                self.first.d.next = false;
                self.cnt.d.next = self.cnt.q.val() + 1;
                if self.cnt.q.val() == 7 {
                    self.st.d.next = St::Ask;
                    if self.got.q.val() {
                        self.st.d.next = St::Begin;
                    }
                }
            }
            St::Ask => {
                if self.rd_ready.val() {
                    self.st.d.next = St::Wait;
                }
            }
            St::Wait => {
                if self.f_hit.q.val() {
                    self.got.d.next = true;
                    if self.f_err.q.val() {
                        self.p_ref.d.next = true;
                        self.st.d.next = St::Idle;
                    } else if self.got.q.val() {
                        self.cnt.d.next = 0.into();
                        self.first.d.next = true;
                        self.st.d.next = St::Addr;
                    } else if self.two.q.val() {
                        self.st.d.next = St::Ask;
                    }
                }
            }
            St::Begin => {
                // unit 0, then unit 1 to work memory
                self.pc.d.next = 34.into();
                self.cnt.d.next = 0.into();
                self.last.d.next = 15.into();
                self.obase.d.next = 0.into();
                if self.half.q.val() {
                    self.obase.d.next = 16.into();
                }
                self.st.d.next = St::Begin2;
            }
            St::Begin2 => {
                self.wide.d.next = self.units.rdata.val();
                self.st.d.next = St::Out;
            }
            St::Out => {
                self.mwe.next = true;
                self.mwa.next = self.obase.q.val() + self.cnt.q.val();
                self.mwd.next = self.lo.val();
                self.wide.d.next = self.wide.q.val() >> 32;
                self.cnt.d.next = self.cnt.q.val() + 1;
                if self.cnt.q.val() == self.last.q.val() {
                    self.st.d.next = St::Fetch;
                    if !self.half.q.val() {
                        self.half.d.next = true;
                        self.st.d.next = St::Begin;
                    }
                }
            }
            St::Fetch => {
                self.st.d.next = St::Dec;
            }
            St::Dec => {
                self.u.d.next = self.prog.data.val().into();
                self.st.d.next = St::Cond;
            }
            St::Cond => {
                self.st.d.next = St::Go;
            }
            St::Go => {
                self.pc.d.next = self.pc.q.val() + 1;
                self.st.d.next = St::Fetch;
                if self.yes.q.val() {
                    match self.op.val().index() {
                        5 => self.pc.d.next = self.om.val().get_bits::<10>(0),
                        6 => {
                            self.okind.d.next = self.kb.val();
                            self.st.d.next = St::Lk0;
                        }
                        7 => {
                            self.okind.d.next = self.kb.val();
                            self.st.d.next = St::Al0;
                        }
                        8 => {
                            self.ow.next.used = true;
                            self.ow.next.pasid = self.c.val().pasid;
                            self.ow.next.tag = self.otag.q.val();
                            self.ow.next.n = self.acc16.val();
                            self.owe.next = true;
                            self.quota.up.next = !self.obj.q.val().used & self.counted.val();
                        }
                        9 => {
                            self.ow.next.used = false;
                            self.ow.next.pasid = 0.into();
                            self.ow.next.tag = 0.into();
                            self.ow.next.n = 0.into();
                            self.owe.next = true;
                            self.quota.down.next = self.counted.val();
                        }
                        10 => {
                            self.ow.next.n = self.nn.q.val();
                            self.owe.next = true;
                        }
                        11 => {
                            self.wide.d.next = bit_cast::<512, 256>(self.cfgs.rdata.val());
                            self.cnt.d.next = 0.into();
                            self.last.d.next = 7.into();
                            self.obase.d.next = 32.into();
                            if self.a.val().any() {
                                self.wide.d.next = self.avs.rdata.val();
                                self.last.d.next = 15.into();
                                self.obase.d.next = 40.into();
                            }
                            self.st.d.next = St::Out;
                        }
                        12 => {
                            self.wide.d.next = 0.into();
                            self.cnt.d.next = 0.into();
                            self.last.d.next = 23.into();
                            self.obase.d.next = 32.into();
                            self.st.d.next = St::Out;
                        }
                        13 => {
                            self.nx.d.next = self.rule.to.val();
                            self.st.d.next = St::Tr1;
                        }
                        14 => {
                            self.wide.d.next = 0.into();
                            self.cnt.d.next = 0.into();
                            self.st.d.next = St::In;
                            if self.b.val().any() {
                                self.st.d.next = St::Tab;
                            }
                        }
                        15 => {
                            self.cp.d.next = self.b.val().get_bits::<5>(0);
                            self.tf.d.next = 0.into();
                            self.pf.d.next = 0.into();
                            self.fenced.d.next = false;
                            self.st.d.next = St::Ctl;
                        }
                        16 => self.p_flush.d.next = true,
                        17 => self.rid.d.next = self.kinds.id.val(),
                        18 => self.qres.d.next = true,
                        19 => {
                            self.arg.d.next = self.acc.q.val().get_bits::<12>(0);
                            self.t.d.next.at = 0.into();
                            self.t.d.next.other = false;
                            self.tn.d.next.at = 1.into();
                            self.tn.d.next.other = false;
                        }
                        20 => self.st.d.next = St::Scan,
                        21 => self.st.d.next = St::Event,
                        22 => self.st.d.next = St::Resp,
                        23 => {
                            self.p_err.d.next = self.live.val();
                            self.drain.done.next = self.kind_e.q.val() == 7;
                            self.st.d.next = St::Idle;
                        }
                        24 => {
                            self.status.d.next = self.o.val().err;
                            self.st.d.next = St::Resp;
                        }
                        _ => self.st.d.next = St::Rd,
                    }
                }
            }
            St::Rd => {
                self.x.d.next = self.mem.rdata0.val();
                if self.src.val().get_bit(6) {
                    self.x.d.next = self.special.word.val();
                }
                self.y.d.next = self.mem.rdata1.val();
                self.st.d.next = St::Rot;
            }
            St::Rot => {
                self.v.d.next = self.rot.val().get_bits::<32>(0);
                self.st.d.next = St::Ex;
            }
            St::Ex => {
                self.st.d.next = St::Fetch;
                match self.op.val().index() {
                    0 => self.acc.d.next = self.m.val(),
                    1 => {
                        self.acc.d.next = self.m.val();
                        self.st.d.next = St::Judge;
                    }
                    2 => {
                        self.mwe.next = true;
                        self.mwd.next = (self.y.q.val() & self.inv.val()) | self.m.val();
                    }
                    25 => match self.a.val().index() {
                        0 => {
                            self.pc.d.next = bit_cast::<LOG_PROG, 8>(self.m8.val());
                            if self.m8.val().get_bits::<3>(5).any() {
                                self.pc.d.next = 33.into();
                            }
                        }
                        1 => self.seq.d.next = self.m.val(),
                        2 => self.mask.d.next = self.m.val().get_bits::<21>(0),
                        3 => self.want.d.next = self.m.val().get_bits::<3>(0),
                        4 => self.assumed.d.next = self.m.val().get_bits::<3>(0),
                        5 => self.gidx.d.next = self.m.val().get_bits::<4>(0),
                        6 => self.fam6.d.next = self.m.val().get_bit(0),
                        7 => self.cur.d.next = self.m.val().get_bits::<3>(0),
                        8 => self.typ.d.next = self.m.val().get_bits::<2>(0),
                        9 => self.owner.d.next = self.m.val().get_bits::<12>(0),
                        10 => self.otag.d.next = self.m.val().get_bits::<16>(0),
                        12 => {
                            self.wop.d.next = self.m.val().get_bits::<2>(0);
                            self.st.d.next = St::Win;
                        }
                        13 => self.srq.d.next = self.m.val().get_bit(0),
                        _ => self.drain.set.next = true,
                    },
                    3 => {
                        self.st.d.next = St::Add;
                    }
                    _ => {
                        self.mwe.next = true;
                        self.mwa.next = self.a.val().get_bits::<6>(0);
                        self.mwd.next = self.v.q.val() & self.y.q.val();
                    }
                }
            }
            St::Add => {
                self.st.d.next = St::Put;
            }
            St::Put => {
                self.carry.d.next = self.high_c.q.val();
                self.mwe.next = true;
                self.mwa.next = self.a.val().get_bits::<6>(0);
                self.mwd.next = (bit_cast::<32, 16>(self.high.q.val()) << 16)
                    | bit_cast::<32, 16>(self.low.q.val());
                self.st.d.next = St::Fetch;
            }
            St::Judge => {
                self.st.d.next = St::Fetch;
                if self.fails.val() {
                    self.status.d.next = self.o.val().err;
                    self.st.d.next = St::Resp;
                }
            }
            St::In => {
                self.cnt.d.next = self.cnt.q.val() + 1;
                if self.cnt.q.val().any() {
                    self.wide.d.next = (self.wide.q.val() >> 32)
                        | (bit_cast::<512, 32>(self.mem.rdata0.val()) << 480);
                }
                if self.cnt.q.val() == 16 {
                    self.st.d.next = St::Tab;
                }
            }
            St::Tab => {
                self.tabw.next = true;
                self.st.d.next = St::Fetch;
            }
            St::Lk0 => {
                self.oidx.d.next = self.acc16.val() & self.kinds.mask.val();
                self.st.d.next = St::Lk1;
            }
            St::Lk1 => {
                self.oaddr.d.next.at = self.osat.val();
                self.oaddr.d.next.other = self.okind.q.val().any();
                self.st.d.next = St::Lk2;
            }
            St::Lk2 => {
                self.st.d.next = St::Lk3;
            }
            St::Lk3 => {
                self.obj.d.next = self.ob.val();
                self.st.d.next = St::Lk4;
            }
            St::Lk4 => {
                self.otag.d.next = self.obj.q.val().tag;
                self.st.d.next = St::Fetch;
                self.st.d.next = St::Judge;
            }
            St::Al0 => {
                self.oidx.d.next = self.rnd.q.val().get_bits::<16>(0) & self.kinds.mask.val();
                self.otag.d.next = self.kinds.fresh.val();
                self.tries.d.next = 0.into();
                self.st.d.next = St::Al1;
            }
            St::Al1 => {
                self.oaddr.d.next.at = self.osat.val();
                self.oaddr.d.next.other = self.okind.q.val().any();
                self.st.d.next = St::Al2;
            }
            St::Al2 => {
                self.st.d.next = St::Al3;
            }
            St::Al3 => {
                self.obj.d.next = self.ob.val();
                self.st.d.next = St::Fetch;
                if self.ob.val().used | self.kinds.reserved.val() {
                    self.oidx.d.next = self.onext.val();
                    self.tries.d.next = self.tries.q.val() + 1;
                    self.st.d.next = St::Al1;
                    if self.tries.q.val() == self.kmask.val() {
                        self.st.d.next = St::Judge;
                    }
                }
                if self.quota.full.val() {
                    self.st.d.next = St::Judge;
                }
            }
            St::Tr1 => {
                self.st.d.next = St::Tr2;
            }
            St::Tr2 => {
                self.st.d.next = St::Tr3;
            }
            St::Tr3 => {
                self.st.d.next = St::Fetch;
                self.st.d.next = St::Judge;
            }
            St::Ctl => {
                if self.cp.q.val().get_bit(0) & self.rqr_ctl_ready.val() {
                    self.q_sq.d.next = self.rqr_psn.val();
                    self.q_head.d.next = self.rqr_idx.val();
                    self.q_busy.d.next = self.rqr_busy.val();
                    self.cpv.next = self.cpv.val().replace_bit(0, false);
                }
                if self.cp.q.val().get_bit(1) & self.rsp_ctl_ready.val() {
                    self.q_rq.d.next = self.rsp_psn.val();
                    self.cpv.next = self.cpv.val().replace_bit(1, false);
                }
                if self.rdr_ctl_ready.val() {
                    self.cpv.next = self.cpv.val().replace_bit(2, false);
                }
                if self.sqf_ctl_ready.val() {
                    self.cpv.next = self.cpv.val().replace_bit(3, false);
                }
                if self.rqf_ctl_ready.val() {
                    self.cpv.next = self.cpv.val().replace_bit(4, false);
                }
                self.cp.d.next = self.cpv.val();
                if !self.cp.q.val().any() & (!self.isf.val() | self.fenced.q.val()) {
                    self.st.d.next = St::Fetch;
                }
            }
            St::Scan => {
                self.tp.d.next = self.t.q.val();
                self.tp_end.d.next = self.tend.val();
                self.obj_v.d.next = false;
                self.t.d.next = self.tn.q.val();
                self.tn.d.next = self.tinc.val();
                self.st.d.next = St::Scan2;
            }
            St::Scan2 => {
                // `t` is being read, the entry of `tp` arrives, `obj` is the one of `tq`
                self.tp.d.next = self.t.q.val();
                self.tp_end.d.next = self.tend.val();
                self.tq.d.next = self.tp.q.val();
                self.tq_end.d.next = self.tp_end.q.val();
                self.obj_v.d.next = true;
                self.oaddr.d.next = self.tq.q.val();
                self.t.d.next = self.tn.q.val();
                self.tn.d.next = self.tinc.val();
                if self.hit.val() {
                    self.t.d.next = self.tp.q.val();
                    self.tn.d.next = self.t.q.val();
                    self.st.d.next = St::Found;
                } else {
                    self.obj.d.next = self.ob.val();
                    if self.obj_v.q.val() & self.tq_end.q.val() {
                        self.pc.d.next = self.om.val().get_bits::<10>(0);
                        self.st.d.next = St::Fetch;
                    }
                }
            }
            St::Found => {
                self.otag.d.next = self.obj.q.val().tag;
                self.st.d.next = St::Found2;
                if !self.oa.val().other {
                    self.okind.d.next = 0.into();
                } else if self.fat.val() < self.k_bc.val() {
                    self.okind.d.next = 1.into();
                } else if self.fat.val() < self.k_bp.val() {
                    self.okind.d.next = 2.into();
                } else if self.fat.val() < self.k_bs.val() {
                    self.okind.d.next = 3.into();
                } else {
                    self.okind.d.next = 4.into();
                }
            }
            St::Found2 => {
                // base_r follows
                self.st.d.next = St::Found3;
            }
            St::Found3 => {
                self.oidx.d.next = self.fat.val() - self.base.val();
                self.st.d.next = St::Fetch;
            }
            St::Event => {
                if self.ev_ready.val() {
                    self.st.d.next = St::Fetch;
                }
            }
            St::Port => {
                if self.ev_ready.val() {
                    self.owner.d.next = self.owner.q.val() + 1;
                    if self.owner.q.val() == self.k_last.val() {
                        self.st.d.next = St::Idle;
                    }
                }
            }
            St::Win => {
                if self.win_done.val() {
                    self.wbusy.d.next = self.win_busy.val();
                    self.st.d.next = St::Fetch;
                }
            }
            St::Resp => {
                self.wide.d.next = self.r.val().into();
                self.cnt.d.next = 0.into();
                if self.status.q.val().any() {
                    self.p_ref.d.next = true;
                } else {
                    self.p_cmd.d.next = true;
                }
                self.st.d.next = St::Wr;
                self.wr_v.d.next = true;
            }
            St::Wr => {
                if self.wr_ready.val() {
                    self.wide.d.next = self.wide.q.val() >> self.k_w.val();
                    self.cnt.d.next = self.cnt.q.val() + 1;
                    if self.cnt.q.val() == self.k_beats.val() {
                        self.st.d.next = St::Idle;
                        self.wr_v.d.next = false;
                    }
                }
            }
        }

        // work memory and object memory
        self.mem.we.next = self.mwe.val();
        self.mem.waddr.next = self.mwa.val();
        self.mem.wdata.next = self.mwd.val();
        if self.boot.val() {
            self.ow.next.used = false;
            self.ow.next.pasid = 0.into();
            self.ow.next.tag = 0.into();
            self.ow.next.n = 0.into();
        }
        self.mrs.wdata.next = self.ow.val();
        self.others.wdata.next = self.ow.val();
        self.mrs.we.next = self.owe.val() & (self.boot.val() | !self.oa.val().other);
        self.others.we.next = self.owe.val() & (self.boot.val() | self.oa.val().other);

        // table writes
        self.wcfg.next = self.wide.q.val().get_bits::<256>(0);
        self.wav.next = self.wide.q.val();
        self.wmrc.next = self.wide.q.val().get_bits::<192>(0);
        self.wmrm.next = self.wide.q.val().get_bits::<128>(192);
        self.wgid.next = self.wide.q.val().get_bits::<194>(0);
        self.cfg_we.next = self.boot.val() | (self.tabw.val() & self.a.val().get_bit(0));
        self.cfg_waddr.next = self.oidx.q.val().get_bits::<LQ>(0);
        self.cfg_wdata.next = self.wcfg.val().into();
        self.cfgs.we.next = self.boot.val() | (self.tabw.val() & self.a.val().get_bit(0));
        self.cfgs.waddr.next = self.oidx.q.val().get_bits::<LQ>(0);
        self.cfgs.wdata.next = self.wcfg.val();
        self.av_we.next = self.boot.val() | (self.tabw.val() & self.a.val().get_bit(1));
        self.av_waddr.next = self.oidx.q.val().get_bits::<LQ>(0);
        self.av_wdata.next = self.wav.val().into();
        self.avs.we.next = self.boot.val() | (self.tabw.val() & self.a.val().get_bit(1));
        self.avs.waddr.next = self.oidx.q.val().get_bits::<LQ>(0);
        self.avs.wdata.next = self.wav.val();
        self.mrc_we.next = self.boot.val() | (self.tabw.val() & self.a.val().get_bit(2));
        self.mrc_waddr.next = self.oidx.q.val().get_bits::<LM>(0);
        self.mrc_wdata.next = self.wmrc.val().into();
        self.mrm_we.next = self.boot.val() | (self.tabw.val() & self.a.val().get_bit(3));
        self.mrm_waddr.next = self.oidx.q.val().get_bits::<LM>(0);
        self.mrm_wdata.next = self.wmrm.val().into();
        self.cqt_we.next = self.boot.val() | (self.tabw.val() & self.a.val().get_bit(4));
        self.cqt_waddr.next = self.oidx.q.val().get_bits::<LC>(0);
        self.wcq.next = self.wide.q.val().get_bits::<128>(0);
        self.cqt_wdata.next = self.wcq.val().into();
        self.cqctl_valid.next = self.tabw.val() & self.a.val().get_bit(4);
        self.cqctl_cq.next = self.oidx.q.val().get_bits::<12>(0);
        self.cqctl_resize.next = self.a.val().get_bit(7);
        self.gids.we.next = self.boot.val() | (self.tabw.val() & self.a.val().get_bit(5));
        self.gids.waddr.next = self.acc.q.val().get_bits::<4>(0);
        if self.boot.val() {
            self.gids.waddr.next = self.oidx.q.val().get_bits::<4>(0);
        }
        self.gids.wdata.next = self.wgid.val().into();
        self.eqctl_valid.next = self.tabw.val() & self.a.val().get_bit(6);
        self.eqctl_pasid.next = self.oidx.q.val().get_bits::<12>(0);
        self.eqctl_base.next = self.wide.q.val().get_bits::<48>(0);
        self.eqctl_log.next = self.wide.q.val().get_bits::<5>(64);
        self.gid_we.next = self.boot.val() | (self.tabw.val() & self.a.val().get_bit(5));
        self.gid_waddr.next = self.acc.q.val().get_bits::<4>(0);
        if self.boot.val() {
            self.gid_waddr.next = self.oidx.q.val().get_bits::<4>(0);
        }
        self.gid_wdata.next = self.wgid.val().into();

        // orders
        self.cl.next.op = self.kb.val();
        self.cl.next.qp = self.oidx.q.val().get_bits::<12>(0);
        self.cl.next.psn = self.acc.q.val().get_bits::<24>(0);
        self.cl.next.status = 0.into();
        self.cs.next = self.cl.val();
        if (self.kind_e.q.val() == 3) | (self.kind_e.q.val() == 6) {
            self.cs.next.status = 4.into();
        }
        self.rqr_ctl_valid.next = self.goctl.val() & self.cp.q.val().get_bit(0);
        self.rqr_ctl_data.next = self.cs.val();
        self.rsp_ctl_valid.next = self.goctl.val() & self.cp.q.val().get_bit(1);
        self.rsp_ctl_data.next = self.cl.val();
        self.rdr_ctl_valid.next = self.goctl.val() & self.cp.q.val().get_bit(2);
        self.rdr_ctl_data.next = self.cl.val();
        self.sqf_ctl_valid.next = self.goctl.val() & self.cp.q.val().get_bit(3);
        self.sqf_ctl_data.next = self.cl.val();
        self.rqf_ctl_valid.next = self.goctl.val() & self.cp.q.val().get_bit(4);
        self.rqf_ctl_data.next = self.cl.val();

        self.wo.next.op = self.wop.q.val();
        self.wo.next.mr = self.oidx.q.val();
        self.win_data.next = self.wo.val();
        self.win_valid.next = self.st.q.val() == St::Win;

        // event, answer, pulses
        self.evd.next.pasid = self.owner.q.val();
        self.evd.next.id = bit_cast::<24, 32>(self.kinds.id.val());
        self.evd.next.kind = 3.into();
        if self.kind_e.q.val() == 1 {
            self.evd.next.kind = 4.into();
        }
        if self.kind_e.q.val() == 2 {
            self.evd.next.kind = 5.into();
        }
        if self.kind_e.q.val() == 7 {
            self.evd.next.kind = 7.into();
        }
        if self.kind_e.q.val() == 8 {
            self.evd.next.kind = 10.into();
        } else if self.typ.q.val() == 3 {
            self.evd.next.kind = 12.into();
        }
        if self.a.val().any() {
            self.evd.next.kind = self.a.val();
        }
        if self.st.q.val() == St::Port {
            // of port 1
            self.evd.next.id = 1.into();
            self.evd.next.kind = 9.into();
            if self.link.q.val() {
                self.evd.next.kind = 8.into();
            }
        }
        self.ev_data.next = self.evd.val();
        self.ev_valid.next = (self.st.q.val() == St::Event) | (self.st.q.val() == St::Port);
        self.hm.next.pasid = self.c.val().pasid;
        self.hm.next.addr = self.addr.q.val();
        self.hm.next.len = 64.into();
        self.hm.next.sop = !self.cnt.q.val().any();
        self.hm.next.eop = self.cnt.q.val() == self.k_beats.val();
        self.hm.next.stamp = 0.into();
        self.wr_meta.next = self.hm.val();
        self.wr_data.next = self.wide.q.val().get_bits::<W>(0);
        self.wr_valid.next = self.wr_v.q.val();
        self.mtt_flush.next = self.p_flush.q.val();
        self.ev_cmd.next = self.p_cmd.q.val();
        self.ev_cmd_refused.next = self.p_ref.q.val();
        self.ev_qp_error.next = self.p_err.q.val();
        self.idle.next = (((self.st.q.val() == St::Idle) & !self.cmds.m_valid.val())
            & self.errs.empty.val())
            & ((self.drain.idle.val() & !self.link_new.q.val()) & !self.lims.m_valid.val());
        if self.rst.val() {
            self.st.d.next = St::Boot;
            self.wr_v.d.next = false;
            self.oidx.d.next = 0.into();
            self.wide.d.next = 0.into();
            self.kind_e.d.next = 0.into();
            self.link.d.next = false;
            self.link_new.d.next = false;
            self.rnd.d.next = self.k_rnd.val();
            self.p_cmd.d.next = false;
            self.p_ref.d.next = false;
            self.p_err.d.next = false;
            self.p_flush.d.next = false;
        }
    }
}
