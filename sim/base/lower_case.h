// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace moesim {

/// A text with the lower case of its ASCII letters.
std::string lower_case(std::string_view text);

}  // namespace moesim
