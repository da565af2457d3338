// Shared by the verbs test programs: one card, QPs connected to each other on it.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what, cond) do { \
	if (!(cond)) { fprintf(stderr, "%s:%d: %s: %s (errno %d)\n", __FILE__, __LINE__, what, #cond, errno); exit(1); } \
	printf("ok %s\n", what); } while (0)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char *buf;
#define BUF 65536

__attribute__((unused)) static void open_card(void)
{
	int n;
	struct ibv_device **l = ibv_get_device_list(&n);
	for (int i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(l[i]), "metaroce0"))
			ctx = ibv_open_device(l[i]);
	CHECK("open", ctx);
	ibv_free_device_list(l);
	pd = ibv_alloc_pd(ctx);
	CHECK("pd", pd);
	buf = mmap(NULL, BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = ibv_reg_mr(pd, buf, BUF, 7);
	CHECK("mr", mr);
}

__attribute__((unused)) static struct ibv_qp *make_qp(struct ibv_cq *s, struct ibv_cq *r, int depth, int sges)
{
	struct ibv_qp_init_attr a = { .send_cq = s, .recv_cq = r, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = sges, .max_recv_sge = sges, .max_inline_data = 64 } };
	return ibv_create_qp(pd, &a);
}

static int to_init(struct ibv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 7 };
	return ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ibv_qp *q, uint32_t dest, uint8_t last_byte_of_ip)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest, .rq_psn = 5,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 64 } } };
	uint8_t g[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last_byte_of_ip };
	memcpy(&a.ah_attr.grh.dgid, g, 16);
	return ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .sq_psn = 5, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4 };
	return ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_MAX_QP_RD_ATOMIC);
}

__attribute__((unused)) static void join(struct ibv_qp *a, struct ibv_qp *b)
{
	CHECK("init", !to_init(a) && !to_init(b));
	CHECK("rtr", !to_rtr(a, b->qp_num, 1) && !to_rtr(b, a->qp_num, 1));
	CHECK("rts", !to_rts(a) && !to_rts(b));
}

__attribute__((unused)) static int post(struct ibv_qp *q, int op, uint64_t id, uint64_t off, uint32_t len, uint64_t raddr, uint32_t rkey, int flags)
{
	struct ibv_sge s = { (uintptr_t)buf + off, len, mr->lkey };
	struct ibv_send_wr *bad, w = { .wr_id = id, .sg_list = &s, .num_sge = 1, .opcode = op, .send_flags = flags,
		.imm_data = htonl(0x11223344), .wr.rdma = { raddr, rkey } };
	return ibv_post_send(q, &w, &bad);
}

__attribute__((unused)) static int recv_(struct ibv_qp *q, uint64_t id, uint64_t off, uint32_t len)
{
	struct ibv_sge s = { (uintptr_t)buf + off, len, mr->lkey };
	struct ibv_recv_wr *bad, w = { .wr_id = id, .sg_list = &s, .num_sge = 1 };
	return ibv_post_recv(q, &w, &bad);
}

// The next completion, within ten seconds.
__attribute__((unused)) static struct ibv_wc next(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	for (long i = 0; i < 200000; i++) {
		int n = ibv_poll_cq(cq, 1, &wc);
		if (n == 1)
			return wc;
		if (n < 0)
			break;
	}
	fprintf(stderr, "no completion\n");
	exit(1);
}
