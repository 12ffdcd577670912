// SPDX-License-Identifier: Apache-2.0
// The interface of backends on hardware, MPI on CPUs and NCCL on GPUs: they run one rank's part of
// a step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "realhw/core/kernel_thread.h"
#include "realhw/core/real_step.h"
#include "realhw/core/reference.h"

namespace moesim {

/// When an op ran on this rank; start after end: it did not.
struct Stamp {
  Clock::time_point start = Clock::time_point::max(), end = Clock::time_point::min();
};

/// One step on one rank.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  /// Runs the whole step once, together with all other ranks; [op]. Patterns in bytes without
  /// numbers are written and compared, and numbers searched for infinities, only when `verify` is
  /// set. Throws std::runtime_error naming rank and op.
  virtual std::vector<Stamp> run(bool verify) = 0;
  /// Before a run: fills with NaN all memory that it has to write, so that results of an earlier
  /// run do not pass for its own. An iteration keeps its memory: it continues from the one before.
  virtual void poison() = 0;
  /// Compares what the rank holds after the last run with the reference.
  virtual Comparison compare(const CompareOptions& options) = 0;
};

class HardwareBackend {
 public:
  virtual ~HardwareBackend() = default;
  virtual std::string name() const = 0;         // "mpi"
  virtual std::string description() const = 0;  // "Open MPI v4.1.4 (p2p)"
  /// Multiprocessors of this rank's GPU; 0 if it has none.
  virtual int sms() const { return 0; }
  /// The step must outlive the runner. All ranks together.
  virtual std::unique_ptr<StepRunner> runner(const RealStep& step) = 0;
};

}  // namespace moesim
