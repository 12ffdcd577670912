// SPDX-License-Identifier: Apache-2.0
// Tensors by name in one mapped file.
#pragma once

#include <map>
#include <memory>
#include <string>

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

}  // namespace moesim
