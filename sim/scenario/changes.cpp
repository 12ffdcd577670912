// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "sim/base/error.h"
#include "sim/scenario/iteration_reader.h"

namespace moesim {
namespace {

const std::vector<std::string> changeable_inputs = {"topology", "model",     "gpu",
                                                    "policy",   "transport", "software"};

/// The input that a change begins with.
std::string input_of(const std::string& path) { return path.substr(0, path.find_first_of(".:")); }

struct Mistake {
  std::string message, hint;
};

/// Keys of a scenario that people take for fields of an input, each with a flag of its name.
const std::vector<std::string> keys_with_flags = {
    "trace",  "ep",     "tp",     "cp",       "pp",   "vpp",    "etp",        "steps",
    "layers", "warmup", "repeat", "fidelity", "pass", "memory", "accumulate", "tokens_per_rank"};

std::string as_key(const std::string& key, const std::string& value) {
  std::string flag = key;
  std::ranges::replace(flag, '_', '-');
  return fmt::format("'{}: {}', or --{} {}", key, value, flag, value);
}

Mistake unknown_input(const std::string& path, const std::string& value) {
  const std::string input = input_of(path);
  if (std::ranges::find(keys_with_flags, path) != keys_with_flags.end()) {
    return {fmt::format("'set' cannot change '{}'", path),
            "it is a key of the scenario: " + as_key(path, value)};
  }
  if (path.starts_with("scenario.")) {
    return {fmt::format("'set' cannot change '{}'", path),
            fmt::format("keys of the scenario have no name before them: {}={}",
                        path.substr(input.size() + 1), value)};
  }
  std::vector<std::string> known = iteration_keys;
  if (path.find('.') != std::string::npos) {
    known.insert(known.end(), changeable_inputs.begin(), changeable_inputs.end());
  }
  const std::string close = nearest(input, known);
  return {fmt::format("'set' cannot change '{}'", path),
          close.empty()
              ? fmt::format("if it is a field of an input, name that first: INPUT.{}, of {}", path,
                            fmt::join(changeable_inputs, ", "))
              : fmt::format("did you mean '{}{}'?", close, path.substr(input.size()))};
}

/// What is wrong with "input.path=value" or "input:name.path=value", or nothing.
std::optional<Mistake> mistake_in(const std::string& text) {
  const auto equals = text.find('=');
  const std::string path = text.substr(0, equals);
  if (equals != std::string::npos && path.starts_with("scenario:")) {
    if (path.find('.') != std::string::npos) return std::nullopt;
    return Mistake{fmt::format("'set' cannot change '{}'", path),
                   "name a key of the policy's own: scenario:NAME.parallel.tp=8"};
  }
  if (equals == std::string::npos || !is_path(path)) {
    return Mistake{fmt::format("'set' needs input.path=value, not '{}'", text),
                   "for example topology.nodes=8"};
  }
  if (std::ranges::find(changeable_inputs, input_of(path)) == changeable_inputs.end())
    return unknown_input(path, text.substr(equals + 1));
  if (path.find('.') != std::string::npos) return std::nullopt;
  std::string hint = fmt::format("name a field of it: {}.field=value", path);
  if (path == input_of(path) && path != "gpu") {
    hint += "; another one is " + as_key(path, text.substr(equals + 1));
  }
  return Mistake{fmt::format("'set' cannot change '{}'", path), hint};
}

/// How a change may call the input of that name: by the name, or by that of its file.
std::vector<std::string> words_for(const std::string& name) {
  return {name, std::filesystem::path(name).stem().string()};
}

/// Where the field's path begins in a change of one of `names`, 0 when it is of none of them. Of
/// several that fit the longest is meant: names may hold dots.
std::size_t field_of_one(const std::string& path, const std::string& input,
                         const std::vector<std::string>& names) {
  std::size_t best = 0;
  if (!path.starts_with(input + ":")) return best;
  for (const std::string& name : names) {
    for (const std::string& word : words_for(name)) {
      const std::string prefix = fmt::format("{}:{}.", input, word);
      if (path.starts_with(prefix)) best = std::max(best, prefix.size());
    }
  }
  return best;
}

}  // namespace

std::unique_ptr<YamlDocument> changed_document(const std::string& text, const std::string& file,
                                               const std::vector<Override>& changes) {
  constexpr std::string_view engine = "serving.engine.";
  try {
    return YamlDocument::from_text(text, file, changes);
  } catch (const NoSuchKey& e) {
    std::vector<Diagnostic> all = e.diagnostics();
    const auto below = std::ranges::find_if(
        changes, [&](const Override& change) { return change.path.starts_with(engine); });
    if (below != changes.end() && all.front().hint.empty()) {
      const std::string key = below->path.substr(engine.size());
      all.front().hint =
          key == "preset"
              ? fmt::format("only a preset: --set serving.engine={}", below->value)
              : fmt::format(
                    "a preset with other keys: --set 'serving.engine={{preset: vllm, {}: {}}}'",
                    key, below->value);
    }
    throw NoSuchKey(all);
  }
}

std::vector<Override> changes_in_file(const YamlMap& scenario) {
  std::vector<Override> changes;
  const auto value = scenario.find("set");
  const std::vector<YamlValue> items = value ? value->list() : std::vector<YamlValue>{};
  if (value && value->is_list() && items.empty()) value->error("'set' is an empty list");
  for (const YamlValue& item : items) {
    const std::string text = item.string();
    const auto mistake = mistake_in(text);
    if (mistake && item.is_scalar()) item.error(mistake->message, mistake->hint);
    if (mistake) continue;
    changes.push_back(parse_override(text));
    changes.back().flag = "set " + text;
  }
  return changes;
}

std::vector<Override> changes_by_flags(const std::vector<Override>& flags) {
  std::vector<Override> changes;
  for (const Override& flag : flags) {
    if (flag.path != "set") continue;
    if (const auto mistake = mistake_in(flag.value)) {
      throw error_in(flag.str(), mistake->message, mistake->hint);
    }
    changes.push_back(parse_override(flag.value));
  }
  return changes;
}

bool removes_scenario_key(const std::string& change) {
  const auto equals = change.find('=');
  const std::string path = change.substr(0, equals);
  if (equals == std::string::npos || !is_path(path)) return false;
  const bool of_input =
      path.find_first_of(".:") != std::string::npos &&
      std::ranges::find(changeable_inputs, input_of(path)) != changeable_inputs.end();
  return change.substr(equals + 1) == "null" && !of_input;
}

std::vector<Override> changes_of(const std::vector<Override>& changes, const std::string& input,
                                 const std::string& name) {
  std::vector<Override> result;
  for (const Override& change : changes) {
    const std::size_t field = change.path.starts_with(input + ".")
                                  ? input.size() + 1
                                  : field_of_one(change.path, input, {name});
    if (field > 0) result.push_back({change.path.substr(field), change.value, change.str()});
  }
  return result;
}

std::vector<Diagnostic> unreached(const std::vector<Override>& changes, const std::string& input,
                                  const std::vector<std::string>& names) {
  std::vector<Diagnostic> lost;
  for (const Override& change : changes) {
    if (!change.path.starts_with(input + ":")) continue;
    if (field_of_one(change.path, input, names) > 0) continue;
    const std::string rest = change.path.substr(input.size() + 1);
    const std::string name = rest.substr(0, rest.find('.'));
    lost.push_back({Severity::error, change.str(), 0, 0,
                    fmt::format("no {} of the scenario is called '{}'",
                                input == "scenario" ? "policy" : input, name),
                    "", did_you_mean(name, names)});
  }
  return lost;
}

std::vector<Override> changes_of_topology(const std::vector<std::string>& set,
                                          const std::string& name) {
  std::vector<Override> result;
  for (const std::string& text : set) {
    Override change = parse_override(text);
    const std::string input = input_of(change.path);
    const bool names_input = change.path.size() > input.size() &&
                             std::ranges::find(changeable_inputs, input) != changeable_inputs.end();
    if (!names_input) {
      result.push_back(change);
      continue;
    }
    if (input != "topology") {
      throw error_in(change.str(), fmt::format("only a topology is read here, not a {}", input),
                     "topology.PATH=VALUE changes it");
    }
    if (const auto lost = unreached({change}, "topology", {name}); !lost.empty()) throw Error(lost);
    for (Override& of_topology : changes_of({change}, "topology", name)) {
      result.push_back(std::move(of_topology));
    }
  }
  return result;
}

}  // namespace moesim
