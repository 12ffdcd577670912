// SPDX-License-Identifier: Apache-2.0
// Arrays as NumPy and PyTorch print them: "[[7 3]\n [3 8]]", "tensor([[7, 3], [3, 8]])".
#pragma once

#include <optional>
#include <string>

namespace moesim {

/// The printed array that a text is, as nested lists of JSON; nothing if it is none, or is JSON
/// already. Throws Error if the print leaves values out.
std::optional<std::string> printed_lists_in(const std::string& path);

}  // namespace moesim
