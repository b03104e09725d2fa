#include "vendor.h"

#define LIMITED (1u << 31)
#define CUT (1u << 30)
#define NUMBERED (1u << 29)
#define BYTES ((1u << 24) - 1)
#define HALF (1u << 31)
#define ONES 1023u
#define TICK 4095u
#define TEN_BITS 22
#define LAST_STAGE 63u

enum {
    CLAMPS = 1,
    CLAMPS_AFTER_TIME = 2,
    BOUNDS_CUTS = 4,
    CUTS_BY_ALPHA = 8,
    ALPHA_FIRST = 16,
    SPACES_CUTS = 32,
    COUNTS_BYTES = 64,
    HYPER_FOLLOWS = 128,
    HYPER_IS_CONSTANT = 256,
    FAR_TARGET_DROPS = 512,
    KEEPS_LIMITER = 1024,
    FIRST_COUNTS = 2048,
    SAMPLED = 4096,
    FADES_BY_POWERS = 8192,
};

#define P(name) port->param[RNIC_RP_DCQCN_##name]

/* ---- arithmetic ---- */

static uint32_t high(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static vendor_period period(uint32_t length)
{
    uint32_t divisor = length ? length : UINT32_MAX;
    uint32_t log2 = 0, quotient = 0;
    while (log2 < 32 && divisor > 1ull << log2)
        log2++;
    uint64_t remainder = (1ull << log2) - divisor;
    for (int bit = 0; bit < 32; bit++) {
        remainder <<= 1;
        quotient <<= 1;
        if (remainder >= divisor) {
            remainder -= divisor;
            quotient |= 1;
        }
    }
    return (vendor_period){length, quotient + 1, log2 != 0, (uint8_t)(log2 ? log2 - 1 : 0)};
}

static uint32_t count_in(const vendor_period *period, uint32_t extent)
{
    uint32_t part = high(period->multiplier, extent);
    return (((extent - part) >> period->first) + part) >> period->second;
}

static uint32_t rate_of(uint32_t mbps)
{
    if (mbps >= 2048000)
        return UINT32_MAX;
    return (mbps / 1000 << 21) + ((mbps % 1000 << 21) + 500) / 1000;
}

/* ---- arguments ---- */

static rnic_status usable(const void *pointer, size_t alignment)
{
    if (!pointer)
        return RNIC_NULL;
    return (uintptr_t)pointer % alignment ? RNIC_MISALIGNED : RNIC_OK;
}

static rnic_status ready(const vendor_dcqcn_port *port)
{
    rnic_status status = usable(port, _Alignof(vendor_dcqcn_port));
    if (status != RNIC_OK)
        return status;
    return port->ready == VENDOR_READY ? RNIC_OK : RNIC_NOT_READY;
}

/* ---- parameters ---- */

static const struct {
    uint32_t min;
    uint32_t max;
} bounds[VENDOR_PARAMS] = {
    {0, 1},       {0, 1},       {1, 131071}, {0, 262143}, {1, 31},     {1, 131071}, {1, 32000},  {0, 2000000},
    {1, 2000000}, {10, 11},     {0, 100},    {0, 2000000}, {0, 1023},  {1, 131071}, {1, 1024},   {0, 131071},
    {0, 1},       {0, 1},       {0, 1},      {0, 2},      {0, 1},      {0, 1},      {0, 1},      {0, 1},
    {10, 20},
};

static const uint32_t presets[6][VENDOR_PARAMS] = {
    {1, 0, 55, 156250, 5, 40, 100, 0, 100, 11, 0, 0, 1020, 55, 1024, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10},
    {0, 1, 300, 32767, 1, 5, 50, 0, 1, 11, 50, 0, 1019, 1, 1023, 4, 1, 0, 0, 0, 0, 0, 0, 0, 10},
    {0, 1, 300, 32767, 1, 5, 40, 0, 1, 11, 50, 0, 1019, 1, 1023, 4, 1, 0, 0, 0, 0, 0, 0, 0, 10},
    {0, 1, 300, 0, 1, 20, 200, 0, 1000, 11, 0, 0, 1020, 1, 1023, 4, 1, 0, 0, 1, 1, 0, 1, 1, 20},
    {1, 0, 60, 4688, 5, 40, 200, 0, 100, 11, 0, 0, 1020, 55, 512, 0, 0, 1, 1, 0, 0, 1, 1, 0, 10},
    {1, 0, 55, 156250, 5, 40, 100, 0, 100, 11, 0, 0, 1020, 55, 1024, 0, 0, 0, 1, 2, 0, 0, 0, 0, 10},
};

/* Tables of powers of `kept`, the factor by which alpha shrinks in a period; 2^31 is 1. */
static rnic_status decay(vendor_dcqcn_port *port, uint32_t kept)
{
    uint32_t power[4] = {0, 0, 0, 1}; /* 96 fraction bits */
    for (uint32_t n = 0; n < VENDOR_FINE * VENDOR_COARSE; n++) {
        uint32_t entry = power[2] >> 1 | power[3] << 31;
        if (entry == 0) {
            port->horizon = n;
            return RNIC_OK;
        }
        if (n < VENDOR_FINE)
            port->fine[n] = entry;
        if (n % VENDOR_FINE == 0)
            port->coarse[n / VENDOR_FINE] = entry;
        uint64_t carry = (uint64_t)power[0] * kept >> 32;
        for (int limb = 1; limb < 4; limb++) {
            carry += (uint64_t)power[limb] * kept;
            power[limb - 1] = (uint32_t)carry;
            carry >>= 32;
        }
        power[3] = (uint32_t)carry;
    }
    return RNIC_CONFLICT;
}

static uint32_t lost(uint32_t alpha, uint32_t gain)
{
    return (alpha * gain + ONES) >> 10;
}

static rnic_status compute(vendor_dcqcn_port *port)
{
    for (int id = 0; id < VENDOR_PARAMS; id++)
        if (port->param[id] < bounds[id].min || port->param[id] > bounds[id].max)
            return RNIC_OUT_OF_RANGE;
    uint32_t sampled = P(ALPHA_UPDATE);
    port->floor = rate_of(P(RPG_MIN_RATE));
    port->ceiling = P(RPG_MAX_RATE) ? rate_of(P(RPG_MAX_RATE)) : port->link.line_rate;
    port->first_rate = P(RATE_TO_SET_ON_FIRST_CNP) ? rate_of(P(RATE_TO_SET_ON_FIRST_CNP)) : port->ceiling;
    if (port->ceiling > port->link.line_rate || port->floor > port->ceiling || port->first_rate < port->floor ||
        port->first_rate > port->ceiling)
        return RNIC_CONFLICT;
    if (sampled && (P(RATE_REDUCE_MONITOR_PERIOD) == 0 || P(INITIAL_ALPHA_VALUE) > ONES))
        return RNIC_CONFLICT;
    port->gain = 1024 - P(DCE_TCP_G);
    if (sampled && P(ALPHA_BITS) > 10) {
        if (decay(port, P(DCE_TCP_G) << 22) != RNIC_OK ||
            (uint64_t)(P(ALPHA_BITS) * 710 / port->gain + 1) * P(DCE_TCP_RTT) * 1000 > 1u << 28)
            return RNIC_CONFLICT;
        port->refresh_after = 1u << 29;
    } else if (sampled) {
        uint32_t alpha = ONES;
        for (port->horizon = 0; alpha > 0 && port->horizon <= ONES; port->horizon++)
            alpha -= lost(alpha, port->gain);
        for (uint32_t loss = 1; loss <= VENDOR_BANDS; loss++) {
            port->band[loss - 1].below = 1024 * (loss - 1) / port->gain + 1 - loss;
            port->band[loss - 1].reciprocal = (65535 + loss) / loss;
        }
        port->refresh_after = 1u << 29;
    } else {
        port->kept = P(DCE_TCP_G) << 22;
        port->gain <<= 21;
        if (decay(port, port->kept) != RNIC_OK)
            return RNIC_CONFLICT;
        uint64_t faded = (uint64_t)port->horizon * P(DCE_TCP_RTT) * 1000;
        if (faded > 2000000000)
            return RNIC_CONFLICT;
        port->refresh_after = (uint32_t)faded;
    }
    uint32_t by_alpha = P(RPG_GD) == 10;
    uint32_t least = P(RPG_MIN_DEC_FAC) > 50 || by_alpha ? P(RPG_MIN_DEC_FAC) : 0;
    port->ai_rate = rate_of(P(RPG_AI_RATE));
    port->hai_rate = rate_of(P(RPG_HAI_RATE));
    port->least_share = 0;
    uint64_t share = (uint64_t)least << 31;
    for (int bit = 31; bit >= 0; bit--)
        if (share >= 100ull << bit) {
            share -= 100ull << bit;
            port->least_share |= 1u << bit;
        }
    port->rate_period = period(P(RPG_TIME_RESET) * 1000);
    port->byte_period = period(P(RPG_BYTE_RESET) << 6);
    port->alpha_period = period(P(DCE_TCP_RTT) * 1000);
    port->cut_period = period(P(RATE_REDUCE_MONITOR_PERIOD) * 1000);
    port->mask = UINT32_MAX << (32 - P(ALPHA_BITS));
    port->initial_alpha = P(INITIAL_ALPHA_VALUE) << (sampled ? TEN_BITS : 21);
    port->alpha_shift = P(RPG_GD) - 10;
    port->threshold = P(RPG_THRESHOLD) - P(FAST_RECOVERY);
    port->hyper_threshold = P(HYPER_START) == 2 ? P(RPG_THRESHOLD) : port->threshold + P(HYPER_START);
    port->switches = (P(CLAMP_TGT_RATE) ? CLAMPS : 0) | (P(CLAMP_TGT_RATE_AFTER_TIME_INC) ? CLAMPS_AFTER_TIME : 0) |
                     (least ? BOUNDS_CUTS : 0) | (by_alpha ? CUTS_BY_ALPHA : 0) | (P(CUT_ORDER) ? ALPHA_FIRST : 0) |
                     (P(RATE_REDUCE_MONITOR_PERIOD) ? SPACES_CUTS : 0) | (P(RPG_BYTE_RESET) ? COUNTS_BYTES : 0) |
                     (P(HYPER_START) == 1 ? HYPER_FOLLOWS : 0) | (P(HYPER_STEP) ? HYPER_IS_CONSTANT : 0) |
                     (P(FAR_TARGET) ? FAR_TARGET_DROPS : 0) | (P(LIMITER) ? KEEPS_LIMITER : 0) |
                     (P(FIRST_CNP) ? 0 : FIRST_COUNTS) | (sampled ? SAMPLED : 0) |
                     (sampled && P(ALPHA_BITS) > 10 ? FADES_BY_POWERS : 0);
    return RNIC_OK;
}

rnic_status vendor_dcqcn_init(vendor_dcqcn_port *port, size_t size, const rnic_link *link, uint32_t preset, uint64_t now)
{
    if (size < sizeof *port)
        return RNIC_TOO_SMALL;
    if (preset >= 6)
        return RNIC_UNKNOWN_ID;
    port->ready = VENDOR_READY;
    port->id = ((uint32_t)((uintptr_t)port >> 2) + (uint32_t)(now ^ now >> 32) * 0x9e3779b1) | 1;
    port->is_off = 0;
    port->link = *link;
    port->last_now = now;
    port->clock_offset = 0;
    port->cnp_handled = port->cnp_stale = port->cnp_unsupported = 0;
    port->clock_leaps = port->clock_reversals = 0;
    for (int id = 0; id < VENDOR_PARAMS; id++)
        port->param[id] = presets[preset][id];
    return compute(port);
}

rnic_status vendor_dcqcn_set(vendor_dcqcn_port *port, const rnic_setting *list, size_t count, uint32_t *fault)
{
    uint32_t old[VENDOR_PARAMS];
    rnic_status status = RNIC_OK;
    for (int id = 0; id < VENDOR_PARAMS; id++)
        old[id] = port->param[id];
    for (size_t n = 0; n < count && status == RNIC_OK; n++) {
        uint32_t id = list[n].id;
        if (id >= VENDOR_PARAMS)
            status = RNIC_UNKNOWN_ID;
        else if (list[n].value < bounds[id].min || list[n].value > bounds[id].max)
            status = RNIC_OUT_OF_RANGE;
        else
            port->param[id] = list[n].value;
        if (status != RNIC_OK && fault)
            *fault = id;
    }
    if (status == RNIC_OK)
        status = compute(port);
    if (status != RNIC_OK) {
        for (int id = 0; id < VENDOR_PARAMS; id++)
            port->param[id] = old[id];
        compute(port);
    }
    return status;
}

rnic_status vendor_dcqcn_enable(vendor_dcqcn_port *port, uint32_t on)
{
    rnic_status status = ready(port);
    if (status == RNIC_OK)
        port->is_off = !on;
    return status;
}

rnic_status vendor_dcqcn_count(vendor_dcqcn_port *port, uint32_t id, uint64_t *value)
{
    switch (id) {
    case 0: *value = port->cnp_handled; break;
    case 1: *value = port->cnp_stale + port->cnp_unsupported; break;
    case 2: *value = port->cnp_stale; break;
    case 3: *value = port->cnp_unsupported; break;
    case 4: *value = port->clock_leaps; break;
    case 5: *value = port->clock_reversals; break;
    default: return RNIC_UNKNOWN_ID;
    }
    return RNIC_OK;
}

/* ---- recovery ---- */

static uint32_t next(uint32_t stage)
{
    return stage < LAST_STAGE ? stage + 1 : LAST_STAGE;
}

static uint32_t step(const vendor_dcqcn_port *port, uint32_t one, uint32_t other)
{
    uint32_t low = min(one, other), top = max(one, other);
    if (top <= port->threshold)
        return 0;
    uint32_t hyper = port->switches & HYPER_FOLLOWS ? top : low;
    if (hyper <= port->hyper_threshold)
        return port->ai_rate;
    if (port->switches & HYPER_IS_CONSTANT)
        return port->hai_rate;
    return port->hai_rate * (hyper - port->hyper_threshold);
}

static void climb(vendor_dcqcn_flow *flow, uint32_t gain, uint32_t ceiling)
{
    uint32_t target = flow->target + gain;
    if (target < gain || target > ceiling)
        target = ceiling;
    uint32_t current = (target & flow->current) + ((target ^ flow->current) >> 1);
    flow->target = target;
    flow->current = target - current < 2 ? target : current;
}

static void round_of(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint8_t *stage)
{
    *stage = (uint8_t)next(*stage);
    uint32_t tenfold = flow->current > UINT32_MAX / 10 ? UINT32_MAX : flow->current * 10;
    if (port->switches & FAR_TARGET_DROPS && (flow->time_stage == 1 || flow->byte_stage == 1) && flow->target > tenfold) {
        flow->target >>= 3;
        climb(flow, 0, port->ceiling);
    } else {
        climb(flow, step(port, flow->time_stage, flow->byte_stage), port->ceiling);
    }
}

/* Many expiries at once: one by one while the step changes, then until the gap no longer changes, then to the ceiling. */
static __attribute__((noinline)) void rounds_of(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint8_t *stage,
                                                uint32_t rounds)
{
    round_of(port, flow, stage);
    rounds--;
    uint32_t own = *stage, other = stage == &flow->time_stage ? flow->byte_stage : flow->time_stage;
    while (rounds && flow->current != port->ceiling && own < LAST_STAGE) {
        uint32_t grows = port->switches & HYPER_FOLLOWS && !(port->switches & HYPER_IS_CONSTANT);
        if (own > port->hyper_threshold && own >= other && !grows)
            break;
        own = next(own);
        climb(flow, step(port, own, other), port->ceiling);
        rounds--;
    }
    uint32_t gain = step(port, own, other);
    own = min(own + min(rounds, LAST_STAGE), LAST_STAGE);
    while (rounds && flow->current != port->ceiling) {
        uint32_t gap = flow->target - flow->current;
        climb(flow, gain, port->ceiling);
        rounds--;
        if (flow->target - flow->current == gap) {
            uint32_t jump = rounds;
            if (gain)
                jump = min((port->ceiling - flow->target) / gain, rounds);
            flow->target += gain * jump;
            flow->current += gain * jump;
            rounds -= jump;
        }
    }
    *stage = (uint8_t)own;
}

static void increase(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint8_t *stage, uint32_t expiries)
{
    if (expiries == 1)
        round_of(port, flow, stage);
    else
        rounds_of(port, flow, stage, expiries);
    if (flow->current == port->ceiling && !(port->switches & KEEPS_LIMITER) &&
        !(flow->left & CUT && port->switches & SAMPLED))
        flow->left &= ~LIMITED;
}

static void recover(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint32_t until)
{
    uint32_t late = until - flow->rate_due, length = port->rate_period.length;
    if (late >= HALF)
        return;
    uint32_t steps = late < length ? 1 : count_in(&port->rate_period, late) + 1;
    flow->rate_due += length * steps;
    increase(port, flow, &flow->time_stage, steps);
}

static void restart(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint32_t now)
{
    flow->time_stage = 0;
    flow->byte_stage = 0;
    flow->rate_due = now + port->rate_period.length;
    flow->left = (flow->left & ~BYTES) | port->byte_period.length;
}

/* ---- alpha and cuts ---- */

static uint32_t faded(const vendor_dcqcn_port *port, uint32_t alpha, uint32_t ticks)
{
    if (ticks >= port->horizon)
        return 0;
    uint32_t loss = lost(alpha, port->gain);
    for (; loss > VENDOR_BANDS; loss = lost(alpha, port->gain)) {
        if (ticks == 0)
            return alpha;
        alpha -= loss;
        ticks--;
    }
    for (; loss > 0; loss--) {
        uint32_t depth = alpha - port->band[loss - 1].below;
        if (loss * ticks <= depth)
            return alpha - loss * ticks;
        uint32_t run = depth * port->band[loss - 1].reciprocal >> 16;
        alpha -= loss * run;
        ticks -= run;
    }
    return alpha;
}

static uint32_t decayed(const vendor_dcqcn_port *port, uint32_t periods)
{
    if (periods >= port->horizon)
        return 0;
    uint32_t fine = port->fine[periods % VENDOR_FINE];
    return periods < VENDOR_FINE ? fine : high(port->coarse[periods / VENDOR_FINE] << 1, fine);
}

/* A sampled alpha, 2^32 being 1, after ticks without a CNP. */
static uint32_t after(const vendor_dcqcn_port *port, uint32_t alpha, uint32_t ticks)
{
    if (port->switches & FADES_BY_POWERS)
        return high(alpha, decayed(port, ticks)) << 1 & port->mask;
    return faded(port, alpha >> TEN_BITS, ticks) << TEN_BITS;
}

static void settle(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint32_t until)
{
    uint32_t ticks = count_in(&port->alpha_period, until - flow->alpha_at);
    uint32_t alpha = flow->alpha & ~TICK, marked = flow->alpha & TICK;
    flow->alpha_at += ticks * port->alpha_period.length;
    if (marked != 0 && marked <= ticks) {
        alpha = min((after(port, alpha, marked) >> 10) + (port->gain << 12), port->mask >> 10) << 10;
        ticks -= marked;
        marked = 0;
    } else {
        marked = marked > ticks ? marked - ticks : 0;
    }
    flow->alpha = after(port, alpha, ticks) | marked;
}

static void advance_cut(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint32_t now)
{
    uint32_t late = now - flow->cut_due;
    if (late < HALF)
        flow->cut_due += (count_in(&port->cut_period, late) + 1) * port->cut_period.length;
}

static void cut(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint32_t share)
{
    uint32_t before = flow->current;
    if (port->switches & CLAMPS || flow->byte_stage || (port->switches & CLAMPS_AFTER_TIME && flow->time_stage))
        flow->target = before;
    uint32_t after = before - high(before, share);
    if (port->switches & BOUNDS_CUTS)
        after = max(after, (uint32_t)((uint64_t)before * port->least_share >> 31));
    flow->current = max(after, port->floor);
}

static void catch_up(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint32_t now)
{
    if (!(flow->left & LIMITED))
        return;
    if (flow->left & CUT && now - flow->cut_due < HALF) {
        if (port->switches & SAMPLED) {
            uint32_t due = flow->cut_due;
            recover(port, flow, due);
            settle(port, flow, due);
            cut(port, flow, (flow->alpha & ~TICK) >> port->alpha_shift);
            restart(port, flow, due);
            flow->cut_due = due + port->cut_period.length;
        }
        flow->left &= ~CUT;
    }
    recover(port, flow, now);
}

/* ---- events ---- */

static void limit(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint32_t now)
{
    flow->current = port->first_rate;
    flow->target = port->first_rate;
    flow->alpha = port->initial_alpha;
    flow->alpha_at = now;
    flow->left = (flow->left & NUMBERED) | LIMITED;
    restart(port, flow, now);
}

/* Reads the 16 bytes of a CNP. Returns 1 for a body without a sequence number, 0 for one with a number, which is written to
   *seq, and a negative value for a kind that DCQCN does not use. */
static int read_body(const uint8_t *body, uint16_t *seq)
{
    uint8_t check = 0xa5;
    if (!body)
        return 1;
    for (int byte = 0; byte < 11; byte++)
        check ^= body[byte];
    if (body[1] >> 4 != 1 || check != body[11] || body[0] > 5)
        return 1;
    *seq = (uint16_t)(body[2] << 8 | body[3]);
    return body[0] > 2 ? -1 : 0;
}

static void notified(vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint32_t now, const uint8_t *body)
{
    uint16_t seq = 0;
    int kind = read_body(body, &seq);
    if (kind < 0) {
        port->cnp_unsupported++;
        return;
    }
    if (kind == 0) {
        if (flow->left & NUMBERED && (uint16_t)(flow->seq - seq) < 64) {
            port->cnp_stale++;
            return;
        }
        flow->seq = seq;
        flow->left |= NUMBERED;
    }
    port->cnp_handled++;
    if (port->switches & SAMPLED) {
        if (!(flow->left & LIMITED)) {
            limit(port, flow, now);
            flow->cut_due = now + port->cut_period.length + 1;
            flow->left |= CUT;
            if (port->switches & FIRST_COUNTS)
                flow->alpha |= 1;
            return;
        }
        uint32_t tick = count_in(&port->alpha_period, now - flow->alpha_at) + 1, marked = flow->alpha & TICK;
        if (marked == 0 && tick <= TICK) {
            flow->alpha |= tick;
        } else if (marked < tick) {
            settle(port, flow, now);
            flow->alpha |= 1;
        }
        if (!(flow->left & CUT)) {
            advance_cut(port, flow, now);
            flow->left |= CUT;
        }
        return;
    }
    if (!(flow->left & LIMITED))
        limit(port, flow, now);
    else if (flow->left & CUT)
        return;
    uint32_t before = flow->alpha, quiet = now - flow->alpha_at;
    if (quiet >= port->alpha_period.length)
        before = high(before, decayed(port, count_in(&port->alpha_period, quiet)) << 1);
    flow->alpha = high(before, port->kept) + port->gain;
    flow->alpha_at = now;
    uint32_t alpha = port->switches & ALPHA_FIRST ? flow->alpha : before;
    if (port->switches & CUTS_BY_ALPHA)
        alpha = alpha > UINT32_MAX / 2 ? UINT32_MAX : alpha * 2;
    cut(port, flow, alpha);
    restart(port, flow, now);
    if (port->switches & SPACES_CUTS) {
        flow->cut_due = now + port->cut_period.length;
        flow->left |= CUT;
    }
}

static void sent(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint32_t bytes)
{
    if (!(flow->left & LIMITED) || !(port->switches & COUNTS_BYTES))
        return;
    uint32_t left = flow->left & BYTES;
    if (bytes < left) {
        flow->left -= bytes;
        return;
    }
    uint32_t over = bytes - left, length = port->byte_period.length, whole = count_in(&port->byte_period, over);
    flow->left = (flow->left & ~BYTES) | (length - (over - whole * length));
    increase(port, flow, &flow->byte_stage, whole == UINT32_MAX ? whole : whole + 1);
}

static void refresh(const vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, uint32_t now)
{
    if (now - flow->alpha_at < port->refresh_after || !(flow->left & LIMITED))
        return;
    if (port->switches & SAMPLED) {
        settle(port, flow, now);
        if (!(flow->left & CUT))
            advance_cut(port, flow, now);
    } else {
        flow->alpha = 0;
    }
}

static void decide(const vendor_dcqcn_port *port, const vendor_dcqcn_flow *flow, uint32_t now, uint32_t pause,
                   rnic_decision *decision)
{
    decision->rate = port->link.line_rate;
    decision->window = RNIC_NO_WINDOW;
    decision->hold = pause;
    decision->wake_in = RNIC_NEVER;
    if (flow->left & LIMITED) {
        if (!port->is_off)
            decision->rate = flow->current;
        if (!(port->switches & KEEPS_LIMITER && flow->current == port->ceiling))
            decision->wake_in = flow->rate_due - now;
        if (flow->left & CUT && port->switches & SAMPLED)
            decision->wake_in = min(decision->wake_in, flow->cut_due - now);
    }
}

static uint32_t local_time(vendor_dcqcn_port *port, uint64_t now)
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

rnic_status vendor_dcqcn_open(vendor_dcqcn_port *port, const rnic_moment *at, vendor_dcqcn_flow *flow,
                              rnic_decision *decision)
{
    rnic_status status = ready(port);
    if (status == RNIC_OK)
        status = usable(at, _Alignof(rnic_moment));
    if (status == RNIC_OK)
        status = usable(flow, _Alignof(vendor_dcqcn_flow));
    if (status == RNIC_OK)
        status = usable(decision, _Alignof(rnic_decision));
    if (status != RNIC_OK)
        return status;
    uint32_t now = local_time(port, at->now);
    *flow = (vendor_dcqcn_flow){.current = port->ceiling, .target = port->ceiling, .alpha = port->initial_alpha,
                                .alpha_at = now, .rate_due = now, .cut_due = now, .port = port->id};
    decide(port, flow, now, at->pause, decision);
    return RNIC_OK;
}

rnic_status vendor_dcqcn_on(vendor_dcqcn_port *port, vendor_dcqcn_flow *flow, const rnic_event *event,
                            rnic_decision *decision)
{
    rnic_status status = ready(port);
    if (status == RNIC_OK)
        status = usable(event, _Alignof(rnic_event));
    if (status == RNIC_OK)
        status = usable(flow, _Alignof(vendor_dcqcn_flow));
    if (status != RNIC_OK)
        return status;
    if (flow->port != port->id)
        return RNIC_NOT_OPEN;
    status = usable(decision, _Alignof(rnic_decision));
    if (status != RNIC_OK)
        return status;
    if (event->kind < RNIC_SENT || event->kind > RNIC_SWITCH_INT ||
        (event->kind == RNIC_SENT && event->of.sent.psn >> 24))
        return RNIC_BAD_EVENT;
    uint32_t now = local_time(port, event->at.now);
    catch_up(port, flow, now);
    switch (event->kind) {
    case RNIC_SENT: sent(port, flow, event->of.sent.bytes); break;
    case RNIC_CNP: notified(port, flow, now, event->of.cnp_body); break;
    case RNIC_WAKE: refresh(port, flow, now); break;
    case RNIC_SWITCH_INT: port->cnp_unsupported++; break;
    default: break;
    }
    decide(port, flow, now, event->at.pause, decision);
    return RNIC_OK;
}
