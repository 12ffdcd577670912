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

/// The matrix of `ranks` members with the given {from, to, units}, ascending.
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

/// An op with this label; what it is follows from it if it names a type.
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
  op.group = {GpuId(gpu)};
  op.work = Kernels(std::move(work));
  return op;
}

/// One kernel on several GPUs.
inline Op kernels(std::string name, std::initializer_list<int> gpus,
                  std::initializer_list<int> after = {}, Kernels work = {}) {
  Op op = named(std::move(name));
  op.group = ids<GpuId>(gpus);
  op.after = ids<OpId>(after);
  op.work = std::move(work);
  return op;
}

/// The GEMM of a kernel op on one of its members.
inline const GroupedGemm& gemm_on(const Op& op, std::size_t member = 0) {
  return std::get<GroupedGemm>(op.kernels()->of(member));
}
/// Gives it other rows per group.
inline void set_rows(Op& op, std::vector<std::int64_t> m, std::size_t member = 0) {
  std::vector<Kernel> each;
  for (std::size_t i = 0; i < op.group.size(); ++i) each.push_back(op.kernels()->of(i));
  std::get<GroupedGemm>(each[member]).m = std::move(m);
  op.work = Kernels(std::move(each));
}

inline Op exchange(std::string name, std::initializer_list<int> gpus, ByteMatrix traffic,
                   std::initializer_list<int> after = {}) {
  Op op = named(std::move(name));
  op.stream = Stream::ep;
  op.after = ids<OpId>(after);
  op.group = ids<GpuId>(gpus);
  op.work = Exchange{std::move(traffic), {}};
  return op;
}

}  // namespace moesim::test
