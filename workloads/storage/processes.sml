(* A workbench of finite-state processes, as in processes.ml: n switches side by side, which may be
   turned on and off in any order, have 2^n states. Those that behave alike are found by refining a
   partition until it is stable; there are n + 1 classes, since only how many are on can be seen. *)

(* Maps are trees, balanced as Adams described it. *)
datatype ('key, 'value) map =
    Empty
  | Node of int * ('key, 'value) map * 'key * 'value * ('key, 'value) map

fun cardinal Empty = 0
  | cardinal (Node (n, _, _, _, _)) = n

fun node (left, key, value, right) =
  Node (cardinal left + cardinal right + 1, left, key, value, right)

fun left_turn (a, x, v, Node (_, b, y, w, c)) = node (node (a, x, v, b), y, w, c)
  | left_turn _ = raise List.Empty
fun right_turn (Node (_, a, x, v, b), y, w, c) = node (a, x, v, node (b, y, w, c))
  | right_turn _ = raise List.Empty

fun balanced (left, key, value, right) =
  let
    val l = cardinal left and r = cardinal right
  in
    if l + r < 2 then node (left, key, value, right)
    else if r > 4 * l then
      case right of
        Node (_, inner, k, v, outer) =>
          if cardinal inner < 2 * cardinal outer then left_turn (left, key, value, right)
          else left_turn (left, key, value, right_turn (inner, k, v, outer))
      | Empty => raise List.Empty
    else if l > 4 * r then
      case left of
        Node (_, outer, k, v, inner) =>
          if cardinal inner < 2 * cardinal outer then right_turn (left, key, value, right)
          else right_turn (left_turn (outer, k, v, inner), key, value, right)
      | Empty => raise List.Empty
    else node (left, key, value, right)
  end

fun add order (key, value, Empty) = Node (1, Empty, key, value, Empty)
  | add order (key, value, Node (n, left, k, v, right)) =
      (case order (key, k) of
        LESS => balanced (add order (key, value, left), k, v, right)
      | GREATER => balanced (left, k, v, add order (key, value, right))
      | EQUAL => Node (n, left, key, value, right))

fun find _ (_, Empty) = NONE
  | find order (key, Node (_, left, k, v, right)) =
      (case order (key, k) of
        LESS => find order (key, left)
      | GREATER => find order (key, right)
      | EQUAL => SOME v)

fun fold _ earlier Empty = earlier
  | fold f earlier (Node (_, left, k, v, right)) = fold f (f (k, v, fold f earlier left)) right

fun observation_order ((a, x), (b, y)) =
  case String.compare (a, b) of EQUAL => Int.compare (x, y) | unequal => unequal

fun signature_order ((a, left), (b, right)) =
  case Int.compare (a, b) of
    EQUAL => List.collate observation_order (left, right)
  | unequal => unequal

fun insert (one, []) = [one]
  | insert (one, all as first :: rest) =
      (case observation_order (one, first) of
        LESS => one :: all
      | EQUAL => all
      | GREATER => first :: insert (one, rest))

fun steps n state =
  List.tabulate
    (n, fn place =>
      let
        val bit = Word.<< (0w1, Word.fromInt place)
        val on = Word.andb (Word.fromInt state, bit) <> 0w0
      in
        (if on then "off" else "on", Word.toInt (Word.xorb (Word.fromInt state, bit)))
      end)

(* Classes are numbered in the order in which they are met. *)
fun refine graph classes =
  let
    fun class_of state = valOf (find Int.compare (state, classes))
    fun signature_of (state, moves) =
      (class_of state, foldl insert [] (map (fn (label, next) => (label, class_of next)) moves))
    fun meet (state, moves, (known, refined)) =
      let
        val key = signature_of (state, moves)
      in
        case find signature_order (key, known) of
          SOME number => (known, add Int.compare (state, number, refined))
        | NONE =>
            let val number = cardinal known
            in
              (add signature_order (key, number, known), add Int.compare (state, number, refined))
            end
      end
  in
    #2 (fold meet (Empty, Empty) graph)
  end

fun number_of classes = 1 + fold (fn (_, number, most) => Int.max (number, most)) 0 classes

fun stable (graph, rounds, classes) =
  let
    val refined = refine graph classes
  in
    if number_of refined = number_of classes then (rounds, classes)
    else stable (graph, rounds + 1, refined)
  end

fun main (_, [switches]) =
      let
        val n = valOf (Int.fromString switches)
        val states = List.tabulate (Word.toInt (Word.<< (0w1, Word.fromInt n)), fn state => state)
        val graph =
          foldl (fn (state, graph) => add Int.compare (state, steps n state, graph)) Empty states
        val together = foldl (fn (state, map) => add Int.compare (state, 0, map)) Empty states
        val (rounds, classes) = stable (graph, 0, together)
      in
        print
          (Int.toString (cardinal graph) ^ " states, " ^ Int.toString (number_of classes)
           ^ " classes after " ^ Int.toString rounds ^ " rounds\n");
        OS.Process.success
      end
  | main _ = OS.Process.failure
