// SPDX-License-Identifier: Apache-2.0
// What blocks of the reference keep from forward to backward. Private to it.
#pragma once

#include "realhw/core/reference_iteration.h"

namespace moesim {

struct ReferenceIteration::Attention {
  Doubles x, n, projected, normed, rotated, out;
};
struct ReferenceIteration::Ffn {
  Doubles h, a;
};
struct ReferenceIteration::Experts {
  Doubles x, n;
  Ffn dense;                // the dense products, or the shared experts
  std::vector<Ffn> choice;  // [choice]
};

}  // namespace moesim
