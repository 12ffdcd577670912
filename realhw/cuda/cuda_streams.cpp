// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/cuda_streams.h"

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

CudaStreams::CudaStreams() {
  (*this)[Stream{}];  // the origin
  for (cudaEvent_t& event : clock_events_) event = make_event(cudaEventDefault);
}

cudaStream_t CudaStreams::operator[](Stream stream) {
  const auto s = static_cast<std::size_t>(stream);
  if (streams_[s] != nullptr) return streams_[s];
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  // Messages first: their few blocks must not wait for a kernel that fills the GPU.
  check(cudaStreamCreateWithPriority(&streams_[s], cudaStreamNonBlocking,
                                     runs_kernels(stream) ? least : greatest));
  forks_[s] = make_event(cudaEventDisableTiming);
  if (capturing_) check(cudaStreamWaitEvent(streams_[s], forks_[0], 0));
  return streams_[s];
}

CudaStreams::~CudaStreams() {
  drop_capture();
  for (const Mark& mark : marks_) {
    cudaEventDestroy(mark.time);
    cudaEventDestroy(mark.fence);
  }
  for (const cudaEvent_t event : clock_events_) cudaEventDestroy(event);
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    if (streams_[s] == nullptr) continue;
    cudaEventDestroy(forks_[s]);
    cudaStreamDestroy(streams_[s]);
  }
}

void CudaStreams::make_marks(std::size_t count) {
  while (marks_.size() < count) {
    marks_.push_back({make_event(cudaEventDefault), make_event(cudaEventDisableTiming)});
  }
}

void CudaStreams::mark(std::size_t mark, Stream stream) {
  const cudaStream_t cuda = (*this)[stream];
  // Within a graph only an external event gets a time, and only the other kind makes edges.
  check(cudaEventRecordWithFlags(marks_[mark].time, cuda,
                                 capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault));
  check(cudaEventRecord(marks_[mark].fence, cuda));
}

void CudaStreams::wait(std::size_t mark, Stream stream) {
  check(cudaStreamWaitEvent((*this)[stream], marks_[mark].fence, 0));
}

void CudaStreams::start_clock() {
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

bool CudaStreams::passed(std::size_t mark) const {
  const cudaError_t state = cudaEventQuery(marks_[mark].time);
  if (state == cudaErrorNotReady) return false;
  check(state);
  // An event of a graph shows its last time until its turn comes again.
  float milliseconds = 0;
  const cudaError_t since = cudaEventElapsedTime(&milliseconds, clock_event_, marks_[mark].time);
  if (since == cudaErrorNotReady || since == cudaErrorInvalidResourceHandle) {
    cudaGetLastError();  // forgotten: it is not an error
    return false;
  }
  check(since);
  return milliseconds >= 0;
}

Clock::time_point CudaStreams::time_of(std::size_t mark) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, clock_event_, marks_[mark].time));
  return clock_time_ + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double, std::milli>(milliseconds));
}

bool CudaStreams::idle() const {
  for (const cudaStream_t stream : streams_) {
    const cudaError_t state = stream == nullptr ? cudaSuccess : cudaStreamQuery(stream);
    if (state == cudaErrorNotReady) return false;
    check(state);
  }
  return true;
}

void CudaStreams::synchronize() const {
  for (const cudaStream_t stream : streams_) {
    if (stream != nullptr) check(cudaStreamSynchronize(stream));
  }
}

void CudaStreams::begin_capture() {
  // Relaxed: communicators launch from threads of their own.
  check(cudaStreamBeginCapture(origin(), cudaStreamCaptureModeRelaxed));
  capturing_ = true;
  check(cudaEventRecord(forks_[0], origin()));
  for (std::size_t s = 1; s < streams_.size(); ++s) {
    if (streams_[s] != nullptr) check(cudaStreamWaitEvent(streams_[s], forks_[0], 0));
  }
}

void CudaStreams::end_capture() {
  for (std::size_t stream = 1; stream < streams_.size(); ++stream) {
    if (streams_[stream] == nullptr) continue;
    check(cudaEventRecord(forks_[stream], streams_[stream]));
    check(cudaStreamWaitEvent(origin(), forks_[stream], 0));
  }
  cudaGraph_t graph = nullptr;
  capturing_ = false;
  check(cudaStreamEndCapture(origin(), &graph));
  const cudaError_t made = cudaGraphInstantiateWithFlags(&graph_, graph, 0);
  cudaGraphDestroy(graph);
  check(made);
  check(cudaGraphUpload(graph_, origin()));  // or the first replay, which may be timed, does it
  check(cudaStreamSynchronize(origin()));
}

void CudaStreams::drop_capture() {
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

void CudaStreams::replay() {
  if (graph_ == nullptr) throw std::runtime_error("nothing was captured");
  check(cudaGraphLaunch(graph_, origin()));
}

}  // namespace moesim::cuda
