// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/given/placement_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/yaml.h"
#include "sim/mechanism/placement/given/slot_lists.h"

namespace moesim {
namespace {

std::string (*json_of_torch)(const std::string& path) = nullptr;

class FormReader {
 public:
  explicit FormReader(PlacementFile& file) : file_(file) {}

  void read(const YamlValue& root) {
    if (root.is_list()) return read_lists(root, "lists");
    if (!root.is_map()) {
      root.error("not a placement", hint);
      return;
    }
    const YamlMap map = open_map(root);
    for (const char* outer : {"moe_config", "load_balancer", "eplb_config", "layers"}) {
      if (const auto inner = map.find(outer); inner && inner->is_map()) return read(*inner);
    }
    if (read_known(map) || read_numbered(map)) return;
    if (map.find("logical_count")) {
      root.error("'logical_count' has loads of experts, no placement",
                 "let a balancer make one of them: moesim trace import, then --policy eplb");
      return;
    }
    root.error("not a placement", hint);
  }

 private:
  static constexpr const char* hint =
      "known: initial_global_assignments, physical_to_logical_map, phy2log, log2phy, "
      "expert_to_ep_rank, rank_to_experts, layer_list, lists of experts by slot; "
      "docs/given-placements.md";

  /// By the first key that is there; a second one must say the same.
  bool read_known(const YamlMap& map) {
    using Read = void (FormReader::*)(const YamlMap&, const YamlValue&, const std::string&);
    static const std::vector<std::pair<const char*, Read>> forms = {
        {"initial_global_assignments", &FormReader::read_assignments},
        {"physical_to_logical_map", &FormReader::read_rows},
        {"phy2log", &FormReader::read_rows},
        {"physical_to_logical_per_layer", &FormReader::read_rows},
        {"log2phy", &FormReader::read_inverse},
        {"logical_to_physical_map", &FormReader::read_inverse},
        {"logical_to_all_physical_map", &FormReader::read_inverse},
        {"logical_to_physical_per_layer", &FormReader::read_inverse},
        {"expert_to_ep_rank", &FormReader::read_rank_of},
        {"expert_to_rank", &FormReader::read_rank_of},
        {"rank_to_experts", &FormReader::read_ranks},
        {"device_slots", &FormReader::read_ranks},
        {"layer_list", &FormReader::read_devices}};
    bool any = false;
    for (const auto& [key, read] : forms) {
      const auto value = map.find(key);
      if (!value) continue;
      PlacementFile other;
      FormReader reader(any ? other : file_);
      (reader.*read)(map, *value, key);
      if (any && !agree(file_, other)) {
        value->error(fmt::format("'{}' contradicts '{}'", key, file_.form),
                     "leave out one of them");
      }
      any = true;
    }
    return any;
  }

  /// vLLM Ascend: [{layer_id, device_list: [{device_id, device_expert: [expert of each slot]}]}];
  /// its numbers are those among the MoE layers.
  void read_devices(const YamlMap&, const YamlValue& value, const std::string& key) {
    file_.form = key;
    for (const YamlValue& layer : in_order_of(value, "layer_id")) {
      std::vector<YamlValue> held;
      const auto devices = open_map(layer).get("device_list");
      if (!devices) return;
      for (const YamlValue& device : in_order_of(*devices, "device_id")) {
        if (const auto experts = open_map(device).get("device_expert")) held.push_back(*experts);
      }
      file_.rows.push_back(by_rank(held, layer.line()));
    }
  }

  /// TensorRT-LLM: {layer: [expert of each slot]}.
  void read_assignments(const YamlMap& map, const YamlValue& value, const std::string& key) {
    file_.form = key;
    const std::int64_t slots = map.integer("num_slots", {1, most_slots}, 0);
    if (!value.is_map()) return read_lists(value, file_.form);
    const YamlMap layers = value.map();
    for (const auto& [number, list] : by_number(layers, {"", "layer"})) {
      const GivenSlots& layer = file_.numbered[number] = flat_slots_in(list);
      if (slots > 0 && std::ssize(layer.experts) != slots) {
        list.error(fmt::format("layer {} has {} slots, num_slots is {}", number,
                               layer.experts.size(), slots));
      }
    }
    if (file_.numbered.empty()) value.error("no layers: keys are numbers of model layers");
  }

  /// [layer][slot] or [slot]; `layers` has the numbers of the model's.
  void read_rows(const YamlMap& map, const YamlValue& value, const std::string& key) {
    file_.form = key;
    if (value.is_map()) {
      for (const auto& [number, list] : by_number(value.map(), {"", "layer"})) {
        file_.numbered[number] = flat_slots_in(list);
      }
      if (file_.numbered.empty()) value.error("no layers: keys are numbers of model layers");
      return;
    }
    if (is_too_deep(value, 2)) return;
    if (depth_of(value) == 1) {
      file_.rows.push_back(flat_slots_in(value));
    } else {
      for (const YamlValue& row : value.list()) file_.rows.push_back(flat_slots_in(row));
    }
    number_rows(map, value);
  }

  /// [layer][expert][replica] or [expert][replica].
  void read_inverse(const YamlMap& map, const YamlValue& value, const std::string& key) {
    file_.form = key;
    if (is_too_deep(value, 3)) return;
    if (depth_of(value) == 2) {
      file_.rows.push_back(from_slots_of(value));
    } else {
      for (const YamlValue& layer : value.list()) file_.rows.push_back(from_slots_of(layer));
    }
    number_rows(map, value);
  }

