// SPDX-License-Identifier: Apache-2.0
// Hand-made plans, right and broken, with the exact verdict on each.
#include "sim/plan/delivery.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "sim/plan/text.h"
#include "tests/error_of.h"
#include "tests/plan/delivery_fixtures.h"

namespace moesim {
namespace {

using namespace test;

// Experts 0 and 1 on GPU 0, 2 and 3 on GPU 1. Token 0 (GPU 0) chose 0 and 2, token 1 (GPU 0) 2 and
// 3, token 2 (GPU 1) 1 and 3. One copy per GPU:
enum Row { t0_to_0, t0_to_1, t1_to_1, t2_to_0, t2_to_1 };
const Phases copies = {{{GpuId(0), GpuId(0), TokenId(0), 1},
                        {GpuId(0), GpuId(1), TokenId(0), 2},
                        {GpuId(0), GpuId(1), TokenId(1), 3},
                        {GpuId(1), GpuId(0), TokenId(2), 1},
                        {GpuId(1), GpuId(1), TokenId(2), 2}}};
enum OpIndex { dispatch, fc1_0, fc1_1, fc2_0, fc2_1, combine };

class Delivery : public testing::Test {
 protected:
  Delivery() : plan_{"test", 2, {}} { build(Pass::forward, {"fc1", "fc2"}); }

  void build(Pass pass, std::vector<std::string> gemms) {
    plan_.ops.clear();
    LayerPlan(routing_, pass, std::move(gemms)).append(plan_, copies, mirrored(copies));
  }
  std::vector<RowMove>& rows(OpIndex op) { return exchange_in(plan_, op).rows; }
  std::vector<OpId>& after(OpIndex op) { return plan_.ops[op].after; }
  void erase_row(OpIndex op, Row row) {
    rows(op).erase(rows(op).begin() + row);
    refill();
  }
  void refill() {
    for (Op& op : plan_.ops) {
      if (auto* exchange = std::get_if<Exchange>(&op.work)) fill_traffic(*exchange, 2);
    }
  }
  std::string verdict() {
    return error_of([&] { check_delivery(plan_, {routing_}); });
  }

  Assignment assignment_{contiguous_placement(4, 2, 2), 2};
  LayerRouting routing_{0,
                        ids<GpuId>({0, 0, 1}),
                        {ids<ExpertId>({0, 2}), ids<ExpertId>({2, 3}), ids<ExpertId>({1, 3})},
                        &assignment_};
  Plan plan_;
};

TEST_F(Delivery, AcceptsARightPlan) {
  EXPECT_EQ(plan_.ops.size(), 6u);
  EXPECT_EQ(gemm_on(plan_.ops[fc1_1]).m, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(verdict(), "");
}

TEST_F(Delivery, AcceptsTheExampleOfTheDocumentation) {
  std::ostringstream page;
  page << std::ifstream(std::string(MOESIM_ROOT) + "/docs/plan-format.md").rdbuf();
  const std::string text = page.str(), fence = "```plan\n";
  const std::size_t begin = text.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const std::string example =
      text.substr(begin + fence.size(), text.find("```", begin + 3) - begin - fence.size());
  plan_ = parse_plan(example, "plan-format.md");
  EXPECT_EQ(verdict(), "");
  EXPECT_EQ(to_text(plan_), example);
}

TEST_F(Delivery, FindsALostCopy) {
  erase_row(dispatch, t0_to_1);
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: token 0 choice 1 (expert 2) never leaves GPU 0; it must "
            "reach slot 2 on GPU 1\n");
}

TEST_F(Delivery, FindsADoubledCopy) {
  rows(dispatch).push_back(rows(dispatch)[t0_to_1]);
  refill();
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: op 0 'dispatch' carries token 0 choice 1 (expert 2) twice\n");
}

TEST_F(Delivery, FindsACopyDoubledInALaterExchange) {
  Op again = plan_.ops[dispatch];
  std::get<Exchange>(again.work).rows = {rows(dispatch)[t0_to_1]};
  again.label = "again";
  plan_.add(std::move(again));
  refill();
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: op 6 'again' carries token 0 choice 1 (expert 2) from GPU 0, "
            "but it is on GPU 1\n");
}

TEST_F(Delivery, FindsAWrongExpert) {
  rows(dispatch)[t0_to_1].to = GpuId(0);
  refill();
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: token 0 choice 1 (expert 2) ends on GPU 0; it must "
            "reach slot 2 on GPU 1\n");
}

