// SPDX-License-Identifier: Apache-2.0
// A synthetic trace as files ask for it: the key `synth` of scenarios, sweeps and paper tables.
#pragma once

#include <string>

#include "sim/base/yaml.h"
#include "sim/trace/synth/synth_options.h"

namespace moesim {

/// The keys of `synth`; its mistakes are recorded. What is left out of `experts`, `top_k` and
/// `layers` is 0, 0 and empty: a model says it. Layers are numbered from 0. Other defaults:
/// docs/scenarios.md.
SynthOptions read_synth(const YamlMap& map);

/// The same options as a flow mapping that read_synth reads alike.
std::string synth_text(const SynthOptions& options);

/// "synthetic routing (skew 0.5, seed 7)": what shapes the choices, never what counts them.
std::string synth_title(const SynthOptions& options);

}  // namespace moesim
