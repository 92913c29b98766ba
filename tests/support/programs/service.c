// A server for tests: service PORT HOW PIDS. It answers each line with the same line, and appends
// its process's number to the file PIDS. A line "hold" makes it keep 64 MiB, "free" lets go of
// them. HOW: "well"; "dies" ends it by abort at the line "die"; "leaves" ends it at once; "deaf"
// listens to nobody; "stays" takes no notice of SIGTERM.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HELD = 64 << 20 };

int main(int count, char** words) {
  if (count != 4) return 2;
  const char* how = words[2];
  if (strcmp(how, "leaves") == 0) return 0;
  if (strcmp(how, "stays") == 0) signal(SIGTERM, SIG_IGN);
  FILE* pids = fopen(words[3], "a");
  fprintf(pids, "%d\n", (int)getpid());
  fclose(pids);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((unsigned short)atoi(words[1])),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (strcmp(how, "deaf") == 0) pause();
  if (bind(listener, (struct sockaddr*)&address, sizeof address) != 0) return 3;
  listen(listener, 16);
  puts("listening");
  fflush(stdout);
  char* held = NULL;
  for (;;) {
    const int client = accept(listener, NULL, NULL);
    char* line = malloc(4096);
    for (ssize_t length; (length = read(client, line, 4095)) > 0;) {
      line[length] = 0;
      if (strcmp(line, "die\n") == 0 && strcmp(how, "dies") == 0) abort();
      if (strcmp(line, "hold\n") == 0 && held == NULL) {
        held = malloc(HELD);
        memset(held, 1, HELD);
      }
      if (strcmp(line, "free\n") == 0) {
        free(held);
        held = NULL;
      }
      if (write(client, line, (size_t)length) != length) break;
    }
    free(line);
    close(client);
  }
}
