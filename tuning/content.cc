#include "tuning/content.h"

#include <array>

#include "apiserver/workload.h"

namespace larder::tuning {
namespace {

// A good 64-bit mix of its arguments: content must not depend on the order in which it is made.
uint64_t Mix(uint64_t a, uint64_t b, uint64_t c = 0) {
  uint64_t x = a * 0x9e3779b97f4a7c15U + b * 0xbf58476d1ce4e5b9U + c * 0x94d049bb133111ebU;
  x ^= x >> 31;
  x *= 0xff51afd7ed558ccdU;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53U;
  return x ^ (x >> 29);
}

constexpr std::array<const char*, 24> kWords = {
    "controller", "template", "selector", "replicas",   "condition", "observed",
    "available",  "progress", "strategy", "endpoint",   "address",   "protocol",
    "resources",  "requests", "limits",   "memory",     "container", "volume",
    "restart",    "policy",   "schedule", "toleration", "affinity",  "revision"};

const char* Word(uint64_t number) { return kWords[number % kWords.size()]; }

std::string Uid(uint64_t a, uint64_t b) {
  return fmt::format("{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", a >> 32, (a >> 16) & 0xffff,
                     a & 0xfff, b >> 52, b & 0xffffffffffff);
}

std::string Time(uint64_t number) {
  return fmt::format("2026-03-{:02}T{:02}:{:02}:{:02}Z", 1 + number % 28, (number >> 5) % 24,
                     (number >> 10) % 60, (number >> 16) % 60);
}

// One field of the body: of the kind, of the owner, of the object, or of this revision.
std::string Field(const ContentKind& kind, uint64_t kind_hash, uint64_t index, uint32_t revision,
                  uint64_t number) {
  const uint64_t which = Mix(kind_hash, number) % 20;
  const uint64_t name = Mix(kind_hash, number, 1);
  const std::string key = fmt::format("{}{}{}", Word(name), Word(name >> 8), number);
  if (which < 13) {
    return fmt::format(R"("{}":{{"type":"{}","value":"{}-{}","enabled":true}})", key,
                       Word(name >> 16), Word(name >> 24), name % 1000);
  }
  if (which < 16) {
    const uint64_t owner = Mix(kind.seed, kind_hash ^ (index / 10), number);
    return fmt::format(R"("{}":"{}-{}-{}")", key, Word(owner), Word(owner >> 8), owner % 10'000);
  }
  if (which < 18) {
    return fmt::format(R"("{}":"{:016x}")", key, Mix(kind.seed ^ kind_hash, index, number));
  }
  const uint64_t now = Mix(kind.seed ^ kind_hash, index * 1000 + revision, number);
  return fmt::format(R"("{}":{{"lastTransitionTime":"{}","count":{}}})", key, Time(now),
                     revision + now % 100);
}

uint64_t HashOf(const ContentKind& kind) {
  uint64_t hash = 7;
  for (const char c : kind.resource.resource) hash = Mix(hash, static_cast<uint8_t>(c));
  return hash;
}

bool IsPod(const ContentKind& kind) {
  return kind.resource.resource == "pods" && kind.resource.group.empty();
}

std::string MakeText(const ContentKind& kind, uint64_t index, uint32_t revision,
                     uint64_t resource_version) {
  const uint64_t kind_hash = HashOf(kind);
  const ObjectKey key = KeyOfObject(kind, index);
  const uint64_t own = Mix(kind.seed, kind_hash, index),
                 owner = Mix(kind.seed, kind_hash, index / 10);
  const std::string ns =
      key.ns.empty() ? std::string() : fmt::format(R"("namespace":"{}",)", key.ns);
  std::string out =
      fmt::format(R"({{"apiVersion":"{}","kind":"{}","metadata":{{"name":"{}",{})"
                  R"("uid":"{}","resourceVersion":"{}","creationTimestamp":"{}",)"
                  R"("labels":{{"app":"{}-{}","tier":"{}"}}}},"spec":{{)",
                  kind.resource.ApiVersion(), kind.resource.kind, key.name, ns, Uid(own, owner),
                  resource_version, Time(own), Word(owner >> 4), owner % 500, Word(owner >> 12));
  for (uint64_t number = 0; out.size() + 4 < kind.json_bytes; ++number) {
    if (number > 0) out += ',';
    out += Field(kind, kind_hash, index, revision, number);
  }
  return out + "}}";
}

}  // namespace

ObjectKey KeyOfObject(const ContentKind& kind, uint64_t index) {
  if (IsPod(kind)) return apiserver::PodSource({.seed = kind.seed}).Key(index);
  const uint64_t hash = HashOf(kind);
  return {kind.resource.namespaced ? fmt::format("team-{}", index % 40) : std::string(),
          fmt::format("{}-{}-{:08x}", Word(Mix(kind.seed, hash, index / 10)), index,
                      Mix(kind.seed, hash, index) & 0xffffffff)};
}

Result<ObjectPtr> MakeObject(const ContentKind& kind, uint64_t index, uint32_t revision,
                             uint64_t resource_version) {
  if (IsPod(kind)) {
    std::string text = apiserver::MakePod(kind.seed, index, revision);
    // It comes with an empty version, for the server to fill in.
    constexpr std::string_view kVersion = "\"resourceVersion\":\"";
    const size_t at = text.find(kVersion);
    if (at != std::string::npos)
      text.insert(at + kVersion.size(), std::to_string(resource_version));
    return Object::Parse(text);
  }
  return Object::Parse(MakeText(kind, index, revision, resource_version));
}

}  // namespace larder::tuning
