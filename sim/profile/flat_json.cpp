// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/flat_json.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/read_number.h"
#include "sim/profile/flat_scan.h"

namespace moesim {
namespace {

constexpr std::size_t most_object = 16U << 20;

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

std::string_view FlatObject::in(std::string_view parent, std::string_view key) const {
  for (const FlatField& f : fields) {
    if (f.key == key && f.parent == parent) return f.value;
  }
  return {};
}

FlatJson::FlatJson(const std::string& path, std::string list_key)
    : blocks_(path), list_key_(std::move(list_key)) {}

bool FlatJson::refill() {
  if (!more_) return false;
  lines_ += std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
  text_.erase(0, at_);
  at_ = 0;
  if (text_.size() > most_object) refuse("a value of over 16 MiB");
  const std::string_view block = blocks_.next();
  if (block.empty()) {
    more_ = false;
    text_ += '\n';  // what ends a scalar at the end of the file
    return true;
  }
  bytes_ += std::ssize(block);
  text_.append(block);
  blocks_.check_packing(text_.size());
  return true;
}

void FlatJson::refuse(const std::string& what, const std::string& hint) const {
  const auto before =
      std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
  throw error_in(path(), "not JSON: " + what, hint, static_cast<int>(lines_ + before + 1));
}

void FlatJson::skip_blanks() {
  for (;;) {
    while (at_ < text_.size() && is_json_blank(text_[at_])) ++at_;
    if (at_ < text_.size() || !refill()) return;
  }
}

bool FlatJson::at_end() {
  skip_blanks();
  return at_ == text_.size();
}

/// Runs `parse` on the text; again with more text if it was cut short.
template <class Parse>
void FlatJson::whole(const Parse& parse) {
  for (;;) {
    try {
      FlatScan scan(text_.data() + at_, text_.data() + text_.size());
      parse(scan);
      at_ = static_cast<std::size_t>(scan.at() - text_.data());
      return;
    } catch (const CutShort&) {
      if (!refill()) refuse("unexpected end of input");
    } catch (const NotJson& e) {
      refuse(e.what);
    }
  }
}

/// Passes members of the outer object; true at the first item of the list.
bool FlatJson::next_member() {
  for (;;) {
    if (at_end()) refuse("unexpected end of input");
    if (text_[at_] == '}') {
      ++at_;
      return false;
    }
    if (text_[at_] == ',') ++at_;
    std::string key;
    whole([&](FlatScan& scan) {
      key = scan.string();
      if (!scan.take(':')) throw NotJson{"expected ':' after a key"};
      scan.peek();
    });
    if (key == list_key_ && text_[at_] == '[') {
      ++at_;
      return true;
    }
    whole([&](FlatScan& scan) {
      const std::string_view value = scan.value();
      const bool fits = others_bytes_ + value.size() <= most_object && others_.size() < 100;
      if (!fits || others_.contains(key)) return;
      others_.emplace(key, value);
      others_bytes_ += value.size();
    });
  }
}

void FlatJson::take_object(FlatObject& object) {
  whole([&](FlatScan& scan) { scan_object(scan, object.fields); });
}

bool FlatJson::next(FlatObject& object) {
  for (;;) {
    if (place_ == Place::start) {
      if (at_end()) return false;
      if (text_.compare(at_, 3, "\xef\xbb\xbf") == 0) at_ += 3;
      const char c = text_[at_];
      if (c == '[') ++at_;
      if (c == '[') place_ = Place::list;
      if (c == '{' && list_key_.empty()) {
        lined_ = true;
        place_ = Place::list;
      } else if (c == '{') {
        ++at_;
        in_object_ = true;
        place_ = next_member() ? Place::list : Place::end;
      } else if (c != '[') {
        refuse("expected an object or a list");
      }
    }
    if (place_ == Place::end) {
      if (at_end()) return false;
      refuse("it continues after its end", "give each document a file of its own");
    }
    if (at_end()) {
      ended_early_ = !lined_;
      return false;
    }
    if (text_[at_] == ',') {
      ++at_;
      continue;
    }
    if (text_[at_] != ']') {
      take_object(object);
      return true;
    }
    ++at_;
    place_ = in_object_ && !at_end() && next_member() ? Place::list : Place::end;
  }
}

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
