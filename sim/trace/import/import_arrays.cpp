// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/import/import_arrays.h"

#include <fmt/format.h>

#include <filesystem>

#include "sim/base/error.h"
#include "sim/trace/import/zip.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

using Named = std::map<std::string, NpyArray>;

Named read_arrays(const std::vector<std::string>& inputs) {
  Named arrays;
  const auto add = [&](const std::string& name, NpyArray array) {
    if (!arrays.emplace(name, std::move(array)).second)
      throw Error(fmt::format("two arrays are named '{}'", name));
  };
  for (const auto& input : inputs) {
    if (fs::path(input).extension() == ".npy") {
      add(fs::path(input).stem().string(), NpyArray::open(input));
      continue;
    }
    const ZipArchive archive(input);
    for (const auto& member : archive.members())
      if (member.name.ends_with(".npy"))
        add(member.name.substr(0, member.name.size() - 4),
            NpyArray::parse(archive.read(member), input + "/" + member.name));
  }
  return arrays;
}

/// The array called `name`, else the only one whose name is in `usual`.
const NpyArray* find(const Named& arrays, const std::string& name, const std::string& role,
                     const std::vector<std::string>& usual, bool required) {
  std::vector<std::string> names;
  for (const auto& [key, array] : arrays) names.push_back(key);
  if (!name.empty()) {
    const auto at = arrays.find(name);
    if (at == arrays.end())
      throw Error(fmt::format("there is no array '{}' for the {}", name, role),
                  did_you_mean(name, names));
    return &at->second;
  }
  const NpyArray* found = nullptr;
  for (const auto& candidate : usual)
    if (const auto at = arrays.find(candidate); at != arrays.end()) {
      if (found != nullptr)
        throw Error(fmt::format("several arrays could be the {}", role),
                    fmt::format("name one of: {}", fmt::join(names, ", ")));
      found = &at->second;
    }
  if (found == nullptr && required)
    throw Error(fmt::format("no array is named like {}", role),
                fmt::format("name one of: {}", fmt::join(names, ", ")));
  return found;
}

}  // namespace

ImportArrays::ImportArrays(const ImportOptions& options)
    : arrays_(read_arrays(options.inputs)),
      ids_(arrays_.size() == 1 && options.ids.empty()
               ? &arrays_.begin()->second
               : find(arrays_, options.ids, "ids",
                      {"ids", "expert_ids", "topk_ids", "indices", "selected_experts"}, true)),
      lengths_(find(arrays_, options.lengths, "sequence lengths",
                    {"seq_len", "seq_lens", "sequence_lengths", "lengths"}, false)),
      weights_(find(arrays_, options.weights, "weights",
                    {"weights", "gate_weights", "topk_weights", "gate_w1e4"}, false)) {
  if (weights_ != nullptr && weights_->shape() != ids_->shape()) {
    throw error_in(weights_->file(),
                   fmt::format("has shape {} but the ids have {}", shape_text(weights_->shape()),
                               shape_text(ids_->shape())));
  }
}

}  // namespace moesim
