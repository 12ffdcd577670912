// SPDX-License-Identifier: Apache-2.0
#include "sim/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/base/json_events.h"
#include "sim/base/json_members.h"
#include "sim/base/text.h"

namespace moesim {
namespace {

/// Where lists and objects are nested deeper than max_nesting; npos if nowhere. nlohmann's parser
/// is a loop, but what walks its trees recurses: copies, dumps and ours.
std::size_t too_deep_at(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      if (c == '\\') ++at;
    } else if (c == '[' || c == '{') {
      if (++depth > max_nesting) return at;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return std::string_view::npos;
}

void check_nesting(std::string_view text, const JsonPlace& place) {
  const std::size_t at = too_deep_at(text);
  if (at == std::string_view::npos) return;
  throw error_at(place.file, text, at,
                 fmt::format("more than {} lists and objects inside each other", max_nesting),
                 place.hint, place.first_line);
}

void check(std::string_view text, const JsonPlace& place) {
  check_text(text, place.file, place.first_line);
  check_nesting(text, place);
}

/// nlohmann's message from its last part on, without what it last read, which may be long:
/// "unexpected end of input; expected '}'".
std::string reason_of(const std::string& message) {
  std::string reason = message.substr(std::min(message.find("] ") + 2, message.size()));
  if (const auto at = reason.find(" - "); at != std::string::npos) reason.erase(0, at + 3);
  const auto token = reason.find("; last read: ");
  if (token == std::string::npos) return reason;
  const auto expected = reason.rfind("; expected ");
  const bool after = expected != std::string::npos && expected > token;
  return reason.substr(0, token) + (after ? reason.substr(expected) : "");
}

/// `read` counts the bytes up to and with the one that does not fit.
Error not_json(std::string_view text, const JsonPlace& place, std::size_t read,
               const std::string& message) {
  const std::size_t at = std::min(read == 0 ? 0 : read - 1, text.size());
  // For no text at all nlohmann's versions say different things.
  const std::string reason = text.empty()
                                 ? "unexpected end of input; expected '[', '{', or a literal"
                                 : reason_of(message);
  return error_at(place.file, text, at, "not JSON: " + reason, place.hint, place.first_line);
}

/// A tree of what is reported to it.
class JsonTree : public JsonEvents {
  using Json = nlohmann::ordered_json;

 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool start_object(std::size_t) override {
    Json& object = place() = Json::object();
    open_.push_back({&object, JsonMembers(object)});
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    Json& array = place() = Json::array();
    open_.push_back({&array, std::nullopt});
    return true;
  }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    member_ = &(*open_.back().members)[std::move(name)];
    return true;
  }
  Json take() { return std::move(root_); }

 private:
  struct Open {
    Json* value;
    std::optional<JsonMembers> members;  // of an object
  };

  Json& place() {
    if (open_.empty()) return root_;
    const Open& in = open_.back();
    return in.members ? *member_ : in.value->get_ref<Json::array_t&>().emplace_back();
  }
  bool put(Json value) {
    place() = std::move(value);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  Json* member_ = nullptr;  // of the key before
  std::vector<Open> open_;
};

}  // namespace

bool JsonEvents::parse_error(std::size_t position, const std::string&,
                             const nlohmann::json::exception& reason) {
  position_ = position;
  reason_ = reason.what();
  return false;
}

nlohmann::ordered_json parse_json(std::string_view text, const JsonPlace& place) {
  JsonTree tree;
  parse_json(text, place, tree);
  return tree.take();
}

void parse_json(std::string_view text, const JsonPlace& place, JsonEvents& events) {
  check(text, place);
  if (nlohmann::ordered_json::sax_parse(text, &events)) return;
  throw not_json(text, place, events.position_, events.reason_);
}

nlohmann::ordered_json own_json(std::string_view text) {
  return parse_json(text, {"JSON of moesim"});
}

nlohmann::ordered_json json_if(std::string_view text) {
  if (too_deep_at(text) != std::string_view::npos) {
    return nlohmann::ordered_json(nlohmann::ordered_json::value_t::discarded);
  }
  return nlohmann::ordered_json::parse(text, nullptr, false);
}

std::string without_infinities(const std::string& text) {
  std::string out;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    std::size_t taken = 1;
    if (text[at] == '"') quoted = !quoted;
    if (quoted && text[at] == '\\') taken = std::min<std::size_t>(2, rest.size());
    std::string_view word = rest.substr(0, taken);
    for (const std::string_view odd : {"NaN", "Infinity", "-Infinity"}) {
      if (quoted || !rest.starts_with(odd)) continue;
      taken = odd.size();
      word = "null";
    }
    out += word;
    at += taken;
  }
  return out;
}

}  // namespace moesim
