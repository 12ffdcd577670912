// SPDX-License-Identifier: Apache-2.0
// Makes native traces of other formats.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/memory_step.h"
#include "sim/trace/progress.h"

namespace moesim {

/// What the files do not say themselves. Each importer uses the fields that concern its format.
struct ImportOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string name;             // default: the last part of output
  std::string model;            // free text
  int experts = 0;              // required: no format says it
  int top_k = 0;                // 0: as the files have it (esft cannot do without)
  std::vector<int> layers;      // model layer number of each layer of the files; empty: as they say
  std::vector<int> moe_layers;  // of the model, where it is known: every other layer is dense
  std::optional<Phase> phase;   // default: what the format implies
  std::string ids, lengths, weights;  // npz: names of members; empty: guessed
  std::string order;                  // npz: "tlk", "ltk", or empty: follows from the lengths
  double weight_scale = 0;            // npz: one unit of the weights; 0: 1, or 1e-4 for "*1e4"
};

/// A trace in the making, and what its import leaves out or warns of.
struct Import {
  TraceInfo info;
  StepArrays step;
  std::map<std::string, std::int64_t> dropped;  // rows (token x layer) by reason
  std::vector<Diagnostic> warnings;
};

/// What an import reports to its user.
struct Imported {
  std::string report;  // tokens, layers, experts, top-k, phase, id kind, dropped rows
  std::vector<Diagnostic> warnings;
};

// One format each. They throw Error for damaged files and for shapes that do not fit each other.

/// DeepSeek ESFT: expert_weights_<layer>.txt[.gz], or a folder of them.
Import import_esft(const ImportOptions& options, const TraceProgress& progress);
/// Arrays in one .npz or several .npy: ids, and if there are any sequence lengths and weights.
Import import_npz(const ImportOptions& options, const TraceProgress& progress);
/// GPT-OSS expert fingerprinting: JSON files of one or more requests each, plain or gzip.
Import import_gpt_oss(const ImportOptions& options, const TraceProgress& progress);

/// "esft", "npz", "npy", "gpt-oss".
const std::vector<std::string>& import_kinds();

/// Imports, checks every id (below experts, distinct in its row) and writes the trace with the
/// inputs and their hashes as provenance.
Imported import_trace(const std::string& kind, const ImportOptions& options,
                      const TraceProgress& progress = {});

}  // namespace moesim
