// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "realhw/cuda/check.h"

namespace moesim::cuda {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Not initialized. Throws std::runtime_error when memory is short.
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    void* memory = nullptr;
    if (bytes > 0) check(cudaMalloc(&memory, bytes));
    data_ = static_cast<std::byte*>(memory);
  }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// One of the arrays that are uploaded together.
template <class T>
struct Listed {
  std::size_t offset = 0, count = 0;
};

/// Many small arrays in one piece of memory, uploaded at once: a program has thousands of lists.
class DeviceLists {
 public:
  template <class T>
  Listed<T> add(const std::vector<T>& values) {
    const Listed<T> listed{(host_.size() + 15) / 16 * 16, values.size()};
    host_.resize(listed.offset + values.size() * sizeof(T));
    if (!values.empty()) {
      std::memcpy(host_.data() + listed.offset, values.data(), values.size() * sizeof(T));
    }
    return listed;
  }
  /// Once, after all were added; they are there when it returns. On the stream: other streams of
  /// ours do not wait for what cudaMemcpy still has on its way.
  void upload(cudaStream_t stream) {
    device_ = DeviceMemory(host_.size());
    if (!host_.empty()) {
      check(cudaMemcpyAsync(device_.data(), host_.data(), host_.size(), cudaMemcpyHostToDevice,
                            stream));
      check(cudaStreamSynchronize(stream));
    }
    host_ = {};
  }
  template <class T>
  const T* operator[](const Listed<T>& listed) const {
    return reinterpret_cast<const T*>(device_.data() + listed.offset);
  }

 private:
  std::vector<std::byte> host_;
  DeviceMemory device_;
};

}  // namespace moesim::cuda
