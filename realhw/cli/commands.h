// SPDX-License-Identifier: Apache-2.0
// The commands of moesim-hw: each adds itself to the app and then runs on all ranks.
#pragma once

#include <memory>
#include <string>

#include "realhw/core/step_runner.h"
#include "realhw/job/job.h"
#include "realhw/measure/measure.h"
#include "sim/flags/command_line.h"

namespace moesim {

struct CudaOptions;
struct NcclOptions;

/// Flags of every command that measures.
struct BackendFlags {
  void add_to(CommandLine& command);
  std::unique_ptr<HardwareBackend> open(Job& job) const;
  /// What the flags ask of GPUs, also in a program that was built without them.
  NcclOptions nccl_options() const;
  CudaOptions cuda_options() const;

  std::string backend = "mpi";
  std::string mpi_calls = "p2p";
  bool together = false;
  double timeout = 30;  // seconds without progress
  std::string fault;    // a drill
  // Of nccl:
  std::string matrices = "float32";
  std::string gemm = "automatic";
  bool no_graph = false;
};

class Command {
 public:
  virtual ~Command() = default;
  /// Returns the exit code; what fails on only one rank throws.
  virtual int run(Job& job) = 0;
  /// What is left to do when run() returned 0 and the job has ended; returns the exit code.
  virtual int after_job() { return 0; }
};

std::unique_ptr<Command> add_run_command(CommandLine& app);
std::unique_ptr<Command> add_validate_command(CommandLine& app);
std::unique_ptr<Command> add_calibrate_command(CommandLine& app);

}  // namespace moesim
