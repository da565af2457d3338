// What verbs promise, on one card. Each CHECK prints a line; the first that fails ends the program.
#include "common.h"

int main(void)
{
	open_card();
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	CHECK("channel", ch);
	struct ibv_cq *cq = ibv_create_cq(ctx, 100, NULL, ch, 0), *rcq = ibv_create_cq(ctx, 100, (void *)7, ch, 0);
	CHECK("cq", cq && rcq && cq->cqe >= 100);

	// limits: refused, not clamped
	CHECK("cqe limit", !ibv_create_cq(ctx, 1 << 20, NULL, NULL, 0) && errno == EINVAL);
	CHECK("wr limit", !make_qp(cq, rcq, 4097, 1) && errno == EINVAL);
	CHECK("sge limit", !make_qp(cq, rcq, 4, 17) && errno == EINVAL);
	CHECK("bad address", !ibv_reg_mr(pd, (void *)4096, 4096, 1) && errno == EFAULT);
	CHECK("empty region", !ibv_reg_mr(pd, buf, 0, 1) && errno == EINVAL);
	CHECK("remote write needs local write", !ibv_reg_mr(pd, buf, 10, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
	CHECK("read-only memory", !ibv_reg_mr(pd, (void *)"abc", 3, 1) && errno == EFAULT);
	CHECK("resize limits", ibv_resize_cq(cq, 1 << 20) == EINVAL && ibv_resize_cq(cq, 0) == EINVAL && ibv_resize_cq(cq, -1) == EINVAL &&
		cq->cqe >= 100);
	CHECK("resize", !ibv_resize_cq(cq, 10) && cq->cqe >= 10 && cq->cqe < 100 && !ibv_resize_cq(cq, 100) && cq->cqe >= 100);
	// a region changes under its key; what is refused changes nothing
	struct ibv_mr *rm = ibv_reg_mr(pd, buf, 4096, 0);
	uint32_t key = rm->lkey;
	CHECK("rereg access", !ibv_rereg_mr(rm, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1));
	CHECK("rereg address", !ibv_rereg_mr(rm, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf + 8192, 100, 0) && rm->addr == buf + 8192);
	CHECK("rereg nothing there", ibv_rereg_mr(rm, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, 4096, 0) == IBV_REREG_MR_ERR_CMD && errno == EFAULT);
	CHECK("rereg rights", ibv_rereg_mr(rm, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) == IBV_REREG_MR_ERR_CMD && errno == EINVAL);
	CHECK("rereg", rm->lkey == key && rm->length == 100 && !ibv_dereg_mr(rm));
	struct ibv_srq_init_attr sa = { .attr = { 1, 1, 0 } };
	struct ibv_device_attr da;
	CHECK("device", !ibv_query_device(ctx, &da));
	if (da.max_srq) {
		struct ibv_srq *srq = ibv_create_srq(pd, &sa);
		CHECK("srq", srq && !ibv_destroy_srq(srq));
	} else {
		CHECK("no srq", !ibv_create_srq(pd, &sa) && errno == EOPNOTSUPP);
	}

	struct ibv_qp *a = make_qp(cq, rcq, 16, 2), *b = make_qp(cq, rcq, 16, 2);
	CHECK("qp", a && b && a->qp_num != b->qp_num && a->state == IBV_QPS_RESET);
	CHECK("post in reset", post(a, IBV_WR_SEND, 1, 0, 8, 0, 0, 0) == EINVAL && recv_(a, 1, 0, 8) == EINVAL);
	CHECK("init", !to_init(a));
	CHECK("nobody has that address", to_rtr(a, b->qp_num, 99) == EHOSTUNREACH);
	struct ibv_qp_attr at;
	struct ibv_qp_init_attr ia;
	CHECK("still init", !ibv_query_qp(a, &at, IBV_QP_STATE, &ia) && at.qp_state == IBV_QPS_INIT);
	join(a, b);
	CHECK("query", !ibv_query_qp(a, &at, IBV_QP_STATE, &ia) && at.qp_state == IBV_QPS_RTS && at.dest_qp_num == b->qp_num &&
		at.path_mtu == IBV_MTU_1024 && at.timeout == 14 && at.rq_psn == 5 && ia.cap.max_send_wr >= 16);

	// data, immediate, byte counts
	for (int i = 0; i < 4096; i++)
		buf[i] = i * 7;
	CHECK("recv", !recv_(b, 77, 8192, 4096));
	CHECK("send", !post(a, IBV_WR_SEND_WITH_IMM, 5, 1, 4095, 0, 0, IBV_SEND_SIGNALED));
	struct ibv_wc s = next(cq), r = next(rcq);
	CHECK("send completion", s.status == 0 && s.wr_id == 5 && s.opcode == IBV_WC_SEND && s.qp_num == a->qp_num);
	CHECK("recv completion", r.status == 0 && r.wr_id == 77 && r.opcode == IBV_WC_RECV && r.byte_len == 4095 &&
		r.wc_flags == IBV_WC_WITH_IMM && r.imm_data == htonl(0x11223344) && r.qp_num == b->qp_num);
	CHECK("data", !memcmp(buf + 1, buf + 8192, 4095));
	memset(buf + 16384, 0, 8192);
	CHECK("read", !post(a, IBV_WR_RDMA_READ, 6, 16384, 4096, (uintptr_t)buf, mr->rkey, IBV_SEND_SIGNALED));
	s = next(cq);
	CHECK("read completion", s.status == 0 && s.opcode == IBV_WC_RDMA_READ && !memcmp(buf, buf + 16384, 4096));
	CHECK("inline", !post(a, IBV_WR_RDMA_WRITE, 7, 3, 64, (uintptr_t)buf + 20480, mr->rkey, IBV_SEND_SIGNALED | IBV_SEND_INLINE));
	s = next(cq);
	CHECK("write completion", s.status == 0 && s.opcode == IBV_WC_RDMA_WRITE && !memcmp(buf + 3, buf + 20480, 64));
	CHECK("too much inline", post(a, IBV_WR_RDMA_WRITE, 7, 0, 5000, 0, 0, IBV_SEND_INLINE) == EINVAL);
	if (!(da.device_cap_flags & IBV_DEVICE_MEM_WINDOW))
		CHECK("invalidate", post(a, IBV_WR_SEND_WITH_INV, 7, 0, 8, 0, 0, 0) == EOPNOTSUPP);
	CHECK("an atomic of 4 bytes", post(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 7, 0, 4, 0, 0, 0) == EINVAL);
	CHECK("write immediate", !recv_(b, 78, 0, 0) && !post(a, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 0, 100, (uintptr_t)buf + 30000, mr->rkey, 0));
	r = next(rcq);
	CHECK("write immediate completion", r.opcode == IBV_WC_RECV_RDMA_WITH_IMM && r.wr_id == 78 && r.imm_data == htonl(0x11223344) && r.byte_len == 100);

	// many laps of the rings; unsignalled requests free their slots with the next signalled one
	for (int i = 0; i < 3000; i++) {
		int err = post(a, IBV_WR_RDMA_WRITE, i, 0, 16, (uintptr_t)buf + 40000, mr->rkey, i % 8 == 7 ? IBV_SEND_SIGNALED : 0);
		if (err)
			CHECK("post", !err);
		if (i % 8 == 7 && next(cq).wr_id != i)
			CHECK("wr_id", 0);
	}
	// the size of a CQ changes: what was not polled stays and comes first, in order, through several rings
	int done = 0, sent = 0;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 5; i++)
			CHECK("post", !post(a, IBV_WR_RDMA_WRITE, sent++, 0, 16, (uintptr_t)buf + 40000, mr->rkey, IBV_SEND_SIGNALED));
		if (round)
			usleep(200000);
		CHECK("too small for what is there", ibv_resize_cq(cq, 5 * round + 4) == EINVAL);
		CHECK("resize", !ibv_resize_cq(cq, 40 << round) && cq->cqe >= 40 << round);
	}
	for (; done < 7; done++)
		CHECK("order", next(cq).wr_id == done);
	for (int i = 0; i < 1000; i++) {
		if (i % 100 == 50)
			CHECK("resize", !ibv_resize_cq(cq, 20 + i));
		if (post(a, IBV_WR_RDMA_WRITE, sent++, 0, 16, (uintptr_t)buf + 40000, mr->rkey, IBV_SEND_SIGNALED))
			CHECK("post", 0);
		if (next(cq).wr_id != done++)
			CHECK("order", 0);
	}
	for (; done < sent; done++)
		CHECK("order", next(cq).wr_id == done);
	CHECK("all", ibv_poll_cq(cq, 1, &s) == 0 && !ibv_resize_cq(cq, 100));

	for (int i = 0; ; i++) {
		int err = recv_(b, i, 0, 16);
		if (err) {
			CHECK("full receive queue", err == ENOMEM && i >= 16);
			break;
		}
	}

	// completion events: armed once, delivered once, acknowledged before destroy
	struct ibv_cq *ecq;
	void *ectx;
	struct pollfd p = { ch->fd, POLLIN, 0 };
	CHECK("no event yet", poll(&p, 1, 50) == 0);
	CHECK("arm", !ibv_req_notify_cq(rcq, 0));
	CHECK("an armed CQ stays armed", !ibv_resize_cq(rcq, 200));
	CHECK("send", !post(a, IBV_WR_SEND, 5, 0, 16, 0, 0, 0) && !post(a, IBV_WR_SEND, 5, 0, 16, 0, 0, 0));
	CHECK("event", !ibv_get_cq_event(ch, &ecq, &ectx) && ecq == rcq && ectx == (void *)7);
	next(rcq), next(rcq);
	CHECK("one event", poll(&p, 1, 50) == 0);
	CHECK("arm solicited", !ibv_req_notify_cq(rcq, 1));
	CHECK("send", !post(a, IBV_WR_SEND, 5, 0, 16, 0, 0, 0));
	next(rcq);
	CHECK("no event for the unsolicited", poll(&p, 1, 50) == 0);
	CHECK("send solicited", !post(a, IBV_WR_SEND, 5, 0, 16, 0, 0, IBV_SEND_SOLICITED));
	next(rcq);
	CHECK("event for the solicited", poll(&p, 1, 5000) == 1);
	ibv_ack_cq_events(rcq, 1);

	// errors: status of the bad one, flush of the rest in order, receives flushed too
	CHECK("bad key", !post(a, IBV_WR_RDMA_WRITE, 100, 0, 16, (uintptr_t)buf, mr->rkey ^ 0x100, 0));
	CHECK("after it", !post(a, IBV_WR_RDMA_WRITE, 101, 0, 16, (uintptr_t)buf, mr->rkey, IBV_SEND_SIGNALED));
	s = next(cq);
	CHECK("remote access", s.status == IBV_WC_REM_ACCESS_ERR && s.wr_id == 100 && s.qp_num == a->qp_num);
	s = next(cq);
	CHECK("flush", s.status == IBV_WC_WR_FLUSH_ERR && s.wr_id == 101 && s.vendor_err == 0);
	CHECK("post after error", !post(a, IBV_WR_SEND, 102, 0, 16, 0, 0, 0));
	s = next(cq);
	CHECK("flush after error", s.status == IBV_WC_WR_FLUSH_ERR && s.wr_id == 102);
	CHECK("state", !ibv_query_qp(a, &at, IBV_QP_STATE, &ia) && at.qp_state == IBV_QPS_ERR);
	struct ibv_qp_attr e = { .qp_state = IBV_QPS_ERR };
	CHECK("to error", !ibv_modify_qp(b, &e, IBV_QP_STATE));
	r = next(rcq);
	CHECK("receive flush", r.status == IBV_WC_WR_FLUSH_ERR && r.qp_num == b->qp_num);

	// reset drops what is queued, and the rings start again
	struct ibv_qp_attr z = { .qp_state = IBV_QPS_RESET };
	CHECK("reset", !ibv_modify_qp(a, &z, IBV_QP_STATE) && !ibv_modify_qp(b, &z, IBV_QP_STATE));
	CHECK("nothing left", ibv_poll_cq(rcq, 1, &r) == 0 && ibv_poll_cq(cq, 1, &s) == 0);
	join(a, b);
	CHECK("again", !post(a, IBV_WR_RDMA_WRITE, 200, 0, 16, (uintptr_t)buf, mr->rkey, IBV_SEND_SIGNALED) && next(cq).wr_id == 200);

	// a child of fork has no device; the parent's goes on
	pid_t pid = fork();
	if (pid == 0) {
		int bad = post(a, IBV_WR_SEND, 1, 0, 8, 0, 0, 0) != EIO || post(a, IBV_WR_SEND, 1, 0, 8, 0, 0, 0) != EIO ||
			ibv_poll_cq(cq, 1, &s) != 0 || ibv_alloc_pd(ctx) != NULL || ibv_destroy_qp(a) || ibv_destroy_cq(cq);
		_exit(bad);
	}
	int st;
	waitpid(pid, &st, 0);
	CHECK("child", st == 0);
	CHECK("parent", !post(a, IBV_WR_RDMA_WRITE, 201, 0, 16, (uintptr_t)buf, mr->rkey, IBV_SEND_SIGNALED) && next(cq).wr_id == 201);

	// an unread event of a destroyed CQ is taken back
	CHECK("arm", !ibv_req_notify_cq(cq, 0) && !post(a, IBV_WR_RDMA_WRITE, 1, 0, 16, (uintptr_t)buf, mr->rkey, IBV_SEND_SIGNALED));
	next(cq);
	usleep(100000);
	CHECK("cq in use", ibv_destroy_cq(cq) == EBUSY);
	CHECK("destroy qp", !ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	CHECK("destroy cq", !ibv_destroy_cq(cq));
	read(ch->fd, &p, 0);
	fcntl(ch->fd, F_SETFL, O_NONBLOCK);
	CHECK("solicited event of the other CQ is still there", !ibv_get_cq_event(ch, &ecq, &ectx) && ecq == rcq);
	CHECK("nothing else", ibv_get_cq_event(ch, &ecq, &ectx) == -1);
	ibv_ack_cq_events(rcq, 1);
	CHECK("destroy cq", !ibv_destroy_cq(rcq));
	CHECK("channel", !ibv_destroy_comp_channel(ch));

	// 16 SGEs over page edges, an inline size of every kind
	cq = ibv_create_cq(ctx, 10, NULL, NULL, 0);
	a = make_qp(cq, cq, 4, 16), b = make_qp(cq, cq, 4, 16);
	join(a, b);
	struct ibv_sge ss[16], rs[16];
	for (int i = 0; i < 16; i++) {
		ss[i] = (struct ibv_sge){ (uintptr_t)buf + i * 300, 257, mr->lkey };
		rs[i] = (struct ibv_sge){ (uintptr_t)buf + 32768 + i * 260, 259, mr->lkey };
	}
	struct ibv_recv_wr *badr, rw = { .wr_id = 1, .sg_list = rs, .num_sge = 16 };
	struct ibv_send_wr *bads, sw = { .wr_id = 2, .sg_list = ss, .num_sge = 16, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	CHECK("post lists", !ibv_post_recv(b, &rw, &badr) && !ibv_post_send(a, &sw, &bads));
	struct ibv_wc w1 = next(cq), w2 = next(cq);
	CHECK("lists", !w1.status && !w2.status);
	for (int i = 0; i < 16 * 257; i++)
		if (buf[i / 257 * 300 + i % 257] != buf[32768 + i / 259 * 260 + i % 259])
			CHECK("list data", 0);
	struct ibv_mr *iova = ibv_reg_mr_iova(pd, buf + 100, 8000, 0x7000000000000 + ((uintptr_t)(buf + 100) & 4095), 7);
	CHECK("iova", iova);
	CHECK("write by iova", !post(a, IBV_WR_RDMA_WRITE, 3, 0, 50, 0x7000000000000 + ((uintptr_t)(buf + 100) & 4095) + 5000, iova->rkey, IBV_SEND_SIGNALED));
	CHECK("iova completion", !next(cq).status && !memcmp(buf, buf + 5100, 50));
	CHECK("pd in use", ibv_dealloc_pd(pd) == EBUSY);
	CHECK("clean up", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(iova) && !ibv_dereg_mr(mr) &&
		!ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
	return 0;
}
