// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/gpu_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "sim/base/lower_case.h"
#include "sim/base/read_number.h"

namespace moesim {
namespace {

/// Data sheets of NVIDIA and AMD.
constexpr std::array<GpuFamily, 17> gpu_families = {
    {{"gb300", "gb300-training", 103, 18, 50e9, 64e9, 100e9, 288, NvlinkJoin::rack_switch},
     {"gb200", "gb200-training", 100, 18, 50e9, 64e9, 50e9, 186, NvlinkJoin::rack_switch},
     {"gh200", "h200-measured", 90, 18, 25e9, 64e9, 50e9, 0, NvlinkJoin::none},
     {"b300", "b300-training", 103, 18, 50e9, 64e9, 100e9, 288},
     {"b200", "b200-training", 100, 18, 50e9, 64e9, 50e9, 186},
     {"h200", "h200-measured", 90, 18, 25e9, 64e9, 50e9, 141},
     {"h20", "h20-measured", 90, 18, 25e9, 64e9, 50e9, 96},
     {"h800", "h800-measured", 90, 8, 25e9, 64e9, 50e9, 80},
     {"h100", "h100-measured", 90, 18, 25e9, 64e9, 50e9, 80},
     {"a100", "a100-measured", 80, 12, 25e9, 32e9, 25e9, 80},
     {"a800", "a800", 80, 8, 25e9, 32e9, 25e9, 80},
     {"a6000", "a6000", 86, 4, 14.0625e9, 32e9, 12.5e9, 48, NvlinkJoin::bridge},
     {"v100", "v100", 70, 6, 25e9, 16e9, 12.5e9, 0},
     {"mi300x", "mi300x", 94, 1, 64e9, 64e9, 50e9, 192, NvlinkJoin::mesh},
     {"gfx942", "mi300x", 94, 1, 64e9, 64e9, 50e9, 0, NvlinkJoin::mesh},
     {"mi355x", "mi355x", 95, 1, 76.8e9, 64e9, 50e9, 288, NvlinkJoin::mesh},
     {"gfx950", "mi355x", 95, 1, 76.8e9, 64e9, 50e9, 0, NvlinkJoin::mesh}}};

/// Of several families with the same figures, the one whose figures are published most.
constexpr std::array<const char*, 6> commonest = {"h100", "h800", "b200", "b300", "a100", "a800"};

/// "NVIDIA-A100-SXM4-40GB" as "nvidia", "a100", "sxm4", "40gb".
std::vector<std::string> words_of_device(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : lower_case(name)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

/// "40gb" and "144g" as a number; 0 for other words, such as "8g" of a machine with 8 GPUs.
int memory_in(const std::string& word) {
  const std::size_t end = word.find_first_not_of("0123456789");
  if (end == 0 || end == word.npos) return 0;
  const std::string unit = word.substr(end);
  const int number = parse_integer<int>(word.substr(0, end)).value_or(0);
  constexpr int most_gpus = 32;
  const bool memory = unit == "gb" || unit == "gib" || (unit == "g" && number > most_gpus);
  return memory ? number : 0;
}

/// Of several words for a family's memory and form, what the device has otherwise.
std::string unlike_model(const NamedGpu& gpu, const std::vector<std::string>& words) {
  const GpuFamily& family = *gpu.family;
  if (gpu.is_card) return fmt::format("a card for PCIe; {} is of modules", family.model);
  for (const std::string& word : words) {
    constexpr double same = 0.1;  // data sheets round, and drivers take some
    const int memory = memory_in(word);
    if (memory > 0 && family.memory > 0 &&
        std::abs(memory - family.memory) > same * family.memory) {
      return fmt::format("with {} GB; {} has {} GB", memory, family.model, family.memory);
    }
    if (word == "3e" && std::string_view(family.word) == "h20") {
      return fmt::format("with HBM3e; {} has {} GB of HBM3", family.model, family.memory);
    }
  }
  if (family.nvlink_join == NvlinkJoin::none) {
    return fmt::format("whose memory has several sizes; {} is of another board", family.model);
  }
  return "";
}

}  // namespace

NamedGpu gpu_named(const std::string& name) {
  const auto words = words_of_device(name);
  NamedGpu gpu;
  for (const GpuFamily& family : gpu_families) {
    const bool named = std::ranges::any_of(words, [&](const std::string& word) {
      const std::size_t end = std::strlen(family.word);  // RTX A1000 differs from A100
      return word.starts_with(family.word) &&
             (end == word.size() || std::isdigit(static_cast<unsigned char>(word[end])) == 0);
    });
    if (!named) continue;
    gpu.family = &family;
    break;
  }
  if (gpu.family == nullptr) return gpu;
  const bool switched = gpu.family->nvlink_join == NvlinkJoin::host_switch;
  gpu.is_card = switched && std::ranges::any_of(words, [&](const std::string& word) {
                  // All H100 with this memory are cards.
                  return word == "pcie" || word == "nvl" ||
                         (word == "hbm2e" && std::string_view(gpu.family->word) == "h100");
                });
  gpu.unlike = unlike_model(gpu, words);
  return gpu;
}

const GpuFamily* family_named(const std::string& name) { return gpu_named(name).family; }

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
