// SPDX-License-Identifier: Apache-2.0
// What you read of a pass of serving: figures of its batch and its cache, lines of the header.
#pragma once

#include <string>

#include "sim/planner/iteration/planner.h"
#include "sim/report/metrics.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// Without what memory is free.
ServingFigures serving_figures(const Planner& planner, const MoeModel& model);

/// Tokens of a pass that count: what a decode generates, drafts that it keeps with them; else
/// all new ones.
std::int64_t output_tokens(const Planner& planner);

/// Tokens that fit into the part of memory that the engine takes, besides the batch, on the GPU
/// with sequences that has the least room.
std::int64_t free_cache_tokens(const Planner& planner, const StepMemory& memory,
                               const GpuModels& gpus, Bytes per_token);

/// A line if sequences are longer than the model's config allows; else nothing.
std::string longest_text(const MoeModel& model, std::int64_t longest, bool serves);

/// The lines above a table of passes.
std::string serving_header(const Scenario& scenario, const Inputs& inputs,
                           const std::string& version);

}  // namespace moesim
