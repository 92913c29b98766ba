// The recorder without an allocator: threads that record births and deaths of objects that are
// nowhere, hand these to each other, and end, while others turn recording on and off, send signals
// whose handler records, forget code, and fork. What each thread has told the recorder goes to
// STEM.told; what the recorder wrote must be the same, as recorder_reader.cpp reads it.
//
// recorder_harness FOLDER THREADS OPERATIONS SEED SAMPLE STACKS SNAPSHOTS LARGEST_FILE

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "event.hpp"
#include "known_stacks.hpp"
#include "process.hpp"
#include "recorder_rows.hpp"
#include "sampling.hpp"
#include "snapshots/snapshots.hpp"
#include "stacks.hpp"
#include "switch.hpp"
#include "thread.hpp"

namespace {

using namespace tare::recorder;

void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  _exit(1);
}

std::uint64_t Mixed(std::uint64_t number) {
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9u;
  return number ^ (number >> 27);
}

// An address tells who made the object, as which one, and so all that is to be known of it.
std::uint64_t Address(std::uint64_t maker, std::uint64_t number) {
  return (maker + 1) << 32 | number << 4;
}
std::size_t BytesAt(std::uint64_t address) { return Mixed(address) % 3000; }
std::size_t UsableAt(std::uint64_t address) {
  const std::size_t bytes = BytesAt(address), slack = Mixed(address) >> 40 & 127;
  return slack < 64 ? UsualSize(bytes) : bytes + slack;
}
void* ObjectAt(std::uint64_t address) { return reinterpret_cast<void*>(address); }

struct Options {
  std::string folder;
  unsigned threads, operations, seed;
  std::size_t sample;
  bool stacks, snapshots;
} options;

// Makers that are no threads of the harness.
constexpr std::uint64_t kMain = 2000, kOwn = 4000;
static_assert(kMakerOfHandlers < kOwn);

std::atomic<std::uint64_t> operations_done = 0;
std::atomic<std::uint64_t> handled = 0, looks = 0;
std::atomic<std::uint64_t> mailbox[64];  // addresses

std::mutex told_lock;
std::vector<Row> all_told;

// What a thread has told the recorder; in the file once it has ended.
struct Teller {
  explicit Teller(std::uint64_t its_maker) : maker(its_maker) {}

  const std::uint64_t maker;
  bool heeds_switch = true;
  std::uint64_t made = 0;
  std::vector<Row> told;
  std::vector<std::uint64_t> mine;  // addresses

  bool IsOff() const { return heeds_switch && PowerNow() == Power::kOff; }

  void Tell(std::uint8_t kind, bool moved, std::uint64_t address, std::size_t bytes,
            std::size_t usable, std::size_t alignment, const Caller& caller) {
    const std::uint32_t number = thread_has_ended || thread == nullptr ? 0 : thread->number;
    told.push_back(
        {number, kind, moved, address, bytes, usable, alignment, options.stacks ? caller.call : 0});
  }
};

__attribute__((always_inline)) inline Caller CallerHere() {
  const auto* const frame = static_cast<const std::uintptr_t*>(__builtin_frame_address(0));
  return {frame[1], reinterpret_cast<std::uintptr_t>(frame + 2), frame[0]};
}

// What malloc does in calls.hpp.
__attribute__((noinline)) std::uint64_t Bear(Teller& teller, Kind kind, std::size_t alignment) {
  const std::uint64_t address = Address(teller.maker, teller.made++);
  const std::size_t bytes = BytesAt(address);
  const Caller caller = CallerHere();
  const bool passes = Passes(bytes);
  if (!passes && teller.IsOff()) {
    SkipSample();
    return address;
  }
  if (!passes) RecordBirth(kind, ObjectAt(address), bytes, alignment, caller);
  teller.Tell(kind, false, address, bytes, UsableAt(address), alignment, caller);
  return address;
}

