/*
 * rnic-cc: RDMA congestion control that runs inside the NIC.
 *
 * Build: cargo rustc -p rnic-cc --profile firmware --target TARGET --crate-type staticlib
 * Link:  target/TARGET/firmware/librnic_cc.a with -Wl,--gc-sections. Without that option all algorithms are linked (120 KB on
 *        RV32IMC), and an archive of another profile or from `cargo build` does not link. On Linux add -lpthread -ldl -lm.
 *
 * Written by `hil check header` from targets/c-abi: change it there.
 *
 * Each algorithm has its own functions, declared at the end: rnic_rp_NAME_... at the sender (reaction point) and
 * rnic_np_NAME_... at the receiver (notification point). With --gc-sections, functions that a program does not
 * call are not linked.
 *
 *     static rnic_rp_dcqcn_port port;                      // one for each network port: parameters, counters
 *     static rnic_rp_dcqcn_flow flows[1024];               // one for each queue pair that sends
 *     rnic_rp_dcqcn_init(&port, sizeof port, &link, RNIC_RP_DCQCN_PRESET_PAPER, clock_ns());
 *     rnic_rp_dcqcn_open(&port, &event.at, &flows[n], &decision);
 *     rnic_rp_dcqcn_on(&port, &flows[n], &event, &decision);  // event in, decision out
 *
 * Memory is the caller's. Ports and flows are opaque; they contain numbers only, no pointers, and may be moved and copied.
 * A port and its flows may be used by one thread at a time. Arguments must not overlap. A port pointer must point to a
 * port that `init` filled, or to zeros, which are refused; a flow pointer to a flow that `open` filled. A flow that was not
 * opened with this same port is refused, and so are null and misaligned pointers.
 *
 * Units: times are nanoseconds, rates 2^-24 bytes per nanosecond (477 b/s; 1 Gb/s is 1 << 21), sizes bytes.
 *
 * Time: call each port at least once a second, and give each of its flows a WAKE at least once a second. That keeps
 * 32-bit time stamps unambiguous. An additional, late or early wake changes no decision. If the caller's clock jumps
 * forward by more than a second, or back, the jump is counted, and no time passes for the flows.
 */
#ifndef RNIC_CC_H
#define RNIC_CC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the interface in this header: major in the upper half, minor below. rnic_version() returns the library's. */
#define RNIC_VERSION 0x00020000u
uint32_t rnic_version(void);

/* The status of a call. If it is not RNIC_OK, nothing was changed, and nothing was written except `fault`. */
typedef int32_t rnic_status;
#define RNIC_OK 0
#define RNIC_NULL (-1)         /* a pointer is null */
#define RNIC_MISALIGNED (-2)   /* a pointer is not aligned as its type requires */
#define RNIC_NOT_READY (-3)    /* the port was not initialised by this algorithm's `init` */
#define RNIC_TOO_SMALL (-4)    /* the library's port is larger than this header's */
#define RNIC_UNKNOWN_ID (-5)   /* no parameter, preset or counter has this number */
#define RNIC_OUT_OF_RANGE (-6) /* a value is outside the parameter's bounds */
#define RNIC_CONFLICT (-7)     /* values contradict each other or this link */
#define RNIC_BAD_EVENT (-8)    /* an event of unknown kind, or with a member outside its values, such as a PSN above 24 bits */
#define RNIC_NOT_OPEN (-9)     /* the flow was not opened with this port, or is closed */

#define RNIC_NEVER 0xffffffffu     /* value of rnic_decision.wake_in: no wake is needed */
#define RNIC_NO_WINDOW 0xffffffffu /* value of rnic_decision.window: no limit */

/* A text in UTF-8, without a terminating zero: printf("%.*s", (int)text.length, text.data). */
typedef struct rnic_text {
    const char *data;
    uint32_t length;
} rnic_text;

/* The link of a port. */
typedef struct rnic_link {
    uint32_t line_rate;
    uint32_t mtu;      /* largest packet on the wire */
    uint32_t base_rtt; /* round-trip time of the idle network; none of the three may be 0 */
} rnic_link;

/* Description of a parameter. Ids count from 0; each algorithm's ids are named below. */
typedef struct rnic_param {
    rnic_text name; /* the operators' name of it */
    rnic_text unit; /* empty for a plain number */
    rnic_text text; /* its effect */
    uint32_t min;
    uint32_t max;
    uint32_t value; /* its value in the first preset */
} rnic_param;

/* A value for a parameter. */
typedef struct rnic_setting {
    uint32_t id;
    uint32_t value;
} rnic_setting;

/* Description of a counter. Ids count from 0. */
typedef struct rnic_counter {
    rnic_text name;
    rnic_text text; /* what it counts */
} rnic_counter;

