// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's runtime that we call, on emulated GPUs: one, or one for each rank that
// takes turns.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/realhw/emulated/calls.h"
#include "tests/realhw/emulated/runtime.h"
#include "tests/realhw/emulated/watch.h"

namespace {

using moesim::Clock;
using moesim::emulated::allocate;
using moesim::emulated::Calls;
using moesim::emulated::enter;
using moesim::emulated::is_skipped;
using moesim::emulated::release;
using moesim::emulated::require_device;
using moesim::emulated::Runtime;
using moesim::emulated::Turns;

Runtime& runtime() { return Runtime::get(); }

cudaError_t failed(cudaError_t error) { return runtime().last_error() = error; }

/// What makes a call that waits return if what it waits for never comes.
cudaError_t waited(bool came) { return came ? cudaSuccess : failed(cudaErrorUnknown); }

/// Streams belong to the GPU that was selected when they were made.
bool is_here(cudaStream_t stream) {
  return stream == nullptr || stream->device == runtime().device();
}

/// Whether all nodes of a graph come before what the origin has reached.
bool is_joined(const CUgraph_st& graph) {
  std::vector<bool> reached(graph.nodes.size());
  for (const std::size_t node : graph.origin->after) reached[node] = true;
  for (std::size_t node = graph.nodes.size(); node-- > 0;) {
    if (!reached[node]) return false;
    for (const std::size_t before : graph.nodes[node].after) reached[before] = true;
  }
  return true;
}

void add(std::vector<std::size_t>& after, const std::vector<std::size_t>& more) {
  for (const std::size_t node : more) {
    if (std::ranges::find(after, node) == after.end()) after.push_back(node);
  }
}

/// Checked when it is called, and again when it runs.
bool is_copied(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const bool from_device =
      kind == cudaMemcpyHostToDevice || require_device(from, bytes, "a copy reads");
  return from_device &&
         (kind == cudaMemcpyDeviceToHost || require_device(to, bytes, "a copy writes"));
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (const auto e = enter(cudaErrorInsufficientDriver); e != cudaSuccess) return e;
  return *count = Turns::current() == nullptr ? 1 : Turns::current()->hosts(), cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  if (const auto e = enter(cudaErrorDevicesUnavailable); e != cudaSuccess) return e;
  const int devices = Turns::current() == nullptr ? 1 : Turns::current()->hosts();
  if (device < 0 || device >= devices) return failed(cudaErrorInvalidDevice);
  return runtime().device() = device, cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  if (const auto e = enter(cudaErrorInvalidDevice); e != cudaSuccess) return e;
  *properties = {};
  std::strcpy(properties->name, "emulated");
  properties->major = 9;
  properties->multiProcessorCount = 11;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorLaunchOutOfResources:
      return "too many resources requested for launch";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    default:
      return "an error of the emulated runtime";
  }
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorStreamCaptureUnjoined ? "cudaErrorStreamCaptureUnjoined" : "cudaError";
}
cudaError_t cudaGetLastError() {
  const cudaError_t last = std::exchange(runtime().last_error(), cudaSuccess);
  const cudaError_t state = Calls::get().state();
  return state == cudaSuccess ? last : state;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const auto e = enter(cudaErrorMemoryAllocation); e != cudaSuccess) return e;
  *memory = allocate(bytes);
  if (*memory != nullptr) std::memset(*memory, 0xa5, std::min<std::size_t>(bytes, 1 << 20));
  return *memory == nullptr ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const cudaError_t entered = enter(cudaErrorUnknown);
  const bool idle = runtime().wait_for_device();
  release(memory);
  return entered == cudaSuccess ? waited(idle) : entered;
}

