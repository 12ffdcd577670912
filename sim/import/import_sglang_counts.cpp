// SPDX-License-Identifier: Apache-2.0
// SGLang's expert distribution recorder in the modes stat and per_pass: a .pt, the same keys in
// JSON, which --init-expert-location takes, too, or the CSV of early versions.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "sim/import/counts.h"
#include "sim/import/file_content.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/json_items.h"
#include "sim/import/table_rows.h"
#include "sim/import/torch_file.h"

namespace moesim {
namespace {

/// Counts of slots as counts of experts.
std::vector<std::int64_t> of_experts(const NpyArray& counts, const NpyArray& map,
                                     std::int64_t layer, int experts) {
  std::vector<std::int64_t> sums(static_cast<std::size_t>(experts));
  const std::int64_t slots = counts.shape()[1];
  for (std::int64_t s = 0; s < slots; ++s) {
    const std::int64_t expert = map.integer(layer * slots + s);
    if (expert < 0 || expert >= experts) {
      throw error_in(map.file(), fmt::format("slot {} holds expert {} of {}", s, expert, experts));
    }
    sums[expert] += count_at(counts, layer * slots + s);
  }
  return sums;
}

/// Whether the ranks counted what their own slots received (DeepEP's low-latency kernels), not what
/// their tokens chose: then every rank has counts only in its own slots.
bool counts_arrivals(const std::vector<NpyArray>& of_rank) {
  if (of_rank.size() < 2) return false;
  for (std::size_t r = 0; r < of_rank.size(); ++r) {
    const std::int64_t slots = of_rank[r].shape()[1];
    const std::int64_t share = slots / static_cast<std::int64_t>(of_rank.size());
    for (std::int64_t i = 0; i < of_rank[r].count(); ++i) {
      const bool own = share > 0 && i % slots / share == static_cast<std::int64_t>(r);
      if (!own && of_rank[r].integer(i) != 0) return false;
    }
  }
  return true;
}

/// What one rank counted in one forward pass, [layer][slot], and the experts of these slots.
struct RankCounts {
  std::int64_t pass = 0, rank = 0;
  NpyArray counts;
  const NpyArray* map = nullptr;
};

struct PassCounts {
  std::vector<NpyArray> of_rank;  // [layer][slot]
  NpyArray map;
};

void add_pass(std::int64_t number, const PassCounts& pass, ImportSink& sink) {
  const auto& shape = pass.of_rank.front().shape();
  for (const NpyArray& counts : pass.of_rank) {
    if (counts.shape() != pass.map.shape() || shape.size() != 2 || !counts.type().is_integer() ||
        !pass.map.type().is_integer()) {
      throw error_in(counts.file(), fmt::format("{} does not fit its map from slots to experts, {}",
                                                counts.describe(), pass.map.describe()));
    }
  }
  CountedStep step{pass.of_rank.front().file(), number};
  step.of_all_layers = true;
  const bool joined = counts_arrivals(pass.of_rank);
  if (joined) step.source = CountedSource::unknown;
  for (std::int64_t l = 0; l < shape[0]; ++l) {
    auto& layer = step.counts.emplace_back();
    for (const NpyArray& counts : pass.of_rank) {
      auto sums = of_experts(counts, pass.map, l, sink.experts());
      if (joined && !layer.empty()) {
        for (std::size_t e = 0; e < sums.size(); ++e) layer.front()[e] += sums[e];
      } else {
        layer.push_back(std::move(sums));
      }
    }
  }
  if (step.empty()) return sink.drop("of idle passes", shape[0]);
  add_counts(std::move(step), sink);
}

bool same_map(const NpyArray& a, const NpyArray& b) {
  if (a.shape() != b.shape() || !a.type().is_integer() || !b.type().is_integer()) return false;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    if (a.integer(i) != b.integer(i)) return false;
  }
  return true;
}

/// The passes of all files, by number and rank.
class RecordedPasses {
 public:
  /// Keeps the map of a file's records; engines move experts between files.
  const NpyArray* keep_map(NpyArray map) {
    for (const NpyArray& known : maps_) {
      if (same_map(known, map)) return &known;
    }
    return &maps_.emplace_back(std::move(map));
  }
  void add(RankCounts counts) {
    auto& of_rank = passes_[counts.pass];
    if (of_rank.contains(counts.rank)) {
      throw error_in(counts.counts.file(),
                     fmt::format("pass {} of rank {} is recorded twice", counts.pass, counts.rank),
                     "give the files of one recording, each once");
    }
    if (!of_rank.empty() && of_rank.begin()->second.map != counts.map) {
      throw error_in(counts.counts.file(),
                     fmt::format("pass {} has another placement than in {}", counts.pass,
                                 of_rank.begin()->second.counts.file()),
                     "experts moved between the dumps: record all ranks with one placement");
    }
    of_rank.emplace(counts.rank, std::move(counts));
  }
  void hand_over(ImportSink& sink) const {
    if (!maps_.empty() && sink.options().experts == 0) {
      sink.says_experts(experts_of_maps(), maps_.front().file());
    }
    for (const auto& [pass, ranks] : passes_) {
      PassCounts counts{{}, *ranks.begin()->second.map};
      for (const auto& [rank, its] : ranks) counts.of_rank.push_back(its.counts);
      add_pass(pass, counts, sink);
    }
  }

