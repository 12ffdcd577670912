// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/balanced_trace.h"

#include <algorithm>
#include <array>
#include <random>

#include "sim/trace/memory_step.h"

namespace moesim {
namespace {

constexpr std::size_t most_tables = 4;

template <class Random>
int below(Random& random, int end) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(end));
}

/// Different numbers below `end`, by Floyd's sampling.
template <class Random>
void choose(Random& random, int end, std::span<int> chosen) {
  std::size_t count = 0;
  for (int e = end - static_cast<int>(chosen.size()); e < end; ++e) {
    const int drawn = below(random, e + 1);
    const bool known = std::find(chosen.begin(), chosen.begin() + count, drawn) !=
                       chosen.begin() + static_cast<std::ptrdiff_t>(count);
    chosen[count++] = known ? e : drawn;
  }
}

/// Choices of few groups: of every kept one an expert, then any others of them.
class ChoiceOfGroups {
 public:
  ChoiceOfGroups(int experts, GateGroups gate)
      : size_(experts / gate.groups),
        groups_(gate.groups),
        kept_(static_cast<std::size_t>(gate.kept)) {}

  template <class Random>
  void choose(Random& random, std::span<int> chosen) {
    moesim::choose(random, groups_, kept_);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto known = chosen.first(i);
      do {
        const std::size_t g =
            i < kept_.size()
                ? i
                : static_cast<std::size_t>(below(random, static_cast<int>(kept_.size())));
        chosen[i] = kept_[g] * size_ + below(random, size_);
      } while (std::ranges::find(known, chosen[i]) != known.end());
    }
  }

 private:
  int size_, groups_;
  std::vector<int> kept_;
};

IdArray balanced_ids(const TraceInfo& info, std::int64_t tokens, GateGroups gate,
                     std::uint64_t seed) {
  std::mt19937_64 random(seed);
  IdArray ids(info.experts, tokens * info.top_k);
  std::vector<int> chosen(static_cast<std::size_t>(info.top_k));
  ChoiceOfGroups of_groups(info.experts, gate);
  std::int64_t at = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (gate.kept < gate.groups) {
      of_groups.choose(random, chosen);
    } else {
      choose(random, info.experts, chosen);
    }
    for (const int expert : chosen) ids.set(at++, expert);
  }
  return ids;
}

class BalancedStep final : public TraceStep {
 public:
  BalancedStep(const TraceInfo& info, std::int64_t tokens, std::int64_t sequence, GateGroups gate)
      : top_k_(info.top_k), tokens_(tokens) {
    const std::size_t tables = std::min(most_tables, info.layers.size());
    for (std::size_t i = 0; i < tables; ++i) {
      tables_.push_back(balanced_ids(info, tokens, gate, i));
    }
    for (std::int64_t left = tokens; left > 0; left -= sequence) {
      lengths_.push_back(static_cast<std::int32_t>(std::min(left, sequence)));
    }
  }
  std::int64_t number() const override { return 0; }
  std::int64_t tokens() const override { return tokens_; }
  IdRows ids(int layer) const override {
    const IdArray& table = tables_[static_cast<std::size_t>(layer) % tables_.size()];
    return {table.data(), table.width(), top_k_, tokens_};
  }
  std::span<const std::int32_t> sequence_lengths() const override { return lengths_; }
  bool has_weights() const override { return false; }
  float weight(int, std::int64_t, int) const override { return 0; }
  bool has_source_ranks() const override { return false; }
  int source_rank(std::int64_t) const override { return 0; }

 private:
  int top_k_;
  std::int64_t tokens_;
  std::vector<IdArray> tables_;
  std::vector<std::int32_t> lengths_;
};

}  // namespace

RoutingTrace balanced_trace(TraceInfo info, std::int64_t tokens, std::int64_t sequence,
                            GateGroups gate) {
  info.name = "balanced";
  info.phase = Phase::synthetic;
  auto step = std::make_shared<const BalancedStep>(info, tokens, sequence, gate);
  return RoutingTrace(std::move(info), {std::move(step)});
}

}  // namespace moesim
