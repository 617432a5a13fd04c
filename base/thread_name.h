// Names the calling thread, so that `top -H`, gdb and perf tell which part of larder is at work
// (docs/architecture.md, Threads). At most 15 characters.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace larder {

template <size_t kBytes>
void NameThread(const char (&name)[kBytes]) {
  static_assert(kBytes <= 16, "the kernel keeps 15 characters");
  pthread_setname_np(pthread_self(), name);
}

}  // namespace larder
