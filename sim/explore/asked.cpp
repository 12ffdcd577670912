// SPDX-License-Identifier: Apache-2.0
#include "sim/explore/asked.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_changes = 500;

std::string text_in(const Json& asked, const char* key) {
  const auto found = asked.find(key);
  if (found == asked.end()) return "";
  if (!found->is_string()) throw Error(fmt::format("'{}' is not a text", key));
  return found->get<std::string>();
}

bool truth_in(const Json& asked, const char* key, bool by_default) {
  const auto found = asked.find(key);
  if (found == asked.end()) return by_default;
  if (!found->is_boolean()) throw Error(fmt::format("'{}' is neither true nor false", key));
  return found->get<bool>();
}

void check_keys(const Json& asked) {
  static const std::vector<std::string> known = {"kind",  "base", "text",     "client",
                                                 "flags", "set",  "pictures", "quick"};
  for (const auto& [key, value] : asked.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    throw Error(fmt::format("unknown key '{}'", key), did_you_mean(key, known));
  }
}

/// JSON is YAML, so that a value reads as it was written.
void add_flags(const Json& flags, AskedRun& run) {
  if (!flags.is_object()) throw Error("'flags' is not an object");
  for (const auto& [key, value] : flags.items()) {
    if (key.empty()) throw Error("a key of 'flags' is empty");
    run.overrides.push_back({key, value.dump(), fmt::format("{} of the page", key)});
  }
}

void add_changes(const Json& changes, AskedRun& run) {
  if (!changes.is_array()) throw Error("'set' is not a list");
  for (const Json& change : changes) {
    if (!change.is_string()) throw Error("'set' has what is not a text");
    const auto text = change.get<std::string>();
    run.overrides.push_back({"set", text, "--set " + text});
  }
}

}  // namespace

AskedRun read_asked(const std::string& json) {
  const Json asked = parse_json(json, {"request"});
  if (!asked.is_object()) throw Error("a request is an object");
  check_keys(asked);
  AskedRun run;
  const std::string kind = text_in(asked, "kind");
  if (kind == "explain") run.kind = AskedRun::Kind::explain;
  if (!kind.empty() && kind != "explain" && kind != "compare") {
    throw Error(fmt::format("unknown kind '{}'", kind), "compare or explain");
  }
  run.base = text_in(asked, "base");
  run.text = text_in(asked, "text");
  run.pictures = truth_in(asked, "pictures", true);
  run.quick = truth_in(asked, "quick", false);
  if (asked.contains("flags")) add_flags(asked["flags"], run);
  if (asked.contains("set")) add_changes(asked["set"], run);
  if (run.overrides.size() > most_changes) throw Error("too many changes");
  return run;
}

}  // namespace moesim