__attribute__((noinline)) void Release(Teller& teller, std::uint64_t address) {
  const void* const object = ObjectAt(address);
  const Caller caller = CallerHere();
  if (sampled == nullptr && teller.IsOff()) return;
  if (sampled == nullptr || sampled->MayContain(object)) RecordDeath(object, caller);
  teller.Tell(kDeath, false, address, 0, 0, 0, caller);
}

__attribute__((noinline)) std::uint64_t Resize(Teller& teller, std::uint64_t address) {
  const std::uint64_t moved = Address(teller.maker, teller.made++);
  const Caller caller = CallerHere();
  if (teller.IsOff()) return moved;
  const std::uint64_t begin = Ticks();
  RecordDeathAt(begin, ObjectAt(address), kMoved, caller);
  teller.Tell(kDeath, true, address, 0, 0, 0, caller);
  RecordBirth(kRealloc, ObjectAt(moved), BytesAt(moved), 0, caller);
  teller.Tell(kRealloc, false, moved, BytesAt(moved), UsableAt(moved), 0, caller);
  return moved;
}

__attribute__((noinline)) std::uint64_t BearAny(Teller& teller, unsigned chance) {
  constexpr Kind kKinds[] = {kMalloc, kCalloc, kRealloc, kAligned, kNew, kAlignedNew};
  const Kind kind = kKinds[chance % 6];
  const std::size_t alignment =
      kind == kAligned || kind == kAlignedNew ? std::size_t{16} << chance / 8 % 9 : 0;
  return Bear(teller, kind, alignment);
}

// Stacks of different depths, whose outer part stays.
// NOLINTNEXTLINE(misc-no-recursion)
__attribute__((noinline)) void Operate(Teller& teller, std::mt19937& random, unsigned depth) {
  if (depth > 0) {
    Operate(teller, random, depth - 1);
    asm volatile("");  // no jump in place of the call
    return;
  }
  std::vector<std::uint64_t>& mine = teller.mine;
  mine.push_back(BearAny(teller, static_cast<unsigned>(random())));
  if (random() % 3 == 0) {
    const std::uint64_t other = mailbox[random() % 64].exchange(mine.back());
    mine.pop_back();
    if (other != 0) Release(teller, other);
  }
  while (mine.size() > random() % 50) {
    std::swap(mine[random() % mine.size()], mine.back());
    Release(teller, mine.back());
    mine.pop_back();
  }
  // Of a sample, whether a death by a realloc is told is the realloc's business.
  if (sampled == nullptr && !mine.empty() && random() % 4 == 0)
    mine.back() = Resize(teller, mine.back());
}

constexpr unsigned kTurners = 3, kTurns = 60;  // all of them have room in the switch
static_assert(kTurners * kTurns < Switch::kMostChanges);

std::atomic<unsigned> turns_done = 0;

// In how many operations there is one turn of each; so the first threads are there for all.
std::uint64_t OperationsInATurn() {
  return std::uint64_t{options.threads} * options.operations / 3 / kTurns;
}

// Whoever is ahead waits, so what is on and off does not depend on who gets a processor.
void WaitForTurns() {
  for (;;) {
    const unsigned turns = turns_done.load(std::memory_order_relaxed) / kTurners;
    const std::uint64_t operations = operations_done.load(std::memory_order_relaxed);
    if (turns == kTurns || operations < (turns + 2) * OperationsInATurn()) return;
    sched_yield();
  }
}

// Made after the recorder's own key, so that its destructor comes after the end of the record, if
// the thread has one.
pthread_key_t after_end;

void EndOfTeller(void* pointer) {
  auto* const teller = static_cast<Teller*>(pointer);
  std::mt19937 random(static_cast<unsigned>(teller->maker));
  for (const std::uint64_t address : teller->mine) Release(*teller, address);
  teller->mine.clear();
  // The bytes of a sample that pass now are told by nobody.
  if (sampled == nullptr)
    for (int i = 0; i < 20; ++i)
      Release(*teller, BearAny(*teller, static_cast<unsigned>(random())));
  const std::scoped_lock guard(told_lock);
  all_told.insert(all_told.end(), teller->told.begin(), teller->told.end());
  delete teller;
}

void EndOfThread(void* record) {
  RecordRest();
  EndThread(record);
}

