// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/import/counts.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "sim/base/error.h"

namespace moesim {
namespace {

std::int64_t spread_of(std::int64_t tokens) {
  auto stride = static_cast<std::int64_t>(std::floor(static_cast<double>(tokens) * 0.6180339887));
  while (stride > 1 && std::gcd(stride, tokens) != 1) --stride;
  return std::max<std::int64_t>(stride, 1);
}

/// The tokens of a source, of which every layer has top_k choices each.
std::int64_t tokens_of(const CountedStep& step, std::size_t source, int top_k) {
  std::int64_t tokens = 0;
  for (std::size_t l = 0; l < step.counts.size(); ++l) {
    std::int64_t sum = 0;
    for (const std::int64_t n : step.counts[l][source]) {
      if (n < 0 || n > std::int64_t{1} << 40) {
        throw error_in(step.where, fmt::format("source {} has a count of {}", source, n));
      }
      sum += n;
    }
    if (sum % top_k != 0 || (l > 0 && sum != tokens * top_k)) {
      throw error_in(step.where,
                     fmt::format("the counts of source {} add up to {} in layer {} of the file, "
                                 "{} in the first: no whole tokens of {} choices",
                                 source, sum, l, l > 0 ? tokens * top_k : sum, top_k),
                     "layers that dropped tokens, or counts over different passes");
    }
    tokens = sum / top_k;
  }
  if (tokens > std::int64_t{1} << 30) throw error_in(step.where, "counts too many tokens");
  return tokens;
}

NpyArray deal_layer(const CountedStep& step, std::size_t layer, std::size_t source,
                    std::int64_t tokens, int top_k) {
  const std::int64_t stride = spread_of(tokens);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * top_k));
  const auto& counts = step.counts[layer][source];
  std::int64_t token = 0, choice = 0, dealt = 0;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    if (counts[e] > tokens) {
      throw error_in(step.where, fmt::format("source {} has {} tokens but expert {} is chosen {} "
                                             "times in layer {} of the file",
                                             source, tokens, e, counts[e], layer));
    }
    for (std::int64_t n = 0; n < counts[e]; ++n) {
      ids[token * top_k + choice] = static_cast<std::int32_t>(e);
      token = (token + stride) % tokens;
      if (++dealt % tokens == 0) ++choice;
    }
  }
  return NpyArray::of(std::move(ids), {tokens, top_k}, step.where);
}

}  // namespace

std::vector<RoutedPass> deal(const CountedStep& step, int top_k) {
  std::vector<RoutedPass> passes;
  const std::size_t sources = step.counts.empty() ? 0 : step.counts.front().size();
  for (std::size_t source = 0; source < sources; ++source) {
    const std::int64_t tokens = tokens_of(step, source, top_k);
    if (tokens == 0) continue;
    std::vector<NpyArray> layers;
    for (std::size_t l = 0; l < step.counts.size(); ++l) {
      layers.push_back(deal_layer(step, l, source, tokens, top_k));
    }
    RoutedPass pass{step.where, ChoiceTable(std::move(layers)), {}};
    if (step.sources_known) {
      pass.lengths = {static_cast<std::int32_t>(tokens)};
      pass.source_rank = static_cast<int>(source);
    } else {
      pass.lengths.assign(static_cast<std::size_t>(tokens), 1);
    }
    pass.layers = step.layers;
    pass.step = step.number;
    pass.warm_up_first = false;
    passes.push_back(std::move(pass));
  }
  return passes;
}

}  // namespace moesim
