// Shared receive queues as verbs promise them, on one card.
#include "../../../host-driver/provider/tests/c/common.h"

static struct ibv_srq *srq;

static int post_srq(uint64_t id, uint64_t off, uint32_t len, uint32_t key)
{
	struct ibv_sge s = { (uintptr_t)buf + off, len, key };
	struct ibv_recv_wr *bad, w = { .wr_id = id, .sg_list = &s, .num_sge = 1 };
	return ibv_post_srq_recv(srq, &w, &bad);
}

static struct ibv_qp *qp_of(struct ibv_pd *p, struct ibv_cq *cq, struct ibv_srq *s, int type)
{
	struct ibv_qp_init_attr a = { .send_cq = cq, .recv_cq = cq, .srq = s, .qp_type = type, .cap = { 64, s ? 7777 : 64, 4, s ? 99 : 4, 0 } };
	struct ibv_qp *q = ibv_create_qp(p, &a);
	if (q && s && (a.cap.max_recv_wr || a.cap.max_recv_sge))
		CHECK("no receive queue of its own", 0);
	return q;
}

static struct ibv_async_event event(int ack)
{
	struct ibv_async_event e;
	struct pollfd p = { ctx->async_fd, POLLIN, 0 };
	CHECK("an event", poll(&p, 1, 20000) == 1 && !ibv_get_async_event(ctx, &e));
	if (ack)
		ibv_ack_async_event(&e);
	return e;
}

static int no_event(void)
{
	struct pollfd p = { ctx->async_fd, POLLIN, 0 };
	return poll(&p, 1, 200) == 0;
}

static int limit(unsigned n)
{
	struct ibv_srq_attr a = { .srq_limit = n };
	return ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT);
}

static int armed(void)
{
	struct ibv_srq_attr a;
	return ibv_query_srq(srq, &a) ? -1 : (int)a.srq_limit;
}

