// SPDX-License-Identifier: Apache-2.0
// Sequences of a training microbatch: Megatron flattens them as [position][sequence], so that the
// tokens of several sequences alternate.
#pragma once

#include <vector>

#include "sim/import/routed_pass.h"

namespace moesim {

/// How many sequences alternate, as the choices show: at that lag, and at twice it, tokens choose
/// more alike than at any lag that is not a multiple of it. 1 if no lag stands out.
int alternating_sequences(const ChoiceTable& ids);

/// One pass per sequence, in place of one whose tokens alternate. Throws Error unless `sequences`
/// divides the tokens.
std::vector<RoutedPass> without_alternation(const RoutedPass& pass, int sequences);

}  // namespace moesim
