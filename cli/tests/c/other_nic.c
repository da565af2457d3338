// A libibverbs of its own with one device that nobody has seen: few of everything, no atomics, no windows, no shared receive queues, no UD, MTUs up to
// 1024. `conform.rs` probes it.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_query_port
#undef ibv_reg_mr

enum { PDS = 5, CQS = 9, MRS = 21, QPS = 13, DEPTH = 100, SGES = 3, CQES = 300, READS = 2 };

struct cq { struct ibv_cq cq; struct ibv_wc wc[CQES]; int n; };
struct recv { uint64_t id, addr; uint32_t length; };
struct qp { struct ibv_qp qp; uint32_t peer; struct recv r[DEPTH]; int n, depth; };

static struct ibv_device device = { .name = "other_0" };
static struct ibv_context context;
static int pds, cqs, mrs;
static struct qp *qps[QPS];
static struct ibv_mr *regions[MRS];

static void *no(int e)
{
	errno = e;
	return NULL;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **l = calloc(2, sizeof *l);
	l[0] = &device;
	if (n)
		*n = 1;
	return l;
}

void ibv_free_device_list(struct ibv_device **l) { free(l); }
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

static int poll_cq(struct ibv_cq *p, int n, struct ibv_wc *wc)
{
	struct cq *c = (struct cq *)p;
	if (n < 1 || !c->n)
		return 0;
	*wc = c->wc[0];
	memmove(c->wc, c->wc + 1, --c->n * sizeof *wc);
	return 1;
}

static void complete(struct ibv_cq *p, uint64_t id, uint32_t qpn, int status, uint32_t bytes)
{
	struct cq *c = (struct cq *)p;
	if (c->n < CQES)
		c->wc[c->n++] = (struct ibv_wc){ .wr_id = id, .qp_num = qpn, .status = status, .byte_len = bytes };
}

static int allowed(uint64_t at, uint32_t n, uint32_t rkey)
{
	for (int i = 0; i < MRS; i++) {
		struct ibv_mr *m = regions[i];
		if (m && m->rkey == rkey && at >= (uintptr_t)m->addr && at + n <= (uintptr_t)m->addr + m->length)
			return 1;
	}
	return 0;
}

static int post_send(struct ibv_qp *p, struct ibv_send_wr *w, struct ibv_send_wr **bad)
{
	struct qp *q = (struct qp *)p, *to = NULL;
	for (int i = 0; i < QPS; i++)
		if (qps[i] && qps[i]->qp.qp_num == q->peer)
			to = qps[i];
	*bad = w;
	if (!to || w->num_sge != 1)
		return EINVAL;
	void *here = (void *)(uintptr_t)w->sg_list->addr, *there = (void *)(uintptr_t)w->wr.rdma.remote_addr;
	uint32_t n = w->sg_list->length;
	int status = IBV_WC_SUCCESS;
	if (w->opcode == IBV_WR_SEND) {
		if (!to->n || to->r[0].length < n)
			return ENOMEM;
		memcpy((void *)(uintptr_t)to->r[0].addr, here, n);
		complete(to->qp.recv_cq, to->r[0].id, to->qp.qp_num, IBV_WC_SUCCESS, n);
		memmove(to->r, to->r + 1, --to->n * sizeof to->r[0]);
	} else if (w->opcode == IBV_WR_RDMA_WRITE || w->opcode == IBV_WR_RDMA_READ) {
		if (!allowed(w->wr.rdma.remote_addr, n, w->wr.rdma.rkey))
			status = IBV_WC_REM_ACCESS_ERR;
		else if (w->opcode == IBV_WR_RDMA_WRITE)
			memcpy(there, here, n);
		else
			memcpy(here, there, n);
	} else {
		return EINVAL;
	}
	complete(p->send_cq, w->wr_id, p->qp_num, status, n);
	return 0;
}

static int post_recv(struct ibv_qp *p, struct ibv_recv_wr *w, struct ibv_recv_wr **bad)
{
	struct qp *q = (struct qp *)p;
	*bad = w;
	if (q->n == q->depth)
		return ENOMEM;
	q->r[q->n++] = (struct recv){ w->wr_id, w->sg_list->addr, w->sg_list->length };
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	context.device = d;
	context.ops.poll_cq = poll_cq;
	context.ops.post_send = post_send;
	context.ops.post_recv = post_recv;
	return &context;
}

