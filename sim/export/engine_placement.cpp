// SPDX-License-Identifier: Apache-2.0
#include "sim/export/engine_placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/most.h"
#include "sim/plan/exchange_time.h"

namespace moesim {
namespace {

using Layer = EnginePlacement::Layer;
using Json = nlohmann::ordered_json;

/// The expert of every slot, ranks in order.
std::vector<int> flat_slots(const Layer& layer) {
  std::vector<int> out;
  for (const auto& rank : layer.slots) {
    for (const ExpertId expert : rank) out.push_back(expert.value);
  }
  return out;
}

/// Slots of a rank, the same on all ranks and in all layers.
std::size_t slots_per_rank(const EnginePlacement& placement) {
  const std::size_t first = placement.layers.front().slots.front().size();
  for (const Layer& layer : placement.layers) {
    for (std::size_t rank = 0; rank < layer.slots.size(); ++rank) {
      if (layer.slots[rank].size() == first) continue;
      throw Error(
          fmt::format("layer {}: rank {} has {} slots, rank 0 of layer {} has {}", layer.number,
                      rank, layer.slots[rank].size(), placement.layers.front().number, first),
          "engines give every rank the same number of slots");
    }
  }
  return first;
}

std::string trtllm(const EnginePlacement& placement) {
  const std::size_t slots = slots_per_rank(placement) * placement.layers.front().slots.size();
  std::string out = "initial_global_assignments:\n";
  for (const Layer& layer : placement.layers) {
    out += fmt::format("  {}: [{}]\n", layer.number, fmt::join(flat_slots(layer), ", "));
  }
  return out + fmt::format("num_slots: {}\nlayer_updates_per_iter: 0\n", slots);
}

std::string sglang(const EnginePlacement& placement) {
  const std::size_t slots = slots_per_rank(placement) * placement.layers.front().slots.size();
  std::vector<int> in_turn(slots);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    in_turn[slot] = static_cast<int>(slot) % placement.experts;
  }
  std::vector<std::vector<int>> map(static_cast<std::size_t>(placement.model_layers), in_turn);
  for (const Layer& layer : placement.layers) {
    if (layer.number < placement.model_layers) {
      map[static_cast<std::size_t>(layer.number)] = flat_slots(layer);
    }
  }
  return Json{{"physical_to_logical_map", map}}.dump() + "\n";
}

std::string vllm(const EnginePlacement& placement) {
  slots_per_rank(placement);
  std::vector<int> first;
  for (const Layer& layer : placement.layers) {
    std::vector<int> rank_of(static_cast<std::size_t>(placement.experts), -1);
    for (std::size_t rank = 0; rank < layer.slots.size(); ++rank) {
      for (const ExpertId expert : layer.slots[rank]) {
        int& found = rank_of[expert.index()];
        if (found >= 0) {
          throw Error(
              fmt::format("layer {}: expert {} is on ranks {} and {}", layer.number, expert.value,
                          found, rank),
              "a placement file of vLLM has one rank per expert; --format eplb has replicas");
        }
        found = static_cast<int>(rank);
      }
    }
    if (first.empty()) first = rank_of;
    if (rank_of != first) {
      throw Error(fmt::format("layers {} and {} have different placements",
                              placement.layers.front().number, layer.number),
                  "a placement file of vLLM is one for all layers: choose one with --layers");
    }
  }
  return Json{{"expert_to_ep_rank", first}}.dump() + "\n";
}

std::string eplb(const EnginePlacement& placement) {
  slots_per_rank(placement);
  Json layers = Json::array(), phy2log = Json::array(), log2phy = Json::array(),
       logcnt = Json::array();
  std::vector<std::vector<std::vector<int>>> slots_of;
  std::size_t most = 1;
  for (const Layer& layer : placement.layers) {
    auto& of = slots_of.emplace_back(static_cast<std::size_t>(placement.experts));
    const std::vector<int> slots = flat_slots(layer);
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      auto& list = of[static_cast<std::size_t>(slots[slot])];
      list.push_back(static_cast<int>(slot));
      most = std::max(most, list.size());
    }
    layers.push_back(layer.number);
    phy2log.push_back(slots);
  }
  for (auto& of : slots_of) {
    Json counts = Json::array();
    for (auto& list : of) {
      counts.push_back(list.size());
      list.resize(most, -1);
    }
    logcnt.push_back(counts);
    log2phy.push_back(of);
  }
  return Json{{"layers", layers}, {"phy2log", phy2log}, {"log2phy", log2phy}, {"logcnt", logcnt}}
             .dump() +
         "\n";
}

const std::map<std::string, std::string (*)(const EnginePlacement&)>& writers() {
  static const std::map<std::string, std::string (*)(const EnginePlacement&)> table = {
      {"eplb", eplb}, {"sglang", sglang}, {"trtllm", trtllm}, {"vllm", vllm}};
  return table;
}

}  // namespace

std::vector<std::vector<Seconds>> rank_costs(const Topology& topology, Bytes size) {
  const std::array<std::int64_t, 4> bytes = {0, size.value, 0, 0};
  const ByteMatrix one_way = ByteMatrix::from_dense(2, bytes);
  const auto ranks = static_cast<std::size_t>(topology.gpu_count());
  std::vector costs(ranks, std::vector<Seconds>(ranks));
  for (std::size_t low = 0; low < ranks; ++low) {
    for (std::size_t high = low + 1; high < ranks; ++high) {
      const std::array pair = {GpuId(static_cast<int>(low)), GpuId(static_cast<int>(high))};
      for (const bool back : {false, true}) {
        const ExchangeTime time = exchange_time(topology.loads({one_way, pair, back}));
        (back ? costs[high][low] : costs[low][high]) = time.latency + time.transfer;
      }
    }
  }
  return costs;
}

std::string rank_costs_text(const std::vector<std::vector<Seconds>>& costs) {
  nlohmann::ordered_json matrix = nlohmann::ordered_json::array();
  for (const auto& from : costs) {
    auto& row = matrix.emplace_back(nlohmann::ordered_json::array());
    // Picoseconds are enough, and the last bits of sums are noise.
    for (const Seconds cost : from) row.push_back(std::round(cost.value * 1e12) / 1e6);
  }
  return nlohmann::ordered_json{{"rank_cost_matrix", matrix}}.dump() + "\n";
}

std::vector<int> layers_left_out(const EnginePlacement& placement, const std::string& format) {
  std::vector<int> left_out;
  for (const Layer& layer : placement.layers) {
    if (format == "sglang" && layer.number >= placement.model_layers) {
      left_out.push_back(layer.number);
    }
  }
  return left_out;
}

const std::vector<std::string>& engine_formats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& [name, writer] : writers()) out.push_back(name);
    return out;
  }();
  return names;
}

std::string engine_placement_text(const EnginePlacement& placement, const std::string& format) {
  const auto writer = writers().find(format);
  if (writer == writers().end()) {
    throw Error(fmt::format("'{}' is not a format of placements", format),
                did_you_mean(format, engine_formats()));
  }
  return writer->second(placement);
}

}  // namespace moesim
