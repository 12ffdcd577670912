// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/needed_hops.h"

#include <algorithm>

namespace moesim {

void NeededHops::add_route(std::span<const LinkId> links) {
  for (const LinkId link : links) {
    OfLink& of = links_[link.index()];
    if (!std::exchange(of.used, true)) {
      of.always.assign(links.begin(), links.end());
    } else if (of.always.size() > 1) {
      std::erase_if(of.always,
                    [&](LinkId other) { return std::ranges::find(links, other) == links.end(); });
    }
  }
  hops_.insert(hops_.end(), links.begin(), links.end());
  hops_.emplace_back(-1);
}

/// Of links that are equally wide and always together the first is needed.
bool NeededHops::is_needed(std::size_t link) const {
  const OfLink& of = links_[link];
  if (of.changes) return true;
  return std::ranges::none_of(of.always, [&](LinkId id) {
    const OfLink& other = links_[id.index()];
    if (id.index() == link || other.changes || other.bandwidth > of.bandwidth) return false;
    if (other.bandwidth < of.bandwidth || id.index() < link) return true;
    const LinkId self(static_cast<std::int64_t>(link));
    return std::ranges::find(other.always, self) == other.always.end();
  });
}

}  // namespace moesim
