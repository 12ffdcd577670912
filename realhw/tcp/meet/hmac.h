// SPDX-License-Identifier: Apache-2.0
// HMAC-SHA-256 of OpenSSL's libcrypto, if this program was built with it.
#pragma once

#include <string>
#include <string_view>

namespace moesim {

extern const bool has_hmac;

/// 32 bytes. Only if `has_hmac`.
std::string hmac_sha256(const std::string& key, std::string_view text);

}  // namespace moesim
