// Every way in which a request can end, between two cards: contents, statuses, asynchronous events. Each CHECK prints a line; the first that
// fails ends the program. For cards with windows, SRQs and atomics. `data`: contents alone; `posted`: without memory that vanishes.
#include "common.h"

static struct ibv_context *dev[2];
static struct ibv_pd *pds[2];
static struct ibv_cq *cqs[2];
static struct ibv_mr *mrs[2];
static char *mem[2];
#define SIZE (4 << 20)
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_qp *qp[2];

struct how { int type, access[2], timeout, retry, rnr, sges; struct ibv_srq *srq; uint32_t qkey; };
static const struct how normal = { IBV_QPT_RC, { ALL, ALL }, 14, 7, 7, 2, NULL, 0 };

static void gid(int k, uint8_t *g)
{
	uint8_t v[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1 + k };
	memcpy(g, v, 16);
}

static int rtr(int k, const struct how *h, uint32_t dest)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest, .rq_psn = 0xfffff0 + k,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12, .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 64 } } };
	gid(!k, (uint8_t *)&a.ah_attr.grh.dgid);
	int mask = IBV_QP_STATE;
	if (h->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (h->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp[k], &a, mask);
}

static int rts(int k, const struct how *h)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .sq_psn = 0xfffff0 + !k, .timeout = h->timeout, .retry_cnt = h->retry, .rnr_retry = h->rnr,
		.max_rd_atomic = 4 };
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (h->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp[k], &a, mask);
}

