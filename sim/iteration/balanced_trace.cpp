// SPDX-License-Identifier: Apache-2.0
#include "sim/iteration/balanced_trace.h"

#include <algorithm>
#include <array>
#include <random>

#include "sim/trace/memory_step.h"

namespace moesim {
namespace {

constexpr std::size_t most_tables = 4;

/// Different choices of one token among the experts, by Floyd's sampling.
template <class Random>
void choose(Random& random, int experts, std::span<int> chosen) {
  std::size_t count = 0;
  for (int e = experts - static_cast<int>(chosen.size()); e < experts; ++e) {
    const int drawn = static_cast<int>(random() % static_cast<std::uint64_t>(e + 1));
    const bool known = std::find(chosen.begin(), chosen.begin() + count, drawn) !=
                       chosen.begin() + static_cast<std::ptrdiff_t>(count);
    chosen[count++] = known ? e : drawn;
  }
}

IdArray balanced_ids(const TraceInfo& info, std::int64_t tokens, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  IdArray ids(info.experts, tokens * info.top_k);
  std::vector<int> chosen(static_cast<std::size_t>(info.top_k));
  std::int64_t at = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    choose(random, info.experts, chosen);
    for (const int expert : chosen) ids.set(at++, expert);
  }
  return ids;
}

class BalancedStep final : public TraceStep {
 public:
  BalancedStep(const TraceInfo& info, std::int64_t tokens, std::int64_t sequence)
      : top_k_(info.top_k), tokens_(tokens) {
    const std::size_t tables = std::min(most_tables, info.layers.size());
    for (std::size_t i = 0; i < tables; ++i) tables_.push_back(balanced_ids(info, tokens, i));
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

RoutingTrace balanced_trace(TraceInfo info, std::int64_t tokens, std::int64_t sequence) {
  info.name = "balanced";
  info.phase = Phase::synthetic;
  auto step = std::make_shared<const BalancedStep>(info, tokens, sequence);
  return RoutingTrace(std::move(info), {std::move(step)});
}

}  // namespace moesim
