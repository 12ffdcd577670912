// SPDX-License-Identifier: Apache-2.0
// The two evaluations of a dispatch, both from its one `next`: row counts in bulk, explicit rows.
//
// A mechanism is a pure function from (token, current holder, targets) to the next holders of each
// phase:
//
//   template <class Hops>
//   void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const;
//
// target[k] is the GPU that serves choice k; a hop to the holder itself is a local copy. It calls
// hops.add(to, choices) for a copy of its own, or hops.merge(to, choices) for one copy per GPU.
#pragma once

#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "sim/policy/dispatch.h"

namespace moesim {

/// Calls visit(k) for every choice of a row, ascending.
template <class Visit>
void for_each_choice(Choices choices, Visit visit) {
  for (; choices != 0; choices &= choices - 1) visit(std::countr_zero(choices));
}

/// A copy of a token on its way: the choices it carries and the GPU it goes to next.
struct Hop {
  GpuId to;
  Choices choices = 0;
};

/// Collects the hops of one row in one phase; a row has at most one hop per choice.
class HopList {
 public:
  void add(GpuId to, Choices choices) { hops_[size_++] = {to, choices}; }
  void merge(GpuId to, Choices choices) {
    for (std::size_t i = 0; i < size_; ++i) {
      if (hops_[i].to == to) {
        hops_[i].choices |= choices;
        return;
      }
    }
    add(to, choices);
  }
  const Hop* begin() const { return hops_.data(); }
  const Hop* end() const { return hops_.data() + size_; }

 private:
  std::array<Hop, max_top_k> hops_;
  std::size_t size_ = 0;
};

/// Counts the hops of the last phase, where nobody asks which choices a row carries.
class HopCounter {
 public:
  explicit HopCounter(std::size_t gpus) : seen_(gpus, 0) {}
  /// A new row, whose counts go to one row of the table.
  void start(std::uint32_t* counts) {
    counts_ = counts;
    ++row_;
  }
  void add(GpuId to, Choices) { ++counts_[to.index()]; }
  void merge(GpuId to, Choices) {
    counts_[to.index()] += seen_[to.index()] != row_ ? 1 : 0;
    seen_[to.index()] = row_;
  }

 private:
  std::uint32_t* counts_ = nullptr;
  std::uint64_t row_ = 0;
  std::vector<std::uint64_t> seen_;  // per GPU the newest row that went there
};

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
void follow(const Mechanism& mechanism, int phase, GpuId holder, Choices choices,
            const GpuId* target, Visit& visit) {
  HopList hops;
  mechanism.next(phase, holder, choices, target, hops);
  for (const Hop& hop : hops) {
    visit(phase, holder, hop);
    if (phase + 1 < mechanism.phases()) {
      follow(mechanism, phase + 1, hop.to, hop.choices, target, visit);
    }
  }
}

/// A complete dispatch made of a mechanism that has phases(), phase_name(), communicators() and
/// next(), and row_bytes() where its rows are not plain token vectors.
template <class Mechanism>
class Evaluated final : public Dispatch {
 public:
  explicit Evaluated(Mechanism mechanism) : mechanism_(std::move(mechanism)) {}
  int phases() const override { return mechanism_.phases(); }
  std::string phase_name(int phase) const override { return mechanism_.phase_name(phase); }
  const Communicators& communicators(int phase) const override {
    return mechanism_.communicators(phase);
  }

  Bytes row_bytes(const MoeModel& model, Stage stage, Pass pass) const override {
    if constexpr (requires { mechanism_.row_bytes(model, stage, pass); }) {
      return mechanism_.row_bytes(model, stage, pass);
    } else {
      return Dispatch::row_bytes(model, stage, pass);
    }
  }

  RowCounts count(const LayerTokens& tokens) const override {
    return tokens.ids.width() == 1 ? count_ids<std::uint8_t>(tokens)
                                   : count_ids<std::uint16_t>(tokens);
  }
  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const override {
    return tokens.ids.width() == 1 ? list_rows<std::uint8_t>(tokens)
                                   : list_rows<std::uint16_t>(tokens);
  }

 private:
  /// Calls visit(source rank, token, all its choices, target GPUs).
  template <class IdType, class Visit>
  void for_each_row(const LayerTokens& tokens, Visit visit) const {
    const int top_k = tokens.ids.top_k();
    const Choices all = top_k == max_top_k ? ~Choices{0} : (Choices{1} << top_k) - 1;
    for_each_token<IdType>(tokens, [&](GpuId source, TokenId token, const IdType* ids) {
      const GpuId* gpu_of = tokens.assignment.gpus(source);
      std::array<GpuId, max_top_k> target;
      for (int k = 0; k < top_k; ++k) target[static_cast<std::size_t>(k)] = gpu_of[ids[k]];
      visit(source, token, all, target.data());
    });
  }

  template <class IdType>
  RowCounts count_ids(const LayerTokens& tokens) const {
    const auto gpus = static_cast<std::size_t>(tokens.assignment.placement().gpus());
    const int last = phases() - 1;
    RowCounts counts;
    counts.gpu_count = tokens.assignment.placement().gpus();
    counts.phases.assign(static_cast<std::size_t>(phases()),
                         std::vector<std::uint32_t>(gpus * gpus));
    std::uint32_t* final_counts = counts.phases.back().data();
    HopCounter counter(gpus);
    auto deliver = [&](GpuId holder, Choices choices, const GpuId* target) {
      counter.start(final_counts + holder.index() * gpus);
      mechanism_.next(last, holder, choices, target, counter);
    };
    for_each_row<IdType>(tokens, [&](GpuId source, TokenId, Choices all, const GpuId* target) {
      if (last == 0) return deliver(source, all, target);
      count_phases(0, source, all, target, counts, deliver);
    });
    count_slots<IdType>(tokens, counts);
    return counts;
  }

  template <class Deliver>
  void count_phases(int phase, GpuId holder, Choices choices, const GpuId* target,
                    RowCounts& counts, Deliver& deliver) const {
    if (phase + 1 == phases()) return deliver(holder, choices, target);
    auto& table = counts.phases[static_cast<std::size_t>(phase)];
    const std::size_t gpus = counts.gpus();
    HopList hops;
    mechanism_.next(phase, holder, choices, target, hops);
    for (const Hop& hop : hops) {
      ++table[holder.index() * gpus + hop.to.index()];
      count_phases(phase + 1, hop.to, hop.choices, target, counts, deliver);
    }
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
    for_each_row<IdType>(
        tokens, [&](GpuId source, TokenId token, Choices all, const GpuId* target) {
          auto visit = [&](int phase, GpuId from, const Hop& hop) {
            rows[static_cast<std::size_t>(phase)].push_back({from, hop.to, token, hop.choices});
          };
          follow(mechanism_, 0, source, all, target, visit);
        });
    return rows;
  }

  Mechanism mechanism_;
};

}  // namespace moesim
