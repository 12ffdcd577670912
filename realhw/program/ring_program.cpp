// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/ring_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace moesim {
namespace {

std::int64_t elements_of(const std::vector<Segment>& segments) {
  std::int64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.elements;
  return sum;
}

/// The elements from `begin` to `end` of what segments hold together.
std::vector<Segment> cut(const std::vector<Segment>& segments, std::int64_t begin,
                         std::int64_t end) {
  std::vector<Segment> result;
  std::int64_t at = 0;
  for (const Segment& segment : segments) {
    const std::int64_t from = std::max(begin, at), to = std::min(end, at + segment.elements);
    if (from < to) {
      result.push_back(
          {{segment.at.buffer, segment.at.offset + (from - at) * float_bytes}, to - from});
    }
    at += segment.elements;
  }
  return result;
}

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

void RingProgram::add(const RingCollective& collective) {
  const std::int64_t members = std::ssize(collective.rings.front());
  const std::int64_t times = collective.kind == RingKind::all_reduce ? 2 : 1;
  const std::int64_t passed = times * (members - 1);
  const std::int64_t rings = std::ssize(collective.rings);
  rounds_.resize(std::max(rounds_.size(), static_cast<std::size_t>(passed)));
  for (std::int64_t r = 0; r < rings; ++r) {
    std::vector<GpuId> ring = collective.rings[static_cast<std::size_t>(r)];
    const std::int64_t onward = (passed + 1) / 2;  // of the parts passed; the others go back
    add_way(collective, ring, r * passed, r * passed + onward, rings * passed);
    std::ranges::reverse(ring);
    add_way(collective, ring, r * passed + onward, (r + 1) * passed, rings * passed);
  }
}

/// The share of every part from begin / of to end / of, along a ring.
void RingProgram::add_way(const RingCollective& collective, const std::vector<GpuId>& ring,
                          std::int64_t begin, std::int64_t end, std::int64_t of) {
  const std::int64_t n = std::ssize(ring);
  const std::int64_t own = std::ranges::find(ring, draft_.program.rank) - ring.begin();
  const auto member = [&](std::int64_t place) {
    return ring[static_cast<std::size_t>(((place % n) + n) % n)];
  };
  const auto share = [&](GpuId owner) {
    const std::vector<Segment> part = collective.part(owner);
    const std::int64_t elements = elements_of(part);
    return cut(part, elements * begin / of, elements * end / of);
  };
  const std::int64_t rounds = (collective.kind == RingKind::all_reduce ? 2 : 1) * (n - 1);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const bool adds = collective.kind != RingKind::all_gather && round < n - 1;
    const std::int64_t first = adds ? own - 1 - round : own - round % (n - 1);
    Passed& passed = rounds_[static_cast<std::size_t>(round)];
    for (const Segment& s : share(member(first))) passed.sent[member(own + 1)].push_back(s);
    for (const Segment& s : share(member(first - 1))) {
      passed.received[member(own - 1)].push_back({s, adds});
    }
  }
}

std::map<GpuId, std::int64_t> RingProgram::planned(bool sent) const {
  std::map<GpuId, std::int64_t> bytes;
  draft_.op(step_).traffic().for_each([&](GpuId from, GpuId to, Bytes moved) {
    if ((sent ? from : to) == draft_.program.rank) bytes[sent ? to : from] += moved.value;
  });
  return bytes;
}

/// What goes between the rank and a peer in a round.
std::int64_t RingProgram::room(std::size_t round, GpuId peer, bool sent) const {
  std::int64_t elements = 0;
  const Passed& passed = rounds_[round];
  if (sent) {
    if (const auto found = passed.sent.find(peer); found != passed.sent.end()) {
      elements = elements_of(found->second);
    }
  } else if (const auto found = passed.received.find(peer); found != passed.received.end()) {
    for (const auto& [segment, adds] : found->second) elements += segment.elements;
  }
  const auto rounds = static_cast<std::int64_t>(rounds_.size());
  return std::max(elements * float_bytes, planned(sent)[peer] / rounds);
}

