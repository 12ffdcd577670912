// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/emulated/watch.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/realhw/emulated/emulated.h"

extern "C" {
extern const char __executable_start;  // NOLINT: the linker's names
extern const char __data_start;
}

namespace moesim::emulated {

constinit thread_local Executing executing;

namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 40;
constexpr std::size_t unit = 256;
constexpr std::size_t redzone = 4 * unit;
/// Larger ones are checked for bounds only: their cells would fill the memory of the machine.
constexpr std::size_t most_watched = std::size_t{32} << 20;
constexpr std::size_t most_allocations = std::size_t{1} << 26;
constexpr std::uint16_t many = 0xffff;

struct Allocation {
  std::size_t begin = 0, bytes = 0;
  bool live = false, is_watched = false, is_shared = false;
};

/// The last uses of a byte. `many`: several threads of the segment.
struct Cell {
  std::uint32_t written = 0, read = 0;  // segments
  std::uint16_t writer = 0, reader = 0;
  std::uint8_t writer_turn = 0, reader_turn = 0;
  bool atomic = false;          // the last write
  bool read_elsewhere = false;  // by another block of the launch `read` is of
};

template <class T>
T* map(std::size_t count) {
  void* memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<T*>(memory);
}

struct Arena {
  std::byte* bytes = map<std::byte>(arena_bytes);
  Cell* cells = map<Cell>(arena_bytes);
  std::uint32_t* owner = map<std::uint32_t>(arena_bytes / unit);  // by unit; 0: nobody
  Allocation* allocations = map<Allocation>(most_allocations);
  std::uint32_t count = 1;    // of allocations; the first is nobody's
  std::size_t end = redzone;  // of what was given out
  std::mutex mutex;
  std::vector<Fault> faults;
};

Arena& arena() {
  static Arena& made = *new Arena;
  return made;
}

bool is_within(const void* at, const void* begin, const void* end) {
  return at >= begin && at < end;
}

std::string who() {
  const auto& e = executing;
  return fmt::format("{}: thread {} of block ({}, {})", e.kernel, e.thread, builtins.block.x,
                     builtins.block.y);
}

/// The allocation that holds all bytes; null, and what is wrong, if there is none.
const Allocation* find(std::size_t offset, std::size_t bytes, FaultKind& kind, std::string& text) {
  Arena& a = arena();
  const Allocation& found = a.allocations[a.owner[offset / unit]];
  const std::size_t in = offset - found.begin;
  kind = found.bytes > 0 && !found.live ? FaultKind::use_after_free : FaultKind::out_of_bounds;
  if (found.live && in + bytes <= found.bytes) return &found;
  text = found.bytes == 0 ? "outside of all allocations"
                          : fmt::format("at {} of the {} bytes of an allocation", in, found.bytes);
  return nullptr;
}

void race(const char* what, std::uint16_t other, bool in_block) {
  const std::string whom = other == many ? "others" : fmt::format("thread {}", other);
  add_fault(FaultKind::race,
            fmt::format("{} {} {}{}", who(), what, whom,
                        in_block ? ", with no barrier between them" : " of another block"));
}

/// Whether an earlier use, in this launch, has no barrier between it and this thread.
bool is_unordered(std::uint32_t segment, std::uint16_t thread, std::uint8_t turn) {
  const Executing& e = executing;
  if (segment < e.launch_begin) return false;
  if (segment < e.block_begin) return true;
  if (segment < e.segment || thread == e.thread) return false;
  const bool same_warp = thread != many && thread / 32 == e.thread / 32;
  return !same_warp || turn == e.warp_turn;
}

void note_read(Cell& cell) {
  const Executing& e = executing;
  if (is_unordered(cell.written, cell.writer, cell.writer_turn)) {
    race("reads what is written by", cell.writer, cell.written >= e.block_begin);
  }
  const bool in_launch = cell.read >= e.launch_begin;
  cell.read_elsewhere = in_launch && (cell.read_elsewhere || cell.read < e.block_begin);
  const bool others = cell.read == e.segment && cell.reader != e.thread;
  cell.reader = others ? many : e.thread;
  cell.read = e.segment;
  cell.reader_turn = e.warp_turn;
}

void note_write(Cell& cell, bool atomic) {
  const Executing& e = executing;
  if (!(atomic && cell.atomic) && is_unordered(cell.written, cell.writer, cell.writer_turn)) {
    race("writes what is written by", cell.writer, cell.written >= e.block_begin);
  } else if (cell.read >= e.launch_begin && cell.read_elsewhere) {
    race("writes what is read by", many, false);
  } else if (is_unordered(cell.read, cell.reader, cell.reader_turn)) {
    race("writes what is read by", cell.reader, cell.read >= e.block_begin);
  }
  cell.written = e.segment;
  cell.writer = e.thread;
  cell.writer_turn = e.warp_turn;
  cell.atomic = atomic;
}

struct Used {
  Cell* cells = nullptr;  // null: none are kept
  bool is_shared = false;
};

Used find_used(const void* at, std::size_t bytes, bool writes) {
  const Executing& e = executing;
  // Only of large memory: nothing of it is freed while a kernel runs.
  if (e.large_begin != nullptr && is_within(at, e.large_begin, e.large_end - bytes)) return {};
  if (is_within(at, &builtins, &builtins + 1) || is_within(at, e.stack_begin, e.stack_end) ||
      is_within(at, e.call_begin, e.call_end)) {
    return {};
  }
  Arena& a = arena();
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(at) - a.bytes);
  if (offset >= arena_bytes) {
    if (!writes && is_within(at, &__executable_start, &__data_start)) return {};  // constants
    add_fault(FaultKind::host_memory,
              fmt::format("{} {} {} bytes of the host", who(), writes ? "writes" : "reads", bytes));
    leave_kernel();
  }
  FaultKind kind{};
  std::string text;
  const Allocation* of = find(offset, bytes, kind, text);
  if (of == nullptr) {
    add_fault(kind,
              fmt::format("{} {} {} bytes {}", who(), writes ? "writes" : "reads", bytes, text));
    leave_kernel();
  }
  if (!of->is_watched) {
    executing.large_begin = a.bytes + of->begin;
    executing.large_end = executing.large_begin + of->bytes;
  }
  return {of->is_watched ? a.cells + offset : nullptr, of->is_shared};
}

}  // namespace

