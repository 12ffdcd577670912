// SPDX-License-Identifier: Apache-2.0
// UltraEP's load profiles (Dots-Infra/UltraEP, ultra_ep/profiling.py, schema ultra_ep_trace_v1):
// <trace id>.manifest.json and <trace id>.chunk<n>.npz with the loads of an EP group's experts per
// layer and microbatch, before its balancer (read here) and after it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/most.h"
#include "sim/import/counts.h"
#include "sim/import/formats.h"
#include "sim/import/input_hash.h"
#include "sim/import/zip.h"

namespace moesim {
namespace {

/// Where the loads of a layer in a microbatch are.
struct LoadRecord {
  std::size_t chunk;
  std::int64_t row;
};

NpyArray read_member(const ZipArchive& archive, const std::string& path, const std::string& name) {
  for (const auto& member : archive.members()) {
    if (member.name == name + ".npy") {
      return NpyArray::parse(archive.read(member), path + "/" + member.name);
    }
  }
  throw error_in(path, fmt::format("has no array '{}'", name));
}

/// A profile, microbatch by microbatch; memory holds the chunks of one of them.
class UltraEpProfile {
 public:
  void add_chunk(const std::string& path) {
    const ZipArchive archive(path);
    const NpyArray layers = read_member(archive, path, "layers");
    const NpyArray microbatches = read_member(archive, path, "microbatches");
    const auto list = std::vector{layers.count()};
    if (layers.shape() != list || microbatches.shape() != list || !layers.type().is_integer() ||
        !microbatches.type().is_integer()) {
      throw error_in(path, fmt::format("has {} for the layers but {} for the microbatches",
                                       layers.describe(), microbatches.describe()));
    }
    for (std::int64_t i = 0; i < layers.count(); ++i) {
      const std::int64_t layer = layers.integer(i), microbatch = microbatches.integer(i);
      if (layer < 0 || layer > max_layer_number || microbatch < 0) {
        throw error_in(
            path, fmt::format("record {} is of layer {}, microbatch {}", i, layer, microbatch));
      }
      auto& its = records_[microbatch];
      if (!its.emplace(static_cast<int>(layer), LoadRecord{paths_.size(), i}).second) {
        throw error_in(path, fmt::format("has layer {} of microbatch {} twice", layer, microbatch),
                       "give the files of one EP group");
      }
      layers_.insert(static_cast<int>(layer));
    }
    paths_.push_back(path);
  }

  void import(ImportSink& sink) {
    double done = 0;
    for (const auto& [microbatch, its] : records_) {
      sink.progress(done++ / static_cast<double>(records_.size()));
      if (its.size() < layers_.size()) {
        sink.drop("of microbatches that lack layers (dropped records)", std::ssize(its));
        continue;
      }
      std::erase_if(loads_, [&, first = its.begin()->second.chunk](const auto& loaded) {
        return loaded.first + 1 < first;
      });
      CountedStep step{fmt::format("{}, microbatch {}", paths_.front(), microbatch), microbatch};
      step.source = CountedSource::unknown;
      for (const auto& [layer, record] : its) {
        step.layers.push_back(layer);
        step.counts.push_back({row_of(record, sink)});
      }
      add_counts(std::move(step), sink);
    }
  }

 private:
  std::vector<std::int64_t> row_of(const LoadRecord& record, ImportSink& sink) {
    auto at = loads_.find(record.chunk);
    if (at == loads_.end()) {
      const std::string& path = paths_[record.chunk];
      const NpyArray loads = read_member(ZipArchive(path), path, "pre_logical_loads");
      if (loads.shape().size() != 2) {
        throw error_in(
            path, fmt::format("has loads {}, not [record][expert]", shape_text(loads.shape())));
      }
      check_expert_count(loads.shape()[1], sink, path);
      at = loads_.emplace(record.chunk, loads).first;
    }
    const NpyArray& loads = at->second;
    if (record.row >= loads.shape()[0]) {
      throw error_in(loads.file(),
                     fmt::format("has loads of {} records but layers of more", loads.shape()[0]));
    }
    std::vector<std::int64_t> counts;
    const std::int64_t experts = loads.shape()[1];
    for (std::int64_t e = 0; e < experts; ++e) {
      counts.push_back(count_at(loads, record.row * experts + e));
    }
    return counts;
  }

  std::vector<std::string> paths_;
  std::set<int> layers_;
  std::map<std::int64_t, std::map<int, LoadRecord>> records_;  // by microbatch and layer
  std::map<std::size_t, NpyArray> loads_;                      // of chunks that are in use
};

void read_profile_manifest(const std::string& path, ImportSink& sink) {
  const auto json = parse_json(read_file(path), {path});
  if (!json.is_object() || json.value("schema", nlohmann::ordered_json()) != "ultra_ep_trace_v1") {
    throw error_in(path, "is not of schema ultra_ep_trace_v1");
  }
  const auto experts = json.find("num_global_logical_experts");
  if (experts == json.end() || !experts->is_number_unsigned() ||
      *experts > std::uint64_t{max_experts}) {
    throw error_in(path, "has no sound 'num_global_logical_experts'");
  }
  sink.says_experts(experts->get<int>(), path);
}

}  // namespace

void import_ultraep(ImportSink& sink) {
  UltraEpProfile profile;
  bool any = false;
  for (const std::string& path : input_files(sink.options().inputs)) {
    if (path.ends_with(".manifest.json")) read_profile_manifest(path, sink);
    if (!path.ends_with(".npz")) continue;
    profile.add_chunk(path);
    any = true;
  }
  if (!any) throw error_in(sink.options().inputs.front(), "has no <trace id>.chunk<n>.npz");
  sink.experts();
  profile.import(sink);
}

}  // namespace moesim
