// SPDX-License-Identifier: Apache-2.0
// Where the pieces of a layer run side by side.
#pragma once

namespace moesim {

/// A lane runs its pieces one after the other, in the order in which they are launched; a piece
/// that must wait holds up those behind it.
enum class LayerLane {
  compute,
  exchange,  // all-to-all
};

}  // namespace moesim
