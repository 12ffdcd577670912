// SPDX-License-Identifier: Apache-2.0
// A fit as the YAML that topologies read, and as a table by which people judge it; measured kernel
// times as the keys `gemm` and `memory_bound` of a GPU model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/linkfit/hold_out.h"
#include "sim/linkfit/link_fit.h"
#include "sim/model/kernel_tables.h"

namespace moesim {

/// `comment` is next to both keys: how they were measured.
std::string kernel_tables_yaml(const KernelTables& tables, const std::string& comment);

/// In double quotes, as YAML and JSON have them.
std::string quoted(const std::string& text);

/// The line of a `fit` about the 95 % interval of its fixed time; empty if nobody knows it.
std::string fixed_spread_yaml(const LinkFit& fit);

struct CalibrationText {
  struct Start {
    Seconds time;
    std::string transport = {};  // that takes it; empty: the topology, by exchange_overhead
  };
  std::string name;
  std::string command;       // that makes this fit
  Start start;               // the part of the fixed time that no link takes
  std::string nominal = {};  // bandwidth of the measured link by its data sheet; empty: unknown
  std::string source = {};   // who published the measurements; empty: unpublished
};

/// What `moesim calibrate` found.
struct Calibrated {
  LinkFit fit;
  std::optional<HoldOut> held;
  std::vector<Log> logs;
};

/// topologies/*.calib.yaml (read_calibration), with latency = (fixed - start) / 2 / rounds,
/// because a route has two links of the class.
std::string calibration_yaml(const Calibrated& result, const CalibrationText& text);

/// Fixed time, rates with their confidence, residuals, errors at sizes held out, and what a
/// straight line would miss.
std::string calibration_report(const Calibrated& result, const CalibrationText::Start& start);

}  // namespace moesim
