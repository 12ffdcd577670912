// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/system.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace moesim {
namespace {

/// One kind's mechanism: only its name, or {kind: name, parameters ...}.
template <class Interface, class Context>
Chosen<Interface, Context> mechanism(const YamlMap& map, const std::string& kind,
                                     const std::vector<Mechanism<Interface, Context>>& table,
                                     PolicySources& sources) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  const auto value = map.get(kind);
  if (!value) return {};
  const YamlMap params = value->map_or_empty();
  const auto name = value->is_map() ? params.get("kind") : value;
  const std::size_t index = name ? static_cast<std::size_t>(name->choice(names)) : 0;
  if (!name || (name->is_scalar() && name->string() != names[index])) {
    for (const std::string& key : params.keys()) params.find(key);  // one mistake is reported once
    return {};
  }
  const auto& entry = table[index];
  return {names[index],
          entry.read_with ? entry.read_with(params, sources) : entry.read(params),
          entry.needs_tokens,
          entry.replicates,
          entry.for_dense_models,
          entry.divides_experts,
          entry.needs_host};
}

/// A dispatch of any kind may state the multiprocessors that its exchanges take.
int sms_of_dispatch(const YamlMap& map) {
  const auto value = map.find("dispatch");
  if (!value || !value->is_map()) return 0;
  return static_cast<int>(value->map().integer("sms", {0, 1000}, 0));
}

Chosen<Dispatch, DispatchContext> dispatch(const YamlMap& map, int sms, PolicySources& sources) {
  auto chosen = mechanism(map, "dispatch", dispatch_mechanisms(), sources);
  if (sms == 0) return chosen;
  chosen.make = [make = chosen.make, sms](const DispatchContext& context) {
    auto made = make(context);
    made->set_sms(sms);
    return made;
  };
  return chosen;
}

/// Ascending heights, or one.
std::vector<int> read_heights(const YamlValue& value) {
  std::vector<int> heights;
  const auto add = [&](const YamlValue& v) {
    heights.push_back(static_cast<int>(v.integer({1, 4096})));
  };
  if (value.is_list()) {
    for (const YamlValue& height : value.list()) add(height);
  } else {
    add(value);
  }
  if (!heights.empty() && std::ranges::is_sorted(heights)) return heights;
  value.error("'schedule.tile' does not ascend", "as [16, 64, 128]");
  return {128};
}

/// The keys `tile`, `weights`, `products`, `types` and `dies` of a schedule, whose products fill
/// tiles of rows, and `fill` and `tile_columns` for chunks of tiles.
TiledKernel read_tiled_kernel(const YamlMap& params, bool tiles) {
  TiledKernel kernel;
  const auto has = [&](const char* key) {
    const auto value = params.find(key);
    if (value && !tiles) {
      value->error(fmt::format("'schedule.{}' has no effect: chunks are not tiles", key),
                   "say chunk: tiles");
    }
    return value && tiles ? value : std::nullopt;
  };
  const auto heights = params.find("tile");
  if (heights) kernel.rows = read_heights(*heights);
  if (const auto fill = has("fill")) {
    kernel.fill = static_cast<int>(fill->integer({1, 4096}));
    const auto odd = [&](int height) { return height % kernel.fill != 0; };
    if (std::ranges::any_of(kernel.rows, odd)) {
      fill->error(fmt::format("not all tiles are multiples of 'schedule.fill', {}", kernel.fill));
    }
  }
  if (const auto columns = has("tile_columns")) {
    kernel.columns = static_cast<int>(columns->integer({1, 4096}));
  }
  const auto of_tiles = [&](const char* key) {
    const auto value = params.find(key);
    if (!value || heights || tiles) return value;
    value->error(fmt::format("'schedule.{}' has no effect: products fill no tiles", key),
                 "say tile: 128, the rows of one, or chunk: tiles");
    return decltype(value)();
  };
  const auto type = [](const YamlValue& value) {
    return static_cast<DataType>(value.choice(data_type_names()));
  };
  if (const auto weights = of_tiles("weights")) kernel.weights = type(*weights);
  if (const auto products = of_tiles("products")) kernel.products = type(*products);
  if (const auto types = of_tiles("types")) {
    for (const YamlValue& each : types->list()) kernel.types.push_back(type(each));
  }
  if (const auto dies = of_tiles("dies")) {
    for (const YamlValue& die : dies->list()) kernel.dies.push_back(die.string());
  }
  return kernel;
}

