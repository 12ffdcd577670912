// SPDX-License-Identifier: Apache-2.0
// The files of TensorRT-LLM's expert statistics (tensorrt_llm/_torch/expert_statistic.py): per rank
// a safetensors file with a tensor "<iteration>_<layer>", and meta_info.json next to them.
#pragma once

#include <map>

#include "sim/import/import_sink.h"
#include "sim/import/safetensors.h"

namespace moesim {

struct RankTensors {
  int rank = 0;
  Safetensors file;
  std::map<std::int64_t, std::map<int, NpyArray>> iterations;  // by layer
};

enum class RankFileKind { ids, counts };

/// The files of every rank; experts and top-k of meta_info.json go to the sink. Throws Error unless
/// all ranks have the same iterations, which follow each other, and the same layers in each.
std::map<int, RankTensors> read_trtllm(ImportSink& sink, RankFileKind kind);

}  // namespace moesim
