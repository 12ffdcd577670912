// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/meet/place.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

namespace moesim {

std::string TcpPlace::str() const { return fmt::format("{}:{}", host, port); }

Clock::time_point after(std::chrono::duration<double> time) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
}

std::vector<Address> addresses(const TcpPlace& place) {
  std::vector<Address> found = resolve(place.host, place.port);
  std::stable_partition(found.begin(), found.end(),
                        [](const Address& address) { return address.family() == AF_INET; });
  return found;
}

void require_secret(const TcpPlace& place, const Address& address) {
  if (!place.secret.empty() || address.loopback()) return;
  throw Error(fmt::format("rank {}: {} is not a loopback address, so it needs a secret", place.rank,
                          address.str()),
              "set MOESIM_SECRET or MOESIM_SECRET_FILE to the same on every rank");
}

}  // namespace moesim
