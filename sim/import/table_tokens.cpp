// SPDX-License-Identifier: Apache-2.0
#include "sim/import/table_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/most.h"
#include "sim/import/input_hash.h"
#include "sim/import/layer_numbering.h"

namespace moesim {
namespace {

std::optional<Phase> phase_of_word(const std::string& word) {
  if (word.starts_with("prefill") || word.starts_with("extend") || word == "prompt") {
    return Phase::prefill;
  }
  if (word.starts_with("decode") || word.starts_with("generat")) return Phase::decode;
  return word.starts_with("train") ? std::optional(Phase::training) : std::nullopt;
}

std::optional<Phase> phase_of_request(const LoggedRequest& request) {
  std::set<Phase> phases;
  for (const std::string& word : request.phases) {
    if (const auto phase = phase_of_word(word)) phases.insert(*phase);
  }
  if (phases.empty()) return std::nullopt;
  return phases.size() == 1 ? *phases.begin() : Phase::mixed;
}

/// Tokens that all layers have, by their places in each layer; ordered by pass and number.
std::vector<std::vector<LoggedLayer::Token>> common_tokens(const LoggedRequest& request,
                                                           const std::vector<int>& layers) {
  const auto key = [](const LoggedLayer::Token& t) { return std::pair(t.pass, t.number); };
  std::vector<std::vector<LoggedLayer::Token>> tokens;
  for (const int layer : layers) {
    const auto at = request.layers.find(layer);
    if (at == request.layers.end()) return {};
    tokens.push_back(at->second.tokens);
    std::ranges::stable_sort(tokens.back(), {}, key);
  }
  std::vector<std::pair<std::int32_t, std::int64_t>> common;
  for (const auto& token : tokens.front()) common.push_back(key(token));
  for (const auto& its : tokens) {
    std::erase_if(common, [&](const auto& wanted) {
      return !std::ranges::binary_search(its, wanted, {}, key);
    });
  }
  for (auto& its : tokens) {
    std::erase_if(
        its, [&](const auto& token) { return !std::ranges::binary_search(common, key(token)); });
  }
  return tokens;
}

/// A pass of several tokens begins a sequence; passes of one token each, as decoding has them,
/// continue with it.
std::vector<std::int32_t> lengths_of_passes(const std::vector<LoggedLayer::Token>& tokens) {
  std::vector<std::int32_t> lengths;
  for (std::size_t from = 0; from < tokens.size();) {
    std::size_t to = from;
    while (to < tokens.size() && tokens[to].pass == tokens[from].pass) ++to;
    const auto count = static_cast<std::int32_t>(to - from);
    if (lengths.empty() || count > 1) {
      lengths.push_back(count);
    } else {
      lengths.back() += count;
    }
    from = to;
  }
  return lengths;
}

}  // namespace

void LoggedTokens::add_to_layer(LoggedRequest& request, int layer, const TableRow& row,
                                std::optional<std::int64_t> token, std::size_t first,
                                std::size_t count) {
  LoggedLayer& its = request.layers[layer];
  const bool single = row.lists == 0;
  const bool same_run = request.last_layer == layer;
  request.last_layer = layer;
  if (single && token && row.slot) {
    if (!its.seen_slots.insert({*token, *row.slot}).second) {
      its.seen_slots = {{*token, *row.slot}};
      ++its.pass;
    }
    const auto weight = row.weights.size() == 1 ? std::optional(row.weights[0]) : std::nullopt;
    its.slotted.push_back({its.pass, *token, *row.slot, row.experts[first], weight});
    return;
  }
  if (!token) {
    if (!same_run || its.runs.empty()) its.runs.push_back(0);
    ++its.runs.back();
  } else {
    const bool full = choices_ > 0 && static_cast<std::int64_t>(its.ids.size()) % choices_ == 0;
    // A row continues its token until it has all choices; if their number is not known, while rows
    // follow each other.
    const bool goes_on = single && !its.tokens.empty() && its.tokens.back().number == *token &&
                         !full && (choices_ > 0 || same_run);
    if (!goes_on) {
      if (!its.seen.insert(*token).second) {
        its.seen = {*token};
        ++its.pass;
      }
      its.tokens.push_back({its.pass, *token, static_cast<std::int64_t>(its.ids.size())});
    }
  }
  its.ids.insert(its.ids.end(), row.experts.begin() + static_cast<std::ptrdiff_t>(first),
                 row.experts.begin() + static_cast<std::ptrdiff_t>(first + count));
  if (row.weights.size() == row.experts.size()) {
    its.weights.insert(its.weights.end(), row.weights.begin() + static_cast<std::ptrdiff_t>(first),
                       row.weights.begin() + static_cast<std::ptrdiff_t>(first + count));
  }
}

void LoggedTokens::add(const TableRow& row) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    return error_in(row.file, what, hint, row.line);
  };
  const ImportOptions& options = sink_.options();
  const bool single = row.lists == 0;
  const std::int64_t lists = std::max<std::int64_t>(row.lists, 1);
  const auto size = static_cast<std::int64_t>(row.experts.size());
  if (size == 0 || size % lists != 0) {
    throw refuse("has expert ids in lists of different lengths",
                 "every token has the same number of choices");
  }
  if (requests_.empty()) {
    single_ = single;
    choices_ = single ? options.top_k : size / lists;
  } else if (single != single_ || (!single && size / lists != choices_)) {
    throw refuse(fmt::format("has {} expert ids where the rows before have {}",
                             single ? 1 : size / lists, single_ ? 1 : choices_),
                 "");
  }
  if (row.step.value_or(0) < 0) {
    throw refuse(fmt::format("has step {}", *row.step), "--map step=FIELD names another field");
  }
  if (const auto rank = row.rank.value_or(0); rank < -1 || rank > 1 << 20) {
    throw refuse(fmt::format("has rank {}", *row.rank), "--map rank=FIELD names another field");
  }
  const Key key{row.step.value_or(0), file_, row.request, row.rank.value_or(-1)};
  const auto [at, is_new] = index_.emplace(key, requests_.size());
  if (is_new) {
    requests_.push_back(
        {row.request.empty() ? row.file : fmt::format("{}, request {}", row.file, row.request),
         row.step, row.rank});
    keys_.push_back(key);
  }
  LoggedRequest& request = requests_[at->second];
  note_weights(row);
  if (!row.phase.empty()) request.phases.insert(row.phase);
  const auto wanted = [&](std::int64_t layer) {
    return options.layers.empty() ||
           std::ranges::find(options.layers, layer) != options.layers.end();
  };
  const auto& known = options.known_layers();
  for (std::int64_t l = 0; l < lists; ++l) {
    const std::int64_t each = size / lists;
    std::optional<std::int64_t> layer = row.layer;
    if (!layer && known.size() == 1) layer = known.front();
    if (!layer && !single && lists == std::ssize(known)) layer = known[static_cast<std::size_t>(l)];
    if (!layer) layer = layer_of_file(row.file);
    if (!layer || *layer < 0 || *layer > max_layer_number) {
      throw refuse(layer ? fmt::format("has layer {}", *layer) : "does not say its layer",
                   "--map layer=FIELD names it; --layers N if all rows are of layer N");
    }
    // Lists of one layer are its tokens.
    auto token = row.token;
    if (row.layer && row.nested) token = row.token.value_or(0) + l;
    if (wanted(*layer)) {
      add_to_layer(request, static_cast<int>(*layer), row, token,
                   static_cast<std::size_t>(l * each), static_cast<std::size_t>(each));
    } else {
      unwanted_.insert(static_cast<int>(*layer));
      sink_.drop("of layers that --layers does not name", 1);
    }
  }
}

