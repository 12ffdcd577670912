// SPDX-License-Identifier: Apache-2.0
// The two evaluations of a dispatch, both from its one `next`: row counts in bulk, explicit rows.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "sim/policy/dispatch.h"

namespace moesim {

/// Calls visit(source rank, token id within the batch, ids of the token) for every token.
template <class IdType, class Visit>
void for_each_token(const LayerTokens& tokens, Visit visit) {
  const auto* ids = static_cast<const IdType*>(tokens.ids.data());
  const int top_k = tokens.ids.top_k();
  std::int64_t token = 0;
  for (std::size_t rank = 0; rank < tokens.batch.ranks.size(); ++rank) {
    for (const TokenRun& run : tokens.batch.ranks[rank]) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        visit(GpuId(static_cast<std::int64_t>(rank)), TokenId(token++), ids + t * top_k);
      }
    }
  }
}

/// Runs a row through phase `phase` and all later ones; visit(phase, from, hop) sees every move.
template <class Mechanism, class Visit>
void follow(const Mechanism& mechanism, int phase, int phases, GpuId holder, Choices choices,
            const GpuId* target, Visit& visit) {
  Hops hops;
  mechanism.next(phase, holder, choices, target, hops);
  for (const Hop& hop : hops) {
    visit(phase, holder, hop);
    if (phase + 1 < phases) {
      follow(mechanism, phase + 1, phases, hop.to, hop.choices, target, visit);
    }
  }
}

/// A complete dispatch made of a mechanism that has phases(), phase_name() and next().
template <class Mechanism>
class Evaluated final : public Dispatch {
 public:
  explicit Evaluated(Mechanism mechanism) : mechanism_(std::move(mechanism)) {}
  int phases() const override { return mechanism_.phases(); }
  std::string phase_name(int phase) const override { return mechanism_.phase_name(phase); }

  RowCounts count(const LayerTokens& tokens) const override {
    return tokens.ids.width() == 1 ? count_ids<std::uint8_t>(tokens)
                                   : count_ids<std::uint16_t>(tokens);
  }
  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const override {
    return tokens.ids.width() == 1 ? list_rows<std::uint8_t>(tokens)
                                   : list_rows<std::uint16_t>(tokens);
  }

 private:
  template <class IdType, class Visit>
  void for_each_move(const LayerTokens& tokens, Visit visit) const {
    const int top_k = tokens.ids.top_k();
    const int phases = mechanism_.phases();
    const Choices all = top_k == max_top_k ? ~Choices{0} : (Choices{1} << top_k) - 1;
    for_each_token<IdType>(tokens, [&](GpuId source, TokenId token, const IdType* ids) {
      const GpuId* gpu_of = tokens.assignment.gpus(source);
      std::array<GpuId, max_top_k> target;
      for (int k = 0; k < top_k; ++k) target[static_cast<std::size_t>(k)] = gpu_of[ids[k]];
      auto moved = [&](int phase, GpuId from, const Hop& hop) { visit(phase, from, token, hop); };
      follow(mechanism_, 0, phases, source, all, target.data(), moved);
    });
  }

  template <class IdType>
  RowCounts count_ids(const LayerTokens& tokens) const {
    const auto gpus = static_cast<std::size_t>(tokens.assignment.placement().gpus());
    RowCounts counts;
    counts.phases.assign(static_cast<std::size_t>(phases()),
                         std::vector<std::uint32_t>(gpus * gpus));
    for_each_move<IdType>(tokens, [&](int phase, GpuId from, TokenId, const Hop& hop) {
      ++counts.phases[static_cast<std::size_t>(phase)][from.index() * gpus + hop.to.index()];
    });
    count_slots<IdType>(tokens, counts);
    return counts;
  }

  template <class IdType>
  void count_slots(const LayerTokens& tokens, RowCounts& counts) const {
    const Placement& placement = tokens.assignment.placement();
    const auto experts = static_cast<std::size_t>(placement.experts());
    std::vector<std::uint32_t> chosen(tokens.batch.ranks.size() * experts);
    const int top_k = tokens.ids.top_k();
    for_each_token<IdType>(tokens, [&](GpuId source, TokenId, const IdType* ids) {
      std::uint32_t* row = chosen.data() + source.index() * experts;
      for (int k = 0; k < top_k; ++k) ++row[ids[k]];
    });
    counts.slots.assign(static_cast<std::size_t>(placement.slots()), 0);
    for (std::size_t rank = 0; rank < tokens.batch.ranks.size(); ++rank) {
      for (std::size_t e = 0; e < experts; ++e) {
        if (const std::uint32_t n = chosen[rank * experts + e]; n > 0) {
          const SlotId slot = tokens.assignment.slot(GpuId(static_cast<std::int64_t>(rank)),
                                                     ExpertId(static_cast<std::int64_t>(e)));
          counts.slots[slot.index()] += n;
        }
      }
    }
  }

  template <class IdType>
  std::vector<std::vector<RowMove>> list_rows(const LayerTokens& tokens) const {
    std::vector<std::vector<RowMove>> rows(static_cast<std::size_t>(phases()));
    for_each_move<IdType>(tokens, [&](int phase, GpuId from, TokenId token, const Hop& hop) {
      rows[static_cast<std::size_t>(phase)].push_back({from, hop.to, token, hop.choices});
    });
    return rows;
  }

  Mechanism mechanism_;
};

}  // namespace moesim
