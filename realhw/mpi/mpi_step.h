// SPDX-License-Identifier: Apache-2.0
// One rank of a plan over MPI: an exchange is one set of non-blocking sends and receives, kernels
// run on threads of their own.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "realhw/core/buffer_pool.h"
#include "realhw/core/kernel_thread.h"
#include "realhw/core/rank_order.h"
#include "realhw/core/rank_state.h"
#include "realhw/core/step_runner.h"
#include "realhw/mpi/mpi_backend.h"
#include "realhw/mpi/mpi_job.h"

namespace moesim {

class MpiStep : public StepRunner {
 public:
  /// The step must outlive it. Without any end of an op or message for `timeout` a run throws.
  MpiStep(const RealStep& step, GpuId rank, Transport transport, Seconds timeout);
  ~MpiStep() override;

  std::vector<Stamp> run(bool verify) override;
  Comparison compare(const CompareOptions& options) override {
    return moesim::compare(state_, options);
  }

 private:
  struct Flight {  // an exchange whose messages are on their way, its parcels after one another
    BufferPool::Buffer sent, received;
    std::vector<int> counts[2], offsets[2];  // of alltoallv, which reads them until it ends
    int open = 0;                            // requests
  };

  void make_communicators();
  void start(OpId op);
  void start_kernel(OpId op);
  void start_exchange(OpId op);
  void post_messages(OpId op, Flight& flight);
  void post_alltoallv(OpId op, Flight& flight);
  void add_request(OpId op, Flight& flight, MPI_Request request);
  void end(OpId op, Clock::time_point at);
  void end_exchange(OpId op);
  bool take_kernels();
  bool take_messages();
  void check_progress();

  RankState state_;
  const Plan& plan_;
  Transport transport_;
  Seconds timeout_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int last_tag_ = 0;
  std::map<std::pair<Lane, std::vector<GpuId>>, MPI_Comm> group_comms_;  // of alltoallv
  RankOrder order_;
  BufferPool buffers_;
  std::array<std::unique_ptr<KernelThread>, lane_count> kernels_;  // of compute and copy
  std::map<OpId, Flight> flights_;
  std::vector<MPI_Request> requests_;
  std::vector<OpId> request_of_;  // [request] its exchange
  std::vector<int> completed_;
  std::vector<Stamp> stamps_;
  Clock::time_point last_progress_;
};

}  // namespace moesim
