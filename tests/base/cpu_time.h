// How much time a thread had on a core: what it does by itself, whatever else the machine does.
#pragma once

#include <algorithm>
#include <ctime>

namespace larder::testing {

inline double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of what is called, the least of three times.
template <typename Work>
double LeastCpuSeconds(const Work& work) {
  double least = 1e9;
  for (int round = 0; round < 3; ++round) {
    const double begin = CpuSeconds();
    work();
    least = std::min(least, CpuSeconds() - begin);
  }
  return least;
}

}  // namespace larder::testing
