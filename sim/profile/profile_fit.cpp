// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/profile_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/linkfit/hold_out.h"
#include "sim/linkfit/link_fit.h"
#include "sim/linkfit/robust.h"
#include "sim/profile/clocks.h"

namespace moesim {
namespace {

std::optional<Collective> collective_of_kind(KernelKind kind) {
  switch (kind) {
    case KernelKind::all_to_all:
      return Collective::alltoall;
    case KernelKind::all_gather:
      return Collective::all_gather;
    case KernelKind::reduce_scatter:
      return Collective::reduce_scatter;
    case KernelKind::all_reduce:
      return Collective::all_reduce;
    case KernelKind::send_recv:
      return Collective::sendrecv;
    default:
      return std::nullopt;
  }
}

/// The link that an exchange is about, and its bytes there; an empty name if it is not known.
std::pair<std::string, std::int64_t> link_of(const ExchangeFacts& facts, KernelKind kind,
                                             const FitOptions& options) {
  if (!facts.link.empty()) return {facts.link, facts.link_bytes};
  const auto collective = collective_of_kind(kind);
  const std::int64_t bytes = std::max(facts.in_bytes, facts.out_bytes);
  if (!collective || bytes <= 0 || facts.ranks < 2) return {};
  const int hosts = (facts.ranks + options.gpus_per_host - 1) / options.gpus_per_host;
  const LinkReach reach = hosts > 1 ? LinkReach::fabric : LinkReach::host;
  const double part = link_bytes_per_byte({*collective, facts.ranks, hosts}, reach);
  return {fmt::format("{}-{}-{}", hosts > 1 ? "fabric" : "host", name_of(kind), facts.ranks),
          std::llround(part * static_cast<double>(bytes))};
}

/// Whether each exchange of a rank has no other one of it at the same time.
std::vector<bool> undisturbed(const ProfiledRank& rank) {
  std::vector<std::size_t> exchanges;
  for (std::size_t k = 0; k < rank.kernels.size(); ++k) {
    if (is_exchange(rank.kernels[k].kind)) exchanges.push_back(k);
  }
  std::vector<bool> single(rank.kernels.size(), false);
  ProfileTicks busy_until = -1;
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    const ProfiledKernel& kernel = rank.kernels[exchanges[i]];
    const bool before = kernel.start < busy_until;
    const bool after =
        i + 1 < exchanges.size() && rank.kernels[exchanges[i + 1]].start < kernel.end();
    single[exchanges[i]] = !before && !after;
    busy_until = std::max(busy_until, kernel.end());
  }
  return single;
}

/// The quicker half of each size's times: without the ranks' common clock they contain waiting.
std::vector<Sample> quicker_halves(std::vector<Sample> samples) {
  std::ranges::sort(samples, [](const Sample& a, const Sample& b) {
    return std::pair(a.bytes, a.time) < std::pair(b.bytes, b.time);
  });
  std::vector<Sample> kept;
  for (std::size_t i = 0; i < samples.size();) {
    std::size_t end = i;
    while (end < samples.size() && samples[end].bytes == samples[i].bytes) ++end;
    kept.insert(kept.end(), samples.begin() + static_cast<std::ptrdiff_t>(i),
                samples.begin() + static_cast<std::ptrdiff_t>(i + (end - i + 1) / 2));
    i = end;
  }
  return kept;
}

bool names_class(const Profile& profile, const std::string& link) {
  return std::ranges::any_of(profile.ranks, [&](const ProfiledRank& rank) {
    return std::ranges::any_of(rank.exchanges, [&](const auto& e) { return e.link == link; });
  });
}

/// Whether no size is more than half an octave from another one.
bool are_of_one_size(const std::vector<Sample>& samples) {
  const auto [least, most] = std::ranges::minmax(samples, {}, &Sample::bytes);
  return static_cast<double>(most.bytes.value) <=
         std::numbers::sqrt2 * static_cast<double>(least.bytes.value);
}

/// One size tells a rate, and no latency.
LinkFit rate_of_one_size(const std::vector<Sample>& samples) {
  std::vector<double> bytes, rates;
  for (const Sample& sample : samples) {
    bytes.push_back(static_cast<double>(sample.bytes.value));
    rates.push_back(bytes.back() / sample.time.value);
  }
  const BandwidthTable::Point point{Bytes(std::llround(upper_median(bytes))),
                                    BytesPerSecond(upper_median(rates))};
  LinkFit fit;
  fit.samples = static_cast<int>(samples.size());
  fit.knots.push_back({point, fit.samples, -1});
  fit.residuals.push_back({point.size, point.time(), 0});
  return fit;
}

std::string reason_of(const Error& e) { return e.diagnostics().front().message; }

void fit_links(const Profile& profile, const FitOptions& options, ProfileFit& fit) {
  for (const auto& [name, samples] : link_samples(profile, options)) {
    try {
      const bool one_size = are_of_one_size(samples);
      LinkOfProfile link{name,
                         {one_size ? rate_of_one_size(samples) : fit_link(samples), {}, {}},
                         names_class(profile, name)};
      if (one_size) fit.notes.push_back(name + ": exchanges of one size give a rate, no latency");
      Log log;
      log.kind = "profile";
      log.what = fmt::format("{}, {} of a profile", name, counted(samples.size(), "exchange"));
      log.gpu = profile.ranks.front().gpu;
      link.calibrated.logs.push_back(log);
      try {
        link.calibrated.held = hold_out(samples, {}, options.hold_out);
      } catch (const Error& e) {
        fit.notes.push_back(fmt::format("{}: no size is held out: {}", name, reason_of(e)));
      }
      fit.links.push_back(std::move(link));
    } catch (const Error& e) {
      fit.notes.push_back(fmt::format("{}: {}", name, reason_of(e)));
    }
  }
}

/// The host's time between two launches while the GPU waits for it.
void fit_host(const Profile& profile, ProfileFit& fit) {
  std::vector<double> apart;
  for (const ProfiledRank& rank : profile.ranks) {
    const ProfiledKernel* before = nullptr;
    ProfileTicks busy_until = 0;
    for (const ProfiledKernel& kernel : rank.kernels) {
      if (before != nullptr && before->launch >= 0 && kernel.launch > before->launch &&
          kernel.launch >= busy_until && kernel.launch - before->launch < 1'000'000'000) {
        apart.push_back(seconds_of(kernel.launch - before->launch).value);
      }
      busy_until = std::max(busy_until, kernel.end());
      before = &kernel;
    }
  }
  fit.launches = static_cast<int>(apart.size());
  if (!apart.empty()) fit.per_kernel = Seconds(upper_median(apart));
}

}  // namespace

