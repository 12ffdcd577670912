// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/rank_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "realhw/core/numbers.h"
#include "realhw/core/row_format.h"
#include "sim/plan/check.h"

namespace moesim {
namespace {

bool moves_tokens(const Op& op) {
  return op.exchange() != nullptr && carries_tokens(op.lane) &&
         (op.stage == Stage::dispatch || op.stage == Stage::combine);
}

/// Names the op in what goes wrong with it.
template <class Action>
auto during(const Plan& plan, OpId id, GpuId rank, Action action) {
  try {
    return action();
  } catch (const std::runtime_error& e) {
    throw std::runtime_error(fmt::format("rank {}, {} of layer {}: {}", rank.value,
                                         describe(plan, id), plan[id].layer, e.what()));
  }
}

}  // namespace

RankState::RankState(const RealStep& step, GpuId rank)
    : step_(step),
      rank_(rank),
      parcels_(step.plan.ops.size()),
      vector_(static_cast<std::size_t>(step.shape.hidden)) {
  for (const RoutedLayer& layer : step.layers) {
    index_of_[layer.number] = layers_.size();
    layers_.emplace_back(step.plan, layer, step.shape, rank);
  }
  for (OpId id(0); id.index() < step.plan.ops.size(); ++id.value) {
    const Op& op = step.plan[id];
    if (op.exchange() == nullptr) continue;
    during(step.plan, id, rank, [&] {
      parcels_[id.index()] = parcels_of(*op.exchange(), rank);
      if (!moves_tokens(op) || op.exchange()->traffic.total().value == 0) return;
      const std::int64_t row_bytes = parcels_[id.index()].row_bytes.value;
      if (row_bytes == 0) throw std::runtime_error("the plan lists no rows");
      if (find_layer(op) == nullptr) throw std::runtime_error("its routing is not known");
      format_for(row_bytes, step.shape.hidden);
    });
  }
}

LayerState* RankState::find_layer(const Op& op) {
  const auto found = index_of_.find(op.layer);
  return found == index_of_.end() ? nullptr : &layers_[found->second];
}

void RankState::reset(bool verify) {
  verify_ = verify;
  wrong_bytes_ = 0;
  for (LayerState& layer : layers_) layer.reset();
}

const RankParcels& RankState::parcels(OpId exchange) const { return parcels_[exchange.index()]; }

void RankState::pack(OpId id, const Parcel& parcel, std::byte* bytes) {
  const Op& op = step_.plan[id];
  during(step_.plan, id, rank_, [&] {
    const auto row_bytes = static_cast<std::size_t>(parcels(id).row_bytes.value);
    std::size_t at = 0;
    const auto fill = [&](std::size_t end) {
      if (verify_) fill_pattern(id, parcel.from, parcel.to, at, {bytes + at, end - at});
      at = end;
    };
    if (moves_tokens(op) && !parcel.rows.empty()) {
      const RowFormat format = format_for(parcels(id).row_bytes.value, step_.shape.hidden);
      LayerState& layer = *find_layer(op);
      for (const std::uint32_t row : parcel.rows) {
        const std::size_t end = at + row_bytes;
        layer.take(op, op.exchange()->rows[row], vector_);
        encode(format, vector_, bytes + at);
        at += vector_.size() * size_of(format);
        fill(end);
      }
    }
    fill(static_cast<std::size_t>(parcel.bytes.value));
  });
}

void RankState::unpack(OpId id, const Parcel& parcel, const std::byte* bytes) {
  const Op& op = step_.plan[id];
  during(step_.plan, id, rank_, [&] {
    const auto row_bytes = static_cast<std::size_t>(parcels(id).row_bytes.value);
    std::size_t at = 0;
    const auto compare = [&](std::size_t end) {
      if (verify_) {
        wrong_bytes_ += count_wrong(id, parcel.from, parcel.to, at, {bytes + at, end - at});
      }
      at = end;
    };
    if (moves_tokens(op) && !parcel.rows.empty()) {
      const RowFormat format = format_for(parcels(id).row_bytes.value, step_.shape.hidden);
      LayerState& layer = *find_layer(op);
      for (const std::uint32_t row : parcel.rows) {
        const std::size_t end = at + row_bytes;
        decode(format, bytes + at, vector_);
        at += vector_.size() * size_of(format);
        layer.store(id, op, op.exchange()->rows[row], vector_);
        compare(end);
      }
    }
    compare(static_cast<std::size_t>(parcel.bytes.value));
  });
}

void RankState::compute(OpId id) {
  const Op& op = step_.plan[id];
  during(step_.plan, id, rank_, [&] {
    LayerState* layer = find_layer(op);
    if (layer != nullptr) {
      if (op.stage == Stage::experts && layer->run_expert_kernel(op)) return;
      if (op.name == "sort" || op.name == "reduce-grad") return layer->gather(op.pass);
      if (op.name == "reduce" || op.name == "sort-grad") return layer->release(op.pass);
    }
    scratch_[static_cast<std::size_t>(op.lane)].run(op.compute()->kernel);
  });
}

}  // namespace moesim
