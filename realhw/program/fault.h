// SPDX-License-Identifier: Apache-2.0
// Fault drills: a rank that breaks on purpose, to see how the others end.
#pragma once

#include <optional>
#include <string>

#include "realhw/program/device.h"

namespace moesim {

struct Fault {
  enum class Kind {
    kill,  // SIGKILL to itself when the op starts
    stop,  // SIGSTOP: it is there, but does nothing any more
    nan    // writes what is no number into what the op made, in verified runs
  };
  Kind kind = Kind::kill;
  std::string op;  // name
  GpuId rank;
};

/// Reads "kill:dispatch-alltoall@3". Throws Error.
Fault parse_fault(const std::string& text);

/// Throws Error when its rank has no such op, or none that makes numbers where those are struck.
/// The program is that of its rank.
void check_fault(const Fault& fault, const Plan& plan, const RankProgram& program);

/// What strikes one rank; without a fault, or on another rank, nothing happens.
class FaultDrill {
 public:
  FaultDrill(const std::optional<Fault>& fault, const Plan& plan, GpuId rank);
  /// When an op of the program starts.
  void at_start(const RankStep& step) const;
  /// Before a call of an op.
  void before(const Call& call, const RankStep& step, Device& device) const;

 private:
  bool strikes(OpId op) const { return fault_ && plan_[op].name == fault_->op; }

  std::optional<Fault> fault_;  // of this rank
  const Plan& plan_;
};

}  // namespace moesim
