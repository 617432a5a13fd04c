#include "tests/simulation/world.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder::simulation {
namespace {

constexpr int kNames = 7;
// How often a calm world is asked in vain before it says that this is all.
constexpr int kQuiet = 4;

std::string Status(int code, std::string_view reason, std::string_view name = {}) {
  return fmt::format(
      R"({{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{}","details":{{"name":"{}"}},"code":{}}})",
      reason, name, code);
}

// `name`: of the object that it is about.
Error Refusal(int code, std::string_view reason, std::string_view name = {}) {
  return ErrorFromResponse(code, {{"content-type", "application/json"}},
                           Status(code, reason, name));
}

uint64_t Number(const std::string& text) { return text.empty() ? 0 : std::stoull(text); }

// A body that is there as a whole, but may break off.
class WholeBody final : public BodyStream {
 public:
  WholeBody(std::string body, size_t breaks_at) : body_(std::move(body)), breaks_at_(breaks_at) {}
  int status() const override { return 200; }
  const std::map<std::string, std::string>& headers() const override { return headers_; }
  Result<std::string_view> Read(const std::stop_token&, Clock::Steady) override {
    if (at_ >= breaks_at_) return MakeError(ErrorCode::kUnavailable, "the connection broke");
    const size_t size = std::min<size_t>({body_.size() - at_, breaks_at_ - at_, 300});
    at_ += size;
    return std::string_view(body_).substr(at_ - size, size);
  }
  uint64_t wire_bytes() const override { return at_; }

 private:
  const std::string body_;
  const size_t breaks_at_;
  size_t at_ = 0;
  const std::map<std::string, std::string> headers_ = {{"content-type", "application/json"}};
};

}  // namespace

// A watch: reads on in the history, wherever that has got to by then.
class WatchBody final : public BodyStream {
 public:
  WatchBody(World* world, uint64_t from, std::vector<std::string> lines)
      : world_(world), from_(from), lines_(std::move(lines)) {}
  int status() const override { return 200; }
  const std::map<std::string, std::string>& headers() const override { return headers_; }
  uint64_t wire_bytes() const override { return bytes_; }

  Result<std::string_view> Read(const std::stop_token& stop, Clock::Steady deadline) override {
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped");
    if (broken_) return MakeError(ErrorCode::kUnavailable, "the connection broke");
    if (!lines_.empty()) {
      const std::string line = lines_.front();
      lines_.erase(lines_.begin());
      return Give(line);
    }
    if (world_->Chance(40)) world_->Change(1 + static_cast<int>(world_->random_() % 3));
    if (world_->Chance(2)) return std::string_view();  // the server ends the watch
    if (world_->Chance(3)) return MakeError(ErrorCode::kUnavailable, "the connection broke");
    if (from_ < world_->floor_ && world_->Chance(50)) return Give(ErrorLine(410, "Expired"));
    for (const auto& change : world_->history_) {
      if (change.version <= from_) continue;
      from_ = change.version;
      return Give(EventLine(change.type, change.pod));
    }
    if (world_->Chance(20)) return Give(BookmarkLine(std::to_string(from_)));
    if (world_->calm_ && ++world_->quiet_ > kQuiet) world_->on_quiet();
    world_->clock_->Advance(std::max<Clock::Steady::duration>(deadline - world_->clock_->Now(),
                                                              std::chrono::milliseconds(1)));
    return MakeError(ErrorCode::kTimeout, "nothing happened");
  }

 private:
  Result<std::string_view> Give(const std::string& line) {
    world_->trace(line);
    world_->quiet_ = 0;
    piece_ = line + "\n";
    if (world_->Chance(2)) {
      broken_ = true;
      piece_.resize(world_->random_() % piece_.size());
      if (piece_.empty()) return MakeError(ErrorCode::kUnavailable, "the connection broke");
    }
    bytes_ += piece_.size();
    return std::string_view(piece_);
  }

  World* const world_;
  uint64_t from_;
  std::vector<std::string> lines_;  // to begin with
  std::string piece_;
  bool broken_ = false;
  uint64_t bytes_ = 0;
  const std::map<std::string, std::string> headers_ = {{"content-type", "application/json"}};
};

State World::StateAt(const History& history, uint64_t version) {
  State state;
  for (const Change1& change : history) {
    if (change.version > version) break;
    if (change.type == "DELETED") {
      state.erase(change.pod.name);
    } else {
      state[change.pod.name] = change.pod;
    }
  }
  return state;
}

bool World::Explains(const History& history, uint64_t version, const State& state) const {
  const State then = StateAt(history, version);
  const auto later = [&](const auto& matches) {
    return std::any_of(history.begin(), history.end(), [&](const Change1& change) {
      return change.version > version && matches(change);
    });
  };
  for (const auto& [name, pod] : state) {
    const std::string text = PodJson(pod);
    const auto it = then.find(name);
    if (it != then.end() && PodJson(it->second) == text) continue;
    const bool newer = later([&](const Change1& change) {
      return change.type != "DELETED" && PodJson(change.pod) == text;
    });
    if (!newer || fetched_.count(text) == 0) return false;
  }
  return std::all_of(then.begin(), then.end(), [&](const auto& entry) {
    const std::string uid = entry.second.Uid();
    if (state.count(entry.first) != 0) return true;
    return unsaid_.count(uid) != 0 && later([&](const Change1& change) {
             return change.type == "DELETED" && change.pod.Uid() == uid;
           });
  });
}