// A new pair of QPs, joined. QP 1 may have an SRQ.
static void pair(const struct how *h)
{
	for (int k = 0; k < 2; k++) {
		if (qp[k] && ibv_destroy_qp(qp[k]))
			CHECK("destroy", 0);
		struct ibv_qp_init_attr i = { .send_cq = cqs[k], .recv_cq = cqs[k], .qp_type = h->type, .srq = k ? h->srq : NULL,
			.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = h->sges, .max_recv_sge = h->sges,
				.max_inline_data = h->type == IBV_QPT_UD ? 0 : 64 } };
		qp[k] = ibv_create_qp(pds[k], &i);
		struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = h->access[k], .qkey = h->qkey };
		if (!qp[k] || ibv_modify_qp(qp[k], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				(h->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
			CHECK("init", 0);
	}
	for (int k = 0; k < 2; k++)
		if (rtr(k, h, qp[!k]->qp_num) || rts(k, h))
			CHECK("connect", 0);
}

static int state(int k)
{
	struct ibv_qp_attr at;
	struct ibv_qp_init_attr ia;
	return ibv_query_qp(qp[k], &at, IBV_QP_STATE, &ia) ? -1 : (int)at.qp_state;
}

static int send_at(int k, int op, uint64_t id, void *at, uint32_t len, uint32_t lkey, uint64_t raddr, uint32_t rkey, int flags)
{
	struct ibv_sge s = { (uintptr_t)at, len, lkey };
	struct ibv_send_wr *bad, w = { .wr_id = id, .sg_list = &s, .num_sge = 1, .opcode = op, .send_flags = flags,
		.imm_data = htonl(0xa1b2c3d4), .wr.rdma = { raddr, rkey } };
	if (op == IBV_WR_SEND_WITH_INV)
		w.invalidate_rkey = rkey;
	return ibv_post_send(qp[k], &w, &bad);
}

static int send_(int k, int op, uint64_t id, uint64_t off, uint32_t len, uint64_t roff, uint32_t rkey)
{
	return send_at(k, op, id, mem[k] + off, len, mrs[k]->lkey, (uintptr_t)mem[!k] + roff, rkey, IBV_SEND_SIGNALED);
}

static int recv_at(int k, uint64_t id, void *at, uint32_t len, uint32_t lkey)
{
	struct ibv_sge s = { (uintptr_t)at, len, lkey };
	struct ibv_recv_wr *bad, w = { .wr_id = id, .sg_list = &s, .num_sge = 1 };
	return ibv_post_recv(qp[k], &w, &bad);
}

// The next asynchronous event of card k, or -1 after a second.
static int async(int k)
{
	struct ibv_async_event e;
	struct pollfd p = { dev[k]->async_fd, POLLIN, 0 };
	if (poll(&p, 1, 1000) != 1 || ibv_get_async_event(dev[k], &e))
		return -1;
	ibv_ack_async_event(&e);
	return e.event_type;
}

static int quiet(int k)
{
	struct pollfd p = { dev[k]->async_fd, POLLIN, 0 };
	return poll(&p, 1, 20) == 0;
}

static void fill(char *p, int n, int seed)
{
	for (int i = 0; i < n; i++)
		p[i] = i * 31 + (i >> 8) * 7 + seed;
}

static int is(struct ibv_wc w, int status, uint64_t id) { return (int)w.status == status && w.wr_id == id; }

static void data(void)
{
	pair(&normal);
	const int lens[] = { 0, 1, 3, 1023, 1024, 1025, 5000, 300000, 2000001 };
	for (int i = 0; i < 9; i++) {
		int n = lens[i];
		struct ibv_wc r, s;
		fill(mem[0], n, i);
		memset(mem[1], 0, n + 1);
		CHECK("recv", !recv_at(1, 10 + i, mem[1], n + 1, mrs[1]->lkey));
		CHECK("send", !send_(0, IBV_WR_SEND_WITH_IMM, i, 0, n, 0, 0));
		s = next(cqs[0]), r = next(cqs[1]);
		CHECK("sent", is(s, 0, i) && s.opcode == IBV_WC_SEND);
		CHECK("received", is(r, 0, 10 + i) && (int)r.byte_len == n && r.imm_data == htonl(0xa1b2c3d4) && r.wc_flags == IBV_WC_WITH_IMM);
		CHECK("content", !memcmp(mem[0], mem[1], n) && mem[1][n] == 0);
		memset(mem[1], 0, n + 1);
		CHECK("write", !send_(0, IBV_WR_RDMA_WRITE, 20 + i, 0, n, 0, mrs[1]->rkey));
		CHECK("written", is(next(cqs[0]), 0, 20 + i) && !memcmp(mem[0], mem[1], n) && mem[1][n] == 0);
		fill(mem[1], n, i + 1);
		CHECK("read", !send_(0, IBV_WR_RDMA_READ, 30 + i, 0, n, 0, mrs[1]->rkey));
		s = next(cqs[0]);
		CHECK("was read", is(s, 0, 30 + i) && s.opcode == IBV_WC_RDMA_READ && (int)s.byte_len == n && !memcmp(mem[0], mem[1], n));
	}
	// all kinds behind each other, in both directions at once
	for (int round = 0; round < 20; round++) {
		fill(mem[0], 200000, round), fill(mem[1] + 1000000, 200000, round + 3);
		for (int k = 0; k < 2; k++)
			CHECK("recvs", !recv_at(k, 1, mem[k] + 2000000, 70000, mrs[k]->lkey) && !recv_at(k, 2, mem[k] + 2100000, 70000, mrs[k]->lkey));
		for (int k = 0; k < 2; k++) {
			uint64_t o = k ? 1000000 : 0;
			CHECK("posts", !send_(k, IBV_WR_SEND, 100, o, 65000, 0, 0) && !send_(k, IBV_WR_RDMA_READ, 101, 3000000, 100000, 0 + !o * 1000000, mrs[!k]->rkey) &&
				!send_(k, IBV_WR_RDMA_WRITE, 102, o, 70000, 2500000, mrs[!k]->rkey) && !send_(k, IBV_WR_SEND, 103, o + 500, 300, 0, 0));
		}
		for (int k = 0; k < 2; k++) {
			int sends = 100, recvs = 1;
			for (int i = 0; i < 6; i++) {
				struct ibv_wc w = next(cqs[k]);
				CHECK("order", !w.status && (w.opcode & IBV_WC_RECV ? w.wr_id == recvs++ : w.wr_id == sends++));
			}
		}
		for (int k = 0; k < 2; k++) {
			char *theirs = mem[!k] + (k ? 0 : 1000000);
			CHECK("both ways", !memcmp(mem[k] + 2000000, theirs, 65000) && !memcmp(mem[k] + 2100000, theirs + 500, 300) &&
				!memcmp(mem[k] + 2500000, theirs, 70000) && !memcmp(mem[k] + 3000000, theirs, 100000));
		}
	}
}

static void atomics(void)
{
	pair(&normal);
	uint64_t *there = (uint64_t *)(mem[1] + 4096), *here = (uint64_t *)mem[0];
	*there = 40;
	struct ibv_sge s = { (uintptr_t)here, 8, mrs[0]->lkey };
	struct ibv_send_wr *bad, w = { .wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { (uintptr_t)there, 2, 0, mrs[1]->rkey } };
	CHECK("add", !ibv_post_send(qp[0], &w, &bad) && is(next(cqs[0]), 0, 1) && *here == 40 && *there == 42);
	w.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	w.wr.atomic.compare_add = 42, w.wr.atomic.swap = 0x1122334455667788;
	CHECK("swap", !ibv_post_send(qp[0], &w, &bad) && is(next(cqs[0]), 0, 1) && *here == 42 && *there == 0x1122334455667788);
	CHECK("no swap", !ibv_post_send(qp[0], &w, &bad) && is(next(cqs[0]), 0, 1) && *here == 0x1122334455667788 && *there == 0x1122334455667788);
	w.wr.atomic.remote_addr += 4;
	CHECK("unaligned", !ibv_post_send(qp[0], &w, &bad) && is(next(cqs[0]), IBV_WC_REM_INV_REQ_ERR, 1));
	CHECK("its event", async(1) == IBV_EVENT_QP_REQ_ERR && quiet(0));
}

static void statuses(void)
{
	struct how h = normal;
	pair(&h);
	CHECK("recv", !recv_at(1, 5, mem[1], 50, mrs[1]->lkey) && !recv_at(1, 6, mem[1], 50, mrs[1]->lkey));
	CHECK("too long", !send_(0, IBV_WR_SEND, 1, 0, 51, 0, 0) && !send_(0, IBV_WR_SEND, 2, 0, 1, 0, 0));
	CHECK("too long: here", is(next(cqs[0]), IBV_WC_REM_INV_REQ_ERR, 1) && is(next(cqs[0]), IBV_WC_WR_FLUSH_ERR, 2));
	CHECK("too long: there", is(next(cqs[1]), IBV_WC_LOC_LEN_ERR, 5) && is(next(cqs[1]), IBV_WC_WR_FLUSH_ERR, 6));
	CHECK("too long: states", state(0) == IBV_QPS_ERR && state(1) == IBV_QPS_ERR && async(1) == IBV_EVENT_QP_REQ_ERR && quiet(0));

	pair(&h);
	CHECK("local key", !send_at(0, IBV_WR_RDMA_WRITE, 1, mem[0], 10, mrs[0]->lkey ^ 1, (uintptr_t)mem[1], mrs[1]->rkey, 0));
	CHECK("local key: status", is(next(cqs[0]), IBV_WC_LOC_PROT_ERR, 1) && state(0) == IBV_QPS_ERR && state(1) == IBV_QPS_RTS);

	pair(&h);
	memset(mem[1], 7, 100000);
	CHECK("good ones before it", !send_(0, IBV_WR_RDMA_WRITE, 1, 0, 90000, 0, mrs[1]->rkey) && !send_(0, IBV_WR_RDMA_READ, 2, 100000, 90000, 0, mrs[1]->rkey));
	CHECK("beyond the region", !send_at(0, IBV_WR_RDMA_WRITE, 3, mem[0] + SIZE - 5, 10, mrs[0]->lkey, (uintptr_t)mem[1], mrs[1]->rkey, 0) &&
		!send_(0, IBV_WR_RDMA_WRITE, 4, 0, 10, 0, mrs[1]->rkey));
	CHECK("order", is(next(cqs[0]), 0, 1) && is(next(cqs[0]), 0, 2) && is(next(cqs[0]), IBV_WC_LOC_PROT_ERR, 3) && is(next(cqs[0]), IBV_WC_WR_FLUSH_ERR, 4));

	struct ibv_mr *ro = ibv_reg_mr(pds[0], mem[0], 4096, 0), *ro1 = ibv_reg_mr(pds[1], mem[1], 4096, 0);
	pair(&h);
	CHECK("read to where nobody may write", !send_at(0, IBV_WR_RDMA_READ, 1, mem[0], 100, ro->lkey, (uintptr_t)mem[1], mrs[1]->rkey, 0) &&
		is(next(cqs[0]), IBV_WC_LOC_PROT_ERR, 1) && state(0) == IBV_QPS_ERR);
	pair(&h);
	CHECK("receive where nobody may write", !recv_at(1, 9, mem[1], 100, ro1->lkey) && !send_(0, IBV_WR_SEND, 1, 0, 100, 0, 0) &&
		is(next(cqs[0]), IBV_WC_REM_OP_ERR, 1) && is(next(cqs[1]), IBV_WC_LOC_PROT_ERR, 9) && async(1) == IBV_EVENT_QP_REQ_ERR);
	pair(&h);
	CHECK("no right", !send_(0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0, ro1->rkey) && is(next(cqs[0]), IBV_WC_REM_ACCESS_ERR, 1) &&
		async(1) == IBV_EVENT_QP_ACCESS_ERR);
	pair(&h);
	CHECK("beyond their region", !send_(0, IBV_WR_RDMA_READ, 1, 0, 100, SIZE - 99, mrs[1]->rkey) && is(next(cqs[0]), IBV_WC_REM_ACCESS_ERR, 1) &&
		async(1) == IBV_EVENT_QP_ACCESS_ERR);
	struct how less = h;
	less.access[1] = IBV_ACCESS_REMOTE_READ;
	pair(&less);
	CHECK("the QP does not grant it", !send_(0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0, mrs[1]->rkey) && is(next(cqs[0]), IBV_WC_REM_INV_REQ_ERR, 1) &&
		async(1) == IBV_EVENT_QP_REQ_ERR);
	CHECK("dereg", !ibv_dereg_mr(ro) && !ibv_dereg_mr(ro1));

	struct how quick = h;
	quick.timeout = 10, quick.retry = 2, quick.rnr = 1;

	// nobody there, nothing posted
	pair(&quick);
	struct ibv_qp_attr z = { .qp_state = IBV_QPS_RESET };
	CHECK("peer goes", !ibv_modify_qp(qp[1], &z, IBV_QP_STATE));
	CHECK("retries", !send_(0, IBV_WR_SEND, 1, 0, 10, 0, 0) && !send_(0, IBV_WR_SEND, 2, 0, 10, 0, 0) &&
		is(next(cqs[0]), IBV_WC_RETRY_EXC_ERR, 1) && is(next(cqs[0]), IBV_WC_WR_FLUSH_ERR, 2) && quiet(0));
	pair(&quick);
	CHECK("no receive", !send_(0, IBV_WR_SEND, 1, 0, 10, 0, 0) && is(next(cqs[0]), IBV_WC_RNR_RETRY_EXC_ERR, 1) && state(1) == IBV_QPS_RTS);
	pair(&h);
	CHECK("late receive", !send_(0, IBV_WR_SEND, 1, 0, 10, 0, 0) && !send_(0, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 3000, 50, mrs[1]->rkey));
	usleep(20000);
	struct ibv_wc w;
	CHECK("nothing yet", ibv_poll_cq(cqs[0], 1, &w) == 0);
	CHECK("posted", !recv_at(1, 8, mem[1], 10, mrs[1]->lkey) && is(next(cqs[0]), 0, 1) && is(next(cqs[1]), 0, 8));
	usleep(20000);
	CHECK("posted", !recv_at(1, 9, mem[1], 0, mrs[1]->lkey) && is(next(cqs[0]), 0, 2));
	w = next(cqs[1]);
	CHECK("write with immediate", is(w, 0, 9) && w.opcode == IBV_WC_RECV_RDMA_WITH_IMM && w.byte_len == 3000);
	struct ibv_qp_attr e = { .qp_state = IBV_QPS_ERR };
	CHECK("flush", !recv_at(1, 1, mem[1], 10, mrs[1]->lkey) && !recv_at(1, 2, mem[1], 10, mrs[1]->lkey) && !ibv_modify_qp(qp[1], &e, IBV_QP_STATE) &&
		is(next(cqs[1]), IBV_WC_WR_FLUSH_ERR, 1) && is(next(cqs[1]), IBV_WC_WR_FLUSH_ERR, 2) && !recv_at(1, 3, mem[1], 10, mrs[1]->lkey) &&
		is(next(cqs[1]), IBV_WC_WR_FLUSH_ERR, 3));

	// drained: what has begun ends, what comes after waits
	pair(&h);
	struct ibv_qp_attr d = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 }, s = { .qp_state = IBV_QPS_RTS };
	CHECK("before", !send_(0, IBV_WR_RDMA_WRITE, 1, 0, 500000, 0, mrs[1]->rkey));
	CHECK("to drained", !ibv_modify_qp(qp[0], &d, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) && async(0) == IBV_EVENT_SQ_DRAINED && is(next(cqs[0]), 0, 1));
	CHECK("waits", !send_(0, IBV_WR_RDMA_WRITE, 2, 0, 10, 0, mrs[1]->rkey));
	usleep(20000);
	CHECK("nothing", ibv_poll_cq(cqs[0], 1, &w) == 0);
	CHECK("goes on", !ibv_modify_qp(qp[0], &s, IBV_QP_STATE) && is(next(cqs[0]), 0, 2));
}

