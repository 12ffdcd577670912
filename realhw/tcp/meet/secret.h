// SPDX-License-Identifier: Apache-2.0
// The secret that the ranks of a job share, and how they prove to each other that they know it.
#pragma once

#include <string>
#include <string_view>

namespace moesim {

inline constexpr std::size_t nonce_size = 32;
inline constexpr std::size_t proof_size = 32;

/// MOESIM_SECRET or what the file MOESIM_SECRET_FILE holds; empty when neither is set. Throws Error
/// when both are, when it is short, when others may read the file, or when this program was built
/// without libcrypto.
std::string secret_from_environment();

/// Random bytes from the kernel.
std::string fresh_nonce();

/// HMAC-SHA-256 (RFC 2104) of `text` under the secret; zeros under none.
std::string proof_of(const std::string& secret, std::string_view text);
/// Compares in a time that tells nothing.
bool same_proof(const std::string& a, const std::string& b);

}  // namespace moesim
