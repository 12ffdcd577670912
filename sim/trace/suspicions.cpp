// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/suspicions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/figures.h"
#include "sim/trace/id_counts.h"

namespace moesim {
namespace {

/// Sequences and ranks of fewer tokens may be alike by chance, in a trace of few layers at least.
constexpr std::int64_t long_enough = 8;

/// A set of experts that so many of a step's tokens share in all layers is not text's.
constexpr double common_share = 0.02;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ hash >> 29;
}

/// Hashes: for every token, a number of its choices in all layers; and one of every layer.
struct StepHashes {
  std::vector<std::uint64_t> tokens, layers;
};

StepHashes hashes_of(const TraceStep& step, int layers) {
  StepHashes hashes{std::vector<std::uint64_t>(static_cast<std::size_t>(step.tokens())), {}};
  for (int l = 0; l < layers; ++l) {
    const IdRows rows = step.ids(l);
    std::uint64_t& layer = hashes.layers.emplace_back();
    for (std::int64_t t = 0; t < rows.tokens(); ++t) {
      std::uint64_t row = 0;  // a set: its order may be by weight
      for (int k = 0; k < rows.top_k(); ++k)
        row += mixed(7, static_cast<std::uint64_t>(rows.at(t, k)));
      layer = mixed(layer, row);
      hashes.tokens[t] = mixed(hashes.tokens[t], row);
    }
  }
  return hashes;
}

class Inspection {
 public:
  Inspection(const RoutingTrace& trace, const SuspicionOptions& options)
      : trace_(trace),
        info_(trace.info()),
        options_(options),
        counts_(info_.layers.size(), std::vector<std::uint32_t>(info_.experts)) {}

  std::vector<std::string> run(const TraceProgress& progress) {
    against_model();
    for (int s = 0; s < trace_.step_count(); ++s) {
      if (progress) progress(static_cast<double>(s) / trace_.step_count());
      look_at(trace_.step(s));
    }
    say(dummy_tokens_,
        "{} tokens are of sequences whose tokens all choose the same: warm-up, "
        "profiling or graph capture");
    say(repeated_sequences_,
        "{} sequences repeat another one of their step: duplicated ranks, or "
        "the same request");
    say(repeated_ranks_,
        "{} source ranks repeat another one of their step: ranks of a "
        "tensor-parallel group");
    say(alike_layers_,
        "{} times a layer has the very choices of the one before it: the recorder "
        "did not tell layers apart");
    say(ascending_steps_,
        "{} steps have tokens in the order of their experts in every layer: rows made up from "
        "counts, which tell nothing of a token's other layers");
    if (common_ > common_share) {
      found_.push_back(
          fmt::format("{:.1f} % of a step's tokens choose the same experts in all "
                      "layers: padding or dummy tokens",
                      common_ * 100));
    }
    loads();
    steps();
    return std::move(found_);
  }

 private:
  void say(std::int64_t count, fmt::format_string<std::int64_t&> text) {
    if (count > 0) found_.push_back(fmt::format(text, count));
  }

  void against_model() {
    if (!options_.model) return;
    const ExpectedModel& model = *options_.model;
    if (info_.experts > model.experts) {
      found_.push_back(
          fmt::format("{} experts where {} has {}: ids of slots, or shared experts "
                      "among them",
                      info_.experts, model.name, model.experts));
    } else if (info_.experts < model.experts) {
      found_.push_back(
          fmt::format("{} experts where {} has {}", info_.experts, model.name, model.experts));
    }
    if (info_.top_k != model.top_k) {
      found_.push_back(
          fmt::format("top-{} where {} has top-{}", info_.top_k, model.name, model.top_k));
    }
    std::vector<int> missing;
    std::ranges::set_difference(model.moe_layers, info_.layers, std::back_inserter(missing));
    if (!missing.empty()) {
      found_.push_back(fmt::format("{} of {}'s {} MoE layers are missing, the first is {}",
                                   missing.size(), model.name, model.moe_layers.size(),
                                   missing.front()));
    }
  }

  /// Whether a later token seldom has a lower first expert than the one before it.
  static bool ascends(const IdRows& rows) {
    std::int64_t descents = 0;
    for (std::int64_t t = 1; t < rows.tokens(); ++t) {
      descents += rows.at(t, 0) < rows.at(t - 1, 0) ? 1 : 0;
    }
    return rows.tokens() >= 100 && descents * 100 < rows.tokens();
  }

