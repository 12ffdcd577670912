// SPDX-License-Identifier: Apache-2.0
// Synthetic traces: routing with given skew, affinity and drift, or fitted to a recorded trace. The
// same options give the same bytes on any machine. The model is described in docs/trace-format.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/trace/memory_step.h"
#include "sim/trace/progress.h"
#include "sim/trace/synth/choice_model.h"
#include "sim/trace/synth/synth_reader.h"

namespace moesim {

/// Throws Error unless experts, top_k, layers, tokens, sequences and steps can be.
void check_shape(const SynthOptions& options);

/// Lengths that differ by one token at most.
std::vector<std::int32_t> even_lengths(std::int64_t tokens, int sequences);

/// Draws the steps of a synthetic trace one after the other.
class Synthesis {
 public:
  /// Throws Error for options that cannot be.
  explicit Synthesis(const SynthOptions& options);
  /// Experts, top-k, layers, popularity, co-activation and overlap come from `recorded`; tokens,
  /// sequences, steps, drift and seed from the options.
  Synthesis(const SynthOptions& options, const RoutingTrace& recorded,
            const TraceProgress& progress = {});

  const TraceInfo& info() const { return info_; }
  /// The next step, numbered from 0.
  std::shared_ptr<const TraceStep> next_step(const TraceProgress& progress = {});

 private:
  /// One layer: the popularity of the i-th most popular expert, and who that is at this step.
  struct Layer {
    ChoiceModel model;
    std::vector<double> profile;  // descending
    std::vector<double> latent;   // [expert]: the most popular expert has the largest
    std::vector<int> community;   // [expert]; empty when fitted
  };

  void check() const;
  Layer invented_layer(int index) const;
  Layer fitted_layer(int index, const RoutingTrace& recorded) const;
  void drift(Layer& layer, Random& random) const;
  ChoiceModel model_of(const Layer& layer) const;

  SynthOptions options_;
  TraceInfo info_;
  std::vector<Layer> layers_;
  int step_ = 0;
};

/// All steps, as a trace in a new folder. Throws Error.
void write_synthetic_trace(const std::string& folder, const SynthOptions& options);

}  // namespace moesim
