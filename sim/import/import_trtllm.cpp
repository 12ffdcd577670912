// SPDX-License-Identifier: Apache-2.0
// TensorRT-LLM's raw expert ids: rank<r>_raw.safetensors or
// token_selected_experts_rank<r>.safetensors, [token][choice] of the tokens of that rank.
// TensorRT-LLM's routes per token (tensorrt_llm/_torch/route_capture.py): of each request
// CompletionOutput.routed_experts, int16 [token][MoE layer][choice] of prompt and answer without
// the last token, as np.save or torch.save writes it.
#include <fmt/format.h>

#include <limits>

#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/repeated_ranks.h"
#include "sim/import/torch_file.h"
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

void add_capture(const NpyArray& ids, const std::string& where, ImportSink& sink) {
  if (ids.shape().size() != 3 || ids.shape()[0] > std::numeric_limits<std::int32_t>::max()) {
    throw error_in(where, fmt::format("holds routes {}, not [token][MoE layer][choice]",
                                      shape_text(ids.shape())));
  }
  if (!ids.type().is_integer()) {
    throw error_in(where, fmt::format("holds {}; ids are integers", ids.type().name()));
  }
  for (std::int64_t i = 0; i < ids.count(); ++i) {
    if (ids.integer(i) != -1) continue;
    throw error_in(where,
                   fmt::format("token {} has no routes", i / (ids.shape()[1] * ids.shape()[2])),
                   "TensorRT-LLM leaves no gaps: padding of another recorder");
  }
  if (ids.shape()[0] == 0) return;
  RoutedPass pass{where, ChoiceTable(ids, {}, "tlk"), {static_cast<std::int32_t>(ids.shape()[0])}};
  pass.phase = Phase::mixed;
  pass.of_routers = true;
  pass.warm_up_first = false;
  sink.add(pass);
}

/// A tensor, or a dict with it.
void add_value(const TorchFile& file, const PickleValue& value, const std::string& where,
               ImportSink& sink) {
  const PickleValue* routes = pickle_get(value, "routed_experts");
  const PickleValue* outputs = pickle_get(value, "additional_generation_outputs");
  if (routes == nullptr && outputs != nullptr) routes = pickle_get(*outputs, "routed_experts");
  add_capture(file.load(routes != nullptr ? *routes : value, "routed_experts"), where, sink);
}

/// One of them, or a list of them, one per request.
void add_values(const TorchFile& file, ImportSink& sink) {
  if (!file.root().is_list()) return add_value(file, file.root(), file.path(), sink);
  std::int64_t number = 0;
  for (const PickleValue& item : file.items(file.root(), "list")) {
    add_value(file, item, fmt::format("{}, request {}", file.path(), number++), sink);
  }
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

void import_trtllm_routes(ImportSink& sink) {
  sink.experts();
  const auto files = input_files(sink.options().inputs);
  for (std::size_t i = 0; i < files.size(); ++i) {
    sink.progress(static_cast<double>(i) / static_cast<double>(files.size()));
    if (files[i].ends_with(".npy")) {
      add_capture(NpyArray::open(files[i]), files[i], sink);
      continue;
    }
    add_values(TorchFile(files[i]), sink);
  }
}

}  // namespace moesim
