// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/dispatch/padding.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>

#include "sim/trace/id_counts.h"

namespace moesim {
namespace {

/// Calls visit(rank, slot, choices) for every (source rank, slot) that has choices.
template <class Visit>
void for_each_load(const LayerTokens& tokens, Visit visit) {
  const Placement& placement = tokens.assignment.placement();
  const auto experts = static_cast<std::size_t>(placement.experts());
  std::vector<std::uint32_t> chosen(experts);
  std::vector<std::int64_t> of_slot(static_cast<std::size_t>(placement.slots()));
  for (std::size_t r = 0; r < tokens.batch.ranks.size(); ++r) {
    const GpuId rank(static_cast<std::int64_t>(r));
    std::fill(chosen.begin(), chosen.end(), 0);
    for (const TokenRun& run : tokens.batch.ranks[r]) {
      count_ids(tokens.ids, run.first, run.count, chosen);
    }
    for (std::size_t e = 0; e < experts; ++e) {
      if (chosen[e] == 0) continue;
      const ExpertId expert(static_cast<std::int64_t>(e));
      add_choices(tokens.assignment, rank, expert, chosen[e], of_slot);
      for (const SlotId slot : placement.slots_of(expert)) {
        std::int64_t& load = of_slot[slot.index()];
        if (load > 0) visit(rank, slot, load);
        load = 0;
      }
    }
  }
}

/// Capacity of the rank with the most tokens, in rows.
std::int64_t capacity_rows(const Padding& padding, const LayerTokens& tokens) {
  std::int64_t rows = 0;
  for (const auto& runs : tokens.batch.ranks) {
    rows = std::max(rows,
                    padding.capacity.rows(tokens_of(runs), tokens.assignment.placement().experts(),
                                          tokens.choices_asked()));
  }
  return rows;
}

/// Rows that each (source rank, slot) is padded to. A factor below 0 pads to the largest load.
std::int64_t padded_rows(const Padding& padding, const LayerTokens& tokens) {
  const bool fixed = padding.kind == Padding::Kind::capacity;
  const std::int64_t most = fixed ? capacity_rows(padding, tokens) : 0;
  std::int64_t rows = 0;
  for_each_load(tokens, [&](GpuId rank, SlotId slot, std::int64_t load) {
    rows = std::max(rows, load);
    if (!fixed || load <= most) return;
    throw Error(fmt::format("rank {} has {} choices for expert {}, but the capacity is {} rows",
                            tokens.first_gpu.value + rank.value, load,
                            tokens.assignment.placement().expert_in(slot).value, most),
                "routing: {kind: capacity} and the dispatch need the same rule and factor: change "
                "policy.dispatch.factor as policy.routing.factor; or set policy.dispatch.padding: "
                "max");
  });
  return fixed && padding.capacity.factor > 0 ? most : rows;
}

/// Tokens of a made-up placement of the slots first .. last - 1: each is an expert, and each rank
/// sends it one token.
class OnePerSlot {
 public:
  /// Of the slots of one, as ids of 2 bytes tell them apart.
  static constexpr int most = IdRows::dropped;

  OnePerSlot(const Placement& placement, int first, int last) {
    SlotTable table(static_cast<std::size_t>(placement.gpus()));
    for (int s = first; s < last; ++s) {
      table[placement.gpu_of(SlotId(s)).index()].emplace_back(s - first);
      ids_.push_back(static_cast<std::uint16_t>(s - first));
    }
    batch_.ranks.assign(table.size(), {{0, last - first}});
    assignment_ = std::make_unique<Assignment>(Placement(last - first, table), placement.gpus());
  }
  LayerTokens view() const {
    return {batch_, IdRows(ids_.data(), 2, 1, static_cast<std::int64_t>(ids_.size())),
            *assignment_};
  }

 private:
  std::vector<std::uint16_t> ids_;
  Batch batch_;
  std::unique_ptr<Assignment> assignment_;
};

/// Moves the rows of another evaluation, but counts them its own way.
class CountsInPlaceOf : public RowEvaluation {
 public:
  explicit CountsInPlaceOf(RowEvaluationPtr exact) : exact_(std::move(exact)) {}

  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const final {
    return exact_->rows(tokens);
  }

 protected:
  RowCounts exact_count(const LayerTokens& tokens) const { return exact_->count(tokens); }

