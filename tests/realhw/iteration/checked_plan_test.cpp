// SPDX-License-Identifier: Apache-2.0
// What compiling and running an iteration refuse: plans that do not move what its parts need, and
// numbers that are not finite, by the op that brings them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

#include "tests/realhw/iteration/real_iteration.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// What compiling all ranks says after `change` of every op of a kind.
template <class Change>
void expect_refused(OpKind kind, Change change, const char* expected, const Changes& changes = {}) {
  RealIteration real(changes);
  for (Op& op : real.step().plan.ops) {
    if (op.key.kind == kind) change(op);
  }
  EXPECT_THAT([&] { all_ranks(real.real()); },
              ThrowsMessage<std::runtime_error>(HasSubstr(expected)));
}

/// Half of the bytes.
void halve(Op& op) {
  ByteMatrix& traffic = std::get<Exchange>(op.work).traffic;
  traffic = traffic.with_unit(Bytes(traffic.unit().value / 2));
}

TEST(CheckedPlan, MovesWhatThePartsOfAnIterationNeed) {
  // 4 tokens of 32 numbers.
  expect_refused(OpKind::stage_transfer, halve, "it is not one message of 512 bytes");
  expect_refused(OpKind::gradient_exchange, halve, "do not fit into the plan's");
  expect_refused(OpKind::weight_exchange, halve, "do not fit into the plan's");
}

TEST(CheckedPlan, RunsTheKernelsOfItsBlocks) {
  expect_refused(
      OpKind::norm, [](Op& op) { op.key.kind = OpKind::attention_output; },
      "is none of the model's");
  expect_refused(
      OpKind::norm, [](Op& op) { op.key.part += 1; }, "is none of the model's");
}

TEST(CheckedPlan, WaitsForWhatItsOpsTake) {
  const auto waits_for_nothing = [](Op& op) { op.after.clear(); };
  const Changes tensor = {{"parallel.tp", "2"}, {"parallel.etp", "1"}, {"parallel.ep", "2"}};
  struct Case {
    OpKind kind;
    const char* expected;
    Changes changes;
  };
  for (const Case& c : {
           Case{OpKind::gradient_exchange, "it does not wait for all gradients that it takes", {}},
           Case{OpKind::gradient_exchange, "it does not wait for all gradients that it takes",
                tensor},
           Case{OpKind::optimizer,
                "it does not wait for the sums of the gradients that it takes",
                {}},
           Case{OpKind::tensor_exchange, "it needs what no op before it has made", tensor},
           Case{OpKind::weight_exchange, "it does not wait for the update of what it gathers", {}},
           Case{OpKind::norm, "it needs what no op before it has made", {}},
           Case{OpKind::embedding,
                "it does not wait for the weights that it computes with",
                {{"overlap.gradients", "true"}, {"overlap.parameters", "true"}}},
       }) {
    expect_refused(c.kind, waits_for_nothing, c.expected, c.changes);
  }
}

/// The end of a message of rows is not a number: the op that brings it says so, whatever it is.
void expect_checked(const Changes& changes) {
  RealIteration real(changes);
  const Plan& plan = real.step().plan;
  std::set<std::tuple<OpType, Stage, int>> kinds;
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const Op& op = plan[id];
    const bool of_rows = op.key.kind == OpKind::stage_transfer ||
                         op.key.kind == OpKind::token_exchange ||
                         (op.key.kind == OpKind::tensor_exchange && op.key.stage != Stage::reduce);
    if (!of_rows || op.key.microbatch != 0) continue;
    if (!kinds.emplace(op.key.type(), op.key.stage, op.key.part).second) continue;
    bool struck = false;
    const auto tamper = [&](OpId on, GpuId, GpuId, std::span<std::byte> bytes) {
      if (struck || on != id || bytes.size() < sizeof(float)) return;
      struck = true;
      const float nothing = std::numeric_limits<float>::quiet_NaN();
      for (std::size_t at = bytes.size() / 8 * 4; at + 4 <= bytes.size(); at += 4) {
        std::memcpy(&bytes[at], &nothing, sizeof nothing);
      }
    };
    EXPECT_THAT([&] { real.run(tamper); },
                ThrowsMessage<std::runtime_error>(
                    AllOf(HasSubstr(fmt::format("op {} ", id.value)), HasSubstr("is not finite"))))
        << op.label.text() << " " << op.key.part;
    EXPECT_TRUE(struck) << op.label.text();
  }
  EXPECT_GE(kinds.size(), 6U);
}

TEST(CheckedPlan, NamesTheOpThatBringsWhatIsNoNumber) { expect_checked(Changes{}); }

TEST(CheckedPlan, NamesTheOpOfATensorGroupThatBringsWhatIsNoNumber) {
  expect_checked(
      Changes{{"parallel.tp", "2"}, {"parallel.etp", "1"}, {"parallel.ep", "2"}, {"zero", "0"}});
}

/// As if all parts were one row of elements, whose first shards are the larger ones.
TEST(CheckedPlan, ShardsOfAllPartsTogetherDifferByOneElement) {
  RealIteration real(
      Changes{{"parallel.pp", "1"}, {"set", "model.hidden=33"}, {"set", "model.dense_ffn=25"}});
  std::int64_t all = 0;
  std::vector<std::int64_t> shards;
  for (const auto& rank : real.ranks()) {
    std::int64_t& shard = shards.emplace_back(0);
    for (const auto& part : rank->program.iteration->dense) {
      shard += part.summed.second - part.summed.first;
    }
    all += shard;
  }
  ASSERT_EQ(shards.size(), 8U);
  EXPECT_EQ(all % 8, 4);  // 5 of layer 0, 2 of each other, 1 of the head
  for (std::int64_t r = 0; r < 8; ++r) {
    EXPECT_EQ(shards[static_cast<std::size_t>(r)], all / 8 + (r < 4 ? 1 : 0)) << r;
  }
}

}  // namespace
}  // namespace moesim
