// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/kv_transfers.h"

#include <algorithm>

namespace moesim {

namespace {

std::vector<std::vector<Seconds>> all_free(int instances, int links) {
  return {static_cast<std::size_t>(instances),
          std::vector<Seconds>(static_cast<std::size_t>(links))};
}

}  // namespace

LinkTransfers::LinkTransfers(const Link& link, int senders, int receivers)
    : link_(link),
      sender_free_(all_free(senders, link.of_sender)),
      receiver_free_(all_free(receivers, link.of_receiver)) {}

Seconds LinkTransfers::arrival(Seconds now, std::int64_t tokens, int from, int to) {
  Seconds& sender = *std::ranges::min_element(sender_free_[static_cast<std::size_t>(from)]);
  Seconds& receiver = *std::ranges::min_element(receiver_free_[static_cast<std::size_t>(to)]);
  const Bytes bytes = link_.held.of(tokens) * link_.receivers;
  const Seconds end = std::max({now, sender, receiver}) + bytes / link_.bandwidth;
  sender = receiver = end;
  moved_ += bytes;
  return end + link_.latency;
}

}  // namespace moesim