 private:
  int experts_of_maps() const {
    std::int64_t most = 0;
    for (const NpyArray& map : maps_) {
      for (std::int64_t i = 0; i < map.count(); ++i) most = std::max(most, map.integer(i) + 1);
    }
    return static_cast<int>(std::min<std::int64_t>(most, 1 << 20));
  }

  std::map<std::int64_t, std::map<std::int64_t, RankCounts>> passes_;
  std::deque<NpyArray> maps_;  // that differ
};

constexpr const char* recorder_keys =
    "mode stat writes logical_count, mode per_pass records and last_physical_to_logical_map";

void add_torch(const TorchFile& file, RecordedPasses& passes, std::int64_t& number,
               ImportSink& sink) {
  if (pickle_get(file.root(), "logical_count") != nullptr) {
    const NpyArray counts = file.load_at(file.root(), "logical_count");
    return add_count_array(counts, sink, number, true);
  }
  if (pickle_get(file.root(), "records") == nullptr) {
    throw error_in(file.path(), "is a file of torch.save with " + file.names(), recorder_keys);
  }
  const NpyArray* const map =
      passes.keep_map(file.load_at(file.root(), "last_physical_to_logical_map"));
  for (const PickleValue& record : file.items(file.at(file.root(), "records"), "records")) {
    if (is_of_draft_model(record)) {
      sink.drop("of a draft model", file.load_at(record, "global_physical_count").shape()[0]);
      continue;
    }
    passes.add({file.integer_at(record, "forward_pass_id"), file.integer_at(record, "rank"),
                file.load_at(record, "global_physical_count"), map});
  }
}

NpyArray json_array(const JsonElement& from, const char* key, const std::string& where) {
  const auto lists = json_at(from, key);
  if (!lists) throw error_in(where, fmt::format("has no '{}'", key), recorder_keys);
  return array_of_lists(*lists, axes_of(*lists), fmt::format("{}/{}", where, key), "counts");
}

std::int64_t json_count(const JsonElement& from, const char* key, const std::string& where) {
  const std::int64_t number = json_number(json_at(from, key), std::int64_t{1} << 40);
  if (number < 0) throw error_in(where, fmt::format("has no sound '{}'", key));
  return number;
}

void add_records(const JsonElement& item, const std::string& where, RecordedPasses& passes,
                 ImportSink& sink) {
  simdjson::dom::array records;
  const auto list = json_at(item, "records");
  if (!list || list->get(records) != simdjson::SUCCESS) {
    throw error_in(where, "has no list 'records'", recorder_keys);
  }
  const NpyArray* const map =
      passes.keep_map(json_array(item, "last_physical_to_logical_map", where));
  for (const JsonElement record : records) {
    std::string_view gatherer;
    const auto named = json_at(record, "gatherer_key");
    if (named && named->get(gatherer) == simdjson::SUCCESS && gatherer != "primary") {
      sink.drop("of a draft model", json_array(record, "global_physical_count", where).shape()[0]);
      continue;
    }
    passes.add({json_count(record, "forward_pass_id", where), json_count(record, "rank", where),
                json_array(record, "global_physical_count", where), map});
  }
}

void add_json(const std::string& path, RecordedPasses& passes, std::int64_t& number,
              ImportSink& sink) {
  JsonItems items(path);
  while (items.next()) {
    const JsonElement& item = items.item();
    if (json_at(item, "logical_count")) {
      const NpyArray counts = json_array(item, "logical_count", items.where());
      add_count_array(counts, sink, number, true);
    } else if (json_at(item, "records")) {
      add_records(item, items.where(), passes, sink);
    } else {
      const bool slots = json_at(item, "physical_count").has_value();
      const bool placed = json_at(item, "physical_to_logical_map").has_value();
      throw error_in(path, content_of(path),
                     slots    ? "physical_count counts slots, not experts: give logical_count"
                     : placed ? "a placement: it holds no counts"
                              : recorder_keys,
                     items.line());
    }
  }
}

}  // namespace

void import_sglang_counts(ImportSink& sink) {
  RecordedPasses passes;
  std::int64_t number = 0;
  std::vector<std::string> tables;
  for (const std::string& path : input_files(sink.options().inputs)) {
    switch (form_of(path)) {
      case FileForm::json:
        add_json(path, passes, number, sink);
        break;
      case FileForm::text:
        tables.push_back(path);
        break;
      default:
        add_torch(TorchFile(path), passes, number, sink);
    }
  }
  if (!tables.empty()) add_tables(tables, sink);
  passes.hand_over(sink);
}

}  // namespace moesim
