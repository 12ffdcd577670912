// SPDX-License-Identifier: Apache-2.0
#include "sim/import/response_parts.h"

#include <algorithm>

namespace moesim {

std::vector<JsonElement> choices_of(const JsonElement& response) {
  simdjson::dom::array choices;
  for (const char* key : {"choices", "outputs"}) {
    const auto list = json_at(response, key);
    if (list && list->get(choices) == simdjson::SUCCESS) return {choices.begin(), choices.end()};
  }
  return {};
}

std::int64_t keys_in_extensions(const JsonElement& response) {
  std::int64_t keys = 0;
  for (const char* key : extensions) {
    const auto beside = json_at(response, key);
    if (!beside) continue;
    const auto data = json_at(*beside, "engine_data");
    keys += json_at(*beside, "routed_experts") ? 1 : 0;
    keys += data && json_at(*data, "routed_experts") ? 1 : 0;
  }
  return keys;
}

std::string kind_of_routes(const JsonElement& response) {
  std::vector<JsonElement> parts = choices_of(response);
  parts.push_back(response);
  for (const JsonElement& part : parts) {
    if (json_at(part, "moe_topk_indices")) return "megatron-routes";
    if (json_at(part, "routed_experts") || json_at(part, "prompt_routed_experts")) {
      return "vllm-routes";
    }
    for (const char* key : extensions) {
      const auto beside = json_at(part, key);
      const auto data = beside ? json_at(*beside, "engine_data") : std::nullopt;
      const bool here = beside && json_at(*beside, "routed_experts");
      if (here || (data && json_at(*data, "routed_experts"))) return "sglang-routes";
    }
  }
  return "";
}

JsonElement body_of(JsonElement item) {
  constexpr int most_wrappings = 3;
  for (int i = 0; i < most_wrappings && kind_of_routes(item).empty(); ++i) {
    std::optional<JsonElement> inner;
    for (const char* key : {"response", "output", "result", "body"}) {
      const auto value = json_at(item, key);
      if (!inner && value && value->is_object()) inner = value;
    }
    if (!inner) break;
    item = *inner;
  }
  return item;
}

std::int64_t keys_of_routes(const JsonElement& value, int depth) {
  constexpr int most_depth = 8;
  simdjson::dom::object object;
  simdjson::dom::array items;
  std::int64_t keys = 0;
  if (depth > most_depth) return 0;
  if (value.get(object) == simdjson::SUCCESS) {
    for (const auto& [key, its] : object) {
      const bool routes =
          key == "routed_experts" || key == "prompt_routed_experts" || key == "moe_topk_indices";
      const bool holds = its.is_array() || its.is_object() || its.is_string();
      keys += routes ? (holds ? 1 : 0) : keys_of_routes(its, depth + 1);
    }
  } else if (value.get(items) == simdjson::SUCCESS) {
    for (const JsonElement item : items) {
      if (!item.is_object()) break;
      keys += keys_of_routes(item, depth + 1);
    }
  }
  return keys;
}

bool holds_null(const JsonElement& response, const char* key) {
  std::vector<JsonElement> parts = choices_of(response);
  parts.push_back(response);
  for (std::size_t i = parts.size(); i-- > 0;) {
    for (const char* extension : extensions) {
      const auto more = json_at(parts[i], extension);
      const auto data = more ? json_at(*more, "engine_data") : std::nullopt;
      if (more) parts.push_back(data.value_or(*more));
    }
  }
  return std::ranges::any_of(parts, [&](const JsonElement& part) {
    JsonElement value;
    return part.is_object() && part.at_key(key).get(value) == simdjson::SUCCESS && value.is_null();
  });
}

}  // namespace moesim
