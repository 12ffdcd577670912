// SPDX-License-Identifier: Apache-2.0
#include "sim/import/import_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/base/most.h"
#include "sim/import/layer_choice.h"
#include "sim/trace/memory_step.h"
#include "sim/trace/trace_json.h"
#include "sim/trace/verify.h"

namespace moesim {
namespace {

/// Leading sequences of at least this many equal tokens are warm-up passes, not text.
constexpr std::int64_t dummy_pass = 8;

constexpr const char* not_experts =
    "ids beyond the experts are slots, shared experts, padding or another model's";

}  // namespace

void PendingStep::begin(std::int64_t number, const TraceInfo& info) {
  number_ = number;
  tokens_ = 0;
  top_k_ = info.top_k;
  width_ = id_width(info.experts);
  ids_.resize(info.layers.size());
  weights_.resize(info.layers.size());
  for (auto& layer : ids_) layer.clear();  // keeps its memory: steps are alike
  for (auto& layer : weights_) layer.clear();
  lengths_.clear();
  ranks_.clear();
  ranked_ = true;
}

std::uint8_t* PendingStep::grow(int layer, std::int64_t ids) {
  auto& bytes = ids_[static_cast<std::size_t>(layer)];
  const std::size_t before = bytes.size();
  bytes.resize(before + static_cast<std::size_t>(ids * width_));
  return bytes.data() + before;
}

void PendingStep::add_sequence(std::int32_t tokens, int source_rank) {
  lengths_.push_back(tokens);
  tokens_ += tokens;
  ranked_ = ranked_ && source_rank >= 0;
  if (ranked_) ranks_.insert(ranks_.end(), static_cast<std::size_t>(tokens), source_rank);
}

IdRows PendingStep::ids(int layer) const {
  return {ids_[static_cast<std::size_t>(layer)].data(), width_, top_k_, tokens_};
}

ImportSink::ImportSink(const ImportOptions& options, TraceWriter& writer, TraceProgress progress)
    : options_(options), writer_(writer), progress_(std::move(progress)) {}

int ImportSink::experts() const {
  if (options_.experts == 0) {
    throw Error("the number of experts is not known", "give --model or --experts");
  }
  return options_.experts;
}

void ImportSink::says_experts(int experts, const std::string& where) {
  if (experts < 1 || experts > max_experts) {
    throw error_in(where,
                   fmt::format("has {} experts; there are from 1 to {}", experts, max_experts));
  }
  if (options_.experts == 0) options_.experts = experts;
  if (options_.experts != experts) {
    throw error_in(where,
                   fmt::format("has {} experts but the flags say {}", experts, options_.experts),
                   "more experts than the model has are slots or shared experts");
  }
}

void ImportSink::says_top_k(std::int64_t top_k, const std::string& where) {
  if (top_k < 1 || top_k > max_experts) {
    throw error_in(where, fmt::format("has {} experts per token", top_k));
  }
  if (options_.top_k == 0) options_.top_k = static_cast<int>(top_k);
  if (options_.top_k != top_k) {
    throw error_in(
        where, fmt::format("has {} experts per token but top-k is {}", top_k, options_.top_k),
        top_k == options_.experts ? "counts of all experts? kind 'counts' reads these" : "");
  }
}

void ImportSink::progress(double done) const {
  if (progress_) progress_(std::min(done, 1.0));
}

std::int64_t ImportSink::step_tokens(const RoutedPass& pass) const {
  if (options_.step_tokens > 0) return options_.step_tokens;
  return pass.step ? std::numeric_limits<std::int64_t>::max() : default_step_tokens;
}

void ImportSink::begin(const RoutedPass& pass) {
  const LayerChoice choice = choose_layers(pass, options_);
  if (!begun_) {
    info_.experts = experts();
    info_.top_k = choice.top_k;
    if (info_.top_k > info_.experts) {
      throw error_in(pass.where, fmt::format("has {} choices per token of {} experts", info_.top_k,
                                             info_.experts));
    }
    info_.layers = choice.numbers;
    writer_.set_info(info_);
    begun_ = true;
  } else if (choice.numbers != info_.layers || choice.top_k != info_.top_k) {
    throw error_in(pass.where,
                   fmt::format("has {} choices of layers {} but those before have {} of layers {}",
                               choice.top_k, fmt::join(choice.numbers, ", "), info_.top_k,
                               fmt::join(info_.layers, ", ")));
  }
  layers_ = choice;
}

void ImportSink::add_phase(Phase phase) {
  phase_ = !phase_ || *phase_ == phase ? phase : Phase::mixed;
}

void ImportSink::check_shape(const RoutedPass& pass) const {
  if (!pass.ids.holds_integers()) {
    throw error_in(pass.ids.file(),
                   fmt::format("holds {}; ids are integers", pass.ids.values(0).type().name()));
  }
  std::int64_t sum = 0;
  for (const std::int32_t length : pass.lengths) sum += length;
  if (sum != pass.ids.tokens()) {
    throw error_in(pass.where, fmt::format("the sequences add up to {} tokens but the ids have {}",
                                           sum, pass.ids.tokens()));
  }
}

void ImportSink::add(const RoutedPass& pass) {
  check_shape(pass);
  if (pass.ids.tokens() == 0) return;
  if (options_.passes && pass.phase && *pass.phase != *options_.passes) {
    drop(fmt::format("of {} passes", to_string(*pass.phase)),
         pass.ids.tokens() * pass.ids.layers());
    return;
  }
  begin(pass);
  leave_out_mtp(pass);
  if (!layers_.dense.empty()) {
    drop("of dense layers", std::ssize(layers_.dense) * pass.ids.tokens());
  }
  if (pass.step && open_step_ != pass.step &&
      (options_.step_tokens == 0 || step_.tokens() >= options_.step_tokens)) {
    flush();
  }
  add_sequences(pass);
}

bool ImportSink::is_padding(const RoutedPass& pass, std::int64_t token) const {
  for (const std::int64_t l : layers_.taken) {
    for (int k = 0; k < layers_.top_k; ++k) {
      if (pass.ids.at(token, l, k) != -1) return false;
    }
  }
  return true;
}

bool ImportSink::same_choices(const RoutedPass& pass, std::int64_t a, std::int64_t b) const {
  for (const std::int64_t l : layers_.taken) {
    for (int k = 0; k < layers_.top_k; ++k) {
      if (pass.ids.at(a, l, k) != pass.ids.at(b, l, k)) return false;
    }
  }
  return true;
}

bool ImportSink::is_warm_up(const RoutedPass& pass, std::int64_t first, std::int64_t length) {
  if (!leading_ || !pass.warm_up_first) return false;
  if (is_padding(pass, first)) return leading_ = false;
  std::int64_t equal = 1;
  while (equal < length && same_choices(pass, first, first + equal)) ++equal;
  return leading_ = length >= dummy_pass && equal == length;
}

void ImportSink::add_sequences(const RoutedPass& pass) {
  std::int64_t first = 0, forgotten = 0;
  std::vector<std::int64_t> kept;  // of sequences that are not yet taken
  bool took = false;
  const auto layers = std::ssize(layers_.taken);
  for (const std::int32_t length : pass.lengths) {
    if (pass.progress)
      progress(static_cast<double>(first) / static_cast<double>(pass.ids.tokens()));
    const std::size_t before = kept.size();
    check_left_out(pass, layers_, first, length);
    if (is_warm_up(pass, first, length)) {
      drop("of leading passes of equal tokens (warm-up)", length * layers);
    } else {
      for (std::int64_t t = first; t < first + length; ++t) {
        if (is_padding(pass, t)) {
          drop("of padding (-1)", layers);
        } else {
          kept.push_back(t);
        }
      }
    }
    first += length;
    if (kept.size() == before) continue;
    took = true;
    if (step_.empty()) {
      open_step_ = pass.step;
      step_.begin(pass.step.value_or(last_number_ + 1), info_);
    }
    step_.add_sequence(static_cast<std::int32_t>(kept.size() - before), pass.source_rank);
    if (step_.tokens() < step_tokens(pass) || (pass.step && open_step_ == pass.step)) continue;
    take(pass, kept);
    kept.clear();
    flush();
    pass.ids.forget(forgotten, first - forgotten);
    forgotten = first;
  }
  if (!kept.empty()) take(pass, kept);
  if (pass.phase && took) add_phase(*pass.phase);
}

void ImportSink::take(const RoutedPass& pass, const std::vector<std::int64_t>& tokens) {
  const IdNarrower narrower(pass, layers_, info_.experts);
  const auto ids = std::ssize(tokens) * info_.top_k;
  std::vector<std::uint8_t*> rows;
  for (std::size_t l = 0; l < layers_.taken.size(); ++l) {
    rows.push_back(step_.grow(static_cast<int>(l), ids));
  }
  if (const auto bad = narrower.narrow(tokens, rows)) {
    throw error_in(pass.where,
                   fmt::format("layer {}, token {}: expert {} of a model with {} experts",
                               info_.layers[bad->layer], bad->token, bad->id, info_.experts),
                   not_experts);
  }
  check_taken(pass, tokens);
  take_weights(pass, tokens);
}

void ImportSink::check_taken(const RoutedPass& pass,
                             const std::vector<std::int64_t>& tokens) const {
  const auto count = std::ssize(tokens);
  for (std::size_t l = 0; l < info_.layers.size(); ++l) {
    const IdRows all = step_.ids(static_cast<int>(l));
    const auto* const end =
        static_cast<const std::uint8_t*>(all.data()) + all.tokens() * all.top_k() * all.width();
    const IdRows rows(end - count * all.top_k() * all.width(), all.width(), all.top_k(), count);
    const IdProblems found = check_ids(rows, info_.experts);
    if (found.repeated == 0) continue;
    throw error_in(pass.where,
                   fmt::format("layer {}, token {}: expert {} is chosen twice", info_.layers[l],
                               tokens[found.repeated_token], found.repeated_id),
                   "rows of equal ids are padding, a dense layer or one that was not recorded; "
                   "--model tells which layers are dense");
  }
}

void ImportSink::take_weights(const RoutedPass& pass, const std::vector<std::int64_t>& tokens) {
  const bool first = step_.ids(0).tokens() == std::ssize(tokens);
  if (!first && step_.has_weights() != pass.weights.has_value()) {
    throw error_in(pass.where, "some of its tokens have weights, others have none",
                   "complete them, or leave them out everywhere");
  }
  if (!pass.weights) return;
  for (std::size_t l = 0; l < layers_.taken.size(); ++l) {
    auto& weights = step_.weights(static_cast<int>(l));
    for (const std::int64_t t : tokens) {
      for (int k = 0; k < info_.top_k; ++k) {
        const double weight = pass.weights->real(t, layers_.taken[l], k) * pass.weight_scale;
        weights.push_back(static_cast<float>(weight));
        if (is_weight(weights.back())) continue;
        throw error_in(pass.where, fmt::format("token {}: {} is not a weight", t, weight));
      }
    }
  }
}

void ImportSink::flush() {
  if (step_.empty()) return;
  if (step_.number() <= last_number_) {
    throw Error(fmt::format("step {} comes after step {}", step_.number(), last_number_),
                "files of different recordings, or a file twice?");
  }
  last_number_ = step_.number();
  tokens_ += step_.tokens();
  sequences_ += std::ssize(step_.sequence_lengths());
  ++steps_;
  weighted_ = weighted_ || step_.has_weights();
  writer_.append_step(step_);
  step_.begin(last_number_ + 1, info_);
}

}  // namespace moesim
