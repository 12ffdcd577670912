// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/profile_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/linkfit/robust.h"

namespace moesim {
namespace {

Cell time_cell(double ticks) { return Cell(Seconds(ticks * 1e-12)); }
Cell time_cell(ProfileTicks ticks) { return Cell(seconds_of(ticks)); }

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string shortened_name(const std::string& name, std::size_t most) {
  return name.size() <= most ? name : name.substr(0, most - 3) + "...";
}

/// The ranks' times, summed.
RankTime summed(const std::vector<RankTime>& ranks) {
  RankTime sum;
  for (const RankTime& rank : ranks) {
    for (std::size_t k = 0; k < sum.kinds.size(); ++k) {
      sum.kinds[k].kernels += rank.kinds[k].kernels;
      sum.kinds[k].time += rank.kinds[k].time;
      sum.kinds[k].exposed += rank.kinds[k].exposed;
      sum.kinds[k].overlapped += rank.kinds[k].overlapped;
      sum.kinds[k].waiting += rank.kinds[k].waiting;
    }
    sum.wall += rank.wall;
    sum.waiting_known |= rank.waiting_known;
  }
  return sum;
}

Table rank_table(const ProfileReport& report) {
  Table table("ranks", 1,
              {"rank", "wall", "work only", "traffic only", "both", "idle", "host gaps", "waiting",
               "kernels", "recognized"});
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const RankTime& time = report.ranks[r];
    ProfileTicks waiting = 0;
    for (const auto& kind : time.kinds) waiting += kind.waiting;
    table.rows.push_back(
        {Cell(report.read.profile.ranks[r].rank), time_cell(time.wall), time_cell(time.work_only),
         time_cell(time.traffic_only), time_cell(time.both), time_cell(time.idle),
         time.launches_known ? time_cell(time.host) : no_value("s"),
         time.waiting_known ? time_cell(waiting) : no_value("s"), Cell(time.kernels),
         percent_cell(
             share_of(static_cast<double>(time.recognized()), static_cast<double>(time.time())),
             1)});
  }
  return table;
}

Table kind_table(const RankTime& sum, std::size_t ranks) {
  Table table(
      "kinds", 1,
      {"kind", "kernels", "time", "GPU time", "exposed", "wall time", "overlapped", "waiting"});
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < sum.kinds.size(); ++k) {
    if (sum.kinds[k].kernels > 0) order.push_back(k);
  }
  std::ranges::sort(order, std::greater(), [&](std::size_t k) { return sum.kinds[k].time; });
  const double each = 1.0 / static_cast<double>(ranks);
  for (const std::size_t k : order) {
    const RankTime::Kind& kind = sum.kinds[k];
    const auto time = static_cast<double>(kind.time);
    const bool waits = is_exchange(static_cast<KernelKind>(k)) && sum.waiting_known;
    table.rows.push_back(
        {Cell(kernel_kind_names()[k]), Cell(kind.kernels), time_cell(time * each),
         percent_cell(share_of(time, static_cast<double>(sum.time())), 1),
         time_cell(kind.exposed * each),
         percent_cell(share_of(kind.exposed, static_cast<double>(sum.wall)), 1),
         percent_cell(share_of(static_cast<double>(kind.overlapped), time), 1),
         waits ? time_cell(static_cast<double>(kind.waiting) * each) : no_value("s")});
  }
  return table;
}

Table stream_table(const ProfileReport& report) {
  Table table("streams", 2, {"rank", "stream", "kernels", "busy", "wall time", "exchanges"});
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const RankTime& time = report.ranks[r];
    for (const auto& s : time.streams) {
      table.rows.push_back(
          {Cell(report.read.profile.ranks[r].rank), Cell(s.name), Cell(s.kernels),
           time_cell(s.busy),
           percent_cell(share_of(static_cast<double>(s.busy), static_cast<double>(time.wall)), 1),
           time_cell(s.traffic)});
    }
  }
  return table;
}

