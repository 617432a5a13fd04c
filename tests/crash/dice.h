// What is chosen by chance: always the same from the same seed.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <string>

namespace larder::crash {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  uint64_t Any() { return random_(); }
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool Chance(unsigned percent) { return Below(100) < percent; }
  template <typename List>
  std::string OneOf(const List& list) {
    return list[Below(std::size(list))];
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace larder::crash
