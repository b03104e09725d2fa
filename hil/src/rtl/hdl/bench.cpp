// Runs the Verilated core against a RAM of a few regions and answers the harness over standard input and output.
//
// A request is one byte of operation and two 32-bit words, little-endian; some carry a payload. Only N, R, S, p and G
// are answered. One cycle goes: inputs settle, the harness may look and change them, the clock ticks.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <unordered_set>
#include <vector>

#include "Vbench.h"
#include "Vbench___024root.h"

namespace {

// Why a run stopped; the harness knows the numbers.
enum Stop : uint8_t { CYCLE, WATCH, LOAD, STORE, IDLE, BAD_FETCH, BAD_INSTRUCTION, BAD_ACCESS, MISALIGNED };

struct Request {
  uint8_t operation;
  uint32_t a, b;
};

struct Answer {
  uint64_t due;
  uint32_t data;
  bool error;
};

template <typename T>
bool read_all(T* to, size_t count) {
  return fread(to, sizeof(T), count, stdin) == count;
}

template <typename T>
void put(T value) {
  fwrite(&value, sizeof(T), 1, stdout);
}

class Bench {
 public:
  void reset(const uint32_t (&words)[5], const std::vector<uint32_t>& ram) {
    device_base = words[0];
    device_size = words[1];
    fetch_wait = words[2];
    data_wait = words[3];
    entry = words[4];
    regions.clear();
    for (size_t i = 0; i + 1 < ram.size(); i += 2) regions.push_back({ram[i], std::vector<uint8_t>(ram[i + 1])});
    booted = false;
    cycle = 0;
    retired = 0;
    timer_line = external_line = false;
    watched.clear();
  }

  // Takes the core from reset to the first cycle of the image's first instruction, where time starts. It waits for the
  // first run, because an image written before that must be what the core fetches.
  void boot() {
    booted = true;
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
    core.irq_timer_i = timer_line;
    core.irq_external_i = external_line;
  }

  // Runs to `until`; with `through`, a sleeping core is no reason to stop.
  void run(uint64_t until, bool through) {
    if (!booted) boot();
    for (; cycle < until; tick()) {
      settle();
      if (core.asleep_o && !through) return stop(IDLE);
      if (core.begins_o && taken == Taken::NOTHING) {
        if (core.fetch_fault_o) return stop(BAD_FETCH, core.pc_o);
        if (core.traps_o && !core.vector_set_o) return stop(BAD_INSTRUCTION, core.pc_o);
        if (!watched.empty() && watched.count(core.pc_o)) {
          taken = Taken::WATCH;
          return stop(WATCH, core.pc_o);
        }
      }
      if (core.data_req_o && taken != Taken::ACCESS && !access()) return;
    }
    stop(CYCLE);
  }

  void serve() {
    Request request;
    while (read_all(&request.operation, 1) && read_all(&request.a, 1) && read_all(&request.b, 1)) {
      switch (request.operation) {
        case 'N': {
          uint32_t words[5];
          std::vector<uint32_t> ram(request.a);
          if (!read_all(words, 5) || !read_all(ram.data(), ram.size())) return;
          reset(words, ram);
          put<uint8_t>(0);
          break;
        }
        case 'R':
        case 'S':
          run(request.a | uint64_t{request.b} << 32, request.operation == 'S');
          break;
        case 'A':
          if (!accesses.empty()) accesses.back().data = request.a << (8 * (load_address & 3));
          break;
        case 'T': core.irq_timer_i = timer_line = request.a & 1; break;
        case 'E': core.irq_external_i = external_line = request.a & 1; break;
        case 'W':
          if (request.b) watched.insert(request.a);
          else watched.erase(request.a);
          break;
        case 'G':
          core.register_i = request.a & 31;
          core.eval();
          put<uint32_t>(booted ? core.register_o : 0);
          break;
        case 'P': {
          std::vector<uint8_t> bytes(request.b);
          if (!read_all(bytes.data(), bytes.size())) return;
          for (uint32_t i = 0; i < request.b; i++)
            if (auto* byte = at(request.a + i)) *byte = bytes[i];
          break;
        }
        case 'p':
          for (uint32_t i = 0; i < request.b; i++) {
            const auto* byte = at(request.a + i);
            put<uint8_t>(byte ? *byte : 0);
          }
          break;
        default: return;
      }
      fflush(stdout);
    }
  }

 private:
  // What has already been reported in the present cycle.
  enum class Taken { NOTHING, WATCH, ACCESS };

  static uint32_t jump(uint32_t offset) {
    return 0x6f | (offset & 0x100000) << 11 | (offset & 0x7fe) << 20 | (offset & 0x800) << 9 | (offset & 0xff000);
  }

  // The byte of RAM at an address, if there is one.
  uint8_t* at(uint32_t address) {
    for (auto& region : regions)
      if (address - region.base < region.bytes.size()) return &region.bytes[address - region.base];
    return nullptr;
  }

  // The word at a multiple of four, where a region has all of it.
  uint32_t word(uint32_t address) {
    uint32_t value = 0;
    if (const auto* bytes = at(address)) memcpy(&value, bytes, 4);
    return value;
  }

  // Applies the answers due in this cycle.
  void settle() {
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
      const bool device = address + lane - device_base < device_size;
      if (!device || core.data_crosses_o || lane % width != 0) {
        stop(device ? MISALIGNED : BAD_ACCESS, core.pc_o, 0, address + lane);
        return false;
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
      stop(STORE, load_address, width, width == 4 ? value : value & ((1u << (8 * width)) - 1));
    } else {
      stop(LOAD, load_address, width);
    }
    return false;
  }

  void tick() {
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

  void stop(Stop reason, uint32_t address = 0, uint32_t width = 0, uint32_t value = 0) {
    put<uint32_t>(reason);
    put(address);
    put(width);
    put(value);
    put(cycle);
    put(retired);
  }

  struct Region {
    uint32_t base;
    std::vector<uint8_t> bytes;
  };

  Vbench core;
  std::vector<Region> regions;
  uint32_t device_base = 0, device_size = 0, fetch_wait = 0, data_wait = 0;
  std::deque<Answer> fetches, accesses;
  std::unordered_set<uint32_t> watched;
  Taken taken = Taken::NOTHING;
  uint32_t load_address = 0, entry = 0;
  bool booted = false, booting = false, timer_line = false, external_line = false;
  uint64_t cycle = 0, retired = 0;
};

}  // namespace

double sc_time_stamp() { return 0; }

int main() {
  static Bench bench;
  bench.serve();
}
