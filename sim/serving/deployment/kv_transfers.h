// SPDX-License-Identifier: Apache-2.0
// Keys and values on their way from instances that compute prompts to instances that decode.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/types.h"
#include "sim/model/kv_cache.h"

namespace moesim {

class KvTransfers {
 public:
  virtual ~KvTransfers() = default;
  /// When the keys and values of so many tokens that leave at `now` are there; calls come in the
  /// order of `now`.
  virtual Seconds arrival(Seconds now, std::int64_t tokens, int from, int to) = 0;
};

/// The GPUs of a sequence send its keys and values, one sequence after the other: a transfer begins
/// when such a link of its sender and one of its receiver are free, those that are free first.
class LinkTransfers : public KvTransfers {
 public:
  struct Link {
    SequenceCache held{};        // of a sequence, by each GPU that receives a part of it
    BytesPerSecond bandwidth{};  // of the GPUs of one sequence together
    Seconds latency{};
    int of_sender = 1, of_receiver = 1;  // how many of an instance send or receive at once
    int receivers = 1;  // GPUs of a sequence that hold a part; what several hold goes to each
  };
  LinkTransfers(const Link& link, int senders, int receivers);
  Seconds arrival(Seconds now, std::int64_t tokens, int from, int to) override;
  Bytes moved() const { return moved_; }

 private:
  Link link_;
  std::vector<std::vector<Seconds>> sender_free_, receiver_free_;  // [instance][link]
  Bytes moved_{};
};

}  // namespace moesim
