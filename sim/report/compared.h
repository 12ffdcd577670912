// SPDX-License-Identifier: Apache-2.0
// What a case is compared with. Tables, intervals, JSON and reports have it from here;
// docs/metrics.md defines it.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/case_report.h"

namespace moesim {

/// What a case is compared with, by places in the list of cases.
struct Compared {
  std::size_t baseline = 0;                  // itself if it did not run
  double speedup = 1;                        // time per token of the baseline over its own
  double more_tokens = 1;                    // tokens of a step here over those of the baseline
  std::optional<double> over_balanced = {};  // time over that of the baseline's policy on balanced
                                             // tokens of the same cluster, less 1
};

/// [case] Cases of one topology and fidelity compare; those of one policy on several topologies
/// compare by fidelity. The baseline is the first of them that ran, on recorded routing if one did.
std::vector<Compared> compared(const std::vector<CaseResult>& cases);

/// Whether one policy is compared on several clusters.
bool compares_clusters(const std::vector<CaseResult>& cases);

/// Lines that start with #: which baseline is not the first of its cases, and over which cluster
/// the speedups of one policy are.
std::string baseline_notes(const std::vector<CaseResult>& cases);

/// Adds `baseline`, `speedup` and `over_balanced` to the objects of cases that ran.
void add_compared(nlohmann::ordered_json& objects, const std::vector<CaseResult>& cases);

}  // namespace moesim
