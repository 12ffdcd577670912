// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/fit_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/linkfit/calibration_text.h"

namespace moesim {
namespace {

constexpr const char* written_by =
    "# Written by `moesim calibrate profile`; see docs/profiles.md.\n";

/// Kernels without a table keep the attention's part if it was measured, else that of products.
std::map<DataType, KeptRate> kept_of_rooflines(const ProfileFit& fit) {
  std::map<DataType, KeptRate> kept = fit.kept;
  for (const auto& [type, rate] : fit.kept_attention) kept[type] = rate;
  return kept;
}

std::string rates_yaml(const std::map<DataType, KeptRate>& kept) {
  std::string list;
  for (const auto& [type, rate] : kept) {
    list += fmt::format("{}{}: {:.4f}", list.empty() ? "" : ", ", name_of(type), rate.kept);
  }
  return "{" + list + "}";
}

/// Adds `training` to the base's key `efficiency`.
std::string with_training(std::string yaml, const std::map<DataType, KeptRate>& kept) {
  if (kept.empty()) return yaml;
  const std::string line =
      fmt::format("  training: {}  # measured; of the base's own rates\n", rates_yaml(kept));
  const std::size_t key = yaml.find("\nefficiency:");
  if (key == yaml.npos) return yaml + "efficiency:\n" + line;
  const std::size_t end = yaml.find('\n', key + 1);
  const std::string first = yaml.substr(key + 1, end - key - 1);
  if (const std::size_t open = first.find('{'); open != first.npos && open < first.find('#')) {
    return yaml.insert(key + 2 + open, fmt::format("training: {}, ", rates_yaml(kept)));
  }
  return yaml.insert(end + 1, line);
}

std::string fitted_gpu(const ProfileFit& fit, const FitText& text) {
  std::string yaml =
      fmt::format("{}name: {}\ndescription: {}\nsource: {}\n", written_by, quoted(text.name),
                  quoted(text.gpu + ", its kernels by a profile"), quoted(text.command));
  std::vector<std::string> replaced = {"name", "description", "source", "gemm", "memory_bound"};
  if (fit.slowdown.shapes > 0) replaced.emplace_back("overlap");
  yaml += with_training(without_keys(text.gpu_file, replaced), kept_of_rooflines(fit));
  if (fit.slowdown.shapes > 0) {
    yaml += fmt::format("overlap: {{compute: {:.4f}}}  # measured; {} shapes\n",
                        fit.slowdown.factor, fit.slowdown.shapes);
  }
  return yaml + kernel_tables_yaml(fit.tables, "measured; medians of a profile");
}

std::string fitted_software(const ProfileFit& fit, const FitText& text) {
  std::string yaml =
      fmt::format("{}name: {}\ndescription: as a profile shows it\nsource: {}\nbased_on: {}\n",
                  written_by, quoted(text.name), quoted(text.command), text.software);
  if (!text.die.empty() && !fit.kept.empty()) {
    yaml += fmt::format("kept: {{{}: {}}}  # measured; products, of {}'s rates\n", text.die,
                        rates_yaml(fit.kept), text.gpu);
  }
  if (fit.launches > 0) {
    yaml += fmt::format("host: {{per_kernel: {}}}  # measured; {} launches that a GPU waited for\n",
                        microseconds(fit.per_kernel), fit.launches);
  }
  return yaml;
}

std::string fitted_cluster(const ProfileFit& fit, const FitText& text) {
  std::string yaml = fmt::format(
      "{}name: {}\nsource: {}\nexchange_overhead: {}  # {}\n"
      "peer_overhead: 0 us  # not measured\n",
      written_by, quoted(text.name), quoted(text.command), microseconds(text.exchange_overhead),
      text.overhead_given ? "given" : "not measured");
  std::string links;
  for (const LinkOfProfile& link : fit.links) {
    if (!link.of_class) continue;
    links += fmt::format("  {}: {}\n", quoted(link.name),
                         quoted(fmt::format("{}-{}.calib.yaml", text.name, link.name)));
  }
  if (!links.empty()) yaml += "links:  # measured; files next to this one, by link class\n" + links;
  yaml += "gpus:  # measured; by the topology's GPU model\n";
  yaml += fmt::format("  {}: {}\n", quoted(text.gpu), quoted(text.name + ".gpu.yaml"));
  return yaml;
}

std::string kept_text(const char* what, const std::map<DataType, KeptRate>& kept,
                      const std::string& gpu) {
  std::string text;
  for (const auto& [type, rate] : kept) {
    text += fmt::format("{} in {}: {:.3f} of the rates of {} ({} shapes)\n", what, name_of(type),
                        rate.kept, gpu, rate.shapes);
  }
  return text;
}

}  // namespace

std::string without_keys(const std::string& yaml, const std::vector<std::string>& keys) {
  std::string kept;
  bool dropping = false;
  for (std::size_t at = 0; at < yaml.size();) {
    const std::size_t end = std::min(yaml.find('\n', at), yaml.size());
    const std::string line = yaml.substr(at, end - at);
    at = end + 1;
    const bool inside = line.empty() || line[0] == ' ' || line[0] == '-';
    if (!inside) {
      dropping = line[0] != '#' && std::ranges::any_of(keys, [&](const std::string& key) {
                   return line.starts_with(key + ":");
                 });
    }
    if (!dropping) kept += line + "\n";
  }
  return kept;
}

std::vector<FittedFile> fitted_files(const ProfileFit& fit, const FitText& text) {
  std::vector<FittedFile> files = {{".gpu.yaml", fitted_gpu(fit, text)},
                                   {".software.yaml", fitted_software(fit, text)},
                                   {".calib.yaml", fitted_cluster(fit, text)}};
  for (const LinkOfProfile& link : fit.links) {
    files.push_back({fmt::format("-{}.calib.yaml", link.name),
                     calibration_yaml(link.calibrated, {fmt::format("{}-{}", text.name, link.name),
                                                        text.command,
                                                        {text.exchange_overhead}})});
  }
  return files;
}

Printout fit_report(const ProfileFit& fit, const FitText& text) {
  std::string lines =
      fmt::format("kernels: {} shapes, {} tables of products, {} of memory-bound ops\n", fit.shapes,
                  fit.tables.gemm.size(), fit.tables.memory_bound.size());
  if (fit.errors.held > 0) {
    lines +=
        fmt::format("held out: {}; {} typically, {} at worst\n", counted(fit.errors.held, "size"),
                    percent(fit.errors.typical), percent(fit.errors.worst));
  }
  lines += kept_text("products", fit.kept, text.gpu);
  lines += kept_text("attention", fit.kept_attention, text.gpu);
  if (fit.slowdown.shapes > 0) {
    lines += fmt::format("kernels during exchanges take {:.3f} times as long ({} shapes)\n",
                         fit.slowdown.factor, fit.slowdown.shapes);
  }
  if (fit.launches > 0) {
    lines += fmt::format("host: {} per kernel ({} launches that a GPU waited for)\n",
                         microseconds(fit.per_kernel), fit.launches);
  }
  for (const std::string& note : fit.notes) lines += "note: " + note + "\n";
  Printout out;
  out.add(lines);
  if (fit.links.empty()) return out;
  Table table("links", 1, {"link", "exchanges", "fixed time", "best rate", "held out", "worst"});
  for (const LinkOfProfile& link : fit.links) {
    const auto& [fitted, held, logs] = link.calibrated;
    double best = 0;
    for (const auto& knot : fitted.knots) best = std::max(best, knot.point.rate.value);
    table.rows.push_back({Cell(link.name), Cell(fitted.samples + fitted.rejected),
                          Cell(fitted.fixed), Cell(to_string(BytesPerSecond(best)), best, "B/s"),
                          held ? percent_cell(held->typical(true), 1) : Cell("-"),
                          held ? percent_cell(held->worst(true), 1) : Cell("-")});
  }
  return out.add("\n").add(table);
}

}  // namespace moesim
