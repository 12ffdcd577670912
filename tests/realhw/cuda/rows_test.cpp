// SPDX-License-Identifier: Apache-2.0
// Kernels over rows and bytes on a GPU against the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "realhw/cuda/check.h"
#include "realhw/cuda/device_memory.h"
#include "tests/realhw/cuda/topk_case.h"
#include "tests/realhw/cuda/twins.h"

namespace moesim {
namespace {

TEST(CudaRowSums, AreThoseOfTheCpu) {
  Random random(1);
  for (int attempt = 0; attempt < 120; ++attempt) {
    SCOPED_TRACE(attempt);
    Twins twins;
    const std::int64_t width = below(random, 4) == 0   ? below(random, 20)
                               : below(random, 2) == 0 ? 8 * below(random, 600)
                                                       : below(random, 9000);
    const std::int64_t rows = below(random, 20);
    const bool aligned = below(random, 2) == 0;
    const std::int64_t gap = aligned ? 16 : 1 + below(random, 7);
    const auto row_bytes = [&](RowFormat format) {
      const std::int64_t bytes = width * static_cast<std::int64_t>(size_of(format));
      return aligned ? (bytes + 15) / 16 * 16 : bytes + below(random, gap);
    };
    std::vector<Place> sources;
    for (int s = 0; s < 6; ++s) {
      sources.push_back(twins.add(any_format(random), width, aligned ? 16 : below(random, 9),
                                  numbers(random, width, s == 0 ? 2 : 12)));
    }
    RowSums sums;
    sums.width = width;
    const RowFormat format = any_format(random);
    Place to = twins.add(format, (width + 16) * std::max<std::int64_t>(rows, 1),
                         aligned ? 0 : below(random, 9));
    sums.first = {0};
    for (std::int64_t row = 0; row < rows; ++row) {
      sums.to.push_back(to);
      to.offset += row_bytes(format);
      for (std::int64_t t = below(random, 5); t > 0; --t) {
        const float weight = below(random, 2) == 0 ? 1.0f : numbers(random, 1, 1)[0];
        sums.terms.push_back({sources[static_cast<std::size_t>(below(random, 6))], weight});
      }
      sums.first.push_back(static_cast<std::uint32_t>(sums.terms.size()));
    }
    twins.call(sums);
    twins.run();
    twins.expect_same();
  }
}

TEST(CudaRowSums, RoundEveryNumberAsTheCpuDoes) {
  Random random(2);
  for (const RowFormat from : {RowFormat::float32, RowFormat::bfloat16, RowFormat::float8}) {
    for (const RowFormat to : {RowFormat::float32, RowFormat::bfloat16, RowFormat::float8}) {
      SCOPED_TRACE(fmt::format("{} to {}", name_of(from), name_of(to)));
      Twins twins;
      const std::int64_t width = 1 << 18;
      std::vector<float> values = numbers(random, width, 20);
      for (std::size_t i = 0; i < 4096; ++i) {  // halfway between neighbours, too
        values[i] =
            std::ldexp(static_cast<float>(i % 512) / 16, static_cast<int>(i / 512) * 2 - 10);
      }
      RowSums sums{width, {}, {0, 1}, {}};
      sums.terms.push_back({twins.add(from, width, 0, values), 1.0f});
      sums.to.push_back(twins.add(to, width, 0));
      twins.call(sums);
      twins.run();
      twins.expect_same();
    }
  }
}

TEST(CudaActivation, IsThatOfTheCpu) {
  Random random(3);
  for (int attempt = 0; attempt < 24; ++attempt) {
    SCOPED_TRACE(attempt);
    Twins twins;
    Activation activation;
    activation.gradient = below(random, 2) == 0;
    activation.gated = below(random, 2) == 0;
    activation.ffn = 1 + below(random, 2500);
    const std::int64_t up = activation.gated ? 2 * activation.ffn : activation.ffn;
    const RowFormat format = below(random, 2) == 0 ? RowFormat::float32 : RowFormat::bfloat16;
    std::vector<std::pair<Place, std::int64_t>> results;
    for (std::int64_t r = below(random, 4); r >= 0; --r) {
      const std::int64_t rows = below(random, 5);
      const std::int64_t offset = below(random, 2) * 4;
      Activation::Range range;
      range.rows = rows;
      range.h = twins.add(format, rows * up, offset, numbers(random, rows * up, 3));
      if (activation.gradient) {
        range.out_gradient = twins.add(format, rows * activation.ffn, offset,
                                       numbers(random, rows * activation.ffn, 3));
        range.h_gradient = twins.add(format, rows * up, offset);
        results.emplace_back(range.h_gradient, rows * up);
      } else {
        range.out = twins.add(format, rows * activation.ffn, offset);
        results.emplace_back(range.out, rows * activation.ffn);
      }
      activation.ranges.push_back(range);
    }
    twins.call(activation);
    twins.run();
    for (const auto& [place, count] : results) {
      if (count > 0) twins.expect_close(place, count, format == RowFormat::float32 ? 1e-5 : 1e-2);
    }
  }
}

TEST(CudaPattern, IsWrittenAsTheCpuDoesAndEveryWrongByteIsCounted) {
  Random random(5);
  for (int attempt = 0; attempt < 40; ++attempt) {
    SCOPED_TRACE(attempt);
    Twins twins;
    Pattern pattern;
    pattern.op = OpId(attempt);
    for (std::int64_t r = below(random, 30); r > 0; --r) {
      const std::int64_t bytes = below(random, r == 1 ? 200000 : 40);
      pattern.ranges.push_back({GpuId(below(random, 4)), GpuId(below(random, 4)),
                                below(random, 1000),
                                twins.add(RowFormat::float8, bytes, below(random, 9)), bytes});
    }
    twins.call(pattern);
    Pattern expected = pattern;  // of another receiver, where it starts elsewhere or not at all
    expected.compare = true;
    twins.call(expected);
    for (Pattern::Range& range : expected.ranges) range.in_message += below(random, 2);
    twins.call(expected);
    twins.run();
    twins.expect_same();
    EXPECT_EQ(twins.gpu->findings().wrong_bytes, twins.host.findings().wrong_bytes);
  }
}

TEST(CudaFiniteCheck, FindsTheFirstOpThatMadeWhatIsNoNumber) {
  Random random(6);
  for (const RowFormat format : {RowFormat::float32, RowFormat::bfloat16, RowFormat::float8}) {
    for (const float bad : {1.0f, INFINITY, -INFINITY, NAN}) {
      if (format == RowFormat::float8 && std::isinf(bad)) continue;  // it has none
      SCOPED_TRACE(fmt::format("{} {}", name_of(format), bad));
      Twins twins;
      const std::int64_t count = 30000;
      const Place good = twins.add(format, count, 1, numbers(random, count, 3));
      std::vector<float> values = numbers(random, count, 3);
      values[static_cast<std::size_t>(below(random, count))] = bad;
      const Place other = twins.add(format, count, 3, values);
      twins.call(FiniteCheck{OpId(3), {{good, count}, {good, 0}}});
      twins.call(FiniteCheck{OpId(9), {{good, count}, {other, count}}});
      twins.call(FiniteCheck{OpId(7), {{other, count}}});
      twins.run();
      const auto found = twins.gpu->findings().not_finite_in;
      EXPECT_EQ(found, std::isfinite(bad) ? std::nullopt : std::optional(OpId(7)));
      twins.gpu->reset(false);
      EXPECT_EQ(twins.gpu->findings().not_finite_in, std::nullopt);
    }
  }
}

TEST(CudaLocalCopy, MovesUnalignedBytes) {
  Random random(7);
  Twins twins;
  const Place from = twins.add(RowFormat::float8, 5000, 3, numbers(random, 5000, 3));
  const Place to = twins.add(RowFormat::float8, 5000, 1);
  twins.call(LocalCopy{from, to, 4999});
  twins.call(LocalCopy{from, to, 0});
  twins.run();
  twins.expect_same();
}

TEST(CudaTopk, IsThatOfTheCpu) {
  Random random(8);
  for (int attempt = 0; attempt < 24; ++attempt) {
    SCOPED_TRACE(attempt);
    TopkCase host(random_topk_shape(random), static_cast<unsigned>(attempt));
    host.encode();
    host.decode();
    const auto upload = [](const auto& values) {
      cuda::DeviceMemory memory(values.size() * sizeof values[0]);
      if (!values.empty()) {
        cuda::check(cudaMemcpy(memory.data(), values.data(), memory.size(), cudaMemcpyDefault));
      }
      return memory;
    };
    const auto shared = upload(host.shared), x = upload(host.x);
    std::vector<std::byte> poison(host.x.size(), std::byte{0xff});
    const auto rest = upload(poison), decoded = upload(poison);
    poison.assign(host.values.size(), std::byte{0xff});
    const auto values = upload(poison);
    poison.assign(2 * host.indices.size(), std::byte{0xfe});
    const auto indices = upload(poison);
    const TopkArrays arrays{shared.data(), x.data(),
                            values.data(), reinterpret_cast<std::uint16_t*>(indices.data()),
                            rest.data(),   decoded.data()};
    launch_topk_encode(host.shape, arrays, nullptr);
    launch_topk_decode(host.shape, arrays, nullptr);
    const auto download = [](const cuda::DeviceMemory& memory) {
      std::vector<std::byte> bytes(memory.size());
      if (!bytes.empty()) {
        cuda::check(cudaMemcpy(bytes.data(), memory.data(), bytes.size(), cudaMemcpyDefault));
      }
      return bytes;
    };
    EXPECT_EQ(download(values), host.values);
    EXPECT_EQ(download(rest), host.rest);
    EXPECT_EQ(download(decoded), host.decoded);
    const auto bytes = std::as_bytes(std::span(host.indices));
    EXPECT_EQ(download(indices), std::vector(bytes.begin(), bytes.end()));
  }
}

}  // namespace
}  // namespace moesim
