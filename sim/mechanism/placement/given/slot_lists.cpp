// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/given/slot_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "sim/base/figures.h"

namespace moesim {
namespace {

constexpr Range expert_ids{0, 1 << 20};

/// The key without what surrounds the number in the name of a module: "model.layers.7.mlp".
std::string layer_key(const std::string& key) {
  const std::size_t at = key.find("layers.");
  if (at == std::string::npos) return key;
  return "layer" + key.substr(at + 7, key.find('.', at + 7) - at - 7);
}

/// The number in "7", "rank7", "rank_7" or "layer-7" if the word is among `words`.
std::optional<int> number_in(const std::string& name, const std::set<std::string>& words) {
  const std::string key = layer_key(name);
  std::size_t digits = key.size();
  while (digits > 0 && key[digits - 1] >= '0' && key[digits - 1] <= '9') --digits;
  const std::string number = key.substr(digits);
  std::string word = key.substr(0, digits);
  while (!word.empty() && std::string("_- .:").find(word.back()) != std::string::npos) {
    word.pop_back();
  }
  if (number.empty() || number.size() > 6 || !words.contains(word)) return std::nullopt;
  return std::stoi(number);
}

/// A whole number, also as 3.0: tensors of floats are written so.
int whole_in(const YamlValue& item, Range range) {
  const double number = item.number(range);
  const int whole = static_cast<int>(number);
  if (whole != number)
    item.error(fmt::format("'{}' is {}, not a whole number", item.path(), number));
  return whole;
}

bool covers(const std::vector<int>& row, int experts) {
  return static_cast<int>(std::set<int>(row.begin(), row.end()).size()) == experts;
}

}  // namespace

std::vector<int> ids_in(const YamlValue& list, Range range) {
  std::vector<int> ids;
  for (const YamlValue& item : list.list()) ids.push_back(whole_in(item, range));
  return ids;
}

int depth_of(const YamlValue& value) {
  if (!value.is_list()) return 0;
  const auto items = value.list();
  return 1 + (items.empty() ? 0 : depth_of(items.front()));
}

bool is_too_deep(const YamlValue& value, int most) {
  const int depth = depth_of(value);
  if (depth <= most) return false;
  value.error(fmt::format("'{}' has lists {} deep, it may have {}", value.path(), depth, most),
              "docs/given-placements.md has the forms");
  return true;
}

GivenSlots flat_slots_in(const YamlValue& list) {
  constexpr Range with_empty{-1, 1 << 20};
  std::vector<int> experts = ids_in(list, with_empty);
  if (const auto empty = std::ranges::count(experts, -1); empty > 0) {
    list.error(
        fmt::format("'{}' has {} without an expert, -1", list.path(), counted(empty, "slot")),
        "leave them out: lists by rank may have different lengths");
  }
  return {std::move(experts), {}, list.line()};
}

GivenSlots by_rank(const std::vector<YamlValue>& ranks, int line) {
  GivenSlots slots{{}, {}, line};
  for (const YamlValue& rank : ranks) {
    const std::vector<int> held = ids_in(rank, expert_ids);
    slots.experts.insert(slots.experts.end(), held.begin(), held.end());
    slots.slots_of_rank.push_back(static_cast<int>(held.size()));
  }
  return slots;
}

GivenSlots from_ranks(const std::vector<int>& rank_of, int line) {
  GivenSlots slots{{}, {}, line};
  if (rank_of.empty()) return slots;
  const int ranks = 1 + *std::ranges::max_element(rank_of);
  slots.slots_of_rank.assign(static_cast<std::size_t>(ranks), 0);
  std::vector<int> order(rank_of.size());
  for (std::size_t e = 0; e < order.size(); ++e) order[e] = static_cast<int>(e);
  std::ranges::stable_sort(order, {}, [&](int e) { return rank_of[static_cast<std::size_t>(e)]; });
  for (const int rank : rank_of) ++slots.slots_of_rank[static_cast<std::size_t>(rank)];
  slots.experts = std::move(order);
  return slots;
}

GivenSlots from_slots_of(const YamlValue& of_experts) {
  GivenSlots slots{{}, {}, of_experts.line()};
  int expert = 0;
  for (const YamlValue& list : of_experts.list()) {
    for (const YamlValue& item : list.list()) {
      const int slot = whole_in(item, {-1, most_slots - 1});
      if (slot < 0) continue;
      const auto index = static_cast<std::size_t>(slot);
      if (index >= slots.experts.size()) slots.experts.resize(index + 1, -1);
      int& held = slots.experts[index];
      if (held >= 0) {
        item.error(fmt::format("slot {} holds expert {} already", slot, held));
      }
      held = expert;
    }
    ++expert;
  }
  if (const auto hole = std::ranges::find(slots.experts, -1); hole != slots.experts.end()) {
    of_experts.error(fmt::format("slot {} holds no expert", hole - slots.experts.begin()),
                     "slots are numbered from 0 on, without gaps");
  }
  return slots;
}

YamlMap open_map(const YamlValue& value) {
  const YamlMap map = value.map();
  for (const std::string& key : map.keys()) map.find(key);
  return map;
}

std::vector<YamlValue> in_order_of(const YamlValue& list, const char* number) {
  std::map<std::int64_t, YamlValue> found;
  for (const YamlValue& item : list.list()) {
    found.emplace(open_map(item).integer(number, {0, most_slots}), item);
  }
  std::vector<YamlValue> in_order;
  for (const auto& [its, item] : found) in_order.push_back(item);
  const auto count = std::ssize(list.list());
  if (std::ssize(found) != count || (count > 0 && found.rbegin()->first != count - 1)) {
    list.error(fmt::format("'{}' does not count from 0 on", number));
  }
  return in_order;
}

std::map<int, YamlValue> by_number(const YamlMap& map, const std::set<std::string>& words) {
  std::map<int, YamlValue> found;
  std::vector<std::pair<int, YamlValue>> twice;
  for (const std::string& key : map.keys()) {
    const auto number = number_in(key, words);
    if (!number) return {};
    const YamlValue value = *map.find(key);
    if (!found.emplace(*number, value).second) twice.emplace_back(*number, value);
  }
  for (const auto& [number, value] : twice) {
    value.error(fmt::format("{} is there twice", number), "leave one of them out");
  }
  return found;
}

namespace {

using HeldExpert = std::pair<std::size_t, int>;  // rank, expert

/// Without ranks the slots are shared out evenly; empty if that cannot be.
std::set<HeldExpert> held_in(const GivenSlots& slots, std::size_t ranks) {
  std::set<HeldExpert> held;
  if (slots.slots_of_rank.empty() && slots.experts.size() % ranks != 0) return held;
  std::size_t slot = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t own = slots.slots_of_rank.empty() ? slots.experts.size() / ranks
                            : rank < slots.slots_of_rank.size()
                                ? static_cast<std::size_t>(slots.slots_of_rank[rank])
                                : 0;
    for (const std::size_t end = slot + own; slot < end; ++slot)
      held.emplace(rank, slots.experts[slot]);
  }
  return held;
}

bool layers_agree(const GivenSlots& a, const GivenSlots& b) {
  const std::size_t ranks = std::max(a.slots_of_rank.size(), b.slots_of_rank.size());
  if (ranks == 0) return a.experts == b.experts;
  const auto of_a = held_in(a, ranks), of_b = held_in(b, ranks);
  return std::ranges::includes(of_a, of_b) || std::ranges::includes(of_b, of_a);
}

std::vector<GivenSlots> layers_of(const PlacementFile& file) {
  std::vector<GivenSlots> layers = file.rows;
  for (const auto& [number, layer] : file.numbered) layers.push_back(layer);
  return layers;
}

}  // namespace

