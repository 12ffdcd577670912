// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/break_even.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/error.h"
#include "sim/run/simulate.h"
#include "sim/run/whatif.h"
#include "sim/run/workers.h"

namespace moesim {
namespace {

constexpr double precision = 0.02;

struct Changed {
  std::string resource;
  double factor;
};

/// A scenario, and what it opens: files take longer to read than most trials.
struct Opened {
  explicit Opened(const Scenario& s) : scenario(s), inputs(open_inputs(s)) {}
  Scenario scenario;
  Inputs inputs;
};

/// Infinite of what cannot be on the changed cluster.
double time_on(const Opened& opened, const Changed& change) {
  try {
    const WhatIf what{{fmt::format("{}={:.9g}", change.resource, change.factor)}};
    const Inputs inputs = changed_inputs(opened.scenario, opened.inputs, what);
    const ComparisonOptions here{.workers = 0};
    return simulate(opened.scenario, inputs, here).cases[0].metrics.mean_step().value;
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
}

class Pair {
 public:
  Pair(const Scenario& faster, const Scenario& slower, int workers)
      : both_{Opened(faster), Opened(slower)}, workers_(workers) {}

  /// Says for each change how much longer the slower one takes.
  std::vector<double> ahead(const std::vector<Changed>& changes) const {
    std::vector<WorkerJob<double>> jobs;
    for (const Changed& change : changes) {
      for (const Opened& opened : both_) {
        jobs.push_back(
            {change.resource, [&, change](const JobProgress&) { return time_on(opened, change); }});
      }
    }
    const std::vector<double> times = run_jobs(jobs, workers_);
    std::vector<double> result;
    for (std::size_t c = 0; c < changes.size(); ++c) {
      result.push_back(times[2 * c + 1] - times[2 * c]);
    }
    return result;
  }

  /// Resources of the clusters of both.
  std::vector<std::string> resources() const {
    std::vector<std::string> common;
    for (const Opened& opened : both_) {
      const auto all = resources_of(opened.inputs.clusters[0].topology);
      if (&opened == &both_[0]) common = all;
      std::erase_if(common, [&](const std::string& name) {
        return std::ranges::find(all, name) == all.end();
      });
    }
    return common;
  }

 private:
  Opened both_[2];
  int workers_;
};

}  // namespace

double crossing(const std::function<double(double factor)>& ahead, double end, double to) {
  double near = 0, far = std::log(end);
  while (std::abs(far - near) > to) {
    const double middle = 0.5 * (near + far);
    (ahead(std::exp(middle)) > 0 ? near : far) = middle;
  }
  return std::exp(far);
}

std::vector<BreakEven> break_even(const Scenario& faster, const Scenario& slower, int workers,
                                  const std::function<bool()>& stop) {
  const Pair pair(faster, slower, workers);
  std::vector<Changed> ends;
  for (const std::string& resource : pair.resources()) {
    for (const double factor : {farthest_factor, 1 / farthest_factor}) {
      ends.push_back({resource, factor});
    }
  }
  std::vector<BreakEven> found;
  const std::vector<double> ahead = pair.ahead(ends);
  for (std::size_t e = 0; e < ends.size() && !stop(); ++e) {
    if (!(ahead[e] <= 0)) continue;
    const auto at = [&](double factor) { return pair.ahead({{ends[e].resource, factor}})[0]; };
    found.push_back({ends[e].resource, crossing(at, ends[e].factor, precision)});
  }
  std::ranges::stable_sort(found, {},
                           [](const BreakEven& b) { return std::abs(std::log(b.factor)); });
  return found;
}

}  // namespace moesim
