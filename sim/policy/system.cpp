// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/system.h"

#include "sim/policy/policies.h"

namespace moesim {
namespace {

template <class Table>
int mechanism(const YamlMap& map, const std::string& kind, const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return map.choice(kind, names);
}

SystemSpec read(YamlDocument& doc) {
  const YamlMap map = doc.root().map();
  SystemSpec system;
  system.name = map.string("name");
  system.description = map.string("description", "");
  system.source = map.string("source");
  system.routing = mechanism(map, "routing", routing_mechanisms());
  system.placement = mechanism(map, "placement", placement_mechanisms());
  system.dispatch = mechanism(map, "dispatch", dispatch_mechanisms());
  system.schedule = mechanism(map, "schedule", schedule_mechanisms());
  doc.finish();
  return system;
}

}  // namespace

SystemSpec read_system(const std::string& path, const std::vector<Override>& overrides) {
  return read(*YamlDocument::from_file(path, overrides));
}

SystemSpec parse_system(const std::string& text, const std::string& name,
                        const std::vector<Override>& overrides) {
  return read(*YamlDocument::from_text(text, name, overrides));
}

}  // namespace moesim