void LoggedTokens::hand_over(LoggedRequest& request, const std::vector<int>& layers,
                             const std::vector<int>& numbers) {
  std::int64_t most = 0;
  for (const auto& [layer, its] : request.layers) most = std::max(most, std::ssize(its.tokens));
  const auto tokens = common_tokens(request, layers);
  const std::int64_t kept = tokens.empty() ? 0 : std::ssize(tokens.front());
  lacking_ += most - kept;
  if (kept == 0) return;
  kept_ = true;
  std::vector<NpyArray> ids, weights;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const LoggedLayer& its = request.layers.at(layers[l]);
    std::vector<std::int32_t> rows;
    std::vector<float> its_weights;
    for (const auto& token : tokens[l]) {
      rows.insert(rows.end(), its.ids.begin() + token.row, its.ids.begin() + token.row + choices_);
      if (its.weights.size() != its.ids.size()) continue;
      its_weights.insert(its_weights.end(), its.weights.begin() + token.row,
                         its.weights.begin() + token.row + choices_);
    }
    if (its_weights.size() == rows.size()) {
      weights.push_back(NpyArray::of(std::move(its_weights), {kept, choices_}, request.where));
    }
    ids.push_back(NpyArray::of(std::move(rows), {kept, choices_}, request.where));
  }
  RoutedPass pass{request.where, ChoiceTable(std::move(ids)), lengths_of_passes(tokens.front())};
  cut_ = cut_ || pass.lengths.size() > 1;
  if (sink_.options().layers.empty()) pass.layers = numbers;
  const auto all_known = [](const NpyArray& array) {
    for (std::int64_t i = 0; i < array.count(); ++i) {
      if (!(array.real(i) >= 0)) return false;
    }
    return true;
  };
  if (weights.size() == layers.size() && std::ranges::all_of(weights, all_known)) {
    pass.weights = ChoiceTable(std::move(weights));
  }
  pass.step = request.step;
  if (request.rank) pass.source_rank = static_cast<int>(*request.rank);
  pass.phase = phase_of_request(request);
  sink_.add(pass);
}

