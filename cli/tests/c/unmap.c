// Memory that is unmapped or protected after ibv_reg_mr: what the card writes there is lost.
#include "../../../host-driver/provider/tests/c/common.h"

int main(void)
{
	open_card();
	struct ibv_cq *cq = ibv_create_cq(ctx, 100, NULL, NULL, 0);
	struct ibv_qp *a = make_qp(cq, cq, 16, 1), *b = make_qp(cq, cq, 16, 1);
	join(a, b);
	for (int kind = 0; kind < 2; kind++) {
		char *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct ibv_mr *r = ibv_reg_mr(pd, m, 8192, 7);
		CHECK("mr", r);
		CHECK("gone", kind ? !munmap(m, 8192) : !mprotect(m, 8192, PROT_NONE));
		CHECK("write", !post(a, IBV_WR_RDMA_WRITE, 7, 0, 100, (uintptr_t)m, r->rkey, IBV_SEND_SIGNALED));
		CHECK("completion", next(cq).status == IBV_WC_SUCCESS);
	}
	return 0;
}
