// SPDX-License-Identifier: Apache-2.0
// SimGrid behind Simulator; see docs/fidelity.md for the settings and the figures behind them.
#include <fmt/format.h>

#include <cstdlib>
#include <deque>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/simgrid_api.h"
#include "sim/engine/simulator.h"

namespace moesim {
namespace {

namespace s4u = simgrid::s4u;

class SimgridSimulator : public Simulator {
 public:
  explicit SimgridSimulator(Seconds precision);

  void add_link(BytesPerSecond bandwidth) override;
  void add_link(std::function<BytesPerSecond(int flows)> bandwidth) override;
  void add_plane(int gpus) override;
  void add_route(int plane, GpuId from, GpuId to, std::span<const LinkId> links) override;
  void spawn(std::function<void()> function) override;
  void call(Seconds time, std::function<void()> function) override;
  void run() override;
  void change(LinkId link) override;
  Seconds now() const override { return Seconds(s4u::Engine::get_clock()); }
  void sleep_until(Seconds time) override;
  void send(std::span<const Flow> flows, const std::function<void(std::size_t)>& arrived) override;

 private:
  /// An actor, which runs one function after the other: a new actor each would cost system calls
  /// for its stack.
  struct Worker {
    std::function<void()> function;
    s4u::SemaphorePtr wake = s4u::Semaphore::create(0);
  };

  void run(Worker& worker);
  void start(std::function<void()> function);
  void start_asked();
  static void give(Worker& worker, std::function<void()> function) {
    worker.function = std::move(function);
    worker.wake->release();
  }

