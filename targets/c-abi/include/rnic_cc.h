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

/* dcqcn: takes SENT, CNP, WAKE; the receiver runs rnic_np_dcqcn */
#define RNIC_RP_DCQCN_PORT_BYTES 1632u
#define RNIC_RP_DCQCN_PORT_ALIGN 8u
typedef struct { uint64_t opaque[204]; } rnic_rp_dcqcn_port;
#define RNIC_RP_DCQCN_FLOW_BYTES 36u
#define RNIC_RP_DCQCN_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[9]; } rnic_rp_dcqcn_flow;
#define RNIC_RP_DCQCN_PRESET_PAPER 0u
#define RNIC_RP_DCQCN_PRESET_VENDOR 1u
#define RNIC_RP_DCQCN_PRESET_CX4 2u
#define RNIC_RP_DCQCN_PRESET_HPCC_SIM 3u
#define RNIC_RP_DCQCN_PRESET_NS3_RDMA 4u
#define RNIC_RP_DCQCN_PRESET_SIGCOMM15 5u
#define RNIC_RP_DCQCN_CLAMP_TGT_RATE 0u /* 0 to 1 */
#define RNIC_RP_DCQCN_CLAMP_TGT_RATE_AFTER_TIME_INC 1u /* 0 to 1 */
#define RNIC_RP_DCQCN_RPG_TIME_RESET 2u /* 1 to 131071 us */
#define RNIC_RP_DCQCN_RPG_BYTE_RESET 3u /* 0 to 262143 blocks of 64 B */
#define RNIC_RP_DCQCN_RPG_THRESHOLD 4u /* 1 to 31 */
#define RNIC_RP_DCQCN_RPG_AI_RATE 5u /* 1 to 131071 Mb/s */
#define RNIC_RP_DCQCN_RPG_HAI_RATE 6u /* 1 to 32000 Mb/s */
#define RNIC_RP_DCQCN_RPG_MAX_RATE 7u /* 0 to 2000000 Mb/s */
#define RNIC_RP_DCQCN_RPG_MIN_RATE 8u /* 1 to 2000000 Mb/s */
#define RNIC_RP_DCQCN_RPG_GD 9u /* 10 to 11 log2 */
#define RNIC_RP_DCQCN_RPG_MIN_DEC_FAC 10u /* 0 to 100 % */
#define RNIC_RP_DCQCN_RATE_TO_SET_ON_FIRST_CNP 11u /* 0 to 2000000 Mb/s */
#define RNIC_RP_DCQCN_DCE_TCP_G 12u /* 0 to 1023 1/1024 */
#define RNIC_RP_DCQCN_DCE_TCP_RTT 13u /* 1 to 131071 us */
#define RNIC_RP_DCQCN_INITIAL_ALPHA_VALUE 14u /* 1 to 1024 1/1024 */
#define RNIC_RP_DCQCN_RATE_REDUCE_MONITOR_PERIOD 15u /* 0 to 131071 us */
#define RNIC_RP_DCQCN_ALPHA_UPDATE 16u /* 0 to 1: restarted, sampled */
#define RNIC_RP_DCQCN_CUT_ORDER 17u /* 0 to 1: cut_first, alpha_first */
#define RNIC_RP_DCQCN_FAST_RECOVERY 18u /* 0 to 1: through_threshold, below_threshold */
#define RNIC_RP_DCQCN_HYPER_START 19u /* 0 to 2: both_clocks, second_step, both_past_f */
#define RNIC_RP_DCQCN_HYPER_STEP 20u /* 0 to 1: growing, constant */
#define RNIC_RP_DCQCN_FAR_TARGET 21u /* 0 to 1: kept, eighth */
#define RNIC_RP_DCQCN_LIMITER 22u /* 0 to 1: released, kept */
#define RNIC_RP_DCQCN_FIRST_CNP 23u /* 0 to 1: raises_alpha, sets_alpha */
#define RNIC_RP_DCQCN_ALPHA_BITS 24u /* 10 to 20 */
RNIC_RP_FUNCTIONS(dcqcn);

/* dcqcn_plus: takes CNP, WAKE; the receiver runs rnic_np_dcqcn_plus */
#define RNIC_RP_DCQCN_PLUS_PORT_BYTES 192u
#define RNIC_RP_DCQCN_PLUS_PORT_ALIGN 8u
typedef struct { uint64_t opaque[24]; } rnic_rp_dcqcn_plus_port;
#define RNIC_RP_DCQCN_PLUS_FLOW_BYTES 36u
#define RNIC_RP_DCQCN_PLUS_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[9]; } rnic_rp_dcqcn_plus_flow;
#define RNIC_RP_DCQCN_PLUS_PRESET_STABLE 0u
#define RNIC_RP_DCQCN_PLUS_PRESET_PAPER 1u
#define RNIC_RP_DCQCN_PLUS_RPG_TIME_RESET 0u /* 1 to 131071 us */
#define RNIC_RP_DCQCN_PLUS_DCE_TCP_RTT 1u /* 1 to 131071 us */
#define RNIC_RP_DCQCN_PLUS_ADAPTS_ABOVE 2u /* 0 to 131071 us */
#define RNIC_RP_DCQCN_PLUS_LAMBDA 3u /* 1024 to 16384 1/1024 */
#define RNIC_RP_DCQCN_PLUS_LAMBDA_ALPHA 4u /* 1024 to 16384 1/1024 */
#define RNIC_RP_DCQCN_PLUS_PACKET 5u /* 64 to 16384 B */
#define RNIC_RP_DCQCN_PLUS_RPG_THRESHOLD 6u /* 1 to 10 */
#define RNIC_RP_DCQCN_PLUS_HYPER_STEP 7u /* 1 to 1000000 ppm */
#define RNIC_RP_DCQCN_PLUS_LARGEST_CUT 8u /* 1 to 100 % */
#define RNIC_RP_DCQCN_PLUS_RPG_MIN_RATE 9u /* 0 to 2000000 Mb/s */
#define RNIC_RP_DCQCN_PLUS_DCE_TCP_G 10u /* 0 to 1023 1/1024 */
#define RNIC_RP_DCQCN_PLUS_INITIAL_ALPHA_VALUE 11u /* 1 to 1024 1/1024 */
#define RNIC_RP_DCQCN_PLUS_TIMERS 12u /* 0 to 1: recomputed, cut_only */
#define RNIC_RP_DCQCN_PLUS_ALPHA_IN_PAUSE 13u /* 0 to 1: fades, stands */
RNIC_RP_FUNCTIONS(dcqcn_plus);

