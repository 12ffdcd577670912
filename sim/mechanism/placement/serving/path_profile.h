// SPDX-License-Identifier: Apache-2.0
// Which experts tokens choose after the path they took: the predictor of Lina (USENIX ATC 2023,
// path of the last three layers) and, with paths of one layer, the adjacent-layer predictor.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// A token's experts in preceding layers, one per layer, oldest first. What stands for a layer of
/// several choices is the caller's (unstated for Lina: the first choice).
using ExpertPath = std::vector<ExpertId>;

/// Choices per path in profiled tokens.
class PathProfile {
 public:
  explicit PathProfile(int experts) : any_(static_cast<std::size_t>(experts)) {}
  /// One profiled token that took the path and then chose these experts.
  void add(const ExpertPath& path, std::span<const ExpertId> choices);
  /// Adds the choices expected of `tokens` tokens with this path to `loads`; a path never profiled
  /// counts as any token (unstated by Lina: ours). Nothing without a profile.
  void expect(const ExpertPath& path, double tokens, std::span<double> loads) const;
  int experts() const { return static_cast<int>(any_.counts.size()); }

 private:
  struct Row {
    Row() = default;
    explicit Row(std::size_t experts) : counts(experts) {}
    std::int64_t tokens = 0;
    std::vector<std::int64_t> counts;
  };
  Row any_;
  std::map<ExpertPath, Row> rows_;
};

/// Adjacent-layer prediction: loads expected of a layer from those of the layer before; the profile
/// has paths of one expert, each choice being one path.
std::vector<double> expect_after(const PathProfile& profile, std::span<const double> before);

}  // namespace moesim
