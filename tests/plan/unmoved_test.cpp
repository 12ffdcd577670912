// SPDX-License-Identifier: Apache-2.0
// Delivery with choices that no row carries: choices that stay on their GPU, and dropped ones.
#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/plan/delivery_fixtures.h"

namespace moesim {
namespace {

using namespace test;

/// Experts 0 on GPU 0, 1 on GPU 1; of `chosen` what crosses is carried by a row.
struct UnmovedCase {
  explicit UnmovedCase(std::vector<std::vector<ExpertId>> chosen)
      : routing{0, ids<GpuId>({0, 1}), std::move(chosen), &assignment} {
    Phases out(1);
    for (std::size_t token = 0; token < 2; ++token) {
      for (std::size_t k = 0; k < routing.chosen[token].size(); ++k) {
        const ExpertId expert = routing.chosen[token][k];
        const GpuId from = routing.source[token];
        if (expert.value < 0 || expert.value == from.value) continue;
        out[0].push_back({from, GpuId(expert.value), TokenId(static_cast<std::int64_t>(token)),
                          Choices{1} << k});
      }
    }
    LayerRouting computed = routing;
    for (auto& experts : computed.chosen) {
      std::erase_if(experts, [](ExpertId expert) { return expert.value < 0; });
    }
    LayerPlan(computed, Pass::forward, {"fc1", "fc2"}).append(plan, out, mirrored(out));
  }
  std::string verdict() const {
    return error_of([&] { check_delivery(plan, {routing}); });
  }

  Assignment assignment{contiguous_placement(2, 2, 2), 2};
  LayerRouting routing;
  Plan plan{"unmoved", 2, {}};
};

enum UnmovedOp { unmoved_dispatch, unmoved_fc1_0, unmoved_fc1_1, unmoved_fc2_0, unmoved_fc2_1 };

TEST(Unmoved, ResultsOfRowsThatCameLeaveBehindTheirGemm) {
  // Expert 1 computes a row of GPU 0 and one that was there.
  UnmovedCase c({ids<ExpertId>({1}), ids<ExpertId>({1})});
  EXPECT_EQ(c.verdict(), "");
  c.plan.ops.back().after = ids<OpId>({unmoved_fc1_0, unmoved_fc1_1, unmoved_fc2_0});
  EXPECT_EQ(
      c.verdict(),
      "error: layer 0 forward: op 5 'combine' does not wait for the results of 'fc2' on GPU 1\n");
}

TEST(Unmoved, ChoicesBehindADroppedOneCount) {
  UnmovedCase c({ids<ExpertId>({-1, 1}), ids<ExpertId>({-1, 1})});
  EXPECT_EQ(c.verdict(), "");
  set_rows(c.plan.ops[unmoved_fc1_1], {1});
  EXPECT_EQ(c.verdict(),
            "error: layer 0 forward: 'fc1' computes 1 rows in slot 1 (expert 1) of GPU 1, but 2 "
            "chose it\n");
}

}  // namespace
}  // namespace moesim
