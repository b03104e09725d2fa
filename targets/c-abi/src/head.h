/*
 * rnic-cc: RDMA congestion control that runs inside the NIC. Link librnic_cc.a.
 *
 * Written by `hil check header` from targets/c-abi: change it there.
 *
 * Each algorithm has functions of its own, declared at the end: rnic_rp_NAME_... at the sender (reaction point) and
 * rnic_np_NAME_... at the receiver (notification point). What a program does not call is not linked.
 *
 *     static rnic_rp_dcqcn_port port;                      // one for each network port: parameters, counters
 *     static rnic_rp_dcqcn_flow flows[1024];               // one for each queue pair that sends
 *     rnic_rp_dcqcn_init(&port, sizeof port, &link, RNIC_RP_DCQCN_PRESET_PAPER, clock_ns());
 *     rnic_rp_dcqcn_open(&port, &event.at, &flows[n], &decision);
 *     rnic_rp_dcqcn_on(&port, &flows[n], &event, &decision);  // event in, decision out
 *
 * Memory is the caller's. Ports and flows are opaque, keep nothing but numbers, and may be moved and copied. A port and
 * its flows belong to one thread at a time. Arguments must not overlap, and what they point to must be what its type
 * says: a port that `init` filled (or zeros, which are refused), a flow that `open` filled with this very port. Null and
 * misaligned pointers are refused.
 *
 * Units: times are nanoseconds, rates 2^-24 bytes per nanosecond (477 b/s; 1 Gb/s is 1 << 21), sizes bytes.
 *
 * Time: each port is called at least once a second, and each of its flows is given a WAKE at least once a second. That
 * keeps 32-bit stamps unambiguous. A wake too many, too late or too early changes no decision. A clock that leaps by
 * more than a second, or runs back, is counted, and no time passes for the flows.
 */
#ifndef RNIC_CC_H
#define RNIC_CC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The interface that this header describes: major in the upper half. rnic_version() is the library's. */
#define RNIC_VERSION 0x00020000u
uint32_t rnic_version(void);

/* How a call ended. Where it is not RNIC_OK, nothing was changed, and nothing written but `fault`. */
typedef int32_t rnic_status;
#define RNIC_OK 0
#define RNIC_NULL (-1)         /* a pointer is null */
#define RNIC_MISALIGNED (-2)   /* a pointer is not aligned as its type asks */
#define RNIC_NOT_READY (-3)    /* a port that was not initialised by this algorithm's `init` */
#define RNIC_TOO_SMALL (-4)    /* the library's port is larger than this header's */
#define RNIC_UNKNOWN_ID (-5)   /* no parameter, preset or counter of this number */
#define RNIC_OUT_OF_RANGE (-6) /* a value outside the parameter's bounds */
#define RNIC_CONFLICT (-7)     /* values that do not go together, or not with this link */
#define RNIC_BAD_EVENT (-8)    /* an event of no known kind, or a member outside its values */

#define RNIC_NEVER 0xffffffffu     /* of rnic_decision.wake_in */
#define RNIC_NO_WINDOW 0xffffffffu /* of rnic_decision.window */

/* UTF-8, not terminated: printf("%.*s", (int)text.length, text.data). */
typedef struct rnic_text {
    const char *data;
    uint32_t length;
} rnic_text;

/* The link of a port. */
typedef struct rnic_link {
    uint32_t line_rate;
    uint32_t mtu;      /* largest packet on the wire */
    uint32_t base_rtt; /* round-trip time of the empty network */
} rnic_link;

/* A parameter. Ids count from 0; those of each algorithm are named below. */
typedef struct rnic_param {
    rnic_text name; /* as operators type it */
    rnic_text unit; /* empty for a plain number */
    rnic_text text; /* what it does */
    uint32_t min;
    uint32_t max;
    uint32_t value; /* in the first preset */
} rnic_param;

/* A parameter is to have a value. */
typedef struct rnic_setting {
    uint32_t id;
    uint32_t value;
} rnic_setting;

/* A counter. Ids count from 0. */
typedef struct rnic_counter {
    rnic_text name;
    rnic_text text; /* what it counts */
} rnic_counter;

rnic_status rnic_rp_counter(uint32_t id, rnic_counter *info); /* RNIC_UNKNOWN_ID behind the last */
rnic_status rnic_np_counter(uint32_t id, rnic_counter *info);

/* ---- At the sender ---- */

/* When something happened, and what PFC was doing to the flow's priority. Without PFC both are 0. */
typedef struct rnic_moment {
    uint64_t now;    /* the caller's clock */
    uint32_t pause;  /* how much longer it is paused */
    uint32_t paused; /* how long it has been paused so far, modulo 2^32, the present pause included */
} rnic_moment;

