// SPDX-License-Identifier: Apache-2.0
// The files of TensorRT-LLM's expert statistics (tensorrt_llm/_torch/expert_statistic.py): per rank
// a safetensors file with a tensor "<iteration>_<layer>", and meta_info.json next to them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "sim/import/import_sink.h"
#include "sim/trace/mapped_file.h"
#include "sim/trace/npy.h"

namespace moesim {

class Safetensors {
 public:
  /// Reads the header, no element. Throws Error when it is damaged.
  explicit Safetensors(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, NpyArray>& tensors() const { return tensors_; }
  /// Lets all elements leave memory until they are used again.
  void forget() const { file_->forget(file_->bytes()); }

 private:
  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, NpyArray> tensors_;
};

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
