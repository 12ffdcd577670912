// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/nsys.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "sim/base/error.h"
#include "sim/base/regular_file.h"
#include "sim/profile/profile_builder.h"

namespace moesim {
namespace {

constexpr ProfileTicks ticks_of_ns = 1000;
constexpr std::int64_t most_ns = 2'600'000'000'000'000;  // a month

/// A database that is only read, and whose own definitions run nothing.
class NsysFile {
 public:
  explicit NsysFile(const std::string& path) : path_(path) {
    check_regular_file(path);
    sqlite3* file = nullptr;
    const int status = ::sqlite3_open_v2(path.c_str(), &file, SQLITE_OPEN_READONLY, nullptr);
    file_.reset(file);
    if (status != SQLITE_OK) throw error_in(path, "cannot be read as a SQLite database");
    ::sqlite3_db_config(file, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    ::sqlite3_db_config(file, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  }

  bool has(const std::string& table) const {
    bool found = false;
    each("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '" + table + "'",
         [&](sqlite3_stmt*) { found = true; });
    return found;
  }

  template <class Use>
  void each(const std::string& query, const Use& use) const {
    sqlite3_stmt* raw = nullptr;
    const int prepared = ::sqlite3_prepare_v2(file_.get(), query.c_str(), -1, &raw, nullptr);
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, ::sqlite3_finalize);
    if (prepared != SQLITE_OK) refuse();
    for (;;) {
      const int status = ::sqlite3_step(raw);
      if (status == SQLITE_DONE) return;
      if (status != SQLITE_ROW) refuse();
      use(raw);
    }
  }

 private:
  [[noreturn]] void refuse() const {
    throw error_in(path_, "is damaged, or no export of Nsight Systems",
                   "nsys export --type sqlite makes one");
  }
  std::string path_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> file_{nullptr, ::sqlite3_close};
};

std::string_view text_at(sqlite3_stmt* row, int column) {
  const auto* text = reinterpret_cast<const char*>(::sqlite3_column_text(row, column));
  return text == nullptr ? std::string_view() : std::string_view(text);
}

/// Kernels and copies: start, end, device, stream, correlation, name.
constexpr const char* kernel_query =
    "SELECT k.start, k.end, k.deviceId, k.streamId, k.correlationId, s.value FROM "
    "CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s ON s.id = k.demangledName";

std::string copy_query(const char* table, const char* name) {
  return fmt::format("SELECT start, end, deviceId, streamId, correlationId, '{}' FROM {}", name,
                     table);
}

}  // namespace

void read_nsys(const std::string& path, const KernelTable& table, Profile& profile) {
  const NsysFile file(path);
  if (!file.has("CUPTI_ACTIVITY_KIND_KERNEL") || !file.has("StringIds")) {
    throw error_in(path, "holds no kernels of GPUs", "record with nsys profile -t cuda,nvtx");
  }
  KernelNames names(table, profile);
  std::map<int, RankBuilder> builders;
  const auto read = [&](const std::string& query, bool copies) {
    file.each(query, [&](sqlite3_stmt* row) {
      const int device = ::sqlite3_column_int(row, 2);
      RankBuilder& rank = builders.try_emplace(device, device).first->second;
      ProfiledKernel kernel;
      const std::int64_t start = ::sqlite3_column_int64(row, 0),
                         end = ::sqlite3_column_int64(row, 1);
      if (start < 0 || end < start || end > most_ns ||
          end - start >= longest_kernel / ticks_of_ns) {
        return;
      }
      kernel.start = start * ticks_of_ns;
      kernel.length = (end - start) * ticks_of_ns;
      kernel.name = names.number(text_at(row, 5), path);
      kernel.kind = copies ? KernelKind::copy : names.kind(kernel.name);
      kernel.stream = rank.stream(std::to_string(::sqlite3_column_int64(row, 3)), path);
      rank.add(kernel, ::sqlite3_column_int64(row, 4), -1);
    });
  };
  read(kernel_query, false);
  for (const auto& [of, name] : {std::pair{"CUPTI_ACTIVITY_KIND_MEMCPY", "Memcpy"},
                                 std::pair{"CUPTI_ACTIVITY_KIND_MEMSET", "Memset"}}) {
    if (file.has(of)) read(copy_query(of, name), true);
  }
  RankBuilder::Launches launches;
  if (file.has("CUPTI_ACTIVITY_KIND_RUNTIME")) {
    file.each("SELECT correlationId, end FROM CUPTI_ACTIVITY_KIND_RUNTIME", [&](sqlite3_stmt* row) {
      const std::int64_t end = ::sqlite3_column_int64(row, 1);
      if (end < 0 || end > most_ns) return;
      launches.emplace_back(::sqlite3_column_int64(row, 0), end * ticks_of_ns);
    });
  }
  std::ranges::sort(launches);
  if (builders.empty()) throw error_in(path, "holds no kernels of GPUs");
  profile.producer = "Nsight Systems";
  profile.bytes += static_cast<std::int64_t>(std::filesystem::file_size(path));
  const bool one_gpu = builders.size() == 1 || !profile.ranks.empty();
  for (auto& [device, builder] : builders) {
    builder.join_launches(launches);
    const int next = profile.ranks.empty() ? 0 : profile.ranks.back().rank + 1;
    builder.rank().rank = one_gpu ? next : device;
    add_rank(builder.finish(0), path, profile);
  }
}

}  // namespace moesim
