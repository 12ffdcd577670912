// SPDX-License-Identifier: Apache-2.0
// The tables of `moesim explain`.
#include "sim/report/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/units.h"
#include "sim/report/table.h"

namespace moesim {
namespace {

using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

std::string gpu_name(const Topology& topology, GpuId gpu) {
  return topology.vertices()[topology.vertex_of(gpu).index()].name;
}

/// "node0.nic0 -> leaf0"; what both names begin with is told once: "node0.gpu1 -> nic1".
std::string link_name(const Topology& topology, LinkId id) {
  const Link& link = topology.links()[id.index()];
  const std::string& from = topology.vertices()[link.from.index()].name;
  const std::string& to = topology.vertices()[link.to.index()].name;
  const std::size_t dot = from.rfind('.');
  const bool inside =
      dot != std::string::npos && dot == to.rfind('.') && from.compare(0, dot, to, 0, dot) == 0;
  return fmt::format("{} -> {}", from, inside ? to.substr(dot + 1) : to);
}

std::string class_name(const Topology& topology, const ClassLoad& load) {
  return topology.classes()[static_cast<std::size_t>(load.link_class)].name;
}

/// "32", "4 x 8" or, for communicators of several sizes, "3 x 8-16".
std::string members(const PhaseReport& phase) {
  std::string text = phase.communicators == 1 ? "" : fmt::format("{} x ", phase.communicators);
  text += std::to_string(phase.least_gpus);
  if (phase.most_gpus != phase.least_gpus) text += fmt::format("-{}", phase.most_gpus);
  return text;
}

std::string work_of(const KernelReport& kernel) {
  if (kernel.flops.value == 0) return to_string(kernel.bytes);
  double number = kernel.flops.value;
  const char* prefix = " kMGTP";
  while (number >= 999.5 && prefix[1] != 0) number /= 1000, ++prefix;
  return fmt::format("{:.4g} {}FLOP", number, *prefix == ' ' ? "" : std::string(1, *prefix));
}

std::string order_table(const Explanation& e, Pass pass, const Topology& topology) {
  Rows rows = {{"step", "GPUs", "mean", "max", "slowest GPU", "work there", "bound by"}};
  for (const StepOfLayer& step : e.order) {
    if (step.phase) {
      const PhaseReport& phase = e.phases[step.index];
      if (phase.pass != pass) continue;
      rows.push_back({"> " + phase.name, members(phase), "", to_string(phase.times[0].in_layer), "",
                      "", bound_by(phase, topology)});
    } else {
      const KernelReport& kernel = e.kernels[step.index];
      if (kernel.pass != pass) continue;
      rows.push_back({kernel.name, std::to_string(kernel.gpus), to_string(kernel.mean),
                      to_string(kernel.max), gpu_name(topology, kernel.slowest), work_of(kernel),
                      name_of(kernel.bound)});
    }
  }
  return align(rows, 1);
}

std::string reach_table(const Explanation& e, Pass pass) {
  Rows rows = {{"phase", "GPUs", "rounds", "rows", "on GPU", "in host", "off host", "bytes",
                "on GPU", "in host", "off host"}};
  for (const PhaseReport& phase : e.phases) {
    if (phase.pass != pass) continue;
    const auto& [counts, bytes] = phase.reach;
    const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    Row row = {phase.name, members(phase), std::to_string(phase.rounds),
               total == 0 ? "-" : std::to_string(total)};
    for (const std::int64_t count : counts) {
      row.push_back(total == 0 ? "-" : std::to_string(count));
    }
    row.push_back(to_string(std::accumulate(bytes.begin(), bytes.end(), Bytes(0))));
    for (const Bytes b : bytes) row.push_back(to_string(b));
    rows.push_back(row);
  }
  return align(rows, 1);
}

std::string link_table(const Explanation& e, Pass pass, const Topology& topology) {
  Rows rows = {{"phase", "class", "busiest link", "its load", "takes", "x mean", "links used",
                "bytes on all"}};
  for (const PhaseReport& phase : e.phases) {
    if (phase.pass != pass) continue;
    for (std::size_t c = 0; c < phase.classes.size(); ++c) {
      const ClassLoad& load = phase.classes[c];
      const char* mark = static_cast<int>(c) == phase.busiest_class ? " *" : "";
      rows.push_back({c == 0 ? phase.name : "", class_name(topology, load) + mark,
                      link_name(topology, load.busiest), to_string(load.busiest_bytes),
                      to_string(load.busiest_time), fmt::format("{:.2f}", load.over_mean),
                      fmt::format("{}/{}", load.used, load.links), to_string(Bytes(load.bytes))});
    }
    if (phase.classes.empty()) rows.push_back({phase.name, "none", "nothing leaves its GPU"});
  }
  return align(rows, 3);
}

std::string time_table(const Explanation& e, Pass pass) {
  const bool minimums = std::any_of(e.phases.begin(), e.phases.end(), [](const PhaseReport& phase) {
    return phase.minimum > Seconds(0);
  });
  Rows rows = {{"phase", "by", "overhead", "latency", "transfer"}};
  if (minimums) rows[0].emplace_back("minimum time");
  rows[0].insert(rows[0].end(), {"alone", "in layer", "wait (mean)"});
  for (const PhaseReport& phase : e.phases) {
    if (phase.pass != pass) continue;
    const ExchangeTime& closed = phase.closed_form;
    Row& formula = rows.emplace_back(Row{phase.name, "closed form", to_string(closed.overhead),
                                         to_string(closed.latency), to_string(closed.transfer)});
    if (minimums) formula.push_back(to_string(phase.minimum));
    formula.push_back(to_string(phase.closed_form_total()));
    for (const PhaseTime& time : phase.times) {
      Row& row = rows.emplace_back(Row{"", time.fidelity});
      row.resize(minimums ? 6 : 5);
      row.insert(row.end(),
                 {to_string(time.alone), to_string(time.in_layer), to_string(time.wait)});
    }
  }
  return align(rows, 2);
}

std::string bound_table(const Explanation& e) {
  Rows rows = {{"pass", "stage", "row", "off host", "moved", "tightest port", "bound"}};
  for (const auto& [fidelity, time] : e.layer) {
    rows[0].push_back(fidelity);
    rows[0].emplace_back("x");
  }
  for (const BoundReport& report : e.bounds) {
    Row row = {name_of(report.pass),
               name_of(report.stage),
               to_string(report.row),
               to_string(report.least.between_hosts),
               to_string(report.between_hosts),
               report.least.port.empty() ? "-" : report.least.port,
               to_string(report.bound())};
    for (const auto& [fidelity, time] : report.achieved) {
      row.push_back(to_string(time));
      row.push_back(report.bound().value > 0 ? fmt::format("{:.2f}", time / report.bound()) : "-");
    }
    rows.push_back(row);
  }
  return align(rows, 2);
}

bool has_pass(const Explanation& e, Pass pass) {
  for (const PhaseReport& phase : e.phases) {
    if (phase.pass == pass) return true;
  }
  return false;
}

}  // namespace

std::string explain_text(const Explanation& e, const Topology& topology) {
  std::string text;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    if (!has_pass(e, pass)) continue;
    text += fmt::format(
        "\n{}: the layer in order (> exchanges: time at {} in the layer)\n{}"
        "\n{}: what moves\n{}"
        "\n{}: links (* the busiest of the phase)\n{}"
        "\n{}: times of the exchanges\n{}",
        name_of(pass), e.phases[0].times[0].fidelity, order_table(e, pass, topology), name_of(pass),
        reach_table(e, pass), name_of(pass), link_table(e, pass, topology), name_of(pass),
        time_table(e, pass));
  }
  text += fmt::format("\nwhat no dispatch can beat, and all exchanges of the stage alone\n{}",
                      bound_table(e));
  text += "\nlayer alone:";
  for (const auto& [fidelity, time] : e.layer) {
    text += fmt::format("  {} {}", fidelity, to_string(time));
  }
  return text + "\n";
}

}  // namespace moesim
