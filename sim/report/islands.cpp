// SPDX-License-Identifier: Apache-2.0
#include "sim/report/islands.h"

#include <numeric>
#include <unordered_set>

namespace moesim {
namespace {

/// Sets of GPUs that are joined, each known by one of its GPUs.
class JoinedGpus {
 public:
  explicit JoinedGpus(int gpus) : before_(static_cast<std::size_t>(gpus)) {
    std::iota(before_.begin(), before_.end(), 0U);
  }

  std::uint32_t of(std::size_t gpu) {
    while (before_[gpu] != gpu) gpu = before_[gpu] = before_[before_[gpu]];
    return static_cast<std::uint32_t>(gpu);
  }
  void join(const Group& group) {
    for (const GpuId gpu : group) before_[of(gpu.index())] = of(group.front().index());
  }

 private:
  std::vector<std::uint32_t> before_;  // [GPU] another of its set, or itself
};

}  // namespace

std::vector<Island> islands(const Plan& plan, const std::function<bool(const Op&)>& counts) {
  JoinedGpus joined(plan.gpus);
  std::vector<bool> counted(plan.ops.size());
  std::unordered_set<const std::vector<GpuId>*> known;  // groups: most ops run on few
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    counted[i] = !op.group.empty() && counts(op);
    if (counted[i] && known.insert(&op.group.list()).second) joined.join(op.group);
  }
  std::vector<Island> result;
  std::vector<std::size_t> place(static_cast<std::size_t>(plan.gpus));  // [GPU that knows a set]
  for (GpuId gpu(0); gpu.value < plan.gpus; ++gpu.value) {
    const std::uint32_t set = joined.of(gpu.index());
    if (place[set] == 0) {
      result.emplace_back();
      place[set] = result.size();
    }
    result[place[set] - 1].gpus.push_back(gpu);
  }
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    if (!counted[i]) continue;
    const std::uint32_t set = joined.of(plan.ops[i].group.front().index());
    result[place[set] - 1].ops.push_back(static_cast<std::uint32_t>(i));
  }
  return result;
}

}  // namespace moesim
