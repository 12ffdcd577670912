// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process.
#pragma once

#include <barrier>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "realhw/job/job.h"

namespace moesim {

/// What the ranks share.
struct ThreadRanks {
  explicit ThreadRanks(int ranks) : barrier(ranks), given(static_cast<std::size_t>(ranks)) {}

  void send(int from, int to, const std::string& message) {
    const std::lock_guard lock(mutex);
    messages[{from, to}].push_back(message);
    arrived.notify_all();
  }
  std::string receive(int from, int to) {
    std::unique_lock lock(mutex);
    auto& waiting = messages[{from, to}];
    arrived.wait(lock, [&] { return !waiting.empty(); });
    std::string message = std::move(waiting.front());
    waiting.pop_front();
    return message;
  }

  std::barrier<> barrier;
  std::vector<std::string> given;  // by rank
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<int, int>, std::deque<std::string>> messages;
};

class ThreadJob : public Job {
 public:
  ThreadJob(ThreadRanks& ranks, int rank) : shared_(ranks), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(shared_.given.size()); }
  std::string launcher() const override { return "threads"; }
  std::vector<std::string> gather(const std::string& mine) override {
    shared_.given[static_cast<std::size_t>(rank_)] = mine;
    barrier();
    const auto all = rank_ == 0 ? shared_.given : std::vector<std::string>{};
    barrier();
    return all;
  }
  std::string broadcast(const std::string& of_first) override {
    if (rank_ == 0) shared_.given[0] = of_first;
    barrier();
    const std::string text = shared_.given[0];
    barrier();
    return text;
  }
  void barrier() override { shared_.barrier.arrive_and_wait(); }
  void send(int to, const std::string& message) override { shared_.send(rank_, to, message); }
  std::string receive(int from) override { return shared_.receive(from, rank_); }
  [[noreturn]] void abort(int) override { std::abort(); }

 private:
  ThreadRanks& shared_;
  int rank_;
};

/// Runs the body as every rank, and tells what each threw ("" for nothing).
template <class Body>
std::vector<std::string> as_ranks(int ranks, Body body) {
  ThreadRanks shared(ranks);
  std::vector<std::string> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&shared, &thrown, &body, rank] {
      ThreadJob job(shared, rank);
      try {
        body(job);
      } catch (const std::exception& e) {
        thrown[static_cast<std::size_t>(rank)] = e.what();
        shared.barrier.arrive_and_drop();  // nobody waits for it
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

}  // namespace moesim
