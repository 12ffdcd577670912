// SPDX-License-Identifier: Apache-2.0
// Experts divided over tensor groups: who exchanges what, by hand and by brute force.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sim/report/iteration_metrics.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

struct TensorCase {
  int tp, pp, ep, etp;
  const char* order = "tp-cp-ep-dp-pp";
};

class ExpertTensorsTest : public testing::TestWithParam<TensorCase> {
 protected:
  static constexpr int gpus = 16, sequence = 512, top_k = 4;
  static constexpr std::int64_t row = 1024 * 2;

  Spec options() const {
    const TensorCase c = GetParam();
    Spec o;
    o.spec.parallel = {.tp = c.tp, .pp = c.pp, .ep = c.ep, .etp = c.etp, .order = c.order};
    o.spec.global_batch = gpus / c.tp / c.pp * 2;
    o.spec.sequence = sequence;
    return o;
  }
  int edp() const { return gpus / (GetParam().pp * GetParam().ep * GetParam().etp); }
  /// Traffic between GPUs of the plan by exchanges of a kind in a layer's forward pass of the first
  /// microbatch.
  using Pairs = std::map<std::pair<GpuId, GpuId>, std::int64_t>;
  static Pairs moved(const Plan& plan, int layer, OpKind kind, Stage stage, Pass pass) {
    Pairs pairs;
    for (const Op& op : plan.ops) {
      const bool same = op.key.layer == layer && op.key.microbatch == 0 && op.key.pass == pass;
      if (!same || op.key.kind != kind || op.key.stage != stage) continue;
      const ByteMatrix traffic = op.traffic().moved();
      for (std::size_t m = 0; m < op.group.size(); ++m) {
        for (const auto& entry : traffic.row(GpuId(static_cast<std::int64_t>(m)))) {
          pairs[{op.group[m], op.group[entry.to.index()]}] += traffic.bytes(entry).value;
        }
      }
    }
    return pairs;
  }
  static std::int64_t in(const Pairs& pairs, GpuId gpu) {
    std::int64_t sum = 0;
    for (const auto& [pair, bytes] : pairs) sum += pair.second == gpu ? bytes : 0;
    return sum;
  }
  static std::int64_t out(const Pairs& pairs, GpuId gpu) {
    std::int64_t sum = 0;
    for (const auto& [pair, bytes] : pairs) sum += pair.first == gpu ? bytes : 0;
    return sum;
  }

  Topology topology_ = test::h100_nodes(2);
  MoeModel model_ = test::whole(4);
  RoutingTrace trace_ = test::tokens_for(model_, 32 * sequence, sequence);
};