TEST_F(Delivery, FindsARowInTheWrongSlot) {
  set_rows(plan_.ops[fc1_0], {2, 0});
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: 'fc1' computes 2 rows in slot 0 (expert 0) of GPU 0, but 1 "
            "chose it\n"
            "error: layer 0 forward: 'fc1' computes 0 rows in slot 1 (expert 1) of GPU 0, but 1 "
            "chose it\n");
}

TEST_F(Delivery, FindsAMissingReturn) {
  erase_row(combine, t2_to_0);
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: the result of token 2 choice 0 (expert 1) never leaves GPU "
            "0; it must return to GPU 1\n");
}

TEST_F(Delivery, FindsACycle) {
  after(fc1_0).push_back(OpId(fc2_0));
  EXPECT_EQ(verdict(),
            "error: op 1 'fc1' waits for itself: it waits for op 3 'fc2', which waits for op 1\n");
}

TEST_F(Delivery, FindsAnOpOnAForeignStream) {
  plan_.ops[fc2_0].stream = Stream::ep;
  EXPECT_EQ(verdict(), "error: op 3 'fc2': a kernel runs on stream compute or copy, not ep\n");
}

TEST_F(Delivery, FindsAWaitForAForeignOp) {
  after(fc2_0).push_back(OpId(fc1_1));
  EXPECT_EQ(verdict(),
            "error: op 3 'fc2' on GPU 0 waits for the foreign op 2 'fc1' on GPU 1: they share no "
            "GPU\n");
}

TEST_F(Delivery, FindsAGemmThatDoesNotWaitForItsRows) {
  after(fc1_1).clear();
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: op 2 'fc1' on GPU 1 does not wait for its rows from op 0 "
            "'dispatch'\n");
}

TEST_F(Delivery, FindsResultsThatLeaveTooEarly) {
  after(combine) = ids<OpId>({fc2_0, fc1_1});
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: op 5 'combine' does not wait for the results of 'fc2' on GPU "
            "1\n");
}

TEST_F(Delivery, FindsAMissingGemm) {
  plan_.ops[fc2_1].key.stage = Stage::other;
  EXPECT_EQ(verdict(), "error: layer 0 forward: no 'fc2' runs on GPU 1, which 4 choices need\n");
  for (const OpIndex op : {fc1_0, fc1_1, fc2_0}) plan_.ops[op].key.stage = Stage::other;
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: no 'expert GEMM' runs on GPU 0, which 2 choices need\n"
            "error: layer 0 forward: no 'expert GEMM' runs on GPU 1, which 4 choices need\n");
}

TEST_F(Delivery, FindsAGemmOfAnotherPlacement) {
  set_rows(plan_.ops[fc2_0], {1, 1, 0});
  EXPECT_EQ(verdict(), "error: layer 0 forward: op 3 'fc2' has 3 groups, but GPU 0 has 2 slots\n");
}

