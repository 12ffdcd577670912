// SPDX-License-Identifier: Apache-2.0
#include "sim/report/migration.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.h"

namespace moesim {
namespace {

/// A case of steps or of iterations.
struct Mover {
  std::string topology, policy, routing, fidelity;
  MigrationTwin twin;
  bool ran;
  Seconds time;      // of a step or an iteration
  double share = 0;  // of migration
};

Mover mover(const CaseResult& c) {
  Mover m{c.name.topology, c.name.policy, "", c.name.fidelity, c.twin, c.ran(), {}};
  if (!c.ran()) return m;
  m.time = c.metrics.mean_step();
  m.share = c.metrics.path.share(PathKind::migration);
  return m;
}

Mover mover(const IterationCase& c) {
  Mover m{c.topology, c.policy, c.routing, c.fidelity, c.twin, c.ran(), {}};
  if (!c.ran()) return m;
  m.time = c.metrics.times.iteration;
  m.share = c.metrics.path.share(PathKind::migration);
  return m;
}

bool is_twin(const Mover& other, const Mover& m) {
  return other.ran && other.twin.fixed && !m.twin.but_placement.empty() &&
         other.twin.but_placement == m.twin.but_placement && other.topology == m.topology &&
         other.routing == m.routing && other.fidelity == m.fidelity;
}

/// "the step" or "the iteration".
std::string notes_of(const std::vector<Mover>& movers, const char* what) {
  constexpr double least_told = 0.01;
  std::string text;
  std::vector<std::string> alone;
  for (const Mover& m : movers) {
    if (!m.ran || m.share <= 0) continue;
    const auto twin =
        std::ranges::find_if(movers, [&](const Mover& other) { return is_twin(other, m); });
    const bool there = twin != movers.end();
    if (!there && m.share >= least_told && std::ranges::find(alone, m.policy) == alone.end()) {
      alone.push_back(m.policy);
    }
    if (!there || twin->time >= m.time) continue;
    text += fmt::format(
        "# note: migration costs {} more than it gains: it takes {:.1f} % of the {} of {}, and {}, "
        "the same dispatch without it, is faster ({} on {}, {})\n",
        m.policy, 100 * m.share, what, to_string(m.time), twin->policy, to_string(twin->time),
        m.topology, m.fidelity);
  }
  if (alone.empty()) return text;
  return text +
         fmt::format(
             "# note: {} spend{} 1 % of the {} or more on migration; to see whether it pays, "
             "add --set policy:{}.placement=contiguous\n",
             fmt::join(alone, ", "), alone.size() == 1 ? "s" : "", what, alone.front());
}

template <class Case>
std::string notes_on(const std::vector<Case>& cases, const char* what) {
  std::vector<Mover> movers;
  for (const Case& c : cases) movers.push_back(mover(c));
  return notes_of(movers, what);
}

}  // namespace

Cell migration_cell(const PathSums& path) {
  const double share = path.share(PathKind::migration);
  return share > 0 ? percent_cell(share, 1) : Cell("-");
}

std::string migration_notes(const std::vector<CaseResult>& cases) {
  return notes_on(cases, "step");
}
std::string migration_notes(const std::vector<IterationCase>& cases) {
  return notes_on(cases, "iteration");
}

}  // namespace moesim
