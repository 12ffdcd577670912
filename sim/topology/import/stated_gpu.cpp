// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/stated_gpu.h"

#include <fmt/format.h>

namespace moesim {
namespace {

std::string lower_words(std::string name) {
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9')) c = '-';
  }
  return name;
}

/// By its links, where no file names it.
StatedGpu assumed_gpu(const MergedFacts& facts) {
  const bool mesh = facts.nvlink.value == NvlinkShape::mesh && facts.gpus.value > 1;
  const int links = facts.nvlinks.value * (mesh ? facts.gpus.value - 1 : 1);
  const bool counts = facts.nvlink.value == NvlinkShape::behind_switch || mesh;
  const GpuFamily* family = family_with(facts.sm.value, counts ? links : 0);
  std::string why = "no file says; --gpu does";
  if (facts.sm.known()) {
    why = fmt::format("{} says compute capability {}.{}, {} NVLinks", facts.sm.file,
                      facts.sm.value / 10, facts.sm.value % 10, links);
  } else if (counts && links > 0 && family != nullptr) {
    why = fmt::format("{} NVLinks; --gpu says which", links);
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
