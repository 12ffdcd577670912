// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/link_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/linkfit/sizes.h"

namespace moesim {
namespace {

void fit_fixed(const std::vector<SizeTimes>& sizes, LinkFit& fit) {
  double quickest = sizes.front().seconds;
  for (const SizeTimes& s : sizes) quickest = std::min(quickest, s.seconds);
  std::vector<SizeTimes> small;
  for (const SizeTimes& s : sizes) {
    if (s.seconds > 2 * quickest && small.size() >= 3) break;
    small.push_back(s);
  }
  // Dense tables have hundreds of small sizes, and the pairs are quadratic.
  constexpr std::size_t most = 400;
  if (small.size() > most) small.resize(most);
  std::vector<double> bytes, seconds;
  for (const SizeTimes& s : small) {
    bytes.push_back(s.bytes);
    seconds.push_back(s.seconds);
  }
  const RobustLine line = theil_sen(bytes, seconds, 0);
  fit.fixed = Seconds(std::clamp(line.start, 0.0, quickest));
  // The line goes through two of three sizes, whose deviations tell nothing then.
  constexpr std::size_t least_sizes = 4;
  constexpr double resolution = 1e-9;
  if (small.size() >= least_sizes && line.start_spread > resolution) {
    fit.fixed_spread = Seconds(line.start_spread);
  }
}

/// Neighbouring knots that isotonic regression has pooled.
struct KnotPool {
  double log_time;
  double weight;
  std::size_t knots;
};

void make_monotone(std::vector<LinkFit::Knot>& knots) {
  std::vector<KnotPool> singles;
  for (const LinkFit::Knot& knot : knots) {
    singles.push_back(
        {std::log(knot.point.time().value), std::max(1.0, static_cast<double>(knot.samples)), 1});
  }
  const auto mean = [](KnotPool& before, const KnotPool& pool) {
    const double weight = before.weight + pool.weight;
    before = {(before.log_time * before.weight + pool.log_time * pool.weight) / weight, weight,
              before.knots + pool.knots};
  };
  std::size_t k = 0;
  for (const KnotPool& pool : pooled(
           std::move(singles), [](const KnotPool& pool) { return pool.log_time; }, mean)) {
    for (std::size_t i = 0; i < pool.knots; ++i) {
      BandwidthTable::Point& point = knots[k++].point;
      point.rate = BytesPerSecond(static_cast<double>(point.size.value) / std::exp(pool.log_time));
    }
  }
}

/// Five digits, rounded down, so that what is written and read again is the same.
double five_digits(double value) {
  const double scale = std::pow(10.0, std::floor(std::log10(value)) - 4);
  return std::floor(value / scale) * scale;
}

/// A larger size may not take less time: rates grow no faster than sizes.
void keep_times_ascending(std::vector<LinkFit::Knot>& knots) {
  for (std::size_t i = 0; i < knots.size(); ++i) {
    BandwidthTable::Point& point = knots[i].point;
    double rate = point.rate.value;
    if (i > 0) {
      const BandwidthTable::Point& last = knots[i - 1].point;
      const double growth =
          static_cast<double>(point.size.value) / static_cast<double>(last.size.value);
      rate = std::min(rate, last.rate.value * growth * (1 - 1e-9));
    }
    point.rate = BytesPerSecond(five_digits(rate));
  }
}

std::vector<LinkFit::Knot> knots_of(const std::vector<SizeTimes>& sizes, Seconds fixed) {
  std::map<long, std::vector<const SizeTimes*>> bins;  // by half octaves
  for (const SizeTimes& s : sizes) {
    if (s.seconds - fixed.value < 0.1 * s.seconds) continue;
    bins[std::lround(std::floor(2 * std::log2(s.bytes)))].push_back(&s);
  }
  std::vector<LinkFit::Knot> knots;
  for (const auto& [bin, members] : bins) {
    std::vector<double> bytes, rates, spreads;
    LinkFit::Knot knot;
    for (const SizeTimes* s : members) {
      bytes.push_back(s->bytes);
      rates.push_back(s->bytes / (s->seconds - fixed.value));
      if (s->spread >= 0) spreads.push_back(s->spread);
      knot.samples += s->samples;
    }
    knot.point = {Bytes(std::llround(median(bytes))), BytesPerSecond(median(rates))};
    if (!spreads.empty()) knot.spread = median(spreads);
    knots.push_back(knot);
  }
  return knots;
}

/// Adds knots inside half octaves if the curve bends there: the size with the largest error becomes
/// a knot, again and again, until no error is above 8 %.
void refine(const std::vector<SizeTimes>& curve, LinkFit& fit) {
  while (true) {
    const BandwidthTable table = fit.table();
    const SizeTimes* worst = nullptr;
    double most = 0.08;
    for (const SizeTimes& s : curve) {
      const Bytes bytes(std::llround(s.bytes));
      const double off = std::abs((fit.fixed + table.time(bytes)).value / s.seconds - 1);
      const bool rate = s.seconds > fit.fixed.value;
      const bool there = std::ranges::any_of(
          fit.knots, [&](const LinkFit::Knot& k) { return k.point.size == bytes; });
      if (!rate || there || off <= most) continue;
      most = off;
      worst = &s;
    }
    if (worst == nullptr) return;
    const BandwidthTable::Point point{
        Bytes(std::llround(worst->bytes)),
        BytesPerSecond(worst->bytes / (worst->seconds - fit.fixed.value))};
    fit.knots.push_back({point, worst->samples, worst->spread});
    std::ranges::sort(fit.knots, {}, [](const LinkFit::Knot& k) { return k.point.size; });
    make_monotone(fit.knots);
    keep_times_ascending(fit.knots);
  }
}

/// The largest relative error of the line that minimises the squares of relative errors.
double line_error(const std::vector<SizeTimes>& sizes) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (const SizeTimes& s : sizes) {
    const double weight = 1 / (s.seconds * s.seconds);
    w += weight;
    wx += weight * s.bytes;
    wy += weight * s.seconds;
    wxx += weight * s.bytes * s.bytes;
    wxy += weight * s.bytes * s.seconds;
  }
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  const double start = (wy - slope * wx) / w;
  double worst = 0;
  for (const SizeTimes& s : sizes) {
    worst = std::max(worst, std::abs((start + slope * s.bytes) / s.seconds - 1));
  }
  return worst;
}

std::string why_no_bandwidth(const std::vector<SizeTimes>& sizes) {
  const auto size = [](const SizeTimes& s) { return to_string(Bytes(std::llround(s.bytes))); };
  if (sizes.empty()) return "there are no times: nothing tells a bandwidth";
  if (sizes.size() == 1) {
    return fmt::format("all times are of one size, {} on the link, which tells no bandwidth",
                       size(sizes.front()));
  }
  const auto differ = [](const SizeTimes& s) { return s.apart > contradiction; };
  if (const auto apart = std::ranges::count_if(sizes, differ); apart > 0) {
    const auto most = std::ranges::max_element(sizes, {}, &SizeTimes::apart);
    return fmt::format("times of {} of {} differ between runs, by {:.0f} % at {} on the link",
                       apart, counted(std::ssize(sizes), "size"), 100 * most->apart, size(*most));
  }
  return fmt::format("times of {}, {} to {} on the link, grow too little to tell a bandwidth",
                     counted(std::ssize(sizes), "size"), size(sizes.front()), size(sizes.back()));
}

}  // namespace

