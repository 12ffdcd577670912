// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job find each other: rank 0 listens, the others connect, and both sides prove
// that they know the secret.
#pragma once

#include <vector>

#include "realhw/tcp/meet/place.h"
#include "realhw/tcp/socket.h"

namespace moesim {

/// The connections of this process, by rank: on rank 0 to all others (its own is not open),
/// elsewhere only to rank 0. Throws Error for what the user set wrong (address, secret,
/// world size, a rank given twice) and std::runtime_error naming the ranks that did not come in
/// time.
std::vector<Socket> meet(const TcpPlace& place);

}  // namespace moesim
