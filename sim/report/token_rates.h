// SPDX-License-Identifier: Apache-2.0
// Whose rates the exchanges of tokens of a case have: those of a data sheet, which nothing is taken
// off, are better than measured ones of the same link.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "sim/report/case_report.h"

namespace moesim {

/// Names of the classes of links by which a case exchanges tokens.
struct TokenRates {
  std::set<std::string> by_data_sheet;
  std::set<std::string> of_transport;  // measured or assumed
  void add(const std::string& name, bool by_sheet) {
    (by_sheet ? by_data_sheet : of_transport).insert(name);
  }
};

/// Of an iteration those on its critical path.
TokenRates token_rates(const CaseResult& c);

/// The classes of which one case has a data sheet's rates and the other its transport's: the order
/// of the two is not known.
std::set<std::string> contested(const TokenRates& a, const TokenRates& b);

/// Adds `token_rates`: by class "data sheet" or "transport".
void add_token_rates(nlohmann::ordered_json& json, const CaseResult& c);

}  // namespace moesim
