// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/kernel_table.h"

#include <algorithm>

#include "sim/base/data_files.h"
#include "sim/base/lower_case.h"
#include "sim/base/yaml.h"

namespace moesim {
namespace {

std::vector<std::string> pattern_parts(const YamlValue& value) {
  std::string text = lower_case(value.string());
  std::vector<std::string> parts;
  if (text.starts_with('^')) {
    parts.emplace_back("^");
    text.erase(0, 1);
  }
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('*', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const bool all = parts.empty() || (parts.size() == 1 && parts.front() == "^");
  if (all) value.error("the pattern fits every kernel", "write a part of a kernel's name");
  return parts;
}

bool parts_fit(const std::vector<std::string>& parts, std::string_view name) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == "^") continue;
    const bool at_start = i == 1 && parts.front() == "^";
    const std::size_t found =
        at_start ? (name.starts_with(parts[i]) ? 0 : name.npos) : name.find(parts[i], at);
    if (found == name.npos) return false;
    at = found + parts[i].size();
  }
  return true;
}

}  // namespace

void KernelTable::read(const std::string& path) {
  const auto document = YamlDocument::from_file(path);
  {
    const YamlMap map = document->root().map();
    map.string("name");
    map.string("description");
    map.string("source");
    if (const auto kinds = map.get("kinds")) {
      for (const YamlValue& value : kinds->list()) {
        const YamlMap entry = value.map();
        Row row;
        row.kind = static_cast<KernelKind>(entry.choice("kind", kernel_kind_names()));
        row.library = entry.string("library", "");
        if (const auto patterns = entry.get("patterns")) {
          for (const YamlValue& p : patterns->list()) row.patterns.push_back(pattern_parts(p));
        }
        rows_.push_back(std::move(row));
      }
    }
  }
  document->finish();
}

const KernelTable::Row* KernelTable::find(std::string_view kernel) const {
  const std::string name = lower_case(kernel);
  for (const Row& row : rows_) {
    if (std::ranges::any_of(row.patterns, [&](const auto& p) { return parts_fit(p, name); })) {
      return &row;
    }
  }
  return nullptr;
}

KernelKind KernelTable::kind_of(std::string_view kernel) const {
  const Row* const row = find(kernel);
  return row == nullptr ? KernelKind::unknown : row->kind;
}

KernelTable kernel_table(const std::vector<std::string>& files) {
  KernelTable table;
  for (const std::string& file : files) table.read(data_file("models/kernels", file));
  table.read(data_file("models/kernels", "kernels"));
  return table;
}

}  // namespace moesim
