// SPDX-License-Identifier: Apache-2.0
// The delivery check: rows out, expert GEMMs, rows back, layer by layer and pass by pass.
#include "sim/plan/delivery.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "sim/plan/check.h"
#include "sim/plan/journey.h"
#include "sim/plan/mistakes.h"
#include "sim/plan/op_order.h"

namespace moesim {
namespace {

/// The ops of one layer and pass that move or compute its tokens, in list order.
struct TokenOps {
  std::vector<OpId> dispatch, experts, combine;
  bool padded = false;  // experts may compute padding too
};

using LayerPass = std::pair<int, Pass>;

std::map<LayerPass, TokenOps> group_ops(const Plan& plan) {
  std::map<LayerPass, TokenOps> groups;
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const Op& op = plan[id];
    const LayerPass key{op.layer, op.pass};
    if (op.exchange() && carries_tokens(op.lane)) {
      groups[key].padded |= op.exchange()->padded;
      if (op.stage == Stage::dispatch) groups[key].dispatch.push_back(id);
      if (op.stage == Stage::combine) groups[key].combine.push_back(id);
    } else if (op.stage == Stage::experts && op.compute() &&
               std::holds_alternative<GroupedGemm>(op.compute()->kernel)) {
      groups[key].experts.push_back(id);
    }
  }
  return groups;
}

const GroupedGemm& gemm_of(const Plan& plan, OpId id) {
  return std::get<GroupedGemm>(plan[id].compute()->kernel);
}

/// Nothing later in the pass needs a weight gradient.
bool is_weight_gradient(const std::string& name) { return name.ends_with("-wgrad"); }

/// Compares the expert GEMMs of one layer and pass with what the rows bring and take away.
class ExpertCheck {
 public:
  ExpertCheck(const Plan& plan, const Placement& placement, bool padded, OpOrder& order,
              const std::string& where, Mistakes& mistakes)
      : plan_(plan),
        placement_(placement),
        padded_(padded),
        order_(order),
        where_(where),
        mistakes_(mistakes) {}

