// SPDX-License-Identifier: Apache-2.0
// A program on the CPU and on a GPU: buffers must agree bit by bit, or as closely as two libraries'
// products can.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "realhw/cuda/cuda_device.h"
#include "realhw/host/host_device.h"

namespace moesim {

using Random = std::mt19937;

inline std::int64_t below(Random& random, std::int64_t n) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
}
inline RowFormat any_format(Random& random) { return static_cast<RowFormat>(below(random, 3)); }

/// Numbers of many magnitudes, none of them zero.
inline std::vector<float> numbers(Random& random, std::int64_t count, float spread = 12) {
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
      for (const RankStep& step : program.steps) device->run(step.before[0], step.stream);
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

}  // namespace moesim
