// SPDX-License-Identifier: Apache-2.0
// The error of a file that cannot be read now: what is away, locked or short of memory may be back.
#pragma once

#include "sim/base/error.h"

namespace moesim {

class Unreadable : public Error {
 public:
  using Error::Error;
};

/// What `read` returns; its errors become Unreadable.
template <class Read>
decltype(auto) unless_unreadable(const Read& read) {
  try {
    return read();
  } catch (const Error& e) {
    throw Unreadable(e.diagnostics());
  }
}

}  // namespace moesim
