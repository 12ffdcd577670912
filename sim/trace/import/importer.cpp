// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/import/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "sim/base/most.h"
#include "sim/trace/trace_json.h"
#include "sim/trace/verify.h"
#include "sim/trace/writer.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

void check_options(const ImportOptions& options) {
  if (options.inputs.empty()) throw Error("there is nothing to import");
  if (options.experts == 0) {
    throw Error("the number of experts is not known", "give --model or --experts");
  }
  if (options.experts < 1 || options.experts > max_experts) {
    throw Error(fmt::format("experts is {}; it is from 1 to {}", options.experts, max_experts));
  }
  if (options.top_k < 0) throw Error(fmt::format("top-k is {}", options.top_k));
  if (options.top_k > options.experts) {
    throw Error(fmt::format("top-k {} exceeds the {} experts", options.top_k, options.experts));
  }
}

/// The files of an input, folders expanded, with their hashes.
nlohmann::ordered_json input_hashes(const std::vector<std::string>& inputs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& input : inputs) {
    std::vector<std::string> files = {input};
    if (fs::is_directory(input)) {
      files.clear();
      for (const auto& entry : fs::directory_iterator(input)) {
        if (entry.is_regular_file()) files.push_back(entry.path().string());
      }
      std::sort(files.begin(), files.end());
    }
    for (const auto& file : files) {
      list.push_back(
          {{"file", fs::path(file).filename().string()}, {"xxh3", hash_of(read_file(file))}});
    }
  }
  return list;
}

void check_ids_of(const Import& made, const TraceStep& step, const std::string& input) {
  const TraceInfo& info = made.info;
  for (std::size_t i = 0; i < info.layers.size(); ++i) {
    const IdProblems found = check_ids(step.ids(static_cast<int>(i)), info.experts);
    if (found.out_of_range > 0) {
      throw error_in(
          input,
          fmt::format("layer {}, token {}: expert {} of a model with {} experts", info.layers[i],
                      found.out_of_range_token, found.out_of_range_id, info.experts),
          "ids beyond the experts are slots, shared experts, padding or another model's");
    }
    if (found.repeated > 0) {
      throw error_in(
          input,
          fmt::format("layer {}, token {}: expert {} is chosen twice", info.layers[i],
                      found.repeated_token, found.repeated_id),
          "rows of equal ids are padding or a dense layer; --model tells which layers are dense");
    }
  }
}

std::string report(const Import& made, const TraceStep& step) {
  const TraceInfo& info = made.info;
  std::string out = fmt::format(
      "tokens     {}\nsequences  {}\nlayers     {}\nexperts    {}\n"
      "top-k      {}\nphase      {}\nids        logical\nweights    {}\n",
      step.tokens(), step.sequence_lengths().size(), layers_text(info.layers), info.experts,
      info.top_k, to_string(info.phase), step.has_weights() ? "yes" : "no");
  if (made.dropped.empty()) out += "dropped    nothing\n";
  for (const auto& [reason, rows] : made.dropped) {
    out += fmt::format("dropped    {} rows: {}\n", rows, reason);
  }
  return out;
}

}  // namespace

const std::vector<std::string>& import_kinds() {
  static const std::vector<std::string> kinds = {"esft", "npz", "npy", "gpt-oss"};
  return kinds;
}

Imported import_trace(const std::string& kind, const ImportOptions& options,
                      const TraceProgress& progress) {
  const std::map<std::string, decltype(&import_npz)> importers = {
      {"esft", import_esft}, {"npz", import_npz}, {"npy", import_npz}, {"gpt-oss", import_gpt_oss}};
  const auto importer = importers.find(kind);
  if (importer == importers.end()) {
    throw Error(fmt::format("'{}' is not a format that can be imported", kind),
                did_you_mean(kind, import_kinds()));
  }
  check_options(options);
  Import made = importer->second(options, progress);

  fs::path output(options.output);
  if (!output.has_filename()) output = output.parent_path();
  made.info.name = options.name.empty() ? output.filename().string() : options.name;
  made.info.model = options.model.empty() ? "unknown" : options.model;
  if (options.phase) made.info.phase = *options.phase;
  nlohmann::ordered_json provenance = {{"imported_from", kind},
                                       {"inputs", input_hashes(options.inputs)}};
  if (!made.dropped.empty()) provenance["dropped_rows"] = made.dropped;
  made.info.provenance = provenance.dump();

  const auto step = make_step(made.info, std::move(made.step));
  check_ids_of(made, *step, options.inputs.front());
  auto writer = TraceWriter::create(options.output, made.info, TraceWriter::Publish::at_end);
  writer.append_step(*step);
  writer.finish();
  return {report(made, *step), std::move(made.warnings)};
}

}  // namespace moesim
