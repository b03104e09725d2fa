// Drives a Verilated core beside a RAM of a few regions and answers the harness over standard input and output.
//
// A request is one byte of operation and two 32-bit words, little-endian; some carry a payload. Only N, R, S, p and G
// are answered. One cycle goes: inputs settle, the harness may look and change them, the clock ticks.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <unordered_set>
#include <vector>

// Why a run stopped; the harness knows the numbers.
enum Stop : uint8_t { CYCLE, WATCH, LOAD, STORE, IDLE, BAD_FETCH, BAD_INSTRUCTION, BAD_ACCESS, MISALIGNED };

template <typename T>
bool read_all(T* to, size_t count) {
  return fread(to, sizeof(T), count, stdin) == count;
}

template <typename T>
void put(T value) {
  fwrite(&value, sizeof(T), 1, stdout);
}

class Harness {
 public:
  void serve() {
    uint8_t operation;
    uint32_t a, b;
    while (read_all(&operation, 1) && read_all(&a, 1) && read_all(&b, 1)) {
      switch (operation) {
        case 'N': {
          uint32_t words[5];
          std::vector<uint32_t> ram(a);
          if (!read_all(words, 5) || !read_all(ram.data(), ram.size())) return;
          reset(words, ram);
          put<uint8_t>(0);
          break;
        }
        case 'R':
        case 'S':
          run(a | uint64_t{b} << 32, operation == 'S');
          break;
        case 'A': answer(a); break;
        case 'T': timer_line = a & 1; set_lines(); break;
        case 'E': external_line = a & 1; set_lines(); break;
        case 'W':
          if (b) watched.insert(a);
          else watched.erase(a);
          break;
        case 'G': put<uint32_t>(booted ? register_value(a & 31) : 0); break;
        case 'P': {
          std::vector<uint8_t> bytes(b);
          if (!read_all(bytes.data(), bytes.size())) return;
          for (uint32_t i = 0; i < b; i++)
            if (auto* byte = at(a + i)) *byte = bytes[i];
          break;
        }
        case 'p':
          for (uint32_t i = 0; i < b; i++) {
            const auto* byte = at(a + i);
            put<uint8_t>(byte ? *byte : 0);
          }
          break;
        default: return;
      }
      fflush(stdout);
    }
  }

 protected:
  // Takes the core from reset to the first cycle of the image's first instruction, where time starts. It waits for the
  // first run, because an image written before that must be what the core fetches.
  virtual void boot() = 0;
  // Applies the inputs of this cycle.
  virtual void settle() = 0;
  // Whether the core waits for an interrupt, and none is there.
  virtual bool asleep() = 0;
  // Looks at what the core does in this cycle; false if it has stopped for the harness to hear of it.
  virtual bool inspect() = 0;
  // Ends the cycle.
  virtual void tick() = 0;
  virtual void answer(uint32_t value) = 0;
  virtual void set_lines() = 0;
  virtual uint32_t register_value(uint32_t index) = 0;

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

  bool is_device(uint32_t address) const { return address - device_base < device_size; }

  // Says why the run ends; false, for `inspect` to return.
  bool stop(Stop reason, uint32_t address = 0, uint32_t width = 0, uint32_t value = 0) {
    put<uint32_t>(reason);
    put(address);
    put(width);
    put(value);
    put(cycle);
    put(retired - in_flight);
    return false;
  }

  uint32_t fetch_wait = 0, data_wait = 0, entry = 0;
  std::unordered_set<uint32_t> watched;
  bool booted = false, timer_line = false, external_line = false;
  // Instructions retired, and those that count as such although they are still under way.
  uint64_t cycle = 0, retired = 0, in_flight = 0;

 private:
  struct Region {
    uint32_t base;
    std::vector<uint8_t> bytes;
  };

  void reset(const uint32_t (&words)[5], const std::vector<uint32_t>& ram) {
    device_base = words[0];
    device_size = words[1];
    fetch_wait = words[2];
    data_wait = words[3];
    entry = words[4];
    regions.clear();
    for (size_t i = 0; i + 1 < ram.size(); i += 2) regions.push_back({ram[i], std::vector<uint8_t>(ram[i + 1])});
    booted = false;
    cycle = retired = in_flight = 0;
    timer_line = external_line = false;
    watched.clear();
  }

  // Runs to `until`; with `through`, a sleeping core is no reason to stop.
  void run(uint64_t until, bool through) {
    if (!booted) boot();
    booted = true;
    for (; cycle < until; tick()) {
      settle();
      if (asleep() && !through) {
        stop(IDLE);
        return;
      }
      if (!inspect()) return;
    }
    stop(CYCLE);
  }

  std::vector<Region> regions;
  uint32_t device_base = 0, device_size = 0;
};
