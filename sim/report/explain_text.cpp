// SPDX-License-Identifier: Apache-2.0
// The tables of `moesim explain`.
#include "sim/report/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/units.h"
#include "sim/report/names.h"

namespace moesim {
namespace {

using Row = std::vector<Cell>;

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

Table order_table(const Explanation& e, Pass pass, const Topology& topology) {
  Table table(fmt::format("{} order", name_of(pass)), 1,
              {"step", "GPUs", "mean", "max", "bound by", "slowest GPU", "work there"});
  for (const StepOfLayer& step : e.order) {
    if (step.phase) {
      const PhaseReport& phase = e.phases[step.index];
      if (phase.pass != pass) continue;
      table.rows.push_back({"> " + phase.name, members(phase), "", phase.times[0].in_layer,
                            bound_by(phase, topology), "", ""});
    } else {
      const KernelReport& kernel = e.kernels[step.index];
      if (kernel.pass != pass) continue;
      table.rows.push_back({kernel.name, kernel.gpus, kernel.mean, kernel.max,
                            name_of(kernel.bound), gpu_name(topology, kernel.slowest),
                            work_of(kernel)});
    }
  }
  return table;
}

Table reach_table(const Explanation& e, Pass pass) {
  Table table(fmt::format("{} moves", name_of(pass)), 1,
              {"phase", "GPUs", "bytes", "off host", "in host", "on GPU", "rounds", "rows",
               "rows off host", "rows in host", "rows on GPU"});
  for (const PhaseReport& phase : e.phases) {
    if (phase.pass != pass) continue;
    const auto& [counts, bytes] = phase.reach;
    const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    Row row = {phase.name, members(phase), std::accumulate(bytes.begin(), bytes.end(), Bytes(0))};
    row.insert(row.end(), bytes.rbegin(), bytes.rend());
    const auto shown = [&](std::int64_t count) { return total == 0 ? Cell("-") : Cell(count); };
    row.insert(row.end(), {phase.rounds, shown(total)});
    for (auto count = counts.rbegin(); count != counts.rend(); ++count)
      row.push_back(shown(*count));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table link_table(const Explanation& e, Pass pass, const Topology& topology) {
  Table table(fmt::format("{} links", name_of(pass)), 3,
              {"phase", "class", "busiest link", "its load", "takes", "x mean", "links used",
               "bytes on all"});
  for (const PhaseReport& phase : e.phases) {
    if (phase.pass != pass) continue;
    for (std::size_t c = 0; c < phase.classes.size(); ++c) {
      const ClassLoad& load = phase.classes[c];
      const char* mark = static_cast<int>(c) == phase.busiest_class ? " *" : "";
      table.rows.push_back({c == 0 ? phase.name : "", class_name(topology, load) + mark,
                            link_name(topology, load.busiest), load.busiest_bytes,
                            load.busiest_time,
                            Cell(fmt::format("{:.2f}", load.over_mean), load.over_mean),
                            fmt::format("{}/{}", load.used, load.links), Bytes(load.bytes)});
    }
    if (phase.classes.empty()) {
      table.rows.push_back({phase.name, "none", "nothing leaves its GPU"});
    }
  }
  return table;
}

Table time_table(const Explanation& e, Pass pass) {
  const bool minimums = std::any_of(e.phases.begin(), e.phases.end(), [](const PhaseReport& phase) {
    return phase.minimum > Seconds(0);
  });
  Table table(fmt::format("{} times", name_of(pass)), 2,
              {"phase", "by", "alone", "in layer", "wait (mean)", "overhead", "latency", "transfer",
               "minimum time"});
  table.columns.back().telling = minimums;
  for (const PhaseReport& phase : e.phases) {
    if (phase.pass != pass) continue;
    const ExchangeTime& closed = phase.closed_form;
    table.rows.push_back({phase.name, "closed form", phase.closed_form_total(), "", "",
                          closed.overhead, closed.latency, closed.transfer, phase.minimum});
    for (const PhaseTime& time : phase.times) {
      table.rows.push_back({"", time.fidelity, time.alone, time.in_layer, time.wait});
    }
  }
  return table;
}

Table bound_table(const Explanation& e) {
  std::vector<std::string> names = {"pass", "stage", "bound"};
  for (const auto& [fidelity, time] : e.layer) {
    names.push_back(fidelity);
    names.push_back("x " + fidelity);
  }
  names.insert(names.end(), {"tightest port", "row", "off host", "moved"});
  Table table("bounds", 2, names);
  for (const BoundReport& report : e.bounds) {
    const bool bound = report.bound().value > 0;
    Row row = {name_of(report.pass), name_of(report.stage), report.bound()};
    for (const auto& [fidelity, time] : report.achieved) {
      const double ratio = bound ? time / report.bound() : 0;
      row.push_back(time);
      row.push_back(bound ? Cell(fmt::format("{:.2f}", ratio), ratio) : Cell("-"));
    }
    row.insert(row.end(), {report.least.port.empty() ? "-" : report.least.port, report.row,
                           report.least.between_hosts, report.between_hosts});
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table fused_table(const FusedMemory& memory) {
  Table table(fmt::format("{} fused", name_of(memory.pass)), 1,
              {"wave", "rows", "sent from", "computed from", "to", "back at", "received", "inner",
               "results", "together"});
  for (std::size_t w = 0; w < memory.waves.size(); ++w) {
    const FusedWave& wave = memory.waves[w];
    table.rows.push_back({static_cast<std::int64_t>(w + 1), wave.rows, wave.sent, wave.begins,
                          wave.ends, wave.left, wave.most.received, wave.most.inner,
                          wave.most.results, wave.most.total()});
  }
  return table;
}

bool has_pass(const Explanation& e, Pass pass) {
  for (const PhaseReport& phase : e.phases) {
    if (phase.pass == pass) return true;
  }
  return false;
}

}  // namespace

Printout explain_text(const Explanation& e, const Topology& topology) {
  Printout printout;
  const auto add = [&](const std::string& title, Table table) {
    printout.add("\n" + title + "\n").add(std::move(table));
  };
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    if (!has_pass(e, pass)) continue;
    const std::string name = name_of(pass);
    add(fmt::format("{}: the layer in order (> exchanges: time at {} in the layer)", name,
                    e.phases[0].times[0].fidelity),
        order_table(e, pass, topology));
    add(name + ": what moves", reach_table(e, pass));
    add(name + ": links (* the busiest of the phase)", link_table(e, pass, topology));
    add(name + ": times of the exchanges", time_table(e, pass));
    for (const FusedMemory& memory : e.fused) {
      if (memory.pass != pass) continue;
      add(fmt::format("{}: what {} holds of the fused layer, the most while a wave is under way",
                      name, gpu_name(topology, memory.gpu)),
          fused_table(memory));
    }
  }
  add("what no dispatch can beat, and all exchanges of the stage by themselves", bound_table(e));
  std::string alone = "\nlayer by itself:";
  for (const auto& [fidelity, time] : e.layer) {
    alone += fmt::format("  {} {}", fidelity, to_string(time));
  }
  return printout.add(alone + "\n");
}

}  // namespace moesim
