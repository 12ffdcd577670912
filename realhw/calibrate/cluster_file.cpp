// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/cluster_file.h"

#include <fmt/format.h>

#include "realhw/calibrate/gpu_files.h"
#include "realhw/calibrate/link_files.h"
#include "sim/base/figures.h"
#include "sim/base/file_claims.h"
#include "sim/base/file_set.h"
#include "sim/base/files.h"
#include "sim/linkfit/calibration_text.h"

namespace moesim {
void write_calibration(const CalibrationFiles& files, const ExchangeFit& exchanges,
                       const std::map<std::string, GpuFit>& gpus, const Provenance& provenance) {
  std::vector<NamedText> all;
  std::string links;
  for (const ClassFit& c : exchanges.classes) {
    all.push_back({files.link(c.link_class),
                   link_yaml(fmt::format("{}-{}", files.name(), c.link_class), c, provenance)});
    links += fmt::format("  {}: {}\n", quoted(c.link_class),
                         quoted(file_name(files.link(c.link_class))));
  }
  std::string models;
  for (const auto& [model, fit] : gpus) {
    const std::string file = files.gpu(model, gpus.size() == 1);
    const std::string stem = file_name(file);
    all.push_back({file, gpu_yaml(stem.substr(0, stem.find(".gpu.yaml")), model, fit, provenance)});
    models += fmt::format("  {}: {}\n", quoted(model), quoted(stem));
  }
  std::string yaml = fmt::format(
      "# Written by `moesim-hw calibrate`; see docs/calibration.md.\n"
      "name: {}\n"
      "source: {}\n",
      quoted(files.name()), quoted("moesim-hw calibrate, " + provenance.date));
  if (exchanges.exchange_overhead.kept > 0) {
    yaml += fmt::format(
        "exchange_overhead: {}  # measured; exchanges that move nothing\n"
        "peer_overhead: {}  # measured; exchanges of one byte by their number of peers\n",
        microseconds(Seconds(exchanges.exchange_overhead.value)),
        microseconds(Seconds(exchanges.peer_overhead)));
  }
  if (!links.empty()) yaml += "links:  # measured; files next to this one, by link class\n" + links;
  if (!models.empty()) yaml += "gpus:  # measured; by the topology's GPU model\n" + models;
  yaml += yaml_of(provenance);
  all.push_back({files.cluster(), yaml});
  for (const NamedText& file : all) claim_output(file.path);
  write_files(all);
}

}  // namespace moesim
