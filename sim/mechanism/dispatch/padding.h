// SPDX-License-Identifier: Apache-2.0
// Capacity padding: every source rank sends every slot the same number of rows, full or not.
#pragma once

#include <memory>
#include <vector>

#include "sim/mechanism/dispatch.h"
#include "sim/mechanism/routing/capacity_rule.h"

namespace moesim {

/// How far the part of a (source rank, slot) is filled up. `capacity` fixes it (a factor below 0:
/// to the largest load, at most that capacity), `max` takes the largest load of any rank and slot
/// of the EP group (Tutel's factor 0, DeepSpeed without drop_tokens).
struct Padding {
  enum class Kind { none, capacity, max };
  Kind kind = Kind::none;
  Capacity capacity;
};

/// Reads `padding` (default `absent`) and, of `capacity`, `rule` and `factor`.
Padding read_padding(const YamlMap& params, Padding::Kind absent);

/// Fills up the parts of a dispatch that sends every choice by itself, in every EP group: rows on
/// the wire and rows computed are what it would count if every rank had as many tokens for every
/// slot. Changes nothing without padding. Its counts throw Error if a load exceeds the capacity:
/// dropping is the routing's part.
void pad(Dispatch& dispatch, const Padding& padding);

/// Makes every phase a collective of equal parts: each member of a communicator sends each as many
/// rows as the fullest pair of the phase has. `shapes`: [EP group], of its ranks. The experts
/// compute exact rows.
void pad_phases(Dispatch& dispatch, std::vector<DispatchShape> shapes);

/// The same as pad(), but the padded rows are all that is counted: in the place of the exact ones.
void count_equal_parts(Dispatch& dispatch, const Padding& padding);

}  // namespace moesim
