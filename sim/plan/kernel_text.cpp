// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/kernel_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace moesim {
namespace {

constexpr std::int64_t most_size = std::numeric_limits<std::int64_t>::max();

/// Group sizes with repeats as count*value: `4,3*8,0`.
std::string sizes_text(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (auto at = sizes.begin(); at != sizes.end();) {
    const auto end = std::find_if(at, sizes.end(), [at](std::int64_t m) { return m != *at; });
    if (!text.empty()) text += ',';
    text += end - at > 1 ? fmt::format("{}*{}", end - at, *at) : std::to_string(*at);
    at = end;
  }
  return text.empty() ? "-" : text;
}

/// One size for all members, or one per member.
template <class Work, class Size>
std::string each_size(const Kernels& kernels, Size size) {
  std::vector<std::int64_t> sizes;
  for (const Kernel& kernel : kernels.each()) sizes.push_back(size(std::get<Work>(kernel)));
  return sizes_text(sizes);
}

/// A number for all members, or one for each.
std::vector<std::int64_t> read_sizes(LineReader& reader, std::string_view what,
                                     std::size_t members) {
  LineReader at = reader;
  const auto sizes = reader.sizes(what);
  if (sizes.size() != 1 && sizes.size() != members) {
    reader.fail(at.word(what), fmt::format("{} numbers for {} GPUs", sizes.size(), members),
                "one for all of them, or one for each");
  }
  return sizes;
}

}  // namespace

std::string to_text(const Kernels& kernels) {
  const Kernel& first = kernels.each().front();
  if (std::holds_alternative<MemoryBound>(first)) {
    return fmt::format(
        "memory read {} written {}",
        each_size<MemoryBound>(kernels, [](const MemoryBound& k) { return k.read.value; }),
        each_size<MemoryBound>(kernels, [](const MemoryBound& k) { return k.written.value; }));
  }
  if (std::holds_alternative<HostWork>(first)) {
    return fmt::format("host {} ns", each_size<HostWork>(
                                         kernels, [](const HostWork& k) { return k.nanoseconds; }));
  }
  const auto& gemm = std::get<GroupedGemm>(first);
  std::string m;
  for (const Kernel& kernel : kernels.each()) {
    m += (m.empty() ? "" : ";") + sizes_text(std::get<GroupedGemm>(kernel).m);
  }
  return fmt::format("gemm {} m {} n {} k {}", name_of(gemm.type), m, gemm.n, gemm.k);
}

Kernels read_kernels(LineReader& reader, std::size_t members) {
  std::vector<Kernel> each;
  const auto kind = reader.choice("a kernel", {"gemm", "memory", "host"});
  if (kind == 0) {
    static const std::vector<std::string> types = {name_of(DataType::fp8), name_of(DataType::bf16),
                                                   name_of(DataType::fp16),
                                                   name_of(DataType::fp32)};
    GroupedGemm gemm;
    gemm.type = static_cast<DataType>(reader.choice("a data type", types));
    reader.expect("m");
    const auto lists = reader.size_lists("the rows of a group");
    reader.expect("n");
    gemm.n = reader.integer("n", 1, most_size);
    reader.expect("k");
    gemm.k = reader.integer("k", 1, most_size);
    for (const auto& m : lists) {
      gemm.m = m;
      each.emplace_back(gemm);
    }
  } else if (kind == 2) {
    for (const auto ns : read_sizes(reader, "nanoseconds", members)) each.push_back(HostWork{ns});
    reader.expect("ns");
  } else {
    reader.expect("read");
    const auto read = read_sizes(reader, "bytes read", members);
    reader.expect("written");
    const auto written = read_sizes(reader, "bytes written", members);
    for (std::size_t i = 0; i < std::max(read.size(), written.size()); ++i) {
      each.push_back(MemoryBound{Bytes(read.size() == 1 ? read[0] : read[i]),
                                 Bytes(written.size() == 1 ? written[0] : written[i])});
    }
  }
  return Kernels(std::move(each));
}

}  // namespace moesim
