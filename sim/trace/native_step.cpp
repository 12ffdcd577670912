// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/native_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>

#include "sim/base/files.h"
#include "sim/base/read_number.h"
#include "sim/trace/npy.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

class NativeStep : public TraceStep {
 public:
  NativeStep(std::int64_t number, NpyArray ids, NpyArray lengths, std::optional<NpyArray> ranks,
             std::optional<NpyArray> weights)
      : number_(number),
        ids_(std::move(ids)),
        lengths_(std::move(lengths)),
        ranks_(std::move(ranks)),
        weights_(std::move(weights)) {}

  std::int64_t number() const override { return number_; }
  std::int64_t tokens() const override { return ids_.shape()[1]; }
  /// Layers are read one after the other: the one before leaves memory; a trace would fill more
  /// than all else. Views of it stay valid, their pages are read again when they are touched.
  IdRows ids(int layer) const override {
    const int before = newest_.exchange(layer);
    if (before >= 0 && before != layer) {
      ids_.forget(row(before, 0), row(before + 1, 0) - row(before, 0));
    }
    const auto* data = static_cast<const std::uint8_t*>(ids_.data());
    return {data + row(layer, 0) * ids_.type().size, ids_.type().size,
            static_cast<int>(ids_.shape()[2]), tokens()};
  }
  std::span<const std::int32_t> sequence_lengths() const override {
    return {static_cast<const std::int32_t*>(lengths_.data()),
            static_cast<std::size_t>(lengths_.count())};
  }
  bool has_weights() const override { return weights_.has_value(); }
  float weight(int layer, std::int64_t token, int k) const override {
    return static_cast<float>(weights_->real(row(layer, token) + k));
  }
  bool has_source_ranks() const override { return ranks_.has_value(); }
  int source_rank(std::int64_t token) const override {
    return ranks_ ? static_cast<int>(ranks_->integer(token)) : 0;
  }

 private:
  std::int64_t row(int layer, std::int64_t token) const {
    return (layer * tokens() + token) * ids_.shape()[2];
  }

  std::int64_t number_;
  NpyArray ids_;
  NpyArray lengths_;
  std::optional<NpyArray> ranks_;
  std::optional<NpyArray> weights_;
  mutable std::atomic<int> newest_ = -1;  // layer asked for
};

/// Checks the arrays of one folder against the trace and each other.
class StepReader {
 public:
  StepReader(const StepFolder& folder, const TraceInfo& info, std::vector<Diagnostic>& problems)
      : folder_(folder), info_(info), problems_(problems), problems_before_(problems.size()) {}

  std::shared_ptr<const TraceStep> read() {
    check_names();
    auto ids = array("ids", true);
    auto lengths = array("sequence_lengths", true);
    auto ranks = array("source_ranks", false);
    auto weights = array("gate_weights", false);
    if (ids) check_ids(*ids);
    if (lengths) check_type(*lengths, {{'i', 4}}, ".astype(np.int32)");
    if (ranks) check_type(*ranks, {{'u', 2}, {'i', 4}}, ".astype(np.uint16)");
    if (weights) check_type(*weights, {{'f', 2}, {'f', 4}}, ".astype(np.float16)");
    if (!clean()) return nullptr;
    const std::int64_t tokens = ids->shape()[1];
    check_lengths(*lengths, tokens);
    if (ranks && ranks->shape() != std::vector{tokens}) {
      report(ranks->file(), fmt::format("has shape {} but the step has {} tokens",
                                        shape_text(ranks->shape()), tokens));
    }
    if (weights && weights->shape() != ids->shape()) {
      report(weights->file(), fmt::format("has shape {} but ids.npy has {}",
                                          shape_text(weights->shape()), shape_text(ids->shape())));
    }
    if (!clean()) return nullptr;
    return std::make_shared<NativeStep>(folder_.number, *ids, *lengths, ranks, weights);
  }

 private:
  bool clean() const { return problems_.size() == problems_before_; }

  void report(const std::string& file, std::string message, std::string hint = "") {
    problems_.push_back({Severity::error, file, 0, 0, std::move(message), "", std::move(hint)});
  }

  /// A misspelt optional array must not pass for an absent one.
  void check_names() {
    static const std::vector<std::string> known = {"ids.npy", "sequence_lengths.npy",
                                                   "source_ranks.npy", "gate_weights.npy"};
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    for (const auto& name : names) {
      if (name[0] != '.' && std::find(known.begin(), known.end(), name) == known.end()) {
        report(folder_.path + "/" + name, "is not part of a step", did_you_mean(name, known));
      }
    }
  }

