// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/device.h"

namespace moesim {

std::vector<float> read_values(Device& device, const RankProgram& program, Place from,
                               std::int64_t elements) {
  const RowFormat format = program[from.buffer].format;
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * size_of(format));
  device.read(from, bytes);
  std::vector<float> values(static_cast<std::size_t>(elements));
  decode(format, bytes.data(), values);
  return values;
}

}  // namespace moesim
