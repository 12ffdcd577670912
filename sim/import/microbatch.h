// SPDX-License-Identifier: Apache-2.0
// Separates the sequences of a training microbatch. Megatron flattens them as
// [position][sequence], so the tokens of several sequences alternate.
#pragma once

#include <vector>

#include "sim/import/routed_pass.h"

namespace moesim {

inline constexpr std::int64_t many_tokens = 2048, few_tokens = 512;

/// Guesses from the choices how many sequences alternate, because neighbours in a sequence choose
/// similar experts. Returns N if tokens N and 2 N apart share more choices than tokens at any other
/// distance up to 2 N + 1. Sequences with one prompt, as samples of it have, choose the same in
/// it: then N if the first tokens choose alike N by N. Returns 1 if there is no such N. A sample is
/// enough to tell lags apart, and keeps the cost small next to reading the file.
int alternating_sequences(const ChoiceTable& ids, std::int64_t sampled = many_tokens);

/// Whether the first tokens choose alike N by N for some N, too few of them to tell.
bool may_alternate(const ChoiceTable& ids);

/// Whether neighbours share more choices than tokens `sequences` apart: they are of one sequence.
bool are_neighbours_nearer(const ChoiceTable& ids, int sequences);

/// Splits a pass whose tokens alternate into one pass per sequence. Throws Error unless `sequences`
/// divides the number of tokens.
std::vector<RoutedPass> without_alternation(const RoutedPass& pass, int sequences);

}  // namespace moesim
