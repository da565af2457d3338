// Threads that share two devices, each with queues of its own and, in turns, a CQ that it polls or sleeps on. Every message is looked at. Then a
// device that does nothing must not use the processor.
#include "common.h"
#include <pthread.h>
#include <sys/resource.h>

#define THREADS 4
#define ROUNDS 300
#define PART 16384

static struct ibv_context *dev[2];
static struct ibv_pd *pds[2];
static struct ibv_mr *mrs[2];
static char *mem[2];

static void die(const char *what, int t)
{
	fprintf(stderr, "thread %d: %s (errno %d)\n", t, what, errno);
	exit(1);
}

static struct ibv_wc wait_for(struct ibv_cq *cq, struct ibv_comp_channel *ch, int t)
{
	struct ibv_wc wc;
	if (!ch)
		return next(cq);
	for (;;) {
		struct ibv_cq *e;
		void *x;
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			return wc;
		if (ibv_req_notify_cq(cq, 0))
			die("arm", t);
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			return wc;
		if (ibv_get_cq_event(ch, &e, &x))
			die("event", t);
		ibv_ack_cq_events(e, 1);
	}
}

static void *run(void *arg)
{
	int t = (long)arg;
	struct ibv_qp *q[2];
	struct ibv_cq *cq[2];
	struct ibv_comp_channel *ch[2];
	for (int k = 0; k < 2; k++) {
		ch[k] = t % 2 ? ibv_create_comp_channel(dev[k]) : NULL;
		cq[k] = ibv_create_cq(dev[k], 64, NULL, ch[k], 0);
		struct ibv_qp_init_attr i = { .send_cq = cq[k], .recv_cq = cq[k], .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 } };
		q[k] = ibv_create_qp(pds[k], &i);
		if (!cq[k] || !q[k] || to_init(q[k]))
			die("objects", t);
	}
	for (int k = 0; k < 2; k++)
		if (to_rtr(q[k], q[!k]->qp_num, 2 - k) || to_rts(q[k]))
			die("connect", t);
	char *a = mem[0] + t * PART, *b = mem[1] + t * PART;
	for (int r = 0; r < ROUNDS; r++) {
		int from = r & 1, n = 1 + (r * 977 + t * 13) % (PART / 2 - 1);
		char *src = from ? b : a, *dst = (from ? a : b) + PART / 2;
		for (int i = 0; i < n; i++)
			src[i] = i * 5 + r + t;
		struct ibv_sge s = { (uintptr_t)src, n, mrs[from]->lkey }, g = { (uintptr_t)dst, n, mrs[!from]->lkey };
		struct ibv_recv_wr *br, rw = { .wr_id = r, .sg_list = &g, .num_sge = 1 };
		struct ibv_send_wr *bs, w = { .wr_id = r, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
		if (ibv_post_recv(q[!from], &rw, &br) || ibv_post_send(q[from], &w, &bs))
			die("post", t);
		struct ibv_wc c = wait_for(cq[!from], ch[!from], t);
		if (c.status || c.wr_id != r || c.byte_len != n || memcmp(src, dst, n))
			die("receive", t);
		c = wait_for(cq[from], ch[from], t);
		if (c.status || c.wr_id != r)
			die("send", t);
	}
	for (int k = 0; k < 2; k++)
		if (ibv_destroy_qp(q[k]) || ibv_destroy_cq(cq[k]) || (ch[k] && ibv_destroy_comp_channel(ch[k])))
			die("destroy", t);
	return NULL;
}

static double used(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(void)
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
		mem[k] = calloc(THREADS, PART);
		mrs[k] = ibv_reg_mr(pds[k], mem[k], THREADS * PART, 7);
		CHECK("objects", pds[k] && mrs[k]);
	}
	ibv_free_device_list(l);
	pthread_t th[THREADS];
	for (long t = 0; t < THREADS; t++)
		pthread_create(&th[t], NULL, run, (void *)t);
	for (int t = 0; t < THREADS; t++)
		pthread_join(th[t], NULL);
	usleep(200000);
	double before = used();
	usleep(1000000);
	double idle = used() - before;
	printf("%.4f s of processor in a second of nothing\n", idle);
	CHECK("idle", idle < 0.05);
	for (int k = 0; k < 2; k++)
		CHECK("clean up", !ibv_dereg_mr(mrs[k]) && !ibv_dealloc_pd(pds[k]) && !ibv_close_device(dev[k]));
	return 0;
}
