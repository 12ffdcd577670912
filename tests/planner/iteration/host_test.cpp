// SPDX-License-Identifier: Apache-2.0
// Iterations whose hosts take time.
#include <gtest/gtest.h>

#include <numeric>

#include "sim/analytic/analytic_backend.h"
#include "sim/base/unsuitable.h"
#include "sim/report/iteration_metrics.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

class IterationHosts : public testing::Test {
 protected:
  IterationHosts() { plan_ = plan_of("megatron"); }

  Plan plan_of(const std::string& policy) const {
    Spec options;
    options.spec.parallel = {.tp = 2, .pp = 2, .ep = 4, .etp = 1};
    options.spec.global_batch = 16;
    options.spec.sequence = 512;
    options.spec.distinct_microbatches = 2;
    Planner planner(test::policy(policy), topology_, model_, trace_, options);
    return planner.plan(0).plan;
  }

  static GpuModels gpus(const HostModel& host) {
    auto gpu = std::make_shared<GpuModel>(*test::h100s(1).front());
    gpu->host = host;
    return GpuModels(16, gpu);
  }
  IterationTimes times(const HostModel& host, bool analytic = false) const {
    const auto backend = analytic ? make_analytic_backend(topology_, gpus(host))
                                  : make_port_backend(topology_, gpus(host));
    return iteration_times(plan_, backend->run(plan_), host.takes_time());
  }
  static double sum_of(const IterationTimes& times) {
    return std::accumulate(times.parts.begin(), times.parts.end(), Seconds(0)).value;
  }
  static HostModel eager(double us) {
    HostModel host;
    host.per_kernel = host.per_collective = host.per_graph = Seconds(us * 1e-6);
    return host;
  }

  Topology topology_ = test::h100_nodes(2);
  MoeModel model_ = test::whole(4);
  RoutingTrace trace_ = test::tokens_for(model_, 16 * 512, 512);
  Plan plan_;
};

TEST_F(IterationHosts, MakeNoneFasterAndTheirPartsAddUp) {
  Seconds before = times(HostModel()).iteration;
  for (const double us : {1.0, 10.0, 100.0}) {
    for (const bool analytic : {false, true}) {
      const IterationTimes slowed = times(eager(us), analytic);
      EXPECT_NEAR(sum_of(slowed) / slowed.iteration.value, 1, 1e-9) << us;
    }
    const Seconds after = times(eager(us)).iteration;
    EXPECT_GE(after, before);
    before = after;
  }
}

TEST_F(IterationHosts, ThatAreSlowTakeAllOfTheTime) {
  const HostModel host = eager(1000);
  double most = 0;
  for (GpuId gpu(0); gpu.value < 16; ++gpu.value) {
    double issued = 0;
    for (const Op& op : plan_.ops) {
      const std::size_t member = op.group.member(gpu);
      if (member == op.group.size()) continue;
      const Kernel* kernel = op.kernels() != nullptr ? &op.kernels()->of(member) : nullptr;
      issued += host.time(host_calls(op.key.type(), kernel)).value;
    }
    most = std::max(most, issued);
  }
  const IterationTimes slow = times(host);
  EXPECT_GE(slow.iteration.value, most);
  // Besides, the second stage waits for the first one's first pass.
  EXPECT_LT(slow.iteration.value, 1.5 * most);
  EXPECT_GT(slow.of(IterationPart::host).value, 0.5 * slow.iteration.value);
}

TEST_F(IterationHosts, WithGraphsOfEverythingIssueItAtOnceUnlessTheyRead) {
  HostModel host = eager(100);
  const Seconds without = times(host).iteration;
  host.graphs = {GraphModule::attn, GraphModule::moe_router, GraphModule::moe_preprocess};
  const Seconds some = times(host).iteration;
  host.graphs = {GraphModule::full_iteration};
  EXPECT_THROW(times(host), Unsuitable) << "Megatron's counts are read";
  EXPECT_THROW(times(host, true), Unsuitable);
  plan_ = plan_of("dedup");
  const Seconds all = times(host).iteration;
  EXPECT_LT(some, without);
  EXPECT_LT(all, some);
}

}  // namespace
}  // namespace moesim
