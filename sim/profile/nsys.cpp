// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/nsys.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

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
    check_database_size(path);
    ::sqlite3_db_config(file, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    ::sqlite3_db_config(file, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  }

  bool has(const std::string& table) const {
    bool found = false;
    each("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '" + table + "'",
         [&](sqlite3_stmt*) { found = true; });
    return found;
  }

  bool has_column(const std::string& table, const std::string& column) const {
    bool found = false;
    each(fmt::format("SELECT 1 FROM pragma_table_info('{}') WHERE name = '{}'", table, column),
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

const std::string kernel_table_name = "CUPTI_ACTIVITY_KIND_KERNEL",
                  runtime_table_name = "CUPTI_ACTIVITY_KIND_RUNTIME";
const std::vector<std::pair<std::string, std::string>> copy_tables = {
    {"CUPTI_ACTIVITY_KIND_MEMCPY", "Memcpy"}, {"CUPTI_ACTIVITY_KIND_MEMSET", "Memset"}};

/// A GPU of the host; or a device of a process, if the file does not say which GPU that is.
struct NsysGpu {
  std::int64_t number = 0;
  std::string uuid = {};
  std::int64_t process = 0;
  auto operator<=>(const NsysGpu&) const = default;
};

/// The kernels and copies of a file. Each process numbers its devices, streams and launches itself.
class NsysKernels {
 public:
  NsysKernels(const std::string& path, const NsysFile& file, const KernelTable& table,
              Profile& profile)
      : path_(path), file_(file), names_(table, profile) {
    processes_known_ = file.has_column(kernel_table_name, "globalPid");
    for (const auto& [of, name] : copy_tables) {
      if (file.has(of)) processes_known_ = processes_known_ && file.has_column(of, "globalPid");
    }
    launches_known_ = processes_known_ && file.has_column(runtime_table_name, "globalTid");
    read_gpus();
  }

  void read() {
    const char* const process = processes_known_ ? "globalPid" : "0";
    const auto read_all = [&](const std::string& query, bool copies) {
      file_.each(query, [&](sqlite3_stmt* row) { take(row, copies); });
    };
    read_all(fmt::format("SELECT k.start, k.end, k.deviceId, k.streamId, k.correlationId, {}, "
                         "s.value FROM {} k LEFT JOIN StringIds s ON s.id = k.demangledName",
                         process, kernel_table_name),
             false);
    for (const auto& [of, name] : copy_tables) {
      if (!file_.has(of)) continue;
      read_all(fmt::format("SELECT start, end, deviceId, streamId, correlationId, {}, '{}' FROM {}",
                           process, name, of),
               true);
    }
    read_launches();
  }

  void finish(Profile& profile) {
    if (builders_.empty() && !untimed_.empty()) throw UntimedKernels::error(path_);
    if (builders_.empty()) throw error_in(path_, "holds no kernels of GPUs");
    untimed_.note(profile);
    const bool one_gpu = builders_.size() == 1 || !profile.ranks.empty();
    std::set<int> devices;
    for (const auto& [gpu, builder] : builders_) devices.insert(builder.device());
    const bool numbered = devices.size() == builders_.size();
    int place = 0;
    for (auto& [gpu, builder] : builders_) {
      builder.join_launches(launches_);
      const int next = profile.ranks.empty() ? 0 : profile.ranks.back().rank + 1;
      builder.rank().rank = one_gpu ? next : numbered ? builder.device() : place;
      add_rank(builder.finish(0), path_, profile);
      ++place;
    }
  }

 private:
  /// Global ids hold the machine, the process and, in the last 24 bits, the thread.
  static std::int64_t process_of(std::int64_t global) { return global >> 24 & 0xffffff; }

  void read_gpus() {
    const std::string of = "TARGET_INFO_CUDA_DEVICE";
    if (!processes_known_ || !file_.has(of)) return;
    for (const char* column : {"gpuId", "cudaId", "pid", "uuid"}) {
      if (!file_.has_column(of, column)) return;
    }
    file_.each("SELECT pid, cudaId, gpuId, uuid FROM " + of, [&](sqlite3_stmt* row) {
      gpus_[{::sqlite3_column_int64(row, 0), ::sqlite3_column_int64(row, 1)}] = {
          ::sqlite3_column_int64(row, 2), std::string(text_at(row, 3))};
    });
  }

  void take(sqlite3_stmt* row, bool copies) {
    const auto whole = [&](int column) {
      return ::sqlite3_column_type(row, column) == SQLITE_INTEGER;
    };
    const std::int64_t start = ::sqlite3_column_int64(row, 0), end = ::sqlite3_column_int64(row, 1);
    if (!whole(0) || !whole(1) || start < 0 || end < start || end > most_ns ||
        end - start >= longest_kernel / ticks_of_ns) {
      return untimed_.add(text_at(row, 6));
    }
    const std::int64_t process = process_of(::sqlite3_column_int64(row, 5));
    const int device = ::sqlite3_column_int(row, 2);
    const auto known = gpus_.find({process, device});
    const NsysGpu gpu = known == gpus_.end() ? NsysGpu{device, "", process} : known->second;
    RankBuilder& rank = builders_.try_emplace(gpu, device).first->second;
    ProfiledKernel kernel;
    kernel.start = start * ticks_of_ns;
    kernel.length = (end - start) * ticks_of_ns;
    kernel.name = names_.number(text_at(row, 6), path_);
    kernel.kind = copies ? KernelKind::copy : names_.kind(kernel.name);
    kernel.stream = rank.stream(stream_name(gpu, process, ::sqlite3_column_int64(row, 3)), path_);
    rank.add(kernel, launch_number(process, ::sqlite3_column_int64(row, 4)), -1);
  }

  /// Streams of a GPU that several processes share are not one stream because of their number.
  std::string stream_name(const NsysGpu& gpu, std::int64_t process, std::int64_t stream) {
    auto& its = processes_[gpu];
    const auto place = its.try_emplace(process, its.size()).first->second;
    return place == 0 ? std::to_string(stream) : fmt::format("{} of process {}", stream, place + 1);
  }

  std::int64_t launch_number(std::int64_t process, std::int64_t correlation) const {
    return launches_known_ ? process << 32 | (correlation & 0xffffffff) : correlation;
  }

  void read_launches() {
    if (!file_.has(runtime_table_name)) return;
    file_.each(fmt::format("SELECT correlationId, end, {} FROM {}",
                           launches_known_ ? "globalTid" : "0", runtime_table_name),
               [&](sqlite3_stmt* row) {
                 const std::int64_t end = ::sqlite3_column_int64(row, 1);
                 if (end < 0 || end > most_ns) return;
                 const std::int64_t process = process_of(::sqlite3_column_int64(row, 2));
                 launches_.emplace_back(launch_number(process, ::sqlite3_column_int64(row, 0)),
                                        end * ticks_of_ns);
               });
    std::ranges::sort(launches_);
  }

  const std::string& path_;
  const NsysFile& file_;
  KernelNames names_;
  bool processes_known_ = false, launches_known_ = false;
  std::map<std::pair<std::int64_t, std::int64_t>, NsysGpu> gpus_;  // of processes and devices
  std::map<NsysGpu, RankBuilder> builders_;
  std::map<NsysGpu, std::map<std::int64_t, std::size_t>> processes_;  // in the order of the file
  RankBuilder::Launches launches_;
  UntimedKernels untimed_;
};

}  // namespace

void read_nsys(const std::string& path, const KernelTable& table, Profile& profile) {
  const NsysFile file(path);
  if (!file.has(kernel_table_name) || !file.has("StringIds")) {
    throw error_in(path, "holds no kernels of GPUs", "record with nsys profile -t cuda,nvtx");
  }
  NsysKernels kernels(path, file, table, profile);
  kernels.read();
  kernels.finish(profile);
  profile.producer = "Nsight Systems";
  profile.bytes += static_cast<std::int64_t>(std::filesystem::file_size(path));
}

}  // namespace moesim
