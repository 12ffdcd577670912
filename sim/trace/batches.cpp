// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "sim/base/figures.h"

namespace moesim {
namespace {

constexpr int max_repeat = 1 << 20;
constexpr std::int64_t max_search = 4000000;  // sequences played to find the smallest repeat

/// Deals the sequences of one recorded step out, again and again, each to the rank with the fewest
/// tokens so far.
class Deal {
 public:
  Deal(const TraceStep& step, int ranks) : step_(step), tokens_(static_cast<std::size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r) least_.emplace(0, r);
  }

  /// Plays the sequences once; tells `take` of each its rank, the rank's tokens before and itself.
  template <class Take>
  void play(const Take& take) {
    std::int64_t first = 0;
    for (const std::int32_t length : step_.sequence_lengths()) {
      const auto [before, rank] = least_.top();
      least_.pop();
      take(static_cast<std::size_t>(rank), before, TokenRun{first, length});
      tokens_[static_cast<std::size_t>(rank)] = before + length;
      least_.emplace(before + length, rank);
      first += length;
    }
  }

  const std::vector<std::int64_t>& tokens() const { return tokens_; }  // of each rank
  std::int64_t least() const { return least_.top().first; }

 private:
  using Load = std::pair<std::int64_t, int>;  // tokens, rank
  const TraceStep& step_;
  std::vector<std::int64_t> tokens_;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least_;
};

bool differ_by_one_number(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return std::ranges::equal(
      a, b, {}, [&](std::int64_t x) { return x - a[0]; }, [&](std::int64_t x) { return x - b[0]; });
}

/// The tokens of each rank once the step is played `repeat` times. What is dealt depends only on
/// the differences between ranks: when these come again all that follows does, and is skipped.
std::vector<std::int64_t> tokens_after(const TraceStep& step, int ranks, std::int64_t repeat) {
  Deal deal(step, ranks);
  std::vector<std::int64_t> known;  // as they were after round `at`, a power of two
  std::int64_t at = 0, skipped = 0;
  for (std::int64_t round = 1; round <= repeat; ++round) {
    deal.play([](std::size_t, std::int64_t, TokenRun) {});
    const auto& now = deal.tokens();
    if (skipped > 0) continue;
    if (!known.empty() && differ_by_one_number(known, now)) {
      const std::int64_t period = round - at, times = (repeat - round) / period;
      skipped = times * (now[0] - known[0]);
      round += times * period;
    } else if ((round & (round - 1)) == 0) {
      known = now;
      at = round;
    }
  }
  std::vector<std::int64_t> tokens = deal.tokens();
  for (std::int64_t& count : tokens) count += skipped;
  return tokens;
}

std::int64_t least_of(const std::vector<std::int64_t>& tokens) {
  return *std::ranges::min_element(tokens);
}

/// What every rank holds of a step from its token `from` to before its token `to`.
std::vector<std::vector<TokenRun>> held(const TraceStep& step, int ranks, std::int64_t from,
                                        std::int64_t to) {
  Deal deal(step, ranks);
  std::vector<std::vector<TokenRun>> runs(static_cast<std::size_t>(ranks));
  while (deal.least() < to) {
    deal.play([&](std::size_t rank, std::int64_t before, TokenRun run) {
      const std::int64_t skip = std::clamp<std::int64_t>(from - before, 0, run.count);
      const std::int64_t end = std::clamp<std::int64_t>(to - before, 0, run.count);
      if (skip < end) append(runs[rank], {run.first + skip, end - skip});
    });
  }
  return runs;
}

/// A repeat that gives every rank `tokens` tokens of this step: the smallest, unless finding it
/// would take long. Greedy spreading leaves no rank more than one sequence below the mean.
std::int64_t enough_repeat(const TraceStep& step, int ranks, std::int64_t tokens) {
  const auto lengths = step.sequence_lengths();
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const double bound = (static_cast<double>(tokens) + static_cast<double>(longest)) * ranks /
                       static_cast<double>(step.tokens());
  if (bound > max_repeat) return max_repeat + 1;
  const std::int64_t high = static_cast<std::int64_t>(bound) + 1;
  if (high > max_search / static_cast<std::int64_t>(lengths.size())) return high;
  Deal deal(step, ranks);
  for (std::int64_t round = 1; round < high; ++round) {
    deal.play([](std::size_t, std::int64_t, TokenRun) {});
    if (deal.least() >= tokens) return round;
  }
  return high;
}

Error too_short(const RoutingTrace& trace, const TraceStep& step,
                const std::vector<std::int64_t>& tokens, const BatchOptions& options,
                std::int64_t wanted) {
  const auto poorest = std::ranges::min_element(tokens);
  const std::string played =
      options.repeat > 1 ? fmt::format(" played {}", counted(options.repeat, "time")) : "";
  const std::int64_t repeat = enough_repeat(step, options.ranks, wanted);
  std::string hint = repeat > max_repeat
                         ? "no repeat is enough; use fewer ranks"
                         : fmt::format(
                               "`repeat: {}` plays its sequences often enough, or use fewer "
                               "ranks",
                               repeat);
  if (options.tokens_per_rank && *poorest > 0) {
    hint += fmt::format(" or tokens_per_rank of at most {}", *poorest);
  }
  const auto ranks = static_cast<std::size_t>(options.ranks);
  if (trace.info().phase == Phase::synthetic && step.sequence_lengths().size() < ranks &&
      step.tokens() >= wanted * options.ranks) {
    hint = fmt::format("draw one sequence for each rank: sequences={}; or {}", ranks, hint);
  }
  return Error(
      fmt::format("trace '{}' is too short: step {} ({} in {}{}) leaves rank {} of {} with {}, "
                  "fewer than one batch of {}",
                  trace.info().name, step.number(), counted(step.tokens(), "token"),
                  counted(step.sequence_lengths().size(), "sequence"), played,
                  poorest - tokens.begin(), options.ranks, counted(*poorest, "token"), wanted),
      hint);
}

/// Takes the next `count` tokens off the front of `runs`, from run `at`.
std::vector<TokenRun> cut(std::vector<TokenRun>& runs, std::size_t& at, std::int64_t count) {
  std::vector<TokenRun> taken;
  while (count > 0) {
    TokenRun& run = runs[at];
    const std::int64_t part = std::min(count, run.count);
    taken.push_back({run.first, part});
    run.first += part;
    run.count -= part;
    count -= part;
    if (run.count == 0) ++at;
  }
  return taken;
}

/// Adds a step's batches that are in the window; earlier steps had `before` of them.
void add_batches(const TraceStep& step, int number, int ranks, const BatchWindow& window,
                 std::int64_t before, std::int64_t count, Batches& out) {
  const auto of_step = [&](std::int64_t batch) {
    return std::clamp<std::int64_t>(batch - before, 0, count);
  };
  const std::int64_t first = of_step(window.first);
  const std::int64_t last = window.last < 0 ? count : of_step(window.last);
  if (first >= last) return;
  auto runs = held(step, ranks, first * out.tokens_per_rank, last * out.tokens_per_rank);
  std::vector<std::size_t> at(runs.size());
  for (std::int64_t b = first; b < last; ++b) {
    Batch batch;
    batch.step = number;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      batch.ranks.push_back(cut(runs[r], at[r], out.tokens_per_rank));
    }
    out.batches.push_back(std::move(batch));
  }
}

