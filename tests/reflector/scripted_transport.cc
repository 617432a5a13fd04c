#include "tests/reflector/scripted_transport.h"

#include <utility>

namespace larder {
namespace {

// A watch ends when the time is over that was asked for.
constexpr std::chrono::minutes kWatch{10};

class ScriptedStream final : public BodyStream {
 public:
  ScriptedStream(Answer answer, InstantClock* clock) : answer_(std::move(answer)), clock_(clock) {}

  int status() const override { return answer_.status; }
  const std::map<std::string, std::string>& headers() const override { return answer_.headers; }
  uint64_t wire_bytes() const override { return bytes_; }

  Result<std::string_view> Read(const std::stop_token& stop, Clock::Steady deadline) override {
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped");
    if (next_ < answer_.pieces.size()) {
      bytes_ += answer_.pieces[next_].size();
      return answer_.pieces[next_++];
    }
    switch (answer_.end) {
      case Answer::End::kBroken:
        return MakeError(ErrorCode::kUnavailable, "connection reset");
      case Answer::End::kHang:
        clock_->Advance(deadline - clock_->Now());
        return MakeError(ErrorCode::kTimeout, "nothing arrived");
      case Answer::End::kTrickle:
        clock_->Advance(std::chrono::seconds(1));
        ++bytes_;
        return answer_.trickle;
      case Answer::End::kClean:
        break;
    }
    clock_->Advance(answer_.lasts);
    return std::string_view();
  }

 private:
  const Answer answer_;
  InstantClock* const clock_;
  size_t next_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace

Clock::Steady InstantClock::Now() const {
  std::lock_guard lock(mutex_);
  return now_;
}

Clock::Wall InstantClock::WallNow() const {
  return Wall(std::chrono::seconds(1'700'000'000) +
              std::chrono::duration_cast<Wall::duration>(Now().time_since_epoch()));
}

bool InstantClock::WaitUntil(Mutex&, std::condition_variable_any&, Steady deadline,
                             const std::stop_token& stop) {
  if (stop.stop_requested()) return false;
  std::lock_guard lock(mutex_);
  waits_.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now_));
  now_ = std::max(now_, deadline);
  return true;
}

void InstantClock::Advance(Steady::duration duration) {
  std::lock_guard lock(mutex_);
  now_ += std::max(duration, Steady::duration::zero());
}

std::vector<std::chrono::milliseconds> InstantClock::Waits() const {
  std::lock_guard lock(mutex_);
  return waits_;
}

Answer Answer::Json(std::string body) {
  Answer answer;
  answer.pieces.push_back(std::move(body));
  return answer;
}

Answer Answer::Protobuf(std::string body) {
  Answer answer = Json(std::move(body));
  answer.headers["content-type"] = "application/vnd.kubernetes.protobuf";
  return answer;
}

Answer Answer::Watch(const std::vector<std::string>& lines) {
  Answer answer;
  for (const std::string& line : lines) answer.pieces.push_back(line + "\n");
  answer.lasts = kWatch;
  return answer;
}

Answer Answer::ProtobufWatch(const std::vector<std::string>& frames) {
  Answer answer;
  answer.pieces = frames;
  answer.lasts = kWatch;
  answer.headers["content-type"] = "application/vnd.kubernetes.protobuf;stream=watch";
  return answer;
}

Answer Answer::Status(int code, std::string_view reason, std::string_view details) {
  Answer answer = Json(fmt::format(
      R"({{"kind":"Status","status":"Failure","message":"no","reason":"{}","details":{},"code":{}}})",
      reason, details, code));
  answer.status = code;
  return answer;
}

Answer Answer::NotFound(std::string_view name) {
  return Status(404, "NotFound", fmt::format(R"({{"name":"{}","kind":"pods"}})", name));
}

Answer Answer::PageNotFound() {
  Answer answer = Json("404 page not found\n");
  answer.headers["content-type"] = "text/plain; charset=utf-8";
  answer.status = 404;
  return answer;
}

Answer Answer::VersionTooLarge() {
  return Status(
      504, "Timeout",
      R"({"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]})");
}

Answer Answer::Refused() {
  Answer answer;
  answer.refused = Error{ErrorCode::kUnavailable, "connection refused", {}, {}};
  return answer;
}

Answer Answer::ThenHang() && {
  end = End::kHang;
  return std::move(*this);
}

