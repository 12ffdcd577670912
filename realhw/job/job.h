// SPDX-License-Identifier: Apache-2.0
// The processes that execute a plan, one per GPU, and the few messages that they exchange in
// addition to the plan's data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// All ranks make the same calls in the same order, except for check_peers() and abort().
/// What fails, such as a lost connection, throws std::runtime_error.
class Job {
 public:
  virtual ~Job() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Who started the ranks and joins them: "Open MPI v4.1.4".
  virtual std::string launcher() const = 0;

  /// What every rank gives, by rank, on rank 0; elsewhere nothing.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  /// What rank 0 gives, everywhere.
  virtual std::string broadcast(const std::string& of_first) = 0;
  virtual void barrier() = 0;

  /// A message between rank 0 and another rank; only these two call.
  virtual void send(int to, const std::string& message) = 0;
  virtual std::string receive(int from) = 0;

  /// Throws std::runtime_error naming a rank that is gone or has ended the run, if the job can
  /// tell. For loops that wait for something else than the job, such as exchanges.
  virtual void check_peers() {}
  /// Ends all ranks, from any state; `code` is the exit code.
  [[noreturn]] virtual void abort(int code) = 0;
};

/// What every rank gives, by rank, everywhere.
std::vector<std::string> all_gather(Job& job, const std::string& mine);
/// Element by element over the ranks, everywhere.
std::vector<std::int64_t> sums_over_ranks(Job& job, const std::vector<std::int64_t>& values);
/// The values of all ranks after one another, on rank 0 (elsewhere nothing); as many on every rank.
std::vector<double> gather_on_first(Job& job, const std::vector<double>& values);
/// Of this process.
std::string host_name();
/// Distinct host names of the job.
int count_hosts(Job& job);

}  // namespace moesim
