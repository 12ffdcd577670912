// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/serving_launch.h"

#include <fmt/format.h>

#include "sim/planner/iteration/serving_spec.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/inputs.h"
#include "sim/serving/engine/launch_line.h"
#include "sim/sweep/kind_times.h"

namespace moesim {
namespace {

/// Settings of the scenario that the engine's preset does not have.
std::vector<LaunchSetting> settings_of(const Scenario& scenario, const Inputs& inputs) {
  const EngineRun& run = *scenario.engine_run;
  const ServingSpec& pass = *scenario.iteration->serving;
  std::vector<LaunchSetting> settings;
  if (!run.engine_file.empty()) settings = settings_of(run.engine, read_engine(run.engine_file));
  if (!pass.graphs) {
    std::erase_if(settings, [](const LaunchSetting& s) { return s.key == "graph_sizes"; });
    settings.push_back({"graphs", "false"});
  }
  if (pass.kv != DataType::bf16) settings.push_back({"kv", name_of(pass.kv)});
  if (pass.weights != inputs.model.checkpoint.value_or(DataType::bf16)) {
    settings.push_back({"precision", precision_of_type(pass.weights)});
  }
  const std::string& placement = inputs.systems.front().placement.name;
  if (placement != "contiguous") settings.push_back({"placement", placement});
  return settings;
}

}  // namespace

std::string launch_text(const std::string& file, const std::vector<Override>& flags,
                        const std::vector<ServingInstanceKind>& kinds, const ServingPlan& plan) {
  std::string text;
  const auto add = [&](std::size_t at, int count, LaunchFacts::Pool pool) {
    const ServingInstanceKind& kind = kinds[at];
    const Scenario scenario = scenario_of_kind(file, flags, kind);
    const Inputs inputs = open_inputs(scenario);
    const ServingSpec& pass = *scenario.iteration->serving;
    const LaunchFacts facts = {scenario.model,
                               kind.gpus,
                               kind.tp,
                               kind.dp(),
                               kind.ep,
                               inputs.systems.front().dispatch.name,
                               pool,
                               serving_overlap_names[static_cast<std::size_t>(pass.overlap)],
                               pass.dcp,
                               pass.drafts,
                               settings_of(scenario, inputs)};
    const EngineModel& engine = scenario.engine_run->engine;
    const std::string line = launch_line(engine, facts), more = left_out_of_line(engine, facts);
    if (!line.empty()) text += fmt::format("# {} x {}\n", count, line);
    if (!line.empty() && !more.empty()) {
      text += fmt::format("# that line leaves out what has no flag: {}\n", more);
    }
  };
  const bool apart = plan.decode_instances > 0;
  add(plan.prompts, plan.prompt_instances,
      apart ? LaunchFacts::Pool::prompts : LaunchFacts::Pool::all);
  if (apart) add(plan.decode, plan.decode_instances, LaunchFacts::Pool::decode);
  return text;
}

}  // namespace moesim
