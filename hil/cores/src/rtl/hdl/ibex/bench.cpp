// The bench of Ibex: two buses that grant at once and answer in the next cycle or later.

#include <deque>

#include "Vbench.h"
#include "Vbench___024root.h"
#include "harness.h"

namespace {

struct Answer {
  uint64_t due;
  uint32_t data;
  bool error;
};

class Bench : public Harness {
 private:
  void boot() override {
    booting = true;
    fetches.clear();
    accesses.clear();
    taken = Taken::NOTHING;
    core.irq_timer_i = core.irq_external_i = 0;
    core.boot_addr_i = entry & ~0xffu;
    core.rst_ni = 1;
    core.clk_i = 0;
    core.eval();
    core.rst_ni = 0;
    core.eval();
    core.clk_i = 1;
    core.eval();
    core.clk_i = 0;
    core.rst_ni = 1;
    for (settle(); !(retired != 0 && core.begins_o); settle()) tick();
    auto* root = core.rootp;
    root->bench__DOT__top__DOT__u_ibex_core__DOT__cs_registers_i__DOT__mcycle_counter_i__DOT__counter_q = 0;
    root->bench__DOT__top__DOT__u_ibex_core__DOT__cs_registers_i__DOT__minstret_counter_i__DOT__counter_q = 0;
    for (auto& fetch : fetches) fetch.due -= cycle;
    cycle = 0;
    retired = 0;
    booting = false;
    set_lines();
  }

  bool asleep() override { return core.asleep_o; }

  bool inspect() override {
    if (core.begins_o && taken == Taken::NOTHING) {
      if (core.fetch_fault_o) return stop(BAD_FETCH, core.pc_o);
      if (core.traps_o && !core.vector_set_o) return stop(BAD_INSTRUCTION, core.pc_o);
      if (!watched.empty() && watched.count(core.pc_o)) {
        taken = Taken::WATCH;
        return stop(WATCH, core.pc_o);
      }
    }
    return !core.data_req_o || taken == Taken::ACCESS || access();
  }

  void answer(uint32_t value) override {
    if (!accesses.empty()) accesses.back().data = value << (8 * (load_address & 3));
  }

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

  static uint32_t jump(uint32_t offset) {
    return 0x6f | (offset & 0x100000) << 11 | (offset & 0x7fe) << 20 | (offset & 0x800) << 9 | (offset & 0xff000);
  }

  // Applies the answers due in this cycle.
  void settle() override {
    const bool fetched = !fetches.empty() && fetches.front().due == cycle;
    core.instr_rvalid_i = fetched;
    core.instr_rdata_i = fetched ? fetches.front().data : 0;
    core.instr_err_i = fetched && fetches.front().error;
    const bool accessed = !accesses.empty() && accesses.front().due == cycle;
    core.data_rvalid_i = accessed;
    core.data_rdata_i = accessed ? accesses.front().data : 0;
    core.eval();
  }

  // Serves the core's request on the data bus; false if the harness must hear of it.
  bool access() {
    const uint32_t address = core.data_addr_o;
    const uint32_t enables = core.data_be_o;
    const uint32_t lane = __builtin_ctz(enables | 0x10);
    const uint32_t width = __builtin_popcount(enables);
    const uint64_t due = cycle + 1 + data_wait;
    auto* bytes = at(address);
    if (!bytes) {
      const bool device = is_device(address + lane);
      if (!device || core.data_crosses_o || lane % width != 0) {
        return stop(device ? MISALIGNED : BAD_ACCESS, core.pc_o, 0, address + lane);
      }
    }
    taken = Taken::ACCESS;
    accesses.push_back({due, bytes ? word(address) : 0, false});
    if (bytes) {
      for (uint32_t i = 0; i < 4; i++)
        if (core.data_we_o && enables >> i & 1) bytes[i] = core.data_wdata_o >> (8 * i);
      return true;
    }
    load_address = address + lane;
    if (core.data_we_o) {
      const uint32_t value = core.data_wdata_o >> (8 * lane);
      return stop(STORE, load_address, width, width == 4 ? value : value & ((1u << (8 * width)) - 1));
    }
    return stop(LOAD, load_address, width);
  }

  void tick() override {
    if (core.instr_rvalid_i) fetches.pop_front();
    if (core.data_rvalid_i) accesses.pop_front();
    if (core.instr_req_o) {
      const uint32_t address = core.instr_addr_o;
      // The word at the reset vector is a jump to the entry, whatever the image holds there.
      const uint32_t vector = (entry & ~0xffu) | 0x80;
      const bool reset = booting && retired == 0 && address == vector;
      fetches.push_back({cycle + 1 + fetch_wait, reset ? jump(entry - vector) : word(address), !reset && !at(address)});
    }
    retired += core.retires_o;
    core.clk_i = 1;
    core.eval();
    core.clk_i = 0;
    cycle++;
    taken = Taken::NOTHING;
  }

  Vbench core;
  std::deque<Answer> fetches, accesses;
  Taken taken = Taken::NOTHING;
  uint32_t load_address = 0;
  bool booting = false;
};

}  // namespace

double sc_time_stamp() { return 0; }

int main() {
  static Bench bench;
  bench.serve();
}
