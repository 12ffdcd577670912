// SPDX-License-Identifier: Apache-2.0
// What exchanges move, by layer: how far, and over which links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "sim/plan/priced.h"
#include "sim/report/metrics.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Exchanges of one price move the same bytes between the same GPUs, as those of microbatches that
/// replay others do: they are counted, and looked at once.
class MovedBytes {
 public:
  /// The topology must outlive it.
  explicit MovedBytes(const Topology& topology) : topology_(topology) {}

  /// Op and price must live until add_to().
  void add(const Op& op, const PricedExchange* price);
  /// Adds them to the layers' traffic, migrated bytes and link bytes; begins anew. Throws
  /// std::logic_error if bytes are not on the links that they need.
  void add_to(std::map<int, LayerMetrics>& layers);

 private:
  struct Key {
    const PricedExchange* price;
    int layer;
    bool tokens, migrates;
    bool operator==(const Key&) const = default;
  };
  struct HashOfKey {
    std::size_t operator()(const Key& key) const {
      return std::hash<const void*>()(key.price) ^ static_cast<std::size_t>(key.layer);
    }
  };
  struct Moved {
    const Op* first = nullptr;
    std::int64_t times = 0;
  };

  const Topology& topology_;
  std::unordered_map<Key, Moved, HashOfKey> moved_;
};

}  // namespace moesim
