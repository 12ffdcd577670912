// SPDX-License-Identifier: Apache-2.0
// What libFuzzer calls; TARGET is one of tests/fuzz/target.h.
#include <cstddef>
#include <cstdint>

#include "sim/base/error.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    moesim::fuzz::TARGET.read({reinterpret_cast<const char*>(data), size});
  } catch (const moesim::Error&) {
    // Bad input was refused.
  }
  return 0;
}
