// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/path_profile.h"

#include "sim/base/id_vector.h"

namespace moesim {

void PathProfile::add(const ExpertPath& path, std::span<const ExpertId> choices) {
  Row& row = rows_.try_emplace(path, any_.counts.size()).first->second;
  ++row.tokens;
  ++any_.tokens;
  for (const ExpertId expert : choices) {
    ++row.counts[expert.index()];
    ++any_.counts[expert.index()];
  }
}

void PathProfile::expect(const ExpertPath& path, double tokens, std::span<double> loads) const {
  const auto found = rows_.find(path);
  const Row& row = found == rows_.end() ? any_ : found->second;
  if (row.tokens == 0) return;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    loads[e] += tokens * static_cast<double>(row.counts[e]) / static_cast<double>(row.tokens);
  }
}

std::vector<double> expect_after(const PathProfile& profile, std::span<const double> before) {
  std::vector<double> loads(profile.experts());
  double choices = 0;
  for (const ExpertId e : ids_of<ExpertId>(before)) {
    if (before[e.index()] == 0) continue;
    profile.expect({e}, before[e.index()], loads);
    choices += before[e.index()];
  }
  double sum = 0;
  for (const double load : loads) sum += load;
  // A token of k choices is k paths: scale back to as many choices as the layer before had.
  for (double& load : loads) load = sum > 0 ? load * choices / sum : 0;
  return loads;
}

}  // namespace moesim
