// SPDX-License-Identifier: Apache-2.0
// Fault drills: a rank breaks on purpose, to see that the others end, and with which message.
#pragma once

#include <optional>
#include <string>

#include "realhw/program/device.h"

namespace moesim {

struct Fault {
  enum class Kind {
    kill,  // SIGKILL to itself when the op starts
    stop,  // SIGSTOP: it is there, but does nothing any more
    nan    // writes NaN into what the op made, in verified runs
  };
  Kind kind = Kind::kill;
  std::string op;  // name
  GpuId rank;
};

/// Reads "kill:dispatch-alltoall@3". Throws Error.
Fault parse_fault(const std::string& text);

/// Throws Error if the fault's rank has no such op or, for `nan`, if the op makes no numbers.
/// Without this check a drill that has no effect would pass. `program` is that of the fault's rank.
void check_fault(const Fault& fault, const Plan& plan, const RankProgram& program);

/// Causes the fault on its rank; does nothing without a fault, or on another rank.
class FaultDrill {
 public:
  FaultDrill(const std::optional<Fault>& fault, const Plan& plan, GpuId rank);
  /// To be called when an op of the program starts: causes `kill` and `stop`.
  void at_start(const RankStep& step) const;
  /// To be called before every call of an op: causes `nan`.
  void before(const Call& call, const RankStep& step, Device& device) const;

 private:
  bool strikes(OpId op) const { return fault_ && plan_[op].label == fault_->op; }

  std::optional<Fault> fault_;  // none if it is another rank's
  const Plan& plan_;
};

}  // namespace moesim
