// SPDX-License-Identifier: Apache-2.0
// Objects of a JSON file one after the other, two levels deep, at the speed of a disk: profiles
// have gigabytes of small events. Memory holds one block of text.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/line_file.h"

namespace moesim {

/// A member of an object, or of an object in it.
struct FlatField {
  std::string_view
      parent;  // the key of the object that it is in, empty if it is in the item itself
  std::string_view key;
  std::string_view value;  // as it is written; of strings what is between the quotes
};

/// The members of one object; views of the reader's text.
struct FlatObject {
  /// The value of a key of the object itself, or of its member `parent`; empty if there is none.
  std::string_view operator()(std::string_view key) const { return in("", key); }
  std::string_view in(std::string_view parent, std::string_view key) const;

  std::vector<FlatField> fields;
};

/// - A list of objects, objects one after the other (JSON lines), or the list `list_key` of one
///   object, whose other members come into others().
/// - Scalars are not checked: NCCL's profiler writes hexadecimal numbers and bare names.
/// - A list that ends without its bracket is whole, because profilers that are killed leave such.
class FlatJson {
 public:
  /// Plain or gzip; "-" is standard input. Throws Error if it cannot be read.
  FlatJson(const std::string& path, std::string list_key);

  /// The next object; false at the end. Its views live until the next call. Throws Error with the
  /// line for what is not JSON, for objects of over 16 MiB and for anything after the document.
  bool next(FlatObject& object);
  /// Members of the outer object that were passed so far, up to 16 MiB in all, as they are written.
  const std::map<std::string, std::string, std::less<>>& others() const { return others_; }
  bool ended_early() const { return ended_early_; }
  std::int64_t bytes() const { return bytes_; }
  double done() const { return blocks_.done(); }
  const std::string& path() const { return blocks_.path(); }

 private:
  enum class Place { start, list, end };
  bool refill();
  void skip_blanks();
  bool at_end();
  template <class Parse>
  void whole(const Parse& parse);
  bool next_member();
  void take_object(FlatObject& object);
  [[noreturn]] void refuse(const std::string& what, const std::string& hint = "") const;

  TextBlocks blocks_;
  std::string list_key_, text_;
  std::size_t at_ = 0;
  std::size_t others_bytes_ = 0;
  std::int64_t bytes_ = 0, lines_ = 0;  // lines of the text before text_
  bool more_ = true, ended_early_ = false, lined_ = false;
  bool in_object_ = false;  // the list is a member of an object
  Place place_ = Place::start;
  std::map<std::string, std::string, std::less<>> others_;
};

/// The items of a list as they are written, with nested lists and objects whole.
std::vector<std::string_view> flat_items(std::string_view list);
/// The members of an object's text; empty if it is none.
FlatObject flat_object(std::string_view text);
/// A string's escapes resolved; what is not ASCII as UTF-8.
std::string flat_string(std::string_view raw);
/// 0 for what is not a number.
double flat_number(std::string_view raw);
/// -1 for what is not a whole number that is not negative.
std::int64_t flat_whole(std::string_view raw);

}  // namespace moesim
