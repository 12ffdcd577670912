// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>

namespace moesim {
namespace {

constexpr int max_repeat = 1 << 20;
constexpr std::int64_t max_search = 4000000;  // sequences played to find the smallest repeat

/// The tokens that every rank holds of one recorded step.
struct Spread {
  std::vector<std::vector<TokenRun>> runs;  // [rank]
  std::vector<std::int64_t> tokens;         // [rank]
  std::int64_t least() const { return *std::min_element(tokens.begin(), tokens.end()); }
};

void append(std::vector<TokenRun>& runs, TokenRun run) {
  if (!runs.empty() && runs.back().first + runs.back().count == run.first) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

Spread spread(const TraceStep& step, int ranks, int repeat) {
  Spread result;
  result.runs.resize(ranks);
  result.tokens.resize(ranks);
  using Load = std::pair<std::int64_t, int>;  // tokens, rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (int r = 0; r < ranks; ++r) least.emplace(0, r);
  for (int round = 0; round < repeat; ++round) {
    std::int64_t first = 0;
    for (const std::int32_t length : step.sequence_lengths()) {
      const auto [tokens, rank] = least.top();
      least.pop();
      append(result.runs[rank], {first, length});
      result.tokens[rank] = tokens + length;
      least.emplace(tokens + length, rank);
      first += length;
    }
  }
  return result;
}

/// A repeat that gives every rank `tokens` tokens of this step: the smallest, unless finding it
/// would take long. Greedy spreading leaves no rank more than one sequence below the mean.
std::int64_t enough_repeat(const TraceStep& step, int ranks, std::int64_t tokens) {
  const auto lengths = step.sequence_lengths();
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const double bound = (static_cast<double>(tokens) + static_cast<double>(longest)) * ranks /
                       static_cast<double>(step.tokens());
  if (bound > max_repeat) return max_repeat + 1;
  std::int64_t high = static_cast<std::int64_t>(bound) + 1;
  if (high > max_search / static_cast<std::int64_t>(lengths.size())) return high;
  std::int64_t low = 0;  // more repeats never take tokens away from a rank
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (spread(step, ranks, static_cast<int>(middle)).least() >= tokens ? high : low) = middle;
  }
  return high;
}

Error too_short(const RoutingTrace& trace, const TraceStep& step, const Spread& spread,
                const BatchOptions& options, std::int64_t wanted) {
  const auto poorest = std::min_element(spread.tokens.begin(), spread.tokens.end());
  const std::string played =
      options.repeat > 1 ? fmt::format(" played {} times", options.repeat) : "";
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
  return Error(
      fmt::format(
          "trace '{}' is too short: step {} ({} tokens in {} sequences{}) leaves rank {} of "
          "{} with {} tokens, fewer than one batch of {}",
          trace.info().name, step.number(), step.tokens(), step.sequence_lengths().size(), played,
          poorest - spread.tokens.begin(), options.ranks, *poorest, wanted),
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

void add_batches(Spread spread, int step, Batches& out) {
  const auto ranks = spread.runs.size();
  std::vector<std::size_t> at(ranks);
  const std::int64_t batches = spread.least() / out.tokens_per_rank;
  for (std::int64_t b = 0; b < batches; ++b) {
    Batch batch;
    batch.step = step;
    for (std::size_t r = 0; r < ranks; ++r) {
      batch.ranks.push_back(cut(spread.runs[r], at[r], out.tokens_per_rank));
    }
    out.batches.push_back(std::move(batch));
  }
  for (const std::int64_t tokens : spread.tokens) {
    out.unused_tokens += tokens - batches * out.tokens_per_rank;
  }
}

void check(const BatchOptions& options) {
  if (options.ranks < 1) {
    throw Error(fmt::format("a trace cannot be spread over {} ranks", options.ranks));
  }
  if (options.repeat < 1 || options.repeat > max_repeat) {
    throw Error(fmt::format("repeat is {}; it is from 1 to {}", options.repeat, max_repeat));
  }
  if (options.tokens_per_rank && *options.tokens_per_rank < 1) {
    throw Error(fmt::format("tokens_per_rank is {}; it is at least 1", *options.tokens_per_rank));
  }
}

}  // namespace

std::int64_t Batch::tokens() const {
  std::int64_t tokens = 0;
  for (const auto& runs : ranks) {
    for (const auto& run : runs) tokens += run.count;
  }
  return tokens;
}

Batches make_batches(const RoutingTrace& trace, const BatchOptions& options) {
  check(options);
  if (trace.total_tokens() == 0) throw Error(fmt::format("trace '{}' is empty", trace.info().name));
  std::vector<Spread> spreads;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int s = 0; s < trace.step_count(); ++s) {
    spreads.push_back(spread(trace.step(s), options.ranks, options.repeat));
    const std::int64_t wanted = options.tokens_per_rank.value_or(1);
    if (spreads.back().least() < wanted) {
      throw too_short(trace, trace.step(s), spreads.back(), options, wanted);
    }
    least = std::min(least, spreads.back().least());
  }
  Batches result;
  result.tokens_per_rank = options.tokens_per_rank.value_or(least);
  for (std::size_t s = 0; s < spreads.size(); ++s) {
    add_batches(std::move(spreads[s]), static_cast<int>(s), result);
  }
  return result;
}

std::vector<TokenRun> part_of(const std::vector<TokenRun>& runs, int i, int parts) {
  std::int64_t tokens = 0;
  for (const TokenRun& run : runs) tokens += run.count;
  const auto cut = [&](int at) {
    return tokens / parts * at + std::min<std::int64_t>(at, tokens % parts);
  };
  std::int64_t skip = cut(i), left = cut(i + 1) - cut(i);
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
