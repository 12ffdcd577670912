// SPDX-License-Identifier: Apache-2.0
// Delivery with padding, of tokens with as many choices as there may be, and of the first token.
#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/plan/delivery_fixtures.h"

namespace moesim {
namespace {

using namespace test;

/// Expert 0 on GPU 0, 1 on GPU 1; both tokens are on GPU 0 and go to GPU 1, one by each dispatch.
/// The first GEMM has two parts; nobody chose expert 0.
struct TwoParts {
  enum { dispatch_0, dispatch_1, fc1_0, fc1_1, fc2, combine };

  TwoParts() {
    add_exchange(Stage::dispatch, {{GpuId(0), GpuId(1), TokenId(0), 1}}, {});
    add_exchange(Stage::dispatch, {{GpuId(0), GpuId(1), TokenId(1), 1}}, {});
    plan.ops[dispatch_1].stream = Stream::ep_2;
    add_gemm("fc1", 1, {dispatch_0});
    add_gemm("fc1", 1, {dispatch_1});
    add_gemm("fc2", 2, {});
    add_exchange(Stage::combine,
                 {{GpuId(1), GpuId(0), TokenId(0), 1}, {GpuId(1), GpuId(0), TokenId(1), 1}}, {fc2});
  }
  void pad() { exchange_in(plan, dispatch_0).padded = true; }
  std::string verdict() const {
    return error_of([&] { check_delivery(plan, {routing}); });
  }

  Assignment assignment{contiguous_placement(2, 2, 2), 2};
  LayerRouting routing{
      0, ids<GpuId>({0, 0}), {ids<ExpertId>({1}), ids<ExpertId>({1})}, &assignment};
  Plan plan{"parts", 2, {}};

