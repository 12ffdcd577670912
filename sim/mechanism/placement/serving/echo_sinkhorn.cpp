// SPDX-License-Identifier: Apache-2.0
// LoongForge's planner of ECHO: optimal transport between GPUs, then clones one after the other.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/mechanism/placement/serving/echo.h"

namespace moesim::echo {
namespace {

constexpr int iterations = 50;
constexpr double smallest = 1e-8;       // divisor
constexpr double weight_of_hint = 0.1;  // of what was spread over a pair

using Row = std::vector<double>;

double sum_of(const Row& row) { return std::accumulate(row.begin(), row.end(), 0.0); }

double mean_load(std::span<const std::int64_t> counts, std::size_t gpus) {
  const auto all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return static_cast<double>(all) / static_cast<double>(gpus);
}

/// [from][to] token-slots, at most the room of each GPU.
std::vector<Row> transport(const Uneven& of, std::span<const int> hosts, double host_cost) {
  const std::size_t gpus = hosts.size();
  const double near = std::exp(-1 / host_cost), far = std::exp(-1.0);
  const auto kernel = [&](std::size_t a, std::size_t b) {
    return hosts[a] == hosts[b] ? near : far;
  };
  const double all = std::max(sum_of(of.surplus), 1.0);
  const double part = std::min(sum_of(of.room) / all, 1.0);
  Row from(gpus, 1), to(gpus, 1);
  const auto scale = [&](Row& scaled, const Row& wanted, double times, const Row& other) {
    for (std::size_t a = 0; a < gpus; ++a) {
      double sum = 0;
      for (std::size_t b = 0; b < gpus; ++b) sum += kernel(a, b) * other[b];
      scaled[a] = wanted[a] * times / std::max(sum, smallest);
    }
  };
  for (int i = 0; i < iterations; ++i) {
    scale(from, of.surplus, part, to);
    scale(to, of.room, 1, from);
  }
  std::vector<Row> spread(gpus, Row(gpus));
  for (std::size_t b = 0; b < gpus; ++b) {
    double sum = 0;
    for (std::size_t a = 0; a < gpus; ++a) sum += spread[a][b] = from[a] * kernel(a, b) * to[b];
    const double fits = std::min(of.room[b] / std::max(sum, smallest), 1.0);
    for (std::size_t a = 0; a < gpus; ++a) spread[a][b] *= fits;
  }
  return spread;
}

class Cloning {
 public:
  Cloning(std::span<const std::int64_t> counts, std::span<const int> hosts, double host_cost)
      : hosts_(hosts),
        per_gpu_(counts.size() / hosts.size()),
        mean_(mean_load(counts, hosts.size())),
        of_(uneven(counts, static_cast<int>(hosts.size()), mean_)),
        spread_(transport(of_, hosts, host_cost)),
        left_(of_.of_experts),
        room_(of_.room),
        clones_(counts.size(), Row(hosts.size())),
        bonus_(mean_ / static_cast<double>(per_gpu_)),
        far_(1 / host_cost) {}

  /// One clone for every GPU that has room, as far as there are experts.
  void fill_slot() {
    std::vector<Row> now(clones_.size(), Row(hosts_.size()));
    std::vector<bool> full(hosts_.size());
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      const auto taken = proposals(full);
      if (taken.empty()) break;
      for (const auto& [expert, gpu] : taken) {
        const double given = std::min(left_[expert], room_[gpu]);
        now[expert][gpu] = given;
        full[gpu] = true;
        left_[expert] -= given;
        room_[gpu] -= given;
      }
    }
    for (std::size_t e = 0; e < now.size(); ++e) {
      for (std::size_t g = 0; g < hosts_.size(); ++g) clones_[e][g] += now[e][g];
    }
  }

  std::vector<std::vector<std::int64_t>> clones() const {
    std::vector<std::vector<std::int64_t>> whole;
    for (const Row& row : clones_) whole.emplace_back(row.begin(), row.end());
    return whole;
  }

 private:
  std::size_t home(std::size_t expert) const { return expert / per_gpu_; }

  bool may_take(std::size_t expert, std::size_t gpu) const {
    return home(expert) != gpu && left_[expert] > 0 && clones_[expert][gpu] == 0;
  }

  double score(std::size_t expert, std::size_t gpu) const {
    const std::size_t from = home(expert);
    const double hint = spread_[from][gpu] / std::max(of_.surplus[from], 1.0);
    return std::min(left_[expert], room_[gpu]) +
           bonus_ * ((hosts_[from] == hosts_[gpu] ? 1 : far_) + weight_of_hint * hint);
  }

  /// The expert that a GPU names.
  std::optional<std::size_t> named_by(std::size_t gpu) const {
    std::optional<std::size_t> best;
    for (std::size_t e = 0; e < left_.size(); ++e) {
      if (may_take(e, gpu) && (!best || score(e, gpu) > score(*best, gpu))) best = e;
    }
    return best;
  }

  /// (expert, gpu), each at most once.
  std::vector<std::pair<std::size_t, std::size_t>> proposals(const std::vector<bool>& full) const {
    std::vector<std::pair<std::size_t, std::size_t>> best;
    for (std::size_t gpu = 0; gpu < hosts_.size(); ++gpu) {
      if (full[gpu] || !(room_[gpu] > 0)) continue;
      const auto expert = named_by(gpu);
      if (!expert) continue;
      const auto rival =
          std::ranges::find(best, *expert, &std::pair<std::size_t, std::size_t>::first);
      if (rival == best.end()) {
        best.emplace_back(*expert, gpu);
      } else if (score(*expert, gpu) > score(*expert, rival->second)) {
        rival->second = gpu;
      }
    }
    return best;
  }

  std::span<const int> hosts_;
  std::size_t per_gpu_;
  double mean_;
  Uneven of_;
  std::vector<Row> spread_;  // [from][to]
  Row left_, room_;          // [expert], [gpu]
  std::vector<Row> clones_;  // [expert][gpu]
  double bonus_, far_;
};

}  // namespace

llep::Plan plan_by_hosts(std::span<const std::int64_t> counts, std::span<const int> hosts,
                         int slots, double host_cost) {
  const int gpus = static_cast<int>(hosts.size());
  llep::applies(counts, gpus, 0);  // throws for counts that cannot be spread
  Cloning cloning(counts, hosts, host_cost);
  for (int slot = 0; slot < slots; ++slot) cloning.fill_slot();
  return plan_of_clones(counts, gpus, cloning.clones());
}

}  // namespace moesim::echo
