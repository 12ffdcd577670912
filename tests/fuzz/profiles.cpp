// SPDX-License-Identifier: Apache-2.0
// Profiles of all formats: read, summed up and fitted.
#include "sim/profile/fit_text.h"
#include "sim/profile/profile_text.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

const GpuModel& any_gpu() {
  static const GpuModel gpu = parse_gpu_model(
      "name: any\ndescription: d\nsource: s\nmemory: 80 GB\nmemory_bandwidth: 1 TB/s\n"
      "peak: {bf16: 100 TFLOP/s}\nefficiency: {gemm: 1, memory: 1}\nlaunch_overhead: 0 us\n",
      "any.yaml");
  return gpu;
}

void read_one_profile(std::string_view bytes) {
  static const KernelTable table = [] {
    KernelTable read;
    read.read(std::string(MOESIM_ROOT) + "/models/kernels/kernels.yaml");
    return read;
  }();
  const ReadProfile read = read_profile({scratch_file("profile", bytes)}, table, [](double) {});
  const ProfileReport report(read);
  for (const RankTime& rank : report.ranks) {
    require(rank.work_only + rank.traffic_only + rank.both + rank.idle == rank.wall,
            "the parts of the wall time do not add up");
    require(rank.host >= 0 && rank.host <= rank.idle, "the host's gaps exceed the idle time");
  }
  profile_text(report, 5).text();
  profile_json(report, "0");
  const ProfileFit fit = fit_profile(read.profile, any_gpu(), {});
  fitted_files(fit, {"a", "c", "any", "name: any\n", "", "ideal", Seconds(0)});
}

}  // namespace

const Target profile_target{"profile", read_one_profile};

}  // namespace moesim::fuzz
