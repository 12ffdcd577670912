// SPDX-License-Identifier: Apache-2.0
// Exceptions in words.
#pragma once

#include <exception>
#include <new>
#include <string>

namespace moesim {

/// what() of an exception, but for memory that ran out, which says so only to people who know C++.
inline std::string cause_of(const std::exception& e) {
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) {
    return "out of memory; a smaller case, fewer --workers or a higher limit (ulimit -v) may do";
  }
  return e.what();
}

}  // namespace moesim
