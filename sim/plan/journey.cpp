// SPDX-License-Identifier: Apache-2.0
// One cargo per (token, choice), moved row by row.
#include "sim/plan/journey.h"

#include <fmt/format.h>

#include "sim/plan/check.h"

namespace moesim {
Journey::Journey(const Plan& plan, const LayerRouting& routing, Direction direction,
                 const std::string& where, Mistakes& mistakes)
    : plan_(plan), routing_(routing), direction_(direction), where_(where), mistakes_(mistakes) {
  first_.push_back(0);
  for (const auto& chosen : routing.chosen) first_.push_back(first_.back() + chosen.size());
  cargo_.resize(first_.back());
  AssignmentWalk walk(*routing.assignment);
  for (std::size_t token = 0; token < routing.chosen.size(); ++token) {
    for (std::size_t k = 0; k < routing.chosen[token].size(); ++k) {
      if (dropped(token, k)) continue;
      Cargo& cargo = cargo_[first_[token] + k];
      cargo.merged = Choices{1} << k;
      cargo.slot = walk.next(routing.source[token], routing.chosen[token][k]);
      cargo.at = direction == Direction::out ? routing.source[token]
                                             : routing.assignment->placement().gpu_of(cargo.slot);
    }
  }
}

void Journey::mistake(const std::string& what) const { mistakes_.add(where_ + ": " + what); }

std::string Journey::name_of_choice(std::size_t token, std::size_t k) const {
  return fmt::format("{}token {} choice {} (expert {})",
                     direction_ == Direction::out ? "" : "the result of ", token, k,
                     routing_.chosen[token][k].value);
}

void Journey::follow(OpId exchange) {
  for (const RowMove& row : plan_[exchange].exchange()->rows) {
    const std::size_t token = row.token.index();
    if (token >= routing_.chosen.size()) {
      mistake(fmt::format("{} carries token {}, but there are {} tokens", describe(plan_, exchange),
                          token, routing_.chosen.size()));
      continue;
    }
    for (std::size_t k = 0; k < max_top_k && row.choices >> k != 0; ++k) {
      if ((row.choices >> k & 1) != 0) move(exchange, row, k);
    }
  }
}

void Journey::move(OpId exchange, const RowMove& row, std::size_t k) {
  const std::size_t token = row.token.index();
  if (k >= routing_.chosen[token].size() || dropped(token, k)) {
    return mistake(fmt::format("{} carries token {} choice {}, which chose no expert",
                               describe(plan_, exchange), token, k));
  }
  Cargo& cargo = cargo_[first_[token] + k];
  if (cargo.told) return;
  cargo.told = true;
  if (cargo.last == exchange) {
    return mistake(
        fmt::format("{} carries {} twice", describe(plan_, exchange), name_of_choice(token, k)));
  }
  if (cargo.at != row.from) {
    return mistake(fmt::format("{} carries {} from GPU {}, but it is on GPU {}",
                               describe(plan_, exchange), name_of_choice(token, k), row.from.value,
                               cargo.at.value));
  }
  if (direction_ == Direction::back && (cargo.merged & ~row.choices) != 0) {
    return mistake(fmt::format("{} carries {} without choices {}, with which it was summed",
                               describe(plan_, exchange), name_of_choice(token, k),
                               list_text(choice_list(cargo.merged & ~row.choices))));
  }
  cargo.told = false;
  cargo.at = row.to;
  cargo.last = exchange;
  cargo.merged = row.choices;
  if (cargo.first.value < 0) cargo.first = exchange;
}

void Journey::finish() const {
  const bool out = direction_ == Direction::out;
  for (std::size_t token = 0; token < routing_.chosen.size(); ++token) {
    for (std::size_t k = 0; k < routing_.chosen[token].size(); ++k) {
      const Cargo& cargo = cargo_[first_[token] + k];
      if (cargo.told || dropped(token, k)) continue;
      const SlotId slot = slot_of(token, k);
      const GpuId goal =
          out ? routing_.assignment->placement().gpu_of(slot) : routing_.source[token];
      if (cargo.at == goal) continue;
      const std::string purpose =
          out ? fmt::format("reach slot {} on GPU {}", slot.value, goal.value)
              : fmt::format("return to GPU {}", goal.value);
      mistake(fmt::format("{} {} GPU {}; it must {}", name_of_choice(token, k),
                          cargo.last.value < 0 ? "never leaves" : "ends on", cargo.at.value,
                          purpose));
    }
  }
}

CarriedBySlot Journey::carried_by_slot() const {
  CarriedBySlot carried(static_cast<std::size_t>(routing_.assignment->placement().slots()));
  for (std::size_t token = 0; token < routing_.chosen.size(); ++token) {
    for (std::size_t k = 0; k < routing_.chosen[token].size(); ++k) {
      if (dropped(token, k)) continue;
      const Cargo& cargo = cargo_[first_[token] + k];
      const OpId op = direction_ == Direction::out ? cargo.last : cargo.first;
      auto& of_slot = carried[slot_of(token, k).index()];
      auto at = of_slot.begin();
      while (at != of_slot.end() && at->first < op) ++at;
      if (at == of_slot.end() || at->first != op) at = of_slot.insert(at, {op, 0});
      ++at->second;
    }
  }
  return carried;
}

void check_rows_fill_traffic(const Plan& plan, OpId id, Mistakes& mistakes) {
  const Exchange& exchange = *plan[id].exchange();
  const std::int64_t total = exchange.traffic.total().value;
  const auto count = static_cast<std::int64_t>(exchange.rows.size());
  const auto mistake = [&](const std::string& what, std::string hint = "") {
    Diagnostic diagnostic;
    diagnostic.message = describe(plan, id) + what;
    diagnostic.hint = std::move(hint);
    mistakes.add(std::move(diagnostic));
  };
  if (count == 0) {
    if (total > 0 && !exchange.padded) {
      mistake(fmt::format(" moves {} bytes but lists no rows", total),
              "make the plan with explicit rows");
    }
    return;
  }
  if (total == 0 || (!exchange.padded && total % count != 0)) {
    return mistake(fmt::format(": {} rows of one size cannot make {} bytes", count, total));
  }
  const std::int64_t row_bytes = exchange.padded ? exchange.traffic.unit().value : total / count;
  const Group& group = plan[id].group;
  const ByteMatrix traffic = plan[id].traffic().moved();
  const std::size_t members = group.size();
  std::vector<std::size_t> next(members + 1);
  for (const RowMove& row : exchange.rows) ++next[group.member(row.from) + 1];
  for (std::size_t m = 0; m < members; ++m) next[m + 1] += next[m];
  std::vector<std::size_t> targets(exchange.rows.size());  // members, grouped by source
  for (const RowMove& row : exchange.rows) {
    targets[next[group.member(row.from)]++] = group.member(row.to);
  }
  std::vector<std::int64_t> excess(members);  // bytes of the rows less those of the matrix
  for (std::size_t from = 0, begin = 0; from < members; begin = next[from], ++from) {
    const std::size_t end = next[from];
    const auto entries = traffic.row(GpuId(static_cast<std::int64_t>(from)));
    for (const auto& entry : entries) excess[entry.to.index()] -= traffic.bytes(entry).value;
    for (std::size_t i = begin; i < end; ++i) excess[targets[i]] += row_bytes;
    const auto check = [&](std::size_t to) {
      const std::int64_t more = std::exchange(excess[to], 0);
      if (more == 0 || (exchange.padded && more < 0)) return;
      const std::int64_t bytes = plan[id].traffic().at(group[from], group[to]).value;
      mistake(fmt::format(": rows of {} bytes from GPU {} to {} make {} bytes, the matrix has {}",
                          row_bytes, group[from].value, group[to].value, bytes + more, bytes));
    };
    for (const auto& entry : entries) check(entry.to.index());
    for (std::size_t i = begin; i < end; ++i) check(targets[i]);
  }
}

}  // namespace moesim
