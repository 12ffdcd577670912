// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/kernel_thread.h"

#include <utility>

namespace moesim {

KernelThread::~KernelThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void KernelThread::submit(OpId op, std::function<void()> kernel) {
  {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(op, std::move(kernel));
  }
  wake_.notify_one();
}

std::vector<KernelThread::Ended> KernelThread::take_ended() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ended_, {});
}

bool KernelThread::busy() {
  const std::lock_guard lock(mutex_);
  return running_ || !queue_.empty();
}

void KernelThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const auto [op, kernel] = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    lock.unlock();
    Ended ended{op, Clock::now(), {}, nullptr};
    try {
      kernel();
    } catch (...) {
      ended.error = std::current_exception();
    }
    ended.end = Clock::now();
    lock.lock();
    running_ = false;
    ended_.push_back(ended);
  }
}

}  // namespace moesim
