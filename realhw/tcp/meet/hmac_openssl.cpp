// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <stdexcept>

#include "realhw/tcp/meet/hmac.h"

namespace moesim {

const bool has_hmac = true;

std::string hmac_sha256(const std::string& key, std::string_view text) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  const auto* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                          reinterpret_cast<unsigned char*>(digest.data()), &size);
  if (made == nullptr) throw std::runtime_error("libcrypto: HMAC failed");
  digest.resize(size);
  return digest;
}

}  // namespace moesim