BandwidthTable LinkFit::table() const {
  std::vector<BandwidthTable::Point> points;
  for (const Knot& knot : knots) points.push_back(knot.point);
  return BandwidthTable(std::move(points));
}

double LinkFit::worst() const {
  double most = 0;
  for (const Residual& r : residuals) most = std::max(most, std::abs(r.error));
  return most;
}

double LinkFit::typical() const {
  std::vector<double> errors;
  for (const Residual& r : residuals) errors.push_back(std::abs(r.error));
  return median(errors);
}

std::vector<double> LinkFit::left_out() const {
  std::vector<double> errors;
  for (std::size_t i = 1; i + 1 < knots.size(); ++i) {
    std::vector<BandwidthTable::Point> others;
    for (std::size_t k = 0; k < knots.size(); ++k) {
      if (k != i) others.push_back(knots[k].point);
    }
    const BandwidthTable::Point& point = knots[i].point;
    const Seconds predicted = fixed + BandwidthTable(std::move(others)).time(point.size);
    errors.push_back(predicted / (fixed + point.time()) - 1);
  }
  return errors;
}

LinkFit fit_link(const std::vector<Sample>& samples,
                 const std::vector<std::vector<Sample>>& beside) {
  LinkFit fit;
  const std::vector<SizeTimes> sizes = sizes_of(samples);
  for (const SizeTimes& s : sizes) fit.samples += s.samples;
  fit.rejected = static_cast<int>(samples.size()) - fit.samples;
  const std::vector<SizeTimes> curve = ascending(settled(sizes, beside));
  if (curve.size() >= 2) {
    fit_fixed(curve, fit);
    fit.knots = knots_of(curve, fit.fixed);
  }
  if (fit.knots.size() < 2) {
    throw Error(why_no_bandwidth(sizes),
                "measure sizes from 1 KiB to 1 GiB while nothing else runs");
  }
  make_monotone(fit.knots);
  keep_times_ascending(fit.knots);
  refine(curve, fit);
  const BandwidthTable table = fit.table();
  for (const SizeTimes& s : sizes) {
    const Bytes bytes(std::llround(s.bytes));
    const double fitted = (fit.fixed + table.time(bytes)).value;
    fit.residuals.push_back({bytes, Seconds(s.seconds), fitted / s.seconds - 1});
  }
  fit.line_error = line_error(sizes);
  return fit;
}

}  // namespace moesim