/* timely: takes ACK, WAKE; the receiver runs rnic_np_echo */
#define RNIC_RP_TIMELY_PORT_BYTES 216u
#define RNIC_RP_TIMELY_PORT_ALIGN 8u
typedef struct { uint64_t opaque[27]; } rnic_rp_timely_port;
#define RNIC_RP_TIMELY_FLOW_BYTES 28u
#define RNIC_RP_TIMELY_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[7]; } rnic_rp_timely_flow;
#define RNIC_RP_TIMELY_PRESET_NS3_RDMA 0u
#define RNIC_RP_TIMELY_PRESET_PAPER 1u
#define RNIC_RP_TIMELY_PRESET_ERPC 2u
#define RNIC_RP_TIMELY_PRESET_PATCHED 3u
#define RNIC_RP_TIMELY_ALPHA 0u /* 1000 to 1000000 ppm */
#define RNIC_RP_TIMELY_BETA 1u /* 1000 to 1000000 ppm */
#define RNIC_RP_TIMELY_T_LOW 2u /* 1000 to 10000000 ns */
#define RNIC_RP_TIMELY_T_HIGH 3u /* 1000 to 60000000 ns */
#define RNIC_RP_TIMELY_MIN_RTT 4u /* 1000 to 1000000 ns */
#define RNIC_RP_TIMELY_DELTA 5u /* 1 to 100000 Mb/s */
#define RNIC_RP_TIMELY_HAI_THRESHOLD 6u /* 1 to 15 */
#define RNIC_RP_TIMELY_HAI_STEPS 7u /* 1 to 16 */
#define RNIC_RP_TIMELY_SEGMENT 8u /* 0 to 16777215 B */
#define RNIC_RP_TIMELY_MIN_RATE 9u /* 0 to 2000000 Mb/s */
#define RNIC_RP_TIMELY_MIN_RATE_SHARE 10u /* 0 to 1000000 ppm */
#define RNIC_RP_TIMELY_MAX_RATE_SHARE 11u /* 1 to 1000000 ppm */
#define RNIC_RP_TIMELY_ELAPSED 12u /* 0 to 1: unscaled, scaled */
#define RNIC_RP_TIMELY_LARGEST_CUT 13u /* 0 to 1: unbounded, half */
#define RNIC_RP_TIMELY_HAI_COUNTS 14u /* 0 to 1: shorter_rtts, gradients */
#define RNIC_RP_TIMELY_GRADIENT_RULE 15u /* 0 to 1: sign, blend */
#define RNIC_RP_TIMELY_SERIALISATION 16u /* 0 to 2: packet, segment, none */
RNIC_RP_FUNCTIONS(timely);

/* hpcc: takes SENT, ACK, NACK, WAKE; the receiver runs rnic_np_echo */
#define RNIC_RP_HPCC_PORT_BYTES 160u
#define RNIC_RP_HPCC_PORT_ALIGN 8u
typedef struct { uint64_t opaque[20]; } rnic_rp_hpcc_port;
#define RNIC_RP_HPCC_FLOW_BYTES 100u
#define RNIC_RP_HPCC_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[25]; } rnic_rp_hpcc_flow;
#define RNIC_RP_HPCC_PRESET_DRAFT 0u
#define RNIC_RP_HPCC_PRESET_HPCC_SIM 1u
#define RNIC_RP_HPCC_PRESET_LSCC 2u
#define RNIC_RP_HPCC_ETA 0u /* 500000 to 1000000 ppm */
#define RNIC_RP_HPCC_MAX_STAGE 1u /* 0 to 255 */
#define RNIC_RP_HPCC_BASE_RTT 2u /* 0 to 16000000 ns */
#define RNIC_RP_HPCC_RATE_AI 3u /* 1 to 1600000 Mb/s */
#define RNIC_RP_HPCC_MIN_RATE 4u /* 1 to 1600000 Mb/s */
#define RNIC_RP_HPCC_INT_MULTI 5u /* 1 to 64 */
#define RNIC_RP_HPCC_NO_INT_RTTS 6u /* 0 to 255 */
#define RNIC_RP_HPCC_INITIAL_U 7u /* 0 to 1000000 ppm */
RNIC_RP_FUNCTIONS(hpcc);

