// SPDX-License-Identifier: Apache-2.0
// The EP degree of docs/results/ep-degree.md: one MoE layer of DeepSeek-V3 on 128 H200 with uniform
// routing takes what gradients, tokens and compute take by hand, and few full GPUs lose or win with
// the steps that share one sum of gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "sim/base/data_files.h"
#include "sim/engine/port_backend.h"
#include "sim/planner/iteration/planner.h"
#include "sim/report/metrics.h"
#include "sim/topology/reader.h"
#include "sim/trace/synth/synth.h"

namespace moesim {
namespace {

constexpr int cluster_gpus = 128;
constexpr std::int64_t rank_tokens = 4096;  // per rank

class EpDegree : public testing::Test {
 protected:
  EpDegree()
      : file_(read_topology(data_file("topologies", "h100-rail"),
                            {parse_override("nodes=16"), parse_override("node.gpu=h200")})),
        model_(read_moe_model(data_file("models/moe", "deepseek-v3"))),
        cards_(cluster_gpus,
               std::make_shared<const GpuModel>(read_gpu_model(data_file("models/gpu", "h200")))),
        backend_(make_port_backend(file_.topology, cards_)) {
    SynthOptions options;
    options.experts = 256;
    options.layers = {3};
    options.tokens = rank_tokens * cluster_gpus;
    options.sequences = cluster_gpus;
    Synthesis synthesis(options);
    trace_.emplace(synthesis.info(), std::vector{synthesis.next_step()});
    batches_ = make_batches(*trace_, {cluster_gpus, rank_tokens, 1});
  }

  struct Times {
    Breakdown parts;
    double step = 0;  // s
  };
  Times step(int ep, bool sums) {
    PlannerOptions options{ep, {0}, true, false};
    options.accumulate = sums ? 1 : 0;
    Planner planner(read_system(data_file("models/system", "alltoall")), file_.topology, model_,
                    *trace_, options);
    const PlannedStep planned = planner.plan(batches_.batches[0], 0);
    const Timeline timeline = backend_->run(planned.plan);
    return {step_breakdown(planned.plan, timeline), timeline.makespan.value};
  }

  TopologyFile file_;
  MoeModel model_;
  GpuModels cards_;
  std::unique_ptr<Backend> backend_;
  std::optional<RoutingTrace> trace_;
  Batches batches_;
};

double gradients_by_hand(int ep) {
  const double groups = cluster_gpus / ep, experts = 256.0 / ep;
  return 2 * (groups - 1) / groups * experts * 3 * 7168 * 2048 * 2 / 50e9;
}

double tokens_by_hand(int ep) {
  const double rows = 4.0 * rank_tokens * 8 * 14336;
  return ep == 8 ? rows * 7 / 8 / 450e9 : rows * (1 - 8.0 / ep) / 50e9;
}

TEST_F(EpDegree, StepsTakeWhatTheHandCalculationSays) {
  for (const int ep : {8, 16, 32, 64}) {
    for (const bool sums : {false, true}) {
      const auto [parts, step] = this->step(ep, sums);
      const double hand = parts.compute.value + tokens_by_hand(ep) +
                          (sums ? gradients_by_hand(ep) : 0) - parts.overlapped.value;
      EXPECT_NEAR(step / hand, 1, 0.06) << "ep " << ep << (sums ? " with" : " without") << " sum";
    }
  }
}

TEST_F(EpDegree, TheOrderTurnsWithTheStepsThatShareASum) {
  std::vector<double> each, eight;  // mean step with a sum in every step, and in every eighth
  for (const int ep : {8, 16, 32, 64}) {
    const double with = step(ep, true).step, without = step(ep, false).step;
    each.push_back(with);
    eight.push_back((with + 7 * without) / 8);
  }
  EXPECT_TRUE(std::is_sorted(each.rbegin(), each.rend()));
  EXPECT_TRUE(std::is_sorted(eight.begin(), eight.end()));
}

}  // namespace
}  // namespace moesim
