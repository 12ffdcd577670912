// SPDX-License-Identifier: Apache-2.0
#include "sim/import/logged_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "sim/base/error.h"
#include "sim/base/most.h"
#include "sim/import/count_limits.h"
#include "sim/import/layer_numbering.h"

namespace moesim {

void LoggedCounts::add(const TableRow& row) {
  const auto& known = sink_.options().known_layers();
  std::optional<std::int64_t> layer = row.layer;
  if (!layer && known.size() == 1) layer = known.front();
  if (!layer) layer = layer_of_file(row.file);
  if (!layer || *layer < 0 || *layer > max_layer_number) {
    throw error_in(row.file, "does not say the layer of its counts",
                   "--map layer=FIELD names it; --layers N where all rows are of layer N",
                   row.line);
  }
  const auto rank = row.rank ? row.rank : rank_;
  ranked_ = ranked_ || rank.has_value();
  const int dump = row.step ? 0 : dump_of({rank, row.phase}, static_cast<int>(*layer));
  const std::string step = fmt::format("{:020} {} {:010}", row.step.value_or(0), row.phase, dump);
  auto& counts = steps_[step][rank.value_or(0)][static_cast<int>(*layer)];
  where_ = row.file;
  if (row.experts.empty()) {
    for (std::size_t e = 0; e < row.counts.size(); ++e) {
      add_count(counts[static_cast<std::int64_t>(e)], row.counts[e], row);
    }
    longest_ = std::max(longest_, row.counts.size());
    return;
  }
  if (row.experts.size() != row.counts.size()) {
    throw error_in(row.file, "has other counts than experts", "", row.line);
  }
  for (std::size_t i = 0; i < row.counts.size(); ++i) {
    add_count(counts[row.experts[i]], row.counts[i], row);
  }
}

void LoggedCounts::hand_over() {
  if (longest_ > 0) check_expert_count(static_cast<std::int64_t>(longest_), sink_, where_);
  std::map<std::int64_t, std::size_t> sources;
  std::map<int, std::size_t> layers;
  for (const auto& [step, of_rank] : steps_) {
    for (const auto& [rank, of_layer] : of_rank) {
      sources.emplace(rank, 0);
      for (const auto& [layer, counts] : of_layer) layers.emplace(layer, 0);
    }
  }
  if (sink_.options().layers.empty()) leave_out_dense(layers);
  std::vector<int> numbers;
  for (const auto& [layer, unused] : layers) numbers.push_back(layer);
  if (sink_.options().layers.empty()) {
    numbers = numbered_layers(numbers, sink_.options(), where_);
  } else {
    numbers.clear();
  }
  std::vector<CountedStep> steps;
  for (const auto& [name, of_rank] : steps_) {
    const std::int64_t number = std::ssize(steps);
    CountedStep& step = steps.emplace_back();
    step.where = fmt::format("{}, step {}", where_, number);
    step.number = number;
    step.source = ranked_ ? CountedSource::rank : CountedSource::unknown;
    for (const auto& [layer, unused] : layers) {
      auto& its = step.counts.emplace_back();
      for (const auto& [rank, also_unused] : sources) {
        its.push_back(counts_of(of_rank, rank, layer));
      }
    }
    step.layers = numbers;
  }
  check_choices(steps);
  for (CountedStep& step : steps) add_counts(std::move(step), sink_);
}

bool LoggedCounts::has_tokens(int layer) const {
  for (const auto& [step, of_rank] : steps_) {
    for (const auto& [rank, of_layer] : of_rank) {
      const auto its = of_layer.find(layer);
      if (its == of_layer.end()) continue;
      for (const auto& [expert, count] : its->second) {
        if (count != 0) return true;
      }
    }
  }
  return false;
}

void LoggedCounts::leave_out_dense(std::map<int, std::size_t>& layers) const {
  const auto& moe = sink_.options().moe_layers;
  std::map<int, std::size_t> kept;
  for (const auto& layer : layers) {
    const bool in_model = std::ranges::find(moe, layer.first) != moe.end();
    if (in_model || has_tokens(layer.first)) kept.insert(layer);
  }
  if (!kept.empty()) layers = std::move(kept);
}

void LoggedCounts::add_count(std::int64_t& sum, std::int64_t count, const TableRow& row) {
  sum += count;
  if (std::abs(sum) <= most_count) return;
  throw error_in(row.file,
                 fmt::format("counts an expert {} times; at most {} can be", sum, most_count),
                 fewer_tokens_hint, row.line);
}

int LoggedCounts::dump_of(const Source& source, int layer) {
  Dumps& its = dumps_[source];
  if (its.file != file_ && (!source.first || its.layers.contains(layer))) {
    ++its.number;
    its.layers.clear();
  }
  its.file = file_;
  its.layers.insert(layer);
  return its.number;
}

void LoggedCounts::check_choices(const std::vector<CountedStep>& steps) {
  const int top_k = sink_.options().top_k;
  if (top_k < 2) return;
  for (const CountedStep& step : steps) {
    if (can_be_dealt(step, top_k)) continue;
    sink_.warn({Severity::warning, step.where, 0, 0,
                fmt::format("its counts are not of {} different experts a token: each choice is "
                            "taken for a token of its own, top-1",
                            top_k),
                "", "loads are as counted; the trace does not fit a model of another top-k"});
    return sink_.takes_choices_for_tokens();
  }
}

std::vector<std::int64_t> LoggedCounts::counts_of(const OfRank& of_rank, std::int64_t rank,
                                                  int layer) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(sink_.experts()));
  const auto of_layer = of_rank.find(rank);
  if (of_layer == of_rank.end()) return counts;
  const auto its = of_layer->second.find(layer);
  if (its == of_layer->second.end()) return counts;
  for (const auto& [expert, count] : its->second) {
    if (expert < 0 || expert >= std::ssize(counts)) {
      throw error_in(where_,
                     fmt::format("layer {}: counts expert {} of a model with {} experts", layer,
                                 expert, counts.size()),
                     "more than the model's are slots or shared experts");
    }
    counts[static_cast<std::size_t>(expert)] = count;
  }
  return counts;
}

}  // namespace moesim
