// Finds distances in a graph, then makes a table of them. The graph is freed link by link, too
// late.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 30000, EDGES = 5 * NODES, TABLE = 800000 };

struct edge {
  struct edge* next;
  uint32_t to, length;
};

struct graph {
  struct edge* first[NODES];
};

static inline void connect(struct graph* graph, uint32_t from, uint32_t to, uint32_t length) {
  struct edge* edge = malloc(sizeof *edge);  // planted: free-earlier
  *edge = (struct edge){graph->first[from], to, length};
  graph->first[from] = edge;
}

static void disconnect(struct graph* graph) {
  for (uint32_t i = 0; i < NODES; ++i)
    for (struct edge *edge = graph->first[i], *next; edge != NULL; edge = next) {
      next = edge->next;
      free(edge);
    }
}

static void relax(const struct graph* graph, uint32_t* distance) {
  for (uint32_t i = 0; i < NODES; ++i)
    for (const struct edge* edge = graph->first[i]; edge != NULL; edge = edge->next)
      if (distance[i] + edge->length < distance[edge->to])
        distance[edge->to] = distance[i] + edge->length;
}

int main(void) {
  static struct graph graph;
  static uint32_t distance[NODES];
  uint32_t seed = 11;
  for (uint32_t i = 0; i < EDGES; ++i) {
    seed = seed * 1664525 + 1013904223;
    connect(&graph, i % NODES, (seed >> 8) % NODES, 1 + (seed >> 28));
  }
  for (uint32_t i = 1; i < NODES; ++i) distance[i] = 1 << 30;
  for (int round = 0; round < 40; ++round) relax(&graph, distance);
#ifdef FIXED
  disconnect(&graph);
#endif
  uint32_t* table = malloc(TABLE * sizeof *table);
  for (uint32_t i = 0; i < TABLE; ++i) table[i] = distance[i % NODES] * (i / NODES + 1);
  uint64_t sum = 0;
  for (int round = 0; round < 30; ++round)
    for (uint32_t i = 0; i < TABLE; ++i) sum = sum * 31 + table[i];
  printf("%llu\n", (unsigned long long)sum);
  free(table);
#ifndef FIXED
  disconnect(&graph);
#endif
}
