// SPDX-License-Identifier: Apache-2.0
#include "sim/model/served_tokens.h"

#include <algorithm>
#include <cmath>

#include "sim/model/kernel.h"

namespace moesim {
namespace {

/// Sum over the new tokens of the keys that each sees.
double seen_keys(const SequenceStep& sequence, KeyRange range) {
  const std::int64_t tokens = std::int64_t{range.most} * range.ratio;  // that fill the range
  const auto sum_to = [](std::int64_t last) {
    return static_cast<double>(last) * static_cast<double>(last + 1) / 2;
  };
  const std::int64_t end = sequence.context + sequence.tokens;
  if (tokens == 0 || end <= tokens) {
    return (sum_to(end) - sum_to(sequence.context)) / range.ratio;
  }
  const std::int64_t first = std::min(end, std::max(sequence.context, tokens));
  const double growing = (sum_to(first) - sum_to(sequence.context)) / range.ratio;
  return growing + static_cast<double>(range.most) * static_cast<double>(end - first);
}

std::int64_t read_keys(const SequenceStep& sequence, KeyRange range) {
  const std::int64_t end = (sequence.context + sequence.tokens + range.ratio - 1) / range.ratio;
  return range.most == 0 ? end : std::min(end, range.most + sequence.tokens - 1);
}

}  // namespace

bool decodes(const SequenceStep& sequence) {
  return sequence.context > 0 && sequence.tokens < most_decode_tokens;
}

std::int64_t ServedTokens::tokens() const { return tokens_of(sequences); }

std::int64_t ServedTokens::head_tokens() const {
  if (logits >= 0) return logits;
  std::int64_t sum = 0;
  for (const SequenceStep& each : sequences) sum += (decodes(each) ? each.tokens : 1) * each.count;
  return sum;
}

AttendedTokens attended_tokens(const ServedTokens& served, bool decode, KeyRange range) {
  AttendedTokens all;
  double seen = 0;
  const std::int64_t parts = decode ? served.cp : 1;
  for (const SequenceStep& each : served.sequences) {
    if (decodes(each) != decode || each.tokens == 0) continue;
    all.sequences += each.count;
    all.queries += each.tokens * each.count;
    all.keys += (read_keys(each, range) + parts - 1) / parts * each.count;
    seen += seen_keys(each, range) * static_cast<double>(each.count);
  }
  if (all.queries == 0) return all;
  const double mean = seen / static_cast<double>(all.queries * parts);
  all.attended = std::max<std::int64_t>(1, std::llround(mean));
  return all;
}

}  // namespace moesim