  void number_rows(const YamlMap& map, const YamlValue& value) {
    const auto layers = map.find("layers");
    if (!layers || !layers->is_list()) return;
    const std::vector<int> numbers = ids_in(*layers, layer_numbers);
    if (numbers.size() != file_.rows.size()) {
      value.error(
          fmt::format("{} layers, but 'layers' names {}", file_.rows.size(), numbers.size()));
      return;
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (!file_.numbered.emplace(numbers[i], std::move(file_.rows[i])).second) {
        layers->error(fmt::format("layer {} is there twice", numbers[i]));
      }
    }
    file_.rows.clear();
  }

  /// [expert] or [layer][expert] of ranks, or {expert: rank}.
  void read_rank_of(const YamlMap&, const YamlValue& value, const std::string& key) {
    file_.form = key;
    if (is_too_deep(value, 2)) return;
    if (value.is_map()) {
      std::vector<int> ranks;
      for (const auto& [expert, rank] : by_number(value.map(), {"", "expert"})) {
        if (expert != std::ssize(ranks)) {
          value.error(fmt::format("no rank for expert {}", ranks.size()));
          return;
        }
        ranks.push_back(static_cast<int>(rank.integer(rank_ids)));
      }
      if (ranks.empty()) value.error("no experts: keys are numbers of experts");
      file_.rows.push_back(from_ranks(ranks, value.line()));
    } else if (depth_of(value) == 1) {
      file_.rows.push_back(from_ranks(ids_in(value, rank_ids), value.line()));
    } else {
      for (const YamlValue& row : value.list()) {
        file_.rows.push_back(from_ranks(ids_in(row, rank_ids), row.line()));
      }
    }
  }

  /// [rank][slot] or {rank: [slot]}, of all layers, or [layer][rank][slot].
  void read_ranks(const YamlMap&, const YamlValue& value, const std::string& key) {
    file_.form = key;
    if (is_too_deep(value, 3)) return;
    if (depth_of(value) == 3) {
      for (const YamlValue& layer : value.list()) {
        file_.rows.push_back(by_rank(layer.list(), layer.line()));
      }
    } else if (!value.is_map()) {
      file_.rows.push_back(by_rank(value.list(), value.line()));
    } else {
      add_rank_map(by_number(value.map(), {"", "rank", "ep_rank", "gpu", "device"}), value);
    }
  }

  void add_rank_map(const std::map<int, YamlValue>& ranks, const YamlValue& value) {
    std::vector<YamlValue> in_order;
    for (const auto& [rank, list] : ranks) {
      if (rank != std::ssize(in_order)) {
        value.error(fmt::format("no rank {}", in_order.size()),
                    "ranks are those of an EP group, from 0 on");
        return;
      }
      in_order.push_back(list);
    }
    if (in_order.empty()) value.error("no ranks: keys are numbers of ranks");
    file_.rows.push_back(by_rank(in_order, value.line()));
  }

  /// Keys that are numbers: ranks of all layers, or layers.
  bool read_numbered(const YamlMap& map) {
    const YamlValue& value = map.value();
    const auto ranks = by_number(map, {"rank", "ep_rank", "gpu", "device"});
    if (!ranks.empty()) {
      file_.form = "experts by rank";
      return add_rank_map(ranks, value), true;
    }
    const auto numbers = by_number(map, {"", "layer"});
    if (numbers.empty()) return false;
    const bool named = map.keys().front().find_first_not_of("0123456789") != std::string::npos;
    std::vector<YamlValue> lists;
    for (const auto& [number, list] : numbers) lists.push_back(list);
    file_.form = "experts by layer";
    const bool flat_lists = std::ranges::all_of(
        lists, [](const YamlValue& list) { return list.is_list() && depth_of(list) == 1; });
    if (flat_lists && !named && !are_layers(lists)) {
      file_.form = "experts by rank";
      add_as_layers(lists);
      return add_rank_map(numbers, value), true;
    }
    for (const auto& [number, list] : numbers) file_.numbered[number] = layer_of(list);
    return true;
  }

  void add_as_layers(const std::vector<YamlValue>& lists) {
    for (const YamlValue& list : lists) file_.as_layers.push_back(flat_slots_in(list));
  }

  static GivenSlots layer_of(const YamlValue& list) {
    return depth_of(list) == 2 ? by_rank(list.list(), list.line()) : flat_slots_in(list);
  }

  void read_lists(const YamlValue& value, const std::string& form) {
    file_.form = form;
    if (is_too_deep(value, 3)) return;
    const auto lists = value.list();
    const int depth = depth_of(value);
    if (depth == 1) {
      file_.rows.push_back(flat_slots_in(value));
    } else if (depth == 2 && !are_layers(lists)) {
      file_.form += " by rank";
      add_as_layers(lists);
      file_.rows.push_back(by_rank(lists, value.line()));
    } else {
      for (const YamlValue& list : lists) file_.rows.push_back(layer_of(list));
    }
  }

  PlacementFile& file_;
};

}  // namespace

void read_torch_placements_by(std::string (*json_of)(const std::string& path)) {
  json_of_torch = json_of;
}

PlacementFile read_placement_file(const std::string& path) {
  if (path.ends_with(".npy") || path.ends_with(".npz")) {
    throw error_in(path, "is an array of NumPy, which is not read as a placement",
                   "write it as JSON: json.dump(array.tolist(), file)");
  }
  if (!path.ends_with(".pt")) return parse_placement(read_file(path), path);
  if (json_of_torch != nullptr) return parse_placement(json_of_torch(path), path);
  throw error_in(path, "is a file of torch.save, which this program does not read",
                 "write the same keys as JSON");
}

PlacementFile parse_placement(const std::string& text, const std::string& name) {
  PlacementFile file{name, "", {}, {}};
  const auto document = YamlDocument::from_text(is_numbers(text) ? as_lists(text) : text, name);
  FormReader(file).read(document->root());
  document->finish();
  return file;
}

}  // namespace moesim
