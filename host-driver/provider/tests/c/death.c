// The simulator dies while 5 sends and 3 receives are out: each completes once with WR_FLUSH_ERR, the device says
// DEVICE_FATAL, commands and posts say EIO, and destroying works.
#include "common.h"

// The next completion of an extended CQ, as the old interface has it.
static struct ibv_wc next_ex(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr a = {};
	for (long i = 0; i < 200000; i++)
		if (!ibv_start_poll(cq, &a)) {
			struct ibv_wc w = { .wr_id = cq->wr_id, .status = cq->status, .qp_num = ibv_wc_read_qp_num(cq) };
			ibv_end_poll(cq);
			return w;
		}
	fprintf(stderr, "no completion\n");
	exit(1);
}

int main(int argc, char **argv)
{
	int events = !strcmp(argv[1], "event"), extended = !strcmp(argv[1], "extended");
	open_card();
	struct ibv_comp_channel *ch = events ? ibv_create_comp_channel(ctx) : NULL;
	struct ibv_cq_init_attr_ex xa = { .cqe = 100, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	struct ibv_cq_ex *xcq = extended ? ibv_create_cq_ex(ctx, &xa) : NULL;
	struct ibv_cq *cq = extended ? ibv_cq_ex_to_cq(xcq) : ibv_create_cq(ctx, 100, NULL, ch, 0);
	struct ibv_qp *a = make_qp(cq, cq, 16, 1), *b = make_qp(cq, cq, 16, 1);
	join(a, b);
	// b has no receive, so a's sends wait
	for (int i = 0; i < 5; i++)
		CHECK("send", !post(a, IBV_WR_SEND, i, 0, 16, 0, 0, i == 4 ? IBV_SEND_SIGNALED : 0));
	for (int i = 0; i < 3; i++)
		CHECK("recv", !recv_(a, 100 + i, 0, 16));
	if (events)
		CHECK("arm", !ibv_req_notify_cq(cq, 0));
	close(open(argv[2], O_CREAT | O_WRONLY, 0600));
	if (events) {
		struct ibv_cq *e;
		void *c;
		CHECK("event", !ibv_get_cq_event(ch, &e, &c) && e == cq);
		ibv_ack_cq_events(cq, 1);
	}
	int sends = 0, recvs = 0;
	for (int i = 0; i < 8; i++) {
		struct ibv_wc w = extended ? next_ex(xcq) : next(cq);
		if (w.status != IBV_WC_WR_FLUSH_ERR || w.qp_num != a->qp_num)
			CHECK("flush", 0);
		if (w.wr_id >= 100)
			CHECK("receive order", w.wr_id == 100 + recvs++);
		else
			CHECK("send order", w.wr_id == sends++);
	}
	struct ibv_wc w;
	CHECK("once", sends == 5 && recvs == 3 && ibv_poll_cq(cq, 1, &w) == 0);
	struct ibv_async_event ev;
	CHECK("fatal", !ibv_get_async_event(ctx, &ev) && ev.event_type == IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&ev);
	CHECK("post", post(a, IBV_WR_SEND, 1, 0, 16, 0, 0, 0) == EIO);
	CHECK("command", !ibv_alloc_pd(ctx) && errno == EIO);
	CHECK("clean up", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
	if (ch)
		CHECK("channel", !ibv_destroy_comp_channel(ch));
	CHECK("close", !ibv_close_device(ctx));
	return 0;
}
