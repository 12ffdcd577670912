// SPDX-License-Identifier: Apache-2.0
// The little of MPI that we use, with errors as exceptions. Plain MPI-3: Open MPI and MPICH alike.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <string>
#include <vector>

namespace moesim {

/// Throws std::runtime_error with MPI's own words unless `code` is success.
void check(int code, const char* caller = __builtin_FUNCTION());

/// MPI from construction to destruction, errors returned instead of fatal.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  int rank_ = 0, ranks_ = 1;
};

/// Ends all ranks, from any state; `code` is the exit code.
[[noreturn]] void abort_all(int code);

int sum_over_ranks(int value);
/// Element by element, on every rank.
std::vector<std::int64_t> sums_over_ranks(const std::vector<std::int64_t>& values);
/// The values of all ranks after one another, on rank 0 (elsewhere nothing); as many on every rank.
std::vector<double> gather_on_first(const std::vector<double>& values);
/// Distinct hosts of the job.
int count_hosts();
/// "Open MPI v4.1.4".
std::string mpi_version();

}  // namespace moesim
