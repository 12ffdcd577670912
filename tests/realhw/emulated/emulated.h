// SPDX-License-Identifier: Apache-2.0
// What CUDA sources need of a compiler for CPUs. Threads of a kernel without barriers are calls;
// those of the others are contexts. Blocks, warps and lanes take turns in an order that a seed
// decides.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <tuple>

#include "tests/realhw/emulated/watch.h"

#undef __shared__  // translate.py makes calls of them
#define __launch_bounds__(...)

namespace moesim::emulated {

struct Builtins {
  dim3 thread, block, block_size, grid_size;
};
inline Builtins builtins;

/// A kernel and its arguments.
struct Launch {
  const char* kernel = "";
  bool has_barriers = false;
  dim3 grid, block;
  std::size_t shared = 0;  // bytes of dynamic shared memory
};

/// Runs every thread of every block; `call` is called once for each with its arguments, which are
/// `bytes` large.
void run_blocks(const Launch& launch, void (*call)(const void*), const void* arguments,
                std::size_t bytes);
/// Puts work on a stream.
void put(cudaStream_t stream, std::function<void()> work);
/// Whether a GPU takes it; if not, cudaGetLastError says so.
bool may_launch(const Launch& launch);

/// An order of blocks and threads for every number; 0: ascending.
void set_block_seed(std::uint64_t seed);
/// Of so many launches one is watched, the first of them; 1: all. The others take a tenth of the
/// time.
void watch_every(int launches);
/// Launches so far, by kernel: "row_sums grid 5x1 block 128".
std::vector<std::string> take_launches();

/// Shared memory of the block, by its name; dynamic memory has none.
void* shared_memory(const char* name, std::size_t bytes);
template <class T>
T& shared(const char* name) {
  return *static_cast<T*>(shared_memory(name, sizeof(T)));
}
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(shared_memory("", 0));
}

void barrier();
/// What each lane of the mask has given, by lane.
std::array<std::uint32_t, 32> of_warp(unsigned mask, std::uint32_t mine);
/// Orders what the lanes of the mask did before it.
void warp_barrier(unsigned mask);

template <class... Parameters>
struct KernelCall {
  void (*kernel)(Parameters...);
  std::tuple<Parameters...> given;
  static void run(const void* call) {
    const auto* self = static_cast<const KernelCall*>(call);
    std::apply(self->kernel, self->given);
  }
};

template <class... Parameters, class... Arguments>
void launch(const char* name, bool has_barriers, dim3 grid, dim3 block, std::size_t shared,
            cudaStream_t stream, void (*kernel)(Parameters...), Arguments... arguments) {
  const Launch launch{name, has_barriers, grid, block, shared};
  if (!may_launch(launch)) return;
  put(stream, [launch, call = KernelCall<Parameters...>{kernel, {arguments...}}] {
    run_blocks(launch, &KernelCall<Parameters...>::run, &call, sizeof call);
  });
}

}  // namespace moesim::emulated

#define threadIdx (moesim::emulated::builtins.thread)
#define blockIdx (moesim::emulated::builtins.block)
#define blockDim (moesim::emulated::builtins.block_size)
#define gridDim (moesim::emulated::builtins.grid_size)

#include "tests/realhw/emulated/intrinsics.h"
