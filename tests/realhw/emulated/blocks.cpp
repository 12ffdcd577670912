// SPDX-License-Identifier: Apache-2.0
// Threads of a block: calls after one another, or contexts that change at barriers.
#include <fmt/format.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "tests/realhw/emulated/emulated.h"

namespace moesim::emulated {
namespace {

constexpr std::size_t stack_bytes = 64 << 10;
constexpr unsigned warp_size = 32;

enum class State { runs, at_barrier, at_warp, ended };

struct Context {
  ucontext_t start{};
  jmp_buf paused{};
  State state = State::runs;
  bool started = false;
  unsigned mask = 0;       // of the warp's call it waits in
  std::uint32_t mine = 0;  // what it gives there
  std::array<std::uint32_t, warp_size> given{};
  std::unique_ptr<std::byte[]> stack{new std::byte[stack_bytes]};
};

struct SharedArray {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  std::uint32_t block = 0;  // the one it was poisoned for
};

struct Blocks {
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<std::uint8_t> warp_turns;
  std::map<std::tuple<std::string_view, std::string_view, std::size_t>, SharedArray> shared;
  jmp_buf scheduler, left;
  const Launch* launch = nullptr;
  void (*call)(const void*) = nullptr;
  const void* arguments = nullptr;
  bool in_contexts = false;
  std::array<std::vector<unsigned>, 4> orders;
  std::uint64_t seed = 0;
  std::uint32_t segments = 1;
  int watch_every = 1, unwatched = 0;
  std::mutex mutex;
  std::set<std::string> launches;
};
Blocks blocks;

enum class Of { rows, columns, warps, lanes };

/// SplitMix64: orders are drawn for every block, and the standard's generators take long to seed.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}
  /// From 0 to n - 1.
  std::uint64_t below(std::uint64_t n) {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % n;
  }

 private:
  std::uint64_t state_;
};

/// 0 to n - 1 in an order of its own for every seed. Kept here: leaving a kernel destroys nothing.
const std::vector<unsigned>& order_of(Of what, unsigned n, std::uint64_t salt) {
  std::vector<unsigned>& order = blocks.orders[static_cast<std::size_t>(what)];
  order.resize(n);
  std::iota(order.begin(), order.end(), 0u);
  if (blocks.seed == 0 || n < 2) return order;
  Chance chance(blocks.seed * 0x9e3779b97f4a7c15 + salt);
  if (n > 4096) {  // whole permutations of large grids take longer than their kernels
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(chance.below(n)),
                order.end());
    if (chance.below(2) == 0) std::reverse(order.begin(), order.end());
  } else {
    for (unsigned i = n - 1; i > 0; --i) std::swap(order[i], order[chance.below(i + 1)]);
  }
  return order;
}

void enter(unsigned thread) {
  builtins.thread = dim3(thread);
  executing.thread = static_cast<std::uint16_t>(thread);
  executing.warp_turn = blocks.warp_turns[thread / warp_size];
}

void begin() {
  blocks.call(blocks.arguments);
  blocks.contexts[executing.thread]->state = State::ended;
  _longjmp(blocks.scheduler, 1);
}

void resume(unsigned thread) {
  enter(thread);
  Context& context = *blocks.contexts[thread];
  executing.stack_begin = context.stack.get();
  executing.stack_end = context.stack.get() + stack_bytes;
  if (_setjmp(blocks.scheduler) != 0) return;
  if (context.started) _longjmp(context.paused, 1);
  context.started = true;
  getcontext(&context.start);
  context.start.uc_stack.ss_sp = context.stack.get();
  context.start.uc_stack.ss_size = stack_bytes;
  makecontext(&context.start, begin, 0);
  setcontext(&context.start);
}

void pause(State state) {
  Context& context = *blocks.contexts[executing.thread];
  context.state = state;
  if (_setjmp(context.paused) == 0) _longjmp(blocks.scheduler, 1);
}