void check(const BatchOptions& options) {
  if (options.ranks < 1) {
    throw Error(fmt::format("a trace cannot be spread over {}", counted(options.ranks, "rank")));
  }
  if (options.repeat < 1 || options.repeat > max_repeat) {
    throw Error(fmt::format("repeat is {}; it is from 1 to {}", options.repeat, max_repeat));
  }
  if (options.tokens_per_rank && *options.tokens_per_rank < 1) {
    throw Error(fmt::format("tokens_per_rank is {}; it is at least 1", *options.tokens_per_rank));
  }
}

}  // namespace

std::int64_t tokens_of(std::span<const TokenRun> runs) {
  std::int64_t tokens = 0;
  for (const TokenRun& run : runs) tokens += run.count;
  return tokens;
}

std::int64_t Batch::tokens() const {
  std::int64_t tokens = 0;
  for (const auto& runs : ranks) tokens += tokens_of(runs);
  return tokens;
}

Batches make_batches(const RoutingTrace& trace, const BatchOptions& options) {
  return make_some_batches(trace, options, {}).batches;
}

SomeBatches make_some_batches(const RoutingTrace& trace, const BatchOptions& options,
                              const BatchWindow& window) {
  check(options);
  if (trace.total_tokens() == 0) throw Error(fmt::format("trace '{}' is empty", trace.info().name));
  std::vector<std::int64_t> least;  // of each step
  for (int s = 0; s < trace.step_count(); ++s) {
    const auto tokens = tokens_after(trace.step(s), options.ranks, options.repeat);
    const std::int64_t wanted = options.tokens_per_rank.value_or(1);
    least.push_back(least_of(tokens));
    if (least.back() < wanted) throw too_short(trace, trace.step(s), tokens, options, wanted);
  }
  SomeBatches result;
  Batches& made = result.batches;
  made.tokens_per_rank = options.tokens_per_rank.value_or(least_of(least));
  for (int s = 0; s < trace.step_count(); ++s) {
    const TraceStep& step = trace.step(s);
    const std::int64_t count = least[static_cast<std::size_t>(s)] / made.tokens_per_rank;
    add_batches(step, s, options.ranks, window, result.count, count, made);
    result.count += count;
    made.unused_tokens +=
        step.tokens() * options.repeat - count * made.tokens_per_rank * options.ranks;
  }
  return result;
}

void append(std::vector<TokenRun>& runs, TokenRun run) {
  if (!runs.empty() && runs.back().first + runs.back().count == run.first) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

std::vector<TokenRun> part_of(const std::vector<TokenRun>& runs, int i, int parts) {
  const std::int64_t tokens = tokens_of(runs);
  const auto begin_of = [&](int at) {
    return tokens / parts * at + std::min<std::int64_t>(at, tokens % parts);
  };
  std::int64_t skip = begin_of(i), left = begin_of(i + 1) - begin_of(i);
  std::vector<TokenRun> result;
  for (const TokenRun& run : runs) {
    const std::int64_t skipped = std::min(skip, run.count);
    const std::int64_t taken = std::min(left, run.count - skipped);
    if (taken > 0) result.push_back({run.first + skipped, taken});
    skip -= skipped;
    left -= taken;
  }
  return result;
}

}  // namespace moesim
