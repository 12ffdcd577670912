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

std::string attention_text(const Kernels& kernels, const AttentionHeads& shape) {
  const bool cached = std::ranges::any_of(
      kernels.each(), [](const Kernel& k) { return std::get<FusedAttention>(k).keys != 0; });
  std::string text = fmt::format(
      "attention {} {} queries {} attended {} heads {} kv-heads {} qk {} v {}", name_of(shape.type),
      name_of(shape.pass),
      each_size<FusedAttention>(kernels, [](const FusedAttention& k) { return k.queries; }),
      each_size<FusedAttention>(kernels, [](const FusedAttention& k) { return k.attended; }),
      shape.heads, shape.kv_heads, shape.qk_width, shape.v_width);
  if (cached) {
    text += " keys " +
            each_size<FusedAttention>(kernels, [](const FusedAttention& k) { return k.keys; });
  }
  return text + (shape.latent ? " latent" : "");
}

DataType read_type(LineReader& reader) {
  return static_cast<DataType>(reader.choice("a data type", data_type_names()));
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

/// Two such numbers of each member, as kernels.
template <class Make>
std::vector<Kernel> pairs(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b,
                          Make make) {
  std::vector<Kernel> each;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    each.emplace_back(make(a.size() == 1 ? a[0] : a[i], b.size() == 1 ? b[0] : b[i]));
  }
  return each;
}

/// What follows the shape of a GEMM that is a wave.
std::string wave_text(const Kernels& kernels, const Wave& shape) {
  const auto wave_of = [](const Kernel& k) -> const Wave& {
    return *std::get<GroupedGemm>(k).wave;
  };
  std::string rows;
  std::vector<std::int64_t> tiles, of;
  for (const Kernel& kernel : kernels.each()) {
    rows += (rows.empty() ? "" : ";") + sizes_text(wave_of(kernel).rows);
    tiles.push_back(wave_of(kernel).tiles);
    of.push_back(wave_of(kernel).of);
  }
  return fmt::format(" wave {} of {} tile {}{} weights {} rows {}{}", sizes_text(tiles),
                     sizes_text(of), shape.tile,
                     shape.fill == shape.tile ? "" : fmt::format(" fill {}", shape.fill),
                     name_of(shape.weights), rows, shape.starts ? " starts" : "");
}

void read_wave(LineReader& reader, std::vector<Kernel>& each) {
  const auto number_of_each = [&](std::string_view what) {
    LineReader at = reader;
    const auto sizes = reader.sizes(what);
    if (sizes.size() != each.size()) {
      reader.fail(at.word(what),
                  fmt::format("{} numbers for {} lists of rows", sizes.size(), each.size()),
                  "as many as lists behind m");
    }
    return sizes;
  };
  const auto tiles = number_of_each("tiles of the wave");
  reader.expect("of");
  const auto of = number_of_each("tiles of the kernel");
  Wave wave;
  reader.expect("tile");
  wave.tile = reader.integer("rows of a tile", 1, most_size);
  wave.fill =
      reader.accept("fill") ? reader.integer("rows that fill a tile", 1, wave.tile) : wave.tile;
  reader.expect("weights");
  wave.weights = read_type(reader);
  reader.expect("rows");
  LineReader at = reader;
  const auto rows = reader.size_lists("the rows of a group");
  if (rows.size() != each.size()) {
    reader.fail(at.word("rows"), fmt::format("{} lists for {}", rows.size(), each.size()),
                "as many as behind m");
  }
  wave.starts = reader.accept("starts");
  for (std::size_t i = 0; i < each.size(); ++i) {
    wave.rows = rows[i];
    wave.tiles = tiles[i];
    wave.of = of[i];
    std::get<GroupedGemm>(each[i]).wave = wave;
  }
}

std::vector<Kernel> read_gemm(LineReader& reader) {
  GroupedGemm gemm;
  gemm.type = read_type(reader);
  reader.expect("m");
  const auto lists = reader.size_lists("the rows of a group");
  reader.expect("n");
  gemm.n = reader.integer("n", 1, most_size);
  reader.expect("k");
  gemm.k = reader.integer("k", 1, most_size);
  std::vector<Kernel> each;
  for (const auto& m : lists) {
    gemm.m = m;
    each.emplace_back(gemm);
  }
  if (reader.accept("wave")) read_wave(reader, each);
  return each;
}

