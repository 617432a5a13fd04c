// What a durable handler has heard, on another disk than the store's, and the judge of it.
//
// Once the handler's name is known to the store, of every key that has no row the last thing heard
// is what is stored (reliable); nothing that was acknowledged comes again (bounded); and of one key
// nothing older comes after something newer (ordered), but for a delete that an earlier process
// told already of an object that was made anew, where neither was acknowledged.
//
// An update begins with what was heard last, and only what is not known is added. In a new process
// that is what was acknowledged last: which of the things heard since then were, nobody knows who
// saw the process die, so any of them will do. A power loss takes acknowledgements back: where no
// row is pending the handler knows what is stored, elsewhere it may be anything that it ever heard.
//
// A restored cluster counts its versions anew: from there on neither order nor what comes again is
// judged, but still what an update begins with.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "informer/event_handler.h"

namespace larder::simulation {

class Deliveries {
 public:
  // A key's state as text, "uid@version"; empty: there is no such object.
  using States = std::map<std::string, std::string>;

  // Each returns what is wrong with it; empty: nothing.
  // A process begins; `known`: the store knows the handler's name.
  std::string Begin(bool known);
  // `old`: what the update begins with; null: it is an add.
  std::string Hear(const Object& object, const Object* old);
  std::string HearDelete(const Object& last);
  // What is stored, and the keys that have rows, at the start of a process or when all is
  // delivered.
  std::string Check(const States& stored, const std::set<std::string>& rows);

  // Everything heard in this process is acknowledged, durably but for a power loss. Not where a
  // later change has joined the row.
  void Acknowledged(const std::set<std::string>& rows);
  void Crash(bool power);
  void ClusterWasRestored() { restored_ = true; }

 private:
  struct Heard {
    std::string state;                  // the last; empty: none
    std::string gone;                   // the uid whose end was heard last
    std::set<std::string> ends;         // all that were heard
    uint64_t version = 0;               // the newest
    std::set<std::string> ever = {""};  // all states that were heard, and none
    // Those of them with which the next process may begin.
    std::set<std::string> may_be_known = {""};
    bool acknowledged = false;
    bool fresh = false;    // in this process
    bool unknown = false;  // the power went, and a row is pending: it may have heard anything
  };
  std::map<std::string, Heard> keys_;
  bool known_ = false;  // the name, to the store
  bool power_lost_ = false;
  bool restored_ = false;
};

}  // namespace larder::simulation
