// SPDX-License-Identifier: Apache-2.0
// moesim export: what policies decide, for the engines and simulators of others.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/base/figures.h"
#include "sim/base/file_claims.h"
#include "sim/base/files.h"
#include "sim/base/units.h"
#include "sim/cli/commands.h"
#include "sim/cli/one_case.h"
#include "sim/export/chakra.h"
#include "sim/export/engine_placement.h"
#include "sim/export/goal.h"
#include "sim/export/message_steps.h"
#include "sim/flags/output_file.h"
#include "sim/flags/scenario_flags.h"
#include "sim/flags/shared_flags.h"
#include "sim/scenario/changes.h"
#include "sim/scenario/dense_model.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/policy_planner.h"
#include "sim/topology/reader.h"

namespace moesim {
namespace {

struct ExportOptions {
  ScenarioFlags scenario;
  OutputFile out{"-"};
  std::string format;
};

const Scenario& of_one_case(const Scenario& scenario) {
  check_one_case(scenario, "export");
  return scenario;
}

RoutingSource only_routing(const Scenario& scenario) {
  const auto routings = scenario.routings();
  if (routings.size() == 1) return routings[0];
  throw Error("'export' takes one kind of routing", "--routing recorded, or balanced");
}

/// The steps of a scenario of one topology and one policy.
struct Exported {
  explicit Exported(const Scenario& read)
      : scenario(of_one_case(read)),
        inputs(open_inputs(scenario)),
        steps(view_of(scenario, inputs, 0), {.routing = only_routing(scenario)}) {
    for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
  }
  PlannedStep fitting_step(int i) {
    PlannedStep step = steps.plan(i);
    if (scenario.iteration) steps.require_memory(step, inputs.clusters[0].gpus);
    return step;
  }