/// What a dispatch brings, by a walk over every choice of every token.
TEST_P(ExpertTensorsTest, ChoicesGoToTheGpusOfOnePart) {
  Planner planner(test::policy("alltoall"), topology_, model_, trace_, options());
  const Plan plan = planner.plan(0).plan;
  const Grid& grid = planner.shape().grid;
  const int layer = 1, per_rank = model_.experts / GetParam().ep;
  const int stage = planner.shape().layers.parts(0).size() > 2 ? 0 : GetParam().pp - 1;
  const Batch& batch = planner.microbatches().of(0, 0);
  const auto ranks = grid.stage_by(ParallelAxis::ep, stage);
  const IdRows ids = trace_.step(batch.step).ids(recorded_layer(trace_.info(), model_, layer));
  Pairs expected;
  std::map<GpuId, std::int64_t> delivered;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const GpuId from = ranks[r];
    std::int64_t tokens = 0;
    for (const TokenRun& run : batch.ranks[r]) {
      tokens += run.count;
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        for (int k = 0; k < top_k; ++k) {
          const int home = ids.at(t, k) / per_rank;  // its rank in the EP group
          GpuId to(-1);
          for (const GpuId gpu : ranks) {
            const GridPlace a = grid.place(gpu), b = grid.place(from);
            if (a.ep == home && a.etp == b.etp && a.edp == b.edp) to = gpu;
          }
          expected[{from, to}] += row;
          delivered[to] += row;
        }
      }
    }
    EXPECT_EQ(tokens, sequence / GetParam().tp);
  }
  EXPECT_EQ(moved(plan, layer, OpKind::token_exchange, Stage::dispatch, Pass::forward), expected);

  // Every GPU is sent what the others of its ETP group were delivered, and gives as much back.
  const Pairs gathered =
      moved(plan, layer, OpKind::tensor_exchange, Stage::dispatch, Pass::forward);
  const Pairs scattered =
      moved(plan, layer, OpKind::tensor_exchange, Stage::combine, Pass::forward);
  std::int64_t total = 0;
  for (const GpuId gpu : ranks) {
    std::int64_t others = 0;
    for (const GpuId other : ranks) {
      const GridPlace a = grid.place(gpu), b = grid.place(other);
      if (other != gpu && a.ep == b.ep && a.edp == b.edp) others += delivered[other];
    }
    EXPECT_EQ(in(gathered, gpu), others);
    EXPECT_EQ(out(scattered, gpu), others);
    total += others;
  }
  const std::int64_t tokens = std::int64_t{sequence} * gpus / GetParam().tp / GetParam().pp;
  EXPECT_EQ(total, (GetParam().etp - 1) * tokens * top_k * row);
  for (const auto& [pair, bytes] : gathered) {
    EXPECT_EQ(scattered.at({pair.second, pair.first}), bytes);
  }
  // The backward pass is the mirror: gradients of sums are gathered, those of rows scattered.
  EXPECT_EQ(moved(plan, layer, OpKind::tensor_exchange, Stage::dispatch, Pass::backward), gathered);
  EXPECT_EQ(moved(plan, layer, OpKind::tensor_exchange, Stage::combine, Pass::backward), scattered);
}

TEST_P(ExpertTensorsTest, ExchangesFollowEachOther) {
  Planner planner(test::policy("alltoall"), topology_, model_, trace_, options());
  const Plan plan = planner.plan(0).plan;
  const Timeline timeline = make_port_backend(topology_, test::h100s(gpus))->run(plan);
  // [GPU, layer, pass, microbatch]: starts and ends of dispatch, gather, fc1, scatter, combine
  std::map<std::tuple<GpuId, int, Pass, int>, std::map<int, Interval>> steps;
  const auto step_of = [](const OpKey& key) {
    if (key.kind == OpKind::token_exchange) return key.stage == Stage::dispatch ? 0 : 4;
    if (key.kind == OpKind::tensor_exchange && key.stage == Stage::dispatch) return 1;
    if (key.kind == OpKind::tensor_exchange && key.stage == Stage::combine) return 3;
    return key.kind == OpKind::fc1 && key.role != Role::wgrad ? 2 : -1;
  };
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (step_of(op.key) < 0) continue;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      steps[{op.group[m], op.key.layer, op.key.pass, op.key.microbatch}][step_of(op.key)] =
          timeline.ops[i][m];
    }
  }
  for (const auto& [where, intervals] : steps) {
    EXPECT_EQ(intervals.size(), GetParam().etp > 1 ? 5u : 3u);
    double ended = 0;
    for (const auto& [step, interval] : intervals) {
      EXPECT_GE(interval.end.value, ended) << step;
      if (step == 2) {
        EXPECT_GE(interval.start.value, ended);
      }
      ended = interval.end.value;
    }
  }
}

