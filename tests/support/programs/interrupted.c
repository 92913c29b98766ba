// A signal of the program's own that comes as a stop of the collector's lets its thread go on has
// to end the call in which the thread waits. interrupted KIND [restarts]
//
// One process traces another, whose thread waits. It lets the collector stop the thread, follows
// the thread instruction by instruction from the end of the stop's handler on into the call again,
// and at one of these instructions, each in its turn, sends the signal. With `restarts` the handler
// asks for calls to be begun again, and the call must not end. Prints the number of places; the
// exit code is 1 if a signal was lost, and 2 if one ended the call that must not.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_SIGNAL 33

extern void tare_marksweep_collect(void) __attribute__((weak));

static struct {
  volatile int id, ended, handled, asked, collected;
}* shared;

static sem_t semaphore;
static int ends[2], sockets[2], listener, poller, messages, semaphores;

static void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(3);
}

static void handle(int number) { shared->handled++; }

static struct timespec in_an_hour(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  time.tv_sec += 3600;
  return time;
}

static const struct timespec hour = {3600, 0};
static sigset_t none;

static long wait_nanosleep(void) { return nanosleep(&hour, NULL); }
static long wait_sleep(void) { return sleep(3600) == 0 ? 0 : (errno = EINTR, -1); }
static long wait_clock_nanosleep(void) {
  errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL);
  return errno == 0 ? 0 : -1;
}
static long wait_until(void) {
  const struct timespec end = in_an_hour(CLOCK_MONOTONIC);
  errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
  return errno == 0 ? 0 : -1;
}
static long wait_pause(void) { return pause(); }
static long wait_sigsuspend(void) { return sigsuspend(&none); }
static long wait_sigtimedwait(void) { return sigtimedwait(&none, NULL, &hour); }
static long wait_sigwaitinfo(void) { return sigwaitinfo(&none, NULL); }
static long wait_poll(void) { return poll(NULL, 0, 3600000); }
static long wait_ppoll(void) { return ppoll(NULL, 0, &hour, NULL); }
static long wait_select(void) {
  struct timeval time = {3600, 0};
  return select(0, NULL, NULL, NULL, &time);
}
static long wait_pselect(void) { return pselect(0, NULL, NULL, NULL, &hour, NULL); }
static long wait_epoll_wait(void) {
  struct epoll_event event;
  return epoll_wait(poller, &event, 1, -1);
}
static long wait_epoll_pwait(void) {
  struct epoll_event event;
  return epoll_pwait(poller, &event, 1, 3600000, NULL);
}
static long wait_epoll_pwait2(void) {
  struct epoll_event event;
  return epoll_pwait2(poller, &event, 1, &hour, NULL);
}
static long wait_semop(void) {
  struct sembuf operation = {0, -1, 0};
  return semop(semaphores, &operation, 1);
}
static long wait_semtimedop(void) {
  struct sembuf operation = {0, -1, 0};
  return semtimedop(semaphores, &operation, 1, &hour);
}
static long wait_sem_wait(void) { return sem_wait(&semaphore); }
static long wait_sem_timedwait(void) {
  const struct timespec end = in_an_hour(CLOCK_REALTIME);
  return sem_timedwait(&semaphore, &end);
}
static long wait_sem_clockwait(void) {
  const struct timespec end = in_an_hour(CLOCK_MONOTONIC);
  return sem_clockwait(&semaphore, CLOCK_MONOTONIC, &end);
}
static struct {
  long type;
  char text[8];
} message;
static long wait_msgrcv(void) { return msgrcv(messages, &message, sizeof message.text, 1, 0); }
static char byte;
static long wait_read(void) { return read(ends[0], &byte, 1); }
static long wait_accept(void) { return accept(listener, NULL, NULL); }
static long wait_recv(void) { return recv(sockets[0], &byte, 1, 0); }
static long wait_recv_for_a_time(void) { return recv(sockets[1], &byte, 1, 0); }
static long wait_waitid(void) {
  siginfo_t information;
  return waitid(P_ALL, 0, &information, WEXITED);
}
static long wait_lock(void) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
  return fcntl(fileno(stdin), F_SETLKW, &lock);
}

static const struct {
  const char* name;
  long (*wait)(void);
} kinds[] = {
#define KIND(name) {#name, wait_##name}
    KIND(nanosleep),     KIND(sleep),           KIND(clock_nanosleep),
    KIND(until),         KIND(pause),           KIND(sigsuspend),
    KIND(sigtimedwait),  KIND(sigwaitinfo),     KIND(poll),
    KIND(ppoll),         KIND(select),          KIND(pselect),
    KIND(epoll_wait),    KIND(epoll_pwait),     KIND(epoll_pwait2),
    KIND(semop),         KIND(semtimedop),      KIND(sem_wait),
    KIND(sem_timedwait), KIND(sem_clockwait),   KIND(msgrcv),
    KIND(read),          KIND(accept),          KIND(recv),
    KIND(waitid),        KIND(recv_for_a_time), KIND(lock),
};
static long (*wait_kind)(void);

// ---- the process that is traced ----

static void* wait_again_and_again(void* nothing) {
  shared->id = gettid();
  for (;;) {
    if (wait_kind() != -1 || errno != EINTR) fail("the call ended otherwise");
    shared->ended++;
  }
  return nothing;
}

