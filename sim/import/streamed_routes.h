// SPDX-License-Identifier: Apache-2.0
// Responses that servers send in chunks: those of one id are one request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/import/import_sink.h"
#include "sim/import/json_items.h"
#include "sim/trace/npy.h"

namespace moesim {

/// Hands requests over as they come, and those of chunks at the end.
class RequestRoutes {
 public:
  explicit RequestRoutes(ImportSink& sink) : sink_(sink) {}
  const ImportOptions& options() const { return sink_.options(); }

  /// What is added from now on is of this response, of its first choice.
  void begin(const JsonElement& response);
  /// The response is a chunk of one that is sent in several.
  bool in_chunks() const { return !id_.empty(); }
  /// What is added from now on is of this choice.
  void choose(const JsonElement& choice);
  /// Routes [token][layer][choice] of the response's choice. A chunk's are the next, or all so far.
  /// Servers and what is before them may each put the same ones into a response: these count once.
  void add(const NpyArray& ids, const std::string& where);

  /// Throws Error if text of routes, which has no shape, was read with another number of layers
  /// before: of a model with MTP some lengths fit with and without its layers.
  void check_layers(const JsonElement& routes, const NpyArray& ids, const std::string& where);

  /// So many more keys of this response have routes that are read, or that others repeat.
  void uses_keys(std::int64_t keys) { keys_used_ += keys; }
  std::int64_t keys_used() const { return keys_used_; }
  /// Routes begin behind so many tokens, of a prompt that was cached; below 0: they do not say.
  void begin_at(std::int64_t token) { left_out_ = std::max(left_out_, token); }

  /// Tokens of all routes that were added to this response, and of the prompt before them.
  std::int64_t tokens() const { return tokens_ + left_out_; }

  /// Hands over the requests of chunks; returns how many responses in chunks had no routes.
  std::int64_t finish();

 private:
  struct Request {
    std::string where;
    std::vector<std::int32_t> ids = {};
    std::vector<std::int64_t> shape = {};
    bool grows = false;  // a chunk had all of those before
  };
  bool is_repeated(const NpyArray& ids);
  void append(Request& request, const NpyArray& ids, const std::string& where) const;

  ImportSink& sink_;
  std::string id_;  // of a response in chunks; empty: it is whole
  std::int64_t index_ = 0, tokens_ = 0, left_out_ = 0, keys_used_ = 0;
  std::int64_t layers_of_text_ = 0;  // 0: none so far
  bool in_choice_ = false;
  std::vector<NpyArray> next_to_choices_, in_this_choice_;  // of this response
  std::map<std::string, bool> streams_;  // ids of responses in chunks; whether they have routes
  std::map<std::pair<std::string, std::int64_t>, std::size_t> at_;
  std::vector<Request> requests_;
};

}  // namespace moesim
