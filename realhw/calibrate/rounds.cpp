// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/rounds.h"

#include <fmt/format.h>

#include <stdexcept>

#include "sim/base/files.h"
#include "sim/plan/text.h"

namespace moesim {

std::string identity_of(const std::vector<const MicroPlan*>& plans, const RoundOptions& options) {
  std::string all = fmt::format("{} {}", options.rounds, options.repeats);
  for (const MicroPlan* plan : plans) all += hash_of(to_text(plan->plan));
  return hash_of(all);
}

void measure_rounds(Job& job, HardwareBackend& backend, const std::vector<const MicroPlan*>& plans,
                    const ExpertShape& shape, const RoundOptions& options, Times& times,
                    const std::function<void(const std::string& plan, int round,
                                             const std::vector<Timeline>&)>& keep,
                    const std::function<void(const std::string& plan, int round)>& told) {
  const bool first = job.rank() == 0;
  for (int round = 0; round < options.rounds; ++round) {
    for (const MicroPlan* plan : plans) {
      if (times[plan->name].count(round) > 0) continue;
      if (first) told(plan->name, round);
      const RealStep step(plan->plan, shape, plan->layers);
      const MeasuredStep measured = measure_step(
          job, backend, step, {.warmup = 0, .repeats = options.repeats, .compared = 1});
      if (const auto wrong = measured.compared.wrong(); wrong > 0) {
        throw std::runtime_error(fmt::format("{} wrong elements in '{}'", wrong, plan->name));
      }
      times[plan->name][round] = measured.repeats;
      if (first) keep(plan->name, round, measured.repeats);
    }
  }
}

}  // namespace moesim