/* powertcp: takes SENT, ACK, NACK, WAKE; the receiver runs rnic_np_echo */
#define RNIC_RP_POWERTCP_PORT_BYTES 152u
#define RNIC_RP_POWERTCP_PORT_ALIGN 8u
typedef struct { uint64_t opaque[19]; } rnic_rp_powertcp_port;
#define RNIC_RP_POWERTCP_FLOW_BYTES 100u
#define RNIC_RP_POWERTCP_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[25]; } rnic_rp_powertcp_flow;
#define RNIC_RP_POWERTCP_PRESET_PAPER 0u
#define RNIC_RP_POWERTCP_PRESET_LINUX 1u
#define RNIC_RP_POWERTCP_GAMMA 0u /* 1000 to 1000000 ppm */
#define RNIC_RP_POWERTCP_EXPECTED_FLOWS 1u /* 1 to 1000000 */
#define RNIC_RP_POWERTCP_BASE_RTT 2u /* 0 to 16000000 ns */
#define RNIC_RP_POWERTCP_MIN_RATE 3u /* 1 to 1600000 Mb/s */
#define RNIC_RP_POWERTCP_INT_MULTI 4u /* 1 to 64 */
#define RNIC_RP_POWERTCP_NO_INT_RTTS 5u /* 0 to 255 */
RNIC_RP_FUNCTIONS(powertcp);

/* theta_powertcp: takes SENT, ACK, NACK, WAKE; the receiver runs rnic_np_echo */
#define RNIC_RP_THETA_POWERTCP_PORT_BYTES 152u
#define RNIC_RP_THETA_POWERTCP_PORT_ALIGN 8u
typedef struct { uint64_t opaque[19]; } rnic_rp_theta_powertcp_port;
#define RNIC_RP_THETA_POWERTCP_FLOW_BYTES 36u
#define RNIC_RP_THETA_POWERTCP_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[9]; } rnic_rp_theta_powertcp_flow;
#define RNIC_RP_THETA_POWERTCP_PRESET_PAPER 0u
#define RNIC_RP_THETA_POWERTCP_PRESET_LINUX 1u
#define RNIC_RP_THETA_POWERTCP_GAMMA 0u /* 1000 to 1000000 ppm */
#define RNIC_RP_THETA_POWERTCP_EXPECTED_FLOWS 1u /* 1 to 1000000 */
#define RNIC_RP_THETA_POWERTCP_BASE_RTT 2u /* 0 to 16000000 ns */
#define RNIC_RP_THETA_POWERTCP_MIN_RATE 3u /* 1 to 1600000 Mb/s */
#define RNIC_RP_THETA_POWERTCP_INT_MULTI 4u /* 1 to 64 */
#define RNIC_RP_THETA_POWERTCP_NO_INT_RTTS 5u /* 0 to 255 */
RNIC_RP_FUNCTIONS(theta_powertcp);

/* swift: takes SENT, ACK, NACK, WAKE; the receiver runs rnic_np_echo */
#define RNIC_RP_SWIFT_PORT_BYTES 232u
#define RNIC_RP_SWIFT_PORT_ALIGN 8u
typedef struct { uint64_t opaque[29]; } rnic_rp_swift_port;
#define RNIC_RP_SWIFT_FLOW_BYTES 28u
#define RNIC_RP_SWIFT_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[7]; } rnic_rp_swift_flow;
#define RNIC_RP_SWIFT_PRESET_FALCON 0u
#define RNIC_RP_SWIFT_PRESET_HTSIM 1u
#define RNIC_RP_SWIFT_ADDITIVE_INCREMENT 0u /* 1000 to 16000000 ppm */
#define RNIC_RP_SWIFT_BETA 1u /* 1000 to 1000000 ppm */
#define RNIC_RP_SWIFT_MAX_MDF 2u /* 1000 to 999000 ppm */
#define RNIC_RP_SWIFT_BASE_TARGET 3u /* 1 to 100000 us */
#define RNIC_RP_SWIFT_HOP_SCALING 4u /* 0 to 1000000 ns */
#define RNIC_RP_SWIFT_FS_RANGE 5u /* 0 to 10000 us */
#define RNIC_RP_SWIFT_FS_MIN_WINDOW 6u /* 1000 to 1000000 ppm */
#define RNIC_RP_SWIFT_FS_MAX_WINDOW 7u /* 1 to 4095 */
#define RNIC_RP_SWIFT_MIN_WINDOW 8u /* 1000 to 1000000 ppm */
#define RNIC_RP_SWIFT_MAX_WINDOW 9u /* 1 to 4095 */
#define RNIC_RP_SWIFT_RTT_SMOOTHING 10u /* 0 to 999000 ppm */
#define RNIC_RP_SWIFT_RETRANSMIT_LIMIT 11u /* 1 to 15 */
#define RNIC_RP_SWIFT_LONGEST_GAP 12u /* 1 to 1000000 us */
#define RNIC_RP_SWIFT_ENDPOINT_TARGET 13u /* 0 to 31 */
#define RNIC_RP_SWIFT_ENDPOINT_INCREMENT 14u /* 1000 to 16000000 ppm */
#define RNIC_RP_SWIFT_ENDPOINT_BETA 15u /* 1000 to 1000000 ppm */
#define RNIC_RP_SWIFT_ENDPOINT_MAX_MDF 16u /* 1000 to 999000 ppm */
RNIC_RP_FUNCTIONS(swift);

