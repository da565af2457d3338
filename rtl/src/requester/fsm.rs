//! The FSM of the requester; states and rules are in the parent module.

use super::*;

impl<const LOG_QP: usize, const LOG_SQ: usize, const LOG_MR: usize> Logic
    for Requester<LOG_QP, LOG_SQ, LOG_MR>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, st, walk, ev, qp, was_rx, c, g, av, stp, r, wi, h, s, k2, k3);
        dff_setup!(self, clock, skip, rem, nleft, plen, left, last, first, fs, zl, all, mode);
        dff_setup!(
            self, clock, sh, mtub, opn, alone, ur, oa, ob, avd, step, wbad, szbad, lbad, sbad, one,
            l2bad, up, rz
        );
        dff_setup!(self, clock, swap, cmpl, cmph, ib);
        dff_setup!(self, clock, room, segva, off, lim, fl, ok, badr, kend, sum, sumok, seglen);
        dff_setup!(self, clock, segall, lstat, rd, acnt, act, re, need_free, prog, rw, setr, shut);
        dff_setup!(self, clock, unach, fw, fw_qp, fw_push, ip_v, ip_qp, tx_v, tx_d);
        dff_setup!(self, clock, sq_v, sq_d, er_v, er_d);
        dff_setup!(self, clock, e_retx, e_tmo, e_msg, e_drop, e_dqp, e_rnr, e_seq, e_fat);
        dff_setup!(self, clock, tdv, uv, uav, ua_v);
        clock!(self, clock, ram, sched, timer, tdq, pl);
        self.pl.rst.next = self.rst.val();
        self.tdq.rst.next = self.rst.val();
        self.tdq.s_valid.next = self.td_valid.val();
        self.tdq.s_data.next = self.td_qp.val();
        self.td_ready.next = self.tdq.s_ready.val();
        self.tdq.m_ready.next = false;

        // the context at hand, and what becomes of it
        self.x.next = self.c.q.val();
        self.n.next = self.c.q.val();
        self.zero.next = 0.into();
        self.wb.next = false;
        self.gg.next = self.g.q.val();
        self.hh.next = self.h.q.val();
        self.ss.next = self.s.q.val();
        self.rr.next = self.r.q.val();
        self.orig.next = self.rr.val().orig;
        self.rxp.next = self.rx_data.val();
        self.aeth.next = self.rxp.val().aeth;
        self.ct.next = self.ctl_data.val();
        self.sd.next = self.sched_data.val();
        self.mr.next = self.mrc_rdata.val();
        self.crd.next = self.ram.rdata.val();
        self.hlen.next = self.hh.val().length;
        self.hop.next = self.hh.val().opcode;

        // sizes of the path MTU, as the configuration arrives
        self.gn.next = self.cfg_rdata.val();
        match self.gn.val().mtu.index() {
            1 => self.sh_n.next = 8.into(),
            2 => self.sh_n.next = 9.into(),
            3 => self.sh_n.next = 10.into(),
            4 => self.sh_n.next = 11.into(),
            _ => self.sh_n.next = 12.into(),
        }
        self.mtub_n.next = bits::<13>(1) << self.sh_n.val();
        self.mtu32.next = bit_cast::<32, 13>(self.mtub.q.val());

        // time
        self.now10.next = self.now.val().get_bits::<38>(10);
        self.tmo_n.next = self.gg.val().timeout;
        self.tmo_on.next = self.tmo_n.val().any();
        self.tmo.next = (bits::<38>(4) << self.tmo_n.val()) | 1;
        self.tmo_at.next = self.now10.val() + self.tmo.val();
        self.late.next = self.now10.val() - self.x.val().tdl;
        self.syn.next = self.rr.val().syn;
        self.syn3.next = self.syn.val().get_bits::<3>(5);
        self.syn5.next = self.syn.val().get_bits::<5>(0);
        match self.syn5.val().index() {
            0 => self.rnr_n.next = 640001.into(),
            1 => self.rnr_n.next = 11.into(),
            2 => self.rnr_n.next = 21.into(),
            3 => self.rnr_n.next = 31.into(),
            4 => self.rnr_n.next = 41.into(),
            5 => self.rnr_n.next = 60.into(),
            6 => self.rnr_n.next = 80.into(),
            7 => self.rnr_n.next = 119.into(),
            8 => self.rnr_n.next = 158.into(),
            9 => self.rnr_n.next = 236.into(),
            10 => self.rnr_n.next = 314.into(),
            11 => self.rnr_n.next = 470.into(),
            12 => self.rnr_n.next = 626.into(),
            13 => self.rnr_n.next = 939.into(),
            14 => self.rnr_n.next = 1251.into(),
            15 => self.rnr_n.next = 1876.into(),
            16 => self.rnr_n.next = 2501.into(),
            17 => self.rnr_n.next = 3751.into(),
            18 => self.rnr_n.next = 5001.into(),
            19 => self.rnr_n.next = 7501.into(),
            20 => self.rnr_n.next = 10001.into(),
            21 => self.rnr_n.next = 15001.into(),
            22 => self.rnr_n.next = 20001.into(),
            23 => self.rnr_n.next = 30001.into(),
            24 => self.rnr_n.next = 40001.into(),
            25 => self.rnr_n.next = 60001.into(),
            26 => self.rnr_n.next = 80001.into(),
            27 => self.rnr_n.next = 120001.into(),
            28 => self.rnr_n.next = 160001.into(),
            29 => self.rnr_n.next = 240001.into(),
            30 => self.rnr_n.next = 320001.into(),
            _ => self.rnr_n.next = 480001.into(),
        }
        self.rnr_at.next = self.now10.val() + self.rnr_n.val();

        // where the QP stands, as the context arrives; all distances are counted from psn_una, so a READ of 2^23 packets is no special case
        self.urel.next = self.crd.val().psn_una - self.crd.val().una_first;
        self.used.next = self.crd.val().psn_next - self.crd.val().psn_una;
        self.used_hi.next = self.used.val().get_bits::<16>(8);
        self.out_a.next = self.crd.val().psn_max - self.crd.val().psn_una;
        self.out_b.next = self.crd.val().psn_max - self.crd.val().psn_next;
        // and now: `ur`, `oa` follow psn_una
        self.poff.next = bit_cast::<32, 24>(self.ur.q.val()) << self.sh.q.val();
        self.behind.next = self.oa.q.val() < self.ob.q.val();
        self.toff.next = self.x.val().tx_off;
        self.started.next = self.toff.val().any() | self.ob.q.val().any();
        self.more.next = self.x.val().wqe_next != self.av.q.val();
        self.alone.d.next = self.x.val().wqe_next == self.x.val().una;
        self.rts.next = self.gg.val().state == 3;
        self.sqd.next = self.gg.val().state == 4;

        // the WQE as it arrives
        self.su.next = self.slot_rdata.val().into();
        self.hraw.next = self.slot_rdata.val().get_bits::<256>(0);
        self.hw.next = self.hraw.val().into();
        self.wlen.next = self.hw.val().length;
        self.wlow.next = self.wlen.val().get_bits::<31>(0);
        self.idxok.next = self.hw.val().index == self.wi.q.val();
        self.unok.next = (self.hw.val().units != 0) & (self.hw.val().units < 6);
        self.nsge.next = self.hw.val().num_sge;
        match self.nsge.val().index() {
            0 => self.nraw.next = 1.into(),
            1 => self.nraw.next = 1.into(),
            2 => self.nraw.next = 1.into(),
            3 => self.nraw.next = 2.into(),
            4 => self.nraw.next = 2.into(),
            5 => self.nraw.next = 2.into(),
            6 => self.nraw.next = 2.into(),
            7 => self.nraw.next = 3.into(),
            8 => self.nraw.next = 3.into(),
            9 => self.nraw.next = 3.into(),
            10 => self.nraw.next = 3.into(),
            11 => self.nraw.next = 4.into(),
            12 => self.nraw.next = 4.into(),
            13 => self.nraw.next = 4.into(),
            14 => self.nraw.next = 4.into(),
            _ => self.nraw.next = 5.into(),
        }
        // the address vector is a unit of its own: the units must be more, not just enough
        self.few.next = self.nraw.val() > self.hw.val().units;
        if self.ud.val() {
            self.few.next = self.nraw.val() >= self.hw.val().units;
        }
        self.rc.next = self.gg.val().qp_type == 0;
        self.ud.next = self.gg.val().qp_type == 2;
        self.badty.next = self.gg.val().qp_type == 3;
        if self.ud.val() {
            self.badty.next = self.hw.val().opcode >= 2;
        } else if self.gg.val().qp_type == 1 {
            self.badty.next = (self.hw.val().opcode == 2)
                | ((self.hw.val().opcode >= 5) & (self.hw.val().opcode < 8));
        }
        self.wat.next = (self.hw.val().opcode == 6) | (self.hw.val().opcode == 7);
        self.watom.next = self.wat.val() & !self.no_atomics.val();
        self.wlocal.next = (self.hw.val().opcode == 8) | (self.hw.val().opcode == 9);
        self.winl.next = self.hw.val().inline;
        self.badin.next = (self.winl.val() & (self.hw.val().opcode > 4))
            | ((self.winl.val() | self.wlocal.val()) & (self.hw.val().num_sge != 0));
        self.badop.next = (((self.hw.val().opcode > 9) | self.badin.val())
            | (self.watom.val() & (self.hw.val().num_sge != 1)))
            | ((self.badty.val() | (self.wat.val() & self.no_atomics.val()))
                | (((self.hw.val().opcode == 5) | self.watom.val()) & (self.gg.val().max_rd == 0)));
        self.badsz.next = (!self.idxok.val() | !self.unok.val())
            | ((self.hw.val().num_sge > 16) | self.few.val());
        // in bits, not as a compare: a carry chain behind a block RAM is long
        self.over32.next = self.wlen.val().get_bits::<26>(6).any()
            | (self.wlen.val().get_bit(5) & self.wlen.val().get_bits::<5>(0).any());
        self.over4k.next = self.wlen.val().get_bits::<19>(13).any()
            | (self.wlen.val().get_bit(12) & self.wlen.val().get_bits::<12>(0).any());
        self.badlen.next = (self.wlen.val().get_bit(31) & self.wlow.val().any())
            | ((self.ud.val() & self.over4k.val()) | (self.winl.val() & self.over32.val()));
        self.badsum.next = (self.watom.val() & (self.wlen.val() != 8))
            | (((self.hw.val().num_sge == 0) & !self.winl.val()) & self.wlen.val().any());
        self.skip_n.next = self.poff.val();
        if self.ev.q.val() == 0 {
            self.skip_n.next = self.toff.val();
        }

        // the WQE at hand
        self.una2.next = self.x.val().una + bit_cast::<16, 3>(self.step.q.val());
        self.next2.next = self.x.val().wqe_next + bit_cast::<16, 3>(self.step.q.val());
        self.enough.next = self.avd.q.val() >= bit_cast::<16, 3>(self.step.q.val());
        self.isatom.next =
            ((self.hh.val().opcode == 6) | (self.hh.val().opcode == 7)) & !self.no_atomics.val();
        self.isread.next = (self.hh.val().opcode == 5) | self.isatom.val();
        self.islocal.next = (self.hh.val().opcode == 8) | (self.hh.val().opcode == 9);
        self.multi.next = self.hh.val().num_sge >= 2;

        // the SGE at hand and the next one
        self.k1.next = self.k2.q.val() - 1;
        self.kend_n.next = self.k1.val() == self.hh.val().num_sge;
        self.unit0.next = self.k3.q.val().get_bits::<3>(2);
        self.unit.next = self.unit0.val();
        // behind the address vector
        if self.ud.val() {
            match self.unit0.val().index() {
                0 => self.unit.next = 0.into(),
                1 => self.unit.next = 2.into(),
                2 => self.unit.next = 3.into(),
                3 => self.unit.next = 4.into(),
                _ => self.unit.next = 5.into(),
            }
        }
        self.pos.next = self.k3.q.val().get_bits::<2>(0);
        self.sidx.next = self.wi.q.val() + bit_cast::<16, 3>(self.unit.val());
        match self.pos.val().index() {
            0 => {
                self.nx.next.va = self.su.val().va0;
                self.nx.next.len = self.su.val().len0;
                self.nx.next.key = self.su.val().key0;
            }
            1 => {
                self.nx.next.va = self.su.val().va1;
                self.nx.next.len = self.su.val().len1;
                self.nx.next.key = self.su.val().key1;
            }
            2 => {
                self.nx.next.va = self.su.val().va2;
                self.nx.next.len = self.su.val().len2;
                self.nx.next.key = self.su.val().key2;
            }
            _ => {
                self.nx.next.va = self.su.val().va3;
                self.nx.next.len = self.su.val().len3;
                self.nx.next.key = self.su.val().key3;
            }
        }
        self.key.next = self.ss.val().key;
        self.room_n.next = self.ss.val().len - self.skip.q.val();
        self.left32.next = bit_cast::<32, 13>(self.left.q.val());

        // packets that the rest of the message takes, at least one
        self.remup.next = self.mtu32.val() - 1;
        self.remup.next = self.rem.q.val() + self.remup.val();
        self.npk.next = self.up.q.val() >> self.sh.q.val();
        self.npsn.next = bit_cast::<24, 32>(self.npk.val());
        if self.rz.q.val() {
            self.npsn.next = 1.into();
        }

        // the response at hand
        self.tag24.next = bit_cast::<24, 16>(self.gg.val().tag);
        self.rtag.next = self.rr.val().qpn >> self.k.log_qp.val();
        self.qpn.next =
            (self.tag24.val() << self.k.log_qp.val()) | bit_cast::<24, 12>(self.qp.q.val());
        self.isack.next = self.rr.val().opcode == 17;
        self.isresp.next = ((self.rr.val().opcode >= 13) & (self.rr.val().opcode <= 16))
            | (self.rr.val().opcode == 18);
        self.qok.next = ((self.rtag.val() == self.tag24.val()) & (self.gg.val().qp_type == 0))
            & ((self.rts.val() | self.sqd.val()) & (self.x.val().live & !self.x.val().err));
        self.acnt_n.next = self.acnt.q.val() - self.nleft.q.val();
        self.rd1.next = self.rd.q.val() + 1;
        self.psn_end.next = self.x.val().psn_una + self.nleft.q.val();
        self.wfirst.next = !self.ur.q.val().any();
        self.opok.next = self.rr.val().opcode == 14;
        if self.last.q.val() {
            self.opok.next =
                (self.rr.val().opcode == 16) | ((self.rr.val().opcode == 15) & !self.wfirst.val());
        } else if self.rr.val().opcode == 13 {
            self.opok.next = true;
        } else if self.wfirst.val() {
            self.opok.next = false;
        }
        if self.isatom.val() {
            self.opok.next = self.rr.val().opcode == 18;
        }

        // output registers
        self.txfree.next = !self.tx_v.q.val() | self.tx_ready.val();
        self.plfree.next = self.pl.s_ready.val();
        self.sqok.next = !self.sq_v.q.val() | self.sqfree_ready.val();
        self.erok.next = !self.er_v.q.val() | self.err_ready.val();
        if self.tx_ready.val() {
            self.tx_v.d.next = false;
        }
        if self.ua_ready.val() {
            self.ua_v.d.next = false;
        }
        if self.sqfree_ready.val() {
            self.sq_v.d.next = false;
        }
        if self.err_ready.val() {
            self.er_v.d.next = false;
        }
        self.e_retx.d.next = false;
        self.e_tmo.d.next = false;
        self.e_msg.d.next = false;
        self.e_drop.d.next = false;
        self.e_dqp.d.next = false;
        self.e_rnr.d.next = false;
        self.e_seq.d.next = false;
        self.e_fat.d.next = false;
        self.push.next = false;
        self.txp.next = false;
        self.plp.next = false;
        self.sqp.next = false;
        self.halt.next = false;
        self.size.next = false;
        self.walk1.next = false;
        self.jump.next = false;
        self.q.next.qp = self.qp.q.val();
        self.q.next.idx = 0.into();
        self.e.next.qp = self.qp.q.val();
        self.e.next.kind = 0.into();
        self.rx_ready.next = false;
        self.ctl_ready.next = false;
        self.done.next = false;
        self.cop.next = 0.into();

        // which event is next
        self.do_ctl.next = self.ctl_valid.val();
        self.other.next = self.timer.m_valid.val()
            | ((self.sched.m_valid.val() | self.ip_v.q.val()) & self.txfree.val());
        self.do_td.next = self.tdq.m_valid.val() & !self.do_ctl.val();
        self.do_rx.next = ((self.rx_valid.val() & self.plfree.val())
            & (!self.do_ctl.val() & !self.do_td.val()))
            & !(self.was_rx.q.val() & self.other.val());
        self.do_tmr.next = (self.timer.m_valid.val() & (!self.do_ctl.val() & !self.do_td.val()))
            & !self.do_rx.val();
        self.do_tx.next = (((self.sched.m_valid.val() | self.ip_v.q.val()) & self.txfree.val())
            & (!self.do_ctl.val() & !self.do_td.val()))
            & (!self.do_rx.val() & !self.do_tmr.val());
        self.take_ip.next = false;
        self.sched.m_ready.next = false;
        self.timer.m_ready.next = false;
        self.rqp.next = self.rxp.val().qpn & self.k.qp_mask.val();
        self.sel.next = self.qp.q.val();

        // the packet (or piece) to send
        self.pay.next = !self.isread.val() & !self.all.q.val();
        self.piece_all.next = self.all.q.val() | self.segall.q.val();
        self.em.next = (self.all.q.val()
            & ((self.kend.q.val() & self.sumok.q.val()) & (self.isread.val() | self.zl.q.val())))
            | (!self.all.q.val()
                & ((self.mode.q.val() == 2) | ((self.mode.q.val() == 0) & self.segall.q.val())));
        self.psn24.next = self.x.val().psn_next;
        self.psn_send.next = self.psn24.val() + self.nleft.q.val();
        self.psn4.next = self.psn24.val().get_bits::<4>(0);
        self.t.next.first = self.fs.q.val();
        self.t.next.last = self.piece_all.val();
        self.t.next.kind = 0.into();
        self.t.next.qp = self.qp.q.val();
        self.t.next.psn = self.x.val().psn_next;
        self.t.next.ackreq = self.rc.val() & (self.last.q.val() | self.psn4.val().all());
        self.t.next.se = (self.hh.val().solicited & self.last.q.val())
            & ((self.hh.val().opcode != 3) & !self.isread.val());
        self.t.next.ip6 = self.gg.val().ip6;
        self.t.next.vlan = self.gg.val().vlan;
        self.t.next.len = self.plen.q.val();
        self.t.next.va = self.hh.val().remote_va + bit_cast::<64, 32>(self.toff.val());
        self.t.next.rkey = self.hh.val().rkey;
        self.t.next.dlen = self.rem.q.val();
        self.t.next.imm = self.hh.val().imm;
        self.t.next.aeth = 0.into();
        self.t.next.resp = false;
        self.t.next.resp_end = !self.rc.val() & self.last.q.val();
        self.t.next.stamp = (bit_cast::<48, 12>(self.qp.q.val()) << 16)
            | (bit_cast::<48, 16>(self.x.val().wqe_next) | (bits::<48>(1) << 47));
        self.t.next.seg_mr = self.key.val().get_bits::<16>(8);
        self.t.next.seg_va = self.segva.q.val();
        self.t.next.seg_len = self.seglen.q.val();
        self.t.next.inl = self.hh.val().inline;
        self.t.next.idata = self.ib.q.val();
        if !self.pay.val() {
            self.t.next.seg_len = 0.into();
        }
        self.opx.next = 12.into();
        match self.hop.val().index() {
            0 => self.opx.next = 4.into(),
            1 => self.opx.next = 5.into(),
            2 => self.opx.next = 23.into(),
            3 => self.opx.next = 10.into(),
            4 => self.opx.next = 11.into(),
            6 => self.opx.next = 19.into(),
            7 => self.opx.next = 20.into(),
            _ => self.opx.next = 12.into(),
        }
        self.iswrite.next = (self.hh.val().opcode == 3) | (self.hh.val().opcode == 4);
        if self.isread.val() {
            self.t.next.len = 0.into();
        } else if !self.last.q.val() {
            // First, Middle
            self.opx.next = 1.into();
            if self.first.q.val() {
                self.opx.next = 0.into();
            }
            if self.iswrite.val() {
                self.opx.next = 7.into();
                if self.first.q.val() {
                    self.opx.next = 6.into();
                }
            }
        } else if !self.first.q.val() {
            // Last, plain, with immediate data, with invalidate
            match self.hop.val().index() {
                0 => self.opx.next = 2.into(),
                1 => self.opx.next = 3.into(),
                2 => self.opx.next = 22.into(),
                3 => self.opx.next = 8.into(),
                _ => self.opx.next = 9.into(),
            }
        }
        self.t.next.opcode = self.opx.val();
        self.ulive.next = self.uav.q.val();
        if self.uv.q.val() {
            self.ulive.next = self.slot_rdata.val().get_bits::<309>(0);
        }
        self.uav.d.next = self.ulive.val();
        self.uv.d.next = false;
        if self.gg.val().qp_type == 1 {
            self.t.next.opcode = self.opx.val() | bits::<8>(32);
        } else if self.ud.val() {
            self.t.next.opcode = self.opx.val() | bits::<8>(96);
            self.t.next.dlen = bit_cast::<32, 24>(self.qpn.val());
            self.t.next.ip6 = self.ulive.val().get_bit(308);
            self.t.next.vlan = self.ulive.val().get_bit(303);
        }
        if self.isatom.val() {
            self.t.next.seg_va = self.swap.q.val();
            self.t.next.imm = self.cmpl.q.val();
            self.t.next.dlen = self.cmph.q.val();
        }

        // the placement job: a CQE of the WQE at una unless a state says otherwise
        self.j.next.kind = 2.into();
        self.j.next.free = false;
        self.j.next.slot = self.rr.val().slot;
        self.j.next.mr = self.key.val().get_bits::<16>(8);
        self.j.next.va = self.segva.q.val();
        self.j.next.len = self.seglen.q.val();
        self.j.next.src = self.rr.val().src;
        self.j.next.stamp = self.stp.q.val();
        self.j.next.cq = self.gg.val().scq;
        self.j.next.qpn = self.qpn.val();
        self.j.next.opcode = self.hh.val().opcode;
        self.j.next.index = self.x.val().una;
        self.j.next.status = 0.into();
        self.j.next.is_recv = false;
        self.j.next.with_imm = false;
        self.j.next.with_inv = false;
        self.j.next.grh = false;
        self.j.next.solicited = false;
        self.j.next.length = self.hlen.val();
        self.j.next.imm = 0.into();
        self.j.next.inl = false;

        // addresses: the SGE at hand, and the unit of the next one
        self.mkey.next = self.key.val();
        self.ipok.next = !self.ip_v.q.val() | self.sched.i_ready.val();

        match self.st.q.val() {
            St::Init => {
                self.n.next = self.zero.val().into();
                self.wb.next = true;
                self.walk.d.next = self.walk.q.val() + 1;
                if self.walk.q.val().all() {
                    self.st.d.next = St::Idle;
                }
            }
            St::Idle => {
                self.re.d.next = false;
                self.need_free.d.next = false;
                self.prog.d.next = false;
                self.rw.d.next = false;
                self.setr.d.next = false;
                self.shut.d.next = false;
                self.unach.d.next = false;
                self.st.d.next = St::Load;
                self.tdv.d.next = false;
                if self.do_ctl.val() {
                    self.sel.next = self.ct.val().qp;
                    self.ev.d.next = 3.into();
                } else if self.do_td.val() {
                    self.tdq.m_ready.next = true;
                    self.tdv.d.next = true;
                    self.sel.next = self.tdq.m_data.val();
                    self.ev.d.next = 2.into();
                } else if self.do_rx.val() {
                    self.rx_ready.next = true;
                    self.was_rx.d.next = true;
                    self.need_free.d.next = true;
                    self.sel.next = bit_cast::<12, 24>(self.rqp.val());
                    self.ev.d.next = 1.into();
                    self.rr.next.opcode = self.rxp.val().opcode;
                    self.rr.next.qpn = self.rxp.val().qpn;
                    self.rr.next.psn = self.rxp.val().psn;
                    self.rr.next.syn = self.aeth.val().get_bits::<8>(24);
                    self.rr.next.src = self.rxp.val().src;
                    self.rr.next.len = self.rxp.val().len;
                    self.rr.next.slot = self.rxp.val().slot;
                    self.rr.next.stamp = self.rxp.val().stamp;
                    self.rr.next.orig = self.rxp.val().va;
                    self.r.d.next = self.rr.val();
                } else if self.do_tmr.val() {
                    self.was_rx.d.next = false;
                    self.timer.m_ready.next = true;
                    self.sel.next = self.timer.m_qp.val();
                    self.ev.d.next = 2.into();
                } else if self.do_tx.val() {
                    self.was_rx.d.next = false;
                    self.ev.d.next = 0.into();
                    if self.sched.m_valid.val() {
                        self.sched.m_ready.next = true;
                        self.sel.next = self.sched.m_qp.val();
                    } else {
                        self.take_ip.next = true;
                        self.sel.next = self.ip_qp.q.val();
                        self.ip_v.d.next = false;
                    }
                } else {
                    self.st.d.next = St::Idle;
                }
            }
            St::Load => {
                self.n.next = self.crd.val();
                self.g.d.next = self.gn.val();
                self.sh.d.next = self.sh_n.val();
                self.mtub.d.next = self.mtub_n.val();
                self.ur.d.next = self.urel.val();
                self.oa.d.next = self.out_a.val();
                self.ob.d.next = self.out_b.val();
                self.opn.d.next = !self.used_hi.val().any();
                self.av.d.next = self.avail_rdata.val();
                self.stp.d.next = self.stamp_rdata.val();
                self.sidx.next = self.crd.val().una;
                if (self.ev.q.val() == 0) & !self.crd.val().err {
                    self.sidx.next = self.crd.val().wqe_next;
                }
                self.wi.d.next = self.sidx.val();
                self.st.d.next = St::Hdr;
                if self.ev.q.val() == 3 {
                    self.st.d.next = St::Ctl;
                }
            }
            St::Hdr => {
                self.h.d.next = self.hw.val();
                self.swap.d.next = self.su.val().va3;
                self.cmpl.d.next = self.su.val().len3;
                self.cmph.d.next = self.su.val().key3;
                self.ib.d.next = self.slot_rdata.val().get_bits::<256>(256);
                self.nx.next.va = self.su.val().va2;
                self.nx.next.len = self.su.val().len2;
                self.nx.next.key = self.su.val().key2;
                self.s.d.next = self.nx.val();
                self.mkey.next = self.nx.val().key;
                self.k2.d.next = 2.into();
                self.k3.d.next = 3.into();
                self.wbad.d.next = self.badop.val();
                self.szbad.d.next = self.badsz.val();
                self.lbad.d.next = self.badlen.val();
                self.sbad.d.next = self.badsum.val();
                self.one.d.next = self.hw.val().num_sge == 1;
                self.l2bad.d.next = self.su.val().len2 != self.wlen.val();
                self.step.d.next = 1.into();
                if self.idxok.val() & self.unok.val() {
                    self.step.d.next = self.hw.val().units;
                }
                self.avd.d.next = self.av.q.val() - self.wi.q.val();
                self.rd.d.next = self.rr.val().psn - self.x.val().psn_una;
                self.skip.d.next = self.skip_n.val();
                self.rem.d.next = self.wlen.val() - self.skip_n.val();
                self.first.d.next = !self.skip_n.val().any();
                self.zl.d.next = !self.wlen.val().any();
                match self.ev.q.val().index() {
                    0 => {
                        self.st.d.next = St::Idle;
                        if (self.fw.q.val() == 2) & (self.fw_qp.q.val() == self.qp.q.val()) {
                            self.fw.d.next = 0.into();
                            self.n.next.dirty = false;
                        }
                        if self.x.val().err {
                            self.st.d.next = St::Flush;
                        } else if ((self.x.val().live & !self.x.val().rnr_wait)
                            & (self.opn.q.val() & (self.wi.q.val() != self.av.q.val())))
                            & (self.rts.val() | (self.sqd.val() & self.started.val()))
                        {
                            self.st.d.next = St::TxPrep;
                        }
                    }
                    1 => self.st.d.next = St::RxPrep,
                    _ => {
                        self.st.d.next = St::Tmr;
                        if self.tdv.q.val() {
                            self.st.d.next = St::RdC;
                            if (self.x.val().err | !self.x.val().live)
                                | (self.x.val().una == self.x.val().wqe_next)
                            {
                                self.st.d.next = St::Idle;
                            }
                        }
                    }
                }
            }
            St::TxPrep => {
                self.size.next = true;
                self.walk1.next = true;
                self.fs.d.next = true;
                self.mode.d.next = 0.into();
                self.all.d.next = false;
                self.sum.d.next = bit_cast::<36, 32>(self.ss.val().len);
                self.st.d.next = St::Chk;
                if !self.enough.val() {
                    // a bad WQE may say that it has more units than were posted: it ends with them
                    self.step.d.next = self.avd.q.val().get_bits::<3>(0);
                }
                if self.wbad.q.val() | self.szbad.q.val() {
                    self.lstat.d.next = 2.into();
                    self.st.d.next = St::Lerr;
                } else if (self.lbad.q.val() | self.sbad.q.val())
                    | (self.one.q.val() & self.l2bad.q.val())
                {
                    self.lstat.d.next = 1.into();
                    self.st.d.next = St::Lerr;
                } else if (!self.enough.val() | (self.islocal.val() & !self.alone.q.val()))
                    | (self.isread.val() & (self.x.val().rd_out >= self.gg.val().max_rd))
                {
                    self.st.d.next = St::Idle;
                } else if self.hh.val().fence & (self.x.val().rd_out != 0) {
                    self.st.d.next = St::Idle;
                } else if self.hh.val().fence & self.x.val().dirty {
                    self.st.d.next = St::Idle;
                    if self.fw.q.val() == 0 {
                        if self.plfree.val() {
                            self.j.next.kind = 3.into();
                            self.j.next.slot = 1.into();
                            self.plp.next = true;
                            self.fw.d.next = 1.into();
                            self.fw_qp.d.next = self.qp.q.val();
                        } else {
                            self.st.d.next = St::TxPrep;
                        }
                    } else if self.fw_qp.q.val() != self.qp.q.val() {
                        // the token is away for another QP
                        if self.ipok.val() {
                            self.push.next = true;
                        } else {
                            self.st.d.next = St::TxPrep;
                        }
                    }
                } else if self.islocal.val() {
                    self.st.d.next = St::Win;
                } else if (self.multi.val() & self.first.q.val())
                    | (self.isread.val() & !self.zl.q.val())
                {
                    self.all.d.next = true;
                    self.mode.d.next = 1.into();
                } else if !self.zl.q.val() & !self.hh.val().inline {
                    self.jump.next = true;
                }
            }
            St::RxPrep => {
                self.size.next = true;
                self.walk1.next = true;
                self.shut.d.next = !self.opn.q.val() | self.shut.q.val();
                self.mode.d.next = 0.into();
                self.all.d.next = false;
                if self.re.q.val() {
                    self.st.d.next = St::RxB;
                } else if !self.qok.val() {
                    self.e_dqp.d.next = true;
                    self.st.d.next = St::Drop;
                } else if self.rd.q.val() >= self.oa.q.val() {
                    self.e_drop.d.next = true;
                    self.st.d.next = St::Drop;
                } else if self.isresp.val() {
                    self.acnt.d.next = self.rd.q.val();
                    self.act.d.next = 4.into();
                    self.st.d.next = St::RxB;
                    if !self.rd.q.val().any() & self.isread.val() {
                        self.st.d.next = St::Chk;
                        self.jump.next = !self.zl.q.val();
                    }
                } else {
                    self.acnt.d.next = self.rd.q.val();
                    self.st.d.next = St::Drop;
                    if self.isack.val() {
                        if self.syn3.val() == 0 {
                            self.acnt.d.next = self.rd1.val();
                            self.act.d.next = 0.into();
                            self.st.d.next = St::RxB;
                        } else if self.syn3.val() == 1 {
                            self.e_rnr.d.next = true;
                            self.act.d.next = 1.into();
                            self.st.d.next = St::RxB;
                        } else if (self.syn3.val() == 3) & (self.syn5.val() == 0) {
                            self.e_seq.d.next = true;
                            self.act.d.next = 2.into();
                            self.st.d.next = St::RxB;
                        } else if (self.syn3.val() == 3) & (self.syn5.val() < 4) {
                            self.e_fat.d.next = true;
                            self.act.d.next = 3.into();
                            self.st.d.next = St::RxB;
                        } else {
                            self.e_drop.d.next = true;
                        }
                    } else {
                        self.e_drop.d.next = true;
                    }
                }
            }
            St::Walk => {
                self.walk1.next = true;
                self.st.d.next = St::Chk;
                if self.all.q.val() {
                    self.sum.d.next = self.sum.q.val() + bit_cast::<36, 32>(self.ss.val().len);
                } else {
                    self.jump.next = true;
                }
            }
            St::Chk => {
                if self.ud.val() {
                    self.sidx.next = self.wi.q.val() + 1;
                    self.uv.d.next = true;
                }
                self.segall.d.next = self.room.q.val() >= self.left32.val();
                self.seglen.d.next = self.left.q.val();
                if self.room.q.val() < self.left32.val() {
                    self.seglen.d.next = bit_cast::<13, 32>(self.room.q.val());
                }
                self.ok.d.next = (self.zl.q.val() | (self.all.q.val() & (self.ss.val().len == 0)))
                    | ((self.fl.q.val() & !self.lim.q.val().get_bit(64))
                        & (self.off.q.val() <= self.lim.q.val().get_bits::<64>(0)));
                self.sumok.d.next = self.sum.q.val() == bit_cast::<36, 32>(self.hlen.val());
                self.nleft.d.next = 1.into();
                if self.isread.val() {
                    self.nleft.d.next = self.npsn.val();
                }
                self.badr.d.next = !self.opok.val()
                    | (!self.isatom.val() & (self.rr.val().len != self.plen.q.val()));
                if self.zl.q.val() {
                    self.seglen.d.next = 0.into();
                    self.segall.d.next = true;
                } else if self.hh.val().inline {
                    // no SGE; a packet holds it all
                    self.seglen.d.next = self.left.q.val();
                    self.segall.d.next = true;
                    self.ok.d.next = true;
                }
                self.st.d.next = St::Emit;
            }
            St::Emit => {
                if self.ev.q.val() == 1 {
                    if self.badr.q.val() {
                        self.lstat.d.next = 7.into();
                        self.st.d.next = St::Fail;
                    } else if !self.ok.q.val() {
                        self.lstat.d.next = 4.into();
                        self.st.d.next = St::Fail;
                    } else if self.plfree.val() {
                        self.plp.next = true;
                        self.j.next.kind = 1.into();
                        if self.zl.q.val() {
                            self.j.next.kind = 0.into();
                        }
                        if self.isatom.val() {
                            self.j.next.inl = true;
                            self.j.next.src = 0.into();
                            self.j.next.length = self.orig.val().get_bits::<32>(0);
                            self.j.next.imm = self.orig.val().get_bits::<32>(32);
                        }
                        self.j.next.free = self.segall.q.val();
                        self.j.next.stamp = self.rr.val().stamp;
                        self.rr.next.src =
                            self.rr.val().src + bit_cast::<20, 13>(self.seglen.q.val());
                        self.r.d.next = self.rr.val();
                        self.left.d.next = self.left.q.val() - self.seglen.q.val();
                        self.skip.d.next = 0.into();
                        self.n.next.dirty = self.x.val().dirty | !self.zl.q.val();
                        if self.segall.q.val() {
                            self.need_free.d.next = false;
                            self.prog.d.next = true;
                            self.n.next.psn_una = self.x.val().psn_una + 1;
                            self.ur.d.next = self.ur.q.val() + 1;
                            self.oa.d.next = self.oa.q.val() - 1;
                            self.n.next.retry = 0.into();
                            self.n.next.rnr = 0.into();
                            self.n.next.gap = false;
                            self.st.d.next = St::Fin;
                            if self.last.q.val() {
                                self.st.d.next = St::RdC;
                            }
                        } else if self.kend.q.val() {
                            self.lstat.d.next = 1.into();
                            self.st.d.next = St::Fail;
                        } else {
                            self.st.d.next = St::Nxt;
                        }
                    }
                } else if !self.ok.q.val() & (self.mode.q.val() != 2) {
                    self.lstat.d.next = 4.into();
                    self.st.d.next = St::Lerr;
                } else if self.em.val() {
                    if (self.txfree.val() & (self.ipok.val() | !self.piece_all.val()))
                        & !(self.ud.val() & self.ua_v.q.val())
                    {
                        self.txp.next = true;
                        if self.fs.q.val() & self.ud.val() {
                            self.ua_v.d.next = true;
                        }
                        self.fs.d.next = false;
                        self.left.d.next = self.left.q.val() - self.seglen.q.val();
                        self.skip.d.next = 0.into();
                        self.st.d.next = St::Nxt;
                        if self.piece_all.val() {
                            self.st.d.next = St::Idle;
                            self.wb.next = true;
                            self.push.next = true;
                            self.e_retx.d.next = self.ob.q.val().any();
                            self.n.next.psn_next = self.psn_send.val();
                            self.n.next.tx_off = self.toff.val() + self.mtu32.val();
                            if self.isread.val() {
                                self.n.next.rd_out = self.x.val().rd_out + 1;
                            }
                            if self.isread.val() | self.last.q.val() {
                                self.n.next.tx_off = 0.into();
                                self.n.next.wqe_next = self.next2.val();
                            }
                            if !self.ob.q.val().any() {
                                self.n.next.psn_max = self.psn_send.val();
                            }
                            if !self.rc.val() {
                                self.n.next.psn_una = self.psn_send.val();
                            }
                            if !self.x.val().tv {
                                self.n.next.tv = self.tmo_on.val() & self.rc.val();
                                self.n.next.tdl = self.tmo_at.val();
                            }
                        }
                    }
                } else if self.all.q.val() {
                    // the whole list is checked before the first packet
                    self.skip.d.next = 0.into();
                    self.st.d.next = St::Nxt;
                    if self.kend.q.val() {
                        self.all.d.next = false;
                        self.mode.d.next = 2.into();
                        self.st.d.next = St::Rst;
                        if !self.sumok.q.val() {
                            self.lstat.d.next = 1.into();
                            self.st.d.next = St::Lerr;
                        }
                    }
                } else {
                    // the SGEs of this packet are checked before its first piece
                    self.mode.d.next = 1.into();
                    self.left.d.next = self.left.q.val() - self.seglen.q.val();
                    self.skip.d.next = 0.into();
                    self.st.d.next = St::Nxt;
                    if self.segall.q.val() {
                        self.mode.d.next = 2.into();
                        self.st.d.next = St::Rst;
                    } else if self.kend.q.val() {
                        self.lstat.d.next = 1.into();
                        self.st.d.next = St::Lerr;
                    }
                }
            }
            St::Win => {
                self.lstat.d.next = 6.into();
                if self.win_done.val() {
                    self.st.d.next = St::Lerr;
                    if self.win_ok.val() {
                        self.n.next.wqe_next = self.next2.val();
                        self.st.d.next = St::RdC;
                    }
                }
            }
            St::Rst => {
                self.sidx.next = self.wi.q.val();
                self.k2.d.next = 1.into();
                self.k3.d.next = 2.into();
                self.skip.d.next = self.toff.val();
                self.left.d.next = self.plen.q.val();
                self.st.d.next = St::Nxt;
            }
            St::Nxt => {
                self.s.d.next = self.nx.val();
                self.mkey.next = self.nx.val().key;
                self.k2.d.next = self.k3.q.val();
                self.k3.d.next = self.k3.q.val() + 1;
                self.st.d.next = St::Walk;
            }
            St::Lerr => {
                self.st.d.next = St::Idle;
                if (self.ev.q.val() == 1) | (self.x.val().una == self.x.val().wqe_next) {
                    self.st.d.next = St::Fail;
                }
            }
            St::RxB => {
                self.nleft.d.next = self.npsn.val();
                if self.need_free.q.val() & (self.act.q.val() != 4) {
                    if self.plfree.val() {
                        self.plp.next = true;
                        self.j.next.kind = 0.into();
                        self.j.next.free = true;
                        self.need_free.d.next = false;
                        self.st.d.next = St::Comp;
                    }
                } else {
                    self.st.d.next = St::Comp;
                }
            }
            St::Comp => {
                if !self.acnt.q.val().any() {
                    self.st.d.next = St::Act;
                } else if self.isread.val() {
                    self.st.d.next = St::Gap;
                } else {
                    self.n.next.retry = 0.into();
                    self.n.next.rnr = 0.into();
                    self.n.next.gap = false;
                    self.prog.d.next = true;
                    if self.acnt.q.val() < self.nleft.q.val() {
                        self.n.next.psn_una = self.x.val().psn_una + self.acnt.q.val();
                        self.ur.d.next = self.ur.q.val() + self.acnt.q.val();
                        self.oa.d.next = self.oa.q.val() - self.acnt.q.val();
                        self.acnt.d.next = 0.into();
                        self.st.d.next = St::Act;
                    } else if self.plfree.val() | !self.hh.val().signaled {
                        self.plp.next = self.hh.val().signaled;
                        self.e_msg.d.next = true;
                        self.n.next.una = self.una2.val();
                        self.n.next.una_first = self.psn_end.val();
                        self.n.next.psn_una = self.psn_end.val();
                        self.ur.d.next = 0.into();
                        self.oa.d.next = self.oa.q.val() - self.nleft.q.val();
                        self.unach.d.next = true;
                        self.re.d.next = true;
                        self.acnt.d.next = self.acnt_n.val();
                        self.wi.d.next = self.una2.val();
                        self.sidx.next = self.una2.val();
                        self.st.d.next = St::Hdr;
                        if (self.acnt.q.val() == self.nleft.q.val()) & (self.act.q.val() == 0) {
                            self.st.d.next = St::Fin;
                        }
                    }
                }
            }
            St::Act => {
                self.st.d.next = St::Fin;
                match self.act.q.val().index() {
                    1 => {
                        if !self.x.val().rnr_wait {
                            if (self.gg.val().rnr_retry != 7)
                                & (self.x.val().rnr >= self.gg.val().rnr_retry)
                            {
                                self.lstat.d.next = 13.into();
                                self.st.d.next = St::Fail;
                            } else {
                                if self.gg.val().rnr_retry != 7 {
                                    self.n.next.rnr = self.x.val().rnr + 1;
                                }
                                self.n.next.rnr_wait = true;
                                self.rw.d.next = true;
                                self.setr.d.next = true;
                            }
                        }
                    }
                    2 => {
                        if !self.x.val().rnr_wait & (self.oa.q.val() != self.ob.q.val()) {
                            self.rw.d.next = true;
                            self.n.next.retry = self.x.val().retry + 1;
                            if self.x.val().retry >= self.gg.val().retry_cnt {
                                self.lstat.d.next = 12.into();
                                self.st.d.next = St::Fail;
                            }
                        }
                    }
                    3 => {
                        // 0x61 .. 0x63 are REM_INV_REQ, REM_ACCESS, REM_OP
                        self.lstat.d.next = bit_cast::<8, 5>(self.syn5.val()) + 8;
                        self.st.d.next = St::Fail;
                    }
                    4 => {
                        if self.isread.val() {
                            self.st.d.next = St::Walk;
                            if self.zl.q.val() {
                                self.st.d.next = St::Chk;
                            }
                        }
                    }
                    _ => self.st.d.next = St::Fin,
                }
            }
            St::Gap => {
                self.st.d.next = St::Fin;
                if !self.x.val().gap & !self.x.val().rnr_wait {
                    self.n.next.gap = true;
                    self.n.next.retry = self.x.val().retry + 1;
                    self.rw.d.next = true;
                    if self.x.val().retry >= self.gg.val().retry_cnt {
                        self.lstat.d.next = 12.into();
                        self.st.d.next = St::Fail;
                    }
                }
            }
            St::RdC => {
                if self.plfree.val() | !self.hh.val().signaled {
                    self.plp.next = self.hh.val().signaled;
                    self.e_msg.d.next = true;
                    self.n.next.una = self.una2.val();
                    self.n.next.una_first = self.x.val().psn_una;
                    self.ur.d.next = 0.into();
                    if self.x.val().rd_out != 0 {
                        self.n.next.rd_out = self.x.val().rd_out - 1;
                    }
                    self.unach.d.next = true;
                    self.st.d.next = St::Fin;
                }
            }
            St::Fin => {
                if self.need_free.q.val() {
                    if self.plfree.val() {
                        self.plp.next = true;
                        self.j.next.kind = 0.into();
                        self.j.next.free = true;
                        self.need_free.d.next = false;
                        self.e_drop.d.next = true;
                    }
                } else if self.sqok.val() & self.ipok.val() {
                    if self.rw.q.val() | self.behind.val() {
                        self.n.next.wqe_next = self.x.val().una;
                        self.n.next.psn_next = self.x.val().psn_una;
                        self.n.next.tx_off = self.poff.val();
                        self.n.next.rd_out = 0.into();
                    }
                    if !self.oa.q.val().any() {
                        self.n.next.tv = false;
                        self.n.next.rnr_wait = false;
                    } else if self.setr.q.val() {
                        self.n.next.tv = true;
                        self.n.next.tdl = self.rnr_at.val();
                    } else if (self.prog.q.val() | self.rw.q.val()) & !self.x.val().rnr_wait {
                        self.n.next.tv = self.tmo_on.val();
                        self.n.next.tdl = self.tmo_at.val();
                    }
                    self.sqp.next = self.unach.q.val();
                    // no visit is needed when all WQEs are sent: the next one comes with an event of its own
                    self.push.next = (self.rw.q.val() | self.behind.val())
                        | ((self.unach.q.val() | self.shut.q.val()) & self.more.val());
                    self.wb.next = true;
                    self.st.d.next = St::Idle;
                }
            }
            St::Drop => {
                if self.plfree.val() {
                    self.plp.next = true;
                    self.j.next.kind = 0.into();
                    self.j.next.free = true;
                    self.st.d.next = St::Idle;
                }
            }
            St::Fail => {
                if self.need_free.q.val() {
                    if self.plfree.val() {
                        self.plp.next = true;
                        self.j.next.kind = 0.into();
                        self.j.next.free = true;
                        self.need_free.d.next = false;
                    }
                } else if (self.plfree.val() & self.erok.val())
                    & (self.sqok.val() & self.ipok.val())
                {
                    self.plp.next = true;
                    self.j.next.status = self.lstat.q.val();
                    self.er_v.d.next = true;
                    self.er_d.d.next = self.e.val();
                    self.n.next.err = true;
                    self.n.next.fstat = 0.into();
                    self.halt.next = true;
                    self.n.next.una = self.una2.val();
                    self.n.next.wqe_next = self.una2.val();
                    self.sqp.next = true;
                    self.push.next = true;
                    self.wb.next = true;
                    self.st.d.next = St::Idle;
                }
            }
            St::Flush => {
                self.st.d.next = St::Idle;
                if (self.wi.q.val() != self.av.q.val()) & self.enough.val() {
                    self.st.d.next = St::Flush;
                    if self.plfree.val() & (self.sqok.val() & self.ipok.val()) {
                        self.plp.next = true;
                        self.j.next.status = self.x.val().fstat;
                        if self.x.val().fstat == 0 {
                            self.j.next.status = 5.into();
                        }
                        self.n.next.fstat = 0.into();
                        self.n.next.una = self.una2.val();
                        self.n.next.wqe_next = self.una2.val();
                        self.sqp.next = true;
                        self.push.next = true;
                        self.wb.next = true;
                        self.st.d.next = St::Idle;
                    }
                }
            }
            St::Tmr => {
                self.st.d.next = St::Idle;
                if (self.x.val().tv & !self.late.val().get_bit(37)) & !self.x.val().err {
                    if !(self.rts.val() | self.sqd.val()) {
                        self.n.next.tv = false;
                        self.wb.next = true;
                    } else if self.x.val().rnr_wait {
                        self.n.next.rnr_wait = false;
                        self.n.next.tv = self.tmo_on.val();
                        self.n.next.tdl = self.tmo_at.val();
                        self.wb.next = self.ipok.val();
                        self.push.next = self.ipok.val();
                        if !self.ipok.val() {
                            self.n.next = self.c.q.val();
                            self.st.d.next = St::Tmr;
                        }
                    } else {
                        self.e_tmo.d.next = true;
                        self.n.next.retry = self.x.val().retry + 1;
                        self.n.next.gap = false;
                        self.rw.d.next = true;
                        self.st.d.next = St::Fin;
                        if self.x.val().retry >= self.gg.val().retry_cnt {
                            self.lstat.d.next = 12.into();
                            self.st.d.next = St::Fail;
                        }
                    }
                }
            }
            _ => {
                // Ctl
                self.cop.next = self.ct.val().op;
                self.done.next = self.ipok.val();
                match self.cop.val().index() {
                    0 => {
                        self.n.next = self.zero.val().into();
                        self.wb.next = true;
                    }
                    1 => {
                        self.n.next.live = true;
                        self.n.next.una_first = self.ct.val().psn;
                        self.n.next.psn_una = self.ct.val().psn;
                        self.n.next.psn_next = self.ct.val().psn;
                        self.n.next.psn_max = self.ct.val().psn;
                        self.wb.next = true;
                        self.push.next = true;
                    }
                    2 => {
                        if !self.x.val().err {
                            self.n.next.err = true;
                            self.n.next.fstat = 0.into();
                            if self.x.val().una != self.av.q.val() {
                                self.n.next.fstat = self.ct.val().status;
                            }
                            self.n.next.wqe_next = self.x.val().una;
                            self.halt.next = true;
                            self.wb.next = true;
                        }
                        self.push.next = true;
                    }
                    3 => {
                        self.done.next = self.plfree.val() & self.txfree.val();
                        self.t.next.kind = 1.into();
                        self.t.next.first = true;
                        self.t.next.last = true;
                        self.t.next.len = 0.into();
                        self.t.next.seg_len = 0.into();
                        self.j.next.kind = 3.into();
                        self.j.next.slot = 0.into();
                        self.txp.next = self.plfree.val() & self.txfree.val();
                        self.plp.next = self.plfree.val() & self.txfree.val();
                    }
                    5 => self.push.next = true,
                    _ => self.push.next = false,
                }
                self.st.d.next = St::Idle;
                self.ctl_ready.next = self.done.val();
                if !self.done.val() {
                    self.push.next = false;
                    self.wb.next = false;
                    self.n.next = self.c.q.val();
                    self.halt.next = false;
                    self.st.d.next = St::Ctl;
                }
            }
        }

        // sizes of the packet at hand
        if self.size.val() {
            self.up.d.next = self.remup.val();
            self.rz.d.next = !self.rem.q.val().any();
            self.last.d.next = true;
            self.plen.d.next = bit_cast::<13, 32>(self.rem.q.val());
            self.left.d.next = bit_cast::<13, 32>(self.rem.q.val());
            if self.rem.q.val() > self.mtu32.val() {
                self.last.d.next = false;
                self.plen.d.next = self.mtub.q.val();
                self.left.d.next = self.mtub.q.val();
            }
        }
        // the SGE at hand: where the payload position falls, and the numbers of the check of its memory region
        if self.walk1.val() {
            self.room.d.next = self.room_n.val();
            self.segva.d.next = self.ss.val().va + bit_cast::<64, 32>(self.skip.q.val());
            self.off.d.next = self.ss.val().va - self.mr.val().va;
            self.lim.d.next =
                bit_cast::<65, 48>(self.mr.val().len) - bit_cast::<65, 32>(self.ss.val().len);
            self.fl.d.next = (((self.mr.val().valid & !self.mr.val().window)
                & (self.mr.val().local_write | !self.isread.val()))
                & (self.mr.val().variant == self.key.val().get_bits::<8>(0)))
                & ((self.mr.val().pd == self.gg.val().pd)
                    & ((self.key.val() & self.k.key_high.val()) == 0));
            self.kend.d.next = self.kend_n.val();
        }
        if self.jump.val() & (self.skip.q.val() >= self.ss.val().len) {
            self.skip.d.next = self.skip.q.val() - self.ss.val().len;
            self.st.d.next = St::Nxt;
            if self.kend_n.val() {
                // more payload than SGEs
                self.lstat.d.next = 1.into();
                self.st.d.next = St::Lerr;
            }
        }

        // the fence token is back: its QP goes to the queue (in states where no push is possible)
        if (self.fw_push.q.val() & !self.ip_v.q.val())
            & ((self.st.q.val() == St::Idle) | (self.st.q.val() == St::Load))
        {
            self.ip_v.d.next = true;
            self.ip_qp.d.next = self.fw_qp.q.val();
            self.fw_push.d.next = false;
        }

        // in ERR nothing is outstanding any more
        if self.halt.val() {
            self.n.next.psn_una = self.x.val().psn_max;
            self.n.next.psn_next = self.x.val().psn_max;
            self.n.next.una_first = self.x.val().psn_max;
            self.n.next.tx_off = 0.into();
            self.n.next.rd_out = 0.into();
            self.n.next.tv = false;
            self.n.next.rnr_wait = false;
        }
        self.c.d.next = self.n.val();
        self.wa.next = bit_cast::<LOG_QP, 12>(self.qp.q.val());
        if self.st.q.val() == St::Init {
            self.wa.next = self.walk.q.val();
        }
        self.ram.we.next = self.wb.val();
        self.ram.waddr.next = self.wa.val();
        self.ram.wdata.next = self.n.val();
        self.timer.rst.next = self.rst.val();
        self.timer.now.next = self.now10.val();
        self.timer.we.next = self.wb.val();
        self.timer.qp.next = self.wa.val();
        self.timer.on.next = self.n.val().tv;
        self.timer.at.next = self.n.val().tdl;

        // table addresses
        self.qp.d.next = self.sel.val();
        self.ram.raddr.next = bit_cast::<LOG_QP, 12>(self.sel.val());
        self.cfg_raddr.next = self.sel.val();
        self.avail_raddr.next = self.sel.val();
        self.stamp_raddr.next = self.sel.val();
        self.mrc_raddr.next = self.mkey.val().get_bits::<16>(8);
        self.slot_raddr.next = (bit_cast::<16, 12>(self.qp.q.val()) << self.k.log_sq.val())
            | (self.sidx.val() & self.k.sq_mask.val());

        // queue of QPs
        self.sched.rst.next = self.rst.val();
        self.sched.e_valid.next = self.sched_valid.val();
        self.sched.e_qp.next = self.sd.val().qp;
        self.sched_ready.next = self.sched.e_ready.val();
        self.sched.i_valid.next = self.ip_v.q.val() & !self.take_ip.val();
        self.sched.i_qp.next = self.ip_qp.q.val();
        if self.ip_v.q.val() & (self.sched.i_ready.val() & !self.take_ip.val()) {
            self.ip_v.d.next = false;
        }
        if self.push.val() {
            self.ip_v.d.next = true;
            self.ip_qp.d.next = self.qp.q.val();
        }
        if self.pl_fence.val() & (self.fw.q.val() == 1) {
            self.fw.d.next = 2.into();
            self.fw_push.d.next = true;
        }

        // outputs
        if self.txp.val() {
            self.tx_v.d.next = true;
            self.tx_d.d.next = self.t.val();
        }
        self.pl.s_valid.next = self.plp.val();
        self.pl.s_data.next = self.j.val();
        if self.sqp.val() {
            self.q.next.idx = self.n.val().una;
            self.sq_v.d.next = true;
            self.sq_d.d.next = self.q.val();
        }
        self.tx_valid.next = self.tx_v.q.val();
        self.tx_data.next = self.tx_d.q.val();
        self.ua_valid.next = self.ua_v.q.val();
        self.ua_data.next = self.uav.q.val();
        self.pl_valid.next = self.pl.m_valid.val();
        self.pl_data.next = self.pl.m_data.val();
        self.pl.m_ready.next = self.pl_ready.val();
        self.sqfree_valid.next = self.sq_v.q.val();
        self.sqfree_data.next = self.sq_d.q.val();
        self.sslen.next = self.ss.val().len;
        self.ssva.next = self.ss.val().va;
        self.wj.next.binds = self.hh.val().opcode == 9;
        self.wj.next.key = self.hh.val().imm;
        self.wj.next.qpn = self.qpn.val();
        self.wj.next.pd = self.gg.val().pd;
        self.wj.next.lkey = self.ss.val().key;
        self.wj.next.va = self.hh.val().remote_va;
        self.wj.next.len = self.ssva.val().get_bits::<48>(0);
        self.wj.next.write = self.sslen.val().get_bit(1);
        self.wj.next.read = self.sslen.val().get_bit(2);
        self.wj.next.atomic = self.sslen.val().get_bit(3);
        self.win_valid.next = self.st.q.val() == St::Win;
        self.win_data.next = self.wj.val();
        self.err_valid.next = self.er_v.q.val();
        self.err_data.next = self.er_d.q.val();
        self.ctl_psn.next = self.x.val().psn_max;
        self.ctl_idx.next = self.x.val().una;
        self.ctl_busy.next = self.oa.q.val().any() | self.toff.val().any();
        self.ev_retransmit.next = self.e_retx.q.val();
        self.ev_timeout.next = self.e_tmo.q.val();
        self.ev_message.next = self.e_msg.q.val();
        self.ev_drop_response.next = self.e_drop.q.val();
        self.ev_drop_qp.next = self.e_dqp.q.val();
        self.ev_rnr_nak.next = self.e_rnr.q.val();
        self.ev_seq_nak.next = self.e_seq.q.val();
        self.ev_fatal_nak.next = self.e_fat.q.val();
        self.idle.next = (((self.st.q.val() == St::Idle) & self.sched.idle.val())
            & ((!self.ip_v.q.val() & !self.tdq.m_valid.val()) & !self.timer.m_valid.val()))
            & (((!self.tx_v.q.val() & !self.pl.m_valid.val())
                & (!self.sq_v.q.val() & !self.er_v.q.val()))
                & ((self.fw.q.val() != 1) & !self.fw_push.q.val()));
        self.deadline.next = self.timer.due.val();
        self.deadline_valid.next = self.timer.due_valid.val() & (self.st.q.val() == St::Idle);

        if self.rst.val() {
            self.st.d.next = St::Init;
            self.walk.d.next = 0.into();
            self.fw.d.next = 0.into();
            self.fw_push.d.next = false;
            self.ip_v.d.next = false;
            self.tx_v.d.next = false;
            self.ua_v.d.next = false;
            self.sq_v.d.next = false;
            self.er_v.d.next = false;
        }
    }
}
