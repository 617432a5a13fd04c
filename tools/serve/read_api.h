// A store behind Kubernetes' API, for reading: discovery, get, list, watch, Tables.
//
// Lists and objects are of the moment that the hub reported last, so that a watch from a list's
// version misses nothing. Pages of one list are each of their own moment. Everything that would
// write is answered with 405. Called on many threads at once.
#pragma once

#include <httplib.h>

#include <chrono>
#include <memory>
#include <string>

#include "apiserver/api_status.h"
#include "apiserver/connection.h"
#include "apiserver/hangup_monitor.h"
#include "base/mutex.h"
#include "tools/follower.h"
#include "tools/serve/representation.h"
#include "tools/serve/resource_book.h"
#include "tools/serve/watch_hub.h"

namespace larder::tools {

class ReadApi {
 public:
  // All must outlive it.
  ReadApi(StoreFollower* follower, WatchHub* hub) : follower_(follower), hub_(hub) {}

  // Before the first request.
  void SetMonitor(apiserver::HangupMonitor* monitor) { monitor_ = monitor; }

  void Handle(const httplib::Request& request, httplib::Response& response,
              apiserver::Connection& connection);

 private:
  using BookPtr = std::shared_ptr<const ResourceBook>;
  // What a path leads to.
  struct Target {
    BookPtr book;  // keeps `resource` alive
    const ServedResource* resource = nullptr;
    std::string ns;
    std::string name;
  };
  struct Call {
    const httplib::Request& request;
    httplib::Response& response;
    apiserver::Connection& connection;
    Target target;
    Shape shape = Shape::kObject;
  };

  Result<BookPtr> Book();
  bool AnswerDocument(const httplib::Request& request, const ResourceBook& book,
                      httplib::Response& response) const;
  static apiserver::ApiResult<Target> Resolve(BookPtr book, const std::string& path);
  apiserver::ApiResult<void> Get(Call& call);
  apiserver::ApiResult<void> List(Call& call);
  apiserver::ApiResult<void> Watch(Call& call);

  StoreFollower* const follower_;
  WatchHub* const hub_;
  apiserver::HangupMonitor* monitor_ = nullptr;
  Mutex mutex_;
  BookPtr book_ LARDER_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point read_at_ LARDER_GUARDED_BY(mutex_){};
};

// The version of a list of all these collections: the least of theirs, so that a watch from it
// misses nothing.
Result<std::string> ListVersion(const Store& store, const StoredResource& resource);

// The query of a list or a watch as the store's lister takes it. Fails with 400.
apiserver::ApiResult<Query> QueryOf(const httplib::Request& request, const std::string& ns,
                                    const Resource& resource);

}  // namespace larder::tools
