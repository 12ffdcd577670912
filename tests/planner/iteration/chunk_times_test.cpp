// SPDX-License-Identifier: Apache-2.0
// Layers in chunks of their tokens take the times of Tutel, FSMoE and ScheMoE.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/planner/iteration/chunks.h"

namespace moesim {
namespace {

using test::even_trace;
using test::in_chunks;

/// Two nodes of some GPUs, links that cost nothing but their bytes.
Topology bare_pair(int gpus) {
  return std::move(
      parse_topology(
          fmt::format(
              "source: test\nexchange_overhead: 0 us\nnodes: 2\nnode:\n  gpu: h100-sxm\n"
              "  gpus: {0}\n  nvlink: {{kind: switch, bandwidth: 200 GB/s, latency: 0 us}}\n"
              "  nics: {{count: {0}, bandwidth: 50 GB/s, latency: 0 us}}\n"
              "fabric: {{kind: switch}}\n",
              gpus),
          "test.yaml")
          .topology);
}

class ChunkTimes : public testing::Test {
 protected:
  /// Start of the first and end of the last of some ops on GPU 0.
  struct Span {
    double first = 1e9, last = 0, sum = 0;
    int ops = 0;
  };
  std::map<std::string, Span> spans(const Plan& plan, const Timeline& timeline) const {
    std::map<std::string, Span> spans;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const Op& op = plan.ops[i];
      if (op.group.front() != GpuId(0) || op.key.pass != Pass::forward) continue;
      const OpKind kind = op.key.kind;
      const bool gathers = kind == OpKind::tensor_exchange;
      const bool moves = kind == OpKind::token_exchange || kind == OpKind::relay || gathers;
      const bool computes = kind == OpKind::sort || kind == OpKind::fc1 || kind == OpKind::fc2 ||
                            kind == OpKind::activation || kind == OpKind::reduce;
      if (!moves && !computes) continue;
      Span& span =
          spans[moves ? fmt::format("{}{}", gathers ? "tensor-" : "", name_of(op.key.stage)) : "x"];
      double start = 0;  // of an exchange: when all have joined
      for (const Interval& member : timeline.ops[i]) start = std::max(start, member.start.value);
      if (computes) start = timeline.ops[i][0].start.value;
      span.first = std::min(span.first, start);
      span.last = std::max(span.last, timeline.ops[i][0].end.value);
      span.sum += timeline.ops[i][0].end.value - start;
      ++span.ops;
    }
    return spans;
  }
  /// The forward pass of a layer of small and of large experts on two nodes of two GPUs, in 1 to 8
  /// chunks.
  void for_each_layer(
      const std::string& dispatch,
      const std::function<void(int chunks, const Plan&, const Timeline&)>& check) const {
    const Topology topology = bare_pair(2);
    MoeModel model = test::tiny();
    model.top_k = 1;
    const std::int64_t tokens = 256 * model.experts;
    const RoutingTrace trace = even_trace(model, 4 * tokens);
    PlannerOptions options;
    options.ep = 4;
    options.layers = {0};
    options.backward = false;
    const Batches batches = make_batches(trace, {4, tokens, 1});
    for (const int ffn : {64, 2048, 16384}) {
      model.expert_ffn = ffn;
      for (const int chunks : {1, 2, 4, 8}) {
        SCOPED_TRACE(fmt::format("{} wide, {} chunks", ffn, chunks));
        Planner planner(in_chunks(dispatch, chunks), topology, model, trace, options);
        const Plan plan = planner.plan(batches.batches[0], 0).plan;
        check(chunks, plan, make_port_backend(topology, test::h100s(4))->run(plan));
      }
    }
  }
};

TEST_F(ChunkTimes, AreTutelsClosedForm) {
  for (const auto& [dispatch, ops] : {std::pair{"alltoall", 1}, std::pair{"two-hop", 3}}) {
    SCOPED_TRACE(dispatch);
    // A relay between two hops is a part of its exchange: the experts do not wait for those of
    // later chunks.
    for_each_layer(dispatch, [&](int r, const Plan& plan, const Timeline& timeline) {
      auto of = spans(plan, timeline);
      const Span out = of["dispatch"], back = of["combine"];
      EXPECT_EQ(out.ops, r * ops);
      const double a1 = out.sum / r, x = of["x"].sum / r, a2 = back.sum / r;
      const double closed =
          std::max({r * (a1 + a2), a1 + r * x + a2, r * a1 + x + a2, a1 + x + r * a2});
      EXPECT_NEAR((back.last - out.first) / closed, 1, 1e-9);
    });
  }
}

/// OptSche's order (ScheMoE, EuroSys 2024, Eq. 12 to 14): all chunks encoded; then decoded,
/// computed and encoded chunk by chunk; then decoded. Exchanges follow each other, those back
/// behind all others.
double optsche(int chunks, double encode, double there, double experts, double back,
               double decode) {
  std::vector<double> arrived, sent;
  double lane = 0, wire = 0;
  for (int c = 1; c <= chunks; ++c) arrived.push_back(wire = std::max(wire, c * encode) + there);
  lane = chunks * encode;
  for (const double at : arrived) sent.push_back(lane = std::max(lane, at) + experts);
  for (const double at : sent) {
    wire = std::max(wire, at) + back;
    lane = std::max(lane, wire) + decode;
  }
  return lane;
}

TEST(OptSche, HasThePublishedTimes) {
  EXPECT_EQ(optsche(2, 1, 4, 1 + 2 + 1, 4, 1), 18);
  EXPECT_EQ(optsche(4, 1, 4, 1 + 2 + 1, 4, 1), 34);
  EXPECT_EQ(optsche(2, 1, 2, 1 + 6 + 1, 2, 1), 22);
  EXPECT_EQ(optsche(4, 1, 2, 1 + 6 + 1, 2, 1), 40);
}

TEST_F(ChunkTimes, OfCodedRowsAreOptSches) {
  const auto check = [](int r, const Plan& plan, const Timeline& timeline) {
    // Exchanges between nodes take longer than those inside, which run at the same time.
    std::map<std::pair<OpKind, Stage>, double> took;
    double first = 1e9, last = 0;
    int coded = 0;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const Op& op = plan.ops[i];
      if (op.group.front() != GpuId(0)) continue;
      double start = timeline.ops[i][0].start.value;
      const double end = timeline.ops[i][0].end.value;
      if (op.exchange()) {
        for (const Interval& member : timeline.ops[i]) start = std::max(start, member.start.value);
        if (op.stream != Stream::ep_2) continue;
        EXPECT_EQ(op.exchange()->traffic.unit(), Bytes(test::tiny().hidden));
      }
      took[{op.key.kind, op.key.stage}] += (end - start) / r;
      if (op.key.kind != OpKind::encode && op.key.kind != OpKind::decode) continue;
      ++coded;
      first = std::min(first, start);
      last = std::max(last, end);
    }
    EXPECT_EQ(coded, 4 * r);
    double experts = took[{OpKind::decode, Stage::dispatch}] +
                     took[{OpKind::encode, Stage::combine}] +
                     took[{OpKind::sort, Stage::dispatch}] + took[{OpKind::reduce, Stage::combine}];
    for (const OpKind kind : {OpKind::fc1, OpKind::activation, OpKind::fc2}) {
      experts += took[{kind, Stage::experts}];
    }
    const double closed = optsche(r, took[{OpKind::encode, Stage::dispatch}],
                                  took[{OpKind::token_exchange, Stage::dispatch}], experts,
                                  took[{OpKind::token_exchange, Stage::combine}],
                                  took[{OpKind::decode, Stage::combine}]);
    EXPECT_NEAR((last - first) / closed, 1, 1e-9);
  };
  for_each_layer("{kind: schemoe-pipe, bits: 8}", check);
}