/* rcc: takes SENT, ACK, NACK, WAKE; the receiver runs rnic_np_rcc */
#define RNIC_RP_RCC_PORT_BYTES 128u
#define RNIC_RP_RCC_PORT_ALIGN 8u
typedef struct { uint64_t opaque[16]; } rnic_rp_rcc_port;
#define RNIC_RP_RCC_FLOW_BYTES 20u
#define RNIC_RP_RCC_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[5]; } rnic_rp_rcc_flow;
#define RNIC_RP_RCC_PRESET_STABLE 0u
#define RNIC_RP_RCC_PRESET_PAPER 1u
#define RNIC_RP_RCC_BASE_RTT 0u /* 0 to 10000000 ns */
#define RNIC_RP_RCC_MIN_RATE 1u /* 1 to 1600000 Mb/s */
#define RNIC_RP_RCC_FIRST_WINDOW 2u /* 0 to 1000000000 B */
RNIC_RP_FUNCTIONS(rcc);

/* rcc_sender: takes SENT, ACK, NACK, WAKE; the receiver runs rnic_np_rcc_sender */
#define RNIC_RP_RCC_SENDER_PORT_BYTES 208u
#define RNIC_RP_RCC_SENDER_PORT_ALIGN 8u
typedef struct { uint64_t opaque[26]; } rnic_rp_rcc_sender_port;
#define RNIC_RP_RCC_SENDER_FLOW_BYTES 44u
#define RNIC_RP_RCC_SENDER_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[11]; } rnic_rp_rcc_sender_flow;
#define RNIC_RP_RCC_SENDER_PRESET_STABLE 0u
#define RNIC_RP_RCC_SENDER_PRESET_PAPER 1u
#define RNIC_RP_RCC_SENDER_K_P 0u /* 0 to 1000000 */
#define RNIC_RP_RCC_SENDER_K_D 1u /* 0 to 1000000 */
#define RNIC_RP_RCC_SENDER_DELTA 2u /* 1000 to 10000000 ppm */
#define RNIC_RP_RCC_SENDER_ETA 3u /* 1000 to 1000000 ppm */
#define RNIC_RP_RCC_SENDER_SAMPLES 4u /* 1 to 15 */
#define RNIC_RP_RCC_SENDER_SHARE 5u /* 10000 to 1000000 ppm */
#define RNIC_RP_RCC_SENDER_BASE_RTT 6u /* 0 to 10000000 ns */
#define RNIC_RP_RCC_SENDER_MIN_RATE 7u /* 1 to 1600000 Mb/s */
#define RNIC_RP_RCC_SENDER_UNWIND 8u /* 0 to 1 */
#define RNIC_RP_RCC_SENDER_RESPONSE 9u /* 0 to 2: tanh, sigmoid, double_sigmoid */
#define RNIC_RP_RCC_SENDER_CONTROL 10u /* 0 to 2: both, pid, ewa */
RNIC_RP_FUNCTIONS(rcc_sender);

/* dcqcn_tcd: takes SENT, CNP, WAKE; the receiver runs rnic_np_dcqcn_tcd */
#define RNIC_RP_DCQCN_TCD_PORT_BYTES 1640u
#define RNIC_RP_DCQCN_TCD_PORT_ALIGN 8u
typedef struct { uint64_t opaque[205]; } rnic_rp_dcqcn_tcd_port;
#define RNIC_RP_DCQCN_TCD_FLOW_BYTES 36u
#define RNIC_RP_DCQCN_TCD_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[9]; } rnic_rp_dcqcn_tcd_flow;
#define RNIC_RP_DCQCN_TCD_PRESET_PAPER 0u
#define RNIC_RP_DCQCN_TCD_PRESET_TCD_SIM 1u
#define RNIC_RP_DCQCN_TCD_CLAMP_TGT_RATE 0u /* 0 to 1 */
#define RNIC_RP_DCQCN_TCD_CLAMP_TGT_RATE_AFTER_TIME_INC 1u /* 0 to 1 */
#define RNIC_RP_DCQCN_TCD_RPG_TIME_RESET 2u /* 1 to 131071 us */
#define RNIC_RP_DCQCN_TCD_RPG_BYTE_RESET 3u /* 0 to 262143 blocks of 64 B */
#define RNIC_RP_DCQCN_TCD_RPG_THRESHOLD 4u /* 1 to 31 */
#define RNIC_RP_DCQCN_TCD_RPG_AI_RATE 5u /* 1 to 131071 Mb/s */
#define RNIC_RP_DCQCN_TCD_RPG_HAI_RATE 6u /* 1 to 32000 Mb/s */
#define RNIC_RP_DCQCN_TCD_RPG_MAX_RATE 7u /* 0 to 2000000 Mb/s */
#define RNIC_RP_DCQCN_TCD_RPG_MIN_RATE 8u /* 1 to 2000000 Mb/s */
#define RNIC_RP_DCQCN_TCD_RPG_GD 9u /* 10 to 11 log2 */
#define RNIC_RP_DCQCN_TCD_RPG_MIN_DEC_FAC 10u /* 0 to 100 % */
#define RNIC_RP_DCQCN_TCD_RATE_TO_SET_ON_FIRST_CNP 11u /* 0 to 2000000 Mb/s */
#define RNIC_RP_DCQCN_TCD_DCE_TCP_G 12u /* 0 to 1023 1/1024 */
#define RNIC_RP_DCQCN_TCD_DCE_TCP_RTT 13u /* 1 to 131071 us */
#define RNIC_RP_DCQCN_TCD_INITIAL_ALPHA_VALUE 14u /* 1 to 1024 1/1024 */
#define RNIC_RP_DCQCN_TCD_RATE_REDUCE_MONITOR_PERIOD 15u /* 0 to 131071 us */
#define RNIC_RP_DCQCN_TCD_ALPHA_UPDATE 16u /* 0 to 1: restarted, sampled */
#define RNIC_RP_DCQCN_TCD_CUT_ORDER 17u /* 0 to 1: cut_first, alpha_first */
#define RNIC_RP_DCQCN_TCD_FAST_RECOVERY 18u /* 0 to 1: through_threshold, below_threshold */
#define RNIC_RP_DCQCN_TCD_HYPER_START 19u /* 0 to 2: both_clocks, second_step, both_past_f */
#define RNIC_RP_DCQCN_TCD_HYPER_STEP 20u /* 0 to 1: growing, constant */
#define RNIC_RP_DCQCN_TCD_FAR_TARGET 21u /* 0 to 1: kept, eighth */
#define RNIC_RP_DCQCN_TCD_LIMITER 22u /* 0 to 1: released, kept */
#define RNIC_RP_DCQCN_TCD_FIRST_CNP 23u /* 0 to 1: raises_alpha, sets_alpha */
#define RNIC_RP_DCQCN_TCD_ALPHA_BITS 24u /* 10 to 20 */
#define RNIC_RP_DCQCN_TCD_UE_RAISES_ALPHA 25u /* 0 to 1 */
RNIC_RP_FUNCTIONS(dcqcn_tcd);

