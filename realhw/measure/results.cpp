// SPDX-License-Identifier: Apache-2.0
#include "realhw/measure/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "sim/base/units.h"
#include "sim/report/case_report.h"
#include "sim/report/table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// Time in every op name, exchanges of parameters apart: a mean over GPUs.
std::map<std::string, Seconds> op_times(const Plan& plan, const Timeline& timeline) {
  std::map<std::string, Seconds> times;
  for (std::size_t op = 0; op < plan.ops.size(); ++op) {
    const Op& of_plan = plan.ops[op];
    Seconds& sum = times[of_plan.name + (of_plan.lane == Lane::param ? " (params)" : "")];
    for (const Interval& interval : timeline.ops[op]) {
      sum += (interval.end - interval.start) * (1.0 / plan.gpus);
    }
  }
  return times;
}

Seconds median(const std::vector<Seconds>& repeats) { return repeats[median_index(repeats)]; }

/// The mean over steps of what `pick` says of their repeats.
template <class Pick>
Seconds over_steps(const Measured& m, Pick pick) {
  Seconds sum;
  for (const auto& repeats : m.steps) sum += pick(repeats);
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

/// What policies that alter the routing did to it, a step, where there is one.
void add_changes(const std::vector<Measured>& cases, std::vector<std::vector<std::string>>& rows) {
  const bool any = std::any_of(cases.begin(), cases.end(), [](const Measured& m) {
    return m.metrics.dropped_choices > 0 || m.metrics.replaced_choices > 0;
  });
  if (!any) return;
  rows[0].insert(rows[0].end(), {"dropped choices", "replaced choices"});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const RunMetrics& metrics = cases[i].metrics;
    const auto steps = static_cast<double>(std::max<std::size_t>(1, cases[i].steps.size()));
    for (const std::int64_t changed : {metrics.dropped_choices, metrics.replaced_choices}) {
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
          {"wrong_bytes", c.wrong_bytes}};
}

Json case_of(const Measured& m, const Topology& topology, const std::string& backend) {
  if (!m.unsuitable.empty()) return {{"policy", m.policy}, {"unsuitable", m.unsuitable}};
  Json result = Json::parse(case_json({topology.name(), m.policy, backend}, m.metrics, topology));
  Json repeats = Json::array();
  for (const auto& step : m.steps) {
    Json& of_step = repeats.emplace_back(Json::array());
    for (const Seconds s : step) of_step.push_back(s.value);
  }
  result["step_s_repeats"] = repeats;
  for (const auto& [name, time] : m.ops) result["op_s"][name] = time.value;
  result["compared"] = compared_json(m.compared);
  result["wrong"] = m.compared.wrong();
  return result;
}

}  // namespace

std::size_t median_index(const std::vector<Seconds>& repeats) {
  std::vector<std::size_t> order(repeats.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return repeats[a] < repeats[b]; });
  return order[(order.size() - 1) / 2];
}

std::vector<Seconds> MeasuredStep::makespans() const {
  std::vector<Seconds> all;
  for (const Timeline& timeline : repeats) all.push_back(timeline.makespan);
  return all;
}

const Timeline& MeasuredStep::median() const { return repeats[median_index(makespans())]; }

void add_measured(Measured& measured, const Plan& plan, const MeasuredStep& step,
                  const Topology& topology) {
  const Timeline& timeline = step.median();
  add_step(measured.metrics, plan, timeline, topology);
  measured.steps.push_back(step.makespans());
  const double steps = static_cast<double>(measured.steps.size());
  for (auto& [name, time] : measured.ops) time = time * ((steps - 1) / steps);
  for (const auto& [name, time] : op_times(plan, timeline)) {
    measured.ops[name] += time * (1 / steps);
  }
}

std::string hardware_header(const HardwareJob& job, const Scenario& scenario,
                            const Inputs& inputs) {
  const ClusterInput& cluster = inputs.clusters[0];
  return fmt::format(
      "# moesim-hw, {}, {} ranks on {} host{}, for {} of {} GPUs\n"
      "# trace {}, model {}: hidden {}, expert ffn {}, {} layers, {} steps of {} tokens per rank\n"
      "# measured; {}; step: median of {} repeats after {}, mean over steps; ops: of the median\n",
      job.description, job.ranks, job.hosts, job.hosts == 1 ? "" : "s", cluster.topology.name(),
      cluster.topology.gpu_count(), inputs.trace.info().name, inputs.model.name,
      inputs.model.hidden, inputs.model.expert_ffn, inputs.layers.size(),
      cluster.batches.batches.size(), cluster.batches.tokens_per_rank,
      scenario.backward ? "forward and backward" : "forward only", job.repeats, job.warmup);
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
  for (const Measured& m : cases) {
    rows.front().push_back(m.policy);
    for (const auto& [name, time] : m.ops) names.insert(name);
  }
  for (const std::string& name : names) {
    auto& row = rows.emplace_back(1, name);
    for (const Measured& m : cases) {
      const auto found = m.ops.find(name);
      row.push_back(found == m.ops.end() ? "-" : to_string(found->second));
    }
  }
  return align(rows, 1);
}

std::string hardware_json(const HardwareJob& job, const Scenario& scenario, const Inputs& inputs,
                          const std::vector<Measured>& cases) {
  Json list = Json::array();
  for (const Measured& m : cases)
    list.push_back(case_of(m, inputs.clusters[0].topology, job.backend));
  Json overrides = Json::array();
  for (const Override& o : scenario.set) overrides.push_back(o.path + "=" + o.value);
  const auto file = [](const InputFile& f) { return Json{{"name", f.name}, {"xxh3", f.hash}}; };
  const Json document = {{"format", "moesim-hw-result"},
                         {"format_version", 1},
                         {"moesim", MOESIM_RELEASE},
                         {"backend", job.backend},
                         {"description", job.description},
                         {"launcher", job.launcher},
                         {"ranks", job.ranks},
                         {"hosts", job.hosts},
                         {"warmup", job.warmup},
                         {"repeats", job.repeats},
                         {"trace", file(inputs.trace_file)},
                         {"model", file(inputs.model_file)},
                         {"topology", file(inputs.clusters[0].file)},
                         {"set", overrides},
                         {"pass", scenario.backward ? "forward+backward" : "forward"},
                         {"cases", list}};
  return document.dump(1) + "\n";
}

}  // namespace moesim
