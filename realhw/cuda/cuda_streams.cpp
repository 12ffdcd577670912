// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/cuda_streams.h"

#include <stdexcept>
#include <utility>

#include "realhw/cuda/check.h"

namespace moesim::cuda {
CudaStreams::CudaStreams() {
  (*this)[Stream{}];  // the origin
  for (OwnedEvent& event : clock_events_) event = make_event(cudaEventDefault);
}

cudaStream_t CudaStreams::operator[](Stream stream) {
  const auto s = static_cast<std::size_t>(stream);
  if (streams_[s]) return streams_[s].get();
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  OwnedEvent fork = make_event(cudaEventDisableTiming);
  // Messages first: their few blocks must not wait for a kernel that fills the GPU.
  OwnedStream made = make_stream(runs_kernels(stream) ? least : greatest);
  if (capturing_) check(cudaStreamWaitEvent(made.get(), forks_[0].get(), 0));
  forks_[s] = std::move(fork);
  streams_[s] = std::move(made);
  return streams_[s].get();
}

CudaStreams::~CudaStreams() { drop_capture(); }

void CudaStreams::make_marks(std::size_t count) {
  while (marks_.size() < count) {
    marks_.push_back({make_event(cudaEventDefault), make_event(cudaEventDisableTiming)});
  }
}

void CudaStreams::mark(std::size_t mark, Stream stream) {
  const cudaStream_t cuda = (*this)[stream];
  // Within a graph only an external event gets a time, and only the other kind makes edges.
  check(cudaEventRecordWithFlags(marks_[mark].time.get(), cuda,
                                 capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault));
  check(cudaEventRecord(marks_[mark].fence.get(), cuda));
}

void CudaStreams::wait(std::size_t mark, Stream stream) {
  check(cudaStreamWaitEvent((*this)[stream], marks_[mark].fence.get(), 0));
}

void CudaStreams::start_clock() {
  synchronize();
  Clock::duration tightest = Clock::duration::max();
  for (const OwnedEvent& owned : clock_events_) {
    const cudaEvent_t event = owned.get();
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
  const cudaError_t state = cudaEventQuery(marks_[mark].time.get());
  if (state == cudaErrorNotReady) return false;
  check(state);
  // An event of a graph shows its last time until its turn comes again.
  float milliseconds = 0;
  const cudaError_t since =
      cudaEventElapsedTime(&milliseconds, clock_event_, marks_[mark].time.get());
  if (since == cudaErrorNotReady || since == cudaErrorInvalidResourceHandle) {
    cudaGetLastError();  // forgotten: it is not an error
    return false;
  }
  check(since);
  return milliseconds >= 0;
}

Clock::time_point CudaStreams::time_of(std::size_t mark) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, clock_event_, marks_[mark].time.get()));
  return clock_time_ + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double, std::milli>(milliseconds));
}

bool CudaStreams::idle() const {
  for (const OwnedStream& stream : streams_) {
    const cudaError_t state = stream ? cudaStreamQuery(stream.get()) : cudaSuccess;
    if (state == cudaErrorNotReady) return false;
    check(state);
  }
  return true;
}

void CudaStreams::synchronize() const {
  for (const OwnedStream& stream : streams_) {
    if (stream) check(cudaStreamSynchronize(stream.get()));
  }
}

void CudaStreams::begin_capture() {
  // Relaxed: communicators launch from threads of their own.
  check(cudaStreamBeginCapture(origin(), cudaStreamCaptureModeRelaxed));
  capturing_ = true;
  check(cudaEventRecord(forks_[0].get(), origin()));
  for (std::size_t s = 1; s < streams_.size(); ++s) {
    if (streams_[s]) check(cudaStreamWaitEvent(streams_[s].get(), forks_[0].get(), 0));
  }
}

void CudaStreams::end_capture() {
  for (std::size_t stream = 1; stream < streams_.size(); ++stream) {
    if (!streams_[stream]) continue;
    check(cudaEventRecord(forks_[stream].get(), streams_[stream].get()));
    check(cudaStreamWaitEvent(origin(), forks_[stream].get(), 0));
  }
  cudaGraph_t graph = nullptr;
  capturing_ = false;
  check(cudaStreamEndCapture(origin(), &graph));
  const cudaError_t made = cudaGraphInstantiateWithFlags(&graph_, graph, 0);
  cudaGraphDestroy(graph);
  check(made);
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
