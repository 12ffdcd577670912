// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/hybrid/compression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"

namespace moesim {
namespace {

void check_lengths(std::size_t a, std::size_t b) {
  if (a != b) throw Error(fmt::format("experts of {} and {} parameters", a, b));
}

}  // namespace

double ExpertCodec::kept_fraction() const {
  if (ratio < 1) throw Error(fmt::format("a compression ratio of {} is below 1", ratio));
  return compresses() ? value_bytes / (ratio * (value_bytes + index_bytes)) : 1;
}

std::int64_t ExpertCodec::kept() const {
  const double share = kept_fraction() * static_cast<double>(parameters);
  // A product that is a whole number but for rounding must not lose one.
  const auto whole = static_cast<std::int64_t>(std::floor(share * (1 + 1e-12)));
  return std::clamp<std::int64_t>(whole, std::min<std::int64_t>(1, parameters), parameters);
}

Bytes ExpertCodec::message() const {
  return compresses() ? Bytes(kept() * (value_bytes + index_bytes)) : expert();
}

KernelTraffic encode_traffic(const ExpertCodec& codec) {
  if (!codec.compresses()) return {};
  return {.read = std::int64_t{2} * codec.expert(), .written = codec.message()};
}

KernelTraffic decode_traffic(const ExpertCodec& codec) {
  if (!codec.compresses()) return {};
  return {.read = codec.expert() + codec.message(), .written = codec.expert()};
}

Bytes shared_expert_payload(const ExpertCodec& codec) {
  return codec.compresses() ? codec.expert() : Bytes(0);
}

/// In double: the sum of many float32 would round.
std::vector<float> mean_expert(std::span<const std::vector<float>> experts) {
  if (experts.empty()) throw Error("the mean of no expert");
  std::vector<double> sum(experts.front().size());
  for (const auto& expert : experts) {
    check_lengths(expert.size(), sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += expert[i];
  }
  std::vector<float> mean(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    mean[i] = static_cast<float>(sum[i] / static_cast<double>(experts.size()));
  }
  return mean;
}

std::vector<ResidualEntry> encode_residual(std::span<const float> expert,
                                           std::span<const float> shared, std::int64_t kept) {
  check_lengths(expert.size(), shared.size());
  if (kept < 0 || static_cast<std::size_t>(kept) > expert.size()) {
    throw Error(fmt::format("cannot keep {} of {} parameters", kept, expert.size()));
  }
  std::vector<ResidualEntry> residual(expert.size());
  for (std::size_t i = 0; i < expert.size(); ++i) {
    residual[i] = {static_cast<std::uint32_t>(i), expert[i] - shared[i]};
  }
  const auto larger = [](const ResidualEntry& a, const ResidualEntry& b) {
    const float x = std::fabs(a.value), y = std::fabs(b.value);
    return x != y ? x > y : a.index < b.index;
  };
  const auto end = residual.begin() + kept;
  if (end != residual.end()) std::nth_element(residual.begin(), end, residual.end(), larger);
  residual.erase(end, residual.end());
  std::sort(residual.begin(), residual.end(),
            [](const ResidualEntry& a, const ResidualEntry& b) { return a.index < b.index; });
  return residual;
}

std::vector<float> decode_residual(std::span<const float> shared,
                                   std::span<const ResidualEntry> residual) {
  std::vector<float> expert(shared.begin(), shared.end());
  for (const auto& [index, value] : residual) {
    if (index >= expert.size()) {
      throw Error(fmt::format("residual index {} of {} parameters", index, expert.size()));
    }
    expert[index] += value;
  }
  return expert;
}

double relative_error(std::span<const float> expert, std::span<const float> decoded) {
  check_lengths(expert.size(), decoded.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < expert.size(); ++i) {
    const double difference = static_cast<double>(expert[i]) - decoded[i];
    error += difference * difference;
    norm += static_cast<double>(expert[i]) * expert[i];
  }
  return error == 0 ? 0 : std::sqrt(error / norm);
}

}  // namespace moesim
