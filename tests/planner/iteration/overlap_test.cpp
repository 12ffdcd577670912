// SPDX-License-Identifier: Apache-2.0
// What overlap may and may not do: no deadlock, no loss, no time below what must follow each other.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "sim/planner/iteration/chunk_pass.h"
#include "sim/report/iteration_metrics.h"
#include "tests/planner/iteration/fixtures.h"
#include "tests/scenario/time_properties.h"

namespace moesim {
namespace {

class OverlapTest : public testing::Test {
 protected:
  Plan plan(const Spec& o) const {
    Planner planner(test::policy("alltoall"), topology_, model_, trace_, o);
    return planner.plan(0).plan;
  }
  Timeline run(const Plan& plan) const {
    return make_port_backend(topology_, test::h100s(16))->run(plan);
  }

  /// The longest chain of kernels that wait for each other, through exchanges that take no time.
  static double longest_kernel_chain(const Plan& plan, const GpuModel& gpu) {
    std::vector<std::vector<double>> ends(plan.ops.size());  // [op][member]
    const auto before = dependencies(plan);
    double last = 0;
    for (const OpId id : topological_order(plan)) {
      const Op& op = plan[id];
      auto& end = ends[id.index()];
      end.assign(op.group.size(), 0);
      for (const OpId dependency : before[id.index()]) {
        const Group& other = plan[dependency].group;
        for (std::size_t m = 0; m < op.group.size(); ++m) {
          const std::size_t at = other.member(op.group[m]);
          if (at < other.size()) end[m] = std::max(end[m], ends[dependency.index()][at]);
        }
      }
      if (op.exchange() != nullptr) {
        std::ranges::fill(end, *std::ranges::max_element(end));
      } else {
        for (std::size_t m = 0; m < end.size(); ++m) {
          end[m] += gpu.time(op.kernels()->of(m), op.key.type()).value;
        }
      }
      last = std::max(last, *std::ranges::max_element(end));
    }
    return last;
  }

  Topology topology_ = test::h100_nodes(2);
  MoeModel model_ = test::whole(8);
  RoutingTrace trace_ = test::tokens_for(model_, 32 * 512, 512);
};

TEST_F(OverlapTest, NothingDeadlocksOrBeatsItsCriticalPath) {
  std::mt19937 random(7);
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  const auto gpu = test::h100s(1).front();
  for (int i = 0; i < 24; ++i) {
    Spec o;
    o.spec.pipeline = static_cast<PipelineKind>(i % 8);
    const PipelineKind kind = o.spec.pipeline;
    const bool chunks =
        kind == PipelineKind::interleaved || kind == PipelineKind::combined_interleaved;
    o.spec.parallel.pp = one_of({2, 4});
    o.spec.parallel.tp = one_of({1, 2});
    o.spec.parallel.vpp = chunks ? 2 : 1;
    o.spec.parallel.ep = one_of({1, 2, 4});
    o.spec.parallel.etp = 1;
    const int dp = 16 / o.spec.parallel.pp / o.spec.parallel.tp;
    o.spec.global_batch = dp * 8;
    o.spec.sequence = 256;
    o.spec.distinct_microbatches = 1;
    o.spec.zero = kind == PipelineKind::dualpipe ? one_of({0, 1}) : one_of({0, 1, 2, 3});
    o.spec.overlap.gradients = one_of({0, 1}) == 1;
    o.spec.overlap.parameters = o.spec.overlap.gradients && o.spec.zero > 0 && one_of({0, 1}) == 1;
    o.spec.overlap.all_to_all = merges_passes(kind) && one_of({0, 1}) == 1;
    o.spec.overlap.delay_wgrad = o.spec.overlap.all_to_all && one_of({0, 1}) == 1;
    if (one_of({0, 1}) == 1) o.spec.recompute = {static_cast<RecomputeModule>(random() % 8)};
    SCOPED_TRACE(fmt::format("case {} {}", i, name_of(kind)));
    const Plan iteration = plan(o);
    const Timeline timeline = run(iteration);
    const double alone = longest_kernel_chain(iteration, *gpu);
    EXPECT_GE(timeline.makespan.value, alone * (1 - 1e-9));
    const GpuModels gpus = test::h100s(16);
    EXPECT_NEAR(without_exchanges(iteration, gpus, true).makespan.value, alone, 1e-9 * alone);
    const PricedPlan priced(iteration, topology_);
    expect_path_is_the_makespan(priced, timeline, gpus);
    expect_within_bounds(priced, timeline, gpus, {});
  }
}

TEST_F(OverlapTest, OfGradientsAndOfPassesCostsNothing) {
  for (const PipelineKind kind :
       {PipelineKind::one_f_one_b, PipelineKind::combined, PipelineKind::zb1p}) {
    Spec o;
    o.spec.parallel = {.pp = 2, .ep = 4, .etp = 1};
    o.spec.pipeline = kind;
    o.spec.global_batch = 64;
    o.spec.sequence = 512;
    o.spec.distinct_microbatches = 2;
    const double serial = run(plan(o)).makespan.value;
    o.spec.overlap.gradients = true;
    const double gradients = run(plan(o)).makespan.value;
    EXPECT_LE(gradients, serial * (1 + 1e-9)) << name_of(kind);
    o.spec.overlap.all_to_all = merges_passes(kind);
    const double merged = run(plan(o)).makespan.value;
    EXPECT_LE(merged, gradients * (1 + 1e-9)) << name_of(kind);
    if (merges_passes(kind)) {
      EXPECT_LT(merged, gradients * 0.999);
    }
  }
}

/// Times of the pieces of a layer, in us.
struct PairTimes {
  int attention, expert_gradients, expert_weights, experts, attention_gradients, attention_weights,
      exchange;
};

/// A forward and a backward of equal layers on two GPUs, whose pieces take given times.
class LayerPair : public OverlapTest {
 protected:
  static constexpr std::int64_t bytes_per_us = 50'000;  // 50 GB/s

