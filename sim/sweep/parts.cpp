// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/parts.h"

#include <algorithm>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/sweep/sweep_lock.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t rows_at_once = 1000;

void check_grid(const SweepReader& part, const std::string& path, const SweepAbout& about) {
  if (part.about().grid == about.grid) return;
  throw error_in(path, "this part is of another grid than " + about.file,
                 "remove it, or run the grid that it is of");
}

void take_rows(const SweepReader& part, SweepStore& store) {
  std::vector<SweepRow> rows;
  part.rows([&](SweepRow row) {
    rows.push_back(std::move(row));
    if (rows.size() < rows_at_once) return;
    store.add(rows);
    rows.clear();
  });
  store.add(rows);
}

}  // namespace

std::string part_file(const std::string& file, const std::string& name) {
  return file + ".part-" + name;
}

std::vector<std::string> part_files(const std::string& file) {
  std::vector<std::string> parts;
  const fs::path path(file), folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string begin = part_file(path.filename(), "");
  if (!is_folder(folder)) return parts;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const auto is_beside = [&](const char* ending) { return name.ends_with(ending); };
    if (!name.starts_with(begin) || std::ranges::any_of(beside_sweep_file, is_beside)) continue;
    parts.push_back(path.has_parent_path() ? folder / name : fs::path(name));
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> merge_parts(const std::string& file, SweepStore& store,
                                     const SweepAbout& about) {
  std::vector<std::string> left;
  for (const std::string& path : part_files(file)) {
    if (is_being_written(path)) {
      left.push_back(path);
      continue;
    }
    {
      const SweepReader part(path);
      check_grid(part, path, about);
      take_rows(part, store);
    }
    fs::remove(path);
    for (const char* ending : beside_sweep_file) fs::remove(path + ending);
  }
  return left;
}

std::set<std::int64_t> ids_in(const std::string& file, const SweepAbout& about,
                              const std::string& but) {
  std::vector<std::string> all = part_files(file);
  std::erase_if(all,
                [&](const std::string& part) { return !but.empty() && part.starts_with(but); });
  std::erase_if(all, is_being_written);
  if (is_there(file)) all.push_back(file);
  std::set<std::int64_t> ids;
  for (const std::string& path : all) {
    const SweepReader reader(path);
    check_grid(reader, path, about);
    for (const auto& row : reader.query(std::string("SELECT id") + final_rows).rows) {
      ids.insert(row[0]->integer);
    }
  }
  return ids;
}

}  // namespace moesim