Seconds median_of_steps(const std::vector<ProfileTicks>& steps) {
  std::vector<double> seconds;
  for (const ProfileTicks step : steps) seconds.push_back(seconds_of(step).value);
  return Seconds(median(std::move(seconds)));
}

std::string head_text(const ProfileReport& report) {
  const Profile& profile = report.read.profile;
  std::string gpus;
  for (const ProfiledRank& rank : profile.ranks) {
    if (!rank.gpu.empty() && gpus.find(rank.gpu) == gpus.npos) {
      gpus += (gpus.empty() ? "" : ", ") + rank.gpu;
    }
  }
  std::string text =
      fmt::format("{}, {} rank{}{}, {} read\n", profile.producer, profile.ranks.size(),
                  profile.ranks.size() == 1 ? "" : "s", gpus.empty() ? "" : " of " + gpus,
                  to_string(Bytes(profile.bytes)));
  const std::vector<ProfileTicks>& steps = report.ranks.front().steps;
  if (!steps.empty()) {
    const auto [least, most] = std::ranges::minmax(steps);
    text += fmt::format("{} step{}: {} in the median, {} to {}\n", steps.size(),
                        steps.size() == 1 ? "" : "s", to_string(median_of_steps(steps)),
                        to_string(seconds_of(least)), to_string(seconds_of(most)));
  }
  const ClockFit& clocks = report.read.clocks;
  if (profile.ranks.size() > 1) {
    text += fmt::format(
        "clocks: aligned by {}, moved by at most {}; their ends are {} apart in the median, {} in "
        "95 %\n",
        counted(clocks.matched, "exchange"), to_string(clocks.largest_shift),
        to_string(clocks.residual_median), to_string(clocks.residual_95));
    if (clocks.unaligned > 0) {
      text +=
          fmt::format("clocks: {} ranks share no exchange with the first one\n", clocks.unaligned);
    }
  }
  for (const std::string& note : profile.notes) text += "note: " + note + "\n";
  return text;
}

nlohmann::ordered_json kinds_json(const RankTime& time) {
  nlohmann::ordered_json kinds = nlohmann::ordered_json::array();
  for (std::size_t k = 0; k < time.kinds.size(); ++k) {
    const RankTime::Kind& kind = time.kinds[k];
    if (kind.kernels == 0) continue;
    nlohmann::ordered_json one = {{"kind", kernel_kind_names()[k]},
                                  {"kernels", kind.kernels},
                                  {"time_s", seconds_of(kind.time).value},
                                  {"exposed_s", kind.exposed * 1e-12},
                                  {"overlapped_s", seconds_of(kind.overlapped).value}};
    if (time.waiting_known) one["waiting_s"] = seconds_of(kind.waiting).value;
    kinds.push_back(std::move(one));
  }
  return kinds;
}

nlohmann::ordered_json rank_json(const ProfiledRank& rank, const RankTime& time) {
  nlohmann::ordered_json one = {{"rank", rank.rank},
                                {"gpu", rank.gpu},
                                {"kernels", time.kernels},
                                {"wall_s", seconds_of(time.wall).value},
                                {"work_only_s", seconds_of(time.work_only).value},
                                {"traffic_only_s", seconds_of(time.traffic_only).value},
                                {"both_s", seconds_of(time.both).value},
                                {"idle_s", seconds_of(time.idle).value},
                                {"time_s", seconds_of(time.time()).value},
                                {"recognized_s", seconds_of(time.recognized()).value},
                                {"clock_shift_s", seconds_of(rank.shift).value}};
  if (time.launches_known) one["host_gaps_s"] = seconds_of(time.host).value;
  one["steps_s"] = nlohmann::ordered_json::array();
  for (const ProfileTicks step : time.steps) one["steps_s"].push_back(seconds_of(step).value);
  one["kinds"] = kinds_json(time);
  one["streams"] = nlohmann::ordered_json::array();
  for (const auto& s : time.streams) {
    one["streams"].push_back({{"stream", s.name},
                              {"kernels", s.kernels},
                              {"busy_s", seconds_of(s.busy).value},
                              {"exchanges_s", seconds_of(s.traffic).value}});
  }
  return one;
}

