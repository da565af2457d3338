// Posts and polls between breakpoints: `tests/steps.rs` steps through them and counts instructions. Nothing may be allocated
// in between.
#include "common.h"

#define ROUNDS 6

// Of this thread: the one that serves the card allocates.
static __thread volatile long allocations;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *malloc(size_t n) { allocations++; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { allocations++; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { allocations++; return __libc_realloc(p, n); }

#define MEASURE(x) do { \
	long before = allocations; \
	__asm__ volatile("int3" ::: "memory"); \
	x; \
	__asm__ volatile("int3" ::: "memory"); \
	bad += allocations != before; } while (0)

int main(int argc, char **argv)
{
	struct ibv_wc wc;
	struct ibv_recv_wr *badr;
	struct ibv_send_wr *bads;
	int n, r, bad = 0;
	open_card();
	struct ibv_cq *cq = ibv_create_cq(ctx, 100, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex x = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 } };
	struct ibv_qp *a = ibv_create_qp_ex(ctx, &x), *b = make_qp(cq, cq, 16, 1);
	CHECK("qp", a && b);
	join(a, b);
	struct ibv_qp_ex *e = ibv_qp_to_qp_ex(a);
	struct ibv_sge s = { (uintptr_t)buf, 8, mr->lkey };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)buf + 4096, mr->rkey } };
	struct ibv_recv_wr rw = { .sg_list = &s, .num_sge = 1 };
#define POLL() do { usleep(20000); MEASURE(n = ibv_poll_cq(cq, 1, &wc)); \
		CHECK("poll", n == 1 && wc.status == IBV_WC_SUCCESS); } while (0)
	for (int k = 0; k < ROUNDS; k++) {
		MEASURE(r = ibv_post_send(a, &w, &bads));
		CHECK("write", r == 0);
		POLL();
		w.send_flags |= IBV_SEND_INLINE;
		MEASURE(r = ibv_post_send(a, &w, &bads));
		CHECK("inline", r == 0);
		POLL();
		w.send_flags &= ~IBV_SEND_INLINE;
		w.opcode = IBV_WR_SEND;
		MEASURE(r = ibv_post_recv(b, &rw, &badr));
		CHECK("recv", r == 0);
		usleep(5000);
		MEASURE(r = ibv_post_send(a, &w, &bads));
		CHECK("send", r == 0);
		POLL();
		POLL();
		w.opcode = IBV_WR_RDMA_WRITE;
		MEASURE(ibv_wr_start(e);
			e->wr_id = 7; e->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(e, mr->rkey, (uintptr_t)buf + 4096);
			ibv_wr_set_sge(e, mr->lkey, (uintptr_t)buf, 8);
			r = ibv_wr_complete(e));
		CHECK("wr", r == 0);
		POLL();
	}
	CHECK("no allocation", bad == 0 || argc > 1);
	return 0;
}