const char* name_of(FaultKind kind) {
  constexpr const char* names[] = {"out of bounds", "use after free", "host memory", "misaligned",
                                   "race",          "uninitialized",  "barrier",     "launch"};
  return names[static_cast<int>(kind)];
}

std::vector<Fault> take_faults() {
  const std::lock_guard lock(arena().mutex);
  return std::exchange(arena().faults, {});
}

/// One of a kind for a kernel: a race has thousands of witnesses.
void add_fault(FaultKind kind, const std::string& text) {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  const std::string kernel = text.substr(0, text.find(':'));
  for (const Fault& fault : a.faults) {
    if (fault.kind == kind && fault.text.starts_with(kernel + ":")) return;
  }
  a.faults.push_back({kind, text});
}

void* allocate(std::size_t bytes, Space space) {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  const std::size_t taken = (bytes + unit - 1) / unit * unit;
  if (a.end + taken + redzone > arena_bytes || a.count == most_allocations) return nullptr;
  const std::size_t begin = std::exchange(a.end, a.end + taken + redzone);
  a.allocations[a.count] = {begin, bytes, true, bytes <= most_watched, space == Space::shared};
  std::fill_n(a.owner + begin / unit, taken / unit + 1, a.count++);
  return a.bytes + begin;
}

void release(void* memory) {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - a.bytes);
  Allocation& of = a.allocations[a.owner[offset / unit]];
  if (of.begin != offset || !of.live) std::abort();
  of.live = false;
  // Pages that other allocations have parts of stay.
  const std::size_t first = (offset + 4095) / 4096 * 4096, last = (offset + of.bytes) / 4096 * 4096;
  if (first >= last) return;
  madvise(a.bytes + first, last - first, MADV_DONTNEED);
  if (of.is_watched) madvise(a.cells + first, (last - first) * sizeof(Cell), MADV_DONTNEED);
}

std::size_t forget_allocations() {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  std::size_t live = 0;
  for (std::uint32_t i = 1; i < a.count; ++i) live += a.allocations[i].live ? 1 : 0;
  madvise(a.bytes, a.end, MADV_DONTNEED);
  madvise(a.cells, a.end * sizeof(Cell), MADV_DONTNEED);
  madvise(a.owner, a.end / unit * sizeof *a.owner, MADV_DONTNEED);
  a.count = 1;
  a.end = (redzone + 4095) / 4096 * 4096;
  return live;
}

void use_own_stack() {
  pthread_attr_t attributes;
  void* stack = nullptr;
  std::size_t bytes = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack, &bytes);
  pthread_attr_destroy(&attributes);
  executing.stack_begin = static_cast<const std::byte*>(stack);
  executing.stack_end = executing.stack_begin + bytes;
}

bool require_device(const void* at, std::size_t bytes, const char* user) {
  Arena& a = arena();
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(at) - a.bytes);
  if (bytes == 0) return true;
  if (offset >= arena_bytes) {
    add_fault(FaultKind::host_memory, fmt::format("{}: {} bytes of the host", user, bytes));
    return false;
  }
  FaultKind kind{};
  std::string text;
  if (find(offset, bytes, kind, text) != nullptr) return true;
  add_fault(kind, fmt::format("{}: {} bytes {}", user, bytes, text));
  return false;
}

void access(const void* at, std::size_t bytes, bool writes) {
  if (!executing.in_kernel) return;
  const Used used = find_used(at, bytes, writes);
  if (used.cells == nullptr) return;
  bool is_written = true;
  for (std::size_t i = 0; i < bytes; ++i) {
    is_written = is_written && used.cells[i].written >= executing.block_begin;
    writes ? note_write(used.cells[i], false) : note_read(used.cells[i]);
  }
  if (writes || !used.is_shared || is_written) return;
  add_fault(FaultKind::uninitialized, who() + " reads shared memory that no thread has written");
}

void access_atomic(const void* at, std::size_t bytes) {
  if (!executing.in_kernel) return;
  const Used used = find_used(at, bytes, true);
  for (std::size_t i = 0; used.cells != nullptr && i < bytes; ++i) note_write(used.cells[i], true);
}

void forget_writes(const void* at, std::size_t bytes) {
  Arena& a = arena();
  std::fill_n(a.cells + (static_cast<const std::byte*>(at) - a.bytes), bytes, Cell{});
}

}  // namespace moesim::emulated
