(* Knuth-Bendix completion of the axioms of groups, as in knuth_bendix.ml: so many times over, terms
   are built, matched, unified and thrown away. The complete system has ten rules. *)

datatype term = Var of int | Oper of string * term list

exception NoMatch
exception NoDirection

fun size (Var _) = 1
  | size (Oper (_, arguments)) = foldl (fn (term, sum) => sum + size term) 1 arguments

fun look_up (_ : int, []) = NONE
  | look_up (v, (w, term) :: rest) = if v = w then SOME term else look_up (v, rest)

fun substitute bound (term as Var v) = getOpt (look_up (v, bound), term)
  | substitute bound (Oper (name, arguments)) = Oper (name, map (substitute bound) arguments)

fun matches (bound, Var v, term) =
      (case look_up (v, bound) of
        NONE => (v, term) :: bound
      | SOME known => if known = term then bound else raise NoMatch)
  | matches (bound, Oper (f, left), Oper (g, right)) =
      if f = g then
        ListPair.foldlEq (fn (l, r, bound) => matches (bound, l, r)) bound (left, right)
      else raise NoMatch
  | matches _ = raise NoMatch

fun occurs (v : int) (Var w) = v = w
  | occurs v (Oper (_, arguments)) = List.exists (occurs v) arguments

fun unify ((left, right), bound) =
  case (substitute bound left, substitute bound right) of
    (Var v, Var w) => if v = w then bound else bind (v, Var w, bound)
  | (Var v, term) => bind (v, term, bound)
  | (term, Var v) => bind (v, term, bound)
  | (Oper (f, left), Oper (g, right)) =>
      if f = g then foldl unify bound (ListPair.zipEq (left, right)) else raise NoMatch
and bind (v, term, bound) =
  if occurs v term then raise NoMatch
  else (v, term) :: map (fn (w, old) => (w, substitute [(v, term)] old)) bound

fun apply_at_root ([], _) = NONE
  | apply_at_root ((left, right) :: rules, term) =
      (SOME (substitute (matches ([], left, term)) right)
       handle NoMatch => apply_at_root (rules, term))

fun normal_form rules term =
  let
    val term =
      case term of
        Var _ => term
      | Oper (name, arguments) => Oper (name, map (normal_form rules) arguments)
  in
    case apply_at_root (rules, term) of
      SOME next => normal_form rules next
    | NONE => term
  end

(* The lexicographic path ordering. *)
fun weight "inverse" = 2
  | weight "times" = 1
  | weight _ = 0

fun greater _ (Var _, Var _) = false
  | greater _ (Var _, _) = false
  | greater _ (s, Var v) = occurs v s
  | greater () (s as Oper (f, left), t as Oper (g, right)) =
      List.exists (fn part => part = t orelse greater () (part, t)) left
      orelse
        (List.all (fn part => greater () (s, part)) right
         andalso (weight f > weight g orelse (f = g andalso greater_in_order (left, right))))
and greater_in_order (first :: left, other :: right) =
      if first = other then greater_in_order (left, right) else greater () (first, other)
  | greater_in_order _ = false

fun renamed shift (Var v) = Var (v + shift)
  | renamed shift (Oper (name, arguments)) = Oper (name, map (renamed shift) arguments)

fun numbered (left, right) =
  let
    fun variables (Var v, seen) =
          if List.exists (fn w => v = w) seen then seen else seen @ [v]
      | variables (Oper (_, arguments), seen) = foldl variables seen arguments
    fun name (_, []) = []
      | name (place, v :: rest) = (v, Var place) :: name (place + 1, rest)
    val names = name (0, variables (right, variables (left, [])))
  in
    (substitute names left, substitute names right)
  end

(* What becomes of a term when a part of it that is no variable is rewritten by the rule. *)
fun overlaps _ (Var _) = []
  | overlaps (left, right) (term as Oper (name, arguments)) =
      let
        val here =
          (let val bound = unify ((left, term), []) in [(bound, substitute bound right)] end)
          handle NoMatch => []
        fun inside (_, []) = []
          | inside (earlier, part :: after) =
              map
                (fn (bound, next) =>
                  let val others = map (substitute bound)
                  in (bound, Oper (name, others (rev earlier) @ (next :: others after))) end)
                (overlaps (left, right) part)
              @ inside (part :: earlier, after)
      in
        here @ inside ([], arguments)
      end

fun critical_pairs ((l1, r1), (l2, r2)) =
  let
    val l2 = renamed 100 l2 and r2 = renamed 100 r2
  in
    map (fn (bound, next) => (next, substitute bound r2)) (overlaps (l1, r1) l2)
  end

fun in_order (Var v, Var w) = Int.compare (v, w)
  | in_order (Var _, Oper _) = LESS
  | in_order (Oper _, Var _) = GREATER
  | in_order (Oper (f, left), Oper (g, right)) =
      (case String.compare (f, g) of
        EQUAL => List.collate in_order (left, right)
      | unequal => unequal)

fun by_size ((a, b), (c, d)) =
  case Int.compare (size a + size b, size c + size d) of
    EQUAL => (case in_order (a, c) of EQUAL => in_order (b, d) | unequal => unequal)
  | unequal => unequal

(* In order, each once. *)
fun merge ([], right) = right
  | merge (left, []) = left
  | merge (left as a :: left', right as b :: right') =
      (case by_size (a, b) of
        LESS => a :: merge (left', right)
      | GREATER => b :: merge (left, right')
      | EQUAL => merge (left, right'))

fun split ([], left, right) = (left, right)
  | split (one :: rest, left, right) = split (rest, one :: right, left)

fun sort [] = []
  | sort [one] = [one]
  | sort several =
      let val (left, right) = split (several, [], [])
      in merge (sort left, sort right) end

fun complete (rules, []) = rules
  | complete (rules, (a, b) :: equations) =
      let
        val a = normal_form rules a and b = normal_form rules b
      in
        if a = b then complete (rules, equations)
        else
          let
            val rule =
              if greater () (a, b) then (a, b)
              else if greater () (b, a) then (b, a)
              else raise NoDirection
            val rule = numbered rule
            fun is_reduced (left, _) = normal_form [rule] left <> left
            val (reduced, kept) = List.partition is_reduced rules
            val kept = map (fn (l, r) => (l, normal_form (rule :: kept) r)) kept
            val rules = rule :: kept
            fun both other = critical_pairs (rule, other) @ critical_pairs (other, rule)
            val pairs = List.concat (map both rules)
          in
            complete (rules, sort (map numbered (reduced @ pairs) @ equations))
          end
      end

fun text (Var v) = "x" ^ Int.toString v
  | text (Oper (name, [])) = name
  | text (Oper (name, arguments)) = name ^ "(" ^ String.concatWith ", " (map text arguments) ^ ")"

val axioms =
  let
    fun times (a, b) = Oper ("times", [a, b])
    val one = Oper ("one", [])
    val x = Var 0 and y = Var 1 and z = Var 2
  in
    [
      (times (one, x), x),
      (times (Oper ("inverse", [x]), x), one),
      (times (times (x, y), z), times (x, times (y, z)))
    ]
  end

fun again (1, rules) = rules ()
  | again (left, rules) = (ignore (rules ()); again (left - 1, rules))

fun main (_, [times]) =
      let
        val rules = again (valOf (Int.fromString times), fn () => complete ([], sort axioms))
      in
        app (fn (left, right) => print (text left ^ " -> " ^ text right ^ "\n")) (sort rules);
        OS.Process.success
      end
  | main _ = OS.Process.failure
