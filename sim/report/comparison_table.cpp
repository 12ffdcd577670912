// SPDX-License-Identifier: Apache-2.0
// Two tables of one comparison, narrow enough to be read: which case is fastest and what binds it,
// and what it moves and holds. Every column is defined in docs/metrics.md.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/units.h"
#include "sim/report/notes.h"
#include "sim/report/table.h"

namespace moesim {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// A case of the table.
struct Ran {
  const CaseResult& of;
  double speedup;  // over the first of its topology and fidelity

  const RunMetrics& run() const { return of.metrics; }
  const LayerMetrics& total() const { return run().total; }
  const Breakdown& breakdown() const { return run().breakdown; }
  std::int64_t steps() const { return std::ssize(run().steps); }
  /// Of a sum over the steps.
  Seconds per_step(Seconds sum) const { return Seconds(sum.value / static_cast<double>(steps())); }
};

/// A column stands only in tables in which it is always shown or some case has something to say.
struct Column {
  const char* name;
  std::string (*cell)(const Ran& c);
  double (*value)(const Ran& c) = nullptr;  // 0: nothing to say
};

std::string bytes_per_step(const Ran& c, Bytes sum) {
  return to_string(Bytes(sum.value / c.steps()));
}
std::string choices_per_step(const Ran& c, std::int64_t sum) {
  return fmt::format("{:.0f}", static_cast<double>(sum) / static_cast<double>(c.steps()));
}

/// Which part of the step is the largest.
std::string bound_by(const Ran& c) {
  const Binding most = binding_part(c.breakdown());
  if (most.time == Seconds(0)) return "-";
  return fmt::format("{} {:.0f} %", most.what, 100 * (c.per_step(most.time) / c.run().mean_step()));
}

std::string busiest_link(const Ran& c) {
  const Topology& topology = *c.of.topology;
  const auto peak = peak_link(c.total().link_bytes, c.run().time_of_steps(), topology);
  if (!peak) return "-";
  return fmt::format("{} {:.0f} %",
                     topology.classes()[static_cast<std::size_t>(peak->link.link_class)].name,
                     100 * peak->utilization);
}

/// In exchanges of parameters that are not gradients.
Seconds weights_time(const Ran& c) {
  return std::max(Seconds(0), c.per_step(c.total().parameters) - c.per_step(c.total().gradients));
}

/// Expert parameters and gradients that leave their GPU, all steps together.
Bytes parameter_bytes(const Ran& c) {
  return c.total().parameter_traffic.same_host + c.total().parameter_traffic.other_host;
}

const std::vector<Column> times = {
    {"step", [](const Ran& c) { return to_string(c.run().mean_step()); }},
    {"speedup", [](const Ran& c) { return fmt::format("{:.2f}x", c.speedup); }},
    {"bound by", bound_by},
    {"compute", [](const Ran& c) { return to_string(c.per_step(c.total().compute)); }},
    {"slowest", [](const Ran& c) { return to_string(c.per_step(c.breakdown().slowest_compute)); }},
    {"exposed", [](const Ran& c) { return to_string(c.per_step(c.total().exposed)); }},
    {"waiting", [](const Ran& c) { return to_string(c.per_step(c.breakdown().waiting)); }},
    {"overlapped", [](const Ran& c) { return to_string(c.per_step(c.breakdown().overlapped)); }},
    {"grads", [](const Ran& c) { return to_string(c.per_step(c.total().gradients)); },
     [](const Ran& c) { return c.total().gradients.value; }},
    {"params", [](const Ran& c) { return to_string(weights_time(c)); },
     [](const Ran& c) { return weights_time(c).value; }},
    {"planning", [](const Ran& c) { return to_string(c.per_step(c.run().planning)); },
     [](const Ran& c) { return c.run().planning.value; }},
};

const std::vector<Column> volumes = {
    {"load max/mean",
     [](const Ran& c) { return fmt::format("{:.2f}", c.total().load_max_over_mean.value()); }},
    {"off-host bytes",
     [](const Ran& c) { return bytes_per_step(c, c.total().traffic.other_host); }},
    {"busiest link", busiest_link},
    {"param bytes", [](const Ran& c) { return bytes_per_step(c, parameter_bytes(c)); },
     [](const Ran& c) { return static_cast<double>(parameter_bytes(c).value); }},
    {"migrated", [](const Ran& c) { return bytes_per_step(c, c.total().migrated); },
     [](const Ran& c) { return static_cast<double>(c.total().migrated.value); }},
    {"dropped choices", [](const Ran& c) { return choices_per_step(c, c.run().dropped_choices); },
     [](const Ran& c) { return static_cast<double>(c.run().dropped_choices); }},
    {"replaced choices", [](const Ran& c) { return choices_per_step(c, c.run().replaced_choices); },
     [](const Ran& c) { return static_cast<double>(c.run().replaced_choices); }},
    {"memory", [](const Ran& c) { return to_string(c.run().peak_memory); }},
    {"all layers",
     [](const Ran& c) {
       const bool overfull = c.run().model_memory > c.run().gpu_memory;
       return to_string(c.run().model_memory) + (overfull ? "!" : "");
     },
     [](const Ran& c) {
       return static_cast<double>((c.run().model_memory - c.run().peak_memory).value);
     }},
};

/// What names a case: the fidelity only where cases differ in it.
std::vector<Column> keys_of(const std::vector<Ran>& cases) {
  std::vector<Column> keys = {{"topology", [](const Ran& c) { return c.of.name.topology; }},
                              {"policy", [](const Ran& c) { return c.of.name.policy; }}};
  const bool differ = std::any_of(cases.begin(), cases.end(), [&](const Ran& c) {
    return c.of.name.fidelity != cases.front().of.name.fidelity;
  });
  if (differ) keys.push_back({"fidelity", [](const Ran& c) { return c.of.name.fidelity; }});
  return keys;
}

std::string table_of(const std::vector<Ran>& cases, const std::vector<Column>& keys,
                     const std::vector<Column>& columns) {
  Rows rows(cases.size() + 1);
  const auto add = [&](const Column& column) {
    const bool shown =
        column.value == nullptr ||
        std::any_of(cases.begin(), cases.end(), [&](const Ran& c) { return column.value(c) != 0; });
    if (!shown) return;
    rows[0].emplace_back(column.name);
    for (std::size_t i = 0; i < cases.size(); ++i) rows[i + 1].push_back(column.cell(cases[i]));
  };
  std::for_each(keys.begin(), keys.end(), add);
  std::for_each(columns.begin(), columns.end(), add);
  return align(rows, keys.size());
}

/// The cases that ran, each with its speedup; what keeps others from the table goes to `notes`,
/// each once for all fidelities.
std::vector<Ran> cases_run(const std::vector<CaseResult>& cases, std::vector<std::string>& notes) {
  using Comparison = std::pair<std::string, std::string>;  // topology, fidelity
  std::map<Comparison, std::string> first;
  std::map<Comparison, Seconds> baselines;
  const auto note = [&](std::string line) {
    if (std::find(notes.begin(), notes.end(), line) == notes.end())
      notes.push_back(std::move(line));
  };
  std::vector<Ran> ran;
  for (const CaseResult& c : cases) {
    const auto& [topology, policy, fidelity] = c.name;
    const Comparison key(topology, fidelity);
    const std::string& wanted = first.try_emplace(key, policy).first->second;
    if (!c.ran()) {
      note(reason_not_run(c));
      continue;
    }
    const Seconds step = c.metrics.mean_step();
    const auto [baseline, fresh] = baselines.try_emplace(key, step);
    if (fresh && policy != wanted) {
      note(fmt::format("speedups on {} are over {}, as {} was not run", topology, policy, wanted));
    }
    ran.push_back({c, baseline->second / step});
  }
  return ran;
}

}  // namespace

std::string comparison_table(const std::vector<CaseResult>& cases) {
  std::vector<std::string> notes;
  const std::vector<Ran> ran = cases_run(cases, notes);
  const std::vector<Column> keys = keys_of(ran);
  std::string text = table_of(ran, keys, times) + "\n" + table_of(ran, keys, volumes);
  for (const std::string& note : notes) text += fmt::format("# {}\n", note);
  return text + notes_below(cases);
}

}  // namespace moesim
