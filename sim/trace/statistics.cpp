// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/statistics.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/figures.h"
#include "sim/trace/layer_scan.h"
#include "sim/trace/verify.h"

namespace moesim {
namespace {

using Counts = std::vector<std::int64_t>;

double max_over_mean(const Counts& loads) {
  const auto sum = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  return static_cast<double>(*std::max_element(loads.begin(), loads.end())) *
         static_cast<double>(loads.size()) / static_cast<double>(sum);
}

double variation(const Counts& loads) {
  const double n = static_cast<double>(loads.size());
  const double mean =
      static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0})) / n;
  double squares = 0;
  for (const auto load : loads) {
    squares += (static_cast<double>(load) - mean) * (static_cast<double>(load) - mean);
  }
  return std::sqrt(squares / n) / mean;
}

Counts rank_loads(const Counts& loads, int ranks) {
  Counts sums(ranks);
  const std::size_t experts_a_rank = loads.size() / sums.size();
  for (std::size_t e = 0; e < loads.size(); ++e) sums[e / experts_a_rank] += loads[e];
  return sums;
}

std::vector<int> checked_ranks(const StatisticsOptions& options, int experts) {
  if (options.ranks.empty()) {
    std::vector<int> ranks;
    for (int n = 2; n <= std::min(experts, 64); n *= 2) {
      if (experts % n == 0) ranks.push_back(n);
    }
    return ranks;
  }
  for (const int n : options.ranks) {
    if (n < 1 || experts % n != 0) {
      throw Error(fmt::format("{} experts cannot be placed in equal blocks on {}", experts,
                              counted(n, "rank")),
                  "a number of ranks must divide the experts");
    }
  }
  return options.ranks;
}

void measure_sequences(const RoutingTrace& trace, TraceStatistics& out) {
  std::vector<std::int32_t> lengths;
  for (int s = 0; s < trace.step_count(); ++s) {
    const TraceStep& step = trace.step(s);
    lengths.insert(lengths.end(), step.sequence_lengths().begin(), step.sequence_lengths().end());
    if (!step.has_source_ranks()) continue;
    for (std::int64_t t = 0; t < step.tokens(); ++t) {
      if (step.source_rank(t) < 0 || step.source_rank(t) > max_source_rank) {
        throw Error(fmt::format("trace '{}', step {}: source ranks that cannot be",
                                trace.info().name, step.number()),
                    "`moesim trace verify` tells more");
      }
      const auto rank = static_cast<std::size_t>(step.source_rank(t));
      if (out.tokens_of_source_rank.size() <= rank) out.tokens_of_source_rank.resize(rank + 1);
      ++out.tokens_of_source_rank[rank];
    }
  }
  std::sort(lengths.begin(), lengths.end());
  const std::size_t n = lengths.size();
  out.sequences = static_cast<std::int64_t>(n);
  out.shortest_sequence = lengths.front();
  out.longest_sequence = lengths.back();
  out.median_sequence = (lengths[(n - 1) / 2] + lengths[n / 2]) / 2.0;
}

/// Pairs that independent choices would give fewer tokens than this have a lift only by chance.
constexpr double least_expected = 20;

/// Adds the pairs of a layer with the largest lift to those of the layers before.
void keep_by_lift(const LayerScan& scan, std::vector<ExpertPair> pairs, std::size_t wanted,
                  std::vector<ExpertPair>& best) {
  const auto tokens = static_cast<double>(scan.tokens());
  const auto load = [&](int e) { return static_cast<double>(scan.counts()[e]) / tokens; };
  const auto expected = [&](const ExpertPair& pair) {
    return load(pair.a) * load(pair.b) * tokens;
  };
  std::erase_if(pairs, [](const ExpertPair& pair) { return pair.tokens == 0; });
  const bool some = std::ranges::any_of(
      pairs, [&](const ExpertPair& pair) { return expected(pair) >= least_expected; });
  for (ExpertPair& pair : pairs) {
    if (some && expected(pair) < least_expected) continue;
    pair.share = static_cast<double>(pair.tokens) / tokens;
    pair.lift = static_cast<double>(pair.tokens) / expected(pair);
    best.push_back(pair);
  }
  const std::size_t kept = std::min(best.size(), wanted);
  std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(kept), best.end(),
                    [](const ExpertPair& x, const ExpertPair& y) {
                      return std::tuple(-x.lift, -x.tokens, x.layer, x.a, x.b) <
                             std::tuple(-y.lift, -y.tokens, y.layer, y.a, y.b);
                    });
  best.resize(kept);
}

void measure_pairs(const LayerScan& scan, int layer, int wanted, TraceStatistics& out) {
  const int experts = static_cast<int>(scan.counts().size());
  std::vector<ExpertPair> pairs;
  std::int64_t all = 0;
  for (int a = 0; a < experts; ++a) {
    for (int b = a + 1; b < experts; ++b) {
      pairs.push_back({layer, a, b, scan.pair(a, b), 0, 0});
      all += pairs.back().tokens;
    }
  }
  const auto stronger = [](const ExpertPair& x, const ExpertPair& y) {
    return std::tuple(-x.tokens, x.layer, x.a, x.b) < std::tuple(-y.tokens, y.layer, y.a, y.b);
  };
  const std::size_t top = (pairs.size() + 99) / 100;
  std::partial_sort(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(top), pairs.end(),
                    stronger);
  std::int64_t strongest = 0;
  for (std::size_t i = 0; i < top; ++i) strongest += pairs[i].tokens;
  out.top_pairs_share.layers.push_back(static_cast<double>(strongest) / static_cast<double>(all));

  keep_by_lift(scan, std::move(pairs), static_cast<std::size_t>(wanted), out.strongest_pairs);
}

