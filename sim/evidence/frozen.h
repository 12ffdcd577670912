// SPDX-License-Identifier: Apache-2.0
// Predictions that are written down before the measurement is known, and scored against it later.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/evidence/judge.h"
#include "sim/evidence/model_error.h"

namespace moesim {

/// Who predicted when.
struct FrozenBy {
  std::string moesim;   // release and commit
  std::string program;  // hash of the executable
  std::string date;     // UTC, ISO 8601
};
/// This program, now.
FrozenBy frozen_by_this(const std::string& version);

/// Errors of step and iteration times and speedups, on which intervals rest.
struct FrozenErrors {
  ShippedModelErrors steps, iterations;
};

/// Every figure with its 90 % interval and the hash of its inputs, sealed by a hash of the whole
/// (schema: docs/papers.md).
std::string frozen_document(const std::vector<JudgedTable>& tables, const FrozenBy& by,
                            const FrozenErrors& errors);

struct FrozenFigure {
  double value = 0, least = 0, most = 0;
};
struct FrozenPredictions {
  FrozenBy by;
  std::map<std::string, FrozenFigure> figures;  // by "table/figure"
};
/// Throws Error if the text is not such a document, or was changed since it was sealed.
FrozenPredictions read_frozen(const std::string& file, const std::string& text);

struct ScoredPredictions {
  std::vector<JudgedTable> tables;  // with the frozen values
  int held = 0, known = 0;          // measurements inside their intervals, and all
};
/// The tables as they are now, with the published figures that were not known then.
ScoredPredictions scored(std::vector<PaperTable> tables, const FrozenPredictions& frozen);

}  // namespace moesim
