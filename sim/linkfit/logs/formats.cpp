// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/read_number.h"

namespace moesim {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = std::min(text.find_first_not_of('\r', end), text.size());
    if (at < text.size() && text[at] == '\n') ++at;
  }
  return lines;
}

double number_in(const std::string& file, int line, std::string_view what,
                 const std::string& word) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, problem] = read_number(word.data(), end, value);
  if (problem != std::errc() || stop != end || !std::isfinite(value)) {
    throw error_in(file, fmt::format("'{}' is not a number, where {} should be", word, what),
                   "give the output as the test printed it", line);
  }
  return value;
}

void check_hosts(int ranks, int hosts, const std::string& file, int line) {
  if (hosts <= ranks) return;
  throw error_in(file,
                 fmt::format("{} cannot run on {}", counted(ranks, "rank"), counted(hosts, "host")),
                 "--hosts counts machines", line);
}

std::string label(const Setting& s) {
  return fmt::format("{} of {} on {}", name_of(s.collective), counted(s.ranks, "rank"),
                     counted(s.hosts, "host"));
}

Bytes LinkShare::bytes(double size) const {
  constexpr double most = 9007199254740992.;  // 2^53: exact
  const double bytes = size * bytes_per_byte;
  if (bytes >= 0 && bytes <= most) return Bytes(static_cast<std::int64_t>(bytes));
  throw error_in(file, fmt::format("has an exchange of {:.3g} bytes", size));
}

namespace {

/// Groups of GPUs that share NVLink: the hosts unless a domain is chosen.
int domains_of(const std::string& file, const Setting& setting, const LogChoice& choice) {
  if (!choice.domain) return setting.hosts;
  if (setting.ranks <= *choice.domain) return 1;
  if (setting.ranks % *choice.domain == 0) return setting.ranks / *choice.domain;
  throw error_in(file,
                 fmt::format("its {} ranks do not fill NVLink domains of {} GPUs", setting.ranks,
                             *choice.domain),
                 "--domain says how many GPUs of the run share NVLink, such as 8 of 16");
}

std::string place_of(int domains, int hosts, bool inside, bool only_domain) {
  if (inside && hosts == 1) return only_domain ? "inside an NVLink domain" : "inside a host";
  if (inside) return fmt::format("inside an NVLink domain of {} hosts", hosts);
  if (domains == hosts) return fmt::format("between {}", counted(hosts, "host"));
  return fmt::format("between {} NVLink domains of {}", domains, counted(hosts, "host"));
}

}  // namespace

LinkShare link_share(const std::string& file, const Setting& setting, const LogChoice& choice,
                     Log& log) {
  const int domains = domains_of(file, setting, choice);
  const LinkReach reach = choice.reach.value_or(domains > 1 ? LinkReach::fabric : LinkReach::host);
  const bool inside = reach == LinkReach::host;
  if (inside && domains > 1) {
    throw error_in(
        file,
        fmt::format("ran on {} {}: the time is that of the links between them", domains,
                    choice.domain ? "NVLink domains" : "hosts"),
        "take a run on one host for the links inside it; where NVLink joins hosts, as in racks of "
        "NVL72, --domain 72 says so");
  }
  log.setting = {setting.collective, setting.ranks, domains,
                 domains == setting.hosts ? setting.fewest : 0};
  log.reach = reach;
  const double factor = link_bytes_per_byte(log.setting, reach);
  if (!(factor > 0)) {
    throw error_in(file, "ran on one host: nothing crossed a link between hosts",
                   "take a run on several hosts, or --reach host");
  }
  log.what = fmt::format("{}, {}, {}", name_of(setting.collective), counted(setting.ranks, "rank"),
                         place_of(domains, setting.hosts, inside, choice.domain && !choice.hosts));
  log.parts = factor * setting.ranks;
  return {file, factor};
}

}  // namespace moesim