// Memory that goes away under its region: an error, never a signal. (A card whose writes are posted does not learn of all of these.)
static void vanished(void)
{
	struct how h = normal, quick = h;
	quick.timeout = 10, quick.retry = 2, quick.rnr = 1;
	char *gone[2];
	struct ibv_mr *gm[2];
	for (int k = 0; k < 2; k++) {
		gone[k] = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		gm[k] = ibv_reg_mr(pds[k], gone[k], 8192, ALL);
		munmap(gone[k], 8192);
	}
	pair(&h);
	CHECK("send from nowhere", !send_at(0, IBV_WR_RDMA_WRITE, 1, gone[0], 100, gm[0]->lkey, (uintptr_t)mem[1], mrs[1]->rkey, 0) &&
		is(next(cqs[0]), IBV_WC_LOC_PROT_ERR, 1));
	pair(&h);
	CHECK("read to nowhere", !send_at(0, IBV_WR_RDMA_READ, 1, gone[0], 5000, gm[0]->lkey, (uintptr_t)mem[1], mrs[1]->rkey, 0) &&
		is(next(cqs[0]), IBV_WC_LOC_PROT_ERR, 1));
	pair(&h);
	CHECK("receive in nowhere", !recv_at(1, 9, gone[1], 100, gm[1]->lkey) && !send_(0, IBV_WR_SEND, 1, 0, 100, 0, 0) &&
		is(next(cqs[0]), IBV_WC_REM_OP_ERR, 1) && is(next(cqs[1]), IBV_WC_LOC_PROT_ERR, 9) && async(1) == IBV_EVENT_QP_REQ_ERR);
	pair(&h);
	CHECK("write to nowhere", !send_at(0, IBV_WR_RDMA_WRITE, 1, mem[0], 5000, mrs[0]->lkey, (uintptr_t)gone[1], gm[1]->rkey, 0) &&
		is(next(cqs[0]), IBV_WC_REM_OP_ERR, 1) && async(1) == IBV_EVENT_QP_REQ_ERR);
	pair(&quick);
	CHECK("read from nowhere", !send_at(0, IBV_WR_RDMA_READ, 1, mem[0], 5000, mrs[0]->lkey, (uintptr_t)gone[1], gm[1]->rkey, 0) &&
		is(next(cqs[0]), IBV_WC_RETRY_EXC_ERR, 1) && state(1) == IBV_QPS_ERR && async(1) == IBV_EVENT_QP_ACCESS_ERR);
	CHECK("dereg", !ibv_dereg_mr(gm[0]) && !ibv_dereg_mr(gm[1]));
}

