// SPDX-License-Identifier: Apache-2.0
// One rank of a plan over MPI: an exchange is one set of non-blocking sends and receives, kernels
// run on threads of their own.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "realhw/core/kernel_thread.h"
#include "realhw/core/step_runner.h"
#include "realhw/host/host_device.h"
#include "realhw/mpi/mpi_backend.h"
#include "realhw/mpi/mpi_job.h"
#include "realhw/program/compare.h"
#include "realhw/program/fault.h"
#include "realhw/program/step_order.h"

namespace moesim {

class MpiStep : public StepRunner {
 public:
  /// The step must outlive it. A run throws if no op or message ends for `timeout`.
  MpiStep(const RealStep& step, GpuId rank, const MpiOptions& options);
  ~MpiStep() override;

  std::vector<Stamp> run(bool verify) override;
  void poison() override {
    if (!step_.iteration) device_.reset(true);
  }
  Comparison compare(const CompareOptions& options) override {
    return moesim::compare(step_, program_, device_, {options.tokens, runs_});
  }

 private:
  struct Flight {                            // an exchange whose messages are on their way
    std::vector<int> counts[2], offsets[2];  // of alltoallv, which reads them until it ends
    int open = 0;                            // requests
    std::size_t round = 0;                   // of RankStep::more, from 1 on
    /// The parts of an exchange; `join` and `leave` occur if exchanges go together.
    enum class Part { join, move, leave, ended } part = Part::join;
  };

  void make_communicators();
  void start(std::size_t step);
  void start_exchange(std::size_t step);
  void run_calls(const std::vector<Call>& calls, const RankStep& step);
  void advance(std::size_t step);
  void post_barrier(std::size_t step, Flight& flight);
  void post(std::size_t step, Flight& flight);
  bool begin_next_round(std::size_t step, Flight& flight);
  void post_messages(std::size_t step, Flight& flight);
  void post_alltoallv(std::size_t step, Flight& flight);
  void add_request(std::size_t step, Flight& flight, MPI_Request request);
  void end(std::size_t step, Clock::time_point at);
  void end_exchange(std::size_t step);
  bool take_kernels();
  bool take_messages();
  void check_progress();
  std::byte* at(Place place) { return device_.data(place.buffer) + place.offset; }

  const RealStep& step_;
  const Plan& plan_;
  RankProgram program_;
  HostDevice device_;
  MpiTransport transport_;
  bool together_;
  Seconds timeout_;
  FaultDrill drill_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int last_tag_ = 0;
  std::map<std::pair<Stream, std::vector<GpuId>>, MPI_Comm> group_comms_;  // of collectives
  StepOrder order_;
  std::array<std::unique_ptr<KernelThread>, stream_count> kernels_;  // of streams that run them
  std::vector<std::size_t> step_of_;                                 // [op]
  std::map<std::size_t, Flight> flights_;                            // by step
  std::vector<MPI_Request> requests_;
  std::vector<std::size_t> request_of_;  // [request] its exchange's step
  std::vector<int> completed_;
  std::vector<Stamp> stamps_;
  bool verify_ = true;
  int runs_ = 0;  // since the last one that was verified, itself with them
  Clock::time_point last_progress_;
};

}  // namespace moesim
