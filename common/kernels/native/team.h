// The threads of one engine. The caller is the first of them; the others sleep between steps.
//
// Inside a step threads meet at barriers, hundreds of times, a few microseconds apart: so they spin
// a little, and then sleep, because on a shared machine the thread they wait for may need the core.
// Two of them on one core would wait for each other's time slices, and a scheduler that wakes a
// thread where it was called from puts them there, at any barrier: so whoever comes to one and finds
// itself beside another moves. It may be moved back: a thread tied to a core could not leave it for
// an idle one when another process needs it.
#pragma once
#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace twinfleet {

// Units of one piece of work, for whoever asks next: a thread that lost its core for a while does
// less, and the others do not wait for its share. Small enough that nobody is left with much.
class Work {
 public:
  void begin(int threads) {
    next_.store(0, std::memory_order_relaxed);
    threads_ = threads;
  }

  // The next units of so many; an empty range when none are left.
  struct Range {
    int first, last;
  };
  Range claim(int units) {
    const int some = threads_ == 1 ? units : std::max(1, units / (8 * threads_));
    const int first = next_.fetch_add(some, std::memory_order_relaxed);
    return {std::min(first, units), std::min(first + some, units)};
  }
  int claim_one() { return next_.fetch_add(1, std::memory_order_relaxed); }

 private:
  alignas(64) std::atomic<int> next_{0};
  int threads_ = 1;
};

class Team {
 public:
  explicit Team(int threads) : size_(threads), cores_(threads) {
    has_cores_ = sched_getaffinity(0, sizeof allowed_, &allowed_) == 0;
    for (int i = 1; i < threads; ++i) others_.emplace_back([this, i] { serve(i); });
  }
  Team(const Team&) = delete;
  ~Team() {
    job_ = nullptr;
    announce();
    for (std::thread& other : others_) other.join();
  }

  int size() const { return size_; }

  // Calls job(thread) on every thread of the team and returns when all are done.
  void run(const std::function<void(int)>& job) {
    job_ = &job;
    note_core(0);
    announce();
    job(0);
    barrier();
  }

  // Every thread of the running job comes here before any goes on.
  void barrier() {
    if (size_ == 1) return;
    const uint32_t round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      round_.notify_all();
      move_apart(place_);
    } else {
      move_apart(place_);
      wait_while(round_, round, kPatience);
    }
  }

 private:
  // Longer than a process in between usually takes: waking a thread that went to sleep costs another
  // 50 microseconds, and its core may be gone. Between steps it is what the caller does in between.
  static constexpr std::chrono::microseconds kPatience{250}, kPatienceBetweenSteps{2000};
  static constexpr int kSpins = 256;  // between two looks at the clock

  static void wait_while(const std::atomic<uint32_t>& value, uint32_t old,
                         std::chrono::microseconds patience) {
    const auto start = std::chrono::steady_clock::now();
    do {
      for (int i = 0; i < kSpins; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        _mm_pause();
      }
    } while (std::chrono::steady_clock::now() - start < patience);
    value.wait(old, std::memory_order_acquire);
  }

  // Written only when it changes: the others read it at every barrier.
  int note_core(int thread) {
    const int core = sched_getcpu();
    std::atomic<int>& noted = cores_[thread].number;
    if (noted.load(std::memory_order_relaxed) != core) noted.store(core, std::memory_order_relaxed);
    return core;
  }

  // Leaves the core to a thread that came before this one in the team, when there is another.
  void move_apart(int thread) {
    const int core = note_core(thread);
    bool crowded = false;
    for (int t = 0; t < thread; ++t) {
      crowded = crowded || cores_[t].number.load(std::memory_order_relaxed) == core;
    }
    if (!crowded || !has_cores_) return;
    cpu_set_t others = allowed_;
    for (int t = 0; t < thread; ++t) {
      const int taken = cores_[t].number.load(std::memory_order_relaxed);
      if (taken >= 0) CPU_CLR(taken, &others);
    }
    if (CPU_COUNT(&others) == 0) return;
    sched_setaffinity(0, sizeof others, &others);
    sched_setaffinity(0, sizeof allowed_, &allowed_);
    note_core(thread);
  }

  void announce() {
    jobs_.fetch_add(1, std::memory_order_release);
    jobs_.notify_all();
  }

  void serve(int thread) {
    place_ = thread;
    for (uint32_t seen = 0;; ++seen) {
      wait_while(jobs_, seen, kPatienceBetweenSteps);
      if (job_ == nullptr) return;
      move_apart(thread);
      (*job_)(thread);
      barrier();
    }
  }

  const int size_;
  const std::function<void(int)>* job_ = nullptr;
  std::atomic<uint32_t> jobs_{0}, round_{0};
  std::atomic<int> arrived_{0};
  struct alignas(64) Core {
    std::atomic<int> number{-1};
  };
  std::vector<Core> cores_;  // where each thread was when it last came to a barrier
  // In its team. Whoever calls `run` is the first.
  static inline thread_local int place_ = 0;
  cpu_set_t allowed_;
  bool has_cores_;
  std::vector<std::thread> others_;
};

}  // namespace twinfleet
