// SPDX-License-Identifier: Apache-2.0
// What carries the exchanges of a simulated plan: one implementation per fidelity.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "sim/plan/simulate/progress.h"

namespace moesim {

class Network {
 public:
  /// An exchange has ended for a participant, for all of them, or for everyone of one of its
  /// collectives apart. Called at the time when it has, never from join().
  using Ended = std::function<void(OpId op, std::int32_t participant)>;
  static constexpr std::int32_t everyone = Progress::everyone;
  static constexpr std::int32_t everyone_of(std::int32_t collective) {
    return Progress::everyone_of(collective);
  }

  virtual ~Network() = default;
  /// A participant joins an exchange, now or later; or everyone, if that is enough.
  virtual void join(const Progress::Joined& joined) = 0;
  /// When an exchange that all have joined will have been carried, if that is certain by now: who
  /// asks need not let them join.
  virtual std::optional<Seconds> carried_at(const Progress::Joined& /*joined*/) const { return {}; }
  /// Whether it only asks when all have joined.
  virtual bool takes_everyone() const { return false; }
  /// A kernel that joins and takes so long on a core of its own, if the network's hosts share cores
  /// among their ranks (HostsCompute::shared).
  virtual void compute(const Progress::Joined& /*kernel*/, Seconds /*duration*/) {}
};

/// Whether kernels take the time of their GPU by themselves, or the network's hosts run them on
/// cores that ranks share.
enum class HostsCompute { alone, shared };

/// Makes the network of one run.
using MakeNetwork = std::function<std::unique_ptr<Network>(Network::Ended)>;

}  // namespace moesim
