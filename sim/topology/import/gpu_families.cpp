// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/gpu_families.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "sim/base/lower_case.h"

namespace moesim {
namespace {

/// Data sheets of NVIDIA and AMD. Longer words come before words that they contain.
constexpr std::array<GpuFamily, 16> gpu_families = {
    {{"gb300", "gb300-training", 103, 18, 50e9, 64e9, 100e9, NvlinkJoin::rack_switch},
     {"gb200", "gb200-training", 100, 18, 50e9, 64e9, 50e9, NvlinkJoin::rack_switch},
     {"b300", "b300-training", 103, 18, 50e9, 64e9, 100e9},
     {"b200", "b200-training", 100, 18, 50e9, 64e9, 50e9},
     {"h200", "h200-measured", 90, 18, 25e9, 64e9, 50e9},
     {"h20", "h20-measured", 90, 18, 25e9, 64e9, 50e9},
     {"h800", "h800-measured", 90, 8, 25e9, 64e9, 50e9},
     {"h100", "h100-measured", 90, 18, 25e9, 64e9, 50e9},
     {"a100", "a100-measured", 80, 12, 25e9, 32e9, 25e9},
     {"a800", "a800", 80, 8, 25e9, 32e9, 25e9},
     {"a6000", "a6000", 86, 4, 14.0625e9, 32e9, 12.5e9, NvlinkJoin::bridge},
     {"v100", "v100", 70, 6, 25e9, 16e9, 12.5e9},
     {"mi300x", "mi300x", 94, 1, 64e9, 64e9, 50e9, NvlinkJoin::mesh},
     {"gfx942", "mi300x", 94, 1, 64e9, 64e9, 50e9, NvlinkJoin::mesh},
     {"mi355x", "mi355x", 95, 1, 76.8e9, 64e9, 50e9, NvlinkJoin::mesh},
     {"gfx950", "mi355x", 95, 1, 76.8e9, 64e9, 50e9, NvlinkJoin::mesh}}};

/// Of several families with the same figures, the one whose figures are published most.
constexpr std::array<const char*, 6> commonest = {"h100", "h800", "b200", "b300", "a100", "a800"};

}  // namespace

const GpuFamily* family_named(const std::string& name) {
  const std::string small = lower_case(name);
  for (const GpuFamily& family : gpu_families) {
    const std::size_t at = small.find(family.word);
    if (at == small.npos) continue;
    const std::size_t end = at + std::strlen(family.word);
    const bool goes_on = end < small.size() && std::isdigit(static_cast<unsigned char>(small[end]));
    if (!goes_on) return &family;  // RTX A1000 differs from A100
  }
  return nullptr;
}

const GpuFamily* family_with(int sm, int nvlinks) {
  for (const char* word : commonest) {
    const GpuFamily* family = family_named(word);
    if ((sm == 0 || family->sm == sm) && (nvlinks == 0 || family->nvlinks == nvlinks)) {
      return family;
    }
  }
  return sm > 0 && nvlinks > 0 ? family_with(sm, 0) : nullptr;
}

}  // namespace moesim
