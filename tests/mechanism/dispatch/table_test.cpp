// SPDX-License-Identifier: Apache-2.0
// What holds for every dispatch of the table, with its parameters as they are by default.
#include <gtest/gtest.h>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/mechanisms.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

TEST(EveryDispatch, DeliversEveryTokenAndResultOnce) {
  for (const DispatchMechanism& mechanism : dispatch_mechanisms()) {
    SCOPED_TRACE(mechanism.name);
    std::mt19937 random(97);
    int proved = 0;
    for (int trial = 0; trial < 60; ++trial) {
      const RandomLayer layer(random);
      if (layer.per_rank == 0) continue;
      try {
        const auto dispatch = layer.dispatch(mechanism.name);
        ASSERT_NO_THROW(prove(*dispatch, layer));
        ++proved;
      } catch (const Unsuitable&) {
        continue;
      }
    }
    EXPECT_GT(proved, 5);
  }
}

}  // namespace
}  // namespace moesim