 private:
  void add(Op op, Stage stage) {
    op.key.layer = 0;
    op.key.stage = stage;
    plan.add(std::move(op));
  }
  void add_exchange(Stage stage, std::vector<RowMove> rows, std::initializer_list<int> after) {
    Op op = exchange(name_of(stage), {0, 1}, ByteMatrix(), after);
    exchange_of(op).rows = std::move(rows);
    fill_traffic(exchange_of(op), 2);
    add(std::move(op), stage);
  }
  void add_gemm(const char* name, std::int64_t rows, std::initializer_list<int> after) {
    add(kernel(name, 1, after, GroupedGemm{{rows}, 8, 8, DataType::bf16}), Stage::experts);
  }
  static Exchange& exchange_of(Op& op) { return std::get<Exchange>(op.work); }
};

TEST(PaddedDelivery, MayComputeMoreRowsThanWereChosen) {
  TwoParts c;
  EXPECT_EQ(c.verdict(), "");
  set_rows(c.plan.ops[TwoParts::fc2], {3});
  EXPECT_EQ(c.verdict(),
            "error: layer 0 forward: 'fc2' computes 3 rows in slot 1 (expert 1) of GPU 1, but 2 "
            "chose it\n");
  c.pad();
  EXPECT_EQ(c.verdict(), "");
  set_rows(c.plan.ops[TwoParts::fc2], {2});
  EXPECT_EQ(c.verdict(), "");
  set_rows(c.plan.ops[TwoParts::fc2], {1});
  EXPECT_EQ(c.verdict(),
            "error: layer 0 forward: 'fc2' computes 1 rows in slot 1 (expert 1) of GPU 1, but 2 "
            "chose it\n");
}

TEST(PaddedDelivery, NeedsAllRowsByTheLastPart) {
  const std::string early =
      "error: layer 0 forward: op 2 'fc1' on GPU 1 does not wait for its rows from op 0 "
      "'dispatch'\n";
  TwoParts c;
  c.plan.ops[TwoParts::fc1_0].after = {};
  c.plan.ops[TwoParts::fc1_1].after = ids<OpId>({0, 1});
  EXPECT_EQ(c.verdict(), early);
  c.pad();
  EXPECT_EQ(c.verdict(), "");
  c.plan.ops[TwoParts::fc1_1].after = ids<OpId>({1});
  EXPECT_EQ(c.verdict(),
            "error: layer 0 forward: op 3 'fc1' on GPU 1 does not wait for its rows from op 0 "
            "'dispatch'\n"
            "error: layer 0 forward: op 4 'fc2' on GPU 1 does not wait for its rows from op 0 "
            "'dispatch'\n");
}

TEST(PaddedDelivery, LeavesRoomInTheMatrix) {
  TwoParts c;
  c.pad();
  auto& traffic = exchange_in(c.plan, TwoParts::dispatch_0).traffic;
  traffic = matrix(2, row_bytes, {{0, 0, 4}, {0, 1, 2}, {1, 0, 1}});
  EXPECT_EQ(c.verdict(), "");
  traffic = matrix(2, row_bytes, {{0, 0, 4}});
  EXPECT_EQ(c.verdict(),
            "error: op 0 'dispatch': rows of 16 bytes from GPU 0 to 1 make 16 bytes, the matrix "
            "has 0\n");
  traffic = matrix(2, row_bytes, {});
  EXPECT_EQ(c.verdict(), "error: op 0 'dispatch': 1 rows of one size cannot make 0 bytes\n");
}

TEST(DeliveryLimits, OneByteNeedsRowsToo) {
  TwoParts c;
  Op more = exchange("more", {0, 1}, matrix(2, 1, {{0, 1, 1}}));
  more.key.layer = 0;
  more.key.stage = Stage::combine;
  c.plan.add(more);
  EXPECT_EQ(c.verdict(),
            "error: op 6 'more' moves 1 bytes but lists no rows\n"
            "hint: make the plan with explicit rows\n");
  std::get<Exchange>(c.plan.ops.back().work).traffic = matrix(2, 1, {});
  EXPECT_EQ(c.verdict(), "");
}

/// All choices of the one token, on GPU 0, go to expert 1 on GPU 1 and back as one row.
struct ManyChoices {
  explicit ManyChoices(std::vector<ExpertId> chosen, Choices carried)
      : routing{0, ids<GpuId>({0}), {std::move(chosen)}, &assignment} {
    LayerRouting computed = routing;
    std::erase_if(computed.chosen[0], [](ExpertId expert) { return expert.value < 0; });
    const Phases out = {{{GpuId(0), GpuId(1), TokenId(0), carried}}};
    LayerPlan(computed, Pass::forward, {"fc1"}).append(plan, out, mirrored(out));
  }
  std::string verdict() const {
    return error_of([&] { check_delivery(plan, {routing}); });
  }
  Assignment assignment{contiguous_placement(2, 2, 2), 2};
  LayerRouting routing;
  Plan plan{"choices", 2, {}};
};

TEST(DeliveryLimits, ThirtyTwoChoicesAreFollowed) {
  EXPECT_EQ(ManyChoices(std::vector<ExpertId>(32, ExpertId(1)), 0xffffffff).verdict(), "");
  EXPECT_EQ(ManyChoices(std::vector<ExpertId>(32, ExpertId(1)), 0x7fffffff).verdict(),
            "error: layer 0 forward: token 0 choice 31 (expert 1) never leaves GPU 0; it must "
            "reach slot 1 on GPU 1\n"
            "error: layer 0 forward: the result of token 0 choice 31 (expert 1) never leaves GPU "
            "1; it must return to GPU 0\n");
}

TEST(DeliveryLimits, ALostChoiceBehindADroppedOneIsFound) {
  const auto chosen = ids<ExpertId>({1, -1, 1});
  EXPECT_EQ(ManyChoices(chosen, 5).verdict(), "");
  EXPECT_EQ(ManyChoices(chosen, 1).verdict(),
            "error: layer 0 forward: token 0 choice 2 (expert 1) never leaves GPU 0; it must "
            "reach slot 1 on GPU 1\n"
            "error: layer 0 forward: the result of token 0 choice 2 (expert 1) never leaves GPU "
            "1; it must return to GPU 0\n");
  EXPECT_EQ(ManyChoices(chosen, 7).verdict(),
            "error: layer 0 forward: op 0 'dispatch' carries token 0 choice 1, which chose no "
            "expert\n"
            "error: layer 0 forward: op 3 'combine' carries token 0 choice 1, which chose no "
            "expert\n");
}

TEST(DeliveryLimits, AChoiceThatWasReportedHidesNoOther) {
  ManyChoices c(ids<ExpertId>({1, 1}), 1);
  auto& rows = exchange_in(c.plan, 0).rows;
  rows.push_back(rows[0]);  // choice 0 twice, choice 1 never
  fill_traffic(exchange_in(c.plan, 0), 2);
  exchange_in(c.plan, 3).rows[0].choices = 3;
  EXPECT_EQ(c.verdict(),
            "error: layer 0 forward: op 0 'dispatch' carries token 0 choice 0 (expert 1) twice\n"
            "error: layer 0 forward: token 0 choice 1 (expert 1) never leaves GPU 0; it must "
            "reach slot 1 on GPU 1\n");
}

TEST(DeliveryLimits, ASumOfThreeNamesTheTwoThatAreMissing) {
  ManyChoices c(ids<ExpertId>({1, 1, 1}), 7);
  Op split = c.plan.ops[3];
  exchange_in(c.plan, 3).rows[0].to = GpuId(1);
  fill_traffic(exchange_in(c.plan, 3), 2);
  std::get<Exchange>(split.work).rows = {{GpuId(1), GpuId(0), TokenId(0), 2}};
  fill_traffic(std::get<Exchange>(split.work), 2);
  c.plan.add(std::move(split));
  EXPECT_EQ(c.verdict(),
            "error: layer 0 forward: op 4 'combine' carries the result of token 0 choice 1 "
            "(expert 1) without choices 0,2, with which it was summed\n"
            "error: layer 0 forward: the result of token 0 choice 0 (expert 1) ends on GPU 1; it "
            "must return to GPU 0\n"
            "error: layer 0 forward: the result of token 0 choice 2 (expert 1) ends on GPU 1; it "
            "must return to GPU 0\n");
}

TEST(DeliveryLimits, RoutingOfTheFirstTokenIsChecked) {
  const TwoParts c;
  const auto bad = [&](auto change) {
    LayerRouting routing = c.routing;
    change(routing);
    return error_of([&] { check_delivery(c.plan, {routing}); });
  };
  EXPECT_EQ(bad([](LayerRouting& r) { r.source[0] = GpuId(2); }),
            "error: routing of layer 0: token 0 starts on GPU 2 of 2\n");
  EXPECT_EQ(bad([](LayerRouting& r) { r.source[0] = GpuId(-1); }),
            "error: routing of layer 0: token 0 starts on GPU -1 of 2\n");
  EXPECT_EQ(bad([](LayerRouting& r) { r.chosen[0][0] = ExpertId(2); }),
            "error: routing of layer 0: token 0 chose expert 2 of 2\n");
  EXPECT_EQ(bad([](LayerRouting& r) { r.chosen[0].resize(33); }),
            "error: routing of layer 0: token 0 makes 33 choices, the most is 32\n");
}

TEST(DeliveryLimits, TokensMoveInEitherPass) {
  TwoParts c;
  for (Op& op : c.plan.ops) op.key.pass = Pass::backward;
  EXPECT_EQ(c.verdict(), "");
  for (Op& op : c.plan.ops) {
    op.key.stage = Stage::other;
    if (op.exchange() != nullptr) op.stream = op.stream == Stream::ep ? Stream::param : Stream::dp;
  }
  EXPECT_EQ(c.verdict(), "error: the plan moves no tokens of layer 0\n");
}

}  // namespace
}  // namespace moesim
