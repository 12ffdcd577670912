// SPDX-License-Identifier: Apache-2.0
// Megatron-Core's router trace (megatron/core/transformer/moe/router_trace.py): per rank one line
// per (step, block, layer), with [token][choice] expert ids.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "sim/base/figures.h"
#include "sim/base/most.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/json_items.h"
#include "sim/import/layer_numbering.h"
#include "sim/import/repeated_ranks.h"

namespace moesim {
namespace {

/// What one layer of one microbatch chose.
struct LayerIds {
  int layer = 0;  // as the file counts
  NpyArray ids;
};

/// The lines of one rank, step by step.
class RankLines {
 public:
  explicit RankLines(const std::string& path) : lines_(path) { read(); }

  const JsonItems& file() const { return lines_; }
  bool ended() const { return !line_; }
  std::int64_t step() const { return step_; }
  int rank() const { return rank_; }
  std::int64_t mtp_rows() const { return mtp_rows_; }
  /// The lines of the present step, in their order.
  std::vector<LayerIds> take_step() {
    std::vector<LayerIds> taken;
    const std::int64_t step = step_;
    for (; line_ && step_ == step; read()) taken.push_back(std::move(*line_));
    if (line_ && step_ < step) {
      throw error_in(lines_.path(), fmt::format("step {} comes after step {}", step_, step), "",
                     lines_.line());
    }
    return taken;
  }

 private:
  std::int64_t field(const char* key, std::int64_t most) const {
    const std::int64_t value = json_number(json_at(lines_.item(), key), most);
    if (value >= 0) return value;
    throw error_in(lines_.path(), fmt::format("has no sound '{}'", key), "", lines_.line());
  }
  bool of_decoder() const {
    std::string_view block = "decoder";
    const auto named = json_at(lines_.item(), "block");
    return !named || (named->get(block) == simdjson::SUCCESS && block == "decoder");
  }
  NpyArray read_ids(std::int64_t tokens) const {
    const std::int64_t top_k = field("topk", max_experts);
    const auto lists = json_at(lines_.item(), "top_indices");
    if (!lists) throw error_in(lines_.path(), "has no 'top_indices'", "", lines_.line());
    const NpyArray ids = array_of_lists(*lists, 2, lines_.where());
    if (ids.shape()[0] != tokens || ids.count() != tokens * top_k) {
      throw error_in(lines_.path(),
                     fmt::format("has {} of {} ids in all where {} x {} are due",
                                 counted(ids.shape()[0], "row"), ids.count(), tokens, top_k),
                     "", lines_.line());
    }
    return ids.reshaped({tokens, top_k});
  }
  void read() {
    line_.reset();
    while (lines_.next()) {
      const std::int64_t tokens = field("num_tokens", std::int64_t{1} << 31);
      if (!of_decoder()) {
        mtp_rows_ += tokens;
        continue;
      }
      const int rank = static_cast<int>(field("rank", 1 << 20));
      if (rank_ >= 0 && rank_ != rank) {
        throw error_in(lines_.path(), "holds lines of several ranks", "", lines_.line());
      }
      rank_ = rank;
      step_ = field("step", std::int64_t{1} << 40);
      line_ = LayerIds{static_cast<int>(field("layer", max_layer_number)), read_ids(tokens)};
      return;
    }
  }

