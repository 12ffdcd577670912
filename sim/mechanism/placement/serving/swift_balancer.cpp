// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/swift_balancer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"
#include "sim/base/ordering.h"
#include "sim/mechanism/placement/serving/craft.h"
#include "sim/mechanism/placement/serving/vllm.h"

namespace moesim::swift_balancer {
namespace {

constexpr double even_enough = 1.01;  // imbalance below which a layer stays
constexpr double least_gain = 0.01;   // of an exchange, in mean GPU loads
constexpr int most_exchanges = 100;   // of a layer
constexpr double worth = 0.95;        // largest loads after over before

/// An exchange of two experts, and the larger of the two GPU loads after it.
struct Exchange {
  ExpertId given, taken;
  double larger;
};

class SwiftLayer {
 public:
  SwiftLayer(std::span<const double> loads, const SlotTable& before)
      : loads_(loads),
        weights_(loads.begin(), loads.end()),
        held_(before.size()),
        received_(before.size()),
        room_(before.size()),
        homes_(loads.size()),
        sends_(before.size(), std::vector<bool>(before.size())),
        gpu_loads_(before.size()) {
    for (std::size_t slot = 0; slot < before.front().size(); ++slot) {
      for (std::size_t g = 0; g < before.size(); ++g) keep_first(before[g].at(slot), g);
    }
  }

  void replicate() {
    const std::vector<ExpertId> copies = wanted_copies();
    sum_loads();
    for (const ExpertId expert : copies) place(expert);
    if (std::ranges::any_of(room_, [](int room) { return room > 0; })) fill();
  }

  /// The largest load after the exchanges.
  double exchange() {
    const double gain =
        least_gain * std::reduce(loads_.begin(), loads_.end()) / static_cast<double>(held_.size());
    double largest = 0;
    bool exchanged = true;
    for (int i = 0; i < most_exchanges; ++i) {
      std::vector<std::size_t> order(held_.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, {}, [&](std::size_t g) { return gpu_loads_[g]; });
      const std::size_t busiest = order.back();
      largest = gpu_loads_[busiest];
      if (!exchanged) break;
      order.pop_back();
      exchanged = std::ranges::any_of(
          order, [&](std::size_t other) { return exchange(busiest, other, gain); });
    }
    return largest;
  }

  SlotTable table() const {
    SlotTable table;
    for (const auto& experts : held_) table.emplace_back(experts.begin(), experts.end());
    return table;
  }

 private:
  void keep_first(ExpertId expert, std::size_t gpu) {
    auto& home = homes_[expert.index()];
    if (home) {
      ++room_[gpu];
      return;
    }
    home = gpu;
    held_[gpu].insert(expert);
  }

  /// Heaviest first. As upstream, n copies are expected to weigh 2 / (n + 1) of the load each.
  std::vector<ExpertId> wanted_copies() {
    std::vector<int> further(loads_.size());
    for (int left = std::reduce(room_.begin(), room_.end()); left > 0; --left) {
      std::optional<std::size_t> heaviest;
      for (std::size_t e = 0; e < weights_.size(); ++e) {
        const bool may = further[e] + 1 < static_cast<int>(held_.size());
        if (may && (!heaviest || weights_[e] >= weights_[*heaviest])) heaviest = e;
      }
      if (!heaviest) break;
      const int copies = ++further[*heaviest] + 1;
      weights_[*heaviest] *= copies / (copies + 1.0);
    }
    std::vector<ExpertId> copies;
    for (const ExpertId e : descending<ExpertId>(weights_)) {
      copies.insert(copies.end(), static_cast<std::size_t>(further[e.index()]), e);
    }
    return copies;
  }

  void sum_loads() {
    for (std::size_t g = 0; g < held_.size(); ++g) {
      gpu_loads_[g] = 0;
      for (const ExpertId e : held_[g]) gpu_loads_[g] += weights_[e.index()];
    }
  }

  /// On the least loaded GPU with room that has none yet and got nothing from the expert's home.
  void place(ExpertId expert) {
    const std::size_t home = *homes_[expert.index()];
    std::optional<std::size_t> best;
    for (std::size_t g = 0; g < held_.size(); ++g) {
      if (room_[g] == 0 || held_[g].contains(expert) || sends_[home][g]) continue;
      if (!best || gpu_loads_[g] < gpu_loads_[*best]) best = g;
    }
    if (!best) return;
    --room_[*best];
    gpu_loads_[*best] += weights_[expert.index()];
    hold(expert, *best);
  }

  void hold(ExpertId expert, std::size_t gpu) {
    held_[gpu].insert(expert);
    received_[gpu].insert(expert);
    sends_[*homes_[expert.index()]][gpu] = true;
  }

