// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/hybrid/compression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"

namespace moesim {
namespace {

KernelTraffic without(double saved, const KernelTraffic& traffic) {
  const auto left = [&](Bytes bytes) {
    return Bytes(std::llround(static_cast<double>(bytes.value) * (1 - saved)));
  };
  return {left(traffic.read), left(traffic.written)};
}

}  // namespace

double ExpertCodec::kept_fraction() const {
  if (ratio < 1) throw Error(fmt::format("a compression ratio of {} is below 1", ratio));
  const double bytes = bytes_per_element(values);
  return compresses() ? bytes / (ratio * (bytes + index_bytes)) : 1;
}

std::int64_t ExpertCodec::kept() const {
  const double share = kept_fraction() * static_cast<double>(parameters);
  // A product that is a whole number but for rounding must not lose one.
  const auto whole = static_cast<std::int64_t>(std::floor(share * (1 + 1e-12)));
  return std::clamp<std::int64_t>(whole, std::min<std::int64_t>(1, parameters), parameters);
}

Bytes ExpertCodec::message() const {
  return compresses() ? bytes_of(kept(), values) + Bytes(kept() * index_bytes) : expert();
}

KernelTraffic encode_traffic(const ExpertCodec& codec) {
  if (!codec.compresses()) return {};
  return without(codec.fused ? ExpertCodec::encode_saved : 0,
                 {.read = std::int64_t{2} * codec.expert(), .written = codec.message()});
}

KernelTraffic decode_traffic(const ExpertCodec& codec) {
  if (!codec.compresses()) return {};
  return without(codec.fused ? ExpertCodec::decode_saved : 0,
                 {.read = codec.expert() + codec.message(), .written = codec.expert()});
}

Bytes shared_expert_payload(const ExpertCodec& codec) {
  return codec.compresses() ? codec.expert() : Bytes(0);
}

}  // namespace moesim
