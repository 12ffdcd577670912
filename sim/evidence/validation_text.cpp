// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/evidence/validation.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

std::string measured_header(const ResultValidation& result) {
  const HardwareResult& m = result.measured;
  return fmt::format(
      "# {}\n"
      "# {}\n"
      "# measured: {}, {} on {}, {}; median of {} after {}\n"
      "# simulated: {} at {}, the very plans that were measured\n",
      m.file, result.setting, m.description, counted(m.ranks, "rank"), counted(m.hosts, "host"),
      m.date, counted(m.repeats, "repeat"), counted(m.warmup, "warm-up"), result.topology,
      result.fidelity);
}

Printout step_table(const ResultValidation& result) {
  Table table("policies", 1,
              {"policy", "measured", "simulated", "error", "spread", "place measured",
               "place simulated", "#wrong"});
  for (const PolicyValidation& p : result.policies) {
    table.rows.push_back(
        {p.policy, p.measured, p.simulated, Cell(signed_percent(p.error()), p.error()),
         Cell(percent(p.spread), p.spread), p.measured_place, p.simulated_place, p.wrong});
  }
  Printout printout;
  printout.add(std::move(table));
  for (const HardwareCase& c : result.measured.cases) {
    if (!c.unsuitable.empty()) {
      printout.add(fmt::format("{}: not run: {}", c.policy, c.unsuitable));
    }
  }
  return printout;
}

Seconds time_of(const OpTimes& times, const OpGroup& kind) {
  const auto found = times.kinds.find(kind);
  return found == times.kinds.end() ? Seconds(0) : found->second;
}

/// The ones that took most time first. The ones of one side only have no error.
std::vector<OpGroup> kinds_of(const PolicyValidation& p) {
  std::vector<OpGroup> kinds;
  for (const auto& [kind, time] : p.measured_ops.kinds) kinds.push_back(kind);
  for (const auto& [kind, time] : p.simulated_ops.kinds) {
    if (!p.measured_ops.kinds.contains(kind)) kinds.push_back(kind);
  }
  std::stable_sort(kinds.begin(), kinds.end(), [&](const OpGroup& a, const OpGroup& b) {
    return time_of(p.measured_ops, a) > time_of(p.measured_ops, b);
  });
  return kinds;
}

Cell error_cell(Seconds measured, Seconds simulated) {
  if (measured <= Seconds(0) || simulated <= Seconds(0)) return "-";
  const double error = simulated / measured - 1;
  return {signed_percent(error), error};
}

Cell time_cell(Seconds t) { return t > Seconds(0) ? Cell(t) : no_value("s"); }

Table op_table(const ResultValidation& result) {
  Table table("ops", 4,
              {"policy", "op", "stage", "stream", "measured", "simulated", "error", "of step"});
  for (const PolicyValidation& p : result.policies) {
    const auto add = [&](const std::vector<std::string>& names, Seconds measured,
                         Seconds simulated) {
      auto& row = table.rows.emplace_back(names.begin(), names.end());
      const double part = measured / p.measured;
      row.insert(row.end(), {time_cell(measured), time_cell(simulated),
                             error_cell(measured, simulated), Cell(percent(part), part)});
    };
    for (const OpGroup& kind : kinds_of(p)) {
      add({p.policy, kind.name, name_of(kind.stage), name_of(kind.stream)},
          time_of(p.measured_ops, kind), time_of(p.simulated_ops, kind));
    }
    add({p.policy, "waiting", "-", "-"}, p.measured_ops.waiting, p.simulated_ops.waiting);
  }
  return table;
}

std::string order_text(const ResultValidation& result) {
  std::string text = fmt::format(
      "order: {} of {} differ by more than {:.0f} % as measured, {} of them ordered wrongly\n",
      result.ordered_pairs, counted(result.pairs, "pair"), 100 * order_margin,
      result.misordered.empty() ? "none" : std::to_string(result.misordered.size()));
  for (const auto& [fast, slow] : result.misordered) {
    text += fmt::format("  {} is faster than {}, but not simulated so\n", fast, slow);
  }
  return text;
}

struct Named {
  double error;
  std::string name;
};

