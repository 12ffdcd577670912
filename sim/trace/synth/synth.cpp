// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/most.h"
#include "sim/base/ordering.h"
#include "sim/trace/synth/fit.h"
#include "sim/trace/writer.h"

namespace moesim {
namespace {

/// Random streams of one seed: of layers, and of the draws of a step and layer.
constexpr std::uint64_t layer_stream = 1;
constexpr std::uint64_t drift_stream = std::uint64_t{1} << 32;
constexpr std::uint64_t draw_stream = std::uint64_t{1} << 33;

/// `communities` sets of experts whose sizes differ by one at most, dealt at random.
std::vector<int> deal(int experts, int communities, Random& random) {
  std::vector<int> order(experts);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  }
  std::vector<int> community(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    community[order[i]] = static_cast<int>(i) % communities;
  }
  return community;
}

std::string provenance(const SynthOptions& o, const RoutingTrace* recorded) {
  nlohmann::ordered_json json = {{"synthesized", true}, {"seed", o.seed}, {"drift", o.drift}};
  if (recorded != nullptr) {
    json["fitted_to"] = {{"name", recorded->info().name}, {"hash", recorded->hash()}};
  } else {
    json["skew"] = o.skew;
    json["affinity"] = o.affinity;
    json["communities"] = o.communities;
    json["stickiness"] = o.stickiness;
    json["groups"] = o.groups;
    json["kept_groups"] = o.kept_groups;
  }
  return json.dump();
}

TraceInfo trace_info(const SynthOptions& o, const RoutingTrace* recorded) {
  return {o.name, o.model, o.experts, o.top_k, o.layers, Phase::synthetic, provenance(o, recorded)};
}

void check_range(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return;
  throw Error(fmt::format("{} is {}; it is from {} to {}", name, value, low, high));
}

}  // namespace

void check_shape(const SynthOptions& o) {
  check_range("experts", o.experts, 1, max_experts);
  check_range("top-k", o.top_k, 1, o.experts);
  check_range("layers", static_cast<double>(o.layers.size()), 1, 100000);
  check_range("tokens", static_cast<double>(o.tokens), 1, std::numeric_limits<std::int32_t>::max());
  check_range("sequences", o.sequences, 1, static_cast<double>(o.tokens));
  check_range("steps", o.steps, 1, 99999999);
}

std::vector<std::int32_t> even_lengths(std::int64_t tokens, int sequences) {
  std::vector<std::int32_t> lengths;
  for (int s = 0; s < sequences; ++s) {
    lengths.push_back(static_cast<std::int32_t>(tokens / sequences + (s < tokens % sequences)));
  }
  return lengths;
}

Synthesis::Synthesis(const SynthOptions& options) : options_(options) {
  if (options_.communities == 0) options_.communities = std::max(1, options_.experts / 8);
  check();
  info_ = trace_info(options_, nullptr);
  for (int i = 0; i < static_cast<int>(options_.layers.size()); ++i) {
    layers_.push_back(invented_layer(i));
  }
}

Synthesis::Synthesis(const SynthOptions& options, const RoutingTrace& recorded,
                     const TraceProgress& progress)
    : options_(options) {
  options_.experts = recorded.info().experts;
  options_.top_k = recorded.info().top_k;
  options_.layers = recorded.info().layers;
  options_.model = recorded.info().model;
  options_.communities = 1;
  if (options_.skew != 0 || options_.affinity != 0 || options_.stickiness != 0 ||
      options_.groups != 1) {
    throw Error("a fitted trace has the skew, affinity, stickiness and groups of the recorded one",
                "leave them out, or leave out --fit");
  }
  check();
  info_ = trace_info(options_, &recorded);
  for (int i = 0; i < static_cast<int>(options_.layers.size()); ++i) {
    if (progress) progress(static_cast<double>(i) / static_cast<double>(options_.layers.size()));
    layers_.push_back(fitted_layer(i, recorded));
  }
}

void Synthesis::check() const {
  const SynthOptions& o = options_;
  check_shape(o);
  check_range("skew", o.skew, 0, 10);
  check_range("affinity", o.affinity, 0, 1);
  check_range("communities", o.communities, 1, o.experts);
  check_range("stickiness", o.stickiness, 0, 1);
  check_range("drift", o.drift, 0, 1);
  check_range("groups", o.groups, 1, o.experts);
  check_range("kept-groups", o.kept_groups, 1, o.groups);
  if (o.experts % o.groups != 0) {
    throw Error(fmt::format("{} experts do not make {} equal groups", o.experts, o.groups));
  }
  if (o.kept_groups * (o.experts / o.groups) < o.top_k) {
    throw Error(fmt::format("{} kept groups hold {} experts, fewer than top-k {}", o.kept_groups,
                            o.kept_groups * (o.experts / o.groups), o.top_k));
  }
}

