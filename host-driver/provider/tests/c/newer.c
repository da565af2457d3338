// Verbs that are newer than the headers this is built with: looked up in the library that runs, and named "absent" if
// it does not have them.
#define _GNU_SOURCE
#include "common.h"
#include <dlfcn.h>

static void *find(const char *name)
{
	void *f = dlsym(RTLD_DEFAULT, name);
	if (!f)
		printf("absent %s\n", name);
	return f;
}

struct reg_ex {
	size_t length;
	int access;
	uint64_t mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};
enum { MASK_IOVA = 1, MASK_ADDR = 2, MASK_DMAH = 16 };

int main(void)
{
	open_card();

	int (*speed)(struct ibv_context *, uint32_t, uint64_t *) = find("ibv_query_port_speed");
	if (speed) {
		uint64_t s = 0;
		int r = speed(ctx, 1, &s);
		CHECK("ibv_query_port_speed", !r && s == 1000);
		CHECK("speed of no port", speed(ctx, 2, &s) == EINVAL);
	}

	struct ibv_mr *(*reg_ex)(struct ibv_pd *, struct reg_ex *) = find("ibv_reg_mr_ex");
	if (reg_ex) {
		struct reg_ex a = { .length = BUF, .access = 7, .mask = MASK_ADDR, .addr = buf };
		struct ibv_mr *m = reg_ex(pd, &a);
		CHECK("ibv_reg_mr_ex", m && m->lkey && m->lkey != mr->lkey && m->length == BUF);
		CHECK("dereg of reg_mr_ex", !ibv_dereg_mr(m));
		a.mask = MASK_IOVA;
		errno = 0;
		CHECK("reg_mr_ex without memory", !reg_ex(pd, &a) && errno == EINVAL);
		a.mask |= MASK_ADDR;
		a.iova = 1 << 20;
		m = reg_ex(pd, &a);
		CHECK("reg_mr_ex with an address of its own", m && !ibv_dereg_mr(m));
		struct { struct ibv_context *c; } none = { ctx };
		a.mask = MASK_ADDR | MASK_DMAH;
		a.dmah = &none;
		errno = 0;
		CHECK("reg_mr_ex with a DMA handle", !reg_ex(pd, &a) && errno == EOPNOTSUPP);
	}

	void *(*alloc)(struct ibv_pd *, size_t, void **) = find("ibv_alloc_buf");
	void (*release)(void *) = find("ibv_free_buf");
	struct ibv_mr *(*reg)(struct ibv_pd *, void *, void *, size_t, int) = dlsym(RTLD_DEFAULT, "ibv_reg_buf_mr");
	if (alloc && release && reg) {
		void *b = NULL, *p = alloc(pd, 10000, &b);
		CHECK("ibv_alloc_buf", p && b);
		struct ibv_mr *m = reg(pd, b, p, 10000, 7);
		CHECK("region of a buffer", m && !ibv_dereg_mr(m));
		release(b);
		CHECK("ibv_free_buf", 1);
	}

	uint32_t attr[16] = { 0 };
	void *(*dmah)(struct ibv_context *, void *) = find("ibv_alloc_dmah");
	errno = 0;
	if (dmah)
		CHECK("ibv_alloc_dmah", !dmah(ctx, attr) && errno == EOPNOTSUPP);
	void *(*counter)(struct ibv_context *, void *) = find("ibv_create_comp_cntr");
	errno = 0;
	if (counter)
		CHECK("ibv_create_comp_cntr", !counter(ctx, attr) && errno == EOPNOTSUPP);

	CHECK("close", !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
	return 0;
}
