// SPDX-License-Identifier: Apache-2.0
// moesim list: what there is to choose from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/cli/commands.h"
#include "sim/evidence/shipped_tables.h"
#include "sim/flags/print_flags.h"
#include "sim/import/importer.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/model/gpu_model.h"
#include "sim/model/parameters.h"
#include "sim/model/software.h"
#include "sim/planner/schedule/schedule.h"
#include "sim/planner/system.h"
#include "sim/scenario/scenario.h"
#include "sim/serving/engine/engine_reader.h"
#include "sim/topology/reader.h"
#include "sim/trace/routing_trace.h"
#include "sim/trace/trace_json.h"
#include "sim/transport/reader.h"

namespace moesim {
namespace {

/// A table of the section; the column "description" is prose.
Table table_of_section(const std::string& name, std::size_t keys,
                       const std::vector<std::string>& columns) {
  Table table(name, keys, columns);
  for (TableColumn& c : table.columns) {
    if (c.name == "description") c.kind = TableColumn::Kind::prose;
  }
  return table;
}

/// Total and active parameters of a whole model, in 1e9.
std::vector<Cell> parameter_columns(const MoeModel& model) {
  if (!model.missing_of_whole().empty()) return {"-", "-"};
  const auto billions = [](const Parameters& p) {
    const double number = static_cast<double>(p.main()) / 1e9;
    return Cell(fmt::format("{:.1f}", number), number);
  };
  return {billions(parameters_of(model)), billions(active_parameters_of(model))};
}

Table list_models() {
  Table table =
      table_of_section("models", 1,
                       {"model", "description", "experts", "top-k", "layers", "parameters, 1e9",
                        "active", "hidden", "MoE layers", "expert ffn"});
  for (const std::string& name : data_names("models/moe")) {
    const MoeModel m = read_moe_model(data_file("models/moe", name));
    const auto parameters = parameter_columns(m);
    table.rows.push_back({name, m.description, m.experts, m.top_k, m.layers, parameters[0],
                          parameters[1], m.hidden, std::ssize(m.moe_layers), m.expert_ffn});
  }
  return table;
}

Table list_dense_models() {
  Table table = table_of_section(
      "dense-models", 1,
      {"model", "description", "layers", "parameters, 1e9", "hidden", "ffn", "vocabulary"});
  for (const std::string& name : data_names("models/dense")) {
    const MoeModel m = read_dense_model(data_file("models/dense", name));
    table.rows.push_back({name, m.description, m.layers, parameter_columns(m)[0], m.hidden,
                          m.dense_ffn, m.vocabulary});
  }
  return table;
}

Table list_gpus() {
  Table table =
      table_of_section("gpus", 1, {"gpu", "kernels", "description", "memory", "bandwidth", "bf16"});
  for (const std::string& name : data_names("models/gpu")) {
    const GpuModel g = read_gpu_model(data_file("models/gpu", name));
    const auto bf16 = g.peak.find(DataType::bf16);
    table.rows.push_back({name, g.grounds(), g.description, g.memory,
                          Cell(to_string(g.memory_bandwidth), g.memory_bandwidth.value, "B/s"),
                          bf16 == g.peak.end()
                              ? Cell("-")
                              : Cell(to_string(bf16->second), bf16->second.value, "FLOP/s")});
  }
  return table;
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

Table list_topologies() {
  Table table =
      table_of_section("topologies", 1, {"topology", "description", "GPUs", "hosts", "GPU model"});
  for (const std::string& name : data_names("topologies")) {
    const TopologyFile read = read_topology(data_file("topologies", name));
    const Topology& t = read.topology;
    table.rows.push_back({name, own_json(read.resolved).value("description", ""), t.gpu_count(),
                          t.host_count(), t.gpu_model(GpuId(0))});
  }
  return table;
}

Table list_policies() {
  Table table = table_of_section(
      "policies", 1, {"policy", "routing", "placement", "dispatch", "schedule", "description"});
  for (const std::string& name : data_names("models/system")) {
    const SystemSpec s = read_system(data_file("models/system", name));
    table.rows.push_back(
        {name, s.routing.name, s.placement.name, s.dispatch.name, s.schedule.name, s.description});
  }
  for (TableColumn& c : table.columns) {
    if (c.kind == TableColumn::Kind::figure) c.kind = TableColumn::Kind::words;
  }
  return table;
}

/// The classes of links that it was measured on, each once, and those whose rates are assumed.
std::string measured_links(const Transport& transport) {
  std::string text;
  for (const LinkRates& rates : transport.links) {
    const std::string network = rates.network.empty() ? "" : " (" + rates.network + ")";
    const std::string one = rates.link_class + network + (rates.assumed ? " assumed" : "");
    if (text.find(one) == std::string::npos) text += (text.empty() ? "" : ", ") + one;
  }
  return text.empty() ? "-" : text;
}

Table list_transports() {
  Table table =
      table_of_section("transports", 1, {"transport", "links", "SMs", "description", "source"});
  for (const std::string& name : data_names("transports")) {
    const Transport t = read_transport(data_file("transports", name));
    table.rows.push_back({name, measured_links(t), t.sms, t.description, t.source});
  }
  table.columns.back().kind = TableColumn::Kind::prose;
  table.columns[1].kind = TableColumn::Kind::words;
  return table;
}

Table list_software() {
  Table table = table_of_section(
      "software", 1, {"software", "gradients, B", "optimizer, B", "ZeRO", "description", "source"});
  for (const std::string& name : data_names("models/software")) {
    const Software s = read_software(data_file("models/software", name));
    table.rows.push_back(
        {name, s.gradient_bytes, s.optimizer_bytes, s.zero, s.description, s.source});
  }
  table.columns.back().kind = TableColumn::Kind::prose;
  return table;
}

Table list_engines() {
  Table table = table_of_section("engines", 1, {"engine", "version", "description", "source"});
  for (const std::string& name : data_names("models/engine")) {
    const EngineModel e = engine_named(name);
    table.rows.push_back({name, e.options.version, e.description, e.source});
  }
  table.columns[1].kind = TableColumn::Kind::words;
  table.columns.back().kind = TableColumn::Kind::prose;
  return table;
}

template <class Mechanisms>
void add_mechanisms(Table& table, const std::string& kind, const Mechanisms& mechanisms) {
  for (const auto& m : mechanisms) table.rows.push_back({kind, m.name, m.description});
}

Table list_scenarios() {
  Table table = table_of_section("scenarios", 1, {"scenario", "description"});
  for (const std::string& name : data_names("scenarios")) {
    table.rows.push_back({name, description_in(data_file("scenarios", name))});
  }
  return table;
}

Table list_traces() {
  Table table = table_of_section(
      "traces", 1, {"trace", "description", "steps", "tokens", "layers", "experts", "top-k"});
  for (const std::string& name : data_names("traces")) {
    const RoutingTrace trace = RoutingTrace::open(trace_folder(name));
    const TraceInfo& info = trace.info();
    table.rows.push_back({name, fmt::format("{} of {}", to_string(info.phase), info.model),
                          trace.step_count(), trace.total_tokens(), std::ssize(info.layers),
                          info.experts, info.top_k});
  }
  return table;
}

Table list_mechanisms() {
  Table table = table_of_section("mechanisms", 2, {"kind", "mechanism", "description"});
  add_mechanisms(table, "routing", routing_mechanisms());
  add_mechanisms(table, "placement", placement_mechanisms());
  add_mechanisms(table, "dispatch", dispatch_mechanisms());
  add_mechanisms(table, "schedule", schedule_mechanisms());
  return table;
}

Table list_importers() {
  Table table = table_of_section("importers", 1, {"kind", "description", "flags say"});
  for (const Importer& importer : importers()) {
    table.rows.push_back({importer.kind, importer.reads, importer.needs});
  }
  table.columns.back().kind = TableColumn::Kind::words;
  return table;
}

Table list_papers() {
  Table table = table_of_section("papers", 1, {"table", "figures", "description"});
  for (const PaperTable& t : shipped_paper_tables({})) {
    table.rows.push_back({t.name, std::ssize(t.figures), t.title});
  }
  return table;
}

struct Section {
  std::string name;
  std::string title;
  Table (*table)();
};

const std::vector<Section> sections = {
    {"policies", "policies (models/system)", list_policies},
    {"mechanisms", "mechanisms", list_mechanisms},
    {"topologies", "topologies", list_topologies},
    {"transports", "transports", list_transports},
    {"models", "models (models/moe)", list_models},
    {"dense-models", "dense models (models/dense)", list_dense_models},
    {"gpus", "gpus (models/gpu)", list_gpus},
    {"software", "software (models/software)", list_software},
    {"engines", "engines (models/engine)", list_engines},
    {"scenarios", "scenarios", list_scenarios},
    {"traces", "traces", list_traces},
    {"papers", "published tables (moesim papers)", list_papers},
    {"importers", "importers (moesim trace import)", list_importers}};

/// The tables of these sections, or all; none if a section has another name.
Printout sections_named(const std::vector<std::string>& wanted) {
  Printout printout;
  for (const Section& section : sections) {
    if (!wanted.empty() && std::ranges::find(wanted, section.name) == wanted.end()) continue;
    if (!printout.parts().empty()) printout.add("\n");
    printout.add("# " + section.title + "\n").add(section.table());
  }
  return printout;
}

struct ListOptions {
  std::string what;
  PrintFlags print;
};

void list(ListOptions& options) {
  const Printout printout =
      options.what.empty() ? sections_named({}) : sections_named({options.what});
  if (printout.parts().empty()) {
    std::vector<std::string> names;
    for (const Section& section : sections) names.push_back(section.name);
    throw Error(fmt::format("nothing to list under '{}'", options.what),
                did_you_mean(options.what, names));
  }
  options.print.print_for_people(printout);
}

}  // namespace

std::string listed_json(const std::vector<std::string>& wanted) {
  return render(sections_named(wanted), {.format = PrintFormat::json}).text;
}

void add_list_command(CommandLine& app) {
  const auto options = std::make_shared<ListOptions>();
  CommandLine command = app.add_subcommand(
      "list",
      "Lists policies, topologies, models, engines, scenarios, traces, papers and importers");
  std::vector<std::string> names;
  for (const Section& section : sections) names.push_back(section.name);
  command.add_option("WHAT", options->what,
                     fmt::format("{} (default all)", fmt::join(names, ", ")));
  options->print.add_to(command);
  command.callback([options] { list(*options); });
}

}  // namespace moesim
