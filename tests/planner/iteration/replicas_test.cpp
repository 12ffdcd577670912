// SPDX-License-Identifier: Apache-2.0
// What replicas exchange: gradients, new weights, and with ZeRO 3 weights for every pass.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/model/parameters.h"
#include "tests/error_of.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

class ReplicasTest : public testing::Test {
 protected:
  static constexpr int layers = 4, experts = 32;

  static Spec options(PipelineKind kind, int pp, int ep) {
    Spec o;
    o.spec.parallel = {.tp = 1, .pp = pp, .ep = ep, .etp = 1};
    o.spec.pipeline = kind;
    o.spec.overlap.all_to_all = merges_passes(kind);
    o.spec.global_batch = 16 / pp * 8;
    o.spec.sequence = 512;
    o.spec.distinct_microbatches = 1;
    return o;
  }
  Plan plan(const Spec& o) const {
    Planner planner(test::policy("alltoall"), topology_, model_, trace_, o);
    return planner.plan(0).plan;
  }
  static double sent(const Op& op) {
    return static_cast<double>(op.exchange()->traffic.off_diagonal().value);
  }
  /// Bytes that `holders` of a part of `parameters` move in a ring, `times` round.
  static double ring(double parameters, double holders, double times, double bytes) {
    return times * (holders - 1) * parameters * bytes;
  }
  double dense_parameters(int layer) const {
    const BlockKind ffn = model_.is_moe_layer(layer) ? BlockKind::moe : BlockKind::dense_ffn;
    double sum = 0;
    for (const BlockKind block : {BlockKind::attention, ffn}) {
      const BlockParameters p = block_parameters(model_, layer, block);
      sum += static_cast<double>(p.split + p.whole);
    }
    return sum;
  }
  double expert_parameters() const {
    return experts * static_cast<double>(model_.expert_parameters());
  }

  /// Bytes by what moves them in which pass, of one layer; and how often.
  struct Moved {
    double bytes = 0;
    int ops = 0;
  };
  using Moves = std::map<std::pair<OpKind, Pass>, Moved>;
  static Moves moves_of(const Plan& plan, int layer) {
    Moves moves;
    for (const Op& op : plan.ops) {
      if (op.exchange() == nullptr || op.key.layer != layer) continue;
      if (op.stream != Stream::dp && op.stream != Stream::param) continue;
      Moved& moved = moves[{op.key.kind, op.key.pass}];
      moved.bytes += sent(op);
      ++moved.ops;
    }
    return moves;
  }

  Topology topology_ = test::h100_nodes(2);
  MoeModel model_ = test::whole(layers);
  RoutingTrace trace_ = test::tokens_for(model_, 32 * 512, 512);
};

// Parts are whole bytes, which pads a few.
#define EXPECT_BYTES(actual, expected) EXPECT_NEAR((actual) / (expected), 1, 1e-3)

TEST_F(ReplicasTest, SumOnceOverBothCopiesOfDualPipe) {
  // Stages of 4 GPUs: 2 EP groups of 2. Stages 0 and 3 hold layers 0 and 3, 1 and 2 the others.
  const Plan iteration = plan(options(PipelineKind::dualpipe, 4, 2));
  for (int layer = 0; layer < layers; ++layer) {
    auto moves = moves_of(iteration, layer);
    const Moved& dense = moves[{OpKind::gradient_exchange, Pass::backward}];
    EXPECT_EQ(dense.ops, 1);
    EXPECT_BYTES(dense.bytes, ring(dense_parameters(layer), 8, 1, 2));
    const Moved& sum = moves[{OpKind::gradient_sum, Pass::backward}];
    if (layer == 0) continue;
    EXPECT_EQ(sum.ops, 1);
    EXPECT_BYTES(sum.bytes, ring(expert_parameters(), 4, 1, 2));
  }
  for (const Op& op : iteration.ops) {
    if (op.key.kind != OpKind::gradient_sum && op.key.kind != OpKind::optimizer) continue;
    ASSERT_EQ(op.group.size(), 8u);
    const bool outer = op.group.contains(GpuId(0));
    EXPECT_EQ(outer, op.group.contains(GpuId(15)));
    EXPECT_NE(outer, op.group.contains(GpuId(5)));
  }
}

TEST_F(ReplicasTest, SumCopiesThatHaveNoOtherReplica) {
  const Plan iteration = plan(options(PipelineKind::dualpipe, 4, 4));
  EXPECT_BYTES((moves_of(iteration, 2)[{OpKind::gradient_sum, Pass::backward}].bytes),
               ring(expert_parameters(), 2, 1, 2));
}

