// task.h: an algorithm that stops where it must wait for other ranks and goes on from there later: a coroutine. It
// waits by `co_await condition`; whoever runs it calls advance() until it is done. Nothing runs by itself.
#pragma once
#include <atomic>
#include <coroutine>
#include <string>
#include <utility>

namespace meshrt {

/// What a task waits for. It lives in the task's frame until it is met.
class Condition {
 public:
  virtual ~Condition() = default;
  /// Asked in every look of a wait, so it is cheap. What has been met once stays so.
  virtual bool met() = 0;
  /// Called about every millisecond of a long wait; throws Failure when the condition can no longer be met.
  virtual void look() = 0;
  /// The message of the Failure at the deadline: what was waited for, and who is late.
  virtual std::string late() = 0;
};

class [[nodiscard]] Task {
 public:
  struct promise_type;  // NOLINT(readability-identifier-naming): the language's name

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  /// Goes as far as it can without waiting; true: the task is done. Throws what the algorithm throws.
  bool advance();
  /// Whether advance() would do something, of a task that is not done.
  bool can_go_on() const;
  /// What it waits for, after advance() was false.
  Condition& awaited() const;

  /// Where this is true, tasks that the calling thread advances stop even where they need not wait; null: nowhere.
  static const std::atomic<bool>*& gives_way_to() {
    static constinit thread_local const std::atomic<bool>* to = nullptr;
    return to;
  }
  static bool gives_way() {
    const std::atomic<bool>* const to = gives_way_to();
    return to && to->load(std::memory_order_relaxed);
  }

 private:
  using Handle = std::coroutine_handle<promise_type>;
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_;
};

struct Task::promise_type {
  struct Awaiter {
    Condition& condition;
    bool await_ready() const { return !gives_way() && condition.met(); }
    void await_suspend(Handle handle) const { handle.promise().awaited = &condition; }
    void await_resume() const {}
  };

  Condition* awaited = nullptr;  // null: it can go on

  Task get_return_object() { return Task(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() noexcept { return {}; }
  std::suspend_always final_suspend() noexcept { return {}; }
  void return_void() {}
  void unhandled_exception() { throw; }
  Awaiter await_transform(Condition& condition) { return {condition}; }
  Awaiter await_transform(Condition&& condition) { return {condition}; }
};

inline bool Task::advance() {
  if (handle_.done()) return true;
  if (!can_go_on()) return false;
  handle_.promise().awaited = nullptr;
  handle_.resume();
  return handle_.done();
}

inline bool Task::can_go_on() const {
  const promise_type& promise = handle_.promise();
  return !promise.awaited || promise.awaited->met();
}

inline Condition& Task::awaited() const { return *handle_.promise().awaited; }

}  // namespace meshrt
