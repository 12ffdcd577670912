// SPDX-License-Identifier: Apache-2.0
// Native traces, as a bundle of their files, and their arrays.
#include <algorithm>
#include <cstddef>

#include "sim/base/error.h"
#include "sim/trace/npy.h"
#include "sim/trace/routing_trace.h"
#include "sim/trace/verify.h"
#include "tests/fuzz/bundle.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

void read_trace(std::string_view bytes) {
  const std::string folder = scratch_bundle(unbundled(bytes));
  const auto mistakes = verify_trace(folder);
  const auto is_error = [](const Diagnostic& d) { return d.severity == Severity::error; };
  if (std::ranges::any_of(mistakes, is_error)) throw Error(mistakes);
  RoutingTrace::open(folder).hash();
}

void read_npy(std::string_view bytes) {
  const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
  const NpyArray array = NpyArray::parse({first, first + bytes.size()}, "a.npy");
  array.describe();
  double sum = 0;
  for (std::int64_t i = 0; i < array.count(); ++i) sum += array.real(i);
  require(array.count() >= 0 || sum > 0, "an array has fewer than no elements");
}

}  // namespace

const Target trace_target{"trace", read_trace};
const Target npy_target{"npy", read_npy};

}  // namespace moesim::fuzz
