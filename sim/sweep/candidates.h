// SPDX-License-Identifier: Apache-2.0
// The candidates of an advice at one fidelity, simulated in whatever order somebody asks for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/sweep/advise.h"
#include "sim/sweep/unit.h"

namespace moesim {

/// A figure of a row; NaN or "" if the row lacks the column.
double figure_number(const SweepRow& row, const std::string& column);
std::string text_in(const SweepRow& row, const std::string& column);
/// Classes of links by which it exchanges tokens at rates of the "data sheet" or the "transport".
std::set<std::string> links_by(const SweepRow& row, const std::string& whose_rates);
/// Seconds of a step or an iteration.
double time_in(const SweepRow& row);
/// Bytes of the fullest GPU.
double memory_in(const SweepRow& row);
/// What bounds the step, or most of the iteration's critical path.
std::string binding_in(const SweepRow& row);

/// All candidates in an order whose beginnings are spread over the grid, the same every time.
/// Neighbours of grids of steps, which may share plans, come one after the other.
std::vector<std::int64_t> spread_order(const SweepGrid& grid);

class Candidates {
 public:
  /// The options must outlive it. Rows at `analytic` have their least times.
  Candidates(const SweepGrid& grid, Fidelity fidelity, const AdviseOptions& options);

  const SweepGrid& grid() const { return grid_; }
  const std::map<std::int64_t, SweepRow>& rows() const { return rows_; }
  /// NaN if there is none; nothing for a candidate that has not run.
  double time(std::int64_t id) const;
  std::optional<double> time_if_run(std::int64_t id) const;

  /// Simulates them unless somebody stops it. What the cluster cannot run is unsuitable.
  void run(const std::vector<std::int64_t>& ids);

 private:
  SweepGrid grid_;
  std::string fidelity_;
  const AdviseOptions& options_;
  UnitRunner runner_;
  std::map<std::int64_t, SweepRow> rows_;
};

}  // namespace moesim