  std::optional<NpyArray> array(const std::string& name, bool required) {
    const std::string path = folder_.path + "/" + name + ".npy";
    std::error_code broken;  // a link that leads to itself is there
    if (!fs::exists(path, broken) && !broken) {
      if (required) report(path, "is missing");
      return std::nullopt;
    }
    try {
      return NpyArray::open(path);
    } catch (const Error& error) {
      problems_.insert(problems_.end(), error.diagnostics().begin(), error.diagnostics().end());
      return std::nullopt;
    }
  }

  void check_type(const NpyArray& array, const std::vector<NpyType>& allowed,
                  const std::string& fix) {
    if (std::find(allowed.begin(), allowed.end(), array.type()) != allowed.end()) return;
    std::vector<std::string> names;
    for (const auto& type : allowed) names.push_back(type.name());
    report(array.file(),
           fmt::format("holds {}, not {}", array.type().name(), fmt::join(names, " or ")),
           "save it with " + fix);
  }

  void check_ids(const NpyArray& ids) {
    check_type(ids, {{'u', 1}, {'u', 2}},
               info_.experts <= 256 ? ".astype(np.uint8)" : ".astype(np.uint16)");
    if (ids.type() == NpyType{'u', 1} && info_.experts > 256) {
      report(ids.file(), fmt::format("uint8 cannot hold the ids of {} experts", info_.experts),
             "save it with .astype(np.uint16)");
    }
    const auto layers = static_cast<std::int64_t>(info_.layers.size());
    const auto& shape = ids.shape();
    if (shape.size() != 3 || shape[0] != layers || shape[2] != info_.top_k) {
      report(ids.file(),
             fmt::format("has shape {}, not ({}, tokens, {}) as trace.json says", shape_text(shape),
                         layers, info_.top_k),
             "the order is [layer][token][choice]");
    } else if (shape[1] == 0) {
      report(ids.file(), "has no tokens");
    }
  }

  void check_lengths(const NpyArray& lengths, std::int64_t tokens) {
    if (lengths.shape().size() != 1) {
      return report(lengths.file(),
                    fmt::format("has shape {}, not (sequences,)", shape_text(lengths.shape())));
    }
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < lengths.count(); ++i) {
      const std::int64_t length = lengths.integer(i);
      if (length <= 0) {
        return report(lengths.file(), fmt::format("sequence {} has length {}", i, length));
      }
      sum += length;
    }
    if (sum != tokens) {
      report(lengths.file(),
             fmt::format("the sequences add up to {} tokens but ids.npy has {}", sum, tokens));
    }
  }

  const StepFolder& folder_;
  const TraceInfo& info_;
  std::vector<Diagnostic>& problems_;
  std::size_t problems_before_;
};

std::optional<std::int64_t> step_number(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const auto number = parse_integer<std::int64_t>(name);
  if (!number || name != fmt::format("{:08}", *number)) return std::nullopt;
  return number;
}

}  // namespace

std::vector<StepFolder> find_step_folders(const std::string& directory,
                                          std::vector<Diagnostic>& problems) {
  std::vector<StepFolder> folders;
  std::vector<std::string> misnamed;
  const std::size_t problems_before = problems.size();
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    const auto number = step_number(name);
    if (name[0] == '.' || (!number && !is_folder(entry.path().string()))) continue;
    if (number && !is_folder(entry.path().string())) {
      const bool lost = !is_there(entry.path().string());
      problems.push_back({Severity::error, directory + "/" + name, 0, 0,
                          lost ? "is a link to a step that is not there" : "is not a folder", "",
                          "a name that starts with a dot is ignored"});
    } else if (number) {
      folders.push_back({*number, directory + "/" + name});
    } else {
      misnamed.push_back(name);
    }
  }
  std::sort(misnamed.begin(), misnamed.end());
  for (const auto& name : misnamed) {
    problems.push_back({Severity::error, directory + "/" + name, 0, 0,
                        "is not a step folder: step-<number, 8 digits>", "",
                        "a name that starts with a dot is ignored"});
  }
  std::sort(folders.begin(), folders.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  if (folders.empty() && problems.size() == problems_before) {
    problems.push_back({Severity::error, directory, 0, 0, "has no steps", "",
                        "the first step of a recording appears once it is complete"});
  }
  return folders;
}

std::shared_ptr<const TraceStep> open_step(const StepFolder& folder, const TraceInfo& info,
                                           std::vector<Diagnostic>& problems) {
  return StepReader(folder, info, problems).read();
}

}  // namespace moesim
