// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "realhw/tcp/meet/hmac.h"

namespace moesim {

const bool has_hmac = false;

std::string hmac_sha256(const std::string&, std::string_view) {
  throw std::logic_error("built without libcrypto");
}

}  // namespace moesim