  Scenario scenario;
  Inputs inputs;
  PolicyPlanner steps;
};

/// Placement of the last microbatch of each layer.
EnginePlacement placement_of(const PlannedStep& step, const Inputs& inputs) {
  std::map<int, SlotTable> tables;
  for (const LayerWork& layer : step.layers) {
    const Placement& slots = layer.assignment().placement();
    const int ep = inputs.clusters[0].ep;
    const SlotTable first = slots.table(GpuId(0), ep);
    for (int gpu = ep; gpu < slots.gpus(); gpu += ep) {
      if (slots.table(GpuId(gpu), ep) == first) continue;
      throw Error(fmt::format("layer {}: the EP groups of GPUs 0 and {} have different placements",
                              layer.number, gpu),
                  "engines take one placement: simulate one EP group");
    }
    tables[layer.number] = first;
  }
  EnginePlacement placement{inputs.model.experts, inputs.model.layers, {}};
  for (auto& [number, table] : tables) placement.layers.push_back({number, std::move(table)});
  return placement;
}

/// "58 of 58 MoE layers and MTP layer 61", of which the format has room for.
std::string placed_layers(const EnginePlacement& placement, const MoeModel& model,
                          const std::string& format) {
  std::vector<int> moe, mtp;
  for (const auto& layer : placement.layers) {
    (layer.number < model.layers ? moe : mtp).push_back(layer.number);
  }
  const auto of_mtp = [](const std::vector<int>& layers) {
    return fmt::format("MTP layer{} {}", layers.size() == 1 ? "" : "s", fmt::join(layers, ", "));
  };
  std::string text = fmt::format("{} of {} MoE layers", moe.size(), model.moe_layers.size());
  const std::vector<int> left_out = layers_left_out(placement, format);
  if (!left_out.empty()) {
    return text + fmt::format(", without {} (a file for {} has rows of the other layers)",
                              of_mtp(left_out), format);
  }
  return mtp.empty() ? text : text + " and " + of_mtp(mtp);
}

void export_placement(const ExportOptions& options) {
  Exported exported(options.scenario.read());
  if (exported.inputs.model.experts == 0) {
    throw Error("there is no placement: " + is_dense_text(exported.inputs.model),
                "goal and chakra write its plan");
  }
  const int last = exported.steps.count() - 1;
  PlannedStep step;
  for (int i = 0; i <= last; ++i) step = exported.steps.plan(i);
  const EnginePlacement placement = placement_of(step, exported.inputs);
  options.out.write(engine_placement_text(placement, options.format));
  fmt::print(options.out.beside(), "{} as {} has them in {} {}\n",
             placed_layers(placement, exported.inputs.model, options.format),
             exported.inputs.systems[0].name, exported.scenario.iteration ? "iteration" : "step",
             exported.steps.number(last));
}

/// Simulators of messages between ranks have no memory of hosts.
void warn_of_hosts(const Plan& plan) {
  const Bytes bytes = copied_with_hosts(plan);
  if (bytes.value == 0) return;
  fmt::print(stderr, "warning: {} that GPUs copy to and from the memory of hosts are left out\n",
             to_string(bytes));
}

void export_goal(const ExportOptions& options) {
  Exported exported(options.scenario.read());
  const Plan plan = exported.fitting_step(0).plan;
  const GpuModels& gpus = exported.inputs.clusters[0].gpus;
  options.out.write(to_goal(plan, gpus));
  warn_of_hosts(plan);
  fmt::print(options.out.beside(), "{} of {} GPUs\n", counted(plan.ops.size(), "op"), plan.gpus);
}

struct ChakraOptions {
  ScenarioFlags scenario;
  std::string out;
};

/// Ranks of a larger export, the last first: what is left of an interrupted removal has no gaps.
void remove_more_ranks(const std::string& prefix, std::size_t ranks) {
  const auto file_of = [&](std::size_t rank) { return fmt::format("{}.{}.et", prefix, rank); };
  std::size_t end = ranks;
  while (is_there(file_of(end))) ++end;
  while (end > ranks) std::filesystem::remove(file_of(--end));
}

/// One file per rank, which together replace those of an earlier export, larger ones included.
void export_chakra(const ChakraOptions& options) {
  Exported exported(options.scenario.read());
  const Plan plan = exported.fitting_step(0).plan;
  const GpuModels& gpus = exported.inputs.clusters[0].gpus;
  std::vector<NamedText> files;
  for (std::string& text : to_chakra(plan, gpus)) {
    files.push_back({fmt::format("{}.{}.et", options.out, files.size()), std::move(text)});
    claim_output(files.back().path);
  }
  write_files(files);
  remove_more_ranks(options.out, files.size());
  warn_of_hosts(plan);
  fmt::print("{} of {} GPUs in {}.0.et to {}.{}.et\n", counted(plan.ops.size(), "op"), plan.gpus,
             options.out, options.out, plan.gpus - 1);
}

struct RankCostOptions {
  std::string topology;
  std::vector<std::string> set;
  std::string size = "1 MB";
  OutputFile out{"-"};
};

Bytes size_of(const std::string& text) {
  NumberWithUnit size;
  const bool read = split_unit(text, size);
  const double bytes = size.number * bytes_scale(size.unit);
  if (read && bytes >= 1 && bytes <= 1e15) return Bytes(static_cast<std::int64_t>(bytes));
  throw Error(fmt::format("--size: '{}' is not a size from 1 B to 1000 TB", text),
              "such as '64 kB'");
}

void export_rank_costs(const RankCostOptions& options) {
  const TopologyFile file = read_topology(data_file("topologies", options.topology),
                                          changes_of_topology(options.set, options.topology));
  for (const Diagnostic& w : file.warnings) fmt::print(stderr, "{}", w.str());
  options.out.write(rank_costs_text(rank_costs(file.topology, size_of(options.size))));
}

std::shared_ptr<ExportOptions> add_export(CommandLine& command) {
  const auto options = std::make_shared<ExportOptions>();
  options->scenario.add_to(command);
  options->out.add_to(command, "-o,--out", "the file to write");
  return options;
}

void add_chakra(CommandLine& exports) {
  CommandLine chakra = exports.add_subcommand(
      "chakra",
      "Writes the plan of the first step or iteration as MLCommons Chakra execution traces");
  const auto options = std::make_shared<ChakraOptions>();
  options->scenario.add_to(chakra);
  chakra
      .add_option("-o,--out", options->out,
                  "what the files' names begin with: OUT.0.et, OUT.1.et, one per rank")
      .required();
  chakra.callback([options] { export_chakra(*options); });
}

void add_rank_costs(CommandLine& exports) {
  CommandLine costs = exports.add_subcommand(
      "rank-costs", "Writes what it costs to send between ranks, for balancers that ask for it");
  const auto options = std::make_shared<RankCostOptions>();
  costs.add_option("TOPOLOGY", options->topology, "a topology or a YAML file").required();
  costs.add_option("--set", options->set, "changes a field: topology.PATH=VALUE").one_value_each();
  costs.add_option("--size", options->size, "bytes of a message (default 1 MB)");
  options->out.add_to(costs, "-o,--out", "the file to write");
  costs.callback([options] { export_rank_costs(*options); });
}

}  // namespace

void add_export_command(CommandLine& app) {
  CommandLine exports = app.add_subcommand("export", "Writes placements and plans for other tools");
  exports.require_subcommand();
  CommandLine placement = exports.add_subcommand(
      "placement", "Writes where the experts are in the last step, for a serving engine");
  const auto of_placement = add_export(placement);
  placement
      .add_option("--format", of_placement->format,
                  fmt::format("one of: {}", fmt::join(engine_formats(), ", ")))
      .required();
  add_allow_commands(placement);
  placement.callback([of_placement] { export_placement(*of_placement); });
  CommandLine goal = exports.add_subcommand(
      "goal",
      "Writes the plan of the first step or iteration as a GOAL schedule, as LogGOPSim reads");
  const auto of_goal = add_export(goal);
  goal.callback([of_goal] { export_goal(*of_goal); });
  add_chakra(exports);
  add_rank_costs(exports);
}

}  // namespace moesim
