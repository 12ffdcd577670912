// SPDX-License-Identifier: Apache-2.0
#include "sim/saved/step_json.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "sim/base/error.h"
#include "sim/plan/text.h"
#include "sim/saved/held_json.h"
#include "sim/saved/json_numbers.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json layer_json(const ServedLayer& layer) {
  const Placement& placement = layer.placement;
  Json slots = Json::array();
  for (const auto& of_gpu : placement.table()) slots.push_back(values(of_gpu));
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(placement.gpus()), 0);
  for (const GpuId source : layer.source) ++tokens[source.index()];
  Json json = {{"layer", layer.number},
               {"top_k", layer.top_k},
               {"experts", placement.experts()},
               {"slots", slots},
               {"tokens", tokens},
               {"expert", values(layer.expert)},
               {"slot", values(layer.slot)}};
  if (layer.microbatch > 0) json["microbatch"] = layer.microbatch;
  return json;
}

ServedLayer read_layer(const Json& json) {
  SlotTable table;
  for (const Json& of_gpu : json.at("slots")) table.push_back(ids<ExpertId>(of_gpu));
  ServedLayer layer{whole_number<int>(json.at("layer")),
                    whole_number<int>(json.at("top_k")),
                    Placement(whole_number<int>(json.at("experts")), table),
                    {},
                    ids<ExpertId>(json.at("expert")),
                    ids<SlotId>(json.at("slot"))};
  if (json.contains("microbatch")) layer.microbatch = whole_number<int>(json["microbatch"]);
  const auto tokens = whole_numbers<std::int64_t>(json.at("tokens"));
  const std::size_t most = layer.expert.size();  // a token has a choice or more
  for (std::size_t gpu = 0; gpu < tokens.size(); ++gpu) {
    const auto count = static_cast<std::size_t>(tokens[gpu]);  // a negative one is beyond `most`
    if (count > most - layer.source.size()) {
      throw Error(fmt::format("layer {}: GPU {} has {} tokens, all choices are {}", layer.number,
                              gpu, tokens[gpu], most));
    }
    layer.source.insert(layer.source.end(), count, GpuId(static_cast<std::int64_t>(gpu)));
  }
  return layer;
}

void check_choices(const ServedLayer& layer) {
  const Placement& placement = layer.placement;
  for (std::size_t i = 0; i < layer.expert.size(); ++i) {
    const auto [expert, slot] = std::pair(layer.expert[i], layer.slot[i]);
    if (expert.value < 0 && slot.value < 0) continue;
    if (expert.value < 0 || slot.value < 0 || slot.value >= placement.slots() ||
        placement.expert_in(slot) != expert) {
      throw Error(
          fmt::format("layer {}: choice {} of expert {} is served by slot {}, which does "
                      "not hold it",
                      layer.number, i, expert.value, slot.value));
    }
  }
}

void check_layer(const ServedLayer& layer, int gpus) {
  const auto fail = [&](const std::string& what) {
    throw Error(fmt::format("layer {}: {}", layer.number, what));
  };
  if (layer.top_k < 1 || layer.top_k > max_top_k) fail(fmt::format("top_k is {}", layer.top_k));
  if (layer.placement.gpus() != gpus) {
    fail(fmt::format("experts are placed on {} GPUs, the plan has {}", layer.placement.gpus(),
                     gpus));
  }
  const std::size_t choices = layer.source.size() * static_cast<std::size_t>(layer.top_k);
  if (layer.expert.size() != choices || layer.slot.size() != choices) {
    fail(fmt::format("{} tokens of {} choices have {} experts and {} slots", layer.tokens(),
                     layer.top_k, layer.expert.size(), layer.slot.size()));
  }
  for (const GpuId source : layer.source) {
    if (source.value >= gpus) fail(fmt::format("tokens come from GPU {}", source.value));
  }
  check_choices(layer);
}

using LayersByKey = std::map<std::pair<int, int>, const ServedLayer*>;  // [layer, microbatch]

void check_op(const LayersByKey& layers, const Op& op) {
  const auto found = layers.find({op.key.layer, op.key.microbatch});
  const ServedLayer* layer = found == layers.end() ? nullptr : found->second;
  const auto fail = [&](const std::string& what) {
    throw Error(fmt::format("op {} of layer {}: {}", op.label.text(), op.key.layer, what));
  };
  if (const Exchange* exchange = op.exchange()) {
    for (const RowMove& row : exchange->rows) {
      if (layer == nullptr) fail("moves tokens, but the layer has no routing");
      if (row.token.value >= layer->tokens()) fail(fmt::format("moves token {}", row.token.value));
      if (layer->top_k < max_top_k && row.choices >> layer->top_k != 0) {
        fail(fmt::format("moves choices of token {} beyond top_k {}", row.token.value,
                         layer->top_k));
      }
    }
  } else if (op.key.stage == Stage::experts) {
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->of(m));
      if (gemm == nullptr) continue;
      if (layer == nullptr) fail("computes experts, but the layer has no routing");
      const int slots = layer->placement.slots_on(op.group[m]);
      if (static_cast<int>(gemm->m.size()) != slots) {
        fail(fmt::format("has {} groups for {} slots", gemm->m.size(), slots));
      }
    }
  }
}

void check(const RoutedPlan& routed) {
  LayersByKey layers;
  for (const ServedLayer& layer : routed.layers) {
    check_layer(layer, routed.plan.gpus);
    layers.try_emplace({layer.number, layer.microbatch}, &layer);
  }
  for (const Op& op : routed.plan.ops) check_op(layers, op);
}

}  // namespace

void add_plan(Json& json, const Plan& plan, const std::vector<ServedLayer>& layers) {
  Json list = Json::array();
  for (const ServedLayer& layer : layers) list.push_back(layer_json(layer));
  json["layers"] = std::move(list);
  json["plan"] = to_text(plan);
}

RoutedPlan read_plan(const Json& json, const std::string& name) {
  RoutedPlan routed;
  for (const Json& layer : json.at("layers")) routed.layers.push_back(read_layer(layer));
  routed.plan = parse_plan(json.at("plan").get<std::string>(), name);
  check(routed);
  return routed;
}

Json step_json(const ExecutableStep& step) {
  Json json = {{"step", step.number},
               {"planning_s", step.planning.value},
               {"peak_memory_bytes", step.peak_memory.value},
               {"dropped_choices", step.dropped_choices},
               {"replaced_choices", step.replaced_choices}};
  if (step.iteration) json["iteration"] = held_json(*step.iteration);
  add_plan(json, step.plan, step.layers);
  return json;
}

ExecutableStep read_step(const Json& json, const std::string& name) {
  ExecutableStep step;
  step.number = whole_number<int>(json.at("step"));
  step.planning = Seconds(json.at("planning_s").get<double>());
  step.peak_memory = Bytes(whole_number<std::int64_t>(json.at("peak_memory_bytes")));
  step.dropped_choices = whole_number<std::int64_t>(json.at("dropped_choices"));
  step.replaced_choices = whole_number<std::int64_t>(json.at("replaced_choices"));
  RoutedPlan routed = read_plan(json, name);
  step.plan = std::move(routed.plan);
  step.layers = std::move(routed.layers);
  if (json.contains("iteration")) {
    step.iteration = read_held(json["iteration"], step.plan.gpus);
    check_layers_of(*step.iteration, step.layers);
  }
  return step;
}

}  // namespace moesim
