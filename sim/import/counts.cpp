// SPDX-License-Identifier: Apache-2.0
#include "sim/import/counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/most.h"
#include "sim/import/count_limits.h"
#include "sim/import/counted_layers.h"

namespace moesim {
namespace {

/// A small file of counts can ask for any number of choices, which take 2 bytes each in memory.
constexpr std::int64_t most_step_choices = 1 << 28;

/// A stride coprime to `tokens`, near 0.618 of them (the golden ratio).
std::int64_t golden_stride(std::int64_t tokens) {
  auto stride = static_cast<std::int64_t>(std::floor(static_cast<double>(tokens) * 0.6180339887));
  while (stride > 1 && std::gcd(stride, tokens) != 1) --stride;
  return std::max<std::int64_t>(stride, 1);
}

/// A layer as its file numbers it.
std::string layer_in(const CountedStep& step, std::size_t layer) {
  if (!step.layers.empty()) return fmt::format("layer {}", step.layers[layer]);
  return fmt::format("layer {} of the file",
                     step.places.empty() ? static_cast<int>(layer) : step.places[layer]);
}

[[noreturn]] void refuse_tokens(const CountedStep& step, const std::string& what) {
  throw error_in(step.where,
                 fmt::format("counts {}; at most {} tokens of a source can be in a step", what,
                             most_source_tokens),
                 fewer_tokens_hint);
}

/// The tokens of a source, each with top_k choices in every layer. Throws Error if counts disagree.
std::int64_t tokens_of(const CountedStep& step, std::size_t source, int top_k) {
  std::int64_t tokens = 0;
  for (std::size_t l = 0; l < step.counts.size(); ++l) {
    std::int64_t sum = 0;
    for (const std::int64_t n : step.counts[l][source]) {
      if (n < 0) throw error_in(step.where, fmt::format("source {} has a count of {}", source, n));
      if (n > most_count) refuse_tokens(step, fmt::format("an expert {} choices", n));
      sum += n;
    }
    const bool differs = l > 0 && sum != tokens * top_k;
    if (sum % top_k != 0 || differs) {
      throw error_in(
          step.where,
          fmt::format("the counts of source {} add up to {} in {}{}", source, sum,
                      layer_in(step, l),
                      differs ? fmt::format(" but to {} in the first layer", tokens * top_k)
                              : fmt::format(", not to whole tokens of {} choices", top_k)),
          l > 0 && tokens == 0 ? "are layers without counts dense? give --model, or --layers with "
                                 "the numbers of the others"
                               : "a layer dropped tokens, or its counts are of other passes");
    }
    tokens = sum / top_k;
  }
  if (tokens > most_source_tokens) refuse_tokens(step, counted(tokens, "token"));
  return tokens;
}

NpyArray deal_layer(const CountedStep& step, std::size_t layer, std::size_t source,
                    std::int64_t tokens, int top_k) {
  const std::int64_t stride = golden_stride(tokens);
  const auto ids =
      std::make_shared<std::vector<std::uint16_t>>(static_cast<std::size_t>(tokens * top_k));
  const auto& counts = step.counts[layer][source];
  std::int64_t token = 0, choice = 0, dealt = 0;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    if (counts[e] > tokens) {
      throw error_in(step.where,
                     fmt::format("{}: source {} has {}, but expert {} is chosen {}: more than once "
                                 "by some token",
                                 layer_in(step, layer), source, counted(tokens, "token"), e,
                                 counted(counts[e], "time")),
                     "with --top-k 1 each choice is a token, and loads stay the same");
    }
    for (std::int64_t n = 0; n < counts[e]; ++n) {
      (*ids)[token * top_k + choice] = static_cast<std::uint16_t>(e);
      token = (token + stride) % tokens;
      if (++dealt % tokens == 0) ++choice;
    }
  }
  return NpyArray::view({'u', 2}, {tokens, top_k}, std::as_bytes(std::span(*ids)), ids, step.where);
}

constexpr const char* repeats_hint =
    "ranks of a tensor-parallel group count the same tokens: give one";

/// Warns if ranks have equal counts, as ranks of a tensor-parallel group do.
void warn_of_repeats(const CountedStep& step, ImportSink& sink) {
  if (step.source != CountedSource::rank || step.empty() || sink.warned_of(repeats_hint)) return;
  const std::size_t sources = step.counts.front().size();
  const auto same = [&](std::size_t a, std::size_t b) {
    return std::ranges::all_of(step.counts,
                               [&](const auto& of_layer) { return of_layer[a] == of_layer[b]; });
  };
  for (std::size_t s = 1; s < sources; ++s) {
    if (!same(s, s - 1)) continue;
    return sink.warn({Severity::warning, step.where, 0, 0,
                      fmt::format("ranks {} and {} have the same counts in every layer", s - 1, s),
                      "", repeats_hint});
  }
}

}  // namespace

