// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/meet/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "realhw/tcp/meet/hmac.h"
#include "realhw/tcp/socket.h"
#include "sim/base/error.h"

namespace moesim {
namespace {

constexpr std::size_t shortest_secret = 16;
const char* const how_to_make_one = "openssl rand -hex 32 makes one";

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The first line of a file that nobody else may read.
std::string read_secret(const std::string& path) {
  const Socket file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about {};
  if (!file.open() || fstat(file.fd(), &about) != 0) {
    throw Error(
        fmt::format("MOESIM_SECRET_FILE: cannot read '{}': {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(about.st_mode)) {
    throw Error(fmt::format("MOESIM_SECRET_FILE: '{}' is not a regular file", path));
  }
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(fmt::format("MOESIM_SECRET_FILE: others may use '{}' (mode {:04o})", path,
                            about.st_mode & 07777U),
                fmt::format("chmod 600 {}", path));
  }
  std::string text(4096, '\0');
  const auto size = read(file.fd(), text.data(), text.size());
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text.substr(0, text.find_first_of("\r\n"));
}

}  // namespace

std::string secret_from_environment() {
  std::string secret = value_of("MOESIM_SECRET");
  const std::string path = value_of("MOESIM_SECRET_FILE");
  if (secret.empty() && path.empty()) return "";
  if (!secret.empty() && !path.empty()) {
    throw Error("MOESIM_SECRET and MOESIM_SECRET_FILE are both set", "leave one out");
  }
  if (secret.empty()) secret = read_secret(path);
  if (secret.size() < shortest_secret) {
    throw Error(fmt::format("the secret has {} characters; it needs at least {}", secret.size(),
                            shortest_secret),
                how_to_make_one);
  }
  if (!has_hmac) {
    throw Error("this moesim-hw was built without libcrypto and cannot use a secret",
                "build it where OpenSSL's headers are, launch by MPI, or stay on one host");
  }
  return secret;
}

std::string fresh_nonce() {
  std::string nonce(nonce_size, '\0');
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    throw std::runtime_error("the kernel gives no random bytes");
  }
  return nonce;
}

std::string proof_of(const std::string& secret, std::string_view text) {
  return secret.empty() ? std::string(proof_size, '\0') : hmac_sha256(secret, text);
}

bool same_proof(const std::string& a, const std::string& b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    different |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return different == 0;
}

}  // namespace moesim
