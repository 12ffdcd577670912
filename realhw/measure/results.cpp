// SPDX-License-Identifier: Apache-2.0
#include "realhw/measure/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/figures.h"
#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/report/case_report.h"
#include "sim/report/table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Seconds median(const std::vector<Seconds>& repeats) { return repeats[median_index(repeats)]; }

/// The mean over steps of what `pick` says of their repeats.
template <class Pick>
Seconds over_steps(const Measured& m, Pick pick) {
  Seconds sum;
  for (const HardwareStep& step : m.steps) sum += pick(step.repeats);
  return sum * (1.0 / static_cast<double>(m.steps.size()));
}

std::vector<std::string> case_row(const Measured& m) {
  if (!m.unsuitable.empty()) return {m.policy, "-", "-", "-", "-", "-", "-", "-", "-"};
  const double steps = static_cast<double>(m.steps.size());
  const auto per_step = [&](Seconds sum) { return to_string(sum * (1.0 / steps)); };
  const auto least = [](const auto& repeats) {
    return *std::min_element(repeats.begin(), repeats.end());
  };
  const auto most = [](const auto& repeats) {
    return *std::max_element(repeats.begin(), repeats.end());
  };
  return {m.policy,
          to_string(over_steps(m, median)),
          to_string(over_steps(m, least)),
          to_string(over_steps(m, most)),
          per_step(m.metrics.total.compute),
          per_step(m.metrics.total.communication),
          per_step(m.metrics.total.parameters),
          per_step(m.metrics.total.exposed),
          std::to_string(m.compared.wrong())};
}

/// What policies that alter the routing did to it, a step, if there is one.
void add_changes(const std::vector<Measured>& cases, std::vector<std::vector<std::string>>& rows) {
  const bool any = std::any_of(cases.begin(), cases.end(), [](const Measured& m) {
    return m.metrics.loss.dropped > 0 || m.metrics.loss.replaced > 0;
  });
  if (!any) return;
  rows[0].insert(rows[0].end(), {"dropped choices", "replaced choices"});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const RunMetrics& metrics = cases[i].metrics;
    const auto steps = static_cast<double>(std::max<std::size_t>(1, cases[i].steps.size()));
    for (const std::int64_t changed : {metrics.loss.dropped, metrics.loss.replaced}) {
      rows[i + 1].push_back(fmt::format("{:.0f}", static_cast<double>(changed) / steps));
    }
  }
}

Json compared_json(const Comparison& c) {
  return {{"outputs", c.outputs},
          {"wrong_outputs", c.wrong_outputs},
          {"input_gradients", c.input_gradients},
          {"wrong_input_gradients", c.wrong_input_gradients},
          {"weight_gradients", c.weight_gradients},
          {"wrong_weight_gradients", c.wrong_weight_gradients},
          {"wrong_bytes", c.wrong_bytes},
          {"weights", c.weights},
          {"wrong_weights", c.wrong_weights}};
}

Json step_json(const HardwareStep& step) {
  Json repeats = Json::array(), ops = Json::array();
  for (const Seconds s : step.repeats) repeats.push_back(s.value);
  for (const auto& [kind, time] : step.ops.kinds) {
    ops.push_back({{"name", kind.name},
                   {"stage", name_of(kind.stage)},
                   {"stream", name_of(kind.stream)},
                   {"time_s", time.value}});
  }
  return {{"plan_xxh3", step.plan},
          {"repeats_s", repeats},
          {"waiting_s", step.ops.waiting.value},
          {"ops", ops}};
}

/// The rows of op_table: op kinds by name, exchanges of parameters apart, and the waiting.
std::map<std::string, Seconds> labelled(const Measured& m) {
  std::map<std::string, Seconds> times;
  const double share = 1.0 / static_cast<double>(m.steps.size());
  for (const HardwareStep& step : m.steps) {
    for (const auto& [kind, time] : step.ops.kinds) {
      times[kind.name + (carries_parameters(kind.stream) ? " (params)" : "")] += time * share;
    }
    times["waiting"] += step.ops.waiting * share;
  }
  return times;
}