void Work(std::uint64_t maker) {
  auto* const teller = new Teller{maker};
  pthread_setspecific(after_end, teller);
  std::mt19937 random(static_cast<unsigned>(options.seed + maker));
  // Some end when others have just begun, and leave their records to those that begin later.
  const unsigned operations = options.operations / (1 + maker % 3);
  for (unsigned i = 0; i < operations; ++i) {
    Operate(*teller, random, static_cast<unsigned>(random()) % 6);
    operations_done.fetch_add(1, std::memory_order_relaxed);
    WaitForTurns();
  }
}

__attribute__((noinline)) void Handle(int) {
  const tare::KeepErrno keep;
  const std::uint64_t address = Address(kMakerOfHandlers, handled.fetch_add(1));
  RecordDeathAt(Ticks(), ObjectAt(address), 0, CallerHere());
}

// As the program goes on, and all of them at once.
void Disturb() {
  for (unsigned i = 0; i < kTurns; ++i) {
    while (operations_done.load(std::memory_order_relaxed) < i * OperationsInATurn()) sched_yield();
    if (options.sample == 0) Turn(*main_switch);
    kill(getpid(), SIGUSR1);
    if (options.stacks && i % 8 == 0) ForgetCode(*process->stacks);
    turns_done.fetch_add(1, std::memory_order_relaxed);
  }
}

void LimitFiles(rlim_t bytes) {
  rlimit limit{};
  Check(getrlimit(RLIMIT_FSIZE, &limit) == 0, "no limit");
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  Check(setrlimit(RLIMIT_FSIZE, &limit) == 0, "no other limit");
}

