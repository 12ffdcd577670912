// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/paper_flags.h"

#include <fmt/format.h>

#include <algorithm>

namespace moesim {

void PaperFlags::add(const std::string& key, const YamlValue& value) {
  if (key == "set") {
    for (const YamlValue& text : value.list()) change(text.string());
    return;
  }
  const std::string text = value.is_scalar() ? value.string() : value.json();
  take({key, text, fmt::format("{}: {}", key, text)});
}

void PaperFlags::merge(const std::string& key, const YamlValue& value) {
  if (!value.is_map()) return add(key, value);
  const YamlMap map = value.map();
  for (const std::string& part : map.keys()) {
    if (const auto own = map.find(part)) merge(key + "." + part, *own);
  }
}

void PaperFlags::take(const PaperFlags& others) {
  for (const Override& flag : others.flags_) take(flag);
}

void PaperFlags::take(const Override& flag) {
  const auto found = std::ranges::find(flags_, flag.path, &Override::path);
  if (flag.path != "set" && found != flags_.end()) {
    *found = flag;
  } else {
    flags_.push_back(flag);
  }
}

void PaperFlags::change(const std::string& text) {
  flags_.push_back({"set", text, "set: " + text});
}

const std::string* PaperFlags::find(const std::string& path) const {
  const auto found = std::ranges::find(flags_, path, &Override::path);
  return found == flags_.end() ? nullptr : &found->value;
}

}  // namespace moesim