static int bind_(int k, struct ibv_mw *mw, uint32_t rkey, struct ibv_mr *m, void *at, uint64_t len, int access)
{
	struct ibv_send_wr *bad, w = { .wr_id = 50, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw, .rkey = rkey, .bind_info = { m, (uintptr_t)at, len, access } } };
	return ibv_post_send(qp[k], &w, &bad);
}

static void windows(void)
{
	pair(&normal);
	struct ibv_mr *m = ibv_reg_mr(pds[1], mem[1], SIZE, ALL | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pds[1], IBV_MW_TYPE_2);
	CHECK("window", m && mw);
	uint32_t key = ibv_inc_rkey(mw->rkey);
	CHECK("bind", !bind_(1, mw, key, m, mem[1] + 1000, 500, IBV_ACCESS_REMOTE_WRITE) && is(next(cqs[1]), 0, 50));
	fill(mem[0], 500, 1);
	CHECK("through it", !send_(0, IBV_WR_RDMA_WRITE, 1, 0, 500, 1000, key) && is(next(cqs[0]), 0, 1) && !memcmp(mem[0], mem[1] + 1000, 500));
	CHECK("region in use", ibv_dereg_mr(m) == EBUSY);
	CHECK("invalidate", !recv_at(1, 3, mem[1], 100, mrs[1]->lkey) && !send_(0, IBV_WR_SEND_WITH_INV, 2, 0, 10, 0, key) && is(next(cqs[0]), 0, 2));
	struct ibv_wc w = next(cqs[1]);
	CHECK("invalidated", is(w, 0, 3) && w.wc_flags == IBV_WC_WITH_INV && w.invalidated_rkey == key);
	CHECK("no more", !send_(0, IBV_WR_RDMA_WRITE, 4, 0, 500, 1000, key) && is(next(cqs[0]), IBV_WC_REM_ACCESS_ERR, 4) && async(1) == IBV_EVENT_QP_ACCESS_ERR);
	pair(&normal);
	CHECK("may not be bound", !bind_(1, mw, key, mrs[1], mem[1], 500, IBV_ACCESS_REMOTE_READ) && is(next(cqs[1]), IBV_WC_MW_BIND_ERR, 50) &&
		state(1) == IBV_QPS_ERR);
	CHECK("free", !ibv_dealloc_mw(mw) && !ibv_dereg_mr(m));
}

