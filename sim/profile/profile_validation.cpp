// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/profile_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/linkfit/robust.h"
#include "sim/profile/breakdown.h"

namespace moesim {
namespace {

/// Kinds whose borders programs draw differently, together.
struct KindGroup {
  const char* name;
  std::vector<KernelKind> kinds;
};

const std::vector<KindGroup>& kind_groups() {
  using K = KernelKind;
  static const std::vector<KindGroup> groups = {
      {"products", {K::gemm, K::grouped_gemm, K::router, K::convolution}},
      {"attention", {K::attention, K::attention_backward}},
      {"rows and activations",
       {K::norm, K::elementwise, K::activation, K::cast, K::permute, K::rope, K::embedding, K::loss,
        K::reduction, K::scan, K::sort, K::cache, K::copy}},
      {"optimizer", {K::optimizer}},
      {"unknown", {K::unknown}},
      {"tokens", {K::dispatch, K::combine, K::notify, K::all_to_all}},
      {"other exchanges",
       {K::all_gather, K::reduce_scatter, K::all_reduce, K::broadcast, K::send_recv,
        K::other_exchange}}};
  return groups;
}

Cell error_cell(double measured, double simulated) {
  if (measured <= 0) return "-";
  const double error = simulated / measured - 1;
  return Cell(signed_percent(error), error);
}

/// Where a profile has no kernels, `measured` is not 0 but unknown.
void add_times_row(Table& table, const std::string& name, double measured, double simulated,
                   bool known = true) {
  if (measured <= 0 && simulated <= 0) return;
  table.rows.push_back({Cell(name), known ? Cell(Seconds(measured)) : no_value("s"),
                        Cell(Seconds(simulated)), error_cell(measured, simulated)});
}

Table timer_table(const std::vector<TimerTimes>& timers) {
  Table table("timers", 1, {"timer", "least", "largest", "simulated", "error"});
  for (const TimerTimes& timer : timers) {
    const bool known = timer.simulated > 0;
    table.rows.push_back({Cell(timer.name), Cell(Seconds(timer.least)),
                          Cell(Seconds(timer.largest)),
                          known ? Cell(Seconds(timer.simulated)) : no_value("s"),
                          known ? error_cell(timer.largest, timer.simulated) : Cell("-")});
  }
  return table;
}

std::string head_of(const StepTimes& measured, const StepTimes& simulated) {
  if (!measured.kernels) {
    return fmt::format("measured: the median of {} in a log, which has no kernels\n",
                       counted(measured.steps, "iteration"));
  }
  return fmt::format("measured: {}, {}{}; simulated: {}\n", counted(measured.ranks, "rank"),
                     counted(measured.steps, "step"),
                     measured.waits ? "" : ", exchanges with their waiting",
                     counted(simulated.ranks, "rank"));
}

/// {kind: seconds} of those that take any.
nlohmann::ordered_json kinds_json(const std::vector<double>& times) {
  nlohmann::ordered_json kinds = nlohmann::ordered_json::object();
  for (std::size_t k = 0; k < times.size(); ++k) {
    if (times[k] > 0) kinds[kernel_kind_names()[k]] = times[k];
  }
  return kinds;
}

/// {group: its kinds}.
nlohmann::ordered_json groups_json() {
  nlohmann::ordered_json groups;
  for (const KindGroup& group : kind_groups()) {
    for (const KernelKind kind : group.kinds) groups[group.name].push_back(name_of(kind));
  }
  return groups;
}

/// Lanes of [start, waiting, length, index of the kind] in nanoseconds.
nlohmann::ordered_json timelines_json(const BothTimelines& both) {
  nlohmann::ordered_json lanes = nlohmann::ordered_json::array();
  for (const ProfileLane& lane : both.lanes) {
    nlohmann::ordered_json bars = nlohmann::ordered_json::array();
    for (const ProfileBar& bar : lane.bars) {
      bars.push_back(
          {bar.start / 1000, bar.waiting / 1000, bar.length / 1000, static_cast<int>(bar.kind)});
    }
    lanes.push_back({{"of", lane.measured ? "measured" : "simulated"},
                     {"stream", lane.stream},
                     {"bars_ns", std::move(bars)}});
  }
  return {{"measured_rank", both.measured_rank},
          {"simulated_rank", both.simulated_rank},
          {"length_s", seconds_of(both.length).value},
          {"left_out", both.left_out},
          {"kinds", kernel_kind_names()},
          {"lanes", std::move(lanes)}};
}

nlohmann::ordered_json step_json(const StepTimes& times) {
  const auto part = [&](double seconds) {
    return times.kernels ? nlohmann::ordered_json(seconds) : nlohmann::ordered_json();
  };
  return {{"ranks", times.ranks},
          {"steps", times.steps},
          {"wall_s", times.wall},
          {"work_only_s", part(times.work_only)},
          {"traffic_only_s", part(times.traffic_only)},
          {"both_s", part(times.both)},
          {"idle_s", part(times.idle)},
          {"without_waiting", times.waits},
          {"kinds_s", kinds_json(times.kinds)},
          {"exposed_s", kinds_json(times.exposed)}};
}

nlohmann::ordered_json timers_json(const std::vector<TimerTimes>& timers) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TimerTimes& timer : timers) {
    nlohmann::ordered_json one = {
        {"timer", timer.name}, {"least_s", timer.least}, {"largest_s", timer.largest}};
    if (timer.simulated > 0) one["simulated_s"] = timer.simulated;
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

std::vector<TimerTimes> timer_times(const Profile& profile, double iteration, double optimizer) {
  std::vector<TimerTimes> timers;
  for (const auto& [name, times] : profile.timers) {
    std::vector<double> least, largest;
    for (const auto& [from, to] : times) least.push_back(from), largest.push_back(to);
    const double simulated = name == "optimizer"          ? optimizer
                             : name == "forward-backward" ? iteration - optimizer
                                                          : 0;
    timers.push_back(
        {name, upper_median(std::move(least)), upper_median(std::move(largest)), simulated});
  }
  return timers;
}

StepTimes step_times(const Profile& profile, int steps) {
  StepTimes times;
  times.kinds.assign(kernel_kind_count, 0);
  times.exposed.assign(kernel_kind_count, 0);
  times.ranks = static_cast<int>(profile.ranks.size());
  times.kernels = !is_log(profile);
  if (!times.kernels) {
    std::vector<ProfileTicks> lengths;
    for (const auto& [begin, end] : profile.ranks.front().steps) lengths.push_back(end - begin);
    times.steps = static_cast<int>(lengths.size());
    times.wall = seconds_of(upper_median(std::move(lengths))).value;
    return times;
  }
  const auto in_profile = static_cast<int>(profile.ranks.front().steps.size());
  times.steps = steps > 0 ? steps : std::max(1, in_profile);
  const auto waits = waits_of(profile), lags = lags_of(profile);
  const double each = 1.0 / times.ranks / times.steps, tick = seconds_of(1).value;
  for (std::size_t r = 0; r < profile.ranks.size(); ++r) {
    const RankTime rank = breakdown(profile.ranks[r], waits[r]);
    times.waits |= rank.waiting_known;
    for (std::size_t k = 0; k < times.kinds.size(); ++k) {
      const auto& kind = rank.kinds[k];
      times.kinds[k] += seconds_of(kind.time - kind.waiting).value * each;
      times.exposed[k] += kind.exposed * tick * each;
    }
    for (std::size_t k = 0; k < lags[r].size(); ++k) {
      const KernelKind kind = profile.ranks[r].kernels[k].kind;
      times.kinds[static_cast<std::size_t>(kind)] += seconds_of(lags[r][k]).value * each;
    }
    times.wall += seconds_of(rank.wall).value * each;
    times.work_only += seconds_of(rank.work_only).value * each;
    times.traffic_only += seconds_of(rank.traffic_only).value * each;
    times.both += seconds_of(rank.both).value * each;
    times.idle += seconds_of(rank.idle).value * each;
  }
  return times;
}

Printout validation_of_profile_text(const ProfileValidation& validation) {
  const StepTimes &measured = validation.measured, &simulated = validation.simulated;
  Table groups("groups", 1, {"of one step", "measured", "simulated", "error"});
  add_times_row(groups, "wall", measured.wall, simulated.wall);
  const bool known = measured.kernels;
  add_times_row(groups, "work only", measured.work_only, simulated.work_only, known);
  add_times_row(groups, "traffic only", measured.traffic_only, simulated.traffic_only, known);
  add_times_row(groups, "both", measured.both, simulated.both, known);
  add_times_row(groups, "idle", measured.idle, simulated.idle, known);
  for (const KindGroup& group : kind_groups()) {
    double of_measured = 0, of_simulated = 0;
    for (const KernelKind kind : group.kinds) {
      of_measured += measured.kinds[static_cast<std::size_t>(kind)];
      of_simulated += simulated.kinds[static_cast<std::size_t>(kind)];
    }
    add_times_row(groups, group.name, of_measured, of_simulated, known);
  }
  Table kinds("kinds", 1, {"kind", "measured", "simulated", "error"});
  for (std::size_t k = 0; k < measured.kinds.size(); ++k) {
    add_times_row(kinds, kernel_kind_names()[k], measured.kinds[k], simulated.kinds[k], known);
  }
  Printout out;
  out.add(head_of(measured, simulated)).add(groups);
  if (!validation.timers.empty()) out.add("\n").add(timer_table(validation.timers));
  return out.add("\n").add(kinds);
}

std::string validation_of_profile_json(const ProfileValidation& validation,
                                       const std::string& version, bool timelines) {
  nlohmann::ordered_json out = {{"format", "moesim-profile-validation"},
                                {"format_version", 1},
                                {"moesim", version},
                                {"scenario", validation.scenario},
                                {"policy", validation.policy},
                                {"topology", validation.topology},
                                {"groups", groups_json()},
                                {"measured", step_json(validation.measured)},
                                {"simulated", step_json(validation.simulated)}};
  if (!validation.timers.empty()) out["timers"] = timers_json(validation.timers);
  if (timelines) out["timelines"] = timelines_json(validation.timelines);
  return out.dump(2) + "\n";
}

void add_measured(const Profile& profile, int first_process, TraceEvents& out) {
  std::optional<ProfileTicks> first;
  for (const ProfiledRank& rank : profile.ranks) {
    if (rank.kernels.empty()) continue;
    first = std::min(first.value_or(rank.kernels.front().start), rank.kernels.front().start);
  }
  const ProfileTicks begin = first.value_or(0);
  int process = first_process;
  for (const ProfiledRank& rank : profile.ranks) {
    out.name_process(process, fmt::format("measured rank {}", rank.rank));
    for (std::size_t s = 0; s < rank.streams.size(); ++s) {
      out.name_thread({process, static_cast<int>(s)}, rank.streams[s]);
    }
    for (const ProfiledKernel& kernel : rank.kernels) {
      const std::string args = fmt::format(R"({{"kind":"{}"}})", name_of(kernel.kind));
      out.slice({{process, kernel.stream},
                 kernel.start - begin,
                 kernel.end() - begin,
                 profile.kernel_names[kernel.name].substr(0, 100),
                 is_exchange(kernel.kind) ? "exchange" : "kernel",
                 args});
    }
    ++process;
  }
  out.flush();
}

}  // namespace moesim
