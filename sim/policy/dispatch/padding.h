// SPDX-License-Identifier: Apache-2.0
// Capacity padding: every source rank sends every slot the same number of rows, full or not.
#pragma once

#include <memory>
#include <vector>

#include "sim/policy/dispatch.h"
#include "sim/policy/routing/capacity_rule.h"

namespace moesim {

/// How far the part of a (source rank, slot) is filled up. `capacity` fixes it (a factor below 0:
/// to the largest load, at most that capacity), `max` takes the largest load of any rank and slot
/// of the run of ranks (Tutel's factor 0, DeepSpeed without drop_tokens).
struct Padding {
  enum class Kind { none, capacity, max };
  Kind kind = Kind::none;
  Capacity capacity;
};

/// Reads `padding` (default `absent`) and, of `capacity`, `rule` and `factor`.
Padding read_padding(const YamlMap& params, Padding::Kind absent);

/// Rows of every (source rank, slot) in each run of `ep` ranks. Throws Error where a load exceeds
/// the capacity: dropping is the routing's part.
std::vector<std::int64_t> padded_rows(const Padding& padding, const LayerTokens& tokens, int ep);

/// Fills in the padded counts of a dispatch that sends every choice by itself: what it would count
/// if every rank had rows[run] tokens for every slot of its run. Slots get as many rows of each
/// rank of their run.
void pad_counts(const Dispatch& dispatch, const Placement& placement,
                const std::vector<std::int64_t>& rows, RowCounts& counts);

/// The dispatch with its parts filled up; the dispatch itself without padding.
std::unique_ptr<Dispatch> pad(std::unique_ptr<Dispatch> dispatch, const Padding& padding, int ep);

}  // namespace moesim
