// A block of zeroed memory that a program walks through at random.
//
// From 2 MiB on it lies on huge pages where the kernel gives them: in a table of 32 MiB a lookup
// otherwise spends more time on the translation of its address than on the entry.
//
// Movable. Not thread-safe.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace larder::internal {

class LargeBlock {
 public:
  LargeBlock() = default;
  explicit LargeBlock(size_t bytes) {
    constexpr size_t kHugePage = 2 << 20;
    if (bytes < kHugePage) {
      data_.reset(std::calloc(1, bytes));
    } else {
      const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
      data_.reset(std::aligned_alloc(kHugePage, rounded));
      if (data_ != nullptr) {
        // Refused, it is slower and nothing else.
        static_cast<void>(::madvise(data_.get(), rounded, MADV_HUGEPAGE));
        std::memset(data_.get(), 0, bytes);
      }
    }
    if (data_ == nullptr) throw std::bad_alloc();
  }

  void* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::unique_ptr<void, Free> data_;
};

}  // namespace larder::internal
