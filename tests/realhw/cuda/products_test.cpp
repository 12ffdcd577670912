// SPDX-License-Identifier: Apache-2.0
// Matrix products, and work without meaning, on a GPU against the CPU.
#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(Ways, CudaProducts,
                         testing::Values(CudaOptions::Gemm::automatic, CudaOptions::Gemm::grouped,
                                         CudaOptions::Gemm::one_by_one,
                                         CudaOptions::Gemm::on_streams));

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
