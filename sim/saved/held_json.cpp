// SPDX-License-Identifier: Apache-2.0
#include "sim/saved/held_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "sim/saved/json_numbers.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr int most_of_model = 1 << 30;

std::vector<GpuId> gpus_in(const Json& json, int gpus) {
  std::vector<GpuId> list = ids<GpuId>(json);
  for (const GpuId gpu : list) {
    if (gpu.value < 0 || gpu.value >= gpus) {
      throw Error(fmt::format("GPU {} is not of the plan", gpu.value));
    }
  }
  return list;
}

int size_in(const Json& json, const char* key, int least = 1) {
  const int size = whole_number<int>(json.at(key));
  if (least <= size && size <= most_of_model) return size;
  throw Error(fmt::format("'{}' of the iteration is {}", key, size));
}

Json model_json(const MoeModel& model) {
  const AttentionShape& attention = *model.attention->shape;
  return {{"name", model.name},
          {"hidden", model.hidden},
          {"layers", model.layers},
          {"moe_layers", model.moe_layers},
          {"experts", model.experts},
          {"top_k", model.top_k},
          {"expert_ffn", model.expert_ffn},
          {"expert_matrices", model.expert_matrices},
          {"shared_experts", model.shared_experts},
          {"shared_ffn", model.shared_ffn},
          {"dense_ffn", model.dense_ffn},
          {"vocabulary", model.vocabulary},
          {"heads", attention.heads},
          {"kv_heads", attention.kv_heads},
          {"head_dim", attention.head_dim},
          {"qk_norm", attention.qk_norm}};
}

std::vector<int> moe_layers_in(const Json& json, int layers) {
  std::vector<int> numbers = whole_numbers<int>(json);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] <= (i == 0 ? -1 : numbers[i - 1]) || numbers[i] >= layers) {
      throw Error(fmt::format("MoE layer {} of {} layers", numbers[i], layers));
    }
  }
  return numbers;
}

MoeModel read_model(const Json& json) {
  MoeModel model;
  model.name = json.at("name").get<std::string>();
  model.hidden = size_in(json, "hidden");
  model.layers = size_in(json, "layers");
  model.moe_layers = moe_layers_in(json.at("moe_layers"), model.layers);
  model.experts = size_in(json, "experts");
  model.top_k = size_in(json, "top_k");
  model.expert_ffn = size_in(json, "expert_ffn");
  model.expert_matrices = size_in(json, "expert_matrices", 2);
  if (model.expert_matrices > 3) throw Error("an expert has 2 or 3 matrices");
  model.shared_experts = size_in(json, "shared_experts", 0);
  model.shared_ffn = size_in(json, "shared_ffn", 0);
  model.dense_ffn = size_in(json, "dense_ffn", 0);
  model.vocabulary = size_in(json, "vocabulary");
  model.activations = model.weights = DataType::fp32;
  AttentionShape& attention = model.attention.emplace().shape.emplace();
  attention.heads = size_in(json, "heads");
  attention.kv_heads = size_in(json, "kv_heads");
  attention.head_dim = size_in(json, "head_dim");
  attention.qk_norm = json.at("qk_norm").get<bool>();
  if (attention.heads % attention.kv_heads != 0) {
    throw Error(fmt::format("{} heads share {} heads of keys and values", attention.heads,
                            attention.kv_heads));
  }
  return model;
}

constexpr std::pair<StagePartKind, const char*> part_names[] = {
    {StagePartKind::embedding, "embedding"},
    {StagePartKind::layer, "layer"},
    {StagePartKind::head, "head"}};

Json part_json(const StagePart& part) {
  const auto* named =
      std::ranges::find(part_names, part.kind, &std::pair<StagePartKind, const char*>::first);
  return {{named->second, part.number}};
}

StagePart read_part(const Json& json, int layers) {
  for (const auto& [kind, name] : part_names) {
    if (!json.contains(name)) continue;
    const int number = whole_number<int>(json.at(name)),
              most = kind == StagePartKind::layer ? layers : 1;
    if (0 <= number && number < most) return {kind, number};
  }
  throw Error(fmt::format("{} is not a part of the model", json.dump()));
}

Json stage_json(const HeldStage& stage) {
  Json chunks = Json::array(), rings = Json::array();
  for (const HeldChunk& chunk : stage.chunks) {
    Json parts = Json::array();
    for (const StagePart& part : chunk.parts) parts.push_back(part_json(part));
    chunks.push_back({{"position", chunk.position}, {"parts", parts}});
  }
  for (const auto& of_part : stage.rings) {
    Json& list = rings.emplace_back(Json::array());
    for (const auto& ring : of_part) list.push_back(values(ring));
  }
  return {{"gpus", values(stage.gpus.list())}, {"chunks", chunks}, {"rings", rings}};
}

HeldStage read_stage(const Json& json, int layers, int gpus) {
  HeldStage stage{Group(gpus_in(json.at("gpus"), gpus)), {}, {}};
  for (const Json& chunk : json.at("chunks")) {
    HeldChunk& held = stage.chunks.emplace_back();
    held.position = whole_number<int>(chunk.at("position"));
    for (const Json& part : chunk.at("parts")) held.parts.push_back(read_part(part, layers));
  }
  for (const Json& of_part : json.at("rings")) {
    auto& rings = stage.rings.emplace_back();
    for (const Json& ring : of_part) rings.push_back(gpus_in(ring, gpus));
  }
  return stage;
}

