// SPDX-License-Identifier: Apache-2.0
// Real vectors through the plans of every shipped policy: what comes back is what the routing says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/realhw/program_rules.h"
#include "tests/realhw/real_case.h"

namespace moesim {
namespace {

class RealDelivery : public testing::TestWithParam<std::string> {};

/// A case of random size and place in the trace.
RealCaseOptions random_case(std::mt19937& random, const std::string& policy) {
  static const std::vector<std::pair<int, int>> shapes = {{4, 8}, {2, 8}, {2, 4}, {1, 8},
                                                          {4, 4}, {4, 2}, {1, 4}, {1, 2}};
  const auto below = [&](std::size_t n) { return static_cast<int>(random() % n); };
  RealCaseOptions o;
  o.policy = policy;
  std::tie(o.nodes, o.gpus) = shapes[static_cast<std::size_t>(below(shapes.size()))];
  o.tokens_per_rank = 1 + below(5);
  o.batch = below(20);
  o.layers = below(2) == 0 ? std::vector<int>{0, 3} : std::vector<int>{below(4)};
  o.backward = below(4) != 0;
  o.activations = below(2) == 0 ? DataType::bf16 : DataType::fp32;
  o.expert_matrices = 2 + below(2);
  o.steps = below(3);
  o.matrices = below(4) == 0 ? RowFormat::bfloat16 : RowFormat::float32;
  return o;
}

/// Cases of every policy: MOESIM_REAL_CASES, or 5.
int cases() {
  const char* wanted = std::getenv("MOESIM_REAL_CASES");
  return wanted != nullptr ? std::atoi(wanted) : 5;
}

TEST_P(RealDelivery, ComputesWhatTheRoutingSays) {
  std::mt19937 random(7);
  int ran = 0;
  const int wanted = cases();
  for (int attempt = 0; attempt < 5 * wanted && ran < wanted; ++attempt) {
    const RealCaseOptions o = random_case(random, GetParam());
    SCOPED_TRACE(fmt::format("{} nodes of {} GPUs, {} tokens, batch {}, {} layers", o.nodes, o.gpus,
                             o.tokens_per_rank, o.batch, o.layers.size()));
    std::unique_ptr<RealCase> c;
    try {
      c = std::make_unique<RealCase>(o);
    } catch (const Unsuitable&) {
      continue;
    } catch (const Error& e) {  // the levels of the cluster do not suit
      if (std::string(e.what()).find("nest") == std::string::npos) throw;
      continue;
    }
    const Comparison result = c->run();
    EXPECT_GT(result.outputs, 0);
    EXPECT_EQ(result.wrong_outputs, 0);
    EXPECT_EQ(result.input_gradients > 0, o.backward);
    EXPECT_EQ(result.wrong_input_gradients, 0);
    EXPECT_EQ(result.wrong_weight_gradients, 0);
    EXPECT_EQ(result.wrong_bytes, 0);
    for (const auto& rank : c->ranks()) {
      if (ran > 0) break;  // it takes its time
      EXPECT_THAT(broken_rules(rank->program), testing::IsEmpty());
    }
    ++ran;
  }
  EXPECT_GT(ran, 0) << "no cluster suits the policy";
}

std::string identifier(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, RealDelivery, testing::ValuesIn(executed_policies()), identifier);

}  // namespace
}  // namespace moesim