 private:
  RowEvaluationPtr exact_;
};

/// What a dispatch counts if every rank has equally many tokens for every slot.
class EqualParts final : public CountsInPlaceOf {
 public:
  EqualParts(RowEvaluationPtr exact, const Padding& padding)
      : CountsInPlaceOf(std::move(exact)), padding_(padding) {}

  RowCounts count(const LayerTokens& tokens) const override {
    const std::int64_t rows = padded_rows(padding_, tokens);
    RowCounts counts = one_per_slot(tokens.assignment.placement());
    for (RowTable& phase : counts.phases) phase *= static_cast<std::uint32_t>(rows);
    for (std::int64_t& slot : counts.slots) slot *= rows;
    return counts;
  }

 private:
  RowCounts one_per_slot(const Placement& placement) const {
    RowCounts all;
    for (int first = 0; first < placement.slots(); first += OnePerSlot::most) {
      const int last = std::min(placement.slots(), first + OnePerSlot::most);
      RowCounts counts = exact_count(OnePerSlot(placement, first, last).view());
      if (first == 0) {
        all = std::move(counts);
        continue;
      }
      for (std::size_t p = 0; p < all.phases.size(); ++p) {
        const auto sums = all.phases[p].cells(), more = counts.phases[p].cells();
        std::ranges::transform(sums, more, sums.begin(), std::plus());
      }
      std::ranges::copy(counts.slots, std::back_inserter(all.slots));
    }
    return all;
  }

  Padding padding_;
};

/// Exact rows, and with them those of equal parts.
class Padded final : public CountsInPlaceOf {
 public:
  Padded(const RowEvaluationPtr& exact, const Padding& padding)
      : CountsInPlaceOf(exact), parts_(exact, padding) {}

  RowCounts count(const LayerTokens& tokens) const override {
    RowCounts counts = exact_count(tokens);
    RowCounts parts = parts_.count(tokens);
    counts.padded_phases = std::move(parts.phases);
    counts.padded_slots = std::move(parts.slots);
    return counts;
  }

 private:
  EqualParts parts_;
};

/// Exact rows, and with them phases of equal parts.
class EqualPhases final : public CountsInPlaceOf {
 public:
  EqualPhases(RowEvaluationPtr exact, DispatchShape shape)
      : CountsInPlaceOf(std::move(exact)), shape_(std::move(shape)) {}

  RowCounts count(const LayerTokens& tokens) const override {
    RowCounts counts = exact_count(tokens);
    counts.padded_phases = counts.phases;
    for (std::size_t p = 0; p < counts.phases.size(); ++p) {
      RowTable& phase = counts.padded_phases[p];
      const std::uint32_t most = phase.most();
      const std::span<std::uint32_t> cells = phase.cells();
      const std::size_t gpus = phase.gpus();
      for (const auto& members : shape_.phases[p].communicators) {
        for (const GpuId from : members) {
          for (const GpuId to : members) cells[from.index() * gpus + to.index()] = most;
        }
      }
    }
    return counts;
  }

 private:
  DispatchShape shape_;
};

}  // namespace

Padding read_padding(const YamlMap& params, Padding::Kind absent) {
  Padding padding;
  padding.kind = static_cast<Padding::Kind>(
      params.choice("padding", {"none", "capacity", "max"}, static_cast<int>(absent)));
  if (padding.kind == Padding::Kind::capacity) {
    padding.capacity = read_capacity(params, NegativeFactor::allowed);
    return padding;
  }
  for (const char* key : {"rule", "factor"}) {
    if (const auto value = params.find(key)) {
      value->error(fmt::format("'{}' has no effect without padding: capacity", value->path()),
                   "set padding: capacity, or leave it out");
    }
  }
  return padding;
}

void pad(Dispatch& dispatch, const Padding& padding) {
  if (padding.kind == Padding::Kind::none) return;
  dispatch.wrap(
      [&](const RowEvaluationPtr& exact) { return std::make_shared<Padded>(exact, padding); });
}

void pad_phases(Dispatch& dispatch, std::vector<DispatchShape> shapes) {
  auto shape = shapes.begin();
  dispatch.wrap([&](RowEvaluationPtr exact) {
    return std::make_shared<EqualPhases>(std::move(exact), std::move(*shape++));
  });
}

void count_equal_parts(Dispatch& dispatch, const Padding& padding) {
  dispatch.wrap([&](RowEvaluationPtr exact) {
    return std::make_shared<EqualParts>(std::move(exact), padding);
  });
}

}  // namespace moesim