/* timely_tcd: takes ACK, WAKE; the receiver runs rnic_np_echo */
#define RNIC_RP_TIMELY_TCD_PORT_BYTES 216u
#define RNIC_RP_TIMELY_TCD_PORT_ALIGN 8u
typedef struct { uint64_t opaque[27]; } rnic_rp_timely_tcd_port;
#define RNIC_RP_TIMELY_TCD_FLOW_BYTES 32u
#define RNIC_RP_TIMELY_TCD_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[8]; } rnic_rp_timely_tcd_flow;
#define RNIC_RP_TIMELY_TCD_PRESET_NS3_RDMA 0u
#define RNIC_RP_TIMELY_TCD_PRESET_PAPER 1u
#define RNIC_RP_TIMELY_TCD_PRESET_ERPC 2u
#define RNIC_RP_TIMELY_TCD_PRESET_PATCHED 3u
#define RNIC_RP_TIMELY_TCD_ALPHA 0u /* 1000 to 1000000 ppm */
#define RNIC_RP_TIMELY_TCD_BETA 1u /* 1000 to 1000000 ppm */
#define RNIC_RP_TIMELY_TCD_T_LOW 2u /* 1000 to 10000000 ns */
#define RNIC_RP_TIMELY_TCD_T_HIGH 3u /* 1000 to 60000000 ns */
#define RNIC_RP_TIMELY_TCD_MIN_RTT 4u /* 1000 to 1000000 ns */
#define RNIC_RP_TIMELY_TCD_DELTA 5u /* 1 to 100000 Mb/s */
#define RNIC_RP_TIMELY_TCD_HAI_THRESHOLD 6u /* 1 to 15 */
#define RNIC_RP_TIMELY_TCD_HAI_STEPS 7u /* 1 to 16 */
#define RNIC_RP_TIMELY_TCD_SEGMENT 8u /* 0 to 16777215 B */
#define RNIC_RP_TIMELY_TCD_MIN_RATE 9u /* 0 to 2000000 Mb/s */
#define RNIC_RP_TIMELY_TCD_MIN_RATE_SHARE 10u /* 0 to 1000000 ppm */
#define RNIC_RP_TIMELY_TCD_MAX_RATE_SHARE 11u /* 1 to 1000000 ppm */
#define RNIC_RP_TIMELY_TCD_ELAPSED 12u /* 0 to 1: unscaled, scaled */
#define RNIC_RP_TIMELY_TCD_LARGEST_CUT 13u /* 0 to 1: unbounded, half */
#define RNIC_RP_TIMELY_TCD_HAI_COUNTS 14u /* 0 to 1: shorter_rtts, gradients */
#define RNIC_RP_TIMELY_TCD_GRADIENT_RULE 15u /* 0 to 1: sign, blend */
#define RNIC_RP_TIMELY_TCD_SERIALISATION 16u /* 0 to 2: packet, segment, none */
RNIC_RP_FUNCTIONS(timely_tcd);

/* acc: takes SENT, ACK, NACK, WAKE; the receiver runs rnic_np_echo */
#define RNIC_RP_ACC_PORT_BYTES 160u
#define RNIC_RP_ACC_PORT_ALIGN 8u
typedef struct { uint64_t opaque[20]; } rnic_rp_acc_port;
#define RNIC_RP_ACC_FLOW_BYTES 44u
#define RNIC_RP_ACC_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[11]; } rnic_rp_acc_flow;
#define RNIC_RP_ACC_PRESET_STABLE 0u
#define RNIC_RP_ACC_PRESET_SIXTEEN_PACKETS 1u
#define RNIC_RP_ACC_PRESET_SLIDES 2u
#define RNIC_RP_ACC_PERIOD 0u /* 100 to 400 % */
#define RNIC_RP_ACC_PERIOD_PACKETS 1u /* 0 to 64 */
#define RNIC_RP_ACC_LONGEST_PERIOD 2u /* 4 to 16 */
#define RNIC_RP_ACC_UE_PERIODS 3u /* 1 to 15 */
#define RNIC_RP_ACC_GRADUAL_PERIODS 4u /* 0 to 15 */
#define RNIC_RP_ACC_GRADUAL_STEP 5u /* 1 to 1024 1/1024 */
#define RNIC_RP_ACC_AGGRESSIVE_BOUND 6u /* 1 to 1024 1/1024 */
#define RNIC_RP_ACC_LONGEST_HALT 7u /* 1 to 255 */
#define RNIC_RP_ACC_MIN_RATE 8u /* 1 to 1000000 ppm */
#define RNIC_RP_ACC_ACC_LITERAL 9u /* 0 to 1 */
RNIC_RP_FUNCTIONS(acc);

