// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/expert_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "sim/plan/check.h"

namespace moesim {
namespace {

const GroupedGemm& gemm_of(const Plan& plan, OpId id, GpuId gpu) {
  const Op& op = plan[id];
  return std::get<GroupedGemm>(op.kernels()->of(op.group.member(gpu)));
}

/// Compares the expert GEMMs of one layer and pass with what the rows bring and take away.
class ExpertCheck {
 public:
  ExpertCheck(const ExpertGemms& experts, OpOrder& order, Mistakes& mistakes)
      : plan_(experts.plan),
        placement_(experts.placement),
        padded_(experts.padded),
        order_(order),
        where_(experts.where),
        mistakes_(mistakes) {}

  void run(const std::vector<OpId>& gemms, const CarriedBySlot& arrived,
           const CarriedBySlot& taken) {
    std::vector<std::map<OpType, std::vector<OpId>>> by_type(static_cast<std::size_t>(plan_.gpus));
    for (const OpId id : gemms) {
      for (const GpuId gpu : plan_[id].group) {
        const auto groups = gemm_of(plan_, id, gpu).m.size();
        auto& parts = by_type[gpu.index()][plan_[id].key.type()];
        if (groups == static_cast<std::size_t>(placement_.slots_on(gpu))) {
          parts.push_back(id);
        } else {
          mistake(fmt::format("{} has {} groups, but GPU {} has {} slots", describe(plan_, id),
                              groups, gpu.value, placement_.slots_on(gpu)));
        }
      }
    }
    std::set<OpType> types;  // of the GEMMs that every GPU with rows must run
    for (const auto& of_gpu : by_type) {
      for (const auto& [type, parts] : of_gpu) types.insert(type);
    }
    for (gpu_ = GpuId(0); gpu_.value < plan_.gpus; ++gpu_.value) {
      const auto& of_gpu = by_type[gpu_.index()];
      for (const auto& [type, parts] : of_gpu) {
        if (parts.empty()) continue;  // its groups are reported
        check_inputs(name_of(type), parts, arrived);
        // Nothing later in the pass needs a weight gradient.
        if (type.role != Role::wgrad) check_results(name_of(type), parts, taken);
      }
      for (const OpType& type : types) {
        if (of_gpu.count(type) == 0) check_absent(name_of(type), arrived);
      }
      if (types.empty()) check_absent("expert GEMM", arrived);
    }
  }

 private:
  void mistake(const std::string& what) { mistakes_.add(where_ + ": " + what); }
  std::size_t slots() const { return static_cast<std::size_t>(placement_.slots_on(gpu_)); }
  SlotId slot(std::size_t group) const {
    return SlotId(placement_.first_slot(gpu_).value + static_cast<std::int64_t>(group));
  }
  std::string slot_text(std::size_t group) const {
    return fmt::format("slot {} (expert {}) of GPU {}", slot(group).value,
                       placement_.expert_in(slot(group)).value, gpu_.value);
  }

  /// Exchanges that carry choices of this GPU's slots and, of those, the ones with `holds`.
  template <class Holds>
  std::set<OpId> exchanges(const CarriedBySlot& carried, Holds holds) const {
    std::set<OpId> all, some;
    for (std::size_t group = 0; group < slots(); ++group) {
      for (const auto& [op, count] : carried[slot(group).index()]) all.insert(op);
    }
    for (const OpId op : all) {
      if (op.value < 0 || holds(op)) some.insert(op);
    }
    return some;
  }

  /// The rows of the parts of one GEMM: all that were chosen, none before it can have arrived.
  void check_inputs(const std::string& name, const std::vector<OpId>& parts,
                    const CarriedBySlot& arrived) {
    std::vector<std::int64_t> computed(slots()), chosen;
    for (std::size_t group = 0; group < slots(); ++group) chosen.push_back(total(arrived, group));
    std::set<OpId> late;
    for (const OpId part : parts) {
      const auto there =
          exchanges(arrived, [&](OpId op) { return order_.precedes(op, part, gpu_); });
      for (std::size_t group = 0; group < slots(); ++group) {
        computed[group] += gemm_of(plan_, part, gpu_).m[group];
        std::int64_t available = 0;
        std::optional<OpId> missing;
        for (const auto& [op, count] : arrived[slot(group).index()]) {
          if (there.count(op) > 0) {
            available += count;
          } else if (!missing) {
            missing = op;
          }
        }
        // Which of the rows of a padded part are padding nobody knows: they are there by the last.
        const std::int64_t needed =
            padded_ && part != parts.back() ? 0 : std::min(computed[group], chosen[group]);
        if (missing && needed > available && late.insert(*missing).second) {
          mistake(fmt::format("{} on GPU {} does not wait for its rows from {}",
                              describe(plan_, part), gpu_.value, describe(plan_, *missing)));
        }
      }
    }
    for (std::size_t group = 0; group < slots(); ++group) {
      if (padded_ ? computed[group] >= chosen[group] : computed[group] == chosen[group]) continue;
      mistake(fmt::format("'{}' computes {} rows in {}, but {} chose it", name, computed[group],
                          slot_text(group), chosen[group]));
    }
  }

  /// Results may leave only when the GEMM has made as many.
  void check_results(const std::string& name, const std::vector<OpId>& parts,
                     const CarriedBySlot& taken) {
    std::set<OpId> early;
    std::map<OpId, std::set<OpId>> done;  // per part the exchanges that follow it
    for (const OpId part : parts) {
      done[part] = exchanges(taken, [&](OpId op) { return order_.precedes(part, op, gpu_); });
    }
    for (std::size_t group = 0; group < slots(); ++group) {
      std::int64_t gone = 0;
      for (const auto& [op, count] : taken[slot(group).index()]) {
        if (op.value < 0) continue;
        gone += count;
        std::int64_t made = 0, later = 0;
        for (const OpId part : parts) {
          (done[part].count(op) > 0 ? made : later) += gemm_of(plan_, part, gpu_).m[group];
        }
        if (gone <= made || later == 0 || !early.insert(op).second) continue;
        mistake(fmt::format("{} does not wait for the results of '{}' on GPU {}",
                            describe(plan_, op), name, gpu_.value));
      }
    }
  }

  void check_absent(const std::string& name, const CarriedBySlot& arrived) {
    std::int64_t rows = 0;
    for (std::size_t group = 0; group < slots(); ++group) rows += total(arrived, group);
    if (rows > 0) {
      mistake(fmt::format("no '{}' runs on GPU {}, which {} choices need", name, gpu_.value, rows));
    }
  }

  std::int64_t total(const CarriedBySlot& carried, std::size_t group) const {
    std::int64_t sum = 0;
    for (const auto& [op, count] : carried[slot(group).index()]) sum += count;
    return sum;
  }

  const Plan& plan_;
  const Placement& placement_;
  bool padded_;
  OpOrder& order_;
  const std::string& where_;
  Mistakes& mistakes_;
  GpuId gpu_;
};

}  // namespace

void check_experts(const ExpertGemms& experts, const CarriedBySlot& arrived,
                   const CarriedBySlot& taken, OpOrder& order, Mistakes& mistakes) {
  ExpertCheck(experts, order, mistakes).run(experts.gemms, arrived, taken);
}

}  // namespace moesim
