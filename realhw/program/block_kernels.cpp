// SPDX-License-Identifier: Apache-2.0
// The calls that kernels of dense blocks become.
#include <fmt/format.h>

#include <stdexcept>

#include "realhw/program/block_kept.h"

namespace moesim {
namespace {

Place row_of(const RowMatrix& rows, std::int64_t row) {
  return {rows.at.buffer, rows.at.offset + row * rows.width * float_bytes};
}

Place column_of(const RowMatrix& rows, std::int64_t column) {
  return {rows.at.buffer, rows.at.offset + column * float_bytes};
}

}  // namespace

BlockProgram::Kept& BlockProgram::kept(int layer, BlockKind block) {
  auto& made = kept_[{layer, block}];
  if (!made) made = std::make_unique<Kept>();
  return *made;
}

DenseTensorId BlockProgram::gain_of(BlockKind block) {
  if (block == BlockKind::attention) return DenseTensorId::attention_norm;
  return block == BlockKind::head ? DenseTensorId::head_norm : DenseTensorId::ffn_norm;
}

RowMatrix BlockProgram::make(const RankStep& step, const char* name, std::int64_t rows,
                             std::int64_t width) {
  const BufferId buffer = draft_.add_buffer(fmt::format("op {} {}", step.op.value, name),
                                            rows * width * float_bytes, RowFormat::float32);
  return {{buffer, 0}, rows, width, step.op};
}

Place BlockProgram::take(const RowMatrix& rows, const RankStep& step) const {
  if (rows.width == 0 || !draft_.ancestors.visible(rows.made_by, step.op)) {
    throw std::runtime_error("it needs what no op before it has made");
  }
  return rows.at;
}

Place BlockProgram::take(DenseBuffers& held, Place at, const RankStep& step) {
  held.ops.uses.push_back(step.op);
  return at;
}

RowMatrix BlockProgram::whole(Pass pass) const {
  const RowTotal& total = pass == Pass::forward ? forward_ : backward_;
  if (total.parts.size() != 1 || total.routed != nullptr) {
    throw std::runtime_error("its input has not been added up");
  }
  return total.parts.front();
}

void BlockProgram::add_up(RowTotal& total, Pass pass, RankStep& step, Place to) {
  const std::int64_t hidden = held_.model.hidden;
  if (total.parts.empty() && total.routed == nullptr) {
    throw std::runtime_error("nothing has come to it");
  }
  std::vector<TokenResult> routed;
  if (total.routed != nullptr) routed = total.routed->take_sums(pass, step.op);
  for (const RowMatrix& part : total.parts) take(part, step);
  RowSums sums{hidden, {}, {0}, {}};
  for (std::int64_t row = 0; row < held_.own_rows(); ++row) {
    for (const RowMatrix& part : total.parts) sums.terms.push_back({row_of(part, row)});
    if (!routed.empty()) {
      const auto& terms = routed.at(static_cast<std::size_t>(row)).terms;
      sums.terms.insert(sums.terms.end(), terms.begin(), terms.end());
    }
    sums.first.push_back(static_cast<std::uint32_t>(sums.terms.size()));
    sums.to.push_back({to.buffer, to.offset + row * hidden * float_bytes});
  }
  step.before.emplace_back(std::move(sums));
  total = {};
}

/// Adds up what flows into a block, or back out of it.
void BlockProgram::settle(Pass pass, RankStep& step) {
  const RowMatrix sum = make(step, "sum", held_.own_rows(), held_.model.hidden);
  add_up(total(pass), pass, step, sum.at);
  total(pass) = {{sum}, nullptr};
  check(step, sum);
}

void BlockProgram::check(RankStep& step, const RowMatrix& made) const {
  auto& calls = step.more.empty() ? step.after : step.more.back().after;
  calls.emplace_back(FiniteCheck{step.op, {{made.at, made.rows * made.width}}});
}

void BlockProgram::record(int layer, BlockKind block, Pass pass, const RowMatrix& made) {
  const int number = block == BlockKind::head ? held_.model.layers : layer;
  draft_.program.iteration->values.push_back({microbatch_, number, block, pass, made.at});
}

/// A GEMM of the plan has as many multiplications as the product that it becomes.
void BlockProgram::check_shape(const RankStep& step, const RowMatrix& a, std::int64_t n) const {
  const auto* gemm = std::get_if<GroupedGemm>(&draft_.kernel(step));
  if (gemm != nullptr && gemm->m.size() == 1 &&
      gemm->m[0] * gemm->n * gemm->k == a.rows * a.width * n) {
    return;
  }
  throw std::runtime_error(
      fmt::format("the plan's product is none of {} rows, {} x {}", a.rows, n, a.width));
}

RowMatrix BlockProgram::multiply(RankStep& step, GroupedProduct::Kind kind, const RowMatrix& a,
                                 Place b, std::int64_t width) {
  check_shape(step, a, width);
  const RowMatrix c = make(step, "product", a.rows, width);
  step.before.emplace_back(
      GroupedProduct{kind, width, a.width, {{a.rows, take(a, step), b, c.at}}});
  check(step, c);
  return c;
}

void BlockProgram::add_outer(RankStep& step, DenseBuffers& held, DenseTensorId id,
                             const RowMatrix& a, const RowMatrix& b) {
  check_shape(step, a, b.width);
  step.before.emplace_back(
      GroupedProduct{GroupedProduct::Kind::outer,
                     b.width,
                     a.width,
                     {{a.rows, take(a, step), take(b, step), held.gradient(id)}}});
  step.after.emplace_back(FiniteCheck{step.op, {{held.gradient(id), a.width * b.width}}});
  held.ops.added.push_back(step.op);
}

RowMatrix BlockProgram::activate(RankStep& step, const RowMatrix& h, std::int64_t ffn) {
  const RowMatrix out = make(step, "activated", h.rows, ffn);
  const bool gated = draft_.step.shape.gated;
  step.before.emplace_back(
      Activation{false, ffn, gated, {{h.rows, take(h, step), out.at, {}, {}}}});
  check(step, out);
  return out;
}

RowMatrix BlockProgram::activate_gradient(RankStep& step, const RowMatrix& h, const RowMatrix& dout,
                                          std::int64_t ffn) {
  const RowMatrix dh = make(step, "activation gradient", h.rows, h.width);
  const bool gated = draft_.step.shape.gated;
  step.before.emplace_back(
      Activation{true, ffn, gated, {{h.rows, take(h, step), {}, dh.at, take(dout, step)}}});
  check(step, dh);
  return dh;
}

RowMatrix BlockProgram::norm(RankStep& step, DenseBuffers& held, DenseTensorId gain,
                             const RowMatrix& x) {
  const RowMatrix out = make(step, "normed", x.rows, x.width);
  const Place gains = take(held, held.weight(gain), step);
  step.before.emplace_back(
      RowNorm{false, x.width, {{x.rows, x.width, take(x, step), gains, out.at, {}, {}, {}}}});
  check(step, out);
  return out;
}

RowMatrix BlockProgram::norm_gradient(RankStep& step, DenseBuffers& held, DenseTensorId gain,
                                      const RowMatrix& x, const RowMatrix& dout) {
  const RowMatrix dx = make(step, "norm gradient", x.rows, x.width);
  const Place gains = take(held, held.weight(gain), step);
  step.before.emplace_back(RowNorm{
      true,
      x.width,
      {{x.rows, x.width, take(x, step), gains, {}, take(dout, step), dx.at, held.gradient(gain)}}});
  check(step, dx);
  held.ops.added.push_back(step.op);
  return dx;
}

/// Every head by itself; values stay as they are.
RowMatrix BlockProgram::head_norms(RankStep& step, DenseBuffers& held, const RowMatrix& x,
                                   const RowMatrix* dout) {
  const HeadShape heads = heads_;
  const RowMatrix made = make(step, "normed heads", x.rows, x.width);
  RowNorm norms{dout != nullptr, heads.dim, {}};
  take(x, step);
  for (std::int64_t head = 0; head < heads.heads + heads.kv_heads; ++head) {
    const DenseTensorId gain =
        head < heads.heads ? DenseTensorId::query_norm : DenseTensorId::key_norm;
    const std::int64_t column = head * heads.dim;
    RowNorm::Range range{
        x.rows, x.width, column_of(x, column), take(held, held.weight(gain), step), {}, {}, {}, {}};
    if (dout == nullptr) {
      range.out = column_of(made, column);
    } else {
      range.dout = column_of(*dout, column);
      range.dx = column_of(made, column);
      range.dgain = held.gradient(gain);
    }
    norms.ranges.push_back(range);
  }
  step.before.emplace_back(std::move(norms));
  const RowMatrix& from = dout == nullptr ? x : *dout;
  take(from, step);
  const std::int64_t values = (heads.heads + heads.kv_heads) * heads.dim;
  RowSums copied{heads.kv_heads * heads.dim, {}, {0}, {}};
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const auto at = [&](const RowMatrix& m) {
      Place place = row_of(m, row);
      place.offset += values * float_bytes;
      return place;
    };
    copied.to.push_back(at(made));
    copied.terms.push_back({at(from)});
    copied.first.push_back(static_cast<std::uint32_t>(copied.terms.size()));
  }
  step.before.emplace_back(std::move(copied));
  check(step, made);
  if (dout != nullptr) held.ops.added.push_back(step.op);
  return made;
}

RowMatrix BlockProgram::rotated(RankStep& step, const RowMatrix& from, int way) {
  const RowMatrix to = make(step, "rotated", from.rows, from.width);
  step.before.emplace_back(Rotary{heads_, from.rows, held_.sequence, way, take(from, step), to.at});
  check(step, to);
  return to;
}

RowMatrix BlockProgram::attention(RankStep& step, const RowMatrix& in, const RowMatrix* dout) {
  const bool gradient = dout != nullptr;
  const RowMatrix made =
      make(step, "attention", in.rows, gradient ? heads_.width() : heads_.out_width());
  CausalAttention call{gradient, heads_, held_.micro_batch, held_.sequence, take(in, step), {},
                       {},       {}};
  if (gradient) {
    call.dout = take(*dout, step);
    call.drows = made.at;
  } else {
    call.out = made.at;
  }
  step.before.emplace_back(std::move(call));
  check(step, made);
  return made;
}

}  // namespace moesim
