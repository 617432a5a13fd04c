// Working memory that is dear to make and large to keep, for as many as work at once.
//
// A thread that keeps its own costs memory also while it waits, and an informer has two threads
// that mostly wait: fifty of them kept 15 MiB of zstd's tables. Here a few spares are kept for all;
// who finds none makes one, and one too many is freed. Nobody waits for anybody.
//
// Thread-safe.
//
//   static Spares<Context> spares;
//   const Spares<Context>::Lease context = spares.Take();  // until it goes away
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

namespace larder {

template <typename T>
class Spares {
 public:
  struct GiveBack {
    Spares* spares;
    void operator()(T* one) const { spares->Give(one); }
  };
  using Lease = std::unique_ptr<T, GiveBack>;

  Spares() = default;
  ~Spares() {
    for (Slot& slot : slots_) delete slot.one.load();
  }
  Spares(const Spares&) = delete;
  Spares& operator=(const Spares&) = delete;

  Lease Take() {
    const size_t first = FirstSlot();
    for (size_t i = 0; i < kSlots; ++i) {
      Slot& slot = slots_[(first + i) % kSlots];
      // Most are empty; a look costs no other thread its cache line.
      if (slot.one.load(std::memory_order_relaxed) == nullptr) continue;
      if (T* const one = slot.one.exchange(nullptr, std::memory_order_acquire)) {
        return Lease(one, GiveBack{this});
      }
    }
    return Lease(new T, GiveBack{this});
  }

 private:
  static constexpr size_t kSlots = 8;
  struct alignas(64) Slot {
    std::atomic<T*> one{nullptr};
  };

  // Each thread begins at a slot of its own, so that it mostly finds what it gave back.
  static size_t FirstSlot() {
    return std::hash<std::thread::id>()(std::this_thread::get_id()) % kSlots;
  }

  void Give(T* one) {
    const size_t first = FirstSlot();
    for (size_t i = 0; i < kSlots; ++i) {
      T* nobody = nullptr;
      if (slots_[(first + i) % kSlots].one.compare_exchange_strong(
              nobody, one, std::memory_order_release, std::memory_order_relaxed)) {
        return;
      }
    }
    delete one;
  }

  std::array<Slot, kSlots> slots_;
};

}  // namespace larder
