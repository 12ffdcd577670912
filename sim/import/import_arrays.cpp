// SPDX-License-Identifier: Apache-2.0
#include "sim/import/import_arrays.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>

#include "sim/base/error.h"
#include "sim/import/input_hash.h"
#include "sim/import/zip.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// An array that may be read: a .npy file, or a member of an archive.
struct Source {
  std::string input;
  std::shared_ptr<const ZipArchive> archive;  // null for a .npy file
  ZipArchive::Member member;

  NpyArray read() const {
    if (!archive) return NpyArray::open(input);
    return NpyArray::parse(archive->read(member), input + "/" + member.name);
  }
};

/// By name. Nothing is read before it is known to be needed: in addition to the ids recorders keep
/// texts and other objects that are not arrays of numbers.
using Sources = std::map<std::string, Source>;

Sources find_sources(const std::vector<std::string>& inputs) {
  Sources sources;
  const auto add = [&](const std::string& name, Source source) {
    if (!sources.emplace(name, std::move(source)).second) {
      throw Error(fmt::format("two arrays are named '{}'", name));
    }
  };
  for (const auto& input : input_files(inputs)) {
    if (fs::path(input).extension() == ".npy") {
      add(fs::path(input).stem().string(), {input, nullptr, {}});
      continue;
    }
    const auto archive = std::make_shared<const ZipArchive>(input);
    for (const auto& member : archive->members()) {
      if (member.name.ends_with(".npy")) {
        add(member.name.substr(0, member.name.size() - 4), {input, archive, member});
      }
    }
  }
  return sources;
}

/// The array called `name`, else the only one whose name is in `usual`.
const Source* find(const Sources& sources, const std::string& name, const std::string& role,
                   const std::vector<std::string>& usual, bool required) {
  std::vector<std::string> names;
  for (const auto& [key, source] : sources) names.push_back(key);
  if (!name.empty()) {
    const auto at = sources.find(name);
    if (at == sources.end()) {
      throw Error(fmt::format("there is no array '{}' for the {}", name, role),
                  did_you_mean(name, names));
    }
    return &at->second;
  }
  const Source* found = nullptr;
  for (const auto& candidate : usual) {
    if (const auto at = sources.find(candidate); at != sources.end()) {
      if (found != nullptr) {
        throw Error(fmt::format("several arrays could be the {}", role),
                    fmt::format("name one of: {}", fmt::join(names, ", ")));
      }
      found = &at->second;
    }
  }
  if (found == nullptr && required) {
    throw Error(fmt::format("no array is named like {}", role),
                fmt::format("name one of: {}", fmt::join(names, ", ")));
  }
  return found;
}

const Source& find_ids(const Sources& sources, const ImportOptions& options) {
  if (sources.size() == 1 && options.ids.empty()) return sources.begin()->second;
  return *find(sources, options.ids, "ids",
               {"ids", "expert_ids", "topk_ids", "indices", "selected_experts"}, true);
}

std::optional<NpyArray> read(const Source* source) {
  return source == nullptr ? std::nullopt : std::optional(source->read());
}

}  // namespace

ImportArrays read_import_arrays(const ImportOptions& options) {
  const Sources sources = find_sources(options.inputs);
  ImportArrays arrays{find_ids(sources, options).read(),
                      read(find(sources, options.lengths, "sequence lengths",
                                {"seq_len", "seq_lens", "sequence_lengths", "lengths"}, false)),
                      read(find(sources, options.weights, "weights",
                                {"weights", "gate_weights", "topk_weights", "gate_w1e4"}, false))};
  if (arrays.weights && arrays.weights->shape() != arrays.ids.shape()) {
    throw error_in(arrays.weights->file(), fmt::format("has shape {} but the ids have {}",
                                                       shape_text(arrays.weights->shape()),
                                                       shape_text(arrays.ids.shape())));
  }
  return arrays;
}

}  // namespace moesim