  void run(const std::vector<OpId>& gemms, const CarriedBySlot& arrived,
           const CarriedBySlot& taken) {
    std::vector<std::map<std::string, std::vector<OpId>>> by_name(
        static_cast<std::size_t>(plan_.gpus));
    for (const OpId id : gemms) {
      const GpuId gpu = plan_[id].compute()->gpu;
      const auto groups = gemm_of(plan_, id).m.size();
      auto& parts = by_name[gpu.index()][plan_[id].name];
      if (groups == static_cast<std::size_t>(placement_.slots_on(gpu))) {
        parts.push_back(id);
      } else {
        mistake(fmt::format("{} has {} groups, but GPU {} has {} slots", describe(plan_, id),
                            groups, gpu.value, placement_.slots_on(gpu)));
      }
    }
    std::set<std::string> names;  // of the GEMMs that every GPU with rows must run
    for (const auto& of_gpu : by_name) {
      for (const auto& [name, parts] : of_gpu) names.insert(name);
    }
    if (names.empty()) names.insert("expert GEMM");
    for (gpu_ = GpuId(0); gpu_.value < plan_.gpus; ++gpu_.value) {
      for (const auto& [name, parts] : by_name[gpu_.index()]) {
        if (parts.empty()) continue;  // its groups are reported
        check_inputs(name, parts, arrived);
        if (!is_weight_gradient(name)) check_results(name, parts, taken);
      }
      for (const std::string& name : names) {
        if (by_name[gpu_.index()].count(name) == 0) check_absent(name, arrived);
      }
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
      const auto there = exchanges(arrived, [&](OpId op) { return order_.precedes(op, part); });
      for (std::size_t group = 0; group < slots(); ++group) {
        computed[group] += gemm_of(plan_, part).m[group];
        std::int64_t available = 0;
        std::optional<OpId> missing;
        for (const auto& [op, count] : arrived[slot(group).index()]) {
          if (there.count(op) > 0) {
            available += count;
          } else if (!missing) {
            missing = op;
          }
        }
        if (missing && std::min(computed[group], chosen[group]) > available &&
            late.insert(*missing).second) {
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
      done[part] = exchanges(taken, [&](OpId op) { return order_.precedes(part, op); });
    }
    for (std::size_t group = 0; group < slots(); ++group) {
      std::int64_t gone = 0;
      for (const auto& [op, count] : taken[slot(group).index()]) {
        if (op.value < 0) continue;
        gone += count;
        std::int64_t made = 0, later = 0;
        for (const OpId part : parts) {
          (done[part].count(op) > 0 ? made : later) += gemm_of(plan_, part).m[group];
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

/// Rejects routing that names tokens, experts or GPUs that do not exist.
bool check_routing(const Plan& plan, const LayerRouting& routing, Mistakes& mistakes) {
  const auto bad = [&](const std::string& what) {
    mistakes.add(fmt::format("routing of layer {}: {}", routing.layer, what));
    return false;
  };
  if (routing.assignment == nullptr) return bad("it has no assignment");
  const Placement& placement = routing.assignment->placement();
  if (placement.gpus() != plan.gpus) {
    return bad(fmt::format("a placement on {} GPUs for a plan of {}", placement.gpus(), plan.gpus));
  }
  if (routing.source.size() != routing.chosen.size()) {
    return bad(
        fmt::format("{} sources for {} tokens", routing.source.size(), routing.chosen.size()));
  }
  for (std::size_t token = 0; token < routing.chosen.size(); ++token) {
    const GpuId source = routing.source[token];
    if (source.value < 0 || source.value >= plan.gpus) {
      return bad(fmt::format("token {} starts on GPU {} of {}", token, source.value, plan.gpus));
    }
    if (routing.chosen[token].size() > max_top_k) {
      return bad(fmt::format("token {} makes {} choices, the most is {}", token,
                             routing.chosen[token].size(), max_top_k));
    }
    for (const ExpertId expert : routing.chosen[token]) {
      if (expert.value >= placement.experts()) {
        return bad(fmt::format("token {} chose expert {} of {}", token, expert.value,
                               placement.experts()));
      }
    }
  }
  return true;
}

void check_pass(const Plan& plan, const LayerRouting& routing, Pass pass, const TokenOps& ops,
                OpOrder& order, Mistakes& mistakes) {
  const std::string where = fmt::format("layer {} {}", routing.layer, name_of(pass));
  const auto follow = [&](Journey::Direction direction, const std::vector<OpId>& exchanges) {
    Journey journey(plan, routing, direction, where, mistakes);
    for (const OpId id : exchanges) {
      check_rows_fill_traffic(plan, id, mistakes);
      journey.follow(id);
    }
    journey.finish();
    return journey.carried_by_slot();
  };
  const CarriedBySlot arrived = follow(Journey::Direction::out, ops.dispatch);
  const CarriedBySlot taken = follow(Journey::Direction::back, ops.combine);
  ExpertCheck(plan, routing.assignment->placement(), ops.padded, order, where, mistakes)
      .run(ops.experts, arrived, taken);
}

}  // namespace

void check_delivery(const Plan& plan, const std::vector<LayerRouting>& routing) {
  check_plan(plan);
  Mistakes mistakes;
  OpOrder order(plan);
  std::map<LayerPass, TokenOps> groups = group_ops(plan);
  std::set<int> layers;
  for (const LayerRouting& layer : routing) {
    if (!layers.insert(layer.layer).second) {
      mistakes.add(fmt::format("the routing of layer {} is given twice", layer.layer));
      continue;
    }
    if (!check_routing(plan, layer, mistakes)) continue;
    if (!groups.count({layer.layer, Pass::forward}) &&
        !groups.count({layer.layer, Pass::backward})) {
      mistakes.add(fmt::format("the plan moves no tokens of layer {}", layer.layer));
    }
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const auto ops = groups.find({layer.layer, pass});
      if (ops != groups.end()) check_pass(plan, layer, pass, ops->second, order, mistakes);
    }
  }
  for (const auto& [key, ops] : groups) {
    if (layers.insert(key.first).second) {
      mistakes.add(
          fmt::format("the plan moves tokens of layer {}, whose routing is not given", key.first));
    }
  }
  mistakes.throw_if_any();
}

}  // namespace moesim
