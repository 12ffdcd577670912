// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/serving_spec.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "sim/model/served_tokens.h"

namespace moesim {

const std::vector<std::string> serving_overlap_names = {"none", "two-batch", "three-batch",
                                                        "single-batch"};
const std::vector<std::string> kv_type_names = {"bf16", "fp8"};

const std::vector<SequenceStep>& ServingSpec::of_rank(int rank) const {
  static const std::vector<SequenceStep> none;
  if (!attends(rank)) return none;
  return batch.ranks.size() == 1 ? batch.ranks.front()
                                 : batch.ranks[static_cast<std::size_t>(rank)];
}

std::int64_t ServingSpec::most_sequences() const {
  std::int64_t most = 0;
  for (const auto& list : batch.ranks) most = std::max(most, sequences_of(list));
  return most;
}

std::int64_t ServingSpec::least_tokens() const {
  if (batch.ranks.empty()) return 0;
  const auto attending = std::min<std::ptrdiff_t>(
      std::ssize(batch.ranks), attention_ranks == 0 ? std::ssize(batch.ranks) : attention_ranks);
  std::int64_t least = tokens_of(batch.ranks.front());
  for (const auto& list : batch.ranks | std::views::take(attending)) {
    least = std::min(least, tokens_of(list));
  }
  return least;
}

int ServingSpec::turns() const {
  const int parts = parts_of_overlap();
  if (parts == 1 || most_sequences() < 2) return 1;
  const std::int64_t from = all_decode(batch) ? overlap_from.decode : overlap_from.prompts;
  return least_tokens() < from ? 1 : parts;
}

bool ServingSpec::in_graph() const {
  if (!graphs || pad.empty()) return graphs;
  const int parts = turns();
  return std::ranges::all_of(batch.ranks, [&](const auto& list) {
    for (int part = 0; part < parts; ++part) {
      if (tokens_of(part_of(list, part, parts)) > pad.back()) return false;
    }
    return true;
  });
}

bool any_decodes(const ServingBatch& batch) {
  return std::ranges::any_of(batch.ranks,
                             [](const auto& list) { return std::ranges::any_of(list, decodes); });
}

bool all_decode(const ServingBatch& batch) {
  return std::ranges::all_of(batch.ranks,
                             [](const auto& list) { return std::ranges::all_of(list, decodes); });
}

std::int64_t tokens_of(const ServingSpec& spec, int ranks) {
  std::int64_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += tokens_of(spec.of_rank(r));
  return sum;
}

std::int64_t sequences_of(const ServingSpec& spec, int ranks) {
  std::int64_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += sequences_of(spec.of_rank(r));
  return sum;
}

std::vector<BatchPart> parts_of(const ServingSpec& spec, bool drafts) {
  const int halves = spec.turns();
  std::vector<BatchPart> parts;
  for (int half = 0; half < halves; ++half) parts.push_back({PartRuns::model, half, halves});
  for (int draft = 0; drafts && draft < spec.drafts; ++draft) {
    const PartRuns runs = draft == 0 ? PartRuns::first_draft : PartRuns::next_draft;
    parts.push_back({.runs = runs, .draft = draft});
  }
  return parts;
}

std::vector<SequenceStep> list_of(const ServingSpec& spec, int rank, const BatchPart& part) {
  std::vector<SequenceStep> list = part_of(spec.of_rank(rank), part.half, part.halves);
  if (part.runs == PartRuns::next_draft) {
    for (SequenceStep& each : list) {
      each.context += each.tokens + part.draft - 1;
      each.tokens = 1;
    }
  }
  return padded(std::move(list), spec.pad);
}

std::vector<SequenceStep> part_of(const std::vector<SequenceStep>& list, int i, int parts) {
  if (parts == 1) return list;
  const std::int64_t tokens = tokens_of(list);
  const std::int64_t begin = tokens * i / parts, end = tokens * (i + 1) / parts;
  std::vector<SequenceStep> part;
  std::int64_t before = 0;
  for (const SequenceStep& each : list) {
    // A sequence belongs to the part in which it begins.
    const auto first_from = [&](std::int64_t at) {
      return std::clamp<std::int64_t>((at - before + each.tokens - 1) / each.tokens, 0, each.count);
    };
    const std::int64_t first = first_from(begin), last = first_from(end);
    before += each.tokens * each.count;
    if (first >= last) continue;
    SequenceStep some = each;
    some.count = last - first;
    part.push_back(some);
  }
  return part;
}

std::vector<SequenceStep> padded(std::vector<SequenceStep> list,
                                 const std::vector<std::int64_t>& sizes) {
  const std::int64_t tokens = tokens_of(list);
  const auto size = std::ranges::lower_bound(sizes, tokens);
  if (tokens == 0 || size == sizes.end() || !std::ranges::all_of(list, decodes)) return list;
  if (*size > tokens) list.push_back({.context = 1, .tokens = 1, .count = *size - tokens});
  return list;
}

}  // namespace moesim
