// SPDX-License-Identifier: Apache-2.0
// Memory of emulated GPUs and what kernels do with it: each allocation has redzones, each byte
// remembers who used it last, and what a GPU would do wrong, or might, is kept as a fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace moesim::emulated {

enum class FaultKind {
  out_of_bounds,   // no allocation, or behind the end of one
  use_after_free,  // an allocation that was freed
  host_memory,     // an address of the host, dereferenced by a kernel
  misaligned,      // a vector access off its boundary
  race,            // two threads that no barrier orders, one of which writes
  uninitialized,   // shared memory that no thread of the block has written
  barrier,         // threads of a block, or lanes of a warp, that never come
  launch,          // a launch that a GPU refuses
};
const char* name_of(FaultKind kind);

struct Fault {
  FaultKind kind;
  std::string text;  // names the kernel, the thread and the address
};

/// Faults since the last call, over all kernels, copies and products.
std::vector<Fault> take_faults();
void add_fault(FaultKind kind, const std::string& text);

enum class Space { global, shared };
/// Memory with redzones around it, at a multiple of 256; null if there is no more.
void* allocate(std::size_t bytes, Space space = Space::global);
/// Frees it; its addresses are not used again soon.
void release(void* memory);
/// All addresses may be given out again. Returns how many allocations nobody has freed.
std::size_t forget_allocations();
/// The same for shared memory, whose arrays stay until then.
void forget_shared_memory();
/// Adds a fault unless all bytes are of one live allocation. For copies and products.
bool require_device(const void* at, std::size_t bytes, const char* who);

/// Who executes: set by the code that runs blocks. Segments are parts of a block between barriers,
/// numbered over all launches.
struct Executing {
  bool in_kernel = false;
  const char* kernel = "";
  std::uint32_t launch_begin = 0;  // the first segment of the launch
  std::uint32_t block_begin = 0;   // of the block
  std::uint32_t segment = 0;
  std::uint16_t thread = 0;
  std::uint8_t warp_turn = 0;  // counts __syncwarp of the thread's warp in the segment
  const std::byte* stack_begin = nullptr;
  const std::byte* stack_end = nullptr;
  const std::byte* call_begin = nullptr;  // the arguments
  const std::byte* call_end = nullptr;
  const std::byte* large_begin = nullptr;  // the allocation without cells that was used last
  const std::byte* large_end = nullptr;
};
/// Of the thread that runs kernels; host code of their sources runs on others.
extern constinit thread_local Executing executing;

/// Lets kernels use the stack of this thread.
void use_own_stack();
/// An access of a kernel. Leaves the kernel, as a GPU does, if there is no such memory.
void access(const void* at, std::size_t bytes, bool writes);
/// The same for one that no other thread can come between.
void access_atomic(const void* at, std::size_t bytes);
/// From here on nobody has written it: shared memory when a block begins.
void forget_writes(const void* at, std::size_t bytes);
/// Leaves the kernel: the launch ends here.
[[noreturn]] void leave_kernel();

}  // namespace moesim::emulated
