// An API server made of a list of answers, and a clock that never waits: the reflector's tests run
// in one thread, without a socket and without sleeping.
//
//   ScriptedTransport server(&clock, &stop);
//   server.Push(Answer::Json(R"({"kind":"PodList",…})"));
//   server.Push(Answer::Watch({line, line}).ThenHang());
//   … run; when the answers are used up the transport requests the stop.
//   server.Requests()   // {"L", "W 10"}
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "client/transport.h"

namespace larder {

// Every wait is over at once, and is written down.
class InstantClock final : public Clock {
 public:
  Steady Now() const override;
  Wall WallNow() const override;
  bool WaitUntil(Mutex& mutex, std::condition_variable_any& condition, Steady deadline,
                 const std::stop_token& stop) override LARDER_REQUIRES(mutex);

  void Advance(Steady::duration duration);
  // How long each WaitUntil would have waited.
  std::vector<std::chrono::milliseconds> Waits() const;

 private:
  mutable std::mutex mutex_;
  Steady now_{std::chrono::seconds(1000)};
  std::vector<std::chrono::milliseconds> waits_;
};

// One answer and how it ends.
struct Answer {
  enum class End { kClean, kBroken, kHang, kTrickle };

  int status = 200;
  std::map<std::string, std::string> headers = {{"content-type", "application/json"}};
  std::vector<std::string> pieces;
  End end = End::kClean;
  std::chrono::milliseconds lasts{5000};  // time that passes before a clean end
  std::string trickle = " ";
  std::optional<Error> refused;  // instead of an answer

  static Answer Json(std::string body);
  static Answer Protobuf(std::string body);
  // Each line gets its newline.
  static Answer Watch(const std::vector<std::string>& lines);
  static Answer ProtobufWatch(const std::vector<std::string>& frames);
  // An error status with a Kubernetes Status body.
  static Answer Status(int code, std::string_view reason, std::string_view details = "{}");
  // The object of this name is not there.
  static Answer NotFound(std::string_view name);
  // What a proxy says, or a server that does not know the path.
  static Answer PageNotFound();
  // The server is not at this version yet.
  static Answer VersionTooLarge();
  static Answer Refused();

  Answer ThenHang() &&;
  Answer ThenBreak() &&;
  Answer ThenTrickle() &&;  // one `trickle` every second, for ever
  Answer Lasting(std::chrono::milliseconds duration) &&;
  Answer WithHeader(std::string name, std::string value) &&;
  // Cuts every piece into bits of this size.
  Answer InBitsOf(size_t size) &&;
};

class ScriptedTransport final : public HttpTransport {
 public:
  ScriptedTransport(InstantClock* clock, std::stop_source* stop) : clock_(clock), stop_(stop) {}

  void Push(Answer answer);
  // For requests whose order is not known; does not use up.
  void Always(const std::string& request, Answer answer);

  Result<Response> Do(const Request& request, const std::stop_token& stop) override;
  Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                           const std::stop_token& stop) override;

  // In short: "C" kube-system, "V" current version, "L 10" list at 10, "P token" page, "D 10"
  // metadata list, "W 10" watch, "WL" streaming list, "G x/a" one object, "F x/a" one object by
  // selector, "E x/a 10" the same as it was at 10.
  std::vector<std::string> Requests() const;
  std::vector<Request> FullRequests() const;

 private:
  // Takes the answer for this request, or requests the stop when there is none.
  Result<Answer> Take(const Request& request);

  InstantClock* const clock_;
  std::stop_source* const stop_;
  mutable std::mutex mutex_;
  std::deque<Answer> answers_;
  std::map<std::string, Answer> always_;
  std::vector<Request> requests_;
};

std::string Shorthand(const Request& request);
std::string QueryValue(const Request& request, std::string_view name);

}  // namespace larder
