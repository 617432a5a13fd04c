// Does a measure grow? A straight line through its samples, and how sure its slope is.
//
// A store's size is a sawtooth (logs fill and are dropped, tables are compacted), and one sample
// looks like the next. The usual standard error takes samples for independent and would find a
// trend in every such series, so it is widened by how much neighbours resemble each other.
#pragma once

#include <string>
#include <vector>

namespace larder::soak {

struct Point {
  double seconds = 0;
  double value = 0;
  int life = 0;  // which process it was taken from
};

struct Slope {
  double mean = 0;
  double percent_per_hour = 0;  // of the mean
  double standard_error = 0;    // of that
  size_t points = 0;
};

// Over the whole run: what grows from life to life, too.
Slope OverAll(const std::vector<Point>& points);
// Within the lives: each has a level of its own, the slope is common to them.
Slope WithinLives(const std::vector<Point>& points);

// Not to be told from zero, or below the bound.
bool IsFlat(const Slope& slope, double bound_percent_per_hour);

// "+0.3 ± 1.2 % an hour, mean 105.2".
std::string ToString(const Slope& slope);

}  // namespace larder::soak
