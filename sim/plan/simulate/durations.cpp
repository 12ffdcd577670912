// SPDX-License-Identifier: Apache-2.0
// What kernels of a plan take, worked out once for all ops that share them.
#include <algorithm>
#include <functional>
#include <tuple>
#include <unordered_map>

#include "sim/plan/simulate/progress.h"

namespace moesim {
namespace {

/// Kernels, the GPUs that run them, and as what. Few are of the same kernels.
using SharedKernels = std::tuple<const Kernel*, const std::vector<GpuId>*, OpType>;

struct HashOfKernels {
  std::size_t operator()(const SharedKernels& shared) const {
    return std::hash<const Kernel*>()(std::get<0>(shared));
  }
};

}  // namespace

Progress::Durations::Durations(const Plan& plan, const GpuModels& gpus, bool bounds) {
  const auto model_of = [&](GpuId gpu) { return gpus[gpu.index()].get(); };
  const bool alike = std::ranges::all_of(gpus, [&](const auto& gpu) { return gpu == gpus[0]; });
  // Ops that share kernels have the same times, on GPUs that differ if they share the group, too.
  std::unordered_map<SharedKernels, OfOp, HashOfKernels> known;
  ops_.reserve(plan.ops.size());
  for (const Op& op : plan.ops) {
    const Kernels* kernels = op.kernels();
    if (kernels == nullptr) {
      ops_.emplace_back();
      continue;
    }
    const auto& each = kernels->each();
    const auto [same, is_new] =
        known.try_emplace({each.data(), alike ? nullptr : &op.group.list(), op.key.type()});
    if (is_new) {
      const bool agree = each.size() == 1 && std::ranges::all_of(op.group, [&](GpuId gpu) {
                           return model_of(gpu) == model_of(op.group.front());
                         });
      same->second = {std::ssize(times_), agree};
      const std::size_t count = agree ? 1 : op.group.size();
      for (std::size_t m = 0; m < count; ++m) {
        const GpuModel& gpu = *model_of(op.group[m]);
        const Kernel& kernel = kernels->of(m);
        times_.push_back(gpu.time(kernel, op.key.type()));
        by_compute_.push_back(bounds && !std::holds_alternative<HostWork>(kernel) &&
                              gpu.bound(kernel, op.key.type()) == KernelBound::compute);
      }
    }
    ops_.push_back(same->second);
  }
}

}  // namespace moesim
