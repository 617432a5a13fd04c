#include <cstdio>

#include "schema/object.h"
#include "schema/selector.h"

int main() {
  const auto pod = larder::Object::Parse(
      R"({"metadata":{"name":"a","namespace":"x","labels":{"app":"web"}}})", {"v1", "Pod"});
  const auto selector = larder::LabelSelector::Parse("app in (web)");
  if (!pod || !selector || !selector->Matches(**pod)) return 1;
  std::printf("%s\n", (*pod)->key().ToString().c_str());
  return 0;
}
