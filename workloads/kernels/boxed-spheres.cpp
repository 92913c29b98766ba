// Balls in a box: a simulation from collision to collision, with one object for every event.
//
// A descendant in spirit of boxed-sim, of which no package exists: the next collision of each pair
// is an event in a queue, allocated when it is foreseen and freed when it has happened or a nearer
// one has made it void. Shows the per-class pattern: a great many short-lived objects of one size.
#include <array>
#include <cmath>
#include <limits>
#include <queue>
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "boxed-spheres",
    "Balls in a box, simulated from collision to collision, one object each event\n"
    "(after boxed-sim).\n"
    "Shows a program whose objects are nearly all of one size and short-lived.",
    0};

constexpr std::size_t kEventsAtScaleOne = 400'000;
constexpr std::size_t kBalls = 100;
constexpr std::size_t kAxes = 3;
constexpr double kRadius = 0.04;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kWall = kBalls;  // partner number of wall 0; the axis is added

using Vector = std::array<double, kAxes>;

struct Ball {
  Vector place{};
  Vector speed{};
  std::uint64_t collisions = 0;
};

struct Event {
  double time;
  std::size_t ball;
  std::size_t partner;
  std::uint64_t ball_collisions;  // when the event was foreseen; more by now: the event is void
  std::uint64_t partner_collisions;
};

struct Later {
  bool operator()(const Event* a, const Event* b) const {
    if (a->time != b->time) return a->time > b->time;
    // A full order, so that the run does not depend on where the events lie in memory.
    if (a->ball != b->ball) return a->ball > b->ball;
    return a->partner > b->partner;
  }
};

class Box {
 public:
  explicit Box(kernel::Random random) : balls_(kBalls) {
    constexpr std::size_t kSide = 5;  // a 5 x 5 x 4 grid keeps the balls apart at the start
    for (std::size_t i = 0; i < kBalls; ++i) {
      const std::array<std::size_t, kAxes> cell{i % kSide, i / kSide % kSide, i / kSide / kSide};
      for (std::size_t axis = 0; axis < kAxes; ++axis) {
        balls_[i].place[axis] = (static_cast<double>(cell[axis]) + 0.5) / kSide;
        balls_[i].speed[axis] = random.unit() - 0.5;
      }
    }
    for (std::size_t i = 0; i < kBalls; ++i) foresee(i, i);
  }

  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  ~Box() {
    for (; !events_.empty(); events_.pop()) delete events_.top();
  }

  void run(std::size_t collisions) {
    for (std::size_t done = 0; done < collisions;) {
      const Event* event = events_.top();
      events_.pop();
      if (!is_void(*event)) {
        advance(event->time - now_);
        now_ = event->time;
        happen(*event);
        ++done;
      }
      delete event;
    }
  }

  std::uint64_t digest() const {
    std::uint64_t sum = 0;
    for (const Ball& ball : balls_) {
      for (const double x : ball.place)
        sum = kernel::mix(sum + static_cast<std::uint64_t>(x * 1e9));
      sum += ball.collisions;
    }
    return sum;
  }

 private:
  bool is_void(const Event& event) const {
    if (balls_[event.ball].collisions != event.ball_collisions) return true;
    return event.partner < kBalls && balls_[event.partner].collisions != event.partner_collisions;
  }

  void advance(double seconds) {
    for (Ball& ball : balls_) {
      for (std::size_t axis = 0; axis < kAxes; ++axis) {
        ball.place[axis] += ball.speed[axis] * seconds;
      }
    }
  }

  void happen(const Event& event) {
    Ball& ball = balls_[event.ball];
    ++ball.collisions;
    if (event.partner >= kWall) {
      ball.speed[event.partner - kWall] *= -1.0;
      foresee(event.ball, event.ball);
      return;
    }
    Ball& other = balls_[event.partner];
    ++other.collisions;
    // Equal masses exchange the parts of their speeds along the line between the centres.
    Vector line{};
    double push = 0.0;
    double length = 0.0;
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      line[axis] = other.place[axis] - ball.place[axis];
      push += line[axis] * (ball.speed[axis] - other.speed[axis]);
      length += line[axis] * line[axis];
    }
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      ball.speed[axis] -= line[axis] * push / length;
      other.speed[axis] += line[axis] * push / length;
    }
    foresee(event.ball, event.ball);
    foresee(event.partner, event.ball);
  }

  // Puts the coming collisions of a ball into the queue, save those with `except`.
  void foresee(std::size_t ball, std::size_t except) {
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      const double speed = balls_[ball].speed[axis];
      const double place = balls_[ball].place[axis];
      if (speed == 0.0) continue;
      const double way = speed > 0.0 ? 1.0 - kRadius - place : kRadius - place;
      plan(way / speed, ball, kWall + axis);
    }
    for (std::size_t other = 0; other < kBalls; ++other) {
      if (other != ball && other != except) plan(until_contact(ball, other), ball, other);
    }
  }

  double until_contact(std::size_t one, std::size_t two) const {
    double approach = 0.0;
    double speed = 0.0;
    double distance = 0.0;
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      const double place = balls_[two].place[axis] - balls_[one].place[axis];
      const double relative = balls_[two].speed[axis] - balls_[one].speed[axis];
      approach += place * relative;
      speed += relative * relative;
      distance += place * place;
    }
    const double gap = distance - 4.0 * kRadius * kRadius;
    const double root = approach * approach - speed * gap;
    if (approach >= 0.0 || root <= 0.0) return kNever;
    return (-approach - std::sqrt(root)) / speed;
  }

  void plan(double wait, std::size_t ball, std::size_t partner) {
    if (wait == kNever) return;
    const std::uint64_t partner_collisions = partner < kBalls ? balls_[partner].collisions : 0;
    // Rounding can put a collision a hair into the past.
    const double time = now_ + (wait > 0.0 ? wait : 0.0);
    events_.push(new Event{time, ball, partner, balls_[ball].collisions, partner_collisions});
  }

  std::vector<Ball> balls_;
  std::priority_queue<Event*, std::vector<Event*>, Later> events_;
  double now_ = 0.0;
};

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  Box box(kernel::Random(options.seed, 0));
  box.run(options.steps(kEventsAtScaleOne));
  return kernel::finish(box.digest());
}
