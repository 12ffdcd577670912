// SPDX-License-Identifier: Apache-2.0
// The words of --scale, --slow and --fail.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/base/read_number.h"
#include "sim/run/cluster_changes.h"

namespace moesim {
namespace {

const std::vector<std::string> target_kinds = {"gpu", "host", "link", "device"};

/// "NAME=FACTOR"; the flag is for messages.
std::pair<std::string, double> named_factor(const std::string& flag, const std::string& text) {
  const auto equals = text.rfind('=');
  const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
  double factor = 0;
  const auto [end, error] = read_number(number.data(), number.data() + number.size(), factor);
  const bool whole = error == std::errc() && end == number.data() + number.size();
  const bool slow = flag == "--slow";
  const double most = slow ? 1 : 1e3;
  if (!whole || !(factor >= 1e-3 && factor <= most)) {
    throw Error(
        fmt::format("{} {}: it needs NAME=FACTOR, a factor from 0.001 to {:g}", flag, text, most),
        slow ? "times its speed, for example --slow gpu:7=0.8; --scale makes parts faster"
             : "for example --scale nic.bandwidth=1.5");
  }
  return {text.substr(0, equals), factor};
}

/// What a target names.
struct TargetPart {
  std::vector<GpuId> gpus;
  std::vector<LinkId> links;
};

class Targets {
 public:
  Targets(const Topology& topology, std::string flag)
      : topology_(topology), flag_(std::move(flag)) {}

  TargetPart find(const std::string& target) const {
    const auto colon = target.find(':');
    const std::string kind = target.substr(0, colon);
    if (colon == std::string::npos) {
      throw error(target, "it needs KIND:NAME", did_you_mean(kind, target_kinds));
    }
    if (std::ranges::find(target_kinds, kind) == target_kinds.end()) {
      const bool is_device = kind == "nic" || kind == "switch";
      throw error(target, fmt::format("'{}' is not a kind of part", kind),
                  is_device ? "NICs and switches are devices: device:NAME"
                            : did_you_mean(kind, target_kinds));
    }
    const std::string name = target.substr(colon + 1);
    if (kind == "gpu") return {{gpu(target, name)}, {}};
    if (kind == "host") return {host(target, name), {}};
    return {{}, kind == "link" ? cable(target, name) : cables_of(target, name)};
  }

 private:
  Error error(const std::string& target, const std::string& what, std::string hint) const {
    return Error(fmt::format("{} {}: {}", flag_, target, what), std::move(hint));
  }
  const std::string& name_of(VertexId vertex) const {
    return topology_.vertices()[vertex.index()].name;
  }

  GpuId gpu(const std::string& target, const std::string& name) const {
    std::vector<std::string> names;
    for (const GpuId gpu : topology_.all_gpus()) {
      names.push_back(name_of(topology_.vertex_of(gpu)));
      if (name == names.back() || parse_integer<int>(name) == gpu.value) return gpu;
    }
    const std::string ranks = fmt::format("ranks are 0 to {}", topology_.gpu_count() - 1);
    throw error(target, fmt::format("{} has no such GPU", topology_.name()),
                parse_integer<int>(name) ? ranks : did_you_mean(name, names));
  }
  std::vector<GpuId> host(const std::string& target, const std::string& name) const {
    std::vector<GpuId> gpus;
    for (const GpuId gpu : topology_.all_gpus()) {
      if (parse_integer<int>(name) == topology_.host_of(gpu)) gpus.push_back(gpu);
    }
    if (!gpus.empty()) return gpus;
    throw error(target, fmt::format("{} has no such host", topology_.name()),
                fmt::format("hosts are 0 to {}", topology_.host_count() - 1));
  }
  /// "A--B": both directions.
  std::vector<LinkId> cable(const std::string& target, const std::string& name) const {
    std::vector<std::string> names;
    std::vector<LinkId> found;
    LinkId id(0);
    for (const Link& link : topology_.links()) {
      const std::string there = fmt::format("{}--{}", name_of(link.from), name_of(link.to));
      if (name == there || name == fmt::format("{}--{}", name_of(link.to), name_of(link.from))) {
        found.push_back(id);
      }
      if (std::abs(std::ssize(there) - std::ssize(name)) < 4) names.push_back(there);
      ++id.value;
    }
    if (!found.empty()) return found;
    throw error(target, fmt::format("{} has no such link", topology_.name()),
                names.empty() ? fmt::format("links are called {}--{} and the like",
                                            name_of(topology_.links().front().from),
                                            name_of(topology_.links().front().to))
                              : nearest_part(name, names));
  }
  static std::string nearest_part(const std::string& name, const std::vector<std::string>& names) {
    const std::string close = nearest(name, names);
    const auto nic = std::ranges::find_if(
        names, [](const std::string& known) { return known.find("nic") != std::string::npos; });
    const std::string& one = nic == names.end() ? names.front() : *nic;
    return close.empty() ? fmt::format("they are called {} and the like", one)
                         : fmt::format("did you mean '{}'?", close);
  }
  /// All links of a NIC or a switch.
  std::vector<LinkId> cables_of(const std::string& target, const std::string& name) const {
    std::vector<std::string> names;
    std::vector<LinkId> found;
    LinkId id(0);
    for (const Link& link : topology_.links()) {
      if (name_of(link.from) == name || name_of(link.to) == name) found.push_back(id);
      ++id.value;
    }
    for (const Vertex& vertex : topology_.vertices()) {
      if (vertex.kind != VertexKind::gpu) names.push_back(vertex.name);
    }
    if (!found.empty() && std::ranges::find(names, name) != names.end()) return found;
    if (!found.empty()) throw error(target, "it is a GPU", "say gpu:" + name);
    throw error(target, fmt::format("{} has no such NIC or switch", topology_.name()),
                nearest_part(name, names));
  }