/* pfc: takes WAKE */
#define RNIC_RP_PFC_PORT_BYTES 72u
#define RNIC_RP_PFC_PORT_ALIGN 8u
typedef struct { uint64_t opaque[9]; } rnic_rp_pfc_port;
#define RNIC_RP_PFC_FLOW_BYTES 4u
#define RNIC_RP_PFC_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[1]; } rnic_rp_pfc_flow;
#define RNIC_RP_PFC_PRESET_STANDARD 0u
RNIC_RP_FUNCTIONS(pfc);

/* hpcc_star: takes SENT, ACK, NACK, WAKE, SWITCH_INT; the receiver runs rnic_np_echo */
#define RNIC_RP_HPCC_STAR_PORT_BYTES 216u
#define RNIC_RP_HPCC_STAR_PORT_ALIGN 8u
typedef struct { uint64_t opaque[27]; } rnic_rp_hpcc_star_port;
#define RNIC_RP_HPCC_STAR_FLOW_BYTES 196u
#define RNIC_RP_HPCC_STAR_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[49]; } rnic_rp_hpcc_star_flow;
#define RNIC_RP_HPCC_STAR_PRESET_PAPER 0u
#define RNIC_RP_HPCC_STAR_ETA 0u /* 500000 to 1000000 ppm */
#define RNIC_RP_HPCC_STAR_MAX_STAGE 1u /* 0 to 255 */
#define RNIC_RP_HPCC_STAR_BASE_RTT 2u /* 0 to 16000000 ns */
#define RNIC_RP_HPCC_STAR_NEAR_RTT 3u /* 0 to 16000000 ns */
#define RNIC_RP_HPCC_STAR_RATE_AI 4u /* 1 to 1600000 Mb/s */
#define RNIC_RP_HPCC_STAR_MIN_RATE 5u /* 1 to 1600000 Mb/s */
#define RNIC_RP_HPCC_STAR_INT_MULTI 6u /* 1 to 64 */
#define RNIC_RP_HPCC_STAR_NO_INT_RTTS 7u /* 0 to 255 */
RNIC_RP_FUNCTIONS(hpcc_star);

/* mlcc: takes SENT, ACK, NACK, WAKE, SWITCH_INT; the receiver runs rnic_np_mlcc */
#define RNIC_RP_MLCC_PORT_BYTES 160u
#define RNIC_RP_MLCC_PORT_ALIGN 8u
typedef struct { uint64_t opaque[20]; } rnic_rp_mlcc_port;
#define RNIC_RP_MLCC_FLOW_BYTES 112u
#define RNIC_RP_MLCC_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[28]; } rnic_rp_mlcc_flow;
#define RNIC_RP_MLCC_PRESET_STABLE 0u
#define RNIC_RP_MLCC_PRESET_PAPER 1u
#define RNIC_RP_MLCC_ETA 0u /* 500000 to 1000000 ppm */
#define RNIC_RP_MLCC_MAX_STAGE 1u /* 0 to 255 */
#define RNIC_RP_MLCC_LOCAL_RTT 2u /* 0 to 16000000 ns */
#define RNIC_RP_MLCC_RATE_AI 3u /* 1 to 1600000 Mb/s */
#define RNIC_RP_MLCC_MIN_RATE 4u /* 1 to 1600000 Mb/s */
#define RNIC_RP_MLCC_INT_MULTI 5u /* 1 to 64 */
#define RNIC_RP_MLCC_NO_INT_RTTS 6u /* 0 to 255 */
RNIC_RP_FUNCTIONS(mlcc);

/* dctcp: takes SENT, ACK, WAKE; the receiver runs rnic_np_echo */
#define RNIC_RP_DCTCP_PORT_BYTES 120u
#define RNIC_RP_DCTCP_PORT_ALIGN 8u
typedef struct { uint64_t opaque[15]; } rnic_rp_dctcp_port;
#define RNIC_RP_DCTCP_FLOW_BYTES 32u
#define RNIC_RP_DCTCP_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[8]; } rnic_rp_dctcp_flow;
#define RNIC_RP_DCTCP_PRESET_SCALED 0u
#define RNIC_RP_DCTCP_PRESET_HPCC_SIM 1u
#define RNIC_RP_DCTCP_G 0u /* 1000 to 999999 ppm */
#define RNIC_RP_DCTCP_RATE_AI 1u /* 0 to 1600000 Mb/s */
#define RNIC_RP_DCTCP_MIN_RATE 2u /* 1 to 1600000 Mb/s */
#define RNIC_RP_DCTCP_BASE_RTT 3u /* 0 to 1000000000 ns */
#define RNIC_RP_DCTCP_WINDOW 4u /* 0 to 2: rate, line, none */
RNIC_RP_FUNCTIONS(dctcp);

