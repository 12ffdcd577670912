// SPDX-License-Identifier: Apache-2.0
// The error of changes that a file has no key for: if several files are changed alike, others may
// have it.
#pragma once

#include "sim/base/error.h"

namespace moesim {

class NoSuchKey : public Error {
 public:
  using Error::Error;
};

}  // namespace moesim
