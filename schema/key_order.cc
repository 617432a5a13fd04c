#include "schema/key_order.h"

#include <algorithm>

namespace larder {

bool NamespaceComesBefore(std::string_view a, std::string_view b) {
  const size_t common = std::min(a.size(), b.size());
  if (const int order = a.substr(0, common).compare(b.substr(0, common)); order != 0) {
    return order < 0;
  }
  // Behind the shorter one stands a slash.
  const auto next = [common](std::string_view ns) {
    return static_cast<unsigned char>(common < ns.size() ? ns[common] : '/');
  };
  return next(a) < next(b);
}

bool ComesBefore(const ObjectKey& a, const ObjectKey& b) {
  return a.ns == b.ns ? a.name < b.name : NamespaceComesBefore(a.ns, b.ns);
}

}  // namespace larder
