// SPDX-License-Identifier: Apache-2.0
// Short ways to write ops, and the text of the Error that a call throws.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/plan/plan.h"

namespace moesim::test {

template <class T>
std::vector<T> ids(std::initializer_list<int> values) {
  std::vector<T> list;
  for (const int value : values) list.push_back(T(value));
  return list;
}

/// The matrix of a plan of `ranks` GPUs with the given {from, to, units}, ascending.
inline ByteMatrix matrix(int ranks, int unit, std::vector<std::array<std::uint32_t, 3>> entries) {
  ByteMatrix result{Bytes(unit)};
  for (std::uint32_t from = 0; from < static_cast<std::uint32_t>(ranks); ++from) {
    std::vector<ByteMatrix::Entry> row;
    for (const auto& [source, to, units] : entries) {
      if (source == from) row.push_back({GpuId(to), units});
    }
    result.add_row(row);
  }
  return result;
}

/// An op with this label; what it is follows from it where it names a type.
inline Op named(std::string label) {
  Op op;
  if (const auto type = find_op_type(label)) {
    op.key.kind = type->kind;
    op.key.role = type->role;
    op.key.pass = type->pass;
  }
  op.label = std::move(label);
  return op;
}

inline Op kernel(std::string name, int gpu, std::initializer_list<int> after = {},
                 Kernel work = MemoryBound{}) {
  Op op = named(std::move(name));
  op.after = ids<OpId>(after);
  op.work = Compute{GpuId(gpu), std::move(work)};
  return op;
}

inline Op exchange(std::string name, std::initializer_list<int> gpus, ByteMatrix traffic,
                   std::initializer_list<int> after = {}) {
  Op op = named(std::move(name));
  op.lane = Lane::token;
  op.after = ids<OpId>(after);
  op.work = Exchange{ids<GpuId>(gpus), std::move(traffic), {}};
  return op;
}

/// What the Error of `call` says, "" when it throws none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace moesim::test