rnic_status rnic_rp_counter(uint32_t id, rnic_counter *info); /* RNIC_UNKNOWN_ID after the last id */
rnic_status rnic_np_counter(uint32_t id, rnic_counter *info);

/* ---- At the sender ---- */

/* The time of an event, and the state of PFC for the flow's priority. Without PFC, `pause` and `paused` are 0. */
typedef struct rnic_moment {
    uint64_t now;    /* the caller's clock */
    uint32_t pause;  /* remaining time of the present pause; 0 if there is none */
    uint32_t paused; /* sum of all pauses so far, modulo 2^32, the present one included */
} rnic_moment;

#define RNIC_SENT 1u       /* packets were sent: of.sent */
#define RNIC_ACK 2u        /* an acknowledgement arrived: of.ack */
#define RNIC_NACK 3u       /* the receiver expects of.nack_psn; all packets from there on are sent again */
#define RNIC_CNP 4u        /* a congestion notification packet arrived: of.cnp_body */
#define RNIC_WAKE 5u       /* the wake of the last decision is due, or the caller reads the decision between events */
#define RNIC_SWITCH_INT 6u /* a switch sent the telemetry of the ports on the way to it, by itself: of.switch_int */

/* In-band telemetry that a packet collected. */
typedef struct rnic_telemetry {
    const uint8_t *records; /* `hops` records; null if there are none */
    uint16_t path;          /* a number that changes with the path, 12 bits */
    uint8_t hops;           /* 0 to 14; 15: the packet passed more hops than it had room for */
    uint8_t layout;         /* 0: 16 bytes per hop; 1: 8 */
} rnic_telemetry;

typedef struct rnic_sent {
    uint32_t psn;   /* sequence number of the last packet */
    uint32_t bytes; /* bytes on the wire, of all packets */
} rnic_sent;

/* An acknowledgement. Members that are not known are 0. */
typedef struct rnic_ack {
    rnic_telemetry telemetry;   /* telemetry that the newest packet acknowledged has collected */
    uint32_t psn;               /* all packets up to this sequence number have arrived */
    uint32_t acked;             /* bytes newly acknowledged, as sent on the wire */
    uint32_t rtt;               /* time since the newest packet acknowledged was sent */
    uint32_t receiver_hold;     /* the part of `rtt` for which the receiver held the packet */
    uint32_t grant_window;      /* bytes that the receiver grants, if grant_flows is not 0 */
    uint32_t mlcc_advised_rate; /* the rate that an MLCC receiver advises, if mlcc_credit is not 0 */
    uint32_t mlcc_release;      /* the rate at which it lets the interconnect switch release the flow's queue */
    uint16_t mlcc_credit;       /* the credit that it expects in data packets */
    uint16_t grant_flows;       /* flows that send to the receiver's port */
    uint16_t grant_utilisation; /* utilisation of that port's link, in 2^-16 */
    uint8_t mark;               /* strongest mark of the packets acknowledged: 0 none, 1 undetermined, 2 congested */
    uint8_t hops;               /* switches on the path */
    uint8_t rx_buffer_level;    /* fill level of the receiver's buffers, 0 to 31 */
} rnic_ack;

/* An event of one flow. */
typedef struct rnic_event {
    rnic_moment at;
    uint32_t kind;
    union {
        rnic_sent sent;
        rnic_ack ack;
        uint32_t nack_psn;
        const uint8_t *cnp_body; /* the 16 bytes after the BTH; null for a standard CNP */
        rnic_telemetry switch_int;
    } of;
} rnic_event;

/* How a flow is to be paced from now on. All members count; none is relative to the last decision. */
typedef struct rnic_decision {
    uint32_t rate;    /* highest rate */
    uint32_t window;  /* most bytes in flight */
    uint32_t hold;    /* send nothing for this time */
    uint32_t wake_in; /* give the flow a WAKE after this time */
} rnic_decision;

/*
 * init   initialises `port` with a preset; `size` is sizeof *port
 * param  describes a parameter
 * get    reads a parameter
 * set    sets `count` parameters, or none of them if one is wrong; its id is then written to `fault`, if that is not null.
 *        Flows keep their state
 * enable switches the reaction point off (`on` is 0) or on again. While it is off, flows send at line rate without a
 *        window, from their next event on, and keep their state up to date
 * open   begins a flow that has sent nothing yet
 * on     handles one event of one flow; an event that the algorithm does not use is treated as a WAKE
 * count  reads a counter
 */
