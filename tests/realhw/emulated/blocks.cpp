// SPDX-License-Identifier: Apache-2.0
// Threads of a block: calls after one another, or contexts that change at barriers.
#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/realhw/emulated/emulated.h"

namespace moesim::emulated {
namespace {

constexpr std::size_t stack_bytes = 64 << 10;

/// What a kernel throws that comes to a barrier when its threads are mere calls.
struct NeedsContexts {};

struct Context {
  ucontext_t start{};
  jmp_buf paused{};
  bool started = false, ended = false;
  int calls = 0;  // of of_warp
  std::unique_ptr<char[]> stack{new char[stack_bytes]};
};

std::vector<std::unique_ptr<Context>> contexts;
std::vector<std::uint32_t> given[2];  // [thread], of of_warp: the last call's and the one's before
jmp_buf scheduler;
unsigned current = 0;
bool in_contexts = false;
const std::function<void()>* body = nullptr;

void begin() {
  (*body)();
  contexts[current]->ended = true;
  _longjmp(scheduler, 1);
}

void resume(unsigned thread) {
  current = thread;
  threadIdx.x = thread;
  Context& context = *contexts[thread];
  if (_setjmp(scheduler) != 0) return;
  if (context.started) _longjmp(context.paused, 1);
  context.started = true;
  getcontext(&context.start);
  context.start.uc_stack.ss_sp = context.stack.get();
  context.start.uc_stack.ss_size = stack_bytes;
  makecontext(&context.start, begin, 0);
  setcontext(&context.start);
}

void run_in_contexts(unsigned threads) {
  while (contexts.size() < threads) contexts.push_back(std::make_unique<Context>());
  for (auto& values : given) values.resize(threads);
  for (unsigned t = 0; t < threads; ++t) {
    contexts[t]->started = contexts[t]->ended = false;
    contexts[t]->calls = 0;
  }
  in_contexts = true;
  for (unsigned turn = 0, ended = 0; ended < threads; ++turn) {
    ended = 0;
    for (unsigned i = 0; i < threads; ++i) {
      const unsigned t = turn % 2 == 0 ? i : threads - 1 - i;
      resume(t);
      ended += contexts[t]->ended ? 1 : 0;
    }
    if (ended == 0 || ended == threads) continue;
    std::fprintf(stderr, "emulated: a barrier that %u of %u threads never reach\n", ended, threads);
    std::abort();
  }
  in_contexts = false;
}

void run_in_calls(unsigned threads) {
  for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) (*body)();
}

}  // namespace

void barrier() {
  if (!in_contexts) throw NeedsContexts();
  if (_setjmp(contexts[current]->paused) == 0) _longjmp(scheduler, 1);
}

const std::uint32_t* of_warp(std::uint32_t mine) {
  if (!in_contexts) throw NeedsContexts();
  std::vector<std::uint32_t>& values = given[contexts[current]->calls++ % 2];
  values[current] = mine;
  barrier();
  return &values[current / 32 * 32];
}

void run_blocks(dim3 grid, dim3 block, const std::function<void()>& thread) {
  body = &thread;
  gridDim = grid;
  blockDim = block;
  bool has_barriers = false;
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
      try {
        if (!has_barriers) run_in_calls(block.x);
      } catch (const NeedsContexts&) {  // of the first thread, which begins anew
        has_barriers = true;
      }
      if (has_barriers) run_in_contexts(block.x);
    }
  }
}

}  // namespace moesim::emulated
