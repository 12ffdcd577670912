// SPDX-License-Identifier: Apache-2.0
// What the compiler calls for every access of a kernel (-fsanitize=thread, -fsanitize=alignment):
// the sanitizers' libraries are not linked, this is in their place.
#include <fmt/format.h>

#include "tests/realhw/emulated/emulated.h"

using moesim::emulated::access;

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_read_range(void* at, unsigned long bytes) { access(at, bytes, false); }
void __tsan_write_range(void* at, unsigned long bytes) { access(at, bytes, true); }

#define MOESIM_ACCESSES(bytes)                                                       \
  void __tsan_read##bytes(void* at) { access(at, bytes, false); }                    \
  void __tsan_write##bytes(void* at) { access(at, bytes, true); }                    \
  void __tsan_unaligned_read##bytes(void* at) { access(at, bytes, false); }          \
  void __tsan_unaligned_write##bytes(void* at) { access(at, bytes, true); }          \
  void __tsan_volatile_read##bytes(void* at) { access(at, bytes, false); }           \
  void __tsan_volatile_write##bytes(void* at) { access(at, bytes, true); }           \
  void __tsan_unaligned_volatile_read##bytes(void* at) { access(at, bytes, false); } \
  void __tsan_unaligned_volatile_write##bytes(void* at) { access(at, bytes, true); }
MOESIM_ACCESSES(1)
MOESIM_ACCESSES(2)
MOESIM_ACCESSES(4)
MOESIM_ACCESSES(8)
MOESIM_ACCESSES(16)
#undef MOESIM_ACCESSES

/// Reference counts of host code in the same sources.
int __tsan_atomic32_fetch_add(volatile int* at, int value, int) {
  return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
int __tsan_atomic32_fetch_sub(volatile int* at, int value, int) {
  return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST);
}

/// GCC's description of an access whose address is not what its type needs.
struct TypeMismatch {
  const char* file;
  unsigned line, column;
  const void* type;
  unsigned char log_alignment, access_kind;
};
void __ubsan_handle_type_mismatch_v1(const TypeMismatch* what, unsigned long at) {
  using namespace moesim::emulated;
  if (!executing.in_kernel) return;
  add_fault(FaultKind::misaligned,
            fmt::format("{}: {}:{} needs an address at a multiple of {}, not {:#x}",
                        executing.kernel, what->file, what->line, 1 << what->log_alignment, at));
  leave_kernel();
}

}  // extern "C"
