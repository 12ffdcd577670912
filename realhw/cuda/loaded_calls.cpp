// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/loaded_calls.h"

#include <algorithm>
#include <stdexcept>

#include "realhw/core/numbers.h"

namespace moesim::cuda {
namespace {

/// Types of work without meaning: float8 products take as long as we can tell from bfloat16 ones.
cudaDataType scratch_type(DataType type) {
  return type == DataType::fp32 ? CUDA_R_32F : type == DataType::fp16 ? CUDA_R_16F : CUDA_R_16BF;
}
std::int64_t scratch_size(DataType type) { return type == DataType::fp32 ? 4 : 2; }

std::int64_t rounded_up(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

constexpr std::int64_t most_operands = std::int64_t{4} << 30;  // bytes

/// Matrices of each group: operands of its own as far as they fit, and always a result of its own,
/// as results of one call must not overlap.
struct ScratchMatrices {
  explicit ScratchMatrices(const GroupedGemm& gemm) {
    const auto groups = static_cast<std::int64_t>(gemm.m.size());
    const std::int64_t most = groups == 0 ? 0 : *std::max_element(gemm.m.begin(), gemm.m.end());
    const std::int64_t size = scratch_size(gemm.type);
    const std::int64_t a = rounded_up(most * gemm.k * size);
    const std::int64_t pair = a + rounded_up(gemm.k * gemm.n * size);
    const std::int64_t pairs =
        pair == 0 ? groups : std::clamp<std::int64_t>(most_operands / pair, 1, groups + 1);
    bytes = std::min(pairs, groups) * pair;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t first = g % pairs * pair;
      offsets.push_back({first, first + a, bytes});
      bytes += rounded_up(gemm.m[static_cast<std::size_t>(g)] * gemm.n * size);
    }
  }
  struct Offsets {
    std::int64_t a = 0, b = 0, c = 0;
  };
  std::vector<Offsets> offsets;  // [group]
  std::int64_t bytes = 0;
};

/// All ranges of a call have the formats of the first: one kernel does them all.
void require_same(RowFormat one, RowFormat other) {
  if (one != other) throw std::runtime_error("matrices of one call have several formats");
}

}  // namespace

std::int64_t scratch_bytes(const Call& call) {
  const auto* scratch = std::get_if<Scratch>(&call);
  if (scratch == nullptr) return 0;
  if (const auto* gemm = std::get_if<GroupedGemm>(&scratch->kernel)) {
    return ScratchMatrices(*gemm).bytes;
  }
  if (const auto* memory = std::get_if<MemoryBound>(&scratch->kernel)) {
    const std::int64_t most = std::max(memory->read.value, memory->written.value);
    return most == 0 ? 0 : 2 * scratch_window;
  }
  return 0;
}

LoadedCall CallLoader::load(const Call& call) {
  return std::visit([this](const auto& c) { return load_call(c); }, call);
}

LoadedCall CallLoader::load_call(const RowSums& call) {
  LoadedRowSums loaded;
  loaded.rows = static_cast<std::int64_t>(call.to.size());
  loaded.width = call.width;
  if (!call.to.empty()) loaded.format = addresses_.format(call.to[0]);
  std::vector<std::byte*> to;
  for (const Place& place : call.to) to.push_back(addresses_[place]);
  std::vector<RowTerm> terms;
  for (const RowSums::Term& term : call.terms) {
    terms.push_back({addresses_[term.from], term.weight, addresses_.format(term.from)});
  }
  loaded.to = lists_.add(to);
  loaded.first = lists_.add(call.first);
  loaded.terms = lists_.add(terms);
  return loaded;
}

LoadedCall CallLoader::load_call(const GroupedProduct& call) {
  ProductMatrices matrices{call.kind, call.n, call.k, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, {}};
  if (!call.groups.empty()) {
    const auto& first = call.groups[0];
    matrices.a = cuda_type(addresses_.format(first.a));
    matrices.b = cuda_type(addresses_.format(first.b));
    matrices.c = cuda_type(addresses_.format(first.c));
    for (const auto& group : call.groups) {
      require_same(addresses_.format(group.a), addresses_.format(first.a));
      require_same(addresses_.format(group.b), addresses_.format(first.b));
      require_same(addresses_.format(group.c), addresses_.format(first.c));
      matrices.groups.push_back(
          {group.m, addresses_[group.a], addresses_[group.b], addresses_[group.c]});
    }
  }
  return std::make_shared<const Product>(*cublas_, matrices, way_, lists_);
}

LoadedCall CallLoader::load_call(const Activation& call) {
  LoadedActivation loaded;
  ActivationList& list = loaded.list;
  list.ffn = call.ffn;
  list.gated = call.gated;
  list.gradient = call.gradient;
  std::vector<ActivationRange> ranges;
  for (const Activation::Range& range : call.ranges) {
    if (range.rows == 0) continue;
    const Place& result = call.gradient ? range.h_gradient : range.out;
    const Place& out_gradient = call.gradient ? range.out_gradient : range.h;
    if (ranges.empty()) {
      list.h = addresses_.format(range.h);
      list.result = addresses_.format(result);
      list.out_gradient = addresses_.format(out_gradient);
    }
    require_same(list.h, addresses_.format(range.h));
    require_same(list.result, addresses_.format(result));
    require_same(list.out_gradient, addresses_.format(out_gradient));
    ranges.push_back(
        {list.rows, addresses_[range.h], addresses_[out_gradient], addresses_[result]});
    list.rows += range.rows;
  }
  list.ranges = static_cast<int>(ranges.size());
  loaded.ranges = lists_.add(ranges);
  return loaded;
}

LoadedCall CallLoader::load_call(const LocalCopy& call) {
  return LoadedCopy{addresses_[call.from], addresses_[call.to], call.bytes};
}

LoadedCall CallLoader::load_call(const Pattern& call) {
  std::vector<PatternRange> ranges;
  for (const Pattern::Range& range : call.ranges) {
    ranges.push_back({addresses_[range.at], range.bytes, range.in_message,
                      pattern_seed(call.op, range.from, range.to)});
  }
  return LoadedPattern{call.compare, lists_.add(ranges)};
}

LoadedCall CallLoader::load_call(const FiniteCheck& call) {
  std::vector<FiniteRange> ranges;
  for (const FiniteCheck::Range& range : call.ranges) {
    ranges.push_back({addresses_[range.at], range.elements, addresses_.format(range.at)});
  }
  return LoadedFiniteCheck{call.op, lists_.add(ranges)};
}

LoadedCall CallLoader::load_call(const Scratch& call) {
  if (const auto* memory = std::get_if<MemoryBound>(&call.kernel)) {
    const std::int64_t start = next_start_ % scratch_window;
    next_start_ += rounded_up(std::max(memory->read.value, memory->written.value));
    return LoadedMove{*memory, start};
  }
  const auto* gemm = std::get_if<GroupedGemm>(&call.kernel);
  if (gemm == nullptr) throw std::runtime_error("host work is not scratch work");
  const ScratchMatrices scratch(*gemm);
  const cudaDataType type = scratch_type(gemm->type);
  ProductMatrices matrices{GroupedProduct::Kind::plain, gemm->n, gemm->k, type, type, type, {}};
  std::byte* memory = addresses_.scratch;
  for (std::size_t g = 0; g < gemm->m.size(); ++g) {
    const auto& [a, b, c] = scratch.offsets[g];
    matrices.groups.push_back({gemm->m[g], memory + a, memory + b, memory + c});
  }
  return std::make_shared<const Product>(*cublas_, matrices, way_, lists_);
}

}  // namespace moesim::cuda
