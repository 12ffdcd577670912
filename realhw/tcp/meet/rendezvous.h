// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job find each other: rank 0 listens, the others connect, and both sides prove
// that they know the secret.
#pragma once

#include <string>
#include <vector>

#include "realhw/tcp/socket.h"

namespace moesim {

/// As whom and where a process joins its job.
struct TcpPlace {
  int rank = 0, ranks = 1;
  std::string host;  // of rank 0
  int port = 0;
  std::string secret;                   // empty: none, which only loopback permits
  std::chrono::duration<double> limit;  // until all have come

  std::string str() const;  // "10.0.0.1:29500"
};

/// The connections of this process, by rank: on rank 0 to all others (its own is not open),
/// elsewhere to rank 0 alone. Throws Error for what the user set wrong (address, secret,
/// world size, a rank given twice) and std::runtime_error naming the ranks that did not come in
/// time.
std::vector<Socket> meet(const TcpPlace& place);

}  // namespace moesim