  void look_at(const TraceStep& step) {
    const int layers = static_cast<int>(info_.layers.size());
    for (int l = 0; l < layers; ++l) {
      count_ids(step.ids(l), 0, step.tokens(), counts_[static_cast<std::size_t>(l)]);
    }
    if (info_.counts_alone) return;  // rows mean nothing
    bool ascending = layers > 0;
    for (int l = 0; ascending && l < layers; ++l) ascending = ascends(step.ids(l));
    ascending_steps_ += ascending ? 1 : 0;
    const StepHashes hashes = hashes_of(step, layers);
    for (std::size_t l = 1; step.tokens() >= long_enough && l < hashes.layers.size(); ++l) {
      alike_layers_ += hashes.layers[l] == hashes.layers[l - 1] ? 1 : 0;
    }
    sequences(step, hashes.tokens);
    ranks(step, hashes.tokens);
    common(hashes.tokens);
  }

  void sequences(const TraceStep& step, const std::vector<std::uint64_t>& tokens) {
    std::map<std::pair<std::int64_t, std::uint64_t>, int> seen;  // by length and content
    std::int64_t first = 0;
    for (const std::int32_t length : step.sequence_lengths()) {
      std::uint64_t all = 0;
      bool equal = true;
      for (std::int64_t t = first; t < first + length; ++t) {
        all = mixed(all, tokens[t]);
        equal = equal && tokens[t] == tokens[first];
      }
      first += length;
      if (length < long_enough) continue;
      if (equal) {
        dummy_tokens_ += length;
      } else if (seen[{length, all}]++ > 0) {
        ++repeated_sequences_;
      }
    }
  }

  void ranks(const TraceStep& step, const std::vector<std::uint64_t>& tokens) {
    if (!step.has_source_ranks()) return;
    std::map<int, std::pair<std::int64_t, std::uint64_t>> of_rank;  // tokens and content
    for (std::int64_t t = 0; t < step.tokens(); ++t) {
      auto& [count, all] = of_rank[step.source_rank(t)];
      ++count;
      all = mixed(all, tokens[t]);
    }
    std::map<std::pair<std::int64_t, std::uint64_t>, int> seen;
    for (const auto& [rank, content] : of_rank) {
      if (content.first >= long_enough && seen[content]++ > 0) ++repeated_ranks_;
    }
  }

  void common(std::vector<std::uint64_t> tokens) {
    std::ranges::sort(tokens);
    std::int64_t run = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      run = i > 0 && tokens[i] == tokens[i - 1] ? run + 1 : 1;
      if (run < long_enough) continue;
      common_ = std::max(common_, static_cast<double>(run) / static_cast<double>(tokens.size()));
    }
  }

  /// What the loads of a layer say: experts that nobody or everybody chose, and loads more even
  /// than independent choices give, whose variance is their mean.
  void loads() {
    const double tokens = static_cast<double>(trace_.total_tokens());
    std::int64_t unused = 0, everybodys = 0, even = 0;
    for (const auto& counts : counts_) {
      const double mean = tokens * info_.top_k / info_.experts;
      double squares = 0;
      for (const std::uint32_t n : counts) {
        squares += (n - mean) * (n - mean);
        if (mean >= 20) unused += n == 0 ? 1 : 0;
        if (info_.top_k < info_.experts && tokens >= 100) everybodys += n > 0.999 * tokens ? 1 : 0;
      }
      if (mean >= 20 && squares / info_.experts < mean / 20) ++even;
    }
    const auto layers = std::ssize(counts_);
    if (unused > 0) {
      found_.push_back(
          fmt::format("{} of {} experts were never chosen: ranks whose tokens are "
                      "missing, or routing that was forced",
                      unused, layers * info_.experts));
    }
    if (everybodys > 0) {
      found_.push_back(
          fmt::format("{} experts are chosen by every token: shared experts, or "
                      "columns that were not filled",
                      everybodys));
    }
    if (even > 0) {
      found_.push_back(
          fmt::format("{} of {} layers have loads more even than chance: routing that "
                      "was forced to balance",
                      even, layers));
    }
  }

  void steps() {
    if (trace_.step_count() > options_.interval) return;
    found_.push_back(fmt::format("{}: a planner that first plans after {} never does",
                                 counted(trace_.step_count(), "step"), options_.interval));
  }

  const RoutingTrace& trace_;
  const TraceInfo& info_;
  const SuspicionOptions& options_;
  std::vector<std::vector<std::uint32_t>> counts_;  // [layer][expert]
  std::vector<std::string> found_;
  std::int64_t dummy_tokens_ = 0, repeated_sequences_ = 0, repeated_ranks_ = 0, alike_layers_ = 0;
  std::int64_t ascending_steps_ = 0;
  double common_ = 0;  // largest share of a step's tokens with the same choices
};

}  // namespace

std::vector<std::string> suspicions(const RoutingTrace& trace, const SuspicionOptions& options,
                                    const TraceProgress& progress) {
  return Inspection(trace, options).run(progress);
}

}  // namespace moesim
