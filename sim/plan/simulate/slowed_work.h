// SPDX-License-Identifier: Apache-2.0
// Work of one kind on a GPU, slowed now and then by work of another kind.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Kernels or exchanges of one GPU, which take `factor` times as long at times: of each second they
/// lose 1 - 1 / factor.
class SlowedWork {
 public:
  struct Item {
    OpId op;
    std::int32_t participant;
    Seconds due;   // when it ends if it loses nothing
    Seconds lost;  // lost() when it began
  };

  /// From now on; at least 1.
  void set_factor(Seconds now, double factor);
  /// Time lost since the plan began, at the time of the last change.
  Seconds lost(Seconds now) const;
  void add(const Item& item) { items_.push_back(item); }
  /// When the first item ends if nothing changes; infinite without items.
  Seconds next(Seconds now) const;
  /// Removes and returns what has ended, in the order of add().
  std::vector<Item> take_ended(Seconds now);

 private:
  Seconds end_of(const Item& item, Seconds now) const;

  double factor_ = 1;
  Seconds changed_, lost_;
  std::vector<Item> items_;
};

}  // namespace moesim
