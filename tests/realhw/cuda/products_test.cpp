// SPDX-License-Identifier: Apache-2.0
// Matrix products, and work without meaning, on a GPU against the CPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "realhw/cuda/loaded_calls.h"
#include "tests/realhw/cuda/twins.h"

namespace moesim {
namespace {

class CudaProducts : public testing::TestWithParam<CudaOptions::Gemm> {};

TEST_P(CudaProducts, AreThoseOfTheCpu) {
  using Kind = GroupedProduct::Kind;
  Random random(4);
  int refused = 0;
  for (int attempt = 0; attempt < 60; ++attempt) {
    SCOPED_TRACE(attempt);
    Twins twins({GetParam()});
    GroupedProduct product;
    product.kind = static_cast<Kind>(below(random, 3));
    const bool outer = product.kind == Kind::outer;
    product.n = 8 * (1 + below(random, 40));
    product.k = 8 * (1 + below(random, 40));
    const RowFormat format = below(random, 2) == 0 ? RowFormat::float32 : RowFormat::bfloat16;
    const RowFormat result = outer ? RowFormat::float32 : format;
    std::vector<std::pair<Place, std::int64_t>> results;
    for (std::int64_t g = below(random, 5); g > 0; --g) {
      const std::int64_t m = 1 + below(random, 70);
      const std::int64_t b = (outer ? m : product.k) * product.n;
      const std::int64_t c = (outer ? product.k : m) * product.n;
      GroupedProduct::Group group{m, {}, {}, {}};
      group.a = twins.add(format, m * product.k, 0, numbers(random, m * product.k, 2));
      group.b = twins.add(format, b, 0, numbers(random, b, 2));
      group.c = twins.add(result, c, 0, outer ? numbers(random, c, 2) : std::vector<float>{});
      results.emplace_back(group.c, c);
      product.groups.push_back(group);
    }
    twins.call(product);
    try {
      twins.run();
    } catch (const std::runtime_error& e) {  // one call takes one type
      ASSERT_EQ(GetParam(), CudaOptions::Gemm::grouped) << e.what();
      ++refused;
      continue;
    }
    for (const auto& [place, count] : results) {
      twins.expect_close(place, count, result == RowFormat::float32 ? 2e-5 : 1e-2);
    }
  }
  EXPECT_LT(refused, 30);
}

/// Its kernels would be unloaded below a graph, and loaded again for every step.
TEST(ProductsLibrary, IsLoadedOnce) {
  const cuda::Cublas* first = &cuda::cublas_library();
  {
    Twins twins;
    const Place a = twins.add(RowFormat::float32, 64, 0, std::vector<float>(64, 1.0f));
    const Place c = twins.add(RowFormat::float32, 64, 0);
    twins.call(GroupedProduct{GroupedProduct::Kind::plain, 8, 8, {{8, a, a, c}}});
    twins.run();
  }
  EXPECT_EQ(&cuda::cublas_library(), first);
  void* loaded = dlopen(first->path().c_str(), RTLD_NOW | RTLD_NOLOAD);
  EXPECT_NE(loaded, nullptr);
  if (loaded != nullptr) dlclose(loaded);
}

/// How products of so many groups, one row wide bfloat16 matrices, run by default.
cuda::GemmWay way_of(int groups, std::int64_t width, std::int64_t offset = 0) {
  cuda::ProductMatrices matrices{
      GroupedProduct::Kind::plain, width, 8, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, {}};
  auto* at = reinterpret_cast<std::byte*>(4096 + offset);
  for (int g = 0; g < groups; ++g) matrices.groups.push_back({4, at, at, at});
  cuda::DeviceLists lists;
  return cuda::Product(cuda::cublas_library(), matrices, cuda::GemmWay::automatic, lists).way();
}

TEST(ProductsWay, IsGroupedForSeveralAlignedGroups) {
  EXPECT_EQ(way_of(2, 64), cuda::GemmWay::grouped);
  EXPECT_EQ(way_of(1, 64), cuda::GemmWay::one_by_one) << "the single kernel has heuristics";
  EXPECT_EQ(way_of(2, 60), cuda::GemmWay::one_by_one) << "rows are not at multiples of 16 bytes";
  EXPECT_EQ(way_of(2, 64, 8), cuda::GemmWay::one_by_one);
}

/// A graph holds addresses, not numbers.
TEST(CudaProduct, IsReplayedWithOtherInputs) {
  for (const auto way : {CudaOptions::Gemm::grouped, CudaOptions::Gemm::on_streams}) {
    Twins twins({way});
    Random random(9);
    GroupedProduct product{GroupedProduct::Kind::plain, 16, 24, {}};
    RowSums sums{16, {}, {0}, {}};
    const Place rows = twins.add(RowFormat::float32, 3 * 16, 0);
    for (int g = 0; g < 3; ++g) {
      const Place a = twins.add(RowFormat::float32, 5 * 24, 0, numbers(random, 5 * 24, 2));
      const Place b = twins.add(RowFormat::float32, 24 * 16, 0, numbers(random, 24 * 16, 2));
      product.groups.push_back({5, a, b, twins.add(RowFormat::float32, 5 * 16, 0)});
      sums.terms.push_back({product.groups.back().c, 0.5f});
      sums.first.push_back(static_cast<std::uint32_t>(sums.terms.size()));
      sums.to.push_back({rows.buffer, g * 16 * 4});
    }
    twins.call(product);
    twins.call(sums);
    twins.run();
    GpuDevice& gpu = *twins.gpu;
    gpu.begin_capture();
    for (const RankStep& step : twins.program.steps) gpu.run(step.before[0], step.stream);
    gpu.end_capture();
    for (int run = 0; run < 2; ++run) {
      for (InitialValues& initial : twins.program.initial) {
        initial.values = numbers(random, static_cast<std::int64_t>(initial.values.size()), 2);
      }
      for (Device* device : std::initializer_list<Device*>{&twins.host, &gpu}) device->reset(true);
      for (const RankStep& step : twins.program.steps) {
        twins.host.run(step.before[0], step.stream);
      }
      gpu.replay();
      for (const auto& group : product.groups) twins.expect_close(group.c, 5 * 16, 2e-5);
      twins.expect_close(rows, 3 * 16, 2e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, CudaProducts,
                         testing::Values(CudaOptions::Gemm::automatic, CudaOptions::Gemm::grouped,
                                         CudaOptions::Gemm::one_by_one,
                                         CudaOptions::Gemm::on_streams));

/// Else a call finds in a cache what the one before has left there.
TEST(CudaScratch, CallsStartBehindEachOther) {
  const RankProgram program;
  const cuda::Addresses addresses{program, {}, nullptr};
  cuda::DeviceLists lists;
  cuda::CallLoader loader(addresses, nullptr, cuda::GemmWay::automatic, lists);
  const auto start_of = [&](std::int64_t read, std::int64_t written) {
    const Call call = Scratch{MemoryBound{Bytes(read), Bytes(written)}};
    return std::get<cuda::LoadedMove>(loader.load(call)).start;
  };
  EXPECT_EQ(start_of(4096, 1), 0);
  EXPECT_EQ(start_of(100, 1000), 4096);
  EXPECT_EQ(start_of(cuda::scratch_window, 0), 4096 + 1024);
  EXPECT_EQ(start_of(1, 1), 4096 + 1024) << "the window begins anew";
}

/// Groups of one call may run at once: cuBLAS leaves overlapping results undefined.
TEST(CudaScratch, GroupsHaveMatricesOfTheirOwn) {
  const GroupedGemm gemm{{64, 0, 3}, 128, 256, DataType::bf16};
  const std::int64_t operands = 3 * (64 * 256 + 256 * 128) * 2;
  EXPECT_EQ(cuda::scratch_bytes(Scratch{gemm}), operands + (64 + 3) * 128 * 2);
}

TEST(CudaScratch, RunsEveryKindOfWork) {
  Twins twins;
  twins.call(Scratch{MemoryBound{Bytes(std::int64_t{3} << 28), Bytes(1000)}});
  twins.call(Scratch{MemoryBound{Bytes(0), Bytes(17)}});
  twins.call(Scratch{MemoryBound{Bytes(0), Bytes(0)}});
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16, DataType::fp8}) {
    twins.call(Scratch{GroupedGemm{{64, 0, 3}, 128, 256, type}});
  }
  twins.gpu = make_cuda_device(0);
  twins.gpu->load(twins.program);
  twins.gpu->reset(true);
  for (const RankStep& step : twins.program.steps) twins.gpu->run(step.before[0], step.stream);
  EXPECT_EQ(twins.gpu->findings().wrong_bytes, 0);  // waits for all of it
}

}  // namespace
}  // namespace moesim