TEST_F(ReplicasTest, ShareWhatZeroSays) {
  Spec o = options(PipelineKind::one_f_one_b, 2, 4);
  const int microbatches = 8;
  const double dense = ring(dense_parameters(2), 8, 1, 2);
  const double expert = ring(expert_parameters(), 2, 1, 2);
  const auto gradients = std::pair(OpKind::gradient_exchange, Pass::backward);
  const auto sums = std::pair(OpKind::gradient_sum, Pass::backward);
  const auto weights = [](Pass pass) { return std::pair(OpKind::weight_exchange, pass); };
  const auto gathers = [](Pass pass) { return std::pair(OpKind::parameter_exchange, pass); };
  const auto moves = [&](int zero, bool overlap) {
    o.spec.zero = zero;
    o.spec.overlap.gradients = o.spec.overlap.parameters = overlap;
    return moves_of(plan(o), 2);
  };

  auto moved = moves(0, false);
  EXPECT_BYTES(moved[gradients].bytes, 2 * dense);
  EXPECT_BYTES(moved[sums].bytes, 2 * expert);
  EXPECT_EQ(moved.size(), 2u);

  moved = moves(1, false);
  EXPECT_BYTES(moved[gradients].bytes, dense);
  EXPECT_BYTES(moved[sums].bytes, expert);
  EXPECT_BYTES(moved[gathers(Pass::backward)].bytes, expert);
  EXPECT_EQ(moved.size(), 3u);  // new dense weights go round in one exchange of no layer

  moved = moves(1, true);
  EXPECT_BYTES(moved[gradients].bytes, dense);
  EXPECT_BYTES(moved[sums].bytes, expert);
  EXPECT_BYTES(moved[weights(Pass::forward)].bytes, dense);
  EXPECT_BYTES(moved[gathers(Pass::forward)].bytes, expert);
  EXPECT_EQ(moved[weights(Pass::forward)].ops, 1);
  EXPECT_EQ(moved.size(), 4u);

  moved = moves(2, false);
  EXPECT_BYTES(moved[gradients].bytes, microbatches * dense);
  EXPECT_BYTES(moved[sums].bytes, microbatches * expert);
  EXPECT_BYTES(moved[gathers(Pass::backward)].bytes, expert);
  EXPECT_EQ(moved.size(), 3u);

  for (const bool overlap : {false, true}) {
    moved = moves(3, overlap);
    EXPECT_BYTES(moved[gradients].bytes, microbatches * dense);
    EXPECT_BYTES(moved[sums].bytes, microbatches * expert);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      EXPECT_BYTES(moved[weights(pass)].bytes, microbatches * dense);
      EXPECT_BYTES(moved[gathers(pass)].bytes, microbatches * expert);
      EXPECT_EQ(moved[weights(pass)].ops, microbatches);
    }
    EXPECT_EQ(moved.size(), 6u);
  }
}

// Stages of 8 GPUs, in two copies of 4 that hold all state: experts twice in each copy.
TEST_F(ReplicasTest, ShareStateWithinCopiesAndSumBetweenThem) {
  Spec o = options(PipelineKind::one_f_one_b, 2, 2);
  o.spec.dp_replicate = 2;
  const int microbatches = 8;
  const double dense = 2 * ring(dense_parameters(2), 4, 1, 2);
  const double dense_between = 4 * ring(dense_parameters(2) / 4, 2, 2, 2);
  const double expert = 2 * ring(expert_parameters(), 2, 1, 2);
  const double expert_between = 2 * ring(expert_parameters() / 2, 2, 2, 2);
  const auto gradients = std::pair(OpKind::gradient_exchange, Pass::backward);
  const auto sums = std::pair(OpKind::gradient_sum, Pass::backward);
  const auto moves = [&](int zero) {
    o.spec.zero = zero;
    return moves_of(plan(o), 2);
  };

  auto moved = moves(1);
  EXPECT_BYTES(moved[gradients].bytes, dense + dense_between);
  EXPECT_BYTES(moved[sums].bytes, expert + expert_between);
  EXPECT_BYTES((moved[{OpKind::parameter_exchange, Pass::backward}].bytes), expert);
  EXPECT_EQ(moved[gradients].ops, 2);
  EXPECT_EQ(moved.size(), 3u);

  moved = moves(3);
  EXPECT_BYTES(moved[gradients].bytes, microbatches * (dense + dense_between));
  EXPECT_BYTES(moved[sums].bytes, microbatches * (expert + expert_between));
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    EXPECT_BYTES((moved[{OpKind::weight_exchange, pass}].bytes), microbatches * dense);
    EXPECT_BYTES((moved[{OpKind::parameter_exchange, pass}].bytes), microbatches * expert);
  }
}

TEST_F(ReplicasTest, ExchangesOfCopiesAndPartsHaveKeysOfTheirOwn) {
  Spec o = options(PipelineKind::one_f_one_b, 1, 2);
  o.spec.zero = 3;
  o.spec.dp_replicate = 2;
  std::set<OpKey> keys;
  int ops = 0;
  for (const Op& op : plan(o).ops) {
    if (op.stream != Stream::dp && op.stream != Stream::param) continue;
    keys.insert(op.key);
    ++ops;
  }
  EXPECT_EQ(std::ssize(keys), ops);
}