TEST_F(Delivery, FindsTrafficThatIsNotItsRows) {
  exchange_in(plan_, dispatch).traffic =
      matrix(2, row_bytes, {{0, 0, 1}, {0, 1, 1}, {1, 0, 2}, {1, 1, 1}});
  EXPECT_EQ(verdict(),
            "error: op 0 'dispatch': rows of 16 bytes from GPU 0 to 1 make 32 bytes, the matrix "
            "has 16\n"
            "error: op 0 'dispatch': rows of 16 bytes from GPU 1 to 0 make 16 bytes, the matrix "
            "has 32\n");
  exchange_in(plan_, dispatch).traffic = matrix(2, 1, {{0, 1, 49}});
  EXPECT_EQ(verdict(), "error: op 0 'dispatch': 5 rows of one size cannot make 49 bytes\n");
  exchange_in(plan_, dispatch).traffic = matrix(2, 1, {});
  EXPECT_EQ(verdict(), "error: op 0 'dispatch': 5 rows of one size cannot make 0 bytes\n");
}

TEST_F(Delivery, NeedsRowsWhereTokensLeave) {
  rows(combine).clear();
  EXPECT_EQ(verdict(),
            "error: op 5 'combine' moves 80 bytes but lists no rows\n"
            "hint: make the plan with explicit rows\n"
            "error: layer 0 forward: the result of token 0 choice 1 (expert 2) never leaves GPU "
            "1; it must return to GPU 0\n"
            "error: layer 0 forward: the result of token 1 choice 0 (expert 2) never leaves GPU "
            "1; it must return to GPU 0\n"
            "error: layer 0 forward: the result of token 1 choice 1 (expert 3) never leaves GPU "
            "1; it must return to GPU 0\n"
            "error: layer 0 forward: the result of token 2 choice 0 (expert 1) never leaves GPU "
            "0; it must return to GPU 1\n");
}

TEST_F(Delivery, FindsTokensAndChoicesThatDoNotExist) {
  rows(dispatch).push_back({GpuId(0), GpuId(1), TokenId(3), 1});
  rows(dispatch)[t0_to_0].choices |= 4;
  refill();
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: op 0 'dispatch' carries token 0 choice 2, which chose no "
            "expert\n"
            "error: layer 0 forward: op 0 'dispatch' carries token 3, but there are 3 tokens\n");
}

TEST_F(Delivery, FindsASumThatIsSplit) {
  // The sum of both results of token 1 goes to GPU 0 whole; half of it moves on.
  Op split = plan_.ops[combine];
  std::get<Exchange>(split.work).rows = {{GpuId(0), GpuId(0), TokenId(1), 1}};
  plan_.add(std::move(split));
  refill();
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: op 6 'combine' carries the result of token 1 choice 0 (expert "
            "2) without choices 1, with which it was summed\n");
}

TEST_F(Delivery, AllowsLocalChoicesWithoutRows) {
  rows(dispatch).erase(rows(dispatch).begin() + t2_to_1);
  rows(dispatch).erase(rows(dispatch).begin() + t0_to_0);
  refill();
  EXPECT_EQ(verdict(), "");
}

TEST_F(Delivery, AllowsDroppedChoices) {
  routing_.chosen[0][1] = ExpertId(-1);
  EXPECT_NE(verdict(), "");
  for (const OpIndex op : {dispatch, combine}) erase_row(op, t0_to_1);
  set_rows(plan_.ops[fc1_1], {1, 2});
  set_rows(plan_.ops[fc2_1], {1, 2});
  EXPECT_EQ(verdict(), "");
}

