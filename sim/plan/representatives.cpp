// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/representatives.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace moesim {
namespace {

using ListOfGpus = const std::vector<GpuId>*;
using KernelsOn = std::pair<const std::vector<Kernel>*, ListOfGpus>;

/// Classes of GPUs that are cut by one difference after the other.
class Classes {
 public:
  explicit Classes(std::size_t gpus) : of_(gpus) {}

  /// Keeps only those together whose marks are equal.
  void cut(const std::vector<std::int64_t>& marks) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> known;
    for (std::size_t g = 0; g < of_.size(); ++g) {
      const auto next = static_cast<std::int64_t>(known.size());
      of_[g] = known.try_emplace({of_[g], marks[g]}, next).first->second;
    }
    count_ = known.size();
  }
  std::size_t count() const { return count_; }

  /// The first of each, if all are of one size.
  Representatives first_of_each() const {
    std::vector<std::size_t> sizes(count_);
    std::vector<GpuId> first;  // classes are numbered by their first GPUs
    for (std::size_t g = 0; g < of_.size(); ++g) {
      if (sizes[static_cast<std::size_t>(of_[g])]++ == 0) {
        first.emplace_back(static_cast<std::int64_t>(g));
      }
    }
    const bool same = std::ranges::all_of(sizes, [&](auto size) { return size == sizes.front(); });
    if (!same) return {};
    Representatives result{first, {}};
    for (const std::int64_t of : of_) result.of.push_back(first[static_cast<std::size_t>(of)]);
    return result;
  }

 private:
  std::vector<std::int64_t> of_;  // [GPU]
  std::size_t count_ = 1;
};

/// [GPU] 0 outside the list, 1 in it; by the kernel that a member runs, if they differ.
std::vector<std::int64_t> marks_of(const KernelsOn& kernels, std::size_t gpus) {
  std::vector<std::int64_t> marks(gpus);
  std::vector<const Kernel*> kinds;
  for (std::size_t m = 0; m < kernels.second->size(); ++m) {
    const Kernel* kernel = kernels.first == nullptr ? nullptr : &(*kernels.first)[m];
    const auto known = std::ranges::find_if(
        kinds, [&](const Kernel* kind) { return kind == kernel || *kind == *kernel; });
    marks[(*kernels.second)[m].index()] = known - kinds.begin() + 1;
    if (known == kinds.end()) kinds.push_back(kernel);
  }
  return marks;
}

/// [GPU] 0 outside the op, else by the exchange of its collectives apart that the GPU is in.
std::vector<std::int64_t> marks_of(const Collectives& apart, const std::vector<GpuId>& group,
                                   std::size_t gpus) {
  std::vector<std::int64_t> marks(gpus);
  for (std::size_t m = 0; m < group.size(); ++m) {
    marks[group[m].index()] = apart.of[m].collective + 1;
  }
  return marks;
}

/// The collectives of an op that keeps these members only.
std::shared_ptr<const Collectives> among(const Collectives& apart,
                                         const std::vector<std::size_t>& members) {
  std::vector<std::vector<GpuId>> each(apart.members.size());
  for (std::size_t m = 0; m < members.size(); ++m) {
    each[static_cast<std::size_t>(apart.of[members[m]].collective)].emplace_back(
        static_cast<std::int64_t>(m));
  }
  return std::make_shared<const Collectives>(std::move(each), true);
}

}  // namespace

Representatives representatives(const Plan& plan, const GpuModels& gpus) {
  std::set<KernelsOn> differences;
  std::set<std::pair<const Collectives*, ListOfGpus>> several;
  for (const Op& op : plan.ops) {
    if (const Collectives* apart = op.apart()) several.insert({apart, &op.group.list()});
    const Kernels* kernels = op.kernels();
    const bool differ = kernels != nullptr && kernels->each().size() > 1;
    differences.insert({differ ? &kernels->each() : nullptr, &op.group.list()});
  }
  const auto count = static_cast<std::size_t>(plan.gpus);
  Classes classes(count);
  std::vector<std::int64_t> models;
  for (const auto& gpu : gpus) {
    models.push_back(std::ranges::find(gpus, gpu) - gpus.begin());
  }
  classes.cut(models);
  for (const auto& [apart, group] : several) {
    classes.cut(marks_of(*apart, *group, count));
    if (classes.count() > count / 2) return {};
  }
  for (const KernelsOn& kernels : differences) {
    classes.cut(marks_of(kernels, count));
    if (classes.count() > count / 2) return {};
  }
  return classes.first_of_each();
}

Plan plan_of(const std::vector<GpuId>& gpus, Plan whole) {
  std::map<ListOfGpus, std::pair<Group, std::vector<std::size_t>>> groups;  // and members kept
  std::map<KernelsOn, Kernels> kernels;
  using Several = std::shared_ptr<const Collectives>;
  std::map<std::pair<const Collectives*, ListOfGpus>, std::pair<Several, Several>> collectives;
  std::vector<Group> kept;  // lists that are looked up by where they are
  for (Op& op : whole.ops) {
    const auto [known, fresh] = groups.try_emplace(&op.group.list());
    auto& [group, members] = known->second;
    if (fresh) {
      std::vector<GpuId> list;
      for (const GpuId gpu : gpus) {
        const std::size_t member = op.group.member(gpu);
        if (member == op.group.size()) continue;
        list.push_back(gpu);
        members.push_back(member);
      }
      group = Group(std::move(list));
      kept.push_back(op.group);
    }
    if (auto* all = std::get_if<Kernels>(&op.work); all != nullptr && all->each().size() > 1) {
      const auto [fewer, is_new] = kernels.try_emplace({&all->each(), &op.group.list()});
      if (is_new) {
        std::vector<Kernel> each;
        for (const std::size_t member : members) each.push_back(all->of(member));
        fewer->second = Kernels(std::move(each));
      }
      *all = fewer->second;
    }
    if (auto* exchange = std::get_if<Exchange>(&op.work)) {
      if (op.apart() != nullptr) {
        auto& fewer = collectives[{exchange->collectives.get(), &op.group.list()}];
        if (!fewer.second) {
          fewer = {exchange->collectives, among(*exchange->collectives, members)};
        }
        exchange->collectives = fewer.second;
      }
      exchange->members = op.group;
    }
    op.group = group;
  }
  return whole;
}

}  // namespace moesim