/// A schedule of any kind may cut layers into chunks.
Chosen<Schedule, ScheduleContext> schedule(const YamlMap& map, PolicySources& sources) {
  auto chosen = mechanism(map, "schedule", schedule_mechanisms(), sources);
  const auto value = map.find("schedule");
  if (!value || !value->is_map()) return chosen;
  const YamlMap params = value->map();
  Chunking chunking;
  const auto count = params.find("chunks");
  const bool automatic = count && count->is_scalar() && count->string() == "auto";
  chunking.by =
      static_cast<ChunkBy>(params.choice("chunk", {"tokens", "partners", "tiles", "results"}, 0));
  const bool tiles = chunking.by == ChunkBy::tiles && !automatic;
  const bool one_kernel = tiles || chunking.by == ChunkBy::results;
  chunking.count =
      automatic ? 0 : static_cast<int>(params.integer("chunks", {1, 256}, tiles ? 32 : 1));
  chunking.streamed = params.boolean("streamed", one_kernel);
  chunking.kernel = read_tiled_kernel(params, tiles);
  chunking.fills_tiles = params.find("tile").has_value();
  if (one_kernel && !chunking.streamed) {
    params.find("streamed")
        ->error("'streamed: false' with chunks of tiles or results",
                "one kernel exchanges the rows of all of them");
  }
  if (chunking.count <= 1 && !tiles) {
    for (const char* key : {"chunk", "streamed"}) {
      const auto given = params.find(key);
      if (!given) continue;
      given->error(automatic ? fmt::format("'schedule.{}' has no effect with chunks: auto", key)
                             : fmt::format("'schedule.{}' has no effect: there is one chunk", key),
                   "say chunks: 2 or more");
    }
  }
  if (chunking.count == 1 && !tiles && !chunking.fills_tiles) return chosen;
  chosen.make = [make = chosen.make, chunking](const ScheduleContext& context) {
    auto made = make(context);
    made->set_chunking(chunking);
    return made;
  };
  return chosen;
}

/// That of the dispatch if the policy names none, or if a change has put another dispatch in the
/// place of the one that the named transport was for.
std::string transport_of(const YamlMap& map, const std::string& dispatch,
                         const std::vector<Override>& overrides) {
  const auto changed = [&](const char* path) {
    return std::ranges::find(overrides, path, &Override::path) != overrides.end();
  };
  const auto known = std::ranges::find(dispatch_mechanisms(), dispatch, &DispatchMechanism::name);
  const std::string own = known == dispatch_mechanisms().end() ? "" : known->transport;
  const std::string named = map.string("transport", own);
  const bool replaced = changed("dispatch") || changed("dispatch.kind");
  return replaced && !changed("transport") ? own : named;
}

/// A kind given by its name is the same as {kind: name}.
std::string text_but_placement(const YamlMap& map, const std::string& transport) {
  std::string text = transport;
  for (const char* kind : {"routing", "dispatch", "schedule"}) {
    const auto value = map.find(kind);
    if (!value) continue;
    const std::string json = value->json();
    text += value->is_map() ? json : fmt::format("{{\"kind\":{}}}", json);
  }
  return text;
}

SystemSpec read(YamlDocument& doc, const std::vector<Override>& overrides) {
  const YamlMap map = doc.root().map();
  SystemSpec system;
  system.name = map.string("name");
  system.description = map.string("description", "");
  system.source = map.string("source");
  system.sources.from = doc.file();
  system.routing = mechanism(map, "routing", routing_mechanisms(), system.sources);
  system.placement = mechanism(map, "placement", placement_mechanisms(), system.sources);
  system.sms = sms_of_dispatch(map);
  system.dispatch = dispatch(map, system.sms, system.sources);
  system.schedule = schedule(map, system.sources);
  system.transport = transport_of(map, system.dispatch.name, overrides);
  system.but_placement = text_but_placement(map, system.transport);
  doc.finish();
  return system;
}

}  // namespace

SystemSpec read_system(const std::string& path, const std::vector<Override>& overrides) {
  return read(*YamlDocument::from_file(path, overrides), overrides);
}

SystemSpec parse_system(const std::string& text, const std::string& name,
                        const std::vector<Override>& overrides) {
  return read(*YamlDocument::from_text(text, name, overrides), overrides);
}

int default_ep(int gpus, int experts) {
  int ep = std::min(gpus, experts);
  while (gpus % ep != 0) --ep;
  return ep;
}

int default_ep(const SystemSpec& system, int gpus, int experts) {
  return system.placement.replicates ? gpus : default_ep(gpus, experts);
}

}  // namespace moesim