#define RNIC_RP_FUNCTIONS(NAME)                                                                                   \
    rnic_status rnic_rp_##NAME##_init(rnic_rp_##NAME##_port *port, size_t size, const rnic_link *link,            \
                                      uint32_t preset, uint64_t now);                                             \
    rnic_status rnic_rp_##NAME##_param(uint32_t id, rnic_param *info);                                            \
    rnic_status rnic_rp_##NAME##_get(rnic_rp_##NAME##_port *port, uint32_t id, uint32_t *value);                  \
    rnic_status rnic_rp_##NAME##_set(rnic_rp_##NAME##_port *port, const rnic_setting *list, size_t count,         \
                                     uint32_t *fault);                                                            \
    rnic_status rnic_rp_##NAME##_enable(rnic_rp_##NAME##_port *port, uint32_t on);                                \
    rnic_status rnic_rp_##NAME##_open(rnic_rp_##NAME##_port *port, const rnic_moment *at,                         \
                                      rnic_rp_##NAME##_flow *flow, rnic_decision *decision);                      \
    rnic_status rnic_rp_##NAME##_on(rnic_rp_##NAME##_port *port, rnic_rp_##NAME##_flow *flow,                     \
                                    const rnic_event *event, rnic_decision *decision);                            \
    rnic_status rnic_rp_##NAME##_count(rnic_rp_##NAME##_port *port, uint32_t id, uint64_t *value)

/* ---- At the receiver ---- */

/* A data packet that arrived. */
typedef struct rnic_arrival {
    uint64_t now;       /* the caller's clock */
    uint32_t local_qpn; /* the receiving queue pair */
    uint32_t psn;
    uint32_t bytes;       /* bytes on the wire */
    uint32_t payload;     /* of these, bytes of payload: without headers, pad and checks */
    uint32_t sent;        /* the sender's clock when the packet was sent, if has_sent */
    uint32_t mlcc_queue;  /* bytes in the flow's queue at MLCC's interconnect switch, if has_mlcc */
    uint16_t mlcc_credit; /* the credit that the switch wrote, if has_mlcc */
    uint8_t has_mlcc;     /* 0 or 1 */
    uint8_t has_sent;     /* 0 or 1 */
    uint8_t ecn;          /* the two ECN bits of the IP header */
    uint8_t first;        /* 1: it begins a message */
    uint8_t last;         /* 1: it ends one */
    rnic_telemetry telemetry;
} rnic_arrival;

/*
 * The reply to an arrival: fields of the next acknowledgement, and a CNP. A CNP that is due stays due until `on_cnp_sent`,
 * the fields of the acknowledgement until `on_ack_sent`.
 */
typedef struct rnic_reply {
    uint32_t grant_window;      /* window that the acknowledgement grants, if grant_flows is not 0 */
    uint32_t mlcc_advised_rate; /* rate that MLCC's acknowledgement advises, if mlcc_credit is not 0 */
    uint32_t mlcc_release;      /* rate at which MLCC's interconnect switch may release the flow's queue, likewise */
    uint16_t mlcc_credit;       /* credit that the switch is to write */
    uint16_t grant_flows;       /* flows that send to this port */
    uint16_t grant_utilisation; /* utilisation of this port's link, in 2^-16 */
    uint8_t echo;               /* mark that the acknowledgement echoes: 0 none, 1 undetermined, 2 congested */
    uint8_t cnp;                /* 1: send a CNP */
    uint8_t cnp_body[16];       /* the 16 bytes after its BTH */
} rnic_reply;

#define RNIC_PASS 0u   /* nothing to do */
#define RNIC_LEAVE 1u  /* the record is no longer needed: `close` it; it can then be opened for another flow */
#define RNIC_NOTIFY 2u /* send a CNP */

/* The action of a flow in its round-robin slot. */
typedef struct rnic_slot {
    uint32_t action;
    uint32_t local_qpn;
    uint8_t cnp_body[16];
} rnic_slot;

/*
 * init to set, count   as at the sender
 * open         begins the record of a flow
 * on           handles one data packet of the flow
 * on_cnp_sent  call it when the flow's CNP has been sent
 * on_ack_sent  call it when an acknowledgement with the fields of the last reply has been sent
 * slot         for algorithms that send CNPs without a received packet: call it for one flow after the other
 * close        ends a record, because its queue pair is destroyed or its memory is needed for another flow
 *
 * The caller chooses which flows have a record, and limits the CNP rate of the whole port.
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
                                      rnic_slot *slot);                                                           \
    rnic_status rnic_np_##NAME##_close(rnic_np_##NAME##_port *port, rnic_np_##NAME##_flow *flow, uint64_t now);   \
    rnic_status rnic_np_##NAME##_count(rnic_np_##NAME##_port *port, uint32_t id, uint64_t *value)

/* ---- The algorithms: sizes and alignments in bytes, presets, parameters ---- */