bool World::WasEver(uint64_t version, const State& state) const {
  return Explains(history_, version, state) ||
         std::any_of(abandoned_.begin(), abandoned_.end(),
                     [&](const History& history) { return Explains(history, version, state); });
}

std::string World::Difference(uint64_t version, const State& state) const {
  std::string out;
  const State then = StateAt(history_, version);
  const auto list = [&out](std::string_view whose, const State& pods) {
    out += whose;
    for (const auto& [name, pod] : pods) {
      out += fmt::format(" {}={}@{}", name, pod.Uid(), pod.version);
    }
  };
  list("stored:", state);
  list("; the cluster then:", then);
  list("; now:", Now());
  return out + fmt::format("; restored {} times", abandoned_.size());
}

void World::Change(int count) {
  State state = Now();
  for (; count > 0; --count) {
    version_ += 1 + random_() % 3;
    const std::string name = "p" + std::to_string(random_() % kNames);
    const auto it = state.find(name);
    TestPod pod;
    std::string type = "ADDED";
    if (it == state.end()) {
      pod.name = name;
      pod.uid = "uid-" + std::to_string(next_uid_++);
    } else {
      pod = it->second;
      type = random_() % 3 == 0 ? "DELETED" : "MODIFIED";
    }
    pod.version = std::to_string(version_);
    pod.extra = fmt::format(R"(,"status":{{"phase":"phase-{}"}})", random_() % 3);
    if (type == "DELETED") {
      pod.extra = it->second.extra;
      state.erase(it);
    } else {
      state[name] = pod;
    }
    history_.push_back({version_, type, pod});
  }
  if (Chance(5) && !history_.empty()) {
    floor_ = std::max(floor_, history_[random_() % history_.size()].version);
  }
}

void World::Rewind() {
  if (history_.size() < 4) return;
  abandoned_.push_back(history_);
  history_.resize(history_.size() / 2 + random_() % (history_.size() / 2));
  version_ = history_.back().version;
  floor_ = std::min(floor_, version_);
}

Result<std::string> World::ListOf(const Request& request) {
  const bool exact = QueryValue(request, "resourceVersionMatch") == "Exact";
  const uint64_t at = exact ? Number(QueryValue(request, "resourceVersion")) : version_;
  const State state = StateAt(history_, at);
  std::vector<TestPod> pods;
  const std::string fields = QueryValue(request, "fieldSelector");
  for (const auto& [name, pod] : state) {
    if (fields.empty() || fields == "metadata.name=" + name) pods.push_back(pod);
  }
  if (exact && at < floor_) {
    for (const TestPod& pod : pods) unsaid_.insert(pod.Uid());
    return tl::unexpected(Refusal(410, "Expired"));
  }
  const std::string version = std::to_string(at);
  if (request.accept.find("PartialObjectMetadataList") != std::string::npos) {
    if (!QueryValue(request, "limit").empty() && pods.size() > 1) pods.resize(1);
    return MetadataListJson(version, pods);
  }
  return PodListJson(version, pods);
}

Result<std::string> World::Answer(const Request& request) {
  std::string shorthand = Shorthand(request);
  trace(shorthand);
  if (Chance(4)) return tl::unexpected(Refusal(500, "InternalError"));
  if (Chance(2)) return tl::unexpected(Refusal(429, "TooManyRequests"));
  if (Chance(3)) return MakeError(ErrorCode::kUnavailable, "no connection");
  if (request.path.ends_with("/kube-system")) return NamespaceJson("cluster");
  const std::string name = request.path.substr(request.path.rfind('/') + 1);
  if (name == "pods") return ListOf(request);
  const State state = Now();
  const auto it = state.find(name);
  if (it == state.end()) return tl::unexpected(Refusal(404, "NotFound", name));
  return *fetched_.insert(PodJson(it->second)).first;
}

Result<Response> World::Do(const Request& request, const std::stop_token&) {
  LARDER_ASSIGN_OR_RETURN(std::string body, Answer(request));
  Response response{200, {{"content-type", "application/json"}}, std::move(body), 0};
  response.wire_bytes = response.body.size();
  return response;
}

Result<std::unique_ptr<BodyStream>> World::Open(const Request& request, const std::stop_token&) {
  if (QueryValue(request, "watch").empty()) {
    LARDER_ASSIGN_OR_RETURN(std::string body, Answer(request));
    // Things happen between the list and the watch.
    if (Chance(30)) Change(2);
    const size_t breaks_at = Chance(8) ? random_() % body.size() : SIZE_MAX;
    return std::make_unique<WholeBody>(std::move(body), breaks_at);
  }
  trace(Shorthand(request));
  if (Chance(4)) return tl::unexpected(Refusal(503, "ServiceUnavailable"));
  std::vector<std::string> lines;
  uint64_t from = Number(QueryValue(request, "resourceVersion"));
  if (!QueryValue(request, "sendInitialEvents").empty()) {
    for (const auto& [name, pod] : Now()) lines.push_back(EventLine("ADDED", pod));
    lines.push_back(BookmarkLine(std::to_string(version_), true));
    from = version_;
  } else if (from < floor_) {
    if (Chance(50)) return tl::unexpected(Refusal(410, "Expired"));
    lines = {ErrorLine(410, "Expired")};
  }
  return std::make_unique<WatchBody>(this, from, std::move(lines));
}

}  // namespace larder::simulation
