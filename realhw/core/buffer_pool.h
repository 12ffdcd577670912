// SPDX-License-Identifier: Apache-2.0
// Message buffers that are used again, so that no step pays for fresh pages.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace moesim {

class BufferPool {
 public:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;  // not initialized
    std::size_t capacity = 0;
  };
  /// A buffer of at least `size` bytes: the smallest that suits, else a new one.
  Buffer take(std::size_t size) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->capacity < size) continue;
      if (best == free_.end() || it->capacity < best->capacity) best = it;
    }
    if (best == free_.end()) return {std::make_unique_for_overwrite<std::byte[]>(size), size};
    Buffer found = std::move(*best);
    free_.erase(best);
    return found;
  }
  void give_back(Buffer buffer) { free_.push_back(std::move(buffer)); }

 private:
  std::vector<Buffer> free_;
};

}  // namespace moesim
