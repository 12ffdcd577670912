// SPDX-License-Identifier: Apache-2.0
// The exchanges of a rank: how messages are in buffers, and how rows come into and out of them.
#pragma once

#include <array>
#include <functional>
#include <utility>

#include "realhw/core/parcels.h"
#include "realhw/program/layer_program.h"

namespace moesim {

class ExchangePrograms {
 public:
  /// `layer_of` finds the layer of an op, or null. Exchanges without numbers share buffers by
  /// stream, whose exchanges never overlap on a rank.
  ExchangePrograms(Draft& draft, std::function<LayerProgram*(const Op&)> layer_of);
  /// Adds the messages of an exchange and what belongs before and after them.
  void add(RankStep& step);

 private:
  struct Side;  // what is sent, or what is received
  Side place(const RankStep& step, const RankParcels& parcels, bool sent, bool rows);
  void pack(RankStep& step, const Side& sent, LayerProgram& layer) const;
  void store(const RankStep& step, const Side& received, LayerProgram& layer) const;
  static void add_messages(RankStep& step, const Side& sent, const Side& received);

  Draft& draft_;
  std::function<LayerProgram*(const Op&)> layer_of_;
  std::array<std::array<BufferId, 2>, stream_count> shared_;  // [stream][sent]
};

}  // namespace moesim