bool agree(const PlacementFile& a, const PlacementFile& b) {
  const auto of_a = layers_of(a), of_b = layers_of(b);
  const std::size_t layers = std::max(of_a.size(), of_b.size());
  const auto fits = [&](const auto& of) { return of.size() == layers || of.size() == 1; };
  if (!fits(of_a) || !fits(of_b)) return false;
  for (std::size_t l = 0; l < layers; ++l) {
    if (!layers_agree(of_a[of_a.size() == 1 ? 0 : l], of_b[of_b.size() == 1 ? 0 : l])) return false;
  }
  return true;
}

bool are_layers(const std::vector<YamlValue>& lists) {
  std::vector<std::vector<int>> rows;
  int experts = 0;
  for (const YamlValue& list : lists) {
    rows.push_back(ids_in(list, expert_ids));
    for (const int e : rows.back()) experts = std::max(experts, e + 1);
  }
  return std::ranges::all_of(rows, [&](const auto& row) { return covers(row, experts); });
}

bool is_numbers(const std::string& text) {
  return text.find_first_not_of("0123456789 ,;\t\r\n") == std::string::npos &&
         text.find_first_of("0123456789") != std::string::npos;
}

std::string as_lists(const std::string& text) {
  std::string out = "[";
  bool open = false, number = false;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && !open) out += '[';
    if (digit && !number && open) out += ',';
    if (digit) out += c;
    open = open || digit;
    number = digit;
    if (c != '\n') continue;
    if (open) out += "],";
    out += '\n';
    open = false;
  }
  return out + (open ? "]]" : "]");
}

}  // namespace moesim
