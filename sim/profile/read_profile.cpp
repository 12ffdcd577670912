// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/read_profile.h"

#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/base/text.h"
#include "sim/import/file_content.h"
#include "sim/profile/kineto.h"
#include "sim/profile/megatron_timers.h"
#include "sim/profile/nccl_logs.h"
#include "sim/profile/nsys.h"

namespace moesim {
namespace {

/// Which reader a JSON file is for, by its first block.
enum class JsonSort { kineto, rocprof, flight_recorder, inspector, nccl_profiler };

JsonSort sort_of_json(std::string_view start) {
  const auto has = [&](const char* text) { return start.find(text) != start.npos; };
  if (has("\"traceEvents\"") || has("\"deviceProperties\"") || has("\"distributedInfo\"")) {
    return JsonSort::kineto;
  }
  if (has("\"rocprofiler-sdk-tool\"")) return JsonSort::rocprof;
  if (has("\"coll_perf\"") || has("\"p2p_perf\"") || has("\"dump_stats\"")) {
    return JsonSort::inspector;
  }
  if (has("\"pg_config\"") || has("\"entries\"") || has("\"time_discovered_started_ns\"")) {
    return JsonSort::flight_recorder;
  }
  if (has("\"GROUP\"") || has("\"COLL\"") || has("\"P2P\"") || has("\"GROUP_API\"")) {
    return JsonSort::nccl_profiler;
  }
  return JsonSort::kineto;
}

void read_json(const std::string& path, const KernelTable& table,
               const std::function<void(double)>& progress, Profile& profile) {
  switch (sort_of_json(path == "-" ? "" : TextBlocks(path).next())) {
    case JsonSort::flight_recorder:
      return read_flight_recorder(path, table, profile);
    case JsonSort::inspector:
      return read_nccl_inspector(path, table, profile);
    case JsonSort::nccl_profiler:
      return read_nccl_profiler(path, table, profile);
    case JsonSort::rocprof:
      throw error_in(path, "is of rocprofv3, whose own format is not read",
                     "PyTorch's profiler records AMD's GPUs, too");
    case JsonSort::kineto:
      return read_kineto(path, table, progress, profile);
  }
}

void read_file_of_profile(const std::string& path, const KernelTable& table,
                          const std::function<void(double)>& progress, Profile& profile) {
  if (path == "-") return read_json(path, table, progress, profile);
  {
    TextBlocks blocks(path);
    const std::string_view start = blocks.next();
    check_unpacked(start, path);
    if (start.starts_with("SQLite format 3")) return read_nsys(path, table, profile);
    // Its lines begin with a date in brackets, as a list does.
    if (start.find("elapsed time per iteration") != start.npos ||
        start.find("elapsed_time_per_iteration_ms") != start.npos) {
      return read_megatron_timers(path, profile);
    }
  }
  switch (form_of(path)) {
    case FileForm::json:
      return read_json(path, table, progress, profile);
    case FileForm::text:
      return read_megatron_timers(path, profile);
    case FileForm::pickle:
      throw error_in(path, "is a pickle, which can run code and is not read",
                     "write the flight recorder's dump as JSON");
    case FileForm::zip:
      throw error_in(path, content_of(path),
                     "unpack it: profiles are read plain or packed by gzip");
    case FileForm::empty:
      throw error_in(path, "is empty");
    default:
      throw error_in(path, "is of no profiler whose files are read",
                     "Nsight Systems: nsys export --type sqlite");
  }
}

}  // namespace

ReadProfile read_profile(const std::vector<std::string>& files, const KernelTable& table,
                         const std::function<void(double)>& progress) {
  ReadProfile read;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto part = [&](double done) {
      progress((static_cast<double>(i) + done) / static_cast<double>(files.size()));
    };
    read_file_of_profile(files[i], table, part, read.profile);
  }
  read.clocks = align_clocks(read.profile);
  return read;
}

}  // namespace moesim
