// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/bundle.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "tests/fuzz/scratch_file.h"

namespace moesim::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_files = 16;
constexpr std::array<std::string_view, 3> marks = {"\n=file= ", "\n=zip= ", "\n=member= "};

/// Where the next of the marks begins, and which one it is; npos: none.
std::pair<std::size_t, std::size_t> next_mark(std::string_view bytes) {
  for (std::size_t at = 0; (at = bytes.find("\n=", at)) != std::string_view::npos; ++at) {
    for (std::size_t kind = 0; kind < marks.size(); ++kind) {
      if (bytes.substr(at).starts_with(marks[kind])) return {at, kind};
    }
  }
  return {std::string_view::npos, 0};
}

std::string_view take_line(std::string_view& bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  bytes.remove_prefix(line.size());
  return line;
}

bool stays_inside(const std::string& name) {
  if (name.empty() || name.size() > 100 || name.front() == '/' || name.back() == '/') return false;
  return name.find("..") == std::string::npos && name.find('\0') == std::string::npos &&
         std::count(name.begin(), name.end(), '/') < 4;
}

/// The names in a bundle that become files, and the folders that they need.
struct Tree {
  std::set<std::string> folders, files;

  void add(const std::string& name) {
    if (!stays_inside(name)) return;
    files.insert(name);
    for (auto at = name.find('/'); at != name.npos; at = name.find('/', at + 1)) {
      folders.insert(name.substr(0, at));
    }
  }
  /// Whether a name is a file and a folder, too.
  bool clashes() const {
    return std::ranges::any_of(files, [&](const auto& name) { return folders.count(name) > 0; });
  }
};

}  // namespace

Bundle unbundled(std::string_view bytes) {
  Bundle bundle;
  bundle.first_line = take_line(bytes);
  std::vector<BundledFile> members;
  bool zip = false;
  const auto close = [&] {
    if (zip) bundle.files.back().content = zipped(members);
    members.clear();
  };
  for (auto [at, kind] = next_mark(bytes);
       at != std::string_view::npos && bundle.files.size() < most_files;) {
    bytes.remove_prefix(at + marks[kind].size());
    const std::string name(take_line(bytes));
    if (!bytes.empty()) bytes.remove_prefix(1);
    const auto next = next_mark(bytes);
    std::string content(bytes.substr(0, next.first));
    if (kind == 2) {
      if (zip) members.push_back({name, std::move(content)});
    } else {
      close();
      zip = kind == 1;
      bundle.files.push_back({name, std::move(content)});
    }
    std::tie(at, kind) = next;
  }
  close();
  return bundle;
}

std::string scratch_bundle(const Bundle& bundle) {
  static Tree
      last;  // folders stay as long as they are the same: making them takes most of the time
  const std::string folder = scratch_folder() + "/in";
  Tree tree;
  for (const BundledFile& file : bundle.files) tree.add(file.name);
  bool same = tree.folders == last.folders && !tree.clashes() && !last.clashes();
  for (const std::string& name : last.files) {
    std::error_code failure;
    if (same && tree.files.count(name) == 0) fs::remove(folder + "/" + name, failure);
    if (failure) same = false;  // a name that means a folder, such as "a/."
  }
  if (!same || !fs::exists(folder)) {
    fs::remove_all(folder);
    fs::create_directory(folder);
  }
  for (const BundledFile& file : bundle.files) {
    if (!stays_inside(file.name)) continue;
    try {
      scratch_file("in/" + file.name, file.content);
    } catch (const std::exception&) {  // a name that is a folder already
    }
  }
  last = std::move(tree);
  return folder;
}

}  // namespace moesim::fuzz
