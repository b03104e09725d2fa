/*
 * DCQCN in plain fixed-point C, in the style of a vendor's sample: one structure for a flow, one for its parameters, and one
 * function with a switch on the event. It makes the same decisions as rnic_rp_dcqcn, by the same equations, and has the same
 * parameters, counters and switch; for each event it checks what the library checks: pointers, that the port was initialised and
 * has opened the flow, and the event's members. It is here to compare the cycles and bytes of such a program with those of the
 * library.
 */
#ifndef VENDOR_H
#define VENDOR_H

#include "rnic_cc.h"

enum { VENDOR_READY = 0x56444351, VENDOR_PARAMS = 25, VENDOR_FINE = 128, VENDOR_COARSE = 192, VENDOR_BANDS = 8 };

/* Division by a constant that is known only at run time. */
typedef struct {
    uint32_t length;
    uint32_t multiplier;
    uint8_t first;
    uint8_t second;
} vendor_period;

typedef struct {
    uint32_t ready; /* VENDOR_READY once initialised */
    uint32_t id;    /* by which flows know the port; never 0 */
    uint64_t last_now;
    uint64_t clock_offset;
    uint64_t cnp_handled;
    uint64_t cnp_stale;
    uint64_t cnp_unsupported;
    uint32_t clock_leaps;
    uint32_t clock_reversals;
    uint32_t is_off;
    uint32_t param[VENDOR_PARAMS];
    rnic_link link;
    /* The following members are computed from the parameters. */
    uint32_t ceiling;
    uint32_t floor;
    uint32_t first_rate;
    uint32_t ai_rate;
    uint32_t hai_rate;
    uint32_t least_share; /* 2^31 is 1 */
    vendor_period rate_period;
    vendor_period byte_period;
    vendor_period alpha_period;
    vendor_period cut_period;
    uint32_t initial_alpha;
    uint32_t refresh_after;
    uint32_t alpha_shift;
    uint32_t switches;
    uint32_t threshold;
    uint32_t hyper_threshold;
    uint32_t kept;    /* 1 - g; 2^32 is 1 */
    uint32_t gain;    /* g; 2^31 is 1, or 1024 if alpha is sampled */
    uint32_t horizon; /* periods after which alpha is 0 */
    uint32_t mask;    /* the bits of a sampled alpha; 2^32 is 1 */
    uint32_t fine[VENDOR_FINE];
    uint32_t coarse[VENDOR_COARSE];
    struct {
        uint32_t below;
        uint32_t reciprocal;
    } band[VENDOR_BANDS];
} vendor_dcqcn_port;

typedef struct {
    uint32_t current;
    uint32_t target;
    uint32_t alpha; /* sampled: 2^32 is 1; in the low 12 bits the tick before which a CNP came, or 0 */
    uint32_t alpha_at;
    uint32_t rate_due;
    uint32_t cut_due;
    uint32_t left; /* bytes to the next expiry of the byte counter in the low 24 bits, flags above */
    uint8_t time_stage;
    uint8_t byte_stage;
    uint16_t seq;
    uint32_t port; /* the id of the port that opened it */
} vendor_dcqcn_flow;

rnic_status vendor_dcqcn_init(vendor_dcqcn_port *port, size_t size, const rnic_link *link, uint32_t preset, uint64_t now);
rnic_status vendor_dcqcn_set(vendor_dcqcn_port *port, const rnic_setting *list, size_t count, uint32_t *fault);
rnic_status vendor_dcqcn_enable(vendor_dcqcn_port *port, uint32_t on);
rnic_status vendor_dcqcn_open(vendor_dcqcn_port *port, const rnic_moment *at, vendor_dcqcn_flow *flow,
                              rnic_decision *decision);
rnic_status vendor_dcqcn_on(vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, const rnic_event *event,
                            rnic_decision *decision);
rnic_status vendor_dcqcn_count(vendor_dcqcn_port *port, uint32_t id, uint64_t *value);

#endif
