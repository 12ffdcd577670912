// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/rank_kernels.h"

#include <algorithm>
#include <utility>

#include "sim/plan/check.h"

namespace moesim {
namespace {

/// A place in the launch order: which lists have a kernel in it.
struct Slot {
  OpKind kind;
  std::vector<const Kernel*> of_list;  // null: none

  const Kernel& any() const {
    return **std::ranges::find_if(of_list, [](const Kernel* k) { return k != nullptr; });
  }
};

/// Adds a list to slots of others: each kernel goes to the next slot of its kind and shape, else to
/// a new one behind the kernel before it.
void add_list(std::vector<Slot>& slots, std::size_t lists, std::size_t list,
              const std::vector<BlockKernel>& kernels) {
  std::size_t from = 0;
  for (const BlockKernel& k : kernels) {
    const auto slot = std::find_if(
        slots.begin() + static_cast<std::ptrdiff_t>(from), slots.end(), [&](const Slot& s) {
          return s.kind == k.kind && differ_in_sizes_alone(s.any(), k.kernel);
        });
    std::size_t at = static_cast<std::size_t>(slot - slots.begin());
    if (slot == slots.end()) {
      at = from;
      slots.insert(slots.begin() + static_cast<std::ptrdiff_t>(at),
                   {k.kind, std::vector<const Kernel*>(lists)});
    }
    slots[at].of_list[list] = &k.kernel;
    from = at + 1;
  }
}

GroupKernel group_kernel(const Slot& slot, const std::vector<std::size_t>& list_of) {
  std::vector<GpuId> gpus;
  std::vector<Kernel> each;
  for (std::size_t g = 0; g < list_of.size(); ++g) {
    const Kernel* kernel = slot.of_list[list_of[g]];
    if (kernel == nullptr) continue;
    gpus.emplace_back(static_cast<std::int64_t>(g));
    each.push_back(*kernel);
  }
  const bool alike = std::ranges::all_of(each, [&](const Kernel& k) { return k == each.front(); });
  return {slot.kind, Group(std::move(gpus)),
          alike ? Kernels(each.front()) : Kernels(std::move(each))};
}

}  // namespace

std::vector<GroupKernel> joined(const std::vector<std::vector<BlockKernel>>& lists,
                                const std::vector<std::size_t>& list_of) {
  std::vector<Slot> slots;
  for (std::size_t list = 0; list < lists.size(); ++list) {
    add_list(slots, lists.size(), list, lists[list]);
  }
  std::vector<GroupKernel> result;
  for (const Slot& slot : slots) {
    GroupKernel made = group_kernel(slot, list_of);
    if (!made.group.empty()) result.push_back(std::move(made));
  }
  return result;
}

}  // namespace moesim
