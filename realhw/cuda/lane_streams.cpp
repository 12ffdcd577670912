// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/lane_streams.h"

#include <stdexcept>

#include "realhw/cuda/check.h"

namespace moesim::cuda {
namespace {

cudaEvent_t make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags));
  return event;
}

}  // namespace

LaneStreams::LaneStreams() {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  for (int lane = 0; lane < lane_count; ++lane) {
    const auto l = static_cast<std::size_t>(lane);
    // Messages first: their few blocks must not wait for a kernel that fills the GPU.
    const bool kernels = Lane(lane) == Lane::compute || Lane(lane) == Lane::copy;
    check(cudaStreamCreateWithPriority(&streams_[l], cudaStreamNonBlocking,
                                       kernels ? least : greatest));
    forks_[l] = make_event(cudaEventDisableTiming);
  }
  for (cudaEvent_t& event : clock_events_) event = make_event(cudaEventDefault);
}

LaneStreams::~LaneStreams() {
  drop_capture();
  for (const Mark& mark : marks_) {
    cudaEventDestroy(mark.time);
    cudaEventDestroy(mark.fence);
  }
  for (const cudaEvent_t event : forks_) cudaEventDestroy(event);
  for (const cudaEvent_t event : clock_events_) cudaEventDestroy(event);
  for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

void LaneStreams::make_marks(std::size_t count) {
  while (marks_.size() < count) {
    marks_.push_back({make_event(cudaEventDefault), make_event(cudaEventDisableTiming)});
  }
}

void LaneStreams::mark(std::size_t mark, Lane lane) {
  const cudaStream_t stream = (*this)[lane];
  // Within a graph only an external event gets a time, and only the other kind makes edges.
  check(cudaEventRecordWithFlags(marks_[mark].time, stream,
                                 capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault));
  check(cudaEventRecord(marks_[mark].fence, stream));
}

void LaneStreams::wait(std::size_t mark, Lane lane) {
  check(cudaStreamWaitEvent((*this)[lane], marks_[mark].fence, 0));
}

void LaneStreams::start_clock() {
  synchronize();
  Clock::duration tightest = Clock::duration::max();
  for (const cudaEvent_t event : clock_events_) {
    const Clock::time_point before = Clock::now();
    check(cudaEventRecord(event, origin()));
    check(cudaEventSynchronize(event));
    const Clock::duration window = Clock::now() - before;
    if (window >= tightest) continue;
    tightest = window;
    clock_event_ = event;
    clock_time_ = before + window / 2;
  }
}

bool LaneStreams::passed(std::size_t mark) const {
  const cudaError_t state = cudaEventQuery(marks_[mark].time);
  if (state == cudaErrorNotReady) return false;
  check(state);
  // An event of a graph shows its last time until its turn comes again.
  float milliseconds = 0;
  const cudaError_t since = cudaEventElapsedTime(&milliseconds, clock_event_, marks_[mark].time);
  if (since == cudaErrorNotReady || since == cudaErrorInvalidResourceHandle) {
    cudaGetLastError();  // forgotten: it is no error
    return false;
  }
  check(since);
  return milliseconds >= 0;
}

Clock::time_point LaneStreams::time_of(std::size_t mark) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, clock_event_, marks_[mark].time));
  return clock_time_ + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double, std::milli>(milliseconds));
}

bool LaneStreams::idle() const {
  for (const cudaStream_t stream : streams_) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaErrorNotReady) return false;
    check(state);
  }
  return true;
}

void LaneStreams::synchronize() const {
  for (const cudaStream_t stream : streams_) check(cudaStreamSynchronize(stream));
}

void LaneStreams::begin_capture() {
  // Relaxed: communicators launch from threads of their own.
  check(cudaStreamBeginCapture(origin(), cudaStreamCaptureModeRelaxed));
  capturing_ = true;
  check(cudaEventRecord(forks_[0], origin()));
  for (const cudaStream_t stream : streams_) {
    if (stream != origin()) check(cudaStreamWaitEvent(stream, forks_[0], 0));
  }
}

void LaneStreams::end_capture() {
  for (std::size_t lane = 1; lane < streams_.size(); ++lane) {
    check(cudaEventRecord(forks_[lane], streams_[lane]));
    check(cudaStreamWaitEvent(origin(), forks_[lane], 0));
  }
  cudaGraph_t graph = nullptr;
  capturing_ = false;
  check(cudaStreamEndCapture(origin(), &graph));
  const cudaError_t made = cudaGraphInstantiateWithFlags(&graph_, graph, 0);
  cudaGraphDestroy(graph);
  check(made);
}

void LaneStreams::drop_capture() {
  if (capturing_) {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(origin(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    capturing_ = false;
  }
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  graph_ = nullptr;
  cudaGetLastError();
}

void LaneStreams::replay() {
  if (graph_ == nullptr) throw std::runtime_error("nothing was captured");
  check(cudaGraphLaunch(graph_, origin()));
}

}  // namespace moesim::cuda
