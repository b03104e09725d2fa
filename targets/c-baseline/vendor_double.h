/* DCQCN in double precision, as in simulators: the same equations as vendor.c, but not equal to the bit. */
#ifndef VENDOR_DOUBLE_H
#define VENDOR_DOUBLE_H

#include "rnic_cc.h"

enum { VENDOR_DOUBLE_PARAMS = 25 };

typedef struct {
    uint64_t last_now;
    uint64_t clock_offset;
    uint64_t cnp_handled;
    uint32_t clock_leaps;
    uint32_t clock_reversals;
    uint32_t param[VENDOR_DOUBLE_PARAMS];
    rnic_link link;
} vendor_double_dcqcn_port;

typedef struct {
    double current; /* rate in 2^-24 bytes per nanosecond */
    double target;
    double alpha;
    double left; /* bytes to the next expiry of the byte counter */
    uint32_t alpha_due;
    uint32_t rate_due;
    uint32_t cut_due;
    uint8_t time_stage;
    uint8_t byte_stage;
    uint8_t limited;
    uint8_t notified; /* sampled: 1 for alpha, 2 for the cut */
} vendor_double_dcqcn_flow;

rnic_status vendor_double_dcqcn_init(vendor_double_dcqcn_port *port, size_t size, const rnic_link *link, uint32_t preset,
                                     uint64_t now);
rnic_status vendor_double_dcqcn_set(vendor_double_dcqcn_port *port, const rnic_setting *list, size_t count,
                                    uint32_t *fault);
rnic_status vendor_double_dcqcn_open(vendor_double_dcqcn_port *port, const rnic_moment *at,
                                     vendor_double_dcqcn_flow *flow, rnic_decision *decision);
rnic_status vendor_double_dcqcn_on(vendor_double_dcqcn_port *port, vendor_double_dcqcn_flow *flow,
                                   const rnic_event *event, rnic_decision *decision);
rnic_status vendor_double_dcqcn_count(vendor_double_dcqcn_port *port, uint32_t id, uint64_t *value);

#endif
