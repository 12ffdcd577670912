// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: loops and OpenBLAS, in the thread that calls.
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "realhw/host/scratch_kernels.h"
#include "realhw/program/device.h"

namespace moesim {

/// Calls of one stream must follow each other; those of different streams may run at once.
class HostDevice : public Device {
 public:
  void load(const RankProgram& program) override;
  void reset(bool poison) override;
  void run(const Call& call, Stream stream) override;
  std::byte* data(BufferId buffer) override { return memory_[buffer.index()].data(); }
  void read(Place from, std::span<std::byte> bytes) override;
  Findings findings() override;

 private:
  /// Memory that calls of a stream use besides buffers.
  struct Workspace {
    std::vector<float> row, sum, a, b, c;
    ScratchKernels scratch;
  };

  std::byte* at(Place place) { return data(place.buffer) + place.offset; }
  RowFormat format(Place place) const { return (*program_)[place.buffer].format; }
  void write_initial();
  /// The elements as float32: where they are, or in `room`.
  const float* floats(Place place, std::int64_t elements, std::vector<float>& room);

  void run_call(const RowSums& sums, Workspace& workspace);
  void run_call(const GroupedProduct& product, Workspace& workspace);
  void run_call(const Activation& activation, Workspace& workspace);
  void run_call(const LocalCopy& copy, Workspace& workspace);
  void run_call(const Pattern& pattern, Workspace& workspace);
  void run_call(const FiniteCheck& check, Workspace& workspace);
  void run_call(const Scratch& scratch, Workspace& workspace);
  void run_call(const HostWork& work, Workspace& workspace);
  void run_call(const DenseCall& call, Workspace& workspace);
  void multiply_group(const GroupedProduct& product, const GroupedProduct::Group& group,
                      Workspace& workspace);

  const RankProgram* program_ = nullptr;
  std::vector<std::vector<std::byte>> memory_;  // [buffer]
  std::array<Workspace, stream_count> workspaces_;
  std::atomic<std::int64_t> wrong_bytes_ = 0;
  std::atomic<std::int32_t> not_finite_in_ = -1;
};

}  // namespace moesim
