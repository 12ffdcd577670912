// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/stated_gpu.h"

#include <fmt/format.h>

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

/// By its links, where no file names it.
StatedGpu assumed_gpu(const MergedFacts& facts) {
  const bool mesh = facts.nvlink.value == NvlinkShape::mesh && facts.gpus.value > 1;
  const int links = facts.nvlinks.value * (mesh ? facts.gpus.value - 1 : 1);
  const bool mixed = facts.nvlink.value == NvlinkShape::mixed;
  const bool counts = facts.nvlink.value == NvlinkShape::behind_switch || mesh || mixed;
  // Boards of eight V100 are the ones whose six links join some pairs once and others twice.
  const GpuFamily* family = mixed && links == 6 && !facts.sm.known()
                                ? family_named("v100")
                                : family_with(facts.sm.value, counts ? links : 0);
  std::string why = "no file says; --gpu does";
  if (facts.sm.known()) {
    why = fmt::format("{} says compute capability {}.{}, {} NVLinks", facts.sm.file,
                      facts.sm.value / 10, facts.sm.value % 10, links);
  } else if (counts && links > 0 && family != nullptr) {
    why = fmt::format("{} NVLinks; --gpu says which", links);
  }
  if (family == nullptr && facts.sm.known()) {
    const std::string device = device_of(facts.sm.value);
    family = family_named(device);
    return {family ? family->model : device, assumed(why), family};
  }
  if (facts.hosts_each.value > 1 && !facts.nvlinks.known() &&
      (!facts.gpus.known() || facts.gpus.value == 4)) {
    family = family_named("gb200");
    why =
        fmt::format("NVLink joins {} hosts, as in racks; --gpu says which", facts.hosts_each.value);
  }
  if (family == nullptr) family = family_named("h100");
  return {family->model, assumed(why), family};
}

}  // namespace

StatedGpu stated_gpu(const MergedFacts& facts, const std::string& stated) {
  if (!stated.empty()) return {stated, "stated: --gpu", family_named(stated)};
  if (facts.gpu_name.known()) {
    const std::string& name = facts.gpu_name.value;
    const GpuFamily* family = family_named(name);
    return {family ? family->model : lower_words(name), read_in(facts.gpu_name.file, name), family};
  }
  if (facts.amd.known()) {
    const GpuFamily* family = family_named("mi300x");
    return {family->model, assumed(facts.amd.file + " says AMD; --gpu says which"), family};
  }
  return assumed_gpu(facts);
}

std::string read_in(const std::string& file, const std::string& more) {
  return fmt::format("read: {}{}{}", file, more.empty() ? "" : ": ", more);
}

std::string assumed(const std::string& why) { return "assumed: " + why; }

}  // namespace moesim
