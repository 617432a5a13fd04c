// Locks that clang can check: std's, with the attributes of its thread-safety analysis.
//
// A field says which mutex guards it and a function which one its caller holds; a clang build
// (`./dev lint`) refuses code that does otherwise. Elsewhere the macros are empty, and a lock costs
// what std's costs. The names are std's, so a Mutex goes where std wants a lock: to wait, give it
// to a std::condition_variable_any or to Clock::WaitUntil, in a loop that holds the mutex.
//
//   mutable Mutex mutex_;
//   int count_ LARDER_GUARDED_BY(mutex_) = 0;
//   void Count() { MutexLock lock(mutex_); ++count_; }
#pragma once

#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define LARDER_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define LARDER_THREAD_ANNOTATION(x)
#endif

// On a field: what must be held to touch it, or what it points to.
#define LARDER_GUARDED_BY(mutex) LARDER_THREAD_ANNOTATION(guarded_by(mutex))
#define LARDER_PT_GUARDED_BY(mutex) LARDER_THREAD_ANNOTATION(pt_guarded_by(mutex))
// On a mutex: its place in the lock order.
#define LARDER_ACQUIRED_AFTER(...) LARDER_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
// On a function: what its caller holds.
#define LARDER_REQUIRES(...) LARDER_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
// On a function: what it takes and leaves taken, or gives back.
#define LARDER_ACQUIRE(...) LARDER_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define LARDER_ACQUIRE_SHARED(...) LARDER_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define LARDER_TRY_ACQUIRE(...) LARDER_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define LARDER_RELEASE(...) LARDER_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define LARDER_RELEASE_SHARED(...) LARDER_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define LARDER_ASSERT_CAPABILITY(...) LARDER_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))
// On a type: a mutex, or what holds one for a block.
#define LARDER_CAPABILITY(name) LARDER_THREAD_ANNOTATION(capability(name))
#define LARDER_SCOPED_CAPABILITY LARDER_THREAD_ANNOTATION(scoped_lockable)

namespace larder {

class LARDER_CAPABILITY("mutex") Mutex {
 public:
  void lock() LARDER_ACQUIRE() { mutex_.lock(); }
  void unlock() LARDER_RELEASE() { mutex_.unlock(); }
  bool try_lock() LARDER_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  // Tells the analysis that this thread holds it, where only the design shows that. Does nothing.
  void AssumeHeld() const LARDER_ASSERT_CAPABILITY(this) {}

 private:
  std::mutex mutex_;
};

class LARDER_CAPABILITY("mutex") SharedMutex {
 public:
  void lock() LARDER_ACQUIRE() { mutex_.lock(); }
  void unlock() LARDER_RELEASE() { mutex_.unlock(); }
  void lock_shared() LARDER_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() LARDER_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds a mutex until the end of the block; unlock() and lock() give it back in between.
class LARDER_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LARDER_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  // Takes over a mutex that is held already.
  MutexLock(Mutex& mutex, std::adopt_lock_t) LARDER_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() LARDER_RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() LARDER_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() LARDER_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// Holds a shared mutex with other readers, until the end of the block or unlock().
class LARDER_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) LARDER_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() LARDER_RELEASE() {
    if (held_) mutex_.unlock_shared();
  }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

  void unlock() LARDER_RELEASE() {
    held_ = false;
    mutex_.unlock_shared();
  }

 private:
  SharedMutex& mutex_;
  bool held_ = true;
};

// Holds a shared mutex alone.
class LARDER_SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) LARDER_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~WriterLock() LARDER_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace larder
