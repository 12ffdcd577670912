// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/emulated/runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/realhw/emulated/emulated.h"

namespace moesim::emulated {

Runtime& Runtime::get() {
  static Runtime runtime;
  return runtime;
}

Runtime::Runtime() : thread_([this] { work(); }) {}

Runtime::~Runtime() {
  locked([this] { stop_ = true; });
  changed_.notify_all();
  thread_.join();
}

void Runtime::put(CUstream_st* stream, std::function<void()> run, std::function<bool()> ready) {
  if (stream == nullptr) stream = &legacy;
  locked([&] {
    if (stream->graph == nullptr)
      return stream->queue.push_back({std::move(ready), std::move(run)});
    stream->graph->nodes.push_back({std::move(run), stream->after});
    stream->after = {stream->graph->nodes.size() - 1};
  });
  changed_.notify_all();
}

bool Runtime::idle(const CUstream_st* stream) { return stream->queue.empty() && !stream->busy; }

void Runtime::wait_for(const CUstream_st* stream) {
  if (stream == nullptr) stream = &legacy;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return idle(stream); });
}

void Runtime::wait_for(const CUevent_st* event) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return event->passed == event->recorded; });
}

void Runtime::wait_for_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return idle(&legacy) && std::ranges::all_of(streams, [&](auto* s) { return idle(s); });
  });
}

/// Late copies of cudaMemcpy show who does not wait for them.
CUstream_st* Runtime::next() {
  std::vector<CUstream_st*> ready;
  const auto is_ready = [](const CUstream_st* s) {
    return !s->queue.empty() && (!s->queue.front().ready || s->queue.front().ready());
  };
  std::ranges::copy_if(streams, std::back_inserter(ready), is_ready);
  if (!ready.empty()) return ready[chance_() % ready.size()];
  return is_ready(&legacy) ? &legacy : nullptr;
}

void Runtime::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    CUstream_st* stream = nullptr;
    changed_.wait(lock, [&] { return stop_ || (stream = next()) != nullptr; });
    if (stop_) return;
    const auto run = std::move(stream->queue.front().run);
    stream->queue.pop_front();
    stream->busy = true;
    lock.unlock();
    if (run) run();
    lock.lock();
    stream->busy = false;
    changed_.notify_all();
  }
}

/// In an order that its edges allow.
void Runtime::run_graph(const CUgraph_st& graph) {
  std::vector<bool> done(graph.nodes.size());
  std::vector<std::size_t> left(graph.nodes.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
  while (!left.empty()) {
    std::vector<std::size_t> ready;  // places in `left`, of its first nodes
    for (std::size_t i = 0; i < left.size() && ready.size() < 8; ++i) {
      const auto& after = graph.nodes[left[i]].after;
      if (std::ranges::all_of(after, [&](std::size_t n) { return done[n]; })) ready.push_back(i);
    }
    const std::size_t place = ready[locked([&] { return chance_(); }) % ready.size()];
    const std::size_t node = left[place];
    if (graph.nodes[node].run) graph.nodes[node].run();
    done[node] = true;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(place));
  }
}

/// Limits of sm_80 and later.
bool may_launch(const Launch& launch) {
  const auto& [kernel, has_barriers, grid, block, shared] = launch;
  const bool fits = grid.x > 0 && grid.x <= 0x7fffffff && grid.y > 0 && grid.y <= 65535 &&
                    grid.z == 1 && block.x > 0 && block.x <= 1024 && block.y == 1 && block.z == 1 &&
                    shared <= 48 << 10;
  if (fits) return true;
  add_fault(FaultKind::launch,
            fmt::format("{}: grid {}x{}x{}, block {}x{}x{}, {} bytes of shared memory", kernel,
                        grid.x, grid.y, grid.z, block.x, block.y, block.z, shared));
  Runtime::get().last_error = cudaErrorInvalidConfiguration;
  return false;
}

void put(cudaStream_t stream, std::function<void()> work) {
  Runtime::get().put(stream, std::move(work));
}

}  // namespace moesim::emulated
