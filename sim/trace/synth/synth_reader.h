// SPDX-License-Identifier: Apache-2.0
// What a synthetic trace is drawn from, and how files ask for it: the key `synth` of scenarios,
// sweeps and paper tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

struct SynthOptions {
  std::string name = "synthetic";
  std::string model = "synthetic";
  int experts = 64;
  int top_k = 8;
  std::vector<int> layers = {0};  // model layer numbers
  std::int64_t tokens = 8192;     // per step
  int sequences = 8;              // per step, as equal as can be
  int steps = 1;
  double skew = 0;        // Zipf exponent: popularity of the i-th expert ~ i^-skew
  double affinity = 0;    // share of choices taken from the community of the token's first choice
  int communities = 0;    // per layer, of equal size; 0: of 8 experts each
  double stickiness = 0;  // probability to keep an expert of the token before
  double drift = 0;  // 0: the same experts stay popular, 1: popularity is dealt anew every step
  int groups = 1;    // group-limited gate: expert groups; a token uses kept_groups
  int kept_groups = 1;
  std::uint64_t seed = 1;
};

/// The keys of `synth`; its mistakes are recorded. What is left out of `experts`, `top_k` and
/// `layers` is 0, 0 and empty: a model says it. Layers are numbered from 0. Other defaults:
/// docs/scenarios.md.
SynthOptions read_synth(const YamlMap& map);

/// The same options as a flow mapping that read_synth reads alike.
std::string synth_text(const SynthOptions& options);

/// "synthetic routing (skew 0.5, seed 7)": what shapes the choices, never what counts them.
std::string synth_title(const SynthOptions& options);

}  // namespace moesim
