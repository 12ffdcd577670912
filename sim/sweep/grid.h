// SPDX-License-Identifier: Apache-2.0
// The scenarios of a sweep: a scenario file with `axes`. See docs/sweeps.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/scenario.h"

namespace moesim {

struct InputCache;

/// One place of an axis: its name in results, and what it changes.
struct AxisPoint {
  std::string text;
  std::vector<Override> changes;  // of keys as they are written in the file; of a variable none
};

struct SweepAxis {
  std::string name;
  bool variable = false;  // ${name} in the file stands for the text of the point
  std::vector<AxisPoint> points;
};

class SweepGrid {
 public:
  /// Reads a scenario file, or only flags if `given` is empty; lists of topologies, policies,
  /// fidelities and routings are axes, too. Throws Error with all mistakes of the file and its
  /// axes.
  static SweepGrid read(const std::string& given, const std::vector<Override>& flags);
  /// The same from the text of the file at `path`.
  static SweepGrid parse(const std::string& text, const std::string& path,
                         const std::vector<Override>& flags);
  /// The same with more axes, which replace those of their names; at another fidelity. Throws Error
  /// for an axis without points, and for too many scenarios.
  SweepGrid with_axes(const std::vector<SweepAxis>& axes) const;
  SweepGrid at_fidelity(Fidelity fidelity) const;
  /// Throws Error for names and keys of inputs in axes that no scenario of the grid knows, each at
  /// its place in the file: what only some of them do not know is a reason of these.
  void check_inputs() const;
  /// A warning for each change of all policies (policy.PATH=VALUE) that only some have a key for.
  std::vector<Diagnostic> left_out() const;

  const std::vector<SweepAxis>& axes() const { return axes_; }
  const std::string& file() const { return path_; }
  /// Scenarios of the grid: all combinations, the last axis changes first.
  std::int64_t size() const;
  /// Consecutive scenarios that differ only in their fidelity, and so share every plan.
  std::int64_t unit_size() const;
  std::int64_t units() const { return size() / unit_size(); }

  /// The point of each axis.
  std::vector<const AxisPoint*> points(std::int64_t id) const;
  /// The scenario of a unit, with one topology, policy and routing, and without the changes of all
  /// policies that its own has no key for. Throws Error.
  Scenario unit(std::int64_t number) const;
  /// All fidelities that some scenario asks for.
  std::vector<Fidelity> fidelities() const;
  /// Equal for equal scenarios: of the file, the flags and the axes.
  std::string hash() const;

 private:
  Scenario at(const std::vector<std::size_t>& point, bool all_fidelities) const;
  std::vector<Override> reached(const std::string& text, const std::vector<Override>& flags) const;
  void check_size() const;
  std::vector<std::size_t> places(std::int64_t id) const;
  void add_lists();
  void check_points() const;
  void check_sets(std::vector<Diagnostic>& mistakes, InputCache& cache) const;
  std::optional<Diagnostic> mistake_in_name(std::size_t axis, std::size_t place,
                                            const Override& change) const;
  std::optional<Diagnostic> mistake_in_all(std::size_t axis, std::size_t place,
                                           const Override& change, InputCache& cache) const;
  Diagnostic placed(const Diagnostic& mistake, const std::string& key) const;
  std::string filled(const std::vector<std::size_t>& point) const;

  std::string path_, text_;
  std::vector<Override> flags_;
  std::vector<SweepAxis> axes_;  // `fidelity` is the last
};

/// Whether a key of an axis is one of an input, which `set` changes, and not of the scenario.
bool changes_input(const std::string& key);
/// What is wrong with a change of only one input that the scenario does not have, else nothing.
std::vector<Diagnostic> mistakes_in_reach(const Scenario& s, const Override& change);

/// The `axes` of a grid's text, in their order. Throws Error.
std::vector<SweepAxis> read_axes(const std::string& text, const std::string& path);

}  // namespace moesim
