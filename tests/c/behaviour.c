/* Checks the behaviour that the header documents. Prints the first line that fails, and then returns 1. */
#include <stdio.h>
#include <string.h>

#include "rnic_cc.h"

#define EXPECT(what)                                                                                                   \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("line %d: %s\n", __LINE__, #what);                                                                  \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static int is(rnic_text text, const char *expected)
{
    return text.length == strlen(expected) && memcmp(text.data, expected, text.length) == 0;
}

int main(void)
{
    const rnic_link link = {.line_rate = 100u << 21, .mtu = 1086, .base_rtt = 8000};
    static rnic_rp_dcqcn_port port;
    rnic_rp_dcqcn_flow flow;
    rnic_decision decision;
    rnic_event event = {.at = {.now = 1000000}, .kind = RNIC_CNP};
    uint32_t value, fault = 99;
    uint64_t counter;

    EXPECT(rnic_version() == RNIC_VERSION);

    /* A port that is not initialised, or not of the algorithm, is refused, and so are bad arguments of init. */
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &event, &decision) == RNIC_NOT_READY);
    EXPECT(rnic_rp_dcqcn_init(NULL, sizeof port, &link, 0, 0) == RNIC_NULL);
    EXPECT(rnic_rp_dcqcn_init(&port, sizeof port, NULL, 0, 0) == RNIC_NULL);
    EXPECT(rnic_rp_dcqcn_init(&port, sizeof port - 1, &link, 0, 0) == RNIC_TOO_SMALL);
    EXPECT(rnic_rp_dcqcn_init((void *)((char *)&port + 1), sizeof port, &link, 0, 0) == RNIC_MISALIGNED);
    EXPECT(rnic_rp_dcqcn_init(&port, sizeof port, &link, RNIC_RP_DCQCN_PRESET_SIGCOMM15 + 1, 0) == RNIC_UNKNOWN_ID);
    const rnic_link slow = {.line_rate = 1, .mtu = 1086, .base_rtt = 8000};
    EXPECT(rnic_rp_dcqcn_init(&port, sizeof port, &slow, 0, 0) == RNIC_CONFLICT);
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &event, &decision) == RNIC_NOT_READY);
    const rnic_link no_mtu = {.line_rate = 100u << 21, .mtu = 0, .base_rtt = 8000};
    const rnic_link no_rtt = {.line_rate = 100u << 21, .mtu = 1086, .base_rtt = 0};
    static rnic_np_dcqcn_port no_link;
    EXPECT(rnic_rp_dcqcn_init(&port, sizeof port, &no_mtu, 0, 0) == RNIC_CONFLICT);
    EXPECT(rnic_rp_dcqcn_init(&port, sizeof port, &no_rtt, 0, 0) == RNIC_CONFLICT);
    EXPECT(rnic_np_dcqcn_init(&no_link, sizeof no_link, &no_mtu, 0, 0) == RNIC_CONFLICT);
    EXPECT(rnic_np_dcqcn_init(&no_link, sizeof no_link, &no_rtt, 0, 0) == RNIC_CONFLICT);
    EXPECT(rnic_rp_dcqcn_init(&port, sizeof port, &link, RNIC_RP_DCQCN_PRESET_PAPER, 0) == RNIC_OK);
    EXPECT(rnic_rp_swift_on((void *)&port, (void *)&flow, &event, &decision) == RNIC_NOT_READY);

    /* A flow begins at line rate, and halves at the first CNP (SIGCOMM 2015, alpha = 1). */
    EXPECT(rnic_rp_dcqcn_open(&port, &event.at, &flow, &decision) == RNIC_OK);
    EXPECT(decision.rate == link.line_rate && decision.window == RNIC_NO_WINDOW && decision.hold == 0);
    EXPECT(decision.wake_in == RNIC_NEVER);
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &event, &decision) == RNIC_OK);
    EXPECT(decision.rate == link.line_rate / 2 && decision.wake_in == 55000);

    /* A flow that was never opened is refused, and so is one of another port, of this port before it was initialised again,
     * or of another algorithm. A flow and its port may be moved. */
    static rnic_rp_dcqcn_flow never;
    static rnic_rp_dcqcn_port other;
    rnic_rp_dcqcn_flow moved = flow, stranger;
    rnic_rp_dcqcn_port elsewhere = port;
    const rnic_event late = {.at = {.now = 1000000}, .kind = RNIC_WAKE};
    EXPECT(rnic_rp_dcqcn_on(&port, &never, &late, &decision) == RNIC_NOT_OPEN);
    EXPECT(rnic_rp_dcqcn_init(&other, sizeof other, &link, RNIC_RP_DCQCN_PRESET_PAPER, 0) == RNIC_OK);
    EXPECT(rnic_rp_dcqcn_on(&other, &flow, &late, &decision) == RNIC_NOT_OPEN);
    EXPECT(rnic_rp_dcqcn_open(&other, &late.at, &stranger, &decision) == RNIC_OK);
    EXPECT(rnic_rp_dcqcn_on(&port, &stranger, &late, &decision) == RNIC_NOT_OPEN);
    EXPECT(rnic_rp_dcqcn_init(&other, sizeof other, &link, RNIC_RP_DCQCN_PRESET_PAPER, 1) == RNIC_OK);
    EXPECT(rnic_rp_dcqcn_on(&other, &stranger, &late, &decision) == RNIC_NOT_OPEN);
    EXPECT(rnic_rp_dcqcn_on(&elsewhere, &moved, &late, &decision) == RNIC_OK && decision.rate == link.line_rate / 2);

    /* While the reaction point is off, flows send at line rate; then at the rate of their state. */
    EXPECT(rnic_rp_dcqcn_enable(&elsewhere, 0) == RNIC_OK && rnic_rp_dcqcn_enable(NULL, 0) == RNIC_NULL);
    EXPECT(rnic_rp_dcqcn_on(&elsewhere, &moved, &late, &decision) == RNIC_OK && decision.rate == link.line_rate);
    EXPECT(rnic_rp_dcqcn_enable(&elsewhere, 1) == RNIC_OK);
    EXPECT(rnic_rp_dcqcn_on(&elsewhere, &moved, &late, &decision) == RNIC_OK && decision.rate == link.line_rate / 2);

    /* A call with bad arguments is refused and does not change the flow. */
    const rnic_rp_dcqcn_flow before = flow;
    EXPECT(rnic_rp_dcqcn_on(NULL, &flow, &event, &decision) == RNIC_NULL);
    EXPECT(rnic_rp_dcqcn_on(&port, NULL, &event, &decision) == RNIC_NULL);
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, NULL, &decision) == RNIC_NULL);
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &event, NULL) == RNIC_NULL);
    EXPECT(rnic_rp_dcqcn_on(&port, (void *)((char *)&flow + 2), &event, &decision) == RNIC_MISALIGNED);
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &event, (void *)((char *)&decision + 1)) == RNIC_MISALIGNED);
    event.kind = 7;
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &event, &decision) == RNIC_BAD_EVENT);
    event.kind = 0;
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &event, &decision) == RNIC_BAD_EVENT);
    rnic_event sent = {.at = {.now = 1000000}, .kind = RNIC_SENT};
    sent.of.sent.psn = 0x1000000;
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &sent, &decision) == RNIC_BAD_EVENT);
    EXPECT(memcmp(&flow, &before, sizeof flow) == 0);
    EXPECT(rnic_rp_dcqcn_count(&port, 0, &counter) == RNIC_OK && counter == 1);

    /* The rest of a pause is returned as the hold, under every algorithm. */
    event.kind = RNIC_WAKE;
    event.at.pause = 1234;
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &event, &decision) == RNIC_OK && decision.hold == 1234);
    event.at.pause = 0;

    /* Parameters have names, units, bounds and text; they are numbered from 0 without gaps. */
    rnic_param param;
    EXPECT(rnic_rp_dcqcn_param(RNIC_RP_DCQCN_RPG_TIME_RESET, &param) == RNIC_OK);
    EXPECT(is(param.name, "rpg_time_reset") && is(param.unit, "us") && param.text.length > 10);
    EXPECT(param.min == 1 && param.max == 131071 && param.value == 55);
    uint32_t ids = 0;
    while (rnic_rp_dcqcn_param(ids, &param) == RNIC_OK)
        ids++;
    EXPECT(ids == RNIC_RP_DCQCN_ALPHA_BITS + 1);
    EXPECT(rnic_rp_dcqcn_param(ids, &param) == RNIC_UNKNOWN_ID);
    EXPECT(rnic_rp_dcqcn_get(&port, ids, &value) == RNIC_UNKNOWN_ID);
    EXPECT(rnic_rp_dcqcn_get(&port, 0, NULL) == RNIC_NULL);

    /* If one of a list of settings is refused, none of them is set. */
    const rnic_setting good[] = {{RNIC_RP_DCQCN_RPG_TIME_RESET, 100}, {RNIC_RP_DCQCN_RPG_AI_RATE, 7}};
    const rnic_setting wrong[] = {{RNIC_RP_DCQCN_RPG_TIME_RESET, 200}, {RNIC_RP_DCQCN_RPG_THRESHOLD, 32}};
    const rnic_setting none[] = {{RNIC_RP_DCQCN_RPG_TIME_RESET, 200}, {1000, 1}};
    const rnic_setting clash[] = {{RNIC_RP_DCQCN_RPG_TIME_RESET, 200}, {RNIC_RP_DCQCN_RPG_MAX_RATE, 400000}};
    EXPECT(rnic_rp_dcqcn_set(&port, good, 2, &fault) == RNIC_OK && fault == 99);
    EXPECT(rnic_rp_dcqcn_set(&port, wrong, 2, &fault) == RNIC_OUT_OF_RANGE && fault == RNIC_RP_DCQCN_RPG_THRESHOLD);
    EXPECT(rnic_rp_dcqcn_set(&port, none, 2, &fault) == RNIC_UNKNOWN_ID && fault == 1000);
    EXPECT(rnic_rp_dcqcn_set(&port, clash, 2, &fault) == RNIC_CONFLICT && fault == RNIC_RP_DCQCN_RPG_MAX_RATE);
    EXPECT(rnic_rp_dcqcn_set(&port, clash, 2, NULL) == RNIC_CONFLICT);
    EXPECT(rnic_rp_dcqcn_set(&port, NULL, 1, &fault) == RNIC_NULL);
    EXPECT(rnic_rp_dcqcn_set(&port, NULL, 0, &fault) == RNIC_OK);
    EXPECT(rnic_rp_dcqcn_get(&port, RNIC_RP_DCQCN_RPG_TIME_RESET, &value) == RNIC_OK && value == 100);
    EXPECT(rnic_rp_dcqcn_get(&port, RNIC_RP_DCQCN_RPG_AI_RATE, &value) == RNIC_OK && value == 7);
    event.kind = RNIC_CNP;
    event.of.cnp_body = NULL;
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &event, &decision) == RNIC_OK && decision.wake_in == 100000);

    /* Counters have names and text, and a port has all of them. */
    rnic_counter info;
    uint32_t counters = 0;
    while (rnic_rp_counter(counters, &info) == RNIC_OK) {
        EXPECT(info.name.length > 0 && info.text.length > 0);
        EXPECT(rnic_rp_dcqcn_count(&port, counters++, &counter) == RNIC_OK);
    }
    EXPECT(rnic_rp_dcqcn_count(&port, counters, &counter) == RNIC_UNKNOWN_ID);
    EXPECT(rnic_rp_counter(0, &info) == RNIC_OK && is(info.name, "rp_cnp_handled"));
    EXPECT(rnic_rp_dcqcn_count(&port, 0, &counter) == RNIC_OK && counter == 2);
    event.at.now += 5000000000;
    EXPECT(rnic_rp_dcqcn_on(&port, &flow, &event, &decision) == RNIC_OK);
    EXPECT(rnic_rp_dcqcn_count(&port, 4, &counter) == RNIC_OK && counter == 1);

    /* An acknowledgement whose mark is not in the header is refused. */
    static rnic_rp_timely_tcd_port timely;
    rnic_rp_timely_tcd_flow delayed;
    EXPECT(rnic_rp_timely_tcd_init(&timely, sizeof timely, &link, 0, event.at.now) == RNIC_OK);
    EXPECT(rnic_rp_timely_tcd_open(&timely, &event.at, &delayed, &decision) == RNIC_OK);
    event.kind = RNIC_ACK;
    memset(&event.of.ack, 0, sizeof event.of.ack);
    event.of.ack.rtt = 10000;
    EXPECT(rnic_rp_timely_tcd_on(&timely, &delayed, &event, &decision) == RNIC_OK);
    event.of.ack.mark = 3;
    EXPECT(rnic_rp_timely_tcd_on(&timely, &delayed, &event, &decision) == RNIC_BAD_EVENT);

    /* The receiver sends a CNP for a marked packet, and the next one not before 50 us have passed. */
    static rnic_np_dcqcn_port np;
    rnic_np_dcqcn_flow peer;
    rnic_reply reply;
    rnic_arrival arrival = {.now = 1000, .local_qpn = 5, .bytes = 1086, .payload = 1024, .ecn = 2};
    EXPECT(rnic_np_dcqcn_on(&np, &peer, &arrival, &reply) == RNIC_NOT_READY);
    EXPECT(rnic_np_dcqcn_init(&np, sizeof np, &link, RNIC_NP_DCQCN_PRESET_PAPER, 0) == RNIC_OK);
    EXPECT(rnic_np_dcqcn_open(&np, 1000, 5, &peer) == RNIC_OK);
    EXPECT(rnic_np_dcqcn_on(&np, &peer, &arrival, &reply) == RNIC_OK && reply.cnp == 0);
    arrival.ecn = 3;
    EXPECT(rnic_np_dcqcn_on(&np, &peer, &arrival, &reply) == RNIC_OK && reply.cnp == 1);
    EXPECT(rnic_np_dcqcn_on(&np, &peer, &arrival, &reply) == RNIC_OK && reply.cnp == 1); /* no CNP was sent so far */
    EXPECT(rnic_np_dcqcn_on_cnp_sent(&np, &peer, 1000) == RNIC_OK);
    arrival.now = 50999;
    EXPECT(rnic_np_dcqcn_on(&np, &peer, &arrival, &reply) == RNIC_OK && reply.cnp == 0);
    arrival.now = 51000;
    EXPECT(rnic_np_dcqcn_on(&np, &peer, &arrival, &reply) == RNIC_OK && reply.cnp == 1);
    EXPECT(rnic_np_dcqcn_count(&np, 0, &counter) == RNIC_OK && counter == 4);
    EXPECT(rnic_np_dcqcn_count(&np, 1, &counter) == RNIC_OK && counter == 1);
    return 0;
}