Answer Answer::ThenBreak() && {
  end = End::kBroken;
  return std::move(*this);
}

Answer Answer::ThenTrickle() && {
  end = End::kTrickle;
  return std::move(*this);
}

Answer Answer::Lasting(std::chrono::milliseconds duration) && {
  lasts = duration;
  return std::move(*this);
}

Answer Answer::WithHeader(std::string name, std::string value) && {
  headers[std::move(name)] = std::move(value);
  return std::move(*this);
}

Answer Answer::InBitsOf(size_t size) && {
  std::vector<std::string> bits;
  for (const std::string& piece : pieces) {
    for (size_t at = 0; at < piece.size(); at += size) bits.push_back(piece.substr(at, size));
  }
  pieces = std::move(bits);
  return std::move(*this);
}

void ScriptedTransport::Push(Answer answer) {
  std::lock_guard lock(mutex_);
  answers_.push_back(std::move(answer));
}

void ScriptedTransport::Always(const std::string& request, Answer answer) {
  std::lock_guard lock(mutex_);
  always_[request] = std::move(answer);
}

Result<Answer> ScriptedTransport::Take(const Request& request) {
  Answer answer;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = always_.find(Shorthand(request)); found != always_.end()) {
      requests_.push_back(request);
      answer = found->second;
    } else if (!answers_.empty()) {
      requests_.push_back(request);
      answer = std::move(answers_.front());
      answers_.pop_front();
    } else {
      answer.refused = Error{ErrorCode::kCancelled, "the script is over", {}, {}};
    }
  }
  if (answer.refused) {
    if (answer.refused->code == ErrorCode::kCancelled) stop_->request_stop();
    return tl::unexpected(*answer.refused);
  }
  if (answer.status >= 400) {
    return tl::unexpected(ErrorFromResponse(answer.status, answer.headers, answer.pieces.at(0)));
  }
  return answer;
}

Result<Response> ScriptedTransport::Do(const Request& request, const std::stop_token&) {
  LARDER_ASSIGN_OR_RETURN(const Answer answer, Take(request));
  Response response{answer.status, answer.headers, {}, 0};
  for (const std::string& piece : answer.pieces) response.body += piece;
  response.wire_bytes = response.body.size();
  return response;
}

Result<std::unique_ptr<BodyStream>> ScriptedTransport::Open(const Request& request,
                                                            const std::stop_token&) {
  LARDER_ASSIGN_OR_RETURN(Answer answer, Take(request));
  return std::make_unique<ScriptedStream>(std::move(answer), clock_);
}

std::vector<std::string> ScriptedTransport::Requests() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const Request& request : requests_) all.push_back(Shorthand(request));
  return all;
}

std::vector<Request> ScriptedTransport::FullRequests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

std::string QueryValue(const Request& request, std::string_view name) {
  for (const auto& [key, value] : request.query) {
    if (key == name) return value;
  }
  return {};
}

std::string Shorthand(const Request& request) {
  auto with = [](std::string letter, const std::string& argument) {
    return argument.empty() ? letter : letter + " " + argument;
  };
  if (request.path.ends_with("/kube-system")) return "C";
  const std::string version = QueryValue(request, "resourceVersion");
  if (!QueryValue(request, "sendInitialEvents").empty()) return "WL";
  if (!QueryValue(request, "watch").empty()) return with("W", version);
  if (QueryValue(request, "limit") == "1") return "V";
  if (!QueryValue(request, "limit").empty()) return with("P", QueryValue(request, "continue"));
  if (request.accept.find("protobuf;as=Partial") != std::string::npos) return with("D", version);
  std::string ns;
  if (const size_t at = request.path.find("/namespaces/"); at != std::string::npos) {
    const size_t begin = at + 12;
    ns = request.path.substr(begin, request.path.find('/', begin) - begin) + "/";
  }
  const std::string fields = QueryValue(request, "fieldSelector");
  if (fields.starts_with("metadata.name=")) {
    const bool witness = request.accept.find("PartialObjectMetadataList") != std::string::npos;
    const bool exact = QueryValue(request, "resourceVersionMatch") == "Exact";
    return with((witness ? "V " : exact ? "E " : "F ") + ns + fields.substr(14), version);
  }
  const std::string last = request.path.substr(request.path.rfind('/') + 1);
  if (last != "pods") return with("G " + ns + last, version);
  return with("L", version);
}

}  // namespace larder
