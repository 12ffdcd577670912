// SPDX-License-Identifier: Apache-2.0
// What every backend must do with the same small plans: compile backend_suite.cpp into a test and
// instantiate BackendOrder, which measured times fulfil too, and BackendTimes for computed times.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "sim/plan/backend.h"
#include "tests/engine/fixtures.h"

namespace moesim::test {

struct BackendCase {
  std::string name;
  std::function<std::unique_ptr<Backend>(const Topology&, const GpuModels&)> make;
  bool shares_links = true;  // concurrent exchanges slow each other
  bool together = true;      // exchanges begin and end for all participants at once
  double tolerance = 1e-9;   // relative, of a closed-form time
};
inline void PrintTo(const BackendCase& c, std::ostream* out) { *out << c.name; }

class BackendOrder : public testing::TestWithParam<BackendCase> {
 protected:
  Timeline run(const Plan& plan, const Topology& topology) {
    return GetParam().make(topology, test_gpus(plan.gpus))->run(plan);
  }
  Timeline run(const Plan& plan) { return run(plan, star(plan.gpus)); }
};

/// Times in closed form on the star: 50 MB through a port take 1 ms, plus 5 us.
class BackendTimes : public BackendOrder {
 protected:
  void expect_interval(const Interval& interval, double start_ms, double end_ms) {
    const double allowed = GetParam().tolerance * (end_ms > 0 ? end_ms * 1e-3 : 1e-3);
    EXPECT_NEAR(interval.start.value, start_ms * 1e-3, allowed);
    EXPECT_NEAR(interval.end.value, end_ms * 1e-3, allowed);
  }
};

}  // namespace moesim::test
