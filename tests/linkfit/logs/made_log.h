// SPDX-License-Identifier: Apache-2.0
// Logs in the forms that people have them, of invented times.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "sim/linkfit/logs/read_log.h"
#include "tests/error_of.h"

namespace moesim {

/// What a test printed. Sizes double from 1 MiB; times are 20 us + size x busbw factor / 40 GB/s.
struct MadeLog {
  std::string program = "alltoall_perf";  // empty: as versions before 2.17, which name none
  int ranks = 16, per_host = 8;
  std::string gpu = "NVIDIA H100 80GB HBM3";
  double factor = 15.0 / 16;  // of the bus bandwidth
  int sizes = 6;
  long long first = 1 << 20;
  std::string redop = "none", in_place_wrong = "N/A";
  long long parts = 16;  // size / bytes of count elements
  bool preamble = true, ended = true;

  std::string row(int k) const {
    const long long size = first << k;
    const double us = 20 + static_cast<double>(size) * factor / 40e3;
    const double rate = static_cast<double>(size) / us / 1e3;
    const std::string half = fmt::format("{:7.2f}  {:6.2f}  {:6.2f}", us, rate, rate * factor);
    return fmt::format("{:12d}  {:12d}     float  {:>6}      -1  {}       0  {}  {:>6}\n", size,
                       size / 4 / parts, redop, half, half, in_place_wrong);
  }
  std::string rank(int r) const {
    return fmt::format(
        "#  Rank {:2d} Group  0 Pid {:6d} on   node{} device {:2d} [0000:{:02x}:00] {}\n", r,
        4000 + r, r / per_host, r % per_host, r % per_host, gpu);
  }
  std::string header() const {
    std::string text =
        "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 33554432 step: 2(factor)\n#\n";
    if (!program.empty()) {
      text =
          "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807\n"
          "# Collective test starting: " +
          program + "\n" + text;
    }
    text += "# Using devices\n";
    for (int r = 0; r < ranks; ++r) text += rank(r);
    return text;
  }
  static std::string columns() {
    return "#\n#                                          out-of-place              in-place\n"
           "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
           "     time   algbw   busbw  #wrong \n"
           "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n";
  }
  std::string text() const {
    std::string all = (preamble ? header() : "") + columns();
    for (int k = 0; k < sizes; ++k) all += row(k);
    return ended ? all + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 20.1\n#\n" : all;
  }
};

/// Every line, as `change` makes it of the line without its end.
inline std::string each_line(const std::string& text,
                             const std::function<std::string(const std::string&)>& change) {
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    all += change(text.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return all;
}

/// The text with another where it first has `from`.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

inline Log read_made(const std::string& text, const LogChoice& choice = {}) {
  return parse_log(text, "a.log", choice);
}

/// The first message and its hint.
inline std::string refusal_of(const std::string& text, const LogChoice& choice = {}) {
  return error_of([&] { parse_log(text, "a.log", choice); });
}

}  // namespace moesim
