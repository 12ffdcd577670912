// SPDX-License-Identifier: Apache-2.0
#include "sim/import/counted_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/import/layer_numbering.h"

namespace moesim {
namespace {

/// Keeps some layers of a step. Throws Error if a layer that is left out has counts.
void keep_layers(CountedStep& step, const std::vector<int>& kept, const char* why,
                 const char* hint = "") {
  decltype(step.counts) counts;
  std::vector<int> places;
  for (std::size_t l = 0; l < step.counts.size(); ++l) {
    if (std::ranges::find(kept, static_cast<int>(l)) != kept.end()) {
      counts.push_back(std::move(step.counts[l]));
      places.push_back(static_cast<int>(l));
    } else if (!step.empty(l)) {
      throw error_in(step.where, fmt::format("layer {} {} but has counts", l, why), hint);
    }
  }
  step.counts = std::move(counts);
  step.places = std::move(places);
}

std::vector<int> counted_layers(const CountedStep& step) {
  std::vector<int> layers;
  for (std::size_t l = 0; l < step.counts.size(); ++l) {
    if (!step.empty(l)) layers.push_back(static_cast<int>(l));
  }
  return layers;
}

/// Throws Error for layers that neither --layers nor the model explains.
[[noreturn]] void refuse_layers(const CountedStep& step, const ImportOptions& options) {
  const std::string has =
      fmt::format("has {}, {} of them with counts,", counted(std::ssize(step.counts), "layer"),
                  counted_layers(step).size());
  if (!options.layers.empty()) {
    throw error_in(step.where,
                   fmt::format("{} but --layers names {}", has, fmt::join(options.layers, ", ")),
                   "--layers counts the file's layers from 0, or names those with counts");
  }
  throw error_in(step.where,
                 fmt::format("{} but the model has {}, {} of them with experts", has,
                             options.model_layers, options.moe_layers.size()),
                 "another model? or layers of multi-token prediction: leave them out of the file");
}

/// Whether a layer that is dense in the model has counts, if the file has a layer for each.
bool counts_dense_layers(const CountedStep& step, const ImportOptions& options) {
  for (const int layer : counted_layers(step)) {
    if (std::ranges::find(options.moe_layers, layer) == options.moe_layers.end()) return true;
  }
  return false;
}

}  // namespace

CountedStep of_moe_layers(CountedStep step, const ImportOptions& options) {
  const auto layers = std::ssize(step.counts);
  if (!step.layers.empty()) return step;
  if (!options.layers.empty()) {
    if (std::ssize(options.layers) == layers) return step;
    if (std::ranges::max(options.layers) >= layers) refuse_layers(step, options);
    keep_layers(step, options.layers, "is not one that --layers names");
    return step;
  }
  const auto moe = std::ssize(options.moe_layers);
  if (layers == options.model_layers) {
    keep_layers(step, options.moe_layers, "is dense in the model",
                "another model's, or without the dense layers and with those of multi-token "
                "prediction: 'mtp' of the model says how many");
    step.layers = options.moe_layers;
  } else if (moe > 0 && layers != moe && options.model_layers > 0) {
    refuse_layers(step, options);
  } else if (moe == 0 && step.of_all_layers) {
    const auto counted = counted_layers(step);
    keep_layers(step, counted, "has no counts");
    step.layers = counted;
  }
  return step;
}

void leave_out_mtp(CountedStep& step, ImportSink& sink) {
  const ImportOptions& options = sink.options();
  if (!step.layers.empty()) {
    if (options.mtp_layers == 0) return;
    const auto numbers = without_mtp(step.layers, options);
    const auto mtp = std::ranges::count(numbers, -1);
    if (mtp == 0 || numbers.back() >= 0) return;
    step.layers.resize(step.layers.size() - static_cast<std::size_t>(mtp));
    step.counts.resize(step.layers.size());
    sink.drop(mtp_rows, mtp);
    return;
  }
  const auto layers = std::ssize(step.counts), mtp = std::ptrdiff_t{options.mtp_layers};
  if (!options.layers.empty() || mtp == 0) return;
  if (step.counts.size() == options.moe_layers.size()) return;
  const bool of_moe = layers == std::ssize(options.moe_layers) + mtp &&
                      (layers != options.model_layers || counts_dense_layers(step, options));
  if (!of_moe && layers != options.model_layers + mtp) return;
  step.counts.resize(static_cast<std::size_t>(layers - mtp));
  sink.drop(mtp_rows, mtp);
}

}  // namespace moesim
