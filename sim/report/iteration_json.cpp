// SPDX-License-Identifier: Apache-2.0
// A case of iterations in `--json`.
#include <nlohmann/json.hpp>

#include "sim/report/case_report.h"
#include "sim/report/iteration_table.h"
#include "sim/report/lossy.h"
#include "sim/report/path_report.h"
#include "sim/report/time_bounds_table.h"
#include "sim/report/token_costs.h"

namespace moesim {
namespace {

nlohmann::ordered_json fullest_json(const FullestGpu& gpu) {
  nlohmann::ordered_json parts;
  for (const NamedBytes& part : gpu.parts) parts[part.name] = part.bytes.value;
  return {{"bytes", gpu.peak.value},
          {"mean_bytes", gpu.mean.value},
          {"gpu_memory_bytes", gpu.memory.value},
          {"gpu", gpu.gpu.value},
          {"when", gpu.when},
          {"parts_bytes", parts}};
}

}  // namespace

nlohmann::ordered_json turns_json(const TurnTimes& turns) {
  nlohmann::ordered_json json;
  for (std::size_t p = 0; p < turns.parts.size(); ++p) {
    json[turn_part_names[p]] = turns.parts[p].value;
  }
  return json;
}

nlohmann::ordered_json iteration_json(const IterationCase& c) {
  nlohmann::ordered_json json = {{"topology", c.topology},
                                 {"policy", c.policy},
                                 {"routing", c.routing},
                                 {"fidelity", c.fidelity}};
  if (!c.ran()) {
    json["unsuitable"] = c.unsuitable;
    if (c.interrupted) json["interrupted"] = true;
    return json;
  }
  const IterationMetrics& m = c.metrics;
  nlohmann::ordered_json parts;
  for (int p = 0; p < iteration_part_count; ++p) {
    const auto part = static_cast<IterationPart>(p);
    parts[name_of(part)] = m.times.of(part).value;
  }
  json.update({{"iteration_s", m.times.iteration.value},
               {"iterations", m.iterations},
               {"tokens", m.tokens},
               {"tokens_per_s_per_gpu", c.tokens_per_second()},
               {"flop_per_token", m.flop_per_token},
               {"tflops_per_gpu", c.tflops()},
               {"mfu", c.mfu()},
               {"parts_s", parts},
               {"slowest_compute_s", m.times.slowest_compute.value},
               {"overlapped_s", m.times.overlapped.value},
               {"migration_share", m.path.share(PathKind::migration)},
               {"critical_path", path_json(m.path, m.iterations)},
               {"load_max_over_mean", m.load_max_over_mean},
               {"ops", m.ops},
               {"peak_memory", fullest_json(m.fullest)},
               {"notes", m.notes}});
  add_loss(json, m.loss);
  add_costs(json, TokenCosts::of(c.costs, c.gpus, m.times.iteration.value,
                                 static_cast<double>(m.tokens)));
  if (c.intervals) add_intervals(json, "iteration_s", *c.intervals);
  if (!m.stage_turns.empty()) {
    json["turns_s"] = turns_json(mean_of(m.stage_turns));
    for (const TurnTimes& of : m.stage_turns) json["stage_turns_s"].push_back(turns_json(of));
  }
  if (!m.elasticities.empty()) json["elasticities"] = elasticities_json(m.elasticities);
  if (m.least) json["least_s"] = m.least->value / m.iterations;
  if (m.bounds) json["time_bounds"] = time_bounds_json(*m.bounds * (1.0 / m.iterations));
  return json;
}

}  // namespace moesim