void LoggedTokens::refuse_layers(const std::vector<int>& layers, std::set<int> seen) const {
  const std::string& where = requests_.front().where;
  if (unwanted_.empty()) {
    throw error_in(where,
                   fmt::format("no token has routes of all layers {}", fmt::join(layers, ", ")),
                   "files of separate runs? give one, or --layers");
  }
  seen.insert(unwanted_.begin(), unwanted_.end());
  throw error_in(where,
                 fmt::format("has layers {}, but --layers names {}", fmt::join(seen, ", "),
                             fmt::join(layers, ", ")),
                 "--layers selects by the file's numbers; --numbering moe in its place says that "
                 "only MoE layers are counted, from-1 that 1 is the first");
}

void LoggedTokens::hand_over() {
  join_files();
  group_choices();
  drop_repeated_files();
  std::set<int> seen;
  for (const LoggedRequest& request : requests_) {
    for (const auto& [layer, its] : request.layers) seen.insert(layer);
  }
  const auto& named = sink_.options().layers;
  const std::vector<int> layers =
      named.empty() ? std::vector<int>(seen.begin(), seen.end()) : named;
  const std::vector<int> numbers =
      named.empty() ? numbered_layers(layers, sink_.options(), requests_.front().where) : named;
  const bool steps = std::ranges::any_of(requests_, [](const auto& r) { return bool{r.step}; });
  if (steps) std::ranges::stable_sort(requests_, {}, [](const auto& r) { return r.step; });
  sink_.says_top_k(choices_, requests_.front().where);
  for (LoggedRequest& request : requests_) {
    hand_over(request, layers, numbers);
    request.layers.clear();
  }
  if (!kept_) refuse_layers(layers, seen);
  warn_of_weights();
  if (lacking_ > 0) {
    sink_.drop("of tokens that lack layers", lacking_);
    sink_.warn({Severity::warning, requests_.front().where, 0, 0,
                fmt::format("{} tokens lack routes of some of the layers {}: left out", lacking_,
                            fmt::join(layers, ", ")),
                "",
                "llama.cpp computes its last layer for output tokens only: --layers without it "
                "keeps them; a log that ends early lacks the last"});
  }
  if (cut_) {
    sink_.warn({Severity::warning, requests_.front().where, 0, 0,
                "does not say which tokens are of one sequence: each pass of several begins one",
                "", "--map request=FIELD names the field that does"});
  }
}

}  // namespace moesim
