// The simulator's own endpoints, under /simulator: for people with curl and for other processes.
//
//   GET    /simulator/history?from=N&limit=M   JSON lines: version, type, resource, ns, name, uid,
//   hash GET    /simulator/stats                    POST /simulator/stats/reset GET
//   /simulator/faults                   POST a fault (faults.h), or
//   {"type":"expire_history","resource":"pods"},
//                                              or {"type":"drop_connections"}; DELETE all, or
//                                              /simulator/faults/ID
//   POST   /simulator/churn                    {"rate":500,"create":1,"update":8,"delete":1}; rate
//   0 stops it; GET POST   /simulator/load                     {"pods":1000} POST /simulator/users
//   [{"name":"a","token":"t","forbidden":["secrets"]}] GET    /simulator/state version, history
//   size, objects by resource
//
// Not behind the tokens: whoever reaches the port may steer the simulator, which listens on
// loopback by default.
#pragma once

#include <httplib.h>

#include <functional>
#include <string>

#include "apiserver/api_handler.h"
#include "apiserver/churn.h"

namespace larder::apiserver {

class ControlHandler {
 public:
  ControlHandler(ServerParts parts, Churn& churn, std::function<void()> drop_connections)
      : parts_(parts), churn_(churn), drop_connections_(std::move(drop_connections)) {}

  // True where the path is one of ours, and answered.
  bool Handle(const httplib::Request& request, httplib::Response& response);

 private:
  Result<Json> Answer(const httplib::Request& request, const std::string& path);
  void StreamHistory(const httplib::Request& request, httplib::Response& response);
  Result<Json> AddFault(const Json& body);
  Result<Json> SetChurn(const Json& body);
  Result<Json> SetUsers(const Json& body);
  Json StateJson() const;
  Json ChurnJson() const;

  const ServerParts parts_;
  Churn& churn_;
  const std::function<void()> drop_connections_;
};

}  // namespace larder::apiserver
