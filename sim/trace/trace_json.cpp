// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/trace_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/most.h"
#include "sim/base/regular_file.h"
#include "sim/base/yaml.h"

namespace moesim {
namespace {

constexpr int trace_version = 1;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<int> read_layers(const YamlValue& value) {
  std::vector<int> layers;
  for (const auto& item : value.list()) {
    const int layer = static_cast<int>(item.integer({0, max_layer_number}));
    if (!layers.empty() && layer <= layers.back()) {
      item.error("layers must ascend", "model layer numbers, 0-based, one per recorded MoE layer");
    }
    layers.push_back(layer);
  }
  if (value.is_list() && layers.empty()) value.error("a trace has at least one layer");
  return layers;
}

void read_ids_kind(const YamlMap& root) {
  const auto kind = root.get("expert_ids");
  if (!kind || kind->string() == "logical") return;
  kind->error(fmt::format("expert_ids is '{}'; only logical ids can be re-placed", kind->string()),
              "map slot ids back to logical experts before writing the trace");
}

}  // namespace

const std::vector<std::string>& phase_names() {
  static const std::vector<std::string> names = {"training", "prefill", "decode", "mixed",
                                                 "synthetic"};
  return names;
}

const std::string& to_string(Phase phase) { return phase_names()[static_cast<std::size_t>(phase)]; }

std::string layers_text(const std::vector<int>& layers) {
  const int first = layers.front();
  const int last = layers.back();
  if (layers.size() > 2 && last - first + 1 == static_cast<int>(layers.size())) {
    return fmt::format("{} (model layers {}-{})", layers.size(), first, last);
  }
  return fmt::format("{} (model layers {})", layers.size(), fmt::join(layers, ", "));
}

TraceInfo read_trace_json(const std::string& directory) {
  const std::string path = directory + "/trace.json";
  if (is_there(path)) check_regular_file(path);
  if (!is_regular_file(path)) {
    throw error_in(directory, "is not a trace: it has no trace.json",
                   "`moesim trace import` makes one from other formats");
  }
  const auto document = YamlDocument::from_file(path);
  TraceInfo info;
  {
    const YamlMap root = document->root().map();
    if (const auto format = root.get("format"); format && format->string() != trace_format) {
      format->error(fmt::format("format is '{}', not '{}'", format->string(), trace_format));
    }
    if (const auto version = root.get("version"); version && version->integer() != trace_version) {
      version->error(fmt::format("version {} is not known; this reader knows version {}",
                                 version->integer(), trace_version));
    }
    info.name = root.string("name");
    info.model = root.string("model");
    info.experts = static_cast<int>(root.integer("experts", {1, max_experts}));
    const auto top_k = root.get("top_k");
    info.top_k = top_k ? static_cast<int>(top_k->integer({1, max_experts})) : 0;
    if (top_k && info.top_k > info.experts && info.experts > 0) {
      top_k->error(fmt::format("top_k {} exceeds the {} experts", info.top_k, info.experts));
    }
    if (const auto layers = root.get("layers")) info.layers = read_layers(*layers);
    info.phase = static_cast<Phase>(root.choice("phase", phase_names()));
    read_ids_kind(root);
    info.counts_alone = root.choice("rows", {"tokens", "counts"}, 0) == 1;
    if (const auto provenance = root.find("provenance")) info.provenance = provenance->json();
  }
  document->finish();
  return info;
}

std::string trace_json_text(const TraceInfo& info) {
  const auto provenance = own_json(info.provenance.empty() ? "{}" : info.provenance);
  std::string indented = provenance.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = 0; (at = indented.find('\n', at)) != std::string::npos; at += 3) {
    indented.replace(at, 1, "\n  ");
  }
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"name\": {},\n  \"model\": {},\n"
      "  \"experts\": {},\n  \"top_k\": {},\n  \"layers\": [{}],\n  \"phase\": \"{}\",\n"
      "  \"expert_ids\": \"logical\",\n{}  \"provenance\": {}\n}}\n",
      trace_format, trace_version, quoted(info.name), quoted(info.model), info.experts, info.top_k,
      fmt::join(info.layers, ", "), to_string(info.phase),
      info.counts_alone ? "  \"rows\": \"counts\",\n" : "", indented);
}

}  // namespace moesim
