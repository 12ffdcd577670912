// SPDX-License-Identifier: Apache-2.0
#include "sim/base/read_number.h"

#include <version>

#if !defined(__cpp_lib_to_chars)
#include "sim/base/read_number_by_c.h"
#endif

namespace moesim {

namespace {

template <class T>
std::from_chars_result read_as(const char* first, const char* last, T& value) {
#if defined(__cpp_lib_to_chars)
  return std::from_chars(first, last, value);
#else
  return read_number_by_c(first, last, value);
#endif
}

}  // namespace

std::from_chars_result read_number(const char* first, const char* last, double& value) {
  return read_as(first, last, value);
}

std::from_chars_result read_number(const char* first, const char* last, float& value) {
  return read_as(first, last, value);
}

}  // namespace moesim
