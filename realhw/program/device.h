// SPDX-License-Identifier: Apache-2.0
// What executes the calls of a rank's program: a CPU, a GPU, or a stand-in for one.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "realhw/program/program.h"

namespace moesim {

/// What checks have found since the last reset.
struct Findings {
  std::int64_t wrong_bytes = 0;       // of patterns
  std::optional<OpId> not_finite_in;  // the first op that made an infinity or NaN
};

class Device {
 public:
  virtual ~Device() = default;
  /// Allocates the buffers and makes the lists of all calls ready; once, before all else. The
  /// program must outlive the device. Throws std::runtime_error when memory is short.
  virtual void load(const RankProgram& program) = 0;
  /// Before every run: puts initial values and zeros in their places and empties the findings.
  /// `poison`: fills all other memory with NaN, so that nothing unwritten passes for a result.
  virtual void reset(bool poison) = 0;
  /// Executes a call of the loaded program, or queues it behind the earlier calls of the stream.
  /// Calls of different streams may come from different threads.
  virtual void run(const Call& call, Stream stream) = 0;
  /// The buffer's memory, as transports take it.
  virtual std::byte* data(BufferId buffer) = 0;
  /// Copies bytes of a buffer to the host, after all calls queued on any stream.
  virtual void read(Place from, std::span<std::byte> bytes) = 0;
  virtual Findings findings() = 0;
};

/// Elements of a row or matrix on the device, from their buffer's format.
std::vector<float> read_values(Device& device, const RankProgram& program, Place from,
                               std::int64_t elements);

}  // namespace moesim
