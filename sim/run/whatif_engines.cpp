// SPDX-License-Identifier: Apache-2.0
#include "sim/run/whatif_engines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/report/case_columns.h"
#include "sim/run/engine_views.h"
#include "sim/run/result_file.h"
#include "sim/scenario/engine_run.h"

namespace moesim {
namespace {

/// Both values and their change; none of a run that did not take place or has no such figure.
void add_figures(std::vector<Cell>& row, double before, double after, bool is_time) {
  const auto cell = [is_time](double value) {
    if (!(value > 0)) return no_value(is_time ? "s" : "");
    return is_time ? Cell(Seconds(value)) : number_cell(value, value < 10 ? 2 : 0);
  };
  row.push_back(cell(before));
  row.push_back(cell(after));
  if (!(before > 0 && after > 0)) return row.push_back("-");
  const double change = after / before - 1;
  row.push_back({signed_percent(change), change});
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

Printout whatif_table(const std::vector<WhatIfEngine>& cases) {
  Table table("cases", {});
  for (const char* key : {"topology", "policy", "routing"}) {
    table.columns.push_back({key, TableColumn::Kind::key});
  }
  for (const char* figure : {"TTFT p95", "TPOT p50", "tokens/s/GPU"}) {
    table.columns.push_back({figure});
    table.columns.push_back({fmt::format("{} then", figure)});
    table.columns.push_back({fmt::format("{} change", figure)});
  }
  Printout printout;
  std::string reasons;
  for (const WhatIfEngine& c : cases) {
    const CaseName& name = c.before.name;
    const ServingMetrics &a = c.before.outcome.metrics, &b = c.after.outcome.metrics;
    auto& row =
        table.rows.emplace_back(std::vector<Cell>{name.topology, name.policy, name.routing});
    add_figures(row, a.ttft.p95, b.ttft.p95, true);
    add_figures(row, a.tpot.p50, b.tpot.p50, true);
    add_figures(row, a.rates.output_per_gpu, b.rates.output_per_gpu, false);
    for (const auto& [side, words] : {std::pair(&c.before, "before"), {&c.after, "after"}}) {
      if (side->ran()) continue;
      reasons += fmt::format("# {} on {} was not run {} the change: {}\n", name.policy_text(),
                             name.topology, words, side->outcome.unsuitable);
    }
  }
  return printout.add(std::move(table)).add(reasons);
}

std::string whatif_document(const Scenario& scenario, const Inputs& before, const WhatIf& what,
                            const std::vector<WhatIfEngine>& cases, const std::string& version) {
  auto document = document_of_cases("moesim-whatif", scenario, before, version);
  document["step"] = "engine";
  document["scale"] = what.scale;
  document["slow"] = what.slow;
  document["fail"] = what.fail;
  auto list = nlohmann::ordered_json::array();
  for (const WhatIfEngine& c : cases) {
    list.push_back({{"before", engine_case_json(c.before)}, {"after", engine_case_json(c.after)}});
  }
  document["cases"] = std::move(list);
  return document.dump(1) + "\n";
}

}  // namespace moesim
