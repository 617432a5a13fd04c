#include "tests/soak/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace larder::soak {
namespace {

constexpr double kHour = 3600;
// So many standard errors are still chance: 95 of 100.
constexpr double kSure = 2;

struct Level {
  double seconds = 0;
  double value = 0;
  double points = 0;
};

// Least squares, with a level for each life or one for all.
Slope Fit(const std::vector<Point>& points, bool by_life) {
  Slope slope;
  slope.points = points.size();
  std::map<int, Level> levels;
  for (const Point& point : points) {
    Level& level = levels[by_life ? point.life : 0];
    level.seconds += point.seconds;
    level.value += point.value;
    ++level.points;
    slope.mean += point.value / static_cast<double>(points.size());
  }
  for (auto& [life, level] : levels) {
    level.seconds /= level.points;
    level.value /= level.points;
  }
  double xx = 0, xy = 0;
  for (const Point& point : points) {
    const Level& level = levels[by_life ? point.life : 0];
    xx += (point.seconds - level.seconds) * (point.seconds - level.seconds);
    xy += (point.seconds - level.seconds) * (point.value - level.value);
  }
  const double free = static_cast<double>(points.size()) - static_cast<double>(levels.size()) - 1;
  if (xx <= 0 || free < 1 || slope.mean <= 0) return slope;
  const double per_second = xy / xx;

  double squares = 0, neighbours = 0, before = 0;
  int life = -1;
  for (const Point& point : points) {
    const Level& level = levels[by_life ? point.life : 0];
    const double residual =
        point.value - level.value - per_second * (point.seconds - level.seconds);
    squares += residual * residual;
    if (point.life == life) neighbours += residual * before;
    before = residual;
    life = point.life;
  }
  const double alike = squares > 0 ? std::clamp(neighbours / squares, 0.0,
                                                1 - 2 / static_cast<double>(points.size()))
                                   : 0;
  const double error = std::sqrt(squares / free / xx * (1 + alike) / (1 - alike));
  slope.percent_per_hour = 100 * kHour * per_second / slope.mean;
  slope.standard_error = 100 * kHour * error / slope.mean;
  return slope;
}

}  // namespace

Slope OverAll(const std::vector<Point>& points) { return Fit(points, /*by_life=*/false); }
Slope WithinLives(const std::vector<Point>& points) { return Fit(points, /*by_life=*/true); }

bool IsFlat(const Slope& slope, double bound_percent_per_hour) {
  return slope.percent_per_hour <= bound_percent_per_hour ||
         slope.percent_per_hour <= kSure * slope.standard_error;
}

std::string ToString(const Slope& slope) {
  return fmt::format("{:+.2f} ± {:.2f} % an hour, mean {:.1f}", slope.percent_per_hour,
                     slope.standard_error, slope.mean);
}

}  // namespace larder::soak
