// C interface of a Verilated card: one struct in, one struct out per clock cycle. Compiled once for each kind of card: MODEL is its class, FN(x) its name of
// function x. All kinds have the same ports.
#define STR2(x) #x
#define STR(x) STR2(x)
#include STR(MODEL.h)
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif
#include <cstdint>
#include <cstring>

#ifdef RUNTIME
double sc_time_stamp() { return 0; }
#endif

namespace {

// Field order and sizes equal ffi.rs.
struct In {
    uint64_t now;
    uint32_t rx_data[16];
    uint32_t rx_meta[2];
    uint32_t hrd_data[16];
    uint32_t mmio_wr_data[16];
    uint32_t mmio_wr_addr, mmio_rd_addr, hrd_meta;
    uint8_t rst, rx_valid, tx_ready, hrd_valid, rd_ready, wr_ready, mmio_wr_valid, mmio_wr_len, mmio_rd_valid, pad[7];
};
struct Out {
    uint64_t deadline;
    uint32_t tx_data[16];
    uint32_t tx_meta[2];
    uint32_t rd_data[4];
    uint32_t wr_data[16];
    uint32_t wr_meta[5];
    uint32_t mmio_rd_data, msi_pasid;
    uint8_t tx_valid, rd_valid, wr_valid, msi_valid, mmio_rd_done, mmio_wr_ready, idle, deadline_valid, pad[4];
};
struct Card {
    VerilatedContext ctx;
    MODEL* top;
#if VM_TRACE
    VerilatedFstC* fst = nullptr;
#endif
};

static void dump(Card* c) {
#if VM_TRACE
    if (c->fst) c->fst->dump(c->ctx.time());
#endif
    (void)c;
}
}

extern "C" {

Card* FN(new)() {
    Card* c = new Card;
#if VM_TRACE
    c->ctx.traceEverOn(true);
#endif
    c->top = new MODEL(&c->ctx, "card");
    c->top->clock = 0;
    c->top->eval();
    return c;
}

int FN(trace)(Card* c, const char* path) {
#if VM_TRACE
    c->fst = new VerilatedFstC;
    c->top->trace(c->fst, 99);
    c->fst->open(path);
    return c->fst->isOpen() ? 0 : -1;
#else
    (void)c; (void)path;
    return -1;
#endif
}

// Applies the inputs, settles, samples the outputs, then clocks.
void FN(step)(Card* c, const In* i, Out* o) {
    MODEL* t = c->top;
    t->clock = 0;
    t->rst = i->rst;
    t->now = i->now;
    t->rx_valid = i->rx_valid;
    if (i->rx_valid) {
        memcpy(&t->rx_data, i->rx_data, sizeof t->rx_data);
        memcpy(&t->rx_meta, i->rx_meta, sizeof t->rx_meta);
    }
    t->tx_ready = i->tx_ready;
    t->hrd_valid = i->hrd_valid;
    if (i->hrd_valid) {
        memcpy(&t->hrd_data, i->hrd_data, sizeof t->hrd_data);
        t->hrd_meta = i->hrd_meta;
    }
    t->rd_ready = i->rd_ready;
    t->wr_ready = i->wr_ready;
    t->mmio_wr_valid = i->mmio_wr_valid;
    t->mmio_wr_len = i->mmio_wr_len;
    t->mmio_wr_addr = i->mmio_wr_addr;
    if (i->mmio_wr_valid) memcpy(&t->mmio_wr_data, i->mmio_wr_data, sizeof t->mmio_wr_data);
    t->mmio_rd_valid = i->mmio_rd_valid;
    t->mmio_rd_addr = i->mmio_rd_addr;
    t->eval();
    dump(c);
    o->tx_valid = t->tx_valid;
    if (t->tx_valid) {
        memcpy(o->tx_data, &t->tx_data, sizeof t->tx_data);
        memcpy(o->tx_meta, &t->tx_meta, sizeof t->tx_meta);
    }
    o->rd_valid = t->rd_valid;
    if (t->rd_valid) memcpy(o->rd_data, &t->rd_data, sizeof t->rd_data);
    o->wr_valid = t->wr_valid;
    if (t->wr_valid) {
        memcpy(o->wr_data, &t->wr_data, sizeof t->wr_data);
        memcpy(o->wr_meta, &t->wr_meta, sizeof t->wr_meta);
    }
    o->msi_valid = t->msi_valid;
    o->msi_pasid = t->msi_pasid;
    o->mmio_rd_done = t->mmio_rd_done;
    o->mmio_rd_data = t->mmio_rd_data;
    o->mmio_wr_ready = t->mmio_wr_ready;
    o->idle = t->idle;
    o->deadline_valid = t->deadline_valid;
    o->deadline = t->deadline;
    c->ctx.timeInc(1);
    t->clock = 1;
    t->eval();
    dump(c);
    c->ctx.timeInc(1);
}

void FN(free)(Card* c) {
    c->top->final();
#if VM_TRACE
    if (c->fst) { c->fst->close(); delete c->fst; }
#endif
    delete c->top;
    delete c;
}
}
