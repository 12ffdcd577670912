// SPDX-License-Identifier: Apache-2.0
#include "sim/import/table_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/base/error.h"
#include "sim/base/lower_case.h"
#include "sim/import/file_content.h"

namespace moesim {
namespace {

using Names = std::vector<std::string>;

/// Usual names without punctuation, the most telling first. `token_id` is none: it is a word of the
/// vocabulary more often than a place.
const std::array<Names, table_roles> usual = {{
    {"requestid",  "reqid",     "request",  "req",       "rid",      "seqid",
     "sequenceid", "seqidx",    "sequence", "seq",       "promptid", "promptidx",
     "sampleid",   "sampleidx", "sample",   "exampleid", "docid",    "conversationid",
     "sessionid",  "batchid",   "batchidx", "turn"},
    {"iteration", "iter", "iterationid", "forwardpassid", "forwardpass", "forwardid", "passid",
     "pass", "globalstep", "trainstep", "stepid", "stepidx", "step"},
    {"rank", "sourcerank", "globalrank", "eprank", "dprank"},
    {"tokenidx", "tokenindex", "tokenpos", "tokenposition", "tokennumber", "tokennum", "position",
     "positionid", "pos", "token", "tok"},
    {"layer", "layerid", "layeridx", "layerindex", "layernumber", "layernum", "moelayer",
     "moelayerid", "moelayeridx", "moelayerindex", "blk", "block", "blockidx", "il", "layername",
     "modulename", "module"},
    {"slot", "slotidx", "kidx", "topkslot", "choice", "k"},
    {"topkids",       "moetopkids",    "routerindices",    "topkindices",
     "topkidx",       "topkexperts",   "topkexpertids",    "topindices",
     "expertids",     "expertindices", "selectedexperts",  "selectedexpertids",
     "routedexperts", "activeexperts", "activatedexperts", "chosenexperts",
     "experts",       "expertid",      "expertidx",        "expertindex",
     "expert",        "indices"},
    {"topkweights",   "topkprobs",    "topkscores",     "gateweights",   "gateweight",
     "expertweights", "expertweight", "routingweights", "routingweight", "routerweights",
     "weights",       "weight",       "selectedprobs",  "gatescores",    "gates",
     "gate",          "probs",        "prob",           "scores",        "score"},
    {"count", "counts", "selectioncount", "tokensperexpert", "expertcounts", "expertcount",
     "expertload", "expertloads", "tokencount", "numtokens", "hits", "frequency", "freq",
     "activationcount", "activations"},
    {"phase", "stage"},
}};

/// Names of counts only if they are next to the number of an expert: otherwise they say how many
/// tokens a pass has, or what they are.
const Names counts_of_an_expert = {
    "tokens",        "ntokens",        "totaltokens",     "routedtokens",  "tokensrouted",
    "tokenload",     "assignedtokens", "tokensassigned",  "numassigned",   "load",
    "loads",         "usage",          "usagecount",      "usecount",      "selections",
    "numselections", "timesselected",  "selectedtimes",   "numselected",   "timeschosen",
    "total",         "totalcount",     "totalcounts",     "occurrences",   "cnt",
    "hitcount",      "numhits",        "activatedtokens", "numactivations"};

/// "expert_3" is a column of a list if it is a usual name, short or long, and a number.
bool is_column(const std::string& plain, TableRole role) {
  const auto digits = plain.find_last_not_of("0123456789") + 1;
  if (digits == plain.size() || digits == 0) return false;
  const std::string stem = plain.substr(0, digits);
  static const Names expert_stems = {"expert", "expertid", "e", "exp", "topk", "topkid", "id"};
  static const Names weight_stems = {"weight", "w", "gate", "prob", "p", "score", "topkweight"};
  const Names& stems = role == TableRole::experts ? expert_stems : weight_stems;
  return (role == TableRole::experts || role == TableRole::weights) &&
         std::ranges::find(stems, stem) != stems.end();
}

std::vector<std::size_t> usual_field(const Names& plain, TableRole role) {
  for (const std::string& name : usual[static_cast<std::size_t>(role)]) {
    const auto at = std::ranges::find(plain, name);
    if (at != plain.end()) return {static_cast<std::size_t>(at - plain.begin())};
  }
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (is_column(plain[i], role)) columns.push_back(i);
  }
  return columns;
}

}  // namespace

const std::vector<std::string>& table_role_names() {
  static const Names names = {"request", "step",    "rank",    "token", "layer",
                              "slot",    "experts", "weights", "count", "phase"};
  return names;
}

std::string plain_name(std::string_view name) { return letters_and_digits(name); }