Named worst_of(const Validation& validation) {
  Named worst{0, ""};
  for (const ResultValidation& result : validation.results) {
    for (const PolicyValidation& p : result.policies) {
      if (!worst.name.empty() && std::abs(p.error()) <= std::abs(worst.error)) continue;
      worst = {p.error(), validation.results.size() == 1
                              ? p.policy
                              : fmt::format("{} of {}", p.policy, result.measured.file)};
    }
  }
  return worst;
}

/// Repeats that scatter more than the tolerance prove little.
std::string restless_text(const Validation& validation) {
  int restless = 0, all = 0;
  for (const ResultValidation& result : validation.results) {
    for (const PolicyValidation& p : result.policies) {
      ++all;
      if (p.spread > validation.tolerance) ++restless;
    }
  }
  if (restless == 0) return "";
  return fmt::format(
      "note: the repeats of {} of {} spread by more than the tolerance; more repeats, or a quieter "
      "machine\n",
      restless, counted(all, "case"));
}

Json ops_json(const PolicyValidation& p) {
  Json list = Json::array();
  for (const OpGroup& kind : kinds_of(p)) {
    list.push_back({{"name", kind.name},
                    {"stage", name_of(kind.stage)},
                    {"stream", name_of(kind.stream)},
                    {"measured_s", time_of(p.measured_ops, kind).value},
                    {"simulated_s", time_of(p.simulated_ops, kind).value}});
  }
  return list;
}

Json policy_json(const PolicyValidation& p) {
  return {{"policy", p.policy},
          {"measured_s", p.measured.value},
          {"spread", p.spread},
          {"simulated_s", p.simulated.value},
          {"error", p.error()},
          {"measured_place", p.measured_place},
          {"simulated_place", p.simulated_place},
          {"wrong", p.wrong},
          {"measured_waiting_s", p.measured_ops.waiting.value},
          {"simulated_waiting_s", p.simulated_ops.waiting.value},
          {"ops", ops_json(p)}};
}

Json result_json(const ResultValidation& result) {
  const HardwareResult& m = result.measured;
  Json policies = Json::array(), misordered = Json::array();
  for (const PolicyValidation& p : result.policies) policies.push_back(policy_json(p));
  for (const auto& [fast, slow] : result.misordered) misordered.push_back({fast, slow});
  return {{"file", m.file},
          {"measured_by", m.moesim},
          {"description", m.description},
          {"date", m.date},
          {"ranks", m.ranks},
          {"hosts", m.hosts},
          {"warmup", m.warmup},
          {"repeats", m.repeats},
          {"topology", result.topology},
          {"fidelity", result.fidelity},
          {"policies", policies},
          {"pairs", result.pairs},
          {"ordered_pairs", result.ordered_pairs},
          {"misordered", misordered}};
}

}  // namespace

Printout validation_text(const Validation& validation, const std::string& simulator) {
  Printout printout;
  printout.add(fmt::format(
      "# moesim {}: measured against simulated. step: mean over steps; spread: (most - least) / "
      "median of repeats\n"
      "# ops: mean over ranks, sum over a step; exchanges from the last joining to the last end, "
      "waiting before apart\n",
      simulator));
  for (const ResultValidation& result : validation.results) {
    printout.add("\n" + measured_header(result)).add(step_table(result)).add("\n");
    printout.add(op_table(result)).add("\n" + order_text(result));
  }
  const Named worst = worst_of(validation);
  printout.add(fmt::format("\nstep time: mean absolute error {}, worst {} ({}); tolerance {}\n{}",
                           percent(validation.mean_error()), signed_percent(worst.error),
                           worst.name, percent(validation.tolerance), restless_text(validation)));
  const auto objections = validation.objections();
  if (objections.empty()) return printout.add("valid\n");
  return printout.add(fmt::format("not valid: {}\n", fmt::join(objections, "; ")));
}

std::string validation_json(const Validation& validation, const std::string& simulator) {
  Json results = Json::array();
  for (const ResultValidation& result : validation.results) results.push_back(result_json(result));
  const Json document = {{"format", "moesim-validation"},
                         {"format_version", 1},
                         {"moesim", simulator},
                         {"tolerance", validation.tolerance},
                         {"order_margin", order_margin},
                         {"mean_absolute_error", validation.mean_error()},
                         {"misordered", validation.misordered()},
                         {"valid", validation.objections().empty()},
                         {"results", results}};
  return document.dump(1) + "\n";
}

}  // namespace moesim