  struct Passes {
    explicit Passes(Plan& plan) : forward(plan), backward(plan), weights(plan) {}
    OpChain forward, backward, weights;
  };
  static void compute(OpChain& chain, int us) {
    if (us == 0) return;
    chain.compute(
        {"work", {}, Stream::compute, Group::first(2), {}, Kernels(Kernel(HostWork{us * 1000}))});
  }
  static void exchange(OpChain& chain, int us) {
    const std::int64_t bytes = us * bytes_per_us;
    chain.exchange({"tokens",
                    {},
                    Stream::ep,
                    Group::first(2),
                    {},
                    Exchange{ByteMatrix::from_dense(2, std::vector{0L, bytes, bytes, 0L}), {}}});
  }

  /// Between the ends of so many layers and one more, in us.
  double makespan(const PairTimes& t, int layers) const {
    Plan plan;
    plan.gpus = 2;
    Passes passes(plan);
    PassPieces forward{[] {}, {}, [] {}}, backward = forward, weights = forward;
    const auto piece = [](LayerPart part, OpChain& chain, int us) {
      const bool computes = lane_of(part) == LayerLane::compute;
      return PassPiece{
          part, [&chain, us, computes] { computes ? compute(chain, us) : exchange(chain, us); }};
    };
    for (int i = 0; i < layers; ++i) {
      OpChain &f = passes.forward, &b = passes.backward, &w = passes.weights;
      forward.layers.push_back(
          {piece(LayerPart::attention, f, t.attention), piece(LayerPart::dispatch, f, t.exchange),
           piece(LayerPart::mlp, f, t.experts), piece(LayerPart::combine, f, t.exchange)});
      backward.layers.push_back({piece(LayerPart::combine, b, t.exchange),
                                 piece(LayerPart::mlp, b, t.expert_gradients),
                                 piece(LayerPart::dispatch, b, t.exchange),
                                 piece(LayerPart::attention, b, t.attention_gradients)});
      weights.layers.push_back({piece(LayerPart::mlp, w, t.expert_weights),
                                piece(LayerPart::attention, w, t.attention_weights)});
    }
    const bool apart = t.expert_weights > 0;
    add_merged(forward, backward, apart ? &weights : nullptr);
    return run_on_free_pair(plan);
  }
  static double run_on_free_pair(const Plan& plan) {
    Topology::Parts parts;
    parts.name = "pair";
    parts.classes = {{"port", Tier::fabric}};
    Level cluster{"cluster", {0, 0}, 1};
    for (int g = 0; g < 2; ++g) {
      parts.vertices.push_back({fmt::format("gpu{}", g), VertexKind::gpu, g});
      parts.gpus.push_back(VertexId(g));
      parts.gpu_model.push_back("test");
      parts.links.push_back({.from = VertexId(g),
                             .to = VertexId(1 - g),
                             .bandwidth = BytesPerSecond(bytes_per_us * 1e6),
                             .latency = Seconds(0)});
    }
    parts.levels = {std::move(cluster)};
    const Topology pair(std::move(parts));
    return make_port_backend(pair, test::h100s(2))->run(plan).makespan.value * 1e6;
  }
};

TEST_F(LayerPair, TakesWhatTheLayerRecurrenceSays) {
  const auto periods = [&](const PairTimes& t) {
    std::vector<double> result;
    for (const int layers : {1, 4, 5}) {
      result.push_back(makespan(t, layers + 1) - makespan(t, layers));
    }
    return result;
  };
  const auto all_are = [](double us) { return testing::Each(testing::DoubleNear(us, 0.01)); };
  EXPECT_THAT(periods({2, 2, 2, 2, 2, 2, 2}), all_are(12));
  EXPECT_THAT(periods({2, 2, 2, 2, 4, 2, 1}), all_are(14));
  EXPECT_THAT(periods({2, 2, 2, 2, 2, 2, 3}), all_are(12));
  EXPECT_THAT(periods({2, 2, 2, 2, 2, 2, 4}), all_are(16));
  EXPECT_THAT(periods({2, 4, 0, 2, 4, 0, 3}), all_are(14));
}

}  // namespace
}  // namespace moesim
