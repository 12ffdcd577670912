// SPDX-License-Identifier: Apache-2.0
// Two tables of one comparison, narrow enough to be read: which case is fastest and what binds it,
// and what it moves and holds. Every column is defined in docs/metrics.md.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/units.h"
#include "sim/report/case_report.h"
#include "sim/report/notes.h"
#include "sim/report/table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

/// A column stands only in tables in which it is always shown or some case has something to say.
struct Column {
  const char* name;
  std::string (*cell)(const Json& c);
  double (*value)(const Json& c) = nullptr;  // 0: nothing to say
};

std::string time_of(const Json& seconds) { return to_string(Seconds(seconds.get<double>())); }
std::string bytes_of(const Json& bytes) { return to_string(Bytes(bytes.get<std::int64_t>())); }
double number(const Json& value) { return value.get<double>(); }

/// Sums over the steps, per step.
std::string per_step(const Json& c, std::int64_t bytes) {
  return to_string(Bytes(bytes / c["steps"].get<std::int64_t>()));
}
std::string choices_per_step(const Json& c, const char* key) {
  return fmt::format("{:.0f}", number(c[key]) / number(c["steps"]));
}

/// Which part of the step is the largest.
std::string bound_by(const Json& c) {
  const std::string what = c["bound_by"];
  if (what.empty()) return "-";
  return fmt::format("{} {:.0f} %", what,
                     100 * number(c["breakdown"][what + "_s"]) / number(c["step_s"]));
}

std::string busiest_link(const Json& c) {
  const Json& link = c["total"]["peak_link"];
  if (link.is_null()) return "-";
  return fmt::format("{} {:.0f} %", link["class"].get<std::string>(),
                     100 * number(link["utilization"]));
}

/// In exchanges of parameters that are not gradients.
double weights_time(const Json& c) {
  const Json& total = c["total"];
  return std::max(
      0.0, number(total["parameter_communication_s"]) - number(total["gradient_communication_s"]));
}

/// Expert parameters and gradients that leave their GPU, all steps together.
std::int64_t parameter_bytes(const Json& c) {
  const Json& traffic = c["total"]["parameter_traffic"];
  return traffic["same_host_bytes"].get<std::int64_t>() +
         traffic["other_host_bytes"].get<std::int64_t>();
}

bool overfull(const Json& c) { return c["model_memory_bytes"] > c["gpu_memory_bytes"]; }

const std::vector<Column> times = {
    {"step", [](const Json& c) { return time_of(c["step_s"]); }},
    {"speedup", [](const Json& c) { return fmt::format("{:.2f}x", number(c["speedup"])); }},
    {"bound by", bound_by},
    {"compute", [](const Json& c) { return time_of(c["total"]["compute_s"]); }},
    {"slowest", [](const Json& c) { return time_of(c["slowest_compute_s"]); }},
    {"exposed", [](const Json& c) { return time_of(c["total"]["exposed_communication_s"]); }},
    {"waiting", [](const Json& c) { return time_of(c["breakdown"]["waiting_s"]); }},
    {"overlapped", [](const Json& c) { return time_of(c["overlapped_communication_s"]); }},
    {"grads", [](const Json& c) { return time_of(c["total"]["gradient_communication_s"]); },
     [](const Json& c) { return number(c["total"]["gradient_communication_s"]); }},
    {"params", [](const Json& c) { return to_string(Seconds(weights_time(c))); }, weights_time},
    {"planning", [](const Json& c) { return time_of(c["planning_s"]); },
     [](const Json& c) { return number(c["planning_s"]); }},
};

