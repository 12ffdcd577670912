// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "sim/base/read_number.h"
#include "sim/profile/flat_json.h"
#include "sim/profile/flat_scan.h"

namespace moesim {
namespace {

void append_utf8(std::string& text, unsigned code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0U | code >> 6);
    text += static_cast<char>(0x80U | (code & 0x3fU));
  } else {
    text += static_cast<char>(0xe0U | code >> 12);
    text += static_cast<char>(0x80U | (code >> 6 & 0x3fU));
    text += static_cast<char>(0x80U | (code & 0x3fU));
  }
}

}  // namespace

std::vector<std::string_view> flat_items(std::string_view list) {
  std::vector<std::string_view> items;
  try {
    FlatScan scan(list.data(), list.data() + list.size());
    if (!scan.take('[') || scan.take(']')) return items;
    do {
      items.push_back(scan.value());
    } while (scan.take(','));
  } catch (const CutShort&) {
    return items;
  } catch (const NotJson&) {
    return items;
  }
  return items;
}

FlatObject flat_object(std::string_view text) {
  FlatObject object;
  try {
    FlatScan scan(text.data(), text.data() + text.size());
    scan_object(scan, object.fields);
  } catch (const CutShort&) {
    return {};
  } catch (const NotJson&) {
    return {};
  }
  return object;
}

std::string flat_string(std::string_view raw) {
  if (raw.find('\\') == raw.npos) return std::string(raw);
  std::string text;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      text += raw[i];
      continue;
    }
    const char c = raw[++i];
    unsigned code = 0;
    if (c == 'u' && i + 4 < raw.size() &&
        std::from_chars(&raw[i + 1], &raw[i + 1] + 4, code, 16).ptr == &raw[i + 1] + 4) {
      append_utf8(text, code);
      i += 4;
    } else {
      text += c == 'n' || c == 't' || c == 'r' || c == 'b' || c == 'f' ? ' ' : c;
    }
  }
  return text;
}

double flat_number(std::string_view raw) {
  double value = 0;
  const auto [end, status] = read_number(raw.data(), raw.data() + raw.size(), value);
  return status == std::errc() ? value : 0;
}

std::int64_t flat_whole(std::string_view raw) {
  std::int64_t value = -1;
  const auto [end, status] = std::from_chars(raw.data(), raw.data() + raw.size(), value);
  return status == std::errc() && value >= 0 ? value : -1;
}

}  // namespace moesim