  const Topology& topology_;
  std::string flag_;
};

}  // namespace

std::vector<std::string> resources_of(const Topology& topology) {
  std::vector<std::string> names = {"gpu.flops", "gpu.memory_bandwidth", "gpu.launch"};
  for (const LinkClass& link_class : topology.classes()) {
    names.push_back(link_class.name + ".bandwidth");
  }
  for (const LinkClass& link_class : topology.classes()) {
    names.push_back(link_class.name + ".latency");
  }
  for (const char* name :
       {"network.bandwidth", "network.latency", "exchange.overhead", "host.time"}) {
    names.emplace_back(name);
  }
  return names;
}

void scale(ClusterChanges& changes, const Topology& topology, const std::string& resource,
           double factor) {
  const auto multiply = [&](double& value) { value *= factor; };
  if (resource == "gpu.flops") return multiply(changes.gpus.flops);
  if (resource == "gpu.memory_bandwidth") return multiply(changes.gpus.memory_bandwidth);
  if (resource == "gpu.launch") return multiply(changes.gpus.launch);
  if (resource == "host.time") return multiply(changes.gpus.host);
  if (resource == "exchange.overhead") return multiply(changes.topology.overhead);
  bool found = false;
  for (std::size_t c = 0; c < topology.classes().size(); ++c) {
    for (const std::string& name : {topology.classes()[c].name, std::string("network")}) {
      auto& factors =
          resource == name + ".bandwidth" ? changes.topology.bandwidth : changes.topology.latency;
      if (resource != name + ".bandwidth" && resource != name + ".latency") continue;
      multiply(factors.try_emplace(static_cast<int>(c), 1.0).first->second);
      found = true;
    }
  }
  if (found) return;
  throw Error(fmt::format("--scale {}: {} has no such resource", resource, topology.name()),
              did_you_mean(resource, resources_of(topology)));
}

ClusterChanges changes_of(const WhatIf& what, const Topology& topology) {
  ClusterChanges changes;
  for (const std::string& text : what.scale) {
    const auto [resource, factor] = named_factor("--scale", text);
    scale(changes, topology, resource, factor);
  }
  for (const std::string& text : what.slow) {
    const auto [target, factor] = named_factor("--slow", text);
    const TargetPart part = Targets(topology, "--slow").find(target);
    for (const GpuId gpu : part.gpus) changes.slow.try_emplace(gpu, 1.0).first->second *= factor;
    for (const LinkId link : part.links) {
      changes.topology.link_bandwidth.try_emplace(link, 1.0).first->second *= factor;
    }
  }
  for (const std::string& target : what.fail) {
    const TargetPart part = Targets(topology, "--fail").find(target);
    changes.failed.insert(part.gpus.begin(), part.gpus.end());
    changes.topology.failed.insert(part.links.begin(), part.links.end());
  }
  for (const std::string& text : what.slow) {
    const std::string target = named_factor("--slow", text).first;
    const TargetPart part = Targets(topology, "--slow").find(target);
    const auto fails = [](const auto& failed, const auto& parts) {
      return std::ranges::all_of(parts, [&](auto each) { return failed.contains(each); });
    };
    if (fails(changes.failed, part.gpus) && fails(changes.topology.failed, part.links)) {
      throw Error(fmt::format("--slow {}: it fails", text), "leave --slow or --fail out");
    }
  }
  return changes;
}

}  // namespace moesim
