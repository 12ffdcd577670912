// SPDX-License-Identifier: Apache-2.0
// Two hops without deduplication, inside the node and across nodes between equal indices.
#pragma once

#include <memory>

#include "sim/mechanism/dispatch.h"

namespace moesim {

/// Which hop comes first: inside the node to the GPU with the target's index, or across to the
/// target's node.
enum class HopOrder { intra_first, inter_first };

/// Whether a dispatch's ranks form several nodes of equal size, more than a GPU each.
bool has_two_hops(const DispatchContext& context);
/// Two hops; `padded`: with the copies that bring equal parts into the order of a hop. On one node,
/// or on nodes of a GPU each, the flat exchange, as upstream. Throws Unsuitable if nodes differ.
std::unique_ptr<Dispatch> two_hops(const DispatchContext& context, HopOrder order, bool padded);

}  // namespace moesim
