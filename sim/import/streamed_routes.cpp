// SPDX-License-Identifier: Apache-2.0
#include "sim/import/streamed_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/import/encoded_routes.h"

namespace moesim {
namespace {

std::string text_at(const JsonElement& value, const char* key) {
  const auto found = json_at(value, key);
  std::string_view text;
  return found && found->get(text) == simdjson::SUCCESS ? std::string(text) : "";
}

/// Whether an object says that its text is not finished, with null.
bool is_open(const JsonElement& value) {
  simdjson::dom::element reason;
  return value.at_key("finish_reason").get(reason) == simdjson::SUCCESS && reason.is_null();
}

/// Whether a response says that it is a part of one: as OpenAI's API ("chat.completion.chunk", a
/// delta) or SGLang's of /generate.
bool is_chunk(const JsonElement& response) {
  if (text_at(response, "object").ends_with(".chunk")) return true;
  const auto info = json_at(response, "meta_info");
  if (info && is_open(*info)) return true;
  simdjson::dom::array choices;
  const auto list = json_at(response, "choices");
  if (!list || list->get(choices) != simdjson::SUCCESS) return false;
  return std::any_of(choices.begin(), choices.end(), [](const JsonElement& choice) {
    return json_at(choice, "delta") || is_open(choice);
  });
}

bool same_routes(const NpyArray& a, const NpyArray& b) {
  if (a.shape() != b.shape()) return false;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    if (a.integer(i) != b.integer(i)) return false;
  }
  return true;
}

}  // namespace

void RequestRoutes::begin(const JsonElement& response) {
  index_ = tokens_ = left_out_ = keys_used_ = 0;
  in_choice_ = false;
  next_to_choices_.clear();
  in_this_choice_.clear();
  id_ = text_at(response, "id");
  const auto info = json_at(response, "meta_info");
  if (id_.empty() && info) id_ = text_at(*info, "id");
  if (id_.empty()) return;
  if (!streams_.contains(id_) && !is_chunk(response)) {
    id_.clear();
  } else {
    streams_.emplace(id_, false);
  }
}

void RequestRoutes::choose(const JsonElement& choice) {
  in_choice_ = true;
  in_this_choice_.clear();
  index_ = std::max<std::int64_t>(json_number(json_at(choice, "index"), std::int64_t{1} << 30), 0);
}

/// Whether the choice, or the response next to its choices, has them already. What is next to the
/// choices is of one of them: others may have taken the same routes.
bool RequestRoutes::is_repeated(const NpyArray& ids) {
  const auto same = [&](const NpyArray& other) { return same_routes(ids, other); };
  auto& here = in_choice_ ? in_this_choice_ : next_to_choices_;
  if (std::ranges::any_of(here, same)) return true;
  here.push_back(ids);
  const auto outside = std::ranges::find_if(next_to_choices_, same);
  if (!in_choice_ || outside == next_to_choices_.end()) return false;
  next_to_choices_.erase(outside);
  return true;
}

void RequestRoutes::check_layers(const JsonElement& routes, const NpyArray& ids,
                                 const std::string& where) {
  if (!routes.is_string() || ids.shape().size() != 3) return;
  const std::int64_t layers = ids.shape()[1];
  const std::int64_t before = std::exchange(layers_of_text_, layers);
  if (before == 0 || before == layers) return;
  throw error_in(where,
                 fmt::format("holds {} bytes of routes that may be of {} layers a token, as those "
                             "before are not",
                             ids.shape()[0] * layers * ids.shape()[2], layers),
                 fmt::format("--layers 0:{} if multi-token prediction is among them, else 0:{}",
                             std::max(before, layers), std::min(before, layers)));
}

void RequestRoutes::add(const NpyArray& ids, const std::string& where) {
  if (is_repeated(ids)) return;
  tokens_ += ids.shape().empty() ? 0 : ids.shape()[0];
  if (id_.empty()) return add_request(sink_, ids, where);
  streams_[id_] = true;
  const auto [at, is_new] = at_.emplace(std::pair(id_, index_), requests_.size());
  if (is_new) requests_.push_back({where});
  append(requests_[at->second], ids, where);
}

void RequestRoutes::append(Request& request, const NpyArray& ids, const std::string& where) const {
  auto& shape = request.shape;
  const auto& added = ids.shape();
  if (added.size() != 3 || (!shape.empty() && (added[1] != shape[1] || added[2] != shape[2]))) {
    throw error_in(where,
                   fmt::format("holds routes {} after {}", shape_text(added), shape_text(shape)),
                   "chunks of a response have [token][layer][choice]");
  }
  if (shape.empty()) shape = {0, added[1], added[2]};
  bool again = added[0] > shape[0] || (request.grows && added[0] == shape[0]);
  for (std::int64_t i = 0; again && i < std::ssize(request.ids); ++i) {
    again = ids.integer(i) == request.ids[static_cast<std::size_t>(i)];
  }
  for (std::int64_t i = again ? std::ssize(request.ids) : 0; i < ids.count(); ++i) {
    request.ids.push_back(static_cast<std::int32_t>(ids.integer(i)));
  }
  request.grows = request.grows || (again && shape[0] > 0);
  shape[0] = again ? added[0] : shape[0] + added[0];
}

std::int64_t RequestRoutes::finish() {
  for (Request& request : requests_) {
    add_request(sink_, NpyArray::of(std::move(request.ids), request.shape, request.where),
                request.where);
  }
  return std::ranges::count_if(streams_, [](const auto& stream) { return !stream.second; });
}

}  // namespace moesim
