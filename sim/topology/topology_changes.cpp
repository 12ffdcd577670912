// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/topology_changes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "sim/base/error.h"
#include "sim/topology/asymptote.h"

namespace moesim {
namespace {

template <class Key>
double factor_of(const std::map<Key, double>& factors, const Key& key) {
  const auto found = factors.find(key);
  return found == factors.end() ? 1 : found->second;
}

Link changed(Link link, LinkId id, const TopologyChanges& changes) {
  const double speed = speed_of(id, link.link_class, changes);
  link.latency = link.latency * factor_of(changes.latency, link.link_class);
  if (speed == 1) return link;
  link.bandwidth = BytesPerSecond(link.bandwidth.value * speed);
  link.crowded.bandwidth = BytesPerSecond(link.crowded.bandwidth.value * speed);
  if (link.table) {
    link.table = std::make_shared<const BandwidthTable>(link.table->scaled(speed));
    link.bandwidth = asymptote_of(*link.table);
  }
  return link;
}

}  // namespace

double speed_of(LinkId link, int link_class, const TopologyChanges& changes) {
  return factor_of(changes.bandwidth, link_class) * factor_of(changes.link_bandwidth, link);
}

RateWatch::RateWatch(const Topology& topology)
    : topology_(topology), classes_(topology.classes().size()) {}

void RateWatch::begin() { before_ = topology_.rate_looks(); }

void RateWatch::end() {
  const RateLooks now = topology_.rate_looks();
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    const bool asked = now.classes[c] != before_.classes[c] || now.all_links != before_.all_links;
    classes_[c] = classes_[c] || asked;
  }
  overheads_ = overheads_ || now.overheads != before_.overheads;
}

bool RateWatch::any() const {
  return overheads_ || std::ranges::find(classes_, true) != classes_.end();
}

TopologyChanges RateWatch::seen(TopologyChanges changes) const {
  const auto unseen = [this](const auto& of_class) {
    return !classes_[static_cast<std::size_t>(of_class.first)];
  };
  std::erase_if(changes.bandwidth, unseen);
  std::erase_if(changes.latency, unseen);
  if (!overheads_) changes.overhead = 1;
  return changes;
}

Topology changed(const Topology& topology, const TopologyChanges& changes) {
  Topology::Parts parts;
  parts.name = topology.name();
  parts.vertices = topology.vertices();
  parts.classes = topology.classes();
  parts.levels = topology.levels();
  parts.exchange_overhead = topology.exchange_overhead() * changes.overhead;
  parts.peer_overhead = topology.peer_overhead() * changes.overhead;
  parts.network = topology.network();
  parts.measured_with = topology.measured_with();
  parts.overhead_factor = topology.overhead_factor() * changes.overhead;
  for (const GpuId gpu : topology.all_gpus()) {
    parts.gpus.push_back(topology.vertex_of(gpu));
    parts.gpu_model.push_back(topology.gpu_model(gpu));
  }
  LinkId id(0);
  for (const Link& link : topology.links()) {
    if (!changes.failed.contains(id)) parts.links.push_back(changed(link, id, changes));
    ++id.value;
  }
  try {
    return Topology(std::move(parts));
  } catch (const Error& e) {
    if (changes.failed.empty()) throw;
    throw Error("without the failed links: " + e.diagnostics().front().message,
                "the topology has no other route there: fail the GPUs behind it, too");
  }
}

}  // namespace moesim