TEST_P(ExpertTensorsTest, GpusHoldTheModelOncePerReplica) {
  const MoeModel tiny = test::tiny();
  const RoutingTrace trace = test::tokens_for(tiny, 32 * sequence, sequence);
  Planner planner(test::policy("alltoall"), topology_, tiny, trace, options());
  const PlannedStep plan = planner.plan(0);
  std::int64_t held = 0;
  for (const MemoryPeak& peak : plan.memory.peaks) held += peak.use.of(MemoryPart::weights).value;
  const std::int64_t experts = std::int64_t{1} * tiny.experts * std::ssize(tiny.moe_layers);
  EXPECT_EQ(held, experts * tiny.expert_parameters() * size_of(tiny.weights) * edp());

  // Gradients go round among the ranks that hold the same part of the same experts.
  const Grid& grid = planner.shape().grid;
  double summed = 0, updated = 0;
  for (const Op& op : plan.plan.ops) {
    if (op.key.kind == OpKind::optimizer) {
      for (std::size_t m = 0; m < op.group.size(); ++m) {
        updated +=
            static_cast<double>(std::get<MemoryBound>(op.kernels()->of(m)).read.value) / (2 + 12);
      }
    }
    if (op.key.kind != OpKind::gradient_sum) continue;
    const ByteMatrix traffic = op.traffic().moved();
    summed += static_cast<double>(traffic.off_diagonal().value);
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const GridPlace a = grid.place(op.group[m]);
      for (const auto& entry : traffic.row(GpuId(static_cast<std::int64_t>(m)))) {
        const GridPlace b = grid.place(op.group[entry.to.index()]);
        EXPECT_TRUE(a.ep == b.ep && a.etp == b.etp && a.pp == b.pp);
      }
    }
  }
  const auto parameters = static_cast<double>(experts * tiny.expert_parameters());
  EXPECT_NEAR(summed, 1.0 * (edp() - 1) * parameters * 2, 1e-3 * parameters);
  EXPECT_NEAR(updated / parameters, 1, 1e-9);  // ZeRO 1: every parameter by one GPU
}

std::string name_of_tensor_case(const testing::TestParamInfo<TensorCase>& of) {
  const TensorCase& c = of.param;
  return fmt::format("tp{}_pp{}_ep{}_etp{}_{}", c.tp, c.pp, c.ep, c.etp, of.index);
}

INSTANTIATE_TEST_SUITE_P(
    Grids, ExpertTensorsTest,
    testing::Values(TensorCase{2, 1, 4, 2}, TensorCase{1, 1, 4, 2}, TensorCase{2, 2, 2, 4},
                    TensorCase{4, 1, 2, 4}, TensorCase{8, 1, 1, 8}, TensorCase{2, 1, 8, 2},
                    TensorCase{4, 2, 8, 1}, TensorCase{1, 2, 2, 1, "tp-cp-dp-ep-pp"},
                    TensorCase{2, 1, 2, 2, "ep-tp-dp-pp"}, TensorCase{2, 2, 2, 2, "tp-dp-ep-pp"}),
    name_of_tensor_case);

class SharedExperts : public testing::Test {
 protected:
  PlannedStep plan(const std::string& system, int etp) const {
    Spec o;
    o.spec.parallel = {.tp = 2, .ep = 4, .etp = etp};
    o.spec.global_batch = 16;
    o.spec.sequence = 512;
    Planner planner(test::policy(system), topology_, model_, trace_, o);
    planner.warm_up(0);
    return planner.plan(1);
  }
  Topology topology_ = test::h100_nodes(2);
  MoeModel model_ = test::whole(3);
  RoutingTrace trace_ = test::tokens_for(model_, 32 * 512, 512);
};

TEST_F(SharedExperts, ArePlannedFromTheLoadsOfAllTheirParts) {
  for (const char* system : {"eplb", "fastermoe", "laer"})
    EXPECT_NO_THROW(plan(system, 2)) << system;
}

TEST_F(SharedExperts, AreRefusedWhereTheirPartsLieApart) {
  try {
    plan("fsdp-ep", 2);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("etp > 1"));
  }
}

TEST_F(SharedExperts, AreAsWideAsThePartsThatTheyAreCutInto) {
  model_.expert_ffn = 510;
  EXPECT_NO_THROW(plan("alltoall", 2));
  try {
    plan("alltoall", 4);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                testing::HasSubstr("experts of width 510 cannot be divided over etp = 4"));
  }
}

}  // namespace
}  // namespace moesim