int main(void)
{
	open_card();
	struct ibv_device_attr da;
	CHECK("device", !ibv_query_device(ctx, &da) && da.max_srq > 0 && da.max_srq_wr >= 4096 && da.max_srq_sge == 16);
	struct ibv_cq *cq = ibv_create_cq(ctx, 1000, NULL, NULL, 0);
	for (int i = 0; i < 3; i++) {
		struct ibv_srq_init_attr bad = { .attr = { i == 0 ? 0 : i == 1 ? da.max_srq_wr + 1 : 8, i == 2 ? da.max_srq_sge + 1 : 1, 0 } };
		CHECK("limits", !ibv_create_srq(pd, &bad) && errno == EINVAL);
	}
	struct ibv_srq_init_attr sa = { .srq_context = cq, .attr = { 60, 3, 17 } };
	srq = ibv_create_srq(pd, &sa);
	CHECK("srq", srq && srq->srq_context == cq && sa.attr.max_wr >= 60 && sa.attr.max_sge >= 3);
	uint32_t n, depth = sa.attr.max_wr;
	CHECK("number", !ibv_get_srq_num(srq, &n) && n);
	struct ibv_srq_attr at;
	CHECK("a limit at creation is not looked at", !ibv_query_srq(srq, &at) && at.srq_limit == 0 && at.max_wr == depth && at.max_sge == sa.attr.max_sge);
	CHECK("limit above the size", limit(depth + 1) == EINVAL && armed() == 0);
	at.max_wr = 2 * depth;
	CHECK("resize", ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR) == EOPNOTSUPP && ibv_modify_srq(srq, &at, 4) == EINVAL);

	struct ibv_pd *pd2 = ibv_alloc_pd(ctx);
	CHECK("another PD", !qp_of(pd2, cq, srq, IBV_QPT_RC) && errno == EINVAL);
	CHECK("UC", !qp_of(pd, cq, srq, IBV_QPT_UC) && errno == EOPNOTSUPP);
	struct ibv_qp *a = qp_of(pd, cq, NULL, IBV_QPT_RC), *b = qp_of(pd, cq, srq, IBV_QPT_RC);
	struct ibv_qp *c = qp_of(pd, cq, NULL, IBV_QPT_RC), *d = qp_of(pd, cq, srq, IBV_QPT_RC);
	CHECK("qps", a && b && c && d);
	struct ibv_qp_attr qa;
	struct ibv_qp_init_attr qi;
	CHECK("query_qp", !ibv_query_qp(b, &qa, IBV_QP_STATE, &qi) && qi.srq == srq);
	join(a, b);
	join(c, d);
	CHECK("no receives of its own", recv_(b, 1, 0, 8) == EINVAL);
	CHECK("in use", ibv_destroy_srq(srq) == EBUSY);

	// full, and not one more
	for (uint32_t i = 0; i < depth; i++)
		if (post_srq(1000 + i, 4096 + 64 * i, 64, mr->lkey))
			CHECK("post", 0);
	CHECK("full", post_srq(1, 0, 64, mr->lkey) == ENOMEM);
	CHECK("too many SGEs", ({ struct ibv_sge s[5] = { 0 }; struct ibv_recv_wr *bad, w = { .sg_list = s, .num_sge = sa.attr.max_sge + 1 };
		ibv_post_srq_recv(srq, &w, &bad) == EINVAL && bad == &w; }));

	// two QPs take turns, for several laps of the ring: each receive comes once, with its data
	char seen[200] = { 0 };
	int got = 0, sent = 0;
	struct ibv_wc w;
	for (int round = 0; round < 12; round++) {
		for (int i = 0; i < 20; i++) {
			buf[i] = round * 20 + i;
			CHECK("send", !post(i % 2 ? c : a, IBV_WR_SEND, 5, i, 1, 0, 0, IBV_SEND_SIGNALED));
		}
		for (int k = 0; k < 40; k++) {
			w = next(cq);
			CHECK("status", w.status == IBV_WC_SUCCESS);
			if (w.opcode != IBV_WC_RECV) {
				sent++;
				continue;
			}
			int at = w.wr_id - 1000;
			CHECK("a receive of the SRQ", at >= 0 && at < (int)depth && !seen[at] && (w.qp_num == b->qp_num || w.qp_num == d->qp_num));
			int value = (unsigned char)buf[4096 + 64 * at];
			int base = (round * 20) & 255;
			CHECK("its data", w.byte_len == 1 && ((value - base) & 255) < 20 && (value & 1) == (w.qp_num == d->qp_num));
			seen[at] = 1;
			got++;
			// the oldest go back last
			if (got % 20 == 0)
				for (int j = depth - 1; j >= 0; j--)
					if (seen[j] && !post_srq(1000 + j, 4096 + 64 * j, 64, mr->lkey))
						seen[j] = 0;
		}
	}
	CHECK("all", got == 240 && sent == 240 && no_event());

	// the limit, once
	CHECK("arm", !limit(depth - 2) && armed() == (int)depth - 2);
	for (int i = 0; i < 2; i++) {
		post(a, IBV_WR_SEND, 5, i, 1, 0, 0, IBV_SEND_SIGNALED);
		next(cq), next(cq);
	}
	CHECK("not yet", no_event());
	post(c, IBV_WR_SEND, 5, 0, 1, 0, 0, IBV_SEND_SIGNALED);
	next(cq), next(cq);
	struct ibv_async_event e = event(1);
	CHECK("limit", e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && e.element.srq == srq && armed() == 0);
	for (int i = 0; i < 4; i++) {
		post(a, IBV_WR_SEND, 5, i, 1, 0, 0, IBV_SEND_SIGNALED);
		next(cq), next(cq);
	}
	CHECK("once", no_event());

	// a key that no card has uses up its entry; the QP ends, the other one goes on
	struct ibv_srq_init_attr sa2 = { .attr = { 4, 16, 0 } };
	struct ibv_srq *old = srq, *wide = ibv_create_srq(pd, &sa2);
	CHECK("16 SGEs", wide && sa2.attr.max_sge == 16);
	srq = wide;
	struct ibv_qp *f = qp_of(pd, cq, NULL, IBV_QPT_RC), *g = qp_of(pd, cq, wide, IBV_QPT_RC);
	struct ibv_qp *h = qp_of(pd, cq, NULL, IBV_QPT_RC), *k = qp_of(pd, cq, wide, IBV_QPT_RC);
	join(f, g);
	join(h, k);
	for (int lap = 0; lap < 10; lap++) {
		struct ibv_sge s[16];
		for (int i = 0; i < 16; i++)
			s[i] = (struct ibv_sge){ (uintptr_t)buf + 8192 + 1000 * i, i == 3 ? 0 : 200, mr->lkey };
		struct ibv_recv_wr *bad, r = { .wr_id = lap, .sg_list = s, .num_sge = 16 };
		CHECK("post", !ibv_post_srq_recv(wide, &r, &bad));
		for (int i = 0; i < 3000; i++)
			buf[i] = i * (lap + 3) >> 3;
		CHECK("send", !post(lap % 2 ? f : h, IBV_WR_SEND, 5, 0, 3000, 0, 0, IBV_SEND_SIGNALED));
		next(cq);
		next(cq);
		for (int i = 0, at = 0; i < 16; i++)
			if (i != 3) {
				if (memcmp(buf + at, buf + 8192 + 1000 * i, 200))
					CHECK("scattered", 0);
				at += 200;
			}
	}
	CHECK("scattered", post_srq(50, 0, 64, mr->lkey | 0xFF000000) == 0 && post_srq(51, 0, 64, mr->lkey) == 0);
	post(f, IBV_WR_SEND, 5, 0, 1, 0, 0, IBV_SEND_SIGNALED);
	int codes = 0;
	for (int i = 0; i < 2; i++) {
		w = next(cq);
		codes += w.wr_id == 50 ? w.status : 100 * w.status;
	}
	CHECK("the key", codes == IBV_WC_LOC_PROT_ERR + 100 * IBV_WC_REM_OP_ERR);
	e = event(0);
	CHECK("last receive", e.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && e.element.qp == g);
	struct ibv_async_event e2 = event(1);
	CHECK("and why", e2.event_type == IBV_EVENT_QP_REQ_ERR && e2.element.qp == g);
	ibv_ack_async_event(&e);
	post(h, IBV_WR_SEND, 5, 0, 1, 0, 0, IBV_SEND_SIGNALED);
	w = next(cq);
	if (w.wr_id == 5)
		w = next(cq);
	else
		next(cq);
	// what a QP leaves behind in its CQ comes back to the SRQ when it is reset or goes
	for (int i = 0; i < 9; i++) {
		while (!post_srq(60, 0, 64, mr->lkey))
			;
		for (int j = 0; j < 4; j++)
			post(h, IBV_WR_SEND, 6, 0, 1, 0, 0, j == 3 ? IBV_SEND_SIGNALED : 0);
		do
			w = next(cq);
		while (w.wr_id != 6);
		struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
		if (i == 8) {
			CHECK("destroy", !ibv_destroy_qp(k) && !ibv_destroy_qp(h));
			h = k = NULL;
		} else {
			CHECK("reset", !ibv_modify_qp(k, &reset, IBV_QP_STATE) && !ibv_modify_qp(h, &reset, IBV_QP_STATE));
			join(h, k);
		}
	}
	for (int i = 0; i < 4; i++)
		CHECK("none is lost", !post_srq(70, 0, 64, mr->lkey));
	CHECK("full", post_srq(70, 0, 64, mr->lkey) == ENOMEM);
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	CHECK("to ERR", !ibv_modify_qp(b, &err, IBV_QP_STATE));
	e = event(1);
	CHECK("last receive", e.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && e.element.qp == b && no_event());

	CHECK("clean up", !ibv_destroy_qp(f) && !ibv_destroy_qp(g) && !ibv_destroy_srq(wide) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b) &&
		!ibv_destroy_qp(c) && ibv_destroy_srq(old) == EBUSY && ibv_dealloc_pd(pd) == EBUSY && !ibv_destroy_qp(d) && !ibv_destroy_srq(old) &&
		!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd2) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
	return 0;
}
