// SPDX-License-Identifier: Apache-2.0
// Measured times next to simulated ones of the same plans. See docs/validation.md.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/print/table.h"
#include "sim/report/hardware_result.h"

namespace moesim {

/// The steps of one policy, simulated.
struct SimulatedCase {
  std::vector<std::string> plans;  // [step] hash_of_plan
  std::vector<Seconds> steps;      // [step] makespan
  OpTimes ops;                     // mean of the steps
};

/// One policy. Times are means over steps; a measured step has the median of its repeats.
struct PolicyValidation {
  std::string policy;
  Seconds measured, simulated;
  double spread = 0;  // (most - least) / median of the repeats, mean over steps
  OpTimes measured_ops, simulated_ops;
  std::int64_t wrong = 0;
  int measured_place = 0, simulated_place = 0;  // 1: the fastest

  double error() const;  // simulated / measured - 1
};

/// Two policies; the first was measured to be faster.
using PolicyPair = std::pair<std::string, std::string>;

/// The policies of one measured file.
struct ResultValidation {
  HardwareResult measured;
  std::string setting;                     // trace, model and steps, in words
  std::string topology, fidelity;          // of the simulation
  std::vector<PolicyValidation> policies;  // by measured time
  int pairs = 0, ordered_pairs = 0;        // all, and figures that differ by more than the margin
  std::vector<PolicyPair> misordered;      // of the ordered pairs
};

struct Validation {
  std::vector<ResultValidation> results;
  double tolerance = 0;  // relative

  double mean_error() const;  // of absolute values, over all policies of all results
  std::int64_t wrong() const;
  int misordered() const;
  /// Why the simulator is not valid here: tolerance, order, wrong elements; empty: valid.
  std::vector<std::string> objections() const;
};

/// Measured times that differ by more than this, relative to the shorter, must be simulated in the
/// same order. Closer ones may swap only by the noise of the measurement.
inline constexpr double order_margin = 0.10;

/// `simulated` holds one case for each of `measured` that was run, in their order. Throws Error
/// when plans differ or nothing was measured.
ResultValidation validate(const HardwareResult& measured,
                          const std::vector<SimulatedCase>& simulated);

/// What a person reads; `simulator` is its version.
Printout validation_text(const Validation& validation, const std::string& simulator);
std::string validation_json(const Validation& validation, const std::string& simulator);

}  // namespace moesim
