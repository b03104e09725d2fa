#include "vendor_double.h"

#define HALF (1u << 31)
#define LAST_STAGE 63
#define MBPS 2097.152 /* 1 Mb/s in 2^-24 bytes per nanosecond */
#define P(name) port->param[RNIC_RP_DCQCN_##name]

static const uint32_t presets[6][VENDOR_DOUBLE_PARAMS] = {
    {1, 0, 55, 156250, 5, 40, 100, 0, 100, 11, 0, 0, 1020, 55, 1024, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10},
    {0, 1, 300, 32767, 1, 5, 50, 0, 1, 11, 50, 0, 1019, 1, 1023, 4, 1, 0, 0, 0, 0, 0, 0, 0, 10},
    {0, 1, 300, 32767, 1, 5, 40, 0, 1, 11, 50, 0, 1019, 1, 1023, 4, 1, 0, 0, 0, 0, 0, 0, 0, 10},
    {0, 1, 300, 0, 1, 20, 200, 0, 1000, 11, 0, 0, 1020, 1, 1023, 4, 1, 0, 0, 1, 1, 0, 1, 1, 10},
    {1, 0, 60, 4688, 5, 40, 200, 0, 100, 11, 0, 0, 1020, 55, 512, 0, 0, 1, 1, 0, 0, 1, 1, 0, 10},
    {1, 0, 55, 156250, 5, 40, 100, 0, 100, 11, 0, 0, 1020, 55, 1024, 0, 0, 0, 1, 2, 0, 0, 0, 0, 10},
};

rnic_status vendor_double_dcqcn_init(vendor_double_dcqcn_port *port, size_t size, const rnic_link *link, uint32_t preset,
                                     uint64_t now)
{
    if (size < sizeof *port)
        return RNIC_TOO_SMALL;
    if (preset >= 6)
        return RNIC_UNKNOWN_ID;
    port->link = *link;
    port->last_now = now;
    port->clock_offset = 0;
    port->cnp_handled = 0;
    port->clock_leaps = port->clock_reversals = 0;
    for (int id = 0; id < VENDOR_DOUBLE_PARAMS; id++)
        port->param[id] = presets[preset][id];
    return RNIC_OK;
}

rnic_status vendor_double_dcqcn_set(vendor_double_dcqcn_port *port, const rnic_setting *list, size_t count,
                                    uint32_t *fault)
{
    for (size_t n = 0; n < count; n++) {
        if (list[n].id >= VENDOR_DOUBLE_PARAMS) {
            if (fault)
                *fault = list[n].id;
            return RNIC_UNKNOWN_ID;
        }
        port->param[list[n].id] = list[n].value;
    }
    return RNIC_OK;
}

rnic_status vendor_double_dcqcn_count(vendor_double_dcqcn_port *port, uint32_t id, uint64_t *value)
{
    switch (id) {
    case 0: *value = port->cnp_handled; break;
    case 4: *value = port->clock_leaps; break;
    case 5: *value = port->clock_reversals; break;
    default: *value = 0; return id < 4 ? RNIC_OK : RNIC_UNKNOWN_ID;
    }
    return RNIC_OK;
}

static double ceiling(const vendor_double_dcqcn_port *port)
{
    return P(RPG_MAX_RATE) ? P(RPG_MAX_RATE) * MBPS : port->link.line_rate;
}

/* One expiry of the timer or the byte counter: equations (5) to (9) of the paper. */
static void increase(const vendor_double_dcqcn_port *port, vendor_double_dcqcn_flow *flow, uint8_t *stage)
{
    uint32_t threshold = P(RPG_THRESHOLD) - P(FAST_RECOVERY);
    if (*stage < LAST_STAGE)
        ++*stage;
    uint32_t low = flow->time_stage < flow->byte_stage ? flow->time_stage : flow->byte_stage;
    uint32_t top = flow->time_stage < flow->byte_stage ? flow->byte_stage : flow->time_stage;
    uint32_t hyper_threshold = P(HYPER_START) == 2 ? P(RPG_THRESHOLD) : threshold + P(HYPER_START);
    uint32_t hyper = P(HYPER_START) == 1 ? top : low;
    if (top > threshold) {
        if (hyper <= hyper_threshold)
            flow->target += P(RPG_AI_RATE) * MBPS;
        else
            flow->target += P(RPG_HAI_RATE) * MBPS * (P(HYPER_STEP) ? 1 : hyper - hyper_threshold);
    }
    double most = ceiling(port);
    if (flow->target > most)
        flow->target = most;
    flow->current = (flow->current + flow->target) / 2;
    if (flow->target - flow->current < 2)
        flow->current = flow->target;
    if (flow->current == most && !P(LIMITER) && !(flow->notified & 2))
        flow->limited = 0;
}

static void restart(const vendor_double_dcqcn_port *port, vendor_double_dcqcn_flow *flow, uint32_t now)
{
    flow->time_stage = flow->byte_stage = 0;
    flow->rate_due = now + P(RPG_TIME_RESET) * 1000;
    flow->left = P(RPG_BYTE_RESET) * 64.0;
}

static void cut(const vendor_double_dcqcn_port *port, vendor_double_dcqcn_flow *flow, uint32_t now)
{
    double before = flow->current, least = before * P(RPG_MIN_DEC_FAC) / 100, floor = P(RPG_MIN_RATE) * MBPS;
    if (P(CLAMP_TGT_RATE) || flow->byte_stage || (P(CLAMP_TGT_RATE_AFTER_TIME_INC) && flow->time_stage))
        flow->target = before;
    flow->current = before * (1 - flow->alpha / (P(RPG_GD) == 10 ? 1 : 2));
    if (flow->current < least)
        flow->current = least;
    if (flow->current < floor)
        flow->current = floor;
    restart(port, flow, now);
}