TEST_F(ReplicasTest, CopiesOfOneGroupExchangeOnlyBetweenThem) {
  Spec o = options(PipelineKind::one_f_one_b, 2, 4);
  o.spec.dp_replicate = 2;  // each copy is one EP group, and has each expert once
  o.spec.zero = 3;
  auto moved = moves_of(plan(o), 2);
  const auto sums = std::pair(OpKind::gradient_sum, Pass::backward);
  EXPECT_BYTES(moved[sums].bytes, 8 * ring(expert_parameters(), 2, 2, 2));
  EXPECT_EQ(moved.count({OpKind::parameter_exchange, Pass::forward}), 0u);
}

TEST_F(ReplicasTest, CopiesHaveWholeReplicasAndExperts) {
  const auto refusal = [&](int ep, int copies, const char* order) {
    Spec o = options(PipelineKind::one_f_one_b, 1, ep);
    o.spec.parallel.order = order;
    o.spec.dp_replicate = copies;
    return error_of([&] { plan(o); });
  };
  EXPECT_NE(refusal(4, 3, "tp-cp-ep-dp-pp").find("dp_replicate = 3 does not divide dp = 16"),
            std::string::npos);
  EXPECT_NE(refusal(8, 4, "tp-cp-ep-dp-pp").find("dp_replicate = 4 does not divide edp = 2"),
            std::string::npos);
  EXPECT_NE(refusal(8, 2, "tp-cp-dp-ep-pp").find("cuts groups of expert parallelism"),
            std::string::npos);
  EXPECT_EQ(refusal(8, 2, "tp-cp-ep-dp-pp"), "");
}

TEST_F(ReplicasTest, SumOnRingsInTwoLevelsOrTrees) {
  // Two stages of 8 GPUs, each on a node of its own, or one of both nodes.
  const auto between_nodes = [](const Op& op) {
    const ByteMatrix traffic = op.traffic().moved();
    double bytes = 0;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      for (const auto& entry : traffic.row(GpuId(static_cast<std::int64_t>(m)))) {
        const bool leaves = op.group[m].value / 8 != op.group[entry.to.index()].value / 8;
        if (leaves) bytes += static_cast<double>(traffic.bytes(entry).value);
      }
    }
    return bytes;
  };
  const double gradients = 2 * dense_parameters(2);
  const auto sum_of = [&](ReplicaCollective collective, int zero) {
    Spec o = options(PipelineKind::one_f_one_b, 1, 8);
    o.spec.collective = collective;
    o.spec.zero = zero;
    const Plan iteration = plan(o);
    const auto of_layer = [](const Op& op) {
      return op.key.kind == OpKind::gradient_exchange && op.key.layer == 2;
    };
    return *std::ranges::find_if(iteration.ops, of_layer);
  };
  for (const int zero : {0, 1}) {
    const double times = zero == 0 ? 2 : 1;
    const Op ring = sum_of(ReplicaCollective::ring, zero);
    const Op levels = sum_of(ReplicaCollective::two_level, zero);
    EXPECT_BYTES(sent(ring), times * 15 * gradients);
    EXPECT_EQ(ring.exchange()->rounds, times * 15);
    EXPECT_BYTES(sent(levels), times * 15 * gradients);
    EXPECT_EQ(levels.exchange()->rounds, times * (7 + 1));
    EXPECT_BYTES(between_nodes(levels), times * 2 * gradients / 2);
  }
  const Op tree = sum_of(ReplicaCollective::tree, 0);
  EXPECT_BYTES(sent(tree), 2 * 15 * gradients);
  EXPECT_EQ(tree.exchange()->rounds, 2 * (1 + 7));
}

TEST_F(ReplicasTest, GradientsAreOfTheirMicrobatchWhereEachHasItsSum) {
  Spec o = options(PipelineKind::one_f_one_b, 2, 4);
  for (const int zero : {1, 2}) {
    o.spec.zero = zero;
    std::set<int> microbatches;
    for (const Op& op : plan(o).ops) {
      if (op.key.kind == OpKind::gradient_exchange) microbatches.insert(op.key.microbatch);
    }
    EXPECT_EQ(microbatches.size(), zero == 1 ? 1u : 8u);
    EXPECT_EQ(microbatches.contains(7), zero == 2);
  }
}

