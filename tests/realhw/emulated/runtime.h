// SPDX-License-Identifier: Apache-2.0
// CUDA's runtime: work of any stream whose turn may come is taken in an order that chance decides,
// so what no event orders comes in any order. Graphs keep edges, not the order of calls.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "realhw/core/kernel_thread.h"
#include "tests/realhw/emulated/turns.h"

namespace moesim::emulated {

/// What a stream or a graph runs.
struct Work {
  std::function<bool()> ready;  // none: at once
  std::function<bool()> run;    // whether it has ended; else it runs again when it is ready
};
/// A graph runs it many times.
using MakeWork = std::function<Work()>;

}  // namespace moesim::emulated

struct CUgraph_st {
  struct Node {
    moesim::emulated::MakeWork make;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
  CUstream_st* origin = nullptr;
};
struct CUgraphExec_st {
  CUgraph_st graph;
};

struct CUevent_st : std::enable_shared_from_this<CUevent_st> {
  moesim::Clock::time_point time;
  std::uint64_t recorded = 0, passed = 0;  // outside of graphs
  bool has_time = false;
  CUgraph_st* graph = nullptr;  // it was recorded in last, while that is captured
  std::vector<std::size_t> nodes;
};

struct CUstream_st {
  int device = 0;
  std::deque<moesim::emulated::Work> queue;
  bool busy = false, destroyed = false;
  std::uint64_t priority = 0;      // of turns
  CUgraph_st* graph = nullptr;     // that it is captured into
  std::vector<std::size_t> after;  // nodes that its next one follows
};

namespace moesim::emulated {

class Runtime {
 public:
  static Runtime& get();

  /// On the stream, or in the graph that it is captured into.
  void put(CUstream_st* stream, std::function<void()> run, std::function<bool()> ready = {});
  void put_work(CUstream_st* stream, const MakeWork& make);
  void put_graph(CUstream_st* stream, const CUgraph_st& graph);
  /// Runs `action` while nothing else happens.
  template <class Action>
  auto locked(Action action) {
    const std::lock_guard lock(mutex_);
    return action();
  }
  bool idle(const CUstream_st* stream) const;  // locked
  bool idle_device(int device) const;          // locked
  /// False: it never will be.
  bool wait_for(const CUstream_st* stream);
  bool wait_for(const CUevent_st* event);
  bool wait_for_device();

  /// Of turns.
  std::vector<CUstream_st*> ready_streams();
  void run_one(CUstream_st* stream);
  /// What a device that is lost has to do.
  void drop_work(int device);

  /// Of this thread.
  int& device();
  /// Copies that cudaMemcpy has on their way when it returns; nothing but it waits for them.
  CUstream_st* legacy();
  void add(CUstream_st* stream);
  /// It goes once it is idle.
  void destroy(CUstream_st* stream);
  CUevent_st* make_event();
  void destroy(CUevent_st* event);
  std::size_t events_made() const { return events_.size(); }  // and not destroyed
  std::size_t streams_made() const;                           // and not destroyed
  std::vector<CUstream_st*> captured_into(const CUgraph_st* graph);

  cudaError_t& last_error();

 private:
  Runtime();
  void stop();
  void work();
  void forget_destroyed();
  CUstream_st* next();
  bool wait(const std::function<bool()>& until, const char* for_what);
  std::uint64_t random();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 chance_{20260101};
  std::vector<CUstream_st*> streams_;                   // as they were made
  std::vector<std::unique_ptr<CUstream_st>> legacies_;  // [device]
  std::map<CUevent_st*, std::shared_ptr<CUevent_st>> events_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace moesim::emulated
