// SPDX-License-Identifier: Apache-2.0
// Times as a cluster of known costs would have them, with noise and outliers.
#pragma once

#include <random>
#include <vector>

#include "realhw/calibrate/micro_plan.h"
#include "realhw/calibrate/times_file.h"
#include "sim/analytic/analytic_backend.h"
#include "sim/base/data_files.h"
#include "sim/model/moe_model.h"

namespace moesim {

inline MoeModel tiny() { return read_moe_model(data_file("models/moe", "tiny-moe")); }

struct Noise {
  double part = 0;  // every op takes up to this part more or less
  int outlier = 0;  // one of so many ops takes seven times as long; 0: none
};

/// Adds `runs` simulated timelines of a plan.
inline void add_simulated(const Topology& topology, const GpuModels& gpus, const MicroPlan& micro,
                          int runs, Noise noise, Times& times) {
  const Timeline exact = make_analytic_backend(topology, gpus)->run(micro.plan);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> around(1 - noise.part, 1 + noise.part);
  for (int run = 0; run < runs; ++run) {
    Timeline timeline;
    timeline.makespan = exact.makespan;
    for (std::size_t op = 0; op < exact.ops.size(); ++op) {
      const OpIntervals all = exact.ops[op];
      std::vector<Interval> intervals(all.begin(), all.end());
      const bool wild = noise.outlier > 0 && random() % static_cast<unsigned>(noise.outlier) == 0;
      const double factor = (wild ? 7 : 1) * around(random);
      Seconds start(0);
      for (const Interval& i : intervals) start = std::max(start, i.start);
      for (Interval& i : intervals) i.end = start + (i.end - start) * factor;
      timeline.ops.add_row(intervals);
    }
    times[micro.name][run].push_back(std::move(timeline));
  }
}

}  // namespace moesim
