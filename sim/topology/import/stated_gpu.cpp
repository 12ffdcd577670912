// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/stated_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace moesim {
namespace {

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