TEST_F(Delivery, AddsUpTheChunksOfAGemm) {
  // Token 1 travels and is computed by itself, overlapped with the rest.
  Plan chunked{"test", 2, {plan_.ops[dispatch], plan_.ops[dispatch]}};
  exchange_in(chunked, 0).rows = {copies[0][t1_to_1]};
  exchange_in(chunked, 1).rows.erase(exchange_in(chunked, 1).rows.begin() + t1_to_1);
  const auto add = [&](OpIndex like, int wait, std::vector<std::int64_t> rows) {
    Op op = plan_.ops[like];
    op.after = ids<OpId>({wait});
    set_rows(op, std::move(rows));
    chunked.add(std::move(op));
  };
  add(fc1_1, 0, {1, 1});
  add(fc2_1, 2, {1, 1});
  add(fc1_1, 1, {1, 1});
  add(fc2_1, 4, {1, 1});
  add(fc1_0, 1, {1, 1});
  add(fc2_0, 6, {1, 1});
  Op back = plan_.ops[combine];
  back.after = ids<OpId>({3});
  std::get<Exchange>(back.work).rows = {rows(combine)[t1_to_1]};
  chunked.add(back);
  back.after = ids<OpId>({5, 7});
  std::get<Exchange>(back.work).rows = rows(combine);
  std::get<Exchange>(back.work).rows.erase(std::get<Exchange>(back.work).rows.begin() + t1_to_1);
  chunked.add(back);
  plan_ = chunked;
  refill();
  EXPECT_EQ(verdict(), "");

  exchange_in(plan_, 0).rows = {copies[0][t0_to_0]};  // too few for the first chunk
  exchange_in(plan_, 1).rows = copies[0];
  exchange_in(plan_, 1).rows.erase(exchange_in(plan_, 1).rows.begin() + t0_to_0);
  refill();
  EXPECT_EQ(verdict(),
            "error: layer 0 forward: op 2 'fc1' on GPU 1 does not wait for its rows from op 1 "
            "'dispatch'\n"
            "error: layer 0 forward: op 3 'fc2' on GPU 1 does not wait for its rows from op 1 "
            "'dispatch'\n");
}

TEST_F(Delivery, FollowsTheBackwardPassByTheSameRules) {
  build(Pass::backward, {"fc2-dgrad", "fc1-dgrad", "fc1-wgrad"});
  plan_.ops[7].after = ids<OpId>({3, 4});  // combine; nobody waits for weight gradients
  EXPECT_EQ(verdict(), "");
  plan_.ops[7].after = ids<OpId>({1, 4});
  EXPECT_EQ(verdict(),
            "error: layer 0 backward: op 7 'combine' does not wait for the results of 'fc1-dgrad' "
            "on GPU 0\n");
}

TEST_F(Delivery, NeedsTheRoutingOfEveryLayer) {
  Plan other = plan_;
  for (Op& op : other.ops) op.key.layer = 4;
  EXPECT_EQ(error_of([&] { check_delivery(other, {routing_}); }),
            "error: the plan moves no tokens of layer 0\n"
            "error: the plan moves tokens of layer 4, whose routing is not given\n");
  EXPECT_EQ(error_of([&] {
              check_delivery(plan_, {routing_, routing_});
            }),
            "error: the routing of layer 0 is given twice\n");
}

TEST_F(Delivery, ChecksTheRoutingItself) {
  const auto bad = [&](auto change) {
    LayerRouting routing = routing_;
    change(routing);
    return error_of([&] { check_delivery(plan_, {routing}); });
  };
  EXPECT_EQ(bad([](LayerRouting& r) { r.assignment = nullptr; }),
            "error: routing of layer 0: it has no assignment\n");
  EXPECT_EQ(bad([](LayerRouting& r) { r.source.pop_back(); }),
            "error: routing of layer 0: 2 sources for 3 tokens\n");
  EXPECT_EQ(bad([](LayerRouting& r) { r.source[1] = GpuId(2); }),
            "error: routing of layer 0: token 1 starts on GPU 2 of 2\n");
  EXPECT_EQ(bad([](LayerRouting& r) { r.chosen[1][1] = ExpertId(4); }),
            "error: routing of layer 0: token 1 chose expert 4 of 4\n");
  EXPECT_EQ(bad([](LayerRouting& r) { r.chosen[2].resize(33); }),
            "error: routing of layer 0: token 2 makes 33 choices, the most is 32\n");
  const Assignment wide(contiguous_placement(4, 4, 2), 2);
  EXPECT_EQ(bad([&](LayerRouting& r) { r.assignment = &wide; }),
            "error: routing of layer 0: a placement on 4 GPUs for a plan of 2\n");
}

}  // namespace
}  // namespace moesim
