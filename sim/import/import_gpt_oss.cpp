// SPDX-License-Identifier: Apache-2.0
// GPT-OSS expert fingerprinting (github.com/AmanPriyanshu/GPT-OSS-MoE-ExpertFingerprinting): JSON
// with router_data: [{"token_<position>": {"layer_<l>": {"selected_experts": [..],
// "selected_probs": [..]}}}] of the decoded tokens of one request. Read as a stream: files reach
// megabytes.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "sim/base/figures.h"
#include "sim/base/json_events.h"
#include "sim/base/most.h"
#include "sim/base/read_number.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/json_items.h"

namespace moesim {
namespace {

/// The choices of one token in one layer.
struct Row {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

struct Token {
  std::int64_t position = 0;
  std::map<int, Row> layers;
};

using Request = std::vector<Token>;

/// The number after `prefix`, or -1.
std::int64_t number_after(std::string_view key, std::string_view prefix) {
  if (!key.starts_with(prefix)) return -1;
  return parse_integer<std::int64_t>(key.substr(prefix.size())).value_or(-1);
}

/// Takes router_data out of the stream; knows where it is by the keys of the open containers:
/// router_data > (item) > token_<position> > layer_<l> > selected_experts or selected_probs.
class RouterData : public JsonEvents {
 public:
  explicit RouterData(const std::string& file) : file_(file) {}
  std::vector<Request> take() { return std::move(requests_); }

  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    const bool begins = root_ == 0 && key_ == "router_data" && path_.size() <= 2;
    open();
    if (begins) requests_.emplace_back(), root_ = path_.size();
    return true;
  }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    key_ = name;
    if (root_ == 0) return true;
    if (const std::size_t depth = path_.size() - root_; depth == 1) {
      const std::int64_t position = number_after(name, "token_");
      if (position < 0 || position > most_tokens) {
        throw error_in(file_, fmt::format("router_data: '{}' is not a token", name));
      }
      requests_.back().push_back({position, {}});
    } else if (depth == 2 && path_.back().starts_with("token_")) {
      const std::int64_t layer = number_after(name, "layer_");
      if (layer < 0 || layer > max_layer_number) {
        throw error_in(file_, fmt::format("router_data: '{}' is not a layer", name));
      }
      layer_ = static_cast<int>(layer);
    }
    return true;
  }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const std::string&) override { return number(value); }

 private:
  static constexpr std::int64_t most_tokens = std::int64_t{1} << 40;

  bool open() {
    path_.push_back(key_);
    key_.clear();
    return true;
  }
  bool close() {
    if (path_.size() == root_) root_ = 0;
    return path_.pop_back(), true;
  }
  /// Whether the open list is one of a layer of a token.
  bool in_layer() const {
    return root_ > 0 && path_.size() == root_ + 4 && path_[root_ + 1].starts_with("token_") &&
           path_[root_ + 2].starts_with("layer_");
  }
  bool number(double value) {
    if (!in_layer()) return true;
    Row& row = requests_.back().back().layers[layer_];
    if (path_.back() == "selected_experts") {
      if (!(value >= 0 && value < max_experts && value == std::floor(value))) {
        throw error_in(file_, fmt::format("token_{}: layer_{} chose expert {}",
                                          requests_.back().back().position, layer_, value));
      }
      row.experts.push_back(static_cast<int>(value));
    } else if (path_.back() == "selected_probs") {
      row.weights.push_back(static_cast<float>(value));
    }
    return true;
  }

  std::string file_;
  std::vector<Request> requests_;
  std::vector<std::string> path_;  // the key of every open container, "" in lists
  std::string key_;                // of the value to come
  std::size_t root_ = 0;           // containers open inside router_data, 0 outside of it
  int layer_ = 0;
};

std::vector<Request> read_requests(const JsonItems& items) {
  RouterData data(items.path());
  parse_json(items.text(), {items.path(), items.line()}, data);
  std::vector<Request> requests = data.take();
  if (requests.empty()) throw error_in(items.path(), "has no router_data", "", items.line());
  return requests;
}