TEST_F(ReplicasTest, KernelsWaitForTheirWeights) {
  for (const int zero : {1, 3}) {
    Spec o = options(PipelineKind::one_f_one_b, 2, 4);
    o.spec.zero = zero;
    o.spec.overlap.gradients = o.spec.overlap.parameters = true;
    const Plan iteration = plan(o);
    const Timeline timeline = make_port_backend(topology_, test::h100s(16))->run(iteration);
    // [layer, pass, microbatch] when its weights are there
    std::map<std::tuple<int, Pass, int>, double> gathered;
    int held = 0, ahead = 0;
    double kernel_ends = 0;
    for (std::size_t i = 0; i < iteration.ops.size(); ++i) {
      const Op& op = iteration.ops[i];
      if (op.key.layer < 0) continue;
      if (op.key.stage == Stage::gather && op.exchange() != nullptr) {
        double& end = gathered[{op.key.layer, op.key.pass, op.key.microbatch}];
        end = std::max(end, timeline.ops[i].front().end.value);
        ahead += timeline.ops[i].front().start.value < kernel_ends ? 1 : 0;
        continue;
      }
      if (op.kernels() == nullptr || op.group.front() != GpuId(0)) continue;
      kernel_ends = std::max(kernel_ends, timeline.ops[i].front().end.value);
      if (op.key.kind == OpKind::head || op.key.kind == OpKind::embedding) continue;
      const auto of_pass = gathered.find({op.key.layer, op.key.pass, op.key.microbatch});
      if (of_pass == gathered.end() || op.key.kind == OpKind::norm) continue;
      EXPECT_GE(timeline.ops[i].front().start.value, of_pass->second) << op.label;
      ++held;
    }
    EXPECT_GT(held, 10);
    if (zero == 3) {
      EXPECT_GT(ahead, 20);
    }
  }
}

TEST_F(ReplicasTest, UpdateTheirPartOfDenseParametersRoundedUp) {
  const Topology topology = test::h100_nodes(3);
  const RoutingTrace trace = test::tokens_for(model_, 48 * 512, 512);
  std::int64_t dense = 0;
  const auto add = [&](int layer, BlockKind block) {
    const BlockParameters p = block_parameters(model_, layer, block);
    dense += p.split + p.whole;
  };
  add(0, BlockKind::embedding);
  add(0, BlockKind::head);
  for (int layer = 0; layer < layers; ++layer) {
    add(layer, BlockKind::attention);
    add(layer, model_.is_moe_layer(layer) ? BlockKind::moe : BlockKind::dense_ffn);
  }
  ASSERT_NE(dense % 24, 0);
  // 3 EP groups of 8: a GPU has 4 experts of each of 3 layers.
  const std::int64_t routed = 3LL * 4 * model_.expert_parameters();
  for (const int zero : {0, 1}) {
    Spec o = options(PipelineKind::one_f_one_b, 1, 8);
    o.spec.global_batch = 24;
    o.spec.zero = zero;
    Planner planner(test::policy("alltoall"), topology, model_, trace, o);
    const Plan iteration = planner.plan(0).plan;
    const auto update = std::ranges::find_if(
        iteration.ops, [](const Op& op) { return op.key.kind == OpKind::optimizer; });
    ASSERT_NE(update, iteration.ops.end());
    const std::int64_t own = zero == 0 ? dense + routed : (dense + 23) / 24 + routed / 3;
    for (std::size_t m = 0; m < update->group.size(); ++m) {
      const auto& bytes = std::get<MemoryBound>(update->kernels()->of(m));
      EXPECT_EQ(bytes.read, Bytes(own * 14)) << zero;     // bf16 gradient and state
      EXPECT_EQ(bytes.written, Bytes(own * 14)) << zero;  // the latter three, and the weight
    }
  }
}

// Gradients of four bytes go to the shards, weights of two come back after the update.
TEST_F(ReplicasTest, ShardsOfExpertsComeBackAsWeights) {
  Spec o = options(PipelineKind::one_f_one_b, 2, 4);
  o.spec.zero = 1;
  o.state.gradient = 4;
  const Plan iteration = plan(o);
  auto moved = moves_of(iteration, 2);
  EXPECT_BYTES((moved[{OpKind::gradient_sum, Pass::backward}].bytes),
               ring(expert_parameters(), 2, 1, 4));
  EXPECT_BYTES((moved[{OpKind::parameter_exchange, Pass::backward}].bytes),
               ring(expert_parameters(), 2, 1, 2));
  for (const Op& op : iteration.ops) {
    if (op.key.kind != OpKind::parameter_exchange) continue;
    ASSERT_EQ(op.after.size(), 1u);
    EXPECT_EQ(iteration[op.after.front()].key.kind, OpKind::optimizer);
  }
}

TEST_F(ReplicasTest, ZeroTwoAndThreeNeedOneCopyOfAStage) {
  Spec o = options(PipelineKind::dualpipe, 4, 2);
  o.spec.zero = 2;
  EXPECT_THROW(plan(o), Error);
}

}  // namespace
}  // namespace moesim