int ibv_close_device(struct ibv_context *c) { return 0; }

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	memset(a, 0, sizeof *a);
	strcpy(a->fw_ver, "7.1");
	a->max_qp = QPS, a->max_qp_wr = DEPTH, a->max_sge = SGES, a->max_cq = CQS, a->max_cqe = CQES, a->max_mr = MRS;
	a->max_pd = PDS, a->max_qp_rd_atom = READS, a->phys_port_cnt = 1;
	return 0;
}

int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *p)
{
	struct ibv_port_attr *a = (struct ibv_port_attr *)p;
	a->active_width = 1, a->active_speed = 4;
	return 0;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *g)
{
	memset(g, 0, sizeof *g);
	g->raw[15] = index == 0;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	if (pds == PDS)
		return no(ENOMEM);
	pds++;
	struct ibv_pd *p = calloc(1, sizeof *p);
	p->context = c;
	return p;
}

int ibv_dealloc_pd(struct ibv_pd *p)
{
	pds--;
	free(p);
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t n, int access)
{
	if (access & (IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_ATOMIC))
		return no(EINVAL);
	for (int i = 0; i < MRS; i++)
		if (!regions[i]) {
			struct ibv_mr *m = regions[i] = calloc(1, sizeof *m);
			*m = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = n, .lkey = i + 1, .rkey = i + 1 };
			mrs++;
			return m;
		}
	return no(ENOMEM);
}

int ibv_rereg_mr(struct ibv_mr *m, int flags, struct ibv_pd *pd, void *a, size_t n, int access) { return EOPNOTSUPP; }

int ibv_dereg_mr(struct ibv_mr *m)
{
	regions[m->lkey - 1] = NULL;
	free(m);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int n, void *user, struct ibv_comp_channel *ch, int v)
{
	if (n < 1 || n > CQES || cqs == CQS)
		return no(EINVAL);
	cqs++;
	struct cq *q = calloc(1, sizeof *q);
	q->cq.context = c;
	return &q->cq;
}

int ibv_resize_cq(struct ibv_cq *c, int n) { return n > CQES ? EINVAL : 0; }

int ibv_destroy_cq(struct ibv_cq *c)
{
	cqs--;
	free(c);
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a) { return no(EOPNOTSUPP); }
int ibv_destroy_srq(struct ibv_srq *s) { return EINVAL; }
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a) { return no(EOPNOTSUPP); }
int ibv_destroy_ah(struct ibv_ah *a) { return EINVAL; }

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	static uint32_t number = 100;
	if ((a->qp_type != IBV_QPT_RC && a->qp_type != IBV_QPT_UC) || a->srq)
		return no(EOPNOTSUPP);
	if (a->cap.max_send_wr > DEPTH || a->cap.max_recv_wr > DEPTH || a->cap.max_send_sge > SGES || a->cap.max_recv_sge > SGES ||
	    a->cap.max_inline_data)
		return no(EINVAL);
	for (int i = 0; i < QPS; i++)
		if (!qps[i]) {
			struct qp *q = qps[i] = calloc(1, sizeof *q);
			q->depth = a->cap.max_recv_wr;
			q->qp = (struct ibv_qp){ .context = pd->context, .pd = pd, .send_cq = a->send_cq, .recv_cq = a->recv_cq,
				.qp_num = number++, .qp_type = a->qp_type };
			return &q->qp;
		}
	return no(ENOMEM);
}

int ibv_modify_qp(struct ibv_qp *p, struct ibv_qp_attr *a, int mask)
{
	struct qp *q = (struct qp *)p;
	if ((mask & IBV_QP_ACCESS_FLAGS) && (a->qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC))
		return EINVAL;
	if ((mask & IBV_QP_PATH_MTU) && a->path_mtu > IBV_MTU_1024)
		return EINVAL;
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > READS)
		return EINVAL;
	if (mask & IBV_QP_DEST_QPN)
		q->peer = a->dest_qp_num;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *p)
{
	for (int i = 0; i < QPS; i++)
		if (qps[i] == (struct qp *)p)
			qps[i] = NULL;
	free(p);
	return 0;
}
