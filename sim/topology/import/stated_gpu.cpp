// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/stated_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

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

std::string lower_words(std::string name) {
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9')) c = '-';
  }
  return name;
}

std::string in_one_line(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return name;
}

/// The commonest device of a compute capability that no model covers.
std::string device_of(int sm) {
  constexpr std::array<std::pair<int, const char*>, 7> devices = {{{60, "p100"},
                                                                   {61, "p40"},
                                                                   {70, "v100"},
                                                                   {75, "t4"},
                                                                   {86, "a6000"},
                                                                   {89, "l40s"},
                                                                   {120, "rtx-pro-6000"}}};
  for (const auto& [capability, device] : devices) {
    if (capability == sm) return device;
  }
  return fmt::format("sm{}", sm);
}

/// By what it can do.
StatedGpu gpu_of_capability(const MergedFacts& facts, int links, bool counts) {
  const int sm = facts.sm.value;
  const GpuFamily* family = family_with(sm, counts ? links : 0);
  const std::string device = device_of(sm);
  if (family == nullptr) family = family_named(device);
  return {family ? family->model : device,
          assumed(fmt::format("{} says compute capability {}.{}, {} NVLinks", facts.sm.file,
                              sm / 10, sm % 10, links)),
          family, true};
}

/// By its links, where no file names it.
StatedGpu assumed_gpu(const MergedFacts& facts) {
  const bool mesh = facts.nvlink.value == NvlinkShape::mesh && facts.gpus.value > 1;
  const int links = facts.nvlinks.value * (mesh ? facts.gpus.value - 1 : 1);
  const bool counts = facts.nvlink.value == NvlinkShape::behind_switch || mesh;
  if (facts.sm.known()) return gpu_of_capability(facts, links, counts);
  const auto by = [](const GpuFamily* family, const std::string& why) {
    return StatedGpu{family->model, assumed(why + "; --gpu says which"), family, true};
  };
  const std::string of_links = fmt::format("{} NVLinks", links);
  // Boards of eight V100 are the ones whose six links join some pairs once and others twice.
  const bool boards = facts.nvlink.value == NvlinkShape::mixed && links == 6;
  if (boards) return by(family_named("v100"), of_links);
  const bool switched = facts.nvlink.value == NvlinkShape::behind_switch;
  if (switched && facts.numa_gpus.known() && facts.gpus.value == 4) {
    return by(family_named("gb200"), of_links + ", and each of four GPUs is a NUMA node of Grace");
  }
  if (counts && links > 0) {
    if (const GpuFamily* family = family_with(0, links)) return by(family, of_links);
  }
  if (facts.hosts_each.value > 1 && (!facts.gpus.known() || facts.gpus.value == 4)) {
    return by(family_named("gb200"),
              fmt::format("NVLink joins {} hosts, as in racks", facts.hosts_each.value));
  }
  const BytesPerSecond slot = facts.pcie_rate.value;
  if (facts.pcie_rate.known() && !facts.nvlink.known() && slot < BytesPerSecond(33e9)) {
    return by(family_named(slot < BytesPerSecond(17e9) ? "v100" : "a100"),
              "PCIe of this rate in " + facts.pcie_rate.file);
  }
  const GpuFamily* family = family_named("h100");
  return {family->model, assumed("no file says; --gpu does"), family, true};
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

StatedGpu stated_gpu(const MergedFacts& facts, const std::string& stated) {
  if (!stated.empty()) return {stated, "stated: --gpu", family_named(stated)};
  if (facts.gpu_name.known()) {
    const std::string& name = facts.gpu_name.value;
    const NamedGpu gpu = gpu_named(name);
    const std::string said = in_one_line(name);
    if (gpu.family == nullptr) return {lower_words(name), read_in(facts.gpu_name.file, said)};
    if (gpu.unlike.empty()) {
      return {gpu.family->model, read_in(facts.gpu_name.file, said), gpu.family};
    }
    return {gpu.family->model,
            assumed(fmt::format("{} says {}, {}", facts.gpu_name.file, said, gpu.unlike)),
            gpu.family, true, gpu.is_card};
  }
  if (facts.amd.known()) {
    const GpuFamily* family = family_named("mi300x");
    return {family->model, assumed(facts.amd.file + " says AMD; --gpu says which"), family, true};
  }
  return assumed_gpu(facts);
}

std::string read_in(const std::string& file, const std::string& more) {
  return fmt::format("read: {}{}{}", file, more.empty() ? "" : ": ", more);
}

std::string assumed(const std::string& why) { return "assumed: " + why; }

}  // namespace moesim
