// SPDX-License-Identifier: Apache-2.0
// moesim list: what there is to choose from.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/units.h"
#include "sim/cli/commands.h"
#include "sim/model/gpu_model.h"
#include "sim/model/parameters.h"
#include "sim/policy/policies.h"
#include "sim/policy/system.h"
#include "sim/report/table.h"
#include "sim/scenario/scenario.h"
#include "sim/topology/reader.h"
#include "sim/trace/routing_trace.h"

namespace moesim {
namespace {

using Rows = std::vector<std::vector<std::string>>;

void print_section(const std::string& title, const Rows& rows, std::size_t left) {
  fmt::print("{}\n", title);
  std::string text = align(rows, left);
  fmt::print("{}\n", text);
}

/// Total and active parameters of a whole model, in 1e9.
std::vector<std::string> parameter_columns(const MoeModel& model) {
  if (!model.missing_of_whole().empty()) return {"-", "-"};
  const auto billions = [](const Parameters& p) {
    return fmt::format("{:.1f}", static_cast<double>(p.main()) / 1e9);
  };
  return {billions(parameters_of(model)), billions(active_parameters_of(model))};
}

void list_models() {
  Rows rows = {{"  model", "description", "hidden", "layers", "MoE layers", "experts", "top-k",
                "expert ffn", "parameters, 1e9", "active"}};
  for (const std::string& name : data_names("models/moe")) {
    const MoeModel m = read_moe_model(data_file("models/moe", name));
    const auto parameters = parameter_columns(m);
    rows.push_back({"  " + name, m.description, std::to_string(m.hidden), std::to_string(m.layers),
                    std::to_string(m.moe_layers.size()), std::to_string(m.experts),
                    std::to_string(m.top_k), std::to_string(m.expert_ffn), parameters[0],
                    parameters[1]});
  }
  print_section("models (models/moe)", rows, 2);
}

void list_dense_models() {
  Rows rows = {
      {"  model", "description", "hidden", "layers", "ffn", "vocabulary", "parameters, 1e9"}};
  for (const std::string& name : data_names("models/dense")) {
    const MoeModel m = read_dense_model(data_file("models/dense", name));
    rows.push_back({"  " + name, m.description, std::to_string(m.hidden), std::to_string(m.layers),
                    std::to_string(m.dense_ffn), std::to_string(m.vocabulary),
                    parameter_columns(m)[0]});
  }
  print_section("dense models (models/dense)", rows, 2);
}

void list_gpus() {
  Rows rows = {{"  gpu", "description", "memory", "bandwidth", "bf16"}};
  for (const std::string& name : data_names("models/gpu")) {
    const GpuModel g = read_gpu_model(data_file("models/gpu", name));
    const auto bf16 = g.peak.find(DataType::bf16);
    rows.push_back({"  " + name, g.description, to_string(g.memory), to_string(g.memory_bandwidth),
                    bf16 == g.peak.end() ? "-" : to_string(bf16->second)});
  }
  print_section("gpus (models/gpu)", rows, 2);
}

void list_topologies() {
  Rows rows = {{"  topology", "GPUs", "hosts", "GPU model"}};
  for (const std::string& name : data_names("topologies")) {
    const Topology t = std::move(read_topology(data_file("topologies", name)).topology);
    rows.push_back({"  " + name, std::to_string(t.gpu_count()), std::to_string(t.host_count()),
                    t.gpu_model(GpuId(0))});
  }
  print_section("topologies", rows, 1);
}

void list_policies() {
  Rows rows = {{"  policy", "routing", "placement", "dispatch", "schedule", "description"}};
  for (const std::string& name : data_names("models/system")) {
    const SystemSpec s = read_system(data_file("models/system", name));
    rows.push_back({"  " + name, s.routing.name, s.placement.name, s.dispatch.name, s.schedule.name,
                    s.description});
  }
  print_section("policies (models/system)", rows, 6);
}

template <class Table>
void add_mechanisms(Rows& rows, const std::string& kind, const Table& table) {
  for (const auto& m : table) rows.push_back({"  " + kind, m.name, m.description});
}

/// The first sentence of the comment at the top of a scenario file.
std::string description_in(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::string text;
  for (std::string line; std::getline(lines, line) && line.starts_with("# ");) {
    text += (text.empty() ? "" : " ") + line.substr(2);
  }
  text = text.substr(0, text.find(". "));
  if (text.ends_with('.')) text.pop_back();
  return text;
}

void list_scenarios() {
  Rows rows = {{"  scenario", "description"}};
  for (const std::string& name : data_names("scenarios")) {
    rows.push_back({"  " + name, description_in(data_file("scenarios", name))});
  }
  print_section("scenarios", rows, 2);
}

void list_traces() {
  Rows rows = {{"  trace", "steps", "tokens", "layers", "experts", "top-k"}};
  for (const std::string& name : data_names("traces")) {
    const RoutingTrace trace = RoutingTrace::open(trace_folder(name));
    const TraceInfo& info = trace.info();
    rows.push_back({"  " + name, std::to_string(trace.step_count()),
                    std::to_string(trace.total_tokens()), std::to_string(info.layers.size()),
                    std::to_string(info.experts), std::to_string(info.top_k)});
  }
  print_section("traces", rows, 1);
}

void list_mechanisms() {
  Rows rows = {{"  kind", "mechanism", "description"}};
  add_mechanisms(rows, "routing", routing_mechanisms());
  add_mechanisms(rows, "placement", placement_mechanisms());
  add_mechanisms(rows, "dispatch", dispatch_mechanisms());
  add_mechanisms(rows, "schedule", schedule_mechanisms());
  print_section("mechanisms", rows, 3);
}

struct Section {
  std::string name;
  void (*print)();
};

const std::vector<Section> sections = {
    {"policies", list_policies},         {"mechanisms", list_mechanisms},
    {"topologies", list_topologies},     {"models", list_models},
    {"dense-models", list_dense_models}, {"gpus", list_gpus},
    {"scenarios", list_scenarios},       {"traces", list_traces}};

void list(const std::string& what) {
  std::vector<std::string> names;
  for (const Section& section : sections) {
    names.push_back(section.name);
    if (what.empty() || what == section.name) section.print();
  }
  if (!what.empty() && std::find(names.begin(), names.end(), what) == names.end()) {
    throw Error(fmt::format("nothing to list under '{}'", what), did_you_mean(what, names));
  }
}

}  // namespace

void add_list_command(CommandLine& app) {
  const auto what = std::make_shared<std::string>();
  CommandLine command =
      app.add_subcommand("list", "Lists policies, topologies, models, scenarios and traces");
  command.add_option(
      "WHAT", *what,
      "policies, mechanisms, topologies, models, dense-models, gpus, scenarios or traces (default "
      "all)");
  command.callback([what] { list(*what); });
}

}  // namespace moesim
