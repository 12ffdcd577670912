// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/base/error.h"

namespace moesim {

/// The text of the Error that `call` throws; "" if it throws none.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace moesim