  std::unique_ptr<s4u::Engine> engine_;
  s4u::NetZone* root_ = nullptr;
  s4u::Host* home_ = nullptr;  // where actors live
  std::vector<s4u::Link*> links_;
  std::vector<s4u::NetZone*> planes_;
  std::vector<std::vector<s4u::Host*>> hosts_;  // [plane][gpu]
  std::exception_ptr error_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  std::deque<std::function<void()>> asked_;  // to be started
  int unfinished_ = 0;                       // functions
};

/// Actors that nobody wakes again would be a deadlock: the last function ends all of them.
void SimgridSimulator::run(Worker& worker) {
  while (worker.function) {
    try {
      std::exchange(worker.function, nullptr)();
    } catch (const std::exception&) {  // not what SimGrid throws to end an actor
      if (!error_) error_ = std::current_exception();
    }
    start_asked();
    if (--unfinished_ == 0) {
      for (Worker* other : std::exchange(idle_, {})) give(*other, nullptr);
      return;
    }
    idle_.push_back(&worker);
    worker.wake->acquire();
  }
}

#ifdef __SANITIZE_ADDRESS__  // which knows only the stacks of threads
constexpr const char* contexts = "--cfg=contexts/factory:thread";
#elif defined(__x86_64__)
constexpr const char* contexts = "--cfg=contexts/factory:raw";
#else  // SimGrid's own ones are in x86's assembler
constexpr const char* contexts = "--cfg=contexts/factory:ucontext";
#endif

constexpr std::size_t stack_kib = 256;

/// SimGrid ends the program if there is no memory for an actor's stack. Throws std::bad_alloc
/// before it would. Volatile, or else a compiler may leave out what is freed unused.
void require_stack() {
  constexpr std::size_t page = 4096, guard = 16 * page;
  void* volatile const stack = std::aligned_alloc(page, stack_kib * 1024 + guard);
  if (stack == nullptr) throw std::bad_alloc();
  std::free(stack);
}

// Stacks hold backend code too, not only SimGrid's. The network is plain max-min: equal shares, no
// correction factors. Links carry no latency: CM02 would weigh flows by it, and TCP-gamma would
// bound them by it, so senders wait for the latency themselves.
std::vector<std::string> settings(Seconds precision) {
  return {"moesim",
          "--log=root.thresh:critical",
          contexts,
          fmt::format("--cfg=contexts/stack-size:{}", stack_kib),
          "--cfg=network/model:CM02",
          "--cfg=network/crosstraffic:0",
          "--cfg=network/TCP-gamma:1e12",
          fmt::format("{}{}", simgrid_api::precision_flag, precision.value)};
}

SimgridSimulator::SimgridSimulator(Seconds precision) {
  std::vector<std::string> args = settings(precision);
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(args.size());
  engine_ = std::make_unique<s4u::Engine>(&argc, argv.data());
  root_ = simgrid_api::cluster_zone(*engine_);
  home_ = simgrid_api::add_host(*root_, "home");
}

void SimgridSimulator::add_link(BytesPerSecond bandwidth) {
  const auto name = std::to_string(links_.size());
  links_.push_back(simgrid_api::add_link(*root_, name, bandwidth.value)->set_latency(0));
}

void SimgridSimulator::add_link(std::function<BytesPerSecond(int)> bandwidth) {
  add_link(bandwidth(1));
  links_.back()->set_sharing_policy(
      s4u::Link::SharingPolicy::NONLINEAR,
      [bandwidth = std::move(bandwidth)](double, int flows) { return bandwidth(flows).value; });
}

void SimgridSimulator::add_plane(int gpus) {
  const std::size_t p = planes_.size();
  s4u::NetZone* zone = simgrid_api::add_full_zone(*root_, fmt::format("plane{}", p));
  std::vector<s4u::Host*> hosts;
  for (int g = 0; g < gpus; ++g) {
    hosts.push_back(simgrid_api::add_host(*zone, fmt::format("{}:{}", p, g)));
  }
  planes_.push_back(zone);
  hosts_.push_back(std::move(hosts));
}

void SimgridSimulator::add_route(int plane, GpuId from, GpuId to, std::span<const LinkId> links) {
  const auto& hosts = hosts_[static_cast<std::size_t>(plane)];
  std::vector<s4u::LinkInRoute> route;
  for (LinkId link : links) route.emplace_back(links_[link.index()]);
  simgrid_api::add_route(*planes_[static_cast<std::size_t>(plane)], *hosts[from.index()],
                         *hosts[to.index()], route);
}

/// SimGrid lets other actors run before it starts one: the caller ends or waits first, or others
/// would meet it half-done.
void SimgridSimulator::spawn(std::function<void()> function) {
  ++unfinished_;
  asked_.push_back(std::move(function));
}

void SimgridSimulator::start_asked() {
  while (!asked_.empty()) {
    auto function = std::move(asked_.front());
    asked_.pop_front();
    start(std::move(function));
  }
}

void SimgridSimulator::start(std::function<void()> function) {
  if (!idle_.empty()) {
    Worker& worker = *idle_.back();
    idle_.pop_back();
    return give(worker, std::move(function));
  }
  require_stack();
  auto& worker = *workers_.emplace_back(std::make_unique<Worker>());
  worker.function = std::move(function);
  simgrid_api::add_actor("", home_, [this, &worker] { run(worker); });
}

void SimgridSimulator::call(Seconds time, std::function<void()> function) {
  spawn([this, time, function = std::move(function)] {
    sleep_until(time);
    function();
  });
}

/// A bandwidth that is set, if only to what it was, makes SimGrid ask.
void SimgridSimulator::change(LinkId link) {
  s4u::Link* const of = links_[link.index()];
  of->set_bandwidth(of->get_bandwidth());
}

void SimgridSimulator::sleep_until(Seconds time) {
  start_asked();
  s4u::this_actor::sleep_until(time.value);
}

void SimgridSimulator::run() {
  start_asked();
  engine_->run();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void SimgridSimulator::send(std::span<const Flow> flows,
                            const std::function<void(std::size_t)>& arrived) {
  std::vector<s4u::CommPtr> running;
  std::vector<std::size_t> places;  // of the running ones
  std::size_t next = 0;
  while (next < flows.size() || !running.empty()) {
    start_asked();
    if (next < flows.size() && flows[next].start <= now()) {
      const Flow& flow = flows[next];
      const auto& hosts = hosts_[static_cast<std::size_t>(flow.plane)];
      auto comm = s4u::Comm::sendto_init(hosts[flow.from.index()], hosts[flow.to.index()]);
      comm->set_payload_size(static_cast<std::uint64_t>(flow.bytes.value));
      comm->start();
      running.push_back(std::move(comm));
      places.push_back(next++);
      continue;
    }
    if (running.empty()) {
      sleep_until(flows[next].start);
      continue;
    }
    const double forever = -1;
    const double patience = next < flows.size() ? (flows[next].start - now()).value : forever;
    const auto ended = simgrid_api::wait_any_for(running, patience);
    if (ended < 0) continue;  // another is to start first
    const std::size_t place = places[static_cast<std::size_t>(ended)];
    running.erase(running.begin() + ended);
    places.erase(places.begin() + ended);
    arrived(place);
  }
}

}  // namespace
}  // namespace moesim

/// What load_simulator.cpp looks for in the library.
extern "C" moesim::Simulator* moesim_make_simulator(double precision) {
  return new moesim::SimgridSimulator(moesim::Seconds(precision));
}
