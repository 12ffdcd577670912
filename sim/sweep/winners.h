// SPDX-License-Identifier: Apache-2.0
// Who of a sweep's scenarios may be named the best.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/sweep/store.h"

namespace moesim {

/// What a case loses, as text: next to the axes wherever it says something.
inline const std::string lossy_column = "lossy";
/// Why a case cannot run on its cluster, as text.
inline const std::string cannot_run_column = "cannot_run";

/// What a row says of it, by its columns; empty if it has none.
struct Contender {
  std::string policy, routing, lossy;
  std::string cannot_run = {};
};

/// Neither what-ifs next to what can be, which are forced balance and policies that the cluster
/// cannot run, nor, unless they are allowed, lossy cases (sim/plan/loss.h). If all are lossy cases
/// of one policy, which of them is the best was asked for.
class Winners {
 public:
  Winners(const std::vector<Contender>& all, bool lossy_allowed);

  /// Keeps in mind who may not.
  bool admit(const Contender& c);
  /// A line for each reason, with how many were left out; empty if all may win.
  std::string left_out() const;

 private:
  bool any_recorded_, any_runs_, lossy_allowed_;
  int balanced_ = 0, cannot_run_ = 0, lossy_ = 0;
  std::map<std::string, std::string> obstacles_, losses_;  // of policies, the first that was seen
};

/// Leaves the rows that may be the best; returns what is to be said of the others.
std::string keep_winners(StoredRows& rows, bool lossy_allowed);

}  // namespace moesim
