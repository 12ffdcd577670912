// SPDX-License-Identifier: Apache-2.0
// What was measured: logs for calibration and results of moesim-hw.
#include <cmath>

#include "sim/linkfit/link_fit.h"
#include "sim/linkfit/logs/read_log.h"
#include "sim/report/hardware_result.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

/// Logs are text, or packed by gzip.
void read_measured(std::string_view bytes) {
  const Log read = parse_log(std::string(bytes), "a.log", {});
  for (const Sample& sample : read.samples) {
    require(std::isfinite(sample.time.value) && sample.time.value >= 0 && sample.bytes.value >= 0,
            "a measured time is not a finite number");
  }
  const LinkFit fit = fit_link(read.samples);
  require(std::isfinite(fit.fixed.value), "a fit is not a finite number");
}

}  // namespace

const Target log_target{"log", read_measured};
const Target result_target{"result", [](std::string_view bytes) {
                             parse_hardware_result(std::string(bytes), "result.json");
                           }};

}  // namespace moesim::fuzz
