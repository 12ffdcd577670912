// SPDX-License-Identifier: Apache-2.0
// The archive of g++ 12's library refers to arc4random, which came with glibc 2.36; a binary that
// travels meets older ones.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value) std::abort();
  return value;
}
