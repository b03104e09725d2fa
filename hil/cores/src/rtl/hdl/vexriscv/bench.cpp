// The bench of VexRiscv: two Wishbone buses that acknowledge at once or later. Whatever the caches ask for, a line at a time,
// is one access for each word to the bus.

#include <memory>

#include "Vbench.h"
#include "harness.h"

namespace {

// The data cache leaves the upper half of the address space alone. RAM and devices appear there a second time, and devices are
// read nowhere else: the cache would read eight registers at a time.
constexpr uint32_t UNCACHED = 0x80000000;

class Bench : public Harness {
 private:
  void boot() override {
    // Nothing of an earlier program stays in a register that reset leaves alone.
    core = std::make_unique<Vbench>();
    core->entry_i = entry;
    core->reset_i = 1;
    fetch_waited = data_waited = 0;
    taken = Taken::NOTHING;
    core->eval();
    for (int i = 0; i < 3; i++) tick();
    core->reset_i = 0;
    for (settle(); !core->executes_o; settle()) tick();
    cycle = retired = 0;
    set_lines();
  }

  void settle() override {
    core->eval();
    core->instr_ack_i = core->instr_stb_o && fetch_waited >= fetch_wait;
    core->data_ack_i = core->data_stb_o && data_waited >= data_wait;
    if (core->instr_ack_i) core->instr_rdata_i = word(core->instr_adr_o << 2);
    if (core->data_ack_i) core->data_rdata_i = memory(data_address()) ? word(data_address() & ~UNCACHED) : answered;
    core->eval();
  }

  bool asleep() override { return core->asleep_o; }

  bool inspect() override {
    // Outside RAM a fetch brings zeros, which are no instruction.
    if (core->traps_o && !at(core->pc_o)) return stop(BAD_FETCH, core->pc_o);
    if (core->traps_o && !core->vector_set_o) return stop(BAD_INSTRUCTION, core->pc_o);
    if (core->retires_o && taken == Taken::NOTHING && !watched.empty() && watched.count(core->pc_o)) {
      taken = Taken::WATCH;
      return stop(WATCH, core->pc_o);
    }
    return !core->data_ack_i || taken == Taken::ACCESS || access();
  }

  // Serves a load or store in the cycle that ends it; false if the harness must hear of it.
  bool access() {
    taken = Taken::ACCESS;
    if (auto* bytes = memory(data_address())) {
      for (uint32_t i = 0; i < 4; i++)
        if (core->data_we_o && core->data_sel_o >> i & 1) bytes[i] = core->data_wdata_o >> (8 * i);
      return true;
    }
    const uint32_t given = core->access_address_o;
    const uint32_t address = is_device(given) ? given : given & ~UNCACHED;
    const uint32_t width = 1 << core->access_size_o;
    if (!is_device(address) || !(core->data_we_o || given & UNCACHED)) return stop(BAD_ACCESS, core->pc_o, 0, given);
    lane = 8 * (address & 3);
    if (!core->data_we_o) return stop(LOAD, address, width);
    const uint32_t value = core->data_wdata_o >> lane;
    return stop(STORE, address, width, width == 4 ? value : value & ((1u << (8 * width)) - 1));
  }

  void tick() override {
    retired += core->retires_o;
    fetch_waited = core->instr_stb_o && !core->instr_ack_i ? fetch_waited + 1 : 0;
    data_waited = core->data_stb_o && !core->data_ack_i ? data_waited + 1 : 0;
    core->clk_i = 1;
    core->eval();
    core->clk_i = 0;
    cycle++;
    taken = Taken::NOTHING;
  }

  void answer(uint32_t value) override { answered = value << lane; }

  void set_lines() override {
    if (!core) return;
    core->irq_timer_i = timer_line;
    core->irq_external_i = external_line;
  }

  uint32_t register_value(uint32_t index) override {
    core->register_i = index;
    core->eval();
    return core->register_o;
  }

  uint32_t data_address() const { return core->data_adr_o << 2; }

  // The word of RAM at an address, cached or not.
  uint8_t* memory(uint32_t address) { return at(address & ~UNCACHED); }

  // What has already been reported in the present cycle.
  enum class Taken { NOTHING, WATCH, ACCESS };

  std::unique_ptr<Vbench> core;
  Taken taken = Taken::NOTHING;
  uint32_t fetch_waited = 0, data_waited = 0, lane = 0, answered = 0;
};

}  // namespace

double sc_time_stamp() { return 0; }

int main() {
  static Bench bench;
  bench.serve();
}
