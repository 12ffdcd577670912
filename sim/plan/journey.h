// SPDX-License-Identifier: Apache-2.0
// Follows one layer's choices through the rows of its exchanges, out to the experts or back.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/plan/delivery.h"
#include "sim/plan/mistakes.h"

namespace moesim {

/// Choices of each slot by the exchange that carried them, in the order of the exchanges; op -1
/// stands for none.
using CarriedBySlot = std::vector<std::vector<std::pair<OpId, std::int64_t>>>;

/// The way of every (token, choice) of one layer and pass in one direction.
class Journey {
 public:
  enum class Direction { out, back };  // source -> experts, experts -> source

  /// `where` opens each message, such as `layer 3 forward`. All must outlive the journey.
  Journey(const Plan& plan, const LayerRouting& routing, Direction direction,
          const std::string& where, Mistakes& mistakes);
  /// Moves choices along the rows of the next exchange.
  void follow(OpId exchange);
  /// Reports every choice that is not where it must be.
  void finish() const;
  /// Per slot the exchange that brought its choices in (out) or first took them away (back).
  CarriedBySlot carried_by_slot() const;

 private:
  struct Cargo {
    SlotId slot;  // that serves it
    GpuId at;
    OpId first{-1};      // the first exchange that carried it
    OpId last{-1};       // the newest one
    Choices merged = 0;  // back: the choices that it was summed with, itself included
    bool told = false;   // its mistake is reported
  };

  SlotId slot_of(std::size_t token, std::size_t k) const { return cargo_[first_[token] + k].slot; }
  bool dropped(std::size_t token, std::size_t k) const {
    return routing_.chosen[token][k].value < 0;
  }
  void move(OpId exchange, const RowMove& row, std::size_t k);
  std::string name_of_choice(std::size_t token, std::size_t k) const;
  void mistake(const std::string& what) const;

  const Plan& plan_;
  const LayerRouting& routing_;
  Direction direction_;
  const std::string& where_;
  Mistakes& mistakes_;
  std::vector<std::size_t> first_;  // [token] its first cargo
  std::vector<Cargo> cargo_;        // [token][k], flat
};

/// Reports an exchange whose rows, all of one size, do not add up to its matrix.
void check_rows_fill_traffic(const Plan& plan, OpId exchange, Mistakes& mistakes);

}  // namespace moesim
