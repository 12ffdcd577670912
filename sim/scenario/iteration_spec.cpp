// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/iteration_spec.h"

#include <algorithm>

namespace moesim {

const std::vector<std::string> routing_source_names = {"recorded", "balanced"};
const std::vector<std::string> training_precision_names = {"bf16",          "fp16",  "fp8",
                                                           "fp8-blockwise", "mxfp8", "nvfp4"};
const std::vector<std::string> optimizer_names = {"adam", "muon"};
const std::vector<std::string> iteration_keys = {
    "parallel",  "batch",   "pipeline", "recompute",    "zero",
    "precision", "overlap", "routing",  "microbatches", "optimizer"};

bool is_iteration_key(const std::string& path) {
  const std::string key = path.substr(0, path.find_first_of(".="));
  return std::ranges::find(iteration_keys, key) != iteration_keys.end();
}

bool merges_passes(PipelineKind kind) {
  return kind == PipelineKind::combined || kind == PipelineKind::combined_interleaved ||
         kind == PipelineKind::dualpipe || kind == PipelineKind::dualpipev;
}

}  // namespace moesim
