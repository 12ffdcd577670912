// SPDX-License-Identifier: Apache-2.0
// The tables of `moesim explain` for an iteration. The figures of `moesim explain` for an
// iteration, for programs.
#include "sim/report/iteration_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/units.h"
#include "sim/report/path_report.h"
#include "sim/report/time_bounds_table.h"

namespace moesim {
namespace {

constexpr std::size_t few_ranks = 16;

Cell share_of(Seconds part, Seconds whole) { return percent_cell(part / whole, 1); }

/// The ranks of each stage.
std::map<int, std::vector<const RankReport*>> by_stage(const IterationExplanation& e) {
  std::map<int, std::vector<const RankReport*>> stages;
  for (const RankReport& rank : e.ranks) stages[rank.stage].push_back(&rank);
  return stages;
}

template <class Value>
Seconds mean_of(const std::vector<const RankReport*>& ranks, Value value) {
  Seconds sum;
  for (const RankReport* rank : ranks) sum += value(*rank);
  return sum * (1.0 / static_cast<double>(ranks.size()));
}

Table stage_table(const IterationExplanation& e) {
  const Seconds whole = e.times.iteration;
  std::vector<IterationPart> parts;
  std::vector<std::string> columns = {"stage", "GPUs", "on the path"};
  for (int p = 0; p < iteration_part_count; ++p) {
    const auto part = static_cast<IterationPart>(p);
    if (!(e.times.of(part) > whole * 1e-6)) continue;
    parts.push_back(part);
    columns.emplace_back(name_of(part));
  }
  Table table("stages", 1, columns);
  for (const auto& [stage, ranks] : by_stage(e)) {
    Seconds path;
    for (const RankReport* rank : ranks) path += e.sums.gpus[rank->gpu.index()];
    auto& row = table.rows.emplace_back();
    row.emplace_back(std::to_string(stage));
    row.emplace_back(static_cast<int>(ranks.size()));
    row.push_back(share_of(path, whole));
    for (const IterationPart part : parts) {
      const Seconds mean = mean_of(ranks, [&](const RankReport& r) { return r.times.of(part); });
      row.push_back(share_of(mean, whole));
    }
  }
  return table;
}

Table turn_table(const IterationExplanation& e) {
  std::vector<std::string> columns;
  std::vector<Cell> row;
  for (std::size_t p = 0; p < e.turns->parts.size(); ++p) {
    if (!(e.turns->parts[p].value > 0)) continue;
    columns.emplace_back(turn_part_names[p]);
    row.emplace_back(e.turns->parts[p]);
  }
  Table table("turns", 0, columns);
  table.rows.push_back(std::move(row));
  return table;
}

/// All of few; of many those of each stage that compute longest and shortest.
std::vector<const RankReport*> shown_ranks(const IterationExplanation& e) {
  std::vector<const RankReport*> shown;
  for (const auto& [stage, ranks] : by_stage(e)) {
    if (e.ranks.size() <= few_ranks) {
      shown.insert(shown.end(), ranks.begin(), ranks.end());
      continue;
    }
    const auto compute = [](const RankReport* rank) { return rank->times.slowest_compute; };
    shown.push_back(*std::ranges::max_element(ranks, {}, compute));
    const RankReport* least = *std::ranges::min_element(ranks, {}, compute);
    if (least != shown.back()) shown.push_back(least);
  }
  return shown;
}

Seconds exposed_of(const IterationTimes& times) {
  Seconds sum;
  for (const IterationPart part :
       {IterationPart::tokens, IterationPart::tensor, IterationPart::context,
        IterationPart::weights, IterationPart::gradients, IterationPart::offload}) {
    sum += times.of(part);
  }
  return sum;
}

Table rank_table(const IterationExplanation& e) {
  Table table("ranks", 2,
              {"rank", "GPU", "stage", "compute", "exposed", "waiting", "bubble", "on the path",
               "peak memory"});
  for (const RankReport* rank : shown_ranks(e)) {
    const IterationTimes& of = rank->times;
    Cell peak(rank->memory.peak);
    if (!rank->memory.fits()) peak.text += "!";
    table.rows.push_back({std::to_string(rank->gpu.value), rank->name, rank->stage,
                          of.slowest_compute, exposed_of(of), of.of(IterationPart::waiting),
                          of.of(IterationPart::bubble), e.sums.gpus[rank->gpu.index()], peak});
  }
  return table;
}

/// The fullest rank of every stage, with what fills it.
Printout memory_table(const IterationExplanation& e) {
  std::string text;
  std::vector<std::string> columns = {"stage", "rank", "peak"};
  std::vector<std::size_t> parts;
  const auto& named = e.ranks.front().memory.parts;
  for (std::size_t p = 0; p < named.size(); ++p) {
    const bool any = std::ranges::any_of(
        e.ranks, [&](const RankReport& rank) { return rank.memory.parts[p].bytes.value > 0; });
    if (!any) continue;
    parts.push_back(p);
    columns.push_back(named[p].name);
  }
  Table table("memory", 1, columns);
  for (const auto& [stage, ranks] : by_stage(e)) {
    const RankReport& full = **std::ranges::max_element(
        ranks, {}, [](const RankReport* rank) { return rank->memory.peak; });
    auto& row = table.rows.emplace_back();
    row.emplace_back(std::to_string(stage));
    row.emplace_back(full.gpu.value);
    row.emplace_back(full.memory.peak);
    for (const std::size_t p : parts) row.emplace_back(full.memory.parts[p].bytes);
    text += fmt::format("# rank {} is fullest {}\n", full.gpu.value, full.memory.when);
  }
  return Printout().add(std::move(table)).add(text);
}

/// One row of bounds.
Table bounds_row(const IterationExplanation& e) {
  Table table("bounds", 0, {"simulated"});
  table.rows.push_back({e.times.iteration});
  add_time_bounds(table, 0, {{e.times.iteration, e.bounds}});
  table.titles.clear();
  return table;
}

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

Printout iteration_explanation_text(const IterationExplanation& e) {
  Printout printout;
  printout.add(fmt::format("\n{} {}: parts of the mean GPU of each pipeline stage\n", e.noun,
                           to_string(e.times.iteration)));
  printout.add(stage_table(e));
  if (e.turns) printout.add("\nthe turns of the mean GPU\n").add(turn_table(e));
  printout.add("\nranks\n").add(rank_table(e));
  printout.add("\nmemory of the fullest GPU of each stage\n").add(memory_table(e));
  printout.add(fmt::format("\nthe critical path: {} segments, {}\n", e.sums.segments,
                           to_string(e.sums.length)));
  printout.add(path_table(e.sums, 1)).add("\n").add(path_gpu_table(e.sums, 1, 5));
  printout.add("\nwhat no such plan can beat, as a part of the simulated time\n");
  printout.add(bounds_row(e));
  if (e.elasticities.empty()) return printout;
  printout.add("\nwhat the same plan takes with more of a resource\n");
  return printout.add(elasticity_table(e.elasticities));
}

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
