// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/balanced_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "sim/base/unsuitable.h"
#include "sim/trace/memory_step.h"

namespace moesim {
namespace {

using SharedIds = std::shared_ptr<const IdArray>;

constexpr std::size_t most_tables = 4;
// Of choices that are kept: 8 MB each.
constexpr std::size_t most_kept = 16;
constexpr std::int64_t most_kept_ids = 1 << 22;

/// A gigabyte, and a minute to choose.
constexpr std::int64_t most_choices = 1 << 30;

void check_choices(const TraceInfo& info, std::int64_t tokens) {
  if (info.top_k == 0 || tokens <= most_choices / info.top_k) return;
  throw Unsuitable(fmt::format("balanced routing of {} tokens at once, {} choices each, is too "
                               "much to draw",
                               tokens, info.top_k),
                   "shorter sequences, smaller micro batches or fewer replicas");
}

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

/// The choices of at least so many tokens. Those of few tokens are the first of many, and are kept:
/// a serving engine asks for them at every pass.
SharedIds shared_ids(const TraceInfo& info, std::int64_t tokens, GateGroups gate,
                     std::uint64_t seed) {
  const std::int64_t ids = tokens * info.top_k;
  if (ids > most_kept_ids) {
    return std::make_shared<const IdArray>(balanced_ids(info, tokens, gate, seed));
  }
  static thread_local std::map<std::array<std::uint64_t, 5>, SharedIds> kept;
  const auto number = [](int value) { return static_cast<std::uint64_t>(value); };
  const std::array key = {seed, number(info.experts), number(info.top_k), number(gate.groups),
                          number(gate.kept)};
  if (kept.size() >= most_kept && !kept.contains(key)) kept.clear();
  SharedIds& known = kept[key];
  if (!known || known->count() < ids) {
    const auto enough =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(tokens)));
    known = std::make_shared<const IdArray>(balanced_ids(info, enough, gate, seed));
  }
  return known;
}

/// [place][place] the place that is as far from the first as the second is from 0, part by part.
std::vector<std::vector<int>> moved_places(const AlikeRanks& alike) {
  const int ranks = alike.ranks();
  std::vector<std::vector<int>> moved(static_cast<std::size_t>(ranks));
  for (int from = 0; from < ranks; ++from) {
    for (int by = 0; by < ranks; ++by) {
      int place = 0, unit = 1;
      for (const int part : alike.parts) {
        place += (from / unit % part + by / unit % part) % part * unit;
        unit *= part;
      }
      moved[static_cast<std::size_t>(from)].push_back(place);
    }
  }
  return moved;
}

IdArray alike_ids(const TraceInfo& info, std::int64_t tokens, std::int64_t sequence,
                  GateGroups gate, const AlikeRanks& alike) {
  const std::int64_t of_replica = sequence * alike.micro_batch;
  const std::int64_t of_rank = of_replica / alike.shares;
  const std::int64_t microbatches = tokens / (of_replica * alike.replicas);
  const SharedIds first = shared_ids(info, microbatches * of_rank, gate, 0);
  const IdRows chosen{first->data(), first->width(), info.top_k, microbatches * of_rank};
  const auto moved = moved_places(alike);
  const int experts = info.experts / alike.ranks();  // of a rank
  IdArray ids(info.experts, tokens * info.top_k);
  std::int64_t at = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    // Sequences go to the replicas in turn.
    const std::int64_t number = t / sequence, turn = number / alike.replicas;
    const std::int64_t microbatch = turn / alike.micro_batch;
    const std::int64_t within = turn % alike.micro_batch * sequence + t % sequence;
    const std::int64_t source = number % alike.replicas * alike.shares + within / of_rank;
    const auto& places =
        moved[static_cast<std::size_t>(alike.place[static_cast<std::size_t>(source)])];
    for (int k = 0; k < info.top_k; ++k) {
      const int expert = chosen.at(microbatch * of_rank + within % of_rank, k);
      ids.set(at++,
              places[static_cast<std::size_t>(expert / experts)] * experts + expert % experts);
    }
  }
  return ids;
}

class BalancedStep final : public TraceStep {
 public:
  BalancedStep(int top_k, std::vector<std::int32_t> lengths, std::vector<SharedIds> tables)
      : top_k_(top_k),
        tokens_(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})),
        tables_(std::move(tables)),
        lengths_(std::move(lengths)) {}
  std::int64_t number() const override { return 0; }
  std::int64_t tokens() const override { return tokens_; }
  IdRows ids(int layer) const override {
    const IdArray& table = *tables_[static_cast<std::size_t>(layer) % tables_.size()];
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
  std::vector<SharedIds> tables_;  // of at least as many tokens
  std::vector<std::int32_t> lengths_;
};

std::vector<std::int32_t> equal_sequences(std::int64_t tokens, std::int64_t sequence) {
  std::vector<std::int32_t> lengths;
  for (std::int64_t left = tokens; left > 0; left -= sequence) {
    lengths.push_back(static_cast<std::int32_t>(std::min(left, sequence)));
  }
  return lengths;
}

RoutingTrace trace_of(TraceInfo info, std::vector<std::int32_t> lengths,
                      std::vector<SharedIds> tables) {
  info.name = "balanced";
  info.phase = Phase::synthetic;
  auto step =
      std::make_shared<const BalancedStep>(info.top_k, std::move(lengths), std::move(tables));
  return RoutingTrace(std::move(info), {std::move(step)});
}

}  // namespace

RoutingTrace balanced_trace(TraceInfo info, std::vector<std::int32_t> lengths, GateGroups gate) {
  const auto tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  check_choices(info, tokens);
  std::vector<SharedIds> tables;
  for (std::size_t i = 0; i < std::min(most_tables, info.layers.size()); ++i) {
    tables.push_back(shared_ids(info, tokens, gate, i));
  }
  return trace_of(std::move(info), std::move(lengths), std::move(tables));
}

RoutingTrace balanced_trace(TraceInfo info, std::int64_t tokens, std::int64_t sequence,
                            GateGroups gate) {
  return balanced_trace(std::move(info), equal_sequences(tokens, sequence), gate);
}

RoutingTrace balanced_trace(TraceInfo info, std::int64_t tokens, std::int64_t sequence,
                            GateGroups gate, const AlikeRanks& alike) {
  check_choices(info, tokens);
  std::vector<SharedIds> tables;
  tables.push_back(std::make_shared<const IdArray>(alike_ids(info, tokens, sequence, gate, alike)));
  return trace_of(std::move(info), equal_sequences(tokens, sequence), std::move(tables));
}

}  // namespace moesim
