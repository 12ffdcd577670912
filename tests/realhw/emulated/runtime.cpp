// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/emulated/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

#include "tests/realhw/emulated/calls.h"
#include "tests/realhw/emulated/emulated.h"

namespace moesim::emulated {
namespace {

constexpr int most_devices = 16;
thread_local int device_of_thread = 0;
thread_local cudaError_t error_of_thread = cudaSuccess;

/// A graph that is replayed: nodes come in any order that its edges allow.
struct Replay {
  explicit Replay(const CUgraph_st& graph) : left(graph.nodes.size()) {
    for (const auto& node : graph.nodes) {
      works.push_back(node.make());
      before.push_back(node.after.size());
      for (const std::size_t n : node.after) after_[n].push_back(works.size() - 1);
    }
    for (std::size_t n = 0; n < before.size(); ++n) {
      if (before[n] == 0) open.push_back(n);
    }
  }
  std::vector<std::size_t> ready() const {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (!works[open[i]].ready || works[open[i]].ready()) places.push_back(i);
    }
    return places;
  }
  void end(std::size_t place) {
    const std::size_t node = open[place];
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(place));
    --left;
    for (const std::size_t next : after_[node]) {
      if (--before[next] == 0) open.push_back(next);
    }
  }

  std::vector<Work> works;
  std::vector<std::size_t> before, open;  // counts; nodes that follow none which is not done
  std::size_t left;

 private:
  std::map<std::size_t, std::vector<std::size_t>> after_;
};

}  // namespace

Runtime& Runtime::get() {
  static Runtime& runtime = *new Runtime;
  return runtime;
}

Runtime::Runtime() {
  for (int device = 0; device < most_devices; ++device) {
    legacies_.push_back(std::make_unique<CUstream_st>());
    legacies_.back()->device = device;
    streams_.push_back(legacies_.back().get());
  }
  thread_ = std::thread([this] { work(); });
  std::atexit([] { get().stop(); });
}

void Runtime::stop() {
  locked([this] { stop_ = true; });
  changed_.notify_all();
  thread_.join();
}

int& Runtime::device() { return device_of_thread; }
cudaError_t& Runtime::last_error() { return error_of_thread; }
CUstream_st* Runtime::legacy() { return legacies_[static_cast<std::size_t>(device())].get(); }

void Runtime::add(CUstream_st* stream) {
  locked([&] { streams_.push_back(stream); });
}
void Runtime::destroy(CUstream_st* stream) {
  locked([&] {
    stream->destroyed = true;
    forget_destroyed();
  });
}

void Runtime::forget_destroyed() {
  std::erase_if(streams_, [this](CUstream_st* stream) {
    const bool goes = stream->destroyed && idle(stream);
    if (goes) delete stream;
    return goes;
  });
}

std::size_t Runtime::streams_made() const {
  const auto made = std::ranges::count_if(streams_, [](auto* s) { return !s->destroyed; });
  return static_cast<std::size_t>(made) - legacies_.size();
}

CUevent_st* Runtime::make_event() {
  const auto event = std::make_shared<CUevent_st>();
  return locked([&] { return (events_[event.get()] = event).get(); });
}
void Runtime::destroy(CUevent_st* event) {
  locked([&] { events_.erase(event); });
}

std::vector<CUstream_st*> Runtime::captured_into(const CUgraph_st* graph) {
  std::vector<CUstream_st*> all;
  std::ranges::copy_if(streams_, std::back_inserter(all),
                       [&](const CUstream_st* s) { return s->graph == graph; });
  return all;
}

void Runtime::put_work(CUstream_st* stream, const MakeWork& make) {
  if (stream == nullptr) stream = legacy();
  locked([&] {
    if (stream->graph == nullptr) return stream->queue.push_back(make());
    stream->graph->nodes.push_back({make, stream->after});
    stream->after = {stream->graph->nodes.size() - 1};
  });
  changed_.notify_all();
}

void Runtime::put(CUstream_st* stream, std::function<void()> run, std::function<bool()> ready) {
  const auto once = [run = std::move(run)] {
    if (run) run();
    return true;
  };
  put_work(stream, [once, ready = std::move(ready)] { return Work{ready, once}; });
}

