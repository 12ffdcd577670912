// SPDX-License-Identifier: Apache-2.0
// std::from_chars for numbers with a point, which the C++ library of LLVM has from 20 on.
#pragma once

#include <charconv>

namespace moesim {

/// Reads as many characters as make a decimal number into `value`, as std::from_chars does.
std::from_chars_result read_number(const char* first, const char* last, double& value);
std::from_chars_result read_number(const char* first, const char* last, float& value);

}  // namespace moesim
