// SPDX-License-Identifier: Apache-2.0
// Every kernel on a GPU against the CPU: the same calls on both devices, whose buffers must agree
// bit by bit, or as closely as two libraries' products can. Exits with 77 where there is no GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <thread>

#include "realhw/cuda/cuda_device.h"
#include "realhw/cuda/device_memory.h"
#include "realhw/host/host_device.h"
#include "tests/realhw/nccl/topk_case.h"

namespace moesim {
namespace {

using Random = std::mt19937;

std::int64_t below(Random& random, std::int64_t n) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
}
RowFormat any_format(Random& random) { return static_cast<RowFormat>(below(random, 3)); }

/// Numbers of many magnitudes, none of them zero.
std::vector<float> numbers(Random& random, std::int64_t count, float spread = 12) {
  std::uniform_real_distribution<float> exponent(-spread, spread), sign(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = std::copysign(std::exp2(exponent(random)), sign(random));
  return values;
}

/// One program on both devices.
class Twins {
 public:
  explicit Twins(CudaOptions options = {}) : options_(options) {}

  /// A buffer with `count` numbers from `offset` bytes on, and some bytes behind them.
  Place add(RowFormat format, std::int64_t count, std::int64_t offset,
            const std::vector<float>& values = {}) {
    const BufferId id(static_cast<std::int64_t>(program.buffers.size()));
    const auto size = static_cast<std::int64_t>(size_of(format));
    program.buffers.push_back({"buffer", offset + count * size + 5, format});
    if (!values.empty()) program.initial.push_back({{id, offset}, values});
    return {id, offset};
  }
  void call(Call call) {
    RankStep step;
    step.op = OpId(static_cast<std::int64_t>(program.steps.size()));
    step.before.push_back(std::move(call));
    program.steps.push_back(std::move(step));
  }

  void run() {
    gpu = make_cuda_device(0, options_);
    host.load(program);
    gpu->load(program);
    for (Device* device : std::initializer_list<Device*>{&host, gpu.get()}) {
      device->reset(true);
      for (const RankStep& step : program.steps) device->run(step.before[0], step.lane);
    }
  }

  /// Bytes of every buffer.
  void expect_same() {
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      const BufferId id(static_cast<std::int64_t>(b));
      const auto size = static_cast<std::size_t>(program[id].bytes);
      std::vector<std::byte> on_host(size), on_gpu(size);
      host.read({id, 0}, on_host);
      gpu->read({id, 0}, on_gpu);
      std::size_t different = 0;
      for (std::size_t i = 0; i < size; ++i) different += on_host[i] != on_gpu[i] ? 1 : 0;
      EXPECT_EQ(different, 0u) << "bytes of buffer " << b << ", " << name_of(program[id].format);
    }
  }
  std::vector<float> read(Device& device, Place place, std::int64_t count) {
    return read_values(device, program, place, count);
  }
  /// Within `tolerance` times the largest magnitude of the array.
  void expect_close(Place place, std::int64_t count, double tolerance) {
    const auto expected = read(host, place, count), got = read(*gpu, place, count);
    double largest = 0;
    for (const float value : expected) largest = std::max(largest, std::fabs(double{value}));
    ASSERT_GT(largest, 0) << "zeros prove nothing";
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], tolerance * largest) << "element " << i;
    }
  }

  RankProgram program;
  HostDevice host;
  std::unique_ptr<GpuDevice> gpu;

 private:
  CudaOptions options_;
};

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
  for (int attempt = 0; attempt < 60; ++attempt) {
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
  for (const RankStep& step : twins.program.steps) twins.gpu->run(step.before[0], step.lane);
  EXPECT_EQ(twins.gpu->findings().wrong_bytes, 0);  // waits for all of it
}

