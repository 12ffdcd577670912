// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/hold_out.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/linkfit/link_fit.h"
#include "sim/linkfit/sizes.h"

namespace moesim {
namespace {

std::vector<double> errors(const HoldOut& held, bool all) {
  std::vector<double> values;
  for (const HoldOut::Size& s : held.sizes) {
    if (all || !s.contradicted) values.push_back(std::abs(s.error));
  }
  return values;
}

void foretell(const LinkFit& fit, const std::vector<const SizeTimes*>& sizes, HoldOut& held) {
  const BandwidthTable table = fit.table();
  for (const SizeTimes* s : sizes) {
    const Bytes bytes(std::llround(s->bytes));
    const double time = (fit.fixed + table.time(bytes)).value;
    held.sizes.push_back(
        {bytes, Seconds(s->seconds), time / s->seconds - 1, s->apart, s->contradicted});
  }
}

}  // namespace

double HoldOut::typical(bool all) const {
  const std::vector<double> values = errors(*this, all);
  return values.empty() ? 0 : median(values);
}

double HoldOut::worst(bool all) const {
  const std::vector<double> values = errors(*this, all);
  return values.empty() ? 0 : std::ranges::max(values);
}

int HoldOut::sound() const {
  return static_cast<int>(std::ranges::count(sizes, false, &Size::contradicted));
}

HoldOut hold_out(const std::vector<Sample>& samples, const std::vector<std::vector<Sample>>& beside,
                 int every) {
  if (every < 2) throw std::invalid_argument("to hold out every size leaves nothing to fit");
  const std::vector<SizeTimes> sizes = sizes_of(samples);
  if (sizes.size() < 3) throw Error("there is no size between the smallest and the largest");
  HoldOut held;
  held.every = every;
  for (int k = 0; k < every; ++k) {
    std::vector<const SizeTimes*> unseen;
    for (std::size_t i = 1; i + 1 < sizes.size(); ++i) {
      if (static_cast<int>(i % static_cast<std::size_t>(every)) == k) unseen.push_back(&sizes[i]);
    }
    if (unseen.empty()) continue;
    std::set<std::int64_t> bytes;
    for (const SizeTimes* s : unseen) bytes.insert(std::llround(s->bytes));
    std::vector<Sample> seen = samples;
    std::erase_if(seen, [&](const Sample& s) { return bytes.count(s.bytes.value) > 0; });
    foretell(fit_link(seen, beside), unseen, held);
  }
  std::ranges::sort(held.sizes, {}, &HoldOut::Size::bytes);
  return held;
}

}  // namespace moesim