  JsonItems lines_;
  std::optional<LayerIds> line_;
  std::int64_t step_ = 0, mtp_rows_ = 0;
  int rank_ = -1;
};

/// What the file's layer numbers are in the model: hooks count layers from 0, the replay recorder
/// from 1, or only MoE layers from 0.
std::vector<int> model_layers(const std::vector<int>& layers, const ImportOptions& options,
                              const std::string& where) {
  if (!options.numbering.empty()) return numbered_layers(layers, options, where);
  std::vector<std::vector<int>> readings;
  for (const char* numbering : {"from-0", "from-1", "moe"}) {
    readings.push_back(layers_by_numbering(layers, numbering, options));
    if (readings.back() == options.moe_layers) return readings.back();
  }
  for (const auto& numbers : readings) {
    if (are_moe_layers(numbers, options)) return numbers;
  }
  throw error_in(
      where,
      fmt::format("has layers {}, and does not say how they are counted", fmt::join(layers, ", ")),
      "--numbering from-0 (hooks), from-1 (replay recorder) or moe (only MoE layers); "
      "hooks count the layers of a pipeline stage");
}

/// Sorts the lines of a step into microbatches: the n-th line of each layer is of the n-th.
std::vector<std::map<int, NpyArray>> microbatches_of(std::vector<LayerIds> lines,
                                                     const std::string& where, ImportSink& sink) {
  std::vector<std::map<int, NpyArray>> batches;
  std::map<int, std::size_t> count;
  for (LayerIds& line : lines) {
    // Recomputed activations run the hook of a layer once more with what it has just seen.
    const std::size_t n = count[line.layer];
    if (n > 0) {
      const NpyArray& before = batches[n - 1].at(line.layer);
      if (before.shape()[0] > 0 && same_choices(ChoiceTable({before}), ChoiceTable({line.ids}))) {
        sink.drop("that repeat a layer's microbatch (recomputed activations)", before.shape()[0]);
        continue;
      }
    }
    if (n == batches.size()) batches.emplace_back();
    batches[n].emplace(line.layer, std::move(line.ids));
    ++count[line.layer];
  }
  for (const auto& [layer, its] : count) {
    if (its == batches.size()) continue;
    throw error_in(where,
                   fmt::format("layer {} has {} but another layer has {}", layer,
                               counted(its, "microbatch"), batches.size()),
                   "layers that dropped tokens are not recorded");
  }
  return batches;
}

void add_step(RankLines& rank, std::vector<RepeatedRanks>& seen, ImportSink& sink) {
  const std::int64_t step = rank.step();
  const std::string where = fmt::format("{}, step {}", rank.file().path(), step);
  auto batches = microbatches_of(rank.take_step(), where, sink);
  seen.resize(std::max(seen.size(), batches.size()));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    std::vector<int> layers;
    std::vector<NpyArray> ids;
    for (auto& [layer, array] : batches[i]) {
      layers.push_back(layer);
      ids.push_back(std::move(array));
    }
    const ChoiceTable table(std::move(ids));
    if (table.tokens() == 0) continue;
    if (seen[i].repeats(table)) {
      sink.drop(repeated_rank_rows, table.tokens() * table.layers());
      continue;
    }
    RoutedPass pass{where, table, {static_cast<std::int32_t>(table.tokens())}};
    pass.layers = model_layers(layers, sink.options(), where);
    pass.step = step;
    pass.source_rank = rank.rank();
    pass.phase = Phase::training;
    sink.add_microbatch(pass);
  }
}

}  // namespace

void import_megatron_trace(ImportSink& sink) {
  sink.experts();
  std::vector<std::unique_ptr<RankLines>> ranks;
  for (const std::string& path : input_files(sink.options().inputs)) {
    const std::string name = std::filesystem::path(path).filename().string();
    if (name.ends_with(".bin") || name.ends_with(".pt")) continue;  // next to the lines
    ranks.push_back(std::make_unique<RankLines>(path));
  }
  std::ranges::stable_sort(ranks, {}, [](const auto& r) { return r->rank(); });
  for (;;) {
    std::optional<std::int64_t> step;
    double done = 0;
    for (const auto& rank : ranks) {
      if (!rank->ended()) step = std::min(step.value_or(rank->step()), rank->step());
      done += rank->file().done() / static_cast<double>(ranks.size());
    }
    if (!step) break;
    sink.progress(done);
    std::vector<RepeatedRanks> seen;
    for (const auto& rank : ranks) {
      if (!rank->ended() && rank->step() == *step) add_step(*rank, seen, sink);
    }
  }
  std::int64_t mtp = 0;
  for (const auto& rank : ranks) mtp += rank->mtp_rows();
  if (mtp > 0) sink.drop(mtp_rows, mtp);
}

}  // namespace moesim
