// SPDX-License-Identifier: Apache-2.0
#include "sim/run/whatif_engines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/report/case_columns.h"
#include "sim/run/engine_notes.h"
#include "sim/run/engine_views.h"
#include "sim/run/result_file.h"
#include "sim/scenario/engine_run.h"

namespace moesim {
namespace {

struct WhatIfFigure {
  const char *name, *key;  // of its column, in JSON
  double (*of)(const ServingMetrics&);
  bool is_time = true;
};
constexpr WhatIfFigure figures[] = {
    {"TTFT p95", "ttft_p95", [](const ServingMetrics& m) { return m.ttft.p95; }},
    {"TPOT p50", "tpot_p50", [](const ServingMetrics& m) { return m.tpot.p50; }},
    {"tokens/s/GPU", "tokens_per_s_per_gpu",
     [](const ServingMetrics& m) { return m.rates.output_per_gpu; }, false}};

/// None of a run that did not take place or has no such figure.
std::optional<double> change_of(double before, double after) {
  return before > 0 && after > 0 ? std::optional(after / before - 1) : std::nullopt;
}

/// Both values and their change.
void add_figure(std::vector<Cell>& row, const WhatIfEngine& c, const WhatIfFigure& figure) {
  const double before = figure.of(c.before.outcome.metrics);
  const double after = figure.of(c.after.outcome.metrics);
  const auto cell = [&figure](double value) {
    if (!(value > 0)) return no_value(figure.is_time ? "s" : "");
    return figure.is_time ? Cell(Seconds(value)) : number_cell(value, value < 10 ? 2 : 0);
  };
  row.push_back(cell(before));
  row.push_back(cell(after));
  const auto change = change_of(before, after);
  row.push_back(change ? Cell(signed_percent(*change), *change) : Cell("-"));
}

nlohmann::ordered_json changes_json(const WhatIfEngine& c) {
  nlohmann::ordered_json json;
  for (const WhatIfFigure& figure : figures) {
    const auto change =
        change_of(figure.of(c.before.outcome.metrics), figure.of(c.after.outcome.metrics));
    json[figure.key] = change ? nlohmann::ordered_json(*change) : nullptr;
  }
  return json;
}

}  // namespace

std::vector<WhatIfEngine> run_whatif(const Scenario& scenario, const Inputs& before,
                                     const Inputs& after, int workers) {
  if (scenario.engine_run->decode_instances > 0) {
    throw Error("'whatif' of pools that are apart, whose keys and values move over other links",
                "--set topology.node.nics.bandwidth=... in two runs; or instances that do both");
  }
  ComparisonOptions options;
  options.workers = workers;
  const auto old = run_engines(scenario, before, options).cases;
  const auto fresh = run_engines(scenario, after, options).cases;
  std::vector<WhatIfEngine> cases;
  for (std::size_t i = 0; i < old.size(); ++i) cases.push_back({old[i], fresh[i]});
  return cases;
}

Printout whatif_table(const Scenario& scenario, const std::vector<WhatIfEngine>& cases) {
  Table table("cases", {});
  for (const char* key : {"topology", "policy", "routing"}) {
    table.columns.push_back({key, TableColumn::Kind::key});
  }
  for (const WhatIfFigure& figure : figures) {
    table.columns.push_back({figure.name});
    table.columns.push_back({fmt::format("{} then", figure.name)});
    table.columns.push_back({fmt::format("{} change", figure.name)});
  }
  std::vector<const EngineCase*> ran;
  Printout printout;
  std::string reasons;
  for (const WhatIfEngine& c : cases) {
    const CaseName& name = c.before.name;
    auto& row =
        table.rows.emplace_back(std::vector<Cell>{name.topology, name.policy, name.routing});
    for (const WhatIfFigure& figure : figures) add_figure(row, c, figure);
    for (const auto& [side, words] : {std::pair(&c.before, "before"), {&c.after, "after"}}) {
      if (side->ran()) {
        ran.push_back(side);
        continue;
      }
      reasons += fmt::format("# {} on {} was not run {} the change: {}\n", name.policy_text(),
                             name.topology, words, side->outcome.unsuitable);
    }
  }
  return printout.add(std::move(table)).add(reasons).add(figure_notes(scenario, ran));
}

std::string whatif_document(const Scenario& scenario, const Inputs& before, const WhatIf& what,
                            const std::vector<WhatIfEngine>& cases, const std::string& version) {
  auto document = document_of_cases("moesim-whatif", scenario, before, version);
  document["step"] = "engine";
  add_pass_keys(document, scenario);
  document["scale"] = what.scale;
  document["slow"] = what.slow;
  document["fail"] = what.fail;
  auto list = nlohmann::ordered_json::array();
  for (const WhatIfEngine& c : cases) {
    list.push_back({{"before", engine_case_json(c.before)},
                    {"after", engine_case_json(c.after)},
                    {"change", changes_json(c)}});
  }
  document["cases"] = std::move(list);
  return document.dump(1) + "\n";
}

}  // namespace moesim
