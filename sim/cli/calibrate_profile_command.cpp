// SPDX-License-Identifier: Apache-2.0
// moesim calibrate profile: GPU model, software and link tables fitted to a profile.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/file_claims.h"
#include "sim/base/files.h"
#include "sim/cli/commands.h"
#include "sim/cli/exchange_overhead.h"
#include "sim/cli/long_work.h"
#include "sim/flags/print_flags.h"
#include "sim/profile/fit_text.h"
#include "sim/profile/read_profile.h"

namespace moesim {
namespace {

struct CalibrateProfileFlags {
  std::vector<std::string> files, kernels;
  std::string out, gpu, software = "megatron-core";
  ExchangeOverhead exchange_overhead;
  FitOptions fit;
  PrintFlags print;
};

Error nothing_to_fit(const std::string& file, const Profile& profile) {
  return is_log(profile)
             ? error_in(
                   file, "is a log without kernels: nothing can be fitted",
                   "moesim validate profile compares its iterations; for a fit, profile a step "
                   "with PyTorch's profiler and record_shapes=True")
             : error_in(file, "no kernel has a shape, no exchange its bytes: nothing can be fitted",
                        "profile with record_shapes=True");
}

void calibrate_profile(const CalibrateProfileFlags& flags) {
  const KernelTable table = kernel_table(flags.kernels);
  const std::string gpu_file = data_file("models/gpu", flags.gpu);
  const GpuModel gpu = read_gpu_model(gpu_file);
  data_file("models/software", flags.software);
  FitText text{
      std::filesystem::path(flags.out).filename().string(),
      fmt::format("moesim calibrate profile --gpu {} --software {}", gpu.name, flags.software),
      gpu.name,
      read_file(gpu_file),
      gpu.die,
      flags.software,
      flags.exchange_overhead.time(),
      flags.exchange_overhead.given()};
  if (text.name.empty()) throw Error("-o: '" + flags.out + "' is a folder", "such as -o mine");
  LongWork work("reading");
  const ReadProfile read = read_profile(flags.files, table, work.progress());
  const ProfileFit fit = fit_profile(read.profile, gpu, flags.fit);
  if (!fit.fits_anything()) throw nothing_to_fit(flags.files.front(), read.profile);
  std::vector<NamedText> files;
  for (const FittedFile& file : fitted_files(fit, text)) {
    files.push_back({flags.out + file.ending, file.text});
  }
  for (const NamedText& file : files) claim_output(file.path);
  write_files(files);
  std::string written;
  for (const NamedText& file : files) written += fmt::format("wrote {}\n", file.path);
  flags.print.print(fit_report(fit, text).add("\n" + written));
}

}  // namespace

void add_calibrate_profile(CommandLine& calibrate, const std::shared_ptr<bool>& ran) {
  const auto flags = std::make_shared<CalibrateProfileFlags>();
  CommandLine command = calibrate.add_subcommand(
      "profile", "Fits a GPU model, a software and link tables to a profile");
  command.add_option("TRACE", flags->files, "as of moesim profile import").required();
  command.add_option("-o,--out", flags->out, "writes NAME.gpu.yaml, NAME.calib.yaml ...")
      .required();
  command.add_option("--gpu", flags->gpu, "model of the GPU, for what a profile does not say")
      .required();
  command.add_option("--software", flags->software,
                     "what the fitted one is based on (megatron-core)");
  command.add_option("--kernels", flags->kernels, "your own table of kernel names")
      .one_value_each();
  command
      .add_option("--hold-out", flags->fit.hold_out,
                  "leaves every N-th size out and reports the error there (4)")
      .range(2, 1 << 20);
  command
      .add_option("--gpus-per-host", flags->fit.gpus_per_host,
                  "GPUs that share NVLink, of groups that a profile names (8)")
      .range(1, 1 << 20);
  flags->exchange_overhead.add_to(command, "0 us");
  flags->print.add_to(command);
  command.callback([flags, ran] {
    *ran = true;
    calibrate_profile(*flags);
  });
}

}  // namespace moesim