void WriteTold(const std::vector<Row>& told) {
  LimitFiles(RLIM_INFINITY);
  const int fd = open(FileOfProcess(".told").Text(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const std::size_t bytes = told.size() * sizeof(Row);
  Check(fd >= 0 && write(fd, told.data(), bytes) == static_cast<ssize_t>(bytes), "no room");
  close(fd);
}

// The child of a fork has none of the other threads, and records its own. It may not allocate: a
// thread that it does not have may have been doing so.
void Fork(std::uint64_t maker) {
  constexpr std::size_t kObjects = 300;
  Teller teller{maker};
  teller.heeds_switch = false;
  teller.told.reserve(2 * kObjects);
  teller.mine.reserve(kObjects);
  // ThreadSanitizer keeps a signal until a thread can handle it: the child would have it too.
  sigset_t disturbing;
  sigemptyset(&disturbing);
  sigaddset(&disturbing, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &disturbing, nullptr);
  const pid_t child = fork();
  pthread_sigmask(SIG_UNBLOCK, &disturbing, nullptr);
  if (child != 0) {
    int status = 0;
    Check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "a child");
    return;
  }
  for (unsigned i = 0; i < kObjects; ++i) {
    teller.mine.push_back(BearAny(teller, i));
    if (i % 3 == 0) Release(teller, std::exchange(teller.mine[i / 2], teller.mine.back()));
    if (i % 3 == 0) teller.mine.pop_back();
  }
  WriteTold(teller.told);
  RecordRest();
  NoteEnd();
  // A sanitizer's own end would miss the threads of the parent.
  syscall(SYS_exit_group, 0);
}

// Whoever knows of a stack finds it noted, however others have all forgotten meanwhile.
void NoteStacks() {
  constexpr unsigned kNoters = 4, kRounds = 4000;
  static KnownStacks known;
  std::atomic<std::uint32_t> generation = 2;  // odd while all is being forgotten
  std::atomic<unsigned> begun = 0;
  const auto work = [&](unsigned i) {
    const std::uintptr_t start = std::uintptr_t{i + 1} << 20;
    std::uint32_t heard = 0;
    ++begun;
    while (begun < kNoters) sched_yield();
    for (unsigned round = 0; round < kRounds; ++round) {
      if (std::exchange(heard, generation.load()) != heard) known.Add(start, start + kPage);
      const bool is_noted = known.Overlap(start, start + 1);
      Check(is_noted || heard % 2 != 0 || generation.load() != heard, "a known stack is not noted");
      if (round % 8 == 2 * i) known.Forget(generation);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kNoters; ++i) threads.emplace_back(work, i);
  for (std::thread& each : threads) each.join();
  known.Forget(generation);
  Check(!known.Overlap(0, ~std::uintptr_t{0}), "a stack that should be forgotten");
}

void Begin() {
  ChooseClock();
  setting.folder = options.folder.c_str();
  setting.inner.malloc = malloc;
  setting.inner.free = free;
  setting.inner.usable_size = [](void* object) {
    return UsableAt(reinterpret_cast<std::uint64_t>(object));
  };
  setting.has_stacks = options.stacks;
  setting.sample_bytes = options.sample;
  if (options.sample != 0) sampled = static_cast<Sampled*>(MapOwn(sizeof(Sampled)));
  snapshot::on = options.snapshots;
  pthread_key_create(&thread_end, EndOfThread);
  pthread_key_create(&after_end, EndOfTeller);
  process = static_cast<Process*>(MapOwn(sizeof(Process)));
  Check(process != nullptr && IsOpen(), "no recording");
  main_switch = MapSwitch((options.folder + "/switch").c_str());
  Check(HasSwitch(), "no switch");
  struct sigaction action{};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

// Each of the turns is one: it goes on from what the one before it left.
void CheckSwitch() {
  const std::uint32_t turns = options.sample == 0 ? kTurners * kTurns : 0;
  Check(main_switch->state.load().changes_used == turns, "turns of the switch");
  std::uint64_t before = 0;
  for (std::uint32_t i = 0; i < turns; ++i) {
    const std::uint64_t moment = main_switch->changes[i].moment.load();
    Check((moment & 1) == (i + 1) % 2, "a turn that was none");
    Check(moment >> 1 >= before, "turns out of order");
    before = moment >> 1;
  }
  Check(PowerNow() == Power::kOn, "the last turn of the switch");
}

}  // namespace

// The recorder's looks at memory, of which these have what concerns threads: they allocate.
namespace tare::recorder::snapshot {

void Prepare() {}
void Begin(const char*, std::uint64_t, bool) {}
void End() {}
void NoteThread() {}
std::int64_t Look(std::int64_t, Occasion) {
  ++looks;
  RecordBirth(kMalloc, ObjectAt(Address(kOwn, 1)), 1, 0, {});
  return 5000;
}

}  // namespace tare::recorder::snapshot

int main(int count, char** values) {
  if (count != 9) return 2;
  const auto number = [&](int index) { return static_cast<unsigned>(atoi(values[index])); };
  const auto choice = [&](int index) { return strcmp(values[index], "yes") == 0; };
  options = {values[1], number(2), number(3), number(4), number(5), choice(6), choice(7)};
  NoteStacks();
  Begin();
  LimitFiles(static_cast<rlim_t>(atoll(values[8])));
  std::vector<std::thread> disturbers;
  for (unsigned i = 0; i < kTurners; ++i) disturbers.emplace_back(Disturb);
  Teller teller{kMain};
  std::mt19937 random(options.seed);
  constexpr unsigned kGenerations = 3, kForks = 4;
  for (unsigned generation = 0; generation < kGenerations; ++generation) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < options.threads; ++i)
      threads.emplace_back(Work, generation * options.threads + i);
    for (unsigned i = 0; i < kForks; ++i) {
      for (unsigned j = 0; j < 100; ++j) Operate(teller, random, 1);
      Fork(kMain + 1 + generation * kForks + i);
    }
    for (std::thread& each : threads) each.join();
  }
  for (std::thread& each : disturbers) each.join();
  CheckSwitch();
  Check(options.snapshots == (looks > 0), "looks");
  RecordRest();
  NoteEnd();
  all_told.insert(all_told.end(), teller.told.begin(), teller.told.end());
  WriteTold(all_told);
  std::printf("%s %lu\n", process->stem, static_cast<unsigned long>(handled.load()));
  return 0;
}
