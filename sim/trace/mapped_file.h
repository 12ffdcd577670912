// SPDX-License-Identifier: Apache-2.0
// A file mapped into memory, read-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "sim/trace/cut_short.h"
#include "sim/trace/unchanged.h"

namespace moesim {

class MappedFile {
 public:
  /// Maps the whole file (an empty file gives an empty span). Throws Error when it cannot.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Gives the whole pages of `part` back to the system, so that a layer which is counted leaves
  /// memory. They are read again when they are used again.
  void forget(std::span<const std::byte> part) const;

 private:
  std::span<const std::byte> bytes_;
  GuardedMapping guard_;
  WatchedFile watched_;
};

}  // namespace moesim