Synthesis::Layer Synthesis::invented_layer(int index) const {
  Random random(options_.seed, layer_stream, static_cast<std::uint64_t>(index));
  Layer layer;
  layer.model.top_k = options_.top_k;
  layer.model.stickiness = options_.stickiness;
  layer.model.affinity = options_.affinity;
  layer.model.groups = options_.groups;
  layer.model.kept_groups = options_.kept_groups;
  for (int i = 1; i <= options_.experts; ++i) {
    layer.profile.push_back(options_.skew == 0 ? 1 : portable_pow(i, -options_.skew));
    layer.latent.push_back(random.normal());
  }
  normalise(layer.profile);
  layer.community = deal(options_.experts, options_.communities, random);
  return layer;
}

Synthesis::Layer Synthesis::fitted_layer(int index, const RoutingTrace& recorded) const {
  Random random(options_.seed, layer_stream, static_cast<std::uint64_t>(index));
  Layer layer;
  layer.model =
      fit_layer(recorded, index, std::max<std::int64_t>(1, options_.tokens / options_.sequences))
          .model;
  layer.profile = layer.model.popularity;
  std::sort(layer.profile.begin(), layer.profile.end(), std::greater<>());
  std::vector<double> latent;
  for (int e = 0; e < options_.experts; ++e) latent.push_back(random.normal());
  std::sort(latent.begin(), latent.end(), std::greater<>());
  layer.latent.resize(latent.size());
  const auto order = descending<int>(layer.model.popularity);
  for (std::size_t i = 0; i < order.size(); ++i) {
    layer.latent[order[i]] = latent[i];
  }
  return layer;
}

/// A stationary random walk: the latent values stay standard normal, so the skew stays while the
/// popular experts change.
void Synthesis::drift(Layer& layer, Random& random) const {
  if (options_.drift == 0) return;
  const double stay = std::sqrt(1 - options_.drift * options_.drift);
  for (double& z : layer.latent) z = stay * z + options_.drift * random.normal();
}

ChoiceModel Synthesis::model_of(const Layer& layer) const {
  ChoiceModel model = layer.model;
  const auto order = descending<int>(layer.latent);
  std::vector<double> popularity(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    popularity[order[i]] = layer.profile[i];
  }
  if (layer.community.empty()) {  // fitted: partners follow the change of popularity
    for (auto& row : model.partners) {
      for (std::size_t e = 0; e < row.size(); ++e) {
        if (row[e] > 0) row[e] *= popularity[e] / model.popularity[e];
      }
      normalise(row);
    }
  } else if (model.affinity > 0) {
    model.partner_row = layer.community;
    model.partners.assign(options_.communities, std::vector<double>(popularity.size()));
    for (std::size_t e = 0; e < popularity.size(); ++e) {
      model.partners[layer.community[e]][e] = popularity[e];
    }
    for (auto& row : model.partners) normalise(row);
  }
  model.popularity = std::move(popularity);
  return model;
}

std::shared_ptr<const TraceStep> Synthesis::next_step(const TraceProgress& progress) {
  StepArrays arrays;
  arrays.number = step_;
  arrays.sequence_lengths = even_lengths(options_.tokens, options_.sequences);
  arrays.ids = IdArray(options_.experts, static_cast<std::int64_t>(layers_.size()) *
                                             options_.tokens * options_.top_k);
  std::int64_t to = 0;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (progress) {
      progress((step_ + static_cast<double>(l) / static_cast<double>(layers_.size())) /
               options_.steps);
    }
    const auto step = static_cast<std::uint64_t>(step_);
    if (step_ > 0) {
      Random walk(options_.seed, drift_stream + step, l);
      drift(layers_[l], walk);
    }
    Random random(options_.seed, draw_stream + step, l);
    ChoiceSampler sampler(model_of(layers_[l]));
    std::vector<int> row;
    for (const std::int32_t length : arrays.sequence_lengths) {
      row.clear();
      for (std::int32_t t = 0; t < length; ++t) {
        sampler.next(row, random);
        for (const int e : row) arrays.ids.set(to++, e);
      }
    }
  }
  ++step_;
  return make_step(info_, std::move(arrays));
}

void write_synthetic_trace(const std::string& folder, const SynthOptions& options) {
  Synthesis synthesis(options);
  auto writer = TraceWriter::create(folder, synthesis.info(), TraceWriter::Publish::at_end);
  for (int s = 0; s < options.steps; ++s) writer.append_step(*synthesis.next_step());
  writer.finish();
}

}  // namespace moesim
