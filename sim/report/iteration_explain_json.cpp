// SPDX-License-Identifier: Apache-2.0
// The figures of `moesim explain` for an iteration, for programs.
#include <nlohmann/json.hpp>

#include "sim/report/iteration_explain.h"
#include "sim/report/path_report.h"
#include "sim/report/time_bounds_table.h"

namespace moesim {
namespace {

nlohmann::ordered_json parts_json(const IterationTimes& of) {
  nlohmann::ordered_json parts;
  for (int p = 0; p < iteration_part_count; ++p) {
    const auto part = static_cast<IterationPart>(p);
    parts[name_of(part)] = of.of(part).value;
  }
  return parts;
}

nlohmann::ordered_json rank_json(const RankReport& rank) {
  nlohmann::ordered_json memory;
  for (const NamedBytes& part : rank.memory.parts) memory[part.name] = part.bytes.value;
  return {{"rank", rank.gpu.value},
          {"gpu", rank.name},
          {"stage", rank.stage},
          {"compute_s", rank.times.slowest_compute.value},
          {"parts_s", parts_json(rank.times)},
          {"overlapped_s", rank.times.overlapped.value},
          {"peak_memory",
           {{"bytes", rank.memory.peak.value},
            {"gpu_memory_bytes", rank.memory.memory.value},
            {"when", rank.memory.when},
            {"parts_bytes", memory}}}};
}

}  // namespace

nlohmann::ordered_json iteration_explanation_json(const IterationExplanation& e, const Plan& plan) {
  auto ranks = nlohmann::ordered_json::array();
  for (const RankReport& rank : e.ranks) ranks.push_back(rank_json(rank));
  nlohmann::ordered_json path = path_json(e.sums, 1);
  path["segments"] = segments_json(e.path, plan);
  nlohmann::ordered_json json = {{"iteration_s", e.times.iteration.value},
                                 {"parts_s", parts_json(e.times)},
                                 {"ranks", ranks},
                                 {"critical_path", path},
                                 {"time_bounds", time_bounds_json(e.bounds)},
                                 {"elasticities", elasticities_json(e.elasticities)}};
  if (e.turns) json["turns_s"] = turns_json(*e.turns);
  return json;
}

}  // namespace moesim
