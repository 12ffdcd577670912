// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's runtime that we call, on one emulated GPU.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/realhw/emulated/runtime.h"
#include "tests/realhw/emulated/watch.h"

namespace {

using moesim::Clock;
using moesim::emulated::allocate;
using moesim::emulated::release;
using moesim::emulated::require_device;
using moesim::emulated::Runtime;

Runtime& runtime() { return Runtime::get(); }

cudaError_t failed(cudaError_t error) { return runtime().last_error = error; }

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

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "emulated");
  properties->major = 9;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated runtime"; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorStreamCaptureUnjoined ? "cudaErrorStreamCaptureUnjoined" : "cudaError";
}
cudaError_t cudaGetLastError() { return std::exchange(runtime().last_error, cudaSuccess); }

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = allocate(bytes);
  if (*memory != nullptr) std::memset(*memory, 0xa5, std::min<std::size_t>(bytes, 1 << 20));
  return *memory == nullptr ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  runtime().wait_for_all();
  return release(memory), cudaSuccess;
}

/// To the GPU it copies from a buffer of its own, and may return before; from there it waits.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const auto* first = static_cast<const std::byte*>(from);
  if (kind == cudaMemcpyHostToDevice) {
    if (!require_device(to, bytes, "cudaMemcpy")) return failed(cudaErrorInvalidValue);
    runtime().put(&runtime().legacy, [to, staged = std::vector(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
    return cudaSuccess;
  }
  runtime().wait_for(&runtime().legacy);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (!is_copied(to, from, bytes, kind)) return failed(cudaErrorInvalidValue);
  runtime().put(stream, [=] {
    if (is_copied(to, from, bytes, kind)) std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (!require_device(to, bytes, "cudaMemsetAsync")) return failed(cudaErrorInvalidValue);
  runtime().put(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  runtime().put(stream, [=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  runtime().locked([&] { runtime().streams.insert(*stream); });
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  runtime().wait_for(stream);
  runtime().locked([&] { runtime().streams.erase(stream); });
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return runtime().wait_for(stream), cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return runtime().locked([&] { return runtime().idle(stream); }) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (stream->graph != nullptr && event->graph != stream->graph) {
    return failed(cudaErrorStreamCaptureIsolation);
  }
  if (event->graph != nullptr) {
    stream->graph = event->graph;
    add(stream->after, event->nodes);
    return cudaSuccess;
  }
  const std::uint64_t of_now = runtime().locked([&] { return event->recorded; });
  runtime().put(stream, {}, [event, of_now] { return event->passed >= of_now; });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = new CUevent_st, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return failed(cudaErrorInvalidResourceHandle);
  runtime().wait_for(event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  const bool captured = stream->graph != nullptr;
  const auto pass = [event, captured] {
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
  return runtime().wait_for(event), cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return runtime().locked([&] { return event->passed == event->recorded; }) ? cudaSuccess
                                                                            : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return runtime().locked([&] {
    if (!start->has_time || !end->has_time) return failed(cudaErrorInvalidResourceHandle);
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->graph = new CUgraph_st;
  stream->graph->origin = stream;
  stream->after = {};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  CUgraph_st* captured = stream->graph;
  const bool joined = is_joined(*captured);
  for (CUstream_st* of : runtime().streams) {
    if (of->graph == captured) of->graph = nullptr, of->after = {};
  }
  *graph = joined ? captured : nullptr;
  if (!joined) delete captured;
  return joined ? cudaSuccess : failed(cudaErrorStreamCaptureUnjoined);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long) {
  return *exec = new CUgraphExec_st{*graph}, cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  runtime().wait_for_all();
  return delete exec, cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  return exec->uploaded = true, cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (!std::exchange(exec->uploaded, true)) ++runtime().cold_launches;
  runtime().put(stream, [exec] { runtime().run_graph(exec->graph); });
  return cudaSuccess;
}

}  // extern "C"
