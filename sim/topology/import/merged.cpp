// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/merged.h"

#include <fmt/format.h>

#include <type_traits>

#include "sim/base/error.h"
#include "sim/topology/import/gpu_families.h"

namespace moesim {
namespace {

std::string shown(int value) { return std::to_string(value); }
const std::string& shown(const std::string& value) { return value; }
std::string shown(NvlinkShape shape) {
  switch (shape) {
    case NvlinkShape::unknown:
      return "unknown";
    case NvlinkShape::none:
      return "none";
    case NvlinkShape::behind_switch:
      return "through switches";
    case NvlinkShape::mesh:
      return "between all pairs";
    case NvlinkShape::pairs:
      return "in pairs";
    case NvlinkShape::mixed:
      return "between some pairs";
  }
  return "";
}

/// Takes over what a file says; `nothing` is the value of one that does not.
template <class T>
void take(Said<T>& said, const T& value, const std::string& file, const char* what,
          const T& nothing = {}) {
  if (value == nothing) return;
  if (said.known() && !(said.value == value)) {
    throw Error(fmt::format("{} and {} contradict each other: {} {} and {}", said.file, file, what,
                            shown(said.value), shown(value)),
                "files of one cluster whose nodes are alike");
  }
  if (!said.known()) said = {value, file};
}

/// The same for what files know more or less exactly, such as a rate: the first one counts.
template <class T>
void take_first(Said<T>& said, const T& value, const std::string& file, const T& nothing = {}) {
  if (!(value == nothing) && !said.known()) said = {value, file};
}

/// A rate that no link has is a fault of the file, and counts as unknown.
void take_rate(Said<BytesPerSecond>& said, BytesPerSecond rate, const std::string& file) {
  constexpr BytesPerSecond most(100e12);
  if (rate >= BytesPerSecond(1) && rate <= most) take_first(said, rate, file);
}

/// Files of one form count alike, so what differs is of the nodes.
void check_alike(const ClusterFacts& one, const ClusterFacts& other) {
  if (!one.node || !other.node) return;
  const auto check = [&](const auto& a, const auto& b, const char* what) {
    if (a == std::decay_t<decltype(a)>{} || b == std::decay_t<decltype(b)>{} || a == b) return;
    throw Error(
        fmt::format("{} and {} contradict each other: {} {} and {}", one.file, other.file, what,
                    shown(a), shown(b)),
        "files of one cluster whose nodes are alike; of another kind of node leave them out");
  };
  const GpuFamily* a = family_named(one.node->gpu_name);
  const GpuFamily* b = family_named(other.node->gpu_name);
  if (a != b && a != nullptr && b != nullptr)
    check(one.node->gpu_name, other.node->gpu_name, "GPU");
  if (one.form != other.form) return;
  check(one.node->gpu_name, other.node->gpu_name, "GPU");
  check(one.node->nvlinks, other.node->nvlinks, "NVLinks:");
  check(one.node->nics, other.node->nics, "NICs of a node:");
  check(one.node->network, other.node->network, "network");
}

void take_node(const NodeFacts& node, const std::string& file, MergedFacts& all) {
  ++all.node_files;
  take(all.gpus, node.gpus, file, "GPUs of a node:");
  take_first(all.gpu_name, node.gpu_name, file);
  take_first(all.amd, node.amd, file);
  take_first(all.numa_gpus, node.numa_gpus, file);
  take(all.sm, node.sm, file, "compute capability:");
  take(all.nvlink, node.nvlink, file, "NVLink", NvlinkShape::unknown);
  take_first(all.nvlinks, node.nvlinks, file);
  take_rate(all.nvlink_rate, node.nvlink_rate, file);
  take_rate(all.pcie_rate, node.pcie_rate, file);
  take_first(all.sockets, node.sockets, file);
  take_first(all.switches, node.switches, file);
  take_first(all.nics, node.nics, file);
  take_first(all.other_nics, node.other_nics, file);
  take_rate(all.nic_rate, node.nic_rate, file);
  take_first(all.network, node.network, file);
}

}  // namespace

MergedFacts merged(const std::vector<ClusterFacts>& files) {
  MergedFacts all;
  for (const ClusterFacts& one : files) {
    check_alike(files.front(), one);
    if (one.node) take_node(*one.node, one.file, all);
    take(all.hosts, one.hosts, one.file, "hosts:");
    take_first(all.domains, one.domains.domains, one.file);
    take_first(all.hosts_each, one.domains.hosts_each, one.file);
    for (const std::string& text : one.left_out) {
      all.left_out.push_back(fmt::format("{}: {}", one.file, text));
    }
    if (!one.fabric) continue;
    if (all.fabric) {
      throw Error(fmt::format("{} and {} both describe the fabric", all.fabric->file, one.file),
                  "give one of them");
    }
    try {
      all.fabric = Said<FabricShape>{shape_of(*one.fabric), one.file};
    } catch (const Error& e) {
      throw error_in(one.file, e.diagnostics().front().message, e.diagnostics().front().hint);
    }
    take_first(all.nics, all.fabric->value.nics_per_host, one.file);
    take_rate(all.nic_rate, one.fabric->nic_rate, one.file);
    take_first(all.network, one.fabric->network, one.file);
  }
  return all;
}

}  // namespace moesim
