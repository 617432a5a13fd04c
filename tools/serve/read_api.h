// A store behind Kubernetes' API, for reading: discovery, get, list, watch, Tables.
//
// Lists and objects are of the moment that the hub reported last, so that a watch from a list's
// version misses nothing. Pages of one list are each of their own moment. While the store's owner
// lists a resource anew, its rows are of two times: lists and new watches are told to come back
// (429), and so is everybody before the first list is complete. Everything that would write is
// answered with 405. Called on many threads at once.
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
    uint64_t position = 0;  // the hub's when it came: the book knows all collections up to there
  };
  class ListTransfer;

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
  uint64_t read_position_ LARDER_GUARDED_BY(mutex_) = 0;
};

// Where the collections of a resource stand.
struct Standing {
  std::string version;   // the least of theirs: all of them have reached it
  uint64_t lists = 0;    // counts them: rows of one number belong together
  bool complete = true;  // each was listed to the end once
  bool synced = true;    // and none is being listed
};
Result<Standing> StandingOf(const Store& store, const StoredResource& resource);

// 429, as the real server says it while its cache is filled.
apiserver::ApiStatus BeingListedStatus(const Resource& resource);
// Fails with 504 where only an older version was reached than a client asks for; "" and "0" are
// any.
apiserver::ApiResult<void> CheckReached(const std::string& wanted, const std::string& reached);
// What is reached for who asks for `wanted`: of several collections also what a client was told,
// although not all of them have come so far.
std::string ReachedOf(const WatchHub& hub, const WatchHub::Collections& collections,
                      const Standing& standing, const std::string& wanted);

// What a watch has to follow. Fails with 400 where several collections cannot be one stream.
apiserver::ApiResult<StoredResource> Followed(const StoredResource& resource, const Query& query);
std::vector<CollectionId> IdsOf(const StoredResource& resource);

// A warning that kubectl shows to its user; empty: none.
void Warn(const std::string& text, httplib::Response& response);

// The query of a list or a watch as the store's lister takes it. Fails with 400.
apiserver::ApiResult<Query> QueryOf(const httplib::Request& request, const std::string& ns,
                                    const Resource& resource);

}  // namespace larder::tools
