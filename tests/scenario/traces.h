// SPDX-License-Identifier: Apache-2.0
// The traces that tests replay: the committed ones, and the public ones where they are at hand.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/import/importer.h"

namespace moesim {

/// A trace and the shipped model whose experts and top-k it has.
struct TraceCase {
  std::string name;
  std::string model;
};

inline const std::vector<TraceCase> trace_cases = {{"tiny-moe-train", "gpt-oss-20b"},
                                                   {"esft-law", "deepseek-v2-lite"},
                                                   {"esft-translation", "deepseek-v2-lite"},
                                                   {"gptoss20b", "gpt-oss-20b"}};

inline RoutingTrace imported(const std::string& file, int experts) {
  ImportOptions options;
  options.inputs = {file};
  options.output = "imported";
  options.experts = experts;
  Import import = import_npz(options, {});
  const TraceInfo info = import.info;
  return {info, {make_step(info, std::move(import.step))}};
}

/// Nothing when the public data are not at hand.
inline std::optional<RoutingTrace> open_trace(const std::string& name) {
  const std::string shared = std::string(MOESIM_SHARED) + "/traces";
  if (name == "tiny-moe-train") return RoutingTrace::open(MOESIM_ROOT "/traces/tiny-moe-train");
  if (!std::filesystem::exists(shared)) return std::nullopt;
  if (name == "esft-law") return imported(shared + "/esft_deepseek_v2_lite/law.npz", 64);
  if (name == "esft-translation") {
    return imported(shared + "/esft_deepseek_v2_lite/translation.npz", 64);
  }
  return imported(shared + "/gptoss20b_decode/ids_u8_T_L_K.npz", 32);
}

}  // namespace moesim
