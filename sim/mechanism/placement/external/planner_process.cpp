// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/external/planner_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json.h"
#include "sim/mechanism/placement/external/packed_loads.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// A whole number of an answer; nothing for anything else.
std::optional<std::int64_t> whole(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<std::int64_t>();
}

std::string start_of(const std::string& text) {
  constexpr std::size_t most = 120;
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

/// Why a list is not the slots of some ranks; empty if it is.
std::string mistake_in(const Json& lists, const SlotTable& now, int experts, SlotTable& table) {
  if (lists.size() != now.size()) {
    return fmt::format("slots of {} ranks, there are {}", lists.size(), now.size());
  }
  std::vector<bool> has_slot(static_cast<std::size_t>(experts));
  for (std::size_t r = 0; r < now.size(); ++r) {
    if (!lists[r].is_array() || lists[r].size() != now[r].size()) {
      return fmt::format("rank {} has {} slots, not {}", r, now[r].size(),
                         lists[r].is_array() ? lists[r].size() : 1);
    }
    auto& rank = table.emplace_back();
    for (const Json& item : lists[r]) {
      const auto expert = whole(item);
      if (!expert || *expert < 0 || *expert >= experts) {
        return fmt::format("{} on rank {} is not an expert from 0 to {}", start_of(item.dump()), r,
                           experts - 1);
      }
      rank.emplace_back(*expert);
      has_slot[static_cast<std::size_t>(*expert)] = true;
    }
  }
  const auto missing = std::ranges::find(has_slot, false);
  return missing == has_slot.end()
             ? ""
             : fmt::format("expert {} has no slot", missing - has_slot.begin());
}

bool is_one_list(const Json& slots) {
  return slots.is_array() && !slots.empty() && !slots.front().is_array();
}

/// One list over all ranks as a list for each; no lists if it does not fit.
Json by_ranks(const Json& slots, const SlotTable& now) {
  Json lists = Json::array();
  std::size_t next = 0;
  for (const auto& rank : now) {
    Json list = Json::array();
    for (std::size_t s = 0; s < rank.size() && next < slots.size(); ++s)
      list.push_back(slots[next++]);
    lists.push_back(std::move(list));
  }
  return next == slots.size() ? lists : Json::array();
}

}  // namespace

PlannerProcess::PlannerProcess(const std::string& command, Seconds limit)
    : command_(command),
      process_(command, std::chrono::milliseconds(
                            static_cast<std::int64_t>(std::ceil(limit.value * 1000)))) {}

void PlannerProcess::lied(const std::string& what) const {
  throw Error(fmt::format("'{}' answers {}", command_, what),
              "docs/external-policies.md has the protocol");
}

Json PlannerProcess::answer(const Json& asked, const LoadMatrix* loads) {
  std::string question = asked.dump();
  PackedLoads given;
  if (loads != nullptr) {
    if (packed_) given = packed(*loads);
    question.back() = ',';  // a text is many times as fast as a tree of numbers
    question += "\"loads\":" + (packed_ ? given.shape : lists_of(*loads)) + '}';
  }
  const std::string line = process_.ask(question, given.bytes);
  try {
    return parse_json(line, {command_, 1});
  } catch (const Error&) {
    lied(fmt::format("what is not JSON: {}", start_of(line)));
  }
}

void PlannerProcess::begin(const Json& greeting) { answer(greeting); }

SlotTable PlannerProcess::first(const Json& greeting, int experts, const SlotTable& initial) {
  const Json said = answer(greeting);
  packed_ = said.is_object() && said.value("binary", Json()) == true;
  return slots_in(said, initial, experts).value_or(initial);
}

std::optional<SlotTable> PlannerProcess::slots(const Json& asked, const SlotTable& now, int experts,
                                               const LoadMatrix* loads) {
  return slots_in(answer(asked, loads), now, experts);
}

std::optional<SlotTable> PlannerProcess::slots_in(const Json& said, const SlotTable& now,
                                                  int experts) const {
  if (said.is_null() || (said.is_object() && !said.contains("slots"))) return std::nullopt;
  const Json& slots = said.is_object() ? said.at("slots") : said;
  if (slots.is_null()) return std::nullopt;
  const Json regrouped = is_one_list(slots) ? by_ranks(slots, now) : Json();
  const Json& lists = regrouped.is_null() ? slots : regrouped;
  if (!lists.is_array()) lied("no list of slots: " + start_of(said.dump()));
  SlotTable table;
  if (const std::string mistake = mistake_in(lists, now, experts, table); !mistake.empty()) {
    lied(mistake);
  }
  return table;
}

Assignment PlannerProcess::shares(const Json& asked, Placement slots, const LoadMatrix* loads) {
  const Json said = answer(asked, loads);
  const Json rows = said.is_object() ? said.value("shares", Json()) : said;
  if (!rows.is_array() || rows.size() != static_cast<std::size_t>(slots.gpus())) {
    lied(fmt::format("no shares of {} ranks: {}", slots.gpus(), start_of(said.dump())));
  }
  std::vector<std::vector<Shares>> all;
  for (const Json& row : rows) {
    auto& of_rank = all.emplace_back();
    if (!row.is_array() || row.size() != static_cast<std::size_t>(slots.experts())) {
      lied(fmt::format("shares of a rank that are not of {} experts", slots.experts()));
    }
    for (const Json& pairs : row) {
      Shares& shares = of_rank.emplace_back();
      for (const Json& pair : pairs) {
        const bool two = pair.is_array() && pair.size() == 2;
        const auto slot = two ? whole(pair[0]) : std::nullopt;
        const auto count = two ? whole(pair[1]) : std::nullopt;
        if (!slot || !count || *slot < 0 || *slot >= slots.slots()) {
          lied(fmt::format("{}, which is not [slot, count]", start_of(pair.dump())));
        }
        shares.push_back({SlotId(*slot), *count});
      }
    }
  }
  try {
    return Assignment(std::move(slots), all);
  } catch (const Error& e) {
    lied(fmt::format("shares that cannot be: {}", e.diagnostics().front().message));
  }
}

std::vector<int> PlannerProcess::ids(const Json& asked, std::size_t rows, std::size_t columns,
                                     int experts) {
  const Json said = answer(asked);
  const Json lists = said.is_object() ? said.value("ids", Json()) : said;
  if (!lists.is_array() || lists.size() != rows) {
    lied(fmt::format("no ids of {} tokens: {}", rows, start_of(said.dump())));
  }
  std::vector<int> ids;
  for (const Json& list : lists) {
    if (!list.is_array() || list.size() != columns) {
      lied(fmt::format("{}, which is not {} experts of a token", start_of(list.dump()), columns));
    }
    for (const Json& item : list) {
      const auto expert = whole(item);
      if (!expert || *expert >= experts) {
        lied(fmt::format("{}, which is not an expert", start_of(item.dump())));
      }
      const int id = static_cast<int>(std::max<std::int64_t>(*expert, -1));
      const auto row = ids.end() - (std::ssize(ids) % static_cast<std::ptrdiff_t>(columns));
      if (id >= 0 && std::find(row, ids.end(), id) != ids.end()) {
        lied(fmt::format("{}, which has expert {} twice", start_of(list.dump()), id));
      }
      ids.push_back(id);
    }
  }
  return ids;
}

Json table_of(const SlotTable& slots) {
  Json rows = Json::array();
  for (const auto& rank : slots) {
    Json row = Json::array();
    for (const ExpertId e : rank) row.push_back(e.value);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace moesim
