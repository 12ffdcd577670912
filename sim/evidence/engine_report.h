// SPDX-License-Identifier: Apache-2.0
// Predicted rows of serving engines for people and programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/evidence/engine_table.h"
#include "sim/evidence/judge.h"
#include "sim/evidence/predict_engines.h"
#include "sim/print/table.h"

namespace moesim {

/// Above this share of a request's time the first token waits for others' prompts: saturated.
inline constexpr double saturated_share = 0.1;

struct JudgedEngineRow {
  EngineRow row;
  EnginePrediction predicted;

  /// "Qwen3.5-397B-A17B b200_sxm sglang 1024/1024 c16 tp4 ep4".
  std::string name() const;
  /// Whether its published time to first token is that of a queue.
  bool saturated() const;
  /// Output tokens per second and GPU: requests in flight by the time of one (Little's law).
  double rate(double ttft, double tpot) const;
  /// Simulated / published - 1.
  double ttft_error() const { return predicted.ttft / row.ttft - 1; }
  double tpot_error() const { return predicted.tpot / row.tpot - 1; }
  double rate_error() const;
};

/// Of rows that have something in common; errors below are absolute.
struct EngineSummary {
  std::string group, name;  // "machine", "b200_sxm"
  int rows = 0;
  ErrorSummary tpot = {}, ttft = {}, rate = {};  // ttft: of rows below saturation
  double signed_tpot = 0;                        // median
};

std::vector<JudgedEngineRow> judged_engines(const std::vector<EngineRow>& rows,
                                            const std::vector<EnginePrediction>& predictions);
/// All rows first, then by model, machine, backend, pools, lengths and requests in flight.
std::vector<EngineSummary> engine_summaries(const std::vector<JudgedEngineRow>& rows);

Printout engines_text(const EngineTable& table, const std::vector<JudgedEngineRow>& rows,
                      const std::string& version);
std::string engines_json(const EngineTable& table, const std::vector<JudgedEngineRow>& rows,
                         const std::string& version);
/// What a page shows between its marks.
std::string engines_page(const EngineTable& table, const std::vector<JudgedEngineRow>& rows);

}  // namespace moesim