void Runtime::put_graph(CUstream_st* stream, const CUgraph_st& graph) {
  put_work(stream, [&graph, this] {
    auto replay = std::make_shared<Replay>(graph);
    return Work{[replay] { return replay->left == 0 || !replay->ready().empty(); },
                [replay, this] {
                  if (replay->left == 0) return true;
                  const auto places = replay->ready();
                  const std::size_t place = places[random() % places.size()];
                  if (replay->works[replay->open[place]].run()) replay->end(place);
                  return replay->left == 0;
                }};
  });
}

std::uint64_t Runtime::random() {
  Turns* turns = Turns::current();
  return turns != nullptr ? turns->chance()() : locked([this] { return chance_(); });
}

bool Runtime::idle(const CUstream_st* stream) const {
  return stream->queue.empty() && !stream->busy;
}
bool Runtime::idle_device(int device) const {
  return std::ranges::all_of(streams_, [&](auto* s) { return s->device != device || idle(s); });
}

bool Runtime::wait(const std::function<bool()>& until, const char* for_what) {
  if (Turns* turns = Turns::current(); turns != nullptr && Turns::host() >= 0) {
    return turns->wait(until, for_what);
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, until);
  return true;
}

bool Runtime::wait_for(const CUstream_st* stream) {
  if (stream == nullptr) stream = legacy();
  return wait([&] { return idle(stream); }, "a stream");
}
bool Runtime::wait_for(const CUevent_st* event) {
  return wait([&] { return event->passed == event->recorded; }, "an event");
}
bool Runtime::wait_for_device() {
  return wait([this, device = device()] { return idle_device(device); }, "its GPU");
}

std::vector<CUstream_st*> Runtime::ready_streams() {
  std::vector<CUstream_st*> ready;
  std::ranges::copy_if(streams_, std::back_inserter(ready), [](const CUstream_st* s) {
    return !s->queue.empty() && (!s->queue.front().ready || s->queue.front().ready());
  });
  return ready;
}

/// Late copies of cudaMemcpy show who does not wait for them.
CUstream_st* Runtime::next() {
  std::vector<CUstream_st*> ready = ready_streams();
  if (ready.empty()) return nullptr;
  const auto is_legacy = [&](CUstream_st* s) {
    return s == legacies_[static_cast<std::size_t>(s->device)].get();
  };
  if (!std::ranges::all_of(ready, is_legacy)) std::erase_if(ready, is_legacy);
  return ready[chance_() % ready.size()];
}

void Runtime::run_one(CUstream_st* stream) {
  stream->busy = true;
  const auto run = stream->queue.front().run;
  const bool ended = run();
  stream->busy = false;
  if (ended && !stream->queue.empty()) stream->queue.pop_front();
  if (stream->destroyed) forget_destroyed();
}

void Runtime::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    CUstream_st* stream = nullptr;
    const auto has_work = [&] { return !Turns::current() && (stream = next()) != nullptr; };
    changed_.wait(lock, [&] { return stop_ || has_work(); });
    if (stop_) return;
    const auto run = stream->queue.front().run;
    stream->busy = true;
    lock.unlock();
    const bool ended = run();
    lock.lock();
    stream->busy = false;
    if (ended) stream->queue.pop_front();
    if (stream->destroyed) forget_destroyed();
    changed_.notify_all();
  }
}

void Runtime::drop_work(int device) {
  for (CUstream_st* stream : streams_) {
    if (stream->device == device) stream->queue.clear();
  }
  forget_destroyed();
}

/// Limits of sm_80 and later.
bool may_launch(const Launch& launch) {
  const auto& [kernel, has_barriers, grid, block, shared] = launch;
  if (enter(cudaErrorLaunchOutOfResources, kernel) != cudaSuccess || is_skipped()) return false;
  const bool fits = grid.x > 0 && grid.x <= 0x7fffffff && grid.y > 0 && grid.y <= 65535 &&
                    grid.z == 1 && block.x > 0 && block.x <= 1024 && block.y == 1 && block.z == 1 &&
                    shared <= 48 << 10;
  if (fits) return true;
  add_fault(FaultKind::launch,
            fmt::format("{}: grid {}x{}x{}, block {}x{}x{}, {} bytes of shared memory", kernel,
                        grid.x, grid.y, grid.z, block.x, block.y, block.z, shared));
  Runtime::get().last_error() = cudaErrorInvalidConfiguration;
  return false;
}

void put(cudaStream_t stream, std::function<void()> work) {
  Runtime::get().put(stream, std::move(work));
}

}  // namespace moesim::emulated
