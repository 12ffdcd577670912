// SPDX-License-Identifier: Apache-2.0
// SimGrid behind Simulator; see docs/fidelity.md for the settings and the figures behind them.
#include "sim/engine/simulator.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

#include "sim/engine/simgrid_api.h"

namespace moesim {
namespace s4u = simgrid::s4u;

struct Simulator::Impl {
  std::unique_ptr<s4u::Engine> engine;
  s4u::NetZone* root = nullptr;
  s4u::Host* home = nullptr;  // where actors live
  std::vector<s4u::Link*> links;
  std::vector<s4u::NetZone*> planes;
  std::vector<std::vector<s4u::Host*>> hosts;  // [plane][gpu]
  std::exception_ptr error;

  /// An actor, which runs one function after the other: making and ending one for each takes system
  /// calls for its stack.
  struct Worker {
    std::function<void()> function;
    s4u::SemaphorePtr wake = s4u::Semaphore::create(0);
  };
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<Worker*> idle;
  int unfinished = 0;  // functions

  void run(Worker& worker);
  void give(Worker& worker, std::function<void()> function) {
    worker.function = std::move(function);
    worker.wake->release();
  }
};

/// Actors that nobody wakes again would be a deadlock: the last function ends all of them.
void Simulator::Impl::run(Worker& worker) {
  while (worker.function) {
    try {
      std::exchange(worker.function, nullptr)();
    } catch (const std::exception&) {  // not what SimGrid throws to end an actor
      if (!error) error = std::current_exception();
    }
    if (--unfinished == 0) {
      for (Worker* other : std::exchange(idle, {})) give(*other, nullptr);
      return;
    }
    idle.push_back(&worker);
    worker.wake->acquire();
  }
}

namespace {

#ifdef __SANITIZE_ADDRESS__  // which knows only the stacks of threads
constexpr const char* contexts = "--cfg=contexts/factory:thread";
#else
constexpr const char* contexts = "--cfg=contexts/factory:raw";
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

}  // namespace

Simulator::Simulator(Seconds precision) : impl_(std::make_unique<Impl>()) {
  std::vector<std::string> args = settings(precision);
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(args.size());
  impl_->engine = std::make_unique<s4u::Engine>(&argc, argv.data());
  impl_->root = simgrid_api::cluster_zone(*impl_->engine);
  impl_->home = simgrid_api::add_host(*impl_->root, "home");
}

Simulator::~Simulator() = default;

void Simulator::add_link(BytesPerSecond bandwidth) {
  const auto name = std::to_string(impl_->links.size());
  impl_->links.push_back(
      simgrid_api::add_link(*impl_->root, name, bandwidth.value)->set_latency(0));
}

void Simulator::add_link(std::function<BytesPerSecond(int)> bandwidth) {
  add_link(bandwidth(1));
  impl_->links.back()->set_sharing_policy(
      s4u::Link::SharingPolicy::NONLINEAR,
      [bandwidth = std::move(bandwidth)](double, int flows) { return bandwidth(flows).value; });
}

void Simulator::add_plane(int gpus) {
  const std::size_t p = impl_->planes.size();
  s4u::NetZone* zone = simgrid_api::add_full_zone(*impl_->root, fmt::format("plane{}", p));
  std::vector<s4u::Host*> hosts;
  for (int g = 0; g < gpus; ++g) {
    hosts.push_back(simgrid_api::add_host(*zone, fmt::format("{}:{}", p, g)));
  }
  impl_->planes.push_back(zone);
  impl_->hosts.push_back(std::move(hosts));
}

void Simulator::add_route(int plane, GpuId from, GpuId to, std::span<const LinkId> links) {
  const auto& hosts = impl_->hosts[static_cast<std::size_t>(plane)];
  std::vector<s4u::LinkInRoute> route;
  for (LinkId link : links) route.emplace_back(impl_->links[link.index()]);
  simgrid_api::add_route(*impl_->planes[static_cast<std::size_t>(plane)], *hosts[from.index()],
                         *hosts[to.index()], route);
}

void Simulator::spawn(std::function<void()> function) {
  ++impl_->unfinished;
  if (!impl_->idle.empty()) {
    Impl::Worker& worker = *impl_->idle.back();
    impl_->idle.pop_back();
    return impl_->give(worker, std::move(function));
  }
  require_stack();
  auto& worker = *impl_->workers.emplace_back(std::make_unique<Impl::Worker>());
  worker.function = std::move(function);
  simgrid_api::add_actor("", impl_->home, [this, &worker] { impl_->run(worker); });
}

void Simulator::call(Seconds time, std::function<void()> function) {
  spawn([time, function = std::move(function)] {
    sleep_until(time);
    function();
  });
}

void Simulator::run() {
  impl_->engine->run();
  if (impl_->error) std::rethrow_exception(std::exchange(impl_->error, nullptr));
}

Seconds Simulator::now() const { return Seconds(s4u::Engine::get_clock()); }

void Simulator::sleep_until(Seconds time) { s4u::this_actor::sleep_until(time.value); }

void Simulator::send(std::span<const Flow> flows, const std::function<void(std::size_t)>& arrived) {
  std::vector<s4u::CommPtr> running;
  std::vector<std::size_t> places;  // of the running ones
  std::size_t next = 0;
  while (next < flows.size() || !running.empty()) {
    if (next < flows.size() && flows[next].start <= now()) {
      const Flow& flow = flows[next];
      const auto& hosts = impl_->hosts[static_cast<std::size_t>(flow.plane)];
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

}  // namespace moesim