  /// What room is left takes the heaviest experts that its GPU lacks, by their real copies.
  void fill() {
    std::vector<int> copies(loads_.size());
    for (const auto& experts : held_) {
      for (const ExpertId e : experts) ++copies[e.index()];
    }
    for (std::size_t e = 0; e < loads_.size(); ++e) weights_[e] = loads_[e] / copies[e];
    for (std::size_t g = 0; g < held_.size(); ++g) {
      for (; room_[g] > 0; --room_[g]) {
        std::optional<std::size_t> heaviest;
        for (std::size_t e = 0; e < weights_.size(); ++e) {
          if (held_[g].contains(ExpertId(static_cast<std::int64_t>(e)))) continue;
          if (!heaviest || weights_[e] >= weights_[*heaviest]) heaviest = e;
        }
        hold(ExpertId(static_cast<std::int64_t>(*heaviest)), g);
        const int now = ++copies[*heaviest];
        weights_[*heaviest] *= static_cast<double>(now - 1) / now;
      }
    }
    sum_loads();
  }

  bool exchange(std::size_t busiest, std::size_t other, double gain) {
    if (sends_[busiest][other] || sends_[other][busiest]) return false;
    const auto best = best_exchange(busiest, other);
    if (!best || gpu_loads_[busiest] - best->larger < gain) return false;
    const double moved = weights_[best->given.index()] - weights_[best->taken.index()];
    gpu_loads_[busiest] -= moved;
    gpu_loads_[other] += moved;
    held_[busiest].erase(best->given);
    held_[other].erase(best->taken);
    held_[busiest].insert(best->taken);
    held_[other].insert(best->given);
    received_[busiest].insert(best->taken);
    received_[other].insert(best->given);
    sends_[busiest][other] = sends_[other][busiest] = true;
    return true;
  }

  std::optional<Exchange> best_exchange(std::size_t busiest, std::size_t other) const {
    std::optional<Exchange> best;
    for (const ExpertId given : held_[busiest]) {
      if (held_[other].contains(given) || received_[busiest].contains(given)) continue;
      for (const ExpertId taken : held_[other]) {
        if (held_[busiest].contains(taken) || received_[other].contains(taken)) continue;
        const double moved = weights_[given.index()] - weights_[taken.index()];
        const double larger = std::max(gpu_loads_[busiest] - moved, gpu_loads_[other] + moved);
        if (larger < (best ? best->larger : gpu_loads_[busiest])) best = {given, taken, larger};
      }
    }
    return best;
  }

  std::span<const double> loads_;
  std::vector<double> weights_;                      // [expert] of one copy, as expected
  std::vector<std::set<ExpertId>> held_, received_;  // [GPU]
  std::vector<int> room_;                            // [GPU] slots to be filled
  std::vector<std::optional<std::size_t>> homes_;    // [expert] the GPU of its first slot
  std::vector<std::vector<bool>> sends_;             // [from][to] one expert already
  std::vector<double> gpu_loads_;
};

void check(std::span<const double> loads, const SlotTable& table) {
  std::vector<bool> held(loads.size());
  for (const auto& gpu : table) {
    if (gpu.size() != table.front().size()) {
      throw Error("SwiftBalancer needs equally many slots on every GPU");
    }
    if (std::set(gpu.begin(), gpu.end()).size() != gpu.size()) {
      throw Error(fmt::format("SwiftBalancer cannot fill {} slots of a GPU with different experts",
                              gpu.size()),
                  "at most as many slots per GPU as experts");
    }
    for (const ExpertId e : gpu) held[e.index()] = true;
  }
  const auto missing = std::ranges::find(held, false);
  if (missing != held.end()) {
    throw Error(fmt::format("no GPU holds expert {}", missing - held.begin()));
  }
}

}  // namespace

Rebalanced rebalance(std::span<const double> loads, const SlotTable& before) {
  check(loads, before);
  const double mean = std::reduce(loads.begin(), loads.end()) / static_cast<double>(before.size());
  const double imbalance = 1 / craft::balancedness(loads, before);
  Rebalanced result{before, imbalance * mean, imbalance * mean};
  if (imbalance < even_enough) return result;
  SwiftLayer layer(loads, before);
  layer.replicate();
  result.largest = layer.exchange();
  if (result.largest < result.before) result.slots = vllm::keep_slots(before, layer.table());
  return result;
}

bool worth_moving(std::span<const Rebalanced> layers) {
  double before = 0, after = 0;
  for (const Rebalanced& layer : layers) {
    before += layer.before;
    after += layer.largest;
  }
  return after < worth * before;
}

}  // namespace moesim::swift_balancer
