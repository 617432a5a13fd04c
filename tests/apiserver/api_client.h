// A small client for the tests of the simulated server: plain requests, and watches that can be
// read line by line.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "schema/object.h"

namespace larder::apiserver {

// httplib stays out of this header: every test would compile it.
using Headers = std::map<std::string, std::string>;

// Where the server is and how to be let in.
struct ServerAddress {
  std::string url;
  std::string token;
  std::string ca_file;  // empty: plain HTTP
};

struct HttpAnswer {
  int code = 0;  // 0: no answer
  std::string body;
  Headers headers;

  Json json() const { return Json::parse(body, nullptr, false); }
  std::string Header(const std::string& name) const;
};

class ApiClient {
 public:
  explicit ApiClient(ServerAddress address) : address_(std::move(address)) {}

  HttpAnswer Get(const std::string& path, Headers headers = {}) const;
  HttpAnswer Post(const std::string& path, const Json& body, Headers headers = {}) const;
  HttpAnswer Put(const std::string& path, const Json& body, Headers headers = {}) const;
  HttpAnswer Patch(const std::string& path, const Json& body, const std::string& type) const;
  HttpAnswer Delete(const std::string& path, const Json& body = Json()) const;

  const ServerAddress& address() const { return address_; }

 private:
  ServerAddress address_;
};

// Escapes what a query's value must not contain.
std::string Escape(const std::string& text);

// An open watch, read on a thread of its own.
class WatchReader {
 public:
  WatchReader(const ServerAddress& address, const std::string& path, Headers headers = {});
  ~WatchReader();

  // The status code, once the headers are there.
  int Code();
  // The next line as JSON; null when the stream ended, or nothing came within the time.
  Json Next(std::chrono::milliseconds patience = std::chrono::seconds(10));
  // The next line as it came; nullopt like Next's null. For tests with many events: parsing them
  // takes longer than sending.
  std::optional<std::string> NextLine(
      std::chrono::milliseconds patience = std::chrono::seconds(10));
  // The next line that is not a bookmark.
  Json NextEvent();
  // Everything until the stream ends.
  std::string Rest();
  // True when the stream has ended (and everything was read).
  bool Ended(std::chrono::milliseconds patience = std::chrono::seconds(10));
  // True when the server ended it as HTTP wants it; false: the connection broke. After Ended.
  bool EndedCleanly();
  void Close();

 private:
  void Run(const std::string& path, const Headers& headers);

  struct Client;
  std::unique_ptr<Client> client_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int code_ = 0;
  std::string partial_;
  std::deque<std::string> lines_;
  bool ended_ = false;
  bool clean_ = false;
  std::thread thread_;
};

// "ADDED default/a" of a watch line, "BOOKMARK 1234" of a bookmark.
std::string Summary(const Json& event);
std::string VersionOf(const Json& object);

}  // namespace larder::apiserver
