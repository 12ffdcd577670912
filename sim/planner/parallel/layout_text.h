// SPDX-License-Identifier: Apache-2.0
// The text of Megatron-Core's pipeline_model_parallel_layout.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// Unrolls a layout such as "Et*3|(tt|)*29m|L" into the symbols of each virtual stage: "Ettt", then
/// 29 times "tt", "m" and "L".
///  - E is the embedding, t a transformer layer, m a layer of multi-token prediction, L the head
///    with its loss; | ends a virtual stage; commas mean nothing.
///  - A symbol, or a group in parentheses without further ones, is repeated by *n.
/// Throws Error that points at the column of a mistake; `file` stands for the text's origin.
std::vector<std::string> unroll_layout(std::string_view text, const std::string& file = "layout");

}  // namespace moesim