/// To the GPU it copies from a buffer of its own, and may return before; from there it waits.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess) return e;
  const auto* first = static_cast<const std::byte*>(from);
  if (kind == cudaMemcpyHostToDevice) {
    if (!require_device(to, bytes, "cudaMemcpy")) return failed(cudaErrorInvalidValue);
    runtime().put(nullptr, [to, staged = std::vector(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
    return cudaSuccess;
  }
  if (!runtime().wait_for(static_cast<CUstream_st*>(nullptr))) return failed(cudaErrorUnknown);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess || is_skipped()) return e;
  if (!is_here(stream) || !is_copied(to, from, bytes, kind)) return failed(cudaErrorInvalidValue);
  runtime().put(stream, [=] {
    if (is_copied(to, from, bytes, kind)) std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess || is_skipped()) return e;
  if (!is_here(stream) || !require_device(to, bytes, "cudaMemsetAsync")) {
    return failed(cudaErrorInvalidValue);
  }
  runtime().put(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess || is_skipped()) return e;
  if (!is_here(stream)) return failed(cudaErrorInvalidResourceHandle);
  runtime().put(stream, [=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess) return e;
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const auto e = enter(cudaErrorMemoryAllocation, "cudaStreamCreate"); e != cudaSuccess)
    return e;
  *stream = new CUstream_st;
  (*stream)->device = runtime().device();
  return runtime().add(*stream), cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
/// What is on it still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t entered = enter(cudaErrorUnknown);
  return runtime().destroy(stream), entered;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess || is_skipped()) return e;
  const bool idle = runtime().wait_for(stream);
  return Calls::get().state() == cudaSuccess ? waited(idle) : failed(Calls::get().state());
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess) return e;
  return runtime().locked([&] { return runtime().idle(stream); }) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess || is_skipped()) return e;
  if (!is_here(stream)) return failed(cudaErrorInvalidResourceHandle);
  if (stream->graph != nullptr && event->graph != stream->graph) {
    return failed(cudaErrorStreamCaptureIsolation);
  }
  if (event->graph != nullptr) {
    stream->graph = event->graph;
    add(stream->after, event->nodes);
    return cudaSuccess;
  }
  const std::uint64_t of_now = runtime().locked([&] { return event->recorded; });
  runtime().put(stream, {},
                [kept = event->shared_from_this(), of_now] { return kept->passed >= of_now; });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const auto e = enter(cudaErrorMemoryAllocation, "cudaEventCreate"); e != cudaSuccess)
    return e;
  return *event = runtime().make_event(), cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return failed(cudaErrorInvalidResourceHandle);
  const cudaError_t entered = enter(cudaErrorUnknown);
  return runtime().destroy(event), entered;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (const auto e = enter(cudaErrorUnknown, "cudaEventRecord"); e != cudaSuccess || is_skipped()) {
    return e;
  }
  if (!is_here(stream)) return failed(cudaErrorInvalidResourceHandle);
  const bool captured = stream->graph != nullptr;
  const auto pass = [event = event->shared_from_this(), captured] {
    runtime().locked([&] {
      event->time = Clock::now();
      event->has_time = true;
      if (!captured) ++event->passed;
    });
  };
  if (captured && flags == cudaEventRecordDefault) {  // no more than an edge
    event->graph = stream->graph;
    event->nodes = stream->after;
    return cudaSuccess;
  }
  if (!captured) {
    runtime().locked([&] { ++event->recorded; });
    event->graph = nullptr;
  }
  runtime().put(stream, pass);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess || is_skipped()) return e;
  return waited(runtime().wait_for(event));
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess) return e;
  return runtime().locked([&] { return event->passed == event->recorded; }) ? cudaSuccess
                                                                            : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (const auto e = enter(cudaErrorUnknown); e != cudaSuccess) return e;
  return runtime().locked([&] {
    if (!start->has_time || !end->has_time) return failed(cudaErrorInvalidResourceHandle);
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const auto e = enter(cudaErrorStreamCaptureUnsupported); e != cudaSuccess) return e;
  stream->graph = new CUgraph_st;
  stream->graph->origin = stream;
  stream->after = {};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const auto entered = enter(cudaErrorStreamCaptureInvalidated);
  CUgraph_st* captured = stream->graph;
  *graph = nullptr;
  if (captured == nullptr) return failed(cudaErrorIllegalState);
  const bool joined = entered == cudaSuccess && is_joined(*captured);
  for (CUstream_st* of : runtime().captured_into(captured)) of->graph = nullptr, of->after = {};
  if (joined) return *graph = captured, cudaSuccess;
  delete captured;
  return entered == cudaSuccess ? failed(cudaErrorStreamCaptureUnjoined) : entered;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long) {
  if (const auto e = enter(cudaErrorMemoryAllocation); e != cudaSuccess) return e;
  return *exec = new CUgraphExec_st{*graph}, cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
/// What it has on its way still runs.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const cudaError_t entered = enter(cudaErrorUnknown);
  return delete exec, entered;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const auto e = enter(cudaErrorLaunchFailure); e != cudaSuccess || is_skipped()) return e;
  if (!is_here(stream)) return failed(cudaErrorInvalidResourceHandle);
  runtime().put_graph(stream, exec->graph);
  return cudaSuccess;
}

}  // extern "C"