/* Applies everything that is due, one after the other, each at its time. */
static void catch_up(const vendor_double_dcqcn_port *port, vendor_double_dcqcn_flow *flow, uint32_t now)
{
    double g = 1 - P(DCE_TCP_G) / 1024.0;
    while (flow->limited) {
        uint32_t alpha = now - flow->alpha_due, rate = now - flow->rate_due, due = now - flow->cut_due;
        uint32_t late = 0;
        if (alpha < HALF)
            late = alpha;
        if (rate < HALF && rate > late)
            late = rate;
        if (flow->notified & 2 && due < HALF && due > late)
            late = due;
        if (alpha < HALF && alpha == late) {
            flow->alpha *= 1 - g;
            if (P(ALPHA_UPDATE) && flow->notified & 1)
                flow->alpha += g;
            flow->notified &= ~1u;
            if (flow->alpha < 1e-9)
                flow->alpha = 0;
            /* An alpha of 0 stays 0, so all ticks that are due are skipped at once. */
            uint32_t length = P(DCE_TCP_RTT) * 1000, ticks = flow->alpha == 0 ? alpha / length + 1 : 1;
            flow->alpha_due += ticks * length;
        } else if (rate < HALF && rate == late) {
            flow->rate_due += P(RPG_TIME_RESET) * 1000;
            increase(port, flow, &flow->time_stage);
        } else if (flow->notified & 2 && due < HALF) {
            flow->notified &= ~2u;
            if (P(ALPHA_UPDATE))
                cut(port, flow, flow->cut_due);
            flow->cut_due += P(RATE_REDUCE_MONITOR_PERIOD) * 1000;
        } else {
            break;
        }
    }
}

static void notified(vendor_double_dcqcn_port *port, vendor_double_dcqcn_flow *flow, uint32_t now)
{
    uint8_t first = !flow->limited;
    port->cnp_handled++;
    if (first) {
        flow->current = flow->target = P(RATE_TO_SET_ON_FIRST_CNP) ? P(RATE_TO_SET_ON_FIRST_CNP) * MBPS : ceiling(port);
        flow->alpha = P(INITIAL_ALPHA_VALUE) / 1024.0;
        flow->alpha_due = now + P(DCE_TCP_RTT) * 1000;
        flow->limited = 1;
        flow->notified = 0;
        restart(port, flow, now);
    }
    if (P(ALPHA_UPDATE)) {
        uint32_t late = now - flow->cut_due, length = P(RATE_REDUCE_MONITOR_PERIOD) * 1000;
        if (first)
            flow->cut_due = now + length + 1;
        else if (!(flow->notified & 2) && late < HALF)
            flow->cut_due += (late / length + 1) * length;
        flow->notified |= first && P(FIRST_CNP) ? 2 : 3;
        return;
    }
    double g = 1 - P(DCE_TCP_G) / 1024.0, raised = (1 - g) * flow->alpha + g;
    if (P(CUT_ORDER))
        flow->alpha = raised;
    cut(port, flow, now);
    flow->alpha = raised;
    flow->alpha_due = now + P(DCE_TCP_RTT) * 1000;
}

static void sent(const vendor_double_dcqcn_port *port, vendor_double_dcqcn_flow *flow, uint32_t bytes)
{
    if (!flow->limited || P(RPG_BYTE_RESET) == 0)
        return;
    flow->left -= bytes;
    while (flow->limited && flow->left <= 0) {
        flow->left += P(RPG_BYTE_RESET) * 64.0;
        increase(port, flow, &flow->byte_stage);
    }
}

static void decide(const vendor_double_dcqcn_port *port, const vendor_double_dcqcn_flow *flow, uint32_t now,
                   uint32_t pause, rnic_decision *decision)
{
    decision->rate = flow->limited ? (uint32_t)flow->current : port->link.line_rate;
    decision->window = RNIC_NO_WINDOW;
    decision->hold = pause;
    decision->wake_in = RNIC_NEVER;
    if (flow->limited) {
        decision->wake_in = flow->rate_due - now;
        if (flow->notified & 2 && P(ALPHA_UPDATE) && flow->cut_due - now < decision->wake_in)
            decision->wake_in = flow->cut_due - now;
    }
}

static uint32_t local_time(vendor_double_dcqcn_port *port, uint64_t now)
{
    uint64_t elapsed = now - port->last_now;
    port->last_now = now;
    if (elapsed > 1000000000) {
        port->clock_offset += elapsed;
        if (elapsed >> 63)
            port->clock_reversals++;
        else
            port->clock_leaps++;
    }
    return (uint32_t)(now - port->clock_offset);
}

rnic_status vendor_double_dcqcn_open(vendor_double_dcqcn_port *port, const rnic_moment *at,
                                     vendor_double_dcqcn_flow *flow, rnic_decision *decision)
{
    uint32_t now = local_time(port, at->now);
    *flow = (vendor_double_dcqcn_flow){.alpha_due = now, .rate_due = now, .cut_due = now};
    decide(port, flow, now, at->pause, decision);
    return RNIC_OK;
}

rnic_status vendor_double_dcqcn_on(vendor_double_dcqcn_port *port, vendor_double_dcqcn_flow *flow,
                                   const rnic_event *event, rnic_decision *decision)
{
    if (event->kind < RNIC_SENT || event->kind > RNIC_SWITCH_INT)
        return RNIC_BAD_EVENT;
    uint32_t now = local_time(port, event->at.now);
    catch_up(port, flow, now);
    if (event->kind == RNIC_SENT)
        sent(port, flow, event->of.sent.bytes);
    else if (event->kind == RNIC_CNP)
        notified(port, flow, now);
    decide(port, flow, now, event->at.pause, decision);
    return RNIC_OK;
}