bool CountedStep::empty(std::size_t layer) const {
  return std::ranges::all_of(counts[layer], [](const auto& of_source) {
    return std::ranges::count(of_source, 0) == std::ssize(of_source);
  });
}

bool CountedStep::empty() const {
  for (std::size_t l = 0; l < counts.size(); ++l) {
    if (!empty(l)) return false;
  }
  return true;
}

bool can_be_dealt(const CountedStep& step, int top_k) {
  return std::ranges::all_of(step.counts, [&](const auto& sources) {
    return std::ranges::all_of(sources, [&](const auto& of_source) {
      const std::int64_t sum = std::accumulate(of_source.begin(), of_source.end(), std::int64_t{0});
      return sum % top_k == 0 &&
             std::ranges::all_of(of_source, [&](std::int64_t n) { return n <= sum / top_k; });
    });
  });
}

std::vector<RoutedPass> deal(const CountedStep& step, int top_k) {
  std::vector<RoutedPass> passes;
  const std::size_t sources = step.counts.empty() ? 0 : step.counts.front().size();
  std::int64_t dealt = 0;
  for (std::size_t source = 0; source < sources; ++source) {
    const std::int64_t tokens = tokens_of(step, source, top_k);
    if (tokens == 0) continue;
    dealt += tokens * top_k * std::ssize(step.counts);
    if (dealt > most_step_choices) {
      throw error_in(step.where,
                     fmt::format("counts more than {} choices in a step", most_step_choices),
                     "import some of its ranks or layers");
    }
    std::vector<NpyArray> layers;
    for (std::size_t l = 0; l < step.counts.size(); ++l) {
      layers.push_back(deal_layer(step, l, source, tokens, top_k));
    }
    RoutedPass pass{step.where, ChoiceTable(std::move(layers)), {}};
    if (step.source == CountedSource::unknown) {
      pass.lengths.assign(static_cast<std::size_t>(tokens), 1);
    } else {
      pass.lengths = {static_cast<std::int32_t>(tokens)};
    }
    if (step.source == CountedSource::rank) pass.source_rank = static_cast<int>(source);
    pass.layers = step.layers;
    pass.step = step.number;
    pass.warm_up_first = false;
    passes.push_back(std::move(pass));
  }
  return passes;
}

void add_counts(CountedStep step, ImportSink& sink) {
  const ImportOptions& options = sink.options();
  if (options.top_k == 0) throw Error("counts do not contain top-k", "give --model or --top-k");
  leave_out_mtp(step, sink);
  step = of_moe_layers(std::move(step), options);
  sink.keep_only_counts();
  warn_of_repeats(step, sink);
  for (const RoutedPass& pass : deal(step, options.top_k)) sink.add(pass);
}

std::int64_t count_at(const NpyArray& array, std::int64_t i) {
  if (array.type().is_integer()) return array.integer(i);
  const double value = array.real(i);
  if (!(value >= 0 && value < 1e15 &&
        value == static_cast<double>(static_cast<std::int64_t>(value)))) {
    throw error_in(array.file(), fmt::format("holds {}, which is not a count", value));
  }
  return static_cast<std::int64_t>(value);
}

void check_expert_count(std::int64_t found, ImportSink& sink, const std::string& where) {
  if (sink.options().experts == 0 && found <= max_experts) {
    sink.says_experts(static_cast<int>(found), where);
  }
  if (found > max_experts) {
    throw error_in(where,
                   fmt::format("has counts of {} experts; at most {} can be", found, max_experts),
                   counts_hint);
  }
  if (found == sink.experts()) return;
  throw error_in(
      where, fmt::format("has counts of {} experts but the model has {}", found, sink.experts()),
      found < sink.experts() ? "experts are the last axis: is the array transposed?"
                             : "counts of slots or of shared experts are among them");
}

}  // namespace moesim
