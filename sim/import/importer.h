// SPDX-License-Identifier: Apache-2.0
// Makes native traces of other formats. A new format is a .cpp and its line in importer.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/trace/progress.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// What the files do not say themselves. Each importer uses the fields that concern its format.
struct ImportOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string name;             // default: the last part of output
  std::string model;            // free text
  int experts = 0;              // 0: as the files say, if they do
  int top_k = 0;                // 0: as the files have it (esft cannot do without)
  std::vector<int> layers;      // model layer number of each layer of the files; empty: as they say
  std::vector<int> moe_layers;  // of the model, if it is known: every other layer is dense
  int model_layers = 0;         // of the model, dense ones included; 0: unknown
  int mtp_layers = 0;           // of the model, behind those; 0: none, or unknown
  int micro_batch = 0;  // sequences whose tokens alternate in a microbatch; 0: as the choices show
  bool selects_otherwise = false;     // the model's gate does not choose the largest logits
  std::optional<Phase> phase;         // default: what the format implies
  std::optional<Phase> passes;        // prefill or decode: passes of the other kind are left out
  std::int64_t step_tokens = 0;       // a step is filled up to so many; 0: the default
  std::string ids, lengths, weights;  // npz: names of members; empty: guessed
  std::string order;                  // npz: "tlk", "ltk", or empty: follows from the lengths
  std::vector<std::string> map;       // table: ROLE=FIELD; roles without one are guessed
  std::string numbering;              // table, npz, megatron-trace: what layer numbers are
  double weight_scale = 0;            // npz: one unit of the weights; 0: 1, or 1e-4 for "*1e4"

  /// The layers that the files can have: those of --layers, else the model's; empty if unknown.
  const std::vector<int>& known_layers() const { return layers.empty() ? moe_layers : layers; }
};

/// What an import reports to its user.
struct Imported {
  std::string report;  // tokens, layers, experts, top-k, phase, id kind, dropped rows
  std::vector<Diagnostic> warnings;
};

class ImportSink;

/// One format. `run` hands over every pass of the inputs to the sink; it throws Error for damaged
/// files and for shapes that do not fit each other.
struct Importer {
  const char* kind;
  const char* reads;  // its inputs
  const char* needs;  // what flags must say
  void (*run)(ImportSink& sink);
};

const std::vector<Importer>& importers();

/// Imports, checks every id (below experts, distinct in its row) and writes the trace with the
/// inputs and their hashes as provenance. What a killed import has written is kept in a folder next
/// to the output; the same import continues from there.
Imported import_trace(const std::string& kind, const ImportOptions& options,
                      const TraceProgress& progress = {});

}  // namespace moesim
