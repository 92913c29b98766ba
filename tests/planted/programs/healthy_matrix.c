// Multiplies matrices: three buffers, all of them used to the end.
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 180 };

static double* make_matrix(double start) {
  double* matrix = malloc(sizeof(double) * SIDE * SIDE);
  for (int i = 0; i < SIDE * SIDE; ++i) matrix[i] = start + i % 17;
  return matrix;
}

static void multiply(const double* left, const double* right, double* product) {
  for (int row = 0; row < SIDE; ++row)
    for (int column = 0; column < SIDE; ++column) {
      double sum = 0;
      for (int i = 0; i < SIDE; ++i) sum += left[row * SIDE + i] * right[i * SIDE + column];
      product[row * SIDE + column] = sum / SIDE;
    }
}

int main(void) {
  double *left = make_matrix(1), *right = make_matrix(2), *product = make_matrix(0);
  for (int round = 0; round < 5; ++round) {
    multiply(left, right, product);
    multiply(right, product, left);
  }
  double trace = 0;
  for (int i = 0; i < SIDE * SIDE; ++i) trace += left[i] + right[i] - product[i];
  printf("%.3f\n", trace);
  free(left);
  free(right);
  free(product);
}
