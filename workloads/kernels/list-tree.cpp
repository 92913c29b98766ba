// Lists and search trees that are built and torn down: as much allocation as a program can do.
//
// Keys go in and out of a binary search tree at random while short lists are built and dropped.
// Nearly all of the work is malloc, free and following pointers to small nodes, so this is the
// upper end of what another allocator can bring to a single-threaded program.
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "list-tree",
    "Search trees and lists of small nodes, built and torn down at random.\n"
    "Shows the speed of the fast path of malloc and free for small sizes; the upper\n"
    "end of what another allocator can bring to one thread.",
    0};

constexpr std::size_t kRoundsAtScaleOne = 120;
constexpr std::size_t kKeys = 20'000;  // in the tree at most
constexpr std::size_t kListLength = 12;

struct Node {
  std::uint64_t key;
  Node* left;
  Node* right;
};

struct Link {
  Link* next;
  std::uint64_t value;
};

void insert(Node** root, std::uint64_t key) {
  while (*root != nullptr) root = key < (*root)->key ? &(*root)->left : &(*root)->right;
  *root = new Node{key, nullptr, nullptr};
}

// Removes the node *at, which must exist, and returns its key.
std::uint64_t remove(Node** at) {
  Node* node = *at;
  if (node->left != nullptr && node->right != nullptr) {
    Node** successor = &node->right;
    while ((*successor)->left != nullptr) successor = &(*successor)->left;
    const std::uint64_t key = node->key;
    node->key = (*successor)->key;
    remove(successor);
    return key;
  }
  *at = node->left != nullptr ? node->left : node->right;
  const std::uint64_t key = node->key;
  delete node;
  return key;
}

// The node a search for the key ends at: the key itself or the last node on the way.
Node** nearest(Node** root, std::uint64_t key) {
  while (true) {
    Node* node = *root;
    Node** next = key < node->key ? &node->left : &node->right;
    if (node->key == key || *next == nullptr) return root;
    root = next;
  }
}

std::uint64_t list_round(kernel::Random& random) {
  Link* list = nullptr;
  for (std::size_t i = 0; i < kListLength; ++i) list = new Link{list, random.next()};
  std::uint64_t sum = 0;
  while (list != nullptr) {
    sum = sum * 3 + list->value;
    delete std::exchange(list, list->next);
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  kernel::Random random(options.seed, 0);
  std::uint64_t sum = 0;
  const std::size_t rounds = options.steps(kRoundsAtScaleOne);
  for (std::size_t round = 0; round < rounds; ++round) {
    Node* root = nullptr;
    for (std::size_t i = 0; i < kKeys; ++i) {
      insert(&root, random.next());
      if (i % 4 == 3) sum += list_round(random);
    }
    for (std::size_t i = 0; i < kKeys; ++i) {
      sum += kernel::mix(remove(nearest(&root, random.next())));
      if (i % 2 == 1) insert(&root, random.next());
    }
    while (root != nullptr) sum += kernel::mix(remove(&root));
  }
  return kernel::finish(sum);
}
