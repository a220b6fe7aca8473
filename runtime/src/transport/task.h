// task.h: an algorithm that stops where it must wait for other ranks and goes on from there later: a coroutine. It
// waits by `co_await condition`, or for all of another task by `co_await task`; whoever runs it calls advance() until
// it is done. Nothing runs by itself.
#pragma once
#include <atomic>
#include <coroutine>
#include <cstdint>
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

/// So much a task sums or moves before it pauses: some 10 us.
constexpr int64_t bytes_between_pauses = 64 << 10;

/// Met at once: here a task stops if its thread is to give way, and else goes on.
class Pause final : public Condition {
 public:
  bool met() override { return true; }
  void look() override {}
  std::string late() override { return {}; }
};

/// Whether a thread that advances tasks is to stop even where they need not wait: another one wants its turn.
class GivesWay {
 public:
  GivesWay() = default;  // never
  explicit GivesWay(const std::atomic<bool>& wanted) : wanted_(&wanted) {}
  explicit operator bool() const { return wanted_ && wanted_->load(std::memory_order_relaxed); }

 private:
  const std::atomic<bool>* wanted_ = nullptr;
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
  bool advance(GivesWay gives_way = {});
  /// Whether advance() would do something, of a task that is not done.
  bool can_go_on() const;
  /// What it waits for, after advance() was false.
  Condition& awaited() const;

 private:
  using Handle = std::coroutine_handle<promise_type>;
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_;
};

struct Task::promise_type {
  struct ForCondition {
    Condition& condition;
    const promise_type& promise;
    bool await_ready() const { return !promise.gives_way && condition.met(); }
    void await_suspend(Handle handle) const { handle.promise().awaited = &condition; }
    void await_resume() const {}
  };
  struct ForTask {
    Task& task;
    const promise_type& promise;
    bool await_ready() const { return task.advance(promise.gives_way); }
    void await_suspend(Handle handle) const { handle.promise().within = &task; }
    void await_resume() const {}
  };

  Condition* awaited = nullptr;  // both null: it can go on
  Task* within = nullptr;        // a task of its own, whose end it waits for
  GivesWay gives_way;            // as it was advanced last

  Task get_return_object() { return Task(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() noexcept { return {}; }
  std::suspend_always final_suspend() noexcept { return {}; }
  void return_void() {}
  void unhandled_exception() { throw; }
  ForCondition await_transform(Condition& condition) { return {condition, *this}; }
  ForCondition await_transform(Condition&& condition) { return {condition, *this}; }
  ForTask await_transform(Task& task) { return {task, *this}; }
};

inline bool Task::advance(GivesWay gives_way) {
  if (handle_.done()) return true;
  promise_type& promise = handle_.promise();
  promise.gives_way = gives_way;
  if (promise.within ? !promise.within->advance(gives_way) : !can_go_on()) return false;
  promise.within = nullptr;
  promise.awaited = nullptr;
  handle_.resume();
  return handle_.done();
}

inline bool Task::can_go_on() const {
  const promise_type& promise = handle_.promise();
  if (promise.within) return promise.within->can_go_on();
  return !promise.awaited || promise.awaited->met();
}

inline Condition& Task::awaited() const {
  const promise_type& promise = handle_.promise();
  return promise.within ? promise.within->awaited() : *promise.awaited;
}

}  // namespace meshrt
