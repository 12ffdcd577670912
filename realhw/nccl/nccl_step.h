// SPDX-License-Identifier: Apache-2.0
// One rank of a plan on a GPU: a CUDA stream and a communicator per stream of the plan, one group
// of messages a round of an exchange.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "realhw/core/real_step.h"
#include "realhw/core/step_runner.h"
#include "realhw/nccl/communicator.h"
#include "realhw/nccl/nccl_backend.h"

namespace moesim {

/// By stream; null if no exchange of any plan so far ran.
using StreamCommunicators = std::array<std::unique_ptr<Communicator>, stream_count>;

class NcclStep : public StepRunner {
 public:
  /// What is given by reference must outlive it, and the communicators of the plan's streams be
  /// there.
  NcclStep(const RealStep& step, RankProgram program, std::unique_ptr<GpuDevice> device,
           StreamCommunicators& communicators, Job& job, const NcclOptions& options);

  std::vector<Stamp> run(bool verify) override;
  void poison() override {
    if (!step_.iteration) device_->reset(true);
  }
  Comparison compare(const CompareOptions& options) override;

  const RankProgram& program() const { return program_; }
  /// Whether runs that are not verified replay a captured one; the same on all ranks.
  bool replays() const { return graph_ == Graph::captured; }

 private:
  enum class Graph { not_tried, captured, impossible };
  struct Ongoing {  // steps of a stream that were put on it, and how many of them have ended
    std::vector<std::size_t> steps;
    std::size_t ended = 0;
  };

  void prepare(const std::function<void()>& work);
  void run_once(bool verify);
  void capture();
  bool try_capture();
  void start(bool verify);
  void put_all(bool verify);
  void put(std::size_t step, bool verify);
  void put_calls(const std::vector<Call>& calls, Stream stream, bool verify);
  void put_messages(const RankStep& step, std::size_t round);
  void watch_until(std::size_t most_ongoing);
  bool take_ended();
  void check_failures();
  std::vector<Stamp> stamps();
  std::size_t ongoing() const;
  OpId first_ongoing() const;
  OpId first_exchange_on(Stream stream);  // that has not ended
  void abort();
  [[noreturn]] void fail(OpId op, const std::string& what);

  const RealStep& step_;
  RankProgram program_;
  std::unique_ptr<GpuDevice> device_;
  StreamCommunicators& communicators_;
  Job& job_;
  NcclOptions options_;
  std::vector<std::size_t> order_;    // in which steps are put on streams, on all ranks alike
  std::vector<std::size_t> step_of_;  // [op]
  std::vector<std::string> names_;    // of steps, for profilers
  std::array<Ongoing, stream_count> streams_;
  Clock::time_point last_progress_;
  int runs_ = 0;  // since the last one that was verified, itself with them
  Graph graph_ = Graph::not_tried;
};

}  // namespace moesim