/* dcqcn */
#define RNIC_NP_DCQCN_PORT_BYTES 112u
#define RNIC_NP_DCQCN_PORT_ALIGN 8u
typedef struct { uint64_t opaque[14]; } rnic_np_dcqcn_port;
#define RNIC_NP_DCQCN_FLOW_BYTES 12u
#define RNIC_NP_DCQCN_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[3]; } rnic_np_dcqcn_flow;
#define RNIC_NP_DCQCN_PRESET_PAPER 0u
#define RNIC_NP_DCQCN_PRESET_VENDOR 1u
#define RNIC_NP_DCQCN_PRESET_CX4 2u
#define RNIC_NP_DCQCN_MIN_TIME_BETWEEN_CNPS 0u /* 0 to 131071 us */
#define RNIC_NP_DCQCN_CNP_DSCP 1u /* 0 to 63 */
#define RNIC_NP_DCQCN_CNP_802P_PRIO 2u /* 0 to 7 */
#define RNIC_NP_DCQCN_CNP_PORT_INTERVAL 3u /* 0 to 100000 ns */
#define RNIC_NP_DCQCN_CNP_PORT_BURST 4u /* 1 to 10000 */
#define RNIC_NP_DCQCN_CNP_SEQUENCE 5u /* 0 to 1 */
RNIC_NP_FUNCTIONS(dcqcn);

/* dcqcn_plus */
#define RNIC_NP_DCQCN_PLUS_PORT_BYTES 152u
#define RNIC_NP_DCQCN_PLUS_PORT_ALIGN 8u
typedef struct { uint64_t opaque[19]; } rnic_np_dcqcn_plus_port;
#define RNIC_NP_DCQCN_PLUS_FLOW_BYTES 12u
#define RNIC_NP_DCQCN_PLUS_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[3]; } rnic_np_dcqcn_plus_flow;
#define RNIC_NP_DCQCN_PLUS_PRESET_STABLE 0u
#define RNIC_NP_DCQCN_PLUS_PRESET_PAPER 1u
#define RNIC_NP_DCQCN_PLUS_CNP_GENERATION_INTERVAL 0u /* 100 to 100000 ns */
#define RNIC_NP_DCQCN_PLUS_MIN_TIME_BETWEEN_CNPS 1u /* 0 to 100000 us */
#define RNIC_NP_DCQCN_PLUS_UNLISTED_INTERVAL 2u /* 1 to 100000 us */
#define RNIC_NP_DCQCN_PLUS_IDLE_SLOTS 3u /* 1 to 3 */
#define RNIC_NP_DCQCN_PLUS_IDLE_TIME 4u /* 0 to 10000000 us */
#define RNIC_NP_DCQCN_PLUS_CNP_DSCP 5u /* 0 to 63 */
#define RNIC_NP_DCQCN_PLUS_CNP_802P_PRIO 6u /* 0 to 7 */
RNIC_NP_FUNCTIONS(dcqcn_plus);

/* echo */
#define RNIC_NP_ECHO_PORT_BYTES 88u
#define RNIC_NP_ECHO_PORT_ALIGN 8u
typedef struct { uint64_t opaque[11]; } rnic_np_echo_port;
#define RNIC_NP_ECHO_FLOW_BYTES 8u
#define RNIC_NP_ECHO_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[2]; } rnic_np_echo_flow;
#define RNIC_NP_ECHO_PRESET_BINARY 0u
#define RNIC_NP_ECHO_PRESET_TERNARY 1u
#define RNIC_NP_ECHO_TERNARY_MARKS 0u /* 0 to 1 */
#define RNIC_NP_ECHO_ACK_DSCP 1u /* 0 to 63 */
#define RNIC_NP_ECHO_ACK_802P_PRIO 2u /* 0 to 7 */
RNIC_NP_FUNCTIONS(echo);

/* rcc */
#define RNIC_NP_RCC_PORT_BYTES 232u
#define RNIC_NP_RCC_PORT_ALIGN 8u
typedef struct { uint64_t opaque[29]; } rnic_np_rcc_port;
#define RNIC_NP_RCC_FLOW_BYTES 32u
#define RNIC_NP_RCC_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[8]; } rnic_np_rcc_flow;
#define RNIC_NP_RCC_PRESET_STABLE 0u
#define RNIC_NP_RCC_PRESET_PAPER 1u
#define RNIC_NP_RCC_K_P 0u /* 0 to 1000000 */
#define RNIC_NP_RCC_K_D 1u /* 0 to 1000000 */
#define RNIC_NP_RCC_DELTA 2u /* 1000 to 10000000 ppm */
#define RNIC_NP_RCC_ETA 3u /* 1000 to 1000000 ppm */
#define RNIC_NP_RCC_SAMPLES 4u /* 1 to 15 */
#define RNIC_NP_RCC_SHARE 5u /* 10000 to 1000000 ppm */
#define RNIC_NP_RCC_BASE_RTT 6u /* 0 to 10000000 ns */
#define RNIC_NP_RCC_MIN_WINDOW 7u /* 1 to 1000000 B */
#define RNIC_NP_RCC_UNWIND 8u /* 0 to 1 */
#define RNIC_NP_RCC_ACK_DSCP 9u /* 0 to 63 */
#define RNIC_NP_RCC_ACK_802P_PRIO 10u /* 0 to 7 */
#define RNIC_NP_RCC_RESPONSE 11u /* 0 to 2: tanh, sigmoid, double_sigmoid */
#define RNIC_NP_RCC_CONTROL 12u /* 0 to 2: both, pid, ewa */
RNIC_NP_FUNCTIONS(rcc);

