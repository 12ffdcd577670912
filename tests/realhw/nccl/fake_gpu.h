// SPDX-License-Identifier: Apache-2.0
// A GPU in host memory: each stream is a thread that runs later what is put on it, in order.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "realhw/cuda/gpu_device.h"
#include "realhw/host/host_device.h"

namespace moesim {

class FakeGpu;

/// Runs tasks one after the other, or keeps them while it is captured.
class FakeStream {
 public:
  using Task = std::function<void(const std::atomic<bool>& stop)>;
  /// A task of a graph. `makes_numbers`: a call without which results are wrong.
  struct Kept {
    FakeStream* stream = nullptr;
    Task task;
    bool makes_numbers = false;
  };

  FakeStream() : thread_([this] { work(); }) {}
  ~FakeStream();
  FakeStream(const FakeStream&) = delete;

  void push(Task task);
  bool idle();
  /// Throws what a task has thrown.
  void rethrow();
  /// Tasks go there instead; null ends it.
  void keep_in(std::vector<Kept>* kept) { kept_ = kept; }
  bool is_captured() const { return kept_ != nullptr; }
  FakeGpu* gpu = nullptr;

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool running_ = false;
  std::atomic<bool> stop_ = false;
  std::exception_ptr error_;
  std::vector<Kept>* kept_ = nullptr;
  std::thread thread_;  // last: it uses the others
};

class FakeGpu : public GpuDevice {
 public:
  /// What went over all GPUs of a test.
  struct Log {
    std::atomic<int> captures = 0, replays = 0, waits = 0;
    std::atomic<int> waits_for_nothing = 0;  // for marks that were not put before
    std::atomic<int> checks = 0;             // calls that only verify
    std::atomic<int> most_waiting = 0;       // marks on the streams of one GPU
    std::atomic<int> busy_when_freed = 0;    // GPUs: freeing memory waits for them for ever
    std::atomic<int> captures_refused = 0;   // so many, over all GPUs, are
    std::atomic<int> dropped_call = -1;  // of every replay, counting the calls that make numbers
    std::atomic<int> kept_calls = 0;     // such calls in the last capture
    std::atomic<int> calls_until_broken = -1;  // over all GPUs; then one throws
  };
  explicit FakeGpu(Log& log);
  /// Waits for the streams, and then stops them, whatever they wait for.
  ~FakeGpu() override;

  void load(const RankProgram& program) override { host_.load(program); }
  void reset(bool poison) override { host_.reset(poison); }
  void run(const Call& call, Stream stream) override;
  std::byte* data(BufferId buffer) override { return host_.data(buffer); }
  void read(Place from, std::span<std::byte> bytes) override { host_.read(from, bytes); }
  Findings findings() override { return host_.findings(); }

  std::string description() const override { return "a fake GPU"; }
  int sms() const override { return 7; }
  GpuStream stream(Stream stream) override { return reinterpret_cast<GpuStream>(&at(stream)); }
  static FakeStream& stream_of(GpuStream stream) { return *reinterpret_cast<FakeStream*>(stream); }
  void make_marks(std::size_t count) override;
  void mark(std::size_t mark, Stream stream) override;
  void wait(std::size_t mark, Stream stream) override;
  void start_clock() override;
  bool passed(std::size_t mark) override;
  Clock::time_point time_of(std::size_t mark) override { return marks_[mark].time; }
  bool idle() override;
  /// As idle(), but throws nothing.
  bool busy();
  /// Null once the GPU is gone.
  std::weak_ptr<FakeGpu*> self() const { return self_; }
  void begin_capture() override;
  void end_capture() override;
  void drop_capture() override;
  void replay() override;

 private:
  struct Mark {
    std::atomic<int> put = 0;     // in this run or capture
    std::atomic<int> passed = 0;  // in this run
    Clock::time_point time;
  };
  FakeStream& at(Stream stream) { return *streams_[static_cast<std::size_t>(stream)]; }
  void keep_in(std::vector<FakeStream::Kept>* kept);

  Log& log_;
  std::atomic<int> waiting_marks_ = 0;
  HostDevice host_;
  std::deque<Mark> marks_;
  std::atomic<int> run_ = 1;  // counts start_clock() and begin_capture()
  std::vector<FakeStream::Kept> graph_;
  std::shared_ptr<FakeGpu*> self_ = std::make_shared<FakeGpu*>(this);
  std::array<std::unique_ptr<FakeStream>, stream_count> streams_ = [] {
    std::array<std::unique_ptr<FakeStream>, stream_count> made;
    for (auto& stream : made) stream = std::make_unique<FakeStream>();
    return made;
  }();  // last: its threads use the others
};

}  // namespace moesim
