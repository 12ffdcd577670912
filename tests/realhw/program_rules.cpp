// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/program_rules.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <map>
#include <ranges>

#include "realhw/program/draft.h"

namespace moesim {
namespace {

/// Calls visit(place, bytes, writes) for all that a call touches, reads first.
template <class Visit>
class Touched {
 public:
  Touched(const RankProgram& program, Visit visit) : program_(program), visit_(visit) {}

  void operator()(const RowSums& sums) {
    for (std::size_t i = 0; i < sums.to.size(); ++i) {
      for (std::uint32_t t = sums.first[i]; t < sums.first[i + 1]; ++t) {
        read(sums.terms[t].from, sums.width);
      }
      write(sums.to[i], sums.width);
    }
  }
  void operator()(const GroupedProduct& p) {
    const bool outer = p.kind == GroupedProduct::Kind::outer;
    for (const auto& group : p.groups) {
      read(group.a, group.m * p.k);
      read(group.b, outer ? group.m * p.n : p.k * p.n);
      if (outer) read(group.c, p.k * p.n);
      write(group.c, outer ? p.k * p.n : group.m * p.n);
    }
  }
  void operator()(const Activation& a) {
    const std::int64_t up = a.gated ? 2 * a.ffn : a.ffn;
    for (const auto& range : a.ranges) {
      read(range.h, range.rows * up);
      if (a.gradient) read(range.out_gradient, range.rows * a.ffn);
      a.gradient ? write(range.h_gradient, range.rows * up) : write(range.out, range.rows * a.ffn);
    }
  }
  void operator()(const LocalCopy& copy) {
    visit_(copy.from, copy.bytes, false);
    visit_(copy.to, copy.bytes, true);
  }
  void operator()(const Pattern& pattern) {
    for (const auto& range : pattern.ranges) visit_(range.at, range.bytes, !pattern.compare);
  }
  void operator()(const FiniteCheck& check) {
    for (const auto& range : check.ranges) read(range.at, range.elements);
  }
  void operator()(const Scratch&) {}
  void operator()(const HostWork&) {}
  void operator()(const DenseCall& call) { std::visit(*this, call); }
  void operator()(const RowNorm& norm) {
    for (const auto& range : norm.ranges) {
      read(range.gain, norm.width);
      for (std::int64_t row = 0; row < range.rows; ++row) {
        const auto at = [&](Place place) {
          place.offset += row * range.stride * float_bytes;
          return place;
        };
        read(at(range.x), norm.width);
        if (norm.gradient) read(at(range.dout), norm.width);
        write(at(norm.gradient ? range.dx : range.out), norm.width);
      }
      if (!norm.gradient) continue;
      read(range.dgain, norm.width);
      write(range.dgain, norm.width);
    }
  }
  void operator()(const Rotary& rotary) {
    read(rotary.from, rotary.rows * rotary.heads.width());
    write(rotary.to, rotary.rows * rotary.heads.width());
  }
  void operator()(const CausalAttention& attention) {
    const std::int64_t rows = attention.sequences * attention.sequence;
    const std::int64_t width = attention.heads.width(), out = attention.heads.out_width();
    read(attention.rows, rows * width);
    if (attention.gradient) read(attention.dout, rows * out);
    attention.gradient ? write(attention.drows, rows * width) : write(attention.out, rows * out);
  }
  void operator()(const CrossEntropy& loss) {
    const std::int64_t all = std::ssize(loss.labels) * loss.words;
    read(loss.gradient ? loss.shares : loss.logits, all);
    write(loss.gradient ? loss.dlogits : loss.shares, all);
    if (!loss.gradient) write(loss.losses, std::ssize(loss.labels));
  }
  void operator()(const DividedEntropy& loss) {
    const std::int64_t rows = std::ssize(loss.labels), all = rows * loss.words;
    read(loss.logits, all);
    if (!loss.joined) return write(loss.sums, rows * entropy_sums);
    read(loss.sums, loss.parts * rows * entropy_sums);
    write(loss.shares, all);
    write(loss.losses, rows);
  }
  void operator()(const AddValues& add) {
    for (const auto& range : add.ranges) {
      read(range.from, range.elements);
      read(range.to, range.elements);
      write(range.to, range.elements);
    }
  }
  void operator()(const AdamUpdate& update) {
    for (const auto& range : update.ranges) {
      read(range.gradients, range.elements);
      for (const Place at : {range.first, range.second, range.weights}) {
        read(at, range.elements);
        write(at, range.elements);
      }
    }
  }

 private:
  std::int64_t bytes(Place at, std::int64_t elements) const {
    return elements * static_cast<std::int64_t>(size_of(program_[at.buffer].format));
  }
  void read(Place at, std::int64_t elements) { visit_(at, bytes(at, elements), false); }
  void write(Place at, std::int64_t elements) { visit_(at, bytes(at, elements), true); }

