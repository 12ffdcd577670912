// SPDX-License-Identifier: Apache-2.0
// What holds of every simulated timeline: its critical path is as long as it, and no bound is
// longer.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "sim/base/data_files.h"
#include "sim/engine/port_backend.h"
#include "sim/plan/simulate/execution.h"
#include "sim/report/critical_path.h"
#include "sim/report/path_sums.h"
#include "sim/report/time_bounds.h"

namespace moesim {

/// Each read once.
inline GpuModels shipped_gpus(const Topology& topology) {
  static std::map<std::string, std::shared_ptr<const GpuModel>> known;
  GpuModels gpus;
  for (const GpuId gpu : topology.all_gpus()) {
    const std::string& name = topology.gpu_model(gpu);
    auto& model = known[name];
    if (!model) {
      model = std::make_shared<const GpuModel>(read_gpu_model(data_file("models/gpu", name)));
    }
    gpus.push_back(model);
  }
  return gpus;
}

/// At `port`, without SimGrid's clock.
inline Timeline run_at_port(const PricedPlan& plan, const GpuModels& gpus) {
  EventQueue events;
  return Execution(plan, gpus).run(events, [&](Network::Ended ended) {
    return make_port_network(events, plan, std::move(ended));
  });
}

inline void expect_path_is_the_makespan(const PricedPlan& plan, const Timeline& timeline,
                                        const GpuModels& gpus) {
  const auto path = critical_path(plan.plan(), timeline);
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(path.front().when.start, Seconds(0));
  EXPECT_EQ(path.back().when.end, timeline.makespan);
  for (std::size_t i = 0; i < path.size(); ++i) {
    EXPECT_FALSE(path[i].idle) << "segment " << i;
    if (i == 0) continue;
    EXPECT_EQ(path[i].when.start, path[i - 1].when.end) << "segment " << i;
  }
  const PathSums sums = path_sums(path, plan, gpus);
  const double length = timeline.makespan.value;
  EXPECT_NEAR(sums.length.value, length, 1e-9 * length);
  Seconds kinds, bounds;
  for (const PathPart& part : sums.kinds) kinds += part.time;
  for (const auto& [name, time] : resources_of(sums)) bounds += time;
  EXPECT_NEAR(kinds.value, length, 1e-9 * length);
  EXPECT_NEAR(bounds.value, length, 1e-9 * length);
}

/// `precision`: events nearer to each other than this part of the makespan may be one.
inline void expect_within_bounds(const PricedPlan& plan, const Timeline& timeline,
                                 const GpuModels& gpus, ExchangeRules rules,
                                 double precision = 1e-9) {
  const TimeBounds bounds = time_bounds(plan, timeline, gpus, rules);
  const double most = timeline.makespan.value * (1 + precision);
  EXPECT_GT(bounds.balance.value, 0);
  EXPECT_LE(bounds.balance.value, bounds.compute.value * (1 + 1e-9));
  EXPECT_LE(bounds.compute.value, bounds.no_communication.value * (1 + 1e-9));
  EXPECT_LE(bounds.no_communication.value, most);
  EXPECT_LE(bounds.port.value, most);
  EXPECT_LE(bounds.no_bubble.value, most);
  if (!rules.together || !rules.links_shared) return;
  const double least = least_time(plan, gpus).value;
  EXPECT_LE(bounds.no_communication.value, least * (1 + 1e-9));
  EXPECT_LE(bounds.port.value, least * (1 + 1e-9));
  EXPECT_LE(least, most);
}

}  // namespace moesim
