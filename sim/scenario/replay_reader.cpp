// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/replay_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace moesim {

void read_replay(const YamlMap& scenario, IterationSpec& spec) {
  if (const auto value = scenario.find("microbatches")) {
    spec.distinct_microbatches = static_cast<int>(value->map().integer("distinct", {1, 1 << 20}));
  }
  const auto value = scenario.find("routing");
  if (!value) return;
  spec.routing.clear();
  const auto items = value->is_list() ? value->list() : std::vector<YamlValue>{*value};
  if (items.empty()) value->error("'routing' is an empty list");
  for (const YamlValue& item : items) {
    const auto source = static_cast<RoutingSource>(item.choice(routing_source_names));
    // A wrong word reads as the first source, which would then seem to be there twice.
    if (std::ranges::find(spec.routing, source) != spec.routing.end() &&
        scenario.good({"routing"})) {
      item.error(fmt::format("'routing' has '{}' twice", item.string()));
    }
    spec.routing.push_back(source);
  }
}

}  // namespace moesim
