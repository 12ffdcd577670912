// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/blas/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace moesim::cuda {
namespace {

/// What cuBLAS is advised to have on sm_90.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

int narrow(std::int64_t dimension) {
  if (dimension > std::numeric_limits<int>::max()) {
    throw std::runtime_error(
        fmt::format("a matrix dimension of {} is too large for cuBLAS", dimension));
  }
  return static_cast<int>(dimension);
}

}  // namespace

cudaDataType cuda_type(RowFormat format) {
  if (format == RowFormat::float8) throw std::runtime_error("no matrix products of float8");
  return format == RowFormat::float32 ? CUDA_R_32F : CUDA_R_16BF;
}

GemmQueue::GemmQueue(const Cublas& cublas, cudaStream_t stream, int side_streams)
    : cublas_(cublas), stream_(stream) {
  add_handle(stream);
  for (int i = 0; i < side_streams; ++i) {
    sides_.push_back(make_stream());
    add_handle(sides_.back().get());
  }
  for (int i = 0; side_streams > 0 && i <= side_streams; ++i) {
    events_.push_back(make_event(cudaEventDisableTiming));
  }
}

void GemmQueue::add_handle(cudaStream_t stream) {
  cublasHandle_t handle = nullptr;
  cublas_.check(cublas_.create(&handle));
  handles_.emplace_back(handle, DestroyHandle{&cublas_});
  workspaces_.emplace_back(workspace_bytes);
  cublas_.check(cublas_.set_stream(handle, stream));  // before the workspace: it takes it away
  cublas_.check(cublas_.set_workspace(handle, workspaces_.back().data(), workspace_bytes));
  // Sums of split products stay float32.
  cublas_.check(cublas_.set_math_mode(
      handle, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                        CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
}

void GemmQueue::fork() {
  check(cudaEventRecord(events_[0].get(), stream_));
  for (const OwnedStream& side : sides_) {
    check(cudaStreamWaitEvent(side.get(), events_[0].get(), 0));
  }
}

void GemmQueue::join() {
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    check(cudaEventRecord(events_[i + 1].get(), sides_[i].get()));
    check(cudaStreamWaitEvent(stream_, events_[i + 1].get(), 0));
  }
}

cublasHandle_t GemmQueue::side(std::size_t i) const {
  return handles_[1 + i % sides_.size()].get();
}

Product::Product(const Cublas& cublas, const ProductMatrices& matrices, GemmWay way,
                 DeviceLists& lists)
    : cublas_(cublas),
      way_(way),
      left_type_(matrices.b),
      right_type_(matrices.a),
      c_type_(matrices.c) {
  const bool one_type = matrices.a == matrices.c && matrices.b == matrices.c;
  using Kind = GroupedProduct::Kind;
  const bool outer = matrices.kind == Kind::outer;
  const int n = narrow(matrices.n), k = narrow(matrices.k);
  // Column-major: a [m x k] is k x m with leading dimension k, b [k x n] is n x k with n.
  if (matrices.kind == Kind::transposed_b) left_op_ = CUBLAS_OP_T;
  if (outer) right_op_ = CUBLAS_OP_T;
  for (const ProductMatrices::Group& group : matrices.groups) {
    if (group.m == 0 || n == 0 || (k == 0 && outer)) continue;
    left_.push_back(group.b);
    right_.push_back(group.a);
    c_.push_back(group.c);
    m_.push_back(n);
    n_.push_back(outer ? k : narrow(group.m));
    k_.push_back(outer ? narrow(group.m) : k);
    left_ld_.push_back(std::max(matrices.kind == Kind::transposed_b ? k : n, 1));
    right_ld_.push_back(std::max(k, 1));
    c_ld_.push_back(n);
  }
  ones_.assign(c_.size(), 1);
  left_ops_.assign(c_.size(), left_op_);
  right_ops_.assign(c_.size(), right_op_);
  alpha_.assign(c_.size(), 1.0f);
  beta_.assign(c_.size(), outer ? 1.0f : 0.0f);
  left_list_ = lists.add(left_);
  right_list_ = lists.add(right_);
  c_list_ = lists.add(c_);
  choose_way(one_type && cublas.gemm_grouped != nullptr);
}

void Product::choose_way(bool can_group) {
  const bool aligned = is_aligned();
  if (way_ == GemmWay::automatic) {
    // A product by itself is better off with the single kernel, which cuBLAS has heuristics for.
    way_ = can_group && aligned && c_.size() > 1 ? GemmWay::grouped : GemmWay::one_by_one;
  } else if (way_ == GemmWay::grouped && !can_group) {
    throw std::runtime_error("this cuBLAS has no grouped product of these types");
  } else if (way_ == GemmWay::grouped && !aligned) {
    throw std::runtime_error(
        "grouped products of bfloat16 need matrices whose rows and starts are at multiples of 16 "
        "bytes: hidden and ffn sizes that are multiples of 8, or another way");
  }
}

/// What grouped products of 16-bit types need: all rows of all matrices at multiples of 16 bytes.
bool Product::is_aligned() const {
  if (c_type_ == CUDA_R_32F) return true;
  const auto odd_row = [](int ld) { return ld % 8 != 0; };
  const auto odd_start = [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % 16 != 0;
  };
  return std::ranges::none_of(left_ld_, odd_row) && std::ranges::none_of(right_ld_, odd_row) &&
         std::ranges::none_of(c_ld_, odd_row) && std::ranges::none_of(left_, odd_start) &&
         std::ranges::none_of(right_, odd_start) && std::ranges::none_of(c_, odd_start);
}

void Product::run(GemmQueue& queue, const DeviceLists& lists) const {
  if (c_.empty()) return;
  if (way_ == GemmWay::grouped) return run_grouped(queue, lists);
  if (way_ == GemmWay::one_by_one) {
    for (std::size_t g = 0; g < c_.size(); ++g) run_single(queue.handle(), g);
    return;
  }
  queue.fork();
  for (std::size_t g = 0; g < c_.size(); ++g) run_single(queue.side(g), g);
  queue.join();
}

void Product::run_grouped(GemmQueue& queue, const DeviceLists& lists) const {
  cublas_.check(cublas_.gemm_grouped(
      queue.handle(), left_ops_.data(), right_ops_.data(), m_.data(), n_.data(), k_.data(),
      alpha_.data(), lists[left_list_], left_type_, left_ld_.data(), lists[right_list_],
      right_type_, right_ld_.data(), beta_.data(), lists[c_list_], c_type_, c_ld_.data(),
      static_cast<int>(c_.size()), ones_.data(), CUBLAS_COMPUTE_32F));
}

void Product::run_single(cublasHandle_t handle, std::size_t g) const {
  cublas_.check(cublas_.gemm(handle, left_op_, right_op_, m_[g], n_[g], k_[g], &alpha_[g], left_[g],
                             left_type_, left_ld_[g], right_[g], right_type_, right_ld_[g],
                             &beta_[g], c_[g], c_type_, c_ld_[g], CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT));
}

}  // namespace moesim::cuda