std::string block_text() {
  return fmt::format("{}: block ({}, {})", blocks.launch->kernel, builtins.block.x,
                     builtins.block.y);
}

void count_waiting(unsigned threads, std::array<unsigned, 4>& in_state) {
  in_state = {};
  for (unsigned t = 0; t < threads; ++t) {
    ++in_state[static_cast<std::size_t>(blocks.contexts[t]->state)];
  }
}

/// Lets lanes go on that all of their mask have come to. Returns whether there were any.
bool release_warps(unsigned threads) {
  bool released = false;
  for (unsigned t = 0; t < threads; ++t) {
    Context& context = *blocks.contexts[t];
    if (context.state != State::at_warp) continue;
    const unsigned first = t / warp_size * warp_size;
    bool all = (context.mask >> (t % warp_size) & 1) != 0;
    for (unsigned lane = 0; all && lane < warp_size; ++lane) {
      if ((context.mask >> lane & 1) == 0) continue;
      const unsigned other = first + lane;
      all = other < threads && blocks.contexts[other]->state == State::at_warp &&
            blocks.contexts[other]->mask == context.mask;
    }
    if (!all) continue;
    const unsigned mask = context.mask;
    std::array<std::uint32_t, warp_size> given{};
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      if (mask >> lane & 1) given[lane] = blocks.contexts[first + lane]->mine;
    }
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      blocks.contexts[first + lane]->given = given;
      blocks.contexts[first + lane]->state = State::runs;
    }
    released = true;
  }
  return released;
}

/// False: the block cannot go on.
bool release_barrier(unsigned threads, const std::array<unsigned, 4>& in_state) {
  const unsigned waiting = in_state[1], lanes = in_state[2], ended = in_state[3];
  if (lanes > 0 || ended > 0) {
    add_fault(
        FaultKind::barrier,
        fmt::format("{}: {} threads wait at a barrier, {} in a call of their warp, {} have ended",
                    block_text(), waiting, lanes, ended));
    return false;
  }
  executing.segment = ++blocks.segments;
  blocks.warp_turns.assign(blocks.warp_turns.size(), 0);
  for (unsigned t = 0; t < threads; ++t) blocks.contexts[t]->state = State::runs;
  return true;
}

/// One turn of all warps; a warp runs on through its own calls, or leaves them to the next turn.
void run_warps(unsigned threads, std::uint64_t salt) {
  const unsigned warps = (threads + warp_size - 1) / warp_size;
  for (const unsigned warp : order_of(Of::warps, warps, salt)) {
    const unsigned first = warp * warp_size, lanes = std::min(warp_size, threads - first);
    for (const unsigned lane : order_of(Of::lanes, lanes, salt + 1 + warp)) {
      if (blocks.contexts[first + lane]->state == State::runs) resume(first + lane);
    }
  }
}

void run_in_contexts(unsigned threads, std::uint64_t salt) {
  while (blocks.contexts.size() < threads) blocks.contexts.push_back(std::make_unique<Context>());
  for (unsigned t = 0; t < threads; ++t) {
    blocks.contexts[t]->state = State::runs;
    blocks.contexts[t]->started = false;
  }
  blocks.in_contexts = true;
  std::array<unsigned, 4> in_state{};
  for (std::uint64_t turn = 0; in_state[3] < threads; ++turn) {
    run_warps(threads, salt + turn * 101);
    count_waiting(threads, in_state);
    if (in_state[0] > 0 || release_warps(threads) || in_state[3] == threads) continue;
    if (!release_barrier(threads, in_state)) break;
  }
  blocks.in_contexts = false;
}

void run_in_calls(unsigned threads, std::uint64_t salt) {
  const unsigned warps = (threads + warp_size - 1) / warp_size;
  for (const unsigned warp : order_of(Of::warps, warps, salt)) {
    for (unsigned lane = 0; lane < warp_size && warp * warp_size + lane < threads; ++lane) {
      enter(warp * warp_size + lane);
      blocks.call(blocks.arguments);
    }
  }
}