#define RNIC_SENT 1u /* packets left: of.sent */
#define RNIC_ACK 2u  /* an acknowledgement arrived: of.ack */
#define RNIC_NACK 3u /* the receiver expects of.nack_psn, and all from there on are sent again */
#define RNIC_CNP 4u  /* a congestion notification packet arrived: of.cnp_body */
#define RNIC_WAKE 5u /* the time that a decision asked for has come, or the caller just looks in */
#define RNIC_SWITCH_INT 6u /* a switch sent back by itself what the ports on the way to it say: of.switch_int */

/* In-band telemetry that a packet collected. */
typedef struct rnic_telemetry {
    const uint8_t *records; /* `hops` records; null where there is none */
    uint16_t path;          /* a number that changes with the path, 12 bits */
    uint8_t hops;           /* 0 to 14; 15: more hops than room */
    uint8_t layout;         /* 0: 16 bytes a hop; 1: 8 */
} rnic_telemetry;

typedef struct rnic_sent {
    uint32_t psn;   /* of the last packet */
    uint32_t bytes; /* on the wire, of all of them */
} rnic_sent;

/* What is not known is 0. */
typedef struct rnic_ack {
    rnic_telemetry telemetry;   /* what the newest packet acknowledged collected */
    uint32_t psn;               /* everything up to here has arrived */
    uint32_t acked;             /* bytes newly acknowledged, as sent on the wire */
    uint32_t rtt;               /* from when the newest packet acknowledged left to now */
    uint32_t receiver_hold;              /* how much of that the receiver held it */
    uint32_t grant_window;      /* bytes that the receiver grants, if grant_flows is not 0 */
    uint32_t mlcc_advised_rate;      /* the rate that an MLCC receiver advises, if mlcc_credit is not 0 */
    uint32_t mlcc_release;      /* how fast it lets the interconnect switch release the flow's queue */
    uint16_t mlcc_credit;       /* the credit that it wants to see in data */
    uint16_t grant_flows;       /* flows that send to the receiver's port */
    uint16_t grant_utilisation; /* what that port received of what its link carries, in 2^-16 */
    uint8_t mark;               /* the strongest of the packets acknowledged: 0 none, 1 undetermined, 2 congested */
    uint8_t hops;               /* switches on the path */
    uint8_t rx_buffer_level;           /* how full the receiver's buffers were, 0 to 31 */
} rnic_ack;

/* Something that happened to one flow. */
typedef struct rnic_event {
    rnic_moment at;
    uint32_t kind;
    union {
        rnic_sent sent;
        rnic_ack ack;
        uint32_t nack_psn;
        const uint8_t *cnp_body; /* the 16 bytes behind the BTH; null for a standard CNP */
        rnic_telemetry switch_int;
    } of;
} rnic_event;

/* How a flow is to be paced from now on: all of it, not a change. */
typedef struct rnic_decision {
    uint32_t rate;    /* send at most this fast */
    uint32_t window;  /* keep at most so much in flight */
    uint32_t hold;    /* send nothing for so long */
    uint32_t wake_in; /* give the flow a WAKE after so long */
} rnic_decision;

/*
 * init   makes `port` a port with a preset; `size` is sizeof *port
 * param  describes a parameter
 * get    reads a parameter
 * set    sets `count` parameters, or none of them; `fault`, if not null, is told the id of the one at fault.
 *        Flows go on from where they are
 * open   begins a flow that has sent nothing yet
 * on     takes one event of one flow; one that the algorithm does not take changes nothing
 * count  reads a counter
 */
#define RNIC_RP_FUNCTIONS(NAME)                                                                                   \
    rnic_status rnic_rp_##NAME##_init(rnic_rp_##NAME##_port *port, size_t size, const rnic_link *link,            \
                                      uint32_t preset, uint64_t now);                                             \
    rnic_status rnic_rp_##NAME##_param(uint32_t id, rnic_param *info);                                            \
    rnic_status rnic_rp_##NAME##_get(rnic_rp_##NAME##_port *port, uint32_t id, uint32_t *value);                  \
    rnic_status rnic_rp_##NAME##_set(rnic_rp_##NAME##_port *port, const rnic_setting *list, size_t count,         \
                                     uint32_t *fault);                                                            \
    rnic_status rnic_rp_##NAME##_open(rnic_rp_##NAME##_port *port, const rnic_moment *at,                         \
                                      rnic_rp_##NAME##_flow *flow, rnic_decision *decision);                      \
    rnic_status rnic_rp_##NAME##_on(rnic_rp_##NAME##_port *port, rnic_rp_##NAME##_flow *flow,                     \
                                    const rnic_event *event, rnic_decision *decision);                            \
    rnic_status rnic_rp_##NAME##_count(rnic_rp_##NAME##_port *port, uint32_t id, uint64_t *value)

