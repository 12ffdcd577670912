// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/trace/statistics.h"
#include "sim/trace/trace_json.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// 1234567 -> "1,234,567".
std::string grouped(std::int64_t n) {
  const std::string digits = fmt::format("{}", n);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string row(const std::string& name, const std::string& value) {
  return fmt::format("{:<24}{}\n", name, value);
}

std::string source_ranks_text(const std::vector<std::int64_t>& tokens) {
  if (tokens.empty()) return "not recorded";
  const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
  return fmt::format("{}, {} to {} tokens each", tokens.size(), grouped(*least), grouped(*most));
}

std::string similarity_text(const std::vector<StepSimilarity>& steps) {
  double cosine = 0, shared = 0;
  for (const auto& s : steps) cosine += s.cosine, shared += s.shared_load;
  const double n = static_cast<double>(steps.size());
  return fmt::format("cosine {:.4f}, shared load {:.4f} (mean of {} pairs)", cosine / n, shared / n,
                     steps.size());
}

Json json_of(const PerLayer& measure) {
  return {{"mean", measure.mean()}, {"max", measure.max()}, {"layers", measure.layers}};
}

Json json_of(const RankStatistics& ranks) {
  return {{"ranks", ranks.ranks},
          {"distinct_ranks", ranks.distinct_ranks},
          {"rank_max_over_mean", json_of(ranks.rank_max_over_mean)}};
}

}  // namespace

std::string statistics_text(const RoutingTrace& trace, const TraceStatistics& s) {
  const TraceInfo& info = trace.info();
  const bool weights = trace.step_count() > 0 && trace.step(0).has_weights();
  std::string out;
  out += row("trace", info.name);
  out += row("model", info.model);
  out += row("phase", to_string(info.phase));
  out += row("experts", fmt::format("{}, top-{}, logical ids", info.experts, info.top_k));
  out += row("layers", layers_text(info.layers));
  out += row("steps", fmt::format("{} (numbers {} to {})", s.steps, trace.step(0).number(),
                                  trace.step(trace.step_count() - 1).number()));
  out += row("tokens", grouped(s.tokens));
  out += row("sequences",
             fmt::format("{} ({} to {}, median {})", grouped(s.sequences), s.shortest_sequence,
                         counted(s.longest_sequence, "token"), s.median_sequence));
  out += row("source ranks", source_ranks_text(s.tokens_of_source_rank));
  out += row("gate weights", weights ? "recorded" : "not recorded");
  out += row("hash", trace.hash());
  out += row("counts crc32, fnv1a64", s.counts_crc32 + " " + s.counts_fnv1a64);
  out += "\n";
  out += row("expert max/mean",
             fmt::format("{:.4f} (largest layer {:.4f})", s.expert_max_over_mean.mean(),
                         s.expert_max_over_mean.max()));
  out += row("expert load CV", fmt::format("{:.4f}", s.expert_load_cv.mean()));
  if (s.sequences < s.tokens) {
    out += row(
        "previous-token overlap",
        fmt::format("{:.4f} (uniform {:.4f})", s.previous_token_overlap.mean(), s.uniform_overlap));
  }
  if (!s.step_similarity.empty()) out += row("between steps", similarity_text(s.step_similarity));
  if (info.top_k > 1) {
    out += row("strongest 1 % of pairs",
               fmt::format("hold {:.2f} % of all pairs", 100 * s.top_pairs_share.mean()));
  }
  for (const auto& pair : s.strongest_pairs) {
    out += row("  pair", fmt::format("layer {}: {} and {} in {:.2f} % of tokens, lift {:.2f}",
                                     pair.layer, pair.a, pair.b, 100 * pair.share, pair.lift));
  }
  if (s.ranks.empty()) return out;
  out += fmt::format("\n{:>6}  {:>14}  {:>13}  {:>13}\n", "ranks", "distinct ranks",
                     "rank max/mean", "largest layer");
  for (const auto& r : s.ranks) {
    out += fmt::format("{:>6}  {:>14.4f}  {:>13.4f}  {:>13.4f}\n", r.ranks, r.distinct_ranks,
                       r.rank_max_over_mean.mean(), r.rank_max_over_mean.max());
  }
  return out;
}

std::string statistics_json(const RoutingTrace& trace, const TraceStatistics& s) {
  const TraceInfo& info = trace.info();
  Json out = {
      {"trace", info.name},
      {"hash", trace.hash()},
      {"model", info.model},
      {"phase", to_string(info.phase)},
      {"experts", info.experts},
      {"top_k", info.top_k},
      {"layers", info.layers},
      {"steps", s.steps},
      {"tokens", s.tokens},
      {"sequences", s.sequences},
      {"sequence_length",
       {{"min", s.shortest_sequence}, {"median", s.median_sequence}, {"max", s.longest_sequence}}},
      {"tokens_of_source_rank", s.tokens_of_source_rank},
      {"counts_crc32", s.counts_crc32},
      {"counts_fnv1a64", s.counts_fnv1a64},
      {"expert_max_over_mean", json_of(s.expert_max_over_mean)},
      {"expert_load_cv", json_of(s.expert_load_cv)},
      {"previous_token_overlap", json_of(s.previous_token_overlap)},
      {"uniform_overlap", s.uniform_overlap},
      {"top_pairs_share", json_of(s.top_pairs_share)},
      {"strongest_pairs", Json::array()},
      {"ranks", Json::array()},
      {"step_similarity", Json::array()},
      {"counts", s.counts}};
  for (const auto& p : s.strongest_pairs) {
    out["strongest_pairs"].push_back({{"layer", p.layer},
                                      {"experts", {p.a, p.b}},
                                      {"tokens", p.tokens},
                                      {"share", p.share},
                                      {"lift", p.lift}});
  }
  for (const auto& r : s.ranks) out["ranks"].push_back(json_of(r));
  for (const auto& p : s.step_similarity) {
    out["step_similarity"].push_back(
        {{"from", p.from}, {"to", p.to}, {"cosine", p.cosine}, {"shared_load", p.shared_load}});
  }
  return out.dump(1) + "\n";
}

}  // namespace moesim
