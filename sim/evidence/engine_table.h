// SPDX-License-Identifier: Apache-2.0
// What rows of serving engines leave open, and the pools that they become.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/evidence/engine_rows.h"
#include "sim/evidence/paper_flags.h"

namespace moesim {

/// Flags of the pools that have one of the values of each condition.
struct EngineRule {
  std::vector<std::pair<std::string, std::vector<std::string>>> conditions;
  PaperFlags flags;
  int gpus_per_node = 0;  // 0: another rule says it
};

/// Degrees of an instance that computes prompts, in pools apart.
struct StartedDegrees {
  EngineRule of;
  EngineDegrees degrees;
};

/// How far off its predicted runs were: median and 90th percentile of absolute errors.
struct KnownEngineErrors {
  int runs = 0;
  std::vector<double> tpot, ttft, rate;  // rate: tokens per second and GPU
};
/// A line under results of engines; "" without runs.
std::string engine_errors_line(const KnownEngineErrors& errors);

/// A file of papers/engines.
struct EngineTable {
  std::string title, source;
  std::vector<std::string> assumed, misses;
  double least_share = 1;  // of the nominal lengths; those of requests are uniform up to these
  std::vector<EngineRule> rules;
  std::vector<EngineRule> without_dp;   // rows whose recipe has no attention DP, whatever they say
  std::vector<EngineRule> dp_for_tp;    // rows whose recipe starts so many ranks of one GPU each
  std::vector<StartedDegrees> prompts;  // of rows whose recipe starts others than they say
  KnownEngineErrors known = {};
};

/// The table that comes with moesim.
inline const std::string shipped_engine_table = "inferencex";

/// Reads the table of that name, or a file. Throws Error with all mistakes.
EngineTable read_engine_table(const std::string& name);

/// The row with the layout that its recipe starts.
EngineRow as_started(EngineRow row, const EngineTable& table);

/// One pool of a row as a scenario: flags of all rules that mean it, later ones in place of earlier
/// ones, its degrees and its nodes. It has one request; a run has a log of its own.
struct EnginePool {
  std::vector<Override> flags;
  std::string key;  // equal for pools of equal flags
};
/// `decode`: the pool that only decodes. Nothing if the rules leave the row's model, machine or
/// policy open, with what in `why`.
std::optional<EnginePool> pool_of(const EngineRow& row, const EngineTable& table, bool decode,
                                  std::string& why);

}  // namespace moesim