/// FSMoE's four cases, for gathers and scatters of one length: expert parallel between nodes, parts
/// of experts within them.
TEST_F(ChunkTimes, AreFsMoesClosedForm) {
  const Topology topology = bare_pair(2);
  MoeModel model = test::tiny();
  model.top_k = 1;
  const int sequence = 256 * model.experts;
  const RoutingTrace trace = even_trace(model, 4 * sequence);
  for (const int ffn : {64, 2048, 16384}) {
    model.expert_ffn = ffn;
    for (const int r : {1, 2, 4, 8}) {
      Spec options;
      options.spec.parallel = {.ep = 2, .etp = 2};
      options.spec.global_batch = 4 * sequence / model.experts;
      options.spec.micro_batch = sequence / model.experts;
      options.spec.sequence = model.experts;
      options.optimizer = false;
      Planner planner(in_chunks("alltoall", r), topology, model, trace, options);
      Plan plan = planner.plan(0).plan;
      const int layer = model.moe_layers.front();
      const Timeline all = make_port_backend(topology, test::h100s(4))->run(plan);
      Timeline of_layer;
      for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        if (plan.ops[i].key.layer != layer) continue;
        const OpIntervals times = all.ops[i];
        of_layer.ops.add_row(std::vector<Interval>(times.begin(), times.end()));
      }
      std::erase_if(plan.ops, [&](const Op& op) { return op.key.layer != layer; });
      auto of = spans(plan, of_layer);
      const Span out = of["dispatch"], back = of["combine"];
      const double a2a = out.sum / r, x = of["x"].sum / r;
      const double ag = of["tensor-dispatch"].sum / r;
      EXPECT_NEAR(back.sum / r / a2a, 1, 1e-9);
      EXPECT_NEAR(of["tensor-combine"].sum / r / ag, 1, 1e-9);
      const double closed = std::max(
          {2 * r * a2a, 2 * a2a + 2 * ag + r * x, 2 * r * a2a + 2 * ag, 2 * a2a + 2 * r * ag});
      EXPECT_NEAR((back.last - out.first) / closed, 1, 1e-9) << ffn << ' ' << r;
    }
  }
}

}  // namespace
}  // namespace moesim
