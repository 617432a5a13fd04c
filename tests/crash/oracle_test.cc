// What the crash programme's judge does with stores that were made for it.
#include "tests/crash/oracle.h"

#include <gmock/gmock.h>

#include "apiserver/simulator.h"
#include "tests/crash/open_store.h"
#include "tests/storage/support.h"

namespace larder::crash {
namespace {

using ::larder::testing::Must;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class OracleTest : public ::testing::Test {
 protected:
  // A store that says it is complete and has none of the server's pods, and an index key that
  // Verify does not like.
  void MakeAnEmptyStoreWithAProblem() {
    ASSERT_TRUE(simulator_->Load(3));
    const auto store = Must(Store::Open(StoreAt(dir_.path(), {})));
    CollectionSpec spec;
    spec.cluster_uid = simulator_->ClusterUid();
    spec.resource = *LookupResource("pods");
    const CollectionId id = Must(store->OpenCollection(spec)).id;
    Transaction transaction = store->Begin();
    transaction.PutIndexRecord(id, {1, "node", "field:spec.nodeName", /*ready=*/true});
    transaction.PutIndexKey(id, 1, "node-1", {"x", "nobody"}, "uid");
    transaction.SetCursor(id, {.resource_version = std::to_string(simulator_->Version()),
                               .state = SyncState::kSynced});
    Must(store->Commit(std::move(transaction), Durability::kRelaxed));
  }

  testing::TempDir dir_;
  std::unique_ptr<apiserver::Simulator> simulator_ = Must(apiserver::Simulator::Start());
  Oracle oracle_{simulator_.get(), dir_.path(), dir_.path("journal")};
};

TEST_F(OracleTest, DamageThatVerifyFindsIsAnAnswer) {
  MakeAnEmptyStoreWithAProblem();
  bool refused = false;
  EXPECT_THAT(oracle_.Check({.nothing_lost = false, .damaged = true}, &refused), IsEmpty());
  EXPECT_TRUE(refused);
}

TEST_F(OracleTest, WhoCameToRestIsComparedWithTheServerThoughVerifyFindsDamage) {
  MakeAnEmptyStoreWithAProblem();
  bool refused = false;
  EXPECT_THAT(oracle_.Check({.nothing_lost = false, .damaged = true, .settled = true}, &refused),
              Contains(StartsWith("promise 1: ")));
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace larder::crash
