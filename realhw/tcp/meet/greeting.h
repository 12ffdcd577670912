// SPDX-License-Identifier: Apache-2.0
// What two processes say to each other before they trust each other. All of it in the byte order
// of the hosts, which the first words show to be the same.
//
//   guest to host   Hello                      who it is, and a nonce
//   host to guest   Reply, proof of the host   a nonce, and HMAC(secret, "host" + Hello + Reply)
//   guest to host   proof of the guest         HMAC(secret, "guest" + Hello + Reply)
//   host to guest   Verdict                    whether it has joined; a second one once all have
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "realhw/tcp/meet/secret.h"
#include "realhw/tcp/socket.h"

namespace moesim {

inline constexpr std::uint32_t rendezvous_version = 1;

/// The head of all versions.
struct Greeting {
  char program[8] = {'m', 'o', 'e', 's', 'i', 'm', 'h', 'w'};
  std::uint32_t version = rendezvous_version;

  bool ours() const { return std::memcmp(program, Greeting().program, sizeof program) == 0; }
};

struct Hello {
  Greeting greeting;
  std::uint32_t rank = 0, ranks = 0;
  char nonce[nonce_size] = {};
};

struct Reply {
  Greeting greeting;
  char nonce[nonce_size] = {};
};

/// 0: joined; otherwise the exit code of the guest, and why.
struct Verdict {
  static constexpr int run_failed = 1, bad_input = 2;
  int code = 0;
  std::string reason;
};

template <class Words>
std::string bytes_of(const Words& words) {
  return {reinterpret_cast<const char*>(&words), sizeof words};
}

template <class Words>
Words read_words(const Socket& socket, Clock::time_point deadline) {
  const std::string bytes = read_all(socket, sizeof(Words), deadline);
  Words words;
  std::memcpy(&words, bytes.data(), sizeof words);
  return words;
}

inline std::string host_proof(const std::string& secret, const Hello& hello, const Reply& reply) {
  return proof_of(secret, "host" + bytes_of(hello) + bytes_of(reply));
}

inline std::string guest_proof(const std::string& secret, const Hello& hello, const Reply& reply) {
  return proof_of(secret, "guest" + bytes_of(hello) + bytes_of(reply));
}

void write_verdict(const Socket& socket, const Verdict& verdict, Clock::time_point deadline);
Verdict read_verdict(const Socket& socket, Clock::time_point deadline);

}  // namespace moesim
