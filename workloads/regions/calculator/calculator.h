/* A small arbitrary-precision calculator: programs over integers of any size.
 *
 *   name = expression;   print expression;   while (expression) { … }   if (expression) { … }
 *
 * Expressions have + - * / % < > == and parentheses; 0 is false. Division rounds towards zero, and
 * numbers are not negative: a difference below zero is an error. Every number is an object of its
 * own, allocated when it is made and released when it is not needed any more. */
#ifndef CALCULATOR_H
#define CALCULATOR_H

#include <stddef.h>

struct calculator_memory {
  void* (*allocate)(void* place, size_t bytes); /* never NULL */
  void (*release)(void* place, void* object);
  void* place;
};

/* Runs a program. Returns what it printed, a line for each number, or a message that begins with
 * "error: "; the text is allocated like everything else, and stays. */
char* calculate(struct calculator_memory memory, const char* program);

#endif
