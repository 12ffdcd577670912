// SPDX-License-Identifier: Apache-2.0
// A device with a CUDA stream per stream of a plan: calls are put on a stream and run later. The
// interface has what exchanges between GPUs need, and no CUDA, so that they can be tested on a
// stand-in without a GPU.
#pragma once

#include <string>

#include "realhw/core/kernel_thread.h"
#include "realhw/program/device.h"

struct CUstream_st;  // cudaStream_t points to it

namespace moesim {

using GpuStream = CUstream_st*;

/// One host thread uses it. Errors of the device are asynchronous: whichever call comes next throws
/// them as std::runtime_error, with the device's own words.
class GpuDevice : public Device {
 public:
  virtual std::string description() const = 0;  // "NVIDIA H100 80GB HBM3 (sm_90)"
  virtual int sms() const = 0;                  // multiprocessors
  virtual GpuStream stream(Stream stream) = 0;

  /// Marks 0 to `count` are points on streams that can be waited for and have a time.
  virtual void make_marks(std::size_t count) = 0;
  /// Puts the mark on the stream.
  virtual void mark(std::size_t mark, Stream stream) = 0;
  /// Later work of this stream waits for a mark that was put on another stream before.
  virtual void wait(std::size_t mark, Stream stream) = 0;

  /// Before every run, with nothing on any stream: sets the clock of marks against the host's.
  virtual void start_clock() = 0;
  /// Whether the stream has reached the mark since start_clock(); false for one not put on it
  /// since.
  virtual bool passed(std::size_t mark) = 0;
  /// Time of a mark that was passed.
  virtual Clock::time_point time_of(std::size_t mark) = 0;
  /// Whether all that was put on the streams has run.
  virtual bool idle() = 0;

  /// Work put on streams from here to end_capture() is kept instead of run: a step is then replayed
  /// with one launch.
  virtual void begin_capture() = 0;
  virtual void end_capture() = 0;
  /// Forgets what was kept, from any state.
  virtual void drop_capture() = 0;
  /// Runs what was kept.
  virtual void replay() = 0;
};

}  // namespace moesim