Json case_of(const Measured& m, const Topology& topology, const std::string& backend) {
  if (!m.unsuitable.empty()) return {{"policy", m.policy}, {"unsuitable", m.unsuitable}};
  Json result = case_json({{topology.name(), m.policy, backend}, &topology, m.metrics, ""});
  for (const HardwareStep& step : m.steps) result["measured_steps"].push_back(step_json(step));
  result["compared"] = compared_json(m.compared);
  result["wrong"] = m.compared.wrong();
  return result;
}

}  // namespace

std::vector<Seconds> MeasuredStep::makespans() const {
  std::vector<Seconds> all;
  for (const Timeline& timeline : repeats) all.push_back(timeline.makespan);
  return all;
}

const Timeline& MeasuredStep::median() const { return repeats[median_index(makespans())]; }

void add_measured(Measured& measured, const Plan& plan, const MeasuredStep& step,
                  const Topology& topology) {
  const Timeline& timeline = step.median();
  add_step(measured.metrics, PricedPlan(plan, topology), timeline);
  OpTimes ops = op_times(plan, timeline);
  // Over all repeats, which differ in waiting by far more than in their times.
  ops.waiting = Seconds(0);
  for (const Timeline& repeat : step.repeats) {
    ops.waiting +=
        op_times(plan, repeat).waiting * (1.0 / static_cast<double>(step.repeats.size()));
  }
  measured.steps.push_back({hash_of_plan(plan), step.makespans(), ops});
}

std::string hardware_header(const HardwareJob& job, const StepsOrigin& origin,
                            const Topology& cluster) {
  return fmt::format(
      "# moesim-hw, {}, {} on {}, for {} of {} GPUs\n# trace {}, model {}: hidden {}, "
      "expert ffn {}, {}, {} of {} per rank\n# measured; {}; step: median of {} repeats "
      "after {}, mean over steps; ops: of the median\n",
      job.description, counted(job.ranks, "rank"), counted(job.hosts, "host"), cluster.name(),
      cluster.gpu_count(), origin.trace.name, origin.model_name, origin.hidden, origin.expert_ffn,
      counted(origin.layers, "layer"),
      counted(origin.steps, origin.iteration ? "iteration" : "step"),
      counted(origin.tokens_per_rank, "token"),
      origin.iteration  ? "forward, backward and update"
      : origin.backward ? "forward and backward"
                        : "forward only",
      job.repeats, job.warmup);
}

std::string hardware_table(const std::vector<Measured>& cases) {
  std::vector<std::vector<std::string>> rows = {
      {"policy", "step", "least", "most", "compute", "comm", "params", "exposed", "#wrong"}};
  for (const Measured& m : cases) rows.push_back(case_row(m));
  add_changes(cases, rows);
  return align(rows, 1);
}

std::string op_table(const std::vector<Measured>& cases) {
  std::vector<std::vector<std::string>> rows = {{"op"}};
  std::set<std::string> names;
  std::vector<std::map<std::string, Seconds>> times;
  for (const Measured& m : cases) {
    rows.front().push_back(m.policy);
    for (const auto& [name, time] : times.emplace_back(labelled(m))) names.insert(name);
  }
  for (const std::string& name : names) {
    auto& row = rows.emplace_back(1, name);
    for (const auto& of_case : times) {
      const auto found = of_case.find(name);
      row.push_back(found == of_case.end() ? "-" : to_string(found->second));
    }
  }
  return align(rows, 1);
}

std::string hardware_json(const HardwareJob& job, const StepsOrigin& origin,
                          const Topology& cluster, const std::vector<Measured>& cases) {
  Json list = Json::array();
  for (const Measured& m : cases) list.push_back(case_of(m, cluster, job.backend));
  const auto file = [](const InputFile& f) { return Json{{"name", f.name}, {"xxh3", f.hash}}; };
  const Json document = {{"format", "moesim-hw-result"},
                         {"format_version", 2},
                         {"moesim", MOESIM_RELEASE},
                         {"date", job.date},
                         {"backend", job.backend},
                         {"description", job.description},
                         {"launcher", job.launcher},
                         {"ranks", job.ranks},
                         {"hosts", job.hosts},
                         {"warmup", job.warmup},
                         {"repeats", job.repeats},
                         {"trace", file(origin.trace)},
                         {"model", file(origin.model)},
                         {"topology", file(origin.topology)},
                         {"scenario", own_json(origin.scenario)},
                         {"cases", list}};
  return document.dump(1) + "\n";
}

}  // namespace moesim
