// SPDX-License-Identifier: Apache-2.0
// What a prediction rests on that nobody measured, and how much wider that makes its intervals.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sim/evidence/model_error.h"
#include "sim/report/case_report.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// The sources of error of a case that were not measured, each in words; empty: it was.
struct Unmeasured {
  std::string kernels;    // of its GPUs: they have a data sheet and no fit
  std::string fabric;     // its network, and the hosts on it: no published iteration ran there
  std::string transport;  // of tokens: classes of links that it was not measured on
  std::vector<std::string> words() const;
  bool operator==(const Unmeasured&) const = default;
};

/// `networks`: those on which published iterations were predicted. A single host has no fabric.
Unmeasured unmeasured_of(const ClusterInput& cluster, const SystemSpec& system,
                         const std::set<std::string>& networks);

/// Of every case of a comparison of these inputs.
std::vector<Unmeasured> unmeasured_of(const Scenario& scenario, const Inputs& inputs,
                                      const std::vector<CaseResult>& cases,
                                      const std::set<std::string>& networks);

/// Of a time on a machine that lacks some of it. Kernels: the wider one of `times` and of errors by
/// data sheets. Fabric: the errors of exchanges whose source was left out, and the hosts' ratio.
/// Transport: the former again. Logarithms of independent sources add as squares.
ModelError error_of_time(const ShippedModelErrors& errors, const Unmeasured& lacks);

/// Of the speedup of one case over another. If both lack the same, fabric and hosts cancel, and of
/// the rest only what differs within a table counts; else both times' errors count.
ModelError error_of_speedup(const ShippedModelErrors& errors, const Unmeasured& base,
                            const Unmeasured& of);

}  // namespace moesim