void run_block(unsigned x, unsigned y) {
  builtins.block = dim3(x, y);
  executing.segment = executing.block_begin = ++blocks.segments;
  blocks.warp_turns.assign(blocks.launch->block.x / warp_size + 1, 0);
  const std::uint64_t salt = (std::uint64_t{y} << 32 | x) * 7919;
  if (blocks.launch->has_barriers) return run_in_contexts(blocks.launch->block.x, salt);
  run_in_calls(blocks.launch->block.x, salt);
}

}  // namespace

void set_block_seed(std::uint64_t seed) { blocks.seed = seed; }

void watch_every(int launches) {
  blocks.watch_every = launches;
  blocks.unwatched = 0;
}

std::vector<std::string> take_launches() {
  const std::lock_guard lock(blocks.mutex);
  const auto taken = std::exchange(blocks.launches, {});
  return {taken.begin(), taken.end()};
}

void leave_kernel() { _longjmp(blocks.left, 1); }

void barrier() {
  if (blocks.in_contexts) return pause(State::at_barrier);
  add_fault(FaultKind::barrier, block_text() + ": its source has no barrier");
  leave_kernel();
}

std::array<std::uint32_t, warp_size> of_warp(unsigned mask, std::uint32_t mine) {
  Context& context = *blocks.contexts[executing.thread];
  context.mask = mask;
  context.mine = mine;
  pause(State::at_warp);
  return blocks.contexts[executing.thread]->given;
}

/// Lanes of the warp see each other's accesses of before.
void warp_barrier(unsigned mask) {
  const std::uint8_t turn = executing.warp_turn;
  of_warp(mask, 0);
  executing.warp_turn = static_cast<std::uint8_t>(turn + 1);
  blocks.warp_turns[executing.thread / warp_size] = executing.warp_turn;
}

void* shared_memory(const char* name, std::size_t bytes) {
  const std::size_t size = *name == 0 ? blocks.launch->shared : bytes;
  SharedArray& array = blocks.shared[{blocks.launch->kernel, name, size}];
  if (array.at == nullptr) {
    array = {static_cast<std::byte*>(allocate(size, Space::shared)), size, 0};
  }
  if (std::exchange(array.block, executing.block_begin) != executing.block_begin) {
    std::fill_n(array.at, size, std::byte{0xa5});
    forget_writes(array.at, size);
  }
  return array.at;
}

void forget_shared_memory() {
  for (const auto& [name, array] : blocks.shared) release(array.at);
  blocks.shared.clear();
}

void run_blocks(const Launch& launch, void (*call)(const void*), const void* arguments,
                std::size_t bytes) {
  blocks.launch = &launch;
  blocks.call = call;
  blocks.arguments = arguments;
  builtins.grid_size = launch.grid;
  builtins.block_size = launch.block;
  executing = {blocks.unwatched == 0, launch.kernel, ++blocks.segments};
  blocks.unwatched = (blocks.unwatched + 1) % blocks.watch_every;
  executing.call_begin = static_cast<const std::byte*>(arguments);
  executing.call_end = executing.call_begin + bytes;
  use_own_stack();
  {
    const std::lock_guard lock(blocks.mutex);
    blocks.launches.insert(fmt::format("{} grid {}x{} block {}", launch.kernel, launch.grid.x,
                                       launch.grid.y, launch.block.x));
  }
  if (_setjmp(blocks.left) == 0) {
    for (const unsigned y : order_of(Of::rows, launch.grid.y, 1)) {
      for (const unsigned x : order_of(Of::columns, launch.grid.x, 2 + y)) run_block(x, y);
    }
  }
  blocks.in_contexts = false;
  executing.in_kernel = false;
}

}  // namespace moesim::emulated
