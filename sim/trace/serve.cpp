// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json.h"
#include "sim/base/read_number.h"
#include "sim/trace/memory_step.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

constexpr double latest_arrival = 1e12;  // decode steps
constexpr int largest_batch = 1 << 20;

void refuse_unservable(const RoutingTrace& trace, const ServeOptions& options) {
  const TraceInfo& info = trace.info();
  if (info.phase == Phase::training || info.phase == Phase::prefill) {
    throw Error(
        fmt::format("trace '{}' is not of decode", info.name),
        "tokens of training and prefill do not come one by one; decode, mixed and synthetic "
        "traces are served");
  }
  if (info.counts_alone) {
    throw Error(fmt::format("trace '{}' has only counts, and no requests", info.name));
  }
  if (options.batch < 1 || options.batch > largest_batch) {
    throw Error(fmt::format("a batch of {}; it is from 1 to {}", options.batch, largest_batch));
  }
  if (options.least < 0 || options.least > options.batch) {
    throw Error(fmt::format("steps with {} requests or more: a batch has {} at most", options.least,
                            options.batch));
  }
}

std::string served_provenance(const RoutingTrace& trace, const ServeOptions& options) {
  using Json = nlohmann::ordered_json;
  const std::string& before = trace.info().provenance;
  Json served = {{"name", trace.info().name}, {"hash", trace.hash()}, {"batch", options.batch}};
  if (!options.arrivals.empty()) served["last_arrival"] = std::ranges::max(options.arrivals);
  return Json{{"served_from", served}, {"provenance", own_json(before.empty() ? "{}" : before)}}
      .dump();
}

}  // namespace

std::vector<double> poisson_arrivals(std::int64_t requests, double rate, std::uint64_t seed) {
  if (!(rate > 0 && rate <= 1e6)) {
    throw Error(fmt::format("{} requests per decode step; more than 0 come", rate));
  }
  Random random(seed);
  std::vector<double> arrivals;
  double now = 0;
  for (std::int64_t i = 0; i < requests; ++i) {
    now -= portable_log(1 - random.uniform()) / rate;
    arrivals.push_back(now);
  }
  return arrivals;
}

std::vector<double> parse_arrivals(const std::string& text, const std::string& file) {
  std::vector<double> arrivals;
  int line = 0;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string word = text.substr(at, end - at);
    double value = -1;
    const auto [rest, status] = read_number(word.data(), word.data() + word.size(), value);
    if (status != std::errc() || rest != word.data() + word.size() ||
        !(value >= 0 && value <= latest_arrival)) {
      throw error_in(fmt::format("{}:{}", file, line + 1),
                     fmt::format("'{}' is not an arrival in decode steps", word),
                     "one number from 0 on per line, in the order of the requests");
    }
    arrivals.push_back(value);
    at = end + 1;
  }
  return arrivals;
}

DecodeServer::DecodeServer(const RoutingTrace& trace, const ServeOptions& options)
    : trace_(trace), options_(options), info_(trace.info()) {
  refuse_unservable(trace, options);
  if (options_.least == 0) options_.least = options_.batch;
  std::int64_t longest = 0;
  for (int s = 0; s < trace.step_count(); ++s) {
    std::int64_t first = 0;
    for (const std::int32_t length : trace.step(s).sequence_lengths()) {
      waiting_.push_back({0, s, first, length});
      first += length;
      longest = std::max<std::int64_t>(longest, length);
    }
  }
  requests_ = static_cast<std::int64_t>(waiting_.size());
  if (longest < 2) {
    throw Error(fmt::format("every sequence of trace '{}' is one token", info_.name),
                "it is laid out by decode steps already");
  }
  if (!options.arrivals.empty()) {
    if (static_cast<std::int64_t>(options.arrivals.size()) != requests_) {
      throw Error(fmt::format("{} arrivals of {} requests", options.arrivals.size(), requests_));
    }
    for (std::size_t i = 0; i < waiting_.size(); ++i) waiting_[i].arrival = options.arrivals[i];
    std::ranges::stable_sort(waiting_, {}, &Request::arrival);
  }
  slots_.resize(static_cast<std::size_t>(std::min<std::int64_t>(options.batch, requests_)));
  info_.phase = Phase::decode;
  info_.provenance = served_provenance(trace, options_);
  if (!options.name.empty()) info_.name = options.name;
}

double DecodeServer::progress() const {
  return static_cast<double>(tokens_served_) / static_cast<double>(trace_.total_tokens());
}

void DecodeServer::admit() {
  for (Request& slot : slots_) {
    if (waiting_.empty() || waiting_.front().arrival > static_cast<double>(now_)) return;
    if (slot.tokens > 0) continue;
    slot = waiting_.front();
    waiting_.pop_front();
  }
}

std::shared_ptr<const TraceStep> DecodeServer::next_step() {
  for (;; ++now_) {
    admit();
    std::vector<Request*> running;
    for (Request& slot : slots_) {
      if (slot.tokens > 0) running.push_back(&slot);
    }
    if (running.empty()) {
      if (waiting_.empty()) return nullptr;
      now_ = static_cast<std::int64_t>(std::ceil(waiting_.front().arrival)) - 1;
      continue;
    }
    const auto count = static_cast<std::int64_t>(running.size());
    tokens_served_ += count;
    const bool kept = count >= options_.least;
    const auto step = kept ? running_step(running) : nullptr;
    for (Request* request : running) ++request->first, --request->tokens;
    if (kept) {
      ++now_;
      return step;
    }
    ++steps_left_out_;
    tokens_left_out_ += count;
  }
}

std::shared_ptr<const TraceStep> DecodeServer::running_step(
    const std::vector<Request*>& running) const {
  const auto layers = static_cast<int>(info_.layers.size());
  StepArrays arrays;
  arrays.number = now_;
  arrays.sequence_lengths.assign(running.size(), 1);
  arrays.ids =
      IdArray(info_.experts, static_cast<std::int64_t>(running.size()) * layers * info_.top_k);
  const bool weighted = std::ranges::all_of(
      running, [&](const Request* r) { return trace_.step(r->step).has_weights(); });
  std::int64_t to = 0;
  for (int layer = 0; layer < layers; ++layer) {
    for (const Request* request : running) {
      const TraceStep& step = trace_.step(request->step);
      const IdRows rows = step.ids(layer);
      for (int k = 0; k < info_.top_k; ++k) {
        arrays.ids.set(to++, rows.at(request->first, k));
        if (weighted) arrays.weights.push_back(step.weight(layer, request->first, k));
      }
    }
  }
  return make_step(info_, std::move(arrays));
}

}  // namespace moesim
