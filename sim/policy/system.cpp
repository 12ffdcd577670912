// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/system.h"

#include <fmt/format.h>

#include "sim/policy/policies.h"

namespace moesim {
namespace {

/// One kind's mechanism: its name alone, or {kind: name, parameters ...}.
template <class Interface, class Context>
Chosen<Interface, Context> mechanism(const YamlMap& map, const std::string& kind,
                                     const std::vector<Mechanism<Interface, Context>>& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  const auto value = map.get(kind);
  if (!value) return {};
  const YamlMap params = value->map_or_empty();
  const auto name = value->is_map() ? params.get("kind") : value;
  const std::size_t index = name ? static_cast<std::size_t>(name->choice(names)) : 0;
  if (!name || (name->is_scalar() && name->string() != names[index])) {
    for (const std::string& key : params.keys()) params.find(key);  // one mistake is told once
    return {};
  }
  return {names[index], table[index].read(params), table[index].needs_tokens};
}

/// A dispatch of any kind may state the multiprocessors that its exchanges take.
Chosen<Dispatch, DispatchContext> dispatch(const YamlMap& map) {
  auto chosen = mechanism(map, "dispatch", dispatch_mechanisms());
  const auto value = map.find("dispatch");
  if (!value || !value->is_map()) return chosen;
  const auto sms = static_cast<int>(value->map().integer("sms", {0, 1000}, 0));
  if (sms == 0) return chosen;
  chosen.make = [make = chosen.make, sms](const DispatchContext& context) {
    auto made = make(context);
    made->set_sms(sms);
    return made;
  };
  return chosen;
}

/// A schedule of any kind may cut layers into chunks.
Chosen<Schedule, ScheduleContext> schedule(const YamlMap& map) {
  auto chosen = mechanism(map, "schedule", schedule_mechanisms());
  const auto value = map.find("schedule");
  if (!value || !value->is_map()) return chosen;
  const YamlMap params = value->map();
  Chunking chunking;
  chunking.count = static_cast<int>(params.integer("chunks", {1, 256}, 1));
  chunking.by = static_cast<ChunkBy>(params.choice("chunk", {"tokens", "partners"}, 0));
  chunking.streamed = params.boolean("streamed", false);
  if (chunking.count == 1) {
    for (const char* key : {"chunk", "streamed"}) {
      const auto given = params.find(key);
      if (!given) continue;
      given->error(fmt::format("'schedule.{}' has no effect: there is one chunk", key),
                   "say chunks: 2 or more");
    }
    return chosen;
  }
  chosen.make = [make = chosen.make, chunking](const ScheduleContext& context) {
    auto made = make(context);
    made->set_chunking(chunking);
    return made;
  };
  return chosen;
}

SystemSpec read(YamlDocument& doc) {
  const YamlMap map = doc.root().map();
  SystemSpec system;
  system.name = map.string("name");
  system.description = map.string("description", "");
  system.source = map.string("source");
  system.routing = mechanism(map, "routing", routing_mechanisms());
  system.placement = mechanism(map, "placement", placement_mechanisms());
  system.dispatch = dispatch(map);
  system.schedule = schedule(map);
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
