// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/dispatch/padding.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/trace/id_counts.h"

namespace moesim {
namespace {

/// Calls visit(rank, slot, choices) for every (source rank, slot) with choices, as far as each
/// expert tells: a slot holds one expert.
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

std::int64_t tokens_of(const std::vector<TokenRun>& runs) {
  std::int64_t tokens = 0;
  for (const TokenRun& run : runs) tokens += run.count;
  return tokens;
}

/// Rows that the capacity allows, by the fullest rank of every run.
std::vector<std::int64_t> allowed(const Padding& padding, const LayerTokens& tokens,
                                  std::size_t ep) {
  std::vector<std::int64_t> rows(tokens.batch.ranks.size() / ep);
  for (std::size_t r = 0; r < tokens.batch.ranks.size(); ++r) {
    rows[r / ep] =
        std::max(rows[r / ep], padding.capacity.rows(tokens_of(tokens.batch.ranks[r]),
                                                     tokens.assignment.placement().experts(),
                                                     tokens.ids.top_k()));
  }
  return rows;
}

/// One token per (rank, slot of its run), and every slot an expert of its own there.
class OnePerSlot {
 public:
  OnePerSlot(const Placement& placement, std::size_t ep) {
    const auto gpus = static_cast<std::size_t>(placement.gpus());
    SlotTable table(gpus);
    std::vector<std::int64_t> slots(gpus / ep);
    for (std::size_t g = 0; g < gpus; ++g) {
      for (int i = 0; i < placement.slots_on(GpuId(static_cast<std::int64_t>(g))); ++i) {
        table[g].emplace_back(slots[g / ep]++);
      }
    }
    const std::int64_t most = *std::max_element(slots.begin(), slots.end());
    for (std::int64_t slot = 0; slot < most; ++slot) {
      ids_.push_back(static_cast<std::uint16_t>(slot));
    }
    for (std::size_t r = 0; r < gpus; ++r) batch_.ranks.push_back({{0, slots[r / ep]}});
    assignment_ = std::make_unique<Assignment>(Placement(static_cast<int>(most), table),
                                               static_cast<int>(ep));
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

class Padded final : public Dispatch {
 public:
  Padded(std::unique_ptr<Dispatch> inner, const Padding& padding, int ep)
      : inner_(std::move(inner)), padding_(padding), ep_(ep) {}

  int phases() const override { return inner_->phases(); }
  std::string phase_name(int phase) const override { return inner_->phase_name(phase); }
  const Communicators& communicators(int phase) const override {
    return inner_->communicators(phase);
  }
  int previous(int phase) const override { return inner_->previous(phase); }
  Lane lane(int phase) const override { return inner_->lane(phase); }
  LocalWork local_work() const override { return inner_->local_work(); }
  Bytes row_bytes(const MoeModel& model, Stage stage, Pass pass) const override {
    return inner_->row_bytes(model, stage, pass);
  }
  std::vector<SideExchange> sides(const MoeModel& model, Stage stage, Pass pass) const override {
    return inner_->sides(model, stage, pass);
  }
  RowCounts count(const LayerTokens& tokens) const override {
    RowCounts counts = inner_->count(tokens);
    pad_counts(*inner_, tokens.assignment.placement(), padded_rows(padding_, tokens, ep_), counts);
    return counts;
  }
  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const override {
    return inner_->rows(tokens);
  }

 private:
  std::unique_ptr<Dispatch> inner_;
  Padding padding_;
  int ep_;
};

}  // namespace

Padding read_padding(const YamlMap& params, Padding::Kind absent) {
  Padding padding;
  padding.kind = static_cast<Padding::Kind>(
      params.choice("padding", {"none", "capacity", "max"}, static_cast<int>(absent)));
  if (padding.kind == Padding::Kind::capacity) {
    padding.capacity = read_capacity(params, true);
    return padding;
  }
  for (const char* key : {"rule", "factor"}) {
    if (const auto value = params.find(key)) {
      value->error(fmt::format("'{}' has no effect without padding: capacity", value->path()),
                   "say padding: capacity, or leave it out");
    }
  }
  return padding;
}

std::vector<std::int64_t> padded_rows(const Padding& padding, const LayerTokens& tokens, int ep) {
  const auto run_size = static_cast<std::size_t>(ep);
  const bool fixed = padding.kind == Padding::Kind::capacity;
  std::vector<std::int64_t> rows(tokens.batch.ranks.size() / run_size);
  const std::vector<std::int64_t> most = fixed ? allowed(padding, tokens, run_size) : rows;
  for_each_load(tokens, [&](GpuId rank, SlotId slot, std::int64_t load) {
    const std::size_t run = rank.index() / run_size;
    rows[run] = std::max(rows[run], load);
    if (!fixed || load <= most[run]) return;
    throw Error(
        fmt::format("rank {} has {} choices for expert {}, but the capacity is {} rows", rank.value,
                    load, tokens.assignment.placement().expert_in(slot).value, most[run]),
        "drop choices by routing: {kind: capacity} with the dispatch's rule and factor, or "
        "say padding: max");
  });
  return fixed && padding.capacity.factor > 0 ? most : rows;
}

void pad_counts(const Dispatch& dispatch, const Placement& placement,
                const std::vector<std::int64_t>& rows, RowCounts& counts) {
  const auto gpus = static_cast<std::size_t>(placement.gpus());
  const std::size_t ep = gpus / rows.size();
  const OnePerSlot tokens(placement, ep);
  RowCounts padded = dispatch.count(tokens.view());
  for (auto& phase : padded.phases) {
    for (std::size_t from = 0; from < gpus; ++from) {
      const auto factor = static_cast<std::uint32_t>(rows[from / ep]);
      for (std::size_t to = 0; to < gpus; ++to) phase[from * gpus + to] *= factor;
    }
  }
  counts.padded_phases = std::move(padded.phases);
  counts.padded_slots = std::move(padded.slots);
  for (std::size_t s = 0; s < counts.padded_slots.size(); ++s) {
    const GpuId gpu = placement.gpu_of(SlotId(static_cast<std::int64_t>(s)));
    counts.padded_slots[s] *= rows[gpu.index() / ep];
  }
}

std::unique_ptr<Dispatch> pad(std::unique_ptr<Dispatch> dispatch, const Padding& padding, int ep) {
  if (padding.kind == Padding::Kind::none) return dispatch;
  return std::make_unique<Padded>(std::move(dispatch), padding, ep);
}

}  // namespace moesim
