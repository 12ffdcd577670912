// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "sim/evidence/iteration_report.h"
#include "sim/report/case_report.h"
#include "sim/report/metrics.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json parts_json(const IterationTimes& times) {
  Json parts = Json::object();
  for (int p = 0; p < iteration_part_count; ++p) {
    const auto part = static_cast<IterationPart>(p);
    parts[name_of(part)] = times.of(part).value;
  }
  return parts;
}

void add_published(const PublishedIteration& published, Json& json) {
  if (!published.release.empty()) json["release"] = published.release;
  if (!published.note.empty()) json["note"] = published.note;
  if (published.peak_memory) json["published_peak_bytes"] = published.peak_memory->value;
  if (published.fits) json["published_fits"] = *published.fits;
  for (const PublishedTurns& turns : published.turns) {
    json["published_turns_s"][turn_part_names[static_cast<std::size_t>(turns.part)]] =
        turns.time.value;
  }
}

void add_simulated(const SimulatedIteration& simulated, const PublishedIteration& published,
                   Json& json) {
  json["parts_s"] = parts_json(simulated.times);
  json["overlapped_s"] = simulated.times.overlapped.value;
  if (const auto& stages = simulated.stage_turns; !stages.empty()) {
    json["turns_s"] = turns_json(
        published.stage ? stages.at(static_cast<std::size_t>(*published.stage)) : mean_of(stages));
  }
  json["flop_per_token"] = simulated.flop_per_token;
  json["peak_bytes"] = simulated.peak.value;
  json["fits"] = simulated.fits();
  if (simulated.lacks_routing) json["lacks_routing"] = true;
}

}  // namespace

Json row_json(const JudgedTable& table, std::size_t row) {
  const PublishedIteration& published = *table.table.figures[row].iteration;
  Json json = {{"model", published.model}, {"gpus", published.gpus}, {"tokens", published.tokens}};
  add_published(published, json);
  const PredictedFigure& predicted = table.predicted[row];
  if (predicted.there() && predicted.iteration) {
    add_simulated(*predicted.iteration, published, json);
  }
  if (const auto error = memory_error(table, row)) json["peak_error"] = *error;
  return json;
}

Json iteration_summary_json(const IterationSummary& sum) {
  Json json = {{"rows", sum.rows},
               {"predicted", sum.predicted},
               {"timed", sum.timed},
               {"order", {{"pairs", sum.order.pairs}, {"right", sum.order.right}}}};
  if (sum.timed && !sum.errors.errors.empty()) {
    json["median"] = sum.errors.median();
    json["percentile_90"] = sum.errors.percentile_90();
  }
  for (const JudgedGain& gain : sum.gains) {
    json["gains"].push_back({{"slower", gain.slower},
                             {"faster", gain.faster},
                             {"simulated", gain.simulated},
                             {"published", gain.published}});
  }
  if (!sum.memory.empty()) json["peak_memory_errors"] = sum.memory;
  if (sum.fits.pairs > 0) {
    json["fits"] = {{"rows", sum.fits.pairs}, {"right", sum.fits.right}};
  }
  if (!sum.lack_routing.empty()) json["lack_routing"] = sum.lack_routing;
  return json;
}

}  // namespace moesim
