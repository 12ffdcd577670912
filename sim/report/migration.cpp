// SPDX-License-Identifier: Apache-2.0
#include "sim/report/migration.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.h"

namespace moesim {
namespace {

bool is_twin(const CaseResult& other, const CaseResult& m) {
  return other.ran() && other.twin.fixed && !m.twin.but_placement.empty() &&
         other.twin.but_placement == m.twin.but_placement &&
         other.name.topology == m.name.topology && other.name.routing == m.name.routing &&
         other.name.fidelity == m.name.fidelity;
}

}  // namespace

Cell migration_cell(const PathSums& path) {
  const double share = path.share(PathKind::migration);
  return share > 0 ? percent_cell(share, 1) : Cell("-");
}

std::string migration_notes(const std::vector<CaseResult>& cases) {
  constexpr double least_told = 0.01;
  const char* what = noun_of(cases);
  std::string text;
  std::vector<std::string> without_twin;
  for (const CaseResult& m : cases) {
    const double share = m.ran() ? m.metrics.path.share(PathKind::migration) : 0;
    if (share <= 0) continue;
    const std::string& policy = m.name.policy;
    const auto twin =
        std::ranges::find_if(cases, [&](const CaseResult& other) { return is_twin(other, m); });
    const bool there = twin != cases.end();
    if (!there && share >= least_told &&
        std::ranges::find(without_twin, policy) == without_twin.end()) {
      without_twin.push_back(policy);
    }
    const Seconds time = m.metrics.mean_step();
    if (!there || twin->metrics.mean_step() >= time) continue;
    text += fmt::format(
        "# note: migration costs {} more than it gains: it takes {:.1f} % of the {} of {}, and {}, "
        "the same dispatch without it, is faster ({} on {}, {})\n",
        policy, 100 * share, what, to_string(time), twin->name.policy,
        to_string(twin->metrics.mean_step()), m.name.topology, m.name.fidelity);
  }
  if (without_twin.empty()) return text;
  return text +
         fmt::format(
             "# note: {} spend{} 1 % of the {} or more on migration; to see whether it pays, "
             "add --set policy:{}.placement=contiguous\n",
             fmt::join(without_twin, ", "), without_twin.size() == 1 ? "s" : "", what,
             without_twin.front());
}

}  // namespace moesim
