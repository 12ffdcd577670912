// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/serving_variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "sim/base/figures.h"
#include "sim/model/moe_model.h"
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

/// Drafts that are accepted on average if each is with that chance once the ones before it are.
double accepted_of(double chance, int drafts) {
  double sum = 0, all = 1;
  for (int i = 0; i < drafts; ++i) sum += all *= chance;
  return sum;
}

double chance_of(double accepted, int drafts) {
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = std::midpoint(low, high);
    (accepted_of(middle, drafts) < accepted ? low : high) = middle;
  }
  return low;
}

ServingInstanceKind changed(ServingInstanceKind kind, const std::string& words,
                            const std::vector<Override>& flags) {
  kind.besides += " " + words;
  kind.flags.insert(kind.flags.end(), flags.begin(), flags.end());
  return kind;
}

Override serving_key(const std::string& name, const std::string& value) {
  return {"serving." + name, value, fmt::format("serving.{}: {}", name, value)};
}

/// Each kind as it is and, behind it, as every change makes it.
template <typename Choice, typename Change>
std::vector<ServingInstanceKind> with_each(const std::vector<ServingInstanceKind>& kinds,
                                           const std::vector<Choice>& choices, Change change) {
  std::vector<ServingInstanceKind> all;
  for (const ServingInstanceKind& kind : kinds) {
    all.push_back(kind);
    for (const Choice& choice : choices) all.push_back(change(kind, choice));
  }
  return all;
}

ServingInstanceKind overlapping(const ServingInstanceKind& kind, const std::string& overlap) {
  return changed(kind, overlap == "none" ? "no overlap" : overlap,
                 {serving_key("overlap", overlap)});
}

ServingInstanceKind sharing_keys(const ServingInstanceKind& kind, int dcp) {
  return changed(kind, fmt::format("dcp{}", dcp), {serving_key("dcp", std::to_string(dcp))});
}

ServingInstanceKind drafting(const ServingInstanceKind& kind, const FewerDrafts& fewer) {
  std::vector<Override> flags = {serving_key("drafts", std::to_string(fewer.drafts)),
                                 serving_key("accepted", fmt::format("{:.6g}", fewer.accepted))};
  if (!fewer.gained.empty()) {
    flags.push_back(serving_key(
        "engine.drafts",
        fmt::format("{{tokens: {}, gained: [{}]}}", fewer.drafts, fmt::join(fewer.gained, ", "))));
  }
  return changed(kind, fewer.drafts == 0 ? "no draft" : counted(fewer.drafts, "draft"), flags);
}

/// None if the model's attention chooses or compresses its keys, which dcp cannot share.
std::function<int(int tp)> key_copies_of(const MoeModel& model) {
  if (!model.attention || !model.attention->shape) return std::identity();
  const AttentionShape& shape = *model.attention->shape;
  if (shape.compresses() || shape.indexer) return nullptr;
  return [&shape](int tp) { return shape.key_copies(tp); };
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

FewerDrafts first_drafts(const EngineRun& run, double accepted, int drafts) {
  const EngineOptions& all = run.engine.options;
  FewerDrafts fewer;
  fewer.drafts = drafts;
  if (run.states_gained) {
    const auto last = all.gained.begin() + drafts;
    fewer.gained.assign(all.gained.begin(), last);
    fewer.gained.push_back(std::accumulate(last, all.gained.end(), 0.0));
    for (int i = 1; i <= drafts; ++i) fewer.accepted += i * fewer.gained[std::size_t(i)];
  } else {
    fewer.accepted = accepted_of(chance_of(accepted, all.drafts), drafts);
  }
  return fewer;
}

ServingChoices serving_choices(const ServingSpec& pass, const MoeModel& model, const EngineRun& run,
                               const std::vector<ServingPolicy>& policies) {
  const LaunchTexts& texts = run.engine.launch;
  ServingChoices choices;
  const std::string& stated = serving_overlap_names[static_cast<std::size_t>(pass.overlap)];
  for (const auto& [name, text] : texts.overlaps) {
    if (name != stated) choices.overlaps.push_back(name);
  }
  if (stated != "none") choices.overlaps.insert(choices.overlaps.begin(), "none");
  for (const ServingPolicy& policy : policies) {
    if (policy.overlaps) choices.exchanging.insert(policy.name);
  }
  if (!texts.dcp.empty() && pass.dcp == 1) choices.key_copies = key_copies_of(model);
  if (texts.drafts.empty() && texts.file.drafts.empty()) return choices;
  for (int drafts = 0; drafts < pass.drafts; ++drafts) {
    choices.drafts.push_back(first_drafts(run, pass.accepted, drafts));
  }
  return choices;
}

std::vector<ServingInstanceKind> variants_of(const ServingInstanceKind& kind,
                                             const ServingChoices& choices) {
  std::vector<ServingInstanceKind> kinds = {kind};
  if (kind.ep > 1 && kind.dp() > 1 && choices.exchanging.contains(kind.policy)) {
    kinds = with_each(kinds, choices.overlaps, overlapping);
  }
  std::vector<int> parts;
  const int copies = choices.key_copies ? choices.key_copies(kind.tp) : 1;
  for (int dcp = 2; copies % dcp == 0; dcp *= 2) parts.push_back(dcp);
  kinds = with_each(kinds, parts, sharing_keys);
  kinds = with_each(kinds, choices.drafts, drafting);
  kinds.erase(kinds.begin());
  return kinds;
}

}  // namespace moesim