/// Adds the likeness of one layer's loads in successive steps; the caller divides by layers.
void compare_steps(const std::vector<Counts>& loads, std::vector<StepSimilarity>& out) {
  for (std::size_t s = 0; s + 1 < loads.size(); ++s) {
    const Counts& a = loads[s];
    const Counts& b = loads[s + 1];
    const double sum_a = static_cast<double>(std::accumulate(a.begin(), a.end(), std::int64_t{0}));
    const double sum_b = static_cast<double>(std::accumulate(b.begin(), b.end(), std::int64_t{0}));
    double dot = 0, aa = 0, bb = 0, shared = 0;
    for (std::size_t e = 0; e < a.size(); ++e) {
      const double x = static_cast<double>(a[e]) / sum_a;
      const double y = static_cast<double>(b[e]) / sum_b;
      dot += x * y, aa += x * x, bb += y * y, shared += std::min(x, y);
    }
    out[s].cosine += dot / std::sqrt(aa * bb);
    out[s].shared_load += shared;
  }
}

void add_checksums(TraceStatistics& out) {
  std::vector<std::uint32_t> table;
  for (const auto& layer : out.counts) {
    for (const auto count : layer) {
      if (count > std::numeric_limits<std::uint32_t>::max()) return;
      table.push_back(static_cast<std::uint32_t>(count));
    }
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(table.data());
  const std::size_t size = table.size() * sizeof(std::uint32_t);
  std::uint64_t fnv = 0xcbf29ce484222325U;
  for (std::size_t i = 0; i < size; ++i) fnv = (fnv ^ bytes[i]) * 0x100000001b3U;
  out.counts_crc32 = fmt::format("{:08x}", ::crc32_z(0, bytes, size));
  out.counts_fnv1a64 = fmt::format("{:016x}", fnv);
}

Error bad_id(const RoutingTrace& trace, const TraceStep& step, int layer) {
  return Error(fmt::format("trace '{}', step {}, layer {}: ids that cannot be", trace.info().name,
                           step.number(), trace.info().layers[layer]),
               "`moesim trace verify` tells more");
}

/// One layer over all steps.
void measure_layer(const RoutingTrace& trace, int layer, int pairs, TraceStatistics& out) {
  const TraceInfo& info = trace.info();
  std::vector<int> ranks;
  for (const auto& r : out.ranks) ranks.push_back(r.ranks);
  LayerScan scan(info.experts, info.top_k, ranks);
  std::vector<Counts> step_loads;
  Counts before(info.experts);
  for (int s = 0; s < trace.step_count(); ++s) {
    const TraceStep& step = trace.step(s);
    const IdRows rows = step.ids(layer);
    if (check_ids(rows, info.experts).any()) throw bad_id(trace, step, layer);
    scan.add(rows, step.sequence_lengths());
    Counts loads = scan.counts();
    for (std::size_t e = 0; e < loads.size(); ++e) loads[e] -= before[e];
    before = scan.counts();
    step_loads.push_back(std::move(loads));
  }
  compare_steps(step_loads, out.step_similarity);
  out.counts.push_back(scan.counts());
  out.expert_max_over_mean.layers.push_back(max_over_mean(scan.counts()));
  out.expert_load_cv.layers.push_back(variation(scan.counts()));
  if (scan.followers() > 0) {
    out.previous_token_overlap.layers.push_back(
        static_cast<double>(scan.kept()) /
        (static_cast<double>(scan.followers()) * static_cast<double>(info.top_k)));
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    out.ranks[i].distinct_ranks +=
        static_cast<double>(scan.distinct_ranks(i)) /
        (static_cast<double>(scan.tokens()) * static_cast<double>(info.layers.size()));
    out.ranks[i].rank_max_over_mean.layers.push_back(
        max_over_mean(rank_loads(scan.counts(), ranks[i])));
  }
  if (info.top_k > 1) measure_pairs(scan, info.layers[layer], pairs, out);
}

}  // namespace

double PerLayer::mean() const {
  if (layers.empty()) return 0;
  return std::accumulate(layers.begin(), layers.end(), 0.0) / static_cast<double>(layers.size());
}

double PerLayer::max() const {
  return layers.empty() ? 0 : *std::max_element(layers.begin(), layers.end());
}

TraceStatistics measure(const RoutingTrace& trace, const StatisticsOptions& options,
                        const TraceProgress& progress) {
  const TraceInfo& info = trace.info();
  if (trace.total_tokens() == 0) throw Error(fmt::format("trace '{}' is empty", info.name));
  TraceStatistics out;
  for (const int n : checked_ranks(options, info.experts)) out.ranks.push_back({n, 0, {}});
  out.steps = trace.step_count();
  out.tokens = trace.total_tokens();
  out.uniform_overlap = static_cast<double>(info.top_k) / info.experts;
  measure_sequences(trace, out);
  for (int s = 0; s + 1 < trace.step_count(); ++s) {
    out.step_similarity.push_back({trace.step(s).number(), trace.step(s + 1).number(), 0, 0});
  }
  const auto layers = static_cast<int>(info.layers.size());
  for (int layer = 0; layer < layers; ++layer) {
    if (progress) progress(static_cast<double>(layer) / layers);
    measure_layer(trace, layer, options.pairs, out);
  }
  for (auto& similarity : out.step_similarity) {
    similarity.cosine /= layers;
    similarity.shared_load /= layers;
  }
  add_checksums(out);
  return out;
}

}  // namespace moesim