void check_stages(const HeldIteration& held, int gpus) {
  std::vector<int> seen(static_cast<std::size_t>(gpus), 0);
  for (const HeldStage& stage : held.stages) {
    if (!std::ranges::is_sorted(stage.gpus.list())) throw Error("GPUs of a stage are not in order");
    if (stage.gpus.empty() || stage.gpus.size() != held.stages.front().gpus.size()) {
      throw Error("stages have different numbers of GPUs");
    }
    for (const GpuId gpu : stage.gpus) ++seen[gpu.index()];
  }
  if (std::ranges::any_of(seen, [](int count) { return count != 1; })) {
    throw Error("a GPU of the plan is not on one stage");
  }
}

void check_parts(const HeldIteration& held) {
  const int positions = held.positions();
  std::set<int> at;
  std::set<std::pair<StagePartKind, int>> parts;
  std::size_t count = 0;
  for (const HeldStage& stage : held.stages) {
    for (const HeldChunk& chunk : stage.chunks) {
      if (0 <= chunk.position && chunk.position < positions) at.insert(chunk.position);
      for (const StagePart& part : chunk.parts) parts.emplace(part.kind, part.number);
      count += chunk.parts.size();
    }
  }
  if (std::ssize(at) != positions) throw Error("a position of the pipeline is not there once");
  if (parts.size() != count || std::cmp_not_equal(count, held.model.layers + 2)) {
    throw Error("a part of the model is not on one stage");
  }
}

void check_division(const HeldIteration& held) {
  const auto divide = [&held](std::int64_t size) {
    if (size % held.tp != 0) throw Error(fmt::format("tp = {} does not divide {}", held.tp, size));
  };
  divide(static_cast<std::int64_t>(held.stages.front().gpus.size()));
  for (const DividedSize& of : divided_sizes(held.model, held.rows())) divide(of.size);
}

/// The members of a stage at a place of their tensor groups, in ascending order.
std::vector<GpuId> members_at(const HeldIteration& held, const HeldStage& stage, std::size_t part) {
  std::vector<GpuId> members;
  for (std::size_t g = part; g < stage.gpus.size(); g += static_cast<std::size_t>(held.tp)) {
    members.push_back(stage.gpus[g]);
  }
  return members;
}

void check_rings(const HeldIteration& held) {
  for (const HeldStage& stage : held.stages) {
    if (std::cmp_not_equal(stage.rings.size(), held.tp)) throw Error("a tensor group lacks rings");
    for (std::size_t part = 0; part < stage.rings.size(); ++part) {
      const std::vector<GpuId> members = members_at(held, stage, part);
      for (std::vector<GpuId> ring : stage.rings[part]) {
        std::ranges::sort(ring);
        if (ring != members) throw Error("a ring does not pass every replica once");
      }
      if (stage.rings[part].empty()) throw Error("replicas have no ring");
    }
  }
}

}  // namespace

Json held_json(const HeldIteration& held) {
  Json stages = Json::array();
  for (const HeldStage& stage : held.stages) stages.push_back(stage_json(stage));
  return {{"model", model_json(held.model)},
          {"tp", held.tp},
          {"microbatches", held.microbatches},
          {"micro_batch", held.micro_batch},
          {"sequence", held.sequence},
          {"zero", held.zero},
          {"gathers_parameters", held.gathers_parameters},
          {"stages", stages}};
}

HeldIteration read_held(const Json& json, int gpus) {
  HeldIteration held;
  held.model = read_model(json.at("model"));
  held.tp = size_in(json, "tp");
  held.microbatches = size_in(json, "microbatches");
  held.micro_batch = size_in(json, "micro_batch");
  held.sequence = size_in(json, "sequence");
  held.zero = size_in(json, "zero", 0);
  if (held.zero > 1) throw Error(fmt::format("zero is {}", held.zero));
  held.gathers_parameters = json.at("gathers_parameters").get<bool>();
  for (const Json& stage : json.at("stages")) {
    held.stages.push_back(read_stage(stage, held.model.layers, gpus));
  }
  if (held.stages.empty()) throw Error("the iteration has no stages");
  check_stages(held, gpus);
  check_parts(held);
  check_division(held);
  check_rings(held);
  return held;
}

void check_layers_of(const HeldIteration& held, const std::vector<ServedLayer>& layers) {
  std::set<std::pair<int, int>> seen;
  for (const ServedLayer& layer : layers) {
    const auto fail = [&](const std::string& what) {
      throw Error(fmt::format("layer {}, microbatch {}: {}", layer.number, layer.microbatch, what));
    };
    const bool moe = std::ranges::binary_search(held.model.moe_layers, layer.number);
    if (!moe || layer.microbatch < 0 || layer.microbatch >= held.microbatches) {
      fail("is not of the iteration");
    }
    if (!seen.emplace(layer.number, layer.microbatch).second) fail("is there twice");
    if (layer.placement.experts() != held.model.experts) fail("has other experts");
    if (layer.tokens() != held.rows() * held.replicas()) {
      fail(fmt::format("has {} tokens of {}", layer.tokens(), held.rows() * held.replicas()));
    }
  }
  if (seen.size() != held.model.moe_layers.size() * static_cast<std::size_t>(held.microbatches)) {
    throw Error("a MoE layer of a microbatch has no routing");
  }
}

}  // namespace moesim
