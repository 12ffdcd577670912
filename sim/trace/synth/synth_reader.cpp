// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/synth_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace moesim {
namespace {

/// 1,024 tokens for each of 32 GPUs, in sequences that fill up to 256 GPUs.
constexpr std::int64_t usual_tokens = 32768, usual_length = 128;

int small(const YamlMap& map, const std::string& key, Range range, int absent) {
  return static_cast<int>(map.integer(key, range, absent));
}

}  // namespace

SynthOptions read_synth(const YamlMap& map) {
  const Range count{1, 1 << 30}, part{0, 1};
  SynthOptions o;
  o.experts = small(map, "experts", {1, 65535}, 0);
  o.top_k = small(map, "top_k", {1, 1024}, 0);
  o.layers.resize(static_cast<std::size_t>(map.integer("layers", {1, 1024}, 0)));
  std::iota(o.layers.begin(), o.layers.end(), 0);
  o.tokens = map.integer("tokens", count, usual_tokens);
  o.sequences = small(map, "sequences", count,
                      static_cast<int>(std::max<std::int64_t>(1, o.tokens / usual_length)));
  o.steps = small(map, "steps", {1, 1 << 20}, o.steps);
  o.skew = map.number("skew", {0, 10}, o.skew);
  o.affinity = map.number("affinity", part, o.affinity);
  o.communities = small(map, "communities", {0, 65535}, o.communities);
  o.stickiness = map.number("stickiness", part, o.stickiness);
  o.drift = map.number("drift", part, o.drift);
  o.groups = small(map, "groups", {1, 65535}, o.groups);
  o.kept_groups = small(map, "kept_groups", {1, 65535}, o.kept_groups);
  o.seed = static_cast<std::uint64_t>(map.integer("seed", {0, 1e15}, 1));
  return o;
}

std::string synth_text(const SynthOptions& o) {
  const SynthOptions plain;
  nlohmann::ordered_json json;
  const auto add = [&](const char* key, auto value, auto absent) {
    if (value != absent) json[key] = value;
  };
  add("experts", o.experts, 0);
  add("top_k", o.top_k, 0);
  add("layers", o.layers.size(), std::size_t{0});
  json["tokens"] = o.tokens;
  json["sequences"] = o.sequences;
  add("steps", o.steps, plain.steps);
  json["skew"] = o.skew;
  add("affinity", o.affinity, plain.affinity);
  add("communities", o.communities, plain.communities);
  add("stickiness", o.stickiness, plain.stickiness);
  add("drift", o.drift, plain.drift);
  add("groups", o.groups, plain.groups);
  add("kept_groups", o.kept_groups, plain.kept_groups);
  json["seed"] = o.seed;
  return json.dump();
}

std::string synth_title(const SynthOptions& o) {
  std::string text = fmt::format("synthetic routing (skew {:g}", o.skew);
  const auto add = [&](const char* name, double value) {
    if (value > 0) text += fmt::format(", {} {:g}", name, value);
  };
  add("affinity", o.affinity);
  add("stickiness", o.stickiness);
  add("drift", o.drift);
  if (o.groups > 1) text += fmt::format(", {} of {} groups", o.kept_groups, o.groups);
  return text + fmt::format(", seed {})", o.seed);
}

}  // namespace moesim
