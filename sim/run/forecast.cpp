// SPDX-License-Identifier: Apache-2.0
#include "sim/run/forecast.h"

#include <fmt/format.h>

#include "sim/print/progress_line.h"

namespace moesim {
namespace {

constexpr Seconds long_for_users(10);

}  // namespace

std::optional<std::string> forecast(const std::vector<std::unique_ptr<SimulatedBackend>>& backends,
                                    const PricedPlan& plan, int plans) {
  Seconds one;
  for (const auto& backend : backends) one += backend->likely_time(plan);
  const Seconds all = one * plans;
  if (all < long_for_users) return std::nullopt;
  std::string text = fmt::format("likely to take {}", duration_text(all.value));
  if (plans > 1) text += fmt::format(" ({} for each of {} steps)", duration_text(one.value), plans);
  return text;
}

void report_progress(const std::vector<std::unique_ptr<SimulatedBackend>>& backends,
                     const PricedPlan& plan, int number, int plans, const JobProgress& progress) {
  if (number == 0) {
    if (const auto text = forecast(backends, plan, plans)) progress.note(*text);
  }
  const auto count = static_cast<double>(backends.size());
  for (std::size_t b = 0; b < backends.size(); ++b) {
    backends[b]->watch([progress, number, plans, b, count](double part) {
      progress(number + (static_cast<double>(b) + part) / count, plans);
    });
  }
}

}  // namespace moesim