/* ---- At the receiver ---- */

/* A data packet of one flow arrived. */
typedef struct rnic_arrival {
    uint64_t now;       /* the caller's clock */
    uint32_t local_qpn; /* the queue pair that it is for */
    uint32_t psn;
    uint32_t bytes;   /* on the wire */
    uint32_t payload; /* of that, without headers, pad and checks */
    uint32_t sent;        /* the sender's clock when it left, if has_sent */
    uint32_t mlcc_queue;  /* what the flow's queue at MLCC's interconnect switch holds, if has_mlcc */
    uint16_t mlcc_credit; /* the credit that the switch wrote */
    uint8_t has_mlcc;     /* 0 or 1 */
    uint8_t has_sent;     /* 0 or 1 */
    uint8_t ecn;          /* the two ECN bits of the IP header */
    uint8_t first;        /* 1: it begins a message */
    uint8_t last;         /* 1: it ends one */
    rnic_telemetry telemetry;
} rnic_arrival;

/* What to answer. A CNP that is due stays due until `notified`, what an acknowledgement says until `acknowledged`. */
typedef struct rnic_reply {
    uint32_t grant_window; /* what the next acknowledgement grants, if grant_flows is not 0 */
    uint32_t mlcc_advised_rate; /* what MLCC's says, if mlcc_credit is not 0 */
    uint32_t mlcc_release;
    uint16_t mlcc_credit;
    uint16_t grant_flows;
    uint16_t grant_utilisation;
    uint8_t echo;         /* the mark that it echoes: 0 none, 1 undetermined, 2 congested */
    uint8_t cnp;          /* 1: send a CNP */
    uint8_t cnp_body[16]; /* behind its BTH */
} rnic_reply;

#define RNIC_PASS 0u   /* nothing to do */
#define RNIC_LEAVE 1u  /* the record says nothing more: `close` it; it can then be opened for another flow */
#define RNIC_NOTIFY 2u /* send a CNP */

/* What a flow does in its turn. */
typedef struct rnic_slot {
    uint32_t action;
    uint32_t local_qpn;
    uint8_t cnp_body[16];
} rnic_slot;

/*
 * init to set, count   as at the sender
 * open          begins the record of a flow
 * on            takes one packet of the flow
 * notified      its CNP went out
 * acknowledged  an acknowledgement with what the last reply said went out
 * turn          for algorithms that send CNPs with no packet in hand: one flow after the other is given a turn
 * close         the record is given up, for another flow's or with its queue pair
 *
 * Which flows have a record, and the bound on CNPs of a whole port, are the caller's.
 */
#define RNIC_NP_FUNCTIONS(NAME)                                                                                   \
    rnic_status rnic_np_##NAME##_init(rnic_np_##NAME##_port *port, size_t size, const rnic_link *link,            \
                                      uint32_t preset, uint64_t now);                                             \
    rnic_status rnic_np_##NAME##_param(uint32_t id, rnic_param *info);                                            \
    rnic_status rnic_np_##NAME##_get(rnic_np_##NAME##_port *port, uint32_t id, uint32_t *value);                  \
    rnic_status rnic_np_##NAME##_set(rnic_np_##NAME##_port *port, const rnic_setting *list, size_t count,         \
                                     uint32_t *fault);                                                            \
    rnic_status rnic_np_##NAME##_open(rnic_np_##NAME##_port *port, uint64_t now, uint32_t local_qpn,              \
                                      rnic_np_##NAME##_flow *flow);                                               \
    rnic_status rnic_np_##NAME##_on(rnic_np_##NAME##_port *port, rnic_np_##NAME##_flow *flow,                     \
                                    const rnic_arrival *arrival, rnic_reply *reply);                              \
    rnic_status rnic_np_##NAME##_on_cnp_sent(rnic_np_##NAME##_port *port, rnic_np_##NAME##_flow *flow, uint64_t now); \
    rnic_status rnic_np_##NAME##_on_ack_sent(rnic_np_##NAME##_port *port, rnic_np_##NAME##_flow *flow,           \
                                              uint64_t now);                                                      \
    rnic_status rnic_np_##NAME##_slot(rnic_np_##NAME##_port *port, rnic_np_##NAME##_flow *flow, uint64_t now,     \
                                      rnic_slot *turn);                                                           \
    rnic_status rnic_np_##NAME##_close(rnic_np_##NAME##_port *port, rnic_np_##NAME##_flow *flow, uint64_t now);   \
    rnic_status rnic_np_##NAME##_count(rnic_np_##NAME##_port *port, uint32_t id, uint64_t *value)

/* ---- The algorithms: sizes and alignments in bytes, presets, parameters ---- */
