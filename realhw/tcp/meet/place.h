// SPDX-License-Identifier: Apache-2.0
// As whom and where a process joins its job.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "realhw/tcp/socket.h"

namespace moesim {

struct TcpPlace {
  int rank = 0, ranks = 1;
  std::string host;  // of rank 0
  int port = 0;
  std::string secret;                   // empty: none, which only loopback permits
  std::chrono::duration<double> limit;  // until all have come

  std::string str() const;  // "10.0.0.1:29500"
};

/// How long a process that has connected may take until it has said who it is.
inline constexpr std::chrono::seconds rendezvous_patience(5);

Clock::time_point after(std::chrono::duration<double> time);

/// Resolves and puts IPv4 first, on rank 0 and elsewhere alike.
std::vector<Address> addresses(const TcpPlace& place);

/// Throws Error if the address is beyond this host and there is no secret.
void require_secret(const TcpPlace& place, const Address& address);

}  // namespace moesim