/* rcc_sender */
#define RNIC_NP_RCC_SENDER_PORT_BYTES 232u
#define RNIC_NP_RCC_SENDER_PORT_ALIGN 8u
typedef struct { uint64_t opaque[29]; } rnic_np_rcc_sender_port;
#define RNIC_NP_RCC_SENDER_FLOW_BYTES 12u
#define RNIC_NP_RCC_SENDER_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[3]; } rnic_np_rcc_sender_flow;
#define RNIC_NP_RCC_SENDER_PRESET_STABLE 0u
#define RNIC_NP_RCC_SENDER_PRESET_PAPER 1u
#define RNIC_NP_RCC_SENDER_K_P 0u /* 0 to 1000000 */
#define RNIC_NP_RCC_SENDER_K_D 1u /* 0 to 1000000 */
#define RNIC_NP_RCC_SENDER_DELTA 2u /* 1000 to 10000000 ppm */
#define RNIC_NP_RCC_SENDER_ETA 3u /* 1000 to 1000000 ppm */
#define RNIC_NP_RCC_SENDER_SAMPLES 4u /* 1 to 15 */
#define RNIC_NP_RCC_SENDER_SHARE 5u /* 10000 to 1000000 ppm */
#define RNIC_NP_RCC_SENDER_BASE_RTT 6u /* 0 to 10000000 ns */
#define RNIC_NP_RCC_SENDER_MIN_WINDOW 7u /* 1 to 1000000 B */
#define RNIC_NP_RCC_SENDER_UNWIND 8u /* 0 to 1 */
#define RNIC_NP_RCC_SENDER_ACK_DSCP 9u /* 0 to 63 */
#define RNIC_NP_RCC_SENDER_ACK_802P_PRIO 10u /* 0 to 7 */
#define RNIC_NP_RCC_SENDER_RESPONSE 11u /* 0 to 2: tanh, sigmoid, double_sigmoid */
#define RNIC_NP_RCC_SENDER_CONTROL 12u /* 0 to 2: both, pid, ewa */
RNIC_NP_FUNCTIONS(rcc_sender);

/* dcqcn_tcd */
#define RNIC_NP_DCQCN_TCD_PORT_BYTES 96u
#define RNIC_NP_DCQCN_TCD_PORT_ALIGN 8u
typedef struct { uint64_t opaque[12]; } rnic_np_dcqcn_tcd_port;
#define RNIC_NP_DCQCN_TCD_FLOW_BYTES 12u
#define RNIC_NP_DCQCN_TCD_FLOW_ALIGN 4u
typedef struct { uint32_t opaque[3]; } rnic_np_dcqcn_tcd_flow;
#define RNIC_NP_DCQCN_TCD_PRESET_TCD_SIM 0u
#define RNIC_NP_DCQCN_TCD_MIN_TIME_BETWEEN_CNPS 0u /* 0 to 131071 us */
#define RNIC_NP_DCQCN_TCD_CNP_DSCP 1u /* 0 to 63 */
#define RNIC_NP_DCQCN_TCD_CNP_802P_PRIO 2u /* 0 to 7 */
#define RNIC_NP_DCQCN_TCD_CNP_PORT_INTERVAL 3u /* 0 to 100000 ns */
#define RNIC_NP_DCQCN_TCD_CNP_PORT_BURST 4u /* 1 to 10000 */
RNIC_NP_FUNCTIONS(dcqcn_tcd);

/* mlcc */
#define RNIC_NP_MLCC_PORT_BYTES 224u
#define RNIC_NP_MLCC_PORT_ALIGN 8u
typedef struct { uint64_t opaque[28]; } rnic_np_mlcc_port;
#define RNIC_NP_MLCC_FLOW_BYTES 280u
#define RNIC_NP_MLCC_FLOW_ALIGN 8u
typedef struct { uint64_t opaque[35]; } rnic_np_mlcc_flow;
#define RNIC_NP_MLCC_PRESET_STABLE 0u
#define RNIC_NP_MLCC_PRESET_PAPER 1u
#define RNIC_NP_MLCC_ETA 0u /* 500000 to 1000000 ppm */
#define RNIC_NP_MLCC_MAX_STAGE 1u /* 0 to 255 */
#define RNIC_NP_MLCC_LOCAL_RTT 2u /* 0 to 16000000 ns */
#define RNIC_NP_MLCC_FAR_RTT 3u /* 10000 to 100000000 ns */
#define RNIC_NP_MLCC_RATE_AI 4u /* 1 to 1600000 Mb/s */
#define RNIC_NP_MLCC_MIN_RATE 5u /* 0 to 1600000 Mb/s */
#define RNIC_NP_MLCC_THETA 6u /* 1000000 to 500000000 ns */
#define RNIC_NP_MLCC_TARGET_DELAY 7u /* 0 to 100000000 ns */
#define RNIC_NP_MLCC_TOKEN_DIVISOR 8u /* 0 to 1: r_credit, r_dqm */
#define RNIC_NP_MLCC_INT_MULTI 9u /* 1 to 64 */
#define RNIC_NP_MLCC_ACK_DSCP 10u /* 0 to 63 */
#define RNIC_NP_MLCC_ACK_802P_PRIO 11u /* 0 to 7 */
RNIC_NP_FUNCTIONS(mlcc);

#ifdef __cplusplus
}
#endif

#endif
