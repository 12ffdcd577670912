// SPDX-License-Identifier: Apache-2.0
// Megatron-Core's router trace (megatron/core/transformer/moe/router_trace.py): per rank one line
// per (step, block, layer), with [token][choice] expert ids.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/json_events.h"
#include "sim/base/most.h"
#include "sim/trace/import/formats.h"
#include "sim/trace/import/import_sink.h"
#include "sim/trace/import/input_hash.h"
#include "sim/trace/import/line_file.h"
#include "sim/trace/import/repeated_ranks.h"

namespace moesim {
namespace {

/// One line; lists of tokens are flattened as they come, since a line may have megabytes.
class TraceLine : public JsonEvents {
 public:
  std::map<std::string, std::int64_t> numbers;
  std::string block = "decoder";
  std::vector<std::int32_t> ids;
  std::int64_t rows = 0;
  std::size_t ragged_row = 0;  // the first row, from 1, that is not of topk ids

  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override {
    if (in_ids_ && depth_ == 3) {
      ++rows;
      const auto width = rows == 1 ? ids.size() : first_width_;
      if (rows == 1) first_width_ = width;
      if (ids.size() != static_cast<std::size_t>(rows) * width && ragged_row == 0) {
        ragged_row = static_cast<std::size_t>(rows);
      }
    }
    return close();
  }
  bool key(std::string& name) override {
    if (depth_ == 1) key_ = name, in_ids_ = name == "top_indices";
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ == 1 && key_ == "block") block = text;
    return true;
  }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(value > most ? -1 : static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t, const std::string&) override { return number(-1); }

 private:
  static constexpr std::uint64_t most = std::uint64_t{1} << 40;
  bool open() { return ++depth_, true; }
  bool close() { return --depth_, true; }
  bool number(std::int64_t value) {
    if (depth_ == 1) numbers[key_] = value;
    if (in_ids_ && depth_ == 3) {
      ids.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(value, 1 << 30)));
    }
    return true;
  }

  int depth_ = 0;
  bool in_ids_ = false;
  std::string key_;
  std::size_t first_width_ = 0;
};

/// What one layer of one microbatch chose.
struct LayerIds {
  int layer = 0;  // as the file counts
  NpyArray ids;
};

/// The lines of one rank, step by step.
class RankLines {
 public:
  explicit RankLines(const std::string& path) : lines_(path) { read(); }

  const LineFile& file() const { return lines_; }
  bool ended() const { return !line_; }
  std::int64_t step() const { return step_; }
  int rank() const { return rank_; }
  std::int64_t mtp_rows() const { return mtp_rows_; }
  /// The lines of the present step, in their order.
  std::vector<LayerIds> take_step() {
    std::vector<LayerIds> taken;
    for (const std::int64_t step = step_; line_ && step_ == step; read()) {
      taken.push_back(std::move(*line_));
    }
    if (line_ && step_ < taken_until_) {
      throw error_in(lines_.path(), fmt::format("step {} comes after step {}", step_, taken_until_),
                     "", lines_.line_number());
    }
    taken_until_ = step_;
    return taken;
  }

 private:
  std::int64_t field(const TraceLine& line, const std::string& key, std::int64_t most) const {
    const auto at = line.numbers.find(key);
    if (at == line.numbers.end() || at->second < 0 || at->second > most) {
      throw error_in(lines_.path(), fmt::format("has no sound '{}'", key), "",
                     lines_.line_number());
    }
    return at->second;
  }
  void read() {
    line_.reset();
    for (std::string text; lines_.next(text);) {
      TraceLine line;
      parse_json(text, {lines_.path(), lines_.line_number()}, line);
      const std::int64_t tokens = field(line, "num_tokens", std::int64_t{1} << 31);
      if (line.block != "decoder") {
        mtp_rows_ += tokens;
        continue;
      }
      const std::int64_t top_k = field(line, "topk", max_experts);
      if (line.rows != tokens || line.ragged_row != 0 || std::ssize(line.ids) != tokens * top_k) {
        throw error_in(lines_.path(),
                       fmt::format("has {} rows of {} ids in all where {} x {} are due", line.rows,
                                   line.ids.size(), tokens, top_k),
                       "", lines_.line_number());
      }
      if (rank_ >= 0 && rank_ != field(line, "rank", 1 << 20)) {
        throw error_in(lines_.path(), "holds lines of several ranks", "", lines_.line_number());
      }
      rank_ = static_cast<int>(field(line, "rank", 1 << 20));
      step_ = field(line, "step", std::int64_t{1} << 40);
      line_ = LayerIds{static_cast<int>(field(line, "layer", max_layer_number)),
                       NpyArray::of(std::move(line.ids), {tokens, top_k}, lines_.path())};
      return;
    }
  }

  LineFile lines_;
  std::optional<LayerIds> line_;
  std::int64_t step_ = 0, mtp_rows_ = 0, taken_until_ = -1;
  int rank_ = -1;
};

/// What the file's layer numbers are in the model: hooks count layers from 0, the replay recorder
/// from 1, or MoE layers alone from 0.
std::vector<int> model_layers(const std::vector<int>& layers, const ImportOptions& options,
                              const std::string& where) {
  const auto counted = [&](const std::string& numbering) {
    std::vector<int> numbers;
    for (const int layer : layers) {
      if (numbering == "moe") {
        const auto known = std::ssize(options.moe_layers);
        numbers.push_back(known == 0 ? layer : layer < known ? options.moe_layers[layer] : -1);
      } else {
        numbers.push_back(layer - (numbering == "from-1" ? 1 : 0));
      }
    }
    return numbers;
  };
  if (!options.numbering.empty()) {
    auto numbers = counted(options.numbering);
    if (numbers.front() < 0 || numbers.back() < 0) {
      throw error_in(
          where, fmt::format("has layers {}, which are not counted so", fmt::join(layers, ", ")));
    }
    return numbers;
  }
  std::optional<std::vector<int>> fitting;
  for (const std::string numbering : {"from-0", "from-1", "moe"}) {
    const auto numbers = counted(numbering);
    if (numbers != options.moe_layers) continue;
    if (fitting && *fitting != numbers) fitting.reset();
    fitting = numbers;
  }
  if (fitting) return *fitting;
  throw error_in(
      where,
      fmt::format("has layers {}, and does not say how they are counted", fmt::join(layers, ", ")),
      "--numbering from-0 (hooks), from-1 (replay recorder) or moe (MoE layers alone); "
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
                   fmt::format("layer {} has {} microbatches but another layer has {}", layer, its,
                               batches.size()),
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
    sink.add(pass);
  }
}

}  // namespace

void import_megatron_trace(ImportSink& sink) {
  sink.experts();
  std::vector<std::unique_ptr<RankLines>> ranks;
  for (const std::string& path : input_files(sink.options().inputs)) {
    const std::string name = std::filesystem::path(path).filename().string();
    if (name.ends_with(".bin") || name.ends_with(".pt")) continue;  // beside the lines
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
  if (mtp > 0) sink.drop("of multi-token prediction", mtp);
}

}  // namespace moesim
