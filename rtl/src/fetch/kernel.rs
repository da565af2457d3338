//! Kernel of [`Fetch`].

use super::*;

impl<const LQ: usize, const LS: usize, const A: usize> Logic for Fetch<LQ, LS, A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            rd_tag_ok,
            rd_tag_mask,
            f_v,
            f_d,
            fwd_v,
            fwd_tag,
            fwd_n,
            tags,
            state,
            q,
            x,
            k_done,
            k_err
        );
        dff_setup!(
            self, clock, k_ctl, k_rst, k_db, k_wait, k_direct, hit, unit, s, pasid, base, log,
            limit, left, room
        );
        dff_setup!(
            self, clock, group, ring, n, answer, ctl_ack, turn, sweep, sweep_q, out_v, out_d, flt_v
        );
        dff_setup!(self, clock, flt_d, over, gap, old, k_new, k_note, k_srq);
        clock!(self, clock, st, una, avail, pi_copy, stamp, slots, ctx, cnt, done, kick, wait_tag);
        self.done.rst.next = self.rst.val();
        self.kick.rst.next = self.rst.val();
        self.wait_tag.rst.next = self.rst.val();

        // arriving units: stage 0 looks the tag up, stage 1 writes the slot
        self.fin.next = self.fill_data.val();
        self.fin_tag.next = self.fin.val().tag;
        self.f_v.d.next =
            self.fill_valid.val() & (self.fin_tag.val().get_bits::<4>(4) == self.hi_nibble.val());
        self.f_d.d.next = self.fin.val();
        self.ctx.raddr.next = self.fin_tag.val().get_bits::<4>(0);
        self.cnt.raddr.next = self.fin_tag.val().get_bits::<4>(0);
        self.fu.next = self.f_d.q.val();
        self.fu_tag.next = self.fu.val().tag;
        self.fu_mine.next = self.f_v.q.val();
        self.fu_ctx.next = self.ctx.rdata.val();
        self.fu_n.next = self.cnt.rdata.val();
        if self.fwd_v.q.val() & (self.fwd_tag.q.val() == self.fu_tag.val().get_bits::<4>(0)) {
            self.fu_n.next = self.fwd_n.q.val();
        }
        self.fu_inc.next = self.fu_n.val() + 1;
        self.fu_next.next = self.fu_inc.val();
        if self.fu.val().last {
            self.fu_next.next = 0.into();
        }
        self.cnt.we.next = self.fu_mine.val();
        self.cnt.waddr.next = self.fu_tag.val().get_bits::<4>(0);
        self.cnt.wdata.next = self.fu_next.val();
        self.fwd_v.d.next = self.fu_mine.val();
        self.fwd_tag.d.next = self.fu_tag.val().get_bits::<4>(0);
        self.fwd_n.d.next = self.fu_next.val();
        self.fu_idx.next = self.fu_ctx.val().fi + bit_cast::<16, 4>(self.fu_n.val());
        self.fu_end.next = (self.fu_ctx.val().fi + bit_cast::<16, 4>(self.fu_n.val())) + 1;
        self.fu_qp.next = self.fu_ctx.val().qp;
        self.stay.next = self.hit.q.val() & (self.fu_mine.val() | self.out_v.q.val());
        self.put.next =
            (self.state.q.val() == FetchState::Ask) & (self.hit.q.val() & !self.stay.val());
        self.slots.we.next = (self.fu_mine.val() & !self.fu.val().err) | self.put.val();
        self.slots.waddr.next = (bit_cast::<A, LQ>(self.fu_qp.val().get_bits::<LQ>(0))
            << self.ls.val())
            | bit_cast::<A, LS>(self.fu_idx.val().get_bits::<LS>(0));
        self.slots.wdata.next = self.fu.val().data;
        self.fi.next = self.s.q.val().fi;
        self.slot_a.next = bit_cast::<A, LQ>(self.q.q.val().get_bits::<LQ>(0)) << self.ls.val();
        if !self.fu_mine.val() {
            // a unit that came with its doorbell
            self.slots.waddr.next =
                self.slot_a.val() | bit_cast::<A, LS>(self.fi.val().get_bits::<LS>(0));
            self.slots.wdata.next = self.unit.q.val();
        }
        self.fu_done.next.qp = self.fu_qp.val();
        self.fu_done.next.tag = self.fu_tag.val().get_bits::<4>(0);
        self.fu_done.next.end = self.fu_end.val();
        if self.fu.val().err {
            self.fu_done.next.end = self.fu_ctx.val().fi;
        }
        self.fu_done.next.err = self.fu.val().err;
        self.done.s_valid.next = self.fu_mine.val() & self.fu.val().last;
        self.done.s_data.next = self.fu_done.val();
        self.slots.raddr.next = self.slot_raddr.val();
        self.slot_rdata.next = self.slots.rdata.val();

        // a free tag; `tags` is written at the end of a visit and looked at three cycles later, so this may be a cycle old
        self.spare.next = !self.tags.q.val();
        self.rd_tag_ok.d.next = self.spare.val().any();
        // the lowest one
        self.rd_tag_mask.d.next = self.spare.val() & (bits::<16>(0) - self.spare.val());
        self.rd_mask.next = self.rd_tag_mask.q.val();
        self.rd_tag.next = 0.into();
        for i in 0..16 {
            if self.rd_tag_mask.q.val().get_bit(i) {
                self.rd_tag.next = self.rd_tag.val() | self.tag_id[i].val();
            }
        }
        self.free_mask.next = 0.into();

        // defaults of the table ports
        self.cfg.next = self.cfg_rdata.val();
        self.cur.next = self.st.rdata.val();
        self.ctl.next = self.ctl_data.val();
        self.db.next = self.db_data.val();
        self.dn.next = self.done.m_data.val();
        self.fr.next = self.free_data.val();
        self.fr_qp.next = self.fr.val().qp;
        self.una_clear.next = (self.state.q.val() == FetchState::Load) & self.k_rst.q.val();
        self.init.next = self.state.q.val() == FetchState::Init;
        self.free_ready.next = !self.una_clear.val() & !self.init.val();
        self.fr_take.next = self.free_valid.val() & !self.una_clear.val() & !self.init.val();
        self.kick.s_valid.next = self.fr_take.val();
        self.kick.s_data.next = self.fr_qp.val();
        if self.fr_take.val() & !self.kick.s_ready.val() {
            // too many at once: look at every QP instead
            self.sweep.d.next = self.num_qps.val();
        }
        self.una.we.next = self.fr_take.val() | self.una_clear.val();
        self.una.waddr.next = self.fr_qp.val().get_bits::<LQ>(0);
        self.una.wdata.next = self.fr.val().idx;
        if self.una_clear.val() {
            self.una.waddr.next = self.q.q.val().get_bits::<LQ>(0);
            self.una.wdata.next = 0.into();
        }

        // choice of the next event
        self.db_ready.next = false;
        self.ctl_ready.next = self.ctl_ack.q.val();
        self.ctl_ack.d.next = false;
        self.ctl_new.next = self.ctl_valid.val() & !self.ctl_ack.q.val();
        self.done.m_ready.next = false;
        self.kick.m_ready.next = false;
        self.wait_tag.m_ready.next = false;
        self.wait_tag.s_valid.next = false;
        self.wait_tag.s_data.next = self.q.q.val();
        self.others.next = self.db_valid.val()
            | self.kick.m_valid.val()
            | (self.wait_tag.m_valid.val() & self.rd_tag_ok.q.val());
        self.pick.next = bit_cast::<12, LQ>(self.sweep_q.q.val());
        if self.done.m_valid.val() {
            self.pick.next = self.dn.val().qp;
        } else if self.ctl_new.val() & (self.turn.q.val() | !self.others.val()) {
            self.pick.next = self.ctl.val().qp;
        } else if self.db_valid.val() {
            self.pick.next = self.db.val().qp;
        } else if self.kick.m_valid.val() {
            self.pick.next = self.kick.m_data.val();
        } else if self.wait_tag.m_valid.val() & self.rd_tag_ok.q.val() {
            self.pick.next = self.wait_tag.m_data.val();
        }
        self.cfg_raddr.next = self.pick.val().get_bits::<LQ>(0);
        self.st.raddr.next = self.pick.val().get_bits::<LQ>(0);
        self.una.raddr.next = self.pick.val().get_bits::<LQ>(0);

        self.rd_valid.next = false;
        self.st.we.next = false;
        self.avail.we.next = false;
        self.avail.waddr.next = self.q.q.val().get_bits::<LQ>(0);
        self.avail.wdata.next = self.x.q.val();
        self.pi_copy.we.next = false;
        self.pi_copy.waddr.next = self.q.q.val().get_bits::<LQ>(0);
        self.pi_copy.wdata.next = self.x.q.val();
        self.stamp.we.next = false;
        self.stamp.waddr.next = self.q.q.val().get_bits::<LQ>(0);
        self.stamp.wdata.next = self.now.val();
        self.ctx.we.next = false;

        // arithmetic of the states below
        self.cfg_state.next = self.cfg.val().state;
        self.live.next = self.cfg_state.val().any();
        self.is_srq.next = self.cfg.val().qp_type == 3;
        self.out_w.next.qp = self.q.q.val();
        self.out_w.next.idx = self.x.q.val();
        self.flt_w.next.qp = self.q.q.val();
        self.flt_w.next.kind = self.kind.val();
        self.mask.next = bits::<16>(0xFFFF) << self.log.q.val();
        self.mask.next = !self.mask.val();
        self.cur_pi.next = self.cur.val().pi;
        self.from.next = self.una.rdata.val();
        if self.receive.val() & (self.cfg_state.val() == 6) {
            // receives that are flushed are not freed one by one
            self.from.next = self.cur_pi.val();
        }
        self.nfrom.next = !self.from.val();
        self.excess.next = self.over.q.val() & !self.mask.val();
        // all ones: nothing is posted
        self.bad.next = (self.excess.val().any() & !self.over.q.val().all())
            | (self.gap.q.val() < self.old.q.val());
        self.pi_now.next = self.s.q.val().pi;
        if self.k_new.q.val() {
            self.pi_now.next = self.x.q.val();
        }
        self.gmask.next = 7.into();
        if self.log.q.val() == 0 {
            self.gmask.next = 0.into();
        } else if (self.log.q.val() == 1) | (self.limit_log.val() == 7) {
            self.gmask.next = 1.into();
        } else if (self.log.q.val() == 2) | (self.limit_log.val() == 8) {
            self.gmask.next = 3.into();
        }
        self.fi4.next = self.fi.val().get_bits::<4>(0);
        self.nfi4.next = !self.fi4.val();
        // of the three the group is at most 8
        self.group16.next = bit_cast::<16, 4>(self.group.q.val());
        self.by_group.next =
            (self.group16.val() <= self.left.q.val()) & (self.group16.val() <= self.room.q.val());
        self.min1.next = self.left.q.val().get_bits::<4>(0);
        if self.room.q.val() < self.left.q.val() {
            self.min1.next = self.room.q.val().get_bits::<4>(0);
        }
        self.want.next = self.n.q.val().any() & !self.s.q.val().busy & !self.s.q.val().dead;
        self.go.next = self.want.val() & self.rd_tag_ok.q.val();
        self.off.next = bit_cast::<64, 16>(self.ring.q.val()) << 6;
        self.addr.next = bit_cast::<64, 48>(self.base.q.val()) << 12;
        // the ring is aligned to 4 KiB but may be longer: add, don't or
        self.rd.next.addr = self.addr.val() + self.off.val();
        self.len.next = bit_cast::<13, 4>(self.n.q.val()) << 6;
        self.rd.next.len = self.len.val();
        self.rd.next.pasid = self.pasid.q.val();
        self.rd.next.tag =
            (bit_cast::<8, 4>(self.hi_nibble.val()) << 4) | bit_cast::<8, 4>(self.rd_tag.val());
        self.rd_data.next = self.rd.val();
        self.ctx_w.next.qp = self.q.q.val();
        self.ctx_w.next.fi = self.fi.val();
        self.ctx.waddr.next = self.rd_tag.val();
        self.ctx.wdata.next = self.ctx_w.val();
        self.fi_next.next = self.fi.val() + bit_cast::<16, 4>(self.n.q.val());
        self.sw.next = self.s.q.val();

        if self.out_v.q.val() & self.out_ready.val() {
            self.out_v.d.next = false;
        }
        if self.flt_v.q.val() & self.flt_ready.val() {
            self.flt_v.d.next = false;
        }

        match self.state.q.val() {
            FetchState::Init => {
                self.sweep_q.d.next = self.sweep_q.q.val() + 1;
                if self.sweep_q.q.val().all() {
                    self.state.d.next = FetchState::Idle;
                }
            }
            FetchState::Idle => {
                self.q.d.next = self.pick.val();
                self.k_done.d.next = false;
                self.k_err.d.next = false;
                self.k_ctl.d.next = false;
                self.k_rst.d.next = false;
                self.k_db.d.next = false;
                self.k_wait.d.next = false;
                self.k_direct.d.next = false;
                self.hit.d.next = false;
                self.answer.d.next = false;
                if self.done.m_valid.val() {
                    // its messages need the output registers
                    if !self.out_v.q.val() & !self.flt_v.q.val() {
                        self.done.m_ready.next = true;
                        self.x.d.next = self.dn.val().end;
                        self.k_done.d.next = true;
                        self.k_err.d.next = self.dn.val().err;
                        self.turn.d.next = true;
                        self.state.d.next = FetchState::Load;
                        for i in 0..16 {
                            if self.dn.val().tag == self.tag_id[i].val() {
                                self.free_mask.next = self.tag_bit[i].val();
                            }
                        }
                    }
                } else if self.ctl_new.val() & (self.turn.q.val() | !self.others.val()) {
                    self.k_ctl.d.next = true;
                    self.k_rst.d.next = self.ctl.val().op == self.op_reset.val();
                    self.turn.d.next = false;
                    self.state.d.next = FetchState::Load;
                } else if self.db_valid.val() {
                    // its messages need the output registers, too
                    if (!self.out_v.q.val() | !self.receive.val()) & !self.flt_v.q.val() {
                        self.db_ready.next = true;
                        self.x.d.next = self.db.val().idx;
                        self.unit.d.next = self.db_unit.val();
                        self.k_db.d.next = true;
                        self.k_direct.d.next = self.db_direct.val();
                        self.turn.d.next = true;
                        self.state.d.next = FetchState::Load;
                    }
                } else if self.kick.m_valid.val() {
                    self.kick.m_ready.next = true;
                    self.turn.d.next = true;
                    self.state.d.next = FetchState::Load;
                } else if self.wait_tag.m_valid.val() & self.rd_tag_ok.q.val() {
                    self.wait_tag.m_ready.next = true;
                    self.k_wait.d.next = true;
                    self.turn.d.next = true;
                    self.state.d.next = FetchState::Load;
                } else if self.sweep.q.val().any() {
                    if !self.fr_take.val() {
                        self.sweep.d.next = self.sweep.q.val() - 1;
                    }
                    self.sweep_q.d.next = self.sweep_q.q.val() + 1;
                    self.state.d.next = FetchState::Load;
                }
            }
            FetchState::Load => {
                self.pasid.d.next = self.cfg.val().pasid;
                self.base.d.next = self.cfg.val().sq_base;
                self.log.d.next = self.cfg.val().sq_log;
                if self.receive.val() {
                    self.base.d.next = self.cfg.val().rq_base;
                    self.log.d.next = self.cfg.val().rq_log;
                }
                self.sw.next = self.cur.val();
                self.limit.d.next = self.una.rdata.val() + self.num_slots.val();
                // of a doorbell: units between freed and posted, new and old; and of the new one less
                self.gap.d.next = self.x.q.val() - self.from.val();
                self.old.d.next = self.cur_pi.val() - self.from.val();
                self.over.d.next = self.x.q.val() + self.nfrom.val();
                self.k_new.d.next = self.k_db.q.val() & self.live.val();
                self.k_note.d.next = self.receive.val() & (self.cfg_state.val() == 6);
                self.k_srq.d.next = self.is_srq.val();
                if self.k_done.q.val() {
                    self.sw.next.busy = false;
                    self.sw.next.zombie = false;
                    if !self.cur.val().zombie {
                        if self.k_err.q.val() {
                            self.sw.next.dead = true;
                            self.flt_v.d.next = !self.cur.val().dead;
                            self.flt_d.d.next = self.flt_w.val();
                            // what is not on the card of an SRQ never comes: its QPs find it empty
                            self.pi_copy.we.next = self.is_srq.val();
                        } else {
                            self.avail.we.next = true;
                            self.pi_copy.we.next = self.is_srq.val() & self.cur.val().dead;
                            if !self.receive.val() {
                                self.out_v.d.next = true;
                                self.out_d.d.next = self.out_w.val();
                            }
                        }
                    }
                }
                if self.k_db.q.val() & self.live.val() {
                    self.stamp.we.next = true;
                }
                if self.k_wait.q.val() {
                    self.sw.next.wait = false;
                }
                self.answer.d.next = self.k_ctl.q.val();
                if self.k_rst.q.val() {
                    self.sw.next.pi = 0.into();
                    self.sw.next.fi = 0.into();
                    self.sw.next.dead = false;
                    self.sw.next.zombie = self.cur.val().busy;
                    self.answer.d.next = !self.cur.val().busy;
                    self.avail.we.next = true;
                    self.avail.wdata.next = 0.into();
                    self.pi_copy.we.next = true;
                    self.pi_copy.wdata.next = 0.into();
                    self.limit.d.next = self.num_slots.val();
                }
                self.s.d.next = self.sw.val();
                self.state.d.next = FetchState::Room;
            }
            FetchState::Room => {
                self.left.d.next = self.pi_now.val() - self.fi.val();
                if self.k_new.q.val() {
                    if self.bad.val() {
                        // no driver has posted more than the ring holds, or takes back what it posted: as if it could not be read
                        self.sw.next.dead = true;
                        self.flt_v.d.next = !self.s.q.val().dead;
                        self.flt_d.d.next = self.flt_w.val();
                        self.pi_copy.we.next = self.k_srq.q.val() & !self.s.q.val().dead;
                        self.pi_copy.wdata.next = self.fi.val();
                    } else {
                        self.sw.next.pi = self.x.q.val();
                        self.pi_copy.we.next = !(self.k_srq.q.val() & self.s.q.val().dead);
                        if self.k_note.q.val() {
                            self.out_v.d.next = true;
                            self.out_d.d.next = self.out_w.val();
                        }
                    }
                }
                self.s.d.next = self.sw.val();
                self.room.d.next = self.limit.q.val() - self.fi.val();
                self.group.d.next = (self.nfi4.val() & self.gmask.val()) + 1;
                self.ring.d.next = self.fi.val() & self.mask.val();
                self.state.d.next = FetchState::Count;
            }
            FetchState::Count => {
                self.n.d.next = self.min1.val();
                if self.by_group.val() {
                    self.n.d.next = self.group.q.val();
                }
                if ((self.k_direct.q.val() & (self.left.q.val() == 1))
                    & (self.room.q.val().any() & !self.s.q.val().busy))
                    & !self.s.q.val().dead
                {
                    self.hit.d.next = true;
                    self.n.d.next = 0.into();
                }
                self.state.d.next = FetchState::Ask;
            }
            FetchState::Ask => {
                self.rd_valid.next = self.go.val();
                if self.go.val() {
                    self.sw.next.fi = self.fi_next.val();
                    self.sw.next.busy = true;
                } else if self.want.val() & !self.s.q.val().wait {
                    self.sw.next.wait = true;
                    self.wait_tag.s_valid.next = true;
                }
                if self.put.val() {
                    self.sw.next.fi = self.x.q.val();
                    self.avail.we.next = true;
                    self.out_v.d.next = true;
                    self.out_d.d.next = self.out_w.val();
                }
                if (!self.go.val() | self.rd_ready.val()) & !self.stay.val() {
                    self.st.we.next = true;
                    self.ctx.we.next = self.go.val();
                    if !self.go.val() {
                        self.rd_mask.next = 0.into();
                    }
                    self.ctl_ack.d.next = self.answer.q.val();
                    self.state.d.next = FetchState::Idle;
                }
            }
        }
        self.tags.d.next = self.tags.q.val() & !self.free_mask.val();
        if self.st.we.val() & !self.init.val() {
            self.tags.d.next = self.tags.q.val() | self.rd_mask.val();
        }
        self.st.waddr.next = self.q.q.val().get_bits::<LQ>(0);
        self.st.wdata.next = self.sw.val();
        if self.init.val() {
            self.st.we.next = true;
            self.st.waddr.next = self.sweep_q.q.val();
            self.st.wdata.next = self.zero.val();
            self.una.we.next = true;
            self.una.waddr.next = self.sweep_q.q.val();
            self.una.wdata.next = 0.into();
            self.avail.we.next = true;
            self.avail.waddr.next = self.sweep_q.q.val();
            self.avail.wdata.next = 0.into();
            self.pi_copy.we.next = true;
            self.pi_copy.waddr.next = self.sweep_q.q.val();
            self.pi_copy.wdata.next = 0.into();
            self.cnt.we.next = true;
            self.cnt.waddr.next = bit_cast::<4, LQ>(self.sweep_q.q.val());
            self.cnt.wdata.next = 0.into();
        }

        // outside ports
        self.avail.raddr.next = self.avail_raddr.val();
        self.avail_rdata.next = self.avail.rdata.val();
        self.pi_copy.raddr.next = self.pi_raddr.val();
        self.pi_rdata.next = self.pi_copy.rdata.val();
        self.stamp.raddr.next = self.stamp_raddr.val();
        self.stamp_rdata.next = self.stamp.rdata.val();
        self.out_valid.next = self.out_v.q.val();
        self.out_data.next = self.out_d.q.val();
        self.flt_valid.next = self.flt_v.q.val();
        self.flt_data.next = self.flt_d.q.val();
        self.idle.next = (self.state.q.val() == FetchState::Idle)
            & !self.tags.q.val().any()
            & !self.done.m_valid.val()
            & !self.kick.m_valid.val()
            & !self.wait_tag.m_valid.val()
            & !self.sweep.q.val().any()
            & !self.f_v.q.val()
            & !self.out_v.q.val()
            & !self.flt_v.q.val();
        if self.rst.val() {
            self.state.d.next = FetchState::Init;
            self.sweep_q.d.next = 0.into();
            self.tags.d.next = 0.into();
            self.f_v.d.next = false;
            self.fwd_v.d.next = false;
            self.sweep.d.next = 0.into();
            self.turn.d.next = false;
            self.ctl_ack.d.next = false;
            self.out_v.d.next = false;
            self.flt_v.d.next = false;
        }
    }
}
