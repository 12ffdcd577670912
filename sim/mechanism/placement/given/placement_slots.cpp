// SPDX-License-Identifier: Apache-2.0
// A placement file, checked against a model and the ranks of an EP group.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "sim/base/error.h"
#include "sim/mechanism/placement/given/placement_file.h"

namespace moesim {
namespace {

std::string numbers_text(const std::map<int, GivenSlots>& layers) {
  constexpr std::size_t most = 12;
  std::vector<int> numbers;
  for (const auto& [number, slots] : layers) numbers.push_back(number);
  if (numbers.size() <= most) return fmt::format("{}", fmt::join(numbers, ", "));
  return fmt::format("{} from {} to {}", numbers.size(), numbers.front(), numbers.back());
}

bool is_mtp_layer(const MoeModel& model, int layer) {
  return layer >= model.layers && layer < model.layers + model.mtp;
}

std::string layers_text(const MoeModel& model) {
  return fmt::format("'{}' has {}, {} of them with experts{}", model.name, model.layers,
                     model.moe_layers.size(),
                     model.mtp > 0 ? fmt::format(", and {} of MTP", model.mtp) : "");
}

/// Which row is that of a layer: `place` among the layers that are wanted. None of an MTP layer if
/// rows are those of the other layers.
std::optional<std::size_t> row_of(const PlacementFile& file, const MoeModel& model, int layer,
                                  std::size_t place, std::size_t wanted) {
  const std::size_t rows = file.rows.size(), mtp = static_cast<std::size_t>(model.mtp);
  const auto all = static_cast<std::size_t>(model.layers), moe = model.moe_layers.size();
  const bool of_mtp = is_mtp_layer(model, layer);
  const auto behind = static_cast<std::size_t>(std::max(layer - model.layers, 0));
  const auto its = std::ranges::find(model.moe_layers, layer);
  if (rows == 1) return 0;
  if (rows == all || rows == all + mtp) {
    if (of_mtp && rows == all) return std::nullopt;
    if (static_cast<std::size_t>(layer) < rows) return static_cast<std::size_t>(layer);
  }
  if (rows == moe || rows == moe + mtp) {
    if (of_mtp) return rows == moe ? std::nullopt : std::optional(moe + behind);
    if (its != model.moe_layers.end()) {
      return static_cast<std::size_t>(its - model.moe_layers.begin());
    }
  }
  if (rows == wanted) return place;
  throw error_in(file.path, fmt::format("{} layers, where {}", rows, layers_text(model)),
                 fmt::format("one row for all, for every layer or for every MoE layer{}; or "
                             "number the layers",
                             mtp > 0 ? ", with or without those of MTP" : ""),
                 rows > 0 ? file.rows.front().line : 0);
}

/// None of an MTP layer that the file leaves out.
const GivenSlots* layer_in(const PlacementFile& file, const MoeModel& model,
                           const std::vector<int>& layers, std::size_t place) {
  const int layer = layers[place];
  if (file.numbered.empty()) {
    const auto row = row_of(file, model, layer, place, layers.size());
    return row ? &file.rows[*row] : nullptr;
  }
  const auto found = file.numbered.find(layer);
  if (found != file.numbered.end()) return &found->second;
  if (is_mtp_layer(model, layer)) return nullptr;
  throw error_in(
      file.path, fmt::format("no placement of layer {}", layer),
      fmt::format("it has layers {}; --layers chooses others", numbers_text(file.numbered)));
}

void check_experts(const PlacementFile& file, const MoeModel& model, const GivenSlots& slots) {
  std::vector<bool> has_slot(static_cast<std::size_t>(model.experts));
  for (std::size_t slot = 0; slot < slots.experts.size(); ++slot) {
    const int expert = slots.experts[slot];
    if (expert < model.experts) {
      has_slot[static_cast<std::size_t>(expert)] = true;
      continue;
    }
    throw error_in(file.path,
                   fmt::format("slot {} holds expert {}, but '{}' has experts 0 to {}", slot,
                               expert, model.name, model.experts - 1),
                   "is it of another model?", slots.line);
  }
  const auto missing = std::ranges::find(has_slot, false);
  if (missing == has_slot.end()) return;
  throw error_in(file.path, fmt::format("expert {} has no slot", missing - has_slot.begin()),
                 fmt::format("'{}' has {} experts, and {} slots are given", model.name,
                             model.experts, slots.experts.size()),
                 slots.line);
}

/// Slots of each rank.
std::vector<int> shares_of(const PlacementFile& file, const GivenSlots& slots, int ranks) {
  const auto wanted = static_cast<std::size_t>(ranks);
  if (slots.slots_of_rank.size() == wanted) return slots.slots_of_rank;
  if (!slots.slots_of_rank.empty()) {
    throw error_in(
        file.path,
        fmt::format("{} ranks, where an EP group has {}", slots.slots_of_rank.size(), ranks),
        file.as_layers.empty()
            ? fmt::format("--ep {}", slots.slots_of_rank.size())
            : fmt::format("--ep {} if lists are ranks; of a layer each has to hold all experts",
                          slots.slots_of_rank.size()),
        slots.line);
  }
  if (slots.experts.size() % wanted == 0) {
    return std::vector<int>(wanted, static_cast<int>(slots.experts.size() / wanted));
  }
  throw error_in(
      file.path,
      fmt::format("{} slots, which {} ranks cannot share evenly", slots.experts.size(), ranks),
      "another --ep, or lists by rank", slots.line);
}

/// The same of sound slots. Mistakes in one of several rows name its layer.
std::vector<int> checked_shares(const PlacementFile& file, const MoeModel& model,
                                const GivenSlots& slots, int ranks, int layer) {
  try {
    check_experts(file, model, slots);
    return shares_of(file, slots, ranks);
  } catch (const Error& e) {
    std::vector<Diagnostic> all = e.diagnostics();
    if (file.rows.size() != 1) {
      for (Diagnostic& d : all) d.message = fmt::format("layer {}: {}", layer, d.message);
    }
    throw Error(std::move(all));
  }
}

/// Lists that were taken as ranks are layers with mistakes if they are as long, and as many as the
/// layers, not as the ranks.
PlacementFile with_layers(const PlacementFile& file, const MoeModel& model, std::size_t wanted,
                          int ranks) {
  const std::size_t lists = file.as_layers.size();
  const auto mtp = static_cast<std::size_t>(model.mtp);
  const auto are = [&](std::size_t layers) { return lists == layers || lists == layers + mtp; };
  const bool as_many = are(static_cast<std::size_t>(model.layers)) ||
                       are(model.moe_layers.size()) || lists == wanted;
  const bool as_long = std::ranges::all_of(file.as_layers, [&](const GivenSlots& list) {
    return 2 * std::ssize(list.experts) > model.experts;
  });
  PlacementFile as_given = file;
  if (lists > 0 && lists != static_cast<std::size_t>(ranks) && as_many && as_long) {
    as_given.rows = file.as_layers;
  }
  return as_given;
}

SlotTable contiguous_of(const PlacementFile& file, const MoeModel& model, int layer, int ranks) {
  if (ranks <= model.experts) return contiguous_homes(model.experts, ranks, ranks);
  throw error_in(file.path, fmt::format("no placement of MTP layer {}", layer),
                 fmt::format("{} ranks cannot share {} experts without copies: give it one", ranks,
                             model.experts));
}

}  // namespace

GivenLayers slots_in(const PlacementFile& given, const MoeModel& model,
                     const std::vector<int>& layers, int ranks) {
  const PlacementFile file = with_layers(given, model, layers.size(), ranks);
  GivenLayers found;
  for (std::size_t place = 0; place < layers.size(); ++place) {
    const GivenSlots* slots = layer_in(file, model, layers, place);
    if (slots == nullptr) {
      found.tables.push_back(contiguous_of(file, model, layers[place], ranks));
      found.left_out.push_back(layers[place]);
      continue;
    }
    const std::vector<int> shares = checked_shares(file, model, *slots, ranks, layers[place]);
    SlotTable& table = found.tables.emplace_back();
    auto next = slots->experts.begin();
    for (const int share : shares) {
      auto& rank = table.emplace_back();
      for (int s = 0; s < share; ++s) rank.emplace_back(*next++);
    }
  }
  return found;
}

}  // namespace moesim