TEST(CudaDevice, PoisonsAllButInitialValuesAndZeros) {
  Twins twins;
  const Place initial = twins.add(RowFormat::bfloat16, 3, 2, {1, 2, 3});
  const Place zeros = twins.add(RowFormat::float32, 4, 0);
  const Place other = twins.add(RowFormat::bfloat16, 4, 0);
  twins.program.zeroed.push_back(zeros.buffer);
  twins.run();
  twins.expect_same();
  EXPECT_THAT(twins.read(*twins.gpu, initial, 3), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(twins.read(*twins.gpu, zeros, 4), testing::Each(0));
  EXPECT_THAT(twins.read(*twins.gpu, other, 4), testing::Each(testing::IsNan()));
}

/// Two ops on two lanes, the second waiting for the first, which sleeps.
struct TwoLanes {
  TwoLanes() {
    from = twins.add(RowFormat::float32, 100, 0, std::vector<float>(100, 2.5f));
    middle = twins.add(RowFormat::float32, 100, 0);
    to = twins.add(RowFormat::float32, 100, 0);
    twins.call(HostWork{20'000'000});
    twins.call(LocalCopy{from, middle, 400});
    twins.call(LocalCopy{middle, to, 400});
    twins.gpu = make_cuda_device(0);
    twins.gpu->load(twins.program);
    twins.gpu->make_marks(4);
  }
  void put() {
    GpuDevice& gpu = *twins.gpu;
    gpu.mark(0, Lane::compute);
    gpu.run(twins.program.steps[0].before[0], Lane::compute);
    gpu.run(twins.program.steps[1].before[0], Lane::compute);
    gpu.mark(1, Lane::compute);
    gpu.wait(1, Lane::token);
    gpu.mark(2, Lane::token);
    gpu.run(twins.program.steps[2].before[0], Lane::token);
    gpu.mark(3, Lane::token);
  }
  void expect_ran(Clock::time_point started) {
    GpuDevice& gpu = *twins.gpu;
    while (!gpu.idle()) std::this_thread::yield();
    const Clock::time_point ended = Clock::now();
    for (std::size_t mark = 0; mark < 4; ++mark) EXPECT_TRUE(gpu.passed(mark));
    EXPECT_GE(gpu.time_of(1) - gpu.time_of(0), std::chrono::milliseconds(20));
    EXPECT_GE(gpu.time_of(2), gpu.time_of(1));
    EXPECT_GE(gpu.time_of(3), gpu.time_of(2));
    // The clocks agree to the width of a launch.
    EXPECT_GE(gpu.time_of(0), started - std::chrono::milliseconds(1));
    EXPECT_LE(gpu.time_of(3), ended + std::chrono::milliseconds(1));
    EXPECT_THAT(twins.read(gpu, to, 100), testing::Each(2.5f));
  }

  Twins twins;
  Place from, middle, to;
};

TEST(CudaDevice, LanesWaitForMarks) {
  TwoLanes lanes;
  for (int run = 0; run < 2; ++run) {
    lanes.twins.gpu->reset(true);
    lanes.twins.gpu->start_clock();
    const Clock::time_point started = Clock::now();
    lanes.put();
    EXPECT_FALSE(lanes.twins.gpu->passed(1));
    lanes.expect_ran(started);
  }
}

TEST(CudaDevice, ReplaysWhatWasCaptured) {
  TwoLanes lanes;
  GpuDevice& gpu = *lanes.twins.gpu;
  gpu.reset(true);
  gpu.start_clock();
  const Clock::time_point first = Clock::now();
  lanes.put();
  lanes.expect_ran(first);
  gpu.begin_capture();
  lanes.put();
  gpu.end_capture();
  for (int run = 0; run < 3; ++run) {
    gpu.reset(true);
    gpu.start_clock();
    for (std::size_t mark = 0; mark < 4; ++mark) EXPECT_FALSE(gpu.passed(mark));
    const Clock::time_point started = Clock::now();
    gpu.replay();
    EXPECT_FALSE(gpu.passed(1)) << "a mark of an earlier run";
    lanes.expect_ran(started);
  }
}

TEST(CudaDevice, ForgetsACaptureThatFailed) {
  TwoLanes lanes;
  lanes.twins.gpu->begin_capture();
  lanes.put();
  lanes.twins.gpu->drop_capture();
  EXPECT_THROW(lanes.twins.gpu->replay(), std::runtime_error);
  lanes.twins.gpu->reset(true);
  lanes.twins.gpu->start_clock();
  const Clock::time_point started = Clock::now();
  lanes.put();
  lanes.expect_ran(started);
}

TEST(CudaTopk, IsThatOfTheCpu) {
  Random random(8);
  for (int attempt = 0; attempt < 60; ++attempt) {
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

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (moesim::count_gpus() == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  return RUN_ALL_TESTS();
}
