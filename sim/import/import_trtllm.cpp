// SPDX-License-Identifier: Apache-2.0
// TensorRT-LLM's raw expert ids: rank<r>_raw.safetensors or
// token_selected_experts_rank<r>.safetensors, [token][choice] of the tokens of that rank.
#include <fmt/format.h>

#include "sim/import/formats.h"
#include "sim/import/repeated_ranks.h"
#include "sim/import/trtllm_files.h"

namespace moesim {
namespace {

void add_iteration(const RankTensors& ids, std::int64_t iteration, RepeatedRanks& ranks,
                   ImportSink& sink) {
  std::vector<NpyArray> arrays;
  std::vector<int> layers;
  for (const auto& [layer, tensor] : ids.iterations.at(iteration)) {
    arrays.push_back(tensor);
    layers.push_back(layer);
  }
  const std::string where = fmt::format("{}, iteration {}", ids.file.path(), iteration);
  const ChoiceTable table(std::move(arrays));
  if (table.tokens() == 0) return;
  ranks.begin(iteration);
  if (ranks.repeats(table)) return sink.drop(repeated_rank_rows, table.tokens() * table.layers());
  // Neither requests nor their order are recorded: the tokens of a rank are one sequence.
  RoutedPass pass{where, table, {static_cast<std::int32_t>(table.tokens())}};
  pass.layers = layers;
  pass.step = iteration;
  pass.source_rank = ids.rank;
  sink.add(pass);
}

}  // namespace

void import_trtllm(ImportSink& sink) {
  const auto ranks = read_trtllm(sink, RankFileKind::ids);
  const RankTensors& first = ranks.begin()->second;
  RepeatedRanks repeated;
  double done = 0;
  for (const auto& [iteration, layers] : first.iterations) {
    sink.progress(done++ / static_cast<double>(first.iterations.size()));
    for (const auto& [rank, ids] : ranks) add_iteration(ids, iteration, repeated, sink);
    for (const auto& [rank, ids] : ranks) ids.file.forget();
  }
}

}  // namespace moesim
