// Extended CQs and QPs, parent and thread domains, on one card.
#include "common.h"
#include <pthread.h>

#define OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | \
	IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ)

static struct ibv_cq_ex *make_cq(uint32_t cqe, uint64_t wc_flags, uint32_t mask, uint32_t flags)
{
	struct ibv_cq_init_attr_ex a = { .cqe = cqe, .wc_flags = wc_flags, .comp_mask = mask, .flags = flags, .cq_context = &a };
	return ibv_create_cq_ex(ctx, &a);
}

static struct ibv_qp *make_ex(struct ibv_cq_ex *cq, struct ibv_pd *p, uint64_t ops, uint32_t mask, uint32_t create_flags)
{
	struct ibv_qp_init_attr_ex a = { .send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 20, .max_recv_wr = 20, .max_send_sge = 3, .max_recv_sge = 1, .max_inline_data = 64 },
		.comp_mask = mask, .pd = p, .send_ops_flags = ops, .create_flags = create_flags };
	struct ibv_qp *q = ibv_create_qp_ex(ctx, &a);
	if (q)
		CHECK("real sizes", a.cap.max_send_wr >= 20 && a.cap.max_inline_data >= 64);
	return q;
}

// Starts a batch and leaves it open.
static int start(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr a = {};
	int e;
	for (long i = 0; (e = ibv_start_poll(cq, &a)) == ENOENT && i < 200000; i++)
		;
	return e;
}

// Nothing comes.
static int empty(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr a = {};
	int e = ENOENT;
	for (int i = 0; i < 200 && e == ENOENT; i++)
		e = ibv_start_poll(cq, &a);
	return e == ENOENT;
}

static void one(struct ibv_cq_ex *cq, uint64_t wr_id, int opcode)
{
	CHECK("poll", start(cq) == 0 && cq->status == IBV_WC_SUCCESS);
	CHECK("completion", cq->wr_id == wr_id && ibv_wc_read_opcode(cq) == opcode);
	ibv_end_poll(cq);
}

