// SPDX-License-Identifier: Apache-2.0
#include "sim/report/token_rates.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

namespace moesim {
namespace {

bool carries_tokens_by(const CaseResult& c, std::size_t link_class) {
  const Traffic& traffic = c.metrics.total.traffic;
  if (link_class < traffic.link_class.size()) return traffic.link_class[link_class] > 0;
  const std::string& name = c.topology->classes()[link_class].name;
  return std::ranges::any_of(std::array{PathKind::dispatch, PathKind::combine}, [&](PathKind k) {
    const TimeByResource& by = c.metrics.path.of(k).by;
    return by.contains(name) || by.contains("shared " + name);
  });
}

}  // namespace

TokenRates token_rates(const CaseResult& c) {
  TokenRates rates;
  if (c.topology == nullptr) return rates;
  for (std::size_t i = 0; i < c.topology->classes().size(); ++i) {
    if (!carries_tokens_by(c, i)) continue;
    rates.add(c.topology->classes()[i].name, std::ranges::count(c.by_data_sheet, i) > 0);
  }
  return rates;
}

std::set<std::string> contested(const TokenRates& a, const TokenRates& b) {
  std::set<std::string> all;
  std::ranges::set_intersection(a.by_data_sheet, b.of_transport, std::inserter(all, all.end()));
  std::ranges::set_intersection(a.of_transport, b.by_data_sheet, std::inserter(all, all.end()));
  return all;
}

void add_token_rates(nlohmann::ordered_json& json, const CaseResult& c) {
  const TokenRates rates = token_rates(c);
  for (const std::string& name : rates.by_data_sheet) json["token_rates"][name] = "data sheet";
  for (const std::string& name : rates.of_transport) json["token_rates"][name] = "transport";
}

}  // namespace moesim