static void make_what_is_waited_for(void) {
  const struct timeval time = {3600, 0};
  struct sockaddr address = {.sa_family = AF_UNIX};
  sigemptyset(&none);
  poller = epoll_create1(0);
  messages = msgget(IPC_PRIVATE, 0600);
  semaphores = semget(IPC_PRIVATE, 1, 0600);
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (sem_init(&semaphore, 0, 0) != 0 || pipe(ends) != 0 ||
      socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 ||
      setsockopt(sockets[1], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) != 0 || poller < 0 ||
      messages < 0 || semaphores < 0 || bind(listener, &address, sizeof(sa_family_t)) != 0 ||
      listen(listener, 1) != 0)
    fail("nothing to wait for");
}

static void be_traced(int flags) {
  pthread_t thread;
  struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
  make_what_is_waited_for();
  if (wait_kind == wait_waitid && fork() == 0)
    for (;;) pause();
  sigaction(SIGUSR1, &action, NULL);
  pthread_create(&thread, NULL, wait_again_and_again, NULL);
  for (;;) {
    while (shared->asked == shared->collected) usleep(50);
    tare_marksweep_collect();
    shared->collected++;
  }
}

// ---- the one that traces ----

static pid_t process;

static void give_up(const char* what) {
  const int error = errno;
  kill(-process, SIGKILL);
  errno = error;
  fail(what);
}

static struct user_regs_struct registers(void) {
  struct user_regs_struct now;
  if (ptrace(PTRACE_GETREGS, shared->id, NULL, &now) != 0) give_up("registers");
  return now;
}

static void go_on(int how, int number) {
  if (ptrace(how, shared->id, NULL, number) != 0) give_up("the thread does not go on");
}

// The signal with which the thread stopped, and 0x80 more at a system call.
static int await_stop(void) {
  int status = 0;
  if (waitpid(shared->id, &status, __WALL) != shared->id || !WIFSTOPPED(status))
    give_up("the thread did not stop");
  return WSTOPSIG(status);
}

// From the start of the stop's handler on until it returns.
static void follow_stop(void) {
  int number = STOP_SIGNAL;
  for (;;) {
    go_on(PTRACE_SYSCALL, number);
    const int stopped = await_stop();
    number = stopped == (SIGTRAP | 0x80) ? 0 : stopped;
    if (number == 0 && registers().orig_rax == SYS_rt_sigreturn) return;
  }
}

static int begins_call(void) {
  const struct user_regs_struct now = registers();
  return (ptrace(PTRACE_PEEKTEXT, shared->id, now.rip, NULL) & 0xffff) == 0x050f;
}

static int is_in_call(void) {
  char path[80], text[300];
  snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, shared->id);
  const int file = open(path, O_RDONLY);
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  const char* const state = strrchr(text, ')');
  return state != NULL && state[2] == 'S';
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

// The collector asks again where it was not heard soon.
static void pass_on_later_signals(void) {
  int status = 0;
  if (waitpid(shared->id, &status, __WALL | WNOHANG) == shared->id)
    go_on(PTRACE_CONT, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
}

// Whether the thread came back into the call before it reached the place; -1 and -2 as in the exit
// codes.
static int try_place(int place, int restarts) {
  int reached = 0;
  for (; !is_in_call(); usleep(50)) pass_on_later_signals();
  const int before = shared->ended;
  const int handled = shared->handled;
  shared->asked++;
  while (await_stop() != STOP_SIGNAL) go_on(PTRACE_CONT, 0);
  follow_stop();
  for (; reached < place && !(reached > 0 && begins_call()); reached++) {
    go_on(PTRACE_SINGLESTEP, 0);
    while (await_stop() == STOP_SIGNAL) {
      follow_stop();
      go_on(PTRACE_SINGLESTEP, 0);
    }
  }
  if (syscall(SYS_tgkill, process, shared->id, SIGUSR1) != 0) give_up("no signal");
  go_on(PTRACE_CONT, 0);
  for (int stopped = 0; stopped != SIGUSR1; go_on(PTRACE_CONT, stopped)) stopped = await_stop();
  for (const double end = now() + 60;;) {
    if (shared->collected == shared->asked && shared->handled > handled) {
      if (shared->ended != before && restarts) return -2;
      if (shared->ended != before || (restarts && is_in_call())) break;
    }
    if (now() > end) return -1;
    usleep(50);
    pass_on_later_signals();
  }
  return reached < place;
}

int main(int count, char** arguments) {
  const int restarts = count > 2;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (count > 1 && strcmp(kinds[i].name, arguments[1]) == 0) wait_kind = kinds[i].wait;
  if (wait_kind == NULL) return 4;
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
  FILE* const locked = tmpfile();
  if (locked == NULL || dup2(fileno(locked), 0) != 0 || fcntl(0, F_SETLK, &lock) != 0)
    fail("nothing to lock");
  process = fork();
  if (process == 0) {
    setpgid(0, 0);
    be_traced(restarts ? SA_RESTART : 0);
  }
  setpgid(process, process);
  while (shared->id == 0) usleep(100);
  if (ptrace(PTRACE_SEIZE, shared->id, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0)
    give_up("no tracing");
  int place = 0, result = 0;
  while ((result = try_place(place, restarts)) == 0) place++;
  kill(-process, SIGKILL);
  waitpid(shared->id, NULL, __WALL);
  waitpid(process, NULL, 0);
  printf("%d places\n", place);
  return result == 1 ? 0 : -result;
}
