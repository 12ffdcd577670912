// SPDX-License-Identifier: Apache-2.0
// Values of a scenario that are known only by what whole steps took: a kept rate, a link's
// bandwidth. They are fitted to some measured steps, and others are predicted.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/base/yaml.h"

namespace moesim {

/// A measured step, or training iteration, of a scenario with some changes.
struct TimedStep {
  std::string name;
  std::vector<Override> changes;
  std::optional<Seconds> time;  // none: it did not fit into memory
  bool held_out = false;        // predicted, not fitted

  bool is_fitted() const { return time && !held_out; }
};

/// Reads CSV, plain or gzip. Its first line names the columns:
///  - `seconds`, or "oom" where the step did not fit into memory;
///  - `name` and `use` (`fit`, the default, or `predict`), which may be left out;
///  - keys of a scenario, as `--set` takes them. Empty cells change nothing.
/// Throws Error with the file and line of what it cannot read.
std::vector<TimedStep> read_measured_steps(const std::string& path);

/// A key and the range in which its value is looked for.
struct FittedValue {
  std::string key, unit;
  double low = 0, high = 0;
  double value = 0;

  bool at_its_edge() const;
  /// "2.41 GB/s".
  std::string text() const;
  Override change() const;
};
/// "KEY=LOW:HIGH UNIT", the unit if the key takes one. Throws Error.
FittedValue parse_fitted_value(const std::string& text);

/// The time of a step with these values; never 0.
using StepTime = std::function<Seconds(const TimedStep&, const std::vector<FittedValue>&)>;

/// Finds the values with the least sum of squares of log(simulated / measured) over the fitted
/// steps, by the method of Levenberg and Marquardt over the logarithms of the values, from
/// `values` on (0: the geometric middle of its range). Throws Error if there are fewer steps than
/// values, if a value changes none of them, or if two change all of them alike.
std::vector<FittedValue> fit_steps(const std::vector<TimedStep>& steps,
                                   std::vector<FittedValue> values, const StepTime& time);

}  // namespace moesim
