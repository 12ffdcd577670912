// SPDX-License-Identifier: Apache-2.0
// Plans whose tokens go through their experts in pieces, as schedules that pipeline would.
#pragma once

#include <vector>

#include "realhw/core/real_step.h"

namespace moesim {

struct PieceOptions {
  std::vector<int> backward = {0, 1, 2};  // pieces in the order of the backward pass
  bool kernels = true;                    // expert kernels are cut too; else they follow all pieces
};

/// Every token exchange and what gathers or hands back rows becomes three: for the first third of
/// the tokens, the second, and the last.
Plan in_pieces(const Plan& plan, const RealStep& step, const PieceOptions& options);

}  // namespace moesim