TableFields::TableFields(const std::vector<std::string>& map) {
  for (const std::string& text : map) {
    const auto equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const auto& names = table_role_names();
    const auto role = std::ranges::find(names, name);
    if (equals == std::string::npos || equals + 1 == text.size()) {
      throw Error(fmt::format("--map: '{}' is not ROLE=FIELD", text),
                  fmt::format("roles: {}", fmt::join(names, ", ")));
    }
    if (role == names.end()) {
      throw Error(fmt::format("--map: '{}' is nothing that a field says", name),
                  did_you_mean(name, names));
    }
    std::string& field = mapped_[static_cast<std::size_t>(role - names.begin())];
    if (!field.empty()) throw Error(fmt::format("--map: '{}' is given twice", name));
    field = text.substr(equals + 1);
  }
}

std::array<std::vector<std::size_t>, table_roles> TableFields::find(
    const std::vector<std::string>& names, const std::string& where) const {
  Names plain;
  for (const std::string& name : names) plain.push_back(plain_name(name));
  std::array<std::vector<std::size_t>, table_roles> found;
  for (std::size_t r = 0; r < table_roles; ++r) {
    if (mapped_[r].empty()) {
      found[r] = usual_field(plain, static_cast<TableRole>(r));
      continue;
    }
    const auto at = std::ranges::find(names, mapped_[r]);
    if (at == names.end()) {
      throw Error({{Severity::error, where, 0, 0,
                    fmt::format("has no field '{}', which --map names", mapped_[r]), "",
                    fmt::format("it has {}", some_of(names))}});
    }
    found[r] = {static_cast<std::size_t>(at - names.begin())};
  }
  // A field that is mapped says nothing else, whatever its name.
  for (std::size_t r = 0; r < table_roles; ++r) {
    if (!mapped_[r].empty()) continue;
    std::erase_if(found[r], [&](std::size_t field) {
      return std::ranges::find(mapped_, names[field]) != mapped_.end();
    });
  }
  auto& count = found[static_cast<std::size_t>(TableRole::count)];
  const bool alone = found[static_cast<std::size_t>(TableRole::experts)].size() == 1 &&
                     found[static_cast<std::size_t>(TableRole::token)].empty() &&
                     found[static_cast<std::size_t>(TableRole::slot)].empty();
  for (std::size_t i = 0; i < names.size() && count.empty() && alone; ++i) {
    if (counts_an_expert(names[i])) count = {i};
  }
  // The step of a log whose tokens have no other number is the token's position, unless it counts.
  auto& token = found[static_cast<std::size_t>(TableRole::token)];
  auto& step = found[static_cast<std::size_t>(TableRole::step)];
  const bool position = !step.empty() && plain[step.front()] == "step";
  if (token.empty() && position && count.empty() && !mapped(TableRole::step))
    std::swap(token, step);
  return found;
}

bool TableFields::counts_an_expert(const std::string& name) const {
  return !mapped(TableRole::count) && std::ranges::find(mapped_, name) == mapped_.end() &&
         std::ranges::find(counts_of_an_expert, plain_name(name)) != counts_of_an_expert.end();
}

bool TableFields::makes_row(std::string_view name) const {
  const std::string plain = plain_name(name);
  for (const TableRole role : {TableRole::experts, TableRole::count}) {
    const auto r = static_cast<std::size_t>(role);
    const bool is = mapped_[r].empty() ? std::ranges::find(usual[r], plain) != usual[r].end() ||
                                             is_column(plain, role)
                                       : name == mapped_[r];
    if (is) return true;
  }
  return false;
}

const std::string& TableFields::name_of(TableRole role) const {
  const auto r = static_cast<std::size_t>(role);
  return mapped_[r].empty() ? table_role_names()[r] : mapped_[r];
}

std::optional<TableRole> TableFields::role_of(std::string_view name) const {
  const std::string plain = plain_name(name);
  for (std::size_t r = 0; r < table_roles; ++r) {
    if (mapped_[r].empty() ? std::ranges::find(usual[r], plain) != usual[r].end()
                           : name == mapped_[r]) {
      return static_cast<TableRole>(r);
    }
  }
  return std::nullopt;
}

const RolePlaces& FieldPlaces::find(const std::vector<std::string>& names,
                                    const std::string& where) {
  if (names != names_) {
    places_ = fields_.find(names, where);
    names_ = names;
  }
  return places_;
}

TableFact table_fact(std::string_view name) {
  static const Names experts = {"numexperts",      "nexperts",        "nexpert",
                                "expertcount",     "numlocalexperts", "nroutedexperts",
                                "numroutedexperts"};
  static const Names top_k = {"topk",        "numexpertspertok",   "expertspertoken",
                              "nexpertused", "numexpertspertoken", "moetopk"};
  const std::string plain = plain_name(name);
  if (std::ranges::find(experts, plain) != experts.end()) return TableFact::experts;
  if (std::ranges::find(top_k, plain) != top_k.end()) return TableFact::top_k;
  return TableFact::none;
}

}  // namespace moesim
