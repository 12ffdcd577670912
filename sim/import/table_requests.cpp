// SPDX-License-Identifier: Apache-2.0
// What the requests of a log are, once all its rows are read.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/base/figures.h"
#include "sim/import/repeated_ranks.h"
#include "sim/import/table_tokens.h"

namespace moesim {
namespace {

bool same_routes(const LoggedRequest& a, const LoggedRequest& b) {
  return std::ranges::equal(a.layers, b.layers, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.ids == y.second.ids;
  });
}

}  // namespace

void LoggedTokens::note_weights(const TableRow& row) {
  weighted_ = weighted_ || !row.weights.empty();
  if (unweighted_) return;
  const auto negative = std::ranges::find_if(row.weights, [](float weight) { return weight < 0; });
  std::string what;
  if (row.weights.size() != row.experts.size()) {
    what = fmt::format("{} for {}", counted(std::ssize(row.weights), "weight"),
                       counted(std::ssize(row.experts), "expert id"));
  } else if (negative != row.weights.end()) {
    what = fmt::format("weight {}", *negative);
  } else {
    return;
  }
  unweighted_ = Diagnostic{Severity::warning,
                           row.file,
                           row.line,
                           0,
                           fmt::format("has {}: the weights of its request are left out", what),
                           "",
                           "a weight from 0 up for each id keeps them"};
}

void LoggedTokens::warn_of_weights() {
  if (weighted_ && unweighted_) sink_.warn(*unweighted_);
}

/// Choices of each token in the order of their slots, tokens in the order of their first rows.
void LoggedTokens::join_slots(LoggedLayer& its) const {
  using Token = std::pair<std::int32_t, std::int64_t>;
  std::map<Token, std::vector<const LoggedLayer::SlottedChoice*>> choices;
  std::vector<Token> order;
  for (const auto& choice : its.slotted) {
    auto& of_token = choices[{choice.pass, choice.token}];
    if (of_token.empty()) order.emplace_back(choice.pass, choice.token);
    of_token.push_back(&choice);
  }
  for (const Token& token : order) {
    auto& of_token = choices[token];
    std::ranges::sort(of_token, {}, &LoggedLayer::SlottedChoice::slot);
    its.tokens.push_back({token.first, token.second, std::ssize(its.ids)});
    for (const auto* choice : of_token) {
      its.ids.push_back(choice->id);
      if (choice->weight) its.weights.push_back(*choice->weight);
    }
  }
  its.slotted = {};
  its.seen_slots.clear();
}

/// Loggers that write a file per layer: their files are of the same requests.
void LoggedTokens::join_files() {
  std::map<int, int> file_of_layer;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    for (const auto& [layer, its] : requests_[i].layers) {
      const auto [at, is_new] = file_of_layer.emplace(layer, keys_[i].file);
      if (!is_new && at->second != keys_[i].file) return;
    }
  }
  std::map<Key, std::size_t> joined;
  std::vector<LoggedRequest> requests;
  std::vector<Key> keys;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Key key = keys_[i];
    key.file = 0;
    const auto [at, is_new] = joined.emplace(key, requests.size());
    if (is_new) {
      requests.push_back(std::move(requests_[i]));
      keys.push_back(key);
    } else {
      requests[at->second].layers.merge(requests_[i].layers);
    }
  }
  requests_ = std::move(requests);
  keys_ = std::move(keys);
}

/// Ranks of a tensor-parallel group log the same tokens, each in its file.
void LoggedTokens::drop_repeated_files() {
  std::map<std::pair<std::string, std::int64_t>, std::vector<std::size_t>> alike;
  std::set<std::size_t> repeated;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    auto& others = alike[{keys_[i].request, keys_[i].step}];
    for (const std::size_t other : others) {
      if (keys_[other].file == keys_[i].file || !same_routes(requests_[other], requests_[i])) {
        continue;
      }
      repeated.insert(i);
    }
    others.push_back(i);
  }
  for (auto i = repeated.rbegin(); i != repeated.rend(); ++i) {
    std::int64_t rows = 0;
    for (const auto& [layer, its] : requests_[*i].layers) rows += std::ssize(its.ids);
    sink_.drop(repeated_rank_rows, rows / std::max<std::int64_t>(choices_, 1));
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(*i));
  }
}

/// Rows without a token number follow each other: choice by choice, token by token, until the log
/// continues with another layer.
void LoggedTokens::group_choices() {
  for (LoggedRequest& request : requests_) {
    for (auto& [layer, its] : request.layers) join_slots(its);
  }
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (const LoggedRequest& request : requests_) {
    for (const auto& [layer, its] : request.layers) {
      for (const std::int64_t run : its.runs) shortest = std::min(shortest, run);
      if (choices_ == 0 && !its.tokens.empty()) {
        const bool alone = its.tokens.size() == 1;
        choices_ = alone ? std::ssize(its.ids) : its.tokens[1].row;
      }
    }
  }
  if (choices_ == 0) {
    throw error_in(
        requests_.front().where, "does not say how many experts a token chooses",
        fmt::format("give --model or --top-k; no layer has fewer than {} before the next one's",
                    counted(shortest, "row")));
  }
  for (LoggedRequest& request : requests_) {
    for (auto& [layer, its] : request.layers) {
      number_runs(request, layer, its);
      // A log that ends early lacks choices of its last token.
      const bool last = layer == request.last_layer;
      if (last && !its.tokens.empty() && its.tokens.back().row + choices_ > std::ssize(its.ids)) {
        its.ids.resize(static_cast<std::size_t>(its.tokens.back().row));
        its.weights.resize(std::min(its.weights.size(), its.ids.size()));
        its.tokens.pop_back();
      }
      check_choices(request, layer, its);
    }
  }
}

/// Tokens of rows that do not number them: places in runs of rows of one layer.
void LoggedTokens::number_runs(const LoggedRequest& request, int layer, LoggedLayer& its) const {
  const std::int64_t rows = single_ ? choices_ : 1;  // of a token
  for (std::size_t r = 0; r < its.runs.size(); ++r, ++its.pass) {
    const std::int64_t run = its.runs[r];
    const bool cut = layer == request.last_layer && r + 1 == its.runs.size();
    if (run % rows != 0 && !cut) {
      throw error_in(request.where,
                     fmt::format("has {} of layer {} in a row: no tokens of {} choices",
                                 counted(run, "row"), layer, rows));
    }
    // Counted from the end: if a layer has fewer, as llama.cpp's last, they are the last.
    for (std::int64_t t = -(run / rows); t < 0; ++t) {
      its.tokens.push_back({its.pass, t, std::ssize(its.tokens) * choices_});
    }
  }
}

void LoggedTokens::check_choices(const LoggedRequest& request, int layer,
                                 const LoggedLayer& its) const {
  for (std::size_t t = 0; t < its.tokens.size(); ++t) {
    const std::int64_t due = static_cast<std::int64_t>(t) * choices_;
    if (its.tokens[t].row == due && due + choices_ <= std::ssize(its.ids)) continue;
    // Choices of the token before are missing, or too many, unless this is the last.
    const bool before = its.tokens[t].row != due;
    const auto& token = its.tokens[before ? t - 1 : t];
    const std::int64_t has = (before ? its.tokens[t].row : std::ssize(its.ids)) - token.row;
    throw error_in(request.where,
                   fmt::format("token {} of layer {} has {} of {} choices", token.number, layer,
                               has, choices_),
                   "a list of them is [2, 4] or 2,4");
  }
}

}  // namespace moesim
