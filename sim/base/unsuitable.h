// SPDX-License-Identifier: Apache-2.0
// The error of a case that its cluster, model, expert-parallel degree or software cannot host.
#pragma once

#include "sim/base/error.h"

namespace moesim {

class Unsuitable : public Error {
 public:
  using Error::Error;
};

/// What `make` returns; its errors become Unsuitable.
template <class Make>
auto unless_unsuitable(const Make& make) {
  try {
    return make();
  } catch (const Error& e) {
    throw Unsuitable(e.diagnostics());
  }
}

}  // namespace moesim
