// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/kv_transfers.h"

#include <algorithm>

namespace moesim {

LinkTransfers::LinkTransfers(const Link& link, int senders, int receivers)
    : link_(link),
      sender_free_(static_cast<std::size_t>(senders)),
      receiver_free_(static_cast<std::size_t>(receivers)) {}

Seconds LinkTransfers::arrival(Seconds now, std::int64_t tokens, int from, int to) {
  Seconds& sender = sender_free_[static_cast<std::size_t>(from)];
  Seconds& receiver = receiver_free_[static_cast<std::size_t>(to)];
  const Bytes bytes = link_.per_token * tokens;
  const Seconds end = std::max({now, sender, receiver}) + bytes / link_.bandwidth;
  sender = receiver = end;
  moved_ += bytes;
  return end + link_.latency;
}

}  // namespace moesim