void check_token(const Token& token, const Token& first, std::int64_t expected, int experts,
                 const std::string& file) {
  if (token.position != expected) {
    throw error_in(file,
                   fmt::format("token_{} comes where token_{} is due", token.position, expected));
  }
  const auto in_token = [&](const std::string& what) {
    return error_in(file, fmt::format("token_{}: {}", token.position, what));
  };
  if (token.layers.size() != first.layers.size()) {
    throw in_token(fmt::format("has {} but the first token has {}",
                               counted(token.layers.size(), "layer"), first.layers.size()));
  }
  const std::size_t top_k = first.layers.begin()->second.experts.size();
  for (const auto& [layer, row] : token.layers) {
    if (!first.layers.contains(layer)) {
      throw in_token(fmt::format("has layer_{} but the first token has not", layer));
    }
    if (row.experts.size() != top_k) {
      throw in_token(fmt::format("layer_{} has {} experts but the first token has {}", layer,
                                 row.experts.size(), top_k));
    }
    if (row.weights.size() != top_k) {
      throw in_token(fmt::format("layer_{} has {} probabilities for {} experts", layer,
                                 row.weights.size(), top_k));
    }
    for (const int id : row.experts) {
      if (id < 0 || id >= experts) {
        throw in_token(
            fmt::format("layer_{} chose expert {} of a model with {} experts", layer, id, experts));
      }
    }
  }
}

/// The rows of a request as the arrays of a pass.
RoutedPass pass_of(const Request& request, const std::string& file) {
  const auto tokens = std::ssize(request);
  std::vector<NpyArray> ids, weights;
  std::vector<int> layers;
  for (const auto& [layer, first] : request[0].layers) {
    const auto top_k = std::ssize(first.experts);
    std::vector<std::int32_t> layer_ids;
    std::vector<float> layer_weights;
    for (const Token& token : request) {
      const Row& row = token.layers.at(layer);
      layer_ids.insert(layer_ids.end(), row.experts.begin(), row.experts.end());
      layer_weights.insert(layer_weights.end(), row.weights.begin(), row.weights.end());
    }
    ids.push_back(NpyArray::of(std::move(layer_ids), {tokens, top_k}, file));
    weights.push_back(NpyArray::of(std::move(layer_weights), {tokens, top_k}, file));
    layers.push_back(layer);
  }
  RoutedPass pass{file, ChoiceTable(std::move(ids)), {static_cast<std::int32_t>(tokens)}};
  pass.layers = layers;
  pass.weights = ChoiceTable(std::move(weights));
  pass.phase = Phase::decode;
  pass.warm_up_first = false;
  return pass;
}

void check_top_k(const Token& first, const ImportOptions& options, const std::string& file) {
  const auto top_k = first.layers.begin()->second.experts.size();
  if (options.top_k == 0 || static_cast<std::size_t>(options.top_k) == top_k) return;
  throw error_in(file,
                 fmt::format("has {} experts per token but top-k is {}", top_k, options.top_k));
}

/// The requests of a file; `first` is the first token of all files.
void add_requests(const std::vector<Request>& requests, const std::string& file,
                  std::optional<Token>& first, ImportSink& sink) {
  for (const Request& request : requests) {
    if (request.empty()) throw error_in(file, "has a request without tokens");
    if (!first) {
      first = request[0];
      if (first->layers.empty() || first->layers.begin()->second.experts.empty()) {
        throw error_in(file, fmt::format("token_{} chose no experts", first->position));
      }
      check_top_k(*first, sink.options(), file);
    }
    for (std::size_t t = 0; t < request.size(); ++t) {
      const auto expected = request[0].position + static_cast<std::int64_t>(t);
      check_token(request[t], *first, expected, sink.experts(), file);
    }
    sink.add(pass_of(request, file));
  }
}

}  // namespace

void import_gpt_oss(ImportSink& sink) {
  std::optional<Token> first;
  const auto files = input_files(sink.options().inputs);
  for (std::size_t i = 0; i < files.size(); ++i) {
    JsonItems items(files[i]);
    while (items.next_text()) {
      sink.progress((static_cast<double>(i) + items.done()) / static_cast<double>(files.size()));
      add_requests(read_requests(items), files[i], first, sink);
    }
    if (items.number() < 0) throw error_in(files[i], "has no router_data");
  }
}

}  // namespace moesim
