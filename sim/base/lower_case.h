// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace moesim {

/// A text with the lower case of its ASCII letters.
std::string lower_case(std::string_view text);
/// Only its letters, in lower case, and digits: "DeepSeek-V3" and deepseek_v3 are the same.
std::string letters_and_digits(std::string_view text);

}  // namespace moesim
