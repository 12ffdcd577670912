// SPDX-License-Identifier: Apache-2.0
// Grouped matrix products by cuBLAS, in several ways that can be measured against each other.
#pragma once

#include <memory>
#include <vector>

#include "realhw/cuda/blas/cublas.h"
#include "realhw/cuda/cuda_device.h"
#include "realhw/cuda/cuda_owned.h"
#include "realhw/cuda/device_memory.h"
#include "realhw/program/program.h"

namespace moesim::cuda {

using GemmWay = CudaOptions::Gemm;

/// The handles of one queue. cuBLAS works in memory of ours, so that calls can be captured.
class GemmQueue {
 public:
  /// `side_streams`: of on_streams, else 0.
  GemmQueue(const Cublas& cublas, cudaStream_t stream, int side_streams);

  cublasHandle_t handle() const { return handles_[0].get(); }
  /// Side streams follow the queue, and the queue follows them.
  void fork();
  void join();
  /// The handle of the i-th product between fork and join.
  cublasHandle_t side(std::size_t i) const;

 private:
  void add_handle(cudaStream_t stream);

  struct DestroyHandle {
    const Cublas* cublas;
    void operator()(cublasHandle_t handle) const { cublas->destroy(handle); }
  };
  using OwnedHandle = std::unique_ptr<cublasContext, DestroyHandle>;

  const Cublas& cublas_;
  cudaStream_t stream_;
  std::vector<OwnedStream> sides_;
  std::vector<OwnedEvent> events_;  // of the queue, then of every side
  std::vector<DeviceMemory> workspaces_;
  std::vector<OwnedHandle> handles_;  // last: they use the others
};

/// Row-major matrices in device memory.
struct ProductMatrices {
  struct Group {
    std::int64_t m = 0;
    const std::byte* a = nullptr;
    const std::byte* b = nullptr;
    std::byte* c = nullptr;
  };
  GroupedProduct::Kind kind = GroupedProduct::Kind::plain;
  std::int64_t n = 0, k = 0;
  cudaDataType a = CUDA_R_32F, b = CUDA_R_32F, c = CUDA_R_32F;
  std::vector<Group> groups;
};

/// The products of one call, as cuBLAS takes them. It is column-major, where our matrices are their
/// own transposes: c^T = b^T a^T.
class Product {
 public:
  /// Adds to `lists` what must be on the device. Throws std::runtime_error when a dimension exceeds
  /// int or `way` cannot run these types.
  Product(const Cublas& cublas, const ProductMatrices& matrices, GemmWay way, DeviceLists& lists);
  void run(GemmQueue& queue, const DeviceLists& lists) const;
  /// Not automatic.
  GemmWay way() const { return way_; }

 private:
  void choose_way(bool can_group);
  bool is_aligned() const;
  void run_grouped(GemmQueue& queue, const DeviceLists& lists) const;
  void run_single(cublasHandle_t handle, std::size_t group) const;

  const Cublas& cublas_;
  GemmWay way_;
  cudaDataType left_type_, right_type_, c_type_;
  cublasOperation_t left_op_ = CUBLAS_OP_N, right_op_ = CUBLAS_OP_N;
  std::vector<const void*> left_, right_;
  std::vector<void*> c_;
  std::vector<int> m_, n_, k_, left_ld_, right_ld_, c_ld_, ones_;
  std::vector<cublasOperation_t> left_ops_, right_ops_;
  std::vector<float> alpha_, beta_;
  Listed<const void*> left_list_, right_list_;
  Listed<void*> c_list_;
};

cudaDataType cuda_type(RowFormat format);  // float8 throws std::runtime_error

}  // namespace moesim::cuda
