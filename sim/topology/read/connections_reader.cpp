// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/read/connections_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/topology/read/spec_reader.h"

namespace moesim {
namespace {

constexpr Range possible_bytes{1, 1e12};
constexpr Range possible_start{0, 1};
constexpr Range possible_cores{1, 1'000'000};

Bytes read_bytes(const YamlMap& map, const std::string& key) {
  const auto value = map.get(key);
  return value ? value->bytes(possible_bytes) : Bytes(1);
}

BytesPerSecond read_rate(const YamlMap& map, const std::string& key) {
  const auto value = map.get(key);
  return value ? value->bandwidth(possible_bandwidth) : BytesPerSecond(1);
}

Seconds read_start(const YamlMap& map, const std::string& key) {
  const auto value = map.get(key);
  return value ? value->seconds(possible_start) : Seconds(0);
}

HostCores read_host(const YamlMap& map) {
  HostCores host;
  host.cores = static_cast<int>(map.integer("cores", possible_cores));
  host.one_machine = map.boolean("one_machine", false);
  host.exchange_start = read_start(map, "exchange_start");
  host.kernel_start = read_start(map, "kernel_start");
  host.pack = read_rate(map, "pack");
  host.carry = read_rate(map, "carry");
  return host;
}

}  // namespace

Connections read_connections(const YamlMap& map, const std::vector<LinkClass>& classes,
                             const std::vector<Link>& links) {
  Connections result;
  result.buffer = read_bytes(map, "buffer");
  result.queued = read_bytes(map, "queued");
  result.segment = read_bytes(map, "segment");
  if (map.good({"buffer", "segment"}) && result.segment > result.buffer) {
    map.get("segment")->error("a segment is longer than 'buffer', so that none is ever whole");
  }
  if (const auto queues = map.get("queues")) {
    const YamlMap named = queues->map();
    for (const std::string& name : named.keys()) {
      const auto place = std::ranges::find(classes, name, &LinkClass::name);
      const YamlValue value = *named.find(name);
      const YamlMap stated = value.map();
      const Connections::Queue queue{read_rate(stated, "rate"), read_bytes(stated, "burst")};
      if (place == classes.end()) value.error(fmt::format("no link is of class '{}'", name));
      for (std::size_t l = 0; l < links.size(); ++l) {
        if (links[l].link_class != place - classes.begin()) continue;
        result.queues[LinkId(static_cast<std::int64_t>(l))] = queue;
      }
    }
  }
  if (const auto host = map.find("host")) result.host = read_host(host->map());
  return result;
}

}  // namespace moesim
