// SPDX-License-Identifier: Apache-2.0
#include "realhw/host/host_device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "realhw/core/expert_shape.h"
#include "realhw/core/gemm.h"
#include "realhw/core/numbers.h"
#include "realhw/program/dense_calls.h"

namespace moesim {
namespace {

using At = std::function<float*(Place)>;

void run_one(const RowNorm& call, const At& at) {
  for (const RowNorm::Range& range : call.ranges) {
    const float *x = at(range.x), *gain = at(range.gain);
    for (std::int64_t row = 0; row < range.rows; ++row) {
      const std::int64_t first = row * range.stride;
      if (call.gradient) {
        rms_norm_gradient(call.width, x + first, gain, at(range.dout) + first, at(range.dx) + first,
                          at(range.dgain));
      } else {
        rms_norm(call.width, x + first, gain, at(range.out) + first);
      }
    }
  }
}

void run_one(const Rotary& call, const At& at) {
  const HeadShape& heads = call.heads;
  for (std::int64_t row = 0; row < call.rows; ++row) {
    const float* from = at(call.from) + row * heads.width();
    float* to = at(call.to) + row * heads.width();
    const std::int64_t turned = heads.heads + heads.kv_heads;
    for (std::int64_t head = 0; head < turned; ++head) {
      rotate_head(heads.dim, row % call.sequence, call.way, from + head * heads.dim,
                  to + head * heads.dim);
    }
    std::copy(from + turned * heads.dim, from + heads.width(), to + turned * heads.dim);
  }
}

void run_one(const CausalAttention& call, const At& at) {
  for (std::int64_t s = 0; s < call.sequences; ++s) {
    const std::int64_t rows = s * call.sequence * call.heads.width();
    const std::int64_t out = s * call.sequence * call.heads.out_width();
    if (call.gradient) {
      causal_attention_gradient(call.heads, call.sequence, at(call.rows) + rows,
                                at(call.dout) + out, at(call.drows) + rows);
    } else {
      causal_attention(call.heads, call.sequence, at(call.rows) + rows, at(call.out) + out);
    }
  }
}

void run_one(const CrossEntropy& call, const At& at) {
  for (std::size_t row = 0; row < call.labels.size(); ++row) {
    const std::int64_t first = static_cast<std::int64_t>(row) * call.words;
    float* shares = at(call.shares) + first;
    if (!call.gradient) {
      at(call.losses)[row] =
          cross_entropy(call.words, at(call.logits) + first, call.labels[row], shares);
      continue;
    }
    float* gradient = at(call.dlogits) + first;
    for (std::int64_t w = 0; w < call.words; ++w) {
      gradient[w] = (shares[w] - (w == call.labels[row] ? 1.0f : 0.0f)) * call.weight;
    }
  }
}

void run_one(const DividedEntropy& call, const At& at) {
  const std::int64_t rows = std::ssize(call.labels);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* logits = at(call.logits) + row * call.words;
    float* sums = at(call.sums) + row * entropy_sums;
    if (!call.joined) {
      entropy_of_part(call.words, logits, call.labels[static_cast<std::size_t>(row)], sums);
      continue;
    }
    at(call.losses)[row] = joined_entropy(call.parts, rows * entropy_sums, sums, call.words, logits,
                                          at(call.shares) + row * call.words);
  }
}

void run_one(const AddValues& call, const At& at) {
  for (const AddValues::Range& range : call.ranges) {
    const float* from = at(range.from);
    float* to = at(range.to);
    for (std::int64_t i = 0; i < range.elements; ++i) to[i] += from[i];
  }
}

void run_one(const AdamUpdate& call, const At& at) {
  for (const AdamUpdate::Range& range : call.ranges) {
    adam(call.rule, range.elements, at(range.gradients), at(range.first), at(range.second),
         at(range.weights));
  }
}

/// `at`: the memory of a place.
void run_dense(const DenseCall& call, const std::function<float*(Place)>& at) {
  std::visit([&](const auto& one) { run_one(one, at); }, call);
}

/// NaN in every format, when all bytes are this.
constexpr std::byte poison_byte{0xff};

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace

void HostDevice::load(const RankProgram& program) {
  program_ = &program;
  memory_.clear();
  for (const Buffer& buffer : program.buffers) memory_.emplace_back(size(buffer.bytes));
  write_initial();
}

void HostDevice::write_initial() {
  for (const InitialValues& initial : program_->initial) {
    encode(format(initial.at), initial.values, at(initial.at));
  }
}

/// Initial values are written again only over poison: nothing but an iteration's update changes
/// them, from which the next iteration continues.
void HostDevice::reset(bool poison) {
  if (poison) {
    for (auto& memory : memory_) std::ranges::fill(memory, poison_byte);
    write_initial();
  }
  for (const BufferId buffer : program_->zeroed) {
    std::ranges::fill(memory_[buffer.index()], std::byte{0});
  }
  wrong_bytes_ = 0;
  not_finite_in_ = -1;
}

void HostDevice::run(const Call& call, Stream stream) {
  Workspace& workspace = workspaces_[static_cast<std::size_t>(stream)];
  std::visit([&](const auto& c) { run_call(c, workspace); }, call);
}

void HostDevice::read(Place from, std::span<std::byte> bytes) {
  std::copy_n(at(from), bytes.size(), bytes.data());
}

Findings HostDevice::findings() {
  Findings findings{wrong_bytes_, {}};
  if (const std::int32_t op = not_finite_in_; op >= 0) findings.not_finite_in = OpId(op);
  return findings;
}

const float* HostDevice::floats(Place place, std::int64_t elements, std::vector<float>& room) {
  if (format(place) == RowFormat::float32) return reinterpret_cast<const float*>(at(place));
  room.resize(size(elements));
  decode(format(place), at(place), room);
  return room.data();
}

void HostDevice::run_call(const RowSums& sums, Workspace& workspace) {
  workspace.sum.resize(size(sums.width));
  for (std::size_t i = 0; i < sums.to.size(); ++i) {
    const std::span terms(sums.terms.data() + sums.first[i], sums.terms.data() + sums.first[i + 1]);
    const Place to = sums.to[i];
    // A row taken as it is: the commonest case, and exact in any format.
    if (terms.size() == 1 && terms[0].weight == 1 && format(terms[0].from) == format(to)) {
      std::copy_n(at(terms[0].from), size(sums.width) * size_of(format(to)), at(to));
      continue;
    }
    std::fill(workspace.sum.begin(), workspace.sum.end(), 0.0f);
    for (const RowSums::Term& term : terms) {
      const float* row = floats(term.from, sums.width, workspace.row);
      for (std::size_t c = 0; c < workspace.sum.size(); ++c) {
        workspace.sum[c] += term.weight * row[c];
      }
    }
    encode(format(to), workspace.sum, at(to));
  }
}

void HostDevice::run_call(const GroupedProduct& product, Workspace& workspace) {
  for (const auto& group : product.groups) multiply_group(product, group, workspace);
}

void HostDevice::multiply_group(const GroupedProduct& product, const GroupedProduct::Group& group,
                                Workspace& workspace) {
  const bool outer = product.kind == GroupedProduct::Kind::outer;
  const std::int64_t m = group.m, n = product.n, k = product.k;
  const float* a = floats(group.a, m * k, workspace.a);
  const float* b = floats(group.b, outer ? m * n : k * n, workspace.b);
  if (outer) return add_outer(k, n, m, a, b, reinterpret_cast<float*>(at(group.c)));
  const auto multiply =
      product.kind == GroupedProduct::Kind::plain ? moesim::multiply : multiply_transposed;
  if (format(group.c) == RowFormat::float32) {
    return multiply(m, n, k, a, b, reinterpret_cast<float*>(at(group.c)));
  }
  workspace.c.resize(size(m * n));
  multiply(m, n, k, a, b, workspace.c.data());
  encode(format(group.c), workspace.c, at(group.c));
}

void HostDevice::run_call(const Activation& activation, Workspace& workspace) {
  const std::int64_t ffn = activation.ffn, up = activation.gated ? 2 * ffn : ffn;
  auto& made = workspace.c;
  made.resize(size(activation.gradient ? up : ffn));
  const auto row_of = [&](Place first, std::int64_t row, std::int64_t width) {
    first.offset += row * width * static_cast<std::int64_t>(size_of(format(first)));
    return first;
  };
  for (const Activation::Range& range : activation.ranges) {
    for (std::int64_t row = 0; row < range.rows; ++row) {
      const float* h = floats(row_of(range.h, row, up), up, workspace.a);
      if (activation.gradient) {
        const float* out = floats(row_of(range.out_gradient, row, ffn), ffn, workspace.b);
        activate_gradient(ffn, activation.gated, h, out, made.data());
      } else {
        activate(ffn, activation.gated, h, made.data());
      }
      const Place to =
          activation.gradient ? row_of(range.h_gradient, row, up) : row_of(range.out, row, ffn);
      encode(format(to), made, at(to));
    }
  }
}

void HostDevice::run_call(const LocalCopy& copy, Workspace&) {
  std::copy_n(at(copy.from), size(copy.bytes), at(copy.to));
}

void HostDevice::run_call(const Pattern& pattern, Workspace&) {
  for (const Pattern::Range& range : pattern.ranges) {
    const std::span bytes(at(range.at), size(range.bytes));
    const std::size_t offset = size(range.in_message);
    if (pattern.compare) {
      wrong_bytes_ += count_wrong(pattern.op, range.from, range.to, offset, bytes);
    } else {
      fill_pattern(pattern.op, range.from, range.to, offset, bytes);
    }
  }
}

void HostDevice::run_call(const FiniteCheck& check, Workspace& workspace) {
  for (const FiniteCheck::Range& range : check.ranges) {
    const float* values = floats(range.at, range.elements, workspace.row);
    const bool finite = std::all_of(values, values + range.elements,
                                    [](float value) { return std::isfinite(value); });
    std::int32_t none = -1;
    if (!finite) not_finite_in_.compare_exchange_strong(none, check.op.value);
  }
}

void HostDevice::run_call(const Scratch& scratch, Workspace& workspace) {
  workspace.scratch.run(scratch.kernel);
}

void HostDevice::run_call(const DenseCall& call, Workspace&) {
  run_dense(call, [this](Place place) { return reinterpret_cast<float*>(at(place)); });
}

void HostDevice::run_call(const HostWork& work, Workspace&) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(work.nanoseconds));
}

}  // namespace moesim
