// SPDX-License-Identifier: Apache-2.0
// CUDA's runtime on one thread that takes work of any stream whose turn may come, in an order that
// chance decides: what no event orders comes in any order. Graphs keep edges, not the order of
// calls.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "realhw/core/kernel_thread.h"

struct CUgraph_st {
  struct Node {
    std::function<void()> run;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
  CUstream_st* origin = nullptr;
};
struct CUgraphExec_st {
  CUgraph_st graph;
  bool uploaded = false;
};

struct CUevent_st {
  moesim::Clock::time_point time;
  std::uint64_t recorded = 0, passed = 0;  // outside of graphs
  bool has_time = false;
  CUgraph_st* graph = nullptr;  // it was recorded in last, while that is captured
  std::vector<std::size_t> nodes;
};

struct CUstream_st {
  struct Item {
    std::function<bool()> ready;  // none: at once
    std::function<void()> run;
  };
  std::deque<Item> queue;
  bool busy = false;
  CUgraph_st* graph = nullptr;     // that it is captured into
  std::vector<std::size_t> after;  // nodes that its next one follows
};

namespace moesim::emulated {

class Runtime {
 public:
  static Runtime& get();
  ~Runtime();

  /// On the stream, or in the graph that it is captured into.
  void put(CUstream_st* stream, std::function<void()> run, std::function<bool()> ready = {});
  /// Runs `action` while nothing else happens.
  template <class Action>
  auto locked(Action action) {
    const std::lock_guard lock(mutex_);
    return action();
  }
  bool idle(const CUstream_st* stream);  // locked
  void wait_for(const CUstream_st* stream);
  void wait_for(const CUevent_st* event);
  void wait_for_all();
  void run_graph(const CUgraph_st& graph);

  /// Copies that cudaMemcpy has on their way when it returns; nothing but it waits for them.
  CUstream_st legacy;
  std::set<CUstream_st*> streams;
  cudaError_t last_error = cudaSuccess;
  int cold_launches = 0;  // of graphs that were not uploaded before

 private:
  Runtime();
  void work();
  CUstream_st* next();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937 chance_{20260101};
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace moesim::emulated
