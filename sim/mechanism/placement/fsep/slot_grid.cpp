// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/slot_grid.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace moesim::fsep {

void SlotGrid::check(int experts) const {
  if (ranks < 1 || ranks_per_node < 1 || ranks % ranks_per_node != 0) {
    throw Error(fmt::format("{} ranks cannot form nodes of {}", ranks, ranks_per_node),
                "the ranks per node must divide the number of ranks");
  }
  if (slots_per_rank < 1 || experts < 1 || experts > slots()) {
    throw Error(fmt::format("{} experts do not fit {} ranks with {} slots each", experts, ranks,
                            slots_per_rank),
                "every expert needs a slot");
  }
}

}  // namespace moesim::fsep
