// The bench of PicoRV32: one bus, ready at once or later.

#include "Vbench.h"
#include "Vbench___024root.h"
#include "harness.h"

namespace {

class Bench : public Harness {
 private:
  void boot() override {
    core.irq_timer_i = core.irq_external_i = 0;
    core.mem_ready_i = 0;
    core.resetn_i = 0;
    core.clk_i = 0;
    waited = 0;
    taken = Taken::NOTHING;
    core.eval();
    for (int i = 0; i < 3; i++) tick();
    auto* root = core.rootp;
    for (int i = 0; i < 36; i++) root->bench__DOT__top__DOT__cpuregs[i] = 0;
    core.resetn_i = 1;
    for (settle(); !core.begins_o; settle()) tick();
    root->bench__DOT__top__DOT__count_cycle = 0;
    root->bench__DOT__top__DOT__count_instr = 0;
    cycle = retired = 0;
    set_lines();
  }

  void settle() override {
    core.eval();
    const bool ready = core.mem_valid_o && waited >= (core.mem_instr_o ? fetch_wait : data_wait);
    core.mem_ready_i = ready;
    if (ready) core.mem_rdata_i = !core.mem_instr_o && !at(core.mem_addr_o) ? answered : word(core.mem_addr_o);
    core.eval();
  }

  bool asleep() override { return core.asleep_o; }

  bool inspect() override {
    if (core.trapped_o) return stop(BAD_INSTRUCTION, core.pc_o);
    if (core.begins_o && taken == Taken::NOTHING) {
      if (!at(core.pc_o)) return stop(BAD_FETCH, core.pc_o);
      if (!watched.empty() && watched.count(core.pc_o)) {
        taken = Taken::WATCH;
        return stop(WATCH, core.pc_o);
      }
    }
    return !core.mem_ready_i || core.mem_instr_o || taken == Taken::ACCESS || access();
  }

  // Serves a load or store in the cycle that ends it; false if the harness must hear of it.
  bool access() {
    const uint32_t address = core.access_address_o;
    const uint32_t width = 4 >> core.access_size_o;
    auto* bytes = at(core.mem_addr_o);
    taken = Taken::ACCESS;
    if (bytes) {
      for (uint32_t i = 0; i < 4; i++)
        if (core.mem_wstrb_o >> i & 1) bytes[i] = core.mem_wdata_o >> (8 * i);
      return true;
    }
    // The instruction counts as retired when its access has ended.
    in_flight = 1;
    if (!is_device(address)) return stop(BAD_ACCESS, core.pc_o, 0, address);
    if (!core.mem_wstrb_o) return stop(LOAD, address, width);
    const uint32_t value = core.mem_wdata_o >> (8 * (address & 3));
    return stop(STORE, address, width, width == 4 ? value : value & ((1u << (8 * width)) - 1));
  }

  void tick() override {
    retired += core.begins_o;
    waited = core.mem_valid_o && !core.mem_ready_i ? waited + 1 : 0;
    core.clk_i = 1;
    core.eval();
    core.clk_i = 0;
    cycle++;
    in_flight = 0;
    taken = Taken::NOTHING;
  }

  void answer(uint32_t value) override { answered = value << (8 * (core.access_address_o & 3)); }

  void set_lines() override {
    core.irq_timer_i = timer_line;
    core.irq_external_i = external_line;
  }

  uint32_t register_value(uint32_t index) override {
    core.register_i = index;
    core.eval();
    return core.register_o;
  }

  // What has already been reported in the present cycle.
  enum class Taken { NOTHING, WATCH, ACCESS };

  Vbench core;
  Taken taken = Taken::NOTHING;
  uint32_t waited = 0, answered = 0;
};

}  // namespace

double sc_time_stamp() { return 0; }

int main() {
  static Bench bench;
  bench.serve();
}