void RingProgram::check_fits() const {
  for (const bool sent : {true, false}) {
    std::map<GpuId, std::int64_t> needed;
    std::int64_t pieces = 0;
    for (const Passed& passed : rounds_) {
      for (const auto& [peer, list] : passed.sent) {
        if (sent) needed[peer] += elements_of(list) * float_bytes;
        pieces += std::ssize(list);
      }
      for (const auto& [peer, list] : passed.received) {
        for (const auto& [segment, adds] : list) {
          if (!sent) needed[peer] += segment.elements * float_bytes;
        }
      }
    }
    auto bytes = planned(sent);
    for (const auto& [peer, more] : needed) {
      const std::int64_t there = bytes[peer];
      // A share of a part may be cut one element late; and if several rings share a link, the plan
      // rounds what goes either way once, and each ring here for itself.
      const std::int64_t halves = there / std::ssize(rounds_);
      if (more <= there + halves + 2 * (pieces + 1) * float_bytes) continue;
      throw std::runtime_error(fmt::format("{} bytes {} GPU {} do not fit into the plan's {}", more,
                                           sent ? "to" : "from", peer.value, there));
    }
  }
}

std::map<GpuId, std::int64_t> RingProgram::places(bool sent, std::int64_t& bytes) const {
  constexpr std::int64_t alignment = 16;
  std::map<GpuId, std::int64_t> most;
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    for (const auto& [peer, all] : planned(sent)) {
      most[peer] = std::max(most[peer], room(round, peer, sent));
    }
  }
  bytes = 0;
  for (auto& [peer, room_of] : most) bytes += rounded_up(std::exchange(room_of, bytes), alignment);
  return most;
}

void RingProgram::add_round(std::size_t round, BufferId out, BufferId in, Round& made) const {
  std::int64_t unused = 0;
  AddValues sums;
  std::vector<Call> copies;
  for (const auto& [peer, place] : places(true, unused)) {
    std::int64_t at = place;
    const auto found = rounds_[round].sent.find(peer);
    if (found != rounds_[round].sent.end()) {
      for (const Segment& s : found->second) {
        made.before.emplace_back(LocalCopy{s.at, {out, at}, s.elements * float_bytes});
        at += s.elements * float_bytes;
      }
    }
    if (const std::int64_t bytes = room(round, peer, true); bytes > 0) {
      made.sends.push_back({peer, {out, place}, bytes});
    }
  }
  for (const auto& [peer, place] : places(false, unused)) {
    std::int64_t at = place;
    const auto found = rounds_[round].received.find(peer);
    if (found != rounds_[round].received.end()) {
      for (const auto& [s, adds] : found->second) {
        if (adds) {
          sums.ranges.push_back({{in, at}, s.at, s.elements});
        } else {
          copies.emplace_back(LocalCopy{{in, at}, s.at, s.elements * float_bytes});
        }
        at += s.elements * float_bytes;
      }
    }
    if (const std::int64_t bytes = room(round, peer, false); bytes > 0) {
      made.receives.push_back({peer, {in, place}, bytes});
    }
  }
  if (!sums.ranges.empty()) made.after.emplace_back(DenseCall(std::move(sums)));
  made.after.insert(made.after.end(), copies.begin(), copies.end());
}

void RingProgram::finish() {
  check_fits();
  std::int64_t sent = 0, received = 0;
  places(true, sent);
  places(false, received);
  const BufferId out =
      draft_.add_buffer(fmt::format("op {} sent", step_.op.value), sent, RowFormat::float32);
  const BufferId in = draft_.add_buffer(fmt::format("op {} received", step_.op.value), received,
                                        RowFormat::float32);
  draft_.program.zeroed.push_back(out);  // messages may be longer than what they carry
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    Round made;
    add_round(round, out, in, made);
    if (round > 0) {
      step_.more.push_back(std::move(made));
      continue;
    }
    step_.before.insert(step_.before.end(), made.before.begin(), made.before.end());
    step_.sends = std::move(made.sends);
    step_.receives = std::move(made.receives);
    step_.after.insert(step_.after.end(), made.after.begin(), made.after.end());
  }
}

}  // namespace moesim