static int failed, done;
static void *poster(void *arg)
{
	struct ibv_qp_ex *q = arg;
	for (int i = 0; i < 2000; i++) {
		int e;
		do {
			ibv_wr_start(q);
			q->wr_id = 9;
			q->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(q, mr->rkey, (uintptr_t)buf + 40000);
			ibv_wr_set_sge(q, mr->lkey, (uintptr_t)buf, 8);
			e = ibv_wr_complete(q);
		} while (e == ENOMEM);
		if (e)
			__atomic_fetch_add(&failed, 1, __ATOMIC_SEQ_CST);
	}
	__atomic_fetch_add(&done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

int main(void)
{
	open_card();
	const uint64_t all = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;

	// what is refused
	CHECK("wall clock", !make_cq(10, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, 0, 0) && errno == EOPNOTSUPP);
	CHECK("cvlan", !make_cq(10, IBV_WC_EX_WITH_CVLAN, 0, 0) && errno == EOPNOTSUPP);
	CHECK("ignore overrun", !make_cq(10, 0, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) && errno == EOPNOTSUPP);
	CHECK("cqe limit", !make_cq(1 << 20, 0, 0, 0) && errno == EINVAL);
	CHECK("no cqe", !make_cq(0, 0, 0, 0) && errno == EINVAL);
	struct ibv_cq_ex *cq = make_cq(100, all, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	CHECK("cq", cq && cq->cqe >= 100 && cq->cq_context);
	struct ibv_modify_cq_attr ma = { IBV_CQ_ATTR_MODERATE, { 1, 1 } };
	CHECK("moderation", ibv_modify_cq(ibv_cq_ex_to_cq(cq), &ma) == EOPNOTSUPP);
	const uint32_t pd_ops = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	CHECK("no PD", !make_ex(cq, NULL, OPS, pd_ops, 0) && errno == EINVAL);
	CHECK("atomic write", !make_ex(cq, pd, IBV_QP_EX_WITH_ATOMIC_WRITE, pd_ops, 0) && errno == EOPNOTSUPP);
	CHECK("TSO", !make_ex(cq, pd, IBV_QP_EX_WITH_TSO, pd_ops, 0) && errno == EOPNOTSUPP);
	CHECK("create flags", !make_ex(cq, pd, 0, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, 2) && errno == EOPNOTSUPP);
	struct ibv_qp *plain = make_ex(cq, pd, 0, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, 0);
	CHECK("a QP without functions", plain && !ibv_qp_to_qp_ex(plain) && !ibv_destroy_qp(plain));

	// domains around the PD
	struct ibv_td_init_attr ta = {};
	struct ibv_td *td = ibv_alloc_td(ctx, &ta);
	struct ibv_parent_domain_init_attr pa = { .pd = pd, .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(ctx, &pa);
	CHECK("parent domain", td && parent);
	CHECK("in use", ibv_dealloc_td(td) == EBUSY);

	struct ibv_qp *a = make_ex(cq, parent, OPS, pd_ops, 0), *b = make_ex(cq, pd, OPS, pd_ops, 0);
	CHECK("qp", a && b);
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(a);
	CHECK("functions", q);
	ibv_wr_start(q);
	ibv_wr_send(q);
	ibv_wr_set_sge(q, mr->lkey, (uintptr_t)buf, 8);
	CHECK("post in reset", ibv_wr_complete(q) == EINVAL);
	join(a, b);
	CHECK("nothing", empty(cq));
	struct ibv_poll_cq_attr unknown = { 1 };
	CHECK("unknown attribute", ibv_start_poll(cq, &unknown) == EINVAL);

	// a batch of all operations, one doorbell
	for (int i = 0; i < 4096; i++)
		buf[i] = i * 7;
	CHECK("recv", !recv_(b, 100, 8192, 300) && !recv_(b, 101, 9000, 300) && !recv_(b, 102, 0, 0));
	ibv_wr_start(q);
	q->wr_flags = IBV_SEND_SIGNALED;
	q->wr_id = 1;
	ibv_wr_send(q);
	struct ibv_sge sges[3] = { { (uintptr_t)buf, 100, mr->lkey }, { 0, 0, 0 }, { (uintptr_t)buf + 100, 200, mr->lkey } };
	ibv_wr_set_sge_list(q, 3, sges);
	q->wr_id = 2;
	ibv_wr_send_imm(q, htonl(0x11223344));
	struct ibv_data_buf parts[2] = { { buf + 5, 20 }, { buf + 25, 44 } };
	ibv_wr_set_inline_data_list(q, 2, parts);
	q->wr_id = 3;
	ibv_wr_rdma_write(q, mr->rkey, (uintptr_t)buf + 20000);
	char own[64];
	memset(own, 0x5a, 64);
	ibv_wr_set_inline_data(q, own, 64);
	memset(own, 0, 64);
	q->wr_id = 4;
	ibv_wr_rdma_write_imm(q, mr->rkey, (uintptr_t)buf + 21000, htonl(7));
	ibv_wr_set_sge(q, mr->lkey, (uintptr_t)buf, 1000);
	q->wr_id = 5;
	ibv_wr_rdma_read(q, mr->rkey, (uintptr_t)buf);
	ibv_wr_set_sge(q, mr->lkey, (uintptr_t)buf + 24000, 2000);
	CHECK("complete", ibv_wr_complete(q) == 0);
	int sends = 0, recvs = 0;
	uint64_t last = 0;
	const int opcodes[] = { IBV_WC_SEND, IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ };
	const uint32_t lengths[] = { 300, 64, 1000 };
	while (sends + recvs < 8) {
		CHECK("batch", start(cq) == 0);
		do {
			CHECK("status", cq->status == IBV_WC_SUCCESS && !ibv_wc_read_vendor_err(cq));
			uint64_t ts = ibv_wc_read_completion_ts(cq);
			CHECK("time goes on", ts >= last);
			last = ts;
			CHECK("no LIDs", !ibv_wc_read_slid(cq) && !ibv_wc_read_sl(cq) && !ibv_wc_read_dlid_path_bits(cq));
			if (cq->wr_id < 100) {
				CHECK("send", cq->wr_id == sends + 1 && ibv_wc_read_qp_num(cq) == a->qp_num &&
					ibv_wc_read_opcode(cq) == opcodes[sends]);
				sends++;
			} else {
				CHECK("receive", cq->wr_id == 100 + recvs && ibv_wc_read_qp_num(cq) == b->qp_num &&
					ibv_wc_read_byte_len(cq) == lengths[recvs]);
				CHECK("immediate", ibv_wc_read_wc_flags(cq) == (recvs ? IBV_WC_WITH_IMM : 0) &&
					(!recvs || ibv_wc_read_imm_data(cq) == htonl(recvs == 1 ? 0x11223344 : 7)));
				CHECK("kind", ibv_wc_read_opcode(cq) == (recvs == 2 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
				recvs++;
			}
		} while (sends + recvs < 8 && ibv_next_poll(cq) == 0);
		if (sends + recvs == 8)
			CHECK("the end", ibv_next_poll(cq) == ENOENT);
		ibv_end_poll(cq);
	}
	memset(own, 0x5a, 64);
	CHECK("data", !memcmp(buf, buf + 8192, 300) && !memcmp(buf + 5, buf + 9000, 64) && !memcmp(buf + 20000, own, 64) &&
		!memcmp(buf, buf + 21000, 1000) && !memcmp(buf, buf + 24000, 2000));

	// nothing of an aborted or refused batch happens
	memset(buf + 30000, 0, 100);
	for (int i = 0; i < 4; i++) {
		ibv_wr_start(q);
		q->wr_id = 6;
		ibv_wr_rdma_write(q, mr->rkey, (uintptr_t)buf + 30000);
		ibv_wr_set_sge(q, mr->lkey, (uintptr_t)buf, 50);
		if (i == 0) {
			ibv_wr_abort(q);
			continue;
		}
		ibv_wr_rdma_write(q, mr->rkey, (uintptr_t)buf + 30050);
		struct ibv_sge four[4] = {};
		if (i == 1)
			ibv_wr_set_sge_list(q, 4, four);
		else if (i == 2)
			ibv_wr_set_inline_data(q, buf, 65);
		else
			ibv_wr_set_ud_addr(q, NULL, 1, 1);
		CHECK("refused", ibv_wr_complete(q) == EINVAL);
	}
	ibv_wr_start(q);
	ibv_wr_send_tso(q, buf, 14, 1000);
	ibv_wr_set_sge(q, mr->lkey, (uintptr_t)buf, 8);
	CHECK("not asked for and not there", ibv_wr_complete(q) == EOPNOTSUPP);
	ibv_wr_start(q);
	CHECK("empty batch", ibv_wr_complete(q) == 0);
	ibv_wr_start(q);
	int n = 0;
	for (; n < 200; n++) {
		ibv_wr_rdma_write(q, mr->rkey, (uintptr_t)buf + 30000);
		ibv_wr_set_sge(q, mr->lkey, (uintptr_t)buf, 50);
	}
	CHECK("more than the queue holds", ibv_wr_complete(q) == ENOMEM);
	// ibv_post_send goes on where the functions left off
	CHECK("post", !post(a, IBV_WR_RDMA_WRITE, 8, 0, 8, (uintptr_t)buf + 31000, mr->rkey, IBV_SEND_SIGNALED));
	one(cq, 8, IBV_WC_RDMA_WRITE);
	char zero[100] = {};
	CHECK("untouched", !memcmp(buf + 30000, zero, 100) && empty(cq));

	// two threads: the critical sections exclude each other, also over many laps
	pthread_t t[2];
	for (int i = 0; i < 2; i++)
		CHECK("thread", !pthread_create(&t[i], NULL, poster, q));
	int got = 0;
	while (got < 4000 && start(cq) == 0) {
		do {
			if (cq->status || cq->wr_id != 9)
				CHECK("write", 0);
			got++;
		} while (ibv_next_poll(cq) == 0);
		ibv_end_poll(cq);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	CHECK("all of both", got == 4000 && !failed && done == 2 && empty(cq));

	// the old interface reads the same CQ
	struct ibv_wc wc;
	CHECK("post", !post(a, IBV_WR_RDMA_WRITE, 10, 0, 8, (uintptr_t)buf + 31000, mr->rkey, IBV_SEND_SIGNALED));
	wc = next(ibv_cq_ex_to_cq(cq));
	CHECK("poll_cq", wc.wr_id == 10 && wc.status == 0);
	// an error is a completion with a status
	CHECK("bad key", !post(a, IBV_WR_RDMA_WRITE, 11, 0, 8, (uintptr_t)buf, mr->rkey ^ 1, IBV_SEND_SIGNALED));
	CHECK("poll", start(cq) == 0 && cq->status == IBV_WC_REM_ACCESS_ERR && cq->wr_id == 11);
	ibv_end_poll(cq);

	struct ibv_device_attr_ex da;
	CHECK("device", !ibv_query_device_ex(ctx, NULL, &da) && da.completion_timestamp_mask == ~0ull && da.hca_core_clock == 1000000 &&
		da.device_cap_flags_ex == da.orig_attr.device_cap_flags && da.phys_port_cnt_ex == 1 && !da.odp_caps.general_caps);
	CHECK("PD in use", ibv_dealloc_pd(pd) == EBUSY);
	CHECK("clean up", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) && !ibv_dealloc_pd(parent) &&
		!ibv_dealloc_td(td) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
	return 0;
}