Table timer_table(const Profile& profile) {
  Table table("timers", 1, {"timer", "times", "least", "largest"});
  for (const auto& [name, times] : profile.timers) {
    std::vector<double> least, most;
    for (const auto& [from, to] : times) {
      least.push_back(from);
      most.push_back(to);
    }
    table.rows.push_back({Cell(name), Cell(static_cast<std::int64_t>(times.size())),
                          Cell(Seconds(median(std::move(least)))),
                          Cell(Seconds(median(std::move(most))))});
  }
  return table;
}

}  // namespace

ProfileReport::ProfileReport(const ReadProfile& of)
    : read(of), unknown(unknown_kernels(of.profile)) {
  const auto waits = waits_of(of.profile);
  for (std::size_t r = 0; r < waits.size(); ++r) {
    ranks.push_back(breakdown(of.profile.ranks[r], waits[r]));
  }
}

std::int64_t ProfileReport::kernels() const {
  std::int64_t sum = 0;
  for (const RankTime& rank : ranks) sum += rank.kernels;
  return sum;
}

double ProfileReport::recognized() const {
  double all = 0, known = 0;
  for (const RankTime& rank : ranks) {
    all += static_cast<double>(rank.time());
    known += static_cast<double>(rank.recognized());
  }
  return share_of(known, all);
}

Printout profile_text(const ProfileReport& report, int most_unknown) {
  Printout out;
  out.add(head_text(report));
  if (!report.read.profile.timers.empty()) out.add(timer_table(report.read.profile));
  if (report.kernels() == 0) return out;
  out.add(rank_table(report));
  const std::size_t ranks = report.ranks.size();
  out.add(fmt::format("\nkinds of kernels{}:\n", ranks == 1 ? "" : ", times per rank"));
  out.add(kind_table(summed(report.ranks), ranks));
  out.add("\n");
  out.add(stream_table(report));
  out.add(fmt::format("\nrecognized: {:.1f} % of the GPU time\n", report.recognized() * 100));
  if (report.unknown.empty()) return out;
  Table table("unknown", {{"time"}, {"kernels"}, {"kernel", TableColumn::Kind::prose}});
  for (const UnknownKernel& kernel : report.unknown) {
    if (std::ssize(table.rows) == most_unknown) break;
    table.rows.push_back(
        {time_cell(kernel.time), Cell(kernel.kernels), Cell(shortened_name(kernel.name, 120))});
  }
  out.add(table);
  return out;
}

std::string profile_json(const ProfileReport& report, const std::string& version) {
  const Profile& profile = report.read.profile;
  const ClockFit& clocks = report.read.clocks;
  nlohmann::ordered_json out = {{"format", "moesim-profile"}, {"version", 1},
                                {"moesim", version},          {"producer", profile.producer},
                                {"bytes", profile.bytes},     {"recognized", report.recognized()},
                                {"notes", profile.notes}};
  out["clocks"] = {{"exchanges", clocks.matched},
                   {"unaligned_ranks", clocks.unaligned},
                   {"largest_shift_s", clocks.largest_shift.value},
                   {"residual_median_s", clocks.residual_median.value},
                   {"residual_95_s", clocks.residual_95.value}};
  out["ranks"] = nlohmann::ordered_json::array();
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    out["ranks"].push_back(rank_json(profile.ranks[r], report.ranks[r]));
  }
  out["unknown"] = nlohmann::ordered_json::array();
  for (const UnknownKernel& kernel : report.unknown) {
    out["unknown"].push_back({{"kernel", kernel.name},
                              {"kernels", kernel.kernels},
                              {"time_s", seconds_of(kernel.time).value}});
  }
  return out.dump(2) + "\n";
}

}  // namespace moesim
