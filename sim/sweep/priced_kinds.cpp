// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/priced_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "sim/base/counted.h"
#include "sim/run/workers.h"

namespace moesim {
namespace {

/// Classes of links of which only the first has a data sheet's rates.
std::set<std::string> contested_by(const TokenRates& sheet, const TokenRates& other) {
  return contested({sheet.by_data_sheet, {}}, other);
}

}  // namespace

void PricedKinds::append(PricedKinds more) {
  std::ranges::move(more.kinds, std::back_inserter(kinds));
  std::ranges::move(more.times, std::back_inserter(times));
  left_out += more.left_out;
}

std::string PricedKinds::by_data_sheet(const ServingPlan& plan) const {
  std::set<std::string> links;
  for (const KindTimes& other : times) {
    links.merge(contested_by(times[plan.prompts].rates, other.rates));
    if (plan.decode_instances > 0) links.merge(contested_by(times[plan.decode].rates, other.rates));
  }
  return fmt::format("{}", fmt::join(links, ", "));
}

PricedKinds price_kinds(const std::string& file, const std::vector<Override>& flags,
                        const std::vector<ServingInstanceKind>& kinds, const ServingDemand& demand,
                        int workers, const std::function<bool()>& stop) {
  std::vector<WorkerJob<KindTimes>> jobs;
  for (const ServingInstanceKind& kind : kinds) {
    jobs.push_back({kind.words(),
                    [&](const JobProgress&) { return times_of(file, flags, kind, demand, stop); }});
  }
  const auto times = run_jobs(jobs, workers);
  PricedKinds priced;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (times[k].why.empty()) {
      priced.kinds.push_back(kinds[k]);
      priced.times.push_back(times[k]);
    } else {
      priced.left_out += fmt::format("# left out: {} {}: {}\n", counted(kinds[k].gpus, "GPU"),
                                     kinds[k].words(), times[k].why);
    }
  }
  return priced;
}

std::vector<RoughPlan> finalists(const std::vector<ServingInstanceKind>& kinds,
                                 const std::vector<RoughPlan>& ranked, int most) {
  std::vector<RoughPlan> kept;
  for (const bool apart : {false, true}) {
    int count = 0;
    bool has_plain = false;
    for (const RoughPlan& plan : ranked) {
      if ((plan.plan.decode_instances > 0) != apart) continue;
      const bool plain =
          kinds[plan.plan.prompts].besides.empty() && kinds[plan.plan.decode].besides.empty();
      if (count >= (most + 1) / 2 && (has_plain || !plain)) continue;
      kept.push_back(plan);
      has_plain = has_plain || plain;
      ++count;
    }
  }
  return kept;
}

}  // namespace moesim