std::vector<Kernel> read_memory(LineReader& reader, std::size_t members) {
  reader.expect("read");
  const auto read = read_sizes(reader, "bytes read", members);
  reader.expect("written");
  const auto written = read_sizes(reader, "bytes written", members);
  const bool goes_on = reader.accept("goes-on");
  return pairs(read, written, [goes_on](std::int64_t in, std::int64_t out) {
    return MemoryBound{Bytes(in), Bytes(out), goes_on};
  });
}

std::vector<Kernel> read_host(LineReader& reader, std::size_t members) {
  std::vector<Kernel> each;
  for (const auto ns : read_sizes(reader, "nanoseconds", members)) each.push_back(HostWork{ns});
  reader.expect("ns");
  return each;
}

std::vector<Kernel> read_attention(LineReader& reader, std::size_t members) {
  AttentionHeads shape;
  shape.type = read_type(reader);
  shape.pass =
      static_cast<Pass>(reader.choice("a pass", {name_of(Pass::forward), name_of(Pass::backward)}));
  reader.expect("queries");
  const auto queries = read_sizes(reader, "queries", members);
  reader.expect("attended");
  const auto attended = read_sizes(reader, "attended keys", members);
  const auto number = [&](const char* word, int least = 1) {
    reader.expect(word);
    return static_cast<int>(reader.integer(word, least, std::numeric_limits<std::int16_t>::max()));
  };
  shape.heads = number("heads");
  shape.kv_heads = number("kv-heads");
  shape.qk_width = number("qk");
  shape.v_width = number("v", 0);
  const auto keys = reader.accept("keys") ? read_sizes(reader, "keys in the cache", members)
                                          : std::vector<std::int64_t>{0};
  shape.latent = reader.accept("latent");
  const auto of = [](const std::vector<std::int64_t>& sizes, std::size_t i) {
    return sizes.size() == 1 ? sizes[0] : sizes[i];
  };
  std::vector<Kernel> each;
  for (std::size_t i = 0; i < std::max({queries.size(), attended.size(), keys.size()}); ++i) {
    each.emplace_back(FusedAttention{of(queries, i), of(attended, i), shape, of(keys, i)});
  }
  return each;
}

}  // namespace

std::string to_text(const Kernels& kernels) {
  const Kernel& first = kernels.each().front();
  if (std::holds_alternative<MemoryBound>(first)) {
    return fmt::format(
        "memory read {} written {}{}",
        each_size<MemoryBound>(kernels, [](const MemoryBound& k) { return k.read.value; }),
        each_size<MemoryBound>(kernels, [](const MemoryBound& k) { return k.written.value; }),
        std::get<MemoryBound>(first).goes_on ? " goes-on" : "");
  }
  if (std::holds_alternative<HostWork>(first)) {
    return fmt::format("host {} ns", each_size<HostWork>(
                                         kernels, [](const HostWork& k) { return k.nanoseconds; }));
  }
  if (const auto* attention = std::get_if<FusedAttention>(&first)) {
    return attention_text(kernels, attention->shape);
  }
  const auto& gemm = std::get<GroupedGemm>(first);
  std::string m;
  for (const Kernel& kernel : kernels.each()) {
    m += (m.empty() ? "" : ";") + sizes_text(std::get<GroupedGemm>(kernel).m);
  }
  return fmt::format("gemm {} m {} n {} k {}{}", name_of(gemm.type), m, gemm.n, gemm.k,
                     gemm.wave ? wave_text(kernels, *gemm.wave) : "");
}

Kernels read_kernels(LineReader& reader, std::size_t members) {
  const auto kind = reader.choice("a kernel", {"gemm", "memory", "host", "attention"});
  return Kernels(kind == 0   ? read_gemm(reader)
                 : kind == 1 ? read_memory(reader, members)
                 : kind == 2 ? read_host(reader, members)
                             : read_attention(reader, members));
}

}  // namespace moesim
