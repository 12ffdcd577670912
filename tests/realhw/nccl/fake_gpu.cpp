// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/nccl/fake_gpu.h"

#include <algorithm>
#include <stdexcept>

namespace moesim {

FakeStream::~FakeStream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    tasks_.clear();
  }
  wake_.notify_one();
  thread_.join();
}

void FakeStream::push(Task task) {
  if (kept_ != nullptr) {
    kept_->push_back({this, std::move(task)});
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

bool FakeStream::idle() {
  const std::lock_guard lock(mutex_);
  return !running_ && tasks_.empty();
}

void FakeStream::rethrow() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

void FakeStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (stop_) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    running_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      task(stop_);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    running_ = false;
    if (error && !error_) error_ = error;
  }
}

namespace {

/// Whether results show that the call was left out.
bool makes_numbers(const Call& call) {
  if (const auto* sums = std::get_if<RowSums>(&call)) return !sums->to.empty();
  if (const auto* product = std::get_if<GroupedProduct>(&call)) return !product->groups.empty();
  const auto* activation = std::get_if<Activation>(&call);
  return activation != nullptr && !activation->ranges.empty();
}

}  // namespace

FakeGpu::FakeGpu(Log& log) : log_(log) {
  for (auto& stream : streams_) stream->gpu = this;
}

bool FakeGpu::busy() {
  return std::any_of(streams_.begin(), streams_.end(), [](auto& s) { return !s->idle(); });
}

FakeGpu::~FakeGpu() {
  const Clock::time_point patience = Clock::now() + std::chrono::seconds(5);
  while (busy() && Clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  log_.busy_when_freed += busy() ? 1 : 0;
  for (auto& stream : streams_) stream.reset();
}

void FakeGpu::run(const Call& call, Stream stream) {
  if (only_verifies(call)) ++log_.checks;
  at(stream).push([this, &call, stream](const auto&) {
    if (log_.calls_until_broken-- == 0) throw std::runtime_error("an illegal memory access");
    host_.run(call, stream);
  });
  if (at(stream).is_captured()) graph_.back().makes_numbers = makes_numbers(call);
}

void FakeGpu::make_marks(std::size_t count) {
  while (marks_.size() < count) marks_.emplace_back();
}

void FakeGpu::mark(std::size_t mark, Stream stream) {
  Mark& m = marks_[mark];
  m.put = run_.load();
  log_.most_waiting = std::max(log_.most_waiting.load(), ++waiting_marks_);
  at(stream).push([this, &m](const auto&) {
    --waiting_marks_;
    m.time = Clock::now();
    m.passed = run_.load();
  });
}

void FakeGpu::wait(std::size_t mark, Stream stream) {
  Mark& m = marks_[mark];
  ++log_.waits;
  if (m.put != run_) ++log_.waits_for_nothing;
  at(stream).push([this, &m](const std::atomic<bool>& stop) {
    while (m.passed != run_ && !stop) std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
}

void FakeGpu::start_clock() {
  if (!idle()) throw std::logic_error("the clock starts while streams are busy");
  ++run_;
}

bool FakeGpu::passed(std::size_t mark) {
  for (auto& stream : streams_) stream->rethrow();
  return marks_[mark].passed == run_;
}

bool FakeGpu::idle() {
  bool idle = true;
  for (auto& stream : streams_) {
    stream->rethrow();
    idle = stream->idle() && idle;
  }
  return idle;
}

void FakeGpu::keep_in(std::vector<FakeStream::Kept>* kept) {
  for (auto& stream : streams_) stream->keep_in(kept);
}

void FakeGpu::begin_capture() {
  ++run_;
  keep_in(&graph_);
}

void FakeGpu::end_capture() {
  keep_in(nullptr);
  if (log_.captures_refused-- > 0) throw std::runtime_error("no graphs today");
  ++log_.captures;
  log_.kept_calls = static_cast<int>(
      std::ranges::count_if(graph_, [](const auto& kept) { return kept.makes_numbers; }));
}

void FakeGpu::drop_capture() {
  keep_in(nullptr);
  graph_.clear();
}

void FakeGpu::replay() {
  ++log_.replays;
  int calls = 0;
  for (const auto& [stream, task, makes_numbers] : graph_) {
    if (!makes_numbers || calls++ != log_.dropped_call) stream->push(task);
  }
}

}  // namespace moesim
