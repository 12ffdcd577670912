// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace moesim {

/// What `[ ... ]` or `[[ ... ]]` of expanded words says; nothing if a word is not known, or if it
/// is of another form than `-z A`, `-n A`, `A = B`, `A == B`, `A != B`, `A -eq B` and the like.
std::optional<bool> shell_test(std::vector<std::string> words);

}  // namespace moesim
