// SPDX-License-Identifier: Apache-2.0
#include "sim/import/input_hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "sim/base/read_number.h"
#include "sim/import/table_values.h"
#include "sim/trace/mapped_file.h"

namespace moesim {
namespace {

/// The number behind a word of a file's name; at most one character is between them. Of several
/// such words ("ranking_rank3") the first with a number.
template <typename T>
std::optional<T> number_after(std::string_view word, const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  for (auto at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const auto digit = name.find_first_of("0123456789", at);
    T number = 0;
    if (digit != std::string::npos && digit <= at + word.size() + 1 &&
        std::from_chars(name.data() + digit, name.data() + name.size(), number).ec == std::errc()) {
      return number;
    }
  }
  return std::nullopt;
}

namespace fs = std::filesystem;

std::string hash_of_file(const std::string& path) {
  constexpr std::size_t block = 8U << 20;
  const MappedFile file(path);
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (std::size_t at = 0; at < file.bytes().size(); at += block) {
    const auto part = file.bytes().subspan(at, std::min(block, file.bytes().size() - at));
    XXH3_128bits_update(state.get(), part.data(), part.size());
    file.forget(part);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

bool is_data(const fs::path& path) { return !is_hidden(path) && is_regular_file(path.string()); }

/// The files in a folder and in folders of it by their names in it.
std::vector<std::pair<std::string, std::string>> files_in(const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> files;
  for (auto at = fs::recursive_directory_iterator(folder); at != end(at); ++at) {
    const fs::path& path = at->path();
    if (is_hidden(path)) at.disable_recursion_pending();
    if (!is_data(path)) continue;
    files.emplace_back(path.lexically_relative(folder).string(), path.string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// All files of the inputs by their names in them: some formats have folders of folders. Links to
/// folders are not followed.
std::vector<std::pair<std::string, std::string>> files_below(
    const std::vector<std::string>& inputs) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& input : inputs) {
    if (!is_folder(input)) {
      files.emplace_back(fs::path(input).filename().string(), input);
      continue;
    }
    const auto inside = files_in(input);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

}  // namespace

std::int64_t number_of_name(std::string_view text) {
  return parse_integer<std::int64_t>(text).value_or(-1);
}

std::optional<std::int64_t> rank_in_name(const std::string& path) {
  return number_after<std::int64_t>("rank", path);
}

std::optional<std::int64_t> layer_of_file(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  const auto layer = number_after<std::int64_t>("layer", path);
  const bool only = layer == layer_in_name(name) && name.find("layers") == std::string::npos;
  return only ? layer : std::nullopt;
}

std::vector<std::string> in_order_of_time(std::vector<std::string> paths) {
  std::ranges::stable_sort(
      paths, {}, [](const std::string& path) { return number_after<double>("timestamp", path); });
  return paths;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<std::string> input_files(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const auto& input : inputs) {
    if (!is_folder(input)) {
      files.push_back(input);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(input)) {
      if (is_data(entry.path())) inside.push_back(entry.path().string());
    }
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

std::string input_hashes(const std::vector<std::string>& inputs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, file] : files_below(inputs)) {
    list.push_back({{"file", name}, {"xxh3", hash_of_file(file)}});
  }
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace moesim