std::map<std::string, std::vector<Sample>> link_samples(const Profile& profile,
                                                        const FitOptions& options) {
  std::map<std::string, std::vector<Sample>> samples;
  const auto waits = waits_of(profile), lags = lags_of(profile);
  for (std::size_t r = 0; r < profile.ranks.size(); ++r) {
    const ProfiledRank& rank = profile.ranks[r];
    const std::vector<bool> single = undisturbed(rank);
    for (std::size_t k = 0; k < rank.kernels.size(); ++k) {
      const ProfiledKernel& kernel = rank.kernels[k];
      if (!single[k] || kernel.exchange < 0) continue;
      const ExchangeFacts& facts = rank.exchanges[static_cast<std::size_t>(kernel.exchange)];
      const auto [link, bytes] = link_of(facts, kernel.kind, options);
      // Bytes of the busiest link are those of all ranks.
      const ProfileTicks lag = facts.link_bytes > 0 ? lags[r][k] : 0;
      const ProfileTicks moving = kernel.length - (waits[r].empty() ? 0 : waits[r][k]) + lag;
      if (!link.empty() && bytes > 0 && moving > 0) {
        samples[link].push_back({Bytes(bytes), seconds_of(moving)});
      }
    }
  }
  const bool waiting_known = std::ranges::any_of(waits, [](const auto& w) { return !w.empty(); });
  if (!waiting_known) {
    for (auto& [link, of] : samples) of = quicker_halves(std::move(of));
  }
  return samples;
}

ProfileFit fit_profile(const Profile& profile, const GpuModel& gpu, const FitOptions& options) {
  ProfileFit fit;
  const std::vector<ShapeTimes> times = shape_times(profile);
  fit.shapes = static_cast<int>(times.size());
  fit.slowdown = kernel_slowdown(times);
  const double factor = fit.slowdown.factor;
  fit.tables = tables_of(times, factor);
  fit.errors = held_out_errors(times, factor, options.hold_out);
  fit.kept = kept_rates(times, factor, gpu, false);
  fit.kept_attention = kept_rates(times, factor, gpu, true);
  if (times.empty()) {
    fit.notes.emplace_back(
        "no kernel has a shape: profile with record_shapes=True to get tables of products");
  }
  fit_host(profile, fit);
  fit_links(profile, options, fit);
  return fit;
}

}  // namespace moesim