const std::vector<Column> volumes = {
    {"load max/mean",
     [](const Json& c) { return fmt::format("{:.2f}", number(c["total"]["load_max_over_mean"])); }},
    {"off-host bytes",
     [](const Json& c) {
       return per_step(c, c["total"]["traffic"]["other_host_bytes"].get<std::int64_t>());
     }},
    {"busiest link", busiest_link},
    {"param bytes", [](const Json& c) { return per_step(c, parameter_bytes(c)); },
     [](const Json& c) { return static_cast<double>(parameter_bytes(c)); }},
    {"migrated",
     [](const Json& c) { return per_step(c, c["total"]["migrated_bytes"].get<std::int64_t>()); },
     [](const Json& c) { return number(c["total"]["migrated_bytes"]); }},
    {"dropped choices", [](const Json& c) { return choices_per_step(c, "dropped_choices"); },
     [](const Json& c) { return number(c["dropped_choices"]); }},
    {"replaced choices", [](const Json& c) { return choices_per_step(c, "replaced_choices"); },
     [](const Json& c) { return number(c["replaced_choices"]); }},
    {"memory", [](const Json& c) { return bytes_of(c["peak_memory_bytes"]); }},
    {"all layers",
     [](const Json& c) { return bytes_of(c["model_memory_bytes"]) + (overfull(c) ? "!" : ""); },
     [](const Json& c) {
       return number(c["model_memory_bytes"]) - number(c["peak_memory_bytes"]);
     }},
};

/// What names a case: the fidelity only where cases differ in it.
std::vector<Column> keys_of(const std::vector<Json>& cases) {
  std::vector<Column> keys = {
      {"topology", [](const Json& c) { return c["topology"].get<std::string>(); }},
      {"policy", [](const Json& c) { return c["policy"].get<std::string>(); }}};
  const bool differ = std::any_of(cases.begin(), cases.end(), [&](const Json& c) {
    return c["fidelity"] != cases.front()["fidelity"];
  });
  if (differ)
    keys.push_back({"fidelity", [](const Json& c) { return c["fidelity"].get<std::string>(); }});
  return keys;
}

std::string table_of(const std::vector<Json>& cases, const std::vector<Column>& keys,
                     const std::vector<Column>& columns) {
  Rows rows(cases.size() + 1);
  const auto add = [&](const Column& column) {
    const bool shown =
        column.value == nullptr || std::any_of(cases.begin(), cases.end(),
                                               [&](const Json& c) { return column.value(c) != 0; });
    if (!shown) return;
    rows[0].emplace_back(column.name);
    for (std::size_t i = 0; i < cases.size(); ++i) rows[i + 1].push_back(column.cell(cases[i]));
  };
  std::for_each(keys.begin(), keys.end(), add);
  std::for_each(columns.begin(), columns.end(), add);
  return align(rows, keys.size());
}

/// The cases that ran, each with its speedup over the first of its topology and fidelity; what
/// keeps others from the table goes to `notes`, each once for all fidelities.
std::vector<Json> cases_run(const std::vector<std::string>& cases,
                            std::vector<std::string>& notes) {
  using Comparison = std::pair<std::string, std::string>;  // topology, fidelity
  std::map<Comparison, std::string> first;
  std::map<Comparison, double> baselines;
  const auto note = [&](std::string line) {
    if (std::find(notes.begin(), notes.end(), line) == notes.end())
      notes.push_back(std::move(line));
  };
  std::vector<Json> ran;
  for (const std::string& text : cases) {
    Json c = Json::parse(text);
    const std::string topology = c["topology"], policy = c["policy"];
    const Comparison key(topology, c["fidelity"]);
    const std::string& wanted = first.try_emplace(key, policy).first->second;
    if (const std::string reason = reason_not_run(text); !reason.empty()) {
      note(reason);
      continue;
    }
    const auto [baseline, fresh] = baselines.try_emplace(key, number(c["step_s"]));
    if (fresh && policy != wanted) {
      note(fmt::format("speedups on {} are over {}, as {} was not run", topology, policy, wanted));
    }
    c["speedup"] = baseline->second / number(c["step_s"]);
    ran.push_back(std::move(c));
  }
  return ran;
}

}  // namespace

std::string comparison_table(const std::vector<std::string>& cases) {
  std::vector<std::string> notes;
  const std::vector<Json> ran = cases_run(cases, notes);
  const std::vector<Column> keys = keys_of(ran);
  std::string text = table_of(ran, keys, times) + "\n" + table_of(ran, keys, volumes);
  for (const std::string& note : notes) text += fmt::format("# {}\n", note);
  return text + notes_below(ran);
}

}  // namespace moesim
