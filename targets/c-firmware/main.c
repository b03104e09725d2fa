/*
 * Firmware in C: reads events from a trace, passes each to its flow, and reports every decision.
 *
 * The algorithm is chosen at compile time, by -DNAME=dcqcn; no other algorithm is linked. With -DTIMED, the cycles of each
 * event are reported too. -DPREFIX=... names another library with the same interface, for a comparison.
 */
#include "board.h"
#include "rnic_cc.h"

#ifndef PREFIX
#define PREFIX rnic_rp
#endif
#define JOIN(prefix, name, what) prefix##_##name##_##what
#define EXPAND(prefix, name, what) JOIN(prefix, name, what)
#define CC(what) EXPAND(PREFIX, NAME, what)

#ifdef HEADER
#include HEADER
#endif

enum { FLOWS = 16, OPEN = 0, SETTINGS = 8 };

/* An event in the format of the trace: little-endian, 168 bytes. */
struct record {
    uint32_t flow;
    uint32_t kind; /* RNIC_SENT and so on, or OPEN */
    uint64_t now;
    uint32_t pause;
    uint32_t paused;
    uint32_t psn;
    uint32_t bytes;
    uint32_t rtt;
    uint32_t receiver_hold;
    uint32_t grant_window;
    uint32_t mlcc_advised_rate;
    uint32_t mlcc_release;
    uint16_t mlcc_credit;
    uint16_t grant_flows;
    uint16_t grant_utilisation;
    uint16_t int_path;
    uint8_t int_hops;
    uint8_t int_layout;
    uint8_t mark;
    uint8_t hops;
    uint8_t rx_buffer_level;
    uint8_t has_body;
    uint8_t body[16];
    uint8_t area[80];
    uint8_t pad[4];
};

/* The trace, which is assembled into the image, see trace.S. */
extern const struct {
    uint32_t records;
    uint32_t preset;
    rnic_link link;
    uint32_t settings;
    rnic_setting setting[SETTINGS];
    struct record record[];
} trace;

static CC(port) port;
static CC(flow) flows[FLOWS];

static rnic_telemetry telemetry(const struct record *record)
{
    const uint8_t *records = record->int_hops ? record->area : NULL;
    return (rnic_telemetry){records, record->int_path, record->int_hops, record->int_layout};
}

static void read(const struct record *record, rnic_event *event)
{
    event->at.now = record->now;
    event->at.pause = record->pause;
    event->at.paused = record->paused;
    event->kind = record->kind;
    switch (record->kind) {
    case RNIC_SENT:
        event->of.sent.psn = record->psn;
        event->of.sent.bytes = record->bytes;
        break;
    case RNIC_ACK:
        event->of.ack.telemetry = telemetry(record);
        event->of.ack.psn = record->psn;
        event->of.ack.acked = record->bytes;
        event->of.ack.rtt = record->rtt;
        event->of.ack.receiver_hold = record->receiver_hold;
        event->of.ack.grant_window = record->grant_window;
        event->of.ack.mlcc_advised_rate = record->mlcc_advised_rate;
        event->of.ack.mlcc_release = record->mlcc_release;
        event->of.ack.mlcc_credit = record->mlcc_credit;
        event->of.ack.grant_flows = record->grant_flows;
        event->of.ack.grant_utilisation = record->grant_utilisation;
        event->of.ack.mark = record->mark;
        event->of.ack.hops = record->hops;
        event->of.ack.rx_buffer_level = record->rx_buffer_level;
        break;
    case RNIC_NACK:
        event->of.nack_psn = record->psn;
        break;
    case RNIC_CNP:
        event->of.cnp_body = record->has_body ? record->body : NULL;
        break;
    case RNIC_SWITCH_INT:
        event->of.switch_int = telemetry(record);
        break;
    }
}

int main(void)
{
    rnic_status status = CC(init)(&port, sizeof port, &trace.link, trace.preset, trace.record[0].now);
    if (status != RNIC_OK)
        return 1;
    status = CC(set)(&port, trace.setting, trace.settings, NULL);
    if (status != RNIC_OK)
        return 2;
    for (const struct record *record = trace.record; record < trace.record + trace.records; record++) {
        rnic_event event;
        rnic_decision decision;
        uint32_t cycles = 0;
        read(record, &event);
        CC(flow) *flow = &flows[record->flow % FLOWS];
        if (record->kind == OPEN) {
            status = CC(open)(&port, &event.at, flow, &decision);
        } else {
            uint32_t start = board_cycles();
            status = CC(on)(&port, flow, &event, &decision);
            cycles = board_cycles() - start;
        }
        if (status != RNIC_OK)
            return 3;
        board_put(decision.rate);
        board_put(decision.window);
        board_put(decision.hold);
        board_put(decision.wake_in);
#ifdef TIMED
        board_put(cycles);
#else
        (void)cycles;
#endif
    }
    uint64_t counter;
    for (uint32_t id = 0; CC(count)(&port, id, &counter) == RNIC_OK; id++)
        board_put((uint32_t)counter);
    return 0;
}
