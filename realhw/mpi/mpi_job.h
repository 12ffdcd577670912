// SPDX-License-Identifier: Apache-2.0
// A job of MPI, and the little of MPI that we use, with errors as exceptions. Plain MPI-3: Open MPI
// and MPICH alike.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "realhw/job/job.h"

namespace moesim {

/// Throws std::runtime_error with MPI's own words unless `code` is success.
void check(int code, const char* caller = __builtin_FUNCTION());

/// Whether the process has got SIGTERM, by which launchers end the others when a rank is gone. It
/// has five seconds from then on.
bool told_to_end();

/// MPI from construction to destruction, errors returned instead of fatal.
class MpiJob : public Job {
 public:
  MpiJob(int& argc, char**& argv);
  ~MpiJob() override;
  MpiJob(const MpiJob&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::string launcher() const override;
  std::vector<std::string> gather(const std::string& mine) override;
  std::string broadcast(const std::string& of_first) override;
  void barrier() override;
  void send(int to, const std::string& message) override;
  std::string receive(int from) override;
  [[noreturn]] void abort(int code) override;

 private:
  int rank_ = 0, ranks_ = 1;
};

}  // namespace moesim