  const RankProgram& program_;
  Visit visit_;
};

class Rules {
 public:
  explicit Rules(const RankProgram& program) : program_(program), ancestors_(program) {
    parts_.assign(program.buffers.size(), {{0, Byte()}});
    for (const BufferId buffer : program.zeroed) {
      for (auto& [begin, byte] : parts_[buffer.index()]) byte.writer = start;
    }
    for (const InitialValues& initial : program.initial) {
      const std::size_t size = initial.values.size() * size_of(program[initial.at.buffer].format);
      for (auto& [begin, byte] : parts_of(initial.at, static_cast<std::int64_t>(size))) {
        byte.writer = start;
      }
    }
  }

  std::vector<std::string> check() {
    for (const std::size_t i : ancestors_.order()) {
      const RankStep& step = program_.steps[i];
      told_ = false;
      calls(step, step.before);
      for (std::size_t round = 0; round <= step.more.size(); ++round) {
        if (round > 0) calls(step, step.more[round - 1].before);
        for (const Message& message : step.sends_of(round)) {
          touch(step, message.at, message.bytes, false);
        }
        for (const Message& message : step.receives_of(round)) {
          touch(step, message.at, message.bytes, true);
        }
        calls(step, step.after_of(round));
      }
    }
    return std::move(broken_);
  }

 private:
  static constexpr OpId start{-1}, nobody{-2};
  struct Byte {
    Byte() { readers.fill(start); }
    bool operator==(const Byte&) const = default;
    OpId writer = nobody;
    std::array<OpId, stream_count> readers;  // the last one of each stream
  };
  /// Bytes that are alike, by the first of them; each part goes up to the next.
  using Parts = std::map<std::int64_t, Byte>;

  void calls(const RankStep& step, const std::vector<Call>& calls) {
    const auto visit = [&](Place at, std::int64_t size, bool writes) {
      touch(step, at, size, writes);
    };
    for (const Call& call : calls) std::visit(Touched(program_, visit), call);
  }

  /// The parts of a buffer that such bytes consist of.
  std::ranges::subrange<Parts::iterator> parts_of(Place at, std::int64_t size) {
    Parts& parts = parts_[at.buffer.index()];
    const auto begin_at = [&parts](std::int64_t place) {
      const auto part = std::prev(parts.upper_bound(place));
      return part->first == place ? part : parts.emplace_hint(std::next(part), place, part->second);
    };
    const auto begin = begin_at(at.offset);
    return {begin, begin_at(at.offset + size)};
  }

  void touch(const RankStep& step, Place at, std::int64_t size, bool writes) {
    if (at.offset < 0 || at.offset + size > program_[at.buffer].bytes) {
      return tell(step, at, "goes beyond its buffer");
    }
    const auto touched = parts_of(at, size);
    for (auto& [begin, byte] : touched) {
      const std::string wrong = wrong_of(byte, step.op, writes);
      if (!wrong.empty()) return tell(step, at, wrong);
      (writes ? byte.writer : byte.readers.at(static_cast<std::size_t>(step.stream))) = step.op;
    }
    join_alike(parts_[at.buffer.index()], touched.begin(), touched.end());
  }

  /// Keeps parts few: neighbours in [first, last) that are alike become one.
  static void join_alike(Parts& parts, Parts::iterator first, Parts::iterator last) {
    while (first != last && std::next(first) != last) {
      const auto next = std::next(first);
      if (next->second == first->second) {
        parts.erase(next);
      } else {
        first = next;
      }
    }
  }

  /// What is wrong with an op that touches a byte; empty: nothing.
  std::string wrong_of(const Byte& byte, OpId op, bool writes) const {
    if (byte.writer == nobody) return writes ? "" : "reads what nobody has written";
    if (!ancestors_.visible(byte.writer, op)) {
      return fmt::format("does not wait for op {}, which writes the same", byte.writer.value);
    }
    for (const OpId reader : byte.readers) {
      if (writes && !ancestors_.visible(reader, op)) {
        return fmt::format("overwrites what op {} reads", reader.value);
      }
    }
    return "";
  }

  void tell(const RankStep& step, Place at, const std::string& what) {
    if (told_) return;
    told_ = true;
    broken_.push_back(fmt::format("op {} {}: '{}' at {}", step.op.value, what,
                                  program_[at.buffer].name, at.offset));
  }

  const RankProgram& program_;
  Ancestors ancestors_;
  std::vector<Parts> parts_;  // [buffer]
  std::vector<std::string> broken_;
  bool told_ = false;
};

}  // namespace

std::vector<std::string> broken_rules(const RankProgram& program) { return Rules(program).check(); }

}  // namespace moesim