static void shared(void)
{
	struct ibv_srq_init_attr sa = { .attr = { 16, 2, 0 } };
	struct how h = normal;
	h.srq = ibv_create_srq(pds[1], &sa);
	CHECK("srq", h.srq);
	pair(&h);
	struct ibv_srq_attr at = { .srq_limit = 3 };
	for (int i = 0; i < 5; i++) {
		struct ibv_sge s = { (uintptr_t)mem[1] + 10000 * i, 5000, mrs[1]->lkey };
		struct ibv_recv_wr *bad, w = { .wr_id = 60 + i, .sg_list = &s, .num_sge = 1 };
		CHECK("post", !ibv_post_srq_recv(h.srq, &w, &bad));
	}
	CHECK("limit", !ibv_modify_srq(h.srq, &at, IBV_SRQ_LIMIT) && quiet(1) && !ibv_query_srq(h.srq, &at) && at.srq_limit == 3);
	fill(mem[0], 5000, 9);
	for (int i = 0; i < 3; i++) {
		CHECK("send", !send_(0, IBV_WR_SEND, i, 0, 5000, 0, 0) && is(next(cqs[0]), 0, i) && is(next(cqs[1]), 0, 60 + i));
		CHECK("content", !memcmp(mem[0], mem[1] + 10000 * i, 5000));
	}
	CHECK("limit reached", async(1) == IBV_EVENT_SRQ_LIMIT_REACHED && !ibv_query_srq(h.srq, &at) && at.srq_limit == 0);
	struct ibv_qp_attr e = { .qp_state = IBV_QPS_ERR };
	CHECK("last", !ibv_modify_qp(qp[1], &e, IBV_QP_STATE) && async(1) == IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK("in use", ibv_destroy_srq(h.srq) == EBUSY);
	pair(&normal);
	CHECK("destroy", !ibv_destroy_srq(h.srq));
}

static void datagrams(void)
{
	struct how h = normal;
	h.type = IBV_QPT_UD, h.qkey = 0x1234;
	pair(&h);
	struct ibv_ah_attr aa = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 9 } };
	gid(1, (uint8_t *)&aa.grh.dgid);
	struct ibv_ah *ah = ibv_create_ah(pds[0], &aa);
	CHECK("ah", ah);
	fill(mem[0], 1000, 4);
	for (int i = 0; i < 3; i++)
		CHECK("recv", !recv_at(1, 70 + i, mem[1] + 5000 * i, 1040, mrs[1]->lkey));
	struct ibv_sge s = { (uintptr_t)mem[0], 1000, mrs[0]->lkey };
	struct ibv_send_wr *bad, w = { .wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 77, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { ah, qp[1]->qp_num, 0x1234 } };
	CHECK("send", !ibv_post_send(qp[0], &w, &bad) && is(next(cqs[0]), 0, 1));
	struct ibv_wc r = next(cqs[1]);
	uint8_t *ip = (uint8_t *)mem[1] + 20;
	CHECK("datagram", is(r, 0, 70) && r.byte_len == 1040 && r.src_qp == qp[0]->qp_num && r.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && r.imm_data == 77);
	CHECK("its header", ip[0] == 0x45 && ip[8] == 9 && ip[9] == 17 && ip[15] == 1 && ip[19] == 2);
	CHECK("its data", !memcmp(mem[0], mem[1] + 40, 1000));
	w.wr.ud.remote_qkey = 0x4321;
	CHECK("wrong key", !ibv_post_send(qp[0], &w, &bad) && is(next(cqs[0]), 0, 1));
	s.length = 1001;
	w.wr.ud.remote_qkey = 0x1234;
	CHECK("too long for it", !ibv_post_send(qp[0], &w, &bad) && is(next(cqs[0]), 0, 1));
	s.length = 7;
	CHECK("a short one", !ibv_post_send(qp[0], &w, &bad) && is(next(cqs[0]), 0, 1));
	r = next(cqs[1]);
	CHECK("only that came", is(r, 0, 71) && r.byte_len == 47);
	s.length = 5000;
	CHECK("longer than a packet", !ibv_post_send(qp[0], &w, &bad) && is(next(cqs[0]), IBV_WC_LOC_LEN_ERR, 1) && state(0) == IBV_QPS_ERR);
	struct ibv_qp_attr e = { .qp_state = IBV_QPS_ERR };
	CHECK("flush", !ibv_modify_qp(qp[1], &e, IBV_QP_STATE) && is(next(cqs[1]), IBV_WC_WR_FLUSH_ERR, 72));
	CHECK("ah", !ibv_destroy_ah(ah));

	h.type = IBV_QPT_UC;
	pair(&h);
	fill(mem[0], 100000, 5);
	CHECK("uc recv", !recv_at(1, 1, mem[1], 100000, mrs[1]->lkey) && !send_(0, IBV_WR_SEND, 2, 0, 99999, 0, 0));
	r = next(cqs[1]);
	CHECK("uc", is(next(cqs[0]), 0, 2) && is(r, 0, 1) && r.byte_len == 99999 && !memcmp(mem[0], mem[1], 99999));
	memset(mem[1], 0, 100000);
	CHECK("uc write", !recv_at(1, 3, mem[1], 0, mrs[1]->lkey) && !send_(0, IBV_WR_RDMA_WRITE_WITH_IMM, 4, 0, 99999, 0, mrs[1]->rkey) && is(next(cqs[0]), 0, 4));
	CHECK("uc write", is(next(cqs[1]), 0, 3) && !memcmp(mem[0], mem[1], 99999));
	CHECK("uc local key", !send_at(0, IBV_WR_SEND, 5, mem[0], 10, mrs[0]->lkey ^ 1, 0, 0, 0) && is(next(cqs[0]), IBV_WC_LOC_PROT_ERR, 5) && state(0) == IBV_QPS_ERR);
}

