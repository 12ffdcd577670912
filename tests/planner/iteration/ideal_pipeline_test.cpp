// SPDX-License-Identifier: Apache-2.0
// On one GPU per stage and links that cost nothing, an iteration takes what its timetable says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

/// GPUs around a switch; what they send takes no time.
Topology free_links(int gpus) {
  Topology::Parts parts;
  parts.name = "free";
  parts.classes = {{"port", Tier::fabric}};
  const VertexId hub(gpus);
  Level cluster{"cluster", {}, 1};
  for (int g = 0; g < gpus; ++g) {
    parts.vertices.push_back({fmt::format("gpu{}", g), VertexKind::gpu, g});
    parts.gpus.push_back(VertexId(g));
    parts.gpu_model.push_back("test");
    cluster.group_of.push_back(0);
    for (const auto& [from, to] : {std::pair(VertexId(g), hub), std::pair(hub, VertexId(g))}) {
      parts.links.push_back(
          {.from = from, .to = to, .bandwidth = BytesPerSecond(1e18), .latency = Seconds(0)});
    }
  }
  parts.vertices.push_back({"hub", VertexKind::leaf, -1});
  parts.levels = {std::move(cluster)};
  return Topology(std::move(parts));
}

struct IdealCase {
  PipelineKind kind;
  int pp, vpp, microbatches;
};

class IdealPipeline : public testing::TestWithParam<IdealCase> {
 protected:
  static constexpr int per_position = 2;  // dense layers

  /// Only dense layers, so that all positions but the ends are alike.
  static MoeModel model(int positions) {
    MoeModel m = test::whole(positions * per_position);
    m.moe_layers = {};
    m.vocabulary = 1;  // embedding and head next to nothing
    return m;
  }

  Plan plan_of(const IdealCase& s, int positions) const {
    const Topology topology = free_links(s.pp);
    const MoeModel m = model(positions);
    const RoutingTrace trace = test::tokens_for(test::tiny(), 4096, 4096);
    Spec options;
    options.spec.parallel.pp = s.pp;
    options.spec.parallel.vpp = s.vpp;
    options.spec.pipeline = s.kind;
    options.spec.overlap.all_to_all = merges_passes(s.kind);
    options.spec.global_batch = s.microbatches;
    options.spec.sequence = 4096;
    options.optimizer = false;
    Planner planner(test::policy("alltoall"), topology, m, trace, options);
    return planner.plan(0).plan;
  }
};

/// Kernel times of a plan whose stage s is GPU s, by what a turn of a timetable is made of.
class WorkTimes {
 public:
  WorkTimes(const Plan& plan, const GpuModel& gpu) {
    for (const Op& op : plan.ops) {
      if (op.kernels() == nullptr) continue;
      const WorkKind kind = op.key.pass == Pass::forward ? WorkKind::forward
                            : op.key.role == Role::wgrad ? WorkKind::weight_gradient
                                                         : WorkKind::input_gradient;
      times_[{op.group.front().value, kind, op.key.microbatch, op.key.chunk}] +=
          gpu.time(op.kernels()->of(0), op.key.type());
    }
  }
  Seconds of(int stage, const StageWork& work) const {
    const auto part = [&](WorkKind kind) {
      const auto known = times_.find({stage, kind, work.microbatch, work.chunk});
      return known == times_.end() ? Seconds(0) : known->second;
    };
    if (work.kind != WorkKind::backward) return part(work.kind);
    return part(WorkKind::input_gradient) + part(WorkKind::weight_gradient);
  }

 private:
  std::map<std::tuple<std::int64_t, WorkKind, int, int>, Seconds> times_;
};

/// The end of the last turn where transfers take no time.
Seconds makespan_of(const Pipeline& pipeline, const WorkTimes& times) {
  std::vector<std::vector<Seconds>> ends(static_cast<std::size_t>(pipeline.stages()));
  Seconds last;
  for (const TurnAt at : pipeline.order()) {
    auto& of_stage = ends[static_cast<std::size_t>(at.stage)];
    Seconds start = of_stage.empty() ? Seconds(0) : of_stage.back();
    for (const TurnAt input : pipeline.inputs(at)) {
      start = std::max(
          start, ends[static_cast<std::size_t>(input.stage)][static_cast<std::size_t>(input.turn)]);
    }
    const Turn& turn = pipeline.at(at);
    Seconds end = start + times.of(at.stage, turn.work);
    if (turn.beside) end += times.of(at.stage, *turn.beside);
    of_stage.push_back(end);
    last = std::max(last, end);
  }
  return last;
}

TEST_P(IdealPipeline, TakesWhatItsTimetableSays) {
  const IdealCase s = GetParam();
  const Pipeline pipeline({s.kind, s.pp, s.microbatches, s.vpp});
  const Topology topology = free_links(s.pp);
  const auto backend = make_port_backend(topology, test::h100s(s.pp));
  const Plan plan = plan_of(s, pipeline.positions());
  const double makespan = backend->run(plan).makespan.value;
  const Seconds ideal = makespan_of(pipeline, {plan, *test::h100s(1).front()});
  EXPECT_LE(makespan, ideal.value * (1 + 1e-6));
  // A merged turn begins with what has arrived, where the timetable waits for all of it.
  const bool folded = s.kind == PipelineKind::dualpipe || s.kind == PipelineKind::dualpipev;
  EXPECT_GE(makespan, ideal.value * (folded ? 0.98 : 1 - 1e-6));
}

INSTANTIATE_TEST_SUITE_P(Kinds, IdealPipeline,
                         testing::Values(IdealCase{PipelineKind::gpipe, 4, 1, 8},
                                         IdealCase{PipelineKind::one_f_one_b, 4, 1, 8},
                                         IdealCase{PipelineKind::one_f_one_b, 8, 1, 16},
                                         IdealCase{PipelineKind::interleaved, 4, 2, 8},
                                         IdealCase{PipelineKind::combined, 4, 1, 8},
                                         IdealCase{PipelineKind::combined_interleaved, 4, 2, 8},
                                         IdealCase{PipelineKind::zb1p, 4, 1, 8},
                                         IdealCase{PipelineKind::zbv, 4, 1, 8},
                                         IdealCase{PipelineKind::v_half, 4, 1, 8},
                                         IdealCase{PipelineKind::v_min, 4, 1, 8},
                                         IdealCase{PipelineKind::dualpipe, 4, 1, 16},
                                         IdealCase{PipelineKind::dualpipev, 4, 1, 16}));

}  // namespace
}  // namespace moesim
