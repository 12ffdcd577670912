// SPDX-License-Identifier: Apache-2.0
// A thread that runs the kernels of one stream in order, so that the main thread moves messages
// meanwhile: exchanges overlap compute as they do on a GPU.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

using Clock = std::chrono::steady_clock;

class KernelThread {
 public:
  struct Ended {
    OpId op;
    Clock::time_point start, end;
    std::exception_ptr error;  // what the kernel threw
  };

  KernelThread() : thread_([this] { work(); }) {}
  ~KernelThread();
  KernelThread(const KernelThread&) = delete;

  void submit(OpId op, std::function<void()> kernel);
  /// Kernels that have ended since the last call, in order.
  std::vector<Ended> take_ended();
  /// Whether a kernel is running or waits to.
  bool busy();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::pair<OpId, std::function<void()>>> queue_;
  std::vector<Ended> ended_;
  bool running_ = false, stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace moesim
