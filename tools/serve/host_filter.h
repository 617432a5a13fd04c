// Which names a client may call the server by.
//
// A web page must not get at the store through the browser of somebody who runs `larder serve`,
// also where no token is asked for. A page whose name is made to lead to 127.0.0.1 (DNS rebinding)
// passes every check of the browser, but not this one: the Host header still has the page's name.
//
//   HostFilter hosts("127.0.0.1", {"store.example.com"});
//   hosts.Allows(request.get_header_value("Host"));
//
// Immutable.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace larder::tools {

class HostFilter {
 public:
  // `listen`: the address that is listened on; of a wildcard every address is one. Loopback is
  // always allowed.
  HostFilter(const std::string& listen, const std::vector<std::string>& more);

  // `host` as in the header: "localhost:8080", "[::1]:80".
  bool Allows(std::string_view host) const;

 private:
  std::set<std::string> names_;
  bool any_address_ = false;
};

}  // namespace larder::tools