int main(int argc, char **argv)
{
	int n;
	struct ibv_device **l = ibv_get_device_list(&n);
	for (int k = 0; k < 2; k++) {
		char name[] = "metaroce0";
		name[8] += k;
		for (int i = 0; i < n; i++)
			if (!strcmp(ibv_get_device_name(l[i]), name))
				dev[k] = ibv_open_device(l[i]);
		CHECK("open", dev[k]);
		pds[k] = ibv_alloc_pd(dev[k]);
		cqs[k] = ibv_create_cq(dev[k], 200, NULL, NULL, 0);
		mem[k] = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mrs[k] = ibv_reg_mr(pds[k], mem[k], SIZE, ALL);
		CHECK("objects", pds[k] && cqs[k] && mrs[k]);
	}
	ibv_free_device_list(l);
	data();
	if (argc > 1 && !strcmp(argv[1], "data"))
		return 0;
	atomics();
	statuses();
	if (argc == 1)
		vanished();
	windows();
	shared();
	datagrams();
	for (int k = 0; k < 2; k++)
		CHECK("clean up", !ibv_destroy_qp(qp[k]) && quiet(k) && !ibv_dereg_mr(mrs[k]) && !ibv_destroy_cq(cqs[k]) && !ibv_dealloc_pd(pds[k]) &&
			!ibv_close_device(dev[k]));
	return 0;
}
