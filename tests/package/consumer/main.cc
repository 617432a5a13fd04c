// A user's program, outside the tree: a controller, and a cluster to try it on. What stands between
// the marks is what docs/library.md shows.

// [docs]
#include <atomic>
#include <cstdio>

#include "controller/builder.h"
#include "testing/environment.h"

using namespace larder;

int main() {
  auto environment = testing::Environment::Start();
  if (!environment) return 1;
  std::atomic<int> reconciled{0};
  auto manager = (*environment)->Run([&](Manager& target) {
    return ControllerBuilder(target)
        .For("pods", {.predicates = {Or(GenerationChanged(), LabelChanged())}})
        .Complete([&](ReconcileContext& context, const ReconcileRequest& request) {
          const auto pod = context.client().Find("pods", request.key);
          if (pod && *pod && (*pod)->Label("app") == "web") ++reconciled;
          return Result<Outcome>(Outcome::Done());
        });
  });
  if (!manager) {
    std::fprintf(stderr, "%s\n", manager.error().ToString().c_str());
    return 1;
  }
  const auto created = (*environment)
                           ->cluster()
                           .Create("pods", R"({"metadata":{"name":"a","namespace":"default",)"
                                           R"("labels":{"app":"web"}}})");
  if (!created || !testing::Environment::Eventually([&] { return reconciled == 1; })) return 1;
  std::printf("%s reconciled\n", (*created)->key().ToString().c_str());
  return (*manager)->Stop() ? 0 : 1;
}
// [docs]
