// SPDX-License-Identifier: Apache-2.0
// SimGrid's calls that 4.0 names otherwise than 3.32: moesim builds with both.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <functional>
#include <simgrid/Exception.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

namespace moesim::simgrid_api {

namespace s4u = simgrid::s4u;

#ifdef MOESIM_SIMGRID_4

inline constexpr const char* precision_flag = "--cfg=precision/timing:";

inline s4u::NetZone* cluster_zone(s4u::Engine& engine) {
  return engine.get_netzone_root()->add_netzone_empty("cluster");
}
inline s4u::NetZone* add_full_zone(s4u::NetZone& parent, const std::string& name) {
  return parent.add_netzone_full(name);
}
inline s4u::Host* add_host(s4u::NetZone& zone, const std::string& name) {
  return zone.add_host(name, 1.0);
}
inline s4u::Link* add_link(s4u::NetZone& zone, const std::string& name, double bandwidth) {
  return zone.add_link(name, bandwidth);
}
/// One direction.
inline void add_route(s4u::NetZone& zone, const s4u::Host& from, const s4u::Host& to,
                      const std::vector<s4u::LinkInRoute>& links) {
  zone.add_route(&from, &to, links, false);
}
inline void add_actor(const std::string& name, s4u::Host* host, std::function<void()> function) {
  s4u::Engine::add_actor(name, host, function);
}
/// The place of one that has ended; -1 if none has after `patience` seconds (below 0: forever).
inline ssize_t wait_any_for(const std::vector<s4u::CommPtr>& running, double patience) {
  s4u::ActivitySet set;
  for (const s4u::CommPtr& comm : running) set.push(comm);
  try {
    const s4u::ActivityPtr ended = set.wait_any_for(patience);
    const auto found = std::find(running.begin(), running.end(), ended);
    return found == running.end() ? -1 : found - running.begin();
  } catch (const simgrid::TimeoutException&) {
    return -1;
  }
}

#else

inline constexpr const char* precision_flag = "--cfg=surf/precision:";

inline s4u::NetZone* cluster_zone(s4u::Engine&) { return s4u::create_empty_zone("cluster"); }
inline s4u::NetZone* add_full_zone(s4u::NetZone& parent, const std::string& name) {
  return s4u::create_full_zone(name)->set_parent(&parent);
}
inline s4u::Host* add_host(s4u::NetZone& zone, const std::string& name) {
  return zone.create_host(name, 1.0);
}
inline s4u::Link* add_link(s4u::NetZone& zone, const std::string& name, double bandwidth) {
  return zone.create_link(name, bandwidth);
}
inline void add_route(s4u::NetZone& zone, const s4u::Host& from, const s4u::Host& to,
                      const std::vector<s4u::LinkInRoute>& links) {
  zone.add_route(from.get_netpoint(), to.get_netpoint(), nullptr, nullptr, links, false);
}
inline void add_actor(const std::string& name, s4u::Host* host, std::function<void()> function) {
  s4u::Actor::create(name, host, std::move(function));
}
inline ssize_t wait_any_for(const std::vector<s4u::CommPtr>& running, double patience) {
  return s4u::Comm::wait_any_for(running, patience);
}

#endif

}  // namespace moesim::simgrid_api
