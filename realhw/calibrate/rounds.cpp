// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/plan/check.h"
#include "sim/plan/text.h"

namespace moesim {
namespace {

bool fits(const Timeline& timeline, const Plan& plan) {
  if (timeline.ops.size() != plan.ops.size()) return false;
  for (std::size_t id = 0; id < plan.ops.size(); ++id) {
    if (timeline.ops[id].size() != plan.ops[id].group.size()) return false;
  }
  return true;
}

}  // namespace

std::string identity_of(const std::vector<const MicroPlan*>& plans, const RoundOptions& options) {
  std::string all = fmt::format("{} {}", options.rounds, options.repeats);
  for (const MicroPlan* plan : plans) all += hash_of(to_text(plan->plan));
  return hash_of(all);
}

void check_times(const Times& times, const std::vector<const MicroPlan*>& plans,
                 const RoundOptions& options, const std::string& file) {
  for (const auto& [name, rounds] : times) {
    const auto plan = std::ranges::find(plans, name, &MicroPlan::name);
    if (plan == plans.end()) throw error_in(file, fmt::format("'{}' is not a plan of these", name));
    for (const auto& [round, timelines] : rounds) {
      const bool known = round >= 0 && round < options.rounds;
      const bool whole = std::ssize(timelines) == options.repeats;
      if (known && whole && std::ranges::all_of(timelines, [&](const Timeline& timeline) {
            return fits(timeline, (*plan)->plan);
          })) {
        continue;
      }
      throw error_in(
          file, fmt::format("the times of '{}' in round {} do not fit the plan", name, round + 1));
    }
  }
}

void check_complete(const Times& times, const std::vector<const MicroPlan*>& plans,
                    const RoundOptions& options, const std::string& file) {
  std::vector<std::string> missing;
  for (int round = 0; round < options.rounds; ++round) {
    for (const MicroPlan* plan : plans) {
      const auto found = times.find(plan->name);
      if (found != times.end() && found->second.count(round) > 0) continue;
      missing.push_back(fmt::format("'{}' in round {}", plan->name, round + 1));
    }
  }
  if (missing.empty()) return;
  constexpr std::size_t named = 3;
  const std::size_t count = missing.size();
  missing.resize(std::min(count, named));
  throw error_in(file,
                 fmt::format("lacks {} of {} measurements: {}{}", count,
                             plans.size() * static_cast<std::size_t>(options.rounds),
                             fmt::join(missing, ", "), count > named ? " ..." : ""),
                 "continue with --resume, where it was begun");
}

void measure_rounds(Job& job, HardwareBackend& backend, const std::vector<const MicroPlan*>& plans,
                    const ExpertShape& shape, const RoundOptions& options, Times& times,
                    const std::function<void(const std::string& plan, int round,
                                             const std::vector<Timeline>&)>& keep,
                    const std::function<void(const std::string& plan, int round)>& begins) {
  const bool first = job.rank() == 0;
  for (int round = 0; round < options.rounds; ++round) {
    for (const MicroPlan* plan : plans) {
      if (times[plan->name].count(round) > 0) continue;
      if (first) begins(plan->name, round);
      const RealStep step(plan->plan, shape, plan->layers);
      const MeasuredStep measured = measure_step(
          job, backend, step, {.warmup = 1, .repeats = options.repeats, .compared = 1});
      if (const auto wrong = measured.compared.wrong(); wrong > 0) {
        throw std::runtime_error(
            fmt::format("{} in '{}'", counted(wrong, "wrong element"), plan->name));
      }
      times[plan->name][round] = measured.repeats;
      if (first) keep(plan->name, round, measured.repeats);
    }
  }
}

}  // namespace moesim
